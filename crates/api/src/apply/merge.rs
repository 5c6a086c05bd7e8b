//! Merge of an applied configuration into an object, and removal of paths.
//!
//! Merging removes nothing: leaves come from the configuration if it has them, else from the object. List
//! items that both have take the order of the configuration; the others keep their position among them.
//! Removal is a separate step, [`remove`], by a set of paths.

use super::element::Element;
use super::field_set::FieldSet;
use super::types::{Atom, Items, Level, MergeType, Type, zip};
use crate::value::{Map, Value};

#[cfg(test)]
mod tests;

/// Maximum number of items for which a lookup is a linear scan.
const LINEAR_LEN_MAX: usize = 8;

/// Merges a configuration into an object of the same kind, except `metadata.managedFields`. The configuration
/// is valid, so its lists have unique keys.
#[must_use]
pub fn merge<'a>(live: &Value, config: &Value, schema: impl Into<MergeType<'a>>) -> Value {
    merge_value(live, config, schema.into().root(), Level::Root)
}

fn merge_value(live: &Value, config: &Value, ty: Type<'_>, level: Level) -> Value {
    let atom = ty.atom(Some(config));
    match atom {
        Atom::Struct { atomic: false, .. } | Atom::Map { atomic: false, .. } => {
            match (live.as_map(), config.as_map()) {
                (Some(live), Some(config)) if !live.is_empty() || !config.is_empty() => {
                    merge_fields(live, config, atom, level)
                }
                (Some(map), None) if !map.is_empty() => live.clone(),
                _ => config.clone(),
            }
        }
        Atom::List(items) if !items.is_atomic() => match (live.as_list(), config.as_list()) {
            (Some(live), Some(config)) if !live.is_empty() && !config.is_empty() => {
                Value::List(merge_items(live, config, items))
            }
            (Some(list), _) if !list.is_empty() => live.clone(),
            _ => config.clone(),
        },
        _ => config.clone(),
    }
}

fn merge_fields(live: &Map, config: &Map, atom: Atom<'_>, level: Level) -> Value {
    let mut entries = Vec::with_capacity(live.len().max(config.len()));
    zip(live, config, |key, live, config| {
        if level.is_skipped(key) {
            return;
        }
        let merged = match (live, config) {
            // A scalar replaces the value, whatever the type.
            (_, Some(config @ (Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Str(_)))) => {
                config.clone()
            }
            (Some(live), Some(config)) => {
                let ty = atom.field(key).map_or(Type::Deduced, |(ty, _)| ty);
                merge_value(live, config, ty, level.of_field(key))
            }
            (Some(only), None) | (None, Some(only)) => only.clone(),
            (None, None) => return,
        };
        entries.push((key.into(), merged));
    });
    Value::Map(Map::from_unique(entries))
}

/// Index of the elements of a list.
struct ElementIndex<'e> {
    elements: &'e [Element],
    /// Indexes sorted by element, for a long list.
    sorted: Vec<usize>,
}

impl<'e> ElementIndex<'e> {
    fn new(elements: &'e [Element]) -> ElementIndex<'e> {
        let mut sorted = Vec::new();
        if elements.len() > LINEAR_LEN_MAX {
            sorted.extend(0..elements.len());
            sorted.sort_by(|a, b| elements[*a].cmp(&elements[*b]));
        }
        ElementIndex { elements, sorted }
    }

    /// Position of an element, or `Several` if it is repeated; `None` if it does not occur.
    fn find(&self, element: &Element) -> Option<ItemPosition> {
        let (first, several) = if self.sorted.is_empty() {
            let mut places = (0..self.elements.len()).filter(|at| self.elements[*at] == *element);
            (places.next()?, places.next().is_some())
        } else {
            let from = self.sorted.partition_point(|at| self.elements[*at] < *element);
            let is_there = |at: usize| self.sorted.get(at).is_some_and(|at| self.elements[*at] == *element);
            if !is_there(from) {
                return None;
            }
            (self.sorted[from], is_there(from + 1))
        };
        Some(if several { ItemPosition::Several } else { ItemPosition::One(first) })
    }
}

#[derive(Clone, Copy)]
enum ItemPosition {
    One(usize),
    Several,
}

/// Merges two lists whose items are identified by `items`.
fn merge_items(live: &[Value], config: &[Value], items: Items<'_>) -> Vec<Value> {
    let (Ok(lefts), Ok(rights)) = (items.elements(live), items.elements(config)) else {
        // The configuration is valid; a live list whose items cannot be identified is replaced.
        return config.to_vec();
    };
    if lefts == rights {
        // Both lists usually have the same items in the same order.
        let pairs = live.iter().zip(config);
        return pairs.map(|(live, config)| merge_value(live, config, items.of, Level::Inner)).collect();
    }
    let (in_live, in_config) = (ElementIndex::new(&lefts), ElementIndex::new(&rights));
    let take = |right: usize| match in_live.find(&rights[right]) {
        Some(ItemPosition::One(left)) => merge_value(&live[left], &config[right], items.of, Level::Inner),
        // An item with a duplicate key is not merged.
        Some(ItemPosition::Several) | None => config[right].clone(),
    };
    let mut shared = rights.iter().filter(|element| in_live.find(element).is_some());
    let mut next_shared = shared.next();
    let mut merged = vec![false; rights.len()];
    let mut out = Vec::with_capacity(live.len().max(config.len()));
    let (mut left, mut right) = (0, 0);
    while left < lefts.len() || right < rights.len() {
        if left < lefts.len() {
            let element = &lefts[left];
            let place = match in_config.find(element) {
                Some(ItemPosition::One(at)) => Some(at),
                _ => None,
            };
            if right < rights.len() {
                if place == Some(right) {
                    out.push(take(right));
                    merged[right] = true;
                    (left, right) = (left + 1, right + 1);
                    next_shared = shared.next();
                    continue;
                }
                // A shared item out of turn: it is emitted at its position in the configuration.
                if place.is_some() && next_shared.is_some_and(|next| next != element) {
                    left += 1;
                    continue;
                }
            }
            match place {
                None => {
                    out.push(live[left].clone());
                    left += 1;
                    continue;
                }
                Some(at) if merged[at] => left += 1,
                Some(_) => {}
            }
        }
        if right < rights.len() {
            out.push(take(right));
            merged[right] = true;
            if next_shared == Some(&rights[right]) {
                next_shared = shared.next();
            }
            right += 1;
        }
    }
    out
}

/// Removes the paths of a set from an object, with everything below them. A value that becomes empty becomes
/// null.
pub fn remove<'a>(object: &mut Value, paths: &FieldSet, schema: impl Into<MergeType<'a>>) {
    remove_below(object, paths, schema.into().root());
}

fn remove_below(value: &mut Value, paths: &FieldSet, ty: Type<'_>) {
    let atom = ty.atom(Some(value));
    match (atom, &mut *value) {
        (Atom::Scalar(_), _) => return,
        (Atom::Struct { atomic: false, .. } | Atom::Map { atomic: false, .. }, Value::Map(map)) => {
            map.retain(|key, value| match paths.field(key) {
                Some(node) if node.member => false,
                Some(node) => {
                    let ty = atom.field(key).map_or(Type::Deduced, |(ty, _)| ty);
                    remove_below(value, &node.below, ty);
                    true
                }
                None => true,
            });
            if !map.is_empty() {
                return;
            }
        }
        (Atom::List(items), Value::List(list)) if !items.is_atomic() => {
            list.retain_mut(|item| {
                let Some(node) = items.element(item).ok().and_then(|element| paths.node(&element)) else {
                    return true;
                };
                if !node.member {
                    remove_below(item, &node.below, items.of);
                }
                !node.member
            });
            if !list.is_empty() {
                return;
            }
        }
        _ => {}
    }
    *value = Value::Null;
}
