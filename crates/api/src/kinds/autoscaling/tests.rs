//! Validation and defaulting of autoscalers and scales.

use super::scale::{self, ScaleError, ScaleFields};
use crate::field_error::ErrorList;
use crate::kinds::workload::fixture::{KindFixture, parse};
use crate::value::Value;

const HPA: KindFixture = KindFixture {
    group: "autoscaling",
    version: "v2",
    kind: "HorizontalPodAutoscaler",
    good: r#"{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"one"},"spec":{
        "scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"maxReplicas":5}}"#,
};

/// Patch that replaces the metric of the valid object.
fn metric(metric: &str) -> String {
    format!(r#"{{"spec":{{"metrics":[{metric}]}}}}"#)
}

#[test]
fn autoscalers_default_to_80_percent_cpu() {
    let object = HPA.created("{}");
    assert_eq!(object.at(&["spec", "minReplicas"]), Some(&Value::Int(1)));
    let cpu = r#"[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization",
        "averageUtilization":80}}}]"#;
    assert_eq!(object.at(&["spec", "metrics"]), Some(&parse(cpu)));
    assert_eq!(object.at(&["spec", "behavior"]), None);
    let behavior = HPA.created(r#"{"spec":{"behavior":{"scaleDown":{"stabilizationWindowSeconds":7}}}}"#);
    let expected = r#"{"scaleUp":{"stabilizationWindowSeconds":0,"selectPolicy":"Max","policies":[
        {"type":"Pods","value":4,"periodSeconds":15},{"type":"Percent","value":100,"periodSeconds":15}]},
        "scaleDown":{"stabilizationWindowSeconds":7,"selectPolicy":"Max","policies":[
        {"type":"Percent","value":100,"periodSeconds":15}]}}"#;
    assert_eq!(behavior.at(&["spec", "behavior"]), Some(&parse(expected)));
}

#[test]
fn invalid_autoscalers_are_rejected() {
    let target = "spec.scaleTargetRef";
    HPA.creates(&[
        ("{}", &[]),
        (r#"{"spec":{"maxReplicas":0}}"#, &[
            "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
            "spec.maxReplicas: Required value",
        ]),
        (r#"{"spec":{"maxReplicas":-1}}"#, &[
            "spec.maxReplicas: Invalid value: -1: must be greater than or equal to `minReplicas`",
            "spec.maxReplicas: Invalid value: -1: must be greater than or equal to 1",
        ]),
        (
            r#"{"spec":{"minReplicas":-1}}"#,
            &["spec.minReplicas: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            r#"{"spec":{"minReplicas":6}}"#,
            &["spec.maxReplicas: Invalid value: 5: must be greater than or equal to `minReplicas`"],
        ),
        (
            r#"{"spec":{"minReplicas":0}}"#,
            &["spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to \
               zero replicas"],
        ),
        (
            r#"{"spec":{"minReplicas":0,"metrics":[{"type":"External","external":{"metric":{"name":"q"},
                "target":{"type":"Value","value":"3"}}}]}}"#,
            &[],
        ),
        (
            r#"{"spec":{"scaleTargetRef":{"kind":null,"name":null}}}"#,
            &[&format!("{target}.kind: Required value"), &format!("{target}.name: Required value")],
        ),
        (
            r#"{"spec":{"scaleTargetRef":{"kind":"a/b","name":".."}}}"#,
            &[
                &format!("{target}.kind: Invalid value: \"a/b\": may not contain '/'"),
                &format!("{target}.name: Invalid value: \"..\": may not be '..'"),
            ],
        ),
        (
            r#"{"spec":{"scaleTargetRef":{"apiVersion":"v1"}}}"#,
            &[&format!("{target}.apiVersion: Invalid value: \"v1\": apiVersion must specify API group")],
        ),
        (r#"{"spec":{"scaleTargetRef":{"apiVersion":"v1","kind":"ReplicationController"}}}"#, &[]),
        (
            r#"{"spec":{"scaleTargetRef":{"apiVersion":"a/b/c"}}}"#,
            &[&format!("{target}.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c")],
        ),
    ]);
}

#[test]
fn invalid_target_of_the_stored_object_is_accepted_in_an_update() {
    HPA.updates(
        r#"{"spec":{"scaleTargetRef":{"apiVersion":"v1"}}}"#,
        &[
            (r#"{"spec":{"maxReplicas":6}}"#, &[]),
            (
                r#"{"spec":{"scaleTargetRef":{"kind":"Other"}}}"#,
                &["spec.scaleTargetRef.apiVersion: Invalid value: \"v1\": apiVersion must specify API group"],
            ),
        ],
    );
    let bad = r#"{"type":"Object","object":{"describedObject":{"kind":"K","name":"n","apiVersion":"a/b/c"},
        "metric":{"name":"m"},"target":{"type":"Value","value":"1"}}}"#;
    HPA.updates(&metric(bad), &[(r#"{"spec":{"maxReplicas":6}}"#, &[])]);
    HPA.creates(&[(
        &metric(bad),
        &["spec.metrics[0].object.describedObject.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion \
           string: a/b/c"],
    )]);
}

#[test]
fn metric_has_exactly_one_source() {
    let at = "spec.metrics[0]";
    let sorts = "\"ContainerResource\", \"External\", \"Object\", \"Pods\", \"Resource\"";
    let unsupported = format!("{at}.type: Unsupported value: \"Odd\": supported values: {sorts}");
    let none = format!("{at}.type: Unsupported value: \"\": supported values: {sorts}");
    HPA.creates(&[
        (&metric(r#"{"type":"Odd"}"#), &[&unsupported, &unsupported]),
        (
            &metric("{}"),
            &[&format!("{at}.type: Required value: must specify a metric source type"), &none, &none],
        ),
        (
            &metric(r#"{"type":"Pods"}"#),
            &[&format!("{at}.pods: Required value: must populate information for the given metric source")],
        ),
        (
            &metric(
                r#"{"type":"Pods","pods":{"metric":{"name":"m"},"target":{"type":"AverageValue","averageValue":"1"}},
                    "resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":1}}}"#,
            ),
            &[&format!("{at}.resource: Forbidden: must populate the given metric source only")],
        ),
    ]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn invalid_metrics_are_rejected() {
    let at = "spec.metrics[0]";
    let target = |field_type: &str, fault: &str| format!("{at}.{field_type}.target.{fault}");
    HPA.creates(&[
        (
            &metric(r#"{"type":"Resource","resource":{"target":{"type":"Odd"}}}"#),
            &[
                &format!("{at}.resource.name: Required value: must specify a resource name"),
                &target(
                    "resource",
                    "type: Invalid value: \"Odd\": must be either Utilization, Value, or AverageValue",
                ),
                &target(
                    "resource",
                    "averageUtilization: Required value: must set either a target raw value or a target utilization",
                ),
            ],
        ),
        (
            &metric(
                r#"{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":0,
                    "averageValue":"0"}}}"#,
            ),
            &[
                &target("resource", "averageValue: Invalid value: \"0\": must be positive"),
                &target("resource", "averageUtilization: Invalid value: 0: must be greater than 0"),
                &target(
                    "resource",
                    "averageValue: Forbidden: may not set both a target raw value and a target utilization",
                ),
            ],
        ),
        (
            &metric(
                r#"{"type":"ContainerResource","containerResource":{"name":"cpu","container":"app",
                    "target":{"type":"Utilization","averageUtilization":50}}}"#,
            ),
            &[],
        ),
        (
            &metric(
                r#"{"type":"ContainerResource","containerResource":{"name":"gold","container":"A",
                    "target":{"type":"Utilization","averageUtilization":50}}}"#,
            ),
            &[
                &format!(
                    "{at}.containerResource.name: Invalid value: \"gold\": must be a standard resource type or \
                     fully qualified"
                ),
                &format!(
                    "{at}.containerResource.name: Invalid value: \"gold\": must be a standard resource for containers"
                ),
                &format!(
                    "{at}.containerResource.container: Invalid value: \"A\": a lowercase RFC 1123 label must consist \
                     of lower case alphanumeric characters or '-', and must start and end with an alphanumeric \
                     character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
                ),
            ],
        ),
        (
            &metric(r#"{"type":"Pods","pods":{"metric":{"name":"a/b"},"target":{"type":"Value","value":"-1"}}}"#),
            &[
                &format!("{at}.pods.metric.name: Invalid value: \"a/b\": may not contain '/'"),
                &target("pods", "value: Invalid value: \"-1\": must be positive"),
                &target("pods", "averageValue: Required value: must specify a positive target averageValue"),
            ],
        ),
        (
            &metric(
                r#"{"type":"External","external":{"metric":{},"target":{"type":"Value","value":"1",
                    "averageValue":"1"}}}"#,
            ),
            &[
                &format!("{at}.external.metric.name: Required value: must specify a metric name"),
                &target(
                    "external",
                    "value: Forbidden: may not set both a target value for metric and a per-pod target",
                ),
            ],
        ),
        (
            &metric(r#"{"type":"External","external":{"metric":{"name":"q"},"target":{}}}"#),
            &[
                &target("external", "type: Required value: must specify a metric target type"),
                &target(
                    "external",
                    "type: Invalid value: \"\": must be either Utilization, Value, or AverageValue",
                ),
                &target(
                    "external",
                    "averageValue: Required value: must set either a target value for metric or a per-pod target",
                ),
            ],
        ),
        (
            &metric(
                r#"{"type":"Object","object":{"describedObject":{"kind":"Service","name":"s","apiVersion":"v1"},
                    "metric":{"name":"m"},"target":{"type":"Value"}}}"#,
            ),
            &[&target("object", "averageValue: Required value: must set either a target value or averageValue")],
        ),
    ]);
}

#[test]
fn behavior_is_bounded() {
    let case = |rules: &str| format!(r#"{{"spec":{{"behavior":{{"scaleUp":{rules}}}}}}}"#);
    let at = "spec.behavior.scaleUp";
    HPA.creates(&[
        (&case(r#"{"tolerance":"0.1"}"#), &[]),
        (
            &case(r#"{"stabilizationWindowSeconds":-1}"#),
            &[&format!(
                "{at}.stabilizationWindowSeconds: Invalid value: -1: must be greater than or equal to zero"
            )],
        ),
        (
            &case(r#"{"stabilizationWindowSeconds":3601}"#),
            &[&format!("{at}.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600")],
        ),
        (
            &case(r#"{"selectPolicy":"Odd"}"#),
            &[&format!(
                "{at}.selectPolicy: Unsupported value: \"Odd\": supported values: \"Disabled\", \"Max\", \"Min\""
            )],
        ),
        (
            &case(r#"{"policies":[{"type":"Odd","value":0,"periodSeconds":0},{"type":"Pods","value":1,
                "periodSeconds":1801}]}"#),
            &[
                &format!("{at}.policies[0].type: Unsupported value: \"Odd\": supported values: \"Percent\", \"Pods\""),
                &format!("{at}.policies[0].value: Invalid value: 0: must be greater than zero"),
                &format!("{at}.policies[0].periodSeconds: Invalid value: 0: must be greater than zero"),
                &format!("{at}.policies[1].periodSeconds: Invalid value: 1801: must be less than or equal to 1800"),
            ],
        ),
        (
            &case(r#"{"tolerance":"-1"}"#),
            &[&format!("{at}.tolerance: Invalid value: \"-1\": must be greater than or equal to 0")],
        ),
    ]);
}

#[test]
fn status_counters_are_not_negative() {
    HPA.statuses(&[
        ("{}", "{}", r#"{"currentReplicas":1,"desiredReplicas":2}"#, &[]),
        (
            "{}",
            "{}",
            r#"{"currentReplicas":-1,"desiredReplicas":-1,"conditions":[{"type":"A","status":"True",
                "observedGeneration":-1}]}"#,
            &[
                "status.conditions[0].observedGeneration: Invalid value: -1: must be greater than or equal to 0",
                "status.currentReplicas: Invalid value: -1: must be greater than or equal to 0",
                "status.desiredReplicas: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
    ]);
    assert!(HPA.rules().has_generation() && HPA.rules().has_status());
}

const DEPLOYMENT: &str = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"n",
    "uid":"u","resourceVersion":"7","creationTimestamp":"2026-01-01T00:00:00Z","labels":{"a":"b"}},
    "spec":{"replicas":3,"selector":{"matchLabels":{"b":"2","a":"1"},"matchExpressions":[
    {"key":"c","operator":"NotIn","values":["y","x"]}]}},"status":{"replicas":2}}"#;

#[test]
fn scale_is_a_view_of_a_workload() {
    let expected = r#"{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"web","namespace":"n","uid":"u",
        "resourceVersion":"7","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"replicas":3},
        "status":{"replicas":2,"selector":"a=1,b=2,c notin (x,y)"}}"#;
    assert_eq!(scale::view(&parse(DEPLOYMENT), &scale::ScaleFields::workload()).unwrap(), parse(expected));
    let controller = r#"{"kind":"ReplicationController","metadata":{"name":"rc"},
        "spec":{"replicas":0,"selector":{"b":"2","a":"1"}}}"#;
    let expected = r#"{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"rc"},"spec":{},
        "status":{"replicas":0,"selector":"a=1,b=2"}}"#;
    assert_eq!(scale::view(&parse(controller), &scale::ScaleFields::workload()).unwrap(), parse(expected));
    let none = scale::view(
        &parse(r#"{"kind":"Deployment","spec":{"selector":null}}"#),
        &scale::ScaleFields::workload(),
    )
    .unwrap();
    assert_eq!(none.at(&["status"]), Some(&parse(r#"{"replicas":0}"#)));
    let odd =
        r#"{"kind":"Deployment","spec":{"selector":{"matchExpressions":[{"key":"a","operator":"Odd"}]}}}"#;
    let fault = scale::view(&parse(odd), &scale::ScaleFields::workload()).unwrap_err();
    assert_eq!(fault.to_string(), "\"Odd\" is not a valid label selector operator");
}

#[test]
fn scale_writes_back_replicas_and_resource_version() {
    let mut workload = parse(DEPLOYMENT);
    let scale = parse(r#"{"metadata":{"uid":"u","resourceVersion":"9"},"spec":{"replicas":8}}"#);
    scale::apply(&scale, &mut workload, &scale::ScaleFields::workload()).unwrap();
    assert_eq!(workload.at(&["spec", "replicas"]), Some(&Value::Int(8)));
    assert_eq!(workload.str_at(&["metadata", "resourceVersion"]), "9");
    scale::apply(&parse(r#"{"spec":{}}"#), &mut workload, &scale::ScaleFields::workload()).unwrap();
    assert_eq!(workload.at(&["spec", "replicas"]), Some(&Value::Int(0)));
    assert_eq!(workload.at(&["metadata", "resourceVersion"]), None);
    let other = parse(r#"{"metadata":{"uid":"v"},"spec":{"replicas":8}}"#);
    let fault = scale::apply(&other, &mut workload, &scale::ScaleFields::workload()).unwrap_err();
    assert_eq!(fault, ScaleError::Uid { wanted: "v".into(), found: "u".into() });
    assert_eq!(fault.to_string(), "Precondition failed: UID in precondition: v, UID in object meta: u");
}

#[test]
fn negative_scale_is_rejected() {
    let faults = |scale: &str| {
        let mut errors = ErrorList::new();
        scale::validate(&parse(scale), &ScaleFields::workload(), &mut errors);
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(faults(r#"{"spec":{"replicas":0}}"#), Vec::<String>::new());
    let expected = "spec.replicas: Invalid value: -2: must be greater than or equal to 0";
    assert_eq!(faults(r#"{"spec":{"replicas":-2}}"#), [expected]);
}
