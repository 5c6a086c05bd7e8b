//! Claims about the planner of pods, held by tests on the whole control plane in memory.

use setpoint_api::{Value, value};
use setpoint_reconcile::{Controller, Index};
use setpoint_sim::cluster::Cluster;

use super::*;

mod amounts;
mod devices;
mod poison;
mod promises;
mod volumes;
mod waking;

fn cluster() -> Cluster {
    let scheduler = || (vec![Box::new(Scheduler::default()) as Box<dyn Controller>], Vec::<Index>::new());
    Cluster::new(scheduler, 1)
}

fn add_node(cluster: &mut Cluster, name: &str, cpu: &str, labels: Value) {
    let allocatable = value!({"cpu": (cpu), "memory": "32Gi", "pods": "110"});
    let node = value!({"metadata": {"name": (name), "labels": (labels)}});
    cluster.create("nodes", "", node);
    cluster.patch("nodes", name, "status", value!({"status": {"allocatable": (allocatable)}})).unwrap();
    // A new node is tainted until somebody sees that it is ready.
    cluster.patch("nodes", name, "", value!({"spec": {"taints": null}})).unwrap();
}

fn pod(name: &str, cpu: &str) -> Value {
    let container = value!({"name": "c", "image": "i", "resources": {"requests": {"cpu": (cpu)}}});
    value!({"metadata": {"name": (name), "labels": {"app": "a"}}, "spec": {"containers": [(container)]}})
}

fn with(mut pod: Value, field: &str, value: Value) -> Value {
    pod.get_mut("spec").unwrap().make_map().insert(field, value);
    pod
}

fn node_of(cluster: &Cluster, name: &str) -> String {
    cluster.get("pods", &format!("default/{name}")).unwrap().str_at(&["spec", "nodeName"]).to_owned()
}

fn why(cluster: &Cluster, name: &str) -> String {
    let pod = cluster.get("pods", &format!("default/{name}")).unwrap();
    let conditions = pod.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default().to_vec();
    let found = conditions.iter().find(|one| one.str_at(&["type"]) == "PodScheduled");
    found.map_or(String::new(), |one| format!("{} {}", one.str_at(&["reason"]), one.str_at(&["message"])))
}

fn was_told(cluster: &Cluster, reason: &str, message: &str) -> bool {
    let events = cluster.list("events");
    events.iter().any(|event| event.str_at(&["reason"]) == reason && event.str_at(&["message"]) == message)
}

#[test]
fn pods_spread_over_nodes_with_room_and_people_are_told() {
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
    assert!(was_told(&cluster, "Scheduled", &format!("Successfully assigned default/p00 to {on}")));
    cluster.assert_quiet();
}

#[test]
fn a_pod_that_fits_nowhere_says_why_and_goes_when_a_node_comes() {
    let mut cluster = cluster();
    cluster.create("pods", "default", pod("p", "8"));
    cluster.settle();
    assert_eq!(why(&cluster, "p"), "Unschedulable no nodes available to schedule pods");
    add_node(&mut cluster, "n1", "4", value!({}));
    add_node(&mut cluster, "n2", "4", value!({}));
    let tainted = value!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
    cluster.patch("nodes", "n2", "", tainted).unwrap();
    cluster.run(std::time::Duration::from_secs(20));
    let expected = "Unschedulable 0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). \
        preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    assert_eq!(why(&cluster, "p"), expected);
    assert!(was_told(&cluster, "FailedScheduling", &expected["Unschedulable ".len()..]));
    cluster.assert_quiet();
    add_node(&mut cluster, "n3", "8", value!({}));
    cluster.run(std::time::Duration::from_secs(20));
    assert_eq!(node_of(&cluster, "p"), "n3");
    cluster.assert_quiet();
}

#[test]
fn gated_pods_and_those_of_other_schedulers_are_left_alone() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n", "4", value!({}));
    cluster.create("pods", "default", with(pod("gated", "1"), "schedulingGates", value!([{"name": "g"}])));
    cluster.create("pods", "default", with(pod("other", "1"), "schedulerName", value!("mine")));
    cluster.settle();
    assert_eq!((node_of(&cluster, "gated"), node_of(&cluster, "other")), (String::new(), String::new()));
    cluster.patch("pods", "default/gated", "", value!({"spec": {"schedulingGates": []}})).unwrap();
    cluster.settle();
    assert_eq!(node_of(&cluster, "gated"), "n");
}

#[test]
fn the_most_important_pod_goes_first_and_pushes_others_aside() {
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
    let important = with(pod("high", "1"), "priorityClassName", value!("high"));
    let spec = cluster.try_create("pods", "default", important);
    spec.unwrap();
    cluster.settle();
    assert_eq!(node_of(&cluster, "high"), "", "room must be made first");
    let high = cluster.get("pods", "default/high").unwrap();
    assert_eq!(high.str_at(&["status", "nominatedNodeName"]), "n");
    let uid = high.str_at(&["metadata", "uid"]).to_owned();
    assert!(was_told(&cluster, "Preempted", &format!("Preempted by pod {uid} on node n")));
    let going = |cluster: &Cluster| {
        cluster.list("pods").iter().filter(|pod| pod.at(&["metadata", "deletionTimestamp"]).is_some()).count()
    };
    assert_eq!(going(&cluster), 1);
    // Another must not take the room meanwhile.
    cluster.create("pods", "default", pod("late", "1"));
    cluster.settle();
    cluster.run_pods();
    cluster.run(std::time::Duration::from_secs(20));
    assert_eq!((node_of(&cluster, "high").as_str(), node_of(&cluster, "late").as_str()), ("n", ""));
    cluster.assert_quiet();
}

#[test]
fn a_claim_that_waits_for_its_pod_gets_a_node_first() {
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
    cluster.create("pods", "default", with(pod("p", "1"), "volumes", volumes));
    cluster.settle();
    let missing = "Unschedulable 0/2 nodes are available: persistentvolumeclaim \"c\" not found. \
        preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    assert_eq!(why(&cluster, "p"), missing);
    cluster.create("persistentvolumeclaims", "default", claim);
    cluster.run(std::time::Duration::from_secs(20));
    let claim = cluster.get("persistentvolumeclaims", "default/c").unwrap();
    let chosen = claim.at(&["metadata", "annotations", "volume.kubernetes.io/selected-node"]).cloned();
    assert_eq!(chosen, Some(Value::from("n2")));
    assert_eq!(node_of(&cluster, "p"), "", "its volume is not there yet");
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
fn a_lost_memory_changes_no_place_and_is_quiet() {
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
    assert_eq!(bound, 10, "the room that became free was not taken");
}

fn cpu_of(pod: &Value) -> i64 {
    let container = pod.at(&["spec", "containers"]).and_then(Value::as_list).unwrap()[0].clone();
    container.str_at(&["resources", "requests", "cpu"]).parse().unwrap()
}

/// How much of a node is taken.
fn taken(cluster: &Cluster, node: &str) -> i64 {
    let pods = cluster.list("pods");
    pods.iter().filter(|pod| pod.str_at(&["spec", "nodeName"]) == node).map(cpu_of).sum()
}

/// Lets pods go that were deleted, as their nodes would.
fn let_go(cluster: &mut Cluster) {
    for pod in cluster.list("pods") {
        if pod.at(&["metadata", "deletionTimestamp"]).is_some() {
            let path = format!("default/{}", pod.str_at(&["metadata", "name"]));
            let _ = cluster.delete("pods", &path, &value!({"gracePeriodSeconds": 0}));
        }
    }
}

const NODES: [&str; 4] = ["n0", "n1", "n2", "n3"];

fn go_on(cluster: &mut Cluster, made: &mut usize) {
    let name = format!("p{}", cluster.rng.usize(..(*made).max(1)));
    match cluster.rng.u8(..14) {
        0..4 => {
            let cpu = cluster.rng.u8(1..4).to_string();
            let mut new = pod(&format!("p{made}"), &cpu);
            if cluster.rng.u8(..4) == 0 {
                new = with(new, "priorityClassName", value!("high"));
            }
            cluster.create("pods", "default", new);
            *made += 1;
        }
        4 => {
            let _ = cluster.delete("pods", &format!("default/{name}"), &value!({"gracePeriodSeconds": 0}));
        }
        5 => let_go(cluster),
        6 => cluster.crash(),
        7 => cluster.engine.forget(),
        8 => cluster.lose_answer(),
        9 => cluster.lose_write(),
        10 => {
            let (node, off) = (NODES[cluster.rng.usize(..4)], cluster.rng.bool());
            cluster
                .patch("nodes", node, "", value!({"spec": {"unschedulable": (off), "taints": null}}))
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
fn whatever_goes_wrong_no_node_gets_more_than_it_holds_and_no_room_is_left_unused() {
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
            go_on(&mut cluster, &mut made);
            assert!(
                NODES.iter().all(|node| taken(&cluster, node) <= 6),
                "seed {seed}: {:#?}",
                cluster.history
            );
        }
        cluster.mend_watches();
        for _ in 0..12 {
            cluster.run(std::time::Duration::from_secs(40));
            let_go(&mut cluster);
        }
        cluster.settle();
        assert!(NODES.iter().all(|node| taken(&cluster, node) <= 6), "seed {seed}");
        let open =
            |node: &&&str| cluster.get("nodes", node).unwrap().at(&["spec", "unschedulable"]).is_none();
        let room = NODES.iter().filter(open).map(|node| 6 - taken(&cluster, node)).max().unwrap_or(0);
        for pod in cluster.list("pods").iter().filter(|pod| pod.str_at(&["spec", "nodeName"]).is_empty()) {
            let promised = !pod.str_at(&["status", "nominatedNodeName"]).is_empty();
            assert!(cpu_of(pod) > room || promised, "seed {seed}: there is room for {pod:?}");
        }
        cluster.assert_quiet();
    }
}

#[test]
fn rules_about_other_pods_are_told_in_the_words_that_people_know() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n1", "4", value!({"zone": "a"}));
    add_node(&mut cluster, "n2", "4", value!({}));
    let term = value!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}});
    let required = value!({"requiredDuringSchedulingIgnoredDuringExecution": [(term.clone())]});
    let spread = value!({
        "topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
    });
    cluster.create("pods", "default", with(pod("first", "1"), "nodeSelector", value!({"zone": "a"})));
    cluster.settle();
    let near = with(pod("near", "1"), "affinity", value!({"podAffinity": (required.clone())}));
    cluster.create("pods", "default", near);
    cluster.settle();
    assert_eq!(node_of(&cluster, "near"), "n1");
    let far = with(pod("far", "8"), "affinity", value!({"podAntiAffinity": (required)}));
    cluster.create("pods", "default", with(far, "nodeSelector", value!({"zone": "a"})));
    cluster.create(
        "pods",
        "default",
        with(pod("spread", "1"), "topologySpreadConstraints", value!([(spread)])),
    );
    cluster.settle();
    assert_eq!(node_of(&cluster, "spread"), "n1", "one zone is as full as the least");
    assert!(
        why(&cluster, "far")
            .contains("1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector")
    );
    let lonely = with(pod("lonely", "1"), "affinity", {
        let term = value!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "nobody"}}});
        value!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [(term)]}})
    });
    cluster.create("pods", "default", lonely);
    cluster.settle();
    let expected = "Unschedulable 0/2 nodes are available: 2 node(s) didn't match pod affinity rules. \
        preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    assert_eq!(why(&cluster, "lonely"), expected);
}

#[test]
fn each_profile_speaks_under_its_own_name_and_others_are_left_alone() {
    let scheduler = || {
        let profiles = vec![Profile::named(NAME), Profile::named("mine")];
        (vec![Box::new(Scheduler::new(profiles)) as Box<dyn Controller>], Vec::<Index>::new())
    };
    let mut cluster = Cluster::new(scheduler, 1);
    add_node(&mut cluster, "n1", "4", value!({}));
    for (name, whose) in [("a", NAME), ("b", "mine"), ("c", "theirs")] {
        cluster.create("pods", "default", with(pod(name, "1"), "schedulerName", whose.into()));
    }
    cluster.create("pods", "default", with(pod("d", "8"), "schedulerName", "mine".into()));
    cluster.settle();
    assert_eq!(["a", "b", "c"].map(|name| node_of(&cluster, name)), ["n1", "n1", ""]);
    let told = cluster.list("events");
    let speakers = |pod: &str| -> Vec<(String, String)> {
        let about = told.iter().filter(|event| event.str_at(&["involvedObject", "name"]) == pod);
        let text = |event: &Value, path: &[&str]| event.str_at(path).to_owned();
        about.map(|event| (text(event, &["reason"]), text(event, &["source", "component"]))).collect()
    };
    assert_eq!(speakers("a"), [("Scheduled".to_owned(), NAME.to_owned())]);
    assert_eq!(speakers("b"), [("Scheduled".to_owned(), "mine".to_owned())]);
    assert_eq!(speakers("c"), []);
    assert_eq!(speakers("d"), [("FailedScheduling".to_owned(), "mine".to_owned())]);
}
