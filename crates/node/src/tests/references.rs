//! Tests of pods that reference ConfigMaps and Secrets.

use super::*;

fn create_object(cluster: &mut Cluster, resource: &str, name: &str, data: Value) {
    cluster.create(resource, "default", value!({"metadata": {"name": (name)}, "data": (data)}));
    cluster.settle();
}

fn waiting_state(cluster: &Cluster, name: &str) -> String {
    let pod = get(cluster, name);
    let status = &pod.at(&["status", "containerStatuses"]).and_then(Value::as_list).unwrap()[0];
    format!(
        "{}: {}",
        status.str_at(&["state", "waiting", "reason"]),
        status.str_at(&["state", "waiting", "message"])
    )
}

#[test]
fn missing_environment_source_delays_the_container() {
    let mut cluster = cluster(without_start_delay);
    let from = |from: &str| format!(r#"{{"containers":[{{"name":"c","image":"i",{from}}}]}}"#);
    create_pod(&mut cluster, "whole", &from(r#""envFrom":[{"configMapRef":{"name":"missing"}}]"#));
    let key = |source: &str, rest: &str| {
        from(&format!(
            r#""env":[{{"name":"A","valueFrom":{{"{source}":{{"name":"missing","key":"k"{rest}}}}}}}]"#
        ))
    };
    create_pod(&mut cluster, "key", &key("secretKeyRef", ""));
    create_pod(&mut cluster, "any", &key("configMapKeyRef", r#","optional":true"#));
    let error = |why: &str| format!("CreateContainerConfigError: {why}");
    assert_eq!(waiting_state(&cluster, "whole"), error("configmap \"missing\" not found"));
    assert_eq!(waiting_state(&cluster, "key"), error("secret \"missing\" not found"));
    assert_eq!(summary(&cluster, "any"), "Running | ready", "the reference is optional");
    let emitted = events(&cluster, "Failed");
    assert!(emitted.contains(&"Error: configmap \"missing\" not found".to_owned()), "{emitted:?}");
    cluster.assert_quiet();
    create_object(&mut cluster, "configmaps", "other", value!({}));
    assert_eq!(waiting_state(&cluster, "whole"), error("configmap \"missing\" not found"));
    create_object(&mut cluster, "configmaps", "missing", value!({}));
    assert_eq!(summary(&cluster, "whole"), "Running | ready");
    create_object(&mut cluster, "secrets", "missing", value!({"other": "YQ=="}));
    assert_eq!(waiting_state(&cluster, "key"), error("couldn't find key k in Secret default/missing"));
    cluster.patch("secrets", "default/missing", "", value!({"data": {"k": "YQ=="}})).unwrap();
    cluster.settle();
    assert_eq!(summary(&cluster, "key"), "Running | ready");
    cluster.assert_quiet();
}

#[test]
fn missing_volume_source_delays_the_pod() {
    let mut cluster = cluster(without_start_delay);
    let volume = |source: &str| {
        format!(r#"{{"volumes":[{{"name":"v",{source}}}],"containers":[{{"name":"c","image":"i"}}]}}"#)
    };
    create_pod(&mut cluster, "map", &volume(r#""configMap":{"name":"missing"}"#));
    create_pod(&mut cluster, "some", &volume(r#""projected":{"sources":[{"secret":{"name":"missing"}}]}"#));
    create_pod(&mut cluster, "any", &volume(r#""secret":{"secretName":"missing","optional":true}"#));
    create_pod(
        &mut cluster,
        "item",
        &volume(r#""configMap":{"name":"missing","items":[{"key":"k","path":"k"}]}"#),
    );
    for name in ["map", "some", "item"] {
        assert_eq!(summary(&cluster, name), "Pending | ContainerCreating", "{name}");
        assert_eq!(condition(&get(&cluster, name), "PodReadyToStartContainers"), "False", "{name}");
    }
    assert_eq!(summary(&cluster, "any"), "Running | ready");
    let emitted = events(&cluster, "FailedMount");
    let why = "MountVolume.SetUp failed for volume \"v\" : configmap \"missing\" not found";
    assert!(emitted.contains(&why.to_owned()), "{emitted:?}");
    cluster.assert_quiet();
    create_object(&mut cluster, "configmaps", "missing", value!({}));
    assert_eq!(summary(&cluster, "map"), "Running | ready");
    assert_eq!(condition(&get(&cluster, "map"), "PodReadyToStartContainers"), "True");
    assert_eq!(summary(&cluster, "item"), "Pending | ContainerCreating", "the ConfigMap has no such key yet");
    create_object(&mut cluster, "secrets", "missing", value!({}));
    assert_eq!(summary(&cluster, "some"), "Running | ready");
    cluster.patch("configmaps", "default/missing", "", value!({"data": {"k": ""}})).unwrap();
    cluster.settle();
    assert_eq!(summary(&cluster, "item"), "Running | ready");
    cluster.assert_quiet();
    // A running pod is not affected by the deletion.
    cluster.delete("configmaps", "default/missing", &value!({})).unwrap();
    cluster.settle();
    assert_eq!(summary(&cluster, "map"), "Running | ready");
    cluster.assert_quiet();
}

#[test]
fn pod_has_no_ip_before_its_volumes_are_mounted() {
    for controllers in [without_start_delay, with_start_delay] {
        let mut cluster = cluster(controllers);
        let spec = |host: bool| {
            format!(
                r#"{{"hostNetwork":{host},"volumes":[{{"name":"v","secret":{{"secretName":"missing"}}}}],
                "containers":[{{"name":"c","image":"i"}}]}}"#
            )
        };
        let address =
            |cluster: &Cluster, name: &str| get(cluster, name).str_at(&["status", "podIP"]).to_owned();
        create_pod(&mut cluster, "own", &spec(false));
        create_pod(&mut cluster, "host", &spec(true));
        assert_eq!((&*address(&cluster, "own"), &*address(&cluster, "host")), ("", "172.18.0.2"));
        run_seconds(&mut cluster, 5);
        assert_eq!(address(&cluster, "own"), "");
        assert_eq!(events(&cluster, "FailedMount").len(), 2);
        cluster.assert_quiet();
        cluster.crash();
        run_seconds(&mut cluster, 5);
        assert_eq!(summary(&cluster, "own"), "Pending | ContainerCreating");
        create_object(&mut cluster, "secrets", "missing", value!({}));
        assert_eq!(summary(&cluster, "own"), "Running | ready");
        let own = address(&cluster, "own");
        assert!(own.starts_with("100.64.0."), "{own}");
        cluster.assert_quiet();
        create_pod(&mut cluster, "gone", &spec(false).replace("missing", "other"));
        cluster.delete("pods", "default/gone", &value!({})).unwrap();
        run_seconds(&mut cluster, 5);
        assert!(cluster.get("pods", "default/gone").is_none());
        cluster.assert_quiet();
    }
}
