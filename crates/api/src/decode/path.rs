//! Path of the decoder: a linked list on the stack, so that descending allocates nothing.

use std::fmt;

use super::DecodeError;
use crate::schema::{Field, Struct};

/// A position in the object: the last step and the path before it.
pub(super) struct DecodePath<'a> {
    parent: Option<&'a DecodePath<'a>>,
    step: Step<'a>,
}

/// One step from a value to a part of it.
pub(super) enum Step<'a> {
    /// The object itself.
    Root,
    /// A field of a struct.
    Field { schema: Struct<'a>, field: Field<'a> },
    /// A value of a map.
    Key(&'a str),
    /// An item of a list.
    Index(usize),
}

impl DecodePath<'_> {
    pub(super) const fn root() -> DecodePath<'static> {
        DecodePath { parent: None, step: Step::Root }
    }

    pub(super) const fn then<'a>(&'a self, step: Step<'a>) -> DecodePath<'a> {
        DecodePath { parent: Some(self), step }
    }

    /// Path of a field of the object at this path, as strict errors show it.
    pub(super) fn child(&self, key: &str) -> String {
        let mut path = self.to_string();
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
        path
    }

    /// `true` if this path prints as `text`. Compares from the end, where paths differ, without building the
    /// string.
    pub(super) fn is(&self, text: &str) -> bool {
        let Some(parent) = self.parent else { return text.is_empty() };
        let key = match self.step {
            Step::Root => return text.is_empty(),
            Step::Index(index) => {
                let start = text.strip_suffix(']').and_then(|text| text.rsplit_once('['));
                return start.is_some_and(|(start, digits)| digits == index.to_string() && parent.is(start));
            }
            Step::Field { field, .. } => field.name(),
            Step::Key(key) => key,
        };
        let Some(start) = text.strip_suffix(key) else { return false };
        match parent.step {
            Step::Root => start.is_empty(),
            _ => start.strip_suffix('.').is_some_and(|start| parent.is(start)),
        }
    }

    /// Type error at this path, with the text of Go's decoder: the innermost struct and the fields, without
    /// keys and indexes.
    pub(super) fn type_error(&self, value: String, go: &str) -> DecodeError {
        let mut owner = None;
        let mut names = Vec::new();
        let mut place = Some(self);
        while let Some(DecodePath { parent, step }) = place {
            if let Step::Field { schema, field } = step {
                owner = owner.or(Some(schema.name()));
                names.push(field.name());
                names.extend(Some(field.embedded_path()).filter(|path| !path.is_empty()));
            }
            place = *parent;
        }
        names.reverse();
        let field = owner.map(|owner| format!("{owner}.{}", names.join(".")));
        DecodeError::Type { value, field, go: go.to_owned() }
    }
}

impl fmt::Display for DecodePath<'_> {
    /// Path as strict errors show it: `spec.containers[0].name`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = match self.step {
            Step::Root => return Ok(()),
            Step::Index(index) => {
                self.parent.map_or(Ok(()), |parent| parent.fmt(f))?;
                return write!(f, "[{index}]");
            }
            Step::Field { field, .. } => field.name(),
            Step::Key(key) => key,
        };
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
            if !matches!(parent.step, Step::Root) {
                f.write_str(".")?;
            }
        }
        f.write_str(key)
    }
}
