//! Selector index: finds the pod selectors that may match a pod, by the pod's namespace and labels.
//!
//! A selector is filed under one of its requirements, the one with the fewest selectors so far. A selector on labels
//! that a pod does not have therefore costs that pod nothing, however many such selectors there are. A selector that has
//! only `NotIn` and `DoesNotExist` requirements is returned for every pod of its namespaces.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use setpoint_api::labels::{Operator, Requirement, Selector};
use setpoint_reconcile::object::Pairs;

use crate::signature::PodSelector;

/// A selector with more namespaces is filed once, under any namespace.
const NAMESPACES_MAX: usize = 16;
/// A requirement with more values is filed by its label key alone.
const VALUES_MAX: usize = 16;
/// Requirements of a selector that are considered for filing it.
const REQUIREMENTS_MAX: usize = 16;

/// Labels for many lookups, by binary search: a lookup in [`Pairs`] is linear. Collected at the first lookup.
pub struct SortedLabels<'a> {
    pairs: &'a Pairs,
    sorted: OnceCell<Vec<(&'a str, &'a str)>>,
}

impl<'a> SortedLabels<'a> {
    /// Wraps the labels of an object.
    #[must_use]
    pub fn new(pairs: &'a Pairs) -> SortedLabels<'a> {
        SortedLabels { pairs, sorted: OnceCell::new() }
    }

    /// Value of a label.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a str> {
        let sorted = self.sorted.get_or_init(|| self.pairs.iter().collect());
        let found = sorted.binary_search_by(|(other, _)| (*other).cmp(name)).ok()?;
        Some(sorted[found].1)
    }
}

/// Selectors for pods of one namespace, or of any.
#[derive(Clone, Debug, Default)]
struct Bucket {
    by_value: BTreeMap<Box<str>, BTreeMap<Box<str>, Vec<u32>>>,
    by_key: BTreeMap<Box<str>, Vec<u32>>,
    rest: Vec<u32>,
}

/// Pod selectors by namespace and by one of their requirements. Numbers stand for selectors.
#[derive(Clone, Debug, Default)]
pub struct SelectorIndex {
    /// Selectors that list their namespaces.
    named: BTreeMap<Box<str>, Bucket>,
    /// Selectors with a namespace selector, or with too many namespaces.
    any: Bucket,
}

/// Place of a selector within a bucket.
enum IndexSlot<'a> {
    /// Under every value of an `In` requirement.
    Values(&'a Requirement),
    /// Under a label key.
    Key(&'a str),
    /// Among those that are returned for every pod.
    Rest,
}

impl SelectorIndex {
    /// Adds a selector as `number`.
    pub fn add(&mut self, pods: &PodSelector, number: u32) {
        let PodSelector { selector, namespaces, namespace_selector } = pods;
        if namespace_selector.is_some() || namespaces.len() > NAMESPACES_MAX {
            return self.any.add(selector, number);
        }
        for (at, namespace) in namespaces.iter().enumerate() {
            if at == 0 || namespaces[at - 1] != *namespace {
                self.add_in(namespace, selector, number);
            }
        }
    }

    /// Adds a label selector for pods of one namespace as `number`.
    pub fn add_in(&mut self, namespace: &str, selector: &Selector, number: u32) {
        if !self.named.contains_key(namespace) {
            self.named.insert(namespace.into(), Bucket::default());
        }
        if let Some(bucket) = self.named.get_mut(namespace) {
            bucket.add(selector, number);
        }
    }

    /// `true` if the selectors match no pod at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.named.values().chain([&self.any]).all(Bucket::is_empty)
    }

    /// Calls `found` once for each selector that may match a pod with this namespace and these labels.
    pub fn candidates(&self, namespace: &str, labels: &Pairs, mut found: impl FnMut(u32)) {
        self.any.candidates(labels, &mut found);
        if let Some(bucket) = self.named.get(namespace) {
            bucket.candidates(labels, &mut found);
        }
    }
}

impl Bucket {
    fn add(&mut self, selector: &Selector, number: u32) {
        let Selector::All(requirements) = selector else { return };
        match self.choose_slot(requirements) {
            IndexSlot::Rest => self.rest.push(number),
            IndexSlot::Key(key) => self.by_key.entry(key.into()).or_default().push(number),
            IndexSlot::Values(one) => {
                let values = self.by_value.entry(one.key().into()).or_default();
                for value in one.values() {
                    let numbers = values.entry(value.into()).or_default();
                    // A requirement can list a value twice.
                    if numbers.last() != Some(&number) {
                        numbers.push(number);
                    }
                }
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.by_value.is_empty() && self.by_key.is_empty() && self.rest.is_empty()
    }

    /// Chooses the slot with the fewest selectors so far.
    fn choose_slot<'a>(&self, requirements: &'a [Requirement]) -> IndexSlot<'a> {
        let mut best = (usize::MAX, IndexSlot::Rest);
        for one in requirements.iter().take(REQUIREMENTS_MAX) {
            let named = |key: &str| self.by_key.get(key).map_or(0, Vec::len);
            let (count, slot) = match one.operator() {
                Operator::In | Operator::Equals | Operator::DoubleEquals
                    if one.values().len() <= VALUES_MAX =>
                {
                    let known = self.by_value.get(one.key());
                    let count = |value| known.and_then(|known| known.get(value)).map_or(0, Vec::len);
                    (one.values().map(count).sum(), IndexSlot::Values(one))
                }
                Operator::NotIn | Operator::NotEquals | Operator::DoesNotExist => continue,
                _ => (named(one.key()), IndexSlot::Key(one.key())),
            };
            if count < best.0 {
                best = (count, slot);
            }
        }
        best.1
    }

    fn candidates(&self, labels: &Pairs, found: &mut impl FnMut(u32)) {
        self.rest.iter().copied().for_each(&mut *found);
        if self.by_value.is_empty() && self.by_key.is_empty() {
            return;
        }
        for (key, value) in labels.iter() {
            let valued = self.by_value.get(key).and_then(|values| values.get(value));
            let keyed = self.by_key.get(key);
            valued.into_iter().chain(keyed).flatten().copied().for_each(&mut *found);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn selector() -> impl Strategy<Value = Selector> {
        let requirement =
            (0_u8..3, 0_u8..4, prop::collection::vec(0_u8..3, 1..3)).prop_map(|(key, sort, values)| {
                let operator = [Operator::In, Operator::NotIn, Operator::Exists, Operator::DoesNotExist]
                    [usize::from(sort)];
                let values: Vec<String> = values.iter().map(|value| format!("v{value}")).collect();
                let values = if sort < 2 { values } else { Vec::new() };
                Requirement::new(&format!("k{key}"), operator, &values).unwrap()
            });
        prop_oneof![
            9 => prop::collection::vec(requirement, 0..3).prop_map(Selector::new),
            1 => Just(Selector::Nothing),
        ]
    }

    proptest! {
        #[test]
        fn every_matching_selector_is_found_once(
            sets in prop::collection::vec((selector(), prop::collection::vec(0_u8..3, 0..3)), 0..20),
            labels in prop::collection::btree_map(0_u8..3, 0_u8..3, 0..3),
            namespace in 0_u8..3,
        ) {
            let names: Vec<(String, String)> =
                labels.iter().map(|(key, value)| (format!("k{key}"), format!("v{value}"))).collect();
            let pairs: Pairs = names.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            let namespace = format!("n{namespace}");
            let mut index = SelectorIndex::default();
            let mut expected = Vec::new();
            for (number, (selector, namespaces)) in sets.into_iter().enumerate() {
                let number = u32::try_from(number).unwrap();
                let mut named: Vec<Box<str>> = namespaces.iter().map(|one| format!("n{one}").into()).collect();
                named.sort_unstable();
                let namespace_selector = named.is_empty().then_some(Selector::EVERYTHING);
                let is_there = namespace_selector.is_some() || named.iter().any(|one| **one == *namespace);
                if is_there && selector.matches(|name| pairs.get(name)) {
                    expected.push(number);
                }
                index.add(&PodSelector { selector, namespaces: named, namespace_selector }, number);
            }
            let mut found = Vec::new();
            index.candidates(&namespace, &pairs, |number| found.push(number));
            found.sort_unstable();
            prop_assert!(found.windows(2).all(|two| two[0] != two[1]));
            prop_assert!(expected.iter().all(|number| found.contains(number)));
        }
    }
}
