//! Behavior of simulated containers.
//!
//! A [`Script`] describes one container. It is derived from the command ([`shell`]), the first matching rule
//! ([`file`](mod@file)) and annotations of the pod, each overriding the previous one. Rules do not depend on
//! the pod's owner or name.

pub mod env;
pub mod file;
pub mod memo;
pub mod shell;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use setpoint_reconcile::ObjectMeta;
use setpoint_reconcile::object::Pairs;
use thiserror::Error;

use crate::images;
use crate::pod::{Container, Pod};
use env::Env;
use file::Rule;
use memo::{Runs, ScriptMemo};
use shell::Course;
use shell::budget::Budget;

/// Prefix of simulation annotations. `NAME.` before it selects one container.
pub const PREFIX: &str = "simulate.setpoint.dev/";

/// Exit code of a container whose command cannot be started.
pub const CANNOT_RUN: i64 = 128;
/// Run time of a container that exceeds its memory limit.
const OOM_AFTER: Duration = Duration::from_secs(1);

/// Maximum characters of an invalid value in an error message.
const SHOWN_MAX: usize = 100;

/// Behavior of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Course of the command.
    pub course: Arc<Course>,
    /// Overrides by rules and annotations.
    pub said: Said,
    /// Environment variables.
    pub env: Env,
    /// Error if the command cannot be started.
    pub start_error: Option<String>,
    /// Budget of each other script that runs in it.
    pub(crate) budget: Budget,
    /// Memo of courses.
    pub(crate) memo: ScriptMemo,
}

/// Overrides that rules and annotations can set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
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
    pub unwell_after: Option<Duration>,
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
#[error("{what}: {problem}")]
pub struct Unclear {
    /// Setting and value.
    pub what: String,
    /// Problem with the value.
    pub problem: String,
}

/// Termination of a container by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Time since the start.
    pub after: Duration,
    /// Exit code.
    pub code: i64,
    /// Termination reason.
    pub reason: &'static str,
}

impl Script {
    /// Returns the termination by itself; `None` if it runs until it is stopped.
    #[must_use]
    pub fn end(&self) -> Option<End> {
        if self.start_error.is_some() {
            return Some(End { after: Duration::ZERO, code: CANNOT_RUN, reason: "StartError" });
        }
        let said = &self.said;
        let oom = said.oom_after.map(|after| End { after, code: 137, reason: "OOMKilled" });
        let told = said.exit_after.or(said.exit_code.and(self.course.end.map(|(after, _)| after)));
        let exit = match (told, self.course.end) {
            (Some(after), _) => Some((after, said.exit_code.unwrap_or(0))),
            (None, course) => course,
        };
        let exit = exit.map(|(after, code)| {
            let reason = if code == 0 { "Completed" } else { "Error" };
            End { after, code, reason }
        });
        oom.into_iter().chain(exit).min_by_key(|end| end.after)
    }

    /// Returns the lines logged by a time, and the time of the next line.
    #[must_use]
    pub fn log(&self, time: Duration) -> (Vec<(Duration, &str)>, Option<Duration>) {
        let first = self.said.log.iter().map(|line| (Duration::ZERO, line.as_str()));
        let (rest, next) = self.course.said_by(time);
        (first.chain(rest).collect(), next)
    }
}

/// Returns the script of a container with the given restart count, one of `scripts` scripts of the pod.
/// Invalid annotations are ignored.
#[must_use]
pub fn script(
    (rules, memo): (&[Rule], &ScriptMemo),
    container: &Container,
    restarts: i64,
    pod: &Pod,
    meta: &ObjectMeta,
    scripts: usize,
) -> Script {
    let mut words: Vec<String> = container.command.iter().chain(&container.args).cloned().collect();
    let mut env = Env::default();
    if !words.is_empty() || !container.env.is_empty() {
        let mut room = Budget::room(scripts, env::ROOM);
        env = Env::of(container, pod, meta, room);
        for word in words.iter_mut().filter(|word| word.contains('$')) {
            *word = env.expand(word, room);
            room = room.saturating_sub(word.len());
        }
    }
    let budget = Budget::share(scripts);
    let course = course(memo, container, &words, restarts, (&env, budget));
    let rule = rules.iter().find(|rule| rule.selects(container, &words, &meta.labels));
    let mut said = rule.map(|rule| rule.said.clone()).unwrap_or_default();
    for own in [false, true] {
        for (whose, name, value) in said_of(&meta.annotations) {
            if whose == own.then_some(container.name.as_str()) {
                let _ = said.say(name, value);
            }
        }
    }
    if exceeds_memory(&said, container) {
        said.oom_after = said.oom_after.or(Some(OOM_AFTER));
    }
    let start_error = words.first().and_then(|program| start_error(program));
    Script { course, said, env, start_error, budget, memo: memo.share() }
}

/// `true` if a container uses more memory than its limit.
fn exceeds_memory(said: &Said, container: &Container) -> bool {
    let limit = container.resources.limits.get("memory");
    let limit = limit.and_then(|text| setpoint_api::quantity::Quantity::parse(text).ok());
    said.memory.zip(limit).is_some_and(|(used, limit)| used > limit.value())
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
fn said_of(annotations: &Pairs) -> impl Iterator<Item = (Option<&str>, &str, &str)> {
    annotations.iter().filter_map(|(name, value)| {
        let (whose, what) = name.split_once(PREFIX)?;
        if whose.is_empty() {
            return Some((None, what, value));
        }
        Some((Some(whose.strip_suffix('.')?), what, value))
    })
}

/// Returns a message for each invalid simulation annotation of a pod.
#[must_use]
pub fn faults(pod: &Pod, annotations: &Pairs) -> Vec<String> {
    let fault = |(whose, name, value): (Option<&str>, &str, &str)| {
        let unknown = |whose: &&str| pod.spec.all().all(|container| container.name != **whose);
        let problem = match whose.filter(unknown) {
            Some(whose) => format!("there is no container {whose:?}"),
            None => Said::default().say(name, value).err()?.to_string(),
        };
        let whose = whose.map(|whose| format!("{whose}.")).unwrap_or_default();
        Some(format!("Annotation {whose}{PREFIX}{name} is left out: {problem}"))
    };
    said_of(annotations).filter_map(fault).collect()
}

/// Images whose default command is a shell. It exits at once without stdin.
const SHELLS: [&str; 6] = ["alpine", "bash", "busybox", "debian", "fedora", "ubuntu"];

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
    pod.spec.all().map(of).sum()
}

/// Returns the course of a container's command in one of its runs.
fn course(
    memo: &ScriptMemo,
    container: &Container,
    words: &[String],
    restarts: i64,
    (env, budget): (&Env, Budget),
) -> Arc<Course> {
    if words.is_empty() {
        // The default command of other images is unknown and taken to run until it is stopped.
        let ends = SHELLS.contains(&images::short_name(&container.image)) && !container.stdin;
        return Arc::new(Course { end: ends.then_some((Duration::ZERO, 0)), ..Course::default() });
    }
    let mounts: Vec<String> = container.volume_mounts.iter().map(|mount| mount.mount_path.clone()).collect();
    // Only files on volumes outlive a run, so without volumes all runs are equal.
    let restarts = if mounts.is_empty() { 0 } else { restarts.max(0) };
    let files = BTreeMap::new();
    memo.follow(Runs { words: words.to_vec(), env: env.clone(), files, mounts, restarts, budget }).0
}

/// Follows a probe or hook script in a container with the given files, and deducts its cost from the budget.
pub(crate) fn read(
    words: &[String],
    files: BTreeMap<String, String>,
    script: &Script,
    budget: &mut Budget,
) -> Arc<Course> {
    let (words, env, mounts) = (words.to_vec(), script.env.clone(), Vec::new());
    let (course, left) = script.memo.follow(Runs { words, env, files, mounts, restarts: 0, budget: *budget });
    *budget = left;
    course
}

impl Said {
    /// Sets one override by its annotation name.
    ///
    /// # Errors
    /// If the name is unknown or the value is invalid.
    pub fn say(&mut self, name: &str, value: &str) -> Result<(), Unclear> {
        let shown = || value.chars().take(SHOWN_MAX).collect::<String>();
        let unclear =
            |problem: &str| Unclear { what: format!("{name}: {:?}", shown()), problem: problem.to_owned() };
        let time = || duration(value).ok_or_else(|| unclear("is no duration such as 10s or 1m30s"));
        let code = || match value.parse::<i64>() {
            Ok(code) if (0..256).contains(&code) => Ok(code),
            _ => Err(unclear("is no exit code from 0 to 255")),
        };
        let amount = |milli: bool| {
            let quantity = setpoint_api::quantity::Quantity::parse(value);
            let quantity = quantity.map_err(|_| unclear("is no quantity such as 100m or 64Mi"))?;
            if quantity.sign() < 0 {
                return Err(unclear("is less than nothing"));
            }
            Ok(if milli { quantity.milli_value() } else { quantity.value() })
        };
        match name {
            "pull-takes" => self.pull_takes = Some(time()?),
            "pull-fails" => self.pull_fails = Some(value.to_owned()),
            "pull-recovers-after" => self.pull_recovers = Some(time()?),
            "image-present" => {
                self.image_present = Some(value.parse().map_err(|_| unclear("is neither true nor false"))?);
            }
            "ready-after" => self.ready_after = Some(time()?),
            "unwell-after" => self.unwell_after = Some(time()?),
            "exit-after" => self.exit_after = Some(time()?),
            "exit-code" => self.exit_code = Some(code()?),
            "oom-after" => self.oom_after = Some(time()?),
            "stop-takes" => self.stop_takes = Some(time()?),
            "stop-code" => self.stop_code = Some(code()?),
            "hangs" => self.hangs = Some(value.parse().map_err(|_| unclear("is neither true nor false"))?),
            "cpu" => self.cpu = Some(amount(true)?),
            "memory" => self.memory = Some(amount(false)?),
            "log" => self.log = value.lines().map(str::to_owned).collect(),
            _ => return Err(unclear("nothing of that name can be said")),
        }
        Ok(())
    }
}

/// Parses a duration: `10s`, `1m30s`, `250ms`, or a number of seconds.
#[must_use]
pub fn duration(text: &str) -> Option<Duration> {
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

    fn meta(annotations: &str) -> ObjectMeta {
        ObjectMeta { annotations: serde_json::from_str(annotations).unwrap(), ..ObjectMeta::default() }
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
        let read = |text: &str| duration(text).map(|time| time.as_millis());
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
        let rules = file::read(b"rules:\n- match: {image: x}\n  exit-after: 5s\n  exit-code: 3\n").unwrap();
        let sleeping = container("a", &["sleep", "1"]);
        let end = |rules: &[Rule], annotations: &str| {
            let script =
                script((rules, &ScriptMemo::default()), &sleeping, 0, &Pod::default(), &meta(annotations), 1);
            script.end().map(|end| (end.after.as_secs(), end.code, end.reason))
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
            script((&[], &ScriptMemo::default()), &container, 0, &Pod::default(), &ObjectMeta::default(), 1)
                .end()
                .map(|end| end.code)
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
            let script = script(
                (&[], &ScriptMemo::default()),
                container,
                restarts,
                &Pod::default(),
                &ObjectMeta::default(),
                1,
            );
            script.end().map(|end| end.code)
        };
        assert_eq!(
            (code(&container, 0), code(&container, 1)),
            (Some(1), Some(1)),
            "files outside of volumes do not outlive a run"
        );
        container.volume_mounts =
            vec![crate::pod::Mount { mount_path: "/data".to_owned(), ..Default::default() }];
        assert_eq!(
            [0, 1, 2, 9].map(|restarts| code(&container, restarts)),
            [Some(1), Some(0), Some(0), Some(0)],
            "unchanged files on volumes outlive a run, too"
        );
    }

    #[test]
    fn run_with_a_high_restart_count_is_found_quickly() {
        let of = |text: &str| Container {
            volume_mounts: vec![crate::pod::Mount { mount_path: "/data".to_owned(), ..Default::default() }],
            ..container("a", &["sh", "-c", text])
        };
        let code = |container: &Container, restarts| {
            let script = script(
                (&[], &ScriptMemo::default()),
                container,
                restarts,
                &Pod::default(),
                &ObjectMeta::default(),
                1,
            );
            script.end().map(|end| end.code)
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
        let end = |scripts: usize, name: &str| {
            let meta = ObjectMeta { name: name.into(), ..ObjectMeta::default() };
            script((&[], &ScriptMemo::default()), &long, 0, &Pod::default(), &meta, scripts)
                .end()
                .map(|end| end.code)
        };
        assert_eq!((end(1, "a"), end(5, "a")), (Some(3), Some(3)), "1,600 commands are few for a small pod");
        assert_eq!(end(300, "a"), None, "each of many scripts gets a small share");
        let short = container("a", &["sh", "-c", "echo a; sleep 1; exit 4"]);
        let short =
            script((&[], &ScriptMemo::default()), &short, 0, &Pod::default(), &ObjectMeta::default(), 1_000);
        assert_eq!(short.end().map(|end| end.code), Some(4));
    }

    #[test]
    fn runs_of_a_long_script_are_bounded_by_its_share() {
        let words = (0..40).map(|i| i.to_string()).collect::<Vec<_>>().join(" ");
        let text = format!("echo x >> /data/a; for i in {words}; do a=$i; done; exit 3");
        let mut grows = container("a", &["sh", "-c", &text]);
        grows.volume_mounts =
            vec![crate::pod::Mount { mount_path: "/data".to_owned(), ..Default::default() }];
        let lines = |scripts: usize| {
            let script = script(
                (&[], &ScriptMemo::default()),
                &grows,
                100,
                &Pod::default(),
                &ObjectMeta::default(),
                scripts,
            );
            assert_eq!(script.end().map(|end| end.code), Some(3));
            script.course.files_at(Duration::ZERO)["/data/a"].lines().count()
        };
        assert_eq!((lines(1), lines(300)), (33, 3));
    }

    #[test]
    fn invalid_settings_are_rejected_by_name() {
        let mut said = Said::default();
        assert!(said.say("exit-code", "999").unwrap_err().to_string().contains("exit-code"));
        assert!(said.say("exits", "1").unwrap_err().to_string().contains("nothing of that name"));
        for (name, value) in [("cpu", "-1"), ("memory", "-1Mi"), ("exit-after", "-1s"), ("cpu", "nonsense")] {
            assert!(said.say(name, value).is_err(), "{name} {value}");
        }
        assert_eq!(said, Said::default());
        said.say("cpu", "100m").unwrap();
        said.say("memory", "64Mi").unwrap();
        assert_eq!((said.cpu, said.memory), (Some(100), Some(64 << 20)));
    }

    #[test]
    fn invalid_annotations_are_reported() {
        let pod: Pod = serde_json::from_str(r#"{"spec":{"containers":[{"name":"a"}]}}"#).unwrap();
        let said = meta(
            r#"{"simulate.setpoint.dev/exit-after":"soon","a.simulate.setpoint.dev/exits":"1","x/y":"z",
                "b.simulate.setpoint.dev/cpu":"1","a.simulate.setpoint.dev/cpu":"1"}"#,
        );
        assert_eq!(
            faults(&pod, &said.annotations),
            [
                r#"Annotation a.simulate.setpoint.dev/exits is left out: exits: "1": nothing of that name can be said"#,
                r#"Annotation b.simulate.setpoint.dev/cpu is left out: there is no container "b""#,
                r#"Annotation simulate.setpoint.dev/exit-after is left out: exit-after: "soon": is no duration such as 10s or 1m30s"#,
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
        let script = script(
            (&[], &ScriptMemo::default()),
            &container,
            0,
            &Pod::default(),
            &meta(r#"{"code":"3"}"#),
            1,
        );
        assert_eq!(script.end().map(|end| (end.after.as_secs(), end.code)), Some((4, 3)));
    }
}
