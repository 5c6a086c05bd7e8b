//! Tests of the conversion between `autoscaling/v1` and `autoscaling/v2`.

use proptest::prelude::*;

use super::*;
use crate::kinds::workload::fixture::parse;

fn v2(spec: &str, status: &str) -> Value {
    parse(&format!(
        r#"{{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v2","metadata":{{"name":"a"}},
            "spec":{spec},"status":{status}}}"#
    ))
}

fn annotation<'a>(object: &'a Value, name: &str) -> &'a str {
    object.str_at(&["metadata", "annotations", name])
}

const CPU: &str = r#"{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}"#;

#[test]
fn cpu_utilization_is_a_field_without_annotation() {
    let mut object = v2(&format!(r#"{{"maxReplicas":5,"metrics":[{CPU}]}}"#), r#"{"desiredReplicas":0}"#);
    let original = object.clone();
    to_v1(&mut object);
    let expected = r#"{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v1","metadata":{"name":"a"},
        "spec":{"maxReplicas":5,"targetCPUUtilizationPercentage":50},"status":{"desiredReplicas":0}}"#;
    assert_eq!(object, parse(expected));
    from_v1(&mut object);
    assert_eq!(object, original);
}

#[test]
fn fields_that_v1_lacks_are_kept_in_annotations() {
    let mut object = v2(
        &format!(
            r#"{{"maxReplicas":5,"metrics":[{{"type":"Pods","pods":{{"metric":{{"name":"m","selector":{{"matchLabels":{{
            "a":"b"}}}}}},"target":{{"type":"AverageValue","averageValue":"5"}}}}}},{CPU}],
            "behavior":{{"scaleUp":{{"stabilizationWindowSeconds":0,"selectPolicy":"Max","policies":[{{"type":"Pods",
            "value":4,"periodSeconds":15}}]}}}}}}"#
        ),
        r#"{"desiredReplicas":1,"currentMetrics":[{"type":"Resource","resource":{"name":"cpu","current":{
            "averageValue":"10m","averageUtilization":7}}}],"conditions":[{"type":"AbleToScale","status":"True",
            "lastTransitionTime":"2026-01-01T00:00:00Z","reason":"R","message":"M"}]}"#,
    );
    let original = object.clone();
    to_v1(&mut object);
    for (name, expected) in [
        (
            METRICS,
            r#"[{"type":"Pods","pods":{"metricName":"m","targetAverageValue":"5","selector":{"matchLabels":{"a":"b"}}}}]"#,
        ),
        (
            BEHAVIOR,
            r#"{"ScaleUp":{"StabilizationWindowSeconds":0,"SelectPolicy":"Max","Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":15}],"Tolerance":null},"ScaleDown":null}"#,
        ),
        (
            CURRENT_METRICS,
            r#"[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":7,"currentAverageValue":"10m"}}]"#,
        ),
        (
            CONDITIONS,
            r#"[{"type":"AbleToScale","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"R","message":"M"}]"#,
        ),
    ] {
        assert_eq!(annotation(&object, name), expected, "{name}");
    }
    assert_eq!(object.at(&["status", "currentCPUUtilizationPercentage"]), Some(&Value::Int(7)));
    from_v1(&mut object);
    assert_eq!(object, original);
}

#[test]
fn v1_without_a_target_defaults_to_80_percent() {
    let mut object = parse(r#"{"apiVersion":"autoscaling/v1","spec":{"maxReplicas":3}}"#);
    from_v1(&mut object);
    assert_eq!(object.at(&["spec", "metrics"]), Some(&Value::List(vec![cpu_metric(80)])));
    let mut object = parse(
        r#"{"apiVersion":"autoscaling/v1","spec":{"maxReplicas":3},"status":{"currentCPUUtilizationPercentage":9}}"#,
    );
    from_v1(&mut object);
    let expected = r#"[{"type":"Resource","resource":{"name":"cpu","current":{"averageUtilization":9}}}]"#;
    assert_eq!(object.at(&["status", "currentMetrics"]), Some(&parse(expected)));
}

#[test]
fn invalid_annotations_are_dropped() {
    for text in [
        "",
        "{",
        "7",
        "[7]",
        r#"[{"type":7}]"#,
        r#"[{"pods":{"targetAverageValue":"x"}}]"#,
        r#"{"ScaleUp":7}"#,
    ] {
        for name in ANNOTATIONS {
            let mut object = parse(r#"{"spec":{"targetCPUUtilizationPercentage":5}}"#);
            object.ensure_map("metadata").ensure_map("annotations").insert(name, text);
            from_v1(&mut object);
            assert_eq!(object.at(&["metadata", "annotations"]), None, "{name} {text}");
            assert_eq!(
                object.at(&["spec", "metrics"]),
                Some(&Value::List(vec![cpu_metric(5)])),
                "{name} {text}"
            );
            assert_eq!(object.at(&["spec", "behavior"]), None, "{name} {text}");
        }
    }
}

#[test]
fn annotation_fields_are_case_insensitive_and_other_annotations_stay() {
    let mut object = parse(r#"{"spec":{},"metadata":{"annotations":{"mine":"x"}}}"#);
    let annotations = object.get_mut("metadata").unwrap().ensure_map("annotations");
    annotations.insert(BEHAVIOR, r#"{"scaleUp":{"selectpolicy":"Min","tolerance":"0.5"}}"#);
    from_v1(&mut object);
    let expected = r#"{"scaleUp":{"selectPolicy":"Min","tolerance":"500m"}}"#;
    assert_eq!(object.at(&["spec", "behavior"]), Some(&parse(expected)));
    assert_eq!(object.at(&["metadata", "annotations"]), Some(&parse(r#"{"mine":"x"}"#)));
}

#[test]
fn object_metric_keeps_only_the_target_that_is_set() {
    let object = |target: &str| {
        v2(
            &format!(
                r#"{{"metrics":[{{"type":"Object","object":{{"describedObject":{{"kind":"K","name":"n"}},
                "target":{target},"metric":{{"name":"m"}}}}}}]}}"#
            ),
            "{}",
        )
    };
    for target in [
        r#"{"type":"Value","value":"3"}"#,
        r#"{"type":"AverageValue","averageValue":"3"}"#,
        r#"{"type":"AverageValue","value":"1","averageValue":"3"}"#,
    ] {
        let mut converted = object(target);
        to_v1(&mut converted);
        from_v1(&mut converted);
        assert_eq!(converted, object(target), "{target}");
    }
}

fn metrics() -> impl Strategy<Value = Value> {
    let selector = prop_oneof![Just(""), Just(r#","selector":{"matchLabels":{"a":"b"}}"#)];
    (0..5, "[a-z]{1,5}", selector, 1..100i64, any::<bool>()).prop_map(
        |(metric_type, name, selector, amount, average)| {
            let target = match (metric_type, average) {
                (0 | 1, true) => format!(r#"{{"type":"Utilization","averageUtilization":{amount}}}"#),
                (0..=2, _) | (_, true) => format!(r#"{{"type":"AverageValue","averageValue":"{amount}"}}"#),
                _ => format!(r#"{{"type":"Value","value":"{amount}"}}"#),
            };
            let metric = format!(r#""metric":{{"name":"{name}"{selector}}}"#);
            parse(&match metric_type {
                0 => format!(r#"{{"type":"Resource","resource":{{"name":"memory","target":{target}}}}}"#),
                1 => format!(
                    r#"{{"type":"ContainerResource","containerResource":{{"name":"cpu","container":"{name}",
                    "target":{target}}}}}"#
                ),
                2 => format!(r#"{{"type":"Pods","pods":{{{metric},"target":{target}}}}}"#),
                3 => format!(r#"{{"type":"External","external":{{{metric},"target":{target}}}}}"#),
                _ => format!(
                    r#"{{"type":"Object","object":{{"describedObject":{{"kind":"K","name":"{name}"}},{metric},
                    "target":{target}}}}}"#
                ),
            })
        },
    )
}

proptest! {
    #[test]
    fn metrics_survive_conversion_through_v1(metrics in proptest::collection::vec(metrics(), 1..5)) {
        let mut object = v2("{}", "{}");
        object.get_mut("spec").unwrap().make_map().insert("metrics", Value::List(metrics));
        let original = object.clone();
        to_v1(&mut object);
        from_v1(&mut object);
        prop_assert_eq!(object, original);
    }

    #[test]
    fn arbitrary_annotations_never_panic(text in r#"[\[\]{}":,a-zA-Z0-9]{0,30}"#) {
        let mut object = v2("{}", "{}");
        for name in ANNOTATIONS {
            object.ensure_map("metadata").ensure_map("annotations").insert(name, text.as_str());
        }
        from_v1(&mut object);
        prop_assert!(object.at(&["metadata", "annotations"]).is_none());
    }
}
