//! Warnings of pods.

use super::{of, pod, pod_with_container, prepared};

fn warnings(text: &str) -> Vec<String> {
    of("Pod").warnings(&prepared("Pod", text), None)
}

/// Asserts the warnings of pods: each case is a spec and its warnings.
fn check_warnings(cases: &[(&str, &[&str])]) {
    for (spec, expected) in cases {
        assert_eq!(warnings(&pod(spec)), *expected, "{spec}");
    }
}

#[test]
fn fields_without_effect_cause_warnings() {
    check_warnings(&[
        ("", &[]),
        (
            r#""nodeSelector":{"beta.kubernetes.io/os":"linux"}"#,
            &[
                r#"spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead"#,
            ],
        ),
        (
            r#""affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"preference":{"matchExpressions":[{"key":"node-role.kubernetes.io/master","operator":"In","values":["-"]}]}}]}}"#,
            &[
                r#"spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].key: node-role.kubernetes.io/master is use "node-role.kubernetes.io/control-plane" instead"#,
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].values[0]: - is invalid, a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
            ],
        ),
        (
            r#""topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"failure-domain.beta.kubernetes.io/zone","whenUnsatisfiable":"DoNotSchedule"}]"#,
            &[
                r#"spec.topologySpreadConstraints[0].topologyKey: failure-domain.beta.kubernetes.io/zone is deprecated since v1.17; use "topology.kubernetes.io/zone" instead"#,
                "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
            ],
        ),
        (
            r#""volumes":[{"name":"g","gitRepo":{"repository":"r"}},{"name":"s","storageos":{"volumeName":"x"}}]"#,
            &[
                "spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
                "spec.volumes[1].storageOS: deprecated in v1.22, non-functional in v1.25+",
            ],
        ),
        (
            r#""volumes":[{"name":"v","configMap":{"name":"m","items":[{"key":"a","path":"x"},{"key":"b","path":"x/y/"},{"key":"c","path":"xy"}]}}]"#,
            &[r#"volume "v" (ConfigMap "m"): overlapping paths: "x/y" with "x""#],
        ),
        (
            r#""volumes":[{"name":"v","projected":{"sources":[{},{"serviceAccountToken":{"path":"t"}},{"secret":{"name":"s","items":[{"key":"k","path":"t"}]}}]}}]"#,
            &[
                r#"volume "v" (Projected) has no sources provided"#,
                r#"volume "v" (Projected): overlapping paths: "t" (Secret "s") with "t" (ServiceAccountToken)"#,
            ],
        ),
    ]);
}

#[test]
fn hidden_fields_cause_warnings() {
    check_warnings(&[
        (
            r#""hostAliases":[{"ip":"1.1.1.1"},{"ip":"1.1.1.1"}]"#,
            &[r#"spec.hostAliases[1].ip: duplicate ip "1.1.1.1""#],
        ),
        (
            r#""imagePullSecrets":[{"name":"a"},{"name":"a"},{}]"#,
            &[
                r#"spec.imagePullSecrets[1].name: duplicate name "a""#,
                r#"spec.imagePullSecrets[2].name: invalid empty name """#,
            ],
        ),
        (
            r#""overhead":{"memory":"1500m"}"#,
            &[r#"spec.overhead[memory]: fractional byte value "1500m" is invalid, must be an integer"#],
        ),
        (
            r#""containers":[{"name":"c","image":"i:1","env":[{"name":"A","value":"1"},{"name":"A","value":"$(A)2"},{"name":"A","value":"3"}]}]"#,
            &[
                r#"spec.containers[0].env[2]: hides previous definition of "A", which may be dropped when using apply"#,
            ],
        ),
        (
            r#""containers":[{"name":"c","image":"i:1","ports":[{"containerPort":80,"name":"w"},{"containerPort":80},{"containerPort":80,"hostPort":8,"name":"w"}]}]"#,
            &[
                "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
                "spec.containers[0].ports[2]: overlapping port definition with spec.containers[0].ports[0]",
                "spec.containers[0].ports[2]: overlapping port definition with spec.containers[0].ports[1]",
                r#"spec.containers[0].ports[2]: duplicate port name "w" with spec.containers[0].ports[0], services and probes that select ports by name will use spec.containers[0].ports[0]"#,
            ],
        ),
        (
            r#""containers":[{"name":"c","image":"i:1","ports":[{"containerPort":80,"hostPort":8},{"containerPort":80,"hostPort":8,"hostIP":"1.1.1.1"}]}]"#,
            &[
                "spec.containers[0].ports[1]: dangerously ambiguous port definition with spec.containers[0].ports[0]",
            ],
        ),
        (
            r#""containers":[{"name":"c","image":"i:1","ports":[{"containerPort":80,"hostIP":"1.1.1.1"}]}]"#,
            &[
                "spec.containers[0].ports[0]: hostIP set without hostPort: {Name: HostPort:0 ContainerPort:80 Protocol:TCP HostIP:1.1.1.1}",
            ],
        ),
        (
            r#""affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"z"}]}}"#,
            &[
                "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: a null labelSelector results in matching no pod",
            ],
        ),
        (
            r#""dnsConfig":{"nameservers":["2001:DB8::1"]}"#,
            &[
                r#"spec.dnsConfig.nameservers[0]: IPv6 address "2001:DB8::1" should be in RFC 5952 canonical format ("2001:db8::1")"#,
            ],
        ),
    ]);
}

#[test]
fn obsolete_annotations_and_dotted_names_cause_warnings() {
    let text = pod("").replace(r#""name":"p""#, r#""name":"p.q","annotations":{"scheduler.alpha.kubernetes.io/critical-pod":"","seccomp.security.alpha.kubernetes.io/pod":"unconfined","container.apparmor.security.beta.kubernetes.io/c":"localhost/"}"#);
    assert_eq!(
        warnings(&text),
        [
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]",
            r#"metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; use the "priorityClassName" field instead"#,
            r#"metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; use the "seccompProfile" field instead"#,
        ]
    );
    let sent = crate::json::parse(text.as_bytes()).unwrap();
    let apparmor = r#"metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: deprecated since v1.30; use the "appArmorProfile" field instead"#;
    assert_eq!(of("Pod").early_warnings(&sent), [apparmor]);
}

#[test]
fn fractional_bytes_cause_warnings() {
    let text = pod_with_container(r#""resources":{"limits":{"memory":"100m"},"requests":{"memory":"100m"}}"#);
    assert_eq!(
        warnings(&text),
        [
            r#"spec.containers[0].resources.limits[memory]: fractional byte value "100m" is invalid, must be an integer"#,
            r#"spec.containers[0].resources.requests[memory]: fractional byte value "100m" is invalid, must be an integer"#,
        ]
    );
}

/// Naive model: the warnings for each pair of ports with equal number and protocol, by comparing all pairs.
fn pairs(ports: &[(usize, usize)]) -> Vec<String> {
    let mut found = Vec::new();
    for (i, (host, outside)) in ports.iter().enumerate() {
        for (j, (other_host, other_outside)) in ports[..i].iter().enumerate() {
            let how = if host == other_host && outside == other_outside {
                "duplicate"
            } else if *outside == 0 || *other_outside == 0 {
                "overlapping"
            } else if outside == other_outside && (*host == 0) != (*other_host == 0) {
                "dangerously ambiguous"
            } else {
                continue;
            };
            found.push(format!(
                "spec.containers[0].ports[{i}]: {how} port definition with spec.containers[0].ports[{j}]"
            ));
        }
    }
    found
}

fn warned_pairs(ports: &[(usize, usize)]) -> Vec<String> {
    let port = |(host, outside): &(usize, usize)| {
        let host = ["", r#","hostIP":"10.0.0.1""#, r#","hostIP":"10.0.0.2""#][*host];
        let outside = ["", r#","hostPort":81"#, r#","hostPort":82"#][*outside];
        format!(r#"{{"containerPort":80{host}{outside}}}"#)
    };
    let ports: Vec<String> = ports.iter().map(port).collect();
    let spec = format!(
        r#"{{"metadata":{{"name":"p"}},"spec":{{"containers":[{{"name":"c","image":"i","ports":[{}]}}]}}}}"#,
        ports.join(",")
    );
    warnings(&spec).into_iter().filter(|one| one.contains("port definition with")).collect()
}

proptest::proptest! {
    #[test]
    fn port_index_agrees_with_the_naive_search(
        ports in proptest::collection::vec((0..3_usize, 0..3_usize), 0..9),
    ) {
        proptest::prop_assert_eq!(warned_pairs(&ports), pairs(&ports));
    }
}

#[test]
fn warnings_about_pairs_are_bounded() {
    let warned = warned_pairs(&[(0, 0); 200]);
    assert_eq!(warned, pairs(&[(0, 0); 200])[..warned.len()], "the first ones, in order");
    assert!(warned.iter().map(|one| one.len().min(256)).sum::<usize>() >= 4096);
    assert!(warned.len() < 200);
}
