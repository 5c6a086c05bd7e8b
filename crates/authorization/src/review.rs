//! SubjectAccessReviews of webhooks.

use setpoint_api::{Map, Value};

use crate::config::ReviewVersion;
use crate::{Attributes, Decision, SelectorRequirement};

/// Kind of the reviews.
const KIND: &str = "SubjectAccessReview";
/// Bytes of the fields that a client controls from which on a request is not cached. Upstream's limit.
const CACHED_BYTES_MAX: usize = 10_000;

/// Returns the review of a request with this `spec`.
#[must_use]
pub fn review(version: ReviewVersion, mut spec: Value) -> Value {
    // The only difference between the versions.
    if version == ReviewVersion::V1Beta1
        && let Some(map) = spec.as_map_mut()
        && let Some(groups) = map.remove("groups")
    {
        map.insert("group", groups);
    }
    let mut review = Map::new();
    review.insert("kind", KIND);
    review.insert("apiVersion", version.api_version());
    // Upstream's client sends these two fields also if they are empty.
    review.ensure_map("metadata");
    review.insert("spec", spec);
    let mut status = Map::new();
    status.insert("allowed", false);
    review.insert("status", status);
    Value::Map(review)
}

/// Returns the decision of an answered review.
///
/// # Errors
/// If it is no review of the version, or both allows and denies the request.
pub fn decision(version: ReviewVersion, answer: &Value) -> Result<Decision, String> {
    let (kind, api_version) = (answer.str_at(&["kind"]), answer.str_at(&["apiVersion"]));
    // An answer without a type counts as one of the expected type.
    let is_review =
        matches!(kind, "" | KIND) && (api_version.is_empty() || api_version == version.api_version());
    if answer.as_map().is_none() || !is_review {
        let expected = version.api_version();
        return Err(format!(
            "webhook subject access review returned {kind:?} of {api_version:?} instead of {KIND} of {expected}"
        ));
    }
    let flag = |field: &str| answer.at(&["status", field]).and_then(Value::as_bool).unwrap_or(false);
    let reason = answer.str_at(&["status", "reason"]).to_owned();
    match (flag("allowed"), flag("denied")) {
        (true, true) => Err("webhook subject access review returned both allow and deny response".to_owned()),
        (true, false) => Ok(Decision::Allowed(reason)),
        (false, true) => Ok(Decision::Denied(reason)),
        (false, false) => Ok(Decision::NoOpinion(reason)),
    }
}

/// Returns the `spec` of a review, without empty fields.
#[must_use]
pub fn spec(attributes: &Attributes<'_>) -> Value {
    let (user, request) = (attributes.user, &attributes.request);
    let mut spec = Map::new();
    if request.is_resource {
        let mut resource = Map::new();
        for (field, text) in [
            ("namespace", request.namespace),
            ("verb", request.verb),
            ("group", request.group),
            ("version", request.version),
            ("resource", request.resource),
            ("subresource", request.subresource),
            ("name", request.name),
        ] {
            insert_text(&mut resource, field, text);
        }
        insert_selector(&mut resource, "fieldSelector", attributes.field_selector);
        insert_selector(&mut resource, "labelSelector", attributes.label_selector);
        spec.insert("resourceAttributes", resource);
    } else {
        let mut path = Map::new();
        insert_text(&mut path, "path", request.path);
        insert_text(&mut path, "verb", request.verb);
        spec.insert("nonResourceAttributes", path);
    }
    insert_text(&mut spec, "user", &user.user);
    if !user.groups.is_empty() {
        spec.insert("groups", texts(&user.groups));
    }
    if !user.extra.is_empty() {
        let extra: Map = user.extra.iter().map(|(key, values)| (key.as_str(), texts(values))).collect();
        spec.insert("extra", extra);
    }
    insert_text(&mut spec, "uid", &user.uid);
    Value::Map(spec)
}

/// `true` if a decision on the request may be cached: what the client controls is not too long.
#[must_use]
pub fn is_cacheable(attributes: &Attributes<'_>) -> bool {
    let request = &attributes.request;
    let fields = [
        request.namespace,
        request.verb,
        request.group,
        request.version,
        request.resource,
        request.subresource,
        request.name,
        request.path,
    ];
    fields.iter().map(|field| field.len()).sum::<usize>() < CACHED_BYTES_MAX
}

fn insert_text(map: &mut Map, field: &str, text: &str) {
    if !text.is_empty() {
        map.insert(field, text);
    }
}

fn texts(texts: &[String]) -> Vec<Value> {
    texts.iter().map(|text| Value::from(text.as_str())).collect()
}

fn insert_selector(map: &mut Map, field: &str, requirements: &[SelectorRequirement]) {
    if requirements.is_empty() {
        return;
    }
    let requirements = requirements.iter().map(|requirement| {
        let mut one = Map::new();
        one.insert("key", requirement.key.as_str());
        one.insert("operator", requirement.operator);
        if !requirement.values.is_empty() {
            one.insert("values", texts(&requirement.values));
        }
        Value::Map(one)
    });
    let requirements: Vec<Value> = requirements.collect();
    map.ensure_map(field).insert("requirements", requirements);
}
