//! Those whose pods end: Jobs and CronJobs.

use setpoint_api::{Value, value};

use super::{Desk, Done};

const JOBS: &str = "jobs.batch";
const CRON_JOBS: &str = "cronjobs.batch";

fn job_spec(desk: &mut Desk<'_>) -> Value {
    let containers = value!([{"name": "c", "image": "v1", "command": ["sleep", "2"]}]);
    let template = value!({
        "metadata": {"labels": {"app": "work"}},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": (containers)},
    });
    let parallelism = desk.cluster.rng.i64(1..4);
    let replaced = ["Failed", "TerminatingOrFailed"][usize::from(desk.chance(2))];
    let mut spec = value!({
        "template": (template), "parallelism": (parallelism), "podReplacementPolicy": (replaced),
    });
    let map = spec.make_map();
    match desk.chance(4) {
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
    if desk.chance(5) == 0 {
        spec.make_map().insert("ttlSecondsAfterFinished", 20);
    }
    spec
}

fn name(desk: &mut Desk<'_>) -> &'static str {
    ["work-a", "work-b", "work-c"][usize::from(desk.chance(3))]
}

pub fn begin_jobs(desk: &mut Desk<'_>) {
    for name in ["work-a", "work-b"] {
        let spec = job_spec(desk);
        desk.make(JOBS, "default", value!({"metadata": {"name": (name)}, "spec": (spec)}));
    }
}

pub fn edit_jobs(desk: &mut Desk<'_>) -> Done {
    let name = name(desk);
    let path = format!("default/{name}");
    match desk.chance(10) {
        0..3 => {
            let spec = job_spec(desk);
            desk.try_make(JOBS, "default", value!({"metadata": {"name": (name)}, "spec": (spec)}))
        }
        3 => desk.merge(JOBS, &path, value!({"spec": {"suspend": true}})),
        4 | 5 => desk.merge(JOBS, &path, value!({"spec": {"suspend": false}})),
        6 => {
            let parallelism = desk.cluster.rng.i64(0..4);
            desk.merge(JOBS, &path, value!({"spec": {"parallelism": (parallelism)}}))
        }
        7 if !desk.calm => desk.remove(JOBS, &path),
        _ => desk.disturb(),
    }
}

fn cron(desk: &mut Desk<'_>) -> Value {
    let policy = ["Allow", "Forbid", "Replace"][usize::from(desk.chance(3))];
    let spec = job_spec(desk);
    value!({
        "metadata": {"name": "tick"},
        "spec": {
            "schedule": "* * * * *", "concurrencyPolicy": (policy), "successfulJobsHistoryLimit": 1,
            "jobTemplate": {"spec": (spec)},
        },
    })
}

pub fn begin_cron(desk: &mut Desk<'_>) {
    let cron = cron(desk);
    desk.make(CRON_JOBS, "default", cron);
    desk.make("configmaps", "default", value!({"metadata": {"name": "tick"}}));
}

pub fn edit_cron(desk: &mut Desk<'_>) -> Done {
    let path = "default/tick";
    match desk.chance(8) {
        0 => desk.merge(CRON_JOBS, path, value!({"spec": {"suspend": true}})),
        1 | 2 => desk.merge(CRON_JOBS, path, value!({"spec": {"suspend": false}})),
        3 => {
            let policy = ["Allow", "Forbid", "Replace"][usize::from(desk.chance(3))];
            desk.merge(CRON_JOBS, path, value!({"spec": {"concurrencyPolicy": (policy)}}))
        }
        4 if !desk.calm => desk.remove(CRON_JOBS, path),
        5 => {
            let cron = cron(desk);
            desk.try_make(CRON_JOBS, "default", cron)
        }
        _ => desk.disturb(),
    }
}
