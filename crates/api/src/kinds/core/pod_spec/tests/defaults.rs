//! Defaults of pods.

use proptest::prelude::*;

use super::{decoded, of, pod, pod_with_container, prepared};
use crate::json;
use crate::value::Value;

fn defaulted(text: &str) -> Value {
    let mut object = decoded("Pod", text);
    of("Pod").default(&mut object);
    object
}

fn container_field(container: &str, path: &[&str]) -> String {
    let object = defaulted(&pod_with_container(container));
    let list = object.at(&["spec", "containers"]).unwrap().as_list().unwrap();
    json::to_text(list[0].at(path).unwrap())
}

#[test]
fn minimal_pod_is_defaulted() {
    let object = defaulted(&pod(""));
    let spec = object.get("spec").unwrap();
    for (field, text) in [
        ("restartPolicy", r#""Always""#),
        ("terminationGracePeriodSeconds", "30"),
        ("dnsPolicy", r#""ClusterFirst""#),
        ("securityContext", "{}"),
        ("schedulerName", r#""default-scheduler""#),
        ("enableServiceLinks", "true"),
        (
            "containers",
            r#"[{"name":"c","image":"i:1","resources":{},"imagePullPolicy":"IfNotPresent","terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}]"#,
        ),
    ] {
        assert_eq!(json::to_text(spec.get(field).unwrap()), text, "{field}");
    }
    assert!(spec.get("serviceAccountName").is_none());
}

#[test]
fn explicit_fields_are_kept() {
    let spec = r#""restartPolicy":"Never","terminationGracePeriodSeconds":0,"dnsPolicy":"Default","schedulerName":"s","enableServiceLinks":false"#;
    let object = defaulted(&pod(spec));
    let given = json::parse(format!("{{{spec}}}").as_bytes()).unwrap();
    for (field, value) in given.as_map().unwrap().iter() {
        assert_eq!(object.at(&["spec", field]), Some(value), "{field}");
    }
}

#[test]
fn containers_are_defaulted() {
    for (container, path, text) in [
        (r#""ports":[{"containerPort":1}]"#, &["ports"][..], r#"[{"containerPort":1,"protocol":"TCP"}]"#),
        (
            r#""readinessProbe":{"grpc":{"port":1}}"#,
            &["readinessProbe"],
            r#"{"grpc":{"port":1,"service":""},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3}"#,
        ),
        (
            r#""lifecycle":{"postStart":{"httpGet":{"port":1}}}"#,
            &["lifecycle", "postStart", "httpGet"],
            r#"{"port":1,"path":"/","scheme":"HTTP"}"#,
        ),
        (
            r#""env":[{"name":"A","valueFrom":{"fileKeyRef":{"volumeName":"v","path":"p","key":"k"}}}]"#,
            &["env"],
            r#"[{"name":"A","valueFrom":{"fileKeyRef":{"volumeName":"v","path":"p","key":"k","optional":false}}}]"#,
        ),
        (
            r#""resources":{"limits":{"cpu":"2","memory":"1Gi"},"requests":{"memory":"1Mi"}}"#,
            &["resources", "requests"],
            r#"{"cpu":"2","memory":"1Mi"}"#,
        ),
        (r#""resources":{"requests":{"cpu":"1500u"}}"#, &["resources", "requests", "cpu"], r#""2m""#),
        (r#""resources":{"requests":{"memory":"5E"}}"#, &["resources", "requests", "memory"], r#""5E""#),
    ] {
        assert_eq!(container_field(container, path), text, "{container}");
    }
}

#[test]
fn volumes_are_defaulted() {
    for (source, text) in [
        (r#""name":"v""#, r#"{"name":"v","emptyDir":{}}"#),
        (
            r#""name":"v","secret":{"secretName":"s"}"#,
            r#"{"name":"v","secret":{"secretName":"s","defaultMode":420}}"#,
        ),
        (r#""name":"v","hostPath":{"path":"/x"}"#, r#"{"name":"v","hostPath":{"path":"/x","type":""}}"#),
        (
            r#""name":"v","azureDisk":{"diskName":"d","diskURI":"u"}"#,
            r#"{"name":"v","azureDisk":{"diskName":"d","diskURI":"u","cachingMode":"ReadWrite","fsType":"ext4","readOnly":false,"kind":"Shared"}}"#,
        ),
        (
            r#""name":"v","rbd":{"monitors":["m"],"image":"i"}"#,
            r#"{"name":"v","rbd":{"monitors":["m"],"image":"i","pool":"rbd","user":"admin","keyring":"/etc/ceph/keyring"}}"#,
        ),
        (
            r#""name":"v","iscsi":{"targetPortal":"t","iqn":"q","lun":0}"#,
            r#"{"name":"v","iscsi":{"targetPortal":"t","iqn":"q","lun":0,"iscsiInterface":"default"}}"#,
        ),
        (
            r#""name":"v","image":{"reference":"r"}"#,
            r#"{"name":"v","image":{"reference":"r","pullPolicy":"Always"}}"#,
        ),
        (
            r#""name":"v","projected":{"sources":[{"serviceAccountToken":{"path":"t"}}]}"#,
            r#"{"name":"v","projected":{"sources":[{"serviceAccountToken":{"path":"t","expirationSeconds":3600}}],"defaultMode":420}}"#,
        ),
    ] {
        let object = defaulted(&pod(&format!(r#""volumes":[{{{source}}}]"#)));
        let list = object.at(&["spec", "volumes"]).unwrap().as_list().unwrap();
        assert_eq!(json::to_text(&list[0]), text);
    }
}

#[test]
fn only_pods_default_host_ports_and_grace_period() {
    let spec = r#""hostNetwork":true,"terminationGracePeriodSeconds":-5,"containers":[{"name":"c","image":"i:1","ports":[{"containerPort":80}]}]"#;
    let object = defaulted(&pod(spec));
    assert_eq!(object.at(&["spec", "terminationGracePeriodSeconds"]), Some(&Value::Int(1)));
    assert_eq!(
        json::to_text(
            object.at(&["spec", "containers"]).unwrap().as_list().unwrap()[0].get("ports").unwrap()
        ),
        r#"[{"containerPort":80,"hostPort":80,"protocol":"TCP"}]"#
    );
    let mut template = decoded("PodTemplate", &format!(r#"{{"template":{{"spec":{{{spec}}}}}}}"#));
    of("PodTemplate").default(&mut template);
    let spec = template.at(&["template", "spec"]).unwrap();
    assert_eq!(spec.get("terminationGracePeriodSeconds"), Some(&Value::Int(-5)));
    assert!(spec.get("enableServiceLinks").is_none());
    assert_eq!(
        json::to_text(spec.get("containers").unwrap().as_list().unwrap()[0].get("ports").unwrap()),
        r#"[{"containerPort":80,"protocol":"TCP"}]"#
    );
}

#[test]
fn service_account_fields_are_synchronized() {
    for (given, name) in [
        (r#""serviceAccount":"a""#, "a"),
        (r#""serviceAccountName":"b""#, "b"),
        (r#""serviceAccount":"a","serviceAccountName":"b""#, "b"),
    ] {
        let object = defaulted(&pod(given));
        assert_eq!(object.str_at(&["spec", "serviceAccountName"]), name);
        assert_eq!(object.str_at(&["spec", "serviceAccount"]), name);
    }
}

#[test]
fn pod_ip_fields_are_synchronized() {
    for (status, after) in [
        (r#"{"podIP":"1.1.1.1"}"#, r#"{"podIP":"1.1.1.1","podIPs":[{"ip":"1.1.1.1"}]}"#),
        (
            r#"{"podIPs":[{"ip":"1.1.1.1"},{"ip":"::1"}]}"#,
            r#"{"podIPs":[{"ip":"1.1.1.1"},{"ip":"::1"}],"podIP":"1.1.1.1"}"#,
        ),
        (
            r#"{"podIP":"2.2.2.2","podIPs":[{"ip":"1.1.1.1"}]}"#,
            r#"{"podIP":"2.2.2.2","podIPs":[{"ip":"2.2.2.2"}]}"#,
        ),
    ] {
        let text = pod("").replacen("\"spec\"", &format!("\"status\":{status},\"spec\""), 1);
        assert_eq!(json::to_text(defaulted(&text).get("status").unwrap()), after);
    }
}

#[test]
fn new_pod_is_pending_without_disabled_fields() {
    let text = r#"{"metadata":{"name":"p","creationTimestamp":"2024-01-01T00:00:00Z","annotations":{"pod.beta.kubernetes.io/init-containers":"x"}},"status":{"phase":"Running","podIP":"1.1.1.1"},"spec":{"schedulingGates":[{"name":"g"}],"schedulingGroup":{"podGroupName":"x"},"volumes":[{"name":"v","secret":{"secretName":"s","defaultUser":1}},{"name":"w","emptyDir":{"mode":511}}],"containers":[{"name":"c","image":"i:1","lifecycle":{"stopSignal":"SIGINT"},"volumeMounts":[{"name":"v","mountPath":"/v","bindMountOptions":["noexec"]}],"livenessProbe":{"httpGet":{"port":1,"protocol":"HTTP2"}},"readinessProbe":{"grpc":{"port":1,"mode":"TLS"}}}]}}"#;
    let pod = prepared("Pod", text);
    assert_eq!(
        json::to_text(pod.get("status").unwrap()),
        r#"{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","lastProbeTime":null,"lastTransitionTime":"2024-01-01T00:00:00Z","reason":"SchedulingGated","message":"Scheduling is blocked due to non-empty scheduling gates"}],"qosClass":"BestEffort"}"#
    );
    let written = json::to_text(&pod);
    for gone in [
        "init-containers",
        "schedulingGroup",
        "defaultUser",
        "mode\":511",
        "lifecycle",
        "bindMountOptions",
        "HTTP2",
        "TLS",
    ] {
        assert!(!written.contains(gone), "{gone}: {written}");
    }
}

/// Small specs with optional fields.
fn specs() -> impl Strategy<Value = String> {
    let words = prop::sample::subsequence(
        vec![
            r#""restartPolicy":"Never""#,
            r#""hostNetwork":true"#,
            r#""terminationGracePeriodSeconds":-3"#,
            r#""serviceAccount":"a""#,
            r#""serviceAccountName":"b""#,
            r#""resources":{"limits":{"cpu":"3"}}"#,
            r#""volumes":[{"name":"a"},{"name":"b","projected":{"sources":[{"downwardAPI":{"items":[{"path":"x","fieldRef":{"fieldPath":"metadata.name"}}]}}]}}]"#,
            r#""initContainers":[{"name":"i","image":"x","resources":{"limits":{"cpu":"1n"}},"ports":[{"containerPort":7}]}]"#,
            r#""containers":[{"name":"c","image":"a:1","livenessProbe":{"httpGet":{"port":1}},"env":[{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"x"}}}]}]"#,
        ],
        0..=9,
    );
    words.prop_map(|words| words.join(","))
}

proptest! {
    #[test]
    fn defaulting_is_idempotent(spec in specs()) {
        let mut object = decoded("Pod", &pod(&spec));
        of("Pod").default(&mut object);
        let once = object.clone();
        of("Pod").default(&mut object);
        prop_assert_eq!(&object, &once);
        of("Pod").prepare_create(&mut object);
        let prepared = object.clone();
        of("Pod").default(&mut object);
        prop_assert_eq!(object, prepared);
    }
}
