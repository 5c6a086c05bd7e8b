//! ClusterRole aggregation: combines the rules of the roles that an aggregation rule selects.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_api::labels::{Operator, Requirement, Selector};
use setpoint_api::{Key, Time, Value, json, value};
use setpoint_reconcile::object::Pairs;
use setpoint_reconcile::plan::InvolvedObject;
use setpoint_reconcile::{Object, Plan, Planner, Seed, Seen, View, Watch, WorldReader, Write};
use setpoint_views::cluster_role::{ClusterRole, RoleSelector};

use crate::indexes::AGGREGATING_ROLES;

/// Maximum number of comparisons of roles with selectors in one plan. A selector that requires a rare label
/// is compared with the roles that have it; if every selector may match every role, all pairs are compared.
const COMPARISONS_MAX: usize = 200_000;

/// The ClusterRole aggregation controller.
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
        const WATCHES: [Watch; 1] = [Watch::mapped(ClusterRole::RESOURCE, enqueue_for_role)];
        &WATCHES
    }

    fn keys(&self, world: &WorldReader<'_>) -> Vec<Key> {
        world.by_index(AGGREGATING_ROLES, "").map(|role| role.key().clone()).collect()
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, _: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(object) = world.get(key) else { return plan };
        let Some(role) = object.view::<ClusterRole>() else { return plan };
        let Some(aggregation) = &role.aggregation_rule else { return plan };
        let mut selectors = SelectorIndex::of(&aggregation.cluster_role_selectors);
        let mut selected: Vec<(usize, &ClusterRole)> = Vec::new();
        for (other, view) in world.views::<ClusterRole>().filter(|(other, _)| other.key() != key) {
            match selectors.first(&other.meta().labels) {
                Ok(first) => selected.extend(first.map(|first| (first, view))),
                Err(TooCostly) => {
                    let message = format!(
                        "aggregation takes more than {COMPARISONS_MAX} comparisons of selectors with roles: \
                         select roles by labels that they have"
                    );
                    let subject = InvolvedObject::new(object, "rbac.authorization.k8s.io/v1", "ClusterRole");
                    plan.events.push(subject.warning("AggregationTooCostly", message));
                    return plan;
                }
            }
        }
        // Rules are in the order of the selectors, then of the roles; each role counts for its first selector
        // only.
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

/// Selectors by a label that they require: a role is compared with those that its labels can match.
struct SelectorIndex<'a> {
    selectors: &'a [RoleSelector],
    by_label: BTreeMap<(&'a str, &'a str), Vec<usize>>,
    by_name: BTreeMap<&'a str, Vec<usize>>,
    /// Selectors that require no label; equal ones once.
    others: Vec<usize>,
    /// Number of comparisons left.
    comparisons_left: usize,
}

impl<'a> SelectorIndex<'a> {
    fn of(selectors: &'a [RoleSelector]) -> SelectorIndex<'a> {
        let mut index = SelectorIndex {
            selectors,
            by_label: BTreeMap::new(),
            by_name: BTreeMap::new(),
            others: Vec::new(),
            comparisons_left: COMPARISONS_MAX,
        };
        let mut seen = BTreeSet::new();
        for (at, RoleSelector(selector)) in selectors.iter().enumerate() {
            // `Selector::Nothing` prints like a selector of everything.
            if matches!(selector, Selector::Nothing) || !seen.insert(selector.to_string()) {
                continue;
            }
            let has_values = |requirement: &&Requirement| {
                matches!(requirement.operator(), Operator::In | Operator::Equals | Operator::DoubleEquals)
            };
            let has_name = |requirement: &&Requirement| {
                matches!(
                    requirement.operator(),
                    Operator::Exists | Operator::GreaterThan | Operator::LessThan
                )
            };
            let requirements = || selector.requirements().iter();
            if let Some(requirement) =
                requirements().filter(has_values).min_by_key(|requirement| requirement.values().len())
            {
                for value in requirement.values() {
                    index.by_label.entry((requirement.key(), value)).or_default().push(at);
                }
            } else if let Some(requirement) = requirements().find(has_name) {
                index.by_name.entry(requirement.key()).or_default().push(at);
            } else {
                index.others.push(at);
            }
        }
        index
    }

    /// Position of the first selector that matches these labels.
    ///
    /// # Errors
    /// If this takes too many comparisons.
    fn first(&mut self, labels: &Pairs) -> Result<Option<usize>, TooCostly> {
        let SelectorIndex { selectors, by_label, by_name, others, comparisons_left } = self;
        let mut first = None;
        let by_label = labels.iter().filter_map(|label| by_label.get(&label));
        let by_name = labels.iter().filter_map(|(name, _)| by_name.get(name));
        for candidates in by_label.chain(by_name).chain([&*others]) {
            for at in candidates {
                // Positions are sorted, so those after the first match need not be compared.
                if first.is_some_and(|first| *at >= first) {
                    break;
                }
                *comparisons_left = comparisons_left.checked_sub(1).ok_or(TooCostly)?;
                if selectors[*at].0.matches(|name| labels.get(name)) {
                    first = Some(*at);
                }
            }
        }
        Ok(first)
    }
}

/// Too many comparisons of roles with selectors.
struct TooCostly;

/// Enqueues all aggregating roles: each of them may select the role.
fn enqueue_for_role(_: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    for role in world.by_index(AGGREGATING_ROLES, "") {
        enqueue(role.key().clone());
    }
}

/// Index function: roles with an aggregation rule.
pub(crate) fn index_aggregating_roles(object: &Object, emit: &mut dyn FnMut(&str)) {
    if object.view::<ClusterRole>().is_some_and(|role| role.aggregation_rule.is_some()) {
        emit("");
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
    fn thousands_of_selectors_and_rules_are_aggregated_once() {
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
        let aggregated = verbs(&cluster, "all");
        assert_eq!(
            (aggregated.len(), &*aggregated[0], &*aggregated[2_000]),
            (2_001, r#"["v0"]"#, r#"["get"]"#)
        );
    }

    #[test]
    fn rules_are_aggregated_in_name_order_and_chains_converge() {
        let controllers: Controllers = || (vec![Box::new(ClusterRoleAggregation)], crate::indexes::all());
        let mut cluster = Cluster::new(controllers, 7);
        let aggregating_role = |name: &str, label: &str, own: &str| {
            value!({
                "metadata": {"name": (name), "labels": {"to": (own)}},
                "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": (label)}}]},
                "rules": [],
            })
        };
        cluster.create(ROLES, "", aggregating_role("edit", "edit", "admin"));
        cluster.create(ROLES, "", aggregating_role("admin", "admin", "none"));
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
