//! Patches: JSON patch, JSON merge patch and strategic merge patch.
//!
//! A [`Patch`] is parsed once and can be applied repeatedly, since a write with a conflict is retried.
//! Patches work on dynamic values; [`mod@crate::decode`] checks the result against its schema, and
//! [`Patch::invalid`] converts its error into upstream's response.
//!
//! Merging takes time about linear in object and patch, even for long lists. A JSON patch of few operations
//! takes at most one walk through the object per operation, one of many operations a single walk; see
//! [`mod@json`].

use thiserror::Error;

use crate::decode::{DecodeError, StrictError};
use crate::field_error::{ErrorList, FieldError, Path};
use crate::go_format::GoValue;
use crate::json::Duplicate;
use crate::schema::Struct;
use crate::status::{Generic, Qualified, Reason, Status};
use crate::value::Value;

mod json;
mod merge;
mod overlay;
mod restore;
mod strategic;

#[cfg(test)]
mod tests;

pub use json::{COPY_BYTES_MAX, JsonPatchError, OPERATIONS_MAX};
pub use strategic::StrategicError;

/// Type of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// A list of operations, RFC 6902.
    Json,
    /// JSON merge patch, RFC 7386.
    Merge,
    /// Merge patch whose lists are merged by the schema.
    Strategic,
}

impl PatchType {
    /// Media type of the patch.
    #[must_use]
    const fn media_type(self) -> &'static str {
        match self {
            PatchType::Json => "application/json-patch+json",
            PatchType::Merge => "application/merge-patch+json",
            PatchType::Strategic => "application/strategic-merge-patch+json",
        }
    }

    /// Patch type of a media type without parameters.
    #[must_use]
    pub fn from_media_type(text: &str) -> Option<PatchType> {
        [PatchType::Json, PatchType::Merge, PatchType::Strategic]
            .into_iter()
            .find(|patch_type| patch_type.media_type() == text)
    }

    /// Applies a patch given as a value, as [`Patch::apply`] does. A custom kind has no schema for strategic
    /// merges.
    ///
    /// # Errors
    /// As [`Patch::apply`].
    pub fn apply(
        self,
        patch: &Value,
        object: Value,
        schema: Option<Struct<'_>>,
    ) -> Result<Value, PatchError> {
        match self {
            PatchType::Json => Ok(json::apply(object, patch)?),
            PatchType::Merge => merge::apply(object, patch).ok_or(PatchError::Merge),
            PatchType::Strategic => {
                Ok(strategic::apply(object, patch, schema.ok_or(PatchError::StrategicUnsupported)?)?)
            }
        }
    }
}

/// A parsed patch.
#[derive(Clone, Debug)]
pub struct Patch {
    patch_type: PatchType,
    body: Value,
    strict: Vec<Box<str>>,
}

/// Error of parsing or applying a patch.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PatchError {
    /// The body is not JSON.
    #[error("invalid JSON patch")]
    Syntax,
    /// The body is JSON, but not a patch.
    #[error("{0}")]
    Shape(String),
    /// A JSON patch has too many operations.
    #[error("The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {0}")]
    TooManyOperations(usize),
    /// An operation of a JSON patch failed.
    #[error(transparent)]
    Json(#[from] JsonPatchError),
    /// A merge patch is not an object.
    #[error("Invalid JSON Patch")]
    Merge,
    /// A strategic merge patch does not apply to the object.
    #[error(transparent)]
    Strategic(#[from] StrategicError),
    /// The kind has no schema for strategic merges.
    #[error("strategic merge patches are not supported by this kind")]
    StrategicUnsupported,
}

impl PatchError {
    /// Converts the error into the response. As upstream, it does not name the operation of a JSON patch that
    /// failed. Where upstream returns an internal error for an inapplicable patch, the response is a client
    /// error with the reason.
    #[must_use]
    pub fn to_status(&self) -> Status {
        match self {
            PatchError::TooManyOperations(_) => Status::request_entity_too_large(self),
            PatchError::Json(_) | PatchError::Strategic(StrategicError::ListOfLists) => {
                Status::generic(422, &Generic { message: &self.to_string(), ..Generic::default() })
            }
            PatchError::StrategicUnsupported => {
                Status::failure(Reason::UnsupportedMediaType, self.to_string())
            }
            PatchError::Syntax | PatchError::Shape(_) | PatchError::Merge | PatchError::Strategic(_) => {
                Status::bad_request(self.to_string())
            }
        }
    }
}

impl Patch {
    /// Parses a patch. With `strict`, unknown and duplicate fields are collected for [`Patch::strict`], and
    /// the form of all operations is checked; for the field validations `Strict` and `Warn`.
    ///
    /// # Errors
    /// If the body is not a patch of this type.
    pub fn parse(patch_type: PatchType, bytes: &[u8], strict: bool) -> Result<Patch, PatchError> {
        let (body, duplicates) = if strict {
            crate::json::parse_strict(bytes).map_err(|_| PatchError::Syntax)?
        } else {
            (crate::json::parse(bytes).map_err(|_| PatchError::Syntax)?, Vec::new())
        };
        let strict = match patch_type {
            PatchType::Json => json::check(&body, &duplicates, strict)?,
            PatchType::Merge if strict => {
                check_is_object(&body)
                    .map_err(|text| PatchError::Shape(format!("error decoding patch: {text}")))?;
                duplicate_texts(&duplicates)
            }
            PatchType::Merge => Vec::new(),
            PatchType::Strategic => {
                check_is_object(&body).map_err(PatchError::Shape)?;
                duplicate_texts(&duplicates)
            }
        };
        Ok(Patch { patch_type, body, strict })
    }

    /// Type of the patch.
    #[must_use]
    pub fn patch_type(&self) -> PatchType {
        self.patch_type
    }

    /// Strict errors of the patch itself, for warnings or a rejection.
    #[must_use]
    pub fn strict(&self) -> &[Box<str>] {
        &self.strict
    }

    /// `true` if the patch obviously does not change this top-level field.
    #[must_use]
    pub fn is_untouched(&self, field: &str) -> bool {
        let is_other = |key: &str| key != field && !key.starts_with('$');
        match self.patch_type {
            PatchType::Json => false,
            PatchType::Merge | PatchType::Strategic => {
                self.body.as_map().is_some_and(|body| body.keys().all(is_other))
            }
        }
    }

    /// Applies the patch to an object in the version of the request, whose schema is `of`.
    ///
    /// # Errors
    /// If an operation fails, or the patch does not apply to the object.
    pub fn apply(&self, object: Value, schema: Option<Struct<'_>>) -> Result<Value, PatchError> {
        self.patch_type.apply(&self.body, object, schema)
    }

    /// Response if the patched object fails to decode. `patched` is the result of [`Patch::apply`].
    #[must_use]
    pub fn invalid(&self, patched: &Value, schema: Option<Struct<'_>>, error: &DecodeError) -> Status {
        let text = match self.patch_type {
            PatchType::Strategic => schema.and_then(|schema| restore::mismatch(patched, schema)),
            PatchType::Json | PatchType::Merge => None,
        };
        self.rejection(patched, text.unwrap_or_else(|| error.to_string()))
    }

    /// Response if strict field validation fails: `strict` holds the strict errors of decoding. Applies only
    /// if these or [`Patch::strict`] are not empty.
    #[must_use]
    pub fn strict_invalid(&self, patched: &Value, strict: &[StrictError]) -> Status {
        let own = self.strict.iter().map(ToString::to_string);
        let texts: Vec<String> = own.chain(strict.iter().map(ToString::to_string)).collect();
        self.rejection(patched, format!("strict decoding error: {}", texts.join(", ")))
    }

    /// Checks that the patched object has the `expected` version and kind. An object without a version is
    /// returned without its fields, as upstream cannot determine its type.
    ///
    /// # Errors
    /// The response, if version or kind differ.
    pub fn check_type(&self, mut patched: Value, expected: (&str, &str)) -> Result<Value, Status> {
        let (api_version, kind) = expected;
        let found_type = [patched.str_at(&["apiVersion"]), patched.str_at(&["kind"])];
        if self.patch_type != PatchType::Strategic {
            if found_type[0].is_empty() && patched.as_map().is_some() {
                patched = Value::map();
            } else if found_type[0] != api_version {
                let scheme = "pkg/api/legacyscheme/scheme.go:30";
                let (version, kind) =
                    (found_type[0], if found_type[1].is_empty() { kind } else { found_type[1] });
                let why =
                    format!("no kind {kind:?} is registered for version {version:?} in scheme {scheme:?}");
                return Err(self.rejection(&patched, why));
            } else if !found_type[1].is_empty() && found_type[1] != kind {
                let (group, version) = api_version.split_once('/').unwrap_or(("core", api_version));
                let (group, other) = (group.split('.').next().unwrap_or_default(), found_type[1]);
                let why = format!("converting ({version}.{other}) to ({group}.{kind}): unknown conversion");
                return Err(self.rejection(&patched, why));
            }
        }
        if let Value::Map(map) = &mut patched {
            map.insert("kind", kind);
            map.insert("apiVersion", api_version);
        }
        Ok(patched)
    }

    fn rejection(&self, patched: &Value, detail: String) -> Status {
        let shown = match self.patch_type {
            PatchType::Json => json::shown(patched, &self.body),
            PatchType::Merge => merge::shown(patched, &self.body),
            PatchType::Strategic => GoValue(&self.body).to_string(),
        };
        let mut errors = ErrorList::new();
        errors.push(FieldError::invalid(&Path::root("patch"), shown.as_str(), detail));
        Status::invalid(Qualified::default(), "", &errors)
    }
}

/// Checks that a body is an object or null, which counts as empty; the error has the text of Go's decoder.
fn check_is_object(body: &Value) -> Result<(), String> {
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
