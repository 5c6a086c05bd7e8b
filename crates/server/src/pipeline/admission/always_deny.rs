//! AlwaysDeny: rejects every write. Deprecated upstream, and disabled by default.

use setpoint_api::Value;
use setpoint_api::status::Status;

use super::{AdmissionInput, Findings};

const WHY: &str = "admission control is denying all modifications";

/// Rejects the write.
pub(super) fn admit(object: &mut Value, input: &AdmissionInput<'_>) -> Result<(), Status> {
    Err(input.forbidden(object, WHY))
}

/// Rejects the write.
pub(super) fn validate(object: &Value, input: &AdmissionInput<'_>, _: &mut Findings) -> Result<(), Status> {
    Err(input.forbidden(object, WHY))
}
