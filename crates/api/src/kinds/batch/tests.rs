//! Validation and defaulting of Jobs and CronJobs.

use crate::fields::FieldSelector;
use crate::kinds::workload::fixture::{KindFixture, parse};
use crate::value::Value;

mod status;

const JOB: KindFixture = KindFixture {
    group: "batch",
    version: "v1",
    kind: "Job",
    good: r#"{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"one","uid":"u1"},"spec":{
        "template":{"spec":{"restartPolicy":"Never","containers":[{"name":"main","image":"nginx:1"}]}}}}"#,
};

const CRON_JOB: KindFixture = KindFixture {
    group: "batch",
    version: "v1",
    kind: "CronJob",
    good: r#"{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"one"},"spec":{"schedule":"*/5 * * * *",
        "jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"OnFailure",
        "containers":[{"name":"main","image":"nginx:1"}]}}}}}}"#,
};

/// Labels that the server adds to the pods of the valid Job.
const LABELS: &str = r#"{"batch.kubernetes.io/controller-uid":"u1","batch.kubernetes.io/job-name":"one",
    "controller-uid":"u1","job-name":"one"}"#;

#[test]
fn jobs_default_to_one_completion() {
    let spec = JOB.created("{}").get("spec").cloned().unwrap();
    for (field, expected) in [
        ("parallelism", "1"),
        ("completions", "1"),
        ("backoffLimit", "6"),
        ("completionMode", "\"NonIndexed\""),
        ("suspend", "false"),
        ("podReplacementPolicy", "\"TerminatingOrFailed\""),
        ("manualSelector", "false"),
    ] {
        assert_eq!(spec.get(field), Some(&parse(expected)), "{field}");
    }
    let at = |patch: &str, field: &str| JOB.created(patch).at(&["spec", field]).cloned();
    assert_eq!(at(r#"{"spec":{"parallelism":3}}"#, "completions"), None);
    assert_eq!(at(r#"{"spec":{"completions":3}}"#, "parallelism"), Some(Value::Int(1)));
    let indexed = r#"{"spec":{"completionMode":"Indexed","completions":2,"backoffLimitPerIndex":1}}"#;
    assert_eq!(at(indexed, "backoffLimit"), Some(Value::Int(i32::MAX.into())));
    let policy = r#"{"spec":{"podFailurePolicy":{"rules":[{"action":"Ignore",
        "onPodConditions":[{"type":"DisruptionTarget"}]}]}}}"#;
    assert_eq!(at(policy, "podReplacementPolicy"), Some(Value::from("Failed")));
    let rules = at(policy, "podFailurePolicy").unwrap();
    let pattern = parse(r#"[{"type":"DisruptionTarget","status":"True"}]"#);
    assert_eq!(rules.get("rules").unwrap().as_list().unwrap()[0].get("onPodConditions"), Some(&pattern));
}

#[test]
fn server_generates_labels_and_selector_of_a_job() {
    let job = JOB.created("{}");
    assert_eq!(job.at(&["spec", "template", "metadata", "labels"]), Some(&parse(LABELS)));
    let selector = r#"{"matchLabels":{"batch.kubernetes.io/controller-uid":"u1"}}"#;
    assert_eq!(job.at(&["spec", "selector"]), Some(&parse(selector)));
    // A Job without labels takes those of its pods.
    assert_eq!(job.at(&["metadata", "labels"]), Some(&parse(LABELS)));
    let labelled = JOB.created(r#"{"metadata":{"labels":{"a":"b"}}}"#);
    assert_eq!(labelled.at(&["metadata", "labels"]), Some(&parse(r#"{"a":"b"}"#)));
    let manual = JOB.created(
        r#"{"spec":{"manualSelector":true,"selector":{"matchLabels":{"a":"b"}},
            "template":{"metadata":{"labels":{"a":"b"}}}}}"#,
    );
    assert_eq!(manual.at(&["spec", "template", "metadata", "labels"]), Some(&parse(r#"{"a":"b"}"#)));
    assert_eq!(manual.at(&["metadata", "labels"]), Some(&parse(r#"{"a":"b"}"#)));
}

#[test]
fn generated_labels_cannot_be_forged() {
    let labels = r#"{"batch.kubernetes.io/controller-uid":"u1","batch.kubernetes.io/job-name":"one","controller-uid":"u1","job-name":"two"}"#;
    JOB.creates(&[
        (
            r#"{"spec":{"template":{"metadata":{"labels":{"job-name":"two"}}}}}"#,
            &[&format!(
                "spec.template.metadata.labels[job-name]: Invalid value: {labels}: must be 'one'"
            )],
        ),
        (
            r#"{"spec":{"selector":{"matchLabels":{"a":"b"}}}}"#,
            &[
                "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\",\
                 \"batch.kubernetes.io/controller-uid\":\"u1\"}}: `selector` not auto-generated",
                "spec.template.metadata.labels: Invalid value: {\"batch.kubernetes.io/controller-uid\":\"u1\",\
                 \"batch.kubernetes.io/job-name\":\"one\",\"controller-uid\":\"u1\",\"job-name\":\"one\"}: \
                 `selector` does not match template `labels`",
            ],
        ),
        (r#"{"spec":{"selector":{"matchLabels":{"job-name":"one"}}}}"#, &[]),
        (r#"{"spec":{"manualSelector":true}}"#, &[
            "spec.selector: Required value",
            "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
        ]),
    ]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn invalid_jobs_are_rejected() {
    let negative =
        |field: &str| format!("spec.{field}: Invalid value: -1: must be greater than or equal to 0");
    let indexed_only =
        |field: &str| format!("spec.{field}: Invalid value: 1: requires indexed completion mode");
    JOB.creates(&[
        ("{}", &[]),
        (
            r#"{"spec":{"parallelism":-1,"completions":-1,"activeDeadlineSeconds":-1,"backoffLimit":-1,
                "ttlSecondsAfterFinished":-1}}"#,
            &[
                &negative("parallelism"),
                &negative("completions"),
                &negative("activeDeadlineSeconds"),
                &negative("backoffLimit"),
                &negative("ttlSecondsAfterFinished"),
            ],
        ),
        (
            r#"{"spec":{"completionMode":"Indexed","completions":2,"backoffLimitPerIndex":-1,"maxFailedIndexes":-1}}"#,
            &[&negative("backoffLimitPerIndex"), &negative("maxFailedIndexes")],
        ),
        (
            r#"{"spec":{"completionMode":"Indexed","completions":2,"maxFailedIndexes":1}}"#,
            &["spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified"],
        ),
        (
            r#"{"spec":{"backoffLimitPerIndex":1,"maxFailedIndexes":1}}"#,
            &[&indexed_only("backoffLimitPerIndex"), &indexed_only("maxFailedIndexes")],
        ),
        (
            r#"{"spec":{"completionMode":"Sorted"}}"#,
            &["spec.completionMode: Unsupported value: \"Sorted\": supported values: \"NonIndexed\", \"Indexed\""],
        ),
        (
            r#"{"spec":{"completionMode":"Indexed","parallelism":1}}"#,
            &["spec.completions: Required value: when completion mode is Indexed"],
        ),
        (
            r#"{"spec":{"completionMode":"Indexed","completions":5,"parallelism":100001}}"#,
            &["spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is \
               Indexed"],
        ),
        (
            r#"{"spec":{"completionMode":"Indexed","completions":5,"backoffLimitPerIndex":1,"maxFailedIndexes":6}}"#,
            &["spec.maxFailedIndexes: Invalid value: 6: must be less than or equal to completions"],
        ),
        (
            r#"{"spec":{"completionMode":"Indexed","completions":200000,"backoffLimitPerIndex":1}}"#,
            &["spec.maxFailedIndexes: Required value: must be specified when completions is above 100000"],
        ),
        (
            r#"{"spec":{"completionMode":"Indexed","completions":200000,"backoffLimitPerIndex":1,
                "maxFailedIndexes":10001,"parallelism":10001}}"#,
            &[
                "spec.parallelism: Invalid value: 10001: must be less than or equal to 10000 when completions are \
                 above 100000 and used with backoff limit per index",
                "spec.maxFailedIndexes: Invalid value: 10001: must be less than or equal to 10000 when completions \
                 are above 100000 and used with backoff limit per index",
            ],
        ),
        (
            r#"{"spec":{"completionMode":"Indexed","completions":200000,"backoffLimitPerIndex":1,
                "maxFailedIndexes":100001}}"#,
            &[
                "spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to 100000",
                "spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to 10000 when completions \
                 are above 100000 and used with backoff limit per index",
            ],
        ),
        (r#"{"spec":{"managedBy":"example.com/me"}}"#, &[]),
        (
            r#"{"spec":{"podReplacementPolicy":"Maybe"}}"#,
            &["spec.podReplacementPolicy: Unsupported value: \"Maybe\": supported values: \"Failed\", \
               \"TerminatingOrFailed\""],
        ),
        (
            r#"{"spec":{"template":{"spec":{"restartPolicy":"Always"}}}}"#,
            &["spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""],
        ),
        (r#"{"spec":{"template":{"spec":{"restartPolicy":"OnFailure"}}}}"#, &[]),
        (
            r#"{"metadata":{"name":"a-name-that-leaves-no-room-for-the-index-of-its-last-pod-at-a"},
                "spec":{"completionMode":"Indexed","completions":10}}"#,
            &[],
        ),
        (
            r#"{"metadata":{"name":"a-name-that-leaves-no-room-for-the-index-of-its-last-pod-at-a"},
                "spec":{"completionMode":"Indexed","completions":11}}"#,
            &["metadata.name: Invalid value: \"a-name-that-leaves-no-room-for-the-index-of-its-last-pod-at-a\": \
               will not able to create pod with invalid DNS label: \
               a-name-that-leaves-no-room-for-the-index-of-its-last-pod-at-a-10"],
        ),
    ]);
}

#[test]
fn managed_by_has_a_domain_and_is_bounded() {
    let fault = |name: &str| {
        let mut errors = crate::field_error::ErrorList::new();
        JOB.rules().validate(&JOB.created(&format!(r#"{{"spec":{{"managedBy":"{name}"}}}}"#)), &mut errors);
        errors.to_string()
    };
    assert_eq!(
        fault("me"),
        "spec.managedBy: Invalid value: \"me\": must be a domain-prefixed path (such as \
                             \"acme.io/foo\")"
    );
    let long = format!("example.com/{}", "x".repeat(52));
    assert_eq!(fault(&long), "spec.managedBy: Too long: may not be more than 63 bytes");
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn invalid_pod_failure_policies_are_rejected() {
    let at = "spec.podFailurePolicy.rules[0]";
    let actions = r#"["Count" "FailIndex" "FailJob" "Ignore"]"#;
    JOB.creates(&[
        (
            r#"{"spec":{"podFailurePolicy":{"rules":[{"action":"FailJob","onExitCodes":{"operator":"In",
                "values":[1,2],"containerName":"main"}}]}}}"#,
            &[],
        ),
        (
            r#"{"spec":{"podFailurePolicy":{"rules":[{"onExitCodes":{"operator":"In","values":[1]}}]}}}"#,
            &[&format!("{at}.action: Required value: valid values: {actions}")],
        ),
        (
            r#"{"spec":{"podFailurePolicy":{"rules":[{"action":"Shout","onExitCodes":{"operator":"In","values":[1]}}]}}}"#,
            &[&format!(
                "{at}.action: Unsupported value: \"Shout\": supported values: \"Count\", \"FailIndex\", \"FailJob\", \
                 \"Ignore\""
            )],
        ),
        (
            r#"{"spec":{"podFailurePolicy":{"rules":[{"action":"FailIndex","onExitCodes":{"operator":"In",
                "values":[1]}}]}}}"#,
            &[&format!("{at}.action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be set")],
        ),
        (
            r#"{"spec":{"podFailurePolicy":{"rules":[{"action":"Ignore"}]}}}"#,
            &[&format!("{at}: Invalid value: specifying one of OnExitCodes and OnPodConditions is required")],
        ),
        (
            r#"{"spec":{"podFailurePolicy":{"rules":[{"action":"Ignore","onExitCodes":{"operator":"NotIn","values":[0]},
                "onPodConditions":[{"type":"A"}]}]}}}"#,
            &[&format!("{at}: Invalid value: specifying both OnExitCodes and OnPodConditions is not supported")],
        ),
        (
            r#"{"spec":{"podFailurePolicy":{"rules":[{"action":"Ignore","onExitCodes":{"values":[0]}}]}}}"#,
            &[&format!("{at}.onExitCodes.operator: Required value: valid values: [\"In\" \"NotIn\"]")],
        ),
        (
            r#"{"spec":{"podFailurePolicy":{"rules":[{"action":"Ignore","onExitCodes":{"operator":"Out",
                "values":[3,1,1],"containerName":"other"}}]}}}"#,
            &[
                &format!(
                    "{at}.onExitCodes.operator: Unsupported value: \"Out\": supported values: \"In\", \"NotIn\""
                ),
                &format!(
                    "{at}.onExitCodes.containerName: Invalid value: \"other\": must be one of the container or \
                     initContainer names in the pod template"
                ),
                &format!("{at}.onExitCodes.values[2]: Duplicate value: 1"),
                &format!("{at}.onExitCodes.values: Invalid value: [3,1,1]: must be ordered"),
            ],
        ),
        (
            r#"{"spec":{"podFailurePolicy":{"rules":[{"action":"Ignore","onExitCodes":{"operator":"In","values":[0]}}]}}}"#,
            &[&format!("{at}.onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator")],
        ),
        (
            r#"{"spec":{"podFailurePolicy":{"rules":[{"action":"Ignore","onExitCodes":{"operator":"In"}}]}}}"#,
            &[&format!("{at}.onExitCodes.values: Invalid value: null: at least one value is required")],
        ),
        (
            r#"{"spec":{"podFailurePolicy":{"rules":[{"action":"Ignore","onPodConditions":[{"type":"A","status":"Maybe"}]}]}}}"#,
            &[&format!(
                "{at}.onPodConditions[0].status: Unsupported value: \"Maybe\": supported values: \"False\", \"True\", \
                 \"Unknown\""
            )],
        ),
        (
            r#"{"spec":{"podFailurePolicy":{"rules":[]},"podReplacementPolicy":"TerminatingOrFailed"}}"#,
            &["spec.podReplacementPolicy: Unsupported value: \"TerminatingOrFailed\": supported values: \"Failed\""],
        ),
        (
            r#"{"spec":{"podFailurePolicy":{"rules":[]},"template":{"spec":{"restartPolicy":"OnFailure"}}}}"#,
            &["spec.template.spec.restartPolicy: Invalid value: \"OnFailure\": only \"Never\" is supported when \
               podFailurePolicy is specified"],
        ),
    ]);
    let rule = r#"{"action":"Ignore","onPodConditions":[{"type":"A"}]}"#;
    let many = format!(r#"{{"spec":{{"podFailurePolicy":{{"rules":[{}]}}}}}}"#, [rule; 21].join(","));
    JOB.creates(&[(&many, &["spec.podFailurePolicy.rules: Too many: 21: must have at most 20 items"])]);
}

#[test]
fn success_policies_refer_to_existing_indexes() {
    let at = "spec.successPolicy.rules[0]";
    let case = |policy: &str| {
        format!(r#"{{"spec":{{"completionMode":"Indexed","completions":5,"successPolicy":{policy}}}}}"#)
    };
    JOB.creates(&[
        (&case(r#"{"rules":[{"succeededIndexes":"0,2-4","succeededCount":3}]}"#), &[]),
        (
            &case(r#"{"rules":[]}"#),
            &["spec.successPolicy.rules: Required value: at least one rules must be specified when the \
               successPolicy is specified"],
        ),
        (
            &case(r#"{"rules":[{}]}"#),
            &[&format!(
                "{at}: Required value: at least one of succeededCount or succeededIndexes must be specified"
            )],
        ),
        (
            &case(r#"{"rules":[{"succeededIndexes":"5"}]}"#),
            &[&format!(
                "{at}.succeededIndexes: Invalid value: \"5\": error parsing succeededIndexes: too large index: \"5\""
            )],
        ),
        (
            &case(r#"{"rules":[{"succeededCount":-1}]}"#),
            &[&format!("{at}.succeededCount: Invalid value: -1: must be greater than or equal to 0")],
        ),
        (
            &case(r#"{"rules":[{"succeededCount":6,"succeededIndexes":"0-1"}]}"#),
            &[
                &format!(
                    "{at}.succeededCount: Invalid value: 6: must be less than or equal to 5 (the number of \
                     specified completions)"
                ),
                &format!(
                    "{at}.succeededCount: Invalid value: 6: must be less than or equal to 2 (the number of indexes \
                     in the specified succeededIndexes field)"
                ),
            ],
        ),
        (
            r#"{"spec":{"successPolicy":{"rules":[{"succeededCount":1}]}}}"#,
            &["spec.successPolicy: Invalid value: {\"Rules\":[{\"SucceededIndexes\":null,\"SucceededCount\":1}]}: \
               requires indexed completion mode"],
        ),
    ]);
}

#[test]
fn most_fields_of_a_job_are_immutable() {
    JOB.updates(
        "{}",
        &[
            (r#"{"spec":{"parallelism":3,"suspend":true,"activeDeadlineSeconds":5,"backoffLimit":1}}"#, &[]),
            (r#"{"spec":{"completions":3}}"#, &["spec.completions: Invalid value: 3: field is immutable"]),
            (
                r#"{"spec":{"completionMode":"Indexed"}}"#,
                &["spec.completionMode: Invalid value: \"Indexed\": field is immutable"],
            ),
            (
                r#"{"spec":{"managedBy":"example.com/me"}}"#,
                &["spec.managedBy: Invalid value: \"example.com/me\": field is immutable"],
            ),
            (
                r#"{"spec":{"selector":{"matchLabels":{"job-name":"one"}}}}"#,
                &["spec.selector: Invalid value: {\"matchLabels\":{\"batch.kubernetes.io/controller-uid\":\"u1\",\
                   \"job-name\":\"one\"}}: field is immutable"],
            ),
            (
                r#"{"spec":{"podFailurePolicy":{"rules":[{"action":"Ignore","onPodConditions":[{"type":"A"}]}]},
                    "podReplacementPolicy":"Failed"}}"#,
                &["spec.podFailurePolicy: Invalid value: {\"Rules\":[{\"Action\":\"Ignore\",\"OnExitCodes\":null,\
                   \"OnPodConditions\":[{\"Type\":\"A\",\"Status\":\"True\"}]}]}: field is immutable"],
            ),
        ],
    );
    JOB.updates(
        r#"{"spec":{"completionMode":"Indexed","completions":2,"parallelism":2}}"#,
        &[
            (r#"{"spec":{"completions":3,"parallelism":3}}"#, &[]),
            (
                r#"{"spec":{"completions":3}}"#,
                &["spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism"],
            ),
            (
                r#"{"spec":{"successPolicy":{"rules":[{"succeededCount":1}]}}}"#,
                &["spec.successPolicy: Invalid value: {\"Rules\":[{\"SucceededIndexes\":null,\
                   \"SucceededCount\":1}]}: field is immutable"],
            ),
        ],
    );
}

/// Errors of a change of the template of a Job.
fn template_errors(old: &str, patch: &str) -> Vec<String> {
    let stored = {
        let mut job = JOB.created(old);
        job.make_map().insert("status", parse(old).get("status").cloned().unwrap_or(Value::map()));
        JOB.shaped(job)
    };
    let mut new = JOB.sent(&format!(r#"{{"spec":{{"suspend":true,"template":{patch}}}}}"#));
    new.get_mut("spec")
        .unwrap()
        .make_map()
        .insert("selector", stored.at(&["spec", "selector"]).unwrap().clone());
    let labels = new.at_mut(&["spec", "template"]).unwrap().ensure_map("metadata").ensure_map("labels");
    for (label, value) in parse(LABELS).as_map().unwrap().iter() {
        labels.insert(label, value.clone());
    }
    let mut errors = crate::field_error::ErrorList::new();
    JOB.rules().validate_update(&JOB.shaped(new), &stored, &mut errors);
    errors.iter().map(|error| error.field.clone()).collect()
}

#[test]
fn template_of_a_suspended_job_allows_scheduling_and_resource_changes() {
    let suspended = r#"{"spec":{"suspend":true}}"#;
    let started = r#"{"spec":{"suspend":true},"status":{"startTime":"2026-01-01T00:00:00Z"}}"#;
    let at_rest = r#"{"spec":{"suspend":true},"status":{"startTime":"2026-01-01T00:00:00Z",
        "conditions":[{"type":"Suspended","status":"True"}]}}"#;
    let active = r#"{"spec":{"suspend":true},"status":{"active":1}}"#;
    let allowed = [
        r#"{"spec":{"nodeSelector":{"a":"b"}}}"#,
        r#"{"spec":{"tolerations":[{"key":"a","operator":"Exists"}]}}"#,
        r#"{"spec":{"schedulingGates":[{"name":"a.b/c"}]}}"#,
        r#"{"metadata":{"annotations":{"a":"b"}}}"#,
        r#"{"metadata":{"labels":{"a":"b"}}}"#,
        r#"{"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{
            "nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Exists"}]}]}}}}}"#,
        r#"{"spec":{"containers":[{"name":"main","image":"nginx:1","resources":{"requests":{"cpu":"1"}}}]}}"#,
    ];
    for patch in allowed {
        assert_eq!(template_errors(suspended, patch), Vec::<String>::new(), "{patch}");
        assert_eq!(template_errors(at_rest, patch), Vec::<String>::new(), "{patch}");
        assert_eq!(template_errors(started, patch), ["spec.template"], "{patch}");
        assert_eq!(template_errors(active, patch), ["spec.template"], "{patch}");
        assert_eq!(template_errors("{}", patch), ["spec.template"], "{patch}");
    }
    for patch in [
        r#"{"spec":{"hostNetwork":true}}"#,
        r#"{"spec":{"containers":[{"name":"main","image":"nginx:2"}]}}"#,
        r#"{"spec":{"containers":[{"name":"main","image":"nginx:1"},{"name":"b","image":"b"}]}}"#,
    ] {
        assert_eq!(template_errors(suspended, patch), ["spec.template.spec"], "{patch}");
    }
}

#[test]
fn immutable_template_error_shows_the_whole_template() {
    let old = JOB.created("{}");
    let mut new = old.clone();
    new.at_mut(&["spec", "template", "spec"]).unwrap().make_map().insert("hostNetwork", true);
    let mut errors = crate::field_error::ErrorList::new();
    JOB.rules().validate_update(&new, &old, &mut errors);
    let message = errors.to_string();
    let labels = parse(LABELS);
    let begin = format!(
        r#"spec.template: Invalid value: {{"labels":{},"Spec":{{"Volumes":null,"InitContainers":null,"Containers":[{{"Name":"main","Image":"nginx:1","#,
        crate::json::to_text(&labels)
    );
    assert!(message.starts_with(&begin), "{message}");
    assert!(message.ends_with("}}: field is immutable"), "{message}");
}

#[test]
fn fields_of_disabled_features_are_cleared() {
    let scheduling = r#"{"spec":{"scheduling":{"schedulingPolicy":{"basic":{}}}}}"#;
    assert_eq!(JOB.created(scheduling), JOB.created("{}"));
    let nested = format!(r#"{{"spec":{{"jobTemplate":{scheduling}}}}}"#);
    assert_eq!(CRON_JOB.created(&nested), CRON_JOB.created("{}"));
    let group = r#"{"spec":{"template":{"spec":{"schedulingGroup":{"podGroupName":"a"}}}}}"#;
    assert_eq!(JOB.created(group), JOB.created("{}"));
}

#[test]
fn jobs_are_selectable_by_successful_pods() {
    let labels = JOB.rules().field_labels();
    let known = FieldSelector::parse("status.successful=1").unwrap().translate(labels).unwrap();
    let mut job = JOB.created("{}");
    job.ensure_map("status").insert("succeeded", 1);
    let fields = JOB.rules().fields(&job);
    let field = |name: &str| fields.iter().find(|(field, _)| *field == name).map(|(_, value)| &**value);
    assert!(known.matches(field));
    let refused = FieldSelector::parse("status.failed=1").unwrap().translate(labels).unwrap_err();
    assert_eq!(refused.to_string(), "field label \"status.failed\" not supported for Job");
}

#[test]
fn dotted_names_and_very_many_indexes_cause_warnings() {
    JOB.warns(&[
        ("{}", &[]),
        (
            r#"{"metadata":{"name":"a.b"}}"#,
            &["metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a \
               DNS label is recommended: [must not contain dots]"],
        ),
        (
            r#"{"spec":{"completionMode":"Indexed","completions":100001,"parallelism":10001}}"#,
            &["spec: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than \
               10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"],
        ),
    ]);
    let old = CRON_JOB.created(r#"{"spec":{"schedule":"TZ=UTC * * * * *"}}"#);
    assert_eq!(
        CRON_JOB.rules().warnings(&old, Some(&old)),
        ["cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
          https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"]
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn invalid_cron_jobs_are_rejected() {
    let spec = CRON_JOB.created("{}").get("spec").cloned().unwrap();
    for (field, expected) in [
        ("concurrencyPolicy", "\"Allow\""),
        ("suspend", "false"),
        ("successfulJobsHistoryLimit", "3"),
        ("failedJobsHistoryLimit", "1"),
    ] {
        assert_eq!(spec.get(field), Some(&parse(expected)), "{field}");
    }
    let zone = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
    CRON_JOB.creates(&[
        ("{}", &[]),
        (r#"{"spec":{"schedule":"@every 1h"}}"#, &[]),
        (r#"{"spec":{"schedule":null}}"#, &["spec.schedule: Required value"]),
        (
            r#"{"spec":{"schedule":"every day"}}"#,
            &["spec.schedule: Invalid value: \"every day\": expected exactly 5 fields, found 2: [every day]"],
        ),
        (
            r#"{"spec":{"schedule":"TZ=UTC * * * * *"}}"#,
            &[&format!("spec.schedule: Invalid value: \"TZ=UTC * * * * *\": {zone}")],
        ),
        (
            r#"{"spec":{"schedule":"TZ=UTC"}}"#,
            &[
                "spec.schedule: Invalid value: \"TZ=UTC\": invalid schedule format: runtime error: slice bounds out \
                 of range [:-1]",
                &format!("spec.schedule: Invalid value: \"TZ=UTC\": {zone}"),
            ],
        ),
        (r#"{"spec":{"timeZone":"Europe/Paris"}}"#, &[]),
        (
            r#"{"spec":{"timeZone":"Mars/North"}}"#,
            &["spec.timeZone: Invalid value: \"Mars/North\": unknown time zone Mars/North"],
        ),
        (
            r#"{"spec":{"timeZone":""}}"#,
            &["spec.timeZone: Invalid value: \"\": timeZone must be nil or non-empty string"],
        ),
        (
            r#"{"spec":{"concurrencyPolicy":"Maybe"}}"#,
            &["spec.concurrencyPolicy: Unsupported value: \"Maybe\": supported values: \"Allow\", \"Forbid\", \
               \"Replace\""],
        ),
        (
            r#"{"spec":{"startingDeadlineSeconds":-1,"successfulJobsHistoryLimit":-1,"failedJobsHistoryLimit":-1}}"#,
            &[
                "spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0",
                "spec.successfulJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
                "spec.failedJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
        (
            r#"{"spec":{"jobTemplate":{"spec":{"selector":{"matchLabels":{"a":"b"}},"manualSelector":true,
                "parallelism":-1}}}}"#,
            &[
                "spec.jobTemplate.spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
                "spec.jobTemplate.spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\"}}: `selector` will be \
                 auto-generated",
                "spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: \"nil\", \"false\"",
            ],
        ),
        (
            r#"{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Always"}}}}}}"#,
            &["spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \
               \"Never\""],
        ),
        (
            r#"{"metadata":{"name":"a-name-so-long-that-the-jobs-made-from-it-have-no-room"}}"#,
            &["metadata.name: Invalid value: \"a-name-so-long-that-the-jobs-made-from-it-have-no-room\": must be no \
               more than 52 characters"],
        ),
    ]);
}

#[test]
fn cron_job_updates_accept_existing_violations() {
    CRON_JOB.updates(
        r#"{"metadata":{"name":"a-name-so-long-that-the-jobs-made-from-it-have-no-room"},
            "spec":{"schedule":"TZ=UTC * * * * *","timeZone":"Mars/North"}}"#,
        &[
            (r#"{"spec":{"timeZone":null}}"#, &[]),
            (
                r#"{"spec":{"suspend":true}}"#,
                &["spec.schedule: Invalid value: \"TZ=UTC * * * * *\": cannot use both timeZone field and TZ or \
                   CRON_TZ in schedule"],
            ),
        ],
    );
    CRON_JOB.updates(
        "{}",
        &[(
            r#"{"spec":{"schedule":"CRON_TZ=UTC * * * * *"}}"#,
            &["spec.schedule: Invalid value: \"CRON_TZ=UTC * * * * *\": cannot use TZ or CRON_TZ in schedule, use \
               timeZone field instead"],
        )],
    );
}
