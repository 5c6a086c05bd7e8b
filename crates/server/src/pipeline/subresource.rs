//! Rules of subresources that are views of the object, beside `status`.

use setpoint_api::field_error::ErrorList;
use setpoint_api::kinds::certificates::signing_request;
use setpoint_api::kinds::core::{namespace, pod};
use setpoint_api::{Time, Value};

use super::update::Subresource;

impl Subresource {
    /// Parses the last segment of a path; `None` if it is not such a subresource.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Subresource> {
        Some(match name {
            "" => Subresource::None,
            "status" => Subresource::Status,
            "finalize" => Subresource::Finalize,
            "approval" => Subresource::Approval,
            "ephemeralcontainers" => Subresource::EphemeralContainers,
            "resize" => Subresource::Resize,
            _ => return None,
        })
    }

    /// Last segment of the path; empty for the main resource.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Subresource::None => "",
            Subresource::Status => "status",
            Subresource::Finalize => "finalize",
            Subresource::Approval => "approval",
            Subresource::EphemeralContainers => "ephemeralcontainers",
            Subresource::Resize => "resize",
        }
    }

    /// Resets fields that a write of the subresource may not change. The main resource and the status follow the
    /// rules of their kind.
    pub(super) fn prepare(self, new: &mut Value, old: &Value, now: Time) {
        match self {
            Subresource::None | Subresource::Status => {}
            Subresource::Finalize => namespace::prepare_finalize(new, old),
            Subresource::Approval => {
                signing_request::prepare_approval(new, old);
                signing_request::fill_condition_times(new, old, now);
            }
            Subresource::EphemeralContainers => pod::prepare_ephemeral_containers(new, old),
            Subresource::Resize => pod::prepare_resize(new, old),
        }
    }

    /// Validates a write of the subresource.
    pub(super) fn validate(self, new: &Value, old: &Value, errors: &mut ErrorList) {
        match self {
            Subresource::None | Subresource::Status => {}
            Subresource::Finalize => namespace::validate_finalize(new, errors),
            Subresource::Approval => signing_request::validate_approval(new, old, errors),
            Subresource::EphemeralContainers => pod::validate_ephemeral_containers(new, old, errors),
            Subresource::Resize => pod::validate_resize(new, old, errors),
        }
    }

    /// `true` if a write of the subresource increments the generation of a pod.
    pub(super) fn increments_generation(self) -> bool {
        matches!(self, Subresource::EphemeralContainers | Subresource::Resize)
    }
}
