//! Affinity to other pods and topology spread constraints in parsed form.

use std::collections::BTreeSet;

use setpoint_api::Value;
use setpoint_api::labels::{Expression, Operator, Requirement, Selector};
use setpoint_reconcile::object::Pairs;
use setpoint_requirements::{list, strings};

use crate::cache::selector_index::SortedLabels;

/// Affinity and anti-affinity terms of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AffinityTerms {
    /// Required affinity.
    pub required_affinity: Vec<AffinityTerm>,
    /// Required anti-affinity.
    pub required_anti_affinity: Vec<AffinityTerm>,
    /// Preferred affinity, with weights; negative for preferred anti-affinity.
    pub preferred: Vec<(i64, AffinityTerm)>,
}

/// Affinity term: some pods, and the topology key whose domains are compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AffinityTerm {
    /// `topologyKey`.
    pub topology_key: Box<str>,
    /// Pods that the term selects.
    pub pods: PodSelector,
}

/// Selection of pods by labels and namespaces. A pod's namespace must be listed or match the namespace selector.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodSelector {
    /// `labelSelector`.
    pub selector: Selector,
    /// `namespaces`, sorted; the pod's own namespace if neither field is set.
    pub namespaces: Vec<Box<str>>,
    /// `namespaceSelector`.
    pub namespace_selector: Option<Selector>,
}

/// Topology spread constraint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpreadConstraint {
    /// `topologyKey`.
    pub topology_key: Box<str>,
    /// `maxSkew`.
    pub max_skew: i64,
    /// `true` for `DoNotSchedule`, `false` for `ScheduleAnyway`.
    pub is_hard: bool,
    /// `labelSelector`, with the pod's values of `matchLabelKeys`.
    pub selector: Selector,
    /// `minDomains`.
    pub min_domains: i64,
    /// `true` for `nodeAffinityPolicy: Honor`.
    pub honors_node_affinity: bool,
    /// `true` for `nodeTaintsPolicy: Honor`.
    pub honors_taints: bool,
}

impl AffinityTerms {
    /// Number of terms.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.required_affinity.len() + self.required_anti_affinity.len() + self.preferred.len()
    }

    /// Reads `spec.affinity` of a pod with this namespace and these labels.
    pub(super) fn new(affinity: Option<&Value>, namespace: &str, labels: &Pairs) -> AffinityTerms {
        if affinity.is_none() {
            return AffinityTerms::default();
        }
        let required = |field| {
            let terms = list(affinity, &[field, "requiredDuringSchedulingIgnoredDuringExecution"]);
            terms.iter().map(|term| AffinityTerm::new(term, namespace, labels)).collect()
        };
        let preferred = |field, sign: i64| {
            let terms = list(affinity, &[field, "preferredDuringSchedulingIgnoredDuringExecution"]);
            terms.iter().filter_map(move |one| {
                let weight = one.get("weight").and_then(Value::as_i64)?;
                Some((weight * sign, AffinityTerm::new(one.get("podAffinityTerm")?, namespace, labels)))
            })
        };
        AffinityTerms {
            required_affinity: required("podAffinity"),
            required_anti_affinity: required("podAntiAffinity"),
            preferred: preferred("podAffinity", 1).chain(preferred("podAntiAffinity", -1)).collect(),
        }
    }
}

impl AffinityTerm {
    fn new(term: &Value, namespace: &str, labels: &Pairs) -> AffinityTerm {
        let mut selector = read_selector(term.get("labelSelector"));
        // The API server merges these keys into the selector at creation. A term that was stored without that means the
        // same.
        for (keys, operator) in [("matchLabelKeys", Operator::In), ("mismatchLabelKeys", Operator::NotIn)] {
            selector = merge_label_keys(selector, &strings(term, keys), labels, operator);
        }
        let mut namespaces = strings(term, "namespaces");
        let namespace_selector =
            term.get("namespaceSelector").filter(|one| !one.is_null()).map(|one| read_selector(Some(one)));
        if namespaces.is_empty() && namespace_selector.is_none() {
            namespaces.push(namespace.into());
        }
        namespaces.sort_unstable();
        AffinityTerm {
            topology_key: term.str_at(&["topologyKey"]).into(),
            pods: PodSelector { selector, namespaces, namespace_selector },
        }
    }
}

impl SpreadConstraint {
    /// Reads a constraint of a pod with these labels.
    #[must_use]
    pub(crate) fn new(one: &Value, labels: &Pairs) -> SpreadConstraint {
        let number = |name, default| one.get(name).and_then(Value::as_i64).unwrap_or(default);
        let selector = read_selector(one.get("labelSelector"));
        SpreadConstraint {
            topology_key: one.str_at(&["topologyKey"]).into(),
            max_skew: number("maxSkew", 1),
            is_hard: one.str_at(&["whenUnsatisfiable"]) != "ScheduleAnyway",
            selector: merge_label_keys(selector, &strings(one, "matchLabelKeys"), labels, Operator::In),
            min_domains: number("minDomains", 1),
            honors_node_affinity: one.str_at(&["nodeAffinityPolicy"]) != "Ignore",
            honors_taints: one.str_at(&["nodeTaintsPolicy"]) == "Honor",
        }
    }
}

/// Adds a requirement with the pod's own value for each key that the pod has.
fn merge_label_keys(selector: Selector, keys: &[Box<str>], labels: &Pairs, operator: Operator) -> Selector {
    let Selector::All(mut requirements) = selector else { return selector };
    if keys.is_empty() {
        return Selector::All(requirements);
    }
    let labels = SortedLabels::new(labels);
    let mut known: BTreeSet<Requirement> = requirements.iter().cloned().collect();
    for key in keys {
        if let Some(value) = labels.get(key)
            && let Ok(one) = Requirement::new(key, operator, &[value])
            && known.insert(one.clone())
        {
            requirements.push(one);
        }
    }
    Selector::new(requirements)
}

/// Reads a LabelSelector. A missing or invalid one selects nothing.
fn read_selector(value: Option<&Value>) -> Selector {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Selector::Nothing };
    let labels = value.get("matchLabels").and_then(Value::as_map);
    let labels = labels.into_iter().flat_map(|map| map.iter());
    let labels = labels.filter_map(|(name, value)| Some((name, value.as_str()?)));
    let expressions = list(Some(value), &["matchExpressions"]).iter().map(|one| Expression {
        key: one.str_at(&["key"]),
        operator: one.str_at(&["operator"]),
        values: list(Some(one), &["values"]).iter().filter_map(Value::as_str).collect(),
    });
    Selector::from_parts(labels, expressions).unwrap_or(Selector::Nothing)
}
