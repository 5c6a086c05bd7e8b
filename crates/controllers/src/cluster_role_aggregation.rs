//! ClusterRole aggregation: a role with an aggregation rule allows what the roles allow that it selects.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_api::labels::{Operator, Requirement, Selector};
use setpoint_api::{Key, Time, Value, json, value};
use setpoint_reconcile::object::Pairs;
use setpoint_reconcile::views::cluster_role::{ClusterRole, RoleSelector};
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
        let selectors = SelectorIndex::of(&aggregation.cluster_role_selectors);
        let others = world.views::<ClusterRole>().filter(|(other, _)| other.key() != key);
        let mut selected: Vec<(usize, &ClusterRole)> =
            others.filter_map(|(other, view)| Some((selectors.first(&other.meta().labels)?, view))).collect();
        // Rules stand in the order of the selectors, then of the roles; a role that several select adds nothing later.
        selected.sort_by_key(|(selector, _)| *selector);
        let mut seen = BTreeSet::new();
        let all = selected.iter().flat_map(|(_, view)| &view.rules);
        let rules: Vec<Value> = all.filter(|rule| seen.insert(json::to_vec(rule))).cloned().collect();
        if rules != role.rules {
            plan.stage([Write::merge(object, "", value!({"rules": (rules)})).into()]);
        }
        plan
    }
}

/// Selectors by a label that they require: a role is compared with those that its labels can meet.
struct SelectorIndex<'a> {
    selectors: &'a [RoleSelector],
    by_label: BTreeMap<(&'a str, &'a str), Vec<usize>>,
    /// Those that require no single value of a label, equal ones once.
    others: Vec<usize>,
}

impl<'a> SelectorIndex<'a> {
    fn of(selectors: &'a [RoleSelector]) -> SelectorIndex<'a> {
        let mut index = SelectorIndex { selectors, by_label: BTreeMap::new(), others: Vec::new() };
        let mut seen = BTreeSet::new();
        for (at, RoleSelector(selector)) in selectors.iter().enumerate() {
            // A selector of nothing prints as one of everything.
            if matches!(selector, Selector::Nothing) || !seen.insert(selector.to_string()) {
                continue;
            }
            let value_of = |one: &'a Requirement| match (one.operator(), one.values().len()) {
                (Operator::In | Operator::Equals | Operator::DoubleEquals, 1) => one.values().next(),
                _ => None,
            };
            let label = selector.requirements().iter().find_map(|one| Some((one.key(), value_of(one)?)));
            match label {
                Some(label) => index.by_label.entry(label).or_default().push(at),
                None => index.others.push(at),
            }
        }
        index
    }

    /// Place of the first selector that selects these labels.
    fn first(&self, labels: &Pairs) -> Option<usize> {
        let matches = |at: &&usize| self.selectors[**at].0.matches(|name| labels.get(name));
        let required = labels.iter().filter_map(|label| self.by_label.get(&label)?.iter().find(matches));
        required.chain(self.others.iter().find(matches)).min().copied()
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
    fn thousands_of_selectors_and_rules_are_gathered_once() {
        let controllers: Controllers = || (vec![Box::new(ClusterRoleAggregation)], crate::indexes::all());
        let mut cluster = Cluster::new(controllers, 7);
        let selector = |at: usize| value!({"matchLabels": {"to": (if at.is_multiple_of(2) { "x".into() } else { format!("x{at}") })}});
        let selectors: Vec<Value> = (0..2_000).map(selector).collect();
        cluster.create(
            ROLES,
            "",
            value!({"metadata": {"name": "all"}, "aggregationRule": {"clusterRoleSelectors": (selectors)}, "rules": []}),
        );
        for name in ["a", "b", "c"] {
            let rules: Vec<Value> = (0..2_000)
                .map(|at| value!({"verbs": [(format!("v{at}"))], "apiGroups": [""], "resources": ["pods"]}))
                .collect();
            cluster.create(
                ROLES,
                "",
                value!({"metadata": {"name": (name), "labels": {"to": "x"}}, "rules": (rules)}),
            );
        }
        cluster.create(ROLES, "", role("d", "x1", "get"));
        cluster.settle();
        let gathered = verbs(&cluster, "all");
        assert_eq!((gathered.len(), &*gathered[0], &*gathered[2_000]), (2_001, r#"["v0"]"#, r#"["get"]"#));
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
