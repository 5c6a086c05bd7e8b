//! Completeness of watches: without faults, with the scheduler and a node, the resync never finds a gap.
//!
//! A gap would mean a missing watch, whose changes would wait for the resync.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use setpoint_api::{Value, value};
use setpoint_controllers::Settings;
use setpoint_node::Fleet;
use setpoint_reconcile::engine::{RESYNC, RESYNC_WHOLE};
use setpoint_scheduler::Scheduler;
use setpoint_sim::cluster::{Cluster, Controllers};

const CONTROLLERS: Controllers = || {
    let settings = Settings { root_ca: "any".to_owned(), ..Settings::default() };
    let mut all = setpoint_controllers::all(&settings);
    all.push(Box::new(Scheduler::default()));
    all.extend(setpoint_node::planners(Fleet::default()));
    (all, setpoint_controllers::indexes::all().into_iter().chain(setpoint_node::indexes()).collect())
};
/// Number of edits, some seconds apart.
const EDITS: usize = 300;

fn workload(name: &str) -> Value {
    value!({
        "replicas": 3,
        "serviceName": "web",
        "selector": {"matchLabels": {"app": (name)}},
        "template": {
            "metadata": {"labels": {"app": (name)}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    })
}

/// One object of every kind that controllers manage.
fn fill(cluster: &mut Cluster) {
    let named = |name: &str, spec: Value| value!({"metadata": {"name": (name)}, "spec": (spec)});
    cluster.create("namespaces", "", value!({"metadata": {"name": "kube-node-lease"}}));
    cluster.create("deployments.apps", "default", named("web", without(workload("web"), "serviceName")));
    cluster.create("statefulsets.apps", "default", named("db", workload("db")));
    let daemon = without(without(workload("agent"), "serviceName"), "replicas");
    cluster.create("daemonsets.apps", "default", named("agent", daemon));
    let service = value!({"selector": {"app": "web"}, "ports": [{"port": 80}]});
    cluster.create("services", "default", named("web", service));
    let budget = value!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    cluster.create("poddisruptionbudgets.policy", "default", named("web", budget));
    cluster.create("resourcequotas", "default", named("all", value!({"hard": {"pods": "100"}})));
    let container = value!({"name": "c", "image": "i", "command": ["sleep", "3"]});
    let once = value!({"restartPolicy": "Never", "containers": [(container)]});
    let job = value!({"completions": 2, "template": {"spec": (once)}});
    cluster.create("jobs.batch", "default", named("once", job.clone()));
    let cron = value!({"schedule": "*/2 * * * *", "jobTemplate": {"spec": (job)}});
    cluster.create("cronjobs.batch", "default", named("often", cron));
}

fn without(mut value: Value, field: &str) -> Value {
    value.make_map().remove(field);
    value
}

fn edit(cluster: &mut Cluster) {
    let replicas = cluster.rng.i64(0..5);
    let image = format!("i:{}", cluster.rng.u8(..4));
    let name =
        *cluster.rng.choice([("deployments.apps", "web"), ("statefulsets.apps", "db")].iter()).unwrap();
    let path = format!("default/{}", name.1);
    let containers = value!([{"name": "c", "image": (image)}]);
    let roll = value!({"spec": {"template": {"spec": {"containers": (containers)}}}});
    // Edits may be rejected.
    let _ = match cluster.rng.u8(..5) {
        0 => cluster.patch(name.0, &path, "", value!({"spec": {"replicas": (replicas)}})),
        1 => cluster.patch(name.0, &path, "", roll.clone()),
        2 => cluster.patch("daemonsets.apps", "default/agent", "", roll.clone()),
        _ => {
            let pods = cluster.list("pods");
            let Some(pod) = cluster.rng.choice(pods.iter()) else { return };
            let path = format!("default/{}", pod.str_at(&["metadata", "name"]));
            cluster.delete("pods", &path, &Value::default())
        }
    };
}

#[test]
fn resync_finds_no_gap_without_faults() {
    let mut cluster = Cluster::new(CONTROLLERS, 7);
    // A schedule is due at full seconds and acted on a moment later, as in upstream, and a container starts
    // within a second: the resync, which runs once a second, avoids these moments.
    cluster.now = cluster.now.after(Duration::from_millis(250));
    fill(&mut cluster);
    for _ in 0..EDITS {
        edit(&mut cluster);
        cluster.settle();
        let pause = Duration::from_millis(cluster.rng.u64(..8000));
        cluster.run(pause);
    }
    let stats: Vec<_> = cluster.engine.stats().map(|(name, _, stats)| (name, stats.clone())).collect();
    assert!(stats.iter().map(|(_, stats)| stats.writes).sum::<u64>() > 1000, "{stats:?}");
    let plans = |cluster: &Cluster| cluster.engine.stats().map(|(_, _, stats)| stats.plans).sum::<u64>();
    let before = plans(&cluster);
    // One resync in several covers all keys.
    cluster.run(RESYNC * (RESYNC_WHOLE + 1));
    assert!(plans(&cluster) > before + 100, "the resync runs");
    for (name, _, stats) in cluster.engine.stats() {
        assert_eq!(stats.resync_gaps, 0, "{name} has a gap that only the resync finds");
        assert_eq!(stats.panics, 0, "{name} panicked");
    }
}
