//! Simulated container runtime: the state of a container is a function of its last reported status, its
//! script, and the time.
//!
//! No state is kept besides the pod statuses, so a restarted process finds every container as it was.

pub mod probing;
pub mod pulling;

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_api::Time;
use setpoint_reconcile::ObjectMeta;

use crate::images::hex;
use crate::lifecycle::{NEVER_RAN, restart, whole};
use crate::pod::{Container, ContainerStatus, Handler, Pod, State, Terminated};
use crate::rules::file::Rule;
use crate::rules::memo::ScriptMemo;
use crate::rules::{CANNOT_RUN, Script, count_scripts, read, script};
use crate::runtime::{Deed, Image, Probed, Run, Runtime};

/// Container ID scheme of this runtime.
pub const SCHEME: &str = "simulated://";
/// Exit code of a process that ended on SIGTERM.
const TERMINATED: i64 = 143;
/// Exit code of a process that was killed.
const KILLED: i64 = 137;
/// Exit code of a container whose end was not observed.
const LOST: i64 = 255;
/// Maximum bytes of log in a termination message.
const WORDS_MAX: usize = 2048;

/// Precision of the reported times of a stop.
const KNOWN_TO: Duration = Duration::from_secs(1);
/// Maximum stop duration (give or take a second) without a rule.
const STOP_MAX: Duration = Duration::from_secs(1);

/// Node state that the simulated runtime reads.
pub struct Host<'a> {
    /// Rules for the behavior of containers.
    pub rules: &'a [Rule],
    /// Memo of container scripts.
    pub memo: &'a ScriptMemo,
    /// Boot time of the node. Containers that started before are gone.
    pub booted: Time,
    /// Time of the last write of the pod: a container reported as running was still running then.
    pub written: Time,
    /// Duration of pulls and stops without a rule.
    pub pause: Duration,
    /// Returns `true` if the image is on the node.
    pub has_image: &'a dyn Fn(&str) -> bool,
}

/// Simulated runtime of one pod.
pub struct Simulated<'a> {
    host: Host<'a>,
    pod: &'a Pod,
    meta: &'a ObjectMeta,
    now: Time,
    runs: BTreeMap<String, Run>,
    scripts: BTreeMap<String, Script>,
    /// Earliest end of a container that is being stopped.
    stops: Option<Time>,
    /// Number of scripts of the pod, which share one budget.
    count: usize,
}

impl<'a> Simulated<'a> {
    /// Restores the runtime from the status of a pod.
    #[must_use]
    pub fn new(host: Host<'a>, pod: &'a Pod, meta: &'a ObjectMeta, now: Time) -> Simulated<'a> {
        let (runs, scripts, count) = (BTreeMap::new(), BTreeMap::new(), count_scripts(pod));
        let mut simulated = Simulated { host, pod, meta, now, runs, scripts, stops: None, count };
        for container in pod.spec.all() {
            let run = pod.status.of(&container.name).and_then(reported);
            simulated.write_script(container, run.as_ref().map_or(0, |run| run.restarts));
            if let Some(run) = run {
                simulated.runs.insert(container.name.clone(), run);
                simulated.advance(container);
            }
        }
        simulated
    }

    /// Computes the script of a container for one of its runs.
    fn write_script(&mut self, container: &Container, restarts: i64) {
        let script =
            script((self.host.rules, self.host.memo), container, restarts, self.pod, self.meta, self.count);
        self.scripts.insert(container.name.clone(), script);
    }

    /// Returns the time of the next container termination.
    #[must_use]
    pub fn until(&self) -> Option<Time> {
        let ends = self.pod.spec.all().filter_map(|container| {
            let run = self.runs.get(&container.name).filter(|run| run.is_running())?;
            Some(run.started.after(self.script(container).end()?.after))
        });
        ends.chain(self.stops).min()
    }

    /// Performs an action. Returns `true` if it changed anything by now.
    pub fn perform(&mut self, deed: &Deed) -> bool {
        let (Deed::Start { container: name, .. } | Deed::Stop { container: name, .. }) = deed;
        let Some(container) = self.pod.spec.all().find(|one| one.name == *name) else { return false };
        match deed {
            Deed::Start { restarts, .. } => {
                let last = self.runs.get(name).and_then(|run| run.end.clone());
                let run = Run {
                    restarts: *restarts,
                    id: format!("{SCHEME}{}", hex(&format!("{}/{name}/{restarts}", self.meta.uid))),
                    image: container.image.clone(),
                    started: whole(self.now),
                    end: None,
                    last,
                    wait: None,
                };
                self.runs.insert(name.clone(), run);
                self.write_script(container, *restarts);
                self.advance(container);
                true
            }
            Deed::Stop { turn: None, .. } => false,
            Deed::Stop { since, grace, turn: Some(turn), .. } => {
                let (at, code) = self.stopped(container, *since, *grace, *turn);
                if at > self.now {
                    self.stops = Some(self.stops.map_or(at, |other| other.min(at)));
                    return false;
                }
                self.finish(container, at, code, if code == 0 { "Completed" } else { "Error" });
                true
            }
        }
    }

    /// Returns the termination time and exit code of a container that is being stopped.
    fn stopped(&self, container: &Container, since: Time, grace: Duration, turn: Time) -> (Time, i64) {
        let killed = since.after(grace);
        let said = &self.script(container).said;
        let hook = container.lifecycle.pre_stop.as_ref();
        let (before, _) = hook.map(|hook| outcome(hook, self.script(container))).unwrap_or_default();
        let done = since.after(before);
        // Reported times have a precision of one second. The preStop hook gets at least its full duration,
        // however late in that second it began, but never exceeds the grace period.
        let late = if before.is_zero() { Duration::ZERO } else { KNOWN_TO };
        let asked = done.max(done.after(late).min(killed)).max(turn);
        // The stop takes some time, so that it is visible to clients.
        let some_time = self.host.pause.min(STOP_MAX) * 2;
        let stops = match said.stop_takes {
            Some(takes) => asked.after(takes),
            None => done.max(turn).after(some_time).max(asked).min(killed.max(asked)),
        };
        if said.hangs == Some(true) || stops > killed {
            (killed, KILLED)
        } else {
            (stops, said.stop_code.unwrap_or(TERMINATED))
        }
    }

    /// `true` if the image pull of a container takes visible time.
    #[must_use]
    pub fn pulls_slowly(&self, name: &str) -> bool {
        let takes = self.scripts.get(name).and_then(|script| script.said.pull_takes);
        takes.is_some_and(|takes| !takes.is_zero())
    }

    /// Returns the start error of a container's command.
    #[must_use]
    pub fn start_error(&self, name: &str) -> Option<&str> {
        self.scripts.get(name)?.start_error.as_deref()
    }

    /// Returns the script of a container.
    pub(crate) fn script(&self, container: &Container) -> &Script {
        self.scripts.get(&container.name).expect("every container has a script")
    }

    /// Terminates a container whose script has ended or whose node has rebooted.
    fn advance(&mut self, container: &Container) {
        let Some(run) = self.runs.get(&container.name).filter(|run| run.is_running()) else { return };
        let started = run.started;
        if started < whole(self.host.booted) {
            self.finish(container, self.host.booted, LOST, "Unknown");
            return;
        }
        let Some(end) = self.script(container).end() else { return };
        let at = started.after(end.after);
        if at <= self.now {
            let last_seen = if self.is_reported(container) { self.host.written.min(self.now) } else { at };
            self.finish(container, at.max(last_seen), end.code, end.reason);
        }
    }

    /// `true` if the current run of a container is in the reported status.
    fn is_reported(&self, container: &Container) -> bool {
        let (status, run) = (self.pod.status.of(&container.name), self.runs.get(&container.name));
        status
            .zip(run)
            .is_some_and(|(status, run)| status.state.running.is_some() && status.container_id == run.id)
    }

    fn finish(&mut self, container: &Container, at: Time, code: i64, reason: &str) {
        let message = self.last_words(container, at, code);
        let Some(run) = self.runs.get_mut(&container.name) else { return };
        run.end = Some(Terminated {
            exit_code: code,
            reason: reason.to_owned(),
            message,
            started_at: Some(run.started),
            finished_at: Some(whole(at).max(run.started)),
            container_id: run.id.clone(),
        });
    }

    /// Returns the termination message of a container.
    fn last_words(&self, container: &Container, at: Time, code: i64) -> String {
        let script = self.script(container);
        if let Some(error) = &script.start_error {
            return error.clone();
        }
        let age = self.runs.get(&container.name).map_or(Duration::ZERO, |run| at.since(run.started));
        if let Some(words) = script.course.files_at(age).remove(&container.termination_message_path)
            && !words.is_empty()
        {
            return words;
        }
        if code == 0 || container.termination_message_policy != "FallbackToLogsOnError" {
            return String::new();
        }
        let (lines, _) = script.log(age);
        let said: String = lines.iter().map(|(_, line)| format!("{line}\n")).collect();
        let mut from = said.len().saturating_sub(WORDS_MAX);
        while !said.is_char_boundary(from) {
            from += 1;
        }
        said[from..].to_owned()
    }
}

/// Returns the duration and exit code of a hook. An unknown command succeeds at once.
fn outcome(handler: &Handler, script: &Script) -> (Duration, i64) {
    let mut budget = script.budget;
    let slept = handler.sleep.as_ref().map(|sleep| u64::try_from(sleep.seconds).unwrap_or(0));
    let run = |words: &[String]| read(words, BTreeMap::new(), script, &mut budget).end;
    let ran = handler.exec.as_ref().map(|exec| exec.command.as_slice()).and_then(run);
    match (slept, ran) {
        (Some(seconds), _) => (Duration::from_secs(seconds), 0),
        (None, ran) => ran.unwrap_or_default(),
    }
}

/// Restores the latest run from a status; `None` if there was none.
fn reported(status: &ContainerStatus) -> Option<Run> {
    let state = &status.state;
    if status.container_id.is_empty() && state.terminated.as_ref().is_some_and(|end| end.reason == NEVER_RAN)
    {
        return None;
    }
    let waits = state.waiting.as_ref().and_then(|waiting| restart::told(&waiting.message));
    let (end, last) = match (&state.running, &state.terminated) {
        (Some(_), _) => (None, status.last_state.terminated.clone()),
        (None, Some(end)) => (Some(end.clone()), status.last_state.terminated.clone()),
        (None, None) => (Some(status.last_state.terminated.clone()?), None),
    };
    let started = match (&state.running, &end) {
        (Some(running), _) => running.started_at,
        (None, end) => end.as_ref().and_then(|end| end.started_at.or(end.finished_at)),
    };
    let (restarts, id, image) = (status.restart_count, status.container_id.clone(), status.image.clone());
    Some(Run { restarts, id, image, started: started.unwrap_or(Time::EPOCH), end, last, wait: waits })
}

impl Runtime for Simulated<'_> {
    fn run(&self, container: &Container) -> Option<&Run> {
        self.runs.get(&container.name)
    }

    fn image(&self, container: &Container, wanted: Time) -> Image {
        if self.runs.get(&container.name).is_some_and(|run| run.has_image_of(container)) {
            return pulling::again(container, &self.script(container).said, wanted, self.now);
        }
        pulling::image(container, &self.script(container).said, &self.host, wanted, self.now)
    }

    fn probe(&self, container: &Container, run: &Run) -> Probed {
        probing::probe(container, self.script(container), run.started, self.now)
    }

    fn sandbox(&self) -> Time {
        // A pod with restart policy Never gets no new sandbox.
        if self.pod.spec.restart_policy == "Never" { Time::EPOCH } else { whole(self.host.booted) }
    }

    fn image_id(&self, image: &str) -> String {
        format!("{SCHEME}sha256:{}", hex(image))
    }

    fn ephemeral(&self, container: &Container) -> State {
        let message = format!("a simulated node cannot run the ephemeral container {}", container.name);
        // Terminated at once, so that clients that wait for the container see that it cannot run.
        State::terminated(Terminated {
            exit_code: CANNOT_RUN,
            reason: "ContainerCannotRun".to_owned(),
            message,
            started_at: Some(whole(self.now)),
            finished_at: Some(whole(self.now)),
            ..Terminated::default()
        })
    }
}
