//! Field set of an object, and schema validation of an applied configuration.
//!
//! A struct is not a member of the set, but every leaf, every key of a map and every item of a list is. Empty
//! and null values are members too; otherwise they would leave no trace.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::LazyLock;

use super::element::Element;
use super::field_set::{FieldPath, FieldSet, SetNode};
use super::types::{Atom, Items, MergeType, Scalar, Type};
use crate::go_format::{self, GoLiteral, GoValue};
use crate::value::{Map, Value};

#[cfg(test)]
mod tests;

/// Maximum number of items for which duplicates are found by pairwise comparison.
const PAIRWISE_LEN_MAX: usize = 16;

/// A violation of the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Path of the violation.
    pub path: String,
    /// Description of the violation.
    pub message: String,
}

/// All violations of a configuration, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violations(pub Vec<Violation>);

/// Paths of an object of a kind.
#[must_use]
pub fn paths<'a>(object: &Value, schema: impl Into<MergeType<'a>>) -> FieldSet {
    below(object, schema.into().root()).1
}

/// Fields that never have a manager: those that identify the object, and those that only the server sets.
#[must_use]
pub fn unowned() -> &'static FieldSet {
    static UNOWNED: LazyLock<FieldSet> = LazyLock::new(|| {
        let of_metadata = [
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "clusterName",
            "generation",
            "managedFields",
            "resourceVersion",
        ];
        let mut set = FieldSet::new();
        for name in ["apiVersion", "kind", "metadata"] {
            set.insert(&FieldPath::from_fields(&[name]));
        }
        for name in of_metadata {
            set.insert(&FieldPath::from_fields(&["metadata", name]));
        }
        set
    });
    &UNOWNED
}

/// `true` if a value is a leaf, and the paths below it.
fn below(value: &Value, ty: Type<'_>) -> (bool, FieldSet) {
    let atom = ty.atom(Some(value));
    match (atom, value) {
        (Atom::Struct { atomic: false, .. } | Atom::Map { atomic: false, .. }, Value::Map(map)) => {
            (false, from_fields(map, atom))
        }
        (Atom::List(items), Value::List(list)) if !items.is_atomic() => (false, of_items(list, items)),
        (Atom::Struct { atomic: false, .. } | Atom::Map { atomic: false, .. }, _) => (false, FieldSet::new()),
        (Atom::List(items), _) if !items.is_atomic() => (false, FieldSet::new()),
        _ => (true, FieldSet::new()),
    }
}

fn from_fields(map: &Map, atom: Atom<'_>) -> FieldSet {
    let mut nodes = Vec::with_capacity(map.len());
    for (key, value) in map.iter() {
        let (member, below) = match value {
            Value::List(_) | Value::Map(_) => {
                let (ty, known) = atom.field(key).unwrap_or((Type::Deduced, false));
                let (leaf, below) = below(value, ty);
                (leaf || !known || value.as_map().is_some_and(Map::is_empty), below)
            }
            // Scalars are leaves, whatever the type.
            _ => (true, FieldSet::new()),
        };
        if member || !below.is_empty() {
            nodes.push(SetNode { element: Element::field(key), member, below });
        }
    }
    FieldSet::from_nodes(nodes)
}

fn of_items(list: &[Value], items: Items<'_>) -> FieldSet {
    let mut found: Vec<(Element, usize)> = Vec::with_capacity(list.len());
    found.extend(list.iter().enumerate().filter_map(|(at, item)| Some((items.element(item).ok()?, at))));
    if !found.is_sorted_by(|a, b| a.0 < b.0) {
        found.sort_unstable();
    }
    let mut nodes = Vec::with_capacity(found.len());
    let mut found = found.into_iter().peekable();
    while let Some((element, at)) = found.next() {
        let mut duplicate = false;
        while found.next_if(|(next, _)| *next == element).is_some() {
            duplicate = true;
        }
        // Fields of items with duplicate keys cannot be attributed, so only the key is owned.
        let below = if duplicate { FieldSet::new() } else { below(&list[at], items.of).1 };
        nodes.push(SetNode { element, member: true, below });
    }
    FieldSet::from_nodes(nodes)
}

/// Makes every known field that is a prefix of a path of the set a member too.
pub(super) fn ensure_fields<'a>(set: &mut FieldSet, schema: impl Into<MergeType<'a>>) {
    ensure_below(set, schema.into().root());
}

fn ensure_below(set: &mut FieldSet, ty: Type<'_>) {
    let atom = ty.atom(None);
    for node in set.nodes_mut() {
        if node.below.is_empty() {
            continue;
        }
        if let Element::Field(name) = &node.element {
            node.member |= atom.field(name).is_some_and(|(_, known)| known);
        }
        if let Some(ty) = atom.behind(&node.element) {
            ensure_below(&mut node.below, ty);
        }
    }
}

/// Converts a set that was stored under an older schema: of a value that has become atomic, only the value
/// itself is owned. `true` if anything changed.
pub(super) fn reconcile<'a>(set: &mut FieldSet, schema: impl Into<MergeType<'a>>) -> bool {
    reconcile_below(set, schema.into().root())
}

fn reconcile_below(set: &mut FieldSet, ty: Type<'_>) -> bool {
    let atom = ty.atom(None);
    let mut changed = false;
    for node in set.nodes_mut() {
        if node.below.is_empty() {
            continue;
        }
        let Some(ty) = atom.behind(&node.element) else { continue };
        let whole = match ty.atom(None) {
            Atom::Struct { atomic, .. } | Atom::Map { atomic, .. } => atomic,
            Atom::List(items) => items.is_atomic(),
            Atom::Scalar(_) => continue,
        };
        if whole {
            node.member = true;
            node.below = FieldSet::new();
            changed = true;
        } else {
            changed |= reconcile_below(&mut node.below, ty);
        }
    }
    changed
}

/// Validates a configuration: every field is known and of the right type, and list items have unique keys.
///
/// # Errors
/// All violations, with the texts of upstream.
pub fn validate<'a>(config: &Value, schema: impl Into<MergeType<'a>>) -> Result<(), Violations> {
    let mut found = Vec::new();
    check(config, schema.into().root(), &mut found);
    if found.is_empty() { Ok(()) } else { Err(Violations(found)) }
}

fn check(value: &Value, ty: Type<'_>, found: &mut Vec<Violation>) {
    let atom = ty.atom(Some(value));
    match (atom, value) {
        // A raw value was written by this crate and is valid.
        (_, Value::Null | Value::Raw(_)) => {}
        (Atom::Struct { .. } | Atom::Map { .. }, Value::Map(map)) => check_fields(map, atom, found),
        (Atom::List(items), Value::List(list)) => check_items(list, items, found),
        (Atom::Struct { .. } | Atom::Map { .. }, other) => {
            found.push(violation(format!("expected map, got &{{{}}}", GoValue(other))));
        }
        (Atom::List(_), other) => {
            found.push(violation(format!("expected list, got &{{{}}}", GoValue(other))));
        }
        (Atom::Scalar(scalar), _) => found.extend(check_scalar(scalar, value).map(violation)),
    }
}

fn check_scalar(scalar: Scalar, value: &Value) -> Option<String> {
    match (scalar, value) {
        (Scalar::Numeric, Value::Int(_) | Value::Float(_))
        | (Scalar::String, Value::Str(_))
        | (Scalar::Boolean, Value::Bool(_))
        | (Scalar::Any, Value::Int(_) | Value::Float(_) | Value::Str(_) | Value::Bool(_)) => None,
        (Scalar::Numeric, _) => {
            Some(format!("expected numeric (int or float), got {}", go_format::type_name(value)))
        }
        (Scalar::String, _) => {
            Some(format!("expected string, got &value.valueUnstructured{{Value:{}}}", GoLiteral(value)))
        }
        (Scalar::Boolean, _) => Some(format!("expected boolean, got &{{{}}}", GoValue(value))),
        (Scalar::Any, _) => Some(format!("expected any scalar, got &{{{}}}", GoValue(value))),
    }
}

fn check_fields(map: &Map, atom: Atom<'_>, found: &mut Vec<Violation>) {
    for (key, value) in map.iter() {
        let first = found.len();
        let Some((ty, _)) = atom.field(key) else {
            found.push(violation("field not declared in schema".to_owned()));
            prefix(&mut found[first..], &Element::field(key));
            return;
        };
        check(value, ty, found);
        if found.len() > first {
            prefix(&mut found[first..], &Element::field(key));
        }
    }
}

fn check_items(list: &[Value], items: Items<'_>, found: &mut Vec<Violation>) {
    let mut seen = Seen::default();
    for (at, item) in list.iter().enumerate() {
        let element = if items.is_atomic() {
            Element::Index(i64::try_from(at).unwrap_or(i64::MAX))
        } else {
            match items.element(item) {
                Ok(element) => element,
                Err(error) => {
                    found.push(violation(format!("element {at}: {error}")));
                    return;
                }
            }
        };
        if !items.is_atomic() && seen.has(&element) {
            found.push(violation(format!("duplicate entries for key {element}")));
        }
        let first = found.len();
        check(item, items.of, found);
        if found.len() > first {
            prefix(&mut found[first..], &element);
        }
        if !items.is_atomic() {
            seen.add(element);
        }
    }
}

/// Elements of a list seen so far.
#[derive(Default)]
struct Seen {
    few: Vec<Element>,
    many: BTreeSet<Element>,
}

impl Seen {
    fn has(&self, element: &Element) -> bool {
        self.few.contains(element) || self.many.contains(element)
    }

    fn add(&mut self, element: Element) {
        if self.few.len() < PAIRWISE_LEN_MAX {
            self.few.push(element);
        } else {
            self.many.insert(element);
        }
    }
}

fn violation(message: String) -> Violation {
    Violation { path: String::new(), message }
}

fn prefix(found: &mut [Violation], element: &Element) {
    for violation in found {
        violation.path.insert_str(0, &element.to_string());
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return only.fmt(f);
        }
        f.write_str("errors:")?;
        self.0.iter().try_for_each(|violation| write!(f, "\n  {violation}"))
    }
}

impl std::error::Error for Violations {}
