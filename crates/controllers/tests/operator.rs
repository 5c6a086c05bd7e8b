//! The planner of `examples/operator.rs` under faults, beside built-in controllers: websites are created, edited and
//! deleted, others edit their objects, writes are lost, watches break and the loop crashes.
//!
//! `SETPOINT_SIM_SEEDS` is the number of histories (default 100); `SETPOINT_SIM_SEED` replays one and prints it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use setpoint_api::{Value, value};
use setpoint_controllers::crd_cleanup::CrdCleanup;
use setpoint_controllers::crd_conditions::CrdConditions;
use setpoint_controllers::crd_names::CrdNames;
use setpoint_controllers::deployment::DeploymentController;
use setpoint_controllers::garbage_collector::GarbageCollector;
use setpoint_controllers::replica_set::ReplicaSetController;
use setpoint_reconcile::Controller;
use setpoint_sim::campaign::path;
use setpoint_sim::cluster::{Cluster, Controllers};
use setpoint_sim::scenario::{self, Marks, Scenario};

#[path = "../../../examples/operator.rs"]
#[expect(dead_code, reason = "its main is not used")]
mod example;

use example::{WEBSITES, Websites, definition};

const STEPS: usize = 200;
const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
const MAPS: &str = "configmaps";
const DEPLOYMENTS: &str = "deployments.apps";

const CONTROLLERS: Controllers = || {
    let list: Vec<Box<dyn Controller>> = vec![
        Box::new(CrdCleanup),
        Box::new(CrdConditions),
        Box::new(CrdNames),
        Box::new(DeploymentController),
        Box::new(GarbageCollector),
        Box::new(ReplicaSetController),
        Box::new(Websites),
    ];
    (list, setpoint_controllers::indexes::all())
};

/// Scenario: users that edit websites and their objects at random.
struct Sites;

impl Scenario for Sites {
    fn begin(&self, cluster: &mut Cluster) {
        cluster.create(DEFINITIONS, "", definition());
        cluster.settle();
    }

    fn edit(&self, cluster: &mut Cluster) {
        let name = format!("w{}", cluster.rng.u8(..4));
        let at = format!("default/{name}");
        let (text, replicas) = (format!("text {}", cluster.rng.u8(..3)), i64::from(cluster.rng.u8(..4)));
        // Edits may be rejected.
        let _ = match cluster.rng.u8(..9) {
            0..3 => {
                let site = value!({"metadata": {"name": (name)}, "spec": {"text": (text)}});
                cluster.try_create(WEBSITES, "default", site)
            }
            3 => cluster.patch(WEBSITES, &at, "", value!({"spec": {"text": (text)}})),
            4 => cluster.patch(WEBSITES, &at, "", value!({"spec": {"replicas": (replicas)}})),
            5 => cluster.delete(WEBSITES, &at, &Value::Null),
            6 => cluster.patch(MAPS, &at, "", value!({"data": {"index.html": "edited", "more": "x"}})),
            7 => cluster.patch(DEPLOYMENTS, &at, "", value!({"spec": {"replicas": (replicas)}})),
            _ => {
                let resource = if cluster.rng.bool() { MAPS } else { DEPLOYMENTS };
                cluster.delete(resource, &at, &Value::Null)
            }
        };
    }

    fn always(&self, cluster: &Cluster) -> Result<(), String> {
        let sites = cluster.list(WEBSITES);
        match sites.iter().find(|site| replicas(site) > 9) {
            Some(site) => Err(format!("{} is stored against its schema", path(site))),
            None => Ok(()),
        }
    }

    fn finally(&self, cluster: &Cluster) -> Result<(), String> {
        let sites = cluster.list(WEBSITES);
        for site in &sites {
            let name = path(site);
            let page = cluster.get(MAPS, &name).ok_or(format!("{name} has no page"))?;
            if page.get("data") != Some(&value!({"index.html": (site.str_at(&["spec", "text"]))})) {
                return Err(format!("{name} has another page: {:?}", page.get("data")));
            }
            let deployment = cluster.get(DEPLOYMENTS, &name).ok_or(format!("{name} has no Deployment"))?;
            if replicas(&deployment) != replicas(site) {
                return Err(format!("{name} has {} replicas", replicas(&deployment)));
            }
            let ready = deployment.at(&["status", "readyReplicas"]).and_then(Value::as_i64).unwrap_or(0);
            if site.at(&["status", "ready"]).and_then(Value::as_i64) != Some(ready) {
                return Err(format!("{name} reports {:?}, not {ready}", site.get("status")));
            }
        }
        let left = [MAPS, DEPLOYMENTS].map(|resource| cluster.list(resource)).concat();
        let is_left = |object: &&Value| {
            let owners = object.at(&["metadata", "ownerReferences"]).and_then(Value::as_list);
            owners.is_some_and(|owners| {
                let uid = owners[0].str_at(&["uid"]);
                !sites.iter().any(|site| site.str_at(&["metadata", "uid"]) == uid)
            })
        };
        left.iter().find(is_left).map_or(Ok(()), |object| Err(format!("{} is left", path(object))))
    }

    fn contested(&self) -> &'static [&'static str] {
        &[WEBSITES, MAPS, DEPLOYMENTS]
    }
}

fn replicas(object: &Value) -> i64 {
    object.at(&["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(-1)
}

#[test]
fn websites_of_the_example_converge_under_faults() {
    if let Ok(seed) = std::env::var("SETPOINT_SIM_SEED") {
        println!("{:#?}", scenario::run(CONTROLLERS, &Sites, seed.parse().unwrap(), STEPS).unwrap());
        return;
    }
    let seeds = std::env::var("SETPOINT_SIM_SEEDS").map_or(100, |text| text.parse().unwrap());
    let mut marks = Marks::new();
    for seed in 0..seeds {
        let report =
            scenario::run(CONTROLLERS, &Sites, seed, STEPS).unwrap_or_else(|error| panic!("{error}"));
        for (mark, count) in report.marks {
            *marks.entry(mark).or_default() += count;
        }
    }
    for mark in ["crash", "lost write", "broken watch", "rival", "conflict"] {
        assert!(marks.get(mark).copied().unwrap_or(0) > 0, "never happened: {mark} ({marks:?})");
    }
}
