//! Controllers under faults: thousands of seeds, each a small history of everything that can go wrong.
//!
//! `SETPOINT_SIM_SEEDS` says how many (default 2000); `SETPOINT_SIM_SEED` replays one and prints it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use setpoint_api::{Value, value};
use setpoint_controllers::Settings;
use setpoint_sim::campaign::{self, Marks, Scenario, path};
use setpoint_sim::cluster::{Cluster, Controllers};

/// How many steps of the first phase a history has at the least.
const STEPS: usize = 160;

const CONTROLLERS: Controllers =
    || (setpoint_controllers::all(&Settings::default()), setpoint_controllers::indexes::all());

/// ReplicaSets whose users cannot make up their minds.
struct ReplicaSets;

/// The names that users choose from.
const NAMES: [&str; 2] = ["red", "blue"];
/// The most pods that a user asks for.
const REPLICAS_MAX: i64 = 6;

fn replica_set(name: &str, replicas: i64) -> Value {
    value!({
        "metadata": {"name": (name)},
        "spec": {
            "replicas": (replicas),
            "selector": {"matchLabels": {"app": (name)}},
            "template": {
                "metadata": {"labels": {"app": (name)}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    })
}

impl Scenario for ReplicaSets {
    fn begin(&self, cluster: &mut Cluster) {
        cluster.create("replicasets.apps", "default", replica_set("red", 3));
    }

    fn edit(&self, cluster: &mut Cluster) {
        let name = *cluster.rng.choice(NAMES.iter()).unwrap();
        let path = format!("default/{name}");
        let replicas = cluster.rng.i64(0..=REPLICAS_MAX);
        // Users do not mind being refused.
        let _ = match cluster.rng.u8(..10) {
            0..3 => cluster.try_create("replicasets.apps", "default", replica_set(name, replicas)),
            3..7 => {
                let patch = value!({"spec": {"replicas": (replicas)}});
                cluster.patch("replicasets.apps", &path, "", patch)
            }
            7 => cluster.delete("replicasets.apps", &path, &value!({"propagationPolicy": "Background"})),
            8 => relabel_a_pod(cluster, name),
            _ => delete_a_pod(cluster),
        };
    }

    fn always(&self, cluster: &Cluster) -> Result<(), String> {
        // A set never makes more pods than a user ever wanted: what was asked for twice is not made twice. It may
        // adopt more than it wants.
        for set in cluster.list("replicasets.apps") {
            let made = format!("{}-", set.str_at(&["metadata", "name"]));
            let pods = active_pods_of(cluster, set.str_at(&["metadata", "uid"]));
            let pods = pods.iter().filter(|pod| pod.str_at(&["metadata", "name"]).starts_with(&made)).count();
            let most = usize::try_from(REPLICAS_MAX).unwrap();
            if pods > most {
                return Err(format!("{} has {pods} pods, more than anyone wanted", path(&set)));
            }
        }
        Ok(())
    }

    fn finally(&self, cluster: &Cluster) -> Result<(), String> {
        for set in cluster.list("replicasets.apps") {
            let want = set.at(&["spec", "replicas"]).and_then(Value::as_i64).unwrap();
            let have = active_pods_of(cluster, set.str_at(&["metadata", "uid"])).len();
            let said = set.at(&["status", "replicas"]).and_then(Value::as_i64).unwrap();
            if i64::try_from(have).unwrap() != want || said != want {
                return Err(format!("{} wants {want} pods, has {have}, says {said}", path(&set)));
            }
        }
        Ok(())
    }

    fn contested(&self) -> &'static [&'static str] {
        &["replicasets.apps", "pods"]
    }
}

fn active_pods_of(cluster: &Cluster, uid: &str) -> Vec<Value> {
    let is_owned = |pod: &Value| {
        let owners = pod.at(&["metadata", "ownerReferences"]).and_then(Value::as_list).unwrap_or_default();
        owners.iter().any(|owner| owner.str_at(&["uid"]) == uid)
    };
    let is_active = |pod: &Value| {
        !matches!(pod.str_at(&["status", "phase"]), "Failed" | "Succeeded")
            && pod.at(&["metadata", "deletionTimestamp"]).is_none()
    };
    cluster.list("pods").into_iter().filter(|pod| is_owned(pod) && is_active(pod)).collect()
}

fn some_pod(cluster: &mut Cluster) -> Option<String> {
    let pods = cluster.list("pods");
    cluster.rng.choice(&pods).map(path)
}

type Done = Result<setpoint_api::Revision, setpoint_api::status::Status>;

fn relabel_a_pod(cluster: &mut Cluster, name: &str) -> Done {
    let pod = some_pod(cluster).unwrap_or_default();
    if pod.is_empty() {
        return Ok(setpoint_api::Revision::ZERO);
    }
    cluster.patch("pods", &pod, "", value!({"metadata": {"labels": {"app": (name)}}}))
}

fn delete_a_pod(cluster: &mut Cluster) -> Done {
    let pod = some_pod(cluster).unwrap_or_default();
    if pod.is_empty() {
        return Ok(setpoint_api::Revision::ZERO);
    }
    cluster.delete("pods", &pod, &Value::map())
}

/// Runs many seeds of a scenario, and demands that everything rare happened in some of them.
fn campaign(scenario: &dyn Scenario, rare: &[&'static str]) {
    if let Ok(seed) = std::env::var("SETPOINT_SIM_SEED") {
        println!("{:#?}", campaign::run(CONTROLLERS, scenario, seed.parse().unwrap(), STEPS).unwrap());
        return;
    }
    let seeds = std::env::var("SETPOINT_SIM_SEEDS").map_or(2000, |text| text.parse().unwrap());
    let mut marks = Marks::new();
    for seed in 0..seeds {
        let report = campaign::run(CONTROLLERS, scenario, seed, STEPS).unwrap_or_else(|why| panic!("{why}"));
        for (mark, count) in report.marks {
            *marks.entry(mark).or_default() += count;
        }
    }
    for mark in rare {
        assert!(
            marks.get(mark).copied().unwrap_or(0) > 0,
            "never happened in {seeds} seeds: {mark} ({marks:?})"
        );
    }
}

const FAULTS: [&str; 9] = [
    "crash",
    "forgotten",
    "lost write",
    "lost answer",
    "broken watch",
    "repeated events",
    "rival",
    "conflict",
    "failure",
];

#[test]
fn replica_sets_converge_under_faults() {
    campaign(&ReplicaSets, &FAULTS);
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for seed in [1, 2, 3] {
        let run = || campaign::run(CONTROLLERS, &ReplicaSets, seed, STEPS).unwrap();
        assert_eq!(run(), run());
    }
}
