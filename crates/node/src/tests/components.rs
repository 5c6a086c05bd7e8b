//! Tests of the mirror pods of in-process components.

use std::cell::Cell;

use setpoint_api::Time;

use super::*;
use crate::control_plane::{COMPONENTS, Components};

fn fleet(names: &[&'static str], since: i64) -> (Vec<Box<dyn Controller>>, Vec<Index>) {
    let components = Components { names: names.to_vec(), started_at: Time::from_seconds(since) };
    planners_of(Fleet { count: 2, components, ..Fleet::default() })
}

thread_local! {
    /// `true` if the planners belong to the second process.
    static IS_SECOND: Cell<bool> = const { Cell::new(false) };
}

fn planners_of_process() -> (Vec<Box<dyn Controller>>, Vec<Index>) {
    if IS_SECOND.get() { fleet(&COMPONENTS[..2], 2) } else { fleet(&COMPONENTS, 1) }
}

fn start_cluster() -> Cluster {
    let mut cluster = Cluster::new(planners_of_process, 1);
    for namespace in ["kube-node-lease", "kube-system"] {
        cluster.create("namespaces", "", value!({"metadata": {"name": (namespace)}}));
    }
    let class = value!({"metadata": {"name": "system-node-critical"}, "value": 2_000_001_000});
    cluster.create("priorityclasses.scheduling.k8s.io", "", class);
    cluster.run(Duration::from_secs(15));
    cluster
}

fn summary(cluster: &Cluster) -> Vec<(String, String)> {
    let pods = cluster.list("pods");
    let one = |pod: &Value| (pod.str_at(&["metadata", "name"]).to_owned(), condition(pod, "Ready"));
    pods.iter().map(one).collect()
}

fn uid(cluster: &Cluster, component: &str) -> String {
    let pod = cluster.get("pods", &format!("kube-system/{component}-node-0")).unwrap();
    pod.str_at(&["metadata", "uid"]).to_owned()
}

#[test]
fn every_component_has_a_ready_mirror_pod_on_the_first_node() {
    let mut cluster = start_cluster();
    let expected = COMPONENTS.map(|component| (format!("{component}-node-0"), "True".to_owned()));
    assert_eq!(summary(&cluster), expected);
    let pod = cluster.get("pods", "kube-system/kube-scheduler-node-0").unwrap();
    let labels = pod.at(&["metadata", "labels"]).unwrap();
    assert_eq!(
        (labels.str_at(&["component"]), labels.str_at(&["tier"])),
        ("kube-scheduler", "control-plane")
    );
    let owner = &pod.at(&["metadata", "ownerReferences"]).and_then(Value::as_list).unwrap()[0];
    assert_eq!((owner.str_at(&["kind"]), owner.str_at(&["name"])), ("Node", "node-0"));
    let container = &pod.at(&["spec", "containers"]).and_then(Value::as_list).unwrap()[0];
    assert!(container.str_at(&["image"]).contains("in-process"));
    assert!(container.at(&["resources", "requests"]).is_none(), "a mirror pod has no requests");
    assert_eq!(pod.str_at(&["status", "qosClass"]), "BestEffort");
    cluster.assert_quiet();
}

#[test]
fn deleted_mirror_pod_is_recreated() {
    let mut cluster = start_cluster();
    let before = uid(&cluster, "kube-apiserver");
    cluster.delete("pods", "kube-system/kube-apiserver-node-0", &value!({})).unwrap();
    cluster.run(Duration::from_secs(3));
    assert_ne!(uid(&cluster, "kube-apiserver"), before);
    assert!(summary(&cluster).iter().all(|(_, ready)| ready == "True"), "{:?}", summary(&cluster));
    cluster.assert_quiet();
}

#[test]
fn new_process_replaces_mirror_pods_and_removes_stale_ones() {
    let mut cluster = start_cluster();
    let first = uid(&cluster, "kube-apiserver");
    IS_SECOND.set(true);
    cluster.crash();
    cluster.run(Duration::from_secs(15));
    assert_ne!(uid(&cluster, "kube-apiserver"), first);
    assert_eq!(summary(&cluster).len(), 2);
    cluster.assert_quiet();
}
