//! Validation of scheduling fields.

use super::{check, faults, prepared};

#[test]
fn tolerations_are_validated() {
    check(&[
        (
            r#""tolerations":[{"operator":"Exists"},{"key":"a","value":"b","effect":"NoExecute","tolerationSeconds":5}]"#,
            &[],
        ),
        (
            r#""tolerations":[{"key":"a","operator":"Exists","value":"b"}]"#,
            &[
                r#"spec.tolerations[0].operator: Invalid value: "b": value must be empty when `operator` is 'Exists'"#,
            ],
        ),
        (
            r#""tolerations":[{"key":"a","value":"b","effect":"NoSchedule","tolerationSeconds":5}]"#,
            &[
                r#"spec.tolerations[0].effect: Invalid value: "NoSchedule": effect must be 'NoExecute' when `tolerationSeconds` is set"#,
            ],
        ),
        (
            r#""tolerations":[{"key":"a","operator":"Lt","value":"5"}]"#,
            &[
                r#"spec.tolerations[0].operator: Unsupported value: "Lt": supported values: "Equal", "Exists", "Lt", "Gt""#,
            ],
        ),
        (
            r#""tolerations":[{"key":"a","effect":"Never"}]"#,
            &[
                r#"spec.tolerations[0].effect: Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute""#,
            ],
        ),
    ]);
}

#[test]
fn node_affinity_is_validated() {
    let required = |terms: &str| {
        format!(
            r#""affinity":{{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":[{terms}]}}}}}}"#
        )
    };
    let at = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]";
    check(&[
        (&required(r#"{"matchExpressions":[{"key":"a","operator":"Gt","values":["5"]}]}"#), &[]),
        (
            &required(r#"{"matchExpressions":[{"key":"a","operator":"In"}]}"#),
            &[&format!(
                "{at}.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"
            )],
        ),
        (
            &required(
                r#"{"matchExpressions":[{"key":"a","operator":"Exists","values":["x"]},{"key":"b","operator":"Lt"}]}"#,
            ),
            &[
                &format!(
                    "{at}.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                ),
                &format!(
                    "{at}.matchExpressions[1].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'"
                ),
            ],
        ),
        (
            &required(r#"{"matchExpressions":[{"key":"a","operator":"Like","values":["x"]}]}"#),
            &[&format!(
                r#"{at}.matchExpressions[0].operator: Invalid value: "Like": not a valid selector operator"#
            )],
        ),
        (
            &required(
                r#"{"matchFields":[{"key":"metadata.name","operator":"In","values":["a","b"]},{"key":"spec.x","operator":"In","values":["a"]}]}"#,
            ),
            &[
                &format!(
                    "{at}.matchFields[0].values: Required value: must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
                ),
                &format!(
                    r#"{at}.matchFields[1].key: Invalid value: "spec.x": not a valid field selector key"#
                ),
            ],
        ),
        (
            r#""affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":0,"preference":{"matchExpressions":[{"key":"a","operator":"In","values":["!"]}]}}]}}"#,
            &[
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be in the range 1-100",
            ],
        ),
    ]);
}

#[test]
fn pod_affinity_requires_a_topology() {
    let required = |term: &str| {
        format!(
            r#""affinity":{{"podAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":[{{{term}}}]}}}}"#
        )
    };
    let at = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]";
    let empty_key = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    check(&[
        (&required(r#""topologyKey":"zone","labelSelector":{"matchLabels":{"a":"b"}}"#), &[]),
        (
            &required(r#""labelSelector":{}"#),
            &[
                &format!("{at}.topologyKey: Required value: can not be empty"),
                &format!(r#"{at}.topologyKey: Invalid value: "": name part must be non-empty"#),
                &format!(r#"{at}.topologyKey: Invalid value: "": {empty_key}"#),
            ],
        ),
        (
            &required(r#""topologyKey":"zone","matchLabelKeys":["a"]"#),
            &[&format!(
                "{at}.matchLabelKeys: Forbidden: must not be specified when labelSelector is not set"
            )],
        ),
        (
            &required(
                r#""topologyKey":"zone","labelSelector":{},"matchLabelKeys":["a"],"mismatchLabelKeys":["a"]"#,
            ),
            &[&format!(
                r#"{at}.matchLabelKeys[0]: Invalid value: "a": exists in both matchLabelKeys and mismatchLabelKeys"#
            )],
        ),
        (
            r#""affinity":{"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":101,"podAffinityTerm":{"topologyKey":"zone"}}]}}"#,
            &[
                "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 101: must be in the range 1-100",
            ],
        ),
    ]);
}

#[test]
fn match_label_keys_are_merged_into_selectors() {
    let text = r#"{"metadata":{"name":"p","labels":{"app":"x","hash":"1"}},"spec":{"containers":[{"name":"c","image":"i:1"}],"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule","labelSelector":{"matchLabels":{"app":"x"}},"matchLabelKeys":["hash","none"]}],"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"zone","labelSelector":{},"mismatchLabelKeys":["app"]}]}}}}"#;
    let pod = prepared("Pod", text);
    assert_eq!(faults("Pod", &pod), [""; 0]);
    let spec = pod.get("spec").unwrap();
    let selector =
        spec.get("topologySpreadConstraints").unwrap().as_list().unwrap()[0].get("labelSelector").unwrap();
    assert_eq!(
        crate::json::to_text(selector.get("matchExpressions").unwrap()),
        r#"[{"key":"hash","operator":"In","values":["1"]}]"#
    );
    let anti =
        spec.at(&["affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"]).unwrap();
    assert_eq!(
        crate::json::to_text(anti.as_list().unwrap()[0].get("labelSelector").unwrap()),
        r#"{"matchExpressions":[{"key":"app","operator":"NotIn","values":["x"]}]}"#
    );
    let twice = text.replace(r#""matchLabels":{"app":"x"}"#, r#""matchLabels":{"hash":"1"}"#);
    assert_eq!(
        faults("Pod", &prepared("Pod", &twice)),
        [
            r#"spec.topologySpreadConstraints[0][0]: Invalid value: "hash": exists in both matchLabelKeys and labelSelector"#
        ]
    );
}

#[test]
fn topology_spread_constraints_are_distinct() {
    check(&[
        (
            r#""topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"a","whenUnsatisfiable":"DoNotSchedule","minDomains":2,"nodeTaintsPolicy":"Honor"}]"#,
            &[],
        ),
        (
            r#""topologySpreadConstraints":[{"maxSkew":0,"topologyKey":"","whenUnsatisfiable":"Maybe"}]"#,
            &[
                "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
                "spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty",
                r#"spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "Maybe": supported values: "DoNotSchedule", "ScheduleAnyway""#,
            ],
        ),
        (
            r#""topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"a","whenUnsatisfiable":"ScheduleAnyway","minDomains":2,"nodeAffinityPolicy":"x"},{"maxSkew":2,"topologyKey":"a","whenUnsatisfiable":"ScheduleAnyway"}]"#,
            &[
                r#"spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{a, ScheduleAnyway}""#,
                "spec.topologySpreadConstraints[0].minDomains: Invalid value: 2: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
                r#"spec.topologySpreadConstraints[0].nodeAffinityPolicy: Unsupported value: "x": supported values: "Honor", "Ignore""#,
            ],
        ),
    ]);
}

#[test]
fn scheduling_gates_are_unique_and_exclude_a_node() {
    check(&[
        (
            r#""schedulingGates":[{"name":"example.com/a"}],"readinessGates":[{"conditionType":"example.com/b"}]"#,
            &[],
        ),
        (
            r#""schedulingGates":[{"name":"a"},{"name":"a"}],"nodeName":"n""#,
            &[
                r#"spec.schedulingGates[1]: Duplicate value: "a""#,
                "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
            ],
        ),
    ]);
}

#[test]
fn dns_config_is_bounded() {
    let many = vec![r#""a.b""#; 33].join(",");
    let shown = vec![r#""a.b""#; 33].join(",");
    check(&[
        (r#""dnsPolicy":"None","dnsConfig":{"nameservers":["1.1.1.1"],"searches":[".","_a.b."]}"#, &[]),
        (
            r#""dnsPolicy":"None","dnsConfig":{}"#,
            &[
                "spec.dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is None",
            ],
        ),
        (
            r#""dnsPolicy":"Own""#,
            &[
                r#"spec.dnsPolicy: Unsupported value: "Own": supported values: "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None""#,
            ],
        ),
        (
            r#""dnsConfig":{"nameservers":["1.1.1.1","2.2.2.2","3.3.3.3","4"],"options":[{"value":"x"}]}"#,
            &[
                r#"spec.dnsConfig.nameservers: Invalid value: ["1.1.1.1","2.2.2.2","3.3.3.3","4"]: must not have more than 3 nameservers"#,
                r#"spec.dnsConfig.nameservers[3]: Invalid value: "4": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"#,
                "spec.dnsConfig.options[0]: Required value: must not be empty",
            ],
        ),
        (
            &format!(r#""dnsConfig":{{"searches":[{many}]}}"#),
            &[&format!(
                "spec.dnsConfig.searches: Invalid value: [{shown}]: must not have more than 32 search paths"
            )],
        ),
        (
            r#""hostnameOverride":"a.b","hostNetwork":true,"setHostnameAsFQDN":true"#,
            &[
                "spec.hostnameOverride: Forbidden: may not be specified when setHostnameAsFQDN is true",
                "spec.hostnameOverride: Forbidden: may not be specified when hostNetwork is true",
            ],
        ),
        (
            r#""hostAliases":[{"ip":"999","hostnames":["A"]}]"#,
            &[
                r#"spec.hostAliases[0].ip: Invalid value: "999": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"#,
                r#"spec.hostAliases[0].hostnames[0]: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#,
            ],
        ),
    ]);
}

#[test]
fn deadline_preemption_policy_hostname_and_node_selector_are_validated() {
    check(&[
        (
            r#""hostname":"h","subdomain":"s","activeDeadlineSeconds":1,"priorityClassName":"a","runtimeClassName":"b""#,
            &[],
        ),
        (
            r#""activeDeadlineSeconds":0"#,
            &["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
        ),
        (
            r#""preemptionPolicy":"Always""#,
            &[
                r#"spec.preemptionPolicy: Unsupported value: "Always": supported values: "PreemptLowerPriority", "Never""#,
            ],
        ),
        (
            r#""hostname":"A_b""#,
            &[
                "spec.hostname: Invalid value: \"A_b\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            ],
        ),
        (
            r#""nodeSelector":{"a":"!"}"#,
            &[
                "spec.nodeSelector: Invalid value: \"!\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
            ],
        ),
        (r#""schedulingGroup":{},"evictionResponders":[{"name":"x"}]"#, &[]),
    ]);
}
