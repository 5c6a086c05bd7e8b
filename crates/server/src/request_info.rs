//! Attributes of a request, parsed from its method, path and query as upstream does.
//!
//! [`RequestAttributes`] owns what [`RequestInfo`] borrows, so that authorization, fairness and audit parse a request
//! once. It depends on the text of the request alone, not on the resources that are served: a request of an unknown
//! resource is authorized before it is answered with 404.
//!
//! Invariant: for every path that [`route`](crate::route::route) resolves to objects, both agree on group, version,
//! resource, subresource, namespace and name. `routed_requests_have_the_attributes_of_their_target` holds it.

use std::borrow::Cow;
use std::ops::Range;

use http::Method;
use setpoint_api::fields::{FieldOperator, FieldSelector};
use setpoint_api::labels::{Operator, Selector};
use setpoint_api::{Identity, RequestInfo};
use setpoint_authorization::{Attributes, SelectorRequirement};

use crate::exchange::Request;
use crate::query::QueryParams;
use crate::route::decode;

/// Segments that are parsed: `apis`, group, version, `watch`, `namespaces`, namespace, resource, name, subresource.
const SEGMENTS_MAX: usize = 9;
/// Verbs that are written as a segment of the path.
const PATH_VERBS: [&str; 2] = ["proxy", "watch"];

/// Attributes of a request that its method, path and query determine.
#[derive(Clone, Debug, Default)]
pub struct RequestAttributes<'r> {
    path: Cow<'r, str>,
    verb: Cow<'static, str>,
    is_resource: bool,
    group: Range<usize>,
    version: Range<usize>,
    resource: Range<usize>,
    subresource: Range<usize>,
    namespace: Range<usize>,
    name: Range<usize>,
    /// Name that the field selector of a list or watch requires.
    selected_name: Option<String>,
    field_selector: Vec<SelectorRequirement>,
    label_selector: Vec<SelectorRequirement>,
}

/// First segments of a path.
struct Segments {
    found: [Range<usize>; SEGMENTS_MAX],
    len: usize,
}

impl Segments {
    /// Splits a path at its slashes; those at both ends are ignored.
    fn of(path: &str) -> Segments {
        let mut segments = Segments { found: Default::default(), len: 0 };
        let mut at = path.len() - path.trim_start_matches('/').len();
        let inner = path.trim_matches('/');
        for segment in inner.split('/').take(SEGMENTS_MAX).filter(|_| !inner.is_empty()) {
            segments.found[segments.len] = at..at + segment.len();
            segments.len += 1;
            at += segment.len() + 1;
        }
        segments
    }

    fn as_slice(&self) -> &[Range<usize>] {
        &self.found[..self.len]
    }
}

impl<'r> RequestAttributes<'r> {
    /// Returns the attributes of a request.
    #[must_use]
    pub fn of(request: &'r Request) -> RequestAttributes<'r> {
        RequestAttributes::parse(&request.method, &request.path, &request.query)
    }

    /// Parses a method, a path as sent, and a query without the question mark.
    #[must_use]
    pub fn parse(method: &Method, path: &'r str, query: &str) -> RequestAttributes<'r> {
        let Some(decoded) = decode(path) else {
            let (path, verb) = (Cow::Borrowed(path), method_verb(method));
            return RequestAttributes { path, verb, ..RequestAttributes::default() };
        };
        let segments = Segments::of(&decoded);
        let mut parsed = RequestAttributes { path: decoded, ..RequestAttributes::default() };
        let rest = match segments.as_slice() {
            [api, version, rest @ ..] if &parsed.path[api.clone()] == "api" && !rest.is_empty() => {
                parsed.version = version.clone();
                rest
            }
            [apis, group, version, rest @ ..] if &parsed.path[apis.clone()] == "apis" && !rest.is_empty() => {
                parsed.group = group.clone();
                parsed.version = version.clone();
                rest
            }
            _ => {
                parsed.verb = method_verb(method);
                return parsed;
            }
        };
        parsed.is_resource = true;
        parsed.parse_resource(method, rest, query);
        parsed
    }

    /// Parses the segments after the version.
    fn parse_resource(&mut self, method: &Method, mut rest: &[Range<usize>], query: &str) {
        let text = |segment: &Range<usize>| &self.path[segment.clone()];
        let path_verb =
            rest.first().and_then(|first| PATH_VERBS.into_iter().find(|verb| *verb == text(first)));
        self.verb = Cow::Borrowed(path_verb.unwrap_or_else(|| resource_verb(method)));
        if path_verb.is_some() {
            rest = &rest[1..];
        }
        if let [first, namespace, inner @ ..] = rest
            && text(first) == "namespaces"
        {
            self.namespace = namespace.clone();
            if inner.first().is_some_and(|next| !matches!(text(next), "status" | "finalize")) {
                rest = inner;
            }
        }
        if let Some(resource) = rest.first() {
            self.resource = resource.clone();
        }
        if let Some(name) = rest.get(1) {
            self.name = name.clone();
        }
        if let Some(subresource) = rest.get(2).filter(|_| self.verb != "proxy") {
            self.subresource = subresource.clone();
        }
        let query = if query.is_empty() { QueryParams::default() } else { QueryParams::parse(query) };
        if self.name.is_empty() {
            self.verb = match &*self.verb {
                "get" if query.flag("watch") == Some(true) => "watch".into(),
                "get" => "list".into(),
                "delete" => "deletecollection".into(),
                _ => return,
            };
        }
        if path_verb.is_none() && matches!(&*self.verb, "list" | "watch" | "deletecollection") {
            self.parse_selectors(&query);
        }
    }

    /// Parses the selectors. A malformed one is left out: it restricts nothing, and the request fails later.
    fn parse_selectors(&mut self, query: &QueryParams) {
        if let Ok(selector) = FieldSelector::parse(query.get("fieldSelector")) {
            self.field_selector = field_requirements(&selector);
            let is_segment =
                |name: &&str| !name.is_empty() && !matches!(*name, "." | "..") && !name.contains(['/', '%']);
            let name = selector.required_value("metadata.name").filter(is_segment);
            self.selected_name = name.filter(|_| self.verb != "deletecollection").map(str::to_owned);
        }
        if let Ok(selector) = Selector::parse(query.get("labelSelector")) {
            self.label_selector = label_requirements(&selector);
        }
    }

    /// Verb, resource and path.
    #[must_use]
    pub fn info(&self) -> RequestInfo<'_> {
        let text = |segment: &Range<usize>| &self.path[segment.clone()];
        RequestInfo {
            is_resource: self.is_resource,
            verb: &self.verb,
            path: &self.path,
            group: text(&self.group),
            version: text(&self.version),
            resource: text(&self.resource),
            subresource: text(&self.subresource),
            namespace: text(&self.namespace),
            name: self.selected_name.as_deref().unwrap_or_else(|| text(&self.name)),
        }
    }

    /// Attributes of the request for authorizers.
    #[must_use]
    pub fn for_user<'a>(&'a self, user: &'a Identity) -> Attributes<'a> {
        Attributes {
            user,
            request: self.info(),
            field_selector: &self.field_selector,
            label_selector: &self.label_selector,
        }
    }
}

/// Verb of a request that is not one of API objects.
fn method_verb(method: &Method) -> Cow<'static, str> {
    match *method {
        Method::GET => "get".into(),
        Method::POST => "post".into(),
        Method::PUT => "put".into(),
        Method::PATCH => "patch".into(),
        Method::DELETE => "delete".into(),
        Method::HEAD => "head".into(),
        _ => method.as_str().to_ascii_lowercase().into(),
    }
}

/// Verb of a request of an API object; empty for other methods.
fn resource_verb(method: &Method) -> &'static str {
    match *method {
        Method::GET | Method::HEAD => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    }
}

/// Requirements of a field selector, as authorizers see them.
#[must_use]
pub fn field_requirements(selector: &FieldSelector) -> Vec<SelectorRequirement> {
    let requirement = |term: &setpoint_api::fields::Term| SelectorRequirement {
        key: term.field.to_string(),
        operator: if term.operator == FieldOperator::Equals { "In" } else { "NotIn" },
        values: vec![term.value.to_string()],
    };
    selector.terms().iter().map(requirement).collect()
}

/// Requirements of a label selector, as authorizers see them. Comparisons of numbers are left out: authorizers know no
/// operator for them, and without them the selector is wider, never narrower.
#[must_use]
pub fn label_requirements(selector: &Selector) -> Vec<SelectorRequirement> {
    let requirements = selector.requirements().iter().filter_map(|requirement| {
        let operator = match requirement.operator() {
            Operator::In | Operator::Equals | Operator::DoubleEquals => "In",
            Operator::NotIn | Operator::NotEquals => "NotIn",
            Operator::Exists => "Exists",
            Operator::DoesNotExist => "DoesNotExist",
            Operator::GreaterThan | Operator::LessThan => return None,
        };
        let values = requirement.values().map(str::to_owned).collect();
        Some(SelectorRequirement { key: requirement.key().to_owned(), operator, values })
    });
    requirements.collect()
}

#[cfg(test)]
mod tests;
