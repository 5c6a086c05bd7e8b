//! Leader election: of two loops in different processes one acts, and the other takes over when it is
//! killed.

use std::time::Duration;

use serde_json::{Value, json};
use setpoint_api::{Time, rfc3339};

use crate::api::Api;
use crate::processes::run_controllers;
use crate::server::{Server, WITHOUT_CONTROLLERS};

/// Duration of the Lease.
const LEASE: Duration = Duration::from_secs(15);
const DEADLINE: Duration = Duration::from_secs(10);
/// Slack for busy machines.
const GRACE: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const WAIT_MAX: Duration = Duration::from_secs(60);

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// Creates work for two loops with different controllers: for a ReplicaSet the first creates a pod, for a
/// Deployment the second creates a ReplicaSet. The created objects show which loop acted, and their
/// revisions when.
async fn make_work(api: &Api, number: usize) {
    let label = json!({"app": format!("w-{number}")});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": label}, "template": {
        "metadata": {"labels": label}, "spec": {"containers": [{"name": "c", "image": "i"}]}}});
    let object = json!({"metadata": {"name": format!("w-{number}")}, "spec": spec});
    // The ReplicaSet has another label, so that the Deployment does not adopt it.
    let mut set = object.clone();
    for pointer in ["/spec/selector/matchLabels/app", "/spec/template/metadata/labels/app"] {
        *set.pointer_mut(pointer).unwrap() = json!(format!("alone-{number}"));
    }
    assert_eq!(api.post(SETS, &set).await.unwrap(), 201);
    assert_eq!(api.post(DEPLOYMENTS, &object).await.unwrap(), 201);
}

/// Revisions of the objects that the first loop created, and of those that the second created.
async fn created_revisions(api: &Api) -> (Vec<u64>, Vec<u64>) {
    let pods = api.list(PODS).await.unwrap().iter().map(revision).collect();
    let sets = api.list(SETS).await.unwrap();
    let made =
        sets.iter().filter(|set| set["metadata"]["ownerReferences"].is_array()).map(revision).collect();
    (pods, made)
}

/// Creates work until `enough` returns true.
async fn work_until(api: &Api, number: &mut usize, enough: impl Fn(&[u64], &[u64]) -> bool) {
    let working = async {
        loop {
            *number += 1;
            make_work(api, *number).await;
            let (first, second) = created_revisions(api).await;
            if enough(&first, &second) {
                return;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    tokio::time::timeout(WAIT_MAX, working).await.expect("no loop acts");
}

fn time(lease: &Value, field: &str) -> Time {
    rfc3339::parse_micros(lease["spec"][field].as_str().unwrap()).unwrap()
}

/// Returns every version of the Lease, from its creation to the last one.
async fn versions(api: &Api) -> Vec<Value> {
    let newest = api.get(&format!("{LEASES}/kube-controller-manager")).await.unwrap();
    let path =
        format!("{LEASES}?watch=1&fieldSelector=metadata.name%3Dkube-controller-manager&resourceVersion=");
    let begin = api.get("/api/v1/namespaces/default").await.unwrap();
    api.watch(&format!("{path}{}", revision(&begin)), revision(&newest)).await
}

async fn takeover(server: &Server) {
    let api = Api::of(server);
    let number = &mut 0;
    let leader = run_controllers(server, &["--controllers=replicaset"]);
    work_until(&api, number, |pods, _| pods.len() > 3).await;
    let _waiting = run_controllers(server, &["--controllers=deployment"]);
    // Long enough for the second candidate to try many times.
    let count = *number;
    work_until(&api, number, |pods, _| pods.len() > count + 30).await;
    drop(leader);
    work_until(&api, number, |_, sets| sets.len() > 3).await;
    let count = *number;
    work_until(&api, number, |_, sets| sets.len() > count + 30).await;

    let versions = versions(&api).await;
    let holder = |lease: &Value| lease["spec"]["holderIdentity"].as_str().unwrap().to_owned();
    let old = holder(&versions[0]);
    let at = versions.iter().position(|lease| holder(lease) != old).expect("the holder changes");
    let (last, taken) = (&versions[at - 1], &versions[at]);
    assert!(versions[at..].iter().all(|lease| holder(lease) == holder(taken)), "it changes once");
    assert_eq!(taken["spec"]["leaseTransitions"], 1);
    let unrenewed = time(taken, "acquireTime").since(time(last, "renewTime"));
    assert!(unrenewed > DEADLINE && unrenewed < LEASE + GRACE, "the lease is taken after {unrenewed:?}");
    let (pods, sets) = created_revisions(&api).await;
    let taken = revision(taken);
    assert!(pods.iter().all(|pod| *pod < taken), "the first acts after {taken}: {pods:?}");
    assert!(sets.iter().all(|set| *set > taken), "the second acts before {taken}: {sets:?}");
}

#[test]
fn next_leader_takes_over_within_the_lease_and_two_never_act() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(takeover(&Server::start_with(WITHOUT_CONTROLLERS)));
}
