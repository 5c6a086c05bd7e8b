//! Tests of kubelet admission: pods that are bound to a node that cannot run them.

use super::*;

fn small_nodes() -> (Vec<Box<dyn Controller>>, Vec<Index>) {
    let mut fleet = Fleet { count: 2, pod_start_delay: Duration::ZERO, ..Fleet::default() };
    fleet.set_capacity("pods", "3");
    fleet.set_capacity("memory", "1Gi");
    planners_of(fleet)
}

/// Formats a pod: `phase reason: message`.
fn phase_and_reason(cluster: &Cluster, name: &str) -> String {
    let status = get(cluster, name).get("status").cloned().unwrap_or_default();
    let words = ["phase", "reason", "message"].map(|field| status.str_at(&[field]).to_owned());
    let [phase, reason, message] = words;
    format!("{phase} {reason}: {message}").trim_end_matches(": ").trim_end().to_owned()
}

fn pod_requesting(requests: &str) -> String {
    format!(r#"{{"containers":[{{"name":"c","image":"i","resources":{{"requests":{requests}}}}}]}}"#)
}

#[test]
fn pod_without_enough_resources_is_rejected() {
    let mut cluster = cluster(small_nodes);
    create_pod(&mut cluster, "fits", &pod_requesting(r#"{"cpu":"10","memory":"512Mi"}"#));
    create_pod(&mut cluster, "slow", &pod_requesting(r#"{"cpu":"6500m"}"#));
    create_pod(&mut cluster, "big", &pod_requesting(r#"{"memory":"513Mi"}"#));
    assert_eq!(phase_and_reason(&cluster, "fits"), "Running");
    let cpu = "Node didn't have enough resource: cpu, requested: 6500, used: 10000, capacity: 16000";
    assert_eq!(phase_and_reason(&cluster, "slow"), format!("Failed OutOfcpu: Pod was rejected: {cpu}"));
    assert_eq!(events(&cluster, "OutOfcpu"), [cpu]);
    assert!(
        phase_and_reason(&cluster, "big").starts_with("Failed OutOfmemory: "),
        "{}",
        phase_and_reason(&cluster, "big")
    );
    // A finished pod holds no resources.
    cluster.delete("pods", "default/fits", &value!({"gracePeriodSeconds": 0})).unwrap();
    cluster.settle();
    let rare = r#"{"example.com/unknown-to-nodes":"1"}"#;
    let rest = r#"{"cpu":"16","example.com/unknown-to-nodes":"1"}"#;
    let spec = format!(
        r#"{{"containers":[{{"name":"c","image":"i","resources":{{"limits":{rare},"requests":{rest}}}}}]}}"#
    );
    create_pod(&mut cluster, "again", &spec);
    assert_eq!(phase_and_reason(&cluster, "again"), "Running");
    cluster.assert_quiet();
}

#[test]
fn pod_limit_holds_for_pods_that_arrive_together() {
    let mut cluster = cluster(small_nodes);
    for name in ["a", "b", "c", "d"] {
        let spec = value!({"nodeName": "node-0", "containers": [{"name": "c", "image": "i"}]});
        cluster.create("pods", "default", value!({"metadata": {"name": (name)}, "spec": (spec)}));
    }
    cluster.settle();
    let fates: Vec<String> = ["a", "b", "c", "d"].map(|name| phase_and_reason(&cluster, name)).into();
    assert_eq!(
        fates.iter().filter(|phase_and_reason| *phase_and_reason == "Running").count(),
        3,
        "{fates:?}"
    );
    let refused = "Failed OutOfpods: Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: 3, \
                   capacity: 3";
    assert!(fates.contains(&refused.to_owned()), "{fates:?}");
}

#[test]
fn node_affinity_or_host_port_mismatch_is_rejected() {
    let mut cluster = cluster(small_nodes);
    create_pod(
        &mut cluster,
        "choosy",
        r#"{"nodeSelector":{"disk":"ssd"},"containers":[{"name":"c","image":"i"}]}"#,
    );
    let why = "Failed NodeAffinity: Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node \
               affinity/selector";
    assert_eq!(phase_and_reason(&cluster, "choosy"), why);
    let port = r#"{"containers":[{"name":"c","image":"i","ports":[{"containerPort":80,"hostPort":8080}]}]}"#;
    create_pod(&mut cluster, "first", port);
    create_pod(&mut cluster, "second", port);
    assert_eq!(phase_and_reason(&cluster, "first"), "Running");
    let why = "Failed NodePorts: Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the \
               requested pod ports";
    assert_eq!(phase_and_reason(&cluster, "second"), why);
    cluster.assert_quiet();
}

#[test]
fn pod_that_does_not_tolerate_a_taint_is_rejected() {
    let mut cluster = cluster(small_nodes);
    let taint = value!({"key": "k", "effect": "NoExecute"});
    cluster.patch("nodes", "node-0", "", value!({"spec": {"taints": [(taint)]}})).unwrap();
    cluster.settle();
    create_pod(&mut cluster, "shy", r#"{"containers":[{"name":"c","image":"i"}]}"#);
    assert!(
        phase_and_reason(&cluster, "shy").starts_with("Failed TaintToleration: "),
        "{}",
        phase_and_reason(&cluster, "shy")
    );
    let bold = r#"{"tolerations":[{"operator":"Exists"}],"containers":[{"name":"c","image":"i"}]}"#;
    create_pod(&mut cluster, "bold", bold);
    assert_eq!(phase_and_reason(&cluster, "bold"), "Running");
}

#[test]
fn pod_without_a_free_ip_emits_an_event_and_waits() {
    let mut cluster = cluster(without_start_delay);
    let range = value!({"podCIDR": "10.9.0.0/30", "podCIDRs": ["10.9.0.0/30"]});
    cluster.patch("nodes", "node-0", "", value!({"spec": (range)})).unwrap();
    let spec = r#"{"containers":[{"name":"c","image":"i"}]}"#;
    create_pod(&mut cluster, "first", spec);
    create_pod(&mut cluster, "second", spec);
    assert_eq!(
        (phase_and_reason(&cluster, "first").as_str(), phase_and_reason(&cluster, "second").as_str()),
        ("Running", "Pending")
    );
    let why = events(&cluster, "FailedCreatePodSandBox");
    assert!(
        why.len() == 1 && why[0].ends_with("no IP addresses available in range set: 10.9.0.0/30"),
        "{why:?}"
    );
    run_seconds(&mut cluster, 60);
    cluster.assert_quiet();
    cluster.delete("pods", "default/first", &value!({})).unwrap();
    cluster.settle();
    assert_eq!(phase_and_reason(&cluster, "second"), "Running", "it gets the address without a resync");
    cluster.assert_quiet();
}

#[test]
fn pod_with_too_many_containers_is_rejected() {
    let mut cluster = cluster(small_nodes);
    let containers: Vec<String> = (0..513)
        .map(|i| format!(r#"{{"name":"c{i}","image":"i","imagePullPolicy":"IfNotPresent"}}"#))
        .collect();
    create_pod(&mut cluster, "many", &format!(r#"{{"containers":[{}]}}"#, containers.join(",")));
    let why = "pod has 513 containers, a simulated node runs at most 512 of a pod";
    assert_eq!(
        phase_and_reason(&cluster, "many"),
        format!("Failed UnexpectedAdmissionError: Pod was rejected: {why}")
    );
}
