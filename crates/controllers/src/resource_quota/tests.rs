//! Tests of ResourceQuotas in a control plane.

use std::time::Duration;

use setpoint_api::{Value, json, value};
use setpoint_sim::cluster::Cluster;

use crate::testing::{FOOS, create_foos, put_foo};

fn cluster(spec: Value) -> Cluster {
    let mut cluster =
        Cluster::new(|| (vec![Box::new(super::ResourceQuotaController)], crate::indexes::all()), 7);
    cluster.create("resourcequotas", "default", value!({"metadata": {"name": "q"}, "spec": (spec)}));
    cluster.settle();
    cluster
}

fn used(cluster: &Cluster) -> String {
    let quota = cluster.get("resourcequotas", "default/q").unwrap();
    json::to_text(quota.at(&["status", "used"]).unwrap())
}

fn pod(name: &str, extra: Value) -> Value {
    let resources =
        value!({"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}});
    let mut pod = value!({
        "metadata": {"name": (name)},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": (resources)}]},
    });
    for (name, value) in extra.as_map().unwrap().iter() {
        pod.ensure_map("spec").insert(name, value.clone());
    }
    pod
}

#[test]
fn usage_follows_the_objects() {
    let spec = value!({"hard": {
        "pods": "10", "requests.cpu": "2", "limits.memory": "4Gi", "count/configmaps": "5", "configmaps": "5",
        "services.nodeports": "3", "gold.storageclass.storage.k8s.io/requests.storage": "9Gi",
        "requests.example.com/gpu": "4",
    }});
    let mut cluster = cluster(spec);
    assert_eq!(
        used(&cluster),
        r#"{"configmaps":"0","count/configmaps":"0","gold.storageclass.storage.k8s.io/requests.storage":"0","limits.memory":"0","pods":"0","requests.cpu":"0","requests.example.com/gpu":"0","services.nodeports":"0"}"#
    );
    cluster.assert_quiet();
    cluster.create("pods", "default", pod("a", value!({})));
    let most = value!({"requests": {"cpu": "1500m"}, "limits": {"memory": "1Gi"}});
    let init = value!([{"name": "i", "image": "i", "resources": (most)}]);
    cluster.create("pods", "default", pod("b", value!({"initContainers": (init)})));
    cluster.create("configmaps", "default", value!({"metadata": {"name": "m"}}));
    let service = value!({"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    cluster.create("services", "default", service);
    let claim = value!({
        "metadata": {"name": "v"},
        "spec": {
            "storageClassName": "gold", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "3Gi"}},
        },
    });
    cluster.create("persistentvolumeclaims", "default", claim);
    cluster.settle();
    assert_eq!(
        used(&cluster),
        r#"{"configmaps":"1","count/configmaps":"1","gold.storageclass.storage.k8s.io/requests.storage":"3Gi","limits.memory":"2Gi","pods":"2","requests.cpu":"1600m","requests.example.com/gpu":"0","services.nodeports":"1"}"#
    );
    cluster.assert_quiet();
    cluster.patch("pods", "default/b", "status", value!({"status": {"phase": "Succeeded"}})).unwrap();
    cluster
        .patch("resourcequotas", "default/q", "", value!({"spec": {"hard": {"configmaps": null}}}))
        .unwrap();
    cluster.settle();
    assert!(used(&cluster).contains(r#""pods":"1","requests.cpu":"100m""#), "{}", used(&cluster));
    assert!(!used(&cluster).contains(r#""configmaps""#));
    cluster.assert_quiet();
}

#[test]
fn scopes_select_the_counted_objects() {
    for (scope, count) in [
        (value!({"scopes": ["BestEffort"]}), 1),
        (value!({"scopes": ["NotBestEffort"]}), 3),
        (value!({"scopes": ["Terminating"]}), 1),
        (value!({"scopes": ["NotTerminating", "NotBestEffort"]}), 2),
    ] {
        let mut spec = scope;
        spec.make_map().insert("hard", value!({"pods": "10"}));
        let mut cluster = cluster(spec.clone());
        cluster.create("pods", "default", pod("a", value!({})));
        cluster.create("pods", "default", pod("b", value!({})));
        cluster.create("pods", "default", pod("c", value!({"activeDeadlineSeconds": 5})));
        let plain =
            value!({"metadata": {"name": "d"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        cluster.create("pods", "default", plain);
        cluster.settle();
        assert_eq!(used(&cluster), format!(r#"{{"pods":"{count}"}}"#), "{spec:?}");
    }
}

#[test]
fn pod_past_its_grace_period_uses_nothing() {
    let mut cluster = cluster(value!({"hard": {"pods": "10"}}));
    cluster.create("pods", "default", pod("a", value!({"nodeName": "n"})));
    cluster.settle();
    cluster.delete("pods", "default/a", &value!({})).unwrap();
    cluster.settle();
    assert_eq!(used(&cluster), r#"{"pods":"1"}"#);
    cluster.run(Duration::from_secs(70));
    assert!(cluster.get("pods", "default/a").is_some());
    assert_eq!(used(&cluster), r#"{"pods":"0"}"#);
    cluster.assert_quiet();
}

#[test]
fn rejected_pods_are_reported_and_created_once_quota_allows() {
    for (resource, selector) in [
        ("replicasets.apps", value!({"matchLabels": {"app": "web"}})),
        ("replicationcontrollers", value!({"app": "web"})),
    ] {
        let controllers = || -> (Vec<Box<dyn setpoint_reconcile::Controller>>, _) {
            let list: Vec<Box<dyn setpoint_reconcile::Controller>> = vec![
                Box::new(crate::replica_set::ReplicaSetController),
                Box::new(crate::replication_controller::ReplicationControllerController),
                Box::new(super::ResourceQuotaController),
            ];
            (list, crate::indexes::all())
        };
        let mut cluster = Cluster::new(controllers, 7);
        let quota = value!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}});
        cluster.create("resourcequotas", "default", quota);
        cluster.settle();
        let template = value!({
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        });
        let spec = value!({"replicas": 3, "selector": (selector), "template": (template)});
        cluster.create(resource, "default", value!({"metadata": {"name": "web"}, "spec": (spec)}));
        cluster.run(Duration::from_secs(2));
        assert_eq!(
            (cluster.list("pods").len(), used(&cluster).as_str()),
            (2, r#"{"pods":"2"}"#),
            "{resource}"
        );
        let failure = |cluster: &Cluster| {
            let set = cluster.get(resource, "default/web").unwrap();
            let conditions = set.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
            conditions.iter().find(|condition| condition.str_at(&["type"]) == "ReplicaFailure").cloned()
        };
        let condition = failure(&cluster).unwrap();
        assert_eq!((condition.str_at(&["status"]), condition.str_at(&["reason"])), ("True", "FailedCreate"));
        let message = "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2";
        assert!(condition.str_at(&["message"]).ends_with(message), "{condition:?}");
        let events = cluster.list("events");
        let reports_failure = |event: &Value| {
            event.str_at(&["reason"]) == "FailedCreate" && event.str_at(&["message"]).ends_with(message)
        };
        assert!(events.iter().any(reports_failure), "{events:?}");
        cluster.patch(resource, "default/web", "", value!({"spec": {"replicas": 2}})).unwrap();
        cluster.run(Duration::from_secs(2));
        assert_eq!(failure(&cluster), None);
        cluster.assert_quiet();
        // A larger quota admits the rest.
        cluster.patch(resource, "default/web", "", value!({"spec": {"replicas": 4}})).unwrap();
        cluster.patch("resourcequotas", "default/q", "", value!({"spec": {"hard": {"pods": "4"}}})).unwrap();
        cluster.run(Duration::from_secs(600));
        assert_eq!(
            (cluster.list("pods").len(), used(&cluster).as_str()),
            (4, r#"{"pods":"4"}"#),
            "{resource}"
        );
        assert_eq!(failure(&cluster), None);
        cluster.assert_quiet();
    }
}

#[test]
fn deployment_over_quota_backs_off_visibly_and_heals_at_once() {
    let controllers = || -> (Vec<Box<dyn setpoint_reconcile::Controller>>, _) {
        let list: Vec<Box<dyn setpoint_reconcile::Controller>> = vec![
            Box::new(crate::deployment::DeploymentController),
            Box::new(crate::replica_set::ReplicaSetController),
            Box::new(super::ResourceQuotaController),
        ];
        (list, crate::indexes::all())
    };
    let mut cluster = Cluster::new(controllers, 11);
    cluster.create(
        "resourcequotas",
        "default",
        value!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}),
    );
    cluster.settle();
    let template = value!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let selector = value!({"matchLabels": {"app": "web"}});
    let spec = value!({"replicas": 5, "selector": (selector), "template": (template)});
    cluster.create("deployments.apps", "default", value!({"metadata": {"name": "web"}, "spec": (spec)}));
    cluster.run(Duration::from_secs(60));
    assert_eq!((cluster.list("pods").len(), used(&cluster).as_str()), (2, r#"{"pods":"2"}"#));
    let condition = |cluster: &Cluster| {
        let deployment = cluster.get("deployments.apps", "default/web").unwrap();
        let conditions =
            deployment.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
        conditions.iter().find(|condition| condition.str_at(&["type"]) == "ReplicaFailure").cloned()
    };
    let shown = condition(&cluster).unwrap();
    assert_eq!((shown.str_at(&["status"]), shown.str_at(&["reason"])), ("True", "FailedCreate"));
    let why = "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2";
    assert!(shown.str_at(&["message"]).ends_with(why), "{shown:?}");
    let events = cluster.list("events");
    assert!(events.iter().any(|event| event.str_at(&["reason"]) == "FailedCreate"), "{events:?}");
    // The loop's report shows the failures, the reason, and the time of the next attempt.
    let state = |cluster: &Cluster| {
        let keys = cluster.engine.keys("replicaset-controller");
        keys.into_iter().find(|state| state.failures > 0)
    };
    let backing_off = state(&cluster).unwrap();
    assert!(backing_off.failures >= 5, "{}", backing_off.failures);
    let next = backing_off.next.unwrap();
    assert!(next > cluster.now.after(Duration::from_secs(5)), "the next attempt is far away");
    assert!(backing_off.last_error.is_some_and(|error| error.ends_with(why)));
    cluster.patch("resourcequotas", "default/q", "", value!({"spec": {"hard": {"pods": "5"}}})).unwrap();
    cluster.settle();
    assert!(cluster.now < next, "it does not wait for the next attempt");
    assert_eq!((cluster.list("pods").len(), used(&cluster).as_str()), (5, r#"{"pods":"5"}"#));
    assert_eq!(condition(&cluster), None);
    assert!(state(&cluster).is_none());
    cluster.assert_quiet();
}

#[test]
fn devices_of_a_class_are_counted() {
    let hard =
        value!({"count/resourceclaims.resource.k8s.io": "9", "gpu.deviceclass.resource.k8s.io/devices": "9"});
    let mut cluster = cluster(value!({"hard": (hard)}));
    let exactly = value!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2});
    let all = value!({"name": "b", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 3});
    let requests = value!([{"name": "a", "exactly": (exactly)}, {"name": "c", "firstAvailable": [(all)]}]);
    let claim = value!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": (requests)}}});
    cluster.create("resourceclaims.resource.k8s.io", "default", claim);
    cluster.settle();
    assert_eq!(
        used(&cluster),
        r#"{"count/resourceclaims.resource.k8s.io":"1","gpu.deviceclass.resource.k8s.io/devices":"5"}"#
    );
    cluster.assert_quiet();
}

#[test]
fn stale_count_conflicts_with_a_concurrent_admission() {
    let mut cluster = cluster(value!({"hard": {"pods": "2"}}));
    cluster.create("pods", "default", pod("a", value!({})));
    cluster.settle();
    cluster.delete("pods", "default/a", &value!({"gracePeriodSeconds": 0})).unwrap();
    cluster.observe();
    cluster.plan();
    assert!(cluster.next_write().is_some());
    cluster.create("pods", "default", pod("b", value!({})));
    assert_eq!(used(&cluster), r#"{"pods":"2"}"#);
    cluster.perform();
    assert!(cluster.history.last().unwrap().ends_with("Conflict"), "{:?}", cluster.history);
    assert_eq!(used(&cluster), r#"{"pods":"2"}"#);
    cluster.settle();
    assert_eq!(used(&cluster), r#"{"pods":"1"}"#);
    cluster.assert_quiet();
}

#[test]
fn recorded_usage_is_never_below_actual_usage_in_any_view() {
    for seed in 0..16 {
        let mut cluster = cluster(value!({"hard": {"pods": "5", "count/configmaps": "4"}}));
        cluster.rng = fastrand::Rng::with_seed(seed);
        let second = value!({
            "metadata": {"name": "r"},
            "spec": {"hard": {"pods": "3"}, "scopes": ["NotBestEffort"]},
        });
        cluster.create("resourcequotas", "default", second);
        cluster.settle();
        let mut full = 0;
        for n in 0..120 {
            match cluster.rng.u8(..10) {
                0..3 => {
                    let resources =
                        if cluster.rng.bool() { value!({"requests": {"cpu": "1m"}}) } else { value!({}) };
                    let spec =
                        value!({"containers": [{"name": "c", "image": "i", "resources": (resources)}]});
                    let pod = value!({"metadata": {"name": (format!("p{n}"))}, "spec": (spec)});
                    full += usize::from(cluster.try_create("pods", "default", pod).is_err());
                }
                3 => {
                    let map = value!({"metadata": {"name": (format!("m{n}"))}});
                    let _ = cluster.try_create("configmaps", "default", map);
                }
                4 | 5 => {
                    let (resource, objects) = match cluster.rng.bool() {
                        true => ("pods", cluster.list("pods")),
                        false => ("configmaps", cluster.list("configmaps")),
                    };
                    if !objects.is_empty() {
                        let name = objects[cluster.rng.usize(..objects.len())]
                            .str_at(&["metadata", "name"])
                            .to_owned();
                        cluster
                            .delete(resource, &format!("default/{name}"), &value!({"gracePeriodSeconds": 0}))
                            .unwrap();
                    }
                }
                6 | 7 => cluster.observe_some(),
                8 => drop(cluster.plan()),
                _ => drop(cluster.perform()),
            }
            assert_counted(&cluster, "q", "pods", cluster.list("pods").len(), 5, seed);
            assert_counted(&cluster, "q", "count/configmaps", cluster.list("configmaps").len(), 4, seed);
            let asks = |pod: &&Value| !json::to_text(pod).contains(r#""resources":{}"#);
            let asking = cluster.list("pods").iter().filter(asks).count();
            assert_counted(&cluster, "r", "pods", asking, 3, seed);
        }
        assert!(full > 0, "some are rejected");
        cluster.mend_watches();
        cluster.run(Duration::from_secs(60));
        let pods = cluster.list("pods").len();
        let maps = cluster.list("configmaps").len();
        assert_eq!(
            used(&cluster),
            format!(r#"{{"count/configmaps":"{maps}","pods":"{pods}"}}"#),
            "seed {seed}"
        );
        cluster.assert_quiet();
    }
}

/// Asserts that the actual count is at most the recorded usage, and that is at most the limit.
fn assert_counted(cluster: &Cluster, quota: &str, name: &str, there: usize, hard: usize, seed: u64) {
    let quota = cluster.get("resourcequotas", &format!("default/{quota}")).unwrap();
    let used: usize = quota.str_at(&["status", "used", name]).parse().unwrap();
    assert!(
        there <= used && used <= hard,
        "seed {seed}: {there} {name}, {used} used, {:#?}",
        cluster.history
    );
}

#[test]
fn custom_objects_are_counted_from_the_establishment_of_their_definition() {
    let mut cluster = Cluster::new(
        || {
            let mut all = crate::crd::server_controllers();
            all.push(Box::new(super::ResourceQuotaController));
            (all, crate::indexes::all())
        },
        7,
    );
    let spec = value!({"hard": {"count/foos.example.com": "5"}});
    cluster.create("resourcequotas", "default", value!({"metadata": {"name": "q"}, "spec": (spec)}));
    cluster.settle();
    create_foos(&mut cluster, value!({}));
    assert_eq!(used(&cluster), r#"{"count/foos.example.com":"0"}"#);
    for name in ["x", "y"] {
        put_foo(&mut cluster, name, &value!({}), value!({}));
    }
    cluster.settle();
    assert_eq!(used(&cluster), r#"{"count/foos.example.com":"2"}"#);
    cluster.put_stored(FOOS, "default/x", None);
    cluster.settle();
    assert_eq!(used(&cluster), r#"{"count/foos.example.com":"1"}"#);
    cluster.assert_quiet();
}
