//! Consistency and transitions of the Job status.

use super::JOB;

const COMPLETE: &str = r#"{"startTime":"2026-01-01T00:00:00Z","completionTime":"2026-01-01T00:01:00Z","succeeded":1,
    "conditions":[{"type":"SuccessCriteriaMet","status":"True"},{"type":"Complete","status":"True"}]}"#;
const FAILED: &str = r#"{"startTime":"2026-01-01T00:00:00Z","failed":1,
    "conditions":[{"type":"FailureTarget","status":"True"},{"type":"Failed","status":"True"}]}"#;
const RUNNING: &str = r#"{"startTime":"2026-01-01T00:00:00Z","active":1,"ready":1}"#;
const INDEXED: &str = r#"{"spec":{"completionMode":"Indexed","completions":5,"parallelism":5,
    "backoffLimitPerIndex":1}}"#;

#[test]
fn job_status_passes_through_its_life_cycle() {
    JOB.statuses(&[
        ("{}", "{}", RUNNING, &[]),
        ("{}", RUNNING, COMPLETE, &[]),
        ("{}", RUNNING, FAILED, &[]),
        ("{}", COMPLETE, COMPLETE, &[]),
        (INDEXED, "{}", r#"{"completedIndexes":"0-1","failedIndexes":"2"}"#, &[]),
    ]);
}

#[test]
fn counters_are_not_negative_and_do_not_decrease() {
    JOB.statuses(&[
        (
            "{}",
            "{}",
            r#"{"active":-1,"succeeded":-1,"failed":-1,"ready":-1,"terminating":-1}"#,
            &[
                "status.active: Invalid value: -1: must be greater than or equal to 0",
                "status.succeeded: Invalid value: -1: must be greater than or equal to 0",
                "status.failed: Invalid value: -1: must be greater than or equal to 0",
                "status.ready: Invalid value: -1: must be greater than or equal to 0",
                "status.terminating: Invalid value: -1: must be greater than or equal to 0",
                "status.failed: Invalid value: -1: cannot decrease the failed counter",
                "status.succeeded: Invalid value: -1: cannot decrease the succeeded counter",
            ],
        ),
        (
            "{}",
            r#"{"succeeded":2,"failed":2}"#,
            r#"{"succeeded":1,"failed":1}"#,
            &[
                "status.failed: Invalid value: 1: cannot decrease the failed counter",
                "status.succeeded: Invalid value: 1: cannot decrease the succeeded counter",
            ],
        ),
        (INDEXED, r#"{"succeeded":2}"#, r#"{"succeeded":1}"#, &[]),
        (
            "{}",
            "{}",
            r#"{"active":1,"ready":2}"#,
            &["status.ready: Invalid value: 2: cannot set more ready pods than active"],
        ),
    ]);
}

#[test]
fn uncounted_pods_are_unique() {
    JOB.statuses(&[(
        "{}",
        "{}",
        r#"{"uncountedTerminatedPods":{"succeeded":["a","","a"],"failed":["a","b"]}}"#,
        &[
            "status.uncountedTerminatedPods.succeeded[1]: Invalid value: \"\": must not be empty",
            "status.uncountedTerminatedPods.succeeded[2]: Duplicate value: \"a\"",
            "status.uncountedTerminatedPods.failed[0]: Duplicate value: \"a\"",
        ],
    )]);
}

#[test]
fn contradicting_conditions_are_rejected() {
    let start = r#""startTime":"2026-01-01T00:00:00Z""#;
    let conditions = |names: &[&str], more: &str| {
        let list: Vec<String> =
            names.iter().map(|name| format!(r#"{{"type":"{name}","status":"True"}}"#)).collect();
        format!(r#"{{{start},"conditions":[{}]{more}}}"#, list.join(","))
    };
    let done = r#","completionTime":"2026-01-01T00:01:00Z""#;
    let wrong = |detail: &str| format!("status.conditions: Invalid value: {detail}");
    JOB.statuses(&[
        (
            "{}",
            "{}",
            &conditions(&["Complete", "SuccessCriteriaMet", "Failed", "FailureTarget"], done),
            &[
                &wrong("cannot set Complete=True and Failed=true conditions"),
                &wrong("cannot set Complete=True and FailureTarget=true conditions"),
                &wrong("cannot set SuccessCriteriaMet=True and Failed=true conditions"),
                &wrong("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"),
            ],
        ),
        (
            "{}",
            "{}",
            &conditions(&["Complete"], done),
            &[&wrong("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")],
        ),
        (
            "{}",
            "{}",
            &conditions(&["Failed"], ""),
            &[&wrong("cannot set Failed=True condition without the FailureTarget=true condition")],
        ),
        (
            r#"{"spec":{"completionMode":"Indexed","completions":1,"successPolicy":{"rules":[{"succeededCount":1}]}}}"#,
            "{}",
            &conditions(&["Complete"], done),
            &[
                &wrong("cannot set Complete=True condition without the SuccessCriteriaMet=true condition"),
                &wrong("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"),
            ],
        ),
    ]);
}

#[test]
fn terminal_conditions_are_final() {
    let wrong = |detail: &str| format!("status.conditions: Invalid value: {detail}");
    JOB.statuses(&[
        (
            "{}",
            COMPLETE,
            r#"{"startTime":"2026-01-01T00:00:00Z","succeeded":1}"#,
            &[
                &wrong("cannot disable the terminal Complete=True condition"),
                &wrong("cannot disable the SuccessCriteriaMet=True condition"),
            ],
        ),
        (
            "{}",
            FAILED,
            r#"{"startTime":"2026-01-01T00:00:00Z","failed":1}"#,
            &[
                &wrong("cannot disable the terminal Failed=True condition"),
                &wrong("cannot disable the terminal FailureTarget=True condition"),
            ],
        ),
        (
            "{}",
            r#"{"startTime":"2026-01-01T00:00:00Z","completionTime":"2026-01-01T00:01:00Z",
                "conditions":[{"type":"Complete","status":"True"}]}"#,
            r#"{"startTime":"2026-01-01T00:00:00Z","completionTime":"2026-01-01T00:01:00Z",
                "conditions":[{"type":"Complete","status":"True"},{"type":"SuccessCriteriaMet","status":"True"}]}"#,
            &[&wrong("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")],
        ),
        (
            "{}",
            RUNNING,
            r#"{"active":1,"terminating":1,"uncountedTerminatedPods":{"failed":["a"]},"failed":1,
                "conditions":[{"type":"FailureTarget","status":"True"},{"type":"Failed","status":"True"}]}"#,
            &[
                "status.active: Invalid value: 1: active>0 is invalid for finished job",
                "status.startTime: Required value: startTime is required for finished job",
                "status.uncountedTerminatedPods: Invalid value: {\"Succeeded\":null,\"Failed\":[\"a\"]}: must be \
                 empty for finished job",
                "status.terminating: Invalid value: 1: terminating>0 is invalid for finished job",
                "status.startTime: Invalid value: null: field is immutable for unsuspended job once set",
            ],
        ),
    ]);
}

#[test]
fn times_are_ordered_and_immutable() {
    let met =
        r#""conditions":[{"type":"SuccessCriteriaMet","status":"True"},{"type":"Complete","status":"True"}]"#;
    JOB.statuses(&[
        (
            "{}",
            "{}",
            r#"{"completionTime":"2026-01-01T00:01:00Z"}"#,
            &["status.completionTime: Invalid value: \"2026-01-01T00:01:00Z\": cannot set completionTime when there \
               is no Complete=True condition"],
        ),
        (
            "{}",
            "{}",
            &format!(r#"{{"startTime":"2026-01-01T00:00:00Z",{met}}}"#),
            &["status.completionTime: Required value: completionTime is required for Complete jobs"],
        ),
        (
            "{}",
            "{}",
            &format!(r#"{{"startTime":"2026-01-01T00:02:00Z","completionTime":"2026-01-01T00:01:00Z",{met}}}"#),
            &["status.completionTime: Invalid value: \"2026-01-01T00:01:00Z\": must be equal to or after \
               `startTime`"],
        ),
        (
            "{}",
            COMPLETE,
            &format!(
                r#"{{"startTime":"2026-01-01T00:00:00Z","completionTime":"2026-01-01T00:03:00Z","succeeded":1,{met}}}"#
            ),
            &["status.completionTime: Invalid value: \"2026-01-01T00:03:00Z\": field is immutable"],
        ),
        (
            "{}",
            RUNNING,
            r#"{"startTime":"2026-01-01T00:05:00Z","active":1,"ready":1}"#,
            &["status.startTime: Invalid value: \"2026-01-01T00:05:00Z\": field is immutable for unsuspended job \
               once set"],
        ),
        (
            "{}",
            r#"{"startTime":"2026-01-01T00:00:00Z","conditions":[{"type":"Suspended","status":"True"}]}"#,
            r#"{"startTime":"2026-01-01T00:05:00Z","conditions":[{"type":"Suspended","status":"False"}]}"#,
            &[],
        ),
    ]);
}

#[test]
fn indexes_are_within_the_completions() {
    JOB.statuses(&[
        (
            "{}",
            "{}",
            r#"{"completedIndexes":"0"}"#,
            &["status.completedIndexes: Invalid value: \"0\": cannot set non-empty completedIndexes when non-indexed \
               completion mode"],
        ),
        (
            INDEXED,
            "{}",
            r#"{"completedIndexes":"7","failedIndexes":"8"}"#,
            &[
                "status.completedIndexes: Invalid value: \"7\": error parsing completedIndexes: too large index: \
                 \"7\"",
                "status.failedIndexes: Invalid value: \"8\": error parsing failedIndexes: too large index: \"8\"",
            ],
        ),
        (
            INDEXED,
            "{}",
            r#"{"completedIndexes":"0-2","failedIndexes":"1"}"#,
            &["status.failedIndexes: Invalid value: \"1\": failedIndexes and completedIndexes overlap at index: 1"],
        ),
        (
            r#"{"spec":{"completionMode":"Indexed","completions":5}}"#,
            "{}",
            r#"{"failedIndexes":""}"#,
            &["status.failedIndexes: Invalid value: \"\": cannot set non-null failedIndexes when \
               backoffLimitPerIndex is null"],
        ),
    ]);
}
