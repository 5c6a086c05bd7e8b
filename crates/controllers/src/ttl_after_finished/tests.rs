//! Tests of finished Jobs in a control plane.

use std::time::Duration;

use setpoint_api::{Value, value};
use setpoint_sim::cluster::Cluster;

use crate::job::JobController;

fn start(ttl: i64) -> Cluster {
    let controllers: fn() -> _ = || -> (Vec<Box<dyn setpoint_reconcile::Controller>>, _) {
        let all: Vec<Box<dyn setpoint_reconcile::Controller>> =
            vec![Box::new(JobController), Box::new(super::TtlAfterFinishedController)];
        (all, crate::indexes::all())
    };
    let mut cluster = Cluster::new(controllers, 7);
    let template = value!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let job = value!({
        "metadata": {"name": "work"},
        "spec": {"template": (template), "ttlSecondsAfterFinished": (ttl)},
    });
    cluster.create("jobs.batch", "default", job);
    cluster.settle();
    cluster
}

fn finish(cluster: &mut Cluster) {
    for pod in cluster.list("pods") {
        let path = format!("default/{}", pod.str_at(&["metadata", "name"]));
        cluster.patch("pods", &path, "status", value!({"status": {"phase": "Succeeded"}})).unwrap();
    }
    cluster.settle();
}

fn is_terminating(cluster: &Cluster) -> bool {
    let job = cluster.get("jobs.batch", "default/work");
    job.is_none_or(|job| job.at(&["metadata", "deletionTimestamp"]).is_some())
}

#[test]
fn only_finished_jobs_past_their_ttl_are_deleted() {
    let mut cluster = start(100);
    cluster.run(Duration::from_secs(500));
    assert!(!is_terminating(&cluster), "it has not finished");
    finish(&mut cluster);
    cluster.run(Duration::from_secs(98));
    assert!(!is_terminating(&cluster));
    cluster.assert_quiet();
    cluster.run(Duration::from_secs(3));
    assert!(is_terminating(&cluster));
    cluster.assert_quiet();
}

#[test]
fn changed_ttl_takes_effect() {
    let mut cluster = start(100);
    finish(&mut cluster);
    cluster
        .patch("jobs.batch", "default/work", "", value!({"spec": {"ttlSecondsAfterFinished": (Value::Null)}}))
        .unwrap();
    cluster.run(Duration::from_secs(1000));
    assert!(!is_terminating(&cluster));
    cluster
        .patch("jobs.batch", "default/work", "", value!({"spec": {"ttlSecondsAfterFinished": 0}}))
        .unwrap();
    cluster.crash();
    cluster.settle();
    assert!(is_terminating(&cluster), "overdue");
}
