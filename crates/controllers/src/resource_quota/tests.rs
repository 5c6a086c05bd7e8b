//! Quotas in a whole control plane.

use std::time::Duration;

use setpoint_api::{Value, json, value};
use setpoint_sim::cluster::Cluster;

fn cluster(spec: Value) -> Cluster {
    let mut cluster =
        Cluster::new(|| (vec![Box::new(super::ResourceQuotaController)], crate::indexes::all()), 7);
    cluster.create("resourcequotas", "default", value!({"metadata": {"name": "q"}, "spec": (spec)}));
    cluster.settle();
    cluster
}

fn used(cluster: &Cluster) -> String {
    let quota = cluster.get("resourcequotas", "default/q").unwrap();
    json::to_text(quota.at(&["status", "used"]).unwrap())
}

fn pod(name: &str, extra: Value) -> Value {
    let resources =
        value!({"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}});
    let mut pod = value!({
        "metadata": {"name": (name)},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": (resources)}]},
    });
    for (name, value) in extra.as_map().unwrap().iter() {
        pod.ensure_map("spec").insert(name, value.clone());
    }
    pod
}

#[test]
fn what_is_used_follows_what_there_is() {
    let spec = value!({"hard": {
        "pods": "10", "requests.cpu": "2", "limits.memory": "4Gi", "count/configmaps": "5", "configmaps": "5",
        "services.nodeports": "3", "gold.storageclass.storage.k8s.io/requests.storage": "9Gi",
        "requests.example.com/gpu": "4",
    }});
    let mut cluster = cluster(spec);
    assert_eq!(
        used(&cluster),
        r#"{"configmaps":"0","count/configmaps":"0","gold.storageclass.storage.k8s.io/requests.storage":"0","limits.memory":"0","pods":"0","requests.cpu":"0","requests.example.com/gpu":"0","services.nodeports":"0"}"#
    );
    cluster.assert_quiet();
    cluster.create("pods", "default", pod("a", value!({})));
    let init = value!([{"name": "i", "image": "i", "resources": {"requests": {"cpu": "1500m"}}}]);
    cluster.create("pods", "default", pod("b", value!({"initContainers": (init)})));
    cluster.create("configmaps", "default", value!({"metadata": {"name": "m"}}));
    let service = value!({"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    cluster.create("services", "default", service);
    let claim = value!({
        "metadata": {"name": "v"},
        "spec": {
            "storageClassName": "gold", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "3Gi"}},
        },
    });
    cluster.create("persistentvolumeclaims", "default", claim);
    cluster.settle();
    assert_eq!(
        used(&cluster),
        r#"{"configmaps":"1","count/configmaps":"1","gold.storageclass.storage.k8s.io/requests.storage":"3Gi","limits.memory":"2Gi","pods":"2","requests.cpu":"1600m","requests.example.com/gpu":"0","services.nodeports":"1"}"#
    );
    cluster.assert_quiet();
    cluster.patch("pods", "default/b", "status", value!({"status": {"phase": "Succeeded"}})).unwrap();
    cluster
        .patch("resourcequotas", "default/q", "", value!({"spec": {"hard": {"configmaps": null}}}))
        .unwrap();
    cluster.settle();
    assert!(used(&cluster).contains(r#""pods":"1","requests.cpu":"100m""#), "{}", used(&cluster));
    assert!(!used(&cluster).contains(r#""configmaps""#));
    cluster.assert_quiet();
}

#[test]
fn scopes_choose_what_is_counted() {
    for (scope, count) in [
        (value!({"scopes": ["BestEffort"]}), 1),
        (value!({"scopes": ["NotBestEffort"]}), 3),
        (value!({"scopes": ["Terminating"]}), 1),
        (value!({"scopes": ["NotTerminating", "NotBestEffort"]}), 2),
    ] {
        let mut spec = scope;
        spec.make_map().insert("hard", value!({"pods": "10"}));
        let mut cluster = cluster(spec.clone());
        cluster.create("pods", "default", pod("a", value!({})));
        cluster.create("pods", "default", pod("b", value!({})));
        cluster.create("pods", "default", pod("c", value!({"activeDeadlineSeconds": 5})));
        let plain =
            value!({"metadata": {"name": "d"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        cluster.create("pods", "default", plain);
        cluster.settle();
        assert_eq!(used(&cluster), format!(r#"{{"pods":"{count}"}}"#), "{spec:?}");
    }
}

#[test]
fn a_pod_whose_grace_ran_out_uses_nothing_though_it_is_there() {
    let mut cluster = cluster(value!({"hard": {"pods": "10"}}));
    cluster.create("pods", "default", pod("a", value!({"nodeName": "n"})));
    cluster.settle();
    cluster.delete("pods", "default/a", &value!({})).unwrap();
    cluster.settle();
    assert_eq!(used(&cluster), r#"{"pods":"1"}"#);
    cluster.run(Duration::from_secs(70));
    assert!(cluster.get("pods", "default/a").is_some());
    assert_eq!(used(&cluster), r#"{"pods":"0"}"#);
    cluster.assert_quiet();
}
