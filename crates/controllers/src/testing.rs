//! What the tests of several controllers ask of a cluster.

use setpoint_api::{Value, value};
use setpoint_sim::cluster::Cluster;

/// A number of the status of an object; 0 if it is not there.
pub fn number(cluster: &Cluster, resource: &str, path: &str, field: &str) -> i64 {
    let object = cluster.get(resource, path).unwrap();
    object.at(&["status", field]).and_then(Value::as_i64).unwrap_or(0)
}

/// A condition of an object as `status reason message`; empty if it is not there.
pub fn condition(cluster: &Cluster, resource: &str, path: &str, kind: &str) -> String {
    let object = cluster.get(resource, path).unwrap();
    let conditions =
        object.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default().to_vec();
    let found = conditions.iter().find(|condition| condition.str_at(&["type"]) == kind);
    found.map_or(String::new(), |found| {
        let part = |name| found.str_at(&[name]);
        format!("{} {} {}", part("status"), part("reason"), part("message"))
    })
}

/// Whether somebody was told this, for this reason.
pub fn was_told(cluster: &Cluster, reason: &str, message: &str) -> bool {
    let events = cluster.list("events");
    events.iter().any(|event| event.str_at(&["reason"]) == reason && event.str_at(&["message"]) == message)
}

/// The names of all objects of a resource.
pub fn names(cluster: &Cluster, resource: &str) -> Vec<String> {
    cluster.list(resource).iter().map(|object| object.str_at(&["metadata", "name"]).to_owned()).collect()
}

/// A template of pods with the label `app`, told apart by its image.
pub fn template(app: &str, image: &str) -> Value {
    value!({
        "metadata": {"labels": {"app": (app)}},
        "spec": {"containers": [{"name": "c", "image": (image)}]},
    })
}

/// A pod that somebody deleted and that has not gone yet.
pub fn is_going(pod: &Value) -> bool {
    pod.at(&["metadata", "deletionTimestamp"]).is_some()
}

/// Whether a pod can serve.
pub fn is_ready(pod: &Value) -> bool {
    let conditions = pod.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
    !is_going(pod)
        && conditions.iter().any(|it| it.str_at(&["type"]) == "Ready" && it.str_at(&["status"]) == "True")
}

/// Binds every pod to some node, so that it needs time to go when it is deleted.
pub fn bind_all(cluster: &mut Cluster) {
    for pod in cluster.list("pods") {
        let path = format!("default/{}", pod.str_at(&["metadata", "name"]));
        if pod.str_at(&["spec", "nodeName"]).is_empty() {
            cluster.bind(&path, "n").unwrap();
        }
    }
}
