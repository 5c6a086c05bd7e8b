//! Behavior of simulated containers: run time, exit code, readiness, image pull, usage and log.
//!
//! A [`ContainerBehavior`] belongs to one container. It is derived from the command line ([`shell`]), the first
//! matching rule of the rules file ([`rules_file`]) and annotations of the pod, each overriding the previous
//! one. A command with an unknown result is taken to run until it is stopped, or, in an init container, to succeed:
//! otherwise the pod would never start.
//!
//! Rules are comparable to the Stages of kwok: both select objects and simulate what their containers do. A
//! Stage is one transition with a delay; a rule sets the delays and results of all transitions of a container,
//! and transitions that it does not mention follow from the command. For example, `exit-after: 30s` with
//! `exit-code: 1` corresponds to a Stage that selects running pods, waits 30 s and sets a terminated state.

pub mod env;
mod overrides;
pub mod rules_file;
pub mod script_cache;
pub mod shell;

pub use self::overrides::{BehaviorOverrides, InvalidSetting, invalid_annotations, parse_duration};

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use setpoint_reconcile::ObjectMeta;

use crate::images;
use crate::pod::{Container, Pod};
use env::Env;
use overrides::simulation_annotations;
use rules_file::BehaviorRule;
use script_cache::{ScriptCache, ScriptRuns};
use shell::Timeline;
use shell::budget::Budget;

/// Prefix of simulation annotations. `NAME.` before it selects one container.
pub const ANNOTATION_PREFIX: &str = "simulate.setpoint.dev/";

/// Exit code of a container whose command cannot be started.
pub const EXIT_CANNOT_RUN: i64 = 128;
/// Run time of a container that exceeds its memory limit.
const OOM_AFTER: Duration = Duration::from_secs(1);

/// Behavior of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerBehavior {
    /// Timeline of the command.
    pub timeline: Arc<Timeline>,
    /// Overrides by rules and annotations.
    pub overrides: BehaviorOverrides,
    /// Environment variables.
    pub env: Env,
    /// Error if the command cannot be started.
    pub start_error: Option<String>,
    /// `true` if other containers wait for its exit: an init container that is no sidecar.
    pub must_exit: bool,
    /// Budget of each probe and hook script.
    pub(crate) budget: Budget,
    /// Cache of evaluated scripts.
    pub(crate) cache: ScriptCache,
}

/// Exit of a container that is not killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerExit {
    /// Time since the start.
    pub after: Duration,
    /// Exit code.
    pub exit_code: i64,
    /// Termination reason.
    pub reason: &'static str,
}

impl ContainerBehavior {
    /// Returns the exit of the container; `None` if it runs until it is killed.
    #[must_use]
    pub fn exit(&self) -> Option<ContainerExit> {
        if self.start_error.is_some() {
            return Some(ContainerExit {
                after: Duration::ZERO,
                exit_code: EXIT_CANNOT_RUN,
                reason: "StartError",
            });
        }
        let overrides = &self.overrides;
        let oom =
            overrides.oom_after.map(|after| ContainerExit { after, exit_code: 137, reason: "OOMKilled" });
        let command_exit = self.command_exit();
        let exit_after =
            overrides.exit_after.or(overrides.exit_code.and(command_exit.map(|(after, _)| after)));
        let exit = match (exit_after, command_exit) {
            (Some(after), _) => Some((after, overrides.exit_code.unwrap_or(0))),
            (None, command_exit) => command_exit,
        };
        let exit = exit.map(|(after, code)| {
            let reason = if code == 0 { "Completed" } else { "Error" };
            ContainerExit { after, exit_code: code, reason }
        });
        oom.into_iter().chain(exit).min_by_key(|exit| exit.after)
    }

    /// Returns run time and exit code of the command without overrides.
    fn command_exit(&self) -> Option<(Duration, i64)> {
        let assumed = self.timeline.unknown_from.filter(|_| self.must_exit).map(|at| (at, 0));
        self.timeline.exit.or(assumed)
    }

    /// Returns the lines logged by a time, and the time of the next line.
    #[must_use]
    pub fn log_until(&self, time: Duration) -> (Vec<(Duration, &str)>, Option<Duration>) {
        let first = self.overrides.log.iter().map(|line| (Duration::ZERO, line.as_str()));
        let (rest, next) = self.timeline.log_until(time);
        (first.chain(rest).collect(), next)
    }
}

/// Returns the behavior of a container with the given restart count, one of `script_count` scripts of the pod.
/// Invalid annotations are ignored.
#[must_use]
pub fn container_behavior(
    (rules, cache): (&[BehaviorRule], &ScriptCache),
    container: &Container,
    restart_count: i64,
    pod: &Pod,
    meta: &ObjectMeta,
    script_count: usize,
) -> ContainerBehavior {
    let mut words: Vec<String> = container.command.iter().chain(&container.args).cloned().collect();
    let mut env = Env::default();
    if !words.is_empty() || !container.env.is_empty() {
        let mut bytes_left = Budget::argument_bytes(script_count, env::ARGUMENT_BYTES_MAX);
        env = Env::new(container, pod, meta, bytes_left);
        for word in words.iter_mut().filter(|word| word.contains('$')) {
            *word = env.expand(word, bytes_left);
            bytes_left = bytes_left.saturating_sub(word.len());
        }
    }
    let budget = Budget::per_script(script_count);
    let timeline = timeline(cache, container, &words, restart_count, (&env, budget));
    let rule = rules.iter().find(|rule| rule.matches(container, &words, &meta.labels));
    let mut overrides = rule.map(|rule| rule.overrides.clone()).unwrap_or_default();
    for is_own in [false, true] {
        for (container_name, name, value) in simulation_annotations(&meta.annotations) {
            if container_name == is_own.then_some(container.name.as_str()) {
                let _ = overrides.set(name, value);
            }
        }
    }
    if exceeds_memory(&overrides, container) {
        overrides.oom_after = overrides.oom_after.or(Some(OOM_AFTER));
    }
    let start_error = words.first().and_then(|program| start_error(program));
    let is_init = pod.spec.init_containers.iter().any(|one| one.name == container.name);
    let must_exit = is_init && !container.is_sidecar();
    ContainerBehavior { timeline, overrides, env, start_error, must_exit, budget, cache: cache.handle() }
}

/// `true` if a container uses more memory than its limit.
fn exceeds_memory(overrides: &BehaviorOverrides, container: &Container) -> bool {
    let limit = container.resources.limits.get("memory");
    let limit = limit.and_then(|text| setpoint_api::quantity::Quantity::parse(text).ok());
    overrides.memory.zip(limit).is_some_and(|(used, limit)| used > limit.value())
}

/// Returns the start error of a program whose name marks it as missing, with the message of containerd and
/// runc.
fn start_error(program: &str) -> Option<String> {
    if !images::is_named_missing(program) {
        return None;
    }
    let why = if program.contains('/') {
        format!("stat {program}: no such file or directory")
    } else {
        "executable file not found in $PATH".to_owned()
    };
    Some(format!(
        "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: \
         unable to start container process: error during container init: exec: {program:?}: {why}"
    ))
}

/// Images whose default command is a shell. It exits at once without stdin.
const SHELL_IMAGES: [&str; 6] = ["alpine", "bash", "busybox", "debian", "fedora", "ubuntu"];

/// Images whose default command runs until it is stopped.
const NEVER_ENDING_IMAGES: [&str; 2] = ["agnhost", "pause"];

/// Returns the number of scripts of a pod: of its containers, probes and hooks.
#[must_use]
pub fn count_scripts(pod: &Pod) -> usize {
    let of = |container: &Container| {
        let probes = [&container.startup_probe, &container.liveness_probe, &container.readiness_probe];
        let probes = probes.into_iter().flatten().filter(|probe| probe.exec.is_some()).count();
        let hooks = [&container.lifecycle.post_start, &container.lifecycle.pre_stop];
        let hooks = hooks.into_iter().flatten().filter(|hook| hook.exec.is_some()).count();
        1 + probes + hooks
    };
    pod.spec.all_containers().map(of).sum()
}

/// Returns the timeline of the default command of a container's image.
fn default_timeline(container: &Container) -> Timeline {
    let image = images::short_name(&container.image);
    let (mut exit, mut unknown_from) = (None, None);
    if SHELL_IMAGES.contains(&image) {
        exit = (!container.stdin).then_some((Duration::ZERO, 0));
    } else if !NEVER_ENDING_IMAGES.contains(&image) {
        unknown_from = Some(Duration::ZERO);
    }
    Timeline { exit, unknown_from, ..Timeline::default() }
}

/// Returns the timeline of a container's command in one of its runs.
fn timeline(
    cache: &ScriptCache,
    container: &Container,
    words: &[String],
    restart_count: i64,
    (env, budget): (&Env, Budget),
) -> Arc<Timeline> {
    if words.is_empty() {
        return Arc::new(default_timeline(container));
    }
    let mounts: Vec<String> = container.volume_mounts.iter().map(|mount| mount.mount_path.clone()).collect();
    // Only files on volumes outlive a run, so without volumes all runs are equal.
    let restart_count = if mounts.is_empty() { 0 } else { restart_count.max(0) };
    let files = BTreeMap::new();
    cache
        .evaluate(ScriptRuns {
            words: words.to_vec(),
            env: env.clone(),
            files,
            mounts,
            restart_count,
            budget,
        })
        .0
}

/// Evaluates a probe or hook script in a container with the given files, and deducts its cost from the budget.
pub(crate) fn evaluate_script(
    words: &[String],
    files: BTreeMap<String, String>,
    behavior: &ContainerBehavior,
    budget: &mut Budget,
) -> Arc<Timeline> {
    let (words, env, mounts) = (words.to_vec(), behavior.env.clone(), Vec::new());
    let (timeline, left) =
        behavior.cache.evaluate(ScriptRuns { words, env, files, mounts, restart_count: 0, budget: *budget });
    *budget = left;
    timeline
}

#[cfg(test)]
mod tests;
