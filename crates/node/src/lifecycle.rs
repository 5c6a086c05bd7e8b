//! Pod life cycle of a kubelet, for any container runtime.
//!
//! [`compute_pod_actions`] is a pure function: the pod, the state of the runtime and the time go in; actions for the
//! runtime, the new status and the time of the next sync come out. Init containers run in order; sidecars
//! start before the containers that follow them and terminate last; terminated containers restart according
//! to their policy.

pub mod conditions;
pub mod image_change;
mod kill;
pub mod phase;
pub mod resize;
pub mod restart;
mod status;

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_api::Time;
use setpoint_reconcile::{ObjectMeta, int32};

use crate::pod::{Container, ContainerState, Pod, PodStatus};
use crate::references::CONFIG_ERROR;
use crate::runtime::{ContainerRun, ContainerRuntime, ImageState, POST_START, RuntimeAction};

/// Default of `terminationGracePeriodSeconds`.
const DEFAULT_GRACE_PERIOD_SECONDS: i64 = 30;
/// Event reason of a container that is killed because its postStart hook failed.
pub const FAILED_POST_START: &str = "FailedPostStartHook";
/// Termination reason of a container that never ran.
pub const CONTAINER_STATUS_UNKNOWN: &str = "ContainerStatusUnknown";
/// Time within which a transition without a status change emits its Event. Nothing records the Event, but the
/// planner is not requeued within this time unless the pod is written.
const EVENT_WINDOW: Duration = Duration::from_secs(1);
/// Reason and message of a pod that exceeded `activeDeadlineSeconds`.
const DEADLINE_EXCEEDED: (&str, &str) =
    ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline");

/// Input of a pod sync.
pub struct SyncInput<'a> {
    /// Spec, and the last reported status.
    pub pod: &'a Pod,
    /// Its metadata.
    pub meta: &'a ObjectMeta,
    /// Node IPs.
    pub host_ips: &'a [String],
    /// Pod IPs; empty if the pod has none yet.
    pub pod_ips: &'a [String],
    /// Time of admission (`startTime`).
    pub start_time: Time,
    /// Earliest start of the first container.
    pub earliest_start: Time,
    /// Time of the last write of the pod. Transitions before it have emitted their Events.
    pub last_write: Time,
    /// Resize request and its result.
    pub resize: resize::ResizeState,
    /// Returns the error that keeps the pod's volumes from being mounted.
    pub mount_error: &'a dyn Fn() -> Option<String>,
    /// Returns the error that keeps a container's environment from being built.
    pub env_error: &'a dyn Fn(&Container) -> Option<String>,
    /// Current time.
    pub now: Time,
}

/// Result of a pod sync.
#[derive(Debug)]
pub struct SyncResult {
    /// Actions for the runtime.
    pub actions: Vec<RuntimeAction>,
    /// New status.
    pub status: PodStatus,
    /// Time of the next sync, even if nothing changes.
    pub requeue_at: Option<Time>,
    /// `true` if no container runs or will run.
    pub is_terminated: bool,
    /// Reason and message of the deadline that the pod just exceeded; `None` once the Event is emitted.
    pub deadline_exceeded: Option<(&'static str, &'static str)>,
    /// Mount error that the pod waits for.
    pub mount_error: Option<String>,
    /// Containers whose readiness probe just started to fail.
    pub newly_unready: Vec<String>,
    /// Containers whose image pull just started.
    pub newly_pulling: Vec<String>,
}

/// Computes the actions, status and next sync time of a pod.
pub fn compute_pod_actions(input: &SyncInput<'_>, runtime: &impl ContainerRuntime) -> SyncResult {
    let mut pod_actions = PodActions {
        input,
        runtime,
        actions: Vec::new(),
        waiting: BTreeMap::new(),
        requeue_at: None,
        mount_error: None,
        newly_unready: Vec::new(),
        newly_pulling: Vec::new(),
        replaced: Vec::new(),
    };
    let termination = pod_actions.pod_termination();
    let is_finished = match &termination {
        Some(termination) => {
            let is_first_request =
                termination.reason.is_some() && pod_actions.is_event_pending(termination.since);
            pod_actions.kill_pod(termination.since, termination.grace_period, is_first_request);
            true
        }
        None => pod_actions.sync_containers(),
    };
    let is_terminated = is_finished && !pod_actions.has_running_container();
    let status = pod_actions.generate_status(termination.as_ref(), is_terminated);
    let deadline_exceeded = termination.and_then(|termination| {
        termination.reason.filter(|_| pod_actions.is_event_pending(termination.since))
    });
    let PodActions { actions, requeue_at, mount_error, newly_unready, newly_pulling, .. } = pod_actions;
    SyncResult {
        actions,
        status,
        requeue_at,
        is_terminated,
        deadline_exceeded,
        mount_error,
        newly_unready,
        newly_pulling,
    }
}

/// Truncates a time to whole seconds, the precision of statuses.
#[must_use]
pub fn truncate_to_seconds(time: Time) -> Time {
    Time::from_seconds(time.0.div_euclid(1_000_000))
}

fn seconds_to_duration(number: i64) -> Duration {
    Duration::from_secs(u64::try_from(number).unwrap_or(0))
}

struct PodActions<'a, R> {
    input: &'a SyncInput<'a>,
    runtime: &'a R,
    actions: Vec<RuntimeAction>,
    /// Waiting states of containers that should run.
    waiting: BTreeMap<&'a str, ContainerState>,
    requeue_at: Option<Time>,
    /// Mount error of required volumes.
    mount_error: Option<String>,
    /// Containers whose readiness probe just started to fail.
    newly_unready: Vec<String>,
    /// Containers whose image pull just started.
    newly_pulling: Vec<String>,
    /// Containers that are being stopped because their image changed.
    replaced: Vec<&'a Container>,
}

impl<'a, R: ContainerRuntime> PodActions<'a, R> {
    fn requeue_at(&mut self, time: Time) {
        self.requeue_at = Some(self.requeue_at.map_or(time, |planned| planned.min(time)));
    }

    fn latest_run(&self, container: &Container) -> Option<&'a ContainerRun> {
        self.runtime.latest_run(container)
    }

    /// Returns the latest run in the current sandbox.
    fn run_in_sandbox(&self, container: &Container) -> Option<&'a ContainerRun> {
        self.latest_run(container).filter(|run| self.is_in_sandbox(run))
    }

    fn is_in_sandbox(&self, run: &ContainerRun) -> bool {
        run.started_at >= self.runtime.sandbox_created_at()
    }

    fn is_running(&self, container: &Container) -> bool {
        self.latest_run(container).is_some_and(ContainerRun::is_running)
    }

    fn has_running_container(&self) -> bool {
        self.input.pod.spec.all_containers().any(|container| self.is_running(container))
    }

    fn grace_period(&self) -> Duration {
        seconds_to_duration(
            self.input.pod.spec.termination_grace_period_seconds.unwrap_or(DEFAULT_GRACE_PERIOD_SECONDS),
        )
    }

    /// `true` if a transition at `since` has not emitted its Event yet.
    fn is_event_pending(&self, since: Time) -> bool {
        self.input.last_write < since && self.input.now.since(since) < EVENT_WINDOW
    }

    /// Starts the containers that should run. Returns `true` if the pod is finished.
    fn sync_containers(&mut self) -> bool {
        let spec = &self.input.pod.spec;
        let mut earliest_start = self.input.earliest_start;
        if spec.containers.iter().all(|container| self.run_in_sandbox(container).is_none()) {
            match self.run_init_containers() {
                InitProgress::Done(at) => earliest_start = earliest_start.max(at),
                InitProgress::Pending => {
                    // Containers of an earlier sandbox wait as if they had never run.
                    for container in &spec.containers {
                        if self.latest_run(container).is_some() {
                            self.waiting
                                .insert(&container.name, ContainerState::waiting("PodInitializing", ""));
                        }
                    }
                    return false;
                }
                InitProgress::Failed => {
                    self.kill_sidecars(&spec.init_containers);
                    return true;
                }
            }
        }
        let mut is_active = false;
        for container in &spec.containers {
            is_active |= self.sync_container(container, earliest_start);
        }
        if is_active {
            for sidecar in spec.init_containers.iter().filter(|one| one.is_sidecar()) {
                self.sync_container(sidecar, earliest_start);
            }
        } else {
            self.kill_sidecars(&spec.containers);
        }
        !is_active
    }

    /// Runs the init containers in order.
    fn run_init_containers(&mut self) -> InitProgress {
        let spec = &self.input.pod.spec;
        let mut earliest_start = self.input.earliest_start;
        for container in &spec.init_containers {
            let Some(run) = self.run_in_sandbox(container) else {
                self.ensure_started(container, earliest_start);
                return InitProgress::Pending;
            };
            match &run.termination {
                None => {
                    let keeps_running = self.check_running_container(container, run);
                    if !container.is_sidecar()
                        || !keeps_running
                        || !self.runtime.probe_results(container, run).started
                    {
                        return InitProgress::Pending;
                    }
                    earliest_start = earliest_start.max(run.started_at);
                }
                Some(end) if end.exit_code == 0 && !container.is_sidecar() => {
                    earliest_start = earliest_start.max(end.finished_at.unwrap_or(earliest_start));
                }
                Some(end) if restart::should_restart(container, spec, end.exit_code) => {
                    self.ensure_started(container, earliest_start);
                    return InitProgress::Pending;
                }
                Some(_) => return InitProgress::Failed,
            }
        }
        InitProgress::Done(earliest_start)
    }

    /// Keeps a container running. Returns `false` if it has terminated for good.
    fn sync_container(&mut self, container: &'a Container, earliest_start: Time) -> bool {
        match self.latest_run(container) {
            None => self.ensure_started(container, earliest_start),
            Some(run) => match &run.termination {
                None => {
                    self.check_running_container(container, run);
                }
                Some(end)
                    if restart::should_restart(container, &self.input.pod.spec, end.exit_code)
                        || self.has_changed_image(container, run) =>
                {
                    self.ensure_started(container, earliest_start);
                }
                Some(_) => return false,
            },
        }
        true
    }

    /// `true` if the container's image changed since its start.
    fn has_changed_image(&self, container: &Container, run: &ContainerRun) -> bool {
        !run.uses_image_of(container) && image_change::restarts_container(&self.input.pod.spec, container)
    }

    /// Checks a running container, and kills it if its image or resources require a restart or a probe
    /// failed. Returns `true` if it keeps running.
    fn check_running_container(&mut self, container: &'a Container, run: &ContainerRun) -> bool {
        if self.has_changed_image(container, run) {
            self.kill_changed_container(container);
            return false;
        }
        if resize::needs_restart(self.input, container, run) {
            let kill_started_at = resize::in_progress_condition(self.input)
                .and_then(|kill_started_at| kill_started_at.last_transition_time);
            let message = format!("Container {} resize requires restart", container.name);
            self.kill_container(
                container,
                kill_started_at.unwrap_or(self.input.now),
                self.grace_period(),
                message,
                kill_started_at.is_none(),
            );
            return false;
        }
        let results = self.runtime.probe_results(container, run);
        if let Some(until) = results.next_change {
            self.requeue_at(until);
        }
        // A run that was never reported may fail before its first report.
        let is_known = self
            .input
            .pod
            .status
            .container_status(&container.name)
            .is_some_and(|old| old.container_id == run.container_id);
        if results.unready_since.is_some_and(|since| !is_known || self.is_event_pending(since)) {
            self.newly_unready.push(container.name.clone());
        }
        let Some(kill_reason) = results.kill_reason else { return true };
        let policy = container.restart_policy.as_deref().unwrap_or(&self.input.pod.spec.restart_policy);
        let suffix = if policy == "Never" { "" } else { ", will be restarted" };
        let message = match kill_reason.cause {
            POST_START => FAILED_POST_START.to_owned(),
            probe => format!("Container {} failed {probe} probe{suffix}", container.name),
        };
        let is_first_request = !is_known || self.is_event_pending(kill_reason.since);
        self.kill_container(
            container,
            kill_reason.since,
            kill_reason.grace_period.unwrap_or_else(|| self.grace_period()),
            message,
            is_first_request,
        );
        false
    }

    /// Starts a container once its back-off has expired and its image is on the node.
    fn ensure_started(&mut self, container: &'a Container, earliest_start: Time) {
        let (now, run) = (self.input.now, self.latest_run(container));
        let start_at = run.and_then(|run| match &run.termination {
            // No back-off: the new image has not failed yet.
            Some(end) if self.has_changed_image(container, run) => end.finished_at,
            // No back-off: nothing has failed in the new sandbox yet.
            Some(_) if !self.is_in_sandbox(run) => None,
            _ => restart::restart_time(run, now),
        });
        let start_at = start_at.unwrap_or(earliest_start);
        // Volumes stay mounted after the first start, and the sandbox keeps its address.
        if run.is_none() && self.input.pod.spec.all_containers().all(|one| self.latest_run(one).is_none()) {
            self.mount_error = (self.input.mount_error)();
            if self.mount_error.is_some() || self.input.pod_ips.is_empty() {
                return;
            }
        }
        if start_at > now {
            self.requeue_at(start_at);
            if let Some(run) = run {
                let message = restart::back_off_message(
                    restart::back_off(run),
                    &container.name,
                    &self.input.full_name(),
                );
                self.waiting.insert(&container.name, ContainerState::waiting("CrashLoopBackOff", message));
            }
            return;
        }
        match self.runtime.image_state(container, start_at) {
            ImageState::Present { pull_duration } => {
                if let Some(error) =
                    (self.input.env_error)(container).or_else(|| self.run_as_non_root_error(container))
                {
                    self.waiting.insert(&container.name, ContainerState::waiting(CONFIG_ERROR, error));
                    return;
                }
                let restart_count = run.map_or(0, |run| int32::saturating_increment(run.restart_count));
                self.actions.push(RuntimeAction::StartContainer {
                    container: container.name.clone(),
                    restart_count,
                    pull_duration,
                });
            }
            ImageState::Pulling { since, until } => {
                until.into_iter().for_each(|until| self.requeue_at(until));
                // Without a start delay, admission and the start of the pull happen in the same sync.
                if self.is_event_pending(since) || self.input.pod.status.start_time.is_none() {
                    self.newly_pulling.push(container.name.clone());
                }
            }
            ImageState::Failed { reason, message, until, .. } => {
                until.into_iter().for_each(|until| self.requeue_at(until));
                self.waiting.insert(&container.name, ContainerState::waiting(reason, message));
            }
        }
    }

    /// Returns the error for a container whose `runAsUser` violates `runAsNonRoot`.
    fn run_as_non_root_error(&self, container: &Container) -> Option<String> {
        let SyncInput { pod, .. } = self.input;
        let is_violated = container.security_context.violates_run_as_non_root(&pod.spec.security_context);
        is_violated.then(|| {
            let (pod, name) = (self.input.full_name(), &container.name);
            format!("container's runAsUser breaks non-root policy (pod: {pod:?}, container: {name})")
        })
    }
}

/// Progress of the init containers.
enum InitProgress {
    /// All are completed or, for sidecars, started since this time.
    Done(Time),
    /// One still runs or waits.
    Pending,
    /// One failed and does not restart.
    Failed,
}

impl SyncInput<'_> {
    /// Pod name in kubelet messages: `name_namespace(uid)`.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}_{}({})", self.meta.name, self.meta.namespace, self.meta.uid)
    }
}
