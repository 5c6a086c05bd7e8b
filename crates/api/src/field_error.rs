//! Validation errors of fields, the counterpart of upstream's `field.Error`.
//!
//! A [`Path`] is a linked list on the stack, one step per level of the object, so that walking a valid object
//! allocates nothing; it becomes a string only for an error. A [`FieldError`] prints as upstream's,
//! `spec.replicas: Invalid value: -1: must be greater than or equal to 0`, and becomes one cause of an
//! `Invalid` status. An [`ErrorList`] prints as one message: `a`, or `[a, b]` if there are several.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use thiserror::Error;

use crate::quote::Quoted;

mod value;

pub use value::BadValue;

/// Path from the root of an object to a field.
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
    /// No path: errors that concern no field print `<nil>`, as upstream.
    pub const NONE: Path<'static> = Path { parent: None, step: Step::Nowhere };

    /// Path of a field of the root.
    #[must_use]
    pub const fn root(name: &'a str) -> Path<'a> {
        Path { parent: None, step: Step::Name(name) }
    }

    /// Path of a field of this object.
    #[must_use]
    pub const fn child<'b>(&'b self, name: &'b str) -> Path<'b> {
        Path { parent: Some(self), step: Step::Name(name) }
    }

    /// Path of an item of this list.
    #[must_use]
    pub const fn index(&self, index: usize) -> Path<'_> {
        Path { parent: Some(self), step: Step::Index(index) }
    }

    /// Path of an entry of this map.
    #[must_use]
    pub const fn key<'b>(&'b self, key: &'b str) -> Path<'b> {
        Path { parent: Some(self), step: Step::Key(key) }
    }

    /// `true` if this is [`Path::NONE`].
    pub(crate) const fn is_none(&self) -> bool {
        matches!(self.step, Step::Nowhere)
    }

    /// Parent path, if it is printed.
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

/// Type of a field error, upstream's `field.ErrorType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorKind {
    /// A referenced object does not exist.
    NotFound,
    /// A required value is missing.
    Required,
    /// A value that must be unique is repeated.
    Duplicate,
    /// A value is malformed or out of bounds.
    Invalid,
    /// A value is not in the enumeration.
    NotSupported,
    /// A valid value is not permitted here.
    Forbidden,
    /// A value is too long.
    TooLong,
    /// A value is too short.
    TooShort,
    /// A list has too many items.
    TooMany,
    /// A list has too few items.
    TooFew,
    /// The value could not be validated.
    Internal,
    /// A value has the wrong type.
    TypeInvalid,
}

impl ErrorKind {
    /// Reason of the status cause.
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

    /// First words of the message.
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

    const fn has_shown_value(self) -> bool {
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

/// Validation error of one field.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{field}: {}", self.body())]
pub struct FieldError {
    /// Type of the error.
    pub kind: ErrorKind,
    /// Path of the field.
    pub field: String,
    /// Value of the field, if messages of this type show it.
    pub bad_value: BadValue,
    /// Explanation, such as the allowed format; may be empty.
    pub detail: Cow<'static, str>,
}

/// A field error whose path is not formatted yet. A full [`ErrorList`] drops it without formatting the path,
/// which can be as long as a key of a map.
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

    /// The value is required; `detail` may be empty.
    pub fn required<'a>(path: &'a Path<'_>, detail: impl Into<Cow<'static, str>>) -> FieldErrorDraft<'a> {
        FieldError::draft(ErrorKind::Required, path, BadValue::Omitted, detail)
    }

    /// The value is not permitted here.
    pub fn forbidden<'a>(path: &'a Path<'_>, detail: impl Into<Cow<'static, str>>) -> FieldErrorDraft<'a> {
        FieldError::draft(ErrorKind::Forbidden, path, BadValue::Omitted, detail)
    }

    /// The value is repeated.
    pub fn duplicate<'a>(path: &'a Path<'_>, value: impl Into<BadValue>) -> FieldErrorDraft<'a> {
        FieldError::draft(ErrorKind::Duplicate, path, value, "")
    }

    /// The value is repeated; `detail` names the rule.
    pub(crate) fn duplicate_by<'a>(
        path: &'a Path<'_>,
        value: impl Into<BadValue>,
        detail: impl Into<Cow<'static, str>>,
    ) -> FieldErrorDraft<'a> {
        FieldError::draft(ErrorKind::Duplicate, path, value, detail)
    }

    /// The referenced object is not among those that `detail` lists.
    pub(crate) fn not_found_in<'a>(
        path: &'a Path<'_>,
        value: impl Into<BadValue>,
        detail: impl Into<Cow<'static, str>>,
    ) -> FieldErrorDraft<'a> {
        FieldError::draft(ErrorKind::NotFound, path, value, detail)
    }

    /// The referenced object does not exist.
    pub fn not_found<'a>(path: &'a Path<'_>, value: impl Into<BadValue>) -> FieldErrorDraft<'a> {
        FieldError::draft(ErrorKind::NotFound, path, value, "")
    }

    /// The value is not one of `supported`, which are listed in the given order: sort them where upstream
    /// does.
    pub fn not_supported<'a, S: AsRef<str>>(
        path: &'a Path<'_>,
        value: impl Into<BadValue>,
        supported: &[S],
    ) -> FieldErrorDraft<'a> {
        let mut detail = String::new();
        for (i, one) in supported.iter().enumerate() {
            detail.push_str(if i == 0 { "supported values: " } else { ", " });
            write!(detail, "{}", Quoted(one.as_ref())).expect("writing to a String cannot fail");
        }
        FieldError::draft(ErrorKind::NotSupported, path, value, detail)
    }

    /// The value has more than `max` bytes.
    pub(crate) fn too_long<'a>(path: &'a Path<'_>, max: usize) -> FieldErrorDraft<'a> {
        let detail = format!("may not be more than {max} {}", plural(max, "byte", "bytes"));
        FieldError::draft(ErrorKind::TooLong, path, BadValue::Omitted, detail)
    }

    /// The value has more than `max` characters.
    pub(crate) fn too_long_characters<'a>(path: &'a Path<'_>, max: usize) -> FieldErrorDraft<'a> {
        let detail = format!("may not be more than {max} {}", plural(max, "character", "characters"));
        FieldError::draft(ErrorKind::TooLong, path, BadValue::Omitted, detail)
    }

    /// The value has fewer than `min` characters.
    pub fn too_short<'a>(path: &'a Path<'_>, min: usize) -> FieldErrorDraft<'a> {
        let detail = format!("must be at least {min} {}", plural(min, "character", "characters"));
        FieldError::draft(ErrorKind::TooShort, path, BadValue::Omitted, detail)
    }

    /// The list has more than `max` items; `actual` is shown if given.
    pub fn too_many<'a>(path: &'a Path<'_>, actual: Option<usize>, max: usize) -> FieldErrorDraft<'a> {
        let detail = format!("must have at most {max} {}", plural(max, "item", "items"));
        FieldError::draft(ErrorKind::TooMany, path, actual.map_or(BadValue::Omitted, BadValue::from), detail)
    }

    /// The list has `actual` items, fewer than `min`.
    pub fn too_few<'a>(path: &'a Path<'_>, actual: usize, min: usize) -> FieldErrorDraft<'a> {
        let detail = format!("must have at least {min} {}", plural(min, "item", "items"));
        FieldError::draft(ErrorKind::TooFew, path, actual, detail)
    }

    /// The value could not be validated.
    pub fn internal<'a>(path: &'a Path<'_>, detail: impl Into<Cow<'static, str>>) -> FieldErrorDraft<'a> {
        FieldError::draft(ErrorKind::Internal, path, BadValue::Omitted, detail)
    }

    /// Bytes of the shown field and value, before escapes.
    fn shown_len(&self) -> usize {
        self.field.len() + self.bad_value.shown_len() + self.detail.len()
    }

    /// Message without the field, as in a status cause.
    pub fn body(&self) -> impl fmt::Display + '_ {
        fmt::from_fn(|f| {
            f.write_str(self.kind.title())?;
            if self.kind.has_shown_value() && self.bad_value != BadValue::Omitted {
                write!(f, ": {}", self.bad_value)?;
            }
            if self.detail.is_empty() { Ok(()) } else { write!(f, ": {}", self.detail) }
        })
    }
}

const fn plural<'a>(n: usize, one: &'a str, many: &'a str) -> &'a str {
    if n == 1 { one } else { many }
}

/// Maximum number of errors in a response. Bounds the response to a small object, which could otherwise be a
/// hundred times its size.
const ERRORS_MAX: usize = 1000;

/// Bytes of errors after which no further one is kept; the first is kept however long it is. Upstream has no
/// such bound. An error can show a value as long as the request, and a thousand errors can show the same one.
const ERRORS_BYTES_MAX: usize = 1 << 20;

/// Errors found in an object, up to [`ERRORS_MAX`] and [`ERRORS_BYTES_MAX`]; empty if it is valid.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ErrorList {
    errors: Vec<FieldError>,
    bytes: usize,
}

impl ErrorList {
    /// Returns an empty list.
    #[must_use]
    pub const fn new() -> ErrorList {
        ErrorList { errors: Vec::new(), bytes: 0 }
    }

    /// Adds an error, unless the list is full.
    pub fn push(&mut self, error: impl Into<FieldError>) {
        if !self.is_full() {
            let error = error.into();
            self.bytes += error.shown_len();
            self.errors.push(error);
        }
    }

    /// `true` if no further error is kept. Loops whose errors are expensive to find stop here.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.errors.len() >= ERRORS_MAX || self.bytes >= ERRORS_BYTES_MAX
    }

    /// Adds all errors of another list.
    pub fn append(&mut self, other: ErrorList) {
        self.extend(other);
    }

    /// Adds an `Invalid` error for each message about a value.
    pub(crate) fn push_invalid(
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

    /// `true` if there are no errors.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// Number of errors.
    #[must_use]
    pub fn len(&self) -> usize {
        self.errors.len()
    }

    /// Iterates over the errors in the order they were found.
    pub fn iter(&self) -> std::slice::Iter<'_, FieldError> {
        self.errors.iter()
    }
}

impl fmt::Display for ErrorList {
    /// One message: each distinct error once, in brackets if there are several.
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
    fn paths_print_as_upstream() {
        let spec = Path::root("spec");
        assert_eq!(spec.child("containers").index(0).child("name").to_string(), "spec.containers[0].name");
        assert_eq!(Path::root("metadata").child("labels").key("a/b").to_string(), "metadata.labels[a/b]");
        assert_eq!(Path::NONE.to_string(), "<nil>");
        assert_eq!(Path::NONE.child("values").index(1).key("k").to_string(), "values[1][k]");
    }

    #[test]
    fn each_error_type_prints_as_upstream() {
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
    fn list_prints_distinct_errors_once() {
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
    fn errors_are_bounded_in_number() {
        let path = Path::root("a");
        let fault = || FieldError::from(FieldError::required(&path, ""));
        let mut list = ErrorList::new();
        (0..2 * ERRORS_MAX).for_each(|_| list.push(fault()));
        list.append(ErrorList::from(vec![fault(); 2 * ERRORS_MAX]));
        list.push_invalid(&path, "x", ["bad".into()]);
        assert_eq!(list.len(), ERRORS_MAX);
    }

    #[test]
    fn errors_are_bounded_in_bytes() {
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
