//! Registration of custom resources: an APIService for each group version that a CustomResourceDefinition serves.
//!
//! The counterpart of upstream's CRD registration controller. An APIService that a user created, or that has a Service,
//! is left alone. It is removed when no definition serves the group version anymore.

use setpoint_api::rfc3339::Seconds;
use setpoint_api::{Key, Map, Time, resources, value};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Object, Plan, Planner, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::custom_resource_definition::CustomResourceDefinition;

use crate::api_services::{
    API_SERVICES, AUTOMANAGED_LABEL, METRICS_GROUP_VERSION, is_automanaged, is_available,
};
use crate::crd::{DEFINITIONS, MANAGER, USER};

/// Priority of the groups of custom resources.
const GROUP_PRIORITY: i64 = 1000;
/// Priority of their versions, which are ordered by name.
const VERSION_PRIORITY: i64 = 100;

/// Maintains the APIServices of custom resources.
pub struct CrdRegistration;

impl Planner for CrdRegistration {
    type Memo = ();

    fn name(&self) -> &'static str {
        "crd-registration"
    }

    fn user(&self) -> String {
        USER.to_owned()
    }

    fn manager(&self) -> &'static str {
        MANAGER
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 2] =
            [Watch::primary(API_SERVICES), Watch::mapped(DEFINITIONS, enqueue_for_definition)];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some((version, group)) = key.name().split_once('.') else { return plan };
        // A built-in group version has no definition, and metrics have a controller of their own.
        let is_built_in =
            || resources::all().iter().any(|info| info.group == group && info.version == version);
        if key.name() == METRICS_GROUP_VERSION || is_built_in() {
            return plan;
        }
        let mut definitions = world.all(DEFINITIONS);
        let is_served = definitions.any(|object| {
            object
                .view::<CustomResourceDefinition>()
                .is_some_and(|definition| serves(definition, group, version))
        });
        match (world.get(key), is_served) {
            (None, true) => {
                let mut labels = Map::new();
                labels.insert(AUTOMANAGED_LABEL, "true");
                let service = value!({
                    "metadata": {"name": (key.name()), "labels": (labels)},
                    "spec": {
                        "group": (group), "version": (version),
                        "groupPriorityMinimum": (GROUP_PRIORITY), "versionPriority": (VERSION_PRIORITY),
                    },
                });
                plan.push(Write::create(API_SERVICES, "", service));
            }
            (Some(object), _) if !is_automanaged(object) || object.meta().is_deleted() => {}
            (Some(object), true) if !is_available(object) => {
                let condition = value!({
                    "type": "Available", "status": "True", "reason": "Local",
                    "message": "Local APIServices are always available",
                    "lastTransitionTime": (Seconds(now).to_string()),
                });
                let status = value!({"status": {"conditions": [(condition)]}});
                plan.push(Write::merge(object, "status", status));
            }
            (Some(object), false) => plan.push(Write::delete(object)),
            _ => {}
        }
        plan
    }
}

fn serves(definition: &CustomResourceDefinition, group: &str, version: &str) -> bool {
    let is_served = || definition.spec.versions.iter().any(|one| one.served && *one.name == *version);
    *definition.spec.group == *group && is_served()
}

fn enqueue_for_definition(object: &Object, _: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    let Some(definition) = object.view::<CustomResourceDefinition>() else { return };
    for version in &definition.spec.versions {
        let name = format!("{}.{}", version.name, definition.spec.group);
        key_of(API_SERVICES, "", &name).into_iter().for_each(&mut *enqueue);
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::Value;
    use setpoint_sim::cluster::Cluster;

    use super::*;
    use crate::testing::{FOOS, create_foos};

    fn cluster() -> Cluster {
        Cluster::new(|| (crate::crd::server_controllers(), crate::indexes::all()), 3)
    }

    #[test]
    fn served_versions_have_available_api_services_until_the_definition_is_deleted() {
        let mut cluster = cluster();
        create_foos(&mut cluster, value!({}));
        for name in ["v1.example.com", "v1alpha1.example.com"] {
            let service = cluster.get(API_SERVICES, name).unwrap();
            assert_eq!(service.at(&["spec", "groupPriorityMinimum"]), Some(&Value::Int(1000)));
            assert_eq!(service.at(&["spec", "versionPriority"]), Some(&Value::Int(100)));
            assert!(service.at(&["status", "conditions"]).is_some(), "{name}");
        }
        cluster.assert_quiet();
        cluster.delete(DEFINITIONS, FOOS, &value!({})).unwrap();
        cluster.settle();
        assert!(cluster.get(API_SERVICES, "v1.example.com").is_none());
    }

    #[test]
    fn api_service_without_a_definition_is_kept_if_a_user_created_it() {
        let mut cluster = cluster();
        let service = |label: &str| {
            let mut labels = Map::new();
            labels.insert(label, "true");
            value!({
                "metadata": {"name": "v1.example.org", "labels": (labels)},
                "spec": {"group": "example.org", "version": "v1", "groupPriorityMinimum": 5, "versionPriority": 5},
            })
        };
        cluster.create(API_SERVICES, "", service("mine"));
        cluster.settle();
        assert!(cluster.get(API_SERVICES, "v1.example.org").is_some());
        cluster.delete(API_SERVICES, "v1.example.org", &value!({})).unwrap();
        cluster.create(API_SERVICES, "", service(AUTOMANAGED_LABEL));
        cluster.settle();
        assert!(cluster.get(API_SERVICES, "v1.example.org").is_none());
    }
}
