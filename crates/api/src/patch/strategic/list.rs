//! List merge of strategic merge patches: items with the same key become one, and the order of the patch
//! wins.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use super::key::{ItemKey, KeyIndex};
use super::{
    DIRECTIVE, Meta, StrategicError, merge_map, no_merge_key, unknown_directive, without_directives,
    wrong_type,
};
use crate::go_format::GoValue;
use crate::patch::overlay::{FieldAction, overlay};
use crate::schema::{Field, Shape};
use crate::value::{Map, Value};

const LIST: Value = Value::List(Vec::new());
const MAP: Value = Value::map();

/// Merge strategy of a list.
#[derive(Clone, Copy)]
struct ListStrategy<'a> {
    /// `true` if the list is merged, `false` if it is replaced.
    merges: bool,
    /// Merge key of the items, if they are objects.
    merge_key: Option<&'a str>,
    /// Schema of the items.
    item: Meta<'a>,
}

impl<'a> ListStrategy<'a> {
    fn of(field: Field<'a>) -> Result<ListStrategy<'a>, StrategicError> {
        let Shape::List(item) = field.ty().shape() else { return Err(StrategicError::NoList) };
        Ok(ListStrategy {
            merges: field.patch_strategy().merge,
            merge_key: field.merge_key(),
            item: Meta::of(item),
        })
    }
}

/// Merges the patch of a list field into it, or removes its values.
pub(super) fn merge_field(
    original: &mut Vec<Value>,
    patch: &[Value],
    field: Field<'_>,
    is_deletion: bool,
) -> Result<(), StrategicError> {
    let rule = ListStrategy::of(field)?;
    if rule.merges || is_deletion {
        merge(original, patch, rule, is_deletion)
    } else {
        *original = patch.to_vec();
        Ok(())
    }
}

fn merge(
    original: &mut Vec<Value>,
    patch: &[Value],
    rule: ListStrategy<'_>,
    is_deletion: bool,
) -> Result<(), StrategicError> {
    if original.is_empty() && patch.is_empty() {
        return Ok(());
    }
    let of_objects = items_are_objects(original, patch)?;
    if !of_objects && is_deletion {
        let gone = KeyIndex::of(patch, None);
        original.retain(|item| !gone.contains(&ItemKey::of(item)));
        return Ok(());
    }
    if !of_objects {
        let on_server = KeyIndex::of(original.iter(), None);
        append_new(original, patch);
        check_keys(original, rule.merge_key)?;
        reorder(original, &KeyIndex::of(patch, None), |key| on_server.get(key), None);
        return Ok(());
    }
    let Some(merge_key) = rule.merge_key else {
        return Err(StrategicError::NoKeyDeclared(rule.item.kind()));
    };
    let patch = apply_item_directives(original, patch, merge_key)?;
    check_keys(original, rule.merge_key)?;
    let before = original.len();
    let places = merge_items(original, &patch, merge_key, rule.item)?;
    let in_patch = KeyIndex::of(patch, rule.merge_key);
    reorder(original, &in_patch, |key| places.get(key).filter(|at| *at < before), rule.merge_key);
    Ok(())
}

/// `true` if the items of both lists are objects. All items must be of one type.
fn items_are_objects(original: &[Value], patch: &[Value]) -> Result<bool, StrategicError> {
    let mut items = original.iter().chain(patch);
    let first = items.next().ok_or(StrategicError::NoItems)?;
    if let Value::List(_) = first {
        return Err(StrategicError::ListOfLists);
    }
    if items.any(|item| std::mem::discriminant(item) != std::mem::discriminant(first)) {
        let both = Value::List(vec![Value::List(original.to_vec()), Value::List(patch.to_vec())]);
        return Err(StrategicError::MixedItems(GoValue(&both).to_string()));
    }
    Ok(matches!(first, Value::Map(_)))
}

/// Appends the values that are not in the list, and removes duplicates.
fn append_new(original: &mut Vec<Value>, patch: &[Value]) {
    let mut seen = KeyIndex::default();
    let both = std::mem::take(original).into_iter().chain(patch.iter().cloned());
    for item in both {
        let key = ItemKey::of(&item);
        if !seen.contains(&key) {
            seen.record(key, original.len());
            original.push(item);
        }
    }
}

/// Applies the directives among the items of a patch, and returns the other items.
fn apply_item_directives<'p>(
    original: &mut Vec<Value>,
    patch: &'p [Value],
    merge_key: &str,
) -> Result<Vec<&'p Value>, StrategicError> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut gone = KeyIndex::default();
    let mut replace = false;
    for (at, item) in patch.iter().enumerate() {
        let Some(directive) = item.get(DIRECTIVE) else {
            plain.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let key = item.get(merge_key).ok_or_else(|| no_merge_key(item, merge_key))?;
                gone.record(ItemKey::of(key), at);
            }
            Some("replace") => replace = true,
            Some("merge") => return Err(StrategicError::MergeDirective),
            _ => return Err(unknown_directive(directive, item)),
        }
    }
    if replace {
        *original = std::mem::take(&mut plain).into_iter().cloned().collect();
    } else {
        original.retain(|item| !item.get(merge_key).is_some_and(|key| gone.contains(&ItemKey::of(key))));
    }
    Ok(plain)
}

/// Merges each item of the patch into the one with its key, or adds it; returns the positions of all.
fn merge_items(
    original: &mut Vec<Value>,
    patch: &[&Value],
    merge_key: &str,
    meta: Meta<'_>,
) -> Result<KeyIndex, StrategicError> {
    let mut places = KeyIndex::of(original.iter(), Some(merge_key));
    // Pending fields of items, by position: an item may be repeated for each field of a large one.
    let mut plain: BTreeMap<usize, BTreeMap<&str, &Value>> = BTreeMap::new();
    for item in patch {
        let Some(value) = item.get(merge_key) else { return Err(no_merge_key(item, merge_key)) };
        let key = ItemKey::of(value);
        let at = places.get(&key);
        match (at.and_then(|at| Some((at, original.get_mut(at)?.as_map_mut()?))), item) {
            (Some((at, _)), Value::Map(patch)) if patch.iter().all(|(key, value)| is_plain(key, value)) => {
                plain.entry(at).or_default().extend(patch.iter());
            }
            (Some((at, old)), Value::Map(patch)) => {
                set_plain(old, plain.remove(&at).unwrap_or_default());
                merge_map(old, patch, meta)?;
            }
            _ => {
                places.record(key, original.len());
                original.push((*item).clone());
            }
        }
    }
    for (at, fields) in plain {
        if let Some(Value::Map(old)) = original.get_mut(at) {
            set_plain(old, fields);
        }
    }
    Ok(places)
}

/// `true` if a field of a patch replaces or removes any existing value.
fn is_plain(key: &str, value: &Value) -> bool {
    !key.starts_with('$') && !matches!(value, Value::Map(_) | Value::List(_))
}

fn set_plain(old: &mut Map, fields: BTreeMap<&str, &Value>) {
    let Ok(()) = overlay(old, fields.into_iter(), |_, _, value| -> Result<FieldAction, Infallible> {
        Ok(if value.is_null() { FieldAction::Remove } else { FieldAction::Set(value.clone()) })
    });
}

/// Merges a list whose order is given by `$setElementOrder`, and marks it as done.
pub(super) fn merge_in_order<'p>(
    original: &mut Map,
    patch: &'p Map,
    order: &Value,
    field: Result<&'p str, StrategicError>,
    meta: Meta<'_>,
    done: &mut BTreeSet<&'p str>,
) -> Result<(), StrategicError> {
    let order = order.as_list().ok_or_else(|| wrong_type(&LIST, order))?;
    let name = field?;
    // A list without items may be null in an object, but null in a patch contradicts the order.
    let old = original.get(name).filter(|value| !value.is_null()).map(as_list).transpose()?;
    let new = patch.get(name).map(as_list).transpose()?;
    let rule = ListStrategy::of(meta.field(name)?)?;
    check_order(new.unwrap_or_default(), order, rule.merge_key)?;
    let mut merged = match (old, new) {
        (None, None) => return Ok(()),
        (Some(old), None) => old.to_vec(),
        (None, Some(new)) => new.iter().filter_map(without_directives).collect(),
        (Some(old), Some(new)) if rule.merges => {
            let mut merged = old.to_vec();
            merge(&mut merged, new, rule, false)?;
            merged
        }
        (Some(_), Some(new)) => new.to_vec(),
    };
    let of_objects = items_are_objects(old.unwrap_or_default(), new.unwrap_or_default())?;
    for list in [&merged, order, old.unwrap_or_default()] {
        check_keys(list, rule.merge_key)?;
    }
    let by = rule.merge_key.filter(|_| of_objects);
    let on_server = KeyIndex::of(old.unwrap_or_default(), by);
    reorder(&mut merged, &KeyIndex::of(order, by), |key| on_server.get(key), by);
    original.insert(name, Value::List(merged));
    done.insert(name);
    Ok(())
}

fn as_list(value: &Value) -> Result<&[Value], StrategicError> {
    value.as_list().ok_or_else(|| wrong_type(&LIST, value))
}

/// Checks that all items of a patch are in the given order, in sequence.
fn check_order(patch: &[Value], order: &[Value], merge_key: Option<&str>) -> Result<(), StrategicError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut rest = order.iter();
    for item in patch {
        if let Some(merge_key) = merge_key {
            let map = item.as_map().ok_or_else(|| wrong_type(&MAP, item))?;
            if map.contains(DIRECTIVE) {
                continue;
            }
            if !map.contains(merge_key) {
                return Err(no_merge_key(item, merge_key));
            }
        }
        let wanted = ItemKey::of_item(item, merge_key);
        loop {
            let Some(next) = rest.next() else {
                let [patch, order] =
                    [patch, order].map(|list| GoValue(&Value::List(list.to_vec())).to_string());
                return Err(StrategicError::Order { patch, order });
            };
            check_key(next, merge_key)?;
            if ItemKey::of_item(next, merge_key) == wanted {
                break;
            }
        }
    }
    Ok(())
}

fn check_key(item: &Value, merge_key: Option<&str>) -> Result<(), StrategicError> {
    let Some(merge_key) = merge_key else { return Ok(()) };
    let map = item.as_map().ok_or_else(|| wrong_type(&MAP, item))?;
    if map.contains(merge_key) { Ok(()) } else { Err(no_merge_key(item, merge_key)) }
}

fn check_keys(items: &[Value], merge_key: Option<&str>) -> Result<(), StrategicError> {
    items.iter().try_for_each(|item| check_key(item, merge_key))
}

/// Sorts merged items: those of the patch in its order, the others in theirs; where the two meet, the item
/// that came first before stays first.
fn reorder(
    merged: &mut Vec<Value>,
    in_patch: &KeyIndex,
    on_server: impl Fn(&ItemKey) -> Option<usize>,
    by: Option<&str>,
) {
    let (mut named, mut others) = (Vec::new(), Vec::new());
    for item in merged.drain(..) {
        let key = ItemKey::of_item(&item, by);
        let was = on_server(&key);
        match in_patch.get(&key) {
            Some(at) => named.push((at, was, item)),
            None => others.push((was, item)),
        }
    }
    named.sort_by_key(|(at, ..)| *at);
    others.sort_by_key(|(was, _)| *was);
    let mut named = named.into_iter().peekable();
    let mut others = others.into_iter().peekable();
    while let Some((was, _)) = others.peek() {
        let other_first = match named.peek() {
            Some((_, named_was, _)) => was.is_some() && named_was.is_some() && was < named_was,
            None => true,
        };
        let next = if other_first {
            others.next().map(|(_, item)| item)
        } else {
            named.next().map(|(.., item)| item)
        };
        merged.extend(next);
    }
    merged.extend(named.map(|(.., item)| item));
}
