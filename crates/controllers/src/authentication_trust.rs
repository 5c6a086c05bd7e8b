//! Cluster authentication trust: the ConfigMap from which extension API servers learn how to authenticate requests.
//!
//! `kube-system/extension-apiserver-authentication` has the CA of client certificates, and the CA, the allowed names and
//! the headers of the aggregation layer. Its data is the answer to the query `authentication-trust`, so that renewed
//! certificates are published without a restart. Entries that others add are kept.

use std::time::Duration;

use setpoint_api::{Key, Time, Value, value};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Object, Plan, Planner, Query, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::config_map::ConfigMap;

/// Namespace of the ConfigMap.
const NAMESPACE: &str = "kube-system";
/// Name of the ConfigMap.
const NAME: &str = "extension-apiserver-authentication";
/// Interval of queries for renewed certificates.
const RESYNC_PERIOD: Duration = Duration::from_secs(60);
/// Id of the query.
const TRUST: &str = "trust";

/// Publishes the ConfigMap.
pub struct AuthenticationTrust;

impl Planner for AuthenticationTrust {
    type Memo = ();

    fn name(&self) -> &'static str {
        "cluster_authentication_trust_controller"
    }

    fn user(&self) -> String {
        "system:apiserver".to_owned()
    }

    fn manager(&self) -> &'static str {
        "kube-apiserver"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 1] = [Watch::mapped("configmaps", enqueue_own)];
        &WATCHES
    }

    fn keys(&self, _: &WorldReader<'_>) -> Vec<Key> {
        key_of("configmaps", NAMESPACE, NAME).into_iter().collect()
    }

    fn plan(&self, _: &Key, world: &WorldReader<'_>, seen: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let answered = seen.answers.get(TRUST);
        match answered.map(|answered| answered.at.after(RESYNC_PERIOD)).filter(|due| now < *due) {
            Some(due) => plan.requeue_at(due),
            None => plan.queries.push(Query {
                target: "authentication-trust",
                id: TRUST.to_owned(),
                question: Value::map(),
            }),
        }
        let Some(Ok(data)) = answered.map(|answered| &answered.answer) else { return plan };
        let entries = || data.as_map().into_iter().flat_map(|data| data.iter());
        match world.view::<ConfigMap>(NAMESPACE, NAME) {
            None => {
                let map = value!({"metadata": {"name": (NAME)}, "data": (data.clone())});
                plan.push(Write::create("configmaps", NAMESPACE, map));
            }
            Some((object, map)) => {
                let is_current = |(key, text): (&str, &Value)| {
                    map.data.get(key).is_some_and(|found| text.as_str() == Some(found))
                };
                if !entries().all(is_current) && !object.meta().is_deleted() {
                    plan.push(Write::merge(object, "", value!({"data": (data.clone())})));
                }
            }
        }
        plan
    }
}

fn enqueue_own(map: &Object, _: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    if &*map.meta().name == NAME && &*map.meta().namespace == NAMESPACE {
        enqueue(map.key().clone());
    }
}

#[cfg(test)]
mod tests {
    use setpoint_sim::cluster::{Cluster, Controllers};

    use super::*;

    const PATH: &str = "kube-system/extension-apiserver-authentication";
    const CA: &str = "requestheader-client-ca-file";

    fn cluster() -> Cluster {
        let controllers: Controllers = || (vec![Box::new(AuthenticationTrust)], crate::indexes::all());
        let mut cluster = Cluster::new(controllers, 1);
        cluster.create("namespaces", "", value!({"metadata": {"name": (NAMESPACE)}}));
        cluster
    }

    /// Answers the queries with this certificate until nothing is left to do.
    fn publish(cluster: &mut Cluster, certificate: &str) {
        cluster.settle();
        while cluster.reply(|query| {
            assert_eq!(query.target, "authentication-trust");
            Ok(value!({"requestheader-client-ca-file": (certificate), "requestheader-allowed-names": r#"["front-proxy-client"]"#}))
        }) > 0
        {
            cluster.settle();
        }
    }

    fn data(cluster: &Cluster) -> Value {
        cluster.get("configmaps", PATH).and_then(|map| map.get("data").cloned()).unwrap_or_default()
    }

    #[test]
    fn renewed_certificates_are_published_within_a_resync_period() {
        let mut cluster = cluster();
        publish(&mut cluster, "first");
        assert_eq!(data(&cluster).str_at(&[CA]), "first");
        assert_eq!(data(&cluster).str_at(&["requestheader-allowed-names"]), r#"["front-proxy-client"]"#);
        cluster.run(RESYNC_PERIOD);
        publish(&mut cluster, "renewed");
        assert_eq!(data(&cluster).str_at(&[CA]), "renewed");
        let before = cluster.store.snapshot().revision();
        cluster.run(RESYNC_PERIOD);
        publish(&mut cluster, "renewed");
        assert_eq!(cluster.store.snapshot().revision(), before, "nothing is written without a change");
    }

    #[test]
    fn edits_are_corrected_and_entries_of_others_are_kept() {
        let mut cluster = cluster();
        publish(&mut cluster, "ca");
        let edit = value!({"data": {"requestheader-client-ca-file": "forged", "client-ca-file": "of another server"}});
        cluster.patch("configmaps", PATH, "", edit).unwrap();
        publish(&mut cluster, "ca");
        assert_eq!(data(&cluster).str_at(&[CA]), "ca");
        assert_eq!(data(&cluster).str_at(&["client-ca-file"]), "of another server");
        cluster.delete("configmaps", PATH, &Value::map()).unwrap();
        publish(&mut cluster, "ca");
        assert_eq!(data(&cluster).str_at(&[CA]), "ca");
        assert_eq!(data(&cluster).get("client-ca-file"), None);
    }

    #[test]
    fn failed_query_changes_nothing() {
        let mut cluster = cluster();
        publish(&mut cluster, "ca");
        cluster.run(RESYNC_PERIOD);
        cluster.settle();
        assert!(cluster.reply(|_| Err("no certificates".to_owned())) > 0);
        cluster.settle();
        assert_eq!(data(&cluster).str_at(&[CA]), "ca");
    }
}
