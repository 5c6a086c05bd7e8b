//! Field ownership of a create, computed in one pass over the object.
//!
//! The result equals the added and modified paths of [`super::compare`] between the zero object and the new
//! one, without unowned paths. There is only one object to walk and one set to fill, so the set is written
//! directly in its stored form. Fields of the zero object, such as `status: {}`, are known from the schema.

use compact_str::CompactString;

use super::element::{Element, is_equal, write_field};
use super::field_set::FieldSet;
use super::field_set_writer::FieldSetWriter;
use super::paths::unowned;
use super::types::{Atom, Items, Level, MergeType, Type};
use crate::decode::{zero_field, zero_struct};
use crate::schema::{Field, Shape, Struct};
use crate::value::{Map, Value};

#[cfg(test)]
mod tests;

/// Stored form of the fields that the creator owns, without the `excluded` trees; `None` if the set is empty.
pub(super) fn created_fields(
    new: &Value,
    of: MergeType<'_>,
    excluded: Option<&FieldSet>,
) -> Option<CompactString> {
    let mut walk = OwnershipWriter { text: FieldSetWriter::new(), order: Vec::with_capacity(32) };
    let unowned = Unowned { trees: excluded, paths: Some(unowned()) };
    let zero = match of {
        MergeType::BuiltIn(of) => ZeroValue::Struct(of),
        MergeType::Custom { .. } => ZeroValue::Nothing,
    };
    walk.write_place(new, of.root(), zero, Level::Root, unowned);
    (!walk.text.is_empty()).then(|| walk.text.finish())
}

/// Value of the zero object at a position.
#[derive(Clone)]
enum ZeroValue<'a> {
    Nothing,
    /// The zero value of a struct, see [`zero_struct`].
    Struct(Struct<'a>),
    /// A scalar.
    Leaf(Value),
}

impl<'a> ZeroValue<'a> {
    fn of_field(field: Field<'a>) -> ZeroValue<'a> {
        match field.ty().shape() {
            _ if !field.is_always_written() => ZeroValue::Nothing,
            Shape::Struct(of) if !field.is_pointer() => ZeroValue::Struct(of),
            _ => ZeroValue::Leaf(zero_field(field)),
        }
    }

    fn is_nothing(&self) -> bool {
        matches!(self, ZeroValue::Nothing)
    }

    fn has_fields(&self) -> bool {
        matches!(self, ZeroValue::Struct(of) if of.has_always_written())
    }

    /// `true` if a value that is compared as a whole differs from the zero object's.
    fn is_different_from(&self, new: &Value) -> bool {
        match self {
            ZeroValue::Nothing => true,
            ZeroValue::Struct(of) => !is_equal(&zero_struct(*of), new),
            ZeroValue::Leaf(before) => !is_equal(before, new),
        }
    }
}

/// Unowned paths below a position.
#[derive(Clone, Copy)]
struct Unowned<'a> {
    /// Unowned with everything below.
    trees: Option<&'a FieldSet>,
    /// Unowned by themselves.
    paths: Option<&'a FieldSet>,
}

impl<'a> Unowned<'a> {
    /// Unowned paths behind an element, and `true` if the element itself is owned; `None` if neither it nor
    /// anything below is.
    fn behind(self, find: impl Fn(&'a FieldSet) -> Option<SetEntry<'a>>) -> Option<(Unowned<'a>, bool)> {
        let (tree, path) = (self.trees.and_then(&find), self.paths.and_then(&find));
        if tree.is_some_and(|found| found.member) {
            return None;
        }
        let below =
            |found: Option<SetEntry<'a>>| found.map(|found| found.below).filter(|below| !below.is_empty());
        Some((Unowned { trees: below(tree), paths: below(path) }, path.is_none_or(|found| !found.member)))
    }
}

/// A path element of a set.
#[derive(Clone, Copy)]
struct SetEntry<'a> {
    member: bool,
    below: &'a FieldSet,
}

impl<'a> SetEntry<'a> {
    fn field(set: &'a FieldSet, name: &str) -> Option<SetEntry<'a>> {
        set.field(name).map(|node| SetEntry { member: node.member, below: &node.below })
    }

    fn element(set: &'a FieldSet, element: &Element) -> Option<SetEntry<'a>> {
        set.node(element).map(|node| SetEntry { member: node.member, below: &node.below })
    }
}

struct OwnershipWriter {
    text: FieldSetWriter,
    /// Stack of the field positions of all enclosing objects, sorted by name, so that no object allocates a
    /// vector of its own.
    order: Vec<usize>,
}

impl OwnershipWriter {
    /// Writes the paths below a value; `true` if the position is owned as a whole.
    fn write_place(
        &mut self,
        new: &Value,
        ty: Type<'_>,
        before: ZeroValue<'_>,
        level: Level,
        unowned: Unowned<'_>,
    ) -> bool {
        let atom = ty.atom(Some(new));
        match (atom, new) {
            (Atom::Struct { atomic: false, .. } | Atom::Map { atomic: false, .. }, Value::Map(map))
                if !map.is_empty() =>
            {
                let was_struct = match before {
                    ZeroValue::Struct(of) => Some(of),
                    _ => None,
                };
                self.write_fields(map, atom, was_struct, level, unowned);
                false
            }
            // A value of the zero object that is absent in the new one has no owner.
            (Atom::Struct { atomic: false, .. }, _) if before.has_fields() => false,
            (Atom::List(items), Value::List(list)) if !items.is_atomic() && !list.is_empty() => {
                self.write_items(list, items, unowned);
                false
            }
            _ => before.is_different_from(new),
        }
    }

    /// Writes the fields of an object. In a struct that the zero object has, its fields may exist there too.
    fn write_fields(
        &mut self,
        map: &Map,
        atom: Atom<'_>,
        before: Option<Struct<'_>>,
        level: Level,
        unowned: Unowned<'_>,
    ) {
        let first = self.order.len();
        self.order.extend(0..map.len());
        if !map.keys().is_sorted() {
            self.order[first..].sort_unstable_by(|a, b| map.at(*a).0.cmp(map.at(*b).0));
        }
        for next in first..self.order.len() {
            let (key, value) = map.at(self.order[next]);
            if level.is_skipped(key) {
                continue;
            }
            let Some((unowned, is_owned)) = unowned.behind(|set| SetEntry::field(set, key)) else { continue };
            let is_leaf = !matches!(value, Value::Map(_) | Value::List(_));
            let field = before.and_then(|of| of.field(key));
            let before = field.map_or(ZeroValue::Nothing, ZeroValue::of_field);
            if is_leaf && !matches!(before, ZeroValue::Struct(_)) {
                // Scalars are compared as a whole whatever their type, and most values are scalars.
                if is_owned && before.is_different_from(value) {
                    self.text.write_leaf(|out| write_field(key, out));
                }
                continue;
            }
            let ty = match field {
                Some(field) => Type::Ref(field.ty()),
                None => atom.field(key).map_or(Type::Deduced, |(ty, _)| ty),
            };
            self.write_element(value, ty, before, level.of_field(key), (unowned, is_owned), |out| {
                write_field(key, out)
            });
        }
        self.order.truncate(first);
    }

    /// Writes the items of a list. The fields of items with duplicate keys cannot be attributed, so only the
    /// key is owned.
    fn write_items(&mut self, list: &[Value], items: Items<'_>, unowned: Unowned<'_>) {
        let mut found: Vec<(Element, usize)> = Vec::with_capacity(list.len());
        found.extend(list.iter().enumerate().filter_map(|(at, item)| Some((items.element(item).ok()?, at))));
        found.sort_unstable();
        for same in found.chunk_by(|a, b| a.0 == b.0) {
            let (element, at) = &same[0];
            let behind = unowned.behind(|set| SetEntry::element(set, element));
            let Some((unowned, is_owned)) = behind else { continue };
            let write = |out: &mut Vec<u8>| element.write_escaped(out);
            if same.len() == 1 {
                self.write_element(
                    &list[*at],
                    items.of,
                    ZeroValue::Nothing,
                    Level::Inner,
                    (unowned, is_owned),
                    write,
                );
            } else if is_owned {
                self.text.write_leaf(write);
            }
        }
    }

    /// Writes a path element, which `write` appends, and the paths below it.
    fn write_element(
        &mut self,
        value: &Value,
        ty: Type<'_>,
        before: ZeroValue<'_>,
        level: Level,
        (unowned, is_owned): (Unowned<'_>, bool),
        write: impl Fn(&mut Vec<u8>),
    ) {
        // A new element is owned in addition to everything below it.
        let is_new = before.is_nothing();
        let opened = self.text.open(is_new && is_owned, &write);
        let is_whole = self.write_place(value, ty, before, level, unowned);
        self.text.close(opened);
        if is_whole && !is_new && is_owned {
            self.text.write_leaf(write);
        }
    }
}
