//! Validating policies of a request.

use std::collections::BTreeMap;

use setpoint_api::resource_types::ResourceType;
use setpoint_api::status::{Reason, Status, StatusCause};
use setpoint_api::{Value, json, metadata, value};
use setpoint_extensions::policy::{FailurePolicy, PolicyInput, ValidatingPolicy};

use super::compiled::{CompiledPolicies, PolicyBinding, PolicyHook};
use super::input::{UserAuthorizer, namespace_value, request_value, resource_check};
use super::{is_exempt, params};
use crate::pipeline::RequestContext;
use crate::webhooks::AdmissionRequest;
use crate::webhooks::dispatch::encoded;

/// Runs the validating policies. Warnings are recorded with the answers of the webhooks.
///
/// # Errors
/// If a policy denies the request.
pub fn validate(
    request: &AdmissionRequest<'_>,
    object: Option<&Value>,
    old: Option<&Value>,
    context: &RequestContext<'_>,
) -> Result<(), Status> {
    if is_exempt(request.resource_type) {
        return Ok(());
    }
    let Some(compiled) = context.catalog.policies(context.snapshot) else { return Ok(()) };
    let mut run = ValidationRun {
        request,
        object,
        old,
        context,
        namespace: None,
        denied: None,
        warnings: Vec::new(),
        annotations: BTreeMap::new(),
        failures: Vec::new(),
    };
    run.validate(&compiled)?;
    if let Some(webhooks) = context.webhooks {
        webhooks.answers.record_policy_warnings(run.warnings);
    }
    if let Some(annotations) = context.admission.annotations {
        annotations.extend(run.annotations.into_iter().map(|(key, values)| (key, values.join(", "))));
        if !run.failures.is_empty() {
            let failures = json::to_text(&Value::List(run.failures));
            annotations.extend([(FAILURES_ANNOTATION.to_owned(), failures)]);
        }
    }
    match run.denied {
        None => Ok(()),
        Some(Denied { message, reason }) => Err(denial_status(request, object, &message, &reason)),
    }
}

/// Audit annotation with failed validations.
const FAILURES_ANNOTATION: &str = "validation.policy.admission.k8s.io/validation_failure";
/// Failed validations in the annotation.
const FAILURES_MAX: usize = 50;

/// First denial of a request.
struct Denied {
    message: String,
    reason: String,
}

/// Evaluation of the policies of one request.
struct ValidationRun<'r> {
    request: &'r AdmissionRequest<'r>,
    object: Option<&'r Value>,
    old: Option<&'r Value>,
    context: &'r RequestContext<'r>,
    namespace: Option<Value>,
    denied: Option<Denied>,
    warnings: Vec<String>,
    annotations: BTreeMap<String, Vec<String>>,
    /// Failures that bindings want audited.
    failures: Vec<Value>,
}

impl<'r> ValidationRun<'r> {
    fn validate(&mut self, compiled: &CompiledPolicies) -> Result<(), Status> {
        for hook in &compiled.validating {
            let Some(constraints) = &hook.constraints else {
                self.fail(hook, None, "policy contained no match constraints, a required field");
                continue;
            };
            let matched = constraints.matches(self.request, self.object, self.old, self.context);
            let kind = hook.param_kind.as_ref().map(|kind| params::find_kind(kind, self.context)).transpose();
            match (matched, kind) {
                (Ok(None), _) => {}
                (Err(error), _) | (Ok(Some(_)), Err(error)) => self.fail(hook, None, &error),
                (Ok(Some(found)), Ok(kind)) => {
                    for binding in &hook.bindings {
                        self.validate_binding(hook, binding, found, kind.as_ref())?;
                    }
                }
            }
        }
        Ok(())
    }

    fn validate_binding(
        &mut self,
        hook: &PolicyHook<ValidatingPolicy>,
        binding: &PolicyBinding,
        found: &ResourceType,
        kind: Option<&std::sync::Arc<ResourceType>>,
    ) -> Result<(), Status> {
        if let Some(resources) = &binding.resources {
            match resources.matches(self.request, self.object, self.old, self.context) {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(()),
                Err(error) => {
                    self.fail(hook, Some(binding), &error);
                    return Ok(());
                }
            }
        }
        let collected = params::collect(kind, binding.params.as_ref(), self.request.namespace, self.context);
        let collected = match collected {
            Ok(collected) => collected,
            Err(error) => {
                self.fail(hook, Some(binding), &error);
                return Ok(());
            }
        };
        if self.namespace.is_none() {
            self.namespace = Some(namespace_value(self.request, self.context.snapshot)?);
        }
        for params in &collected {
            self.evaluate(hook, binding, found, params);
        }
        Ok(())
    }

    fn evaluate(
        &mut self,
        hook: &PolicyHook<ValidatingPolicy>,
        binding: &PolicyBinding,
        found: &ResourceType,
        params: &Value,
    ) {
        let served = |object| encoded(self.request, found, object, self.context).unwrap_or_default();
        let outcome = hook.policy.validate(&PolicyInput {
            object: &served(self.object),
            old_object: &served(self.old),
            request: &request_value(self.request, found),
            params,
            namespace: self.namespace.as_ref().unwrap_or(&Value::Null),
            authorizer: Some(&UserAuthorizer { user: &self.request.writer.identity, context: self.context }),
            resource: &resource_check(self.request),
        });
        for denial in outcome.denials {
            if denial.index.is_none() {
                self.deny(hook, Some(binding), denial.message, denial.reason);
                continue;
            }
            for action in &binding.actions {
                let (policy, binding_name, message) = (&*hook.name, &*binding.name, &*denial.message);
                match &**action {
                    "Deny" => self.deny(hook, Some(binding), message.to_owned(), denial.reason.clone()),
                    "Warn" => self.warnings.push(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding_name}': \
                         {message}"
                    )),
                    _ if self.failures.len() < FAILURES_MAX => {
                        let actions = binding.actions.iter().map(|action| Value::from(&**action));
                        self.failures.push(value!({
                            "message": (message),
                            "policy": (policy),
                            "binding": (binding_name),
                            "expressionIndex": (i64::try_from(denial.index.unwrap_or_default()).unwrap_or_default()),
                            "validationActions": (Value::List(actions.collect())),
                        }));
                    }
                    _ => {}
                }
            }
        }
        for (key, value) in outcome.annotations {
            let values = self.annotations.entry(format!("{}/{key}", hook.name)).or_default();
            if !values.contains(&value) {
                values.push(value);
            }
        }
    }

    /// Denies the request because of a wrong configuration, unless the policy ignores failures.
    fn fail(&mut self, hook: &PolicyHook<ValidatingPolicy>, binding: Option<&PolicyBinding>, error: &str) {
        if hook.policy.failure_policy() == FailurePolicy::Fail {
            let part = if binding.is_some() { "binding" } else { "policy" };
            self.deny(hook, binding, format!("failed to configure {part}: {error}"), String::new());
        }
    }

    fn deny(
        &mut self,
        hook: &PolicyHook<ValidatingPolicy>,
        binding: Option<&PolicyBinding>,
        message: String,
        reason: String,
    ) {
        let of_binding =
            binding.map(|binding| format!(" with binding '{}'", binding.name)).unwrap_or_default();
        let message =
            format!("ValidatingAdmissionPolicy '{}'{of_binding} denied request: {message}", hook.name);
        self.denied.get_or_insert(Denied { message, reason });
    }
}

/// Name of the object in messages.
pub(super) fn object_name<'a>(request: &AdmissionRequest<'a>, object: Option<&'a Value>) -> &'a str {
    let generated = || object.map(|object| metadata::text(object, "generateName")).unwrap_or_default();
    match (request.name, generated()) {
        ("", "") => "Unknown",
        ("", prefix) => prefix,
        (name, _) => name,
    }
}

fn denial_status(
    request: &AdmissionRequest<'_>,
    object: Option<&Value>,
    message: &str,
    reason: &str,
) -> Status {
    let name = object_name(request, object);
    let mut status = Status::forbidden(request.resource_type.qualified(), name, message);
    let reason = if reason.is_empty() { "Invalid" } else { reason };
    status.reason = Reason::from_name(reason);
    status.code = match reason {
        "Forbidden" => 403,
        "Unauthorized" => 401,
        "RequestEntityTooLarge" => 413,
        _ => 422,
    };
    add_cause(&mut status, message);
    status
}

/// Adds a cause with only a message.
pub(super) fn add_cause(status: &mut Status, message: &str) {
    if let Some(details) = &mut status.details {
        details.causes.push(StatusCause {
            reason: "".into(),
            message: message.to_owned().into(),
            field: "".into(),
        });
    }
}
