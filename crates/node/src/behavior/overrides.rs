//! Behavior overrides, which rules and annotations set by name.

use std::time::Duration;

use setpoint_reconcile::object::Pairs;
use thiserror::Error;

use super::ANNOTATION_PREFIX;
use crate::pod::Pod;

/// Maximum characters of an invalid value in an error message.
const SHOWN_VALUE_CHARS_MAX: usize = 100;

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

/// Parses simulation annotations into container (`None` for all), setting and value.
pub(super) fn simulation_annotations(
    annotations: &Pairs,
) -> impl Iterator<Item = (Option<&str>, &str, &str)> {
    annotations.iter().filter_map(|(name, value)| {
        let (container_name, setting) = name.split_once(ANNOTATION_PREFIX)?;
        if container_name.is_empty() {
            return Some((None, setting, value));
        }
        Some((Some(container_name.strip_suffix('.')?), setting, value))
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
            Some(container_name) => format!("no such container {container_name:?}"),
            None => BehaviorOverrides::default().set(name, value).err()?.to_string(),
        };
        let container_name =
            container_name.map(|container_name| format!("{container_name}.")).unwrap_or_default();
        Some(format!("Annotation {container_name}{ANNOTATION_PREFIX}{name} is ignored: {problem}"))
    };
    simulation_annotations(annotations).filter_map(error).collect()
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
