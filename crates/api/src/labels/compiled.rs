//! Label selectors compiled for matching many objects: requirements merged by key, values sorted.
//!
//! A [`Selector`] keeps its requirements as the client wrote them. A [`CompiledSelector`] has one rule per
//! key and reads the labels of an object once: O(labels × log(keys + values)) for any number of requirements.
//! Contradicting requirements are detected at compilation, and the compiled selector then selects nothing.

use super::{Operator, Requirement, Selector};

/// A compiled label selector.
#[derive(Clone, Debug)]
pub struct CompiledSelector {
    /// Rules sorted by key; `None` if nothing is selected.
    rules: Vec<KeyRule>,
    /// Number of rules whose label must exist.
    required: usize,
    is_nothing: bool,
}

/// All requirements on one label.
#[derive(Clone, Debug)]
struct KeyRule {
    key: Box<str>,
    is_required: bool,
    is_forbidden: bool,
    /// Sorted values of which the label must have one.
    allowed: Option<Vec<Box<str>>>,
    /// Sorted values that the label must not have.
    denied: Vec<Box<str>>,
    /// Exclusive lower bound for an integer label.
    above: Option<i64>,
    /// Exclusive upper bound for an integer label.
    below: Option<i64>,
}

impl KeyRule {
    fn new(requirements: &[Requirement]) -> Option<KeyRule> {
        let key = requirements.first()?.key.clone();
        let mut rule = KeyRule {
            key,
            is_required: false,
            is_forbidden: false,
            allowed: None,
            denied: Vec::new(),
            above: None,
            below: None,
        };
        for requirement in requirements {
            rule.add(requirement)?;
        }
        rule.denied.sort_unstable();
        rule.denied.dedup();
        if let Some(mut allowed) = rule.allowed.take() {
            allowed.retain(|value| rule.allows(value));
            rule.allowed = Some(allowed);
        }
        let is_empty = rule.allowed.as_ref().is_some_and(Vec::is_empty);
        let is_contradictory = rule.is_required && rule.is_forbidden;
        (!is_empty && !is_contradictory).then_some(rule)
    }

    /// Adds a requirement; `None` if the rule can no longer be met.
    fn add(&mut self, requirement: &Requirement) -> Option<()> {
        let operator = requirement.operator;
        self.is_required |=
            !matches!(operator, Operator::NotIn | Operator::NotEquals | Operator::DoesNotExist);
        match operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => {
                let mut values = requirement.values.clone();
                values.sort_unstable();
                match &mut self.allowed {
                    // Both are sorted; the intersection is no longer than either.
                    Some(allowed) => allowed.retain(|value| values.binary_search(value).is_ok()),
                    None => self.allowed = Some(values),
                }
            }
            Operator::NotIn | Operator::NotEquals => self.denied.extend(requirement.values.iter().cloned()),
            Operator::Exists => {}
            Operator::DoesNotExist => self.is_forbidden = true,
            Operator::GreaterThan => self.above = self.above.max(Some(requirement.bound()?)),
            Operator::LessThan => {
                let bound = requirement.bound()?;
                self.below = Some(self.below.map_or(bound, |below| below.min(bound)));
            }
        }
        Some(())
    }

    fn allows(&self, value: &str) -> bool {
        let is_in = |values: &[Box<str>]| values.binary_search_by(|one| (**one).cmp(value)).is_ok();
        let is_within = || {
            value.parse::<i64>().is_ok_and(|number| {
                self.above.is_none_or(|above| number > above) && self.below.is_none_or(|below| number < below)
            })
        };
        !self.is_forbidden
            && self.allowed.as_deref().is_none_or(is_in)
            && !is_in(&self.denied)
            && ((self.above.is_none() && self.below.is_none()) || is_within())
    }
}

impl CompiledSelector {
    /// Compiles a selector.
    #[must_use]
    pub fn new(selector: &Selector) -> CompiledSelector {
        let nothing = CompiledSelector { rules: Vec::new(), required: 0, is_nothing: true };
        let Selector::All(requirements) = selector else { return nothing };
        let mut sorted = requirements.clone();
        sorted.sort_by(|a, b| a.key.cmp(&b.key));
        let rules = sorted.chunk_by(|a, b| a.key == b.key).map(KeyRule::new).collect::<Option<Vec<_>>>();
        let Some(rules) = rules else { return nothing };
        let required = rules.iter().filter(|rule| rule.is_required).count();
        CompiledSelector { rules, required, is_nothing: false }
    }

    /// `true` if every object is selected.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        !self.is_nothing && self.rules.is_empty()
    }

    /// `true` if an object with these labels is selected. Keys must be unique.
    pub fn matches<'a>(&self, labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> bool {
        if self.is_nothing {
            return false;
        }
        if self.rules.is_empty() {
            return true;
        }
        let mut missing = self.required;
        for (key, value) in labels {
            let Ok(at) = self.rules.binary_search_by(|rule| (*rule.key).cmp(key)) else { continue };
            let rule = &self.rules[at];
            if !rule.allows(value) {
                return false;
            }
            missing -= usize::from(rule.is_required);
        }
        missing == 0
    }
}
