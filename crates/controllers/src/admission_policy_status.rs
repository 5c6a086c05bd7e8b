//! Status of ValidatingAdmissionPolicies: the observed generation.
//!
//! Upstream also checks the expressions against the schemas of the kinds that a policy matches, and lists the warnings
//! in `status.typeChecking`. That is not done yet: the list is empty.

use setpoint_api::{Key, Time, value};
use setpoint_reconcile::{Plan, Planner, Seed, Seen, View, Watch, WorldReader, Write};
use setpoint_views::admission_policy::ValidatingAdmissionPolicy;

/// Name of the controller and of its field manager.
const NAME: &str = "validatingadmissionpolicy-status-controller";

/// Maintains the status of ValidatingAdmissionPolicies.
pub struct AdmissionPolicyStatusController;

impl Planner for AdmissionPolicyStatusController {
    type Memo = ();

    fn name(&self) -> &'static str {
        NAME
    }

    fn manager(&self) -> &'static str {
        NAME
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 1] = [Watch::primary(ValidatingAdmissionPolicy::RESOURCE)];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, _: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(object) = world.get(key) else { return plan };
        let Some(policy) = object.view::<ValidatingAdmissionPolicy>() else { return plan };
        let generation = object.meta().generation;
        if generation > policy.status.observed_generation {
            let status = value!({"observedGeneration": (generation), "typeChecking": {}});
            plan.push(Write::status(object, status));
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use setpoint_sim::cluster::{Cluster, Controllers};

    use super::*;

    const POLICIES: &str = ValidatingAdmissionPolicy::RESOURCE;

    #[test]
    fn status_follows_the_generation() {
        let controllers: Controllers =
            || (vec![Box::new(AdmissionPolicyStatusController)], crate::indexes::all());
        let mut cluster = Cluster::new(controllers, 7);
        let rule = value!({
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"],
        });
        let spec = value!({
            "matchConstraints": {"resourceRules": [(rule)]},
            "validations": [{"expression": "true"}],
        });
        cluster.create(POLICIES, "", value!({"metadata": {"name": "p"}, "spec": (spec)}));
        cluster.settle();
        let observed = |cluster: &Cluster| {
            let policy = cluster.get(POLICIES, "p").unwrap();
            policy.at(&["status", "observedGeneration"]).and_then(setpoint_api::Value::as_i64)
        };
        assert_eq!(observed(&cluster), Some(1));
        let patch = value!({"spec": {"validations": [{"expression": "false"}]}});
        cluster.patch(POLICIES, "p", "", patch).unwrap();
        cluster.settle();
        assert_eq!(observed(&cluster), Some(2));
        cluster.assert_quiet();
    }
}
