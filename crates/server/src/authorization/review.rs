//! Access reviews: attributes from the `spec` of a review, and rules of a user as its `status`.

use std::collections::BTreeMap;

use setpoint_api::fields::FieldSelector;
use setpoint_api::labels::{Operator, Requirement, Selector};
use setpoint_api::{Identity, Map, RequestInfo, Value};
use setpoint_authorization::{Attributes, Decision, SelectorRequirement};

use super::UserRules;
use crate::request_info::{field_requirements, label_requirements};

/// Version of a review that names none.
const ALL_VERSIONS: &str = "*";

/// Request that an access review is about.
#[derive(Clone, Debug)]
pub struct ReviewedRequest<'v> {
    user: Identity,
    request: RequestInfo<'v>,
    field_selector: Vec<SelectorRequirement>,
    label_selector: Vec<SelectorRequirement>,
    /// Parts of the selectors that authorizers do not see, for the status.
    error: String,
}

impl<'v> ReviewedRequest<'v> {
    /// Reads the `spec` of a SubjectAccessReview or LocalSubjectAccessReview.
    #[must_use]
    pub fn of_subject(spec: &'v Value) -> ReviewedRequest<'v> {
        let user = Identity {
            user: spec.str_at(&["user"]).to_owned(),
            uid: spec.str_at(&["uid"]).to_owned(),
            groups: texts(spec.get("groups")),
            extra: extra(spec.get("extra")),
        };
        ReviewedRequest::of_user(user, spec)
    }

    /// Reads the `spec` of a SelfSubjectAccessReview of a user.
    #[must_use]
    pub fn of_user(user: Identity, spec: &'v Value) -> ReviewedRequest<'v> {
        let text = |at: &'v Value, field: &str| at.str_at(&[field]);
        let Some(resource) = spec.get("resourceAttributes").filter(|found| !found.is_null()) else {
            let other = spec.get("nonResourceAttributes").unwrap_or(&Value::Null);
            let (verb, path) = (text(other, "verb"), text(other, "path"));
            let request = RequestInfo { verb, path, ..RequestInfo::default() };
            let (field_selector, label_selector) = (Vec::new(), Vec::new());
            return ReviewedRequest { user, request, field_selector, label_selector, error: String::new() };
        };
        let version = Some(text(resource, "version")).filter(|version| !version.is_empty());
        let request = RequestInfo {
            is_resource: true,
            verb: text(resource, "verb"),
            path: "",
            group: text(resource, "group"),
            version: version.unwrap_or(ALL_VERSIONS),
            resource: text(resource, "resource"),
            subresource: text(resource, "subresource"),
            namespace: text(resource, "namespace"),
            name: text(resource, "name"),
        };
        let (field_selector, field_error) =
            read_selector(resource, "fieldSelector", raw_fields, field_requirement);
        let (label_selector, label_error) =
            read_selector(resource, "labelSelector", raw_labels, label_requirement);
        let error = field_error.into_iter().chain(label_error).collect::<Vec<_>>().join("; ");
        ReviewedRequest { user, request, field_selector, label_selector, error }
    }

    /// Attributes for authorizers.
    #[must_use]
    pub fn attributes(&self) -> Attributes<'_> {
        Attributes {
            user: &self.user,
            request: self.request,
            field_selector: &self.field_selector,
            label_selector: &self.label_selector,
        }
    }

    /// Encodes the `status` of the review.
    #[must_use]
    pub fn status(&self, decision: &Decision) -> Value {
        let (allowed, denied, reason) = match decision {
            Decision::Allowed(reason) => (true, false, reason),
            Decision::Denied(reason) => (false, true, reason),
            Decision::NoOpinion(reason) => (false, false, reason),
        };
        let mut status = Map::new();
        status.insert("allowed", allowed);
        if denied {
            status.insert("denied", true);
        }
        for (field, text) in [("reason", reason), ("evaluationError", &self.error)] {
            if !text.is_empty() {
                status.insert(field, text.as_str());
            }
        }
        Value::Map(status)
    }
}

fn texts(list: Option<&Value>) -> Vec<String> {
    let list = list.and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn extra(extra: Option<&Value>) -> BTreeMap<String, Vec<String>> {
    let entries = extra.and_then(Value::as_map).into_iter().flat_map(Map::iter);
    entries.map(|(key, values)| (key.to_owned(), texts(Some(values)))).collect()
}

/// Reads a selector, raw or as requirements. Parts that are malformed are left out, which makes the selector wider; the
/// error says so.
fn read_selector(
    resource: &Value,
    field: &str,
    raw: fn(&str) -> Option<Vec<SelectorRequirement>>,
    requirement: fn(&Value) -> Option<SelectorRequirement>,
) -> (Vec<SelectorRequirement>, Option<String>) {
    let (text, list) = (
        resource.str_at(&[field, "rawSelector"]),
        resource.at(&[field, "requirements"]).and_then(Value::as_list),
    );
    let list = list.unwrap_or_default();
    let (found, is_complete) = if list.is_empty() {
        let parsed = if text.is_empty() { Some(Vec::new()) } else { raw(text) };
        (parsed.clone().unwrap_or_default(), parsed.is_some())
    } else {
        let found: Vec<SelectorRequirement> = list.iter().filter_map(requirement).collect();
        let is_complete = found.len() == list.len();
        (found, is_complete)
    };
    let partially = if found.is_empty() { "" } else { "partially " };
    let error = format!("spec.resourceAttributes.{field} {partially}ignored due to parse error");
    (found, (!is_complete).then_some(error))
}

fn raw_fields(text: &str) -> Option<Vec<SelectorRequirement>> {
    FieldSelector::parse(text).ok().map(|selector| field_requirements(&selector))
}

fn raw_labels(text: &str) -> Option<Vec<SelectorRequirement>> {
    Selector::parse(text).ok().map(|selector| label_requirements(&selector))
}

/// Reads a requirement of a field selector: only those with one value are known.
fn field_requirement(requirement: &Value) -> Option<SelectorRequirement> {
    let operator = match requirement.str_at(&["operator"]) {
        "In" => "In",
        "NotIn" => "NotIn",
        _ => return None,
    };
    let values = texts(requirement.get("values"));
    let key = requirement.str_at(&["key"]).to_owned();
    (values.len() == 1).then_some(SelectorRequirement { key, operator, values })
}

fn label_requirement(requirement: &Value) -> Option<SelectorRequirement> {
    let operator = match requirement.str_at(&["operator"]) {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        _ => return None,
    };
    let (key, values) = (requirement.str_at(&["key"]), texts(requirement.get("values")));
    let valid = Requirement::new(key, operator, &values).ok()?;
    label_requirements(&Selector::new(vec![valid])).pop()
}

impl UserRules {
    /// Encodes the `status` of a SelfSubjectRulesReview.
    #[must_use]
    pub fn to_status(&self) -> Value {
        let list = |texts: &[String]| Value::List(texts.iter().map(|text| text.as_str().into()).collect());
        let rule = |fields: &[(&str, &[String])]| {
            let mut map = Map::new();
            for (at, (field, texts)) in fields.iter().enumerate() {
                // Only the verbs are never omitted.
                if at == 0 || !texts.is_empty() {
                    map.insert(*field, list(texts));
                }
            }
            Value::Map(map)
        };
        let resources = self.resources.iter().map(|found| {
            rule(&[
                ("verbs", &found.verbs),
                ("apiGroups", &found.groups),
                ("resources", &found.resources),
                ("resourceNames", &found.names),
            ])
        });
        let paths = self
            .paths
            .iter()
            .map(|found| rule(&[("verbs", &found.verbs), ("nonResourceURLs", &found.paths)]));
        let mut status = Map::new();
        status.insert("resourceRules", resources.collect::<Vec<_>>());
        status.insert("nonResourceRules", paths.collect::<Vec<_>>());
        status.insert("incomplete", self.is_incomplete);
        match &self.errors[..] {
            [] => {}
            [one] => drop(status.insert("evaluationError", one.as_str())),
            several => drop(status.insert("evaluationError", format!("[{}]", several.join(", ")))),
        }
        Value::Map(status)
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::json;

    use super::*;

    fn parse(text: &str) -> Value {
        json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn review_carries_the_whole_identity_and_request() {
        let spec = parse(
            r#"{"user":"u","uid":"1","groups":["g"],"extra":{"scopes":["a","b"]},"resourceAttributes":
            {"verb":"list","group":"apps","resource":"deployments","subresource":"scale","namespace":"n","name":"d",
            "fieldSelector":{"rawSelector":"a=b"},"labelSelector":{"requirements":[{"key":"k","operator":"Exists"}]}}}"#,
        );
        let reviewed = ReviewedRequest::of_subject(&spec);
        let Attributes { user, request, field_selector, label_selector } = reviewed.attributes();
        assert_eq!(
            (user.user.as_str(), user.uid.as_str(), &user.groups[..]),
            ("u", "1", &["g".to_owned()][..])
        );
        assert_eq!(user.extra["scopes"], ["a", "b"]);
        assert_eq!((request.version, request.subresource, request.name), ("*", "scale", "d"));
        assert_eq!((field_selector.len(), label_selector[0].operator), (1, "Exists"));
        assert_eq!(
            json::to_text(&reviewed.status(&Decision::Denied("no".into()))),
            r#"{"allowed":false,"denied":true,"reason":"no"}"#
        );
    }

    #[test]
    fn malformed_selectors_are_reported() {
        let spec = parse(
            r#"{"user":"u","resourceAttributes":{"verb":"list","resource":"pods","fieldSelector":{"requirements":[
            {"key":"a","operator":"In","values":["x"]},{"key":"b","operator":"In","values":["x","y"]}]},
            "labelSelector":{"rawSelector":"((("}}}"#,
        );
        let reviewed = ReviewedRequest::of_subject(&spec);
        let status = reviewed.status(&Decision::Allowed(String::new()));
        let expected = "spec.resourceAttributes.fieldSelector partially ignored due to parse error; \
                        spec.resourceAttributes.labelSelector ignored due to parse error";
        assert_eq!(status.str_at(&["evaluationError"]), expected);
        assert_eq!(reviewed.attributes().field_selector.len(), 1);
    }

    #[test]
    fn review_of_a_path_has_no_resource() {
        let spec = parse(r#"{"user":"u","nonResourceAttributes":{"verb":"get","path":"/metrics"}}"#);
        let reviewed = ReviewedRequest::of_subject(&spec);
        let request = reviewed.attributes().request;
        assert_eq!((request.is_resource, request.verb, request.path), (false, "get", "/metrics"));
    }
}
