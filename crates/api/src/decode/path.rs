//! Where the decoder is, without an allocation on the way down.

use std::fmt;

use super::DecodeError;
use crate::schema::{Field, Struct};

/// A place in the object: a step, and the place it was taken from.
pub(super) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

/// One step down.
pub(super) enum Step<'a> {
    /// Not a step: the object itself.
    Root,
    /// To a field of a struct.
    Field {
        /// The struct.
        of: Struct<'a>,
        /// The field.
        field: Field<'a>,
    },
    /// To a value of a map.
    Key(&'a str),
    /// To an item of a list.
    Index(usize),
}

impl Path<'_> {
    pub(super) const fn root() -> Path<'static> {
        Path { parent: None, step: Step::Root }
    }

    pub(super) const fn then<'a>(&'a self, step: Step<'a>) -> Path<'a> {
        Path { parent: Some(self), step }
    }

    /// The path of a field of the object here, as strict errors name it.
    pub(super) fn child(&self, key: &str) -> String {
        let mut path = self.to_string();
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
        path
    }

    /// `true` if this is the text of the path. Compares from the end, where paths differ, and makes no text.
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

    /// The error that a value has the wrong type here, in the words of Go's decoder. It names the innermost
    /// struct and the fields on the way, without keys and indexes.
    pub(super) fn type_error(&self, value: String, go: &str) -> DecodeError {
        let mut owner = None;
        let mut names = Vec::new();
        let mut place = Some(self);
        while let Some(Path { parent, step }) = place {
            if let Step::Field { of, field } = step {
                owner = owner.or(Some(of.name()));
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

impl fmt::Display for Path<'_> {
    /// As strict errors name it: `spec.containers[0].name`.
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
