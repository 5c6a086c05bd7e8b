//! What every cluster has from the start, made where it is not there yet.

use std::net::SocketAddr;

use setpoint_api::kinds::scheduling::priority_class::SYSTEM_CLASSES;
use setpoint_api::status::Status;
use setpoint_api::{Value, json, metadata};
use setpoint_store::{Expect, Store, Ticket};

use crate::api::{Options, commit_status};
use crate::exchange::Identity;
use crate::pipeline::create::create;
use crate::pipeline::update::{Part, update};
use crate::pipeline::{Step, Wish, World, Writer, service_network};
use crate::served;

/// Those of the namespaces without which a cluster cannot work.
pub const LASTING_NAMESPACES: [&str; 2] = ["default", "kube-system"];

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
    let mut tickets: Vec<Ticket> =
        make(store, options, ("", "v1", "services"), "default", &text)?.into_iter().collect();
    if let Some(address) = options.advertised {
        tickets.extend(advertise(store, options, address)?);
    }
    wait(tickets)
}

fn wait(tickets: Vec<Ticket>) -> Result<(), Status> {
    tickets.into_iter().try_for_each(|ticket| ticket.wait().map(drop).map_err(|error| commit_status(&error)))
}

/// Proposes to say behind the `kubernetes` service where this server is. That may be elsewhere than at the last start.
fn advertise(
    store: &Store,
    options: &Options,
    address: SocketAddr,
) -> Result<impl Iterator<Item = Ticket>, Status> {
    let (ip, port) = (address.ip(), address.port());
    // Nobody needs to copy these endpoints to slices: their slice is made here.
    let text = format!(
        r#"{{"kind":"Endpoints","apiVersion":"v1","metadata":{{"name":"kubernetes","labels":{{"endpointslice.kubernetes.io/skip-mirror":"true"}}}},"subsets":[{{"addresses":[{{"ip":"{ip}"}}],"ports":[{{"name":"https","port":{port},"protocol":"TCP"}}]}}]}}"#
    );
    let endpoints = set(store, options, ("", "v1", "endpoints"), "default", &text)?;
    let family = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
    let text = format!(
        r#"{{"kind":"EndpointSlice","apiVersion":"discovery.k8s.io/v1","metadata":{{"name":"kubernetes","labels":{{"kubernetes.io/service-name":"kubernetes"}}}},"addressType":"{family}","endpoints":[{{"addresses":["{ip}"],"conditions":{{"ready":true}}}}],"ports":[{{"name":"https","port":{port},"protocol":"TCP"}}]}}"#
    );
    let slice = set(store, options, ("discovery.k8s.io", "v1", "endpointslices"), "default", &text)?;
    Ok(endpoints.into_iter().chain(slice))
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

/// Proposes an object if it is not there. What has become of it since is not touched.
fn make(
    store: &Store,
    options: &Options,
    resource: (&str, &str, &str),
    namespace: &str,
    text: &str,
) -> Result<Option<Ticket>, Status> {
    write(store, options, resource, namespace, text, false)
}

/// Proposes an object, or to put it in the place of what is there.
fn set(
    store: &Store,
    options: &Options,
    resource: (&str, &str, &str),
    namespace: &str,
    text: &str,
) -> Result<Option<Ticket>, Status> {
    write(store, options, resource, namespace, text, true)
}

fn write(
    store: &Store,
    options: &Options,
    (group, version, plural): (&str, &str, &str),
    namespace: &str,
    text: &str,
    replace: bool,
) -> Result<Option<Ticket>, Status> {
    let served = served::find(group, version, plural)
        .ok_or_else(|| Status::internal_error(format!("{plural} are not served")))?;
    let identity = Identity { user: "system:apiserver".into(), groups: vec!["system:masters".into()] };
    let writer =
        Writer { identity, manager: "kube-apiserver".into(), dry_run: false, reconciler: String::new() };
    let mut object: Value = json::parse(text.as_bytes()).map_err(Status::internal_error)?;
    metadata::create::ensure_namespace(&mut object, namespace).map_err(Status::internal_error)?;
    let snapshot = store.snapshot();
    let key = served.key(namespace, metadata::name(&object)).map_err(Status::internal_error)?;
    let entropy = [(); 3].map(|()| (options.entropy)());
    let world = World { snapshot: &snapshot, now: options.clock.now(), entropy };
    let wish = Wish::of(object);
    let step = match snapshot.get(&key) {
        Some(_) if !replace => return Ok(None),
        Some(record) => match update(served, Part::Whole, wish, record, &writer, &world) {
            Ok(decided) => decided.step,
            // What cannot become what it should be, as a slice of another family, is made anew.
            Err(status) if status.code == 422 => {
                let proposal = writer.proposal(&world).delete(key, Expect::Revision(record.revision()));
                store.commit(proposal).map_err(|error| commit_status(&error))?;
                return write(store, options, (group, version, plural), namespace, text, false);
            }
            Err(status) => return Err(status),
        },
        None => create(served, namespace, wish, &writer, &world)?.step,
    };
    Ok(match step {
        Step::Commit(proposal) => Some(store.submit(*proposal)),
        _ => None,
    })
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
        let mut options = Options {
            clock: Arc::new(Still),
            entropy: Arc::new(move || count.fetch_add(1, Ordering::Relaxed)),
            address: "127.0.0.1:6443".into(),
            advertised: Some(([192, 0, 2, 7], 6443).into()),
        };
        bootstrap(&store, &options).unwrap();
        let snapshot = store.snapshot();
        for (group, version, plural, namespace, name) in [
            ("", "v1", "namespaces", "", "kube-system"),
            ("scheduling.k8s.io", "v1", "priorityclasses", "", "system-node-critical"),
            ("networking.k8s.io", "v1", "servicecidrs", "", "kubernetes"),
            ("networking.k8s.io", "v1", "ipaddresses", "", "10.0.0.1"),
            ("", "v1", "services", "default", "kubernetes"),
            ("", "v1", "endpoints", "default", "kubernetes"),
            ("discovery.k8s.io", "v1", "endpointslices", "default", "kubernetes"),
        ] {
            let key = served::find(group, version, plural).unwrap().key(namespace, name).unwrap();
            assert!(snapshot.get(&key).is_some(), "{plural} {name}");
        }
        bootstrap(&store, &options).unwrap();
        assert_eq!(store.snapshot().revision(), snapshot.revision());

        options.advertised = Some(([192, 0, 2, 8], 7443).into());
        bootstrap(&store, &options).unwrap();
        let object = |group, plural| {
            let key = served::find(group, "v1", plural).unwrap().key("default", "kubernetes").unwrap();
            crate::stored::object(store.snapshot().get(&key).unwrap())
        };
        let subsets =
            r#"[{"addresses":[{"ip":"192.0.2.8"}],"ports":[{"name":"https","port":7443,"protocol":"TCP"}]}]"#;
        assert_eq!(json::to_text(object("", "endpoints").get("subsets").unwrap()), subsets);
        let endpoints = r#"[{"addresses":["192.0.2.8"],"conditions":{"ready":true}}]"#;
        let slice = || object("discovery.k8s.io", "endpointslices");
        assert_eq!(json::to_text(slice().get("endpoints").unwrap()), endpoints);
        options.advertised = Some(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 8], 7443).into());
        bootstrap(&store, &options).unwrap();
        assert_eq!(slice().str_at(&["addressType"]), "IPv6");
    }
}
