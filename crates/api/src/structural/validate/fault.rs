//! Errors of a validation before they are reported: branches of junctors and ratcheting drop most of them.

use std::collections::BTreeSet;

use super::super::coerce::bad_value;
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::json;
use crate::value::Value;

/// Maximum number of errors that are kept.
const FAULTS_MAX: usize = 1000;
/// Bytes of messages after which no further error is kept.
const FAULTS_BYTES_MAX: usize = 1 << 20;

/// One error.
pub(super) struct Fault<'a> {
    /// Path below the validated value; `None` if the error has no path of its own.
    pub(super) field: Option<String>,
    pub(super) kind: FaultKind<'a>,
    /// Message of kube-openapi, by which errors are distinguished.
    pub(super) message: String,
}

pub(super) enum FaultKind<'a> {
    Required,
    Invalid(ShownValue<'a>),
    TypeInvalid(ShownValue<'a>),
    NotSupported(&'a Value, &'a [Value]),
    TooLong(i64),
    TooMany(usize, i64),
}

/// An offending value, which is encoded only if it is reported.
pub(super) enum ShownValue<'a> {
    Of(&'a Value),
    Made(BadValue),
}

impl ShownValue<'_> {
    /// Upstream shows an empty string where it has no value.
    pub(super) const EMPTY: ShownValue<'static> =
        ShownValue::Of(&Value::Str(compact_str::CompactString::const_new("")));
}

impl From<BadValue> for ShownValue<'_> {
    fn from(value: BadValue) -> Self {
        ShownValue::Made(value)
    }
}

impl From<ShownValue<'_>> for BadValue {
    fn from(value: ShownValue<'_>) -> BadValue {
        match value {
            ShownValue::Of(value) => bad_value(value),
            ShownValue::Made(value) => value,
        }
    }
}

/// Path as kube-openapi prints it; empty at the root.
pub(super) fn name(at: &Path<'_>) -> String {
    if at.is_none() { String::new() } else { at.to_string() }
}

/// Errors in the order in which they were found, bounded.
#[derive(Default)]
pub(super) struct FaultList<'a> {
    list: Vec<Fault<'a>>,
    /// Bytes of the messages.
    bytes: usize,
}

impl<'a> FaultList<'a> {
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Drops the errors after the first `len`.
    pub(super) fn truncate(&mut self, len: usize) {
        self.bytes -= self.list.drain(len..).map(|fault| fault.message.len()).sum::<usize>();
    }

    /// Adds an error, unless the list is full.
    pub(super) fn add(&mut self, fault: Fault<'a>) {
        if self.list.len() < FAULTS_MAX && self.bytes < FAULTS_BYTES_MAX {
            self.bytes += fault.message.len();
            self.list.push(fault);
        }
    }

    pub(super) fn append(&mut self, other: FaultList<'a>) {
        other.list.into_iter().for_each(|fault| self.add(fault));
    }

    /// Adds an error with kube-openapi's prefix.
    pub(super) fn push(&mut self, at: &Path<'_>, kind: FaultKind<'a>, detail: &str) {
        let message = format!("{} in body {detail}", name(at));
        self.push_message(at, kind, message);
    }

    pub(super) fn push_invalid(&mut self, at: &Path<'_>, value: ShownValue<'a>, detail: &str) {
        self.push(at, FaultKind::Invalid(value), detail);
    }

    /// Adds an error with a message of its own.
    pub(super) fn push_message(&mut self, at: &Path<'_>, kind: FaultKind<'a>, message: String) {
        self.add(Fault { field: Some(name(at)), kind, message });
    }

    /// Adds an error that upstream reports without a path.
    pub(super) fn push_pathless(&mut self, message: String) {
        self.add(Fault { field: None, kind: FaultKind::Invalid(ShownValue::EMPTY), message });
    }

    /// Reports distinct errors.
    pub(super) fn report(self, base: &Path<'_>, errors: &mut ErrorList) {
        let mut seen = BTreeSet::new();
        for Fault { field, kind, message } in self.list {
            if errors.is_full() || !seen.insert(message.clone()) {
                continue;
            }
            let field = field.as_deref().unwrap_or_default();
            let field = field.strip_prefix('.').unwrap_or(field);
            if field.is_empty() {
                errors.push(field_error(kind, message, base));
            } else {
                errors.push(field_error(kind, message, &base.child(field)));
            }
        }
    }
}

fn field_error(kind: FaultKind<'_>, message: String, path: &Path<'_>) -> FieldError {
    let limit = |max: i64| usize::try_from(max).unwrap_or(0);
    match kind {
        FaultKind::Required => FieldError::required(path, ""),
        FaultKind::Invalid(value) => FieldError::invalid(path, value, message),
        FaultKind::TypeInvalid(value) => FieldError::type_invalid(path, value, message),
        FaultKind::NotSupported(value, allowed) => {
            let show = |value: &Value| value.as_str().map_or_else(|| json::to_text(value), str::to_owned);
            let allowed: Vec<String> = allowed.iter().map(show).collect();
            FieldError::not_supported(path, bad_value(value), &allowed)
        }
        FaultKind::TooLong(max) => FieldError::too_long(path, limit(max)),
        FaultKind::TooMany(actual, max) => FieldError::too_many(path, Some(actual), limit(max)),
    }
    .into()
}
