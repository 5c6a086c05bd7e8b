//! Tests of terminating namespaces in a control plane.

use std::time::Duration;

use setpoint_api::{Value, value};
use setpoint_sim::cluster::Cluster;

use crate::testing::{FOOS, create_foos, put_foo};

fn cluster() -> Cluster {
    let mut cluster = Cluster::new(|| (vec![Box::new(super::NamespaceController)], crate::indexes::all()), 7);
    cluster.create("namespaces", "", value!({"metadata": {"name": "a"}}));
    cluster.create("namespaces", "", value!({"metadata": {"name": "a-b"}}));
    cluster
}

fn fill(cluster: &mut Cluster, namespace: &str) {
    for n in 0..5 {
        cluster.create("configmaps", namespace, value!({"metadata": {"name": (format!("m{n}"))}}));
        cluster.create(
            "leases.coordination.k8s.io",
            namespace,
            value!({"metadata": {"name": (format!("l{n}"))}}),
        );
    }
    cluster.create("serviceaccounts", namespace, value!({"metadata": {"name": "s"}}));
}

fn pod(cluster: &mut Cluster, name: &str) {
    let pod = value!({
        "metadata": {"name": (name)},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    });
    cluster.create("pods", "a", pod);
}

fn delete(cluster: &mut Cluster) {
    cluster.delete("namespaces", "a", &value!({})).unwrap();
}

fn condition(cluster: &Cluster, kind: &str) -> (String, String, String) {
    let namespace = cluster.get("namespaces", "a").unwrap();
    let conditions = namespace.at(&["status", "conditions"]).and_then(Value::as_list).unwrap();
    let found = conditions.iter().find(|condition| condition.str_at(&["type"]) == kind).unwrap();
    let text = |field: &str| found.str_at(&[field]).to_owned();
    (text("status"), text("reason"), text("message"))
}

fn expected(status: &str, reason: &str, message: &str) -> (String, String, String) {
    (status.to_owned(), reason.to_owned(), message.to_owned())
}

#[test]
fn namespace_is_deleted_after_its_content_and_nothing_else() {
    let mut cluster = cluster();
    fill(&mut cluster, "a");
    fill(&mut cluster, "a-b");
    cluster.settle();
    assert_eq!(cluster.list("configmaps").len(), 10);
    delete(&mut cluster);
    cluster.settle();
    assert!(cluster.get("namespaces", "a").is_none());
    assert_eq!(cluster.list("configmaps").len(), 5);
    assert_eq!(cluster.list("leases.coordination.k8s.io").len(), 5);
    cluster.assert_quiet();
}

#[test]
fn pods_are_deleted_first_with_their_grace_period() {
    let mut cluster = cluster();
    fill(&mut cluster, "a");
    pod(&mut cluster, "p");
    pod(&mut cluster, "q");
    delete(&mut cluster);
    cluster.settle();
    let deleted = cluster.get("pods", "a/p").unwrap();
    assert_eq!(deleted.at(&["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64), Some(30));
    assert_eq!(cluster.list("configmaps").len(), 5, "the rest waits for pods");
    let (status, reason, message) = condition(&cluster, "NamespaceContentRemaining");
    assert_eq!((status.as_str(), reason.as_str()), ("True", "SomeResourcesRemain"));
    assert!(
        message.starts_with("Some resources are remaining: configmaps. has 5 resource instances, "),
        "{message}"
    );
    assert!(message.contains("pods. has 2 resource instances"), "{message}");
    cluster.assert_quiet();
    cluster.delete("pods", "a/q", &value!({"gracePeriodSeconds": 0})).unwrap();
    cluster.run(Duration::from_secs(20));
    let (_, _, message) = condition(&cluster, "NamespaceContentRemaining");
    assert!(message.contains("pods. has 1 resource instances"), "{message}");
    cluster.delete("pods", "a/p", &value!({"gracePeriodSeconds": 0})).unwrap();
    cluster.settle();
    assert!(cluster.get("namespaces", "a").is_none());
    cluster.assert_quiet();
}

#[test]
fn finalizers_block_deletion_and_are_in_the_conditions() {
    let mut cluster = cluster();
    fill(&mut cluster, "a");
    let held = value!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    cluster.create("configmaps", "a", held);
    delete(&mut cluster);
    cluster.settle();
    assert_eq!(cluster.list("configmaps").len(), 1);
    assert_eq!(
        condition(&cluster, "NamespaceFinalizersRemaining"),
        expected(
            "True",
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
        )
    );
    assert_eq!(
        condition(&cluster, "NamespaceContentRemaining"),
        expected(
            "True",
            "SomeResourcesRemain",
            "Some resources are remaining: configmaps. has 1 resource instances"
        )
    );
    assert_eq!(
        condition(&cluster, "NamespaceDeletionContentFailure"),
        expected(
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization"
        )
    );
    cluster.assert_quiet();
    cluster.run(Duration::from_secs(100));
    let revision = cluster.store.snapshot().revision();
    cluster.run(Duration::from_secs(100));
    assert_eq!(cluster.store.snapshot().revision(), revision, "waiting is quiet");
    cluster.patch("configmaps", "a/held", "", value!({"metadata": {"finalizers": null}})).unwrap();
    cluster.settle();
    assert!(cluster.get("namespaces", "a").is_none());
}

#[test]
fn foreign_finalizers_are_left_alone() {
    let mut cluster = cluster();
    let object =
        value!({"metadata": {"name": "b"}, "spec": {"finalizers": ["example.com/mine", "kubernetes"]}});
    cluster.create("namespaces", "", object);
    cluster.delete("namespaces", "b", &value!({})).unwrap();
    cluster.settle();
    let namespace = cluster.get("namespaces", "b").unwrap();
    let left = namespace.at(&["spec", "finalizers"]).and_then(Value::as_list).unwrap();
    assert_eq!(left, [Value::from("example.com/mine")]);
    cluster.assert_quiet();
}

#[test]
fn failed_deletion_does_not_block_others() {
    let mut cluster = cluster();
    fill(&mut cluster, "a");
    delete(&mut cluster);
    let mut lost = 0;
    for _ in 0..2000 {
        cluster.observe();
        let next_turn_at = cluster.plan();
        let bad = |request: &setpoint_reconcile::WriteRequest| {
            request.write.resource().as_str() == "leases.coordination.k8s.io"
        };
        while let Some(next) = cluster.next_write() {
            if bad(next) {
                lost += 1;
                cluster.lose_write();
            } else {
                cluster.perform();
            }
        }
        cluster.now = next_turn_at.unwrap_or(cluster.now).max(cluster.now);
        if lost > 10 {
            break;
        }
    }
    assert_eq!((cluster.list("configmaps").len(), cluster.list("serviceaccounts").len()), (0, 0));
    let (status, reason, message) = condition(&cluster, "NamespaceDeletionContentFailure");
    assert_eq!((status.as_str(), reason.as_str()), ("True", "ContentDeletionFailed"));
    assert_eq!(message, "Failed to delete all resource types, 1 remaining: the connection broke");
    cluster.run(Duration::from_secs(600));
    assert!(cluster.get("namespaces", "a").is_none());
}

#[test]
fn crash_between_any_two_writes_converges_to_the_same_state() {
    for crash_after in 0..21 {
        let mut cluster = cluster();
        fill(&mut cluster, "a");
        pod(&mut cluster, "p");
        delete(&mut cluster);
        cluster.crash_after_with_pods(crash_after);
        cluster.settle_with_pods();
        assert!(cluster.get("namespaces", "a").is_none(), "crash after {crash_after}");
        assert!(cluster.list("configmaps").is_empty() && cluster.list("pods").is_empty());
        cluster.assert_quiet();
    }
}

#[test]
fn content_that_is_not_observed_yet_is_not_left_behind() {
    let mut cluster = cluster();
    cluster.settle();
    cluster.create("configmaps", "a", value!({"metadata": {"name": "m"}}));
    delete(&mut cluster);
    cluster.observe_only("namespaces");
    cluster.plan();
    while cluster.perform() {}
    assert!(cluster.get("namespaces", "a").is_some(), "a view of ConfigMaps lags");
    cluster.run(Duration::from_secs(5));
    assert!(cluster.get("namespaces", "a").is_none() && cluster.list("configmaps").is_empty());
    cluster.assert_quiet();
}

#[test]
fn custom_objects_are_deleted_and_reported() {
    let mut cluster = Cluster::new(
        || {
            let mut all = crate::crd::server_controllers();
            all.push(Box::new(super::NamespaceController));
            (all, crate::indexes::all())
        },
        7,
    );
    cluster.create("namespaces", "", value!({"metadata": {"name": "a"}}));
    create_foos(&mut cluster, value!({}));
    put_foo(&mut cluster, "other", &value!({}), value!({}));
    let foo = value!({"metadata": {"name": "x", "namespace": "a", "uid": "x"}});
    cluster.put_stored(FOOS, "a/x", Some(&foo));
    let deleted = "2026-11-18T00:00:00Z";
    let held =
        value!({"metadata": {"name": "held", "namespace": "a", "uid": "h", "deletionTimestamp": (deleted)}});
    cluster.put_stored(FOOS, "a/held", Some(&held));
    delete(&mut cluster);
    cluster.observe();
    let gaps = cluster.engine.gaps(cluster.now, setpoint_reconcile::Seed(1));
    let deletes: Vec<String> = gaps
        .iter()
        .flat_map(|(_, _, actions)| actions)
        .filter_map(|action| match &action.write {
            setpoint_reconcile::Write::Delete { key, .. } => Some(key.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(deletes, ["foos.example.com/a/x"], "the held one is deleted already");
    cluster.put_stored(FOOS, "a/x", None);
    cluster.settle();
    assert_eq!(
        condition(&cluster, "NamespaceContentRemaining").2,
        "Some resources are remaining: foos.example.com has 1 resource instances"
    );
    cluster.put_stored(FOOS, "a/held", None);
    cluster.run(Duration::from_secs(30));
    assert!(cluster.get("namespaces", "a").is_none());
    cluster.assert_quiet();
}
