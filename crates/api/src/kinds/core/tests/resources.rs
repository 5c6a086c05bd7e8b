//! Validation of LimitRange and ResourceQuota.

use super::*;

#[test]
fn limit_range_defaults_derive_from_max_and_min() {
    let range = object(
        "LimitRange",
        "{spec: {limits: [{type: Container, max: {cpu: 1500u}, default: {memory: 1Gi}, min: {cpu: 1m, x.y/z: '2'}}]}}",
    );
    assert_eq!(
        at(&range, &["spec", "limits"]),
        r#"[{"type":"Container","max":{"cpu":"2m"},"min":{"cpu":"1m","x.y/z":"2"},"default":{"memory":"1Gi","cpu":"2m"},"defaultRequest":{"memory":"1Gi","cpu":"2m","x.y/z":"2"}}]"#
    );
    let range = object("LimitRange", "{spec: {limits: [{type: Pod, max: {cpu: '1'}}]}}");
    assert_eq!(at(&range, &["spec", "limits"]), r#"[{"type":"Pod","max":{"cpu":"1"}}]"#);
    let named = created("LimitRange", "{metadata: {uid: some-uid}}");
    assert_eq!(at(&named, &["metadata", "name"]), r#""some-uid""#);
}

#[test]
fn limit_range_lists_are_validated() {
    check_all(
        "LimitRange",
        &[
            ("{spec: {limits: [{type: Container, max: {cpu: '2'}, min: {cpu: '1'}}]}}", &[]),
            ("{spec: {limits: [{type: example.com/own, max: {example.com/x: '2'}}]}}", &[]),
            ("{spec: {limits: [{type: PersistentVolumeClaim, max: {storage: 2Gi}}]}}", &[]),
            (
                "{spec: {limits: [{type: Odd}]}}",
                &[
                    "spec.limits[0].type: Invalid value: \"Odd\": must be a standard limit type or fully qualified",
                ],
            ),
            (
                "{spec: {limits: [{type: Pod}, {type: Pod}]}}",
                &["spec.limits[1].type: Duplicate value: \"Pod\""],
            ),
            (
                "{spec: {limits: [{type: Pod, default: {cpu: '1'}, defaultRequest: {cpu: '1'}}]}}",
                &[
                    "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
                    "spec.limits[0].defaultRequest: Forbidden: may not be specified when `type` is 'Pod'",
                ],
            ),
            (
                "{spec: {limits: [{type: Container, max: {pods: '1'}}]}}",
                &[
                    "spec.limits[0].max[pods]: Invalid value: \"pods\": must be a standard resource for containers",
                    "spec.limits[0].default[pods]: Invalid value: \"pods\": must be a standard resource for containers",
                    "spec.limits[0].defaultRequest[pods]: Invalid value: \"pods\": must be a standard resource for containers",
                ],
            ),
        ],
    );
}

#[test]
fn limit_range_amounts_are_ordered() {
    check_all(
        "LimitRange",
        &[
            (
                "{spec: {limits: [{type: Pod, max: {cpu: '1'}, min: {cpu: '2'}}]}}",
                &["spec.limits[0].min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1"],
            ),
            (
                "{spec: {limits: [{type: Container, max: {cpu: '1'}, default: {cpu: '2'}, defaultRequest: {cpu: '3'}}]}}",
                &[
                    "spec.limits[0].defaultRequest[cpu]: Invalid value: \"3\": default request value 3 is greater than max value 1",
                    "spec.limits[0].defaultRequest[cpu]: Invalid value: \"3\": default request value 3 is greater than default limit value 2",
                    "spec.limits[0].default[cpu]: Invalid value: \"1\": default value 2 is greater than max value 1",
                ],
            ),
            (
                "{spec: {limits: [{type: Container, min: {cpu: '2'}, default: {cpu: '1'}}]}}",
                &[
                    "spec.limits[0].defaultRequest[cpu]: Invalid value: \"1\": min value 2 is greater than default request value 1",
                    "spec.limits[0].default[cpu]: Invalid value: \"2\": min value 2 is greater than default value 1",
                ],
            ),
            (
                "{spec: {limits: [{type: Pod, max: {cpu: '4'}, min: {cpu: '3'}, maxLimitRequestRatio: {cpu: '2'}}]}}",
                &[
                    "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"2\": ratio 2 is greater than max/min = 1.333333",
                ],
            ),
            (
                "{spec: {limits: [{type: Pod, maxLimitRequestRatio: {cpu: 500m}}]}}",
                &[
                    "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"500m\": ratio 500m is less than 1",
                ],
            ),
            (
                "{spec: {limits: [{type: PersistentVolumeClaim}]}}",
                &[
                    "spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was provided",
                ],
            ),
            (
                "{spec: {limits: [{type: Container, default: {x.y/z: '2'}, defaultRequest: {x.y/z: '1'}}]}}",
                &[
                    "spec.limits[0].defaultRequest[x.y/z]: Invalid value: \"1\": default value 2 must equal to defaultRequest value 1 in x.y/z",
                ],
            ),
        ],
    );
}

#[test]
fn quota_resources_are_validated() {
    check_all(
        "ResourceQuota",
        &[
            ("{}", &[]),
            ("{spec: {hard: {pods: '5', requests.cpu: 1500m, count/widgets.example.com: '3'}}}", &[]),
            ("{spec: {hard: {hugepages-2Mi: 4Mi, requests.nvidia.com/gpu: '1'}}}", &[]),
            ("{spec: {hard: {pods: '5'}, scopes: [BestEffort]}}", &[]),
            (
                "{spec: {hard: {storage: 1Gi}}}",
                &["spec.hard[storage]: Invalid value: \"storage\": must be a standard resource for quota"],
            ),
            (
                "{spec: {hard: {odd: '1'}}}",
                &[
                    "spec.hard[odd]: Invalid value: \"odd\": must be a standard resource type or fully qualified",
                    "spec.hard[odd]: Invalid value: \"odd\": must be a standard resource for quota",
                ],
            ),
            (
                "{spec: {hard: {pods: '-1'}}}",
                &["spec.hard[pods]: Invalid value: \"-1\": must be greater than or equal to 0"],
            ),
            (
                "{spec: {hard: {pods: 500m}}}",
                &["spec.hard[pods]: Invalid value: \"500m\": must be an integer"],
            ),
            ("{spec: {scopes: [Odd]}}", &["spec.scopes: Invalid value: [\"Odd\"]: unsupported scope"]),
            (
                "{spec: {hard: {cpu: '1'}, scopes: [BestEffort, NotBestEffort]}}",
                &[
                    "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\"]: unsupported scope applied to resource",
                    "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\"]: conflicting scopes",
                ],
            ),
        ],
    );
}

#[test]
fn quota_scopes_match_its_resources() {
    check_all(
        "ResourceQuota",
        &[
            (
                "{spec: {scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [a]}]}}}",
                &[],
            ),
            (
                "{spec: {scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In}]}}}",
                &[
                    "spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
                ],
            ),
            (
                "{spec: {hard: {secrets: '1'}, scopeSelector: {matchExpressions: [{scopeName: Odd, operator: Exists, values: [x]}, {scopeName: Terminating, operator: Exists}]}}}",
                &[
                    "spec.scopeSelector.matchExpressions.scopeName: Invalid value: \"Odd\": unsupported scope",
                    "spec.scopeSelector.matchExpressions.values: Invalid value: [\"x\"]: must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
                    "spec.scopeSelector.matchExpressions: Invalid value: {\"MatchExpressions\":[{\"ScopeName\":\"Odd\",\"Operator\":\"Exists\",\"Values\":[\"x\"]},{\"ScopeName\":\"Terminating\",\"Operator\":\"Exists\",\"Values\":null}]}: unsupported scope applied to resource",
                ],
            ),
            (
                "{spec: {scopeSelector: {matchExpressions: [{scopeName: BestEffort, operator: Maybe}]}}}",
                &[
                    "spec.scopeSelector.matchExpressions.operator: Invalid value: \"Maybe\": must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity",
                    "spec.scopeSelector.matchExpressions.operator: Invalid value: \"Maybe\": not a valid selector operator",
                ],
            ),
        ],
    );
    check_updates(
        "ResourceQuota",
        &[
            (
                "{spec: {scopes: [BestEffort, PriorityClass]}}",
                "{spec: {scopes: [PriorityClass, BestEffort]}}",
                &[],
            ),
            (
                "{spec: {scopes: [BestEffort]}}",
                "{spec: {}}",
                &["spec.scopes: Invalid value: null: field is immutable"],
            ),
        ],
    );
    assert_eq!(
        status_faults("ResourceQuota", "{}", "{status: {hard: {pods: '1'}, used: {pods: '-1', odd/x: '1'}}}"),
        ["status.used[pods]: Invalid value: \"-1\": must be greater than or equal to 0"]
    );
    assert_eq!(
        warnings(
            "ResourceQuota",
            "{spec: {hard: {cpu: '3', limits.cpu: '2', requests.memory: 1Gi, limits.memory: 2Gi}}}"
        ),
        ["ResourceQuota cpu (3) should be less than limits.cpu (2)"]
    );
}
