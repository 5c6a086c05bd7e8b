//! Match conditions of webhooks.

use setpoint_api::Value;
use setpoint_api::status::Status;
use setpoint_extensions::policy::{FailurePolicy, MatchOutcome, PolicyInput};

use super::AdmissionRequest;
use super::config::Webhook;
use super::dispatch::encoded;
use super::matching::Invocation;
use crate::pipeline::RequestContext;
use crate::policies::input::{UserAuthorizer, request_value, resource_check};

/// `true` if the request satisfies the match conditions of a webhook.
///
/// # Errors
/// 403 if they cannot be evaluated and the webhook fails closed.
pub fn matches(
    hook: &Webhook,
    request: &AdmissionRequest<'_>,
    invocation: Invocation<'_>,
    (object, old): (Option<&Value>, Option<&Value>),
    context: &RequestContext<'_>,
) -> Result<bool, Status> {
    let served = |object| encoded(request, invocation.resource_type, object, context).unwrap_or_default();
    let input = PolicyInput {
        object: &served(object),
        old_object: &served(old),
        request: &request_value(request, invocation.resource_type),
        params: &Value::Null,
        namespace: &Value::Null,
        authorizer: Some(&UserAuthorizer { user: &request.writer.identity, context }),
        resource: &resource_check(request),
    };
    let failure_policy = if hook.ignores_failures { FailurePolicy::Ignore } else { FailurePolicy::Fail };
    match hook.match_conditions.matches(&input, failure_policy) {
        MatchOutcome::Matched => Ok(true),
        MatchOutcome::Skipped => Ok(false),
        MatchOutcome::Failed(error) => {
            Err(Status::forbidden(request.resource_type.qualified(), request.name, error))
        }
    }
}
