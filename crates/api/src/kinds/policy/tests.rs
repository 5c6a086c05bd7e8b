//! Validation and defaulting of PodDisruptionBudgets and Evictions.

use super::eviction;
use crate::field_error::ErrorList;
use crate::kinds::workload::fixture::{KindFixture, parse};

const PDB: KindFixture = KindFixture {
    group: "policy",
    version: "v1",
    kind: "PodDisruptionBudget",
    good: r#"{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"one"},"spec":{
        "minAvailable":"50%","selector":{"matchLabels":{"app":"x"}}}}"#,
};

#[test]
fn invalid_budgets_are_rejected() {
    PDB.creates(&[
        ("{}", &[]),
        (r#"{"spec":{"minAvailable":0}}"#, &[]),
        (r#"{"spec":{"minAvailable":null,"maxUnavailable":1}}"#, &[]),
        (r#"{"spec":{"selector":null}}"#, &[]),
        (r#"{"spec":{"selector":{"matchLabels":null}}}"#, &[]),
        (r#"{"spec":{"unhealthyPodEvictionPolicy":"AlwaysAllow"}}"#, &[]),
        (
            r#"{"spec":{"maxUnavailable":1}}"#,
            &["spec: Invalid value: {\"MinAvailable\":\"50%\",\"Selector\":{\"matchLabels\":{\"app\":\"x\"}},\
               \"MaxUnavailable\":1,\"UnhealthyPodEvictionPolicy\":null}: minAvailable and maxUnavailable cannot be \
               both set"],
        ),
        (
            r#"{"spec":{"minAvailable":-1}}"#,
            &["spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            r#"{"spec":{"minAvailable":"101%"}}"#,
            &["spec.minAvailable: Invalid value: \"101%\": must not be greater than 100%"],
        ),
        (
            r#"{"spec":{"minAvailable":null,"maxUnavailable":"x"}}"#,
            &["spec.maxUnavailable: Invalid value: \"x\": a valid percent string must be a numeric string followed by \
               an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"],
        ),
        (
            r#"{"spec":{"selector":{"matchExpressions":[{"key":"a","operator":"Exists","values":["b"]}]}}}"#,
            &["spec.selector.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' \
               or 'DoesNotExist'"],
        ),
        (
            r#"{"spec":{"unhealthyPodEvictionPolicy":"Never"}}"#,
            &["spec.unhealthyPodEvictionPolicy: Unsupported value: \"Never\": supported values: \"AlwaysAllow\", \
               \"IfHealthyBudget\""],
        ),
    ]);
}

#[test]
fn budget_updates_require_a_resource_version() {
    assert!(!PDB.rules().allows_unconditional_update());
    assert!(PDB.rules().has_generation() && PDB.rules().has_status());
    PDB.updates("{}", &[(r#"{"spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"y"}}}}"#, &[])]);
}

#[test]
fn invalid_selector_of_the_stored_object_is_accepted_in_an_update() {
    let bad = r#"{"spec":{"selector":{"matchExpressions":[{"key":"a","operator":"In","values":["-"]}]}}}"#;
    PDB.updates(bad, &[(r#"{"spec":{"minAvailable":1}}"#, &[])]);
}

#[test]
fn beta_label_excludes_other_requirements() {
    let label = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";
    let selector = |patch: &str| PDB.created(patch).at(&["spec", "selector"]).cloned().unwrap();
    let alone = format!(
        r#"{{"spec":{{"selector":{{"matchLabels":null,"matchExpressions":[{{"key":"{label}","operator":"Exists"}}]}}}}}}"#
    );
    let kept = format!(r#"{{"matchExpressions":[{{"key":"{label}","operator":"Exists"}}]}}"#);
    assert_eq!(selector(&alone), parse(&kept));
    let both = format!(
        r#"{{"spec":{{"selector":{{"matchExpressions":[{{"key":"{label}","operator":"Exists"}},
            {{"key":"a","operator":"Exists"}}]}}}}}}"#
    );
    let expected = r#"{"matchLabels":{"app":"x"},"matchExpressions":[{"key":"a","operator":"Exists"}]}"#;
    assert_eq!(selector(&both), parse(expected));
    let with_labels = format!(
        r#"{{"spec":{{"selector":{{"matchExpressions":[{{"key":"{label}","operator":"Exists"}}]}}}}}}"#
    );
    assert_eq!(selector(&with_labels), parse(r#"{"matchLabels":{"app":"x"}}"#));
}

#[test]
fn status_conditions_and_counters_are_validated() {
    let at = "status.conditions[0]";
    let reason = "a condition reason must start with alphabetic character, optionally followed by a string of \
                  alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. \
                  'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used \
                  for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";
    let good = r#"{"type":"A","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"R:x","message":""}"#;
    PDB.statuses(&[
        ("{}", "{}", &format!(r#"{{"conditions":[{good}],"disruptionsAllowed":1}}"#), &[]),
        (
            "{}",
            "{}",
            r#"{"disruptionsAllowed":-1,"currentHealthy":-1,"desiredHealthy":-1,"expectedPods":-1}"#,
            &[
                "status.disruptionsAllowed: Invalid value: -1: must be greater than or equal to 0",
                "status.currentHealthy: Invalid value: -1: must be greater than or equal to 0",
                "status.desiredHealthy: Invalid value: -1: must be greater than or equal to 0",
                "status.expectedPods: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
        (
            "{}",
            "{}",
            r#"{"conditions":[{}]}"#,
            &[
                &format!("{at}.type: Required value: is required"),
                &format!("{at}.status: Required value"),
                &format!("{at}.lastTransitionTime: Required value"),
                &format!("{at}.reason: Required value"),
            ],
        ),
        (
            "{}",
            "{}",
            r#"{"conditions":[{"type":"A","status":"Odd","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"1",
                "message":"","observedGeneration":-1}]}"#,
            &[
                &format!(
                    "{at}.status: Unsupported value: \"Odd\": supported values: \"False\", \"True\", \"Unknown\""
                ),
                &format!("{at}.observedGeneration: Invalid value: -1: must be greater than or equal to zero"),
                &format!("{at}.reason: Invalid value: \"1\": {reason}"),
            ],
        ),
        (
            "{}",
            "{}",
            &format!(r#"{{"conditions":[{good},{good}]}}"#),
            &["status.conditions[1]: Duplicate value: \"A\""],
        ),
    ]);
}

#[test]
fn evictions_reject_ignoring_store_read_errors() {
    let faults = |eviction: &str| {
        let mut errors = ErrorList::new();
        eviction::validate(&parse(eviction), &mut errors);
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(faults(r#"{"deleteOptions":{"gracePeriodSeconds":0}}"#), Vec::<String>::new());
    assert_eq!(
        faults(r#"{"deleteOptions":{"ignoreStoreReadErrorWithClusterBreakingPotential":true}}"#),
        [
            "deleteOptions.ignoreStoreReadErrorWithClusterBreakingPotential: Invalid value: true: can not be set for \
          pod eviction, try after removing the option"
        ]
    );
}
