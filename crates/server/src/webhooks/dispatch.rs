//! Both phases of admission by webhooks: mutating ones in order, validating ones in parallel.

use std::collections::BTreeSet;
use std::sync::Arc;

use setpoint_api::decode::KeepEmpty;
use setpoint_api::patch::{Patch, PatchType};
use setpoint_api::quote::Quoted;
use setpoint_api::resource_types::ResourceType;
use setpoint_api::status::Status;
use setpoint_api::{Value, json};

use super::answers::{PendingCall, WebhookAnswer, WebhookFailure};
use super::client::WebhookCall;
use super::config::{CompiledWebhooks, SideEffects, Webhook};
use super::matching::{Invocation, invocation, is_exempt, matching_type};
use super::review::{ReviewResponse, ReviewVersion, encode_request, rejection};
use super::{AdmissionRequest, Interruption, WebhookContext};
use crate::pipeline::admission::plugins::Plugin;
use crate::pipeline::admission::{self, AdmissionInput};
use crate::pipeline::{RequestContext, ownership};
use crate::policies::{self, MutationRounds};

/// Bytes of a response. The patch of a large object is at most a few times as long as the object.
const RESPONSE_BYTES_MAX: usize = 8 << 20;

/// `true` if the rules of a webhook or policy match the request, so that its object must go through the pipeline.
#[must_use]
pub fn is_intercepted(request: &AdmissionRequest<'_>, context: &RequestContext<'_>) -> bool {
    let by_webhook = Phase::new(request, None, context).is_some_and(|phase| {
        let compiled = &phase.compiled;
        let mut hooks = compiled.mutating.iter().chain(&compiled.validating);
        hooks.any(|hook| matching_type(hook, request, context.catalog).is_some())
    });
    by_webhook || policies::is_intercepted(request, context)
}

/// Runs mutating admission: the built-in plugins, the policies and the webhooks, then all again if a policy or webhook
/// changed the object. The object is in the form that is validated. Returns `true` if one of them changed it.
///
/// # Errors
/// If it is rejected, or webhooks must be called first.
pub fn mutate(
    request: &AdmissionRequest<'_>,
    object: &mut Value,
    old: Option<&Value>,
    context: &RequestContext<'_>,
    mut built_in: impl FnMut(&mut Value) -> Result<(), Status>,
) -> Result<bool, Interruption> {
    built_in(object)?;
    let (mut rounds, mut reinvocation) = (MutationRounds::default(), Reinvocation::default());
    let is_enabled = |plugin| context.admission.config.is_enabled(plugin);
    let phase = Phase::new(request, old, context).filter(|_| is_enabled(Plugin::MutatingAdmissionWebhook));
    let mut run_policies = |object: &mut Value| {
        if !is_enabled(Plugin::MutatingAdmissionPolicy) {
            return Ok(false);
        }
        rounds.run(request, object, old, context)
    };
    let mut has_changed = run_policies(object)?;
    if let Some(phase) = &phase {
        has_changed |= phase.run_mutating(object, &mut reinvocation)?;
    }
    if !has_changed {
        return Ok(false);
    }
    let output = object.clone();
    built_in(object)?;
    run_policies(object)?;
    if let Some(phase) = &phase {
        if *object != output {
            reinvocation.require();
        }
        reinvocation.is_second_round = true;
        phase.run_mutating(object, &mut reinvocation)?;
    }
    Ok(true)
}

/// Runs validating policies and webhooks on a valid object.
///
/// # Errors
/// If it is rejected, or webhooks must be called first.
pub fn validate(
    request: &AdmissionRequest<'_>,
    object: &Value,
    old: Option<&Value>,
    context: &RequestContext<'_>,
) -> Result<(), Interruption> {
    run_validating(request, Some(object), old, context)
}

/// Runs validating policies and webhooks, as far as their plugins are enabled.
fn run_validating(
    request: &AdmissionRequest<'_>,
    object: Option<&Value>,
    old: Option<&Value>,
    context: &RequestContext<'_>,
) -> Result<(), Interruption> {
    let config = context.admission.config;
    if config.is_enabled(Plugin::ValidatingAdmissionPolicy) {
        policies::validate(request, object, old, context)?;
    }
    match Phase::new(request, old, context) {
        Some(phase) if config.is_enabled(Plugin::ValidatingAdmissionWebhook) => phase.run_validating(object),
        _ => Ok(()),
    }
}

/// Runs both phases on an object that is not stored, such as a Binding or a Scale.
///
/// # Errors
/// If it is rejected, or webhooks must be called first.
pub fn admit_unstored(
    request: &AdmissionRequest<'_>,
    object: &mut Value,
    old: Option<&Value>,
    context: &RequestContext<'_>,
) -> Result<(), Interruption> {
    mutate_unstored(request, object, old, context)?;
    validate_unstored(request, object, old, context)
}

/// Runs the mutating phase on an object that is not stored.
///
/// # Errors
/// If it is rejected, or webhooks must be called first.
pub fn mutate_unstored(
    request: &AdmissionRequest<'_>,
    object: &mut Value,
    old: Option<&Value>,
    context: &RequestContext<'_>,
) -> Result<(), Interruption> {
    let input = AdmissionInput { request, old, context };
    mutate(request, object, old, context, |object| admission::admit(object, &input))?;
    Ok(())
}

/// Runs the validating phase on a valid object that is not stored.
///
/// # Errors
/// If it is rejected, or webhooks must be called first.
pub fn validate_unstored(
    request: &AdmissionRequest<'_>,
    object: &Value,
    old: Option<&Value>,
    context: &RequestContext<'_>,
) -> Result<(), Interruption> {
    admission::validate(object, &AdmissionInput { request, old, context })?;
    validate(request, object, old, context)
}

/// Runs both phases on a delete.
///
/// # Errors
/// If it is rejected, or webhooks must be called first.
pub fn admit_delete(
    request: &AdmissionRequest<'_>,
    old: &Value,
    context: &RequestContext<'_>,
) -> Result<(), Interruption> {
    let is_mutated = context.admission.config.is_enabled(Plugin::MutatingAdmissionWebhook);
    let Some(phase) = Phase::new(request, Some(old), context).filter(|_| is_mutated) else {
        return run_validating(request, None, Some(old), context);
    };
    for hook in &phase.compiled.mutating {
        let Some(found) = phase.invocation(hook, None)? else { continue };
        if let Some(response) = phase.answer(hook, found, None)?
            && has_operations(hook, &response)?
        {
            let why = format!(
                "admission webhook {} attempted to modify the object, which is not supported for this operation",
                Quoted(&hook.name)
            );
            return Err(Status::internal_error(why).into());
        }
    }
    run_validating(request, None, Some(old), context)
}

/// Webhooks to call again in the second round, by position.
#[derive(Default)]
struct Reinvocation {
    is_second_round: bool,
    /// Webhooks that were called and may be called again.
    previous: BTreeSet<usize>,
    required: BTreeSet<usize>,
}

impl Reinvocation {
    fn require(&mut self) {
        self.required.append(&mut self.previous);
    }
}

/// A phase of the admission of one request.
struct Phase<'a> {
    request: &'a AdmissionRequest<'a>,
    old: Option<&'a Value>,
    context: &'a RequestContext<'a>,
    webhooks: WebhookContext<'a>,
    compiled: Arc<CompiledWebhooks>,
}

impl<'a> Phase<'a> {
    /// `None` if there are no webhooks, or none for the kind.
    fn new(
        request: &'a AdmissionRequest<'a>,
        old: Option<&'a Value>,
        context: &'a RequestContext<'a>,
    ) -> Option<Phase<'a>> {
        let webhooks = context.webhooks?;
        let compiled = webhooks.registry.compiled(context.snapshot)?;
        (!is_exempt(request.resource_type)).then_some(Phase { request, old, context, webhooks, compiled })
    }

    fn invocation(&self, hook: &Webhook, object: Option<&Value>) -> Result<Option<Invocation<'a>>, Status> {
        invocation(hook, self.request, object, self.old, self.context)
    }

    /// Calls mutating webhooks in order. Returns `true` if one changed the object.
    fn run_mutating(
        &self,
        object: &mut Value,
        reinvocation: &mut Reinvocation,
    ) -> Result<bool, Interruption> {
        let mut has_changed = false;
        for (position, hook) in self.compiled.mutating.iter().enumerate() {
            let Some(found) = self.invocation(hook, Some(object))? else { continue };
            // A webhook that did not match in the first round is not called in the second.
            if reinvocation.is_second_round && !reinvocation.required.contains(&position) {
                continue;
            }
            let response = self.answer(hook, found, Some(object))?;
            let patched = match response {
                Some(response) => self.patch(hook, found, &response, object)?,
                None => None,
            };
            if let Some(patched) = patched.filter(|patched| patched != object) {
                *object = patched;
                has_changed = true;
                reinvocation.require();
            }
            if hook.is_reinvoked {
                reinvocation.previous.insert(position);
            }
        }
        Ok(has_changed)
    }

    /// Calls validating webhooks in parallel. The first rejection in the order of configurations counts.
    fn run_validating(&self, object: Option<&Value>) -> Result<(), Interruption> {
        let (mut calls, mut rejected) = (Vec::new(), None);
        for hook in &self.compiled.validating {
            let Some(found) = self.invocation(hook, object)? else { continue };
            match self.answer(hook, found, object) {
                Ok(_) => {}
                Err(Interruption::Calls(missing)) => calls.extend(missing),
                Err(Interruption::Rejected(status)) => rejected = rejected.or(Some(status)),
            }
        }
        match rejected {
            _ if !calls.is_empty() => Err(Interruption::Calls(calls)),
            Some(status) => Err(status.into()),
            None => Ok(()),
        }
    }

    /// Returns the response of a webhook that allows the request; `None` if it failed and is ignored.
    fn answer(
        &self,
        hook: &Webhook,
        found: Invocation<'_>,
        object: Option<&Value>,
    ) -> Result<Option<Arc<ReviewResponse>>, Interruption> {
        match self.call(hook, found, object)? {
            Ok(response) if response.allowed => Ok(Some(response)),
            Ok(response) => Err(rejection(&hook.name, response.status.as_ref()).into()),
            Err(_) if hook.ignores_failures => Ok(None),
            Err(failure) => Err(Status::internal_error(failure).into()),
        }
    }

    /// Looks up the answer of a webhook.
    fn call(
        &self,
        hook: &Webhook,
        found: Invocation<'_>,
        object: Option<&Value>,
    ) -> Result<WebhookAnswer, Interruption> {
        let failure =
            |reason: String, code| Ok(Err(WebhookFailure { webhook: hook.name.clone(), reason, code }));
        if self.request.writer.dry_run {
            match hook.side_effects {
                SideEffects::NoneOnDryRun => {}
                SideEffects::Missing => return failure("Webhook SideEffects is nil".to_owned(), 400),
                SideEffects::Some => {
                    let why = format!("admission webhook {} does not support dry run", Quoted(&hook.name));
                    return Err(Status::bad_request(why).into());
                }
            }
        }
        let Some(version) = ReviewVersion::of(hook) else {
            let why = "could not create admission objects: webhook does not accept known AdmissionReview \
                       versions (v1, v1beta1)";
            return failure(why.to_owned(), 400);
        };
        let objects = (self.encoded(found, object), self.encoded(found, self.old));
        let review = encode_request(hook, version, self.request, found, objects, self.context.entropy);
        if let Some(answer) = self.webhooks.answers.get(&review.key) {
            return Ok(answer.clone());
        }
        let seconds = hook.timeout.as_secs();
        let entropy = self.context.entropy[0];
        let endpoint = match hook.client_config.resolve(self.context.snapshot, entropy, seconds) {
            Ok(endpoint) => endpoint,
            Err(error) => return failure(format!("failed to call webhook: {error}"), 503),
        };
        Err(Interruption::Calls(vec![PendingCall {
            key: review.key,
            webhook: hook.name.clone(),
            webhook_type: hook.webhook_type,
            ignores_failures: hook.ignores_failures,
            operation: self.request.operation,
            uid: review.uid,
            version,
            call: WebhookCall {
                endpoint,
                body: review.body,
                timeout: hook.timeout,
                response_bytes_max: RESPONSE_BYTES_MAX,
            },
        }]))
    }

    fn encoded(&self, found: Invocation<'_>, object: Option<&Value>) -> Option<Value> {
        encoded(self.request, found.resource_type, object, self.context)
    }

    /// Applies the patch of a response. Returns the object in the form that is validated.
    fn patch(
        &self,
        hook: &Webhook,
        found: Invocation<'_>,
        response: &ReviewResponse,
        object: &Value,
    ) -> Result<Option<Value>, Interruption> {
        let Some(patch) = parse_patch(hook, response)? else { return Ok(None) };
        let foreign = self.request.foreign_kind;
        let schema = foreign.map_or(found.resource_type.schema.view(), |foreign| foreign.schema);
        let sent = self.encoded(found, Some(object)).unwrap_or_default();
        let patched = patch.apply(sent.clone(), schema.built_in()).map_err(Status::internal_error)?;
        if patched == sent {
            return Ok(None);
        }
        Ok(Some(stored_form(self.request, self.context, found.resource_type, patched, object)?))
    }
}

/// The object as a webhook or policy gets it: in a served version.
pub(crate) fn encoded(
    request: &AdmissionRequest<'_>,
    resource_type: &ResourceType,
    object: Option<&Value>,
    context: &RequestContext<'_>,
) -> Option<Value> {
    let object = open(object?);
    if request.foreign_kind.is_some() {
        return Some(object);
    }
    let own = if resource_type.custom.is_some() { request.resource_type } else { resource_type };
    let stored = &own.stored_schema;
    let object = stored.decode(object.clone(), &[]).map_or(object, |decoded| decoded.value);
    let served = context.in_version(request.resource_type, object, resource_type);
    // A conversion leaves managed fields encoded.
    Some(if resource_type.custom.is_some() { open(&served) } else { served })
}

/// Brings a changed object from the served version into the form that is validated. Field ownership stays that of
/// `object`, the object before.
pub(crate) fn stored_form(
    request: &AdmissionRequest<'_>,
    context: &RequestContext<'_>,
    resource_type: &ResourceType,
    changed: Value,
    object: &Value,
) -> Result<Value, Status> {
    let schema = request.foreign_kind.map_or(resource_type.schema.view(), |foreign| foreign.schema);
    let decoded = schema.decode_request(changed, &[]).map_err(Status::internal_error)?;
    if request.foreign_kind.is_some() {
        return Ok(decoded.value);
    }
    let own = request.resource_type;
    let mut changed = match own.custom {
        Some(_) => context.in_version(resource_type, decoded.value, own),
        None => resource_type.to_stored(decoded.value),
    };
    let resource_type = if own.custom.is_some() { own } else { resource_type };
    if request.subresource == "status" {
        resource_type.rules.default_status(&mut changed);
    } else {
        resource_type.rules.default(&mut changed);
    }
    resource_type.rules.default_times(&mut changed, context.now);
    let managed = object.at(&["metadata", "managedFields"]).cloned();
    ownership::set(&mut changed, managed.unwrap_or_default());
    let keep = KeepEmpty { for_ownership: false, for_validation: true };
    let kept = resource_type.stored_schema.decode_keeping_empty(changed.clone(), keep);
    Ok(kept.map_or(changed, |decoded| decoded.value))
}

/// Decodes fields that were left encoded.
pub(crate) fn open(object: &Value) -> Value {
    json::parse(&json::to_vec(object)).unwrap_or_else(|_| object.clone())
}

/// Parses the patch of a response; `None` if it has no operations.
fn parse_patch(hook: &Webhook, response: &ReviewResponse) -> Result<Option<Patch>, Interruption> {
    if !has_operations(hook, response)? {
        return Ok(None);
    }
    let fail = |reason: String| failed_status(hook, reason);
    if response.patch_type != "JSONPatch" {
        let reason = format!("unsupported patch type {}", Quoted(&response.patch_type));
        return fail(reason).map(|()| None);
    }
    match Patch::parse(PatchType::Json, &response.patch, false) {
        Ok(patch) => Ok(Some(patch)),
        Err(error) => fail(format!("received undecodable patch in webhook response: {error}")).map(|()| None),
    }
}

/// `true` if the response has a patch with operations.
fn has_operations(hook: &Webhook, response: &ReviewResponse) -> Result<bool, Interruption> {
    if response.patch.is_empty() {
        return Ok(false);
    }
    match json::parse(&response.patch) {
        Ok(Value::List(operations)) => Ok(!operations.is_empty()),
        Ok(Value::Null) => Ok(false),
        Ok(other) => {
            let why = format!(
                "received undecodable patch in webhook response: json: cannot unmarshal {} into Go value of type jsonpatch.Patch",
                other.type_name()
            );
            failed_status(hook, why).map(|()| false)
        }
        Err(error) => failed_status(hook, format!("received undecodable patch in webhook response: {error}"))
            .map(|()| false),
    }
}

/// A failure to call a webhook, unless it is ignored.
fn failed_status(hook: &Webhook, reason: String) -> Result<(), Interruption> {
    if hook.ignores_failures {
        return Ok(());
    }
    let failure = WebhookFailure { webhook: hook.name.clone(), reason, code: 503 };
    Err(Status::internal_error(failure).into())
}
