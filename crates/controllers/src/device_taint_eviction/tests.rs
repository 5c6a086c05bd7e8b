//! Tests of pods on tainted devices in a control plane.

use std::time::Duration;

use setpoint_api::{Value, value};
use setpoint_sim::cluster::Cluster;

use super::*;
use crate::testing::{condition, has_event};

const CLAIMS: &str = "resourceclaims.resource.k8s.io";
const RULES: &str = "devicetaintrules.resource.k8s.io";
const SLICES: &str = "resourceslices.resource.k8s.io";

/// Three pods on device `x` with three claims: without toleration, with one of 100 seconds, with an unlimited
/// one.
fn cluster() -> Cluster {
    let mut cluster = Cluster::new(|| (vec![Box::new(DeviceTaintEviction)], crate::indexes::all()), 7);
    publish(&mut cluster, "s", 1, value!([]));
    for (name, seconds) in [("at-once", None), ("patient", Some(100)), ("for-ever", Some(-1))] {
        let mut toleration = value!({"operator": "Exists", "effect": "NoExecute"});
        if let Some(seconds) = seconds.filter(|seconds| *seconds >= 0) {
            toleration.make_map().insert("tolerationSeconds", seconds);
        }
        use_device(&mut cluster, name, if seconds.is_some() { value!([(toleration)]) } else { value!([]) });
    }
    cluster.settle();
    cluster
}

fn use_device(cluster: &mut Cluster, name: &str, tolerations: Value) {
    let request = value!({"name": "r", "exactly": {"deviceClassName": "gpu"}});
    let claim = value!({"metadata": {"name": (name)}, "spec": {"devices": {"requests": [(request)]}}});
    cluster.create(CLAIMS, "default", claim);
    let pod = value!({
        "metadata": {"name": (name)},
        "spec": {
            "nodeName": "n",
            "containers": [{"name": "c", "image": "i"}],
            "resourceClaims": [{"name": "dev", "resourceClaimName": (name)}],
        },
    });
    cluster.create("pods", "default", pod);
    let uid =
        cluster.get("pods", &format!("default/{name}")).unwrap().str_at(&["metadata", "uid"]).to_owned();
    let device = value!({
        "request": "r", "driver": "d.example.com", "pool": "p", "device": "x", "tolerations": (tolerations),
    });
    let status = value!({
        "allocation": {"devices": {"results": [(device)]}},
        "reservedFor": [{"resource": "pods", "name": (name), "uid": (uid)}],
    });
    cluster.patch(CLAIMS, &format!("default/{name}"), "status", value!({"status": (status)})).unwrap();
}

/// Publishes a ResourceSlice, with these taints on `x`.
fn publish(cluster: &mut Cluster, name: &str, generation: i64, taints: Value) {
    let slice = value!({
        "metadata": {"name": (name)},
        "spec": {
            "driver": "d.example.com",
            "pool": {"name": "p", "generation": (generation), "resourceSliceCount": 1},
            "nodeName": "n",
            "devices": [{"name": "w"}, {"name": "x", "taints": (taints)}],
        },
    });
    if cluster.get(SLICES, name).is_some() {
        let spec = slice.get("spec").cloned().unwrap();
        cluster.patch(SLICES, name, "", value!({"spec": (spec)})).unwrap();
    } else {
        cluster.create(SLICES, "", slice);
    }
    cluster.settle();
}

fn rule(effect: &str, device: &str) -> Value {
    value!({
        "metadata": {"name": "rule"},
        "spec": {
            "deviceSelector": {"driver": "d.example.com", "device": (device)},
            "taint": {"key": "bad", "effect": (effect)},
        },
    })
}

fn running(cluster: &Cluster) -> Vec<String> {
    let pods = cluster.list("pods");
    let alive = pods.iter().filter(|pod| pod.at(&["metadata", "deletionTimestamp"]).is_none());
    alive.map(|pod| pod.str_at(&["metadata", "name"]).to_owned()).collect()
}

fn progress(cluster: &Cluster) -> String {
    condition(cluster, RULES, "rule", "EvictionInProgress")
}

fn no_execute_taint() -> Value {
    value!([{"key": "bad", "effect": "NoExecute"}])
}

#[test]
fn pods_are_evicted_when_the_tolerations_of_their_claims_end() {
    let mut cluster = cluster();
    publish(&mut cluster, "s", 1, value!([{"key": "bad", "effect": "NoSchedule"}]));
    assert_eq!(running(&cluster).len(), 3, "NoSchedule evicts no running pod");
    publish(&mut cluster, "s", 1, no_execute_taint());
    assert_eq!(running(&cluster), ["for-ever", "patient"]);
    assert!(has_event(&cluster, "DeviceTaintManagerEviction", "Marking for deletion"));
    let target = condition(&cluster, "pods", "default/at-once", "DisruptionTarget");
    assert_eq!(
        target,
        "True DeletionByDeviceTaintManager Device Taint manager: deleting due to NoExecute taint"
    );
    cluster.run(Duration::from_secs(95));
    assert_eq!(running(&cluster), ["for-ever", "patient"]);
    cluster.run(Duration::from_secs(10));
    assert_eq!(running(&cluster), ["for-ever"]);
    cluster.assert_quiet();
}

#[test]
fn removed_taint_cancels_eviction_and_old_slices_are_ignored() {
    let mut cluster = cluster();
    publish(&mut cluster, "s", 1, no_execute_taint());
    cluster.run(Duration::from_secs(50));
    publish(&mut cluster, "s2", 2, value!([]));
    assert!(has_event(&cluster, "DeviceTaintManagerEviction", "Cancelling deletion"));
    cluster.run(Duration::from_secs(300));
    assert_eq!(running(&cluster), ["for-ever", "patient"]);
    cluster.assert_quiet();
}

#[test]
fn rule_evicts_pods_and_reports_progress() {
    let mut cluster = cluster();
    cluster.create(RULES, "", rule("NoExecute", "x"));
    cluster.settle();
    assert_eq!(running(&cluster), ["for-ever", "patient"]);
    assert!(progress(&cluster).starts_with("True PodsPendingEviction "), "{}", progress(&cluster));
    cluster.run(Duration::from_secs(15));
    assert_eq!(
        progress(&cluster),
        "True PodsPendingEviction 1 pod needs to be evicted in 1 namespace. 1 pod evicted since starting the controller."
    );
    cluster.run(Duration::from_secs(120));
    assert_eq!(running(&cluster), ["for-ever"]);
    assert_eq!(progress(&cluster), "False Completed 2 pods evicted since starting the controller.");
    cluster.assert_quiet();
    cluster.crash();
    cluster.run(Duration::from_secs(60));
    assert_eq!(progress(&cluster), "False Completed 2 pods evicted since starting the controller.");
}

#[test]
fn rule_without_effect_reports_a_dry_run() {
    let mut cluster = cluster();
    cluster.create(RULES, "", rule("None", "x"));
    cluster.run(Duration::from_secs(300));
    assert_eq!(running(&cluster).len(), 3);
    assert_eq!(
        progress(&cluster),
        "False NoEffect 1 published device selected. 3 allocated devices selected. 2 pods would be evicted in 1 \
         namespace if the effect was NoExecute. This information will not be updated again. Recreate the \
         DeviceTaintRule to trigger an update."
    );
    cluster.patch(RULES, "rule", "", value!({"spec": {"taint": {"effect": "NoSchedule"}}})).unwrap();
    cluster.settle();
    assert_eq!(progress(&cluster), "False OtherEffect Eviction only happens for the NoExecute effect.");
    cluster.assert_quiet();
    cluster.delete(RULES, "rule", &Value::map()).unwrap();
    cluster.create(RULES, "", rule("NoExecute", "w"));
    cluster.run(Duration::from_secs(300));
    assert_eq!(progress(&cluster), "False NotStarted ", "no pod uses that device");
    assert_eq!(running(&cluster).len(), 3);
}

#[test]
fn pods_without_a_reservation_are_not_evicted() {
    let mut cluster = cluster();
    let pod = value!({
        "metadata": {"name": "stranger"},
        "spec": {
            "nodeName": "n",
            "containers": [{"name": "c", "image": "i"}],
            "resourceClaims": [{"name": "dev", "resourceClaimName": "at-once"}],
        },
    });
    cluster.create("pods", "default", pod);
    publish(&mut cluster, "s", 1, no_execute_taint());
    assert_eq!(running(&cluster), ["for-ever", "patient", "stranger"]);
}

#[test]
fn crash_between_any_two_writes_converges_to_the_same_state() {
    for crash_after in 0..9 {
        let mut cluster = cluster();
        cluster.create(RULES, "", rule("NoExecute", "x"));
        cluster.crash_after(crash_after);
        cluster.run(Duration::from_secs(200));
        assert_eq!(running(&cluster), ["for-ever"], "crash after {crash_after}");
        assert!(progress(&cluster).starts_with("False "), "{}", progress(&cluster));
        cluster.assert_quiet();
    }
}

/// Random states converge: the pod without toleration is gone if and only if its device is tainted.
#[test]
fn random_edits_converge_and_exactly_the_tainted_pods_are_evicted() {
    for seed in 0..30 {
        let mut cluster = cluster();
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut was_tainted = false;
        for _ in 0..30 {
            match rng.u8(..6) {
                0 => {
                    let taints = if rng.bool() { no_execute_taint() } else { value!([]) };
                    let slice = value!({"spec": {"devices": [{"name": "x", "taints": (taints)}]}});
                    let _ = cluster.patch(SLICES, "s", "", slice);
                }
                1 => {
                    let effect = *rng.choice(&["NoExecute", "NoSchedule", "None"]).unwrap();
                    let device = if rng.bool() { "x" } else { "w" };
                    drop(cluster.try_create(RULES, "", rule(effect, device)));
                }
                2 => drop(cluster.delete(RULES, "rule", &Value::map())),
                3 => cluster.now = cluster.now.after(Duration::from_secs(rng.u64(..60))),
                4 => cluster.crash(),
                _ => {
                    let effect = if rng.bool() { "NoExecute" } else { "None" };
                    let _ =
                        cluster.patch(RULES, "rule", "", value!({"spec": {"taint": {"effect": (effect)}}}));
                }
            }
            was_tainted |= is_tainted(&cluster);
            cluster.observe_some();
            cluster.plan();
            for _ in 0..rng.u8(..4) {
                cluster.perform();
            }
        }
        cluster.mend_watches();
        cluster.run(Duration::from_secs(800));
        cluster.assert_quiet();
        let alive = running(&cluster);
        assert!(alive.contains(&"for-ever".to_owned()), "seed {seed}");
        assert!(!is_tainted(&cluster) || alive.len() == 1, "seed {seed}: {alive:?}");
        assert!(was_tainted || alive.len() == 3, "seed {seed}: {alive:?}");
    }
}

fn is_tainted(cluster: &Cluster) -> bool {
    let slice = cluster.get(SLICES, "s").unwrap();
    let devices = slice.at(&["spec", "devices"]).and_then(Value::as_list).unwrap();
    let by_driver = devices.iter().any(|device| {
        let taints = device.at(&["taints"]).and_then(Value::as_list).unwrap_or_default();
        device.str_at(&["name"]) == "x" && !taints.is_empty()
    });
    by_driver
        || cluster.get(RULES, "rule").is_some_and(|rule| {
            rule.str_at(&["spec", "taint", "effect"]) == "NoExecute"
                && rule.str_at(&["spec", "deviceSelector", "device"]) == "x"
        })
}
