//! Decoding errors: type errors that reject a body, and strict errors that depend on `fieldValidation`.

use std::fmt;

use thiserror::Error;

use crate::quantity::QuantityError;
use crate::quote::Quoted;
use crate::rfc3339::TimeError;

/// Decoding error with the text of Go's decoder, which clients match on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// A value has the wrong type.
    #[error("json: cannot unmarshal {value} into Go {}{go}", place(.field.as_deref()))]
    Type {
        /// Type of the value; for a number out of range, the number too.
        value: String,
        /// Innermost struct and path of fields; `None` at the root.
        field: Option<String>,
        /// Expected Go type.
        go: String,
    },
    /// Invalid base64; holds the position of the offending byte.
    #[error("illegal base64 data at input byte {0}")]
    Base64(usize),
    /// Invalid timestamp.
    #[error(transparent)]
    Time(#[from] TimeError),
    /// Invalid quantity.
    #[error(transparent)]
    Quantity(QuantityError),
    /// Neither a JSON schema nor a boolean.
    #[error("boolean or JSON schema expected")]
    SchemaOrBool,
    /// Metadata of a custom object has the wrong type.
    #[error("{0}")]
    Custom(String),
}

fn place(field: Option<&str>) -> String {
    field.map_or_else(|| "value of type ".to_owned(), |field| format!("struct field {field} of type "))
}

/// An error that only strict field validation rejects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StrictError {
    /// A field that is not in the schema.
    Unknown {
        /// Path of the field.
        path: String,
    },
    /// A field that occurs more than once.
    Duplicate {
        /// Path of the field.
        path: String,
    },
}

impl fmt::Display for StrictError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StrictError::Unknown { path } => write!(f, "unknown field {}", Quoted(path)),
            StrictError::Duplicate { path } => write!(f, "duplicate field {}", Quoted(path)),
        }
    }
}

impl StrictError {
    /// Path of the field.
    pub(super) fn path(&self) -> &str {
        match self {
            StrictError::Unknown { path } | StrictError::Duplicate { path } => path,
        }
    }

    /// Joins the errors into the message with which upstream rejects a body.
    #[must_use]
    pub fn join(errors: &[StrictError]) -> String {
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        format!("strict decoding error: {}", texts.join(", "))
    }
}
