//! Validation of nodes.

use super::*;

#[test]
fn node_keeps_the_status_of_its_registration() {
    let node = created(
        "Node",
        "{spec: {podCIDR: 10.0.0.0/24, configSource: {}}, status: {capacity: {cpu: 1500u}, config: {error: x}, phase: Running}}",
    );
    assert_eq!(at(&node, &["spec"]), r#"{"podCIDR":"10.0.0.0/24","podCIDRs":["10.0.0.0/24"]}"#);
    assert_eq!(at(&node, &["status", "capacity"]), r#"{"cpu":"2m"}"#);
    assert_eq!(at(&node, &["status", "allocatable"]), r#"{"cpu":"2m"}"#);
    assert_eq!(at(&node, &["status", "config"]), "");
    assert_eq!(at(&node, &["status", "phase"]), r#""Running""#);
    let node = object("Node", "{spec: {podCIDRs: [10.0.0.0/24, '2001:db8::/64']}}");
    assert_eq!(at(&node, &["spec", "podCIDR"]), r#""10.0.0.0/24""#);
    let node = object("Node", "{spec: {podCIDR: 10.1.0.0/24, podCIDRs: [10.0.0.0/24, '2001:db8::/64']}}");
    assert_eq!(at(&node, &["spec", "podCIDRs"]), r#"["10.1.0.0/24"]"#);
    assert_eq!(of("Node").fields(&node), [("spec.unschedulable", "false".into())]);
}

#[test]
fn taints_of_a_node_are_validated() {
    let (key, value) = (
        "metadata.taints[0].key: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        "metadata.taints[0].value: Invalid value: \"c d\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
    );
    check_all(
        "Node",
        &[
            ("{}", &[]),
            ("{spec: {taints: [{key: a, effect: NoSchedule}, {key: a, effect: NoExecute, value: b}]}}", &[]),
            (
                "{spec: {taints: [{key: a b, value: c d}]}}",
                &[key, value, "metadata.taints[0].effect: Required value"],
            ),
            (
                "{spec: {taints: [{key: a, effect: Odd}]}}",
                &[
                    "metadata.taints[0].effect: Unsupported value: \"Odd\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
                ],
            ),
            (
                "{spec: {taints: [{key: a, effect: NoSchedule}, {key: a, value: b, effect: NoSchedule}]}}",
                &[
                    "metadata.taints[1]: Duplicate value: {\"Key\":\"a\",\"Value\":\"b\",\"Effect\":\"NoSchedule\",\"TimeAdded\":null}: taints must be unique by key and effect pair",
                ],
            ),
            (
                "{metadata: {annotations: {scheduler.alpha.kubernetes.io/taints: '{'}}}",
                &[
                    "metadata.annotations: Invalid value: \"scheduler.alpha.kubernetes.io/taints\": unexpected end of JSON input",
                ],
            ),
        ],
    );
}

#[test]
fn resources_features_and_cidrs_of_a_node_are_validated() {
    let name = "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes";
    let feature =
        format!("status.declaredFeatures[1]: Invalid value: \"a\": invalid feature name \"a\": {name}");
    check_all(
        "Node",
        &[
            (
                "{status: {capacity: {pods: '110', cpu: 500m, x.y/z: '1'}, declaredFeatures: [A, B/c], nodeInfo: {swap: {capacity: 1}}}}",
                &[],
            ),
            (
                "{status: {capacity: {cpu: '-1'}, allocatable: {pods: 500m}}}",
                &[
                    "status.capacity.cpu: Invalid value: \"-1\": must be greater than or equal to 0",
                    "status.allocatable.pods: Invalid value: \"500m\": must be an integer",
                ],
            ),
            (
                "{status: {nodeInfo: {swap: {capacity: 0}}}}",
                &["metadata.nodeSwapStatus.capacity: Invalid value: 0: must be greater than zero"],
            ),
            (
                "{status: {declaredFeatures: [B, a, A, A]}}",
                &[
                    &feature,
                    "status.declaredFeatures[2]: Invalid value: \"A\": list must be sorted alphabetically",
                    "status.declaredFeatures[3]: Duplicate value: \"A\"",
                ],
            ),
            ("{spec: {podCIDRs: [10.0.0.0/24, '2001:db8::/64']}}", &[]),
            (
                "{spec: {podCIDRs: [10.0.0.0/24, 10.1.0.0/24]}}",
                &[
                    "spec.podCIDRs: Invalid value: [\"10.0.0.0/24\",\"10.1.0.0/24\"]: may specify no more than one CIDR for each IP family",
                ],
            ),
            (
                "{spec: {podCIDRs: [x]}}",
                &[
                    "spec.podCIDRs[0]: Invalid value: \"x\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
                ],
            ),
        ],
    );
}

#[test]
fn immutable_node_fields_cannot_change() {
    let cidr = "spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid";
    check_updates(
        "Node",
        &[
            ("{}", "{spec: {podCIDR: 10.0.0.0/24, providerID: a}}", &[]),
            ("{spec: {podCIDR: 10.0.0.0/24}}", "{spec: {podCIDR: 10.1.0.0/24}}", &[cidr]),
            ("{spec: {podCIDR: 10.0.0.0/24}}", "{}", &[cidr]),
            (
                "{spec: {providerID: a}}",
                "{spec: {providerID: b}}",
                &["spec.providerID: Invalid value: null: field cannot be modified once set"],
            ),
            (
                "{spec: {providerID: a}}",
                "{}",
                &["spec.providerID: Invalid value: null: field cannot be cleared once set"],
            ),
            ("{}", "{spec: {externalID: a}}", &["spec.externalID: Forbidden: may not be updated"]),
            ("{status: {phase: Running}}", "{status: {capacity: {cpu: '-1'}}}", &[]),
        ],
    );
    assert_eq!(
        status_faults(
            "Node",
            "{}",
            "{status: {capacity: {cpu: '-1'}, addresses: [{type: InternalIP, address: a}, {type: InternalIP, address: a}]}}"
        )[2..],
        ["status.addresses[1]: Duplicate value: {\"Type\":\"InternalIP\",\"Address\":\"a\"}"]
    );
    assert_eq!(
        warnings("Node", "{spec: {configSource: {}, externalID: x, podCIDRs: [10.0.0.1/24]}}"),
        [
            "spec.configSource: the feature is removed",
            "spec.externalID: this field is deprecated, and is unused by Kubernetes",
            "spec.podCIDRs[0]: CIDR value \"10.0.0.1/24\" is ambiguous in this context (should be \"10.0.0.0/24\" or \"10.0.0.1/32\"?)",
        ]
    );
}
