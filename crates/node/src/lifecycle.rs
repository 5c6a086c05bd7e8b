//! Pod life cycle of a kubelet, for any container runtime.
//!
//! [`compute_pod_actions`] is a pure function: the pod, the state of the runtime and the time go in; actions for the
//! runtime, the new status and the time of the next sync come out. Init containers run in order; sidecars
//! start before the containers that follow them and terminate last; terminated containers restart according
//! to their policy.

pub mod conditions;
pub mod image_change;
pub mod phase;
pub mod resize;
pub mod restart;

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_api::Time;
use setpoint_reconcile::{Meta, int32};

use crate::pod::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStatus, Ip, Pod,
    PodStatus, VolumeMount,
};
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
    pub meta: &'a Meta,
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

/// Termination of the whole pod: start, grace period, and the reason if it was not deleted.
struct PodTermination {
    since: Time,
    grace_period: Duration,
    reason: Option<(&'static str, &'static str)>,
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
    let done = match &termination {
        Some(termination) => {
            let is_first_request =
                termination.reason.is_some() && pod_actions.is_event_pending(termination.since);
            pod_actions.kill_pod(termination.since, termination.grace_period, is_first_request);
            true
        }
        None => pod_actions.sync_containers(),
    };
    let is_terminated = done && !pod_actions.has_running_container();
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

    fn pod_termination(&mut self) -> Option<PodTermination> {
        let SyncInput { pod, meta, now, .. } = self.input;
        if let Some(deleted) = meta.deletion_timestamp {
            let grace_period = seconds_to_duration(meta.deletion_grace_period_seconds.unwrap_or(0));
            return Some(PodTermination { since: deleted.before(grace_period), grace_period, reason: None });
        }
        if pod.status.is_terminal() {
            return Some(PodTermination { since: *now, grace_period: Duration::ZERO, reason: None });
        }
        let end = self.input.start_time.after(seconds_to_duration(pod.spec.active_deadline_seconds?));
        if end > *now {
            self.requeue_at(end);
            return None;
        }
        Some(PodTermination {
            since: end,
            grace_period: self.grace_period(),
            reason: Some(DEADLINE_EXCEEDED),
        })
    }

    /// `true` if a transition at `since` has not emitted its Event yet.
    fn is_event_pending(&self, since: Time) -> bool {
        self.input.last_write < since && self.input.now.since(since) < EVENT_WINDOW
    }

    /// `true` if one of the containers has just terminated and its status does not show it.
    fn has_just_terminated(&self, mut containers: impl Iterator<Item = &'a Container>) -> bool {
        containers.any(|one| {
            let is_reported = |name: &str| {
                self.input.pod.status.container_status(name).is_some_and(|old| old.state.terminated.is_some())
            };
            let end = self.latest_run(one).and_then(|run| run.termination.as_ref()?.finished_at);
            end.is_some_and(|end| self.input.now.since(end) < EVENT_WINDOW) && !is_reported(&one.name)
        })
    }

    /// Stops all running containers. Their preStop hooks start at once. A sidecar gets its SIGTERM only after
    /// all other containers and all later sidecars have terminated.
    fn kill_pod(&mut self, since: Time, grace_period: Duration, is_first_request: bool) {
        let spec = &self.input.pod.spec;
        let action = |container: &Container, sigterm_at: Option<Time>| {
            let message = format!("Stopping container {}", container.name);
            RuntimeAction::KillContainer {
                container: container.name.clone(),
                since,
                grace_period,
                sigterm_at,
                message,
                is_first_request,
            }
        };
        let first = spec.containers.iter().chain(spec.init_containers.iter().filter(|one| !one.is_sidecar()));
        let first = first.filter(|one| self.is_running(one));
        let mut actions: Vec<RuntimeAction> = first.map(|one| action(one, Some(since))).collect();
        let ended = spec
            .all_containers()
            .filter_map(|one| self.latest_run(one)?.termination.as_ref()?.finished_at)
            .max();
        let mut sigterm_at =
            Some(ended.map_or(since, |ended| ended.max(since))).filter(|_| actions.is_empty());
        let sidecars =
            spec.init_containers.iter().rev().filter(|one| one.is_sidecar() && self.is_running(one));
        actions.extend(sidecars.map(|one| action(one, sigterm_at.take())));
        self.actions.append(&mut actions);
    }

    fn kill_container(
        &mut self,
        container: &Container,
        since: Time,
        grace_period: Duration,
        message: String,
        is_first_request: bool,
    ) {
        let sigterm_at = Some(since);
        self.actions.push(RuntimeAction::KillContainer {
            container: container.name.clone(),
            since,
            grace_period,
            sigterm_at,
            message,
            is_first_request,
        });
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

    /// Stops the sidecars, starting when the last of `ended` terminated: sidecars do not keep a pod running.
    fn kill_sidecars(&mut self, ended: &'a [Container]) {
        let ended = || ended.iter().filter(|one| !one.is_sidecar());
        let since = ended().filter_map(|one| self.latest_run(one)?.termination.as_ref()?.finished_at).max();
        let is_first_request = self.has_just_terminated(ended());
        self.kill_pod(since.unwrap_or(self.input.now), self.grace_period(), is_first_request);
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

    /// Stops a container whose image changed, after the containers that are already being stopped for that
    /// reason.
    fn kill_changed_container(&mut self, container: &'a Container) {
        let begun = image_change::kill_started_at(self.input, container);
        let mut before = self
            .input
            .pod
            .spec
            .all_containers()
            .filter(|one| image_change::kill_started_at(self.input, one).is_some());
        let still_stops =
            |run: &ContainerRun, one: &Container| run.is_running() && self.has_changed_image(one, run);
        if begun.is_none() && before.any(|one| self.latest_run(one).is_some_and(|run| still_stops(run, one)))
        {
            return;
        }
        self.replaced.push(container);
        let message = format!("Container {} definition changed, will be restarted", container.name);
        self.kill_container(
            container,
            begun.unwrap_or(self.input.now),
            self.grace_period(),
            message,
            begun.is_none(),
        );
    }

    /// Checks a running container, and stops it if its image or resources require a restart or a probe
    /// failed. Returns `true` if it keeps running.
    fn check_running_container(&mut self, container: &'a Container, run: &ContainerRun) -> bool {
        if self.has_changed_image(container, run) {
            self.kill_changed_container(container);
            return false;
        }
        if resize::needs_restart(self.input, container, run) {
            let begun =
                resize::in_progress_condition(self.input).and_then(|begun| begun.last_transition_time);
            let message = format!("Container {} resize requires restart", container.name);
            self.kill_container(
                container,
                begun.unwrap_or(self.input.now),
                self.grace_period(),
                message,
                begun.is_none(),
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
        let due = run.and_then(|run| match &run.termination {
            // No back-off: the new image has not failed yet.
            Some(end) if self.has_changed_image(container, run) => end.finished_at,
            // No back-off: nothing has failed in the new sandbox yet.
            Some(_) if !self.is_in_sandbox(run) => None,
            _ => restart::restart_time(run, now),
        });
        let due = due.unwrap_or(earliest_start);
        // Volumes stay mounted after the first start, and the sandbox keeps its address.
        if run.is_none() && self.input.pod.spec.all_containers().all(|one| self.latest_run(one).is_none()) {
            self.mount_error = (self.input.mount_error)();
            if self.mount_error.is_some() || self.input.pod_ips.is_empty() {
                return;
            }
        }
        if due > now {
            self.requeue_at(due);
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
        match self.runtime.image_state(container, due) {
            ImageState::Present { pull_duration } => {
                if let Some(error) =
                    (self.input.env_error)(container).or_else(|| self.run_as_non_root_error(container))
                {
                    self.waiting.insert(&container.name, ContainerState::waiting(CONFIG_ERROR, error));
                    return;
                }
                let restart_count = run.map_or(0, |run| int32::count_on(run.restart_count));
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

    fn generate_status(&self, termination: Option<&PodTermination>, is_terminated: bool) -> PodStatus {
        let SyncInput { pod, meta, .. } = self.input;
        let (spec, old) = (&pod.spec, &pod.status);
        let statuses = |of: &'a [Container], first: bool| -> Vec<ContainerStatus> {
            of.iter().map(|container| self.container_status(container, first)).collect()
        };
        // Host-network pods report the node's IPs before their volumes are mounted.
        let has_ips = self.mount_error.is_none() || spec.host_network;
        let pod_ips = if has_ips { self.input.pod_ips } else { &[] };
        let ips = |ips: &[String]| ips.iter().map(|ip| Ip { ip: ip.clone() }).collect::<Vec<Ip>>();
        let mut status = PodStatus {
            observed_generation: Some(meta.generation).filter(|generation| *generation > 0),
            host_ip: self.input.host_ips.first().cloned().unwrap_or_default(),
            host_ips: ips(self.input.host_ips),
            pod_ip: pod_ips.first().cloned().unwrap_or_default(),
            pod_ips: ips(pod_ips),
            start_time: Some(self.input.start_time),
            init_container_statuses: statuses(&spec.init_containers, true),
            container_statuses: statuses(&spec.containers, false),
            ephemeral_container_statuses: self.ephemeral_statuses(),
            ..PodStatus::default()
        };
        let is_done =
            |one: &ContainerStatus| one.state.terminated.as_ref().is_some_and(|end| end.exit_code == 0);
        let first = spec.init_containers.iter().filter(|one| !one.is_sidecar());
        if is_terminated
            && first.map(|one| status.container_status(&one.name)).all(|one| one.is_some_and(is_done))
        {
            status.container_statuses.iter_mut().for_each(mark_never_started);
        }
        // The kubelet sorts container statuses by name.
        status.container_statuses.sort_by(|a, b| a.name.cmp(&b.name));
        let phase = if old.is_terminal() {
            old.phase.clone()
        } else if is_terminated && termination.is_some_and(|termination| termination.reason.is_some()) {
            "Failed".to_owned()
        } else {
            phase::phase(spec, &status, is_terminated).to_owned()
        };
        // A pod with containers that may still run is not reported as finished.
        let is_early =
            matches!(phase.as_str(), "Succeeded" | "Failed") && !old.is_terminal() && !is_terminated;
        status.phase = if is_early { old.phase.clone() } else { phase };
        if status.phase == old.phase {
            (status.reason, status.message) = (old.reason.clone(), old.message.clone());
        }
        if let Some((reason, message)) =
            termination.and_then(|termination| termination.reason).filter(|_| is_terminated)
        {
            (status.reason, status.message) = (reason.to_owned(), message.to_owned());
        }
        let has_sandbox = !is_terminated && self.mount_error.is_none();
        status.conditions = conditions::conditions(self.input, &status, has_sandbox, &self.replaced);
        status
    }

    fn ephemeral_statuses(&self) -> Vec<ContainerStatus> {
        let Pod { spec, status: old, .. } = self.input.pod;
        let added = spec.ephemeral_containers.iter();
        // Ephemeral containers never restart.
        let ended = |container: &Container| {
            let mut known = old.ephemeral_container_statuses.iter();
            let known = known.find(|known| known.name == container.name)?;
            known.state.terminated.is_some().then(|| known.state.clone())
        };
        let status = |container: &Container| ContainerStatus {
            name: container.name.clone(),
            image: container.image.clone(),
            state: ended(container).unwrap_or_else(|| self.runtime.ephemeral_container_state(container)),
            ..ContainerStatus::default()
        };
        added.map(status).collect()
    }

    /// Returns the status of a container; `first` is `true` for init containers.
    fn container_status(&self, container: &'a Container, first: bool) -> ContainerStatus {
        let run = self.latest_run(container);
        let (state, last) = match (run, self.waiting.get(container.name.as_str())) {
            (run, Some(waiting)) => (waiting.clone(), run.and_then(|run| run.termination.clone())),
            (Some(run), None) => {
                let running = || ContainerState {
                    running: Some(ContainerStateRunning { started_at: Some(run.started_at) }),
                    ..ContainerState::default()
                };
                (
                    run.termination.clone().map_or_else(running, ContainerState::terminated),
                    run.last_termination.clone(),
                )
            }
            (None, None) => {
                let has_init = !self.input.pod.spec.init_containers.is_empty();
                let reason = if has_init { "PodInitializing" } else { "ContainerCreating" };
                (ContainerState::waiting(reason, ""), None)
            }
        };
        let results =
            run.filter(|run| run.is_running()).map(|run| self.runtime.probe_results(container, run));
        let succeeded = state.terminated.as_ref().is_some_and(|end| end.exit_code == 0);
        let is_ready = if first && !container.is_sidecar() {
            succeeded
        } else {
            results.as_ref().is_some_and(|results| results.started && results.ready)
        };
        let image = run.map(|run| &run.image).filter(|image| !image.is_empty()).unwrap_or(&container.image);
        let mut status = ContainerStatus {
            name: container.name.clone(),
            ready: is_ready,
            started: Some(results.is_some_and(|results| results.started)),
            state,
            last_state: last.map(ContainerState::terminated).unwrap_or_default(),
            restart_count: run.map_or(0, |run| run.restart_count),
            image: image.clone(),
            image_id: run.map(|_| self.runtime.image_id(image)).unwrap_or_default(),
            container_id: run.map(|run| run.container_id.clone()).unwrap_or_default(),
            volume_mounts: container.volume_mounts.iter().map(mount_status).collect(),
            ..ContainerStatus::default()
        };
        if let Some(run) = run {
            resize::set_resources(self.input, container, run, &mut status);
        }
        status
    }
}

/// Marks a container that never ran and never will as terminated.
fn mark_never_started(status: &mut ContainerStatus) {
    if status.state.waiting.is_some() && status.last_state.terminated.is_none() {
        status.state = ContainerState::terminated(ContainerStateTerminated {
            exit_code: 137,
            reason: CONTAINER_STATUS_UNKNOWN.to_owned(),
            message: "The container could not be located when the pod was terminated".to_owned(),
            ..ContainerStateTerminated::default()
        });
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

fn mount_status(mount: &VolumeMount) -> VolumeMount {
    let mode = mount.read_only.then(|| "Disabled".to_owned());
    VolumeMount { recursive_read_only: mode, ..mount.clone() }
}

impl SyncInput<'_> {
    /// Pod name in kubelet messages: `name_namespace(uid)`.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}_{}({})", self.meta.name, self.meta.namespace, self.meta.uid)
    }
}
