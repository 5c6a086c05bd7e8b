//! Inverted index of sets of pods: finds the sets that may hold a pod, by its namespace and labels.
//!
//! A set is found under one of its requirements: the one under which the fewest others are. So a set that asks for labels
//! which a pod does not have costs that pod nothing, however many such sets there are. Only sets that no requirement
//! tells apart (`NotIn`, `DoesNotExist`) are looked at for every pod of their namespaces.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use setpoint_api::labels::{Operator, Requirement, Selector};
use setpoint_reconcile::object::Pairs;

use crate::shape::Pods;

/// A set that names more namespaces than this is found from all of them.
const NAMESPACES_MAX: usize = 16;
/// A requirement with more values than this is found by the key alone.
const VALUES_MAX: usize = 16;
/// So many requirements of a set are looked at to find the most telling one.
const REQUIREMENTS_MAX: usize = 16;

/// Labels to look up many times: those of [`Pairs`] are found by going through them. They are sorted with the first look.
pub struct Labels<'a> {
    pairs: &'a Pairs,
    sorted: OnceCell<Vec<(&'a str, &'a str)>>,
}

impl<'a> Labels<'a> {
    /// The labels of an object.
    #[must_use]
    pub fn of(pairs: &'a Pairs) -> Labels<'a> {
        Labels { pairs, sorted: OnceCell::new() }
    }

    /// The value of a label.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a str> {
        let sorted = self.sorted.get_or_init(|| self.pairs.iter().collect());
        let found = sorted.binary_search_by(|(other, _)| (*other).cmp(name)).ok()?;
        Some(sorted[found].1)
    }
}

/// Sets of pods of one namespace, or of any.
#[derive(Clone, Debug, Default)]
struct Bucket {
    by_value: BTreeMap<Box<str>, BTreeMap<Box<str>, Vec<u32>>>,
    by_key: BTreeMap<Box<str>, Vec<u32>>,
    rest: Vec<u32>,
}

/// Sets of pods by what they ask for.
#[derive(Clone, Debug, Default)]
pub struct SetIndex {
    /// By namespace.
    named: BTreeMap<Box<str>, Bucket>,
    /// Of namespaces that are not named.
    any: Bucket,
}

/// Where a set is found within a bucket.
enum Place<'a> {
    Values(&'a Requirement),
    Key(&'a str),
    Rest,
}

impl SetIndex {
    /// Adds a set of pods.
    pub fn add(&mut self, pods: &Pods, number: u32) {
        let Pods { selector, namespaces, of_namespaces } = pods;
        if of_namespaces.is_some() || namespaces.len() > NAMESPACES_MAX {
            return self.any.add(selector, number);
        }
        for (at, namespace) in namespaces.iter().enumerate() {
            if at == 0 || namespaces[at - 1] != *namespace {
                self.add_in(namespace, selector, number);
            }
        }
    }

    /// Adds a set of pods of one namespace.
    pub fn add_in(&mut self, namespace: &str, selector: &Selector, number: u32) {
        if !self.named.contains_key(namespace) {
            self.named.insert(namespace.into(), Bucket::default());
        }
        if let Some(bucket) = self.named.get_mut(namespace) {
            bucket.add(selector, number);
        }
    }

    /// `true` if no pod can be in any of the sets.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.named.values().chain([&self.any]).all(Bucket::is_empty)
    }

    /// Calls back with the sets that may hold a pod of a namespace with these labels, each once.
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
        match self.place(requirements) {
            Place::Rest => self.rest.push(number),
            Place::Key(key) => self.by_key.entry(key.into()).or_default().push(number),
            Place::Values(one) => {
                let values = self.by_value.entry(one.key().into()).or_default();
                for value in one.values() {
                    let numbers = values.entry(value.into()).or_default();
                    // A value may be named twice.
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

    /// The requirement under which the fewest sets are found.
    fn place<'a>(&self, requirements: &'a [Requirement]) -> Place<'a> {
        let mut best = (usize::MAX, Place::Rest);
        for one in requirements.iter().take(REQUIREMENTS_MAX) {
            let named = |key: &str| self.by_key.get(key).map_or(0, Vec::len);
            let (count, place) = match one.operator() {
                Operator::In | Operator::Equals | Operator::DoubleEquals
                    if one.values().len() <= VALUES_MAX =>
                {
                    let known = self.by_value.get(one.key());
                    let count = |value| known.and_then(|known| known.get(value)).map_or(0, Vec::len);
                    (one.values().map(count).sum(), Place::Values(one))
                }
                Operator::NotIn | Operator::NotEquals | Operator::DoesNotExist => continue,
                _ => (named(one.key()), Place::Key(one.key())),
            };
            if count < best.0 {
                best = (count, place);
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
        fn every_set_that_holds_a_pod_is_found_once(
            sets in prop::collection::vec((selector(), prop::collection::vec(0_u8..3, 0..3)), 0..20),
            labels in prop::collection::btree_map(0_u8..3, 0_u8..3, 0..3),
            namespace in 0_u8..3,
        ) {
            let names: Vec<(String, String)> =
                labels.iter().map(|(key, value)| (format!("k{key}"), format!("v{value}"))).collect();
            let pairs: Pairs = names.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            let namespace = format!("n{namespace}");
            let mut index = SetIndex::default();
            let mut expected = Vec::new();
            for (number, (selector, namespaces)) in sets.into_iter().enumerate() {
                let number = u32::try_from(number).unwrap();
                let mut named: Vec<Box<str>> = namespaces.iter().map(|one| format!("n{one}").into()).collect();
                named.sort_unstable();
                let of_namespaces = named.is_empty().then_some(Selector::EVERYTHING);
                let is_there = of_namespaces.is_some() || named.iter().any(|one| **one == *namespace);
                if is_there && selector.matches(|name| pairs.get(name)) {
                    expected.push(number);
                }
                index.add(&Pods { selector, namespaces: named, of_namespaces }, number);
            }
            let mut found = Vec::new();
            index.candidates(&namespace, &pairs, |number| found.push(number));
            found.sort_unstable();
            prop_assert!(found.windows(2).all(|two| two[0] != two[1]));
            prop_assert!(expected.iter().all(|number| found.contains(number)));
        }
    }
}
