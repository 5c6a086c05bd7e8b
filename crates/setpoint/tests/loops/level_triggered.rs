//! Level-triggered reconciliation: changes made while a controller is off are corrected from the state,
//! without events.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::Api;
use crate::kubelet::ARGS;
use crate::server::Server;

const PODS: &str = "/api/v1/namespaces/default/pods";
const COUNT: usize = 100;
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Number of consecutive polls in which the count must be stable.
const STABLE_POLLS: usize = 20;

async fn uids(api: &Api) -> BTreeSet<String> {
    let pods = api.list(PODS).await.unwrap();
    pods.iter().map(|pod| pod["metadata"]["uid"].as_str().unwrap().to_owned()).collect()
}

/// Waits for this number of pods, and checks that it is stable.
async fn wait_for_stable_count(api: &Api, count: usize) -> BTreeSet<String> {
    let reaching = async {
        while uids(api).await.len() < count {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    tokio::time::timeout(WAIT_MAX, reaching).await.expect("there are too few pods");
    let first = uids(api).await;
    for _ in 0..STABLE_POLLS {
        tokio::time::sleep(POLL_INTERVAL).await;
        let pods = uids(api).await;
        assert_eq!((pods.len(), &pods), (count, &first));
    }
    first
}

async fn controller_report(api: &Api, controller: &str) -> Value {
    let report = api.get("/setpoint/loop").await.unwrap();
    let all = report["controllers"].as_array().unwrap().clone();
    all.into_iter().find(|one| one["name"] == controller).unwrap_or_default()
}

#[test]
fn pods_deleted_while_the_controller_is_off_are_replaced_exactly() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut server = Server::start_with(ARGS);
    let before = runtime.block_on(async {
        let api = Api::of(&server);
        let label = json!({"app": "web"});
        let spec = json!({"replicas": COUNT, "selector": {"matchLabels": label}, "template": {
            "metadata": {"labels": label}, "spec": {"containers": [{"name": "c", "image": "i"}]}}});
        let set = json!({"metadata": {"name": "web"}, "spec": spec});
        assert_eq!(api.post("/apis/apps/v1/namespaces/default/replicasets", &set).await.unwrap(), 201);
        wait_for_stable_count(&api, COUNT).await
    });
    server.kill_and_restart(&["--controllers=*,-replicaset,-scheduler", "--nodes=0"]);
    runtime.block_on(async {
        let api = Api::of(&server);
        assert_eq!(uids(&api).await, before, "a restart changes nothing");
        assert_eq!(api.delete(PODS, json!({})).await.unwrap(), 200);
        wait_for_stable_count(&api, 0).await;
        assert!(controller_report(&api, "replicaset-controller").await.is_null(), "it is off");
        assert_eq!(controller_report(&api, "deployment-controller").await["panics"], 0, "the others are on");
    });
    server.kill_and_restart(ARGS);
    runtime.block_on(async {
        let api = Api::of(&server);
        let after = wait_for_stable_count(&api, COUNT).await;
        assert!(after.is_disjoint(&before));
        assert_eq!(
            controller_report(&api, "replicaset-controller").await["conflicts"],
            0,
            "no write was retried"
        );
    });
}
