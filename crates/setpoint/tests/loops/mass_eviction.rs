//! Thundering herd: a node with five hundred pods fails, and other work is not starved.
//!
//! Durations and queue lengths are printed, not asserted.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::Api;
use crate::node_failures::{SHORT_PERIODS, node};
use crate::processes::{kubectl, wait_for};
use crate::server::Server;

const PODS_ON_NODE: usize = 500;
/// Number of small Deployments that are created while the herd is replaced.
const OTHER_DEPLOYMENTS: usize = 20;
const FAILED_NODE: &str = "node-1";
const APPS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PODS: &str = "/api/v1/namespaces/default/pods";
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const WAIT_MAX: Duration = Duration::from_secs(240);

fn deployment(name: &str, replicas: usize) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
}

/// Number of pods of the herd that are ready on other nodes.
async fn ready(api: &Api) -> usize {
    let pods = api.list(&format!("{PODS}?labelSelector=app%3Dherd")).await.unwrap();
    let is_ready = |pod: &&Value| {
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        pod["spec"]["nodeName"] != FAILED_NODE
            && conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
    };
    pods.iter().filter(is_ready).count()
}

/// Maximum queue length of each controller.
async fn peak_queue_lengths(api: &Api) -> BTreeMap<String, u64> {
    let report = api.get("/setpoint/loop").await.unwrap();
    let lines = report["controllers"].as_array().unwrap().iter();
    lines
        .map(|line| (line["name"].as_str().unwrap().to_owned(), line["waitingMax"].as_u64().unwrap()))
        .collect()
}

/// Polls until the herd is replaced, and creates other work meanwhile.
async fn replace(api: &Api) {
    let mut made = 0;
    loop {
        let moved = ready(api).await;
        // Other work begins when the herd has start to move.
        if moved > 0 && made < OTHER_DEPLOYMENTS {
            assert_eq!(api.post(APPS, &deployment(&format!("other-{made}"), 1)).await.unwrap(), 201);
            made += 1;
        }
        if moved == PODS_ON_NODE && made == OTHER_DEPLOYMENTS {
            return;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

#[test]
fn failed_node_with_five_hundred_pods_starves_no_other_work() {
    // A node with this many pods needs a pod CIDR of that size.
    let size = ["--nodes=4", "--node-pods=600", "--node-cidr-mask-size=22", "--pod-start=0"];
    let server = Server::start_with(&[&size, &SHORT_PERIODS[..]].concat());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    wait_for(&server, &["get", "nodes", "--no-headers"], |output| output.matches(" Ready ").count() == 4);
    let others = ["node-0", "node-2", "node-3"];
    others.iter().for_each(|name| drop(kubectl(&server, &["cordon", name])));
    let api = Api::of(&server);
    let made = runtime.block_on(api.post(APPS, &deployment("herd", PODS_ON_NODE))).unwrap();
    assert_eq!(made, 201);
    let available = ["get", "deployment", "herd", "-o", "jsonpath={.status.availableReplicas}"];
    wait_for(&server, &available, |output| output == PODS_ON_NODE.to_string());
    others.iter().for_each(|name| drop(kubectl(&server, &["uncordon", name])));

    let before = runtime.block_on(peak_queue_lengths(&api));
    node(&server, "stop", FAILED_NODE);
    let start = Instant::now();
    runtime.block_on(async {
        tokio::time::timeout(WAIT_MAX, replace(&api)).await.expect("the pods are not replaced");
    });
    println!("{PODS_ON_NODE} pods replaced {:?} after their node stopped", start.elapsed());
    let mut grown = runtime.block_on(peak_queue_lengths(&api));
    grown.retain(|name, longest| before[name] < *longest);
    println!("queues that became longer than at the creation of the herd: {grown:?}");
    for number in 0..OTHER_DEPLOYMENTS {
        let name = format!("other-{number}");
        let path = ["get", "deployment", &name, "-o", "jsonpath={.status.availableReplicas}"];
        wait_for(&server, &path, |output| output == "1");
    }
    let pods = runtime.block_on(api.list(PODS)).unwrap();
    let terminating = pods.iter().filter(|pod| !pod["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(
        (pods.len(), terminating.count()),
        (2 * PODS_ON_NODE + OTHER_DEPLOYMENTS, PODS_ON_NODE),
        "pods on the failed node stay until it confirms"
    );
}
