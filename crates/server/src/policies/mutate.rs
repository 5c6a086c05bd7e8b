//! Mutating policies of a request.

use std::collections::BTreeSet;

use setpoint_api::apply::merge::merge;
use setpoint_api::apply::paths::validate as validate_fields;
use setpoint_api::apply::{MergeType, atomic_paths};
use setpoint_api::patch::{JsonPatchError, Patch, PatchError, PatchType};
use setpoint_api::resource_types::ResourceType;
use setpoint_api::status::{Reason, Status};
use setpoint_api::{Value, json, metadata};
use setpoint_extensions::policy::{FailurePolicy, MatchOutcome, MutatingPolicy, Mutation, PolicyInput};

use super::compiled::{CompiledPolicies, PolicyBinding, PolicyHook};
use super::input::{UserAuthorizer, namespace_value, request_value, resource_check};
use super::validate::{add_cause, object_name};
use super::{is_exempt, params};
use crate::pipeline::RequestContext;
use crate::webhooks::dispatch::{encoded, stored_form};
use crate::webhooks::{AdmissionRequest, Operation};

/// Policy, binding and parameter of an invocation.
type InvocationKey = (Box<str>, Box<str>, String);

/// Rounds of the mutating policies of one request: a second one follows if anything changed the object, for policies
/// that are to be invoked again.
#[derive(Default)]
pub struct MutationRounds {
    is_second: bool,
    previous: BTreeSet<InvocationKey>,
    required: BTreeSet<InvocationKey>,
    output: Option<Value>,
}

/// A policy to invoke with a parameter.
struct PolicyInvocation<'r> {
    hook: &'r PolicyHook<MutatingPolicy>,
    binding: &'r PolicyBinding,
    found: &'r ResourceType,
    params: Value,
}

/// An error of a policy that is not ignored.
struct PolicyFailure {
    message: String,
    is_invalid: bool,
}

impl MutationRounds {
    /// Runs the mutating policies. The object is in the form that is validated. Returns `true` if it was changed.
    ///
    /// # Errors
    /// If a policy fails.
    pub fn run(
        &mut self,
        request: &AdmissionRequest<'_>,
        object: &mut Value,
        old: Option<&Value>,
        context: &RequestContext<'_>,
    ) -> Result<bool, Status> {
        if request.operation == Operation::Delete || is_exempt(request.resource_type) {
            return Ok(false);
        }
        let Some(compiled) = context.catalog.policies(context.snapshot) else { return Ok(false) };
        if compiled.mutating.is_empty() {
            return Ok(false);
        }
        let mut run = MutationRun { request, old, context, failures: Vec::new() };
        let invocations = run.invocations(&compiled, object);
        let has_changed =
            if invocations.is_empty() { false } else { self.invoke(&mut run, &invocations, object)? };
        self.is_second = true;
        match &run.failures[..] {
            [] => Ok(has_changed),
            [first, ..] => {
                let name = object_name(request, Some(object));
                let mut status = Status::forbidden(request.resource_type.qualified(), name, "");
                status.message = first.message.clone().into();
                if first.is_invalid {
                    status.reason = Reason::Invalid;
                }
                run.failures.iter().for_each(|failure| add_cause(&mut status, &failure.message));
                Err(status)
            }
        }
    }

    fn invoke(
        &mut self,
        run: &mut MutationRun<'_>,
        invocations: &[PolicyInvocation<'_>],
        object: &mut Value,
    ) -> Result<bool, Status> {
        if self.is_second && self.output.as_ref() != Some(object) {
            self.required.append(&mut self.previous);
        }
        let namespace = namespace_value(run.request, run.context.snapshot)?;
        let mut has_changed = false;
        for invocation in invocations {
            let served =
                encoded(run.request, invocation.found, Some(object), run.context).unwrap_or_default();
            if !run.matches(invocation, &served) {
                continue;
            }
            let param = &invocation.params;
            let param = format!("{}/{}", metadata::namespace(param), metadata::name(param));
            let key = (invocation.hook.name.clone(), invocation.binding.name.clone(), param);
            if self.is_second && !self.required.contains(&key) {
                continue;
            }
            let mutated = run.mutate(invocation, &namespace, served.clone());
            if mutated != served {
                *object = stored_form(run.request, run.context, invocation.found, mutated, object)?;
                has_changed = true;
                self.required.append(&mut self.previous);
            }
            if invocation.hook.policy.is_reinvoked {
                self.previous.insert(key);
            }
        }
        if has_changed {
            // As upstream, the last policy that changed the object is itself invoked again.
            self.required.append(&mut self.previous);
        }
        self.output = Some(object.clone());
        Ok(has_changed)
    }
}

/// Evaluation of the mutating policies of one request.
struct MutationRun<'r> {
    request: &'r AdmissionRequest<'r>,
    old: Option<&'r Value>,
    context: &'r RequestContext<'r>,
    failures: Vec<PolicyFailure>,
}

impl<'r> MutationRun<'r> {
    /// Policies that match the request, with their parameters.
    fn invocations<'c>(&mut self, compiled: &'c CompiledPolicies, object: &Value) -> Vec<PolicyInvocation<'c>>
    where
        'r: 'c,
    {
        let mut invocations = Vec::new();
        for hook in &compiled.mutating {
            let Some(constraints) = &hook.constraints else {
                self.misconfigured(hook, None, "policy contained no match constraints, a required field");
                continue;
            };
            let context = self.context;
            let found = match constraints.matches(self.request, Some(object), self.old, context) {
                Ok(Some(found)) => found,
                Ok(None) => continue,
                Err(error) => {
                    self.misconfigured(hook, None, &error);
                    continue;
                }
            };
            let kind = hook.param_kind.as_ref().map(|kind| params::find_kind(kind, self.context)).transpose();
            let kind = match kind {
                Ok(kind) => kind,
                Err(error) => {
                    self.misconfigured(hook, None, &error);
                    continue;
                }
            };
            for binding in &hook.bindings {
                let resources = binding.resources.as_ref();
                let matched = resources
                    .map(|resources| resources.matches(self.request, Some(object), self.old, context))
                    .transpose();
                let collected = matched.and_then(|matched| match matched {
                    Some(None) => Ok(Vec::new()),
                    _ => {
                        let reference = binding.params.as_ref();
                        params::collect(kind.as_ref(), reference, self.request.namespace, self.context)
                    }
                });
                match collected {
                    Ok(collected) => {
                        invocations.extend(collected.into_iter().map(|params| PolicyInvocation {
                            hook,
                            binding,
                            found,
                            params,
                        }))
                    }
                    Err(error) => self.misconfigured(hook, Some(binding), &error),
                }
            }
        }
        invocations
    }

    fn with_input<T>(
        &self,
        invocation: &PolicyInvocation<'_>,
        object: &Value,
        namespace: &Value,
        run: impl FnOnce(&PolicyInput<'_>) -> T,
    ) -> T {
        run(&PolicyInput {
            object,
            old_object: &encoded(self.request, invocation.found, self.old, self.context).unwrap_or_default(),
            request: &request_value(self.request, invocation.found),
            params: &invocation.params,
            namespace,
            authorizer: Some(&UserAuthorizer { user: &self.request.writer.identity, context: self.context }),
            resource: &resource_check(self.request),
        })
    }

    fn matches(&mut self, invocation: &PolicyInvocation<'_>, object: &Value) -> bool {
        let policy = &invocation.hook.policy;
        match self.with_input(invocation, object, &Value::Null, |input| policy.matches(input)) {
            MatchOutcome::Matched => true,
            MatchOutcome::Skipped => false,
            MatchOutcome::Failed(error) => {
                self.fail(invocation.hook, Some(invocation.binding), &error, true);
                false
            }
        }
    }

    /// Applies the mutations of a policy in order. One that fails changes nothing.
    fn mutate(&mut self, invocation: &PolicyInvocation<'_>, namespace: &Value, mut object: Value) -> Value {
        let policy = &invocation.hook.policy;
        for mutator in policy.mutators() {
            let mutation =
                self.with_input(invocation, &object, namespace, |input| policy.evaluate(mutator, input));
            let mutated = mutation
                .map_err(|error| error.0)
                .and_then(|mutation| apply(self.request, invocation.found, &object, &mutation));
            match mutated {
                Ok(Some(mutated)) => object = mutated,
                Ok(None) => {}
                Err(error) => self.fail(invocation.hook, Some(invocation.binding), &error, true),
            }
        }
        object
    }

    fn misconfigured(
        &mut self,
        hook: &PolicyHook<MutatingPolicy>,
        binding: Option<&PolicyBinding>,
        error: &str,
    ) {
        let part = if binding.is_some() { "binding" } else { "policy" };
        self.fail(hook, binding, &format!("failed to configure {part}: {error}"), false);
    }

    fn fail(
        &mut self,
        hook: &PolicyHook<MutatingPolicy>,
        binding: Option<&PolicyBinding>,
        error: &str,
        is_invalid: bool,
    ) {
        if hook.policy.failure_policy() == FailurePolicy::Ignore {
            return;
        }
        let message = match binding {
            Some(binding) => {
                format!("policy '{}' with binding '{}' denied request: {error}", hook.name, binding.name)
            }
            None => format!("policy \"{}\" denied request: {error}", hook.name),
        };
        self.failures.push(PolicyFailure { message, is_invalid });
    }
}

/// Applies a mutation to an object in the served version; `None` if a test of a JSON patch fails.
fn apply(
    request: &AdmissionRequest<'_>,
    found: &ResourceType,
    object: &Value,
    mutation: &Mutation,
) -> Result<Option<Value>, String> {
    let schema = request.foreign_kind.map_or(found.schema.view(), |foreign| foreign.schema);
    match mutation {
        Mutation::Patch(operations) => {
            let patch = Patch::parse(PatchType::Json, &json::to_vec(operations), false);
            match patch.and_then(|patch| patch.apply(object.clone(), schema.built_in())) {
                Ok(patched) => Ok(Some(patched)),
                Err(PatchError::Json(JsonPatchError::Test(_))) => Ok(None),
                Err(error) => Err(format!("JSON Patch: {error}")),
            }
        }
        Mutation::Apply(config) => {
            let merge_type = match schema.built_in() {
                Some(built_in) => MergeType::from(built_in),
                None => found.schema.merge_type(),
            };
            let mut config = config.clone();
            for field in ["apiVersion", "kind"] {
                config.make_map().insert(field, object.str_at(&[field]));
            }
            validate_fields(&config, merge_type).map_err(|violations| {
                format!("error applying patch: failed to convert patch object to typed object: {violations}")
            })?;
            let atomics = atomic_paths(&config, merge_type);
            if !atomics.is_empty() {
                return Err(format!(
                    "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: \
                     {}",
                    atomics.join(", ")
                ));
            }
            Ok(Some(merge(object, &config, merge_type)))
        }
    }
}
