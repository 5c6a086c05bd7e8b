//! What every cluster has from the start, made where it is not there yet.

use setpoint_api::kinds::scheduling::priority_class::SYSTEM_CLASSES;
use setpoint_api::status::Status;
use setpoint_api::{Value, json, metadata};
use setpoint_store::{Store, Ticket};

use crate::api::{Options, commit_status};
use crate::exchange::Identity;
use crate::pipeline::create::create;
use crate::pipeline::{Step, World, Writer, service_network};
use crate::served;

const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Makes it.
///
/// # Errors
/// If something cannot be written.
pub fn bootstrap(store: &Store, options: &Options) -> Result<(), Status> {
    // What does not build upon one another goes into the log together, so that a start waits for few syncs.
    let mut tickets = Vec::new();
    for name in NAMESPACES {
        let text = format!(r#"{{"kind":"Namespace","apiVersion":"v1","metadata":{{"name":"{name}"}}}}"#);
        tickets.extend(make(store, options, ("", "v1", "namespaces"), "", &text)?);
    }
    for (name, value) in SYSTEM_CLASSES {
        let text = format!(
            r#"{{"kind":"PriorityClass","apiVersion":"scheduling.k8s.io/v1","metadata":{{"name":"{name}"}},"value":{value},"description":"{}"}}"#,
            description(name)
        );
        tickets.extend(make(store, options, ("scheduling.k8s.io", "v1", "priorityclasses"), "", &text)?);
    }
    let range = service_network::RANGE;
    let text = format!(
        r#"{{"kind":"ServiceCIDR","apiVersion":"networking.k8s.io/v1","metadata":{{"name":"kubernetes"}},"spec":{{"cidrs":["{range}"]}}}}"#
    );
    tickets.extend(make(store, options, ("networking.k8s.io", "v1", "servicecidrs"), "", &text)?);
    wait(tickets)?;
    let address = service_network::first_address();
    let text = format!(
        r#"{{"kind":"Service","apiVersion":"v1","metadata":{{"name":"kubernetes","labels":{{"component":"apiserver","provider":"kubernetes"}}}},"spec":{{"type":"ClusterIP","clusterIP":"{address}","ports":[{{"name":"https","protocol":"TCP","port":443,"targetPort":6443}}]}}}}"#
    );
    wait(make(store, options, ("", "v1", "services"), "default", &text)?)
}

fn wait(tickets: impl IntoIterator<Item = Ticket>) -> Result<(), Status> {
    tickets.into_iter().try_for_each(|ticket| ticket.wait().map(drop).map_err(|error| commit_status(&error)))
}

fn description(class: &str) -> &'static str {
    match class {
        "system-node-critical" => {
            "Used for system critical pods that must not be moved from their current node."
        }
        _ => {
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."
        }
    }
}

/// Proposes an object, unless it is there.
fn make(
    store: &Store,
    options: &Options,
    (group, version, plural): (&str, &str, &str),
    namespace: &str,
    text: &str,
) -> Result<Option<Ticket>, Status> {
    let served = served::find(group, version, plural)
        .ok_or_else(|| Status::internal_error(format!("{plural} are not served")))?;
    let identity = Identity { user: "system:apiserver".into(), groups: vec!["system:masters".into()] };
    let writer =
        Writer { identity, manager: "kube-apiserver".into(), dry_run: false, reconciler: String::new() };
    let object: Value = json::parse(text.as_bytes()).map_err(Status::internal_error)?;
    let snapshot = store.snapshot();
    let key = served.key(namespace, metadata::name(&object)).map_err(Status::internal_error)?;
    if snapshot.get(&key).is_some() {
        return Ok(None);
    }
    let entropy = [(); 3].map(|()| (options.entropy)());
    let world = World { snapshot: &snapshot, now: options.clock.now(), entropy };
    match create(served, namespace, object, None, &writer, &world) {
        Ok(Step::Commit(proposal)) => Ok(Some(store.submit(*proposal))),
        Ok(_) => Ok(None),
        Err(status) => Err(status),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use setpoint_api::Time;
    use setpoint_store::{Clock, Retention};

    use super::*;

    struct Still;

    impl Clock for Still {
        fn now(&self) -> Time {
            Time(1_000_000)
        }
    }

    #[test]
    fn everything_is_there_after_the_first_start_and_nothing_is_made_twice() {
        let store = Store::in_memory(Retention::default());
        let count = AtomicU64::new(1);
        let options = Options {
            clock: Arc::new(Still),
            entropy: Arc::new(move || count.fetch_add(1, Ordering::Relaxed)),
            address: "127.0.0.1:6443".into(),
        };
        bootstrap(&store, &options).unwrap();
        let snapshot = store.snapshot();
        for (group, version, plural, namespace, name) in [
            ("", "v1", "namespaces", "", "kube-system"),
            ("scheduling.k8s.io", "v1", "priorityclasses", "", "system-node-critical"),
            ("networking.k8s.io", "v1", "servicecidrs", "", "kubernetes"),
            ("networking.k8s.io", "v1", "ipaddresses", "", "10.0.0.1"),
            ("", "v1", "services", "default", "kubernetes"),
        ] {
            let key = served::find(group, version, plural).unwrap().key(namespace, name).unwrap();
            assert!(snapshot.get(&key).is_some(), "{plural} {name}");
        }
        bootstrap(&store, &options).unwrap();
        assert_eq!(store.snapshot().revision(), snapshot.revision());
    }
}
