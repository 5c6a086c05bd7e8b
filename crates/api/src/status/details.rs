//! What a status tells programs.

use std::borrow::Cow;

use super::Qualified;

/// What a status is about, and why, in parts that programs can read. Empty parts are not shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// The name of the object.
    pub name: Box<str>,
    /// The group of the resource or kind.
    pub group: Box<str>,
    /// The plural of the resource, or the kind.
    pub kind: Box<str>,
    /// The uid of the object.
    pub uid: Box<str>,
    /// The causes.
    pub causes: Vec<Cause>,
    /// When to try again; 0 is not shown.
    pub retry_after_seconds: i32,
}

impl Details {
    pub(super) fn about(what: Qualified<'_>, name: &str) -> Details {
        Details { name: name.into(), group: what.group.into(), kind: what.name.into(), ..Details::default() }
    }
}

/// One cause of a failure. Empty parts are not shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// What sort of cause, in one word.
    pub reason: Cow<'static, str>,
    /// What to tell people.
    pub message: Box<str>,
    /// The field that it is about.
    pub field: Box<str>,
}
