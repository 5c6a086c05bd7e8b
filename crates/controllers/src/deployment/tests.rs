//! Tests of Deployments in a control plane with ReplicaSets.

use std::time::Duration;

use setpoint_api::{Value, value};
use setpoint_sim::cluster::Cluster;

use crate::replica_set::ReplicaSetController;
use crate::testing::{bind_all, condition, has_event, is_ready, is_terminating, names, number, template};

const D: &str = "deployments.apps";
const RS: &str = "replicasets.apps";
const WEB: &str = "default/web";

fn cluster(seed: u64) -> Cluster {
    let controllers = || -> (Vec<Box<dyn setpoint_reconcile::Controller>>, _) {
        (vec![Box::new(super::DeploymentController), Box::new(ReplicaSetController)], crate::indexes::all())
    };
    Cluster::new(controllers, seed)
}

fn deployment(replicas: i64, image: &str) -> Value {
    value!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": (replicas),
            "selector": {"matchLabels": {"app": "web"}},
            "template": (template("web", image)),
        },
    })
}

fn image(image: &str) -> Value {
    value!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": (image)}]}}}})
}

fn set_of(cluster: &Cluster, image: &str) -> Value {
    let sets = cluster.list(RS);
    let has_image = |set: &&Value| {
        let containers = set.at(&["spec", "template", "spec", "containers"]).and_then(Value::as_list);
        containers.is_some_and(|containers| containers[0].str_at(&["image"]) == image)
    };
    sets.iter().find(has_image).unwrap_or_else(|| panic!("no set of {image}")).clone()
}

fn size(cluster: &Cluster, image: &str) -> i64 {
    set_of(cluster, image).at(&["spec", "replicas"]).and_then(Value::as_i64).unwrap()
}

fn annotation<'a>(object: &'a Value, name: &str) -> &'a str {
    object.str_at(&["metadata", "annotations", &format!("deployment.kubernetes.io/{name}")])
}

fn assert_at_rest(cluster: &mut Cluster, image: &str, replicas: i64) {
    assert_eq!(size(cluster, image), replicas);
    assert_eq!(cluster.list("pods").len(), usize::try_from(replicas).unwrap());
    let name = set_of(cluster, image).str_at(&["metadata", "name"]).to_owned();
    assert_eq!(
        condition(cluster, D, WEB, "Progressing"),
        format!("True NewReplicaSetAvailable ReplicaSet \"{name}\" has successfully progressed.")
    );
    assert_eq!(
        condition(cluster, D, WEB, "Available"),
        "True MinimumReplicasAvailable Deployment has minimum availability."
    );
    let web = cluster.get(D, WEB).unwrap();
    let generation = web.at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap();
    assert_eq!(number(cluster, D, WEB, "observedGeneration"), generation);
    assert_eq!(number(cluster, D, WEB, "updatedReplicas"), replicas);
    assert_eq!(annotation(&web, "revision"), annotation(&set_of(cluster, image), "revision"));
    cluster.assert_quiet();
}

#[test]
fn rollout_creates_scales_and_completes() {
    let mut cluster = cluster(1);
    cluster.create(D, "default", deployment(3, "v1"));
    cluster.settle_with_pods();
    assert_at_rest(&mut cluster, "v1", 3);
    let web = cluster.get(D, WEB).unwrap();
    assert_eq!(
        web.at(&["metadata", "generation"]),
        Some(&Value::Int(1)),
        "the revision does not change the generation"
    );
    let set = set_of(&cluster, "v1");
    let name = set.str_at(&["metadata", "name"]);
    let hash = set.str_at(&["metadata", "labels", "pod-template-hash"]);
    assert_eq!(name, format!("web-{hash}"));
    assert_eq!(set.str_at(&["spec", "selector", "matchLabels", "pod-template-hash"]), hash);
    assert_eq!(
        (
            annotation(&set, "revision"),
            annotation(&set, "desired-replicas"),
            annotation(&set, "max-replicas")
        ),
        ("1", "3", "4")
    );
    assert!(has_event(&cluster, "ScalingReplicaSet", &format!("Scaled up replica set {name} from 0 to 3")));

    cluster.patch(D, WEB, "", image("v2")).unwrap();
    cluster.settle_with_pods();
    assert_at_rest(&mut cluster, "v2", 3);
    assert_eq!((size(&cluster, "v1"), annotation(&set_of(&cluster, "v2"), "revision")), (0, "2"));

    cluster.patch(D, WEB, "", value!({"spec": {"replicas": 5}})).unwrap();
    cluster.settle_with_pods();
    assert_at_rest(&mut cluster, "v2", 5);
    assert_eq!(annotation(&set_of(&cluster, "v2"), "desired-replicas"), "5");
}

#[test]
fn restored_template_reuses_its_set() {
    let mut cluster = cluster(2);
    cluster.create(D, "default", deployment(2, "v1"));
    for version in ["v1", "v2", "v1", "v2"] {
        cluster.patch(D, WEB, "", image(version)).unwrap();
        cluster.settle_with_pods();
        assert_at_rest(&mut cluster, version, 2);
    }
    assert_eq!(cluster.list(RS).len(), 2);
    let (v1, v2) = (set_of(&cluster, "v1"), set_of(&cluster, "v2"));
    assert_eq!((annotation(&v1, "revision"), annotation(&v1, "revision-history")), ("3", "1"));
    assert_eq!((annotation(&v2, "revision"), annotation(&v2, "revision-history")), ("4", "2"));
}

#[test]
fn annotations_are_copied_to_the_set_except_internal_ones() {
    let mut cluster = cluster(3);
    let mut web = deployment(1, "v1");
    let applied = "kubectl.kubernetes.io/last-applied-configuration";
    web.ensure_map("metadata").insert("annotations", value!({"kubernetes.io/change-cause": "first"}));
    web.ensure_map("metadata").ensure_map("annotations").insert(applied, "{}");
    cluster.create(D, "default", web);
    cluster.settle_with_pods();
    let cause = |cluster: &Cluster| {
        let set = set_of(cluster, "v1");
        assert_eq!(set.str_at(&["metadata", "annotations", applied]), "");
        set.str_at(&["metadata", "annotations", "kubernetes.io/change-cause"]).to_owned()
    };
    assert_eq!(cause(&cluster), "first");
    let second = value!({"metadata": {"annotations": {"kubernetes.io/change-cause": "second"}}});
    cluster.patch(D, WEB, "", second).unwrap();
    cluster.settle_with_pods();
    assert_eq!(cause(&cluster), "second");
    assert_at_rest(&mut cluster, "v1", 1);
}

#[test]
fn revision_history_limit_is_enforced() {
    let mut cluster = cluster(4);
    let mut web = deployment(1, "v0");
    web.ensure_map("spec").insert("revisionHistoryLimit", 1);
    cluster.create(D, "default", web);
    for version in ["v0", "v1", "v2", "v3"] {
        cluster.patch(D, WEB, "", image(version)).unwrap();
        cluster.settle_with_pods();
    }
    assert_at_rest(&mut cluster, "v3", 1);
    assert_eq!(cluster.list(RS).len(), 2);
    assert_eq!(annotation(&set_of(&cluster, "v2"), "revision"), "3");
}

/// Runs one random write, pod or step at a time, and checks the bounds after each.
fn assert_bounds_in_random_rollout(
    seed: u64,
    surge: &Value,
    unavailable: &Value,
    max_pods: usize,
    min_available: usize,
) {
    let mut cluster = cluster(seed);
    let mut web = deployment(10, "v1");
    let rolling =
        value!({"rollingUpdate": {"maxSurge": (surge.clone()), "maxUnavailable": (unavailable.clone())}});
    web.ensure_map("spec").insert("strategy", rolling);
    cluster.create(D, "default", web);
    cluster.settle_with_pods();
    cluster.patch(D, WEB, "", image("v2")).unwrap();
    for _ in 0..600 {
        match cluster.rng.u8(..5) {
            0 => cluster.observe(),
            1 => {
                cluster.plan();
            }
            2 | 3 => {
                cluster.perform();
            }
            _ => {
                let pods = cluster.list("pods");
                let chosen = cluster.rng.usize(..pods.len());
                cluster.run_pod(&pods[chosen]);
            }
        }
        let pods = cluster.list("pods");
        let staying = pods.iter().filter(|pod| !is_terminating(pod)).count();
        let ready = pods.iter().filter(|pod| is_ready(pod)).count();
        assert!(staying <= max_pods && ready >= min_available, "seed {seed}: {staying} pods, {ready} ready");
    }
    cluster.run(Duration::from_secs(60));
    cluster.settle_with_pods();
    assert_at_rest(&mut cluster, "v2", 10);
}

#[test]
fn rollout_stays_within_its_bounds() {
    for seed in 0..3 {
        assert_bounds_in_random_rollout(seed, &value!("25%"), &value!("25%"), 13, 8);
        assert_bounds_in_random_rollout(seed, &value!(0), &value!(3), 10, 7);
        assert_bounds_in_random_rollout(seed, &value!(2), &value!(0), 12, 10);
        assert_bounds_in_random_rollout(seed, &value!("0%"), &value!("1%"), 10, 9);
    }
}

#[test]
fn recreate_never_runs_two_versions_at_once() {
    let mut cluster = cluster(6);
    let mut web = deployment(3, "v1");
    web.ensure_map("spec").insert("strategy", value!({"type": "Recreate"}));
    cluster.create(D, "default", web);
    cluster.settle_with_pods();
    assert_at_rest(&mut cluster, "v1", 3);
    bind_all(&mut cluster);
    cluster.patch(D, WEB, "", image("v2")).unwrap();
    for _ in 0..20 {
        cluster.settle();
        let mut images: Vec<String> = Vec::new();
        for pod in cluster.list("pods") {
            let containers = pod.at(&["spec", "containers"]).and_then(Value::as_list).unwrap();
            images.push(containers[0].str_at(&["image"]).to_owned());
        }
        images.sort();
        images.dedup();
        assert!(images.len() <= 1, "{images:?}");
        if let Some(pod) = cluster.list("pods").first().cloned() {
            cluster.run_pod(&pod);
        }
    }
    cluster.settle_with_pods();
    assert_at_rest(&mut cluster, "v2", 3);
}

#[test]
fn paused_deployment_scales_without_rollout() {
    let mut cluster = cluster(7);
    cluster.create(D, "default", deployment(2, "v1"));
    cluster.settle_with_pods();
    cluster.patch(D, WEB, "", value!({"spec": {"paused": true, "replicas": 4}})).unwrap();
    cluster.patch(D, WEB, "", image("v2")).unwrap();
    cluster.settle_with_pods();
    assert_eq!((size(&cluster, "v1"), cluster.list(RS).len()), (4, 1));
    assert_eq!(condition(&cluster, D, WEB, "Progressing"), "Unknown DeploymentPaused Deployment is paused");
    cluster.assert_quiet();
    cluster.run(Duration::from_secs(2000));
    cluster.patch(D, WEB, "", value!({"spec": {"paused": false}})).unwrap();
    cluster.settle_with_pods();
    assert_at_rest(&mut cluster, "v2", 4);
}

#[test]
fn scaling_during_a_rollout_keeps_proportions() {
    let mut cluster = cluster(8);
    let mut web = deployment(10, "v1");
    web.ensure_map("spec")
        .insert("strategy", value!({"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}));
    cluster.create(D, "default", web);
    cluster.settle_with_pods();
    cluster.patch(D, WEB, "", image("v2")).unwrap();
    cluster.settle();
    assert_eq!((size(&cluster, "v1"), size(&cluster, "v2")), (8, 5), "new pods never become ready");
    cluster.patch(D, WEB, "", value!({"spec": {"replicas": 15}})).unwrap();
    cluster.settle();
    assert_eq!((size(&cluster, "v1"), size(&cluster, "v2")), (11, 7));
    cluster.assert_quiet();
    cluster.settle_with_pods();
    assert_at_rest(&mut cluster, "v2", 15);
}

#[test]
fn stalled_rollout_exceeds_its_progress_deadline() {
    let mut cluster = cluster(9);
    cluster.create(D, "default", deployment(2, "v1"));
    cluster.settle();
    let name = set_of(&cluster, "v1").str_at(&["metadata", "name"]).to_owned();
    assert_eq!(
        condition(&cluster, D, WEB, "Progressing"),
        format!("True ReplicaSetUpdated ReplicaSet \"{name}\" is progressing.")
    );
    assert_eq!(
        condition(&cluster, D, WEB, "Available"),
        "False MinimumReplicasUnavailable Deployment does not have minimum availability."
    );
    cluster.run(Duration::from_secs(590));
    assert!(condition(&cluster, D, WEB, "Progressing").starts_with("True ReplicaSetUpdated"));
    cluster.run(Duration::from_secs(20));
    assert_eq!(
        condition(&cluster, D, WEB, "Progressing"),
        format!("False ProgressDeadlineExceeded ReplicaSet \"{name}\" has timed out progressing.")
    );
    cluster.assert_quiet();
    cluster.settle_with_pods();
    assert_at_rest(&mut cluster, "v1", 2);
}

#[test]
fn existing_name_increments_the_collision_count() {
    let mut other = cluster(10);
    other.create(D, "default", deployment(1, "v1"));
    other.settle();
    let taken = names(&other, RS)[0].clone();

    let mut cluster = cluster(10);
    let stranger = value!({
        "metadata": {"name": (taken.as_str())},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "other"}}, "template": (template("other", "x"))},
    });
    cluster.create(RS, "default", stranger);
    cluster.create(D, "default", deployment(1, "v1"));
    cluster.settle_with_pods();
    assert_eq!(number(&cluster, D, WEB, "collisionCount"), 1);
    assert_ne!(set_of(&cluster, "v1").str_at(&["metadata", "name"]), taken);
    assert_at_rest(&mut cluster, "v1", 1);
}

#[test]
fn orphaned_sets_are_adopted_and_non_matching_ones_released() {
    let mut cluster = cluster(11);
    let orphan = value!({
        "metadata": {"name": "lone", "labels": {"app": "web"}},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": (template("web", "v1"))},
    });
    cluster.create(RS, "default", orphan);
    cluster.settle_with_pods();
    cluster.create(D, "default", deployment(2, "v1"));
    cluster.settle_with_pods();
    assert_eq!(names(&cluster, RS), ["lone"]);
    assert_at_rest(&mut cluster, "v1", 2);
    cluster.patch(RS, "default/lone", "", value!({"metadata": {"labels": {"app": "other"}}})).unwrap();
    cluster.settle_with_pods();
    let lone = cluster.get(RS, "default/lone").unwrap();
    assert!(lone.at(&["metadata", "ownerReferences"]).is_none_or(Value::is_empty));
    assert_eq!(cluster.list(RS).len(), 2);
    cluster.assert_quiet();
}

#[test]
fn deprecated_annotation_rolls_back() {
    let mut cluster = cluster(12);
    cluster.create(D, "default", deployment(1, "v1"));
    cluster.settle_with_pods();
    cluster.patch(D, WEB, "", image("v2")).unwrap();
    cluster.settle_with_pods();
    let rollback_to = |revision: &str| {
        let mut patch = Value::map();
        patch.ensure_map("metadata").ensure_map("annotations").insert(super::rollback::ANNOTATION, revision);
        patch
    };
    cluster.patch(D, WEB, "", rollback_to("0")).unwrap();
    cluster.settle_with_pods();
    assert_at_rest(&mut cluster, "v1", 1);
    assert!(has_event(&cluster, "DeploymentRollback", "Rolled back deployment \"web\" to revision 1"));
    cluster.patch(D, WEB, "", rollback_to("77")).unwrap();
    cluster.settle_with_pods();
    assert_at_rest(&mut cluster, "v1", 1);
    let message = "Unable to find the revision to rollback to.";
    assert!(has_event(&cluster, "DeploymentRollbackRevisionNotFound", message));
}

#[test]
fn rejected_pods_set_replica_failure() {
    let mut cluster = cluster(13);
    let mut web = deployment(1, "v1");
    // The priority class is resolved only when a pod is created.
    let spec = web.ensure_map("spec").ensure_map("template").ensure_map("spec");
    spec.insert("priorityClassName", "nowhere");
    cluster.create(D, "default", web);
    cluster.run(Duration::from_secs(1));
    let failure = condition(&cluster, D, WEB, "ReplicaFailure");
    assert!(failure.starts_with("True FailedCreate "), "{failure}");
}

#[test]
fn deleted_deployment_only_updates_its_status() {
    let mut cluster = cluster(14);
    let mut web = deployment(2, "v1");
    web.ensure_map("metadata").insert("finalizers", value!(["example.com/hold"]));
    cluster.create(D, "default", web);
    cluster.settle_with_pods();
    cluster.delete(D, WEB, &Value::map()).unwrap();
    cluster.settle_with_pods();
    let name = set_of(&cluster, "v1").str_at(&["metadata", "name"]).to_owned();
    cluster.delete(RS, &format!("default/{name}"), &value!({"propagationPolicy": "Background"})).unwrap();
    cluster.settle_with_pods();
    assert_eq!((cluster.list(RS).len(), number(&cluster, D, WEB, "replicas")), (0, 0));
    cluster.assert_quiet();
}

#[test]
fn crash_between_any_two_writes_converges_to_the_same_state() {
    for crash_after in 0..25 {
        let mut cluster = cluster(15);
        cluster.create(D, "default", deployment(3, "v1"));
        cluster.settle_with_pods();
        cluster.patch(D, WEB, "", image("v2")).unwrap();
        cluster.crash_after_with_pods(crash_after);
        cluster.settle_with_pods();
        assert_at_rest(&mut cluster, "v2", 3);
        assert_eq!(cluster.list(RS).len(), 2, "crash after {crash_after} steps");
    }
}

/// Random edit by a user.
fn edit_randomly(cluster: &mut Cluster) {
    let sets = cluster.list(RS);
    let chosen = |cluster: &mut Cluster| {
        let at = cluster.rng.usize(..sets.len().max(1));
        sets.get(at).map(|set| format!("default/{}", set.str_at(&["metadata", "name"])))
    };
    let number = cluster.rng.i64(0..6);
    let version = format!("v{}", cluster.rng.u8(..4));
    let _ = match cluster.rng.u8(..9) {
        0 => cluster.patch(D, WEB, "", value!({"spec": {"replicas": (number)}})),
        1 | 2 => cluster.patch(D, WEB, "", image(&version)),
        3 => {
            let paused = cluster.rng.bool();
            cluster.patch(D, WEB, "", value!({"spec": {"paused": (paused)}}))
        }
        4 => match chosen(cluster) {
            Some(path) => cluster.patch(RS, &path, "", value!({"spec": {"replicas": (number)}})),
            None => return,
        },
        5 => match chosen(cluster) {
            Some(path) => cluster.delete(RS, &path, &Value::map()),
            None => return,
        },
        6 => {
            let kind = if cluster.rng.bool() { "Recreate" } else { "RollingUpdate" };
            cluster.patch(D, WEB, "", value!({"spec": {"strategy": {"type": (kind), "rollingUpdate": null}}}))
        }
        7 => match chosen(cluster) {
            Some(path) => {
                let mut patch = Value::map();
                let annotations = patch.ensure_map("metadata").ensure_map("annotations");
                annotations.insert(super::replica_sets::DESIRED_REPLICAS, number.to_string());
                annotations.insert(super::replica_sets::REVISION, number.to_string());
                cluster.patch(RS, &path, "", patch)
            }
            None => return,
        },
        _ => {
            cluster.crash();
            return;
        }
    };
}

#[test]
fn random_states_converge_to_the_spec() {
    for seed in 0..40 {
        let mut cluster = cluster(seed);
        cluster.create(D, "default", deployment(3, "v0"));
        for _ in 0..150 {
            match cluster.rng.u8(..12) {
                0 | 1 => edit_randomly(&mut cluster),
                2 => cluster.lose_write(),
                3 | 4 => cluster.observe(),
                5 | 6 => {
                    cluster.plan();
                }
                7 => cluster.run_pods(),
                _ => {
                    cluster.perform();
                }
            }
        }
        cluster.patch(D, WEB, "", value!({"spec": {"paused": false, "replicas": 2}})).unwrap();
        cluster.patch(D, WEB, "", image("end")).unwrap();
        for _ in 0..4 {
            cluster.settle_with_pods();
            cluster.run(Duration::from_secs(301));
        }
        // Pods of deleted sets are left to the garbage collector.
        for pod in cluster.list("pods") {
            let owners =
                pod.at(&["metadata", "ownerReferences"]).and_then(Value::as_list).unwrap_or_default();
            let owner = owners.first().map_or("", |owner| owner.str_at(&["uid"]));
            if !cluster.list(RS).iter().any(|set| set.str_at(&["metadata", "uid"]) == owner) {
                let path = format!("default/{}", pod.str_at(&["metadata", "name"]));
                let _ = cluster.delete("pods", &path, &value!({"gracePeriodSeconds": 0}));
            }
        }
        cluster.settle_with_pods();
        assert_at_rest(&mut cluster, "end", 2);
    }
}
