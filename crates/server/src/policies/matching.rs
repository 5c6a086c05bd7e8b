//! Matching of requests to policies and bindings.

use setpoint_api::Value;
use setpoint_api::labels::Selector;
use setpoint_api::resource_types::ResourceType;

use crate::catalog::Catalog;
use crate::pipeline::RequestContext;
use crate::webhooks::AdmissionRequest;
use crate::webhooks::config::{WebhookRule, list, rule, selector, texts};
use crate::webhooks::matching::{matches_namespace, matches_object};

/// Compiled `matchConstraints` or `matchResources`.
#[derive(Debug)]
pub struct MatchResources {
    rules: Vec<NamedRule>,
    excluded: Vec<NamedRule>,
    matches_equivalent: bool,
    namespace_selector: Result<Selector, String>,
    object_selector: Result<Selector, String>,
}

/// A rule, and the names of the objects that it applies to; all if there are none.
#[derive(Debug)]
struct NamedRule {
    rule: WebhookRule,
    names: Vec<Box<str>>,
}

impl NamedRule {
    fn read(value: &Value) -> NamedRule {
        NamedRule { rule: rule(value), names: texts(value, "resourceNames") }
    }

    fn matches(&self, request: &AdmissionRequest<'_>, resource_type: &ResourceType) -> bool {
        let is_named = self.names.is_empty() || self.names.iter().any(|name| **name == *request.name);
        is_named && self.rule.matches(request, resource_type)
    }
}

impl MatchResources {
    pub(super) fn read(value: &Value) -> MatchResources {
        let rules = |field: &str| list(value, field).iter().map(NamedRule::read).collect();
        MatchResources {
            rules: rules("resourceRules"),
            excluded: rules("excludeResourceRules"),
            matches_equivalent: value.str_at(&["matchPolicy"]) == "Equivalent",
            namespace_selector: selector(value.get("namespaceSelector")),
            object_selector: selector(value.get("objectSelector")),
        }
    }

    /// Returns the version of the resource that the rules match; `None` if they do not match the request.
    pub(super) fn matching_type<'a>(
        &self,
        request: &AdmissionRequest<'a>,
        catalog: &'a Catalog,
    ) -> Option<&'a ResourceType> {
        if self.first_match(&self.excluded, request, catalog).is_some() {
            return None;
        }
        if self.rules.is_empty() {
            return Some(request.resource_type);
        }
        self.first_match(&self.rules, request, catalog)
    }

    fn first_match<'a>(
        &self,
        rules: &[NamedRule],
        request: &AdmissionRequest<'a>,
        catalog: &'a Catalog,
    ) -> Option<&'a ResourceType> {
        if rules.iter().any(|rule| rule.matches(request, request.resource_type)) {
            return Some(request.resource_type);
        }
        if !self.matches_equivalent {
            return None;
        }
        let own = &request.resource_type.info;
        rules.iter().find_map(|rule| {
            let forms = catalog.forms(&request.resource_type.resource);
            let mut others =
                forms.filter(|form| form.info.group != own.group || form.info.version != own.version);
            others.find(|other| rule.matches(request, other))
        })
    }

    /// Returns the version of the resource that the policy or binding gets; `None` if it does not match the request.
    ///
    /// # Errors
    /// If the rules match, but a selector cannot be evaluated.
    pub(super) fn matches<'a>(
        &self,
        request: &AdmissionRequest<'a>,
        object: Option<&Value>,
        old: Option<&Value>,
        context: &RequestContext<'a>,
    ) -> Result<Option<&'a ResourceType>, String> {
        let Some(found) = self.matching_type(request, context.catalog) else { return Ok(None) };
        let in_namespace = matches_namespace(&self.namespace_selector, request, object, context.snapshot);
        let is_selected = matches_object(&self.object_selector, object, old);
        // A selector that excludes the request counts even if the other cannot be evaluated.
        if matches!(in_namespace, Ok(false)) || matches!(is_selected, Ok(false)) {
            return Ok(None);
        }
        in_namespace.and(is_selected).map_err(|status| status.message.into_owned())?;
        Ok(Some(found))
    }
}
