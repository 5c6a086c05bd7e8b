//! Tests of the scheduler on a whole control plane in memory: store, pipeline, engine and planner.

use setpoint_api::{Value, value};
use setpoint_reconcile::{Controller, Index};
use setpoint_sim::cluster::Cluster;

use super::*;

mod costly_pods;
mod dynamic_resources;
mod preemption;
mod requeueing;
mod resources;
mod volumes;

fn cluster() -> Cluster {
    let scheduler = || (vec![Box::new(Scheduler::default()) as Box<dyn Controller>], Vec::<Index>::new());
    Cluster::new(scheduler, 1)
}

fn add_node(cluster: &mut Cluster, name: &str, cpu: &str, labels: Value) {
    let allocatable = value!({"cpu": (cpu), "memory": "32Gi", "pods": "110"});
    let node = value!({"metadata": {"name": (name), "labels": (labels)}});
    cluster.create("nodes", "", node);
    cluster.patch("nodes", name, "status", value!({"status": {"allocatable": (allocatable)}})).unwrap();
    // Removes the not-ready taint of a new node.
    cluster.patch("nodes", name, "", value!({"spec": {"taints": null}})).unwrap();
}

fn pod(name: &str, cpu: &str) -> Value {
    let container = value!({"name": "c", "image": "i", "resources": {"requests": {"cpu": (cpu)}}});
    value!({"metadata": {"name": (name), "labels": {"app": "a"}}, "spec": {"containers": [(container)]}})
}

fn with_field(mut pod: Value, field: &str, value: Value) -> Value {
    pod.get_mut("spec").unwrap().make_map().insert(field, value);
    pod
}

fn node_of(cluster: &Cluster, name: &str) -> String {
    cluster.get("pods", &format!("default/{name}")).unwrap().str_at(&["spec", "nodeName"]).to_owned()
}

fn condition(cluster: &Cluster, name: &str) -> String {
    let pod = cluster.get("pods", &format!("default/{name}")).unwrap();
    let conditions = pod.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default().to_vec();
    let found = conditions.iter().find(|one| one.str_at(&["type"]) == "PodScheduled");
    found.map_or(String::new(), |one| format!("{} {}", one.str_at(&["reason"]), one.str_at(&["message"])))
}

fn has_event(cluster: &Cluster, reason: &str, message: &str) -> bool {
    let events = cluster.list("events");
    events.iter().any(|event| event.str_at(&["reason"]) == reason && event.str_at(&["message"]) == message)
}

#[test]
fn pods_spread_over_nodes_with_free_resources_and_emit_scheduled_events() {
    let mut cluster = cluster();
    for name in ["n1", "n2", "n3"] {
        add_node(&mut cluster, name, "4", value!({}));
    }
    for i in 0..12 {
        cluster.create("pods", "default", pod(&format!("p{i:02}"), "1"));
    }
    cluster.settle();
    for node in ["n1", "n2", "n3"] {
        let count = (0..12).filter(|i| node_of(&cluster, &format!("p{i:02}")) == node).count();
        assert_eq!(count, 4, "{node}");
    }
    let on = node_of(&cluster, "p00");
    assert!(has_event(&cluster, "Scheduled", &format!("Successfully assigned default/p00 to {on}")));
    cluster.assert_quiet();
}

#[test]
fn unschedulable_pod_has_a_reason_and_is_bound_when_a_node_is_added() {
    let mut cluster = cluster();
    cluster.create("pods", "default", pod("p", "8"));
    cluster.settle();
    assert_eq!(condition(&cluster, "p"), "Unschedulable no nodes available to schedule pods");
    add_node(&mut cluster, "n1", "4", value!({}));
    add_node(&mut cluster, "n2", "4", value!({}));
    let tainted = value!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
    cluster.patch("nodes", "n2", "", tainted).unwrap();
    cluster.run(std::time::Duration::from_secs(20));
    let expected = "Unschedulable 0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). \
        preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    assert_eq!(condition(&cluster, "p"), expected);
    assert!(has_event(&cluster, "FailedScheduling", &expected["Unschedulable ".len()..]));
    cluster.assert_quiet();
    add_node(&mut cluster, "n3", "8", value!({}));
    cluster.run(std::time::Duration::from_secs(20));
    assert_eq!(node_of(&cluster, "p"), "n3");
    cluster.assert_quiet();
}

#[test]
fn gated_pods_and_pods_of_other_schedulers_are_not_scheduled() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n", "4", value!({}));
    cluster.create(
        "pods",
        "default",
        with_field(pod("gated", "1"), "schedulingGates", value!([{"name": "g"}])),
    );
    cluster.create("pods", "default", with_field(pod("other", "1"), "schedulerName", value!("mine")));
    cluster.settle();
    assert_eq!((node_of(&cluster, "gated"), node_of(&cluster, "other")), (String::new(), String::new()));
    cluster.patch("pods", "default/gated", "", value!({"spec": {"schedulingGates": []}})).unwrap();
    cluster.settle();
    assert_eq!(node_of(&cluster, "gated"), "n");
}

#[test]
fn high_priority_pod_preempts_and_its_nomination_reserves_the_node() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n", "2", value!({}));
    cluster.create(
        "priorityclasses.scheduling.k8s.io",
        "",
        value!({"metadata": {"name": "high"}, "value": 100}),
    );
    cluster.create("pods", "default", pod("low1", "1"));
    cluster.create("pods", "default", pod("low2", "1"));
    cluster.settle();
    let important = with_field(pod("high", "1"), "priorityClassName", value!("high"));
    let spec = cluster.try_create("pods", "default", important);
    spec.unwrap();
    cluster.settle();
    assert_eq!(node_of(&cluster, "high"), "", "the victim is still terminating");
    let high = cluster.get("pods", "default/high").unwrap();
    assert_eq!(high.str_at(&["status", "nominatedNodeName"]), "n");
    let uid = high.str_at(&["metadata", "uid"]).to_owned();
    assert!(has_event(&cluster, "Preempted", &format!("Preempted by pod {uid} on node n")));
    let terminating = |cluster: &Cluster| {
        cluster.list("pods").iter().filter(|pod| pod.at(&["metadata", "deletionTimestamp"]).is_some()).count()
    };
    assert_eq!(terminating(&cluster), 1);
    // The reservation keeps another pod out meanwhile.
    cluster.create("pods", "default", pod("late", "1"));
    cluster.settle();
    cluster.run_pods();
    cluster.run(std::time::Duration::from_secs(20));
    assert_eq!((node_of(&cluster, "high").as_str(), node_of(&cluster, "late").as_str()), ("n", ""));
    cluster.assert_quiet();
}

#[test]
fn wait_for_first_consumer_claim_gets_a_selected_node_before_the_pod_is_bound() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n1", "4", value!({"disk": "no"}));
    add_node(&mut cluster, "n2", "4", value!({"disk": "yes"}));
    let topology = value!({"matchLabelExpressions": [{"key": "disk", "values": ["yes"]}]});
    let class = value!({
        "metadata": {"name": "late"}, "provisioner": "example.com/x", "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [(topology)],
    });
    cluster.create("storageclasses.storage.k8s.io", "", class);
    let claim = value!({
        "metadata": {"name": "c"},
        "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let volumes = value!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]);
    cluster.create("pods", "default", with_field(pod("p", "1"), "volumes", volumes));
    cluster.settle();
    let missing = "Unschedulable 0/2 nodes are available: persistentvolumeclaim \"c\" not found. \
        preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    assert_eq!(condition(&cluster, "p"), missing);
    cluster.create("persistentvolumeclaims", "default", claim);
    cluster.run(std::time::Duration::from_secs(20));
    let claim = cluster.get("persistentvolumeclaims", "default/c").unwrap();
    let selected = claim.at(&["metadata", "annotations", "volume.kubernetes.io/selected-node"]).cloned();
    assert_eq!(selected, Some(Value::from("n2")));
    assert_eq!(node_of(&cluster, "p"), "", "its claim is not bound yet");
    let volume = value!({
        "metadata": {"name": "v"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "late",
            "csi": {"driver": "x.example.com", "volumeHandle": "h"}},
    });
    cluster.create("persistentvolumes", "", volume);
    let bound = value!({
        "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "v"},
    });
    cluster.patch("persistentvolumeclaims", "default/c", "", bound).unwrap();
    cluster.run(std::time::Duration::from_secs(20));
    assert_ne!(node_of(&cluster, "p"), "");
    cluster.assert_quiet();
}

#[test]
fn lost_cache_causes_no_writes_and_no_missed_capacity() {
    let mut cluster = cluster();
    for i in 0..5 {
        add_node(&mut cluster, &format!("n{i}"), "2", value!({}));
    }
    for i in 0..14 {
        cluster.create("pods", "default", pod(&format!("p{i:02}"), "1"));
        if i % 3 == 0 {
            cluster.settle();
            cluster.engine.forget();
        }
    }
    cluster.settle();
    let bound = (0..14).filter(|i| !node_of(&cluster, &format!("p{i:02}")).is_empty()).count();
    assert_eq!(bound, 10);
    cluster.crash();
    cluster.settle();
    cluster.assert_quiet();
    cluster.delete("pods", "default/p00", &value!({"gracePeriodSeconds": 0})).unwrap();
    cluster.settle();
    let bound = (1..14).filter(|i| !node_of(&cluster, &format!("p{i:02}")).is_empty()).count();
    assert_eq!(bound, 10, "the freed capacity was not used");
}

fn cpu_of(pod: &Value) -> i64 {
    let container = pod.at(&["spec", "containers"]).and_then(Value::as_list).unwrap()[0].clone();
    container.str_at(&["resources", "requests", "cpu"]).parse().unwrap()
}

/// Requested cores of the pods on a node.
fn used_cpu(cluster: &Cluster, node: &str) -> i64 {
    let pods = cluster.list("pods");
    pods.iter().filter(|pod| pod.str_at(&["spec", "nodeName"]) == node).map(cpu_of).sum()
}

/// Removes terminating pods, as their nodes would.
fn finish_terminating_pods(cluster: &mut Cluster) {
    for pod in cluster.list("pods") {
        if pod.at(&["metadata", "deletionTimestamp"]).is_some() {
            let path = format!("default/{}", pod.str_at(&["metadata", "name"]));
            let _ = cluster.delete("pods", &path, &value!({"gracePeriodSeconds": 0}));
        }
    }
}

const NODES: [&str; 4] = ["n0", "n1", "n2", "n3"];

fn random_step(cluster: &mut Cluster, made: &mut usize) {
    let name = format!("p{}", cluster.rng.usize(..(*made).max(1)));
    match cluster.rng.u8(..14) {
        0..4 => {
            let cpu = cluster.rng.u8(1..4).to_string();
            let mut new = pod(&format!("p{made}"), &cpu);
            if cluster.rng.u8(..4) == 0 {
                new = with_field(new, "priorityClassName", value!("high"));
            }
            cluster.create("pods", "default", new);
            *made += 1;
        }
        4 => {
            let _ = cluster.delete("pods", &format!("default/{name}"), &value!({"gracePeriodSeconds": 0}));
        }
        5 => finish_terminating_pods(cluster),
        6 => cluster.crash(),
        7 => cluster.engine.forget(),
        8 => cluster.lose_response(),
        9 => cluster.lose_write(),
        10 => {
            let (node, is_cordoned) = (NODES[cluster.rng.usize(..4)], cluster.rng.bool());
            cluster
                .patch("nodes", node, "", value!({"spec": {"unschedulable": (is_cordoned), "taints": null}}))
                .unwrap();
        }
        _ => {
            cluster.observe_some();
            cluster.plan();
            for _ in 0..cluster.rng.u8(..8) {
                cluster.perform();
            }
        }
    }
    cluster.now = cluster.now.after(std::time::Duration::from_millis(300));
}

#[test]
fn no_node_is_overcommitted_and_no_capacity_is_left_unused_under_faults() {
    for seed in 0..25 {
        let mut cluster = cluster();
        cluster.rng = fastrand::Rng::with_seed(seed);
        let high = value!({"metadata": {"name": "high"}, "value": 100});
        cluster.create("priorityclasses.scheduling.k8s.io", "", high);
        for name in NODES {
            add_node(&mut cluster, name, "6", value!({}));
        }
        let mut made = 0;
        for _ in 0..150 {
            random_step(&mut cluster, &mut made);
            assert!(
                NODES.iter().all(|node| used_cpu(&cluster, node) <= 6),
                "seed {seed}: {:#?}",
                cluster.history
            );
        }
        cluster.mend_watches();
        for _ in 0..12 {
            cluster.run(std::time::Duration::from_secs(40));
            finish_terminating_pods(&mut cluster);
        }
        cluster.settle();
        assert!(NODES.iter().all(|node| used_cpu(&cluster, node) <= 6), "seed {seed}");
        let is_schedulable =
            |node: &&&str| cluster.get("nodes", node).unwrap().at(&["spec", "unschedulable"]).is_none();
        let free =
            NODES.iter().filter(is_schedulable).map(|node| 6 - used_cpu(&cluster, node)).max().unwrap_or(0);
        for pod in cluster.list("pods").iter().filter(|pod| pod.str_at(&["spec", "nodeName"]).is_empty()) {
            let is_nominated = !pod.str_at(&["status", "nominatedNodeName"]).is_empty();
            assert!(cpu_of(pod) > free || is_nominated, "seed {seed}: there is capacity for {pod:?}");
        }
        cluster.assert_quiet();
    }
}

#[test]
fn affinity_and_spread_rejections_have_the_messages_of_kube_scheduler() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n1", "4", value!({"zone": "a"}));
    add_node(&mut cluster, "n2", "4", value!({}));
    let term = value!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}});
    let required = value!({"requiredDuringSchedulingIgnoredDuringExecution": [(term.clone())]});
    let spread = value!({
        "topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
    });
    cluster.create("pods", "default", with_field(pod("first", "1"), "nodeSelector", value!({"zone": "a"})));
    cluster.settle();
    let near = with_field(pod("near", "1"), "affinity", value!({"podAffinity": (required.clone())}));
    cluster.create("pods", "default", near);
    cluster.settle();
    assert_eq!(node_of(&cluster, "near"), "n1");
    let far = with_field(pod("far", "8"), "affinity", value!({"podAntiAffinity": (required)}));
    cluster.create("pods", "default", with_field(far, "nodeSelector", value!({"zone": "a"})));
    cluster.create(
        "pods",
        "default",
        with_field(pod("spread", "1"), "topologySpreadConstraints", value!([(spread)])),
    );
    cluster.settle();
    assert_eq!(node_of(&cluster, "spread"), "n1", "the only zone has the minimum");
    assert!(
        condition(&cluster, "far")
            .contains("1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector")
    );
    let lonely = with_field(pod("lonely", "1"), "affinity", {
        let term = value!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "none"}}});
        value!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [(term)]}})
    });
    cluster.create("pods", "default", lonely);
    cluster.settle();
    let expected = "Unschedulable 0/2 nodes are available: 2 node(s) didn't match pod affinity rules. \
        preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    assert_eq!(condition(&cluster, "lonely"), expected);
}

#[test]
fn each_profile_reports_events_under_its_name_and_other_pods_are_not_scheduled() {
    let scheduler = || {
        let profiles = vec![Profile::new(DEFAULT_SCHEDULER_NAME), Profile::new("mine")];
        (vec![Box::new(Scheduler::new(profiles)) as Box<dyn Controller>], Vec::<Index>::new())
    };
    let mut cluster = Cluster::new(scheduler, 1);
    add_node(&mut cluster, "n1", "4", value!({}));
    for (name, scheduler) in [("a", DEFAULT_SCHEDULER_NAME), ("b", "mine"), ("c", "theirs")] {
        cluster.create("pods", "default", with_field(pod(name, "1"), "schedulerName", scheduler.into()));
    }
    cluster.create("pods", "default", with_field(pod("d", "8"), "schedulerName", "mine".into()));
    cluster.settle();
    assert_eq!(["a", "b", "c"].map(|name| node_of(&cluster, name)), ["n1", "n1", ""]);
    let events = cluster.list("events");
    let reporters = |pod: &str| -> Vec<(String, String)> {
        let about = events.iter().filter(|event| event.str_at(&["involvedObject", "name"]) == pod);
        let text = |event: &Value, path: &[&str]| event.str_at(path).to_owned();
        about.map(|event| (text(event, &["reason"]), text(event, &["source", "component"]))).collect()
    };
    assert_eq!(reporters("a"), [("Scheduled".to_owned(), DEFAULT_SCHEDULER_NAME.to_owned())]);
    assert_eq!(reporters("b"), [("Scheduled".to_owned(), "mine".to_owned())]);
    assert_eq!(reporters("c"), []);
    assert_eq!(reporters("d"), [("FailedScheduling".to_owned(), "mine".to_owned())]);
}
