//! Comparison of two objects of a kind: added, modified and removed paths.
//!
//! The result decides the field ownership after a write. An object or list that is empty on both sides or
//! atomic counts as a single path. Items of lists are matched by their keys or values, so their order does
//! not count. Items with duplicate keys are reported by their key only.

use super::element::{Element, is_equal};
use super::field_set::{FieldSet, SetNode};
use super::types::{Atom, Items, Level, MergeType, Type, zip};
use crate::value::{Map, Value};

#[cfg(test)]
mod tests;

/// Paths in which two objects differ. The sets are disjoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Only in the old object.
    pub removed: FieldSet,
    /// In both, with different values.
    pub modified: FieldSet,
    /// Only in the new object.
    pub added: FieldSet,
}

/// Compares two objects of a kind, except `metadata.managedFields`.
#[must_use]
pub fn compare<'a>(old: &Value, new: &Value, of: impl Into<MergeType<'a>>) -> Comparison {
    let mut found = ComparisonBuilder::default();
    found.compare_value(Some(old), Some(new), of.into().root(), Level::Root);
    found.finish()
}

impl Comparison {
    /// `true` if the objects are equal.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    /// Top-level fields at or below which something differs; a field may be repeated.
    #[must_use]
    pub fn roots(&self) -> Vec<&str> {
        let sets = [&self.removed, &self.modified, &self.added];
        let names = sets.into_iter().flat_map(FieldSet::nodes).map(|node| match &node.element {
            Element::Field(name) => name.as_str(),
            Element::Key(_) | Element::Value(_) | Element::Index(_) => "",
        });
        names.collect()
    }

    /// All paths that differ.
    #[must_use]
    pub fn changed(self) -> FieldSet {
        let mut all = self.modified;
        all.union(self.added);
        all.union(self.removed);
        all
    }
}

/// Result for one path.
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    removed: bool,
    modified: bool,
    added: bool,
}

impl Marks {
    fn has_any(self) -> bool {
        self.removed || self.modified || self.added
    }
}

/// Paths below one position, not yet sorted.
#[derive(Default)]
struct ComparisonBuilder {
    removed: Vec<SetNode>,
    modified: Vec<SetNode>,
    added: Vec<SetNode>,
}

impl ComparisonBuilder {
    fn finish(self) -> Comparison {
        Comparison {
            removed: FieldSet::from_nodes(self.removed),
            modified: FieldSet::from_nodes(self.modified),
            added: FieldSet::from_nodes(self.added),
        }
    }

    fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    /// Adds the results at and below one path element.
    fn push(&mut self, element: Element, marks: Marks, below: ComparisonBuilder) {
        let add = |to: &mut Vec<SetNode>, element: Element, member: bool, below: Vec<SetNode>| {
            to.push(SetNode { element, member, below: FieldSet::from_nodes(below) });
        };
        let is_removed = marks.removed || !below.removed.is_empty();
        let is_modified = marks.modified || !below.modified.is_empty();
        let is_added = marks.added || !below.added.is_empty();
        // A path is usually in one set, which then takes the element itself.
        if is_removed && (is_modified || is_added) {
            add(&mut self.removed, element.clone(), marks.removed, below.removed);
        } else if is_removed {
            return add(&mut self.removed, element, marks.removed, below.removed);
        }
        if is_modified && is_added {
            add(&mut self.modified, element.clone(), marks.modified, below.modified);
        } else if is_modified {
            return add(&mut self.modified, element, marks.modified, below.modified);
        }
        if is_added {
            add(&mut self.added, element, marks.added, below.added);
        }
    }

    /// Compares the values at one position, at least one of which exists. Collects the paths below it, and
    /// returns the result for the position itself.
    fn compare_value(
        &mut self,
        old: Option<&Value>,
        new: Option<&Value>,
        ty: Type<'_>,
        level: Level,
    ) -> Marks {
        let atom = ty.atom(new.or(old));
        let mut marks = Marks::default();
        if let (Some(_), Some(_)) = (old, new) {
            let before = ty.atom(old);
            if !before.is_same_shape(atom) {
                // In untyped positions a value can change its type; then both types are compared.
                self.compare_atom(before, old, new, level, &mut marks);
            }
        }
        if !self.compare_atom(atom, old, new, level, &mut marks) {
            marks.added |= old.is_none();
            marks.removed |= new.is_none();
        }
        marks
    }

    /// Compares as one type of value; `true` if the position was compared as a whole.
    fn compare_atom(
        &mut self,
        atom: Atom<'_>,
        old: Option<&Value>,
        new: Option<&Value>,
        level: Level,
        marks: &mut Marks,
    ) -> bool {
        match atom {
            Atom::Struct { atomic, .. } | Atom::Map { atomic, .. } => {
                let (a, b) = (old.and_then(Value::as_map), new.and_then(Value::as_map));
                let none = Map::new();
                let (a, b) = (a.unwrap_or(&none), b.unwrap_or(&none));
                if !atomic && (!a.is_empty() || !b.is_empty()) {
                    self.compare_fields(atom, a, b, level);
                    return false;
                }
            }
            Atom::List(items) => {
                let a = old.and_then(Value::as_list).unwrap_or_default();
                let b = new.and_then(Value::as_list).unwrap_or_default();
                if !items.is_atomic() && (!a.is_empty() || !b.is_empty()) {
                    // Matching items costs more than seeing that they are equal.
                    let is_same = a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal(a, b));
                    if !is_same {
                        self.compare_items(items, a, b);
                    }
                    return false;
                }
            }
            Atom::Scalar(_) => {}
        }
        let found = compare_leaf(old, new);
        marks.removed |= found.removed;
        marks.modified |= found.modified;
        marks.added |= found.added;
        true
    }

    fn compare_fields(&mut self, atom: Atom<'_>, old: &Map, new: &Map, level: Level) {
        zip(old, new, |key, old, new| {
            if level.is_skipped(key) {
                return;
            }
            let ty = || atom.field(key).map_or(Type::Deduced, |(ty, _)| ty);
            if let (None, Some(new)) = (old, new) {
                let below =
                    if is_leaf(Some(new)) { Vec::new() } else { paths_below(new, ty(), level.of_field(key)) };
                self.added.push(added(Element::field(key), below));
                return;
            }
            let mut below = ComparisonBuilder::default();
            let marks = if is_leaf(old) && is_leaf(new) {
                // Scalars are compared as a whole whatever their type, and most values are scalars.
                compare_leaf(old, new)
            } else {
                below.compare_value(old, new, ty(), level.of_field(key))
            };
            if marks.has_any() || !below.is_empty() {
                self.push(Element::field(key), marks, below);
            }
        });
    }

    fn compare_items(&mut self, items: Items<'_>, old: &[Value], new: &[Value]) {
        // Items without a key cannot be matched, and decoded objects have none.
        let keyed = |list: &[Value], is_new: bool| -> Vec<(Element, bool, usize)> {
            let item = |(at, item)| Some((items.element(item).ok()?, is_new, at));
            list.iter().enumerate().filter_map(item).collect()
        };
        let mut all = keyed(old, false);
        all.extend(keyed(new, true));
        all.sort_unstable();
        for group in all.chunk_by_mut(|a, b| a.0 == b.0) {
            let split = group.partition_point(|(_, is_new, _)| !is_new);
            let element = std::mem::replace(&mut group[0].0, Element::Index(0));
            let (olds, news) = group.split_at(split);
            self.compare_group(
                element,
                items.of,
                ItemGroup { list: old, at: olds },
                ItemGroup { list: new, at: news },
            );
        }
    }

    /// Compares the items with one key, of which there can be several on either side.
    fn compare_group(&mut self, element: Element, of: Type<'_>, old: ItemGroup<'_>, new: ItemGroup<'_>) {
        let mut below = ComparisonBuilder::default();
        let mut marks = Marks::default();
        match (old.at.len(), new.at.len()) {
            (0 | 1, 0 | 1) => marks = below.compare_value(old.first(), new.first(), of, Level::Inner),
            (2.., 2..) => marks.modified = !old.is_same(new),
            (2.., _) => {
                if let Some(only) = new.first() {
                    marks = below.compare_value(None, Some(only), of, Level::Inner);
                }
                marks.removed = true;
            }
            _ => {
                if let Some(only) = old.first() {
                    marks = below.compare_value(Some(only), None, of, Level::Inner);
                }
                marks.added = true;
            }
        }
        if marks.has_any() || !below.is_empty() {
            self.push(element, marks, below);
        }
    }
}

/// A path that is only in the new object, with all paths below it.
fn added(element: Element, below: Vec<SetNode>) -> SetNode {
    SetNode { element, member: true, below: FieldSet::from_nodes(below) }
}

/// Paths below a value that exists only in the new object. Most of a new object is of this kind, and with
/// nothing to compare there is only one set to fill.
fn paths_below(new: &Value, ty: Type<'_>, level: Level) -> Vec<SetNode> {
    let atom = ty.atom(Some(new));
    match (atom, new) {
        (Atom::Struct { atomic: false, .. } | Atom::Map { atomic: false, .. }, Value::Map(map)) => {
            let mut nodes = Vec::with_capacity(map.len());
            for (key, value) in map.iter().filter(|(key, _)| !level.is_skipped(key)) {
                let below = if is_leaf(Some(value)) {
                    Vec::new()
                } else {
                    let ty = atom.field(key).map_or(Type::Deduced, |(ty, _)| ty);
                    paths_below(value, ty, level.of_field(key))
                };
                nodes.push(added(Element::field(key), below));
            }
            nodes
        }
        (Atom::List(items), Value::List(list)) if !items.is_atomic() => {
            let mut found: Vec<(Element, usize)> = Vec::with_capacity(list.len());
            found.extend(
                list.iter().enumerate().filter_map(|(at, item)| Some((items.element(item).ok()?, at))),
            );
            found.sort_unstable();
            let mut nodes = Vec::with_capacity(found.len());
            let mut found = found.into_iter().peekable();
            while let Some((element, at)) = found.next() {
                let mut below = Vec::new();
                if found.peek().is_none_or(|(next, _)| *next != element) {
                    below = paths_below(&list[at], items.of, Level::Inner);
                }
                while found.next_if(|(next, _)| *next == element).is_some() {}
                nodes.push(added(element, below));
            }
            nodes
        }
        _ => Vec::new(),
    }
}

/// `true` for a scalar or an absent value.
fn is_leaf(value: Option<&Value>) -> bool {
    !matches!(value, Some(Value::Map(_) | Value::List(_)))
}

/// Result for a position that is compared as a whole.
fn compare_leaf(old: Option<&Value>, new: Option<&Value>) -> Marks {
    let modified = matches!((old, new), (Some(old), Some(new)) if !is_equal(old, new));
    Marks { removed: new.is_none(), modified, added: old.is_none() }
}

/// Items of a list that share a key.
#[derive(Clone, Copy)]
struct ItemGroup<'v> {
    list: &'v [Value],
    at: &'v [(Element, bool, usize)],
}

impl<'v> ItemGroup<'v> {
    fn items(self) -> impl Iterator<Item = &'v Value> {
        self.at.iter().map(move |(_, _, at)| &self.list[*at])
    }

    fn first(self) -> Option<&'v Value> {
        self.items().next()
    }

    fn is_same(self, other: ItemGroup<'_>) -> bool {
        self.at.len() == other.at.len() && self.items().zip(other.items()).all(|(a, b)| is_equal(a, b))
    }
}
