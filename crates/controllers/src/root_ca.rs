//! Root CA publisher: the ConfigMap with the API server's CA certificates in every namespace.

use setpoint_api::{Key, Time, value};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Object, Plan, Planner, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::config_map::ConfigMap;
use setpoint_views::namespace::Namespace;

/// Name of the ConfigMap.
const NAME: &str = "kube-root-ca.crt";
/// Key of the certificates.
const CA_KEY: &str = "ca.crt";
/// Annotation with a description.
const DESCRIPTION_ANNOTATION: &str = "kubernetes.io/description";
/// The description, as in upstream.
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

/// The root CA publisher.
pub struct RootCaPublisher {
    ca: String,
}

impl RootCaPublisher {
    /// Creates a publisher of these certificates, in PEM.
    #[must_use]
    pub fn new(ca: impl Into<String>) -> RootCaPublisher {
        RootCaPublisher { ca: ca.into() }
    }
}

impl Planner for RootCaPublisher {
    type Memo = ();

    fn name(&self) -> &'static str {
        "root-ca-certificate-publisher-controller"
    }

    fn user(&self) -> String {
        "system:serviceaccount:kube-system:root-ca-cert-publisher".to_owned()
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 2] =
            [Watch::primary("namespaces"), Watch::mapped("configmaps", enqueue_for_map)];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, _: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let namespace = world.get(key).and_then(|object| object.view::<Namespace>());
        if !namespace.is_some_and(Namespace::is_active) {
            return plan;
        }
        let desired = value!({
            "metadata": {"name": (NAME), "annotations": {"kubernetes.io/description": (DESCRIPTION)}},
            "data": {"ca.crt": (self.ca.as_str())},
        });
        let Some((object, map)) = world.view::<ConfigMap>(key.name(), NAME) else {
            plan.stage([Write::create("configmaps", key.name(), desired).into()]);
            return plan;
        };
        let other_keys = || map.data.iter().map(|(entry, _)| entry).filter(|entry| *entry != CA_KEY);
        let is_described =
            object.meta().annotations.get(DESCRIPTION_ANNOTATION).is_some_and(|text| !text.is_empty());
        if map.data.get(CA_KEY) != Some(&self.ca) || other_keys().next().is_some() || !is_described {
            let mut patch = desired;
            for entry in other_keys() {
                patch.ensure_map("data").insert(entry, value!(null));
            }
            plan.stage([Write::merge(object, "", patch).into()]);
        }
        plan
    }
}

fn enqueue_for_map(map: &Object, _: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    if &*map.meta().name == NAME
        && let Some(key) = key_of("namespaces", "", &map.meta().namespace)
    {
        enqueue(key);
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::json;
    use setpoint_sim::cluster::{Cluster, Controllers};

    use super::*;

    #[test]
    fn ca_is_published_in_every_namespace_and_edits_are_reverted() {
        let controllers: Controllers =
            || (vec![Box::new(RootCaPublisher::new("the certificate"))], crate::indexes::all());
        let mut cluster = Cluster::new(controllers, 7);
        cluster.settle();
        let data = |cluster: &Cluster| {
            let map = cluster.get("configmaps", "default/kube-root-ca.crt").unwrap();
            json::to_text(map.get("data").unwrap())
        };
        let good = r#"{"ca.crt":"the certificate"}"#;
        assert_eq!(data(&cluster), good);
        cluster.assert_quiet();
        let edit = value!({"data": {"ca.crt": "bad", "more": "x"}});
        cluster.patch("configmaps", "default/kube-root-ca.crt", "", edit).unwrap();
        cluster.settle();
        assert_eq!(data(&cluster), good);
        cluster.delete("configmaps", "default/kube-root-ca.crt", &value!({})).unwrap();
        cluster.settle();
        assert_eq!(data(&cluster), good);
        cluster.assert_quiet();
    }
}
