//! Pruning: removal of fields that a manager applied before and no longer applies.
//!
//! A field is removed if the manager owned it, its new configuration omits it, and no other manager owns it.
//! If a whole object or item is removed, fields inside that others own stay, and unowned fields go with it
//! only if it was the manager's own.

use std::collections::{BTreeMap, BTreeSet};

use super::element::Element;
use super::field_set::{FieldSet, SetNode};
use super::managers::{Entry, Managers};
use super::merge::remove;
use super::paths::{ensure_fields, paths};
use super::types::{Atom, Items, MergeType, Type};
use super::writer::ApplyContext;
use crate::value::Value;

#[cfg(test)]
mod tests;

/// Removes from a merged object the fields that the manager owned by `last`, and that are neither in
/// `fields`, its new set, nor owned by another manager.
pub(super) fn prune(
    writer: &ApplyContext<'_>,
    object: &mut Value,
    others: &Managers,
    fields: &FieldSet,
    last: &Entry,
) {
    // A manager that still applies all of its fields removes nothing: every path on the way to an applied
    // field is its own.
    if last.api_version == writer.api_version && last.fields.is_subset(fields) {
        return;
    }
    let one_version =
        others.entries().iter().chain([last]).all(|entry| entry.api_version == writer.api_version);
    if one_version {
        let mut owned: Vec<&FieldSet> = others.entries().iter().map(|entry| &*entry.fields).collect();
        owned.push(fields);
        let walk = Pruner { in_last: false, gone: false };
        walk.prune_value(object, writer.of.root(), &last.fields, &owned);
    } else {
        prune_versions(writer, object, others, fields, last);
    }
}

/// Prunes in one pass, if all sets are in the version of the object.
#[derive(Clone, Copy)]
struct Pruner {
    /// `true` if the manager owned a prefix of this path.
    in_last: bool,
    /// `true` if a prefix of this path was the manager's and has no owner now.
    gone: bool,
}

impl Pruner {
    /// Removes fields from a value; `true` if there were any. A value that becomes empty becomes null.
    fn prune_value(self, value: &mut Value, ty: Type<'_>, last: &FieldSet, owned: &[&FieldSet]) -> bool {
        let atom = ty.atom(Some(value));
        let mut changed = false;
        let empty = match (atom, &mut *value) {
            (Atom::Struct { atomic: false, .. } | Atom::Map { atomic: false, .. }, Value::Map(map)) => {
                map.retain(|key, value| {
                    let Some(node) = last.field(key) else { return true };
                    let (ty, known) = atom.field(key).unwrap_or((Type::Deduced, false));
                    let kept = self.prune_element(value, ty, known, node, owned, &mut changed);
                    changed |= !kept;
                    kept
                });
                map.is_empty()
            }
            (Atom::List(items), Value::List(list)) if !items.is_atomic() => {
                let repeated = repeated(&items, list);
                list.retain_mut(|item| {
                    let Ok(element) = items.element(item) else { return true };
                    let Some(node) = last.node(&element) else { return true };
                    // Fields of items with duplicate keys cannot be attributed, so such items go or stay as a
                    // whole.
                    let ty = if repeated.contains(&element) { Type::Untyped } else { items.of };
                    let kept = self.prune_element(item, ty, false, node, owned, &mut changed);
                    changed |= !kept;
                    kept
                });
                list.is_empty()
            }
            _ => false,
        };
        if changed && empty {
            *value = Value::Null;
        }
        changed
    }

    /// Prunes behind one element; `true` if the element stays.
    fn prune_element(
        self,
        value: &mut Value,
        ty: Type<'_>,
        known: bool,
        last: &SetNode,
        owned: &[&FieldSet],
        changed: &mut bool,
    ) -> bool {
        let is_in = |node: &SetNode| node.member || (known && !node.below.is_empty());
        let nodes = owned.iter().filter_map(|set| set.node(&last.element));
        let in_last = self.in_last || is_in(last);
        let gone = self.gone || (in_last && !nodes.clone().any(is_in));
        if gone && is_in(last) {
            return false;
        }
        if !last.below.is_empty() {
            let owned: Vec<&FieldSet> =
                nodes.map(|node| &node.below).filter(|below| !below.is_empty()).collect();
            *changed |= Pruner { in_last, gone }.prune_value(value, ty, &last.below, &owned);
        }
        true
    }
}

/// Elements that identify several items of a list.
fn repeated(items: &Items<'_>, list: &[Value]) -> BTreeSet<Element> {
    let mut elements: Vec<Element> = list.iter().filter_map(|item| items.element(item).ok()).collect();
    elements.sort_unstable();
    elements.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0].clone()).collect()
}

/// Prunes through the version of each set, as upstream does in every case.
fn prune_versions(
    writer: &ApplyContext<'_>,
    object: &mut Value,
    others: &Managers,
    fields: &FieldSet,
    last: &Entry,
) {
    let Some(of) = writer.versions.schema(&last.api_version) else { return };
    let Some(mut merged) = convert(writer, object, writer.api_version, &last.api_version) else { return };
    let lost = ensured(FieldSet::clone(&last.fields), of);
    let mut pruned = merged.clone();
    remove(&mut pruned, &lost, of);
    let Some(pruned) = add_back_owned(writer, &merged, pruned, others, fields, last) else { return };
    let mut gone = ensured(paths(&merged, of), of);
    gone.subtract(&ensured(paths(&pruned, of), of));
    remove(&mut merged, &gone.intersection(&lost), of);
    if let Some(pruned) = convert(writer, &merged, &last.api_version, writer.api_version) {
        *object = pruned;
    }
}

/// The pruned object, plus all owned fields of the merged object, in the version of `last`.
fn add_back_owned(
    writer: &ApplyContext<'_>,
    merged: &Value,
    pruned: Value,
    others: &Managers,
    fields: &FieldSet,
    last: &Entry,
) -> Option<Value> {
    let mut owned: BTreeMap<&str, Vec<&FieldSet>> = BTreeMap::new();
    owned.entry(writer.api_version).or_default().push(fields);
    for entry in others.entries() {
        owned.entry(&entry.api_version).or_default().push(&entry.fields);
    }
    let (mut merged, mut pruned, mut version) = (merged.clone(), pruned, last.api_version.as_str());
    // The version of the set comes first, because converting another version may need fields that were
    // pruned.
    let first = owned.remove_entry(version);
    for (next, sets) in first.into_iter().chain(owned) {
        let Some(of) = writer.versions.schema(next) else { continue };
        let (Some(next_merged), Some(next_pruned)) =
            (convert(writer, &merged, version, next), convert(writer, &pruned, version, next))
        else {
            continue;
        };
        version = next;
        let mut gone = ensured(paths(&next_merged, of), of);
        gone.subtract(&ensured(paths(&next_pruned, of), of));
        for set in sets {
            gone.subtract(&ensured(set.clone(), of));
        }
        pruned = next_merged.clone();
        remove(&mut pruned, &gone, of);
        merged = next_merged;
    }
    convert(writer, &pruned, version, &last.api_version)
}

fn convert(writer: &ApplyContext<'_>, object: &Value, from: &str, to: &str) -> Option<Value> {
    if from == to { Some(object.clone()) } else { writer.versions.convert(object, to) }
}

fn ensured(mut set: FieldSet, of: MergeType<'_>) -> FieldSet {
    ensure_fields(&mut set, of);
    set
}
