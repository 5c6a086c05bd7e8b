//! Tests of StatefulSets in a control plane.

use std::time::Duration;

use setpoint_api::{Value, value};
use setpoint_sim::cluster::Cluster;

use crate::testing::{bind_all, has_event, is_ready, is_terminating, names, number, template};

const S: &str = "statefulsets.apps";
const REVISIONS: &str = "controllerrevisions.apps";
const CLAIMS: &str = "persistentvolumeclaims";
const DB: &str = "default/db";

fn cluster(seed: u64) -> Cluster {
    let controllers = || -> (Vec<Box<dyn setpoint_reconcile::Controller>>, _) {
        (vec![Box::new(super::StatefulSetController)], crate::indexes::all())
    };
    Cluster::new(controllers, seed)
}

fn set(replicas: i64) -> Value {
    value!({
        "metadata": {"name": "db"},
        "spec": {
            "replicas": (replicas),
            "serviceName": "names",
            "selector": {"matchLabels": {"app": "db"}},
            "template": (template("db", "v1")),
        },
    })
}

fn with(mut set: Value, field: &str, value: Value) -> Value {
    set.ensure_map("spec").insert(field, value);
    set
}

fn with_claims(set: Value) -> Value {
    let claim = value!({
        "metadata": {"name": "data", "labels": {"kind": "disk"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    with(set, "volumeClaimTemplates", value!([(claim)]))
}

fn image(image: &str) -> Value {
    value!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": (image)}]}}}})
}

fn pod(cluster: &Cluster, number: i64) -> Value {
    cluster.get("pods", &format!("default/db-{number}")).unwrap_or_else(|| panic!("there is no db-{number}"))
}

fn image_of(pod: &Value) -> String {
    let containers = pod.at(&["spec", "containers"]).and_then(Value::as_list).unwrap();
    containers[0].str_at(&["image"]).to_owned()
}

fn images(cluster: &Cluster) -> Vec<String> {
    cluster.list("pods").iter().map(image_of).collect()
}

fn assert_at_rest(cluster: &mut Cluster, replicas: i64) {
    for field in ["replicas", "readyReplicas", "availableReplicas", "currentReplicas", "updatedReplicas"] {
        assert_eq!(number(cluster, S, DB, field), replicas, "{field}");
    }
    let db = cluster.get(S, DB).unwrap();
    assert_eq!(db.str_at(&["status", "currentRevision"]), db.str_at(&["status", "updateRevision"]));
    assert_eq!(db.at(&["status", "observedGeneration"]), db.at(&["metadata", "generation"]));
    cluster.assert_quiet();
}

#[test]
fn ordered_pods_are_created_ascending_and_deleted_descending() {
    let mut cluster = cluster(1);
    cluster.create(S, "default", set(3));
    for number in 0..3 {
        cluster.settle();
        assert_eq!(cluster.list("pods").len(), number + 1, "each waits for the one before it");
        cluster.run_pods();
    }
    cluster.settle_with_pods();
    assert_eq!(names(&cluster, "pods"), ["db-0", "db-1", "db-2"]);
    assert_at_rest(&mut cluster, 3);
    let first = pod(&cluster, 1);
    let label = |name: &str| first.str_at(&["metadata", "labels", name]).to_owned();
    assert_eq!(label("statefulset.kubernetes.io/pod-name"), "db-1");
    assert_eq!(label("apps.kubernetes.io/pod-index"), "1");
    assert_eq!(label("controller-revision-hash"), names(&cluster, REVISIONS)[0]);
    assert_eq!(
        (first.str_at(&["spec", "hostname"]), first.str_at(&["spec", "subdomain"])),
        ("db-1", "names")
    );
    assert!(has_event(&cluster, "SuccessfulCreate", "Create Pod db-1 in StatefulSet db successful"));

    bind_all(&mut cluster);
    cluster.patch(S, DB, "", value!({"spec": {"replicas": 1}})).unwrap();
    cluster.settle();
    assert!(is_terminating(&pod(&cluster, 2)) && !is_terminating(&pod(&cluster, 1)));
    cluster.settle_with_pods();
    assert_eq!(names(&cluster, "pods"), ["db-0"]);
    assert!(has_event(&cluster, "SuccessfulDelete", "Delete Pod db-2 in StatefulSet db successful"));
    assert_at_rest(&mut cluster, 1);
}

#[test]
fn parallel_pods_do_not_wait_for_each_other() {
    let mut cluster = cluster(2);
    let ordinals = value!({"start": 5});
    cluster.create(
        S,
        "default",
        with(with(set(3), "podManagementPolicy", value!("Parallel")), "ordinals", ordinals),
    );
    cluster.settle();
    assert_eq!(names(&cluster, "pods"), ["db-5", "db-6", "db-7"]);
    cluster.settle_with_pods();
    assert_at_rest(&mut cluster, 3);
    bind_all(&mut cluster);
    cluster.patch(S, DB, "", value!({"spec": {"replicas": 0}})).unwrap();
    cluster.settle();
    assert_eq!(cluster.list("pods").iter().filter(|pod| is_terminating(pod)).count(), 3);
    cluster.settle_with_pods();
    assert_at_rest(&mut cluster, 0);
}

#[test]
fn rolling_update_starts_at_the_highest_ordinal() {
    let mut cluster = cluster(3);
    cluster.create(S, "default", set(3));
    cluster.settle_with_pods();
    cluster.patch(S, DB, "", image("v2")).unwrap();
    for _ in 0..20 {
        cluster.settle();
        let pods = cluster.list("pods");
        assert!(pods.iter().filter(|pod| is_ready(pod)).count() >= 2);
        let old = pods.iter().take_while(|pod| image_of(pod) == "v1").count();
        assert!(pods[old..].iter().all(|pod| image_of(pod) == "v2"), "{:?}", images(&cluster));
        cluster.run_pods();
    }
    assert_eq!(images(&cluster), ["v2"; 3]);
    assert_eq!(cluster.list(REVISIONS).len(), 2);
    assert_at_rest(&mut cluster, 3);
}

#[test]
fn partition_keeps_lower_ordinals_at_the_old_revision() {
    let mut cluster = cluster(4);
    cluster.create(S, "default", set(4));
    cluster.settle_with_pods();
    cluster
        .patch(S, DB, "", value!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 2}}}}))
        .unwrap();
    cluster.patch(S, DB, "", image("v2")).unwrap();
    cluster.settle_with_pods();
    assert_eq!(images(&cluster), ["v1", "v1", "v2", "v2"]);
    cluster.assert_quiet();
    cluster.delete("pods", "default/db-0", &value!({"gracePeriodSeconds": 0})).unwrap();
    cluster.delete("pods", "default/db-3", &value!({"gracePeriodSeconds": 0})).unwrap();
    cluster.settle_with_pods();
    assert_eq!(images(&cluster), ["v1", "v1", "v2", "v2"], "each comes back as it was");
    cluster
        .patch(S, DB, "", value!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}))
        .unwrap();
    cluster.settle_with_pods();
    assert_eq!(images(&cluster), ["v2"; 4]);
    assert_at_rest(&mut cluster, 4);
}

#[test]
fn max_unavailable_pods_are_replaced_at_once() {
    for policy in ["OrderedReady", "Parallel"] {
        let mut cluster = cluster(5);
        let strategy = value!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}});
        let db = with(with(set(5), "updateStrategy", strategy), "podManagementPolicy", value!((policy)));
        cluster.create(S, "default", db);
        cluster.settle_with_pods();
        cluster.patch(S, DB, "", image("v2")).unwrap();
        let mut least = 5;
        for _ in 0..30 {
            cluster.settle();
            least = least.min(cluster.list("pods").iter().filter(|pod| is_ready(pod)).count());
            cluster.run_pods();
        }
        assert_eq!(least, 3, "{policy}");
        assert_eq!(images(&cluster), ["v2"; 5]);
        assert_at_rest(&mut cluster, 5);
    }
}

#[test]
fn on_delete_replaces_only_deleted_pods() {
    let mut cluster = cluster(6);
    cluster.create(S, "default", with(set(2), "updateStrategy", value!({"type": "OnDelete"})));
    cluster.settle_with_pods();
    cluster.patch(S, DB, "", image("v2")).unwrap();
    cluster.settle_with_pods();
    assert_eq!(images(&cluster), ["v1", "v1"]);
    cluster.assert_quiet();
    cluster.delete("pods", "default/db-0", &Value::map()).unwrap();
    cluster.settle_with_pods();
    assert_eq!(images(&cluster), ["v2", "v1"]);
    cluster.assert_quiet();
}

#[test]
fn claims_outlive_their_pod() {
    let mut cluster = cluster(7);
    cluster.create(S, "default", with_claims(set(2)));
    cluster.settle_with_pods();
    assert_eq!(names(&cluster, CLAIMS), ["data-db-0", "data-db-1"]);
    let claim = cluster.get(CLAIMS, "default/data-db-1").unwrap();
    assert_eq!(claim.at(&["metadata", "labels"]), Some(&value!({"kind": "disk", "app": "db"})));
    assert!(claim.at(&["metadata", "ownerReferences"]).is_none_or(Value::is_empty));
    let volumes = pod(&cluster, 1).at(&["spec", "volumes"]).and_then(Value::as_list).unwrap().to_vec();
    assert_eq!(volumes[0].str_at(&["persistentVolumeClaim", "claimName"]), "data-db-1");
    assert!(has_event(
        &cluster,
        "SuccessfulCreate",
        "Create Claim data-db-1 Pod db-1 in StatefulSet db success"
    ));
    cluster.patch(S, DB, "", value!({"spec": {"replicas": 1}})).unwrap();
    cluster.settle_with_pods();
    assert_eq!(names(&cluster, CLAIMS), ["data-db-0", "data-db-1"]);
    assert_at_rest(&mut cluster, 1);
}

#[test]
fn retention_policy_decides_the_owners_of_claims() {
    let mut cluster = cluster(8);
    let policy = |deleted: &str, scaled: &str| value!({"whenDeleted": (deleted), "whenScaled": (scaled)});
    let field = "persistentVolumeClaimRetentionPolicy";
    cluster.create(S, "default", with(with_claims(set(2)), field, policy("Delete", "Delete")));
    cluster.settle_with_pods();
    let owner = |cluster: &Cluster, number: i64| {
        let claim = cluster.get(CLAIMS, &format!("default/data-db-{number}")).unwrap();
        let owners =
            claim.at(&["metadata", "ownerReferences"]).and_then(Value::as_list).unwrap_or_default().to_vec();
        owners.first().map_or(String::new(), |owner| owner.str_at(&["kind"]).to_owned())
    };
    assert_eq!((owner(&cluster, 0), owner(&cluster, 1)), ("StatefulSet".into(), "StatefulSet".into()));
    cluster.patch(S, DB, "", value!({"spec": {"replicas": 1}})).unwrap();
    cluster.settle_with_pods();
    assert_eq!(owner(&cluster, 1), "Pod", "the claim is collected with the surplus pod");
    assert_at_rest(&mut cluster, 1);

    // The garbage collector is late; the pod must not reuse a claim that will be collected.
    cluster.patch(S, DB, "", value!({"spec": {"replicas": 2}})).unwrap();
    cluster.settle_with_pods();
    assert_eq!(names(&cluster, "pods"), ["db-0"]);
    cluster.patch(CLAIMS, "default/data-db-1", "", value!({"metadata": {"finalizers": null}})).unwrap();
    cluster.delete(CLAIMS, "default/data-db-1", &Value::map()).unwrap();
    cluster.settle_with_pods();
    assert_eq!((names(&cluster, "pods").len(), owner(&cluster, 1)), (2, "StatefulSet".into()));

    let mut patch = Value::map();
    patch.ensure_map("spec").insert(field, policy("Retain", "Retain"));
    cluster.patch(S, DB, "", patch).unwrap();
    cluster.settle_with_pods();
    assert_eq!((owner(&cluster, 0), owner(&cluster, 1)), (String::new(), String::new()));
    assert_at_rest(&mut cluster, 2);
}

#[test]
fn restored_template_reuses_its_revision() {
    let mut cluster = cluster(9);
    cluster.create(S, "default", with(set(1), "revisionHistoryLimit", value!(1)));
    for version in ["v1", "v2", "v3", "v4", "v3"] {
        cluster.patch(S, DB, "", image(version)).unwrap();
        cluster.settle_with_pods();
        assert_eq!(images(&cluster), [version]);
        assert_at_rest(&mut cluster, 1);
    }
    let mut revisions: Vec<i64> =
        cluster.list(REVISIONS).iter().filter_map(|object| object.get("revision")?.as_i64()).collect();
    revisions.sort_unstable();
    assert_eq!(revisions, [4, 5], "v4, and v3 under a new number");
}

#[test]
fn pod_is_available_after_min_ready_seconds() {
    let mut cluster = cluster(10);
    cluster.create(S, "default", with(set(2), "minReadySeconds", value!(30)));
    cluster.settle_with_pods();
    assert_eq!(names(&cluster, "pods"), ["db-0"]);
    assert_eq!(
        (number(&cluster, S, DB, "readyReplicas"), number(&cluster, S, DB, "availableReplicas")),
        (1, 0)
    );
    cluster.run(Duration::from_secs(31));
    assert_eq!(names(&cluster, "pods"), ["db-0", "db-1"]);
    cluster.settle_with_pods();
    cluster.run(Duration::from_secs(31));
    assert_at_rest(&mut cluster, 2);
}

#[test]
fn orphaned_pods_are_adopted_by_name() {
    let mut cluster = cluster(11);
    for name in ["db-0", "db-x", "other-0"] {
        let pod = value!({
            "metadata": {"name": (name), "labels": {"app": "db"}},
            "spec": {"containers": [{"name": "c", "image": "v1"}]},
        });
        cluster.create("pods", "default", pod);
    }
    cluster.create(S, "default", with(set(1), "updateStrategy", value!({"type": "OnDelete"})));
    cluster.settle_with_pods();
    assert_eq!(names(&cluster, "pods"), ["db-0", "db-x", "other-0"]);
    let label =
        pod(&cluster, 0).str_at(&["metadata", "labels", "statefulset.kubernetes.io/pod-name"]).to_owned();
    assert_eq!(label, "db-0");
    let lone = cluster.get("pods", "default/db-x").unwrap();
    assert!(lone.at(&["metadata", "ownerReferences"]).is_none_or(Value::is_empty));
    cluster.assert_quiet();
}

#[test]
fn failed_pod_is_replaced_under_its_name() {
    let mut cluster = cluster(12);
    cluster.create(S, "default", set(2));
    cluster.settle_with_pods();
    let uid = |cluster: &Cluster| pod(cluster, 0).str_at(&["metadata", "uid"]).to_owned();
    let before = uid(&cluster);
    cluster.patch("pods", "default/db-0", "status", value!({"status": {"phase": "Failed"}})).unwrap();
    cluster.settle_with_pods();
    assert_ne!(uid(&cluster), before);
    assert_at_rest(&mut cluster, 2);
}

#[test]
fn crash_between_any_two_writes_converges_to_the_same_state() {
    for crash_after in 0..30 {
        let mut cluster = cluster(13);
        cluster.create(S, "default", with_claims(set(2)));
        cluster.run_steps(crash_after.min(15), Cluster::run_pods);
        if crash_after > 15 {
            cluster.patch(S, DB, "", image("v2")).unwrap();
        }
        cluster.crash_after_with_pods(crash_after.saturating_sub(15));
        cluster.patch(S, DB, "", image("v2")).unwrap();
        cluster.settle_with_pods();
        assert_eq!(images(&cluster), ["v2", "v2"], "crash after {crash_after} steps");
        assert_at_rest(&mut cluster, 2);
    }
}

#[test]
fn random_states_converge_to_the_spec() {
    for seed in 0..40 {
        let mut cluster = cluster(seed);
        let policy = if seed % 2 == 0 { "Parallel" } else { "OrderedReady" };
        cluster.create(S, "default", with(with_claims(set(3)), "podManagementPolicy", value!((policy))));
        for _ in 0..150 {
            match cluster.rng.u8(..14) {
                0 => {
                    let replicas = cluster.rng.i64(0..6);
                    let _ = cluster.patch(S, DB, "", value!({"spec": {"replicas": (replicas)}}));
                }
                1 => {
                    let version = format!("v{}", cluster.rng.u8(..4));
                    let _ = cluster.patch(S, DB, "", image(&version));
                }
                2 => {
                    let path = format!("default/db-{}", cluster.rng.u8(..6));
                    let _ = cluster.delete("pods", &path, &Value::map());
                }
                3 => {
                    let path = format!("default/db-{}", cluster.rng.u8(..6));
                    let _ = cluster.patch("pods", &path, "status", value!({"status": {"phase": "Failed"}}));
                }
                4 => cluster.lose_write(),
                5 => cluster.crash(),
                6 | 7 => cluster.observe(),
                8 | 9 => {
                    cluster.plan();
                }
                10 => {
                    for pod in cluster.list("pods") {
                        if cluster.rng.bool() {
                            cluster.run_pod(&pod);
                        }
                    }
                }
                _ => {
                    cluster.perform();
                }
            }
        }
        cluster.patch(S, DB, "", value!({"spec": {"replicas": 2}})).unwrap();
        cluster.patch(S, DB, "", image("end")).unwrap();
        for _ in 0..4 {
            cluster.settle_with_pods();
            cluster.run(Duration::from_secs(301));
        }
        assert_eq!(images(&cluster), ["end", "end"], "seed {seed}");
        assert_at_rest(&mut cluster, 2);
    }
}
