//! Pod sets: which pods a counter counts.
//!
//! [`CountedPods`] is the identity of a counter: two pods whose terms describe the same set share one counter.

use std::collections::BTreeMap;

use setpoint_api::labels::Selector;
use setpoint_reconcile::object::Pairs;

use crate::cache::selector_index::{SelectorIndex, SortedLabels};
use crate::signature::{AffinityTerm, PodSelector, PodSignature};

/// Pods that a counter counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CountedPods {
    /// Pods of one namespace that match a selector and are not terminating: topology spread.
    Selected {
        /// Namespace of the pods.
        namespace: Box<str>,
        /// Selector on their labels.
        selector: Selector,
    },
    /// Pods that match every one of these selectors: affinity and anti-affinity of an incoming pod.
    Matching(Vec<PodSelector>),
    /// Pods that have this required anti-affinity term: they repel incoming pods that match it.
    RequiringAntiAffinity(AffinityTerm),
    /// Pods that have this affinity term with this score weight: negative for preferred anti-affinity.
    Preferring(i64, AffinityTerm),
}

impl CountedPods {
    /// `true` if pods of the signature are in the set. `labels` are those of the signature.
    ///
    /// Always `false` for sets of pods that have a term: those pods enter their counters by
    /// [`TopologyCounters::find_or_add_term_counter`](super::TopologyCounters::find_or_add_term_counter).
    pub fn contains(
        &self,
        signature: &PodSignature,
        labels: &SortedLabels<'_>,
        namespace_labels: &BTreeMap<Box<str>, Pairs>,
    ) -> bool {
        match self {
            CountedPods::Selected { namespace, selector } => {
                signature.namespace == *namespace && selector.matches(|name| labels.get(name))
            }
            CountedPods::Matching(all) => {
                all.iter().all(|pods| is_selected(pods, signature, labels, namespace_labels))
            }
            CountedPods::RequiringAntiAffinity(_) | CountedPods::Preferring(..) => false,
        }
    }

    /// Adds the set to an index as `number`. The index never misses a pod of the set.
    pub fn add_to_index(&self, index: &mut SelectorIndex, number: u32) {
        match self {
            CountedPods::Selected { namespace, selector } => index.add_in(namespace, selector, number),
            CountedPods::Matching(all) => all.first().into_iter().for_each(|pods| index.add(pods, number)),
            CountedPods::RequiringAntiAffinity(term) | CountedPods::Preferring(_, term) => {
                index.add(&term.pods, number);
            }
        }
    }

    /// Upper bound of the values that one pod is compared with.
    #[must_use]
    pub fn comparison_steps(&self) -> u64 {
        let of_selector = |selector: &Selector| -> usize {
            selector.requirements().iter().map(|one| one.values().len() + 1).sum()
        };
        let steps = match self {
            CountedPods::Selected { selector, .. } => of_selector(selector),
            CountedPods::Matching(all) => all.iter().map(|pods| 1 + of_selector(&pods.selector)).sum(),
            CountedPods::RequiringAntiAffinity(_) | CountedPods::Preferring(..) => 0,
        };
        u64::try_from(1 + steps).unwrap_or(u64::MAX)
    }

    /// `true` if labels of namespaces decide which pods are in the set.
    #[must_use]
    pub fn has_namespace_selector(&self) -> bool {
        match self {
            CountedPods::Matching(all) => all.iter().any(|pods| pods.namespace_selector.is_some()),
            CountedPods::RequiringAntiAffinity(term) | CountedPods::Preferring(_, term) => {
                term.pods.namespace_selector.is_some()
            }
            CountedPods::Selected { .. } => false,
        }
    }
}

/// `true` if `pods` selects pods of the signature. `labels` are those of the signature.
pub(super) fn is_selected(
    pods: &PodSelector,
    signature: &PodSignature,
    labels: &SortedLabels<'_>,
    namespace_labels: &BTreeMap<Box<str>, Pairs>,
) -> bool {
    let by_name = pods.namespaces.binary_search(&signature.namespace).is_ok();
    let by_labels = || {
        let of = |name: &str| namespace_labels.get(&signature.namespace).and_then(|labels| labels.get(name));
        pods.namespace_selector.as_ref().is_some_and(|selector| selector.matches(of))
    };
    pods.selector.matches(|name| labels.get(name)) && (by_name || by_labels())
}
