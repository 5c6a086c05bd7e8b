//! Atomic values of a configuration, which mutations of admission policies may not set.

use super::types::{Atom, Level, MergeType, Type};
use crate::value::Value;

/// Paths of the atomic lists, maps and structs that a valid configuration sets, as upstream prints them.
#[must_use]
pub fn atomic_paths<'a>(config: &Value, schema: impl Into<MergeType<'a>>) -> Vec<String> {
    let mut found = Vec::new();
    collect(config, schema.into().root(), &mut String::new(), Level::Root, &mut found);
    found
}

fn collect(value: &Value, ty: Type<'_>, path: &mut String, level: Level, found: &mut Vec<String>) {
    let atom = ty.atom(Some(value));
    let length = path.len();
    match (atom, value) {
        (Atom::Struct { atomic, .. } | Atom::Map { atomic, .. }, Value::Map(map)) => {
            if atomic {
                found.push(path.clone());
            }
            for (key, field) in map.iter().filter(|(key, _)| !level.is_skipped(key)) {
                // Upstream descends into declared fields only.
                if let (Atom::Struct { .. }, Some((ty, _))) = (atom, atom.field(key)) {
                    path.push('.');
                    path.push_str(key);
                    collect(field, ty, path, level.of_field(key), found);
                    path.truncate(length);
                }
            }
        }
        (Atom::List(items), Value::List(list)) => {
            if items.is_atomic() {
                found.push(path.clone());
            }
            for (index, item) in list.iter().enumerate() {
                path.push_str(&format!("[{index}]"));
                collect(item, items.of, path, Level::Inner, found);
                path.truncate(length);
            }
        }
        _ => {}
    }
}
