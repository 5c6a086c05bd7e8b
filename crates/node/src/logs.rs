//! Logs and resource usage of simulated containers, computed from their scripts and run times.

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_api::Time;
use setpoint_reconcile::Object;

use crate::pod::Pod;
use crate::rules::file::Rule;
use crate::rules::memo::ScriptMemo;
use crate::runtime::Runtime;
use crate::simulated::{Host, Simulated};

/// Log of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Lines with their timestamps.
    pub lines: Vec<(Time, String)>,
    /// Number of earlier lines that are no longer kept.
    pub dropped: usize,
    /// `true` if the container is still running.
    pub goes_on: bool,
    /// Time of the next line.
    pub next: Option<Time>,
}

/// Returns the node name of a pod.
#[must_use]
pub fn node(object: &Object) -> Option<String> {
    Pod::read(object).map(|pod| pod.spec.node_name)
}

/// Returns the log of a container's current or previous run.
///
/// # Errors
/// If the container has not run, with a human-readable message.
pub fn said(
    (rules, memo): (&[Rule], &ScriptMemo),
    object: &Object,
    name: &str,
    previous: bool,
    now: Time,
) -> Result<Said, String> {
    let pod = Pod::read(object).ok_or("the pod cannot be read")?;
    let about = || format!("container {name:?} in pod {:?}", object.key().name());
    let none = |_: &str| false;
    let (booted, written) = (Time::EPOCH, object.commit_time());
    let host = Host { rules, memo, booted, written, pause: Duration::ZERO, has_image: &none };
    let runtime = Simulated::new(host, &pod, object.meta(), now);
    let container = pod.spec.all().find(|one| one.name == name);
    let container = container.ok_or_else(|| format!("{} is not simulated", about()))?;
    let waits = || {
        let waiting = pod.status.of(name).and_then(|status| status.state.waiting.as_ref());
        let reason = waiting.map_or("ContainerCreating", |waiting| &waiting.reason);
        format!("{} is waiting to start: {reason}", about())
    };
    let run = runtime.run(container).ok_or_else(waits)?;
    let (started, end) = if previous {
        // While a container waits to be restarted, its latest run is the previous one.
        let is_waiting = pod.status.of(name).is_some_and(|status| status.state.waiting.is_some());
        let last = if is_waiting { run.end.as_ref() } else { run.last.as_ref() };
        let last = last.ok_or_else(|| format!("previous terminated {} not found", about()))?;
        (last.started_at.unwrap_or(Time::EPOCH), last.finished_at)
    } else {
        (run.started, run.end.as_ref().map(|end| end.finished_at.unwrap_or(now)))
    };
    let (script, age) = (runtime.script(container), end.unwrap_or(now).since(started));
    let (said, next) = script.log(age);
    let lines = said.into_iter().map(|(at, line)| (started.after(at), line.to_owned())).collect();
    let next = next.filter(|_| end.is_none()).map(|at| started.after(at));
    Ok(Said { lines, dropped: script.course.dropped_by(age), goes_on: end.is_none(), next })
}

/// Returns the CPU and memory usage of a pod's running containers, in thousandths of a core or byte; `None`
/// if the pod does not run. A container without a usage rule uses nothing.
#[must_use]
pub fn used(
    (rules, memo): (&[Rule], &ScriptMemo),
    object: &Object,
    now: Time,
) -> Option<BTreeMap<String, BTreeMap<String, i64>>> {
    let pod = Pod::read(object)?;
    let none = |_: &str| false;
    let (booted, written) = (Time::EPOCH, object.commit_time());
    let host = Host { rules, memo, booted, written, pause: Duration::ZERO, has_image: &none };
    let runtime = Simulated::new(host, &pod, object.meta(), now);
    let running = pod.spec.all().filter(|one| runtime.run(one).is_some_and(|run| run.is_running()));
    let used: BTreeMap<String, BTreeMap<String, i64>> = running
        .map(|one| {
            let said = &runtime.script(one).said;
            let memory = said.memory.unwrap_or(0).saturating_mul(1000);
            let used = [("cpu".to_owned(), said.cpu.unwrap_or(0)), ("memory".to_owned(), memory)];
            (one.name.clone(), used.into_iter().collect())
        })
        .collect();
    (!used.is_empty()).then_some(used)
}
