//! Stabilization window and scaling policies of an autoscaler.
//!
//! The history is kept in memory only: losing it can only allow an earlier change.

use std::time::Duration;

use setpoint_api::Time;
use setpoint_reconcile::Jump;
use setpoint_views::horizontal_pod_autoscaler::{ScalingBehavior, ScalingRules};

/// Default stabilization window for scaling down.
const CALM_DOWN: Duration = Duration::from_secs(300);
/// Maximum number of remembered changes.
const REMEMBERED_MAX: usize = 1000;

/// Recent proposals and changes.
#[derive(Clone, Debug, Default)]
pub struct Past {
    proposals: Vec<(i64, Time)>,
    ups: Vec<(i64, Time)>,
    downs: Vec<(i64, Time)>,
}

impl Past {
    /// Shifts all times, so every proposal and change keeps its age.
    pub(super) fn clock_jumped(&mut self, jump: Jump) {
        for (_, at) in self.proposals.iter_mut().chain(&mut self.ups).chain(&mut self.downs) {
            *at = jump.shift(*at);
        }
    }
}

/// Number of pods, with reason and message of the condition.
pub(super) struct Bounded {
    pub replicas: i64,
    pub reason: &'static str,
    pub message: &'static str,
}

/// Current number of pods, and the allowed range.
#[derive(Clone, Copy)]
pub(super) struct Range {
    pub current: i64,
    pub min: i64,
    pub max: i64,
}

const WITHIN: (&str, &str) = ("DesiredWithinRange", "the desired count is within the acceptable range");
const UP_TOO_FAST: (&str, &str) =
    ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate");
const DOWN_TOO_FAST: (&str, &str) =
    ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate");
const TOO_MANY: (&str, &str) =
    ("TooManyReplicas", "the desired replica count is more than the maximum replica count");
const TOO_FEW: (&str, &str) =
    ("TooFewReplicas", "the desired replica count is less than the minimum replica count");

fn bounded(replicas: i64, (reason, message): (&'static str, &'static str)) -> Bounded {
    Bounded { replicas, reason, message }
}

fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

impl Past {
    /// Records the current number as the first proposal.
    pub fn begin(&mut self, current: i64, now: Time) {
        if self.proposals.is_empty() {
            self.proposals.push((current, now));
        }
    }

    /// Stabilizes a proposal by the recent ones; the reason and message if that changes it.
    pub(super) fn stabilize(
        &mut self,
        proposed: i64,
        current: i64,
        behavior: Option<&ScalingBehavior>,
        now: Time,
    ) -> Bounded {
        let window = |rules: Option<&ScalingRules>, default: Duration| {
            rules.and_then(|rules| rules.stabilization_window_seconds).map_or(default, seconds)
        };
        let up = window(behavior.and_then(|behavior| behavior.scale_up.as_ref()), Duration::ZERO);
        let down = window(behavior.and_then(|behavior| behavior.scale_down.as_ref()), CALM_DOWN);
        // With `behavior`, a proposal exactly as old as the window is outside of it; without, it is inside.
        let edge = i64::from(behavior.is_some());
        let since = |window: Duration| {
            let recent = self.proposals.iter().filter(move |(_, at)| at.0 >= now.before(window).0 + edge);
            recent.map(|(replicas, _)| *replicas)
        };
        let lowest = since(up).fold(proposed, i64::min);
        let highest = since(down).fold(proposed, i64::max);
        let stable = match behavior {
            Some(_) => current.max(lowest).min(highest),
            None => highest,
        };
        let oldest = now.before(up.max(down));
        self.proposals.retain(|(_, at)| *at >= oldest);
        self.proposals.truncate(REMEMBERED_MAX);
        self.proposals.push((proposed, now));
        if stable == proposed {
            return bounded(stable, ("ReadyForNewScale", "recommended size matches current size"));
        }
        if behavior.is_some() && proposed >= current {
            let message = "recent recommendations were lower than current one, applying the lowest recent recommendation";
            return bounded(stable, ("ScaleUpStabilized", message));
        }
        let message =
            "recent recommendations were higher than current one, applying the highest recent recommendation";
        bounded(stable, ("ScaleDownStabilized", message))
    }

    /// Limits a number by the range and the scaling policies.
    pub(super) fn limit(
        &self,
        wanted: i64,
        range: Range,
        behavior: Option<&ScalingBehavior>,
        now: Time,
    ) -> Bounded {
        let Range { current, min, max } = range;
        let Some(behavior) = behavior else {
            let fastest = (2 * current).max(4);
            let (most, why) = if max > fastest { (fastest, UP_TOO_FAST) } else { (max, TOO_MANY) };
            return match wanted {
                _ if wanted < min => bounded(min, TOO_FEW),
                _ if wanted > most => bounded(most, why),
                _ => bounded(wanted, WITHIN),
            };
        };
        if wanted > current {
            let fastest = self.fastest(current, behavior.scale_up.as_ref(), true, now).max(current);
            let (most, why) = if max > fastest { (fastest, UP_TOO_FAST) } else { (max, TOO_MANY) };
            if wanted > most {
                return bounded(most, why);
            }
        } else if wanted < current {
            let fastest = self.fastest(current, behavior.scale_down.as_ref(), false, now).min(current);
            let (least, why) = if min < fastest { (fastest, DOWN_TOO_FAST) } else { (min, TOO_FEW) };
            if wanted < least {
                return bounded(least, why);
            }
        }
        bounded(wanted, WITHIN)
    }

    /// Maximum number of pods that the policies allow when scaling up, minimum when scaling down.
    fn fastest(&self, current: i64, rules: Option<&ScalingRules>, is_up: bool, now: Time) -> i64 {
        let Some(rules) = rules.filter(|rules| rules.select_policy != "Disabled") else { return current };
        let changed = |changes: &[(i64, Time)], period: i64| -> i64 {
            let since = now.before(seconds(period));
            changes.iter().filter(|(_, at)| *at > since).map(|(change, _)| change).sum()
        };
        let allowed = rules.policies.iter().map(|policy| {
            let period = policy.period_seconds;
            let start = current - changed(&self.ups, period) + changed(&self.downs, period);
            match (policy.kind.as_str(), is_up) {
                ("Percent", true) => (start as f64 * (1.0 + policy.value as f64 / 100.0)).ceil() as i64,
                ("Percent", false) => (start as f64 * (1.0 - policy.value as f64 / 100.0)) as i64,
                (_, true) => start + policy.value,
                (_, false) => start - policy.value,
            }
        });
        let takes_highest = is_up == (rules.select_policy != "Min");
        let chosen = if takes_highest { allowed.max() } else { allowed.min() };
        chosen.unwrap_or(current)
    }

    /// Records a change of the number.
    pub(super) fn note_change(&mut self, from: i64, to: i64, behavior: Option<&ScalingBehavior>, now: Time) {
        let Some(behavior) = behavior else { return };
        let (changes, rules) = if to > from {
            (&mut self.ups, &behavior.scale_up)
        } else {
            (&mut self.downs, &behavior.scale_down)
        };
        let periods = rules.iter().flat_map(|rules| &rules.policies).map(|policy| policy.period_seconds);
        let oldest = now.before(seconds(periods.max().unwrap_or(0)));
        changes.retain(|(_, at)| *at >= oldest);
        changes.truncate(REMEMBERED_MAX);
        changes.push(((to - from).abs(), now));
    }
}
