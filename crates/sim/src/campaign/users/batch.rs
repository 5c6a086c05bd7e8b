//! Scenarios with Jobs and CronJobs.

use setpoint_api::{Value, value};

use super::{EditResult, UserSession};

const JOBS: &str = "jobs.batch";
const CRON_JOBS: &str = "cronjobs.batch";

fn job_spec(session: &mut UserSession<'_>) -> Value {
    let containers = value!([{"name": "c", "image": "v1", "command": ["sleep", "2"]}]);
    let template = value!({
        "metadata": {"labels": {"app": "work"}},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": (containers)},
    });
    let parallelism = session.cluster.rng.i64(1..4);
    let replaced = ["Failed", "TerminatingOrFailed"][usize::from(session.chance(2))];
    let mut spec = value!({
        "template": (template), "parallelism": (parallelism), "podReplacementPolicy": (replaced),
    });
    let map = spec.make_map();
    match session.chance(4) {
        0 => {}
        1 => {
            map.insert("completions", 3);
            map.insert("completionMode", "Indexed");
        }
        2 => {
            map.insert("completions", 4);
            map.insert("backoffLimit", 0);
        }
        _ => {
            map.insert("completions", 3);
            map.insert("completionMode", "Indexed");
            map.insert("backoffLimitPerIndex", 1);
        }
    }
    if session.chance(5) == 0 {
        spec.make_map().insert("ttlSecondsAfterFinished", 20);
    }
    spec
}

fn name(session: &mut UserSession<'_>) -> &'static str {
    ["work-a", "work-b", "work-c"][usize::from(session.chance(3))]
}

pub fn begin_jobs(session: &mut UserSession<'_>) {
    for name in ["work-a", "work-b"] {
        let spec = job_spec(session);
        session.create(JOBS, "default", value!({"metadata": {"name": (name)}, "spec": (spec)}));
    }
}

pub fn edit_jobs(session: &mut UserSession<'_>) -> EditResult {
    let name = name(session);
    let path = format!("default/{name}");
    match session.chance(10) {
        0..3 => {
            let spec = job_spec(session);
            session.try_create(JOBS, "default", value!({"metadata": {"name": (name)}, "spec": (spec)}))
        }
        3 => session.merge(JOBS, &path, value!({"spec": {"suspend": true}})),
        4 | 5 => session.merge(JOBS, &path, value!({"spec": {"suspend": false}})),
        6 => {
            let parallelism = session.cluster.rng.i64(0..4);
            session.merge(JOBS, &path, value!({"spec": {"parallelism": (parallelism)}}))
        }
        7 if !session.calm => session.delete(JOBS, &path),
        _ => session.disturb_pod(),
    }
}

fn cron(session: &mut UserSession<'_>) -> Value {
    let policy = ["Allow", "Forbid", "Replace"][usize::from(session.chance(3))];
    let spec = job_spec(session);
    value!({
        "metadata": {"name": "tick"},
        "spec": {
            "schedule": "* * * * *", "concurrencyPolicy": (policy), "successfulJobsHistoryLimit": 1,
            "jobTemplate": {"spec": (spec)},
        },
    })
}

pub fn begin_cron(session: &mut UserSession<'_>) {
    let cron = cron(session);
    session.create(CRON_JOBS, "default", cron);
    session.create("configmaps", "default", value!({"metadata": {"name": "tick"}}));
}

pub fn edit_cron(session: &mut UserSession<'_>) -> EditResult {
    let path = "default/tick";
    match session.chance(8) {
        0 => session.merge(CRON_JOBS, path, value!({"spec": {"suspend": true}})),
        1 | 2 => session.merge(CRON_JOBS, path, value!({"spec": {"suspend": false}})),
        3 => {
            let policy = ["Allow", "Forbid", "Replace"][usize::from(session.chance(3))];
            session.merge(CRON_JOBS, path, value!({"spec": {"concurrencyPolicy": (policy)}}))
        }
        4 if !session.calm => session.delete(CRON_JOBS, path),
        5 => {
            let cron = cron(session);
            session.try_create(CRON_JOBS, "default", cron)
        }
        _ => session.disturb_pod(),
    }
}
