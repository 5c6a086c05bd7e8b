//! Example operator with a kind of its own, against a server.

use std::time::Duration;

use serde_json::{Value, json};

use crate::api::Api;
use crate::server::Server;

#[path = "../../../../examples/operator.rs"]
#[expect(dead_code, reason = "its main is not used")]
mod example;

const WEBSITES: &str = "/apis/example.org/v1/namespaces/default/websites";
const HOME: &str = "/apis/example.org/v1/namespaces/default/websites/home";
const PAGE: &str = "/api/v1/namespaces/default/configmaps/home";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/home";
const POLL_INTERVAL: Duration = Duration::from_millis(5);
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Waits until an object is in a state. Returns it.
async fn wait_for(api: &Api, path: &str, is_done: impl Fn(&Value) -> bool) -> Value {
    let mut found = Value::Null;
    let polling = async {
        loop {
            found = api.get(path).await.unwrap();
            if is_done(&found) {
                return;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let result = tokio::time::timeout(WAIT_MAX, polling).await;
    assert!(result.is_ok(), "{path} stays {found}");
    found
}

/// Creates the website as soon as its kind is served.
async fn create_website(api: &Api) {
    let site = json!({"apiVersion": "example.org/v1", "kind": "Website", "metadata": {"name": "home"},
        "spec": {"text": "hello"}});
    let creating = async {
        loop {
            match api.post(WEBSITES, &site).await.unwrap() {
                404 => tokio::time::sleep(POLL_INTERVAL).await,
                code => break assert_eq!(code, 201),
            }
        }
    };
    tokio::time::timeout(WAIT_MAX, creating).await.expect("the kind is not served");
}

fn has_text(text: &str) -> impl Fn(&Value) -> bool {
    let data = json!({"index.html": text});
    move |page| page["data"] == data
}

fn is_ready(count: u64) -> impl Fn(&Value) -> bool {
    move |object| object["status"]["ready"] == count
}

fn is_gone(object: &Value) -> bool {
    object["reason"] == "NotFound"
}

async fn run_steps(server: &Server) {
    let api = Api::of(server);
    create_website(&api).await;
    // The default of the schema is two replicas.
    wait_for(&api, HOME, is_ready(2)).await;
    wait_for(&api, PAGE, has_text("hello")).await;

    // Changes of others are corrected.
    let edit = json!({"data": {"index.html": "edited", "more": "one too many"}});
    assert_eq!(api.merge(PAGE, &edit).await.unwrap(), 200);
    wait_for(&api, PAGE, has_text("hello")).await;
    assert_eq!(api.delete(PAGE, json!({})).await.unwrap(), 200);
    wait_for(&api, PAGE, has_text("hello")).await;
    let first = api.get(DEPLOYMENT).await.unwrap()["metadata"]["uid"].clone();
    assert_eq!(api.delete(DEPLOYMENT, json!({"propagationPolicy": "Background"})).await.unwrap(), 200);
    wait_for(&api, DEPLOYMENT, |found| !is_gone(found) && found["metadata"]["uid"] != first).await;
    assert_eq!(api.merge(DEPLOYMENT, &json!({"spec": {"replicas": 5}})).await.unwrap(), 200);
    wait_for(&api, DEPLOYMENT, |found| found["spec"]["replicas"] == 2).await;
    wait_for(&api, HOME, is_ready(2)).await;

    // The website is followed, within its schema.
    let change = json!({"spec": {"text": "welcome", "replicas": 3}});
    assert_eq!(api.merge(HOME, &change).await.unwrap(), 200);
    wait_for(&api, HOME, is_ready(3)).await;
    wait_for(&api, PAGE, has_text("welcome")).await;
    assert_eq!(api.merge(HOME, &json!({"spec": {"replicas": 10}})).await.unwrap(), 422);

    assert_eq!(api.delete(HOME, json!({})).await.unwrap(), 200);
    for path in [HOME, PAGE, DEPLOYMENT] {
        wait_for(&api, path, is_gone).await;
    }
}

#[test]
fn operator_of_the_example_keeps_its_websites_over_http() {
    let server = Server::start_with(&["--nodes=1", "--pod-start=0"]);
    let text = std::fs::read(&server.kubeconfig).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::select! {
            ended = example::run(&text) => panic!("the operator ended: {ended:?}"),
            () = run_steps(&server) => {}
        }
    });
}
