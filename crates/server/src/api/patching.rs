//! Parsed patches, shared by the object and the scale endpoints.

use setpoint_api::Value;
use setpoint_api::patch::{Patch, PatchType};
use setpoint_api::status::Status;

use super::write::header;
use crate::body::{DecodedBody, Expected, Strictness};
use crate::exchange::Request;
use crate::query::QueryParams;
use crate::responses;

/// A patch, and how strictly its result is decoded.
pub(super) struct ParsedPatch {
    patch: Patch,
    strictness: Strictness,
}

/// Patch type of a request; `None` for an apply.
///
/// # Errors
/// 415 if the media type is unknown.
pub(super) fn patch_type(request: &Request) -> Result<Option<PatchType>, Status> {
    let kind = header(request).unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if kind == "application/apply-patch+yaml" {
        return Ok(None);
    }
    PatchType::from_media_type(kind).map(Some).ok_or_else(responses::unsupported_patch)
}

impl ParsedPatch {
    /// Parses the patch of a request.
    ///
    /// # Errors
    /// If it is malformed.
    pub(super) fn parse(
        sort: PatchType,
        request: &Request,
        query: &QueryParams,
    ) -> Result<ParsedPatch, Status> {
        let strictness = Strictness::of(query.get("fieldValidation"));
        let patch = Patch::parse(sort, &request.body, strictness != Strictness::Ignore)
            .map_err(|error| error.to_status())?;
        Ok(ParsedPatch { patch, strictness })
    }

    /// `true` if the patch certainly does not change this field. Cheap: only top-level fields are compared.
    pub(super) fn is_untouched(&self, field: &str) -> bool {
        self.patch.is_untouched(field)
    }

    /// Applies the patch to `live`, and decodes the result with warnings.
    ///
    /// # Errors
    /// If the patch does not apply, or its result is invalid.
    pub(super) fn apply(&self, live: Value, expected: Expected<'_>) -> Result<DecodedBody, Status> {
        let schema = expected.schema.built_in();
        let patched = self.patch.apply(live, schema).map_err(|error| error.to_status())?;
        let patched = self.patch.check_type(patched, (expected.api_version, expected.kind))?;
        let decoded = expected
            .schema
            .decode_request(patched.clone(), &[])
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
        Ok(DecodedBody { object: decoded.value, has_omitted_empty: decoded.has_omitted_empty, warnings })
    }
}
