//! Patches: JSON patch, merge patch and strategic merge patch.
//!
//! A [`Patch`] is read once and can be applied many times, since a write that lost a race is tried again. Patches
//! work on plain values. Whether the outcome is an object of its kind is for [`mod@crate::decode`] to say, and
//! [`Patch::invalid`] puts its answer in the words that clients know.
//!
//! Merging takes time about linear in object and patch, also for long lists. A JSON patch takes at most one walk through
//! the object for each of a few operations, and one walk for all of many; see [`mod@json`].

use thiserror::Error;

use crate::decode::{DecodeError, StrictError};
use crate::field_error::{ErrorList, FieldError, Path};
use crate::json::Duplicate;
use crate::schema::Struct;
use crate::status::{Generic, Qualified, Status};
use crate::value::Value;

mod go_text;
mod json;
mod merge;
mod overlay;
mod restore;
mod strategic;

#[cfg(test)]
mod tests;

pub use json::{COPY_BYTES_MAX, JsonPatchError, OPERATIONS_MAX};
pub use strategic::StrategicError;

/// The sort of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// A list of operations, RFC 6902.
    Json,
    /// An object that is laid over the other, RFC 7386.
    Merge,
    /// The same, with lists merged as the schema says.
    Strategic,
}

impl PatchType {
    /// The media type.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            PatchType::Json => "application/json-patch+json",
            PatchType::Merge => "application/merge-patch+json",
            PatchType::Strategic => "application/strategic-merge-patch+json",
        }
    }

    /// The sort with this media type, which has no parameters.
    #[must_use]
    pub fn from_media_type(text: &str) -> Option<PatchType> {
        [PatchType::Json, PatchType::Merge, PatchType::Strategic]
            .into_iter()
            .find(|sort| sort.media_type() == text)
    }

    /// Applies a patch of this sort, which nobody sent as text, as [`Patch::apply`] does.
    ///
    /// # Errors
    /// As [`Patch::apply`].
    pub fn apply(self, patch: &Value, object: Value, of: Struct<'_>) -> Result<Value, PatchError> {
        match self {
            PatchType::Json => Ok(json::apply(object, patch)?),
            PatchType::Merge => merge::apply(object, patch).ok_or(PatchError::Merge),
            PatchType::Strategic => Ok(strategic::apply(object, patch, of)?),
        }
    }
}

/// A patch that was read.
#[derive(Clone, Debug)]
pub struct Patch {
    sort: PatchType,
    body: Value,
    strict: Vec<Box<str>>,
}

/// Why a patch cannot be read or applied.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PatchError {
    /// The body is no JSON.
    #[error("invalid JSON patch")]
    Syntax,
    /// The body is JSON, but no patch.
    #[error("{0}")]
    Shape(String),
    /// There are too many operations.
    #[error("The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {0}")]
    TooManyOperations(usize),
    /// An operation of a JSON patch fails.
    #[error(transparent)]
    Json(#[from] JsonPatchError),
    /// A merge patch is no object.
    #[error("Invalid JSON Patch")]
    Merge,
    /// A strategic merge patch makes no sense for the object.
    #[error(transparent)]
    Strategic(#[from] StrategicError),
}

impl PatchError {
    /// The answer to the client. What an operation of a JSON patch failed at is not told, as upstream does not
    /// tell it; where upstream blames itself for a patch that makes no sense, the client is told what is wrong.
    #[must_use]
    pub fn to_status(&self) -> Status {
        match self {
            PatchError::TooManyOperations(_) => Status::request_entity_too_large(self),
            PatchError::Json(_) | PatchError::Strategic(StrategicError::ListOfLists) => {
                Status::generic(422, &Generic { message: &self.to_string(), ..Generic::default() })
            }
            PatchError::Syntax | PatchError::Shape(_) | PatchError::Merge | PatchError::Strategic(_) => {
                Status::bad_request(self.to_string())
            }
        }
    }
}

impl Patch {
    /// Reads a patch. With `strict`, what is beyond a patch's form is noted for [`Patch::strict`], and the form of
    /// all operations is checked; it is for the field validations `Strict` and `Warn`.
    ///
    /// # Errors
    /// If the body is no patch of this sort.
    pub fn parse(sort: PatchType, bytes: &[u8], strict: bool) -> Result<Patch, PatchError> {
        let (body, duplicates) = if strict {
            crate::json::parse_strict(bytes).map_err(|_| PatchError::Syntax)?
        } else {
            (crate::json::parse(bytes).map_err(|_| PatchError::Syntax)?, Vec::new())
        };
        let strict = match sort {
            PatchType::Json => json::check(&body, &duplicates, strict)?,
            PatchType::Merge if strict => {
                is_object(&body)
                    .map_err(|text| PatchError::Shape(format!("error decoding patch: {text}")))?;
                duplicate_texts(&duplicates)
            }
            PatchType::Merge => Vec::new(),
            PatchType::Strategic => {
                is_object(&body).map_err(PatchError::Shape)?;
                duplicate_texts(&duplicates)
            }
        };
        Ok(Patch { sort, body, strict })
    }

    /// The sort.
    #[must_use]
    pub fn sort(&self) -> PatchType {
        self.sort
    }

    /// What the patch itself said beyond its form, for warnings or a refusal.
    #[must_use]
    pub fn strict(&self) -> &[Box<str>] {
        &self.strict
    }

    /// Whether it is seen at once that the patch does not change this field of an object.
    #[must_use]
    pub fn leaves_alone(&self, field: &str) -> bool {
        let is_other = |key: &str| key != field && !key.starts_with('$');
        match self.sort {
            PatchType::Json => false,
            PatchType::Merge | PatchType::Strategic => {
                self.body.as_map().is_some_and(|body| body.keys().all(is_other))
            }
        }
    }

    /// Applies the patch to an object of the version that the client speaks, whose schema is `of`.
    ///
    /// # Errors
    /// If an operation fails, or the patch makes no sense for the object.
    pub fn apply(&self, object: Value, of: Struct<'_>) -> Result<Value, PatchError> {
        self.sort.apply(&self.body, object, of)
    }

    /// The answer when the patched object cannot be decoded. `patched` is what [`Patch::apply`] gave.
    #[must_use]
    pub fn invalid(&self, patched: &Value, of: Struct<'_>, error: &DecodeError) -> Status {
        let text = match self.sort {
            PatchType::Strategic => restore::mismatch(patched, of),
            PatchType::Json | PatchType::Merge => None,
        };
        self.refuse(patched, text.unwrap_or_else(|| error.to_string()))
    }

    /// The answer when fields must be known and unique, and are not: `strict` is what decoding noted. It counts
    /// only if this or [`Patch::strict`] is not empty.
    #[must_use]
    pub fn strict_invalid(&self, patched: &Value, strict: &[StrictError]) -> Status {
        let own = self.strict.iter().map(ToString::to_string);
        let texts: Vec<String> = own.chain(strict.iter().map(ToString::to_string)).collect();
        self.refuse(patched, format!("strict decoding error: {}", texts.join(", ")))
    }

    /// The answer when the patched object says that it is of another type than `expected`, by version and kind. What
    /// names no version is no object that could be told apart, and comes back without its fields.
    ///
    /// # Errors
    /// If it says so.
    pub fn typed(&self, mut patched: Value, expected: (&str, &str)) -> Result<Value, Status> {
        let (api_version, kind) = expected;
        let said = [patched.str_at(&["apiVersion"]), patched.str_at(&["kind"])];
        if self.sort != PatchType::Strategic {
            if said[0].is_empty() && patched.as_map().is_some() {
                patched = Value::map();
            } else if said[0] != api_version {
                let scheme = "pkg/api/legacyscheme/scheme.go:30";
                let (version, kind) = (said[0], if said[1].is_empty() { kind } else { said[1] });
                let why =
                    format!("no kind {kind:?} is registered for version {version:?} in scheme {scheme:?}");
                return Err(self.refuse(&patched, why));
            } else if !said[1].is_empty() && said[1] != kind {
                let (group, version) = api_version.split_once('/').unwrap_or(("core", api_version));
                let (group, other) = (group.split('.').next().unwrap_or_default(), said[1]);
                let why = format!("converting ({version}.{other}) to ({group}.{kind}): unknown conversion");
                return Err(self.refuse(&patched, why));
            }
        }
        if let Value::Map(map) = &mut patched {
            map.insert("kind", kind);
            map.insert("apiVersion", api_version);
        }
        Ok(patched)
    }

    fn refuse(&self, patched: &Value, detail: String) -> Status {
        let shown = match self.sort {
            PatchType::Json => json::shown(patched, &self.body),
            PatchType::Merge => merge::shown(patched, &self.body),
            PatchType::Strategic => go_text::GoText(&self.body).to_string(),
        };
        let mut errors = ErrorList::new();
        errors.push(FieldError::invalid(&Path::root("patch"), shown.as_str(), detail));
        Status::invalid(Qualified::default(), "", &errors)
    }
}

/// Whether a body is an object, or null, which counts as an empty one; otherwise what Go's decoder says.
fn is_object(body: &Value) -> Result<(), String> {
    match body {
        Value::Map(_) | Value::Null => Ok(()),
        other => Err(unmarshal_text(other, "value of type map[string]interface {}")),
    }
}

fn unmarshal_text(value: &Value, target: &str) -> String {
    format!("json: cannot unmarshal {} into Go {target}", value.type_name())
}

fn duplicate_texts(duplicates: &[Duplicate]) -> Vec<Box<str>> {
    let mut texts: Vec<Box<str>> = Vec::with_capacity(duplicates.len());
    for duplicate in duplicates {
        let text = StrictError::Duplicate { path: duplicate.path() }.to_string().into_boxed_str();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts
}
