//! Tests of pod updates and subresources.

use super::*;
use crate::json;
use crate::kinds::core::pod_spec::tests::{decoded, of, pod, pod_with_container, prepared};

/// Errors of an update of a pod from one spec to another.
fn update(old: &str, new: &str) -> Vec<String> {
    let old = prepared("Pod", old);
    let mut new = decoded("Pod", new);
    of("Pod").default(&mut new);
    of("Pod").prepare_update(&mut new, &old);
    let mut errors = ErrorList::new();
    of("Pod").validate_transition(&new, &old, &mut errors);
    errors.iter().map(ToString::to_string).collect()
}

fn update_spec(old: &str, new: &str) -> Vec<String> {
    update(&pod(old), &pod(new))
}

#[test]
fn mutable_fields_may_change() {
    let gates = r#""schedulingGates":[{"name":"a"},{"name":"b"}]"#;
    for (old, new) in [
        ("", ""),
        ("", r#""containers":[{"name":"c","image":"i:2"}]"#),
        ("", r#""activeDeadlineSeconds":5"#),
        (r#""activeDeadlineSeconds":5"#, r#""activeDeadlineSeconds":4"#),
        (r#""tolerations":[{"key":"a"}]"#, r#""tolerations":[{"key":"b"},{"key":"a"}]"#),
        (gates, r#""schedulingGates":[{"name":"b"}]"#),
        (gates, r#""schedulingGates":[{"name":"a"}],"nodeSelector":{"a":"b"}"#),
        (
            gates,
            r#""schedulingGates":[{"name":"a"}],"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Exists"}]}]}}}"#,
        ),
        (
            r#""containers":[{"name":"c","image":"i:1","resources":{"requests":{"cpu":"1.500"}}}]"#,
            r#""containers":[{"name":"c","image":"i:1","resources":{"requests":{"cpu":"1500m"}}}]"#,
        ),
        (r#""resources":{"limits":{"cpu":"1"}}"#, ""),
    ] {
        assert_eq!(update_spec(old, new), [""; 0], "{old} -> {new}");
    }
}

#[test]
fn immutable_fields_may_not_change() {
    for (old, new, fault) in [
        (
            "",
            r#""containers":[{"name":"c","image":"i:1"},{"name":"d","image":"i:1"}]"#,
            "spec.containers: Forbidden: pod updates may not add or remove containers",
        ),
        (
            r#""activeDeadlineSeconds":5"#,
            r#""activeDeadlineSeconds":6"#,
            "spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value",
        ),
        (
            r#""activeDeadlineSeconds":5"#,
            "",
            "spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value",
        ),
        (
            r#""tolerations":[{"key":"a"}]"#,
            r#""tolerations":[{"key":"b"}]"#,
            "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
        ),
        (
            r#""schedulingGates":[{"name":"a"}]"#,
            r#""schedulingGates":[{"name":"b"}]"#,
            "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'b'",
        ),
        (
            r#""schedulingGates":[{"name":"a"}],"nodeSelector":{"a":"b"}"#,
            r#""nodeSelector":{"a":"c"}"#,
            r#"spec.nodeSelector: Invalid value: {"a":"c"}: only additions to spec.nodeSelector are allowed (no mutations or deletions)"#,
        ),
        (
            r#""schedulingGates":[{"name":"a"}],"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Exists"}]}]}}}"#,
            r#""affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"b","operator":"Exists"}]}]}}}"#,
            r#"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]: Invalid value: {"MatchExpressions":[{"Key":"b","Operator":"Exists","Values":null}],"MatchFields":null}: only additions are allowed (no mutations or deletions)"#,
        ),
    ] {
        assert_eq!(update_spec(old, new), [fault], "{old} -> {new}");
    }
}

#[test]
fn rejected_update_shows_a_diff() {
    let found = update_spec("", r#""hostname":"h","restartPolicy":"Never""#);
    assert_eq!(
        found,
        [
            "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n\
            @@ -35,7 +35,7 @@\n   }\n  ],\n  \"EphemeralContainers\": null,\n- \"RestartPolicy\": \"Always\",\n+ \"RestartPolicy\": \"Never\",\n  \"TerminationGracePeriodSeconds\": 30,\n  \"ActiveDeadlineSeconds\": null,\n  \"DNSPolicy\": \"ClusterFirst\",\n\
            @@ -64,7 +64,7 @@\n   \"SELinuxChangePolicy\": null\n  },\n  \"ImagePullSecrets\": null,\n- \"Hostname\": \"\",\n+ \"Hostname\": \"h\",\n  \"Subdomain\": \"\",\n  \"Affinity\": null,\n  \"SchedulerName\": \"default-scheduler\",\n"
        ]
    );
}

#[test]
fn node_annotations_are_immutable() {
    let with = |annotations: &str| {
        pod(r#""nodeName":"n""#)
            .replace(r#""name":"p""#, &format!(r#""name":"p","annotations":{{{annotations}}}"#))
    };
    let mirror = r#""kubernetes.io/config.mirror":"1""#;
    let app_armor = r#""container.apparmor.security.beta.kubernetes.io/c":"unconfined""#;
    for (old, new, fault) in [
        (
            mirror,
            "",
            "[kubernetes.io/config.mirror]: Forbidden: may not remove or update mirror pod annotation",
        ),
        ("", mirror, "[kubernetes.io/config.mirror]: Forbidden: may not add mirror pod annotation"),
        (
            "",
            app_armor,
            "[container.apparmor.security.beta.kubernetes.io/c]: Forbidden: may not add AppArmor annotations",
        ),
    ] {
        assert_eq!(update(&with(old), &with(new)), [format!("metadata.annotations{fault}")]);
    }
    assert_eq!(update(&with(r#""a":"b""#), &with(r#""a":"c""#)), [""; 0]);
}

#[test]
fn app_armor_annotation_becomes_a_field() {
    let text = pod("").replace(
        r#""name":"p""#,
        r#""name":"p","annotations":{"container.apparmor.security.beta.kubernetes.io/c":"localhost/x"}"#,
    );
    let pod = prepared("Pod", &text);
    let container = &pod.at(&["spec", "containers"]).unwrap().as_list().unwrap()[0];
    assert_eq!(
        json::to_text(container.at(&["securityContext", "appArmorProfile"]).unwrap()),
        r#"{"type":"Localhost","localhostProfile":"x"}"#
    );
}

/// Errors of a status update of a pod with this spec.
fn status(spec: &str, old: &str, new: &str) -> Vec<String> {
    let with = |status: &str| {
        let mut object = prepared("Pod", &pod(spec));
        let written = pod(spec).replacen("\"spec\"", &format!("\"status\":{status},\"spec\""), 1);
        let given = decoded("Pod", &written).get("status").cloned().unwrap_or_default();
        for (field, value) in given.as_map().unwrap().iter() {
            object.ensure_map("status").insert(field, value.clone());
        }
        object
    };
    let (old, new) = (with(old), with(new));
    let errors_of = |mut new: Value, old: &Value| -> Vec<String> {
        of("Pod").prepare_status(&mut new, old);
        let mut errors = ErrorList::new();
        of("Pod").validate_status(&new, old, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    };
    let with_raw_spec = |object: &Value| {
        json::parse_with_raw_spec(&json::to_vec(object), of("Pod").raw_spec_fields()).unwrap()
    };
    let errors = errors_of(with_raw_spec(&new), &with_raw_spec(&old));
    assert_eq!(errors_of(new, &old), errors, "raw spec fields do not change the errors");
    errors
}

#[test]
fn terminated_container_cannot_run_again() {
    let ended = |code: i32| {
        format!(
            r#"{{"containerStatuses":[{{"name":"c","ready":false,"restartCount":0,"image":"","imageID":"","state":{{"terminated":{{"exitCode":{code}}}}}}}]}}"#
        )
    };
    let runs = r#"{"containerStatuses":[{"name":"c","ready":true,"restartCount":0,"image":"","imageID":"","state":{"running":{}}}]}"#;
    let fault =
        "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state";
    for (spec, code, faults) in [
        ("", 0, &[][..]),
        (r#""restartPolicy":"Never""#, 0, &[fault]),
        (r#""restartPolicy":"OnFailure""#, 0, &[fault]),
        (r#""restartPolicy":"OnFailure""#, 1, &[]),
        (
            r#""restartPolicy":"Never","containers":[{"name":"c","image":"i:1","restartPolicy":"OnFailure"}]"#,
            1,
            &[],
        ),
        (
            r#""restartPolicy":"Never","containers":[{"name":"c","image":"i:1","restartPolicy":"Never","restartPolicyRules":[{"action":"Restart","exitCodes":{"operator":"In","values":[7]}}]}]"#,
            7,
            &[],
        ),
        (
            r#""restartPolicy":"Never","initContainers":[{"name":"i","image":"i:1","restartPolicy":"Never","restartPolicyRules":[{"action":"RestartAllContainers","exitCodes":{"operator":"In","values":[7]}}]}]"#,
            0,
            &[],
        ),
    ] {
        assert_eq!(status(spec, &ended(code), runs), faults, "{spec} {code}");
    }
}

#[test]
fn pod_status_is_validated() {
    for (old, new, faults) in [
        ("{}", r#"{"podIP":"1.1.1.1","podIPs":[{"ip":"1.1.1.1"},{"ip":"::1"}]}"#, &[][..]),
        (
            "{}",
            r#"{"podIP":"1.1.1.1","podIPs":[{"ip":"1.1.1.1"},{"ip":"2.2.2.2"}]}"#,
            &[
                r#"status.podIPs: Invalid value: [{"IP":"1.1.1.1"},{"IP":"2.2.2.2"}]: may specify no more than one IP for each IP family"#,
            ],
        ),
        (
            "{}",
            r#"{"hostIP":"1.1.1.1","hostIPs":[{"ip":"1.1.1.2"}]}"#,
            &[r#"status.hostIPs[0].ip: Invalid value: "1.1.1.2": must be equal to `hostIP`"#],
        ),
        (
            "{}",
            r#"{"podIP":"x","podIPs":[{"ip":"x"}]}"#,
            &[
                r#"status.podIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"#,
            ],
        ),
        (
            "{}",
            r#"{"qosClass":"Guaranteed"}"#,
            &[r#"status.qosClass: Invalid value: "Guaranteed": field is immutable"#],
        ),
        (
            "{}",
            r#"{"observedGeneration":-1,"conditions":[{"type":"Ready","status":"True","observedGeneration":-2}]}"#,
            &[
                "status.conditions[0].observedGeneration: Invalid value: -2: must be a non-negative integer",
                "status.observedGeneration: Invalid value: -1: must be a non-negative integer",
            ],
        ),
        (
            "{}",
            r#"{"resourceClaimStatuses":[{"name":"a"},{"name":"a"}]}"#,
            &[
                r#"status.resourceClaimStatuses[0].name: Invalid value: "a": must match the name of an entry in `spec.resourceClaims`"#,
                r#"status.resourceClaimStatuses[1].name: Invalid value: "a": must match the name of an entry in `spec.resourceClaims`"#,
                r#"status.resourceClaimStatuses[1].name: Duplicate value: "a""#,
            ],
        ),
        (
            "{}",
            r#"{"containerStatuses":[{"name":"c","ready":false,"restartCount":0,"image":"","imageID":"","user":{"linux":{"uid":4294967296,"gid":0}},"allocatedResourcesStatus":[{"name":"x","resources":[{"resourceID":"1","health":"Ill"},{"resourceID":"1","health":"Healthy"}]}]}]}"#,
            &[
                "status.containerStatuses[0].user.linux.uid: Invalid value: 4294967296: must be between 0 and 4294967295, inclusive",
                r#"status.containerStatuses[0].allocatedResourcesStatus[0].name: Invalid value: "x": must match one of the container's resource requests"#,
                r#"status.containerStatuses[0].allocatedResourcesStatus[0].resources[0].health: Unsupported value: "Ill": supported values: "Healthy", "Unhealthy", "Unknown""#,
                r#"status.containerStatuses[0].allocatedResourcesStatus[0].resources[1].resourceID: Duplicate value: "1""#,
            ],
        ),
    ] {
        assert_eq!(status("", old, new), faults, "{new}");
    }
    assert_eq!(
        status(r#""nodeName":"n""#, "{}", r#"{"nominatedNodeName":"m"}"#),
        ["status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node"]
    );
}

#[test]
fn omitted_status_fields_are_kept() {
    let old = json::parse(
        br#"{"spec":{"a":1},"status":{"qosClass":"Burstable","observedGeneration":3,"conditions":[{"type":"Ready","observedGeneration":2}]}}"#,
    )
    .unwrap();
    let mut new = json::parse(
        br#"{"spec":{"a":2},"status":{"phase":"Running","conditions":[{"type":"Ready"},{"type":"x"}]}}"#,
    )
    .unwrap();
    of("Pod").prepare_status(&mut new, &old);
    assert_eq!(
        json::to_text(&new),
        r#"{"spec":{"a":1},"status":{"phase":"Running","conditions":[{"type":"Ready","observedGeneration":2},{"type":"x"}],"qosClass":"Burstable","observedGeneration":3}}"#
    );
}

/// Errors of a write to `ephemeralcontainers`.
fn ephemeral(old: &str, new: &str) -> Vec<String> {
    let mut old_pod = prepared("Pod", &pod(old));
    old_pod.ensure_map("metadata").insert("uid", "u");
    let mut new_pod = decoded("Pod", &pod(new));
    of("Pod").default(&mut new_pod);
    prepare_ephemeral_containers(&mut new_pod, &old_pod);
    assert_eq!(new_pod.get("status"), old_pod.get("status"));
    let mut errors = ErrorList::new();
    validate_ephemeral_containers(&new_pod, &old_pod, &mut errors);
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn ephemeral_containers_can_only_be_added() {
    let one = r#""ephemeralContainers":[{"name":"d","image":"i:1","targetContainerName":"c"}]"#;
    assert_eq!(ephemeral("", one), [""; 0]);
    assert_eq!(ephemeral("", &format!(r#"{one},"hostname":"ignored""#)), [""; 0]);
    assert_eq!(
        ephemeral(one, ""),
        ["spec.ephemeralContainers: Forbidden: existing ephemeral containers \"d\" may not be removed\n"]
    );
    let changed = ephemeral(one, &one.replace("i:1", "i:2"));
    assert_eq!(changed.len(), 1);
    assert!(
        changed[0].starts_with("spec.ephemeralContainers: Forbidden: existing ephemeral containers \"d\" may not be changed\n@@ -1,6 +1,6 @@\n {\n  \"Name\": \"d\",\n- \"Image\": \"i:1\",\n+ \"Image\": \"i:2\",\n"),
        "{changed:?}"
    );
    assert_eq!(
        ephemeral(
            "",
            r#""ephemeralContainers":[{"name":"c","image":" i","targetContainerName":"x","ports":[{"containerPort":1}],"livenessProbe":{"exec":{"command":["x"]}},"resources":{"limits":{"cpu":"1"}}}]"#
        ),
        [
            r#"spec.ephemeralContainers[0].image: Invalid value: " i": must not have leading or trailing whitespace"#,
            r#"spec.ephemeralContainers[0].name: Duplicate value: "c""#,
            r#"spec.ephemeralContainers[0].targetContainerName: Not found: "x""#,
            "spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container",
            "spec.ephemeralContainers[0].resources: Forbidden: cannot be set for an Ephemeral Container",
            "spec.ephemeralContainers[0].livenessProbe: Forbidden: cannot be set for an Ephemeral Container",
        ]
    );
}

/// Errors of a write to `resize`.
fn resize(old: &str, new: &str) -> Vec<String> {
    let old = prepared("Pod", old);
    let mut new = decoded("Pod", new);
    of("Pod").default(&mut new);
    prepare_resize(&mut new, &old);
    let mut errors = ErrorList::new();
    validate_resize(&new, &old, &mut errors);
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn only_cpu_and_memory_may_be_resized() {
    let with = |requests: &str| pod_with_container(&format!(r#""resources":{{"requests":{{{requests}}}}}"#));
    let one = with(r#""cpu":"1""#);
    assert_eq!(resize(&one, &with(r#""cpu":"2""#)), [""; 0]);
    assert_eq!(resize(&one, &with(r#""cpu":"1","memory":"1Gi""#)), [""; 0]);
    assert_eq!(resize(&one, &with(r#""cpu":"2""#).replace("i:1", "i:9")), [""; 0]);
    assert_eq!(
        resize(&one, &with(r#""memory":"1Gi""#)),
        ["spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"]
    );
    assert_eq!(
        resize(&one, &with(r#""cpu":"1","ephemeral-storage":"1Gi""#)),
        ["spec: Forbidden: only cpu and memory resources are mutable"]
    );
    assert_eq!(
        resize(&pod(""), &one),
        [r#"spec: Invalid value: "BestEffort": Pod QOS Class may not change as a result of resizing"#]
    );
    assert_eq!(
        resize(&one, &one.replace(r#""name":"c""#, r#""name":"d""#)),
        ["spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize"]
    );
    assert_eq!(
        resize(&one, &pod(r#""containers":[{"name":"c","image":"i:1"},{"name":"d","image":"i:1"}]"#))
            .last()
            .unwrap(),
        "spec.containers: Forbidden: containers may not be added or removed on resize"
    );
    let whole = |amount: &str| pod(&format!(r#""resources":{{"requests":{{"cpu":"{amount}"}}}}"#));
    assert_eq!(resize(&whole("1"), &whole("2")), [""; 0]);
    let windows = one.replace(r#""spec":{"#, r#""spec":{"os":{"name":"windows"},"#);
    assert_eq!(resize(&windows, &windows), [": Forbidden: windows pods cannot be resized"]);
}

#[test]
fn pod_is_bound_once() {
    let binding =
        json::parse(br#"{"metadata":{"labels":{"zone":"z"}},"target":{"kind":"Node","name":"n"}}"#).unwrap();
    let mut bound = prepared("Pod", &pod(""));
    bind(&mut bound, &binding, "2024-01-01T00:00:00Z").unwrap();
    assert_eq!(bound.str_at(&["spec", "nodeName"]), "n");
    assert_eq!(bound.str_at(&["metadata", "labels", "zone"]), "z");
    assert_eq!(
        json::to_text(bound.at(&["status", "conditions"]).unwrap()),
        r#"[{"type":"PodScheduled","status":"True","lastProbeTime":null,"lastTransitionTime":"2024-01-01T00:00:00Z"}]"#
    );
    let again = bind(&mut bound, &binding, "").unwrap_err();
    assert_eq!(again.to_string(), "pod p is already assigned to node \"n\"");
    let mut gated = prepared("Pod", &pod(r#""schedulingGates":[{"name":"g"}]"#));
    assert_eq!(bind(&mut gated, &binding, ""), Err(BindError::Gated("p".into())));
    let mut leaving = prepared("Pod", &pod(""));
    leaving.ensure_map("metadata").insert("deletionTimestamp", "2024-01-01T00:00:00Z");
    assert_eq!(bind(&mut leaving, &binding, ""), Err(BindError::Deleting("p".into())));
    for (target, faults) in [
        (r#"{"name":"n"}"#, &[][..]),
        (
            r#"{"kind":"Pod","name":"n"}"#,
            &[r#"target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>""#],
        ),
        ("{}", &["target.name: Required value"]),
    ] {
        let binding = json::parse(format!(r#"{{"target":{target}}}"#).as_bytes()).unwrap();
        let mut errors = ErrorList::new();
        validate_binding(&binding, &mut errors);
        let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(found, faults);
    }
}

#[test]
fn pods_are_selectable_by_field() {
    let object = prepared("Pod", &pod(r#""nodeName":"n","hostNetwork":true"#));
    let fields = of("Pod").fields(&object);
    let field = |label: &str| fields.iter().find(|(known, _)| *known == label).map(|(_, value)| &**value);
    assert_eq!(field("spec.nodeName"), Some("n"));
    assert_eq!(field("spec.hostNetwork"), Some("true"));
    assert_eq!(field("spec.restartPolicy"), Some("Always"));
    assert_eq!(field("status.phase"), Some("Pending"));
    assert_eq!(field("status.podIP"), Some(""));
    let selector = crate::fields::FieldSelector::parse("spec.host=n").unwrap();
    let selector = selector.translate(of("Pod").field_labels()).unwrap();
    assert!(selector.matches(field));
    let unknown =
        crate::fields::FieldSelector::parse("spec.x=y").unwrap().translate(of("Pod").field_labels());
    assert_eq!(unknown.unwrap_err().to_string(), "field label not supported: spec.x");
}

#[test]
fn pod_without_node_has_no_grace_period() {
    let on_node = |more: &str| prepared("Pod", &pod(&format!(r#""nodeName":"n"{more}"#)));
    assert_eq!(deletion_grace_seconds(&prepared("Pod", &pod("")), Some(9)), 0);
    assert_eq!(deletion_grace_seconds(&on_node(""), None), 30);
    assert_eq!(deletion_grace_seconds(&on_node(""), Some(9)), 9);
    assert_eq!(deletion_grace_seconds(&on_node(""), Some(-9)), 1);
    assert_eq!(deletion_grace_seconds(&on_node(r#","terminationGracePeriodSeconds":5"#), None), 5);
    let mut ended = on_node("");
    ended.ensure_map("status").insert("phase", "Succeeded");
    assert_eq!(deletion_grace_seconds(&ended, Some(9)), 0);
}
