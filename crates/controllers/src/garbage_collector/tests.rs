//! Tests of owners and dependents in a control plane.

use fastrand::Rng;
use setpoint_api::{Value, value};
use setpoint_sim::cluster::Cluster;

use crate::testing::{FOOS, create_foos, put_foo};

fn cluster() -> Cluster {
    seeded(7)
}

fn seeded(seed: u64) -> Cluster {
    Cluster::new(|| (vec![Box::new(super::GarbageCollector)], crate::indexes::all()), seed)
}

fn owner(name: &str, uid: &str, blocking: bool) -> Value {
    value!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": (name), "uid": (uid), "blockOwnerDeletion": (blocking),
    })
}

/// Creates a ConfigMap with owners in the namespace `default`, and returns its UID.
fn create(cluster: &mut Cluster, name: &str, owners: Vec<Value>) -> String {
    let object = value!({"metadata": {"name": (name), "ownerReferences": (owners)}});
    cluster.create("configmaps", "default", object);
    uid(cluster, name)
}

/// Creates a ConfigMap that is a blocking dependent of others, by their names.
fn owned(cluster: &mut Cluster, name: &str, owners: &[&str]) -> String {
    let owners = owners.iter().map(|name| owner(name, &uid(cluster, name), true)).collect();
    create(cluster, name, owners)
}

fn set_owners(cluster: &mut Cluster, name: &str, owners: Vec<Value>) {
    let patch = value!({"metadata": {"ownerReferences": (owners)}});
    cluster.patch("configmaps", &path(name), "", patch).unwrap();
}

fn path(name: &str) -> String {
    format!("default/{name}")
}

fn uid(cluster: &Cluster, name: &str) -> String {
    cluster.get("configmaps", &path(name)).unwrap().str_at(&["metadata", "uid"]).to_owned()
}

fn delete(cluster: &mut Cluster, name: &str, policy: &str) {
    let options = value!({"propagationPolicy": (policy)});
    cluster.delete("configmaps", &path(name), &options).unwrap();
}

fn set_finalizers(cluster: &mut Cluster, name: &str, finalizers: Vec<&str>) {
    let patch = value!({"metadata": {"finalizers": (finalizers)}});
    cluster.patch("configmaps", &path(name), "", patch).unwrap();
}

fn names(cluster: &Cluster) -> Vec<String> {
    cluster.list("configmaps").iter().map(|object| object.str_at(&["metadata", "name"]).to_owned()).collect()
}

fn owners_of(cluster: &Cluster, name: &str) -> Vec<String> {
    let object = cluster.get("configmaps", &path(name)).unwrap();
    let owners = object.at(&["metadata", "ownerReferences"]).and_then(Value::as_list).unwrap_or_default();
    owners.iter().map(|owner| owner.str_at(&["name"]).to_owned()).collect()
}

fn events(cluster: &Cluster) -> Vec<(String, String)> {
    let events = cluster.list("events");
    let words = |event: &Value| (event.str_at(&["reason"]).to_owned(), event.str_at(&["message"]).to_owned());
    events.iter().map(words).collect()
}

#[test]
fn dependents_of_an_event_stay_while_it_exists() {
    let mut cluster = cluster();
    let event = value!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}});
    cluster.create("events", "default", event);
    let uid = cluster.get("events", "default/e").unwrap().str_at(&["metadata", "uid"]).to_owned();
    for (name, uid) in [("mine", uid.as_str()), ("not-mine", "another")] {
        let owner = value!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "name": "e", "uid": (uid)});
        create(&mut cluster, name, vec![owner]);
    }
    cluster.settle();
    assert_eq!(names(&cluster), ["mine"]);
    cluster.assert_quiet();
}

#[test]
fn background_deletion_collects_dependents() {
    let mut cluster = cluster();
    owned(&mut cluster, "a", &[]);
    owned(&mut cluster, "b", &["a"]);
    owned(&mut cluster, "c", &["b"]);
    owned(&mut cluster, "other", &[]);
    cluster.settle();
    assert_eq!(names(&cluster), ["a", "b", "c", "other"]);
    delete(&mut cluster, "a", "Background");
    assert_eq!(names(&cluster), ["b", "c", "other"], "the owner is deleted first");
    cluster.settle();
    assert_eq!(names(&cluster), ["other"]);
    cluster.assert_quiet();
}

#[test]
fn foreground_deletion_waits_for_blocking_dependents() {
    let mut cluster = cluster();
    let a = owned(&mut cluster, "a", &[]);
    owned(&mut cluster, "b", &["a"]);
    owned(&mut cluster, "c", &["b"]);
    create(&mut cluster, "free", vec![owner("a", &a, false)]);
    set_finalizers(&mut cluster, "c", vec!["example.com/hold"]);
    set_finalizers(&mut cluster, "free", vec!["example.com/hold"]);
    cluster.settle();
    delete(&mut cluster, "a", "Foreground");
    cluster.settle();
    assert_eq!(names(&cluster), ["a", "b", "c", "free"], "all wait for the last");
    let is_deleted = |cluster: &Cluster, name: &str| {
        cluster.get("configmaps", &path(name)).unwrap().at(&["metadata", "deletionTimestamp"]).is_some()
    };
    assert!(is_deleted(&cluster, "b") && is_deleted(&cluster, "c") && is_deleted(&cluster, "free"));
    cluster.assert_quiet();
    set_finalizers(&mut cluster, "c", vec![]);
    cluster.settle();
    assert_eq!(names(&cluster), ["free"], "non-blocking dependents are not waited for");
    cluster.assert_quiet();
}

#[test]
fn orphaned_dependents_lose_their_owner_reference() {
    let mut cluster = cluster();
    owned(&mut cluster, "a", &[]);
    owned(&mut cluster, "x", &[]);
    owned(&mut cluster, "b", &["a", "x"]);
    owned(&mut cluster, "c", &["a"]);
    cluster.settle();
    delete(&mut cluster, "a", "Orphan");
    cluster.settle();
    assert_eq!(names(&cluster), ["b", "c", "x"]);
    assert_eq!((owners_of(&cluster, "b"), owners_of(&cluster, "c")), (vec!["x".to_owned()], vec![]));
    cluster.assert_quiet();
}

#[test]
fn object_with_another_owner_loses_only_the_reference() {
    for policy in ["Background", "Foreground"] {
        let mut cluster = cluster();
        owned(&mut cluster, "a", &[]);
        owned(&mut cluster, "x", &[]);
        owned(&mut cluster, "b", &["a", "x"]);
        delete(&mut cluster, "a", policy);
        cluster.settle();
        assert_eq!(names(&cluster), ["b", "x"], "{policy}");
        assert_eq!(owners_of(&cluster, "b"), ["x"], "{policy}");
        cluster.assert_quiet();
    }
}

#[test]
fn cycles_are_collected_in_any_deletion_order() {
    for length in 2..5 {
        for (first, second) in [("Foreground", ""), ("Foreground", "Foreground"), ("Background", "")] {
            let mut cluster = cluster();
            let names_of: Vec<String> = (0..length).map(|n| format!("c{n}")).collect();
            for name in &names_of {
                owned(&mut cluster, name, &[]);
            }
            for n in 0..length {
                let next = &names_of[(n + 1) % length];
                let uid = uid(&cluster, next);
                set_owners(&mut cluster, &names_of[n], vec![owner(next, &uid, true)]);
            }
            cluster.settle();
            assert_eq!(names(&cluster).len(), length, "a cycle keeps itself alive");
            delete(&mut cluster, "c0", first);
            if !second.is_empty() {
                delete(&mut cluster, "c1", second);
            }
            cluster.settle();
            assert_eq!(names(&cluster), Vec::<String>::new(), "{length} {first} {second}");
            cluster.assert_quiet();
        }
    }
}

#[test]
fn owner_in_another_namespace_is_invalid_with_an_event() {
    let mut cluster = cluster();
    cluster.create("namespaces", "", value!({"metadata": {"name": "far"}}));
    cluster.create("configmaps", "far", value!({"metadata": {"name": "a"}}));
    let a = cluster.get("configmaps", "far/a").unwrap().str_at(&["metadata", "uid"]).to_owned();
    create(&mut cluster, "b", vec![owner("a", &a, true)]);
    let role = value!({"metadata": {"name": "r", "ownerReferences": [(owner("a", &a, true))]}, "rules": []});
    cluster.create("clusterroles.rbac.authorization.k8s.io", "", role);
    cluster.settle();
    assert!(cluster.get("configmaps", "default/b").is_none());
    assert!(
        cluster.get("clusterroles.rbac.authorization.k8s.io", "r").is_some(),
        "an invalid reference deletes nothing"
    );
    let events = events(&cluster);
    let message = format!(
        "ownerRef [v1/ConfigMap, namespace: default, name: a, uid: {a}] does not exist in namespace \"default\""
    );
    assert!(events.contains(&("OwnerRefInvalidNamespace".to_owned(), message)), "{events:?}");
    assert_eq!(events.len(), 2, "{events:?}");
    cluster.run(std::time::Duration::from_secs(100));
    assert_eq!(cluster.list("events").len(), 2, "one Event");
    let delete = cluster.delete("configmaps", "far/a", &value!({"propagationPolicy": "Foreground"}));
    delete.unwrap();
    cluster.settle();
    assert!(cluster.get("configmaps", "far/a").is_none(), "invalid dependents do not block");
    cluster.assert_quiet();
}

#[test]
fn owner_of_the_same_name_with_another_uid_is_missing() {
    let mut cluster = cluster();
    owned(&mut cluster, "a", &[]);
    create(&mut cluster, "b", vec![owner("a", "stale", true)]);
    cluster.settle();
    assert_eq!(names(&cluster), ["a"]);
    cluster.assert_quiet();
}

#[test]
fn owner_of_an_unserved_kind_keeps_its_dependents() {
    let mut cluster = cluster();
    let unknown = value!({"apiVersion": "example.com/v1", "kind": "Thing", "name": "t", "uid": "t"});
    create(&mut cluster, "b", vec![owner("a", "absent", true), unknown]);
    cluster.run(std::time::Duration::from_secs(100));
    assert_eq!(names(&cluster), ["b"]);
    cluster.assert_quiet();
}

#[test]
fn crash_between_any_two_writes_converges_to_the_same_state() {
    for policy in ["Background", "Foreground", "Orphan"] {
        for crash_after in 0..13 {
            let mut cluster = cluster();
            owned(&mut cluster, "a", &[]);
            for name in ["b1", "b2", "b3"] {
                owned(&mut cluster, name, &["a"]);
                owned(&mut cluster, &format!("{name}-c"), &[name]);
            }
            delete(&mut cluster, "a", policy);
            cluster.crash_after(crash_after);
            cluster.settle();
            let left = if policy == "Orphan" { 6 } else { 0 };
            assert_eq!(names(&cluster).len(), left, "{policy}, crash after {crash_after}");
            cluster.assert_quiet();
        }
    }
}

#[test]
fn random_graphs_and_deletions_converge_to_a_consistent_state() {
    for seed in 0..300 {
        let mut rng = Rng::with_seed(seed);
        let mut cluster = seeded(seed);
        let count = rng.usize(2..12);
        let all: Vec<String> = (0..count).map(|n| format!("o{n}")).collect();
        let uids: Vec<String> = all.iter().map(|name| owned(&mut cluster, name, &[])).collect();
        for name in &all {
            let mut owners: Vec<Value> = Vec::new();
            for n in 0..count {
                if rng.usize(..count) < 2 {
                    owners.push(owner(&all[n], &uids[n], rng.bool()));
                }
            }
            if rng.usize(..8) == 0 {
                owners.push(owner("absent", "absent", rng.bool()));
            }
            set_owners(&mut cluster, name, owners);
        }
        for _ in 0..rng.usize(1..6) {
            let name = &all[rng.usize(..count)];
            let policy = ["Background", "Foreground", "Orphan"][rng.usize(..3)];
            let _ = cluster.delete("configmaps", &path(name), &value!({"propagationPolicy": (policy)}));
            for _ in 0..rng.usize(..4) {
                cluster.observe();
                cluster.plan();
                cluster.perform();
            }
            if rng.usize(..4) == 0 {
                cluster.crash();
            }
        }
        cluster.settle();
        let left = names(&cluster);
        for name in &left {
            let object = cluster.get("configmaps", &path(name)).unwrap();
            assert!(
                object.at(&["metadata", "deletionTimestamp"]).is_none(),
                "seed {seed}: {name} never goes"
            );
            let owners = owners_of(&cluster, name);
            assert!(owners.iter().all(|owner| left.contains(owner)), "seed {seed}: {name} of {owners:?}");
        }
        cluster.assert_quiet();
    }
}

fn with_foos() -> Cluster {
    let mut cluster = Cluster::new(
        || {
            let mut all = crate::crd::server_controllers();
            all.push(Box::new(super::GarbageCollector));
            (all, crate::indexes::all())
        },
        7,
    );
    create_foos(&mut cluster, value!({}));
    cluster
}

/// Owner reference to an object of the custom resource, in a version.
fn foo_owner(version: &str, name: &str) -> Value {
    let (api_version, uid) = (format!("example.com/{version}"), format!("uid-{name}"));
    value!({
        "apiVersion": (api_version), "kind": "Foo", "name": (name), "uid": (uid), "blockOwnerDeletion": true,
    })
}

#[test]
fn dependents_of_a_custom_object_are_deleted_after_it_whatever_version_they_name() {
    let mut cluster = with_foos();
    put_foo(&mut cluster, "x", &value!({}), value!({}));
    for version in ["v1", "v1alpha1", "v9"] {
        create(&mut cluster, version, vec![foo_owner(version, "x")]);
    }
    cluster.settle();
    assert_eq!(names(&cluster), ["v1", "v1alpha1", "v9"]);
    cluster.assert_quiet();
    cluster.put_stored(FOOS, "default/x", None);
    cluster.settle();
    assert_eq!(names(&cluster), ["v9"], "an owner of an unserved version cannot be resolved");
    cluster.assert_quiet();
}

#[test]
fn dependents_are_kept_when_the_definition_of_their_owner_is_gone() {
    let mut cluster = with_foos();
    put_foo(&mut cluster, "x", &value!({}), value!({}));
    create(&mut cluster, "dependent", vec![foo_owner("v1", "x")]);
    cluster.settle();
    let definitions = "customresourcedefinitions.apiextensions.k8s.io";
    cluster.put_stored(definitions, FOOS, None);
    cluster.settle();
    cluster.run(std::time::Duration::from_secs(60));
    assert_eq!(names(&cluster), ["dependent"]);
    cluster.assert_quiet();
}

#[test]
fn owner_references_of_custom_objects_are_replaced_as_a_list() {
    let mut cluster = with_foos();
    let uid = create(&mut cluster, "owner", Vec::new());
    let owners = vec![owner("owner", &uid, false), owner("gone", "gone", true)];
    put_foo(&mut cluster, "x", &value!({"ownerReferences": (owners)}), value!({}));
    cluster.observe();
    let gaps = cluster.engine.gaps(cluster.now, setpoint_reconcile::Seed(1));
    let [(_, key, actions)] = gaps.as_slice() else { panic!("{gaps:?}") };
    assert_eq!(key.path(), "default/x");
    let setpoint_reconcile::Write::Patch { patch, patch_type, revision, .. } = &actions[0].write else {
        panic!("{actions:?}")
    };
    assert_eq!(*patch_type, setpoint_reconcile::plan::MergePatchType::Merge);
    assert!(revision.is_some(), "a list is replaced only if the object is unchanged");
    let left = patch.at(&["metadata", "ownerReferences"]).and_then(Value::as_list).unwrap();
    assert_eq!(left, [owner("owner", &uid, false)]);
}
