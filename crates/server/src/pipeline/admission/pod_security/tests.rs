//! Tests of policy labels and their effect on pods.

use std::collections::BTreeSet;

use setpoint_api::Value;
use setpoint_api::status::Status;

use super::super::AdmissionConfig;
use super::super::testing::{Review, object};
use super::*;

/// A namespace `a` with these labels of its policy.
fn namespace(labels: &[(&str, &str)]) -> Value {
    let labels: Vec<String> =
        labels.iter().map(|(name, value)| format!(r#""{PREFIX}{name}":"{value}""#)).collect();
    object(&format!(
        r#"{{"kind":"Namespace","apiVersion":"v1","metadata":{{"name":"a","labels":{{{}}}}}}}"#,
        labels.join(",")
    ))
}

/// Result of a review, with its findings.
fn run(review: &Review<'_>, object: &Value) -> (Result<(), Status>, Findings) {
    let mut findings = Findings::default();
    let result = review.run(|input| validate(object, input, &mut findings));
    (result, findings)
}

/// A review in a namespace with these labels.
fn in_labeled<'a>(review: Review<'a>, labels: &[(&str, &str)]) -> Review<'a> {
    let namespace = setpoint_api::json::to_text(&namespace(labels));
    review.over(&[("", "v1", "namespaces", &namespace)])
}

fn pod(spec: &str) -> Value {
    let containers = r#""containers":[{"name":"main","image":"i"}]"#;
    let spec = if spec.contains("\"containers\"") { spec.to_owned() } else { format!("{containers}{spec}") };
    object(&format!(r#"{{"metadata":{{"name":"p","namespace":"a"}},"spec":{{{spec}}}}}"#))
}

fn validate_by(labels: &[(&str, &str)], spec: &str) -> Result<(), String> {
    let review = in_labeled(Review::create("", "v1", "pods"), labels);
    let message = |status: Status| {
        let message = status.message.into_owned();
        message.strip_prefix("pods \"p\" is forbidden: ").unwrap_or(&message).to_owned()
    };
    run(&review, &pod(spec)).0.map_err(message)
}

fn validate_at_level(level: &str, spec: &str) -> Result<(), String> {
    validate_by(&[("enforce", level)], spec)
}

/// `true` if the version of a level forbids a pod.
fn forbids(level: &str, version: &str, spec: &str) -> bool {
    validate_by(&[("enforce", level), ("enforce-version", version)], spec).is_err()
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
fn checks_apply_from_the_version_in_which_they_began() {
    let baseline = [
        (r#""containers":[{"name":"a","livenessProbe":{"httpGet":{"host":"h"}}}]"#, 34),
        (r#","securityContext":{"seccompProfile":{"type":"Unconfined"}}"#, 19),
    ];
    // Restricted settings, of which each case lacks one.
    let restricted = |container: &str, pod: &str| {
        format!(
            r#""securityContext":{{"runAsNonRoot":true,"seccompProfile":{{"type":"RuntimeDefault"}}{pod}}},"containers":[
            {{"name":"a","securityContext":{{{container}}}}}]"#
        )
    };
    let drop = r#""capabilities":{"drop":["ALL"]}"#;
    let no_escalation = r#""allowPrivilegeEscalation":false"#;
    let all = format!("{drop},{no_escalation}");
    let (escalates, keeps) = (restricted(drop, ""), restricted(no_escalation, ""));
    let root = restricted(&all, r#","runAsUser":0"#);
    let unconfined = restricted(&all, "").replace(r#","seccompProfile":{"type":"RuntimeDefault"}"#, "");
    let strict = [(&*escalates, 8), (&*keeps, 22), (&*root, 23), (&*unconfined, 19)];
    let strict = strict.into_iter().map(|(spec, since)| ("restricted", spec, since));
    for (level, spec, since) in
        baseline.into_iter().map(|(spec, since)| ("baseline", spec, since)).chain(strict)
    {
        assert!(!forbids(level, &format!("v1.{}", since - 1), spec), "{level} before {since}: {spec}");
        for version in [&*format!("v1.{since}"), "latest", "v1.99"] {
            assert!(forbids(level, version, spec), "{level} {version}: {spec}");
        }
    }
    assert!(!forbids("restricted", "latest", &restricted(&all, "")));
}

#[test]
fn checks_relax_in_the_version_in_which_they_changed() {
    let sysctl =
        |name: &str| format!(r#","securityContext":{{"sysctls":[{{"name":"{name}","value":"1"}}]}}"#);
    let masked =
        r#""hostUsers":false,"containers":[{"name":"a","securityContext":{"procMount":"Unmasked"}}]"#;
    for (level, spec, since) in [
        ("baseline", sysctl("net.ipv4.ip_local_reserved_ports"), 27),
        ("baseline", sysctl("net.ipv4.tcp_keepalive_time"), 29),
        ("baseline", sysctl("net.ipv4.tcp_rmem"), 32),
        ("baseline", sysctl("net.ipv4.tcp_notsent_lowat"), 37),
        ("baseline", r#","securityContext":{"seLinuxOptions":{"type":"container_engine_t"}}"#.to_owned(), 31),
        ("baseline", masked.to_owned(), 35),
        ("restricted", restricted_windows(), 25),
        ("restricted", restricted_root_in_user_namespace(), 35),
    ] {
        assert!(forbids(level, &format!("v1.{}", since - 1), &spec), "before {since}: {spec}");
        assert!(!forbids(level, &format!("v1.{since}"), &spec), "{since}: {spec}");
    }
    assert!(forbids("restricted", "latest", masked), "restricted pods never unmask /proc");
}

fn restricted_windows() -> String {
    r#""os":{"name":"windows"},"securityContext":{"runAsNonRoot":true},"containers":[{"name":"a"}]"#
        .to_owned()
}

fn restricted_root_in_user_namespace() -> String {
    r#""hostUsers":false,"securityContext":{"runAsUser":0,"seccompProfile":{"type":"RuntimeDefault"}},"containers":[{"name":"a",
    "securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]"#
        .to_owned()
}

#[test]
fn old_versions_check_seccomp_annotations() {
    let pod = object(
        r#"{"metadata":{"name":"p","annotations":{"seccomp.security.alpha.kubernetes.io/pod":"unconfined"}},
        "spec":{"containers":[{"name":"a"}]}}"#,
    );
    let check = |version| {
        let labels = [("enforce", "baseline"), ("enforce-version", version)];
        run(&in_labeled(Review::create("", "v1", "pods"), &labels), &pod).0
    };
    assert_eq!(
        check("v1.18").unwrap_err().message,
        "pods \"p\" is forbidden: violates PodSecurity \"baseline:v1.18\": seccompProfile (forbidden annotation \
         seccomp.security.alpha.kubernetes.io/pod=\"unconfined\")"
    );
    assert_eq!(check("v1.19"), Ok(()));
}

#[test]
fn template_is_warned_about_and_audited_but_not_rejected() {
    let deployment =
        object(r#"{"metadata":{"name":"d"},"spec":{"template":{"spec":{"hostPID":true,"containers":[]}}}}"#);
    let labels = [("enforce", "baseline"), ("warn-version", "v1.30"), ("audit", "restricted")];
    let review = in_labeled(Review::create("apps", "v1", "deployments"), &labels);
    let (result, findings) = run(&review, &deployment);
    assert_eq!(result, Ok(()));
    assert_eq!(
        findings.warnings,
        ["would violate PodSecurity \"baseline:v1.30\": host namespaces (hostPID=true)"],
        "what is enforced is warned about"
    );
    let audited = &findings.annotations["pod-security.kubernetes.io/audit-violations"];
    assert!(
        audited.starts_with("would violate PodSecurity \"restricted:latest\": host namespaces"),
        "{audited}"
    );
    let review = in_labeled(Review::create("", "v1", "configmaps"), &labels);
    assert!(run(&review, &deployment).1.warnings.is_empty());
}

#[test]
fn only_new_images_are_checked_again() {
    let (old, new) = (pod(r#","hostPID":true"#), pod(r#","hostPID":true,"priority":1"#));
    let labels = [("enforce", "baseline")];
    let review = in_labeled(Review::update("", "v1", "pods", &old), &labels);
    assert_eq!(run(&review, &new).0, Ok(()));
    let other = pod(r#""hostPID":true,"containers":[{"name":"main","image":"j"}]"#);
    assert!(run(&review, &other).0.is_err());
    let debugged = pod(
        r#""hostPID":true,"containers":[{"name":"main","image":"i"}],"ephemeralContainers":[{"name":"d","image":"i"}]"#,
    );
    let review =
        in_labeled(Review::update("", "v1", "pods", &old).subresource("ephemeralcontainers"), &labels);
    assert!(run(&review, &debugged).0.is_err());
}

#[test]
fn decisions_are_annotated_for_the_audit() {
    let annotation = |labels: &[(&str, &str)], key: &str| {
        let (_, findings) = run(&in_labeled(Review::create("", "v1", "pods"), labels), &pod(""));
        findings.annotations.get(&format!("{PREFIX}{key}")).cloned()
    };
    assert_eq!(annotation(&[], "enforce-policy").unwrap(), "privileged:latest");
    assert_eq!(annotation(&[("enforce", "baseline")], "enforce-policy").unwrap(), "baseline:latest");
    assert_eq!(
        annotation(&[("enforce", "x")], "error").unwrap(),
        "Failed to parse policy: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"x\": must be one of \
         privileged, baseline, restricted"
    );
    assert_eq!(annotation(&[("enforce", "x")], "enforce-policy").unwrap(), "restricted:latest");
}

#[test]
fn configuration_sets_defaults_and_exemptions() {
    let set = |name: &str| BTreeSet::from([name.to_owned()]);
    let mut security = PodSecurityConfig::default();
    security.defaults.enforce.level = Level::Baseline;
    let review = |security: &PodSecurityConfig| {
        let config = AdmissionConfig { pod_security: security.clone(), ..AdmissionConfig::default() };
        in_labeled(Review::create("", "v1", "pods").with_config(config), &[])
    };
    let host = pod(r#","hostPID":true,"runtimeClassName":"vm""#);
    assert!(run(&review(&security), &host).0.is_err());
    for (exempt, why) in [
        (PodSecurityConfig { exempt_users: set("ann"), ..security.clone() }, "user"),
        (PodSecurityConfig { exempt_namespaces: set("a"), ..security.clone() }, "namespace"),
        (PodSecurityConfig { exempt_runtime_classes: set("vm"), ..security.clone() }, "runtimeClass"),
    ] {
        let (result, findings) = run(&review(&exempt), &host);
        assert_eq!(result, Ok(()), "{why}");
        assert_eq!(findings.annotations["pod-security.kubernetes.io/exempt"], why);
    }
}

#[test]
fn invalid_policy_labels_are_rejected_unless_unchanged() {
    let bad = namespace(&[("enforce", "bogus"), ("warn-version", "v2.1")]);
    let message = run(&Review::create("", "v1", "namespaces"), &bad).0.unwrap_err().message;
    assert!(
        message.contains(
            "[metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"bogus\": must be one of privileged, \
             baseline, restricted, metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: \"v2.1\": must \
             be \"latest\" or \"v1.x\"]"
        ),
        "{message}"
    );
    assert_eq!(run(&Review::update("", "v1", "namespaces", &bad), &bad).0, Ok(()));
    let good = namespace(&[("enforce", "baseline"), ("warn-version", "v1.37")]);
    assert_eq!(run(&Review::create("", "v1", "namespaces"), &good).0, Ok(()));
    for version in ["v1.01", "v1.", "v1.x", "1.2"] {
        assert_eq!(PolicyVersion::parse(version), None, "{version}");
    }
}

#[test]
fn stricter_policy_warns_about_existing_pods() {
    let mut stored = vec![("", "v1", "namespaces", setpoint_api::json::to_text(&namespace(&[])))];
    let owner = r#""ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"u","controller":true}],"#;
    for (name, owner, spec) in [
        ("b", "", r#""hostPID":true,"#),
        ("c", owner, r#""hostPID":true,"hostIPC":true,"#),
        ("d", owner, r#""hostNetwork":true,"#),
        ("e", "", ""),
    ] {
        let pod = format!(
            r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{{owner}"name":"{name}","namespace":"a"}},"spec":{{{spec}"containers":[]}}}}"#
        );
        stored.push(("", "v1", "pods", pod));
    }
    let stored: Vec<_> =
        stored.iter().map(|(group, version, plural, text)| (*group, *version, *plural, &**text)).collect();
    let warnings = |old: &[(&str, &str)], new: &[(&str, &str)]| {
        let (old, new) = (namespace(old), namespace(new));
        let review = Review::update("", "v1", "namespaces", &old).in_namespace("a").over(&stored);
        run(&review, &new).1.warnings
    };
    let baseline = [("enforce", "baseline")];
    assert_eq!(
        warnings(&[], &baseline),
        [
            "existing pods in namespace \"a\" violate the new PodSecurity enforce level \"baseline:latest\"",
            "b (and 2 other pods): host namespaces",
        ]
    );
    assert!(warnings(&baseline, &baseline).is_empty());
    assert!(warnings(&[("enforce", "restricted")], &baseline).is_empty(), "it is relaxed");
}
