//! What is wrong with which field.
//!
//! A [`Path`] is a borrowed chain of steps, one per level of the object, so that walking a valid object
//! allocates nothing; its text is made only for an error. A [`FieldError`] prints as clients know it,
//! `spec.replicas: Invalid value: -1: must be greater than or equal to 0`, and becomes one cause of an
//! `Invalid` answer. An [`ErrorList`] prints as one message, `[a, b]`, or plainly `a` if there is one.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use thiserror::Error;

use crate::quote::Quoted;

mod value;

pub use value::BadValue;

/// The way from the root of an object to a field.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Nowhere,
    Name(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    /// No path: errors about a thing that is not a field show `<nil>`, as clients know it.
    pub const NONE: Path<'static> = Path { parent: None, step: Step::Nowhere };

    /// The path of a field of the root.
    #[must_use]
    pub const fn root(name: &'a str) -> Path<'a> {
        Path { parent: None, step: Step::Name(name) }
    }

    /// The path of a field of this one.
    #[must_use]
    pub const fn child<'b>(&'b self, name: &'b str) -> Path<'b> {
        Path { parent: Some(self), step: Step::Name(name) }
    }

    /// The path of an element of this list.
    #[must_use]
    pub const fn index(&self, index: usize) -> Path<'_> {
        Path { parent: Some(self), step: Step::Index(index) }
    }

    /// The path of an entry of this map.
    #[must_use]
    pub const fn key<'b>(&'b self, key: &'b str) -> Path<'b> {
        Path { parent: Some(self), step: Step::Key(key) }
    }

    /// The parent, if it shows.
    fn shown_parent(&self) -> Option<&Path<'a>> {
        self.parent.filter(|parent| !matches!(parent.step, Step::Nowhere))
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parent = self.shown_parent();
        if let Some(parent) = parent {
            parent.write(f)?;
        }
        match self.step {
            Step::Nowhere => f.write_str("<nil>"),
            Step::Name(name) => {
                if parent.is_some() {
                    f.write_char('.')?;
                }
                f.write_str(name)
            }
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) => write!(f, "[{key}]"),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f)
    }
}

/// What sort of fault a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorKind {
    /// Something that the value names does not exist.
    NotFound,
    /// A value is missing.
    Required,
    /// A value that must be unique is there twice.
    Duplicate,
    /// A value is malformed or out of bounds.
    Invalid,
    /// A value is none of an enumeration.
    NotSupported,
    /// A well-formed value is not permitted here.
    Forbidden,
    /// A value is too long.
    TooLong,
    /// A value is too short.
    TooShort,
    /// A list has too many items.
    TooMany,
    /// A list has too few items.
    TooFew,
    /// The value could not be judged.
    Internal,
    /// A value has the wrong type.
    TypeInvalid,
}

impl ErrorKind {
    /// The reason in a status cause.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            ErrorKind::NotFound => "FieldValueNotFound",
            ErrorKind::Required => "FieldValueRequired",
            ErrorKind::Duplicate => "FieldValueDuplicate",
            ErrorKind::Invalid => "FieldValueInvalid",
            ErrorKind::NotSupported => "FieldValueNotSupported",
            ErrorKind::Forbidden => "FieldValueForbidden",
            ErrorKind::TooLong => "FieldValueTooLong",
            ErrorKind::TooShort => "FieldValueTooShort",
            ErrorKind::TooMany => "FieldValueTooMany",
            ErrorKind::TooFew => "FieldValueTooFew",
            ErrorKind::Internal => "InternalError",
            ErrorKind::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    /// How a message about it begins.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            ErrorKind::NotFound => "Not found",
            ErrorKind::Required => "Required value",
            ErrorKind::Duplicate => "Duplicate value",
            ErrorKind::Invalid | ErrorKind::TypeInvalid => "Invalid value",
            ErrorKind::NotSupported => "Unsupported value",
            ErrorKind::Forbidden => "Forbidden",
            ErrorKind::TooLong => "Too long",
            ErrorKind::TooShort => "Too short",
            ErrorKind::TooMany => "Too many",
            ErrorKind::TooFew => "Too few",
            ErrorKind::Internal => "Internal error",
        }
    }

    const fn shows_value(self) -> bool {
        !matches!(
            self,
            ErrorKind::Required
                | ErrorKind::Forbidden
                | ErrorKind::TooLong
                | ErrorKind::TooShort
                | ErrorKind::Internal
        )
    }
}

/// One fault of one field.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{field}: {}", self.body())]
pub struct FieldError {
    /// What sort of fault.
    pub kind: ErrorKind,
    /// The path of the field, as text.
    pub field: String,
    /// The value, where messages of this kind show it.
    pub bad_value: BadValue,
    /// What would be right; may be empty.
    pub detail: Cow<'static, str>,
}

/// A fault whose path is not text yet. An [`ErrorList`] that is full drops it, and the text is never made: a path can
/// be as long as a key of a map.
#[derive(Clone, Debug)]
#[must_use]
pub struct FieldErrorDraft<'a> {
    kind: ErrorKind,
    path: &'a Path<'a>,
    bad_value: BadValue,
    detail: Cow<'static, str>,
}

impl From<FieldErrorDraft<'_>> for FieldError {
    fn from(draft: FieldErrorDraft<'_>) -> FieldError {
        let FieldErrorDraft { kind, path, bad_value, detail } = draft;
        FieldError { kind, field: path.to_string(), bad_value, detail }
    }
}

impl FieldError {
    fn draft<'a>(
        kind: ErrorKind,
        path: &'a Path<'_>,
        bad_value: impl Into<BadValue>,
        detail: impl Into<Cow<'static, str>>,
    ) -> FieldErrorDraft<'a> {
        FieldErrorDraft { kind, path, bad_value: bad_value.into(), detail: detail.into() }
    }

    /// The value is malformed or out of bounds.
    pub fn invalid<'a>(
        path: &'a Path<'_>,
        value: impl Into<BadValue>,
        detail: impl Into<Cow<'static, str>>,
    ) -> FieldErrorDraft<'a> {
        FieldError::draft(ErrorKind::Invalid, path, value, detail)
    }

    /// The value has the wrong type.
    pub fn type_invalid<'a>(
        path: &'a Path<'_>,
        value: impl Into<BadValue>,
        detail: impl Into<Cow<'static, str>>,
    ) -> FieldErrorDraft<'a> {
        FieldError::draft(ErrorKind::TypeInvalid, path, value, detail)
    }

    /// The value is missing; `detail` may be empty.
    pub fn required<'a>(path: &'a Path<'_>, detail: impl Into<Cow<'static, str>>) -> FieldErrorDraft<'a> {
        FieldError::draft(ErrorKind::Required, path, BadValue::Omitted, detail)
    }

    /// The value is not permitted here.
    pub fn forbidden<'a>(path: &'a Path<'_>, detail: impl Into<Cow<'static, str>>) -> FieldErrorDraft<'a> {
        FieldError::draft(ErrorKind::Forbidden, path, BadValue::Omitted, detail)
    }

    /// The value is there already.
    pub fn duplicate<'a>(path: &'a Path<'_>, value: impl Into<BadValue>) -> FieldErrorDraft<'a> {
        FieldError::draft(ErrorKind::Duplicate, path, value, "")
    }

    /// The value is there already; `detail` is the rule that it breaks.
    pub fn duplicate_by<'a>(
        path: &'a Path<'_>,
        value: impl Into<BadValue>,
        detail: impl Into<Cow<'static, str>>,
    ) -> FieldErrorDraft<'a> {
        FieldError::draft(ErrorKind::Duplicate, path, value, detail)
    }

    /// The named object is not among those that `detail` lists.
    pub fn not_found_in<'a>(
        path: &'a Path<'_>,
        value: impl Into<BadValue>,
        detail: impl Into<Cow<'static, str>>,
    ) -> FieldErrorDraft<'a> {
        FieldError::draft(ErrorKind::NotFound, path, value, detail)
    }

    /// What the value names does not exist.
    pub fn not_found<'a>(path: &'a Path<'_>, value: impl Into<BadValue>) -> FieldErrorDraft<'a> {
        FieldError::draft(ErrorKind::NotFound, path, value, "")
    }

    /// The value is none of `supported`, which are shown in the given order: sort them first where clients
    /// know them sorted.
    pub fn not_supported<'a, S: AsRef<str>>(
        path: &'a Path<'_>,
        value: impl Into<BadValue>,
        supported: &[S],
    ) -> FieldErrorDraft<'a> {
        let mut detail = String::new();
        for (i, one) in supported.iter().enumerate() {
            detail.push_str(if i == 0 { "supported values: " } else { ", " });
            write!(detail, "{}", Quoted(one.as_ref())).expect("a String takes all text");
        }
        FieldError::draft(ErrorKind::NotSupported, path, value, detail)
    }

    /// The value has more than `max` bytes.
    pub fn too_long<'a>(path: &'a Path<'_>, max: usize) -> FieldErrorDraft<'a> {
        let detail = format!("may not be more than {max} {}", plural(max, "byte", "bytes"));
        FieldError::draft(ErrorKind::TooLong, path, BadValue::Omitted, detail)
    }

    /// The value has more than `max` characters.
    pub fn too_long_characters<'a>(path: &'a Path<'_>, max: usize) -> FieldErrorDraft<'a> {
        let detail = format!("may not be more than {max} {}", plural(max, "character", "characters"));
        FieldError::draft(ErrorKind::TooLong, path, BadValue::Omitted, detail)
    }

    /// The value has fewer than `min` characters.
    pub fn too_short<'a>(path: &'a Path<'_>, min: usize) -> FieldErrorDraft<'a> {
        let detail = format!("must be at least {min} {}", plural(min, "character", "characters"));
        FieldError::draft(ErrorKind::TooShort, path, BadValue::Omitted, detail)
    }

    /// The list has more than `max` items; `actual` is shown if it is given.
    pub fn too_many<'a>(path: &'a Path<'_>, actual: Option<usize>, max: usize) -> FieldErrorDraft<'a> {
        let detail = format!("must have at most {max} {}", plural(max, "item", "items"));
        FieldError::draft(ErrorKind::TooMany, path, actual.map_or(BadValue::Omitted, BadValue::from), detail)
    }

    /// The list has `actual` items, fewer than `min`.
    pub fn too_few<'a>(path: &'a Path<'_>, actual: usize, min: usize) -> FieldErrorDraft<'a> {
        let detail = format!("must have at least {min} {}", plural(min, "item", "items"));
        FieldError::draft(ErrorKind::TooFew, path, actual, detail)
    }

    /// The value could not be judged.
    pub fn internal<'a>(path: &'a Path<'_>, detail: impl Into<Cow<'static, str>>) -> FieldErrorDraft<'a> {
        FieldError::draft(ErrorKind::Internal, path, BadValue::Omitted, detail)
    }

    /// Bytes of what a message shows of it, before escapes.
    fn shown_len(&self) -> usize {
        self.field.len() + self.bad_value.shown_len() + self.detail.len()
    }

    /// The message without the field, as it stands in a status cause.
    pub fn body(&self) -> impl fmt::Display + '_ {
        fmt::from_fn(|f| {
            f.write_str(self.kind.title())?;
            if self.kind.shows_value() && self.bad_value != BadValue::Omitted {
                write!(f, ": {}", self.bad_value)?;
            }
            if self.detail.is_empty() { Ok(()) } else { write!(f, ": {}", self.detail) }
        })
    }
}

const fn plural<'a>(n: usize, one: &'a str, many: &'a str) -> &'a str {
    if n == 1 { one } else { many }
}

/// Maximum number of faults in an answer. Without a bound a small object could ask for an answer that is a hundred
/// times its size.
pub const ERRORS_MAX: usize = 1000;

/// Bytes of faults after which no further one is kept; the first is kept however long it is. Upstream has no such bound.
/// A fault can show a value as long as the request, and a thousand faults can show the same one.
pub const ERRORS_BYTES_MAX: usize = 1 << 20;

/// All faults that were found in an object, up to [`ERRORS_MAX`] and [`ERRORS_BYTES_MAX`]; empty if it is valid.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ErrorList {
    errors: Vec<FieldError>,
    bytes: usize,
}

impl ErrorList {
    /// No faults.
    #[must_use]
    pub const fn new() -> ErrorList {
        ErrorList { errors: Vec::new(), bytes: 0 }
    }

    /// Adds a fault, unless the list is full.
    pub fn push(&mut self, error: impl Into<FieldError>) {
        if !self.is_full() {
            let error = error.into();
            self.bytes += error.shown_len();
            self.errors.push(error);
        }
    }

    /// `true` if no further fault is kept. Loops whose faults cost more than their element end here.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.errors.len() >= ERRORS_MAX || self.bytes >= ERRORS_BYTES_MAX
    }

    /// Adds all faults of another list.
    pub fn append(&mut self, other: ErrorList) {
        self.extend(other);
    }

    /// Adds a fault for each complaint about a value.
    pub fn push_invalid(
        &mut self,
        path: &Path<'_>,
        value: &str,
        complaints: impl IntoIterator<Item = Cow<'static, str>>,
    ) {
        for detail in complaints {
            if self.is_full() {
                return;
            }
            self.push(FieldError::invalid(path, value, detail));
        }
    }

    /// Whether there is no fault.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// How many faults there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.errors.len()
    }

    /// The faults, in the order in which they were found.
    pub fn iter(&self) -> std::slice::Iter<'_, FieldError> {
        self.errors.iter()
    }
}

impl fmt::Display for ErrorList {
    /// One message for all: each distinct text once, in brackets if there are several.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.errors.iter().map(ToString::to_string).collect();
        let mut seen = std::collections::BTreeSet::new();
        let texts: Vec<&str> = all.iter().map(String::as_str).filter(|text| seen.insert(*text)).collect();
        match texts.as_slice() {
            [one] => f.write_str(one),
            many => write!(f, "[{}]", many.join(", ")),
        }
    }
}

impl From<Vec<FieldError>> for ErrorList {
    fn from(errors: Vec<FieldError>) -> ErrorList {
        let mut list = ErrorList::new();
        list.extend(errors);
        list
    }
}

impl From<FieldError> for ErrorList {
    fn from(error: FieldError) -> ErrorList {
        let mut list = ErrorList::new();
        list.push(error);
        list
    }
}

impl From<FieldErrorDraft<'_>> for ErrorList {
    fn from(draft: FieldErrorDraft<'_>) -> ErrorList {
        FieldError::from(draft).into()
    }
}

impl<E: Into<FieldError>> Extend<E> for ErrorList {
    fn extend<T: IntoIterator<Item = E>>(&mut self, errors: T) {
        for error in errors {
            if self.is_full() {
                return;
            }
            self.push(error);
        }
    }
}

impl IntoIterator for ErrorList {
    type Item = FieldError;
    type IntoIter = std::vec::IntoIter<FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.errors.into_iter()
    }
}

impl<'a> IntoIterator for &'a ErrorList {
    type Item = &'a FieldError;
    type IntoIter = std::slice::Iter<'a, FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.errors.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_print_as_clients_know_them() {
        let spec = Path::root("spec");
        assert_eq!(spec.child("containers").index(0).child("name").to_string(), "spec.containers[0].name");
        assert_eq!(Path::root("metadata").child("labels").key("a/b").to_string(), "metadata.labels[a/b]");
        assert_eq!(Path::NONE.to_string(), "<nil>");
        assert_eq!(Path::NONE.child("values").index(1).key("k").to_string(), "values[1][k]");
    }

    #[test]
    fn each_kind_prints_its_text() {
        let f = Path::root("f");
        for (error, text) in [
            (FieldError::invalid(&f, "y", "msg"), r#"f: Invalid value: "y": msg"#),
            (FieldError::invalid(&f, "<\n", ""), r#"f: Invalid value: "<\n""#),
            (FieldError::invalid(&f, -2_i64, "must be"), "f: Invalid value: -2: must be"),
            (FieldError::invalid(&f, true, "no"), "f: Invalid value: true: no"),
            (FieldError::invalid(&f, BadValue::Null, "no"), "f: Invalid value: null: no"),
            (
                FieldError::invalid(&f, BadValue::Json(r#"{"a":"x"}"#.into()), "no"),
                r#"f: Invalid value: {"a":"x"}: no"#,
            ),
            (FieldError::invalid(&f, BadValue::json_string("<"), "no"), r#"f: Invalid value: "\u003c": no"#),
            (FieldError::type_invalid(&f, 1.5, "no"), "f: Invalid value: 1.5: no"),
            (FieldError::required(&f, ""), "f: Required value"),
            (FieldError::required(&f, "why"), "f: Required value: why"),
            (FieldError::forbidden(&f, "why"), "f: Forbidden: why"),
            (FieldError::duplicate(&f, "a"), r#"f: Duplicate value: "a""#),
            (FieldError::not_found(&f, "a"), r#"f: Not found: "a""#),
            (
                FieldError::not_supported(&f, "x", &["B", "A"]),
                r#"f: Unsupported value: "x": supported values: "B", "A""#,
            ),
            (FieldError::not_supported::<&str>(&f, "x", &[]), r#"f: Unsupported value: "x""#),
            (FieldError::too_long(&f, 63), "f: Too long: may not be more than 63 bytes"),
            (FieldError::too_long(&f, 1), "f: Too long: may not be more than 1 byte"),
            (FieldError::too_long_characters(&f, 3), "f: Too long: may not be more than 3 characters"),
            (FieldError::too_short(&f, 1), "f: Too short: must be at least 1 character"),
            (FieldError::too_many(&f, Some(9), 8), "f: Too many: 9: must have at most 8 items"),
            (FieldError::too_many(&f, None, 1), "f: Too many: must have at most 1 item"),
            (FieldError::too_few(&f, 0, 1), "f: Too few: 0: must have at least 1 item"),
            (FieldError::internal(&f, "boom"), "f: Internal error: boom"),
        ] {
            assert_eq!(FieldError::from(error).to_string(), text);
        }
    }

    #[test]
    fn a_list_prints_distinct_faults_once() {
        let f = Path::root("f");
        let mut list = ErrorList::from(FieldError::required(&f, ""));
        assert_eq!(list.to_string(), "f: Required value");
        list.push(FieldError::required(&f, ""));
        assert_eq!(list.to_string(), "f: Required value");
        list.push(FieldError::forbidden(&f, "no"));
        list.push(FieldError::required(&f, ""));
        assert_eq!(list.to_string(), "[f: Required value, f: Forbidden: no]");
        assert_eq!(list.len(), 4);
    }

    #[test]
    fn no_more_faults_are_kept_than_anybody_reads() {
        let path = Path::root("a");
        let fault = || FieldError::from(FieldError::required(&path, ""));
        let mut list = ErrorList::new();
        (0..2 * ERRORS_MAX).for_each(|_| list.push(fault()));
        list.append(ErrorList::from(vec![fault(); 2 * ERRORS_MAX]));
        list.push_invalid(&path, "x", ["bad".into()]);
        assert_eq!(list.len(), ERRORS_MAX);
    }

    #[test]
    fn faults_are_kept_until_they_show_a_mebibyte() {
        let path = Path::root("a");
        let mut list = ErrorList::new();
        let text = "x".repeat(ERRORS_BYTES_MAX);
        let shown = BadValue::json_string(&text);
        (0..5).for_each(|_| list.push(FieldError::invalid(&path, shown.clone(), "")));
        assert_eq!((list.len(), list.is_full()), (1, true));
        let long = Path::root(&text[..ERRORS_BYTES_MAX / 4]);
        let mut list = ErrorList::new();
        (0..9).for_each(|_| list.push(FieldError::required(&long, "")));
        assert_eq!((list.len(), list.is_full()), (4, true));
    }
}
