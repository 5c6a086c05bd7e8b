//! Behavior of simulated containers.
//!
//! A [`ContainerBehavior`] describes one container. It is derived from the command ([`shell`]), the first matching rule
//! ([`file`](mod@file)) and annotations of the pod, each overriding the previous one. Rules do not depend on
//! the pod's owner or name.

pub mod env;
pub mod rules_file;
pub mod script_cache;
pub mod shell;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use setpoint_reconcile::Meta;
use setpoint_reconcile::object::Pairs;
use thiserror::Error;

use crate::images;
use crate::pod::{Container, Pod};
use env::Env;
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

/// Maximum characters of an invalid value in an error message.
const SHOWN_VALUE_CHARS_MAX: usize = 100;

/// Behavior of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerBehavior {
    /// Course of the command.
    pub timeline: Arc<Timeline>,
    /// Overrides by rules and annotations.
    pub overrides: BehaviorOverrides,
    /// Environment variables.
    pub env: Env,
    /// Error if the command cannot be started.
    pub start_error: Option<String>,
    /// Budget of each other script that runs in it.
    pub(crate) budget: Budget,
    /// Memo of courses.
    pub(crate) cache: ScriptCache,
}

/// Overrides that rules and annotations can set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BehaviorOverrides {
    /// Duration of an image pull.
    pub pull_takes: Option<Duration>,
    /// Error of a failing image pull.
    pub pull_fails: Option<String>,
    /// Time until a failing pull succeeds; never if unset.
    pub pull_recovers: Option<Duration>,
    /// `true` if the image is on the node without a pull.
    pub image_present: Option<bool>,
    /// Time until it becomes ready.
    pub ready_after: Option<Duration>,
    /// Time until it becomes unhealthy.
    pub unhealthy_after: Option<Duration>,
    /// Time until it exits.
    pub exit_after: Option<Duration>,
    /// Exit code.
    pub exit_code: Option<i64>,
    /// Time until it is OOM-killed.
    pub oom_after: Option<Duration>,
    /// Time between SIGTERM and exit.
    pub stop_takes: Option<Duration>,
    /// Exit code after SIGTERM.
    pub stop_code: Option<i64>,
    /// `true` if it ignores SIGTERM.
    pub hangs: Option<bool>,
    /// CPU usage in thousandths of a core.
    pub cpu: Option<i64>,
    /// Memory usage in bytes.
    pub memory: Option<i64>,
    /// Lines logged at the start.
    pub log: Vec<String>,
}

/// Invalid setting of a rule or annotation.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{setting}: {problem}")]
pub struct InvalidSetting {
    /// Setting and value.
    pub setting: String,
    /// Problem with the value.
    pub problem: String,
}

/// Termination of a container by itself.
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
    /// Returns the termination by itself; `None` if it runs until it is stopped.
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
        let exit_after =
            overrides.exit_after.or(overrides.exit_code.and(self.timeline.exit.map(|(after, _)| after)));
        let exit = match (exit_after, self.timeline.exit) {
            (Some(after), _) => Some((after, overrides.exit_code.unwrap_or(0))),
            (None, timeline) => timeline,
        };
        let exit = exit.map(|(after, code)| {
            let reason = if code == 0 { "Completed" } else { "Error" };
            ContainerExit { after, exit_code: code, reason }
        });
        oom.into_iter().chain(exit).min_by_key(|exit| exit.after)
    }

    /// Returns the lines logged by a time, and the time of the next line.
    #[must_use]
    pub fn log_until(&self, time: Duration) -> (Vec<(Duration, &str)>, Option<Duration>) {
        let first = self.overrides.log.iter().map(|line| (Duration::ZERO, line.as_str()));
        let (rest, next) = self.timeline.log_until(time);
        (first.chain(rest).collect(), next)
    }
}

/// Returns the script of a container with the given restart count, one of `script_count` scripts of the pod.
/// Invalid annotations are ignored.
#[must_use]
pub fn container_behavior(
    (rules, cache): (&[BehaviorRule], &ScriptCache),
    container: &Container,
    restarts: i64,
    pod: &Pod,
    meta: &Meta,
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
    let timeline = timeline(cache, container, &words, restarts, (&env, budget));
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
    ContainerBehavior { timeline, overrides, env, start_error, budget, cache: cache.handle() }
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

/// Parses simulation annotations into container (`None` for all), setting and value.
fn simulation_annotations(annotations: &Pairs) -> impl Iterator<Item = (Option<&str>, &str, &str)> {
    annotations.iter().filter_map(|(name, value)| {
        let (container_name, what) = name.split_once(ANNOTATION_PREFIX)?;
        if container_name.is_empty() {
            return Some((None, what, value));
        }
        Some((Some(container_name.strip_suffix('.')?), what, value))
    })
}

/// Returns a message for each invalid simulation annotation of a pod.
#[must_use]
pub fn invalid_annotations(pod: &Pod, annotations: &Pairs) -> Vec<String> {
    let error = |(container_name, name, value): (Option<&str>, &str, &str)| {
        let unknown = |container_name: &&str| {
            pod.spec.all_containers().all(|container| container.name != **container_name)
        };
        let problem = match container_name.filter(unknown) {
            Some(container_name) => format!("there is no container {container_name:?}"),
            None => BehaviorOverrides::default().set(name, value).err()?.to_string(),
        };
        let container_name =
            container_name.map(|container_name| format!("{container_name}.")).unwrap_or_default();
        Some(format!("Annotation {container_name}{ANNOTATION_PREFIX}{name} is ignored: {problem}"))
    };
    simulation_annotations(annotations).filter_map(error).collect()
}

/// Images whose default command is a shell. It exits at once without stdin.
const SHELL_IMAGES: [&str; 6] = ["alpine", "bash", "busybox", "debian", "fedora", "ubuntu"];

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

/// Returns the course of a container's command in one of its runs.
fn timeline(
    cache: &ScriptCache,
    container: &Container,
    words: &[String],
    restarts: i64,
    (env, budget): (&Env, Budget),
) -> Arc<Timeline> {
    if words.is_empty() {
        // The default command of other images is unknown and taken to run until it is stopped.
        let ends = SHELL_IMAGES.contains(&images::short_name(&container.image)) && !container.stdin;
        return Arc::new(Timeline { exit: ends.then_some((Duration::ZERO, 0)), ..Timeline::default() });
    }
    let mounts: Vec<String> = container.volume_mounts.iter().map(|mount| mount.mount_path.clone()).collect();
    // Only files on volumes outlive a run, so without volumes all runs are equal.
    let restarts = if mounts.is_empty() { 0 } else { restarts.max(0) };
    let files = BTreeMap::new();
    cache.evaluate(ScriptRuns { words: words.to_vec(), env: env.clone(), files, mounts, restarts, budget }).0
}

/// Follows a probe or hook script in a container with the given files, and deducts its cost from the budget.
pub(crate) fn evaluate_script(
    words: &[String],
    files: BTreeMap<String, String>,
    behavior: &ContainerBehavior,
    budget: &mut Budget,
) -> Arc<Timeline> {
    let (words, env, mounts) = (words.to_vec(), behavior.env.clone(), Vec::new());
    let (timeline, left) =
        behavior.cache.evaluate(ScriptRuns { words, env, files, mounts, restarts: 0, budget: *budget });
    *budget = left;
    timeline
}

impl BehaviorOverrides {
    /// Sets one override by its annotation name.
    ///
    /// # Errors
    /// If the name is unknown or the value is invalid.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), InvalidSetting> {
        let shown = || value.chars().take(SHOWN_VALUE_CHARS_MAX).collect::<String>();
        let invalid = |problem: &str| InvalidSetting {
            setting: format!("{name}: {:?}", shown()),
            problem: problem.to_owned(),
        };
        let time = || parse_duration(value).ok_or_else(|| invalid("is not a duration such as 10s or 1m30s"));
        let code = || match value.parse::<i64>() {
            Ok(code) if (0..256).contains(&code) => Ok(code),
            _ => Err(invalid("is not an exit code from 0 to 255")),
        };
        let amount = |milli: bool| {
            let quantity = setpoint_api::quantity::Quantity::parse(value);
            let quantity = quantity.map_err(|_| invalid("is not a quantity such as 100m or 64Mi"))?;
            if quantity.sign() < 0 {
                return Err(invalid("must not be negative"));
            }
            Ok(if milli { quantity.milli_value() } else { quantity.value() })
        };
        match name {
            "pull-takes" => self.pull_takes = Some(time()?),
            "pull-fails" => self.pull_fails = Some(value.to_owned()),
            "pull-recovers-after" => self.pull_recovers = Some(time()?),
            "image-present" => {
                self.image_present = Some(value.parse().map_err(|_| invalid("must be true or false"))?);
            }
            "ready-after" => self.ready_after = Some(time()?),
            "unwell-after" => self.unhealthy_after = Some(time()?),
            "exit-after" => self.exit_after = Some(time()?),
            "exit-code" => self.exit_code = Some(code()?),
            "oom-after" => self.oom_after = Some(time()?),
            "stop-takes" => self.stop_takes = Some(time()?),
            "stop-code" => self.stop_code = Some(code()?),
            "hangs" => self.hangs = Some(value.parse().map_err(|_| invalid("must be true or false"))?),
            "cpu" => self.cpu = Some(amount(true)?),
            "memory" => self.memory = Some(amount(false)?),
            "log" => self.log = value.lines().map(str::to_owned).collect(),
            _ => return Err(invalid("unknown setting")),
        }
        Ok(())
    }
}

/// Parses a duration: `10s`, `1m30s`, `250ms`, or a number of seconds.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let (mut total, mut rest) = (Duration::ZERO, text);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|at| *at > 0)?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        rest = &rest[letters..];
        total = total.checked_add(Duration::try_from_secs_f64(number * unit).ok()?)?;
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(annotations: &str) -> Meta {
        Meta { annotations: serde_json::from_str(annotations).unwrap(), ..Meta::default() }
    }

    fn container(name: &str, command: &[&str]) -> Container {
        Container {
            name: name.to_owned(),
            image: "x".to_owned(),
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            ..Container::default()
        }
    }

    #[test]
    fn durations_are_parsed() {
        let read = |text: &str| parse_duration(text).map(|time| time.as_millis());
        assert_eq!(
            (read("10s"), read("1m30s"), read("250ms"), read("7")),
            (Some(10_000), Some(90_000), Some(250), Some(7_000))
        );
        assert_eq!(
            (read(""), read("s"), read("10x"), read("-1s"), read("1.5h")),
            (None, None, None, None, Some(5_400_000))
        );
    }

    #[test]
    fn annotations_override_rules_and_rules_override_the_command() {
        let rules =
            rules_file::parse_rules(b"rules:\n- match: {image: x}\n  exit-after: 5s\n  exit-code: 3\n")
                .unwrap();
        let sleeping = container("a", &["sleep", "1"]);
        let end = |rules: &[BehaviorRule], annotations: &str| {
            let behavior = container_behavior(
                (rules, &ScriptCache::default()),
                &sleeping,
                0,
                &Pod::default(),
                &meta(annotations),
                1,
            );
            behavior.exit().map(|exit| (exit.after.as_secs(), exit.exit_code, exit.reason))
        };
        assert_eq!(end(&[], "{}"), Some((1, 0, "Completed")));
        assert_eq!(end(&rules, "{}"), Some((5, 3, "Error")));
        assert_eq!(end(&rules, r#"{"simulate.setpoint.dev/exit-after":"9s"}"#), Some((9, 3, "Error")));
        let own = r#"{"a.simulate.setpoint.dev/oom-after":"2s","b.simulate.setpoint.dev/exit-after":"1s"}"#;
        assert_eq!(end(&rules, own), Some((2, 137, "OOMKilled")));
        assert_eq!(end(&[], r#"{"simulate.setpoint.dev/exit-code":"4"}"#), Some((1, 4, "Error")));
    }

    #[test]
    fn shell_image_without_a_command_exits_at_once() {
        let end = |image: &str, stdin: bool| {
            let container = Container { image: image.to_owned(), stdin, ..Container::default() };
            container_behavior(
                (&[], &ScriptCache::default()),
                &container,
                0,
                &Pod::default(),
                &Meta::default(),
                1,
            )
            .exit()
            .map(|exit| exit.exit_code)
        };
        assert_eq!(
            (end("busybox", false), end("quay.io/a/busybox:1.37@sha256:0", false)),
            (Some(0), Some(0))
        );
        assert_eq!(
            (end("busybox", true), end("nginx", false), end("a/busybox/b", false)),
            (None, None, None)
        );
    }

    #[test]
    fn files_on_volumes_outlive_a_run() {
        let text = "if [[ -r /data/foo ]]\n then exit 0\n else touch /data/foo\n exit 1\n fi";
        let mut container = container("a", &["sh", "-c", text]);
        let code = |container: &Container, restarts| {
            let behavior = container_behavior(
                (&[], &ScriptCache::default()),
                container,
                restarts,
                &Pod::default(),
                &Meta::default(),
                1,
            );
            behavior.exit().map(|exit| exit.exit_code)
        };
        assert_eq!(
            (code(&container, 0), code(&container, 1)),
            (Some(1), Some(1)),
            "files outside of volumes do not outlive a run"
        );
        container.volume_mounts =
            vec![crate::pod::VolumeMount { mount_path: "/data".to_owned(), ..Default::default() }];
        assert_eq!(
            [0, 1, 2, 9].map(|restarts| code(&container, restarts)),
            [Some(1), Some(0), Some(0), Some(0)],
            "unchanged files on volumes outlive a run, too"
        );
    }

    #[test]
    fn run_with_a_high_restart_count_is_found_quickly() {
        let of = |text: &str| Container {
            volume_mounts: vec![crate::pod::VolumeMount {
                mount_path: "/data".to_owned(),
                ..Default::default()
            }],
            ..container("a", &["sh", "-c", text])
        };
        let code = |container: &Container, restarts| {
            let behavior = container_behavior(
                (&[], &ScriptCache::default()),
                container,
                restarts,
                &Pod::default(),
                &Meta::default(),
                1,
            );
            behavior.exit().map(|exit| exit.exit_code)
        };
        // The first script has a period of two runs; the second never repeats.
        let toggles = of("if [ -f /data/a ]; then rm /data/a; exit 1; fi; touch /data/a; exit 2");
        let grows = of("echo x >> /data/a; exit 3");
        for (restarts, expected) in [(0, 2), (1, 1), (2, 2), (1_000_001, 1), (i64::MAX - 1, 2), (i64::MAX, 1)]
        {
            assert_eq!(code(&toggles, restarts), Some(expected), "{restarts}");
            assert_eq!(code(&grows, restarts), Some(3), "{restarts}");
        }
        assert_eq!(code(&toggles, i64::MIN), Some(2), "a negative restart count counts as zero");
    }

    #[test]
    fn scripts_of_a_pod_share_one_budget() {
        let words = (0..40).map(|i| i.to_string()).collect::<Vec<_>>().join(" ");
        let text = format!("for i in {words}; do for j in {words}; do a=$i$j; done; done; exit 3");
        let long = container("a", &["sh", "-c", &text]);
        let end = |script_count: usize, name: &str| {
            let meta = Meta { name: name.into(), ..Meta::default() };
            container_behavior((&[], &ScriptCache::default()), &long, 0, &Pod::default(), &meta, script_count)
                .exit()
                .map(|exit| exit.exit_code)
        };
        assert_eq!((end(1, "a"), end(5, "a")), (Some(3), Some(3)), "1,600 commands are few for a small pod");
        assert_eq!(end(300, "a"), None, "each of many scripts gets a small share");
        let short = container("a", &["sh", "-c", "echo a; sleep 1; exit 4"]);
        let short = container_behavior(
            (&[], &ScriptCache::default()),
            &short,
            0,
            &Pod::default(),
            &Meta::default(),
            1_000,
        );
        assert_eq!(short.exit().map(|exit| exit.exit_code), Some(4));
    }

    #[test]
    fn runs_of_a_long_script_are_bounded_by_its_share() {
        let words = (0..40).map(|i| i.to_string()).collect::<Vec<_>>().join(" ");
        let text = format!("echo x >> /data/a; for i in {words}; do a=$i; done; exit 3");
        let mut grows = container("a", &["sh", "-c", &text]);
        grows.volume_mounts =
            vec![crate::pod::VolumeMount { mount_path: "/data".to_owned(), ..Default::default() }];
        let lines = |script_count: usize| {
            let behavior = container_behavior(
                (&[], &ScriptCache::default()),
                &grows,
                100,
                &Pod::default(),
                &Meta::default(),
                script_count,
            );
            assert_eq!(behavior.exit().map(|exit| exit.exit_code), Some(3));
            behavior.timeline.files_at(Duration::ZERO)["/data/a"].lines().count()
        };
        assert_eq!((lines(1), lines(300)), (33, 3));
    }

    #[test]
    fn invalid_settings_are_rejected_by_name() {
        let mut overrides = BehaviorOverrides::default();
        assert!(overrides.set("exit-code", "999").unwrap_err().to_string().contains("exit-code"));
        assert!(overrides.set("exits", "1").unwrap_err().to_string().contains("unknown setting"));
        for (name, value) in [("cpu", "-1"), ("memory", "-1Mi"), ("exit-after", "-1s"), ("cpu", "nonsense")] {
            assert!(overrides.set(name, value).is_err(), "{name} {value}");
        }
        assert_eq!(overrides, BehaviorOverrides::default());
        overrides.set("cpu", "100m").unwrap();
        overrides.set("memory", "64Mi").unwrap();
        assert_eq!((overrides.cpu, overrides.memory), (Some(100), Some(64 << 20)));
    }

    #[test]
    fn invalid_annotations_are_reported() {
        let pod: Pod = serde_json::from_str(r#"{"spec":{"containers":[{"name":"a"}]}}"#).unwrap();
        let overrides = meta(
            r#"{"simulate.setpoint.dev/exit-after":"soon","a.simulate.setpoint.dev/exits":"1","x/y":"z",
                "b.simulate.setpoint.dev/cpu":"1","a.simulate.setpoint.dev/cpu":"1"}"#,
        );
        assert_eq!(
            invalid_annotations(&pod, &overrides.annotations),
            [
                r#"Annotation a.simulate.setpoint.dev/exits is ignored: exits: "1": unknown setting"#,
                r#"Annotation b.simulate.setpoint.dev/cpu is ignored: there is no container "b""#,
                r#"Annotation simulate.setpoint.dev/exit-after is ignored: exit-after: "soon": is not a duration such as 10s or 1m30s"#,
            ]
        );
    }

    #[test]
    fn commands_expand_environment_variables() {
        let mut container = container("a", &["sh", "-c", "sleep $(N); exit $CODE"]);
        container.env = serde_json::from_str(
            r#"[{"name":"N","value":"4"},{"name":"CODE","valueFrom":{"fieldRef":{"fieldPath":"metadata.annotations['code']"}}}]"#,
        )
        .unwrap();
        let behavior = container_behavior(
            (&[], &ScriptCache::default()),
            &container,
            0,
            &Pod::default(),
            &meta(r#"{"code":"3"}"#),
            1,
        );
        assert_eq!(behavior.exit().map(|exit| (exit.after.as_secs(), exit.exit_code)), Some((4, 3)));
    }
}
