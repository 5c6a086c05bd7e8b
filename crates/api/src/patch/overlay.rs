//! Laying fields over those of an object, without a search through all of them for each.

use std::collections::BTreeMap;

use compact_str::CompactString;

use crate::value::{Map, Value};

/// Up to this many fields on either side, looking at each is faster than an index.
const SCAN_LEN_MAX: usize = 32;

/// What becomes of a field.
pub(super) enum Fate {
    /// It stays, changed in place or not.
    Keep,
    /// It gets this value.
    Set(Value),
    /// It goes.
    Remove,
}

/// Asks for the fate of each of `keys`, which it is given with the value that the object has there.
pub(super) fn overlay<'p, T: Copy, E>(
    map: &mut Map,
    keys: impl ExactSizeIterator<Item = (&'p str, T)>,
    fate: impl FnMut(&str, Option<&mut Value>, T) -> Result<Fate, E>,
) -> Result<(), E> {
    if keys.len() <= SCAN_LEN_MAX || map.len() <= SCAN_LEN_MAX && keys.len() <= SCAN_LEN_MAX * SCAN_LEN_MAX {
        by_scan(map, keys, fate)
    } else {
        by_index(map, keys, fate)
    }
}

fn by_scan<'p, T: Copy, E>(
    map: &mut Map,
    keys: impl Iterator<Item = (&'p str, T)>,
    mut fate: impl FnMut(&str, Option<&mut Value>, T) -> Result<Fate, E>,
) -> Result<(), E> {
    for (key, with) in keys {
        match fate(key, map.get_mut(key), with)? {
            Fate::Keep => {}
            Fate::Set(value) => drop(map.insert(key, value)),
            // The patched object is decoded, which brings its fields into order.
            Fate::Remove => drop(map.swap_remove(key)),
        }
    }
    Ok(())
}

fn by_index<'p, T: Copy, E>(
    map: &mut Map,
    keys: impl Iterator<Item = (&'p str, T)>,
    mut fate: impl FnMut(&str, Option<&mut Value>, T) -> Result<Fate, E>,
) -> Result<(), E> {
    let mut slots: Vec<(CompactString, Option<Value>)> =
        std::mem::take(map).into_iter().map(|(key, value)| (key, Some(value))).collect();
    let mut index: BTreeMap<CompactString, usize> =
        slots.iter().enumerate().map(|(at, (key, _))| (key.clone(), at)).collect();
    for (key, with) in keys {
        let at = index.get(key).copied();
        match fate(key, at.and_then(|at| slots[at].1.as_mut()), with)? {
            Fate::Keep => {}
            Fate::Remove => {
                if let Some(at) = index.remove(key) {
                    slots[at].1 = None;
                }
            }
            Fate::Set(value) => match at {
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
