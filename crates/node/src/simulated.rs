//! Simulated container runtime: the state of a container is a function of its last reported status, its
//! behavior, and the time.
//!
//! No state is kept besides the pod statuses, so a restarted process finds every container as it was.

pub mod image_pulls;
pub mod probes;

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_api::Time;
use setpoint_reconcile::ObjectMeta;

use crate::behavior::rules_file::BehaviorRule;
use crate::behavior::script_cache::ScriptCache;
use crate::behavior::{
    ContainerBehavior, EXIT_CANNOT_RUN, container_behavior, count_scripts, evaluate_script,
};
use crate::images::hex_digest;
use crate::lifecycle::{CONTAINER_STATUS_UNKNOWN, restart, truncate_to_seconds};
use crate::pod::{
    Container, ContainerState, ContainerStateTerminated, ContainerStatus, LifecycleHandler, Pod,
};
use crate::runtime::{ContainerRun, ContainerRuntime, ImageState, ProbeResults, RuntimeAction};

/// Container ID scheme of this runtime.
pub const SCHEME: &str = "simulated://";
/// Exit code of a process that ended on SIGTERM.
const EXIT_SIGTERM: i64 = 143;
/// Exit code of a process that was killed.
const EXIT_SIGKILL: i64 = 137;
/// Exit code of a container whose end was not observed.
const EXIT_UNKNOWN: i64 = 255;
/// Maximum bytes of log in a termination message.
const MESSAGE_BYTES_MAX: usize = 2048;

/// Precision of the reported times of a stop.
const TIME_PRECISION: Duration = Duration::from_secs(1);
/// Maximum stop duration (give or take a second) without a rule.
const STOP_DURATION_MAX: Duration = Duration::from_secs(1);

/// Node state that the simulated runtime reads.
pub struct NodeState<'a> {
    /// Rules for the behavior of containers.
    pub rules: &'a [BehaviorRule],
    /// Cache of evaluated scripts.
    pub cache: &'a ScriptCache,
    /// Boot time of the node. Containers that started before are gone.
    pub boot_time: Time,
    /// Time of the last write of the pod: a container reported as running was still running then.
    pub last_write: Time,
    /// Duration of pulls and stops without a rule.
    pub default_delay: Duration,
    /// Returns `true` if the image is on the node.
    pub has_image: &'a dyn Fn(&str) -> bool,
}

/// Simulated runtime of one pod.
pub struct SimulatedRuntime<'a> {
    state: NodeState<'a>,
    pod: &'a Pod,
    meta: &'a ObjectMeta,
    now: Time,
    runs: BTreeMap<String, ContainerRun>,
    behaviors: BTreeMap<String, ContainerBehavior>,
    /// Earliest termination of a container that is being killed.
    next_kill: Option<Time>,
    /// Number of scripts of the pod, which share one budget.
    script_count: usize,
}

impl<'a> SimulatedRuntime<'a> {
    /// Restores the runtime from the status of a pod.
    #[must_use]
    pub fn new(state: NodeState<'a>, pod: &'a Pod, meta: &'a ObjectMeta, now: Time) -> SimulatedRuntime<'a> {
        let (runs, behaviors, script_count) = (BTreeMap::new(), BTreeMap::new(), count_scripts(pod));
        let mut simulated =
            SimulatedRuntime { state, pod, meta, now, runs, behaviors, next_kill: None, script_count };
        for container in pod.spec.all_containers() {
            let run = pod.status.container_status(&container.name).and_then(restore_run);
            simulated.set_behavior(container, run.as_ref().map_or(0, |run| run.restart_count));
            if let Some(run) = run {
                simulated.runs.insert(container.name.clone(), run);
                simulated.advance(container);
            }
        }
        simulated
    }

    /// Computes the behavior of a container for one of its runs.
    fn set_behavior(&mut self, container: &Container, restart_count: i64) {
        let behavior = container_behavior(
            (self.state.rules, self.state.cache),
            container,
            restart_count,
            self.pod,
            self.meta,
            self.script_count,
        );
        self.behaviors.insert(container.name.clone(), behavior);
    }

    /// Returns the time of the next container termination.
    #[must_use]
    pub fn next_termination(&self) -> Option<Time> {
        let ends = self.pod.spec.all_containers().filter_map(|container| {
            let run = self.runs.get(&container.name).filter(|run| run.is_running())?;
            Some(run.started_at.after(self.behavior(container).exit()?.after))
        });
        ends.chain(self.next_kill).min()
    }

    /// Performs an action. Returns `true` if it changed anything by now.
    pub fn perform(&mut self, action: &RuntimeAction) -> bool {
        let (RuntimeAction::StartContainer { container: name, .. }
        | RuntimeAction::KillContainer { container: name, .. }) = action;
        let Some(container) = self.pod.spec.all_containers().find(|one| one.name == *name) else {
            return false;
        };
        match action {
            RuntimeAction::StartContainer { restart_count, .. } => {
                let last = self.runs.get(name).and_then(|run| run.termination.clone());
                let run = ContainerRun {
                    restart_count: *restart_count,
                    container_id: format!(
                        "{SCHEME}{}",
                        hex_digest(&format!("{}/{name}/{restart_count}", self.meta.uid))
                    ),
                    image: container.image.clone(),
                    started_at: truncate_to_seconds(self.now),
                    termination: None,
                    last_termination: last,
                    back_off: None,
                };
                self.runs.insert(name.clone(), run);
                self.set_behavior(container, *restart_count);
                self.advance(container);
                true
            }
            RuntimeAction::KillContainer { sigterm_at: None, .. } => false,
            RuntimeAction::KillContainer { since, grace_period, sigterm_at: Some(sigterm_at), .. } => {
                let (at, code) = self.kill_result(container, *since, *grace_period, *sigterm_at);
                if at > self.now {
                    self.next_kill = Some(self.next_kill.map_or(at, |other| other.min(at)));
                    return false;
                }
                self.terminate(container, at, code, if code == 0 { "Completed" } else { "Error" });
                true
            }
        }
    }

    /// Returns the termination time and exit code of a container that is being stopped.
    fn kill_result(
        &self,
        container: &Container,
        since: Time,
        grace_period: Duration,
        sigterm_at: Time,
    ) -> (Time, i64) {
        let sigkill_at = since.after(grace_period);
        let overrides = &self.behavior(container).overrides;
        let hook = container.lifecycle.pre_stop.as_ref();
        let (hook_duration, _) =
            hook.map(|hook| hook_result(hook, self.behavior(container))).unwrap_or_default();
        let hook_end = since.after(hook_duration);
        // Reported times have a precision of one second. The preStop hook gets at least its full duration,
        // however late in that second it began, but never exceeds the grace period.
        let precision = if hook_duration.is_zero() { Duration::ZERO } else { TIME_PRECISION };
        let sent_at = hook_end.max(hook_end.after(precision).min(sigkill_at)).max(sigterm_at);
        // The stop takes some time, so that it is visible to clients.
        let default_duration = self.state.default_delay.min(STOP_DURATION_MAX) * 2;
        let terminated_at = match overrides.stop_takes {
            Some(takes) => sent_at.after(takes),
            None => {
                hook_end.max(sigterm_at).after(default_duration).max(sent_at).min(sigkill_at.max(sent_at))
            }
        };
        if overrides.hangs == Some(true) || terminated_at > sigkill_at {
            (sigkill_at, EXIT_SIGKILL)
        } else {
            (terminated_at, overrides.stop_code.unwrap_or(EXIT_SIGTERM))
        }
    }

    /// `true` if the image pull of a container takes visible time.
    #[must_use]
    pub fn has_visible_pull(&self, name: &str) -> bool {
        let takes = self.behaviors.get(name).and_then(|behavior| behavior.overrides.pull_takes);
        takes.is_some_and(|takes| !takes.is_zero())
    }

    /// Returns the start error of a container's command.
    #[must_use]
    pub fn start_error(&self, name: &str) -> Option<&str> {
        self.behaviors.get(name)?.start_error.as_deref()
    }

    /// Returns the behavior of a container.
    pub(crate) fn behavior(&self, container: &Container) -> &ContainerBehavior {
        self.behaviors.get(&container.name).expect("every container has a behavior")
    }

    /// Terminates a container whose command has exited or whose node has rebooted.
    fn advance(&mut self, container: &Container) {
        let Some(run) = self.runs.get(&container.name).filter(|run| run.is_running()) else { return };
        let started = run.started_at;
        if started < truncate_to_seconds(self.state.boot_time) {
            self.terminate(container, self.state.boot_time, EXIT_UNKNOWN, "Unknown");
            return;
        }
        let Some(exit) = self.behavior(container).exit() else { return };
        let at = started.after(exit.after);
        if at <= self.now {
            let last_seen =
                if self.is_reported(container) { self.state.last_write.min(self.now) } else { at };
            self.terminate(container, at.max(last_seen), exit.exit_code, exit.reason);
        }
    }

    /// `true` if the current run of a container is in the reported status.
    fn is_reported(&self, container: &Container) -> bool {
        let (status, run) =
            (self.pod.status.container_status(&container.name), self.runs.get(&container.name));
        status.zip(run).is_some_and(|(status, run)| {
            status.state.running.is_some() && status.container_id == run.container_id
        })
    }

    fn terminate(&mut self, container: &Container, at: Time, code: i64, reason: &str) {
        let message = self.termination_message(container, at, code);
        let Some(run) = self.runs.get_mut(&container.name) else { return };
        run.termination = Some(ContainerStateTerminated {
            exit_code: code,
            reason: reason.to_owned(),
            message,
            started_at: Some(run.started_at),
            finished_at: Some(truncate_to_seconds(at).max(run.started_at)),
            container_id: run.container_id.clone(),
        });
    }

    /// Returns the termination message of a container.
    fn termination_message(&self, container: &Container, at: Time, code: i64) -> String {
        let behavior = self.behavior(container);
        if let Some(error) = &behavior.start_error {
            return error.clone();
        }
        let age = self.runs.get(&container.name).map_or(Duration::ZERO, |run| at.since(run.started_at));
        if let Some(message) = behavior.timeline.files_at(age).remove(&container.termination_message_path)
            && !message.is_empty()
        {
            return message;
        }
        if code == 0 || container.termination_message_policy != "FallbackToLogsOnError" {
            return String::new();
        }
        let (lines, _) = behavior.log_until(age);
        let log: String = lines.iter().map(|(_, line)| format!("{line}\n")).collect();
        let mut from = log.len().saturating_sub(MESSAGE_BYTES_MAX);
        while !log.is_char_boundary(from) {
            from += 1;
        }
        log[from..].to_owned()
    }
}

/// Returns the duration and exit code of a hook. An unknown command succeeds at once.
fn hook_result(handler: &LifecycleHandler, behavior: &ContainerBehavior) -> (Duration, i64) {
    let mut budget = behavior.budget;
    let sleep_seconds = handler.sleep.as_ref().map(|sleep| u64::try_from(sleep.seconds).unwrap_or(0));
    let run = |words: &[String]| evaluate_script(words, BTreeMap::new(), behavior, &mut budget).exit;
    let exec_result = handler.exec.as_ref().map(|exec| exec.command.as_slice()).and_then(run);
    match (sleep_seconds, exec_result) {
        (Some(seconds), _) => (Duration::from_secs(seconds), 0),
        (None, exec_result) => exec_result.unwrap_or_default(),
    }
}

/// Restores the latest run from a status; `None` if there was none.
fn restore_run(status: &ContainerStatus) -> Option<ContainerRun> {
    let state = &status.state;
    if status.container_id.is_empty()
        && state.terminated.as_ref().is_some_and(|end| end.reason == CONTAINER_STATUS_UNKNOWN)
    {
        return None;
    }
    let back_off = state.waiting.as_ref().and_then(|waiting| restart::parse_back_off(&waiting.message));
    let (end, last) = match (&state.running, &state.terminated) {
        (Some(_), _) => (None, status.last_state.terminated.clone()),
        (None, Some(end)) => (Some(end.clone()), status.last_state.terminated.clone()),
        (None, None) => (Some(status.last_state.terminated.clone()?), None),
    };
    let started = match (&state.running, &end) {
        (Some(running), _) => running.started_at,
        (None, end) => end.as_ref().and_then(|end| end.started_at.or(end.finished_at)),
    };
    Some(ContainerRun {
        restart_count: status.restart_count,
        container_id: status.container_id.clone(),
        image: status.image.clone(),
        started_at: started.unwrap_or(Time::EPOCH),
        termination: end,
        last_termination: last,
        back_off,
    })
}

impl ContainerRuntime for SimulatedRuntime<'_> {
    fn latest_run(&self, container: &Container) -> Option<&ContainerRun> {
        self.runs.get(&container.name)
    }

    fn image_state(&self, container: &Container, needed_since: Time) -> ImageState {
        if self.runs.get(&container.name).is_some_and(|run| run.uses_image_of(container)) {
            return image_pulls::image_state_on_restart(
                container,
                &self.behavior(container).overrides,
                needed_since,
                self.now,
            );
        }
        image_pulls::image_state(
            container,
            &self.behavior(container).overrides,
            &self.state,
            needed_since,
            self.now,
        )
    }

    fn probe_results(&self, container: &Container, run: &ContainerRun) -> ProbeResults {
        probes::probe_results(container, self.behavior(container), run.started_at, self.now)
    }

    fn sandbox_created_at(&self) -> Time {
        // A pod with restart policy Never gets no new sandbox.
        if self.pod.spec.restart_policy == "Never" {
            Time::EPOCH
        } else {
            truncate_to_seconds(self.state.boot_time)
        }
    }

    fn image_id(&self, image: &str) -> String {
        format!("{SCHEME}sha256:{}", hex_digest(image))
    }

    fn ephemeral_container_state(&self, container: &Container) -> ContainerState {
        let message = format!("a simulated node cannot run the ephemeral container {}", container.name);
        // Terminated at once, so that clients that wait for the container see that it cannot run.
        ContainerState::terminated(ContainerStateTerminated {
            exit_code: EXIT_CANNOT_RUN,
            reason: "ContainerCannotRun".to_owned(),
            message,
            started_at: Some(truncate_to_seconds(self.now)),
            finished_at: Some(truncate_to_seconds(self.now)),
            ..ContainerStateTerminated::default()
        })
    }
}
