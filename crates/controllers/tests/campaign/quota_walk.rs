//! The quota walk: a Deployment whose pods exceed a quota, and the quota that is raised.

use std::time::Duration;

use setpoint_api::{Value, value};
use setpoint_server::loop_report;
use setpoint_sim::cluster::Cluster;

use super::CONTROLLERS;

const DEPLOYMENTS: &str = "deployments.apps";
const SETS: &str = "replicasets.apps";
const QUOTAS: &str = "resourcequotas";
/// Name of the controller under `/setpoint/loop`.
const CONTROLLER: &str = "replicaset-controller";

fn condition(object: &Value, name: &str) -> Option<(String, String, String)> {
    let conditions = object.at(&["status", "conditions"]).and_then(Value::as_list)?;
    let condition = conditions.iter().find(|condition| condition.str_at(&["type"]) == name)?;
    let text = |field: &str| condition.str_at(&[field]).to_owned();
    Some((text("status"), text("reason"), text("message")))
}

/// State of the only key of the controller as `/setpoint/loop` shows it.
fn key_state(cluster: &Cluster) -> Value {
    let report = loop_report::keys(&cluster.engine, CONTROLLER).unwrap();
    let keys = report.get("keys").and_then(Value::as_list).unwrap();
    let mut failing = keys.iter().filter(|key| key.get("failures").and_then(Value::as_i64) != Some(0));
    failing.next().cloned().unwrap_or_default()
}

fn failures(cluster: &Cluster) -> i64 {
    key_state(cluster).get("failures").and_then(Value::as_i64).unwrap_or(0)
}

#[test]
fn deployment_over_quota_shows_its_failure_backs_off_and_heals_at_once() {
    let mut cluster = Cluster::new(CONTROLLERS, 1);
    cluster.create(QUOTAS, "default", value!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}));
    cluster.settle();
    let template = value!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let spec = value!({"replicas": 5, "selector": {"matchLabels": {"app": "web"}}, "template": (template)});
    cluster.create(DEPLOYMENTS, "default", value!({"metadata": {"name": "web"}, "spec": (spec)}));
    // The conditions show the failure with the next plan, after the first backoff.
    cluster.run(Duration::from_millis(20));
    let exceeded = "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2";
    assert_eq!(cluster.list("pods").len(), 2, "the quota is used up and never exceeded");
    let shows_failure = |cluster: &Cluster, resource: &str| {
        let (status, reason, message) = condition(&cluster.list(resource)[0], "ReplicaFailure").unwrap();
        assert_eq!((status.as_str(), reason.as_str()), ("True", "FailedCreate"), "{resource}");
        assert!(message.ends_with(exceeded), "{resource}: {message}");
    };
    shows_failure(&cluster, SETS);
    shows_failure(&cluster, DEPLOYMENTS);
    let events = cluster.list("events");
    let is_failure = |event: &&Value| {
        event.str_at(&["reason"]) == "FailedCreate"
            && event.str_at(&["involvedObject", "kind"]) == "ReplicaSet"
            && event.str_at(&["message"]).ends_with(exceeded)
    };
    assert!(events.iter().any(|event| is_failure(&event)), "{events:?}");
    // The key of the ReplicaSet waits longer after each failure, and its state names the reason.
    let mut waits = Vec::new();
    while cluster.engine.keys(CONTROLLER).iter().any(|key| key.failures < 12) {
        let before = failures(&cluster);
        let next = cluster.engine.keys(CONTROLLER).into_iter().find_map(|key| key.next).unwrap();
        assert!(next > cluster.now, "it does not retry at once");
        waits.push(next.since(cluster.now));
        cluster.run(next.since(cluster.now));
        assert_eq!(failures(&cluster), before + 1, "each retry counts");
        assert_eq!(cluster.list("pods").len(), 2);
    }
    assert!(waits.is_sorted() && waits.last() > Some(&(waits[0] * 100)), "{waits:?}");
    let state = key_state(&cluster);
    assert!(state.str_at(&["key"]).starts_with("replicasets.apps/default/web-"), "{state:?}");
    assert!(state.str_at(&["lastError"]).contains(exceeded), "{state:?}");
    assert!(!state.str_at(&["next"]).is_empty(), "{state:?}");
    // Within the backoff nothing else happens.
    let (now, next) = (cluster.now, cluster.engine.keys(CONTROLLER)[0].next.unwrap());
    assert!(next.since(now) > Duration::from_secs(5), "{:?}", next.since(now));
    // A raised quota heals it without waiting for the end of the backoff.
    cluster.patch(QUOTAS, "default/q", "", value!({"spec": {"hard": {"pods": "5"}}})).unwrap();
    cluster.settle();
    assert_eq!(cluster.now, now, "no time has passed");
    assert_eq!(cluster.list("pods").len(), 5);
    cluster.run(Duration::from_secs(1));
    assert_eq!(condition(&cluster.list(SETS)[0], "ReplicaFailure"), None);
    assert_eq!(condition(&cluster.list(DEPLOYMENTS)[0], "ReplicaFailure"), None);
    assert_eq!(failures(&cluster), 0);
    let used = cluster.get(QUOTAS, "default/q").unwrap();
    assert_eq!(used.str_at(&["status", "used", "pods"]), "5");
}
