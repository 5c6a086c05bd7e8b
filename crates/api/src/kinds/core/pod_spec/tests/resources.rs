//! Validation of resource requirements, and QoS classes.

use super::{check, check_container, of, pod, prepared};
use crate::kinds::core::pod_spec::qos_class;

#[test]
fn requests_do_not_exceed_limits() {
    check_container(&[
        (r#""resources":{"requests":{"cpu":"100m"},"limits":{"cpu":"1","memory":"1Gi"}}"#, &[]),
        (r#""resources":{"requests":{"cpu":"1000m"},"limits":{"cpu":"1"}}"#, &[]),
        (
            r#""resources":{"requests":{"memory":"2Gi"},"limits":{"memory":"1Gi"}}"#,
            &[
                r#"resources.requests: Invalid value: "2Gi": must be less than or equal to memory limit of 1Gi"#,
            ],
        ),
        (
            r#""resources":{"requests":{"cpu":"-1"}}"#,
            &[r#"resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0"#],
        ),
        (
            r#""resources":{"limits":{"example.com/gpu":"1"},"requests":{"example.com/gpu":"2"}}"#,
            &[r#"resources.requests: Invalid value: "2": must be equal to example.com/gpu limit of 1"#],
        ),
        (
            r#""resources":{"requests":{"example.com/gpu":"1"}}"#,
            &["resources.limits: Required value: Limit must be set for non overcommitable resources"],
        ),
        (
            r#""resources":{"limits":{"example.com/gpu":"500m"}}"#,
            &[
                r#"resources.limits[example.com/gpu]: Invalid value: "500m": must be an integer"#,
                r#"resources.requests[example.com/gpu]: Invalid value: "500m": must be an integer"#,
            ],
        ),
    ]);
}

#[test]
fn resource_names_are_validated() {
    check_container(&[
        (r#""resources":{"requests":{"ephemeral-storage":"1Gi","kubernetes.io/x":"1"}}"#, &[]),
        (
            r#""resources":{"requests":{"disk":"1"}}"#,
            &[
                r#"resources.requests[disk]: Invalid value: "disk": must be a standard resource type or fully qualified"#,
                r#"resources.requests[disk]: Invalid value: "disk": must be a standard resource for containers"#,
            ],
        ),
        (
            r#""resources":{"requests":{"pods":"1"}}"#,
            &[
                r#"resources.requests[pods]: Invalid value: "pods": must be a standard resource for containers"#,
            ],
        ),
        (
            r#""resources":{"limits":{"requests.example.com/x":"1"}}"#,
            &[
                r#"resources.limits[requests.example.com/x]: Invalid value: "requests.example.com/x": doesn't follow extended resource name standard"#,
                r#"resources.requests[requests.example.com/x]: Invalid value: "requests.example.com/x": doesn't follow extended resource name standard"#,
            ],
        ),
    ]);
}

#[test]
fn huge_pages_are_multiples_and_need_cpu_or_memory() {
    check_container(&[
        (r#""resources":{"limits":{"hugepages-2Mi":"4Mi","memory":"1Gi"}}"#, &[]),
        (
            r#""resources":{"limits":{"hugepages-2Mi":"4Mi"}}"#,
            &["resources: Forbidden: HugePages require cpu or memory"],
        ),
        (
            r#""resources":{"limits":{"hugepages-2Mi":"3Mi","cpu":"1"}}"#,
            &[
                r#"resources.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi"#,
                r#"resources.requests[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi"#,
            ],
        ),
    ]);
}

#[test]
fn container_claims_refer_to_pod_claims() {
    check_container(&[(
        r#""resources":{"claims":[{"name":"x"}]}"#,
        &[
            r#"resources.claims[0]: Not found: "x": must be one of the names in pod.spec.resourceClaims which is empty"#,
        ],
    )]);
    let with = |claims: &str, used: &str| {
        format!(
            r#""resourceClaims":[{claims}],"containers":[{{"name":"c","image":"i:1","resources":{{"claims":[{used}]}}}}]"#
        )
    };
    let good = r#"{"name":"a","resourceClaimName":"x"}"#;
    check(&[
        (&with(good, r#"{"name":"a","request":"r"},{"name":"a","request":"s"}"#), &[]),
        (
            &with(good, r#"{"name":"a"},{"name":"a"}"#),
            &[r#"spec.containers[0].resources.claims[1]: Duplicate value: "a""#],
        ),
        (
            &with(good, r#"{"name":"a","request":"r"},{"name":"a"},{"name":"b"}"#),
            &[
                r#"spec.containers[0].resources.claims[1]: Duplicate value: "a""#,
                r#"spec.containers[0].resources.claims[2]: Not found: "b": must be one of the names in pod.spec.resourceClaims: a"#,
            ],
        ),
        (
            &with(r#"{"name":"a"}"#, ""),
            &[
                r#"spec.resourceClaims[0]: Invalid value: {"Name":"a","ResourceClaimName":null,"ResourceClaimTemplateName":null}: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"#,
            ],
        ),
        (
            &with(r#"{"name":"a","resourceClaimName":"x","resourceClaimTemplateName":"y"}"#, ""),
            &[
                r#"spec.resourceClaims[0]: Invalid value: {"Name":"a","ResourceClaimName":"x","ResourceClaimTemplateName":"y"}: at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"#,
            ],
        ),
    ]);
}

#[test]
fn resize_policies_are_unique_per_resource() {
    check_container(&[
        (r#""resizePolicy":[{"resourceName":"cpu","restartPolicy":"NotRequired"}]"#, &[]),
        (
            r#""resizePolicy":[{"resourceName":"cpu","restartPolicy":"NotRequired"},{"resourceName":"cpu","restartPolicy":"Maybe"},{"resourceName":"disk","restartPolicy":"NotRequired"}]"#,
            &[
                r#"resizePolicy[1]: Duplicate value: "cpu""#,
                r#"resizePolicy: Unsupported value: "Maybe": supported values: "NotRequired", "RestartContainer""#,
                r#"resizePolicy: Unsupported value: "disk": supported values: "cpu", "memory""#,
            ],
        ),
    ]);
    check(&[(
        r#""restartPolicy":"Never","containers":[{"name":"c","image":"i:1","resizePolicy":[{"resourceName":"cpu","restartPolicy":"RestartContainer"}]}]"#,
        &[
            r#"spec.containers[0].resizePolicy: Invalid value: "RestartContainer": must be 'NotRequired' when pod `restartPolicy` is 'Never'"#,
        ],
    )]);
}

#[test]
fn pod_level_resources_cover_the_containers() {
    let containers = r#""containers":[{"name":"a","image":"i:1","resources":{"requests":{"cpu":"2"},"limits":{"cpu":"3"}}},{"name":"b","image":"i:1","resources":{"requests":{"cpu":"1"}}}]"#;
    check(&[
        (&format!(r#""resources":{{"requests":{{"cpu":"3"}},"limits":{{"cpu":"4"}}}},{containers}"#), &[]),
        (
            &format!(r#""resources":{{"requests":{{"cpu":"2"}},"limits":{{"cpu":"2500m"}}}},{containers}"#),
            &[
                r#"spec.resources.requests[cpu]: Invalid value: "2": must be greater than or equal to aggregate container requests of 3"#,
                r#"spec.resources.containers[0][cpu].limits: Invalid value: "3": must be less than or equal to pod limits of 2500m"#,
            ],
        ),
        (
            r#""resources":{"requests":{"ephemeral-storage":"1Gi"}}"#,
            &[
                r#"spec.resources.requests[ephemeral-storage]: Unsupported value: "ephemeral-storage": supported values: "cpu", "hugepages-", "memory""#,
            ],
        ),
        (
            r#""os":{"name":"windows"},"resources":{"requests":{"cpu":"1"}}"#,
            &["spec.resources: Forbidden: may not be set for a windows pod"],
        ),
        (
            r#""overhead":{"disk":"1"}"#,
            &[
                r#"spec.overhead.limits[disk]: Invalid value: "disk": must be a standard resource type or fully qualified"#,
                r#"spec.overhead.limits[disk]: Invalid value: "disk": must be a standard resource for containers"#,
            ],
        ),
    ]);
}

fn resources_after_prepare(spec: &str) -> String {
    crate::json::to_text(prepared("Pod", &pod(spec)).at(&["spec", "resources"]).unwrap())
}

#[test]
fn pod_level_resources_default_to_those_of_containers() {
    let limited = r#""containers":[{"name":"a","image":"i:1","resources":{"requests":{"cpu":"1"},"limits":{"cpu":"2","hugepages-2Mi":"2Mi"}}}],"initContainers":[{"name":"i","image":"i:1","resources":{"limits":{"cpu":"5"}}}]"#;
    assert_eq!(
        resources_after_prepare(&format!(r#""resources":{{"limits":{{"memory":"1Gi"}}}},{limited}"#)),
        r#"{"limits":{"cpu":"5","hugepages-2Mi":"2Mi","memory":"1Gi"},"requests":{"cpu":"5","hugepages-2Mi":"2Mi","memory":"1Gi"}}"#
    );
    assert_eq!(
        resources_after_prepare(r#""resources":{"requests":{"cpu":"3"}}"#),
        r#"{"requests":{"cpu":"3"}}"#
    );
    assert_eq!(resources_after_prepare(r#""resources":{}"#), "{}");
}

#[test]
fn qos_class_follows_the_resources() {
    let full = r#""resources":{"limits":{"cpu":"1","memory":"1Gi"}}"#;
    for (spec, class) in [
        (String::new(), "BestEffort"),
        (format!(r#""containers":[{{"name":"c","image":"i:1",{full}}}]"#), "Guaranteed"),
        (
            format!(r#""containers":[{{"name":"c","image":"i:1",{full}}},{{"name":"d","image":"i:1"}}]"#),
            "Burstable",
        ),
        (
            format!(
                r#""initContainers":[{{"name":"i","image":"i:1"}}],"containers":[{{"name":"c","image":"i:1",{full}}}]"#
            ),
            "Burstable",
        ),
        (
            r#""containers":[{"name":"c","image":"i:1","resources":{"limits":{"cpu":"1"}}}]"#.to_owned(),
            "Burstable",
        ),
        (
            r#""containers":[{"name":"c","image":"i:1","resources":{"requests":{"cpu":"0"}}}]"#.to_owned(),
            "BestEffort",
        ),
        (
            r#""containers":[{"name":"c","image":"i:1","resources":{"limits":{"example.com/x":"1"}}}]"#
                .to_owned(),
            "BestEffort",
        ),
        (r#""resources":{"limits":{"cpu":"1","memory":"1Gi"}}"#.to_owned(), "Guaranteed"),
    ] {
        let mut object = super::decoded("Pod", &pod(&spec));
        of("Pod").default(&mut object);
        of("Pod").prepare_create(&mut object);
        assert_eq!(qos_class(object.get("spec").unwrap()), class, "{spec}");
        assert_eq!(object.str_at(&["status", "qosClass"]), class, "{spec}");
    }
}
