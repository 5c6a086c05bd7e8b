//! Why a value cannot be decoded, and what was said beyond the schema.

use std::fmt;

use thiserror::Error;

use crate::quantity::QuantityError;
use crate::quote::Quoted;
use crate::rfc3339::TimeError;

/// Why a value cannot be decoded. The texts are those that clients know from Go.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// A value of another type was expected.
    #[error("json: cannot unmarshal {value} into Go {}{go}", place(.field.as_deref()))]
    Type {
        /// What was there: the type, and for numbers that do not fit the number.
        value: String,
        /// The innermost struct and the path of fields; none at the top.
        field: Option<String>,
        /// The Go type that was expected.
        go: String,
    },
    /// Bytes that are not base64.
    #[error("illegal base64 data at input byte {0}")]
    Base64(usize),
    /// A time that is none.
    #[error(transparent)]
    Time(#[from] TimeError),
    /// A quantity that is none.
    #[error(transparent)]
    Quantity(QuantityError),
    /// Neither a JSON schema nor a truth value.
    #[error("boolean or JSON schema expected")]
    SchemaOrBool,
}

fn place(field: Option<&str>) -> String {
    field.map_or_else(|| "value of type ".to_owned(), |field| format!("struct field {field} of type "))
}

/// Something that a body said and that only strict validation refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StrictError {
    /// A field that the schema does not know.
    Unknown {
        /// Where it stands.
        path: String,
    },
    /// A field that came more than once.
    Duplicate {
        /// Where it stands.
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

    /// All of them as one text, as upstream refuses a body.
    #[must_use]
    pub fn join(errors: &[StrictError]) -> String {
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        format!("strict decoding error: {}", texts.join(", "))
    }
}
