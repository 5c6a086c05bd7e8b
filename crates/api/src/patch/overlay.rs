//! Overlay of fields onto an object, without a search through all of its fields for each.

use std::collections::BTreeMap;

use compact_str::CompactString;

use crate::value::{Map, Value};

/// Maximum number of fields on either side for which a linear scan is faster than an index.
const SCAN_LEN_MAX: usize = 32;

/// Action on a field.
pub(super) enum FieldAction {
    /// Keep the field, possibly modified in place.
    Keep,
    /// Set this value.
    Set(Value),
    /// Remove the field.
    Remove,
}

/// Calls `decide` for each of `keys` with the current value, and applies the action.
pub(super) fn overlay<'p, T: Copy, E>(
    map: &mut Map,
    keys: impl ExactSizeIterator<Item = (&'p str, T)>,
    decide: impl FnMut(&str, Option<&mut Value>, T) -> Result<FieldAction, E>,
) -> Result<(), E> {
    if keys.len() <= SCAN_LEN_MAX || map.len() <= SCAN_LEN_MAX && keys.len() <= SCAN_LEN_MAX * SCAN_LEN_MAX {
        by_scan(map, keys, decide)
    } else {
        by_index(map, keys, decide)
    }
}

fn by_scan<'p, T: Copy, E>(
    map: &mut Map,
    keys: impl Iterator<Item = (&'p str, T)>,
    mut decide: impl FnMut(&str, Option<&mut Value>, T) -> Result<FieldAction, E>,
) -> Result<(), E> {
    for (key, with) in keys {
        match decide(key, map.get_mut(key), with)? {
            FieldAction::Keep => {}
            FieldAction::Set(value) => drop(map.insert(key, value)),
            // The patched object is decoded, which sorts its fields.
            FieldAction::Remove => drop(map.swap_remove(key)),
        }
    }
    Ok(())
}

fn by_index<'p, T: Copy, E>(
    map: &mut Map,
    keys: impl Iterator<Item = (&'p str, T)>,
    mut decide: impl FnMut(&str, Option<&mut Value>, T) -> Result<FieldAction, E>,
) -> Result<(), E> {
    let mut slots: Vec<(CompactString, Option<Value>)> =
        std::mem::take(map).into_iter().map(|(key, value)| (key, Some(value))).collect();
    let mut index: BTreeMap<CompactString, usize> =
        slots.iter().enumerate().map(|(at, (key, _))| (key.clone(), at)).collect();
    for (key, with) in keys {
        let at = index.get(key).copied();
        match decide(key, at.and_then(|at| slots[at].1.as_mut()), with)? {
            FieldAction::Keep => {}
            FieldAction::Remove => {
                if let Some(at) = index.remove(key) {
                    slots[at].1 = None;
                }
            }
            FieldAction::Set(value) => match at {
                Some(at) => slots[at].1 = Some(value),
                None => {
                    index.insert(key.into(), slots.len());
                    slots.push((key.into(), Some(value)));
                }
            },
        }
    }
    *map = slots.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
    Ok(())
}
