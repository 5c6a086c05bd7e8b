//! The life of a pod on its node, whatever runs its containers.
//!
//! [`look`] is pure: what is wanted, what the runtime shows and the time go in; what the runtime shall do, the status
//! to report and when to look again come out. Init containers run one after the other, sidecars start before what
//! follows them and end last, and what ended is started again as its policy says.

pub mod change;
pub mod conditions;
pub mod phase;
pub mod resize;
pub mod restart;

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_api::Time;
use setpoint_reconcile::{Meta, int32};

use crate::needs::CONFIG_ERROR;
use crate::pod::{Container, ContainerStatus, Ip, Mount, Pod, Running, State, Status, Terminated};
use crate::runtime::{Deed, Image, POST_START, Run, Runtime};

/// How long a pod is given to stop that does not say.
const GRACE: i64 = 30;
/// Why a container is killed for which what was to be done at its start has failed.
pub const FAILED_POST_START: &str = "FailedPostStartHook";
/// Why a container ended that never ran, in one word.
pub const NEVER_RAN: &str = "ContainerStatusUnknown";
/// How long after something began without a change of the status people are told of it: nothing shows that they were,
/// but nobody who looks as soon as it begins looks again within this time, unless the pod was written.
const TELL_WITHIN: Duration = Duration::from_secs(1);
/// Why a pod ends that was active for too long.
const DEADLINE_EXCEEDED: (&str, &str) =
    ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline");

/// A pod on its node.
pub struct Case<'a> {
    /// What is wanted, and what was last reported.
    pub pod: &'a Pod,
    /// Its metadata.
    pub meta: &'a Meta,
    /// The addresses of the node.
    pub host_ips: &'a [String],
    /// The addresses of the pod; none if it has no network yet.
    pub pod_ips: &'a [String],
    /// When the node took it up.
    pub taken_up: Time,
    /// When its first container may start.
    pub begin: Time,
    /// When anybody last wrote it. What began before was told then.
    pub written: Time,
    /// Whether it asks for other resources than it has.
    pub resize: resize::Resize,
    /// Why its volumes cannot be made.
    pub unmounted: &'a dyn Fn() -> Option<String>,
    /// Why the environment of a container cannot be made.
    pub unset: &'a dyn Fn(&Container) -> Option<String>,
    /// What time it is.
    pub now: Time,
}

/// What to do about a pod.
#[derive(Debug)]
pub struct Outlook {
    /// What the runtime shall do.
    pub deeds: Vec<Deed>,
    /// What to report.
    pub status: Status,
    /// When to look again, though nothing may have changed.
    pub again: Option<Time>,
    /// Whether nothing of it runs or will run.
    pub is_over: bool,
    /// Why it ends though nobody deleted it, if nobody has been told: in one word, and in many.
    pub overdue: Option<(&'static str, &'static str)>,
    /// Why its volumes cannot be made, if it waits for that.
    pub unmounted: Option<String>,
    /// Containers that say only now that they cannot serve.
    pub unready: Vec<String>,
    /// Containers whose images only now begin to come.
    pub pulling: Vec<String>,
}

/// Why everything has to stop, since when, and how long it is given.
struct Ending {
    since: Time,
    grace: Duration,
    reason: Option<(&'static str, &'static str)>,
}

/// Looks at a pod.
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

/// A time in whole seconds, as it is reported.
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
    /// Why containers wait that are to run.
    waiting: BTreeMap<&'a str, State>,
    again: Option<Time>,
    /// Why volumes cannot be made that are needed.
    unmounted: Option<String>,
    /// Containers that say only now that they cannot serve.
    unready: Vec<String>,
    /// Containers whose images only now begin to come.
    pulling: Vec<String>,
    /// Containers that are being stopped as they were given another image.
    replaced: Vec<&'a Container>,
}

impl<'a, R: Runtime> Looking<'a, R> {
    fn look_again_at(&mut self, time: Time) {
        self.again = Some(self.again.map_or(time, |planned| planned.min(time)));
    }

    fn run(&self, container: &Container) -> Option<&'a Run> {
        self.runtime.run(container)
    }

    /// The newest run in the place where the pod runs now.
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

    /// Whether what is so since a time is so only now, and nobody has been told.
    fn begins_at(&self, since: Time) -> bool {
        self.case.written < since && self.case.now.since(since) < TELL_WITHIN
    }

    /// Whether one of these ended only now.
    fn ends_now(&self, mut containers: impl Iterator<Item = &'a Container>) -> bool {
        containers.any(|one| {
            let was_told =
                |name: &str| self.case.pod.status.of(name).is_some_and(|old| old.state.terminated.is_some());
            let end = self.run(one).and_then(|run| run.end.as_ref()?.finished_at);
            end.is_some_and(|end| self.case.now.since(end) < TELL_WITHIN) && !was_told(&one.name)
        })
    }

    /// Stops what runs. All begin at once with what is to be done before, but a sidecar is not asked to end before those
    /// have that may need it: whatever is no sidecar, and the sidecars after it.
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

    /// Starts what is to run. Says whether all is done.
    fn go_on(&mut self) -> bool {
        let spec = &self.case.pod.spec;
        let mut begin = self.case.begin;
        if spec.containers.iter().all(|container| self.run_here(container).is_none()) {
            match self.initialize() {
                Init::Done(at) => begin = begin.max(at),
                Init::Waits => {
                    // What ran in another place waits as if it never had.
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

    /// Stops the sidecars when nothing else goes on, as the last of these has ended: they do not keep a pod alive.
    fn wind_up(&mut self, ended: &'a [Container]) {
        let ended = || ended.iter().filter(|one| !one.is_sidecar());
        let since = ended().filter_map(|one| self.run(one)?.end.as_ref()?.finished_at).max();
        let begins = self.ends_now(ended());
        self.stop_all(since.unwrap_or(self.case.now), self.grace(), begins);
    }

    /// Runs what comes first, one after the other.
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

    /// Keeps a container running. Says whether it runs or will.
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

    /// Whether somebody gave a container another image since it was started.
    fn is_changed(&self, container: &Container, run: &Run) -> bool {
        !run.has_image_of(container) && change::is_followed(&self.case.pod.spec, container)
    }

    /// Stops a container that was given another image, as soon as those have stopped that were before it.
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

    /// Looks after a container that runs, and stops it if it is not what is wanted any more, or if a probe condemns
    /// it. Says whether it may go on.
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
        // A run that nobody was told of may fail before its first report.
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

    /// Starts a container, as soon as its time has come and its image is there.
    fn want(&mut self, container: &'a Container, begin: Time) {
        let (now, run) = (self.case.now, self.run(container));
        let due = run.and_then(|run| match &run.end {
            // What is of another image has not failed yet.
            Some(end) if self.is_changed(container, run) => end.finished_at,
            // In a new place, nothing has failed yet.
            Some(_) if !self.is_here(run) => None,
            _ => restart::at(run, now),
        });
        let due = due.unwrap_or(begin);
        // What has been mounted once stays so, and so does the place with its address that is made then.
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
                let restarts = run.map_or(0, |run| int32::count_on(run.restarts));
                self.deeds.push(Deed::Start { container: container.name.clone(), restarts, pulled });
            }
            Image::Pulling { since, until } => {
                until.into_iter().for_each(|until| self.look_again_at(until));
                // Where nothing is paused for, the pod is taken up and its image pulled in one moment.
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

    /// Why a container must not run as whom it says.
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
        // The node's own addresses are there before the pod is.
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
        // Runtimes list containers by name, and people are used to that.
        status.container_statuses.sort_by(|a, b| a.name.cmp(&b.name));
        let phase = if old.is_final() {
            old.phase.clone()
        } else if is_over && ending.is_some_and(|ending| ending.reason.is_some()) {
            "Failed".to_owned()
        } else {
            phase::phase(spec, &status, is_over).to_owned()
        };
        // Nothing that may still run is called finished.
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
        // One that ended is never started again.
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

    /// How a container stands. `first` says whether it is one of those that run first.
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

/// What is said of a container that never ran, and never will.
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

/// How far a pod has come that is not initialized.
enum Init {
    /// What came first is done, or has started, since then.
    Done(Time),
    /// Something still runs or waits.
    Waits,
    /// Something failed and is not tried again.
    Failed,
}

fn mounted(mount: &Mount) -> Mount {
    let mode = mount.read_only.then(|| "Disabled".to_owned());
    Mount { recursive_read_only: mode, ..mount.clone() }
}

impl Case<'_> {
    /// The pod as messages name it: `name_namespace(uid)`.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}_{}({})", self.meta.name, self.meta.namespace, self.meta.uid)
    }
}
