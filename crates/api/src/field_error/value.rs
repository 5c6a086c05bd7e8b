//! Values in validation messages.

use std::fmt;
use std::sync::Arc;

use crate::go_format::GoFloat;
use crate::quote::{Quoted, json_string};

/// An offending value in the form in which messages show it.
#[derive(Clone, Debug, PartialEq)]
pub enum BadValue {
    /// Not shown.
    Omitted,
    /// String, quoted as Go's `%q`.
    Text(Box<str>),
    /// Integer.
    Int(i64),
    /// Float, in the shortest form that parses back.
    Float(f64),
    /// `true` or `false`.
    Bool(bool),
    /// `null`.
    Null,
    /// Other values, encoded as JSON: lists, maps, and values of named string types. Shared, because many
    /// errors can show the same list.
    Json(Arc<str>),
}

impl BadValue {
    /// A string shown as JSON: upstream prints values of named string types (such as enumerations) with
    /// JSON's escapes and plain strings with `%q`. The two differ only in rare characters.
    #[must_use]
    pub fn json_string(text: &str) -> BadValue {
        BadValue::Json(json_string(text).into())
    }

    /// A list of strings shown as JSON; an empty one is `null`, as an absent list.
    #[must_use]
    pub fn json_strings<S: AsRef<str>>(texts: &[S]) -> BadValue {
        if texts.is_empty() {
            return BadValue::Null;
        }
        let items: Vec<String> = texts.iter().map(|text| json_string(text.as_ref())).collect();
        BadValue::Json(format!("[{}]", items.join(",")).into())
    }

    /// Bytes of the value, before escapes.
    pub(super) fn shown_len(&self) -> usize {
        match self {
            BadValue::Text(text) => text.len(),
            BadValue::Json(json) => json.len(),
            BadValue::Int(_) | BadValue::Float(_) => size_of::<u64>(),
            BadValue::Omitted | BadValue::Bool(_) | BadValue::Null => 0,
        }
    }
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadValue::Omitted => Ok(()),
            BadValue::Text(text) => write!(f, "{}", Quoted(text)),
            BadValue::Int(int) => write!(f, "{int}"),
            BadValue::Float(float) => write!(f, "{}", GoFloat(*float)),
            BadValue::Bool(bool) => write!(f, "{bool}"),
            BadValue::Null => f.write_str("null"),
            BadValue::Json(json) => f.write_str(json),
        }
    }
}

impl From<&str> for BadValue {
    fn from(text: &str) -> BadValue {
        BadValue::Text(text.into())
    }
}

impl From<String> for BadValue {
    fn from(text: String) -> BadValue {
        BadValue::Text(text.into())
    }
}

impl From<i64> for BadValue {
    fn from(int: i64) -> BadValue {
        BadValue::Int(int)
    }
}

impl From<i32> for BadValue {
    fn from(int: i32) -> BadValue {
        BadValue::Int(int.into())
    }
}

impl From<usize> for BadValue {
    fn from(int: usize) -> BadValue {
        BadValue::Int(i64::try_from(int).unwrap_or(i64::MAX))
    }
}

impl From<f64> for BadValue {
    fn from(float: f64) -> BadValue {
        BadValue::Float(float)
    }
}

impl From<bool> for BadValue {
    fn from(bool: bool) -> BadValue {
        BadValue::Bool(bool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_in_go() {
        for (float, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (100_000.0, "100000"),
            (1_000_000.0, "1e+06"),
            (123_456_789.125, "1.23456789125e+08"),
            (1e21, "1e+21"),
            (-1.5e300, "-1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1e-100, "1e-100"),
        ] {
            assert_eq!(BadValue::Float(float).to_string(), text);
        }
    }

    #[test]
    fn lists_of_strings_print_as_json() {
        assert_eq!(BadValue::json_strings(&["a", "b\""]).to_string(), r#"["a","b\""]"#);
        assert_eq!(BadValue::json_strings::<&str>(&[]).to_string(), "null");
    }
}
