//! Legacy service account token cleaner: tokens unused for a year are marked invalid and, a year later,
//! deleted.
//!
//! Only auto-generated tokens are affected: the service account refers to them, and no pod of the namespace
//! does.

use std::time::Duration;

use setpoint_api::rfc3339;
use setpoint_api::{Key, Time, Value, value};
use setpoint_reconcile::{Object, Plan, Planner, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::config_map::ConfigMap;
use setpoint_views::secret::Secret;
use setpoint_views::service_account::ServiceAccount;

use crate::legacy_token_tracking::{NAME, SINCE, format_day, is_day};

/// Time without use after which a token is marked, and again after which it is deleted.
const UNUSED_MAX: Duration = Duration::from_secs(365 * DAY);
const DAY: u64 = 24 * 60 * 60;

/// Type of Secrets that are tokens.
const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";
/// Label with the date of the last use.
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
/// Label with the date from which on the token is invalid.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// The legacy token cleaner.
pub struct LegacyTokenCleaner;

impl Planner for LegacyTokenCleaner {
    type Memo = ();

    fn name(&self) -> &'static str {
        "legacy-serviceaccount-token-cleaner-controller"
    }

    fn user(&self) -> String {
        "system:serviceaccount:kube-system:legacy-service-account-token-cleaner".to_owned()
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 1] = [Watch::mapped("secrets", |object, _, enqueue| {
            if is_token(object) {
                enqueue(object.key().clone());
            }
        })];
        &WATCHES
    }

    fn keys(&self, world: &WorldReader<'_>) -> Vec<Key> {
        world.all("secrets").filter(|object| is_token(object)).map(|object| object.key().clone()).collect()
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(object) = world.get(key).filter(|object| is_token(object)) else { return plan };
        let labels = &object.meta().labels;
        let oldest = now.before(UNUSED_MAX);
        let is_tracked = tracked_since(world).is_some_and(|since| since <= oldest);
        let is_new = object.meta().created() >= oldest || object.meta().is_deleted();
        let is_used = labels.get(LAST_USED).is_some_and(|day| !is_day(day) || day >= &*format_day(oldest));
        plan.requeue_at(now.after(Duration::from_secs(DAY)));
        if !is_tracked || is_new || is_used || !is_auto_generated(object, world) || is_mounted(object, world)
        {
            return plan;
        }
        match labels.get(INVALID_SINCE).filter(|day| is_day(day)) {
            None => {
                let labels = value!({"kubernetes.io/legacy-token-invalid-since": (format_day(now))});
                plan.stage([Write::merge(object, "", value!({"metadata": {"labels": (labels)}})).into()]);
            }
            Some(day) if day < &*format_day(oldest) => plan.stage([Write::delete_unchanged(object).into()]),
            Some(_) => {}
        }
        plan
    }
}

fn is_token(object: &Object) -> bool {
    object.view::<Secret>().is_some_and(|secret| secret.kind == TOKEN_TYPE)
}

/// Day after the start of the recording: from then on the record is complete.
fn tracked_since(world: &WorldReader<'_>) -> Option<Time> {
    let (_, map) = world.view::<ConfigMap>("kube-system", NAME)?;
    let day = rfc3339::parse(&format!("{}T00:00:00Z", map.data.get(SINCE)?)).ok()?;
    Some(day.after(Duration::from_secs(DAY)))
}

fn is_auto_generated(object: &Object, world: &WorldReader<'_>) -> bool {
    let annotation = |name: &str| object.meta().annotations.get(name).unwrap_or_default();
    let account = annotation("kubernetes.io/service-account.name");
    let uid = annotation("kubernetes.io/service-account.uid");
    world.view::<ServiceAccount>(&object.meta().namespace, account).is_some_and(|(account, view)| {
        (uid.is_empty() || uid == &*account.meta().uid)
            && view.secrets.iter().any(|secret| *secret.name == *object.meta().name)
    })
}

/// `true` if a pod of the namespace may use a Secret. Any mention of its name counts: keeping a token is
/// harmless.
fn is_mounted(object: &Object, world: &WorldReader<'_>) -> bool {
    let mut pods = world.in_namespace("pods", &object.meta().namespace);
    pods.any(|pod| pod.value().get("spec").is_some_and(|spec| mentions(spec, &object.meta().name)))
}

fn mentions(value: &Value, name: &str) -> bool {
    match value {
        Value::Map(map) => map.iter().any(|(_, value)| mentions(value, name)),
        Value::List(list) => list.iter().any(|value| mentions(value, name)),
        other => other.as_str() == Some(name),
    }
}

#[cfg(test)]
mod tests {
    use setpoint_sim::cluster::{Cluster, Controllers};

    use super::*;

    #[test]
    fn unused_token_is_marked_after_a_year_and_deleted_after_two() {
        let controllers: Controllers = || (vec![Box::new(LegacyTokenCleaner)], crate::indexes::all());
        let mut cluster = Cluster::new(controllers, 7);
        cluster.create("namespaces", "", value!({"metadata": {"name": "kube-system"}}));
        let since = format_day(cluster.now);
        let tracking = value!({"metadata": {"name": (NAME)}, "data": {"since": (since)}});
        cluster.create("configmaps", "kube-system", tracking);
        let names = value!([{"name": "made"}, {"name": "mounted"}]);
        cluster.create("serviceaccounts", "default", value!({"metadata": {"name": "a"}, "secrets": (names)}));
        for name in ["made", "mounted", "asked-for"] {
            let annotations = value!({"kubernetes.io/service-account.name": "a"});
            let token =
                value!({"metadata": {"name": (name), "annotations": (annotations)}, "type": (TOKEN_TYPE)});
            cluster.create("secrets", "default", token);
        }
        let pod = value!({
            "metadata": {"name": "p"},
            "spec": {
                "containers": [{"name": "c", "image": "i"}],
                "volumes": [{"name": "v", "secret": {"secretName": "mounted"}}],
            },
        });
        cluster.create("pods", "default", pod);
        let marked = |cluster: &Cluster| {
            let secrets = cluster.list("secrets");
            secrets
                .iter()
                .filter(|secret| secret.at(&["metadata", "labels", INVALID_SINCE]).is_some())
                .count()
        };
        let later = |cluster: &mut Cluster, days: u64| {
            cluster.now = cluster.now.after(Duration::from_secs(days * DAY));
            cluster.settle();
        };
        later(&mut cluster, 360);
        assert_eq!(marked(&cluster), 0);
        later(&mut cluster, 8);
        assert_eq!(marked(&cluster), 1);
        cluster.assert_quiet();
        later(&mut cluster, 368);
        assert!(cluster.get("secrets", "default/made").is_none());
        assert_eq!(cluster.list("secrets").len(), 2);
        cluster.assert_quiet();
    }
}
