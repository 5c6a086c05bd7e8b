//! Encoded requests and the checks of responses.

use setpoint_api::resource_types;

use super::*;
use crate::exchange::Identity;
use crate::pipeline::WriteOrigin;
use crate::pipeline::admission::testing::{object, snapshot_with};
use crate::webhooks::Operation;
use crate::webhooks::config::CompiledWebhooks;

fn hook() -> Webhook {
    let configuration = r#"{"kind":"MutatingWebhookConfiguration","apiVersion":"admissionregistration.k8s.io/v1",
        "metadata":{"name":"c"},"webhooks":[{"name":"h.example.com","clientConfig":{"url":"https://h"},
        "admissionReviewVersions":["v9","v1beta1","v1"],"sideEffects":"None"}]}"#;
    let plural = "mutatingwebhookconfigurations";
    let snapshot = snapshot_with(&[("admissionregistration.k8s.io", "v1", plural, configuration)]);
    CompiledWebhooks::of(&snapshot).unwrap().mutating.remove(0)
}

fn encoded(entropy: u64, name: &str) -> ReviewRequest {
    let writer = WriteOrigin {
        identity: Identity::new("ann", vec!["g".into()]),
        manager: "kubectl".into(),
        dry_run: true,
        reconciler: String::new(),
        takes_over: false,
    };
    let pods = resource_types::find("", "v1", "pods").unwrap();
    let request =
        AdmissionRequest::new(Operation::Update, pods, ("ns", name), &writer).for_subresource("status");
    let objects = (Some(value!({"a": 1})), None);
    encode_request(
        &hook(),
        ReviewVersion::V1,
        &request,
        Invocation { resource_type: pods },
        objects,
        [entropy; 3],
    )
}

#[test]
fn review_has_the_fields_of_upstream() {
    let review = encoded(1, "p");
    let expected = format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"{}","kind":{{"group":"","version":"v1","kind":"Pod"}},"resource":{{"group":"","version":"v1","resource":"pods"}},"subResource":"status","requestKind":{{"group":"","version":"v1","kind":"Pod"}},"requestResource":{{"group":"","version":"v1","resource":"pods"}},"requestSubResource":"status","name":"p","namespace":"ns","operation":"UPDATE","userInfo":{{"username":"ann","groups":["g"]}},"object":{{"a":1}},"oldObject":null,"dryRun":true,"options":{{"kind":"UpdateOptions","apiVersion":"meta.k8s.io/v1","dryRun":["All"],"fieldManager":"kubectl"}}}}}}"#,
        review.uid
    );
    assert_eq!(std::str::from_utf8(&review.body).unwrap(), expected);
}

#[test]
fn equal_requests_have_equal_keys_and_changed_ones_do_not() {
    assert_eq!(encoded(1, "p").key, encoded(1, "p").key);
    assert_eq!(encoded(1, "p").uid, encoded(1, "p").uid);
    assert_ne!(encoded(1, "p").key, encoded(2, "p").key);
    assert_ne!(encoded(1, "p").key, encoded(1, "q").key);
}

#[test]
fn first_known_review_version_is_used() {
    assert_eq!(ReviewVersion::of(&hook()), Some(ReviewVersion::V1Beta1));
}

fn parsed(response: &str, is_mutating: bool) -> Result<ReviewResponse, String> {
    let body = format!(r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"{response}}}"#);
    parse_response(body.as_bytes(), ReviewVersion::V1, "u", is_mutating).map_err(|error| error.to_string())
}

#[test]
fn improper_v1_responses_are_rejected_with_upstream_texts() {
    let invalid = |text: &str| format!("received invalid webhook response: {text}");
    for (response, is_mutating, expected) in [
        ("", true, invalid("webhook response was absent")),
        (r#","response":{"uid":"x"}"#, true, invalid(r#"expected response.uid="u", got "x""#)),
        (
            r#","response":{"uid":"u","patch":"W10="}"#,
            true,
            invalid("webhook returned response.patch but not response.patchType"),
        ),
        (
            r#","response":{"uid":"u","patchType":"JSONPatch"}"#,
            true,
            invalid("webhook returned response.patchType but not response.patch"),
        ),
        (
            r#","response":{"uid":"u","patchType":"","patch":"W10="}"#,
            true,
            invalid("webhook returned invalid response.patchType of \"\""),
        ),
        (
            r#","response":{"uid":"u","patchType":"JSONPatch","patch":"W10="}"#,
            false,
            invalid("validating webhook may not return response.patch"),
        ),
        (
            r#","response":{"uid":"u","patchType":"JSONPatch"}"#,
            false,
            invalid("validating webhook may not return response.patchType"),
        ),
        (
            r#","response":{"uid":"u","allowed":"yes"}"#,
            true,
            "failed to call webhook: json: cannot unmarshal string into Go struct field \
             AdmissionReview.response.allowed of type bool"
                .to_owned(),
        ),
    ] {
        assert_eq!(parsed(response, is_mutating).unwrap_err(), expected, "{response}");
    }
    let other = br#"{"kind":"Foo","apiVersion":"a/v2","response":{"uid":"u"}}"#;
    assert_eq!(
        parse_response(other, ReviewVersion::V1, "u", true).unwrap_err().to_string(),
        "received invalid webhook response: expected webhook response of admission.k8s.io/v1, \
         Kind=AdmissionReview, got a/v2, Kind=Foo"
    );
    assert!(parse_response(b"<html>", ReviewVersion::V1, "u", true).is_err());
    assert!(parse_response(b"[]", ReviewVersion::V1, "u", true).is_err());
}

#[test]
fn v1beta1_response_needs_neither_uid_nor_patch_type() {
    let body = br#"{"response":{"allowed":true,"patch":"W10="}}"#;
    let parsed = parse_response(body, ReviewVersion::V1Beta1, "u", true).unwrap();
    assert_eq!(
        (parsed.allowed, &parsed.patch[..], parsed.patch_type.as_str()),
        (true, &b"[]"[..], "JSONPatch")
    );
}

#[test]
fn warnings_and_annotations_are_read() {
    let response = r#","response":{"uid":"u","allowed":true,"warnings":["w"],"auditAnnotations":{"k":"v"}}"#;
    let parsed = parsed(response, false).unwrap();
    assert_eq!((parsed.warnings, parsed.audit_annotations["k"].as_str()), (vec!["w".to_owned()], "v"));
}

#[test]
fn rejection_keeps_code_and_reason_and_is_never_a_success() {
    let denied = |status: &str| rejection("x", Some(&object(status)));
    let full = denied(r#"{"code":403,"reason":"Forbidden","message":"no"}"#);
    assert_eq!(full.message, r#"admission webhook "x" denied the request: no"#);
    assert_eq!((full.code, full.reason, full.success), (403, Reason::Forbidden, false));
    let lying = denied(r#"{"code":200,"status":"Success","reason":"Why"}"#);
    assert_eq!((lying.code, lying.success), (400, false));
    assert_eq!(lying.message, r#"admission webhook "x" denied the request: Why"#);
    let silent = rejection("x", None);
    assert_eq!(silent.message, r#"admission webhook "x" denied the request without explanation"#);
}
