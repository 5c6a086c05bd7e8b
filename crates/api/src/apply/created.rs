//! What the maker of an object owns of it, in one walk over the object.
//!
//! This is what [`super::compare`] finds added or modified between nothing and the object, less what nobody owns. There is
//! only one object to look at and one set to fill, so the set is written as it is stored, without being one before. What
//! there is before anything is said, `status: {}` for one, is known from the schema.

use compact_str::CompactString;

use super::element::{Element, same, write_field};
use super::field_set::FieldSet;
use super::fields_text::FieldsText;
use super::paths::unowned;
use super::types::{Atom, Items, Level, Type};
use crate::decode::{zero_field, zero_struct};
use crate::schema::{Field, Shape, Struct};
use crate::value::{Map, Value};

#[cfg(test)]
mod tests;

/// The stored form of what the maker of an object owns but for what is `excluded`, with all below it; nothing if that is
/// nothing.
pub(super) fn created(new: &Value, of: Struct<'_>, excluded: Option<&FieldSet>) -> Option<CompactString> {
    let mut walk = Walk { text: FieldsText::new(), order: Vec::with_capacity(32) };
    let without = Without { trees: excluded, paths: Some(unowned()) };
    walk.place(new, Type::Kind(of), Before::Struct(of), Level::Root, without);
    (!walk.text.is_empty()).then(|| walk.text.finish())
}

/// What there is at a place before anything is said about the object.
#[derive(Clone)]
enum Before<'a> {
    Nothing,
    /// What [`zero_struct`] has.
    Struct(Struct<'a>),
    /// A value without parts.
    Leaf(Value),
}

impl<'a> Before<'a> {
    fn of_field(field: Field<'a>) -> Before<'a> {
        match field.ty().shape() {
            _ if !field.is_always_written() => Before::Nothing,
            Shape::Struct(of) if !field.is_pointer() => Before::Struct(of),
            _ => Before::Leaf(zero_field(field)),
        }
    }

    fn is_nothing(&self) -> bool {
        matches!(self, Before::Nothing)
    }

    fn has_fields(&self) -> bool {
        matches!(self, Before::Struct(of) if of.has_always_written())
    }

    /// Whether a value that is one whole is not what there was.
    fn differs_from(&self, new: &Value) -> bool {
        match self {
            Before::Nothing => true,
            Before::Struct(of) => !same(&zero_struct(*of), new),
            Before::Leaf(before) => !same(before, new),
        }
    }
}

/// What is not owned below a place.
#[derive(Clone, Copy)]
struct Without<'a> {
    /// These, with all below them.
    trees: Option<&'a FieldSet>,
    /// These themselves.
    paths: Option<&'a FieldSet>,
}

impl<'a> Without<'a> {
    /// What is not owned behind a step, and whether the step itself is; nothing if neither it nor anything below is.
    fn behind(self, find: impl Fn(&'a FieldSet) -> Option<Found<'a>>) -> Option<(Without<'a>, bool)> {
        let (tree, path) = (self.trees.and_then(&find), self.paths.and_then(&find));
        if tree.is_some_and(|found| found.member) {
            return None;
        }
        let below =
            |found: Option<Found<'a>>| found.map(|found| found.below).filter(|below| !below.is_empty());
        Some((Without { trees: below(tree), paths: below(path) }, path.is_none_or(|found| !found.member)))
    }
}

/// A step that a set has.
#[derive(Clone, Copy)]
struct Found<'a> {
    member: bool,
    below: &'a FieldSet,
}

impl<'a> Found<'a> {
    fn field(set: &'a FieldSet, name: &str) -> Option<Found<'a>> {
        set.field(name).map(|node| Found { member: node.member, below: &node.below })
    }

    fn element(set: &'a FieldSet, element: &Element) -> Option<Found<'a>> {
        set.node(element).map(|node| Found { member: node.member, below: &node.below })
    }
}

struct Walk {
    text: FieldsText,
    /// Places of the fields of all objects on the way down in the order of their names, so that no object needs a vector
    /// of its own.
    order: Vec<usize>,
}

impl Walk {
    /// Writes what is below the place of a value, and says whether the place is one whole that was not so before.
    fn place(
        &mut self,
        new: &Value,
        ty: Type<'_>,
        before: Before<'_>,
        level: Level,
        without: Without<'_>,
    ) -> bool {
        let atom = ty.atom(Some(new));
        match (atom, new) {
            (Atom::Struct { atomic: false, .. } | Atom::Map { atomic: false, .. }, Value::Map(map))
                if !map.is_empty() =>
            {
                let was_struct = match before {
                    Before::Struct(of) => Some(of),
                    _ => None,
                };
                self.fields(map, atom, was_struct, level, without);
                false
            }
            // What was there before and is not any more is nobody's.
            (Atom::Struct { atomic: false, .. }, _) if before.has_fields() => false,
            (Atom::List(items), Value::List(list)) if !items.is_atomic() && !list.is_empty() => {
                self.items(list, items, without);
                false
            }
            _ => before.differs_from(new),
        }
    }

    /// Writes the fields of an object. If it is a struct that was there before, its own fields may have been, too.
    fn fields(
        &mut self,
        map: &Map,
        atom: Atom<'_>,
        before: Option<Struct<'_>>,
        level: Level,
        without: Without<'_>,
    ) {
        let first = self.order.len();
        self.order.extend(0..map.len());
        if !map.keys().is_sorted() {
            self.order[first..].sort_unstable_by(|a, b| map.at(*a).0.cmp(map.at(*b).0));
        }
        for next in first..self.order.len() {
            let (key, value) = map.at(self.order[next]);
            if level.skips(key) {
                continue;
            }
            let Some((without, is_owned)) = without.behind(|set| Found::field(set, key)) else { continue };
            let is_leaf = !matches!(value, Value::Map(_) | Value::List(_));
            let field = before.and_then(|of| of.field(key));
            let before = field.map_or(Before::Nothing, Before::of_field);
            if is_leaf && !matches!(before, Before::Struct(_)) {
                // Whatever the type, a value without parts is one whole, and most values have none.
                if is_owned && before.differs_from(value) {
                    self.text.leaf(|out| write_field(key, out));
                }
                continue;
            }
            let ty = match field {
                Some(field) => Type::Ref(field.ty()),
                None => atom.field(key).map_or(Type::Deduced, |(ty, _)| ty),
            };
            self.step(value, ty, before, level.of_field(key), (without, is_owned), |out| {
                write_field(key, out)
            });
        }
        self.order.truncate(first);
    }

    /// Writes the items of a list. Of those with one key nobody can tell whose fields are whose, so only the key is owned.
    fn items(&mut self, list: &[Value], items: Items<'_>, without: Without<'_>) {
        let mut found: Vec<(Element, usize)> = Vec::with_capacity(list.len());
        found.extend(list.iter().enumerate().filter_map(|(at, item)| Some((items.element(item).ok()?, at))));
        found.sort_unstable();
        for same in found.chunk_by(|a, b| a.0 == b.0) {
            let (element, at) = &same[0];
            let behind = without.behind(|set| Found::element(set, element));
            let Some((without, is_owned)) = behind else { continue };
            let write = |out: &mut Vec<u8>| element.write_escaped(out);
            if same.len() == 1 {
                self.step(&list[*at], items.of, Before::Nothing, Level::Inner, (without, is_owned), write);
            } else if is_owned {
                self.text.leaf(write);
            }
        }
    }

    /// Writes a step, which `write` appends, and what is below it.
    fn step(
        &mut self,
        value: &Value,
        ty: Type<'_>,
        before: Before<'_>,
        level: Level,
        (without, is_owned): (Without<'_>, bool),
        write: impl Fn(&mut Vec<u8>),
    ) {
        // What was not there before is owned besides all that is below it.
        let is_new = before.is_nothing();
        let opened = self.text.open(is_new && is_owned, &write);
        let is_whole = self.place(value, ty, before, level, without);
        self.text.close(opened);
        if is_whole && !is_new && is_owned {
            self.text.leaf(write);
        }
    }
}
