//! Messages, codes and reasons of every Status.

use super::*;
use crate::field_error::{FieldError, Path};

const PODS: Qualified<'_> = Qualified { group: "", name: "pods" };
const DEPLOYMENTS: Qualified<'_> = Qualified { group: "apps", name: "deployments" };

fn json(status: &Status) -> String {
    String::from_utf8(status.to_json()).unwrap()
}

#[test]
fn statuses_encode_as_upstream() {
    for (status, expected) in [
        (
            Status::not_found(DEPLOYMENTS, "one"),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"deployments.apps \"one\" not found","reason":"NotFound","details":{"name":"one","group":"apps","kind":"deployments"},"code":404}"#,
        ),
        (
            Status::deleted(PODS, "one", "u-1"),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"one","kind":"pods","uid":"u-1"}}"#,
        ),
        (
            Status::generic(404, &Generic::default()),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server could not find the requested resource","reason":"NotFound","details":{},"code":404}"#,
        ),
        (
            Status::unclassified(500, "resourceVersion should not be set on objects to be created"),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"resourceVersion should not be set on objects to be created","code":500}"#,
        ),
        (
            Status::apply_conflict(
                vec![StatusCause {
                    reason: CAUSE_FIELD_MANAGER_CONFLICT.into(),
                    message: "conflict with \"one\"".into(),
                    field: ".spec".into(),
                }],
                "Apply failed with 1 conflict: conflict with \"one\": .spec".into(),
            ),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Apply failed with 1 conflict: conflict with \"one\": .spec","reason":"Conflict","details":{"causes":[{"reason":"FieldManagerConflict","message":"conflict with \"one\"","field":".spec"}]},"code":409}"#,
        ),
        (
            Status::too_many_requests("slow down", 3),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"slow down","reason":"TooManyRequests","details":{"retryAfterSeconds":3},"code":429}"#,
        ),
        (
            Status::internal_error("<boom>"),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Internal error occurred: \u003cboom\u003e","reason":"InternalError","details":{"causes":[{"message":"\u003cboom\u003e"}]},"code":500}"#,
        ),
    ] {
        assert_eq!(json(&status), expected);
    }
}

#[test]
fn each_field_error_is_a_cause() {
    let spec = Path::root("spec");
    let errors = ErrorList::from(vec![
        FieldError::invalid(&spec.child("replicas"), -2, "must be greater than or equal to 0").into(),
        FieldError::required(&spec.child("selector"), "").into(),
    ]);
    let kind = Qualified { group: "apps", name: "Deployment" };
    assert_eq!(
        json(&Status::invalid(kind, "web", &errors)),
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Deployment.apps \"web\" is invalid: [spec.replicas: Invalid value: -2: must be greater than or equal to 0, spec.selector: Required value]","reason":"Invalid","details":{"name":"web","group":"apps","kind":"Deployment","causes":[{"reason":"FieldValueInvalid","message":"Invalid value: -2: must be greater than or equal to 0","field":"spec.replicas"},{"reason":"FieldValueRequired","message":"Required value","field":"spec.selector"}]},"code":422}"#
    );
    assert_eq!(Status::invalid(Qualified::default(), "", &ErrorList::new()).to_string(), " \"\" is invalid");
}

#[test]
fn messages_have_the_texts_of_upstream() {
    for (status, code, message) in [
        (Status::already_exists(PODS, "a"), 409, "pods \"a\" already exists"),
        (
            Status::generate_name_conflict(PODS, "a", 1),
            409,
            "pods \"a\" already exists, the server was not able to generate a unique name for the object",
        ),
        (Status::unauthorized(""), 401, "not authorized"),
        (Status::unauthorized("Unauthorized"), 401, "Unauthorized"),
        (Status::forbidden(PODS, "a", "no"), 403, "pods \"a\" is forbidden: no"),
        (Status::forbidden(PODS, "", "no"), 403, "pods is forbidden: no"),
        (Status::forbidden(Qualified::default(), "", "no"), 403, "forbidden: no"),
        (
            Status::conflict(DEPLOYMENTS, "a", "no"),
            409,
            "Operation cannot be fulfilled on deployments.apps \"a\": no",
        ),
        (Status::gone("x"), 410, "x"),
        (Status::list_expired(), 410, "The resourceVersion for the provided list is too old."),
        (Status::watch_expired(), 410, "The resourceVersion for the provided watch is too old."),
        (Status::too_old_resource_version(3, 9), 410, "too old resource version: 3 (9)"),
        (Status::bad_request("x"), 400, "x"),
        (Status::service_unavailable("x"), 503, "x"),
        (
            Status::method_not_supported(DEPLOYMENTS, "patch"),
            405,
            "patch is not supported on resources of kind \"deployments.apps\"",
        ),
        (
            Status::server_timeout(PODS, "get", 2),
            500,
            "The get operation against pods could not be completed at this time, please try again.",
        ),
        (Status::timeout("x", 0), 504, "Timeout: x"),
        (
            Status::too_large_resource_version(9, 3, 1),
            504,
            "Timeout: Too large resource version: 9, current: 3",
        ),
        (Status::request_entity_too_large("limit is 3"), 413, "Request entity too large: limit is 3"),
        (Status::not_acceptable(&["a", "b"]), 406, "only the following media types are accepted: a, b"),
        (
            Status::not_acceptable_conversion("meta.k8s.io/v1, Kind=Table", &["a"]),
            406,
            "only the following media types are accepted when converting to meta.k8s.io/v1, Kind=Table: a",
        ),
        (
            Status::unsupported_media_type(&["a", "b"]),
            415,
            "the body of the request was in an unknown format - accepted media types include: a, b",
        ),
    ] {
        assert_eq!((status.http_code(), status.to_string().as_str()), (code, message));
    }
}

#[test]
fn expired_list_contains_a_continue_token() {
    let with = Status::continue_expired(Some("to<ken"));
    assert!(json(&with).contains(r#""metadata":{"continue":"to\u003cken"},"status":"Failure""#));
    assert!(with.message.ends_with("and now may show up in the list."));
    let without = Status::continue_expired(None);
    assert!(json(&without).contains(r#""metadata":{},"#));
    assert!(without.message.ends_with("without the continue parameter."));
    assert_eq!((with.http_code(), with.reason), (410, Reason::Expired));
}

#[test]
fn generic_statuses_name_the_resource_and_method() {
    let about =
        Generic { method: "POST", resource: DEPLOYMENTS, name: "web", message: "why", ..Generic::default() };
    assert_eq!(
        Status::generic(409, &about).to_string(),
        "the server reported a conflict (post deployments.apps web)"
    );
    assert_eq!(Status::generic(409, &about).reason, Reason::AlreadyExists);
    let about = Generic { name: "", unexpected: true, ..about };
    assert_eq!(
        Status::generic(500, &about).to_string(),
        "an error on the server (\"why\") has prevented the request from succeeding (post deployments.apps)"
    );
    let cause = &Status::generic(418, &about).details.unwrap().causes[0];
    assert_eq!((&*cause.reason, &*cause.message), (CAUSE_UNEXPECTED_SERVER_RESPONSE, "why"));
}

#[test]
fn duplicate_field_errors_are_one_cause() {
    let mut errors = ErrorList::new();
    for _ in 0..2 {
        errors.push(FieldError::required(&Path::root("spec"), ""));
    }
    let status = Status::invalid(Qualified { group: "", name: "Pod" }, "x", &errors);
    assert_eq!(status.details.unwrap().causes.len(), 1);
}
