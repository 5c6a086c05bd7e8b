//! NamespaceLifecycle: namespaces that the cluster needs cannot be deleted.
//!
//! Its other rule is [`guard_namespace`](crate::pipeline): nothing is created in a namespace that is missing or being
//! terminated. That one is a precondition of the commit.

use setpoint_api::Value;
use setpoint_api::status::Status;

use super::AdmissionInput;

/// Namespaces that cannot be deleted.
const IMMORTAL_NAMESPACES: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Rejects the deletion of a namespace that the cluster needs.
pub(super) fn admit(object: &mut Value, input: &AdmissionInput<'_>) -> Result<(), Status> {
    if input.is("namespaces", "") && IMMORTAL_NAMESPACES.contains(&input.request.name) {
        return Err(input.forbidden(object, "this namespace may not be deleted"));
    }
    Ok(())
}
