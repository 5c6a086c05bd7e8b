//! Printer of pods, including the status column.

use std::collections::BTreeMap;

use crate::printing::cell::{age, bool_at, has_condition, int, is_deleted, list, name, or, time};
use crate::printing::{AGE, Cell, Column, Doc, NAME, Printer, cells, field};
use crate::time::Time;
use crate::value::Value;

pub(super) static POD: Printer = Printer::new(
    &[
        NAME,
        Column::text("Ready", Doc::Own("Number of ready containers.")),
        Column::text("Status", Doc::Own("Aggregate status of the containers in the pod.")),
        Column::text("Restarts", Doc::Own("Number of container restarts, and the time since the last one.")),
        AGE,
        Column::wide("IP", field!("core.v1.PodStatus", "podIP")),
        Column::wide("Node", field!("core.v1.PodSpec", "nodeName")),
        Column::wide("Nominated Node", field!("core.v1.PodStatus", "nominatedNodeName")),
        Column::wide("Readiness Gates", field!("core.v1.PodSpec", "readinessGates")),
    ],
    pod,
);

/// Summary of the containers of a pod.
struct Summary {
    reason: String,
    ready: i64,
    restarts: i64,
    last_restart: Option<Time>,
}

fn pod(object: &Value, now: Time) -> Vec<Cell> {
    let init = list(object, &["spec", "initContainers"]);
    let total =
        list(object, &["spec", "containers"]).len() + init.iter().filter(|one| is_sidecar(one)).count();
    let Summary { reason, ready, restarts, last_restart } = summary(object);
    let restarts = match last_restart {
        Some(last) if restarts != 0 => {
            format!("{restarts} ({} ago)", crate::printing::human_duration(last, now))
        }
        _ => restarts.to_string(),
    };
    let ip = list(object, &["status", "podIPs"]).first().map_or("", |ip| ip.str_at(&["ip"]));
    cells![
        name(object),
        format!("{ready}/{total}"),
        reason,
        restarts,
        age(object, now),
        or(ip, "<none>"),
        or(object.str_at(&["spec", "nodeName"]), "<none>"),
        or(object.str_at(&["status", "nominatedNodeName"]), "<none>"),
        readiness_gates(object),
    ]
}

fn summary(object: &Value) -> Summary {
    let phase = object.str_at(&["status", "phase"]);
    let status_reason = object.str_at(&["status", "reason"]);
    let conditions = list(object, &["status", "conditions"]);
    let is_gated = conditions.iter().any(|condition| {
        condition.str_at(&["type"]) == "PodScheduled" && condition.str_at(&["reason"]) == "SchedulingGated"
    });
    let reason = if is_gated { "SchedulingGated" } else { or(status_reason, phase) };
    let mut sum = Summary { reason: reason.to_owned(), ready: 0, restarts: 0, last_restart: None };
    let sidecars = init_containers(object, &mut sum);
    if let Some((restarts, last_restart)) = sidecars {
        (sum.restarts, sum.last_restart) = (restarts, last_restart);
        main_containers(object, &mut sum);
    }
    if is_deleted(object) && status_reason == "NodeLost" {
        sum.reason = "Unknown".to_owned();
    } else if is_deleted(object) && !matches!(phase, "Succeeded" | "Failed") {
        sum.reason = "Terminating".to_owned();
    }
    sum
}

/// Adds the init containers up to the first that is not done. If all are done, returns the restarts of
/// sidecars and the time of the last one.
fn init_containers(object: &Value, sum: &mut Summary) -> Option<(i64, Option<Time>)> {
    let specs = list(object, &["spec", "initContainers"]).iter().rev();
    // The first of equal names counts.
    let specs: BTreeMap<&str, &Value> = specs.map(|spec| (spec.str_at(&["name"]), spec)).collect();
    let mut sidecars = (0, None);
    let mut is_initializing = false;
    for (at, container) in list(object, &["status", "initContainerStatuses"]).iter().enumerate() {
        sum.restarts += int(container, &["restartCount"]);
        sum.last_restart = sum.last_restart.max(last_termination_time(container));
        let sidecar = specs.get(container.str_at(&["name"])).is_some_and(|spec| is_sidecar(spec));
        if sidecar {
            sidecars.0 += int(container, &["restartCount"]);
            sidecars.1 = sidecars.1.max(last_termination_time(container));
        }
        let terminated = state(container, "terminated");
        if terminated.is_some_and(|end| int(end, &["exitCode"]) == 0) {
            continue;
        }
        if sidecar && bool_at(container, &["started"]) {
            sum.ready += i64::from(bool_at(container, &["ready"]));
            continue;
        }
        let waiting = state(container, "waiting").map_or("", |waiting| waiting.str_at(&["reason"]));
        sum.reason = match (terminated, waiting) {
            (Some(end), _) => format!("Init:{}", termination_reason(end)),
            (None, "" | "PodInitializing") => format!("Init:{at}/{}", specs.len()),
            (None, waiting) => format!("Init:{waiting}"),
        };
        is_initializing = true;
        break;
    }
    (!is_initializing || has_condition(object, "Initialized")).then_some(sidecars)
}

fn main_containers(object: &Value, sum: &mut Summary) {
    let mut has_running = false;
    let mut failure = None;
    for container in list(object, &["status", "containerStatuses"]).iter().rev() {
        sum.restarts += int(container, &["restartCount"]);
        sum.last_restart = sum.last_restart.max(last_termination_time(container));
        let waiting = state(container, "waiting").map_or("", |waiting| waiting.str_at(&["reason"]));
        if !waiting.is_empty() {
            sum.reason = waiting.to_owned();
        } else if let Some(end) = state(container, "terminated") {
            sum.reason = termination_reason(end);
            if int(end, &["exitCode"]) != 0 {
                failure = Some(sum.reason.clone());
            }
        } else if bool_at(container, &["ready"]) && state(container, "running").is_some() {
            has_running = true;
            sum.ready += 1;
        }
    }
    if sum.reason == "Completed" {
        if has_running && is_ready(object) {
            sum.reason = "Running".to_owned();
        } else if let Some(failure) = failure {
            sum.reason = failure;
        } else if has_running {
            sum.reason = "NotReady".to_owned();
        }
    }
}

/// `true` for a sidecar: an init container that keeps running.
fn is_sidecar(spec: &Value) -> bool {
    spec.str_at(&["restartPolicy"]) == "Always"
}

fn is_ready(object: &Value) -> bool {
    let is_ready = |one: &Value| one.str_at(&["type"]) == "Ready" && one.str_at(&["status"]) == "True";
    list(object, &["status", "conditions"]).iter().any(is_ready)
}

fn state<'a>(container: &'a Value, state: &str) -> Option<&'a Value> {
    container.at(&["state", state]).filter(|state| state.as_map().is_some())
}

/// Time at which the previous instance of the container terminated.
fn last_termination_time(container: &Value) -> Option<Time> {
    time(container.at(&["lastState", "terminated", "finishedAt"]))
}

fn termination_reason(end: &Value) -> String {
    match (end.str_at(&["reason"]), int(end, &["signal"])) {
        ("", 0) => format!("ExitCode:{}", int(end, &["exitCode"])),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn readiness_gates(object: &Value) -> String {
    let gates = list(object, &["spec", "readinessGates"]);
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    // The first condition of a type counts.
    let conditions = list(object, &["status", "conditions"]).iter().rev();
    let conditions: BTreeMap<&str, &Value> =
        conditions.map(|condition| (condition.str_at(&["type"]), condition)).collect();
    let is_open = |gate: &&Value| {
        let condition = conditions.get(gate.str_at(&["conditionType"]));
        condition.is_some_and(|condition| condition.str_at(&["status"]) == "True")
    };
    let open = gates.iter().filter(is_open).count();
    format!("{open}/{}", gates.len())
}
