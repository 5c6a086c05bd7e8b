//! Matching of requests to webhooks: rules, selectors and match conditions.

use setpoint_api::labels::Selector;
use setpoint_api::resource_types::ResourceType;
use setpoint_api::status::{Qualified, Status};
use setpoint_api::{Key, Resource, Value};
use setpoint_store::Snapshot;

use super::conditions;
use super::config::{RuleScope, Webhook, WebhookRule};
use super::{AdmissionRequest, Operation};
use crate::catalog::Catalog;
use crate::pipeline::RequestContext;

/// Kinds that are never sent to webhooks, because a webhook could prevent its own removal.
const EXEMPT_KINDS: [&str; 6] = [
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
];

/// A webhook call to make: the version of the resource that the webhook gets.
#[derive(Clone, Copy)]
pub struct Invocation<'a> {
    /// The resource in the version of the matching rule.
    pub resource_type: &'a ResourceType,
}

/// `true` if no webhook is called for the kind.
#[must_use]
pub fn is_exempt(resource_type: &ResourceType) -> bool {
    &*resource_type.info.group == "admissionregistration.k8s.io"
        && EXEMPT_KINDS.contains(&&*resource_type.info.kind)
}

/// Returns the invocation of a webhook; `None` if it does not match the request.
///
/// # Errors
/// If the webhook matches by its rules, but its selectors or conditions cannot be evaluated.
pub fn invocation<'a>(
    hook: &Webhook,
    request: &AdmissionRequest<'a>,
    object: Option<&Value>,
    old: Option<&Value>,
    context: &RequestContext<'a>,
) -> Result<Option<Invocation<'a>>, Status> {
    let Some(found) = matching_type(hook, request, context.catalog) else { return Ok(None) };
    if !matches_namespace(&hook.namespace_selector, request, object, context.snapshot)?
        || !matches_object(&hook.object_selector, object, old)?
    {
        return Ok(None);
    }
    let invocation = Invocation { resource_type: found };
    if hook.match_conditions.is_empty() {
        return Ok(Some(invocation));
    }
    let matched = conditions::matches(hook, request, invocation, (object, old), context)?;
    Ok(matched.then_some(invocation))
}

/// Returns the version of the resource that a rule matches: that of the request, or an equivalent one.
pub fn matching_type<'a>(
    hook: &Webhook,
    request: &AdmissionRequest<'a>,
    catalog: &'a Catalog,
) -> Option<&'a ResourceType> {
    if hook.rules.iter().any(|rule| rule.matches(request, request.resource_type)) {
        return Some(request.resource_type);
    }
    if !hook.matches_equivalent {
        return None;
    }
    let is_other = |other: &&ResourceType| {
        other.info.group != request.resource_type.info.group
            || other.info.version != request.resource_type.info.version
    };
    // Earlier rules are honored first.
    hook.rules.iter().find_map(|rule| {
        let mut equivalents = catalog.forms(&request.resource_type.resource).filter(is_other);
        equivalents.find(|other| rule.matches(request, other))
    })
}

impl WebhookRule {
    /// `true` if the rule matches the request, as if it were for this version of the resource.
    pub(crate) fn matches(&self, request: &AdmissionRequest<'_>, resource_type: &ResourceType) -> bool {
        let info = &resource_type.info;
        let has = |list: &[Box<str>], text: &str| list.iter().any(|one| **one == *"*" || **one == *text);
        let is_namespace_object = info.group.is_empty() && &*info.plural == "namespaces";
        let in_scope = match self.scope {
            RuleScope::All => true,
            RuleScope::Namespaced => !is_namespace_object && !request.namespace.is_empty(),
            RuleScope::Cluster => is_namespace_object || request.namespace.is_empty(),
            RuleScope::Unknown => false,
        };
        in_scope
            && has(&self.operations, request.operation.as_str())
            && has(&self.groups, &info.group)
            && has(&self.versions, &info.version)
            && self.resources.iter().any(|(resource, subresource)| {
                (**resource == *"*" || **resource == *info.plural)
                    && (**subresource == *"*" || **subresource == *request.subresource)
            })
    }
}

/// `true` if the namespace of the request is selected. Cluster-scoped objects other than namespaces are always.
pub(crate) fn matches_namespace(
    selector: &Result<Selector, String>,
    request: &AdmissionRequest<'_>,
    object: Option<&Value>,
    snapshot: &Snapshot,
) -> Result<bool, Status> {
    let is_namespace = &*request.resource_type.info.plural == "namespaces";
    if request.namespace.is_empty() && !is_namespace {
        return Ok(true);
    }
    let selector = selector.as_ref().map_err(Status::internal_error)?;
    if selector.is_everything() {
        return Ok(true);
    }
    let is_written = matches!(request.operation, Operation::Create | Operation::Update);
    if let Some(object) = object.filter(|_| is_namespace && request.subresource.is_empty() && is_written) {
        return Ok(matches_labels(selector, object));
    }
    let missing = || Status::not_found(Qualified { group: "", name: "namespaces" }, request.namespace);
    let namespaces = Resource::new("namespaces").map_err(|_| missing())?;
    let key = Key::cluster(&namespaces, request.namespace).map_err(|_| missing())?;
    let attributes = snapshot.get(&key).ok_or_else(missing)?.attributes();
    Ok(selector.matches(|label| attributes.label(label)))
}

/// `true` if the new or the old object is selected.
pub(crate) fn matches_object(
    selector: &Result<Selector, String>,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<bool, Status> {
    let selector = selector.as_ref().map_err(Status::internal_error)?;
    if selector.is_everything() {
        return Ok(true);
    }
    Ok([object, old].into_iter().flatten().any(|object| matches_labels(selector, object)))
}

fn matches_labels(selector: &Selector, object: &Value) -> bool {
    let labels = object.at(&["metadata", "labels"]);
    selector.matches(|label| labels.and_then(|labels| labels.get(label)).and_then(Value::as_str))
}

#[cfg(test)]
mod tests;
