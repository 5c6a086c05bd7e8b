//! Allocation of claims: the written status, and pods that compete for devices.

use super::super::requeueing::failed_attempts;
use super::*;

const RUN: Duration = Duration::from_secs(30);

fn config(source: &str) -> Value {
    value!({"opaque": {"driver": (DRIVER), "parameters": {"from": (source)}}})
}

#[test]
fn claim_is_allocated_on_the_node_of_its_devices() {
    let mut cluster = device_cluster();
    let class = value!({"metadata": {"name": "configured"}, "spec": {"config": [(config("class"))]}});
    cluster.create(CLASSES, "", class);
    add_pool(&mut cluster, "n2", Some("n2"), vec![device("a"), device("b"), device("c")]);
    let tolerations = value!([{"key": "t", "operator": "Exists"}]);
    let first = value!({
        "name": "q1", "exactly": {"deviceClassName": "configured", "count": 2, "tolerations": (tolerations.clone())},
    });
    let mut of_claim = config("claim");
    of_claim.make_map().insert("requests", vec!["q2"]);
    let requests = vec![first, request("q2", 1)];
    add_claim(&mut cluster, "c", value!({"requests": (requests), "config": [(of_claim)]}));
    add_pod(&mut cluster, "p", "c");
    cluster.run(RUN);
    assert_eq!(node_of(&cluster, "p"), "n2", "{}", condition(&cluster, "p"));
    assert_eq!(devices_of(&cluster, "c"), ["q1=n2/a", "q1=n2/b", "q2=n2/c"]);
    assert_eq!(users_of(&cluster, "c"), ["p"]);
    let claim = cluster.get(CLAIMS, "default/c").unwrap();
    let finalizers = claim.at(&["metadata", "finalizers"]).and_then(Value::as_list).unwrap().to_vec();
    assert_eq!(finalizers, [Value::from("resource.kubernetes.io/delete-protection")]);
    let allocation = claim.at(&["status", "allocation"]).unwrap();
    let on_node = value!({"key": "metadata.name", "operator": "In", "values": ["n2"]});
    let selector = value!({"nodeSelectorTerms": [{"matchFields": [(on_node)]}]});
    assert_eq!(allocation.get("nodeSelector"), Some(&selector));
    assert!(!allocation.str_at(&["allocationTimestamp"]).is_empty());
    let results = allocation.at(&["devices", "results"]).and_then(Value::as_list).unwrap();
    assert_eq!(results[0].get("driver"), Some(&Value::from(DRIVER)));
    assert_eq!(results[0].at(&["tolerations"]).map(|list| list.as_list().unwrap().len()), Some(1));
    assert_eq!(results[2].get("tolerations"), None);
    let entries = allocation.at(&["devices", "config"]).and_then(Value::as_list).unwrap();
    let shown: Vec<String> = entries
        .iter()
        .map(|entry| {
            let requests = entry.get("requests").and_then(Value::as_list).unwrap_or_default();
            let requests: Vec<&str> = requests.iter().filter_map(|name| name.as_str()).collect();
            format!("{} {requests:?}", entry.str_at(&["source"]))
        })
        .collect();
    assert_eq!(shown, [r#"FromClass ["q1"]"#, r#"FromClaim ["q2"]"#]);
    cluster.assert_quiet();
}

#[test]
fn device_of_all_nodes_leaves_the_claim_free_to_move() {
    let mut cluster = device_cluster();
    add_pool(&mut cluster, "net", None, vec![device("a")]);
    add_claim(&mut cluster, "c", value!({"requests": [(request("q", 1))]}));
    add_pod(&mut cluster, "p", "c");
    cluster.run(RUN);
    assert!(!node_of(&cluster, "p").is_empty(), "{}", condition(&cluster, "p"));
    let claim = cluster.get(CLAIMS, "default/c").unwrap();
    assert_eq!(claim.at(&["status", "allocation", "nodeSelector"]), None);
}

#[test]
fn pods_that_compete_for_a_device_get_it_one_after_the_other() {
    let mut cluster = device_cluster();
    add_pool(&mut cluster, "net", None, vec![device("a")]);
    for name in ["1", "2"] {
        add_claim(&mut cluster, &format!("c{name}"), value!({"requests": [(request("q", 1))]}));
        add_pod(&mut cluster, &format!("p{name}"), &format!("c{name}"));
    }
    cluster.run(RUN);
    assert!(!node_of(&cluster, "p1").is_empty(), "{}", condition(&cluster, "p1"));
    assert_eq!(node_of(&cluster, "p2"), "");
    let message = "Unschedulable 0/2 nodes are available: 2 cannot allocate all claims.";
    assert!(condition(&cluster, "p2").starts_with(message), "{}", condition(&cluster, "p2"));
    assert_eq!(devices_of(&cluster, "c2"), [""; 0]);
    cluster.assert_quiet();
    cluster.delete("pods", "default/p1", &value!({"gracePeriodSeconds": 0})).unwrap();
    release(&mut cluster, "c1");
    cluster.run(RUN);
    assert!(!node_of(&cluster, "p2").is_empty(), "{}", condition(&cluster, "p2"));
    assert_eq!(devices_of(&cluster, "c2"), ["q=net/a"]);
}

#[test]
fn pods_share_a_claim_on_the_node_of_its_devices() {
    let mut cluster = device_cluster();
    add_pool(&mut cluster, "n1", Some("n1"), vec![device("a")]);
    add_claim(&mut cluster, "c", value!({"requests": [(request("q", 1))]}));
    for name in ["p1", "p2", "p3"] {
        add_pod(&mut cluster, name, "c");
    }
    cluster.run(RUN);
    for name in ["p1", "p2", "p3"] {
        assert_eq!(node_of(&cluster, name), "n1", "{}", condition(&cluster, name));
    }
    assert_eq!(users_of(&cluster, "c").len(), 3);
    assert_eq!(devices_of(&cluster, "c"), ["q=n1/a"]);
    cluster.assert_quiet();
}

#[test]
fn slices_classes_and_taint_rules_requeue_pods() {
    let mut cluster = device_cluster();
    let class = value!({"deviceClassName": "late"});
    add_claim(&mut cluster, "c", value!({"requests": [{"name": "q", "exactly": (class)}]}));
    add_pod(&mut cluster, "p", "c");
    cluster.run(RUN);
    let missing = "request q: device class late does not exist";
    assert!(condition(&cluster, "p").contains(missing), "{}", condition(&cluster, "p"));
    let taint = value!({"key": "broken", "effect": "NoSchedule"});
    let rule = value!({"deviceSelector": {"driver": (DRIVER)}, "taint": (taint)});
    let rule = value!({"metadata": {"name": "rule"}, "spec": (rule)});
    cluster.create("devicetaintrules.resource.k8s.io", "", rule);
    cluster.create(CLASSES, "", value!({"metadata": {"name": "late"}, "spec": {}}));
    cluster.run(RUN);
    let none = "2 cannot allocate all claims";
    assert!(condition(&cluster, "p").contains(none), "{}", condition(&cluster, "p"));
    add_pool(&mut cluster, "net", None, vec![device("a")]);
    cluster.run(RUN);
    assert_eq!(node_of(&cluster, "p"), "", "the rule taints the device");
    cluster.delete("devicetaintrules.resource.k8s.io", "rule", &value!({})).unwrap();
    cluster.run(RUN);
    assert_eq!(devices_of(&cluster, "c"), ["q=net/a"]);
    assert!(!node_of(&cluster, "p").is_empty());
}

#[test]
fn crash_between_any_two_writes_allocates_each_device_once() {
    for steps in 1..16 {
        let mut cluster = device_cluster();
        add_pool(&mut cluster, "n1", Some("n1"), vec![device("a")]);
        add_pool(&mut cluster, "n2", Some("n2"), vec![device("b")]);
        for name in ["1", "2"] {
            add_claim(&mut cluster, &format!("c{name}"), value!({"requests": [(request("q", 1))]}));
            add_pod(&mut cluster, &format!("p{name}"), &format!("c{name}"));
        }
        cluster.crash_after(steps);
        cluster.run(RUN);
        let mut devices = devices_of(&cluster, "c1");
        devices.extend(devices_of(&cluster, "c2"));
        devices.sort_unstable();
        assert_eq!(devices, ["q=n1/a", "q=n2/b"], "after {steps} steps");
        for name in ["1", "2"] {
            let node = node_of(&cluster, &format!("p{name}"));
            let devices = devices_of(&cluster, &format!("c{name}"));
            assert!(
                !node.is_empty() && devices[0].contains(&node),
                "after {steps} steps: {devices:?} on {node}"
            );
        }
        cluster.assert_quiet();
    }
}

#[test]
fn claim_that_is_allocated_elsewhere_meanwhile_keeps_its_allocation() {
    let mut taken = 0;
    for steps in 0..12 {
        let mut cluster = device_cluster();
        add_pool(&mut cluster, "net", None, vec![device("a"), device("b")]);
        add_claim(&mut cluster, "c", value!({"requests": [(request("q", 1))]}));
        add_claim(&mut cluster, "other", value!({"requests": [(request("q", 1))]}));
        add_pod(&mut cluster, "p", "c");
        add_pod(&mut cluster, "o", "other");
        cluster.run_steps(steps, |_| ());
        let device = value!({"request": "q", "driver": (DRIVER), "pool": "net", "device": "elsewhere"});
        let allocation = value!({"devices": {"results": [(device)]}});
        let is_taken = cluster
            .patch(CLAIMS, "default/c", "status", value!({"status": {"allocation": (allocation)}}))
            .is_ok();
        taken += usize::from(is_taken);
        cluster.run(RUN);
        let mut devices = devices_of(&cluster, "c");
        assert_eq!(devices == ["q=net/elsewhere"], is_taken, "after {steps} steps: {devices:?}");
        devices.extend(devices_of(&cluster, "other"));
        assert!(devices.len() == 2 && devices[0] != devices[1], "after {steps} steps: {devices:?}");
        for name in ["p", "o"] {
            assert!(
                !node_of(&cluster, name).is_empty(),
                "after {steps} steps: {}",
                condition(&cluster, name)
            );
        }
        cluster.assert_quiet();
    }
    assert!((1..12).contains(&taken), "{taken} of 12 allocations came first");
}

#[test]
fn only_released_devices_and_own_claims_requeue_a_pod() {
    let mut cluster = device_cluster();
    add_pool(&mut cluster, "net", None, vec![device("a")]);
    add_claim(&mut cluster, "c1", value!({"requests": [(request("q", 1))]}));
    add_pod(&mut cluster, "p1", "c1");
    cluster.run(RUN);
    add_claim(&mut cluster, "c2", value!({"requests": [(request("q", 1))]}));
    add_pod(&mut cluster, "p2", "c2");
    cluster.run(RUN);
    assert_eq!(failed_attempts(&cluster, "p2"), 1);
    for at in 0..4 {
        add_claim(&mut cluster, &format!("x{at}"), value!({"requests": [(request("q", 1))]}));
        let annotations = value!({"metadata": {"annotations": {"at": (format!("{at}"))}}});
        cluster.patch(CLAIMS, "default/c1", "", annotations).unwrap();
        cluster.run(Duration::from_secs(20));
    }
    assert_eq!(failed_attempts(&cluster, "p2"), 1, "no event matches its hint");
    cluster.delete("pods", "default/p1", &value!({"gracePeriodSeconds": 0})).unwrap();
    release(&mut cluster, "c1");
    cluster.settle();
    assert!(!node_of(&cluster, "p2").is_empty(), "{}", condition(&cluster, "p2"));
}

#[test]
fn idle_claim_is_released_if_no_node_suits_its_allocation() {
    let mut cluster = device_cluster();
    add_pool(&mut cluster, "n1", Some("n1"), vec![device("a")]);
    add_claim(&mut cluster, "c", value!({"requests": [(request("q", 1))]}));
    add_pod(&mut cluster, "p", "c");
    cluster.run(RUN);
    assert_eq!(node_of(&cluster, "p"), "n1");
    cluster.delete("pods", "default/p", &value!({"gracePeriodSeconds": 0})).unwrap();
    let unused = value!({"status": {"reservedFor": null}});
    cluster.patch(CLAIMS, "default/c", "status", unused).unwrap();
    cluster.delete("nodes", "n1", &value!({})).unwrap();
    add_pool(&mut cluster, "n2", Some("n2"), vec![device("b")]);
    add_pod(&mut cluster, "q", "c");
    cluster.settle();
    let message = "0/1 nodes are available: 1 resourceclaim not available on the node. deallocation of ResourceClaim completed, preemption:";
    assert!(has_message(&cluster, message), "{}", condition(&cluster, "q"));
    cluster.run(RUN);
    assert_eq!(node_of(&cluster, "q"), "n2", "{}", condition(&cluster, "q"));
    assert_eq!(devices_of(&cluster, "c"), ["q=n2/b"]);
    assert_eq!(users_of(&cluster, "c"), ["q"]);
}

fn has_message(cluster: &Cluster, start: &str) -> bool {
    cluster.list("events").iter().any(|event| event.str_at(&["message"]).starts_with(start))
}
