//! Legacy token tracking: the ConfigMap with the date since which uses of legacy tokens are recorded.
//!
//! The legacy token cleaner acts only if it exists. It is created with the current date, and a date that cannot be read
//! is replaced. Upstream delays the creation for clusters whose API servers differ in version; here is only one.

use setpoint_api::rfc3339::{self, Seconds};
use setpoint_api::{Key, Time, value};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Object, Plan, Planner, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::config_map::ConfigMap;
use setpoint_views::namespace::Namespace;

/// Namespace of the ConfigMap.
const NAMESPACE: &str = "kube-system";
/// Name of the ConfigMap.
pub const NAME: &str = "kube-apiserver-legacy-service-account-token-tracking";
/// Entry with the date.
pub const SINCE: &str = "since";

/// Keeps the ConfigMap.
pub struct LegacyTokenTracking;

impl Planner for LegacyTokenTracking {
    type Memo = ();

    fn name(&self) -> &'static str {
        "legacy_token_tracking_controller"
    }

    fn user(&self) -> String {
        "system:apiserver".to_owned()
    }

    fn manager(&self) -> &'static str {
        "kube-apiserver"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 2] = [
            Watch::mapped("configmaps", |map, _, enqueue| {
                if &*map.meta().name == NAME && &*map.meta().namespace == NAMESPACE {
                    enqueue(map.key().clone());
                }
            }),
            Watch::mapped("namespaces", enqueue_for_namespace),
        ];
        &WATCHES
    }

    fn keys(&self, _: &WorldReader<'_>) -> Vec<Key> {
        key_of("configmaps", NAMESPACE, NAME).into_iter().collect()
    }

    fn plan(&self, _: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let data = value!({"since": (format_day(now))});
        match world.view::<ConfigMap>(NAMESPACE, NAME) {
            None => {
                let namespace = world.view::<Namespace>("", NAMESPACE);
                if namespace.is_some_and(|(_, namespace)| namespace.is_active()) {
                    let map = value!({"metadata": {"name": (NAME)}, "data": (data)});
                    plan.stage([Write::create("configmaps", NAMESPACE, map).into()]);
                }
            }
            Some((object, map)) => {
                if !map.data.get(SINCE).is_some_and(is_day) && !object.meta().is_deleted() {
                    plan.stage([Write::merge(object, "", value!({"data": (data)})).into()]);
                }
            }
        }
        plan
    }
}

fn enqueue_for_namespace(namespace: &Object, _: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    if &*namespace.meta().name == NAMESPACE
        && let Some(key) = key_of("configmaps", NAMESPACE, NAME)
    {
        enqueue(key);
    }
}

/// Formats the date of a time, as in `2027-01-15`.
pub(crate) fn format_day(time: Time) -> String {
    Seconds(time).to_string().chars().take(10).collect()
}

/// `true` if a text is a date.
pub(crate) fn is_day(text: &str) -> bool {
    text.len() == 10 && rfc3339::parse(&format!("{text}T00:00:00Z")).is_ok()
}

#[cfg(test)]
mod tests {
    use setpoint_sim::cluster::{Cluster, Controllers};

    use super::*;

    #[test]
    fn tracking_date_is_created_and_kept() {
        let controllers: Controllers = || (vec![Box::new(LegacyTokenTracking)], crate::indexes::all());
        let mut cluster = Cluster::new(controllers, 7);
        cluster.settle();
        assert!(cluster.list("configmaps").is_empty(), "the namespace does not exist yet");
        cluster.create("namespaces", "", value!({"metadata": {"name": (NAMESPACE)}}));
        cluster.settle();
        let path = format!("{NAMESPACE}/{NAME}");
        let since =
            |cluster: &Cluster| cluster.get("configmaps", &path).unwrap().str_at(&["data", SINCE]).to_owned();
        let first = format_day(cluster.now);
        assert_eq!(since(&cluster), first);
        cluster.now = cluster.now.after(std::time::Duration::from_secs(10 * 24 * 60 * 60));
        cluster.crash();
        cluster.settle();
        assert_eq!(since(&cluster), first, "a date is kept");
        cluster.patch("configmaps", &path, "", value!({"data": {"since": "today"}})).unwrap();
        cluster.settle();
        assert_eq!(since(&cluster), format_day(cluster.now), "what is no date is replaced");
        cluster.delete("configmaps", &path, &value!({})).unwrap();
        cluster.settle();
        assert_eq!(since(&cluster), format_day(cluster.now));
        cluster.assert_quiet();
    }
}
