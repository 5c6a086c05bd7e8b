//! Worlds of workloads: their pods, sets and revisions.

use setpoint_api::{Value, value};
use setpoint_reconcile::Object;

use super::Case;
use crate::objects::*;

const SET: (&str, &str, &str) = ("apps/v1", "ReplicaSet", "replicasets.apps");

fn owner_of((api_version, kind, resource): (&str, &str, &str), name: &str) -> Value {
    owner(api_version, kind, resource, name)
}

/// Workload with `len` pods on two nodes.
fn with_pods(
    kind: (&'static str, &'static str, &'static str),
    workload: Value,
    len: usize,
    pod_of: fn(usize) -> Value,
) -> Vec<Object> {
    let by = owner_of(kind, "web");
    let pods = many(len, "pods", "default/p", move |at| owned(pod_of(at), &by));
    pods.chain([object(kind.2, "default/web", workload)]).collect()
}

fn on_two_nodes(at: usize) -> Value {
    pod(["n0", "n1"][at % 2])
}

/// Pod of a Job that is not counted yet.
fn tracked(at: usize, phase: &str) -> Value {
    let mut pod = saying(pod("n"), "phase", phase);
    pod = annotated(pod, "batch.kubernetes.io/job-completion-index", at.to_string());
    let finalizers = value!(["batch.kubernetes.io/job-tracking"]);
    pod.ensure_map("metadata").insert("finalizers", finalizers);
    pod
}

fn job(len: usize, mode: &str) -> Value {
    let len = i64::try_from(len).unwrap();
    let job = with(workload(0), "parallelism", len * 2);
    let job = with(with(job, "completions", len * 2), "backoffLimitPerIndex", 3);
    with(with(job, "backoffLimit", 1_000_000), "completionMode", mode)
}

const JOB: (&str, &str, &str) = ("batch/v1", "Job", "jobs.batch");

/// ControllerRevision of an earlier template.
fn revision(at: usize) -> Value {
    let template =
        value!({"$patch": "replace", "spec": {"containers": [{"name": "c", "image": (name("i", at))}]}});
    labeled(value!({"revision": (at as i64), "data": {"spec": {"template": (template)}}}), "app", "web")
}

fn stateful(replicas: usize) -> Value {
    with(with(workload(replicas), "podManagementPolicy", "Parallel"), "serviceName", "web")
}

const STATEFUL: (&str, &str, &str) = ("apps/v1", "StatefulSet", "statefulsets.apps");
const DAEMON: (&str, &str, &str) = ("apps/v1", "DaemonSet", "daemonsets.apps");
const CRON: (&str, &str, &str) = ("batch/v1", "CronJob", "cronjobs.batch");

fn cron(schedule: &str) -> Value {
    value!({"spec": {"schedule": (schedule), "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1,
        "jobTemplate": {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}}}})
}

pub const CASES: &[Case] = &[
    Case::new("replicaset-controller", "pods that are too many", "replicasets.apps default/web", |len| {
        with_pods(SET, workload(0), len, on_two_nodes)
    }),
    Case::new("replicaset-controller", "pods that are adopted", "replicasets.apps default/web", |len| {
        let pods = many(len, "pods", "default/p", on_two_nodes);
        pods.chain([object(SET.2, "default/web", workload(len))]).collect()
    }),
    Case::new(
        "replicaset-controller",
        "sets of one Deployment with pods on the same nodes",
        "replicasets.apps default/web",
        |len| {
            let by = owner_of(("apps/v1", "Deployment", "deployments.apps"), "web");
            let sets = many(len, SET.2, "default/s", |_| owned(workload(0), &by));
            let pods = (0..len).map(|at| {
                let set = owner_of(SET, &name("s", at));
                object("pods", &format!("default/q{at:06}"), owned(on_two_nodes(at), &set))
            });
            let own = with_pods(SET, owned(workload(len / 2), &by), len, on_two_nodes);
            sets.chain(pods).chain(own).collect()
        },
    ),
    Case::new(
        "replication-controller",
        "pods that are too many",
        "replicationcontrollers default/web",
        |len| {
            let kind = ("v1", "ReplicationController", "replicationcontrollers");
            with_pods(kind, with(workload(0), "selector", value!({"app": "web"})), len, on_two_nodes)
        },
    ),
    Case::new("deployment-controller", "replica sets", "deployments.apps default/web", |len| {
        let by = owner_of(("apps/v1", "Deployment", "deployments.apps"), "web");
        let sets = many(len, SET.2, "default/s", |at| {
            let set = labeled(owned(workload(at % 3), &by), "app", "web");
            annotated(set, "deployment.kubernetes.io/revision", at.to_string())
        });
        let deployment = with(with(workload(9), "revisionHistoryLimit", 3), "paused", false);
        sets.chain([object("deployments.apps", "default/web", deployment)]).collect()
    }),
    Case::new("deployment-controller", "pods of old sets", "deployments.apps default/web", |len| {
        let by = owner_of(("apps/v1", "Deployment", "deployments.apps"), "web");
        let strategy = value!({"type": "Recreate"});
        let deployment = with(workload(len), "strategy", strategy);
        let old = with(labeled(owned(workload(0), &by), "app", "web"), "template", value!({"spec": {}}));
        let pods = with_pods(SET, old, len, |at| saying(on_two_nodes(at), "phase", "Failed"));
        pods.into_iter().chain([object("deployments.apps", "default/web", deployment)]).collect()
    }),
    Case::new("daemonset-controller", "nodes without pods", "daemonsets.apps default/web", |len| {
        many(len, "nodes", "n", |_| node()).chain([object(DAEMON.2, "default/web", workload(0))]).collect()
    }),
    Case::new("daemonset-controller", "pods of one node", "daemonsets.apps default/web", |len| {
        let mut all = with_pods(DAEMON, workload(0), len, |_| pod("n0"));
        all.push(object("nodes", "n0", node()));
        all
    }),
    Case::new("daemonset-controller", "taints and tolerations", "daemonsets.apps default/web", |len| {
        let taint = |at| value!({"key": (name("k", at)), "effect": "NoSchedule"});
        let toleration = |at| value!({"key": (name("k", at)), "operator": "Exists"});
        let spec =
            value!({"containers": [{"name": "c", "image": "i"}], "tolerations": (list(len, toleration))});
        let set =
            with(workload(0), "template", value!({"metadata": {"labels": {"app": "web"}}, "spec": (spec)}));
        vec![
            object("nodes", "n0", with(node(), "taints", list(len, taint))),
            object(DAEMON.2, "default/web", set),
        ]
    }),
    Case::new(
        "daemonset-controller",
        "nodes and terms that name others",
        "daemonsets.apps default/web",
        |len| {
            let term = |at| value!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [(name("m", at))]}]});
            let required = value!({"nodeSelectorTerms": (list(len, term))});
            let affinity =
                value!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": (required)}});
            let spec = value!({"containers": [{"name": "c", "image": "i"}], "affinity": (affinity)});
            let set = with(
                workload(0),
                "template",
                value!({"metadata": {"labels": {"app": "web"}}, "spec": (spec)}),
            );
            many(len, "nodes", "n", |_| node()).chain([object(DAEMON.2, "default/web", set)]).collect()
        },
    ),
    Case::new("daemonset-controller", "past templates", "daemonsets.apps default/web", |len| {
        let by = owner_of(DAEMON, "web");
        let set = with(workload(0), "revisionHistoryLimit", 3);
        many(len, "controllerrevisions.apps", "default/r", |at| owned(revision(at), &by))
            .chain([object(DAEMON.2, "default/web", set)])
            .collect()
    }),
    Case::new("statefulset-controller", "pods that are too many", "statefulsets.apps default/web", |len| {
        let by = owner_of(STATEFUL, "web");
        let pods =
            (0..len).map(|at| object("pods", &format!("default/web-{at}"), owned(on_two_nodes(at), &by)));
        pods.chain([object(STATEFUL.2, "default/web", stateful(0))]).collect()
    }),
    Case::new("statefulset-controller", "pods of an old revision", "statefulsets.apps default/web", |len| {
        let by = owner_of(STATEFUL, "web");
        let pods =
            (0..len).map(|at| object("pods", &format!("default/web-{at}"), owned(on_two_nodes(at), &by)));
        pods.chain([object(STATEFUL.2, "default/web", stateful(len))]).collect()
    }),
    Case::new("statefulset-controller", "past templates", "statefulsets.apps default/web", |len| {
        let by = owner_of(STATEFUL, "web");
        let set = with(stateful(3), "revisionHistoryLimit", 3);
        many(len, "controllerrevisions.apps", "default/r", |at| owned(revision(at), &by))
            .chain([object(STATEFUL.2, "default/web", set)])
            .collect()
    }),
    Case::new("statefulset-controller", "claim templates", "statefulsets.apps default/web", |len| {
        let template =
            |at| value!({"metadata": {"name": (name("c", at))}, "spec": {"accessModes": ["ReadWriteOnce"]}});
        let set = with(stateful(4), "volumeClaimTemplates", list(len, template));
        vec![object(STATEFUL.2, "default/web", set)]
    }),
    Case::new("job-controller", "pods that run", "jobs.batch default/web", |len| {
        with_pods(JOB, with(job(len, "NonIndexed"), "parallelism", 1), len, |at| tracked(at, "Running"))
    }),
    Case::new("job-controller", "pods that succeeded", "jobs.batch default/web", |len| {
        with_pods(JOB, job(len, "NonIndexed"), len, |at| tracked(at, "Succeeded"))
    }),
    Case::new("job-controller", "indexes that failed", "jobs.batch default/web", |len| {
        with_pods(JOB, job(len, "Indexed"), len, |at| tracked(at, "Failed"))
    }),
    Case::new(
        "job-controller",
        "indexes that succeeded, every second one",
        "jobs.batch default/web",
        |len| with_pods(JOB, job(len, "Indexed"), len, |at| tracked(2 * at, "Succeeded")),
    ),
    Case::new("cronjob-controller", "jobs", "cronjobs.batch default/web", |len| {
        let by = owner_of(CRON, "web");
        let done =
            value!([{"type": "Complete", "status": "True", "lastTransitionTime": "2027-01-15T07:00:00Z"}]);
        let jobs = many(len, "jobs.batch", "default/j", |_| {
            owned(saying(job(1, "NonIndexed"), "conditions", done.clone()), &by)
        });
        let active =
            list(len, |at| value!({"name": (name("j", at)), "uid": (uid("jobs.batch", &name("j", at)))}));
        jobs.chain([object(CRON.2, "default/web", saying(cron("* * * * *"), "active", active))]).collect()
    }),
    Case::new("cronjob-controller", "missed runs", "cronjobs.batch default/web", |len| {
        let minutes = i64::try_from(len).unwrap() * 1_000;
        let since = setpoint_api::Time::from_seconds(1_800_000_000 - minutes * 60);
        let since = setpoint_api::rfc3339::Seconds(since).to_string();
        vec![object(CRON.2, "default/web", saying(cron("* * * * *"), "lastScheduleTime", since))]
    }),
    Case::new("ttl-after-finished-controller", "conditions", "jobs.batch default/web", |len| {
        let done =
            value!({"type": "Complete", "status": "True", "lastTransitionTime": "2027-01-15T07:00:00Z"});
        let more =
            |at| if at == 0 { done.clone() } else { value!({"type": (name("T", at)), "status": "True"}) };
        let job = with(job(1, "NonIndexed"), "ttlSecondsAfterFinished", 60);
        vec![object(JOB.2, "default/web", saying(job, "conditions", list(len, more)))]
    }),
];
