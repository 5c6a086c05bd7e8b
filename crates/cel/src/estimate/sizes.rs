//! Bounds of values that are reached from a variable by fields, items, keys and values.

use std::sync::Arc;

use super::SizeEstimate;
use crate::decl::{Decl, DeclKind};
use crate::types::find_declared_field;

/// Items of a list in a path.
pub(super) const ITEMS: &str = "@items";
/// Values of a map in a path.
pub(super) const VALUES: &str = "@values";
/// Keys of a map in a path.
pub(super) const KEYS: &str = "@keys";
/// Indexes of a list in a path.
pub(super) const INDICES: &str = "@indices";

/// Longest timestamp in JSON with its quotation marks, in bytes.
const DATETIME_BYTES_MAX: u64 = 32;
/// Length of a date in JSON with its quotation marks, in bytes.
const DATE_BYTES: u64 = 12;
/// Longest duration in JSON, in bytes.
const DURATION_BYTES_MAX: u64 = 32;
/// Size of a value without a bound.
const UNBOUNDED: u64 = i64::MAX as u64;

/// Path from a variable to a value; empty if the value is not reached from a variable.
#[derive(Clone, Debug, Default)]
pub(super) struct Path(Option<Arc<Step>>);

#[derive(Debug)]
struct Step {
    before: Path,
    name: Box<str>,
}

impl Path {
    pub(super) fn then(&self, name: &str) -> Path {
        Path(Some(Arc::new(Step { before: self.clone(), name: name.into() })))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the names from the variable on.
    fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        let mut next = self;
        while let Some(step) = &next.0 {
            names.push(&*step.name);
            next = &step.before;
        }
        names.reverse();
        names
    }

    /// Returns the variable.
    pub(super) fn first(&self) -> Option<&str> {
        self.names().first().copied()
    }
}

/// Returns the size of the value at a path from `root`, whatever the name of the variable.
pub(super) fn declared_size(root: Option<&Decl>, path: &Path) -> Option<SizeEstimate> {
    let names = path.names();
    let (_, rest) = names.split_first()?;
    let mut max = max_elements(root?);
    let mut decl = root;
    for name in rest {
        let next = match (&decl?.kind, *name) {
            (DeclKind::List { item, .. }, ITEMS | VALUES) => Some(&**item),
            (DeclKind::Map { value, .. }, ITEMS | VALUES) => Some(&**value),
            (DeclKind::Map { key_size_max, .. }, KEYS) => {
                max = *key_size_max;
                decl = None;
                continue;
            }
            // Attributes have the same bound whatever their names.
            (DeclKind::Map { value, .. }, _) if value.kind == DeclKind::Any => Some(&**value),
            (DeclKind::Object(object), field) => Some(&find_declared_field(object, field)?.decl),
            _ => return None,
        };
        max = next.map_or(0, max_elements);
        decl = next;
    }
    Some(SizeEstimate { min: 0, max })
}

/// Returns the bound of a declaration. Numbers, booleans and objects have none in Kubernetes, which is 0.
fn max_elements(decl: &Decl) -> u64 {
    decl.max_elements.unwrap_or(match decl.kind {
        DeclKind::Bool | DeclKind::Int | DeclKind::Double | DeclKind::Quantity | DeclKind::Object(_) => 0,
        DeclKind::Timestamp => DATETIME_BYTES_MAX,
        DeclKind::Date => DATE_BYTES,
        DeclKind::Duration => DURATION_BYTES_MAX,
        _ => UNBOUNDED,
    })
}
