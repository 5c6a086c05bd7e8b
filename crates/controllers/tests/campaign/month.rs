//! Thirty simulated days of CronJobs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use setpoint_api::rfc3339::Seconds;
use setpoint_api::{Time, Value, value};
use setpoint_sim::cluster::Cluster;

use super::CONTROLLERS;

fn cron(name: &str, schedule: &str, zone: &str) -> Value {
    let template = value!({
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    });
    value!({
        "metadata": {"name": (name)},
        "spec": {
            "schedule": (schedule), "timeZone": (zone),
            "jobTemplate": {"spec": {"template": (template)}},
        },
    })
}

/// Node: every pod of a Job succeeds at once.
fn succeed(cluster: &mut Cluster) {
    for pod in cluster.list("pods") {
        if !matches!(pod.str_at(&["status", "phase"]), "Succeeded" | "Failed") {
            let path = format!("default/{}", pod.str_at(&["metadata", "name"]));
            cluster.patch("pods", &path, "status", value!({"status": {"phase": "Succeeded"}})).unwrap();
        }
    }
}

#[test]
fn thirty_days_of_cron_jobs_miss_no_run_and_leave_no_garbage() {
    const DAYS: u64 = 30;
    let mut cluster = Cluster::new(CONTROLLERS, 1);
    cluster.keeps_history = false;
    // A Friday in January: Berlin has no clock change within the month.
    cluster.now = Time::from_seconds(1_800_000_000);
    cluster.create("cronjobs.batch", "default", cron("often", "*/15 * * * *", "Etc/UTC"));
    cluster.create("cronjobs.batch", "default", cron("nightly", "30 3 * * *", "Europe/Berlin"));
    cluster.create("cronjobs.batch", "default", cron("workdays", "0 9 * * 1-5", "Etc/UTC"));
    let begin = cluster.now;
    let mut made = BTreeMap::<String, BTreeSet<String>>::new();
    for quarter in 1..=DAYS * 24 * 4 {
        // A moment after the quarter, when CronJobs are checked.
        cluster.now = begin.after(Duration::from_secs(quarter * 900 + 1));
        cluster.settle();
        for job in cluster.list("jobs.batch") {
            let owners =
                job.at(&["metadata", "ownerReferences"]).and_then(Value::as_list).unwrap_or_default();
            let names = made.entry(owners[0].str_at(&["name"]).to_owned()).or_default();
            names.insert(job.str_at(&["metadata", "name"]).to_owned());
        }
        succeed(&mut cluster);
        cluster.settle();
        cluster.store.expire(cluster.now).unwrap();
    }
    let counts: Vec<(String, usize)> = made.iter().map(|(name, jobs)| (name.clone(), jobs.len())).collect();
    let end = Seconds(cluster.now).to_string();
    let expected = [("nightly", 30), ("often", 30 * 96), ("workdays", 21)];
    let expected: Vec<(String, usize)> =
        expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    assert_eq!(counts, expected, "until {end}");
    // Only Jobs within the history limits remain.
    assert_eq!(cluster.list("jobs.batch").len(), 9);
    assert_eq!(cluster.list("pods").len(), 9);
}
