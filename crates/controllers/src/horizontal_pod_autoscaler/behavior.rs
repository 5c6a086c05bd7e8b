//! Stabilization window and scaling policies of an autoscaler.
//!
//! The history is kept in memory only: losing it can only allow an earlier change.

use std::time::Duration;

use setpoint_api::Time;
use setpoint_reconcile::Jump;
use setpoint_views::horizontal_pod_autoscaler::{ScalingBehavior, ScalingRules};

/// Default stabilization window for scaling down.
const DOWNSCALE_STABILIZATION: Duration = Duration::from_secs(300);
/// Maximum number of remembered changes.
const HISTORY_MAX: usize = 1000;

/// Recent proposals and changes.
#[derive(Clone, Debug, Default)]
pub struct ScaleHistory {
    recommendations: Vec<(i64, Time)>,
    scale_ups: Vec<(i64, Time)>,
    scale_downs: Vec<(i64, Time)>,
}

impl ScaleHistory {
    /// Shifts all times, so every proposal and change keeps its age.
    pub(super) fn clock_jumped(&mut self, jump: Jump) {
        for (_, at) in self.recommendations.iter_mut().chain(&mut self.scale_ups).chain(&mut self.scale_downs)
        {
            *at = jump.shift(*at);
        }
    }
}

/// Number of pods, with reason and message of the condition.
pub(super) struct LimitedReplicas {
    pub replicas: i64,
    pub reason: &'static str,
    pub message: &'static str,
}

/// Current number of pods, and the allowed range.
#[derive(Clone, Copy)]
pub(super) struct ReplicaBounds {
    pub current: i64,
    pub min: i64,
    pub max: i64,
}

const WITHIN_RANGE: (&str, &str) = ("DesiredWithinRange", "the desired count is within the acceptable range");
const UP_TOO_FAST: (&str, &str) =
    ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate");
const DOWN_TOO_FAST: (&str, &str) =
    ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate");
const TOO_MANY: (&str, &str) =
    ("TooManyReplicas", "the desired replica count is more than the maximum replica count");
const TOO_FEW: (&str, &str) =
    ("TooFewReplicas", "the desired replica count is less than the minimum replica count");

fn limited(replicas: i64, (reason, message): (&'static str, &'static str)) -> LimitedReplicas {
    LimitedReplicas { replicas, reason, message }
}

fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

impl ScaleHistory {
    /// Records the current number as the first proposal.
    pub fn record_initial(&mut self, current: i64, now: Time) {
        if self.recommendations.is_empty() {
            self.recommendations.push((current, now));
        }
    }

    /// Stabilizes a proposal by the recent ones; the reason and message if that changes it.
    pub(super) fn stabilize(
        &mut self,
        proposed: i64,
        current: i64,
        behavior: Option<&ScalingBehavior>,
        now: Time,
    ) -> LimitedReplicas {
        let window = |rules: Option<&ScalingRules>, default: Duration| {
            rules.and_then(|rules| rules.stabilization_window_seconds).map_or(default, seconds)
        };
        let up = window(behavior.and_then(|behavior| behavior.scale_up.as_ref()), Duration::ZERO);
        let down =
            window(behavior.and_then(|behavior| behavior.scale_down.as_ref()), DOWNSCALE_STABILIZATION);
        // With `behavior`, a proposal exactly as old as the window is outside of it; without, it is inside.
        let edge = i64::from(behavior.is_some());
        let since = |window: Duration| {
            let recent =
                self.recommendations.iter().filter(move |(_, at)| at.0 >= now.before(window).0 + edge);
            recent.map(|(replicas, _)| *replicas)
        };
        let lowest = since(up).fold(proposed, i64::min);
        let highest = since(down).fold(proposed, i64::max);
        let stable = match behavior {
            Some(_) => current.max(lowest).min(highest),
            None => highest,
        };
        let oldest = now.before(up.max(down));
        self.recommendations.retain(|(_, at)| *at >= oldest);
        self.recommendations.truncate(HISTORY_MAX);
        self.recommendations.push((proposed, now));
        if stable == proposed {
            return limited(stable, ("ReadyForNewScale", "recommended size matches current size"));
        }
        if behavior.is_some() && proposed >= current {
            let message = "recent recommendations were lower than current one, applying the lowest recent recommendation";
            return limited(stable, ("ScaleUpStabilized", message));
        }
        let message =
            "recent recommendations were higher than current one, applying the highest recent recommendation";
        limited(stable, ("ScaleDownStabilized", message))
    }

    /// Limits a number by the range and the scaling policies.
    pub(super) fn limit(
        &self,
        desired: i64,
        bounds: ReplicaBounds,
        behavior: Option<&ScalingBehavior>,
        now: Time,
    ) -> LimitedReplicas {
        let ReplicaBounds { current, min, max } = bounds;
        let Some(behavior) = behavior else {
            let rate_limit = (2 * current).max(4);
            let (upper, reason) = if max > rate_limit { (rate_limit, UP_TOO_FAST) } else { (max, TOO_MANY) };
            return match desired {
                _ if desired < min => limited(min, TOO_FEW),
                _ if desired > upper => limited(upper, reason),
                _ => limited(desired, WITHIN_RANGE),
            };
        };
        if desired > current {
            let rate_limit = self.rate_limit(current, behavior.scale_up.as_ref(), true, now).max(current);
            let (upper, reason) = if max > rate_limit { (rate_limit, UP_TOO_FAST) } else { (max, TOO_MANY) };
            if desired > upper {
                return limited(upper, reason);
            }
        } else if desired < current {
            let rate_limit = self.rate_limit(current, behavior.scale_down.as_ref(), false, now).min(current);
            let (lower, reason) = if min < rate_limit { (rate_limit, DOWN_TOO_FAST) } else { (min, TOO_FEW) };
            if desired < lower {
                return limited(lower, reason);
            }
        }
        limited(desired, WITHIN_RANGE)
    }

    /// Maximum number of pods that the policies allow when scaling up, minimum when scaling down.
    fn rate_limit(&self, current: i64, rules: Option<&ScalingRules>, is_up: bool, now: Time) -> i64 {
        let Some(rules) = rules.filter(|rules| rules.select_policy != "Disabled") else { return current };
        let changed = |changes: &[(i64, Time)], period: i64| -> i64 {
            let since = now.before(seconds(period));
            changes.iter().filter(|(_, at)| *at > since).map(|(change, _)| change).sum()
        };
        let allowed = rules.policies.iter().map(|policy| {
            let period = policy.period_seconds;
            let start = current - changed(&self.scale_ups, period) + changed(&self.scale_downs, period);
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
    pub(super) fn record_scale_event(
        &mut self,
        from: i64,
        to: i64,
        behavior: Option<&ScalingBehavior>,
        now: Time,
    ) {
        let Some(behavior) = behavior else { return };
        let (changes, rules) = if to > from {
            (&mut self.scale_ups, &behavior.scale_up)
        } else {
            (&mut self.scale_downs, &behavior.scale_down)
        };
        let periods = rules.iter().flat_map(|rules| &rules.policies).map(|policy| policy.period_seconds);
        let oldest = now.before(seconds(periods.max().unwrap_or(0)));
        changes.retain(|(_, at)| *at >= oldest);
        changes.truncate(HISTORY_MAX);
        changes.push(((to - from).abs(), now));
    }
}
