//! Logs and resource usage of simulated containers, computed from their scripts and run times.

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_api::Time;
use setpoint_reconcile::Object;

use crate::behavior::rules_file::BehaviorRule;
use crate::behavior::script_cache::ScriptCache;
use crate::pod::Pod;
use crate::runtime::ContainerRuntime;
use crate::simulated::{NodeState, SimulatedRuntime};

/// Log of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerLog {
    /// Lines with their timestamps.
    pub lines: Vec<(Time, String)>,
    /// Number of earlier lines that are no longer kept.
    pub dropped: usize,
    /// `true` if the container is still running.
    pub is_running: bool,
    /// Time of the next line.
    pub next: Option<Time>,
}

/// Returns the node name of a pod.
#[must_use]
pub fn node_name(object: &Object) -> Option<String> {
    Pod::decode(object).map(|pod| pod.spec.node_name)
}

/// Returns the log of a container's current or previous run.
///
/// # Errors
/// If the container has not run, with a human-readable message.
pub fn container_log(
    (rules, cache): (&[BehaviorRule], &ScriptCache),
    object: &Object,
    name: &str,
    previous: bool,
    now: Time,
) -> Result<ContainerLog, String> {
    let pod = Pod::decode(object).ok_or("the pod cannot be read")?;
    let about = || format!("container {name:?} in pod {:?}", object.key().name());
    let none = |_: &str| false;
    let (boot_time, last_write) = (Time::EPOCH, object.commit_time());
    let state =
        NodeState { rules, cache, boot_time, last_write, default_delay: Duration::ZERO, has_image: &none };
    let runtime = SimulatedRuntime::new(state, &pod, object.meta(), now);
    let container = pod.spec.all_containers().find(|one| one.name == name);
    let container = container.ok_or_else(|| format!("{} is not simulated", about()))?;
    let waits = || {
        let waiting = pod.status.container_status(name).and_then(|status| status.state.waiting.as_ref());
        let reason = waiting.map_or("ContainerCreating", |waiting| &waiting.reason);
        format!("{} is waiting to start: {reason}", about())
    };
    let run = runtime.latest_run(container).ok_or_else(waits)?;
    let (started, end) = if previous {
        // While a container waits to be restarted, its latest run is the previous one.
        let is_waiting =
            pod.status.container_status(name).is_some_and(|status| status.state.waiting.is_some());
        let last = if is_waiting { run.termination.as_ref() } else { run.last_termination.as_ref() };
        let last = last.ok_or_else(|| format!("previous terminated {} not found", about()))?;
        (last.started_at.unwrap_or(Time::EPOCH), last.finished_at)
    } else {
        (run.started_at, run.termination.as_ref().map(|end| end.finished_at.unwrap_or(now)))
    };
    let (behavior, age) = (runtime.behavior(container), end.unwrap_or(now).since(started));
    let (logged, next) = behavior.log_until(age);
    let lines = logged.into_iter().map(|(at, line)| (started.after(at), line.to_owned())).collect();
    let next = next.filter(|_| end.is_none()).map(|at| started.after(at));
    Ok(ContainerLog {
        lines,
        dropped: behavior.timeline.dropped_lines_until(age),
        is_running: end.is_none(),
        next,
    })
}

/// Returns the CPU and memory usage of a pod's running containers, in thousandths of a core or byte; `None`
/// if the pod does not run. A container without a usage rule uses nothing.
#[must_use]
pub fn pod_usage(
    (rules, cache): (&[BehaviorRule], &ScriptCache),
    object: &Object,
    now: Time,
) -> Option<BTreeMap<String, BTreeMap<String, i64>>> {
    let pod = Pod::decode(object)?;
    let none = |_: &str| false;
    let (boot_time, last_write) = (Time::EPOCH, object.commit_time());
    let state =
        NodeState { rules, cache, boot_time, last_write, default_delay: Duration::ZERO, has_image: &none };
    let runtime = SimulatedRuntime::new(state, &pod, object.meta(), now);
    let running =
        pod.spec.all_containers().filter(|one| runtime.latest_run(one).is_some_and(|run| run.is_running()));
    let used: BTreeMap<String, BTreeMap<String, i64>> = running
        .map(|one| {
            let overrides = &runtime.behavior(one).overrides;
            let memory = overrides.memory.unwrap_or(0).saturating_mul(1000);
            let used = [("cpu".to_owned(), overrides.cpu.unwrap_or(0)), ("memory".to_owned(), memory)];
            (one.name.clone(), used.into_iter().collect())
        })
        .collect();
    (!used.is_empty()).then_some(used)
}
