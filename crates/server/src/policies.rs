//! Admission policies: ValidatingAdmissionPolicy and MutatingAdmissionPolicy with their bindings.
//!
//! [`PolicyRegistry`] compiles the policies of a snapshot once per change of their tables. [`matching`] selects the
//! policies of a request, `params` finds their parameters. [`MutationRounds::run`] and [`validate()`] are the two phases
//! of admission; `webhooks::dispatch` calls them before the webhooks of each phase. Expressions are evaluated by
//! `setpoint_extensions::policy`.

mod access;
pub mod compiled;
pub mod input;
pub mod matching;
mod mutate;
mod params;
mod types;
mod validate;

pub(crate) use access::check_param_access;
pub use compiled::{CompiledPolicies, PolicyRegistry};
pub use mutate::MutationRounds;
pub use types::answer_types;
pub use validate::validate;

use setpoint_api::field_error::ErrorList;
use setpoint_api::{ResourceType, Value};
use setpoint_extensions::{validate_policy, validate_selectors};

use self::compiled::PolicyHook;
use crate::pipeline::RequestContext;
use crate::webhooks::AdmissionRequest;

/// Group of policies and webhook configurations.
const GROUP: &str = "admissionregistration.k8s.io";
/// Group of device classes and claims.
const DEVICE_GROUP: &str = "resource.k8s.io";
/// Kinds that no policy applies to, because a policy could prevent its own removal.
const EXEMPT_KINDS: [&str; 4] = [
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
];

/// Kinds of reviews, by group: no policy applies to them, because it could break authentication and authorization.
const REVIEWS: [(&str, &[&str]); 2] = [
    ("authentication.k8s.io", &["SelfSubjectReview", "TokenReview"]),
    (
        "authorization.k8s.io",
        &[
            "LocalSubjectAccessReview",
            "SelfSubjectAccessReview",
            "SelfSubjectRulesReview",
            "SubjectAccessReview",
        ],
    ),
];

/// `true` if no policy applies to the kind.
#[must_use]
pub fn is_exempt(resource_type: &ResourceType) -> bool {
    let info = &resource_type.info;
    let is_in = |group: &str, kinds: &[&str]| info.group == group && kinds.contains(&&*info.kind);
    is_in(GROUP, &EXEMPT_KINDS) || REVIEWS.iter().any(|(group, kinds)| is_in(group, kinds))
}

/// Compiles the expressions of a policy, webhook configuration, device class or claim that is written.
pub(crate) fn check_expressions(
    resource_type: &ResourceType,
    new: &Value,
    old: Option<&Value>,
    errors: &mut ErrorList,
) {
    match &*resource_type.info.group {
        GROUP => validate_policy(&resource_type.info.kind, new, old, errors),
        DEVICE_GROUP => validate_selectors(&resource_type.info.kind, new, old, errors),
        _ => {}
    }
}

/// `true` if the rules of a policy match the request, so that its object must go through the pipeline.
#[must_use]
pub fn is_intercepted(request: &AdmissionRequest<'_>, context: &RequestContext<'_>) -> bool {
    if is_exempt(request.resource_type) {
        return false;
    }
    context.catalog.policies(context.snapshot).is_some_and(|compiled| {
        let mutating = compiled.mutating.iter().map(PolicyHook::constraints);
        let mut all = mutating.chain(compiled.validating.iter().map(PolicyHook::constraints));
        all.any(|constraints| {
            constraints.is_none_or(|found| found.matching_type(request, context.catalog).is_some())
        })
    })
}

#[cfg(test)]
mod tests;
