//! What a patch makes of an object, whichever endpoint it came through.

use setpoint_api::Value;
use setpoint_api::decode::decode_sent;
use setpoint_api::patch::{Patch, PatchType};
use setpoint_api::status::Status;

use super::write::header;
use crate::body::{DecodedBody, Expected, Strictness};
use crate::exchange::Request;
use crate::query::Query;
use crate::responses;

/// A patch and how strictly its outcome is taken.
pub(super) struct ParsedPatch {
    patch: Patch,
    strictness: Strictness,
}

/// The sort of the patch of a request; nothing if it is the configuration of an apply.
///
/// # Errors
/// If the sort is not known.
pub(super) fn patch_type(request: &Request) -> Result<Option<PatchType>, Status> {
    let kind = header(request).unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if kind == "application/apply-patch+yaml" {
        return Ok(None);
    }
    PatchType::from_media_type(kind).map(Some).ok_or_else(responses::unsupported_patch)
}

impl ParsedPatch {
    /// Reads the patch of a request.
    ///
    /// # Errors
    /// If it is malformed.
    pub(super) fn parse(sort: PatchType, request: &Request, query: &Query) -> Result<ParsedPatch, Status> {
        let strictness = Strictness::of(query.get("fieldValidation"));
        let patch = Patch::parse(sort, &request.body, strictness != Strictness::Ignore)
            .map_err(|error| error.to_status())?;
        Ok(ParsedPatch { patch, strictness })
    }

    /// Whether it is seen at once that the patch does not change this field of an object.
    pub(super) fn leaves_alone(&self, field: &str) -> bool {
        self.patch.leaves_alone(field)
    }

    /// The object that comes of `live`, and what to warn the client of.
    ///
    /// # Errors
    /// If the patch does not fit, or makes something that is no such object.
    pub(super) fn apply(&self, live: Value, expected: Expected<'_>) -> Result<DecodedBody, Status> {
        let schema = expected.schema;
        let patched = self.patch.apply(live, schema).map_err(|error| error.to_status())?;
        let patched = self.patch.typed(patched, (expected.api_version, expected.kind))?;
        let decoded = decode_sent(patched.clone(), schema, &[])
            .map_err(|error| self.patch.invalid(&patched, schema, &error))?;
        let warnings = match self.strictness {
            Strictness::Strict if !decoded.strict.is_empty() || !self.patch.strict().is_empty() => {
                return Err(self.patch.strict_invalid(&patched, &decoded.strict));
            }
            Strictness::Warn => {
                let own = self.patch.strict().iter().map(ToString::to_string);
                own.chain(decoded.strict.iter().map(ToString::to_string)).collect()
            }
            _ => Vec::new(),
        };
        Ok(DecodedBody { object: decoded.value, has_omitted_empty: decoded.hollow, warnings })
    }
}
