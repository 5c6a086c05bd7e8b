//! ClusterRole aggregation: a role with an aggregation rule allows what the roles allow that it selects.

use setpoint_api::{Key, Time, Value, value};
use setpoint_reconcile::views::cluster_role::ClusterRole;
use setpoint_reconcile::{Object, Plan, Planner, Seed, Seen, View, Watch, World, Write};

use crate::indexes::AGGREGATING_ROLES;

/// The controller.
pub struct ClusterRoleAggregation;

impl Planner for ClusterRoleAggregation {
    type Memo = ();

    fn name(&self) -> &'static str {
        "clusterrole-aggregation-controller"
    }

    fn manager(&self) -> &'static str {
        "clusterrole-aggregation-controller"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 1] = [Watch::via(ClusterRole::RESOURCE, of_role)];
        &WATCHES
    }

    fn keys(&self, world: &World) -> Vec<Key> {
        world.indexed(AGGREGATING_ROLES, "").map(|role| role.key().clone()).collect()
    }

    fn plan(&self, key: &Key, world: &World, _: &Seen<'_, ()>, _: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(object) = world.get(key) else { return plan };
        let Some(role) = object.view::<ClusterRole>() else { return plan };
        let Some(aggregation) = &role.aggregation_rule else { return plan };
        let mut rules: Vec<Value> = Vec::new();
        for selector in &aggregation.cluster_role_selectors {
            for (other, view) in world.views::<ClusterRole>() {
                if other.key() == key || !selector.0.matches(|name| other.meta().labels.get(name)) {
                    continue;
                }
                for rule in &view.rules {
                    if !rules.contains(rule) {
                        rules.push(rule.clone());
                    }
                }
            }
        }
        if rules != role.rules {
            plan.stage([Write::merge(object, "", value!({"rules": (rules)})).into()]);
        }
        plan
    }
}

/// Any role may be one that others select.
fn of_role(_: &Object, world: &World, wake: &mut dyn FnMut(Key)) {
    for role in world.indexed(AGGREGATING_ROLES, "") {
        wake(role.key().clone());
    }
}

/// Finds the roles that gather rules: for the index.
pub(crate) fn is_aggregating(object: &Object, found: &mut dyn FnMut(&str)) {
    if object.view::<ClusterRole>().is_some_and(|role| role.aggregation_rule.is_some()) {
        found("");
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::json;
    use setpoint_sim::cluster::{Cluster, Controllers};

    use super::*;

    const ROLES: &str = ClusterRole::RESOURCE;

    fn role(name: &str, label: &str, verb: &str) -> Value {
        value!({
            "metadata": {"name": (name), "labels": {"to": (label)}},
            "rules": [{"verbs": [(verb)], "apiGroups": [""], "resources": ["pods"]}],
        })
    }

    fn verbs(cluster: &Cluster, name: &str) -> Vec<String> {
        let role = cluster.get(ROLES, name).unwrap();
        let rules = role.get("rules").and_then(Value::as_list).unwrap_or_default().to_vec();
        rules.iter().map(|rule| json::to_text(rule.get("verbs").unwrap())).collect()
    }

    #[test]
    fn rules_are_gathered_in_the_order_of_names_and_chains_come_to_rest() {
        let controllers: Controllers = || (vec![Box::new(ClusterRoleAggregation)], crate::indexes::all());
        let mut cluster = Cluster::new(controllers, 7);
        let gathers = |name: &str, label: &str, own: &str| {
            value!({
                "metadata": {"name": (name), "labels": {"to": (own)}},
                "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": (label)}}]},
                "rules": [],
            })
        };
        cluster.create(ROLES, "", gathers("edit", "edit", "admin"));
        cluster.create(ROLES, "", gathers("admin", "admin", "none"));
        cluster.create(ROLES, "", role("z", "edit", "get"));
        cluster.create(ROLES, "", role("a", "edit", "list"));
        cluster.create(ROLES, "", role("b", "edit", "get"));
        cluster.settle();
        assert_eq!(verbs(&cluster, "edit"), [r#"["list"]"#, r#"["get"]"#]);
        assert_eq!(verbs(&cluster, "admin"), [r#"["list"]"#, r#"["get"]"#]);
        cluster.assert_quiet();
        cluster.delete(ROLES, "a", &value!({})).unwrap();
        cluster.patch(ROLES, "admin", "", value!({"rules": []})).unwrap();
        cluster.settle();
        assert_eq!(verbs(&cluster, "admin"), [r#"["get"]"#]);
        cluster.assert_quiet();
    }
}
