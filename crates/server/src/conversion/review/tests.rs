//! Tests of ConversionReviews and of the checks of their responses.

use setpoint_api::value;

use super::*;

fn webhook(versions: &[&str]) -> ConversionWebhook {
    ConversionWebhook {
        target: setpoint_api::custom::WebhookTarget::Url("https://127.0.0.1".into()),
        ca_bundle: "".into(),
        review_versions: versions.iter().map(|version| (*version).into()).collect(),
    }
}

fn source() -> Bytes {
    let object = r#"{"kind":"K","apiVersion":"g/v1",
        "metadata":{"name":"n","uid":"u","labels":{"a":"b"},"finalizers":["g/f"]}}"#;
    Bytes::from_static(object.as_bytes())
}

fn decoded(object: &str) -> Result<Value, ConversionError> {
    let review = ConversionReview::encode(&webhook(&["v1"]), "g/v2", &[source()], [1, 2]).unwrap();
    let uid = &review.uid;
    let response = format!(
        r#"{{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","response":{{"uid":"{uid}",
            "result":{{"status":"Success"}},"convertedObjects":[{object}]}}}}"#
    );
    Ok(review.decode(&[source()], response.as_bytes())?.remove(0))
}

#[test]
fn first_known_review_version_is_used() {
    let encode = |versions: &[&str]| {
        let review = ConversionReview::encode(&webhook(versions), "g/v2", &[source()], [1, 2])?;
        Ok::<_, ConversionError>(json::parse(&review.body).unwrap())
    };
    let review = encode(&["v9", "v1beta1", "v1"]).unwrap();
    assert_eq!(review.str_at(&["apiVersion"]), "apiextensions.k8s.io/v1beta1");
    assert_eq!(review.str_at(&["request", "desiredAPIVersion"]), "g/v2");
    assert_eq!(review.at(&["request", "objects"]).and_then(Value::as_list).unwrap().len(), 1);
    assert!(encode(&["v9"]).is_err());
}

#[test]
fn only_labels_and_annotations_may_change() {
    let object = r#"{"kind":"K","apiVersion":"g/v2","spec":{"x":1},
        "metadata":{"name":"n","uid":"u","labels":{"c":"d"},"annotations":{"e":"f"},"finalizers":[]}}"#;
    let converted = decoded(object).unwrap();
    let metadata = value!({
        "name": "n", "uid": "u", "labels": {"c": "d"}, "finalizers": ["g/f"], "annotations": {"e": "f"},
    });
    assert_eq!(converted.get("metadata"), Some(&metadata));
    assert_eq!(converted.at(&["spec", "x"]), Some(&Value::Int(1)));
}

#[test]
fn invalid_objects_are_rejected() {
    let cases = [
        ("L", r#""uid":"u""#, "invalid kind (expected K, received L)"),
        ("K", r#""uid":"w""#, "must have the same UID: u != w"),
        (
            "K",
            r#""uid":"u","labels":{"a":1}"#,
            "metadata.labels[a] must be a string, but is int64 in converted object",
        ),
        ("K", r#""uid":"u","labels":{"a b":"c"}"#, "metadata.labels"),
        ("K", r#""uid":"u","labels":[]"#, "invalid metadata.labels of type"),
    ];
    for (kind, metadata, expected) in cases {
        let object =
            format!(r#"{{"kind":"{kind}","apiVersion":"g/v2","metadata":{{"name":"n",{metadata}}}}}"#);
        let error = decoded(&object).unwrap_err();
        assert_eq!(error.failure_type, FailureType::InvalidConvertedObject);
        assert!(error.message.contains(expected), "{}", error.message);
    }
}
