//! Tests of Jobs in a control plane.

use std::time::Duration;

use setpoint_api::rfc3339::Seconds;
use setpoint_api::{Value, value};
use setpoint_sim::cluster::Cluster;

fn cluster(seed: u64) -> Cluster {
    Cluster::new(|| (vec![Box::new(super::JobController)], crate::indexes::all()), seed)
}

/// Job `work`, with additional spec fields.
fn job(more: &Value) -> Value {
    let mut job = value!({
        "metadata": {"name": "work"},
        "spec": {"template": {
            "metadata": {"labels": {"app": "work"}},
            "spec": {"nodeName": "n1", "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
        }},
    });
    for (name, value) in more.as_map().unwrap().iter() {
        job.ensure_map("spec").insert(name, value.clone());
    }
    job
}

fn start(more: &Value) -> Cluster {
    let mut cluster = cluster(7);
    cluster.create("jobs.batch", "default", job(more));
    cluster.settle();
    cluster
}

fn status(cluster: &Cluster) -> Value {
    cluster.get("jobs.batch", "default/work").unwrap().get("status").cloned().unwrap_or_default()
}

fn number(cluster: &Cluster, field: &str) -> i64 {
    status(cluster).get(field).and_then(Value::as_i64).unwrap_or(0)
}

/// True conditions, each with its reason.
fn conditions(cluster: &Cluster) -> Vec<(String, String)> {
    let status = status(cluster);
    let conditions = status.get("conditions").and_then(Value::as_list).unwrap_or_default();
    let current = conditions.iter().filter(|condition| condition.str_at(&["status"]) == "True");
    current
        .map(|condition| (condition.str_at(&["type"]).to_owned(), condition.str_at(&["reason"]).to_owned()))
        .collect()
}

fn terminal_conditions(interim: &str, last: &str, reason: &str) -> Vec<(String, String)> {
    vec![(interim.to_owned(), reason.to_owned()), (last.to_owned(), reason.to_owned())]
}

fn event_messages(cluster: &Cluster, reason: &str) -> Vec<String> {
    let events = cluster.list("events");
    let matching = events.iter().filter(|event| event.str_at(&["reason"]) == reason);
    matching.map(|event| event.str_at(&["message"]).to_owned()).collect()
}

fn path(pod: &Value) -> String {
    format!("default/{}", pod.str_at(&["metadata", "name"]))
}

fn is_active(pod: &Value) -> bool {
    matches!(pod.str_at(&["status", "phase"]), "Pending" | "Running")
        && pod.at(&["metadata", "deletionTimestamp"]).is_none()
}

/// Pods that are pending or running.
fn active_pods(cluster: &Cluster) -> Vec<Value> {
    cluster.list("pods").into_iter().filter(is_active).collect()
}

fn index_of(pod: &Value) -> &str {
    pod.str_at(&["metadata", "annotations", super::COMPLETION_INDEX])
}

/// Node: terminates a pod with an exit code.
fn end(cluster: &mut Cluster, pod: &Value, code: i64) {
    let phase = if code == 0 { "Succeeded" } else { "Failed" };
    let now = Seconds(cluster.now).to_string();
    let state = value!({"terminated": {"exitCode": (code), "finishedAt": (now)}});
    let container = value!({"name": "c", "image": "i", "imageID": "i", "restartCount": 0, "ready": false, "state": (state)});
    let status = value!({"status": {"phase": (phase), "containerStatuses": [(container)]}});
    cluster.patch("pods", &path(pod), "status", status).unwrap();
}

fn end_all(cluster: &mut Cluster, code: i64) {
    for pod in active_pods(cluster) {
        end(cluster, &pod, code);
    }
    cluster.settle();
}

/// Node: removes every deleted pod.
fn let_go(cluster: &mut Cluster) {
    for pod in cluster.list("pods") {
        if pod.at(&["metadata", "deletionTimestamp"]).is_some() {
            let _ = cluster.delete("pods", &path(&pod), &value!({"gracePeriodSeconds": 0}));
        }
    }
    cluster.settle();
}

fn pass(cluster: &mut Cluster, seconds: u64) {
    cluster.run(Duration::from_secs(seconds));
}

#[test]
fn job_completes_after_enough_successes() {
    let mut cluster = start(&value!({"completions": 3, "parallelism": 2}));
    assert_eq!((active_pods(&cluster).len(), number(&cluster, "active")), (2, 2));
    let pod = &active_pods(&cluster)[0];
    assert_eq!(pod.at(&["metadata", "finalizers"]), Some(&value!([(super::TRACKING_FINALIZER)])));
    assert!(pod.str_at(&["metadata", "generateName"]) == "work-");
    end_all(&mut cluster, 0);
    assert_eq!(
        (active_pods(&cluster).len(), number(&cluster, "succeeded")),
        (1, 2),
        "no more than are missing"
    );
    assert!(conditions(&cluster).is_empty());
    end_all(&mut cluster, 0);
    assert_eq!((number(&cluster, "succeeded"), number(&cluster, "active")), (3, 0));
    assert_eq!(
        conditions(&cluster),
        terminal_conditions("SuccessCriteriaMet", "Complete", "CompletionsReached")
    );
    assert!(status(&cluster).get("completionTime").is_some());
    assert_eq!(status(&cluster).get("uncountedTerminatedPods"), Some(&Value::map()));
    assert_eq!(event_messages(&cluster, "Completed"), ["Job completed"]);
    assert_eq!(event_messages(&cluster, "SuccessfulCreate").len(), 3);
    assert!(
        cluster
            .list("pods")
            .iter()
            .all(|pod| pod.at(&["metadata", "finalizers"]).is_none_or(Value::is_empty))
    );
    cluster.assert_quiet();
}

#[test]
fn job_with_counters_at_their_maximum_finishes() {
    let mut cluster =
        start(&value!({"completions": 2, "parallelism": 1, "backoffLimit": (i64::from(i32::MAX))}));
    let most = i64::from(i32::MAX);
    cluster.patch("jobs.batch", "default/work", "status", value!({"status": {"failed": (most)}})).unwrap();
    cluster.settle();
    end_all(&mut cluster, 1);
    let_go(&mut cluster);
    assert_eq!(number(&cluster, "failed"), most);
    assert_eq!(conditions(&cluster), terminal_conditions("FailureTarget", "Failed", "BackoffLimitExceeded"));
    cluster.assert_quiet();
}

#[test]
fn work_queue_job_completes_after_the_first_success() {
    let mut cluster = start(&value!({"parallelism": 3}));
    let pods = active_pods(&cluster);
    assert_eq!(pods.len(), 3);
    end(&mut cluster, &pods[0], 0);
    cluster.settle();
    assert_eq!(active_pods(&cluster).len(), 2, "running pods continue");
    assert!(conditions(&cluster).is_empty());
    end_all(&mut cluster, 1);
    assert_eq!(
        conditions(&cluster),
        terminal_conditions("SuccessCriteriaMet", "Complete", "CompletionsReached")
    );
    assert_eq!((number(&cluster, "succeeded"), number(&cluster, "failed")), (1, 2));
    cluster.assert_quiet();
}

#[test]
fn every_index_has_its_own_pod() {
    let mut cluster = start(&value!({"completions": 5, "parallelism": 3, "completionMode": "Indexed"}));
    let pods = active_pods(&cluster);
    let mut indexes: Vec<&str> = pods.iter().map(index_of).collect();
    indexes.sort_unstable();
    assert_eq!(indexes, ["0", "1", "2"]);
    let one = pods.iter().find(|pod| index_of(pod) == "1").unwrap();
    assert_eq!(one.str_at(&["spec", "hostname"]), "work-1");
    assert_eq!(one.str_at(&["metadata", "generateName"]), "work-1-");
    assert_eq!(one.str_at(&["metadata", "labels", super::COMPLETION_INDEX]), "1");
    let variable = &one.at(&["spec", "containers"]).unwrap().as_list().unwrap()[0]
        .at(&["env"])
        .unwrap()
        .as_list()
        .unwrap()[0];
    assert_eq!(
        variable.str_at(&["valueFrom", "fieldRef", "fieldPath"]),
        "metadata.labels['batch.kubernetes.io/job-completion-index']"
    );
    for pod in pods.iter().filter(|pod| index_of(pod) != "1") {
        end(&mut cluster, pod, 0);
    }
    cluster.settle();
    assert_eq!(status(&cluster).str_at(&["completedIndexes"]), "0,2");
    end_all(&mut cluster, 0);
    assert_eq!(status(&cluster).str_at(&["completedIndexes"]), "0-4");
    assert_eq!(number(&cluster, "succeeded"), 5);
    cluster.assert_quiet();
}

#[test]
fn failed_pods_are_replaced_with_backoff_until_the_limit() {
    let mut cluster = start(&value!({"backoffLimit": 2}));
    for wait in [10, 20] {
        end_all(&mut cluster, 1);
        assert_eq!(active_pods(&cluster).len(), 0);
        pass(&mut cluster, wait - 1);
        assert_eq!(active_pods(&cluster).len(), 0, "not before {wait} s");
        pass(&mut cluster, 2);
        assert_eq!(active_pods(&cluster).len(), 1);
    }
    end_all(&mut cluster, 1);
    assert_eq!(conditions(&cluster), terminal_conditions("FailureTarget", "Failed", "BackoffLimitExceeded"));
    assert_eq!(number(&cluster, "failed"), 3);
    assert_eq!(
        event_messages(&cluster, "BackoffLimitExceeded"),
        ["Job has reached the specified backoff limit"]
    );
    cluster.assert_quiet();
}

#[test]
fn deleted_pod_is_a_failure_and_the_backoff_survives_a_restart() {
    let mut cluster = start(&value!({"completions": 1}));
    let pod = active_pods(&cluster).remove(0);
    cluster.delete("pods", &path(&pod), &Value::map()).unwrap();
    cluster.settle();
    let_go(&mut cluster);
    assert_eq!((number(&cluster, "failed"), cluster.list("pods").len()), (1, 0));
    pass(&mut cluster, 11);
    end_all(&mut cluster, 1);
    cluster.crash();
    cluster.settle();
    assert_eq!(active_pods(&cluster).len(), 0, "the failed pod still exists");
    pass(&mut cluster, 11);
    assert_eq!(active_pods(&cluster).len(), 1);
    cluster.assert_quiet();
}

#[test]
fn indexes_fail_independently() {
    let mut cluster = start(&value!({
        "completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1, "maxFailedIndexes": 1,
    }));
    let pod_of_index =
        |cluster: &Cluster, index: &str| active_pods(cluster).into_iter().find(|pod| index_of(pod) == index);
    let zero = pod_of_index(&cluster, "0").unwrap();
    end(&mut cluster, &zero, 1);
    cluster.settle();
    assert!(pod_of_index(&cluster, "0").is_none());
    let pod_zero = cluster.get("pods", &path(&zero)).unwrap();
    assert!(
        !pod_zero.at(&["metadata", "finalizers"]).is_none_or(Value::is_empty),
        "it waits for its replacement"
    );
    pass(&mut cluster, 11);
    let zero = pod_of_index(&cluster, "0").unwrap();
    assert_eq!(zero.str_at(&["metadata", "annotations", super::INDEX_FAILURES]), "1");
    end(&mut cluster, &zero, 1);
    cluster.settle();
    assert_eq!(status(&cluster).str_at(&["failedIndexes"]), "0");
    pass(&mut cluster, 60);
    assert!(pod_of_index(&cluster, "0").is_none() && conditions(&cluster).is_empty());
    cluster.assert_quiet();
    end_all(&mut cluster, 0);
    assert_eq!(conditions(&cluster), terminal_conditions("FailureTarget", "Failed", "FailedIndexes"));
    assert_eq!(status(&cluster).str_at(&["completedIndexes"]), "1,2");
    assert_eq!((number(&cluster, "failed"), number(&cluster, "succeeded")), (2, 2));
    cluster.assert_quiet();
}

#[test]
fn too_many_failed_indexes_fail_the_job() {
    let mut cluster = start(&value!({
        "completions": 4, "parallelism": 4, "completionMode": "Indexed", "backoffLimitPerIndex": 0, "maxFailedIndexes": 0,
    }));
    let pod = active_pods(&cluster).remove(0);
    end(&mut cluster, &pod, 1);
    cluster.settle();
    assert_eq!(conditions(&cluster).len(), 1, "decided, but pods are terminating");
    assert_eq!((active_pods(&cluster).len(), number(&cluster, "terminating")), (0, 3));
    let_go(&mut cluster);
    assert_eq!(
        conditions(&cluster),
        terminal_conditions("FailureTarget", "Failed", "MaxFailedIndexesExceeded")
    );
    assert_eq!((number(&cluster, "failed"), number(&cluster, "terminating")), (4, 0));
    cluster.assert_quiet();
}

#[test]
fn pod_failure_policy_decides_about_failures() {
    let policy = value!({"rules": [
        {"action": "FailJob", "onExitCodes": {"containerName": "c", "operator": "In", "values": [42]}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]});
    let mut cluster = start(&value!({"completions": 1, "backoffLimit": 0, "podFailurePolicy": (policy)}));
    let pod = active_pods(&cluster).remove(0);
    let target = value!({"type": "DisruptionTarget", "status": "True"});
    cluster
        .patch(
            "pods",
            &path(&pod),
            "status",
            value!({"status": {"phase": "Failed", "conditions": [(target)]}}),
        )
        .unwrap();
    cluster.settle();
    assert_eq!((number(&cluster, "failed"), conditions(&cluster).len()), (0, 0), "a disruption is ignored");
    pass(&mut cluster, 11);
    let pod = active_pods(&cluster).remove(0);
    end(&mut cluster, &pod, 42);
    cluster.settle();
    assert_eq!(conditions(&cluster), terminal_conditions("FailureTarget", "Failed", "PodFailurePolicy"));
    let name = pod.str_at(&["metadata", "name"]);
    let message = format!(
        "Container c for pod default/{name} failed with exit code 42 matching FailJob rule at index 0"
    );
    assert_eq!(event_messages(&cluster, "PodFailurePolicy"), [message]);
    cluster.assert_quiet();
}

#[test]
fn success_policy_completes_the_job_early() {
    let policy = value!({"rules": [{"succeededIndexes": "1-2", "succeededCount": 1}]});
    let mut cluster = start(&value!({
        "completions": 4, "parallelism": 4, "completionMode": "Indexed", "successPolicy": (policy),
    }));
    let pods = active_pods(&cluster);
    for (index, goes_on) in [("0", true), ("2", false)] {
        end(&mut cluster, pods.iter().find(|pod| index_of(pod) == index).unwrap(), 0);
        cluster.settle();
        assert_eq!(conditions(&cluster).is_empty(), goes_on);
    }
    let_go(&mut cluster);
    assert_eq!(conditions(&cluster), terminal_conditions("SuccessCriteriaMet", "Complete", "SuccessPolicy"));
    assert_eq!(status(&cluster).str_at(&["completedIndexes"]), "0,2");
    assert_eq!(number(&cluster, "failed"), 0, "pods that are not needed have not failed");
    cluster.assert_quiet();
}

#[test]
fn suspended_job_has_no_pods_and_restarts_its_deadline() {
    let mut cluster = start(&value!({"completions": 2, "parallelism": 2, "activeDeadlineSeconds": 100}));
    pass(&mut cluster, 60);
    cluster.patch("jobs.batch", "default/work", "", value!({"spec": {"suspend": true}})).unwrap();
    cluster.settle();
    let_go(&mut cluster);
    assert_eq!((cluster.list("pods").len(), number(&cluster, "failed")), (0, 0));
    assert_eq!(conditions(&cluster), [("Suspended".to_owned(), "JobSuspended".to_owned())]);
    assert!(status(&cluster).get("startTime").is_none());
    cluster.assert_quiet();
    pass(&mut cluster, 200);
    cluster.patch("jobs.batch", "default/work", "", value!({"spec": {"suspend": false}})).unwrap();
    cluster.settle();
    assert_eq!(active_pods(&cluster).len(), 2, "at once");
    assert!(conditions(&cluster).is_empty());
    assert_eq!(
        (event_messages(&cluster, "Suspended").len(), event_messages(&cluster, "Resumed").len()),
        (1, 1)
    );
    pass(&mut cluster, 99);
    assert!(conditions(&cluster).is_empty());
    pass(&mut cluster, 2);
    let_go(&mut cluster);
    assert_eq!(conditions(&cluster), terminal_conditions("FailureTarget", "Failed", "DeadlineExceeded"));
    assert_eq!((number(&cluster, "failed"), cluster.list("pods").len()), (2, 0));
    cluster.assert_quiet();
}

#[test]
fn replacement_policy_failed_waits_for_the_failure() {
    let mut cluster = start(&value!({"completions": 1, "podReplacementPolicy": "Failed"}));
    let pod = active_pods(&cluster).remove(0);
    cluster.patch("pods", &path(&pod), "status", value!({"status": {"phase": "Running"}})).unwrap();
    cluster.delete("pods", &path(&pod), &Value::map()).unwrap();
    pass(&mut cluster, 60);
    assert_eq!(
        (active_pods(&cluster).len(), number(&cluster, "terminating"), number(&cluster, "failed")),
        (0, 1, 0)
    );
    end(&mut cluster, &pod, 137);
    pass(&mut cluster, 11);
    assert_eq!((active_pods(&cluster).len(), number(&cluster, "failed")), (1, 1));
}

#[test]
fn job_managed_by_another_controller_is_left_alone() {
    let cluster = start(&value!({"managedBy": "example.com/queue"}));
    assert!(cluster.list("pods").is_empty() && status(&cluster).is_empty());
}

#[test]
fn pods_of_a_deleted_job_lose_their_finalizer() {
    let mut cluster = start(&value!({"completions": 2, "parallelism": 2}));
    cluster.delete("jobs.batch", "default/work", &value!({"propagationPolicy": "Background"})).unwrap();
    cluster.settle();
    assert_eq!(cluster.list("pods").len(), 2);
    assert!(
        cluster
            .list("pods")
            .iter()
            .all(|pod| pod.at(&["metadata", "finalizers"]).is_none_or(Value::is_empty))
    );
    cluster.assert_quiet();
}

#[test]
fn reduced_completions_complete_the_job() {
    let mut cluster = start(&value!({"completions": 4, "parallelism": 4, "completionMode": "Indexed"}));
    cluster
        .patch("jobs.batch", "default/work", "", value!({"spec": {"parallelism": 2, "completions": 2}}))
        .unwrap();
    cluster.settle();
    let_go(&mut cluster);
    let pods = active_pods(&cluster);
    let mut indexes: Vec<&str> = pods.iter().map(index_of).collect();
    indexes.sort_unstable();
    assert_eq!(indexes, ["0", "1"], "pods with invalid indexes are deleted first");
    assert_eq!(number(&cluster, "failed"), 0);
    cluster.assert_quiet();
}

/// Random event in the life of a Job.
fn happen(cluster: &mut Cluster, ends: &mut (i64, i64)) {
    let pods = active_pods(cluster);
    match cluster.rng.u32(..8) {
        0..=2 if !pods.is_empty() => {
            let pod = &pods[cluster.rng.usize(..pods.len())];
            end(cluster, pod, 0);
            ends.0 += 1;
        }
        3 if !pods.is_empty() => {
            let pod = &pods[cluster.rng.usize(..pods.len())];
            end(cluster, pod, 1);
            ends.1 += 1;
        }
        4 => cluster.crash(),
        5 => cluster.lose_write(),
        6 => cluster.now = cluster.now.after(Duration::from_secs(cluster.rng.u64(1..400))),
        _ => {
            cluster.observe();
            cluster.plan();
        }
    }
    for _ in 0..cluster.rng.u32(..4) {
        cluster.perform();
    }
}

#[test]
fn random_histories_count_every_pod_once() {
    let mut retried = false;
    for seed in 0..60 {
        let mut cluster = cluster(seed);
        let mode = if seed % 2 == 0 { "NonIndexed" } else { "Indexed" };
        let completions = 1 + i64::try_from(seed % 7).unwrap();
        let spec = value!({
            "completions": (completions), "parallelism": 3, "completionMode": (mode), "backoffLimit": 100,
        });
        cluster.create("jobs.batch", "default", job(&spec));
        let mut ends = (0, 0);
        for _ in 0..60 {
            happen(&mut cluster, &mut ends);
        }
        for _ in 0..40 {
            cluster.now = cluster.now.after(Duration::from_secs(700));
            cluster.settle();
            if !conditions(&cluster).is_empty() {
                break;
            }
            ends.0 += i64::try_from(active_pods(&cluster).len()).unwrap();
            end_all(&mut cluster, 0);
            let_go(&mut cluster);
        }
        let found = conditions(&cluster);
        assert_eq!(
            found,
            terminal_conditions("SuccessCriteriaMet", "Complete", "CompletionsReached"),
            "seed {seed}"
        );
        let counts = (number(&cluster, "succeeded"), number(&cluster, "failed"));
        let message = format!("seed {seed}: {counts:?}, {ends:?}, {:?}", status(&cluster));
        assert_eq!(counts.1, ends.1, "{message}");
        assert_eq!(counts.0, completions, "{message}");
        assert_eq!(ends.0, completions, "{message}");
        retried |= ends.1 > 0;
        cluster.assert_quiet();
    }
    assert!(retried, "some pods failed");
}

#[test]
fn pod_that_finishes_during_its_removal_is_counted() {
    let mut cluster = start(&value!({"parallelism": 3, "completions": 5}));
    cluster.patch("jobs.batch", "default/work", "", value!({"spec": {"parallelism": 1}})).unwrap();
    cluster.observe();
    cluster.plan();
    for pod in cluster.list("pods") {
        end(&mut cluster, &pod, 0);
    }
    while cluster.perform() {}
    cluster.settle();
    assert_eq!(number(&cluster, "succeeded"), 3);
}

#[test]
fn pod_that_finishes_with_the_job_is_counted() {
    let mut cluster = start(&value!({"parallelism": 2}));
    let pods = cluster.list("pods");
    end(&mut cluster, &pods[0], 0);
    cluster.patch("jobs.batch", "default/work", "", value!({"spec": {"parallelism": 0}})).unwrap();
    cluster.observe();
    cluster.plan();
    end(&mut cluster, &pods[1], 0);
    while cluster.perform() {}
    cluster.settle();
    assert_eq!(number(&cluster, "succeeded"), 2);
}
