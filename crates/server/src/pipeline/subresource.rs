//! The parts of an object that have an endpoint of their own, beside its status.

use setpoint_api::field_error::ErrorList;
use setpoint_api::kinds::certificates::signing_request;
use setpoint_api::kinds::core::{namespace, pod};
use setpoint_api::{Time, Value};

use super::update::Subresource;

impl Subresource {
    /// The part that an endpoint writes; nothing if it writes none.
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

    /// The last word of its path.
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

    /// Sets back what a write of the part may not change. The whole and the status go by the rules of their kind.
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

    /// What is wrong with a write of the part.
    pub(super) fn validate(self, new: &Value, old: &Value, errors: &mut ErrorList) {
        match self {
            Subresource::None | Subresource::Status => {}
            Subresource::Finalize => namespace::validate_finalize(new, errors),
            Subresource::Approval => signing_request::validate_approval(new, old, errors),
            Subresource::EphemeralContainers => pod::validate_ephemeral_containers(new, old, errors),
            Subresource::Resize => pod::validate_resize(new, old, errors),
        }
    }

    /// Whether a write of the part changes what is wanted of a pod.
    pub(super) fn counts_generation(self) -> bool {
        matches!(self, Subresource::EphemeralContainers | Subresource::Resize)
    }
}
