//! Tests of policy labels and their effect on pods.

use setpoint_api::Value;
use setpoint_api::field_error::ErrorList;
use setpoint_api::resource_types;

use super::super::testing::{object, snapshot_with};
use super::{validate, validate_fields, warnings};

fn pod(spec: &str) -> Value {
    let containers = r#""containers":[{"name":"main","image":"i"}]"#;
    let spec = if spec.contains("\"containers\"") { spec.to_owned() } else { format!("{containers}{spec}") };
    object(&format!(r#"{{"metadata":{{"name":"p","namespace":"n"}},"spec":{{{spec}}}}}"#))
}

fn validate_at_level(level: &str, spec: &str) -> Result<(), String> {
    let namespace = format!(
        r#"{{"kind":"Namespace","apiVersion":"v1","metadata":{{"name":"n","labels":{{"pod-security.kubernetes.io/enforce":"{level}"}}}}}}"#
    );
    validate(&pod(spec), None, &snapshot_with(&[("", "v1", "namespaces", &namespace)]))
}

#[test]
fn baseline_level_forbids_host_access() {
    for (spec, why) in [
        (r#","hostNetwork":true,"hostIPC":true"#, "host namespaces (hostNetwork=true, hostIPC=true)"),
        (r#","volumes":[{"name":"h","hostPath":{"path":"/x"}}]"#, "hostPath volumes (volume \"h\")"),
        (
            r#""containers":[{"name":"a","ports":[{"hostPort":80},{"hostPort":81}]},{"name":"b","ports":[{"hostPort":80}]}]"#,
            "hostPort (containers \"a\", \"b\" use hostPorts 80, 81)",
        ),
        (
            r#""containers":[{"name":"a","securityContext":{"privileged":true}}]"#,
            "privileged (container \"a\" must not set securityContext.privileged=true)",
        ),
        (
            r#""containers":[{"name":"a","securityContext":{"capabilities":{"add":["NET_ADMIN","CHOWN"]}}}]"#,
            "non-default capabilities (container \"a\" must not include \"NET_ADMIN\" in securityContext.capabilities.add)",
        ),
        (
            r#","securityContext":{"sysctls":[{"name":"kernel.msgmax","value":"1"}],"seccompProfile":{"type":"Unconfined"}}"#,
            "seccompProfile (pod must not set securityContext.seccompProfile.type to \"Unconfined\"), forbidden sysctls (kernel.msgmax)",
        ),
        (
            r#","securityContext":{"seLinuxOptions":{"type":"spc_t","user":"u"}}"#,
            "seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type \"spc_t\"; user may not be set)",
        ),
        (
            r#""containers":[{"name":"a","livenessProbe":{"httpGet":{"host":"h"}}}]"#,
            "probe or lifecycle host (container \"a\" uses probe or lifecycle host \"h\")",
        ),
    ] {
        let expected = format!("violates PodSecurity \"baseline:latest\": {why}");
        assert_eq!(validate_at_level("baseline", spec), Err(expected), "{spec}");
        assert_eq!(validate_at_level("privileged", spec), Ok(()), "{spec}");
    }
    assert_eq!(validate_at_level("baseline", ""), Ok(()));
}

#[test]
fn restricted_level_requires_explicit_settings() {
    let error =
        validate_at_level("restricted", r#","volumes":[{"name":"v","nfs":{"server":"s"}}]"#).unwrap_err();
    assert_eq!(
        error,
        "violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false (container \"main\" must set \
         securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"main\" must set \
         securityContext.capabilities.drop=[\"ALL\"]), restricted volume types (volume \"v\" uses restricted volume \
         type \"nfs\"), runAsNonRoot != true (pod or container \"main\" must set securityContext.runAsNonRoot=true), \
         seccompProfile (pod or container \"main\" must set securityContext.seccompProfile.type to \
         \"RuntimeDefault\" or \"Localhost\")"
    );
    let good = r#""securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}},"containers":[{"name":"a","securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"],"add":["NET_BIND_SERVICE"]}}}]"#;
    assert_eq!(validate_at_level("restricted", good), Ok(()));
    let root = good.replace("\"runAsNonRoot\":true", "\"runAsNonRoot\":true,\"runAsUser\":0");
    assert!(
        validate_at_level("restricted", &root)
            .unwrap_err()
            .ends_with("runAsUser=0 (pod must not set runAsUser=0)")
    );
}

#[test]
fn templates_get_warnings_and_only_new_images_are_checked_again() {
    let namespace = r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"n","labels":{"pod-security.kubernetes.io/enforce":"baseline","pod-security.kubernetes.io/warn":"baseline","pod-security.kubernetes.io/warn-version":"v1.30"}}}"#;
    let snapshot = snapshot_with(&[("", "v1", "namespaces", namespace)]);
    let deployment = object(
        r#"{"metadata":{"name":"d","namespace":"n"},"spec":{"template":{"spec":{"hostPID":true,"containers":[]}}}}"#,
    );
    let of = |group, plural| resource_types::find(group, "v1", plural).unwrap();
    assert_eq!(
        warnings(of("apps", "deployments"), &deployment, None, &snapshot),
        ["would violate PodSecurity \"baseline:v1.30\": host namespaces (hostPID=true)"]
    );
    assert!(warnings(of("", "configmaps"), &deployment, None, &snapshot).is_empty());
    let (old, new) = (pod(r#","hostPID":true"#), pod(r#","hostPID":true,"priority":1"#));
    assert_eq!(validate(&new, Some(&old), &snapshot), Ok(()));
    let other = pod(r#""hostPID":true,"containers":[{"name":"main","image":"j"}]"#);
    assert!(validate(&other, Some(&old), &snapshot).is_err());
}

#[test]
fn invalid_policy_labels_are_rejected_unless_unchanged() {
    let namespace = |level: &str, version: &str| {
        object(&format!(
            r#"{{"metadata":{{"name":"n","labels":{{"pod-security.kubernetes.io/enforce":"{level}","pod-security.kubernetes.io/warn-version":"{version}"}}}}}}"#
        ))
    };
    let faults = |new: &Value, old: Option<&Value>| {
        let mut errors = ErrorList::new();
        validate_fields(new, old, &mut errors);
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let bad = namespace("bogus", "v2.1");
    assert_eq!(
        faults(&bad, None),
        [
            "metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"bogus\": must be one of privileged, baseline, restricted",
            "metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: \"v2.1\": must be \"latest\" or \"v1.x\"",
        ]
    );
    assert!(faults(&bad, Some(&bad)).is_empty());
    assert!(faults(&namespace("baseline", "v1.37"), None).is_empty());
}
