//! Pod life cycle of a kubelet, for any container runtime.
//!
//! [`look`] is a pure function: the pod, the state of the runtime and the time go in; actions for the
//! runtime, the new status and the time of the next sync come out. Init containers run in order; sidecars
//! start before the containers that follow them and terminate last; terminated containers restart according
//! to their policy.

pub mod change;
pub mod conditions;
pub mod phase;
pub mod resize;
pub mod restart;

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_api::Time;
use setpoint_reconcile::{ObjectMeta, int32};

use crate::needs::CONFIG_ERROR;
use crate::pod::{Container, ContainerStatus, Ip, Mount, Pod, Running, State, Status, Terminated};
use crate::runtime::{Deed, Image, POST_START, Run, Runtime};

/// Default of `terminationGracePeriodSeconds`.
const GRACE: i64 = 30;
/// Event reason of a container that is killed because its postStart hook failed.
pub const FAILED_POST_START: &str = "FailedPostStartHook";
/// Termination reason of a container that never ran.
pub const NEVER_RAN: &str = "ContainerStatusUnknown";
/// Time within which a transition without a status change emits its Event. Nothing records the Event, but the
/// planner is not requeued within this time unless the pod is written.
const TELL_WITHIN: Duration = Duration::from_secs(1);
/// Reason and message of a pod that exceeded `activeDeadlineSeconds`.
const DEADLINE_EXCEEDED: (&str, &str) =
    ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline");

/// Input of a pod sync.
pub struct Case<'a> {
    /// Spec, and the last reported status.
    pub pod: &'a Pod,
    /// Its metadata.
    pub meta: &'a ObjectMeta,
    /// Node IPs.
    pub host_ips: &'a [String],
    /// Pod IPs; empty if the pod has none yet.
    pub pod_ips: &'a [String],
    /// Time of admission (`startTime`).
    pub taken_up: Time,
    /// Earliest start of the first container.
    pub begin: Time,
    /// Time of the last write of the pod. Transitions before it have emitted their Events.
    pub written: Time,
    /// Resize request and its result.
    pub resize: resize::Resize,
    /// Returns the error that keeps the pod's volumes from being mounted.
    pub unmounted: &'a dyn Fn() -> Option<String>,
    /// Returns the error that keeps a container's environment from being built.
    pub unset: &'a dyn Fn(&Container) -> Option<String>,
    /// Current time.
    pub now: Time,
}

/// Result of a pod sync.
#[derive(Debug)]
pub struct Outlook {
    /// Actions for the runtime.
    pub deeds: Vec<Deed>,
    /// New status.
    pub status: Status,
    /// Time of the next sync, even if nothing changes.
    pub again: Option<Time>,
    /// `true` if no container runs or will run.
    pub is_over: bool,
    /// Reason and message of the deadline that the pod just exceeded; `None` once the Event is emitted.
    pub overdue: Option<(&'static str, &'static str)>,
    /// Mount error that the pod waits for.
    pub unmounted: Option<String>,
    /// Containers whose readiness probe just started to fail.
    pub unready: Vec<String>,
    /// Containers whose image pull just started.
    pub pulling: Vec<String>,
}

/// Termination of the whole pod: start, grace period, and the reason if it was not deleted.
struct Ending {
    since: Time,
    grace: Duration,
    reason: Option<(&'static str, &'static str)>,
}

/// Computes the actions, status and next sync time of a pod.
pub fn look(case: &Case<'_>, runtime: &impl Runtime) -> Outlook {
    let mut looking = Looking {
        case,
        runtime,
        deeds: Vec::new(),
        waiting: BTreeMap::new(),
        again: None,
        unmounted: None,
        unready: Vec::new(),
        pulling: Vec::new(),
        replaced: Vec::new(),
    };
    let ending = looking.ending();
    let done = match &ending {
        Some(ending) => {
            let begins = ending.reason.is_some() && looking.begins_at(ending.since);
            looking.stop_all(ending.since, ending.grace, begins);
            true
        }
        None => looking.go_on(),
    };
    let is_over = done && !looking.any_running();
    let status = looking.report(ending.as_ref(), is_over);
    let overdue = ending.and_then(|ending| ending.reason.filter(|_| looking.begins_at(ending.since)));
    let Looking { deeds, again, unmounted, unready, pulling, .. } = looking;
    Outlook { deeds, status, again, is_over, overdue, unmounted, unready, pulling }
}

/// Truncates a time to whole seconds, the precision of statuses.
#[must_use]
pub fn whole(time: Time) -> Time {
    Time::from_seconds(time.0.div_euclid(1_000_000))
}

fn seconds(number: i64) -> Duration {
    Duration::from_secs(u64::try_from(number).unwrap_or(0))
}

struct Looking<'a, R> {
    case: &'a Case<'a>,
    runtime: &'a R,
    deeds: Vec<Deed>,
    /// Waiting states of containers that should run.
    waiting: BTreeMap<&'a str, State>,
    again: Option<Time>,
    /// Mount error of required volumes.
    unmounted: Option<String>,
    /// Containers whose readiness probe just started to fail.
    unready: Vec<String>,
    /// Containers whose image pull just started.
    pulling: Vec<String>,
    /// Containers that are being stopped because their image changed.
    replaced: Vec<&'a Container>,
}

impl<'a, R: Runtime> Looking<'a, R> {
    fn look_again_at(&mut self, time: Time) {
        self.again = Some(self.again.map_or(time, |planned| planned.min(time)));
    }

    fn run(&self, container: &Container) -> Option<&'a Run> {
        self.runtime.run(container)
    }

    /// Returns the latest run in the current sandbox.
    fn run_here(&self, container: &Container) -> Option<&'a Run> {
        self.run(container).filter(|run| self.is_here(run))
    }

    fn is_here(&self, run: &Run) -> bool {
        run.started >= self.runtime.sandbox()
    }

    fn is_running(&self, container: &Container) -> bool {
        self.run(container).is_some_and(Run::is_running)
    }

    fn any_running(&self) -> bool {
        self.case.pod.spec.all().any(|container| self.is_running(container))
    }

    fn grace(&self) -> Duration {
        seconds(self.case.pod.spec.termination_grace_period_seconds.unwrap_or(GRACE))
    }

    fn ending(&mut self) -> Option<Ending> {
        let Case { pod, meta, now, .. } = self.case;
        if let Some(deleted) = meta.deletion_timestamp {
            let grace = seconds(meta.deletion_grace_period_seconds.unwrap_or(0));
            return Some(Ending { since: deleted.before(grace), grace, reason: None });
        }
        if pod.status.is_final() {
            return Some(Ending { since: *now, grace: Duration::ZERO, reason: None });
        }
        let end = self.case.taken_up.after(seconds(pod.spec.active_deadline_seconds?));
        if end > *now {
            self.look_again_at(end);
            return None;
        }
        Some(Ending { since: end, grace: self.grace(), reason: Some(DEADLINE_EXCEEDED) })
    }

    /// `true` if a transition at `since` has not emitted its Event yet.
    fn begins_at(&self, since: Time) -> bool {
        self.case.written < since && self.case.now.since(since) < TELL_WITHIN
    }

    /// `true` if one of the containers has just terminated and its status does not show it.
    fn ends_now(&self, mut containers: impl Iterator<Item = &'a Container>) -> bool {
        containers.any(|one| {
            let was_told =
                |name: &str| self.case.pod.status.of(name).is_some_and(|old| old.state.terminated.is_some());
            let end = self.run(one).and_then(|run| run.end.as_ref()?.finished_at);
            end.is_some_and(|end| self.case.now.since(end) < TELL_WITHIN) && !was_told(&one.name)
        })
    }

    /// Stops all running containers. Their preStop hooks start at once. A sidecar gets its SIGTERM only after
    /// all other containers and all later sidecars have terminated.
    fn stop_all(&mut self, since: Time, grace: Duration, begins: bool) {
        let spec = &self.case.pod.spec;
        let deed = |container: &Container, turn: Option<Time>| {
            let why = format!("Stopping container {}", container.name);
            Deed::Stop { container: container.name.clone(), since, grace, turn, why, begins }
        };
        let first = spec.containers.iter().chain(spec.init_containers.iter().filter(|one| !one.is_sidecar()));
        let first = first.filter(|one| self.is_running(one));
        let mut deeds: Vec<Deed> = first.map(|one| deed(one, Some(since))).collect();
        let ended = spec.all().filter_map(|one| self.run(one)?.end.as_ref()?.finished_at).max();
        let mut turn = Some(ended.map_or(since, |ended| ended.max(since))).filter(|_| deeds.is_empty());
        let sidecars =
            spec.init_containers.iter().rev().filter(|one| one.is_sidecar() && self.is_running(one));
        deeds.extend(sidecars.map(|one| deed(one, turn.take())));
        self.deeds.append(&mut deeds);
    }

    fn stop(&mut self, container: &Container, since: Time, grace: Duration, why: String, begins: bool) {
        let turn = Some(since);
        self.deeds.push(Deed::Stop { container: container.name.clone(), since, grace, turn, why, begins });
    }

    /// Starts the containers that should run. Returns `true` if the pod is finished.
    fn go_on(&mut self) -> bool {
        let spec = &self.case.pod.spec;
        let mut begin = self.case.begin;
        if spec.containers.iter().all(|container| self.run_here(container).is_none()) {
            match self.initialize() {
                Init::Done(at) => begin = begin.max(at),
                Init::Waits => {
                    // Containers of an earlier sandbox wait as if they had never run.
                    for container in &spec.containers {
                        if self.run(container).is_some() {
                            self.waiting.insert(&container.name, State::waiting("PodInitializing", ""));
                        }
                    }
                    return false;
                }
                Init::Failed => {
                    self.wind_up(&spec.init_containers);
                    return true;
                }
            }
        }
        let mut goes_on = false;
        for container in &spec.containers {
            goes_on |= self.keep(container, begin);
        }
        if goes_on {
            for sidecar in spec.init_containers.iter().filter(|one| one.is_sidecar()) {
                self.keep(sidecar, begin);
            }
        } else {
            self.wind_up(&spec.containers);
        }
        !goes_on
    }

    /// Stops the sidecars, starting when the last of `ended` terminated: sidecars do not keep a pod running.
    fn wind_up(&mut self, ended: &'a [Container]) {
        let ended = || ended.iter().filter(|one| !one.is_sidecar());
        let since = ended().filter_map(|one| self.run(one)?.end.as_ref()?.finished_at).max();
        let begins = self.ends_now(ended());
        self.stop_all(since.unwrap_or(self.case.now), self.grace(), begins);
    }

    /// Runs the init containers in order.
    fn initialize(&mut self) -> Init {
        let spec = &self.case.pod.spec;
        let mut begin = self.case.begin;
        for container in &spec.init_containers {
            let Some(run) = self.run_here(container) else {
                self.want(container, begin);
                return Init::Waits;
            };
            match &run.end {
                None => {
                    let is_well = self.watch_over(container, run);
                    if !container.is_sidecar() || !is_well || !self.runtime.probe(container, run).started {
                        return Init::Waits;
                    }
                    begin = begin.max(run.started);
                }
                Some(end) if end.exit_code == 0 && !container.is_sidecar() => {
                    begin = begin.max(end.finished_at.unwrap_or(begin));
                }
                Some(end) if restart::is_due(container, spec, end.exit_code) => {
                    self.want(container, begin);
                    return Init::Waits;
                }
                Some(_) => return Init::Failed,
            }
        }
        Init::Done(begin)
    }

    /// Keeps a container running. Returns `false` if it has terminated for good.
    fn keep(&mut self, container: &'a Container, begin: Time) -> bool {
        match self.run(container) {
            None => self.want(container, begin),
            Some(run) => match &run.end {
                None => {
                    self.watch_over(container, run);
                }
                Some(end)
                    if restart::is_due(container, &self.case.pod.spec, end.exit_code)
                        || self.is_changed(container, run) =>
                {
                    self.want(container, begin);
                }
                Some(_) => return false,
            },
        }
        true
    }

    /// `true` if the container's image changed since its start.
    fn is_changed(&self, container: &Container, run: &Run) -> bool {
        !run.has_image_of(container) && change::is_followed(&self.case.pod.spec, container)
    }

    /// Stops a container whose image changed, after the containers that are already being stopped for that
    /// reason.
    fn replace(&mut self, container: &'a Container) {
        let begun = change::begun(self.case, container);
        let mut before = self.case.pod.spec.all().filter(|one| change::begun(self.case, one).is_some());
        let still_stops = |run: &Run, one: &Container| run.is_running() && self.is_changed(one, run);
        if begun.is_none() && before.any(|one| self.run(one).is_some_and(|run| still_stops(run, one))) {
            return;
        }
        self.replaced.push(container);
        let why = format!("Container {} definition changed, will be restarted", container.name);
        self.stop(container, begun.unwrap_or(self.case.now), self.grace(), why, begun.is_none());
    }

    /// Checks a running container, and stops it if its image or resources require a restart or a probe
    /// failed. Returns `true` if it keeps running.
    fn watch_over(&mut self, container: &'a Container, run: &Run) -> bool {
        if self.is_changed(container, run) {
            self.replace(container);
            return false;
        }
        if resize::needs_restart(self.case, container, run) {
            let begun = resize::begun(self.case).and_then(|begun| begun.last_transition_time);
            let why = format!("Container {} resize requires restart", container.name);
            self.stop(container, begun.unwrap_or(self.case.now), self.grace(), why, begun.is_none());
            return false;
        }
        let probed = self.runtime.probe(container, run);
        if let Some(until) = probed.until {
            self.look_again_at(until);
        }
        // A run that was never reported may fail before its first report.
        let is_known = self.case.pod.status.of(&container.name).is_some_and(|old| old.container_id == run.id);
        if probed.unready.is_some_and(|since| !is_known || self.begins_at(since)) {
            self.unready.push(container.name.clone());
        }
        let Some(sick) = probed.sick else { return true };
        let policy = container.restart_policy.as_deref().unwrap_or(&self.case.pod.spec.restart_policy);
        let fate = if policy == "Never" { "" } else { ", will be restarted" };
        let why = match sick.probe {
            POST_START => FAILED_POST_START.to_owned(),
            probe => format!("Container {} failed {probe} probe{fate}", container.name),
        };
        let begins = !is_known || self.begins_at(sick.since);
        self.stop(container, sick.since, sick.grace.unwrap_or_else(|| self.grace()), why, begins);
        false
    }

    /// Starts a container once its back-off has expired and its image is on the node.
    fn want(&mut self, container: &'a Container, begin: Time) {
        let (now, run) = (self.case.now, self.run(container));
        let due = run.and_then(|run| match &run.end {
            // No back-off: the new image has not failed yet.
            Some(end) if self.is_changed(container, run) => end.finished_at,
            // No back-off: nothing has failed in the new sandbox yet.
            Some(_) if !self.is_here(run) => None,
            _ => restart::at(run, now),
        });
        let due = due.unwrap_or(begin);
        // Volumes stay mounted after the first start, and the sandbox keeps its address.
        if run.is_none() && self.case.pod.spec.all().all(|one| self.run(one).is_none()) {
            self.unmounted = (self.case.unmounted)();
            if self.unmounted.is_some() || self.case.pod_ips.is_empty() {
                return;
            }
        }
        if due > now {
            self.look_again_at(due);
            if let Some(run) = run {
                let message = restart::message(restart::wait(run), &container.name, &self.case.full_name());
                self.waiting.insert(&container.name, State::waiting("CrashLoopBackOff", message));
            }
            return;
        }
        match self.runtime.image(container, due) {
            Image::Present { took: pulled } => {
                if let Some(error) = (self.case.unset)(container).or_else(|| self.unsafe_user(container)) {
                    self.waiting.insert(&container.name, State::waiting(CONFIG_ERROR, error));
                    return;
                }
                let restarts = run.map_or(0, |run| int32::saturating_increment(run.restarts));
                self.deeds.push(Deed::Start { container: container.name.clone(), restarts, pulled });
            }
            Image::Pulling { since, until } => {
                until.into_iter().for_each(|until| self.look_again_at(until));
                // Without a start delay, admission and the start of the pull happen in the same sync.
                if self.begins_at(since) || self.case.pod.status.start_time.is_none() {
                    self.pulling.push(container.name.clone());
                }
            }
            Image::Failed { reason, message, until, .. } => {
                until.into_iter().for_each(|until| self.look_again_at(until));
                self.waiting.insert(&container.name, State::waiting(reason, message));
            }
        }
    }

    /// Returns the error for a container whose `runAsUser` violates `runAsNonRoot`.
    fn unsafe_user(&self, container: &Container) -> Option<String> {
        let Case { pod, .. } = self.case;
        let is_broken = container.security_context.is_broken(&pod.spec.security_context);
        is_broken.then(|| {
            let (pod, name) = (self.case.full_name(), &container.name);
            format!("container's runAsUser breaks non-root policy (pod: {pod:?}, container: {name})")
        })
    }

    fn report(&self, ending: Option<&Ending>, is_over: bool) -> Status {
        let Case { pod, meta, .. } = self.case;
        let (spec, old) = (&pod.spec, &pod.status);
        let statuses = |of: &'a [Container], first: bool| -> Vec<ContainerStatus> {
            of.iter().map(|container| self.container(container, first)).collect()
        };
        // Host-network pods report the node's IPs before their volumes are mounted.
        let has_place = self.unmounted.is_none() || spec.host_network;
        let pod_ips = if has_place { self.case.pod_ips } else { &[] };
        let ips = |ips: &[String]| ips.iter().map(|ip| Ip { ip: ip.clone() }).collect::<Vec<Ip>>();
        let mut status = Status {
            observed_generation: Some(meta.generation).filter(|generation| *generation > 0),
            host_ip: self.case.host_ips.first().cloned().unwrap_or_default(),
            host_ips: ips(self.case.host_ips),
            pod_ip: pod_ips.first().cloned().unwrap_or_default(),
            pod_ips: ips(pod_ips),
            start_time: Some(self.case.taken_up),
            init_container_statuses: statuses(&spec.init_containers, true),
            container_statuses: statuses(&spec.containers, false),
            ephemeral_container_statuses: self.ephemeral(),
            ..Status::default()
        };
        let is_done =
            |one: &ContainerStatus| one.state.terminated.as_ref().is_some_and(|end| end.exit_code == 0);
        let first = spec.init_containers.iter().filter(|one| !one.is_sidecar());
        if is_over && first.map(|one| status.of(&one.name)).all(|one| one.is_some_and(is_done)) {
            status.container_statuses.iter_mut().for_each(give_up);
        }
        // The kubelet sorts container statuses by name.
        status.container_statuses.sort_by(|a, b| a.name.cmp(&b.name));
        let phase = if old.is_final() {
            old.phase.clone()
        } else if is_over && ending.is_some_and(|ending| ending.reason.is_some()) {
            "Failed".to_owned()
        } else {
            phase::phase(spec, &status, is_over).to_owned()
        };
        // A pod with containers that may still run is not reported as finished.
        let is_early = matches!(phase.as_str(), "Succeeded" | "Failed") && !old.is_final() && !is_over;
        status.phase = if is_early { old.phase.clone() } else { phase };
        if status.phase == old.phase {
            (status.reason, status.message) = (old.reason.clone(), old.message.clone());
        }
        if let Some((reason, message)) = ending.and_then(|ending| ending.reason).filter(|_| is_over) {
            (status.reason, status.message) = (reason.to_owned(), message.to_owned());
        }
        let has_sandbox = !is_over && self.unmounted.is_none();
        status.conditions = conditions::conditions(self.case, &status, has_sandbox, &self.replaced);
        status
    }

    fn ephemeral(&self) -> Vec<ContainerStatus> {
        let Pod { spec, status: old, .. } = self.case.pod;
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
            state: ended(container).unwrap_or_else(|| self.runtime.ephemeral(container)),
            ..ContainerStatus::default()
        };
        added.map(status).collect()
    }

    /// Returns the status of a container; `first` is `true` for init containers.
    fn container(&self, container: &'a Container, first: bool) -> ContainerStatus {
        let run = self.run(container);
        let (state, last) = match (run, self.waiting.get(container.name.as_str())) {
            (run, Some(waiting)) => (waiting.clone(), run.and_then(|run| run.end.clone())),
            (Some(run), None) => {
                let running =
                    || State { running: Some(Running { started_at: Some(run.started) }), ..State::default() };
                (run.end.clone().map_or_else(running, State::terminated), run.last.clone())
            }
            (None, None) => {
                let has_init = !self.case.pod.spec.init_containers.is_empty();
                let reason = if has_init { "PodInitializing" } else { "ContainerCreating" };
                (State::waiting(reason, ""), None)
            }
        };
        let probed = run.filter(|run| run.is_running()).map(|run| self.runtime.probe(container, run));
        let succeeded = state.terminated.as_ref().is_some_and(|end| end.exit_code == 0);
        let is_ready = if first && !container.is_sidecar() {
            succeeded
        } else {
            probed.as_ref().is_some_and(|probed| probed.started && probed.ready)
        };
        let image = run.map(|run| &run.image).filter(|image| !image.is_empty()).unwrap_or(&container.image);
        let mut status = ContainerStatus {
            name: container.name.clone(),
            ready: is_ready,
            started: Some(probed.is_some_and(|probed| probed.started)),
            state,
            last_state: last.map(State::terminated).unwrap_or_default(),
            restart_count: run.map_or(0, |run| run.restarts),
            image: image.clone(),
            image_id: run.map(|_| self.runtime.image_id(image)).unwrap_or_default(),
            container_id: run.map(|run| run.id.clone()).unwrap_or_default(),
            volume_mounts: container.volume_mounts.iter().map(mounted).collect(),
            ..ContainerStatus::default()
        };
        if let Some(run) = run {
            resize::report(self.case, container, run, &mut status);
        }
        status
    }
}

/// Marks a container that never ran and never will as terminated.
fn give_up(status: &mut ContainerStatus) {
    if status.state.waiting.is_some() && status.last_state.terminated.is_none() {
        status.state = State::terminated(Terminated {
            exit_code: 137,
            reason: NEVER_RAN.to_owned(),
            message: "The container could not be located when the pod was terminated".to_owned(),
            ..Terminated::default()
        });
    }
}

/// Progress of the init containers.
enum Init {
    /// All are completed or, for sidecars, started since this time.
    Done(Time),
    /// One still runs or waits.
    Waits,
    /// One failed and does not restart.
    Failed,
}

fn mounted(mount: &Mount) -> Mount {
    let mode = mount.read_only.then(|| "Disabled".to_owned());
    Mount { recursive_read_only: mode, ..mount.clone() }
}

impl Case<'_> {
    /// Pod name in kubelet messages: `name_namespace(uid)`.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}_{}({})", self.meta.name, self.meta.namespace, self.meta.uid)
    }
}
