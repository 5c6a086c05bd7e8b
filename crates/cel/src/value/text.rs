//! Strings that are borrowed or shared.

use std::ops::Deref;
use std::sync::Arc;

/// String of an expression: borrowed from JSON, or shared.
#[derive(Clone, Debug)]
pub enum TextValue<'a> {
    /// String of a JSON value.
    Borrowed(&'a str),
    /// String that the expression made or holds as a constant.
    Shared(Arc<str>),
}

impl Deref for TextValue<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl std::fmt::Display for TextValue<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self)
    }
}

impl PartialEq for TextValue<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for TextValue<'_> {}

impl PartialOrd for TextValue<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TextValue<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (**self).cmp(&**other)
    }
}
