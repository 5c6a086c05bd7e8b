//! Path filter: fields that a write through an endpoint can own.
//!
//! A write through one endpoint cannot change the fields of another: an update of the object leaves `status`
//! alone, an update of the status leaves `spec`. Such paths never get a manager from that write.

use super::compare::Comparison;
use super::element::Element;
use super::field_set::{FieldPath, FieldSet};

/// Paths that a write can own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// All except these, with everything below them.
    Exclude(FieldSet),
    /// Only paths that match a pattern, on the way to its end and below it.
    Include(Vec<Pattern>),
}

/// A path with wildcards, which are `None`.
pub type Pattern = Vec<Option<Element>>;

impl Filter {
    /// Creates a filter that excludes paths of fields, as in `status` or `metadata.name`.
    #[must_use]
    pub fn exclude(paths: &[&str]) -> Filter {
        let paths: Vec<FieldPath> =
            paths.iter().map(|path| FieldPath::from_fields(&path.split('.').collect::<Vec<_>>())).collect();
        Filter::Exclude(FieldSet::from_paths(&paths))
    }

    /// Creates a filter that includes paths of fields, as in `spec.containers.*.resources`.
    #[must_use]
    pub fn include(patterns: &[&str]) -> Filter {
        let step = |name: &str| (name != "*").then(|| Element::field(name));
        Filter::Include(patterns.iter().map(|pattern| pattern.split('.').map(step).collect()).collect())
    }

    /// Excluded trees, if the filter excludes.
    #[must_use]
    pub fn excluded(&self) -> Option<&FieldSet> {
        match self {
            Filter::Exclude(paths) => Some(paths),
            Filter::Include(_) => None,
        }
    }

    /// Removes filtered paths from a set.
    pub fn apply(&self, set: &mut FieldSet) {
        match self {
            Filter::Exclude(paths) => set.subtract_trees(paths),
            Filter::Include(patterns) => {
                include(set, &patterns.iter().map(Vec::as_slice).collect::<Vec<_>>());
            }
        }
    }

    /// Removes filtered paths from a comparison.
    pub fn apply_to(&self, comparison: &mut Comparison) {
        self.apply(&mut comparison.removed);
        self.apply(&mut comparison.modified);
        self.apply(&mut comparison.added);
    }
}

fn include(set: &mut FieldSet, patterns: &[&[Option<Element>]]) {
    set.retain(|node| {
        let mut rests = Vec::new();
        for pattern in patterns {
            let Some((first, rest)) = pattern.split_first() else { return true };
            if first.as_ref().is_none_or(|first| *first == node.element) {
                rests.push(rest);
            }
        }
        if rests.is_empty() {
            return false;
        }
        if !rests.iter().any(|rest| rest.is_empty()) {
            include(&mut node.below, &rests);
        }
        node.member || !node.below.is_empty()
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn set(text: &str) -> FieldSet {
        FieldSet::from_value(&json::parse(text.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn exclude_removes_whole_trees() {
        let filter = Filter::exclude(&["status", "metadata.labels"]);
        let mut fields = set(
            r#"{"f:metadata":{"f:annotations":{"f:a":{}},"f:labels":{".":{},"f:a":{}}},"f:spec":{},"f:status":{"f:a":{"f:b":{}}}}"#,
        );
        filter.apply(&mut fields);
        assert_eq!(fields, set(r#"{"f:metadata":{"f:annotations":{"f:a":{}}},"f:spec":{}}"#));
    }

    #[test]
    fn include_keeps_matching_paths() {
        let filter = Filter::include(&["spec.containers.*.resources", "spec.containers.*.resizePolicy"]);
        let mut fields = set(
            r#"{"f:metadata":{"f:labels":{}},"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:image":{},"f:resizePolicy":{},"f:resources":{"f:limits":{"f:cpu":{}}}}},"f:hostname":{}}}"#,
        );
        filter.apply(&mut fields);
        assert_eq!(
            fields,
            set(
                r#"{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:resizePolicy":{},"f:resources":{"f:limits":{"f:cpu":{}}}}}}}"#
            )
        );
    }
}
