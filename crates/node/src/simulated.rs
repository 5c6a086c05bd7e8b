//! A runtime that runs nothing: the state of a container follows from what was last reported, its script, and the time.
//!
//! Nothing is kept beside the pods' own statuses, so a process that ends and starts again finds every container as
//! it was. What a simulated container does is written nowhere but in its script.

pub mod probing;
pub mod pulling;

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_api::Time;
use setpoint_reconcile::Meta;

use crate::images::hex;
use crate::lifecycle::{NEVER_RAN, restart, whole};
use crate::pod::{Container, ContainerStatus, Handler, Pod, State, Terminated};
use crate::rules::file::Rule;
use crate::rules::memo::ScriptMemo;
use crate::rules::{CANNOT_RUN, Script, count_scripts, read, script};
use crate::runtime::{Deed, Image, Probed, Run, Runtime};

/// The name of this runtime, as a scheme.
pub const SCHEME: &str = "simulated://";
/// The code of a process that was asked to stop.
const TERMINATED: i64 = 143;
/// The code of a process that was killed.
const KILLED: i64 = 137;
/// The code of a process of which nobody knows how it ended.
const LOST: i64 = 255;
/// How many bytes of a log stand in for a container's last words.
const WORDS_MAX: usize = 2048;

/// How exactly it is known when something was asked for.
const KNOWN_TO: Duration = Duration::from_secs(1);
/// How long it takes to stop at most, give or take a second, where nobody said how long.
const STOP_MAX: Duration = Duration::from_secs(1);

/// What a simulated runtime knows of its node.
pub struct Host<'a> {
    /// How containers behave.
    pub rules: &'a [Rule],
    /// What is known of their scripts.
    pub memo: &'a ScriptMemo,
    /// Since when the node runs: what ran before is gone.
    pub booted: Time,
    /// When the pod was last written: what was said to run by then did, whatever is said of it since.
    pub written: Time,
    /// How long things take here of which nobody said how long: to get an image that is not there, or to stop.
    pub pause: Duration,
    /// Whether an image is there.
    pub has_image: &'a dyn Fn(&str) -> bool,
}

/// A simulated runtime, as one pod sees it.
pub struct Simulated<'a> {
    host: Host<'a>,
    pod: &'a Pod,
    meta: &'a Meta,
    now: Time,
    runs: BTreeMap<String, Run>,
    scripts: BTreeMap<String, Script>,
    /// When a container ends that has been asked to.
    stops: Option<Time>,
    /// The number of scripts of the pod, which share one budget.
    count: usize,
}

impl<'a> Simulated<'a> {
    /// The runtime, as far as the status of a pod tells it.
    #[must_use]
    pub fn new(host: Host<'a>, pod: &'a Pod, meta: &'a Meta, now: Time) -> Simulated<'a> {
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

    /// Writes down what a container does in one of its runs.
    fn write_script(&mut self, container: &Container, restarts: i64) {
        let script =
            script((self.host.rules, self.host.memo), container, restarts, self.pod, self.meta, self.count);
        self.scripts.insert(container.name.clone(), script);
    }

    /// When a container ends next, by itself or because it has been asked to.
    #[must_use]
    pub fn until(&self) -> Option<Time> {
        let ends = self.pod.spec.all().filter_map(|container| {
            let run = self.runs.get(&container.name).filter(|run| run.is_running())?;
            Some(run.started.after(self.script(container).end()?.after))
        });
        ends.chain(self.stops).min()
    }

    /// Performs what it is told. Says whether that changed anything by now.
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

    /// When a container will have stopped, and with which code.
    fn stopped(&self, container: &Container, since: Time, grace: Duration, turn: Time) -> (Time, i64) {
        let killed = since.after(grace);
        let said = &self.script(container).said;
        let hook = container.lifecycle.pre_stop.as_ref();
        let (before, _) = hook.map(|hook| outcome(hook, self.script(container))).unwrap_or_default();
        let done = since.after(before);
        // When somebody was asked is known to the second. What is done before takes no less than it says, however late in
        // that second it began, but for no longer than there is time.
        let late = if before.is_zero() { Duration::ZERO } else { KNOWN_TO };
        let asked = done.max(done.after(late).min(killed)).max(turn);
        // People are to see that it stops.
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

    /// Whether people see how the image of a container comes.
    #[must_use]
    pub fn pulls_slowly(&self, name: &str) -> bool {
        let takes = self.scripts.get(name).and_then(|script| script.said.pull_takes);
        takes.is_some_and(|takes| !takes.is_zero())
    }

    /// Why the command of a container cannot be started.
    #[must_use]
    pub fn start_error(&self, name: &str) -> Option<&str> {
        self.scripts.get(name)?.start_error.as_deref()
    }

    /// What a container does.
    pub(crate) fn script(&self, container: &Container) -> &Script {
        self.scripts.get(&container.name).expect("every container has a script")
    }

    /// Ends a container that has come to its end by itself, or with its node.
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

    /// Whether the present run of a container has been reported.
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

    /// What a container leaves behind where it says its last words are.
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

/// How long it takes to do something in a container, and with which code it ends. What nobody knows is done at once.
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

/// A run as a status tells it; nothing if there was none.
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
        // A pod that never starts anything again gets no other place.
        if self.pod.spec.restart_policy == "Never" { Time::EPOCH } else { whole(self.host.booted) }
    }

    fn image_id(&self, image: &str) -> String {
        format!("{SCHEME}sha256:{}", hex(image))
    }

    fn ephemeral(&self, container: &Container) -> State {
        let message = format!("a simulated node cannot run the ephemeral container {}", container.name);
        // Who waits for it to run sees that it never will.
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
