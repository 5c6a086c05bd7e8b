//! Trust bundle publisher: CA certificates of the API server as a ClusterTrustBundle that pods can mount.
//!
//! The bundle is named after its content, so a new CA is a new bundle; earlier bundles are deleted. The
//! digest in the name is a query.

use setpoint_api::{Key, Time, Value, value};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Action, Object, Plan, Planner, Query, Seed, Seen, View, Watch, WorldReader, Write};
use setpoint_views::cluster_trust_bundle::ClusterTrustBundle;

/// Signer of the certificates.
const SIGNER: &str = "kubernetes.io/kube-apiserver-serving";
/// Prefix of the names of its bundles.
const PREFIX: &str = "kubernetes.io:kube-apiserver-serving:";
/// Number of hexadecimal digits of the digest in the name.
const DIGEST_DIGITS: usize = 24;
/// The only key: an object that always exists.
const KEY: (&str, &str) = ("namespaces", "kube-system");

/// The trust bundle publisher.
pub struct TrustBundlePublisher {
    ca: String,
}

impl TrustBundlePublisher {
    /// Creates a publisher of these certificates, in PEM.
    #[must_use]
    pub fn new(ca: impl Into<String>) -> TrustBundlePublisher {
        TrustBundlePublisher { ca: ca.into() }
    }
}

impl Planner for TrustBundlePublisher {
    type Memo = ();

    fn name(&self) -> &'static str {
        "kube-apiserver-serving-clustertrustbundle-publisher-controller"
    }

    fn user(&self) -> String {
        "system:serviceaccount:kube-system:kube-apiserver-serving-clustertrustbundle-publisher".to_owned()
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 2] = [
            Watch::mapped("namespaces", |object, _, enqueue| {
                if &*object.meta().name == KEY.1 {
                    enqueue(object.key().clone());
                }
            }),
            Watch::mapped(ClusterTrustBundle::RESOURCE, |object, _, enqueue| {
                if is_of_signer(object) {
                    key_of(KEY.0, "", KEY.1).into_iter().for_each(enqueue);
                }
            }),
        ];
        &WATCHES
    }

    fn keys(&self, world: &WorldReader<'_>) -> Vec<Key> {
        world.find(KEY.0, "", KEY.1).map(|object| object.key().clone()).into_iter().collect()
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, seen: &Seen<'_, ()>, _: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        if world.get(key).is_none() {
            return plan;
        }
        let digest = seen.answers.get("digest").and_then(|answered| answered.answer.as_ref().ok());
        let Some(digest) = digest.and_then(Value::as_str).and_then(|digest| digest.get(..DIGEST_DIGITS))
        else {
            let question = value!({"text": (self.ca.as_str())});
            plan.queries.push(Query { target: "sha256", id: "digest".to_owned(), question });
            return plan;
        };
        let name = format!("{PREFIX}{digest}");
        let spec = value!({"signerName": (SIGNER), "trustBundle": (self.ca.as_str())});
        match world.view::<ClusterTrustBundle>("", &name) {
            None => {
                let bundle = value!({"metadata": {"name": (name.as_str())}, "spec": (spec)});
                plan.stage([Write::create(ClusterTrustBundle::RESOURCE, "", bundle).into()]);
            }
            Some((object, bundle)) if bundle.spec.trust_bundle != self.ca => {
                plan.stage([Write::merge(object, "", value!({"spec": (spec)})).into()]);
            }
            Some(_) => {}
        }
        let others = world.all(ClusterTrustBundle::RESOURCE).filter(|object| {
            is_of_signer(object) && *object.meta().name != *name && !object.meta().is_deleted()
        });
        plan.stage(others.map(|object| Action::from(Write::delete(object))).collect::<Vec<_>>());
        plan
    }
}

fn is_of_signer(object: &Object) -> bool {
    object.view::<ClusterTrustBundle>().is_some_and(|bundle| bundle.spec.signer_name == SIGNER)
}

#[cfg(test)]
mod tests {
    use setpoint_reconcile::Controller;
    use setpoint_sim::cluster::Cluster;

    use super::*;
    use crate::testing;

    const BUNDLES: &str = ClusterTrustBundle::RESOURCE;
    const DIGEST: &str = "0123456789abcdef0123456789abcdef";
    const NAME: &str = "kubernetes.io:kube-apiserver-serving:0123456789abcdef01234567";

    fn cluster() -> Cluster {
        let controllers: setpoint_sim::cluster::Controllers = || {
            let list: Vec<Box<dyn Controller>> =
                vec![Box::new(TrustBundlePublisher::new(testing::CERTIFICATE_PEM))];
            (list, crate::indexes::all())
        };
        let mut cluster = Cluster::new(controllers, 7);
        cluster.create("namespaces", "", value!({"metadata": {"name": "kube-system"}}));
        cluster
    }

    fn settle_and_answer(cluster: &mut Cluster) -> usize {
        cluster.settle();
        let queries = cluster.reply(|query| {
            assert_eq!(
                (query.target, query.question.str_at(&["text"])),
                ("sha256", testing::CERTIFICATE_PEM)
            );
            Ok(DIGEST.into())
        });
        cluster.settle();
        queries
    }

    fn names(cluster: &Cluster) -> Vec<String> {
        cluster.list(BUNDLES).iter().map(|bundle| bundle.str_at(&["metadata", "name"]).to_owned()).collect()
    }

    #[test]
    fn one_bundle_exists_and_is_named_after_its_content() {
        let mut cluster = cluster();
        let bundle = |name: &str, signer: &str| {
            let spec = value!({"signerName": (signer), "trustBundle": (testing::CERTIFICATE_PEM)});
            value!({"metadata": {"name": (name)}, "spec": (spec)})
        };
        cluster.create(BUNDLES, "", bundle("kubernetes.io:kube-apiserver-serving:old", SIGNER));
        cluster.create(BUNDLES, "", bundle("example.org:s:mine", "example.org/s"));
        assert_eq!(settle_and_answer(&mut cluster), 1);
        assert_eq!(names(&cluster), ["example.org:s:mine", NAME]);
        let bundle = cluster.get(BUNDLES, NAME).unwrap();
        assert_eq!(bundle.str_at(&["spec", "trustBundle"]), testing::CERTIFICATE_PEM);
        cluster.assert_quiet();
        cluster.delete(BUNDLES, NAME, &value!({})).unwrap();
        assert_eq!(settle_and_answer(&mut cluster), 0, "answered queries are not repeated");
        assert_eq!(names(&cluster).len(), 2, "it comes back");
        cluster.crash();
        assert_eq!(settle_and_answer(&mut cluster), 1);
        assert_eq!(names(&cluster).len(), 2);
    }
}
