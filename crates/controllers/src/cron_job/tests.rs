//! Tests of CronJobs in a control plane.

use std::time::Duration;

use setpoint_api::rfc3339::{self, Seconds};
use setpoint_api::{Value, value};
use setpoint_sim::cluster::Cluster;

use crate::job::JobController;
use crate::ttl_after_finished::TtlAfterFinishedController;

/// Cluster at 00:15 on a Sunday.
fn cluster(seed: u64) -> Cluster {
    let mut cluster = Cluster::new(
        || {
            (
                vec![
                    Box::new(super::CronJobController),
                    Box::new(JobController),
                    Box::new(TtlAfterFinishedController),
                ],
                crate::indexes::all(),
            )
        },
        seed,
    );
    cluster.now = rfc3339::parse("2027-03-21T00:15:00Z").unwrap();
    cluster
}

fn cron(name: &str, schedule: &str, more: &Value) -> Value {
    let pod = value!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
    let template = value!({
        "metadata": {"labels": {"cron": (name)}, "annotations": {"note": "kept"}},
        "spec": {"template": {"spec": (pod)}},
    });
    let mut cron = value!({
        "metadata": {"name": (name)},
        "spec": {"schedule": (schedule), "jobTemplate": (template)},
    });
    for (name, value) in more.as_map().unwrap().iter() {
        cron.ensure_map("spec").insert(name, value.clone());
    }
    cron
}

fn start(schedule: &str, more: &Value) -> Cluster {
    let mut cluster = cluster(7);
    cluster.create("cronjobs.batch", "default", cron("tick", schedule, more));
    cluster.settle();
    cluster
}

/// Unfinished Jobs.
fn running(cluster: &Cluster) -> Vec<Value> {
    let is_running = |job: &Value| {
        let conditions = job.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
        !conditions.iter().any(|condition| matches!(condition.str_at(&["type"]), "Complete" | "Failed"))
    };
    cluster.list("jobs.batch").into_iter().filter(is_running).collect()
}

/// Node: sets the phase of every pod.
fn finish_pods(cluster: &mut Cluster, phase: &str) {
    for pod in cluster.list("pods") {
        let path = format!("default/{}", pod.str_at(&["metadata", "name"]));
        if matches!(pod.str_at(&["status", "phase"]), "Pending" | "Running") {
            cluster.patch("pods", &path, "status", value!({"status": {"phase": (phase)}})).unwrap();
        }
    }
    cluster.settle();
}

/// Garbage collector: deletes pods of deleted Jobs.
fn run_garbage_collector(cluster: &mut Cluster) {
    let jobs = cluster.list("jobs.batch");
    for pod in cluster.list("pods") {
        let job = pod.str_at(&["metadata", "labels", "job-name"]);
        if jobs.iter().all(|object| object.str_at(&["metadata", "name"]) != job) {
            let path = format!("default/{}", pod.str_at(&["metadata", "name"]));
            let _ = cluster.delete("pods", &path, &value!({"gracePeriodSeconds": 0}));
        }
    }
    cluster.settle();
}

fn wait(cluster: &mut Cluster, seconds: u64) {
    cluster.run(Duration::from_secs(seconds));
}

fn event_count(cluster: &Cluster, reason: &str) -> usize {
    let events = cluster.list("events");
    events.iter().filter(|event| event.str_at(&["reason"]) == reason).count()
}

fn status(cluster: &Cluster, name: &str) -> Value {
    let cron = cluster.get("cronjobs.batch", &format!("default/{name}")).unwrap();
    cron.get("status").cloned().unwrap_or_default()
}

fn active(cluster: &Cluster) -> usize {
    status(cluster, "tick").get("active").and_then(Value::as_list).map_or(0, <[Value]>::len)
}

#[test]
fn due_job_is_created_from_the_template() {
    let mut cluster = start("*/10 * * * *", &value!({"timeZone": "Europe/Berlin"}));
    assert!(cluster.list("jobs.batch").is_empty());
    wait(&mut cluster, 299);
    assert!(cluster.list("jobs.batch").is_empty());
    wait(&mut cluster, 2);
    let jobs = cluster.list("jobs.batch");
    assert_eq!(jobs.len(), 1);
    let job = &jobs[0];
    let minutes = cluster.now.0 / 60_000_000;
    assert_eq!(job.str_at(&["metadata", "name"]), format!("tick-{minutes}"));
    assert_eq!(
        job.str_at(&["metadata", "annotations", super::SCHEDULED_TIME_ANNOTATION]),
        "2027-03-21T01:20:00+01:00"
    );
    assert_eq!(job.str_at(&["metadata", "annotations", "note"]), "kept");
    assert_eq!(job.str_at(&["metadata", "labels", "cron"]), "tick");
    assert_eq!(active(&cluster), 1);
    assert_eq!(status(&cluster, "tick").str_at(&["lastScheduleTime"]), "2027-03-21T00:20:00Z");
    assert_eq!(event_count(&cluster, "UnexpectedJob"), 0);
    finish_pods(&mut cluster, "Succeeded");
    assert_eq!(active(&cluster), 0);
    assert!(status(&cluster, "tick").get("lastSuccessfulTime").is_some());
    assert_eq!(event_count(&cluster, "SawCompletedJob"), 1);
    cluster.assert_quiet();
}

#[test]
fn concurrency_policy_allows_forbids_or_replaces() {
    for (policy, running_jobs, reason) in [
        ("Allow", 3, "SuccessfulCreate"),
        ("Forbid", 1, "JobAlreadyActive"),
        ("Replace", 1, "SuccessfulDelete"),
    ] {
        let mut cluster = start("*/10 * * * *", &value!({"concurrencyPolicy": (policy)}));
        wait(&mut cluster, 1800);
        assert_eq!(running(&cluster).len(), running_jobs, "{policy}");
        assert_eq!(active(&cluster), running_jobs, "{policy}");
        assert!(event_count(&cluster, reason) > 0, "{policy}");
        assert_eq!(event_count(&cluster, "MissingJob"), 0, "{policy}");
        cluster.assert_quiet();
        run_garbage_collector(&mut cluster);
        finish_pods(&mut cluster, "Succeeded");
        let expected = usize::from(policy == "Forbid");
        assert_eq!(running(&cluster).len(), expected, "{policy}: what was due is made up for");
    }
}

#[test]
fn only_the_last_missed_time_is_started() {
    for (deadline, expected) in [(Value::Null, 1), (Value::from(300), 0), (Value::from(700), 1)] {
        let mut cluster =
            start("*/15 * * * *", &value!({"startingDeadlineSeconds": (deadline), "suspend": true}));
        // The loop is down for a day and ten minutes.
        cluster.now = cluster.now.after(Duration::from_secs(86_400 + 600));
        cluster.patch("cronjobs.batch", "default/tick", "", value!({"spec": {"suspend": false}})).unwrap();
        cluster.settle();
        let jobs = cluster.list("jobs.batch");
        assert_eq!(jobs.len(), expected);
        if expected == 1 {
            assert_eq!(status(&cluster, "tick").str_at(&["lastScheduleTime"]), "2027-03-22T00:15:00Z");
        }
        assert_eq!(event_count(&cluster, "TooManyMissedTimes"), 0, "96 are not too many");
        cluster.assert_quiet();
    }
    let mut cluster = start("* * * * *", &value!({"suspend": true}));
    cluster.now = cluster.now.after(Duration::from_secs(86_400));
    cluster.patch("cronjobs.batch", "default/tick", "", value!({"spec": {"suspend": false}})).unwrap();
    cluster.settle();
    assert_eq!((cluster.list("jobs.batch").len(), event_count(&cluster, "TooManyMissedTimes")), (1, 1));
}

#[test]
fn missing_and_unexpected_jobs_are_reported() {
    let mut cluster = start("*/10 * * * *", &Value::map());
    wait(&mut cluster, 301);
    let name = cluster.list("jobs.batch")[0].str_at(&["metadata", "name"]).to_owned();
    let at_once = value!({"propagationPolicy": "Background"});
    cluster.delete("jobs.batch", &format!("default/{name}"), &at_once).unwrap();
    cluster.settle();
    assert_eq!((active(&cluster), event_count(&cluster, "MissingJob")), (0, 1));
    assert!(cluster.list("jobs.batch").is_empty(), "a scheduled time starts one Job only");
    let cron = cluster.get("cronjobs.batch", "default/tick").unwrap();
    let mut owner = value!({"apiVersion": "batch/v1", "kind": "CronJob", "name": "tick", "controller": true});
    owner.make_map().insert("uid", cron.str_at(&["metadata", "uid"]));
    let spec = cron.at(&["spec", "jobTemplate", "spec"]).cloned().unwrap();
    let job = value!({"metadata": {"name": "by-hand", "ownerReferences": [(owner)]}, "spec": (spec)});
    cluster.create("jobs.batch", "default", job);
    cluster.settle();
    assert_eq!((active(&cluster), event_count(&cluster, "UnexpectedJob")), (0, 1));
    cluster.assert_quiet();
}

#[test]
fn crash_between_any_two_writes_starts_no_job_twice() {
    for crash_after in 0..9 {
        let mut cluster = start("*/10 * * * *", &Value::map());
        cluster.now = cluster.now.after(Duration::from_secs(301));
        cluster.crash_after(crash_after);
        cluster.settle();
        assert_eq!(cluster.list("jobs.batch").len(), 1, "crash after {crash_after} steps");
        assert_eq!(active(&cluster), 1, "crash after {crash_after} steps");
        cluster.assert_quiet();
    }
}

#[test]
fn thirty_days_start_the_expected_jobs() {
    let mut cluster = cluster(7);
    // A moment after each time, because a schedule is checked with a delay.
    cluster.now = cluster.now.after(Duration::from_secs(5));
    let limits = value!({"successfulJobsHistoryLimit": 2, "failedJobsHistoryLimit": 1});
    cluster.create("cronjobs.batch", "default", cron("quarter", "*/15 * * * *", &limits));
    cluster.create("cronjobs.batch", "default", cron("hourly", "@hourly", &limits));
    let zone = value!({"timeZone": "Europe/Berlin", "successfulJobsHistoryLimit": 40});
    cluster.create("cronjobs.batch", "default", cron("morning", "30 7 * * 1-5", &zone));
    cluster.create("cronjobs.batch", "default", cron("night", "30 2 * * *", &zone));
    let mut made = std::collections::BTreeSet::new();
    for step in 0..30 * 24 * 4 {
        cluster.now = cluster.now.after(Duration::from_secs(900));
        cluster.settle();
        for job in cluster.list("jobs.batch") {
            made.insert(job.str_at(&["metadata", "name"]).to_owned());
        }
        finish_pods(&mut cluster, if step % 10 == 9 { "Failed" } else { "Succeeded" });
        if step % 8 == 0 {
            run_garbage_collector(&mut cluster);
        }
    }
    let count = |name: &str| made.iter().filter(|job| job.starts_with(&format!("{name}-"))).count();
    assert_eq!((count("quarter"), count("hourly")), (30 * 96, 30 * 24));
    // Weekdays from Sunday to Monday four weeks and a day later, at 7:30 local time, with a clock change in
    // between.
    assert_eq!(count("morning"), 21);
    assert_eq!(count("night"), 29, "one night has no half past two");
    let times: Vec<String> = cluster
        .list("jobs.batch")
        .iter()
        .filter(|job| job.str_at(&["metadata", "labels", "cron"]) == "morning")
        .map(|job| job.str_at(&["metadata", "annotations", super::SCHEDULED_TIME_ANNOTATION]).to_owned())
        .collect();
    assert_eq!(times.first().unwrap(), "2027-03-22T07:30:00+01:00");
    assert_eq!(times.last().unwrap(), "2027-04-19T07:30:00+02:00");
    let kept = cluster
        .list("jobs.batch")
        .iter()
        .filter(|job| job.str_at(&["metadata", "labels", "cron"]) == "quarter")
        .count();
    assert!(kept <= 4, "{kept} Jobs are kept at {}", Seconds(cluster.now));
}
