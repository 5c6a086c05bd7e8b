//! Details of a `Status`.

use std::borrow::Cow;

use super::Qualified;

/// Object and causes of a failure. Empty fields are not shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// Name of the object.
    pub name: Box<str>,
    /// Group of the resource or kind.
    pub group: Box<str>,
    /// Plural of the resource, or the kind.
    pub kind: Box<str>,
    /// UID of the object.
    pub uid: Box<str>,
    /// Causes of the failure.
    pub causes: Vec<StatusCause>,
    /// Seconds after which to retry; 0 is not shown.
    pub retry_after_seconds: i32,
}

impl Details {
    pub(super) fn about(what: Qualified<'_>, name: &str) -> Details {
        Details { name: name.into(), group: what.group.into(), kind: what.name.into(), ..Details::default() }
    }
}

/// One cause of a failure. Empty fields are not shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusCause {
    /// Machine-readable reason.
    pub reason: Cow<'static, str>,
    /// Human-readable message.
    pub message: Box<str>,
    /// Field that caused the failure.
    pub field: Box<str>,
}
