//! Validation of containers.

use super::{check, check_container};

#[test]
fn containers_require_names_and_images() {
    check(&[
        ("", &[]),
        (r#""containers":[]"#, &["spec.containers: Required value"]),
        (
            r#""containers":[{"image":"i:1"},{"name":"c"}]"#,
            &["spec.containers[0].name: Required value", "spec.containers[1].image: Required value"],
        ),
        (
            r#""containers":[{"name":"c","image":" i:1"}]"#,
            &[
                r#"spec.containers[0].image: Invalid value: " i:1": must not have leading or trailing whitespace"#,
            ],
        ),
        (
            r#""containers":[{"name":"c","image":"i:1"},{"name":"c","image":"i:1"}]"#,
            &[r#"spec.containers[1].name: Duplicate value: "c""#],
        ),
        (
            r#""initContainers":[{"name":"c","image":"i:1"}]"#,
            &[r#"spec.initContainers[0].name: Duplicate value: "c""#],
        ),
        (
            r#""ephemeralContainers":[{"name":"d","image":"i:1"}]"#,
            &["spec.ephemeralContainers: Forbidden: cannot be set on create"],
        ),
    ]);
}

#[test]
fn enumerations_are_validated() {
    check_container(&[
        (r#""imagePullPolicy":"Always","terminationMessagePolicy":"FallbackToLogsOnError""#, &[]),
        (
            r#""imagePullPolicy":"Often""#,
            &[
                r#"imagePullPolicy: Unsupported value: "Often": supported values: "Always", "IfNotPresent", "Never""#,
            ],
        ),
        (
            r#""terminationMessagePolicy":"Log""#,
            &[
                r#"terminationMessagePolicy: Unsupported value: "Log": supported values: "File", "FallbackToLogsOnError""#,
            ],
        ),
    ]);
}

#[test]
fn container_ports_are_validated() {
    check_container(&[
        (r#""ports":[{"containerPort":80,"name":"web"},{"containerPort":80,"protocol":"UDP"}]"#, &[]),
        (
            r#""ports":[{"containerPort":80,"name":"-a"}]"#,
            &[r#"ports[0].name: Invalid value: "-a": must not begin or end with a hyphen"#],
        ),
        (
            r#""ports":[{"containerPort":80,"name":"a"},{"containerPort":81,"name":"a"}]"#,
            &[r#"ports[1].name: Duplicate value: "a""#],
        ),
        (
            r#""ports":[{"containerPort":80,"hostPort":65536}]"#,
            &["ports[0].hostPort: Invalid value: 65536: must be between 1 and 65535, inclusive"],
        ),
        (
            r#""ports":[{"containerPort":80,"protocol":"ICMP"}]"#,
            &[r#"ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP""#],
        ),
        (
            r#""ports":[{"containerPort":80,"hostPort":8080},{"containerPort":81,"hostPort":8080}]"#,
            &[r#"ports[1].hostPort: Duplicate value: "TCP//8080""#],
        ),
        (
            r#""ports":[{"containerPort":80,"hostPort":8080,"hostIP":"1.1.1.1"},{"containerPort":81,"hostPort":8080}]"#,
            &[],
        ),
    ]);
    check(&[
        (
            r#""hostNetwork":true,"containers":[{"name":"c","image":"i:1","ports":[{"containerPort":80,"hostPort":81}]}]"#,
            &[
                "spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true",
            ],
        ),
        (
            r#""hostNetwork":true,"containers":[{"name":"c","image":"i:1","ports":[{"containerPort":80}]}]"#,
            &[],
        ),
    ]);
}

#[test]
fn environment_variables_have_one_source() {
    check_container(&[
        (r#""env":[{"name":"a b","value":"x"},{"name":"1"}]"#, &[]),
        (
            r#""env":[{"name":"A","valueFrom":{}}]"#,
            &[
                "env[0].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
            ],
        ),
        (
            r#""env":[{"name":"A","value":"x","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}]"#,
            &["env[0].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty"],
        ),
        (
            r#""env":[{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"},"secretKeyRef":{"name":"s","key":"k"}}}]"#,
            &["env[0].valueFrom: Invalid value: \"\": may not have more than one field specified at a time"],
        ),
        (
            r#""env":[{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"status.phase"}}}]"#,
            &[
                r#"env[0].valueFrom.fieldRef.fieldPath: Unsupported value: "status.phase": supported values: "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs""#,
            ],
        ),
        (
            r#""env":[{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"metadata.nope"}}}]"#,
            &[
                r#"env[0].valueFrom.fieldRef.fieldPath: Invalid value: "metadata.nope": error converting fieldPath: field label not supported: metadata.nope"#,
            ],
        ),
        (
            r#""env":[{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"metadata.name['x']"}}}]"#,
            &[
                r#"env[0].valueFrom.fieldRef.fieldPath: Invalid value: "metadata.name['x']": error converting fieldPath: field label does not support subscript: metadata.name['x']"#,
            ],
        ),
        (
            r#""env":[{"name":"A","valueFrom":{"fieldRef":{"apiVersion":"v2","fieldPath":"metadata.name"}}}]"#,
            &[
                r#"env[0].valueFrom.fieldRef.fieldPath: Invalid value: "metadata.name": error converting fieldPath: unsupported pod version: v2"#,
            ],
        ),
        (
            r#""env":[{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"metadata.labels['app']"}}},{"name":"B","valueFrom":{"fieldRef":{"fieldPath":"metadata.annotations['Example.com/A']"}}},{"name":"C","valueFrom":{"fieldRef":{"fieldPath":"spec.host"}}}]"#,
            &[],
        ),
    ]);
}

#[test]
fn resource_references_have_valid_divisors() {
    check_container(&[
        (
            r#""env":[{"name":"A","valueFrom":{"resourceFieldRef":{"resource":"limits.disk"}}}]"#,
            &[
                r#"env[0].valueFrom.resourceFieldRef.resource: Unsupported value: "limits.disk": supported values: "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory""#,
            ],
        ),
        (
            r#""env":[{"name":"A","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu","divisor":"2m"}}}]"#,
            &[
                r#"env[0].valueFrom.resourceFieldRef.divisor: Invalid value: "limits.cpu": only divisor's values 1m and 1 are supported with the cpu resource"#,
            ],
        ),
        (
            r#""env":[{"name":"A","valueFrom":{"resourceFieldRef":{"resource":"requests.memory","divisor":"2Mi"}}}]"#,
            &[
                r#"env[0].valueFrom.resourceFieldRef.divisor: Invalid value: "requests.memory": only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the memory resource"#,
            ],
        ),
        (
            r#""env":[{"name":"A","valueFrom":{"resourceFieldRef":{"resource":"limits.hugepages-2Mi","divisor":"1Mi"}}}]"#,
            &[],
        ),
        (
            r#""env":[{"name":"A","valueFrom":{"configMapKeyRef":{"name":"m","key":""}}}]"#,
            &["env[0].valueFrom.configMapKeyRef.key: Required value"],
        ),
        (
            r#""env":[{"name":"A","valueFrom":{"fileKeyRef":{"volumeName":"v","path":"../x","key":"K"}}}]"#,
            &[
                r#"env[0].valueFrom.fileKeyRef.path: Invalid value: "../x": must not contain '..'"#,
                r#"env[0].valueFrom.fileKeyRef.volumeName: Not found: "v""#,
            ],
        ),
    ]);
}

#[test]
fn env_from_has_one_source() {
    check_container(&[
        (r#""envFrom":[{"prefix":"P_","configMapRef":{"name":"m"}},{"secretRef":{"name":"s"}}]"#, &[]),
        (
            r#""envFrom":[{}]"#,
            &["envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`"],
        ),
        (
            r#""envFrom":[{"configMapRef":{"name":"m"},"secretRef":{"name":"s"}}]"#,
            &["envFrom: Invalid value: \"\": may not have more than one field specified at a time"],
        ),
        (r#""envFrom":[{"configMapRef":{"name":""}}]"#, &["envFrom[0].configMapRef.name: Required value"]),
        (
            r#""envFrom":[{"prefix":"a=","secretRef":{"name":"s"}}]"#,
            &[
                r#"envFrom[0].prefix: Invalid value: "a=": a valid environment variable name must consist only of printable ASCII characters other than '='"#,
            ],
        ),
    ]);
}

#[test]
fn probes_have_one_handler() {
    check_container(&[
        (r#""livenessProbe":{"tcpSocket":{"port":"web"}},"startupProbe":{"grpc":{"port":9}}"#, &[]),
        (r#""livenessProbe":{}"#, &["livenessProbe: Required value: must specify a handler type"]),
        (r#""livenessProbe":{"exec":{"command":[]}}"#, &["livenessProbe.exec.command: Required value"]),
        (
            r#""readinessProbe":{"httpGet":{"port":0,"scheme":"FTP","httpHeaders":[{"name":"a b","value":""}]},"timeoutSeconds":-1}"#,
            &[
                "readinessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive",
                r#"readinessProbe.httpGet.scheme: Unsupported value: "FTP": supported values: "HTTP", "HTTPS""#,
                r#"readinessProbe.httpGet.httpHeaders: Invalid value: "a b": a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"#,
                "readinessProbe.timeoutSeconds: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
        (
            r#""readinessProbe":{"exec":{"command":["x"]},"terminationGracePeriodSeconds":5,"successThreshold":3}"#,
            &[
                "readinessProbe.terminationGracePeriodSeconds: Invalid value: 5: must not be set for readinessProbes",
            ],
        ),
        (
            r#""startupProbe":{"exec":{"command":["x"]},"successThreshold":2,"terminationGracePeriodSeconds":0}"#,
            &[
                "startupProbe.terminationGracePeriodSeconds: Invalid value: 0: must be greater than 0",
                "startupProbe.successThreshold: Invalid value: 2: must be 1",
            ],
        ),
        (
            r#""lifecycle":{"preStop":{"sleep":{"seconds":31}},"postStart":{}}"#,
            &[
                "lifecycle.postStart: Required value: must specify a handler type",
                "lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)",
            ],
        ),
        (r#""lifecycle":{"preStop":{"sleep":{"seconds":0}},"stopSignal":"SIGNOPE"}"#, &[]),
    ]);
}

#[test]
fn only_sidecars_among_init_containers_have_probes() {
    let without = "may not be set for init containers without restartPolicy=Always";
    check(&[
        (
            r#""initContainers":[{"name":"i","image":"i:1","livenessProbe":{"exec":{"command":["x"]}},"lifecycle":{}}]"#,
            &[
                &format!("spec.initContainers[0].lifecycle: Forbidden: {without}"),
                &format!("spec.initContainers[0].livenessProbe: Forbidden: {without}"),
            ],
        ),
        (
            r#""initContainers":[{"name":"i","image":"i:1","restartPolicy":"Always","livenessProbe":{"exec":{"command":["x"]}}}]"#,
            &[],
        ),
        (
            r#""initContainers":[{"name":"i","image":"i:1","restartPolicy":"Sometimes"}]"#,
            &[
                r#"spec.initContainers[0].restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "Never", "OnFailure""#,
            ],
        ),
        (
            r#""initContainers":[{"name":"i","image":"i:1","restartPolicyRules":[{"action":"Nope"}]}]"#,
            &[
                "spec.initContainers[0].restartPolicy: Required value: must specify restartPolicy when restart rules are used",
            ],
        ),
        (
            r#""initContainers":[{"name":"i","image":"i:1","resizePolicy":[{"resourceName":"cpu","restartPolicy":"RestartContainer"}]}]"#,
            &[
                r#"spec.initContainers[0].resizePolicy[0].restartPolicy: Invalid value: "RestartContainer": must not be set to 'RestartContainer' for non-sidecar initContainers"#,
            ],
        ),
        (
            r#""initContainers":[{"name":"i","image":"i:1","ports":[{"containerPort":1,"hostPort":1},{"containerPort":2,"hostPort":1}]},{"name":"j","image":"i:1","ports":[{"containerPort":1,"hostPort":1}]}]"#,
            &[r#"spec.initContainers[0].ports[1].hostPort: Duplicate value: "TCP//1""#],
        ),
    ]);
}

#[test]
fn restart_rules_have_exit_codes() {
    check_container(&[
        (
            r#""restartPolicy":"Never","restartPolicyRules":[{"action":"Restart","exitCodes":{"operator":"In","values":[42]}}]"#,
            &[],
        ),
        (
            r#""restartPolicyRules":[{"action":"Nap","exitCodes":{"operator":"Is"}},{"action":"Restart"}]"#,
            &[
                "restartPolicy: Required value: must specify restartPolicy when restart rules are used",
                r#"restartPolicyRules[0].action: Unsupported value: "Nap": supported values: "Restart", "RestartAllContainers""#,
                r#"restartPolicyRules[0].exitCodes.operator: Unsupported value: "Is": supported values: "In", "NotIn""#,
                "restartPolicyRules[1].exitCodes: Required value: must be specified",
            ],
        ),
    ]);
    let rules = vec![r#"{"action":"Restart","exitCodes":{"operator":"In","values":[1]}}"#; 21].join(",");
    check_container(&[(
        &format!(r#""restartPolicy":"Never","restartPolicyRules":[{rules}]"#),
        &["restartPolicyRules: Too many: 21: must have at most 20 items"],
    )]);
}

/// Asserts the errors of mounts and devices of a container in a pod with an empty volume `e` and a claim `p`.
fn check_mounts(cases: &[(&str, &[&str])]) {
    let with = |container: &str| {
        format!(
            r#""volumes":[{{"name":"e"}},{{"name":"p","persistentVolumeClaim":{{"claimName":"x"}}}}],"containers":[{{"name":"c","image":"i:1",{container}}}]"#
        )
    };
    for (container, expected) in cases {
        let expected: Vec<String> =
            expected.iter().map(|fault| format!("spec.containers[0].{fault}")).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check(&[(&with(container), &expected)]);
    }
}

#[test]
fn mounts_require_volumes_and_unique_paths() {
    check_mounts(&[
        (
            r#""volumeMounts":[{"name":"e","mountPath":"/e","subPath":"a/b"}],"volumeDevices":[{"name":"p","devicePath":"/d"}]"#,
            &[],
        ),
        (
            r#""volumeMounts":[{"name":"e","mountPath":"/e"},{"name":"e","mountPath":"/e"}]"#,
            &[r#"volumeMounts[1].mountPath: Invalid value: "/e": must be unique"#],
        ),
        (
            r#""volumeMounts":[{"name":"","mountPath":""}]"#,
            &[
                "volumeMounts[0].name: Required value",
                r#"volumeMounts[0].name: Not found: """#,
                "volumeMounts[0].mountPath: Required value",
            ],
        ),
        (
            r#""volumeMounts":[{"name":"e","mountPath":"/e","subPath":"../x","subPathExpr":"/y"}]"#,
            &[
                r#"volumeMounts.subPath: Invalid value: "../x": must not contain '..'"#,
                r#"volumeMounts[0].subPathExpr: Invalid value: "/y": subPathExpr and subPath are mutually exclusive"#,
                r#"volumeMounts.subPathExpr: Invalid value: "/y": must be a relative path"#,
            ],
        ),
        (
            r#""volumeMounts":[{"name":"e","mountPath":"/e","mountPropagation":"Bidirectional"}]"#,
            &[
                "volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers",
            ],
        ),
        (
            r#""volumeMounts":[{"name":"e","mountPath":"/e","recursiveReadOnly":"Enabled","mountPropagation":"HostToContainer"}]"#,
            &[
                "volumeMounts.recursiveReadOnly: Forbidden: may only be specified when readOnly is true",
                "volumeMounts.recursiveReadOnly: Forbidden: may only be specified when mountPropagation is None or not specified",
            ],
        ),
        (
            r#""volumeDevices":[{"name":"e","devicePath":"/d"}]"#,
            &[
                r#"volumeDevices[0].name: Invalid value: "e": can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"#,
            ],
        ),
        (
            r#""volumeDevices":[{"name":"p","devicePath":"/d/../x"},{"name":"p","devicePath":""}]"#,
            &[
                r#"volumeDevices[0].devicePath: Invalid value: "/d/../x": can not contain backsteps ('..')"#,
                r#"volumeDevices[1].name: Invalid value: "p": must be unique"#,
                "volumeDevices[1].devicePath: Required value",
            ],
        ),
        (
            r#""volumeMounts":[{"name":"p","mountPath":"/d"}],"volumeDevices":[{"name":"p","devicePath":"/d"}]"#,
            &[
                r#"volumeMounts[0].name: Invalid value: "p": must not already exist in volumeDevices"#,
                r#"volumeMounts[0].mountPath: Invalid value: "/d": must not already exist as a path in volumeDevices"#,
                r#"volumeDevices[0].name: Invalid value: "p": must not already exist in volumeMounts"#,
                r#"volumeDevices[0].devicePath: Invalid value: "/d": must not already exist as a path in volumeMounts"#,
            ],
        ),
    ]);
}
