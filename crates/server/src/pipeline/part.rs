//! The parts of an object that have an endpoint of their own, beside its status.

use setpoint_api::field_error::ErrorList;
use setpoint_api::kinds::certificates::signing_request;
use setpoint_api::kinds::core::{namespace, pod};
use setpoint_api::{Time, Value};

use super::update::Part;

impl Part {
    /// The part that an endpoint writes; nothing if it writes none.
    #[must_use]
    pub fn of(subresource: &str) -> Option<Part> {
        Some(match subresource {
            "" => Part::Whole,
            "status" => Part::Status,
            "finalize" => Part::Finalize,
            "approval" => Part::Approval,
            "ephemeralcontainers" => Part::EphemeralContainers,
            "resize" => Part::Resize,
            _ => return None,
        })
    }

    /// The last word of its path.
    #[must_use]
    pub fn subresource(self) -> &'static str {
        match self {
            Part::Whole => "",
            Part::Status => "status",
            Part::Finalize => "finalize",
            Part::Approval => "approval",
            Part::EphemeralContainers => "ephemeralcontainers",
            Part::Resize => "resize",
        }
    }

    /// Sets back what a write of the part may not change. The whole and the status go by the rules of their kind.
    pub(super) fn prepare(self, new: &mut Value, old: &Value, now: Time) {
        match self {
            Part::Whole | Part::Status => {}
            Part::Finalize => namespace::prepare_finalize(new, old),
            Part::Approval => {
                signing_request::prepare_approval(new, old);
                signing_request::fill_condition_times(new, old, now);
            }
            Part::EphemeralContainers => pod::prepare_ephemeral_containers(new, old),
            Part::Resize => pod::prepare_resize(new, old),
        }
    }

    /// What is wrong with a write of the part.
    pub(super) fn validate(self, new: &Value, old: &Value, errors: &mut ErrorList) {
        match self {
            Part::Whole | Part::Status => {}
            Part::Finalize => namespace::validate_finalize(new, errors),
            Part::Approval => signing_request::validate_approval(new, old, errors),
            Part::EphemeralContainers => pod::validate_ephemeral_containers(new, old, errors),
            Part::Resize => pod::validate_resize(new, old, errors),
        }
    }

    /// Whether a write of the part changes what is wanted of a pod.
    pub(super) fn counts_generation(self) -> bool {
        matches!(self, Part::EphemeralContainers | Part::Resize)
    }
}
