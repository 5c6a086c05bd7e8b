//! HorizontalPodAutoscaler: scales a target to the number of pods that its metrics require.
//!
//! Every 15 seconds each metric is queried. When all answers are there, the highest proposal is stabilized,
//! limited by the scaling policies and by `minReplicas` and `maxReplicas`, and written to the target. A
//! number of pods outside of that range is corrected at once, without metrics.

mod metrics;
mod overlap;
mod pace;
mod usage;

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_api::labels::Selector;
use setpoint_api::quantity::Quantity;
use setpoint_api::{Key, Time, Value, value};
use setpoint_reconcile::plan::{Subject, value_of};
use setpoint_reconcile::planner::Answered;
use setpoint_reconcile::{
    Act, Failure, Jump, Note, Object, Plan, Planner, Seed, Seen, View, Watch, WorldReader, Write,
};
use setpoint_views::Condition;
use setpoint_views::horizontal_pod_autoscaler::{HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus};

use crate::scale::{self, Scale};
use crate::{conditions, pods, said};
use metrics::{Fault, Proposal};
use pace::{Past, Range};
use usage::{Crowd, Tolerances};

/// Interval of metric queries.
const PERIOD: Duration = Duration::from_secs(15);
/// Default tolerance.
const TOLERANCE: f64 = 0.1;

/// The horizontal pod autoscaler.
pub struct HorizontalPodAutoscalerController;

/// Memo of an autoscaler.
#[derive(Clone, Default)]
pub struct Memory {
    past: Past,
    /// Time of the last metric queries, and the generation they were made for.
    asked: Option<(Time, i64)>,
    /// Time of the last evaluation of the answers.
    weighed: Option<Time>,
    /// Events emitted by the last plan.
    said: Vec<Note>,
}

impl Planner for HorizontalPodAutoscalerController {
    type Memo = Memory;

    fn name(&self) -> &'static str {
        "horizontal-pod-autoscaler"
    }

    fn clock_jumped(&self, memo: &mut Memory, jump: Jump, _: Time) {
        memo.past.clock_jumped(jump);
        memo.asked = memo.asked.map(|(at, generation)| (jump.shift(at), generation));
        memo.weighed = memo.weighed.map(|at| jump.shift(at));
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 5] = [
            Watch::itself(HorizontalPodAutoscaler::RESOURCE),
            Watch::via("deployments.apps", of_target),
            Watch::via("replicasets.apps", of_target),
            Watch::via("replicationcontrollers", of_target),
            Watch::via("statefulsets.apps", of_target),
        ];
        &WATCHES
    }

    fn plan(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        seen: &Seen<'_, Memory>,
        now: Time,
        _: Seed,
    ) -> Plan<Memory> {
        let mut plan = Plan { memo: seen.memo.clone(), ..Plan::default() };
        let Some(object) = world.get(key).filter(|object| !object.meta().is_deleted()) else { return plan };
        let Some(autoscaler) = object.view::<HorizontalPodAutoscaler>() else { return plan };
        let look = Look {
            world,
            object,
            autoscaler,
            status: autoscaler.status.clone(),
            memo: seen.memo.clone(),
            said: Vec::new(),
            now,
        };
        look.plan(&mut plan, seen.answers, seen.failure);
        plan
    }
}

/// Enqueues the autoscalers of a changed scale target.
fn of_target(target: &Object, world: &WorldReader<'_>, wake: &mut dyn FnMut(Key)) {
    for autoscaler in world.in_namespace(HorizontalPodAutoscaler::RESOURCE, &target.meta().namespace) {
        let is_its = |one: &HorizontalPodAutoscaler| *one.spec.scale_target_ref.name == *target.meta().name;
        if autoscaler.view::<HorizontalPodAutoscaler>().is_some_and(is_its) {
            wake(autoscaler.key().clone());
        }
    }
}

/// Sync context of one autoscaler.
struct Look<'a> {
    world: &'a WorldReader<'a>,
    object: &'a Object,
    autoscaler: &'a HorizontalPodAutoscaler,
    status: HorizontalPodAutoscalerStatus,
    memo: Memory,
    said: Vec<Note>,
    now: Time,
}

/// Combined result of all metrics.
struct Sum {
    replicas: Option<i64>,
    /// Metric with the highest proposal.
    name: String,
    statuses: Vec<Value>,
}

/// Decision about the number of pods.
struct Step {
    replicas: i64,
    why: String,
}

impl<'a> Look<'a> {
    fn plan(
        mut self,
        plan: &mut Plan<Memory>,
        answers: &BTreeMap<String, Answered>,
        failure: Option<&Failure>,
    ) {
        let step = self.decide(plan, answers, failure);
        if let Some((target, step)) = &step {
            let subject = Subject::of(self.object, "autoscaling/v2", "HorizontalPodAutoscaler");
            let size = format!("New size: {}; reason: {}", step.replicas, step.why);
            let patch = value!({"spec": {"replicas": (step.replicas)}});
            let act = Act::from(Write::merge(target, "", patch).at_any_revision())
                .on_done(subject.normal("SuccessfulRescale", size.clone()))
                .on_failed(subject.warning("FailedRescale", format!("{size}; error: {{error}}")));
            plan.stage([act]);
        }
        if self.status != self.autoscaler.status {
            let mut status = value_of(&self.status);
            let metrics = self.status.current_metrics.clone();
            status.make_map().insert(
                "currentMetrics",
                if metrics.is_empty() { Value::Null } else { Value::List(metrics) },
            );
            plan.stage([Act::from(Write::status(self.object, status))]);
        }
        plan.notes = said::news(&self.said, &self.memo.said);
        // Between two evaluations no Event is emitted, and the memo stays.
        if !self.said.is_empty() || self.memo.weighed == Some(self.now) {
            self.memo.said = self.said;
        }
        plan.memo = self.memo;
    }

    /// Decides the number of pods; `None` if it does not change, or is not known yet.
    fn decide(
        &mut self,
        plan: &mut Plan<Memory>,
        answers: &BTreeMap<String, Answered>,
        failure: Option<&Failure>,
    ) -> Option<(Object, Step)> {
        plan.look_again_at(self.now.after(PERIOD));
        let target = match self.target() {
            Ok(target) => target,
            Err(error) => {
                self.warn("FailedGetScale", error.clone());
                let message =
                    format!("the HPA controller was unable to get the target's current scale: {error}");
                self.set("AbleToScale", "False", "FailedGetScale", &message);
                return None;
            }
        };
        if let Some(failure) = failure.filter(|failure| failure.resource == *target.object.key().resource()) {
            let message =
                format!("the HPA controller was unable to update the target scale: {}", failure.message);
            self.set("AbleToScale", "False", "FailedUpdateScale", &message);
            return None;
        }
        let current = target.replicas;
        let (min, max) = (self.autoscaler.spec.min_replicas.unwrap_or(1), self.autoscaler.spec.max_replicas);
        self.memo.past.begin(current, self.now);
        let mend = |replicas: i64, why: &str| Some(Step { replicas, why: why.to_owned() });
        let step = if current == 0 && !self.may_wake(min) {
            let message = "scaling is disabled since the replica count of the target is zero";
            self.able("SucceededGetScale", "the HPA controller was able to get the target's current scale");
            self.set("ScalingActive", "False", "ScalingDisabled", message);
            self.settle(current, 0, Vec::new());
            None
        } else if current > max {
            mend(max, "Current number of replicas above Spec.MaxReplicas")
        } else if current != 0 && current < min {
            mend(min, "Current number of replicas below Spec.MinReplicas")
        } else {
            let sum = self.weigh(&target, plan, answers)?;
            return self.follow(&target, sum, Range { current, min, max });
        };
        let step = step?;
        self.change(current, step.replicas, min, Vec::new());
        Some((target.object.clone(), step))
    }

    fn target(&self) -> Result<Scale<'a>, String> {
        let reference = &self.autoscaler.spec.scale_target_ref;
        let namespace = &self.object.meta().namespace;
        let found =
            scale::find(self.world, &reference.api_version, &reference.kind, namespace, &reference.name)?;
        let resource = scale::resource_of(self.world, &reference.api_version, &reference.kind)?;
        found.ok_or_else(|| format!("{resource} \"{}\" not found", reference.name))
    }

    /// `true` if a target with zero replicas may be scaled up: only if this autoscaler scaled it to zero.
    fn may_wake(&self, min: i64) -> bool {
        let zero = setpoint_views::condition(&self.status.conditions, "ScaledToZero");
        zero.is_some_and(Condition::is_true) && (min != 0 || self.has_outside_metric())
    }

    fn has_outside_metric(&self) -> bool {
        let metrics = &self.autoscaler.spec.metrics;
        metrics.iter().any(|metric| matches!(metric.kind.as_str(), "Object" | "External"))
    }

    /// Queries the metrics when they are due, and evaluates the answers when they are complete.
    fn weigh(
        &mut self,
        target: &Scale<'_>,
        plan: &mut Plan<Memory>,
        answers: &BTreeMap<String, Answered>,
    ) -> Option<Sum> {
        let spec = &self.autoscaler.spec;
        let generation = self.object.meta().generation;
        let Some(selector) = &target.selector else {
            self.warn("SelectorRequired", "selector is required");
            self.set(
                "ScalingActive",
                "False",
                "InvalidSelector",
                "the HPA target's scale is missing a selector",
            );
            return None;
        };
        let id = |at: usize| format!("{generation}/{at}");
        let asked = self.memo.asked.filter(|(at, of)| *of == generation && at.after(PERIOD) > self.now);
        let Some((asked, _)) = asked else {
            if self.is_ambiguous(selector, target.replicas) {
                return None;
            }
            self.memo.asked = Some((self.now, generation));
            let (namespace, selector) = (&self.object.meta().namespace, selector.to_string());
            let metrics = spec.metrics.iter().enumerate();
            plan.asks.extend(metrics.map(|(at, metric)| metrics::ask(id(at), metric, namespace, &selector)));
            return None;
        };
        // Waits for missing answers, and evaluates each set of answers once.
        if self.memo.weighed.is_some_and(|weighed| weighed >= asked) {
            plan.look_again = Some(asked.after(PERIOD));
            return None;
        }
        let fresh = |at: usize| answers.get(&id(at)).filter(|answer| answer.at >= asked);
        let all: Option<Vec<&Answered>> = (0..spec.metrics.len()).map(fresh).collect();
        plan.look_again = Some(asked.after(PERIOD));
        let all = all?;
        self.memo.weighed = Some(self.now.max(asked));
        let crowd = self.crowd(target);
        let proposals = spec
            .metrics
            .iter()
            .zip(all)
            .map(|(metric, answered)| metrics::propose(metric, answered, &crowd, target.current));
        let proposals: Vec<Result<Proposal, Fault>> = proposals.collect();
        Some(self.sum_up(proposals, target.replicas))
    }

    /// Returns `true` if other autoscalers control pods of the target too, and sets the condition.
    fn is_ambiguous(&mut self, selector: &Selector, current: i64) -> bool {
        let all = overlap::controlling(self.world, &self.object.meta().namespace, selector);
        if all.len() < 2 {
            return false;
        }
        let all = all.join(" ");
        let message = format!("pods by selector {selector} are controlled by multiple HPAs: [{all}]");
        self.able("SucceededGetScale", "the HPA controller was able to get the target's current scale");
        self.set("ScalingActive", "False", "AmbiguousSelector", &message);
        self.warn("AmbiguousSelector", message.clone());
        self.warn("FailedComputeMetricsReplicas", message);
        let desired = self.status.desired_replicas;
        self.settle(current, desired, Vec::new());
        true
    }

    fn crowd(&self, target: &Scale<'_>) -> Crowd<'a> {
        let selector = target.selector.as_ref().unwrap_or(&Selector::Nothing);
        let behavior = self.autoscaler.spec.behavior.as_ref();
        let tolerance = |rules: Option<&setpoint_views::horizontal_pod_autoscaler::ScalingRules>| {
            let text = rules.and_then(|rules| rules.tolerance.as_ref());
            text.and_then(|text| Quantity::parse(text).ok()).map_or(TOLERANCE, Quantity::to_f64)
        };
        Crowd {
            pods: pods::selected(self.world, &self.object.meta().namespace, selector),
            current: target.replicas,
            tolerances: Tolerances {
                down: tolerance(behavior.and_then(|behavior| behavior.scale_down.as_ref())),
                up: tolerance(behavior.and_then(|behavior| behavior.scale_up.as_ref())),
            },
            now: self.now,
        }
    }

    /// Takes the highest proposal. If some metrics are unknown, the target may only be scaled up.
    fn sum_up(&mut self, proposals: Vec<Result<Proposal, Fault>>, current: i64) -> Sum {
        let count = proposals.len();
        let mut sum = Sum { replicas: None, name: String::new(), statuses: Vec::new() };
        let mut faults = Vec::new();
        for proposal in proposals {
            match proposal {
                Ok(Proposal { replicas, name, status }) => {
                    sum.statuses.push(status);
                    if sum.replicas.is_none_or(|highest| highest == 0 || replicas > highest) {
                        (sum.replicas, sum.name) = (Some(replicas), name);
                    }
                }
                Err(fault) => {
                    sum.statuses.push(value!({"type": ""}));
                    self.warn(fault.reason, fault.cause.clone());
                    faults.push(fault);
                }
            }
        }
        if let Some(first) = faults.first()
            && sum.replicas.is_none_or(|highest| highest < current)
        {
            let message = format!("the HPA was unable to compute the replica count: {}", first.cause);
            self.able("SucceededGetScale", "the HPA controller was able to get the target's current scale");
            self.set("ScalingActive", "False", first.reason, &message);
            let failed = faults.len();
            let first = &first.message;
            let message =
                format!("invalid metrics ({failed} invalid out of {count}), first error is: {first}");
            self.warn("FailedComputeMetricsReplicas", message);
            sum.replicas = None;
        }
        sum
    }

    /// Scales to the proposal, within the limits.
    fn follow(&mut self, target: &Scale<'_>, sum: Sum, range: Range) -> Option<(Object, Step)> {
        let Range { current, min, .. } = range;
        let Some(proposed) = sum.replicas else {
            let desired = self.status.desired_replicas;
            self.settle(current, desired, sum.statuses);
            return None;
        };
        let found = format!("the HPA was able to successfully calculate a replica count from {}", sum.name);
        self.set("ScalingActive", "True", "ValidMetricFound", &found);
        let behavior = self.autoscaler.spec.behavior.as_ref();
        let stable = self.memo.past.stabilize(proposed, current, behavior, self.now);
        self.able(stable.reason, stable.message);
        let limited = self.memo.past.limit(stable.replicas, range, behavior, self.now);
        let is_limited = if limited.replicas == stable.replicas { "False" } else { "True" };
        self.set("ScalingLimited", is_limited, limited.reason, limited.message);
        let wanted = if current == 0 { limited.replicas.max(min) } else { limited.replicas };
        if wanted == current {
            self.settle(current, current, sum.statuses);
            return None;
        }
        let why = match proposed.cmp(&current) {
            std::cmp::Ordering::Greater => format!("{} above target", sum.name),
            std::cmp::Ordering::Less => "All metrics below target".to_owned(),
            std::cmp::Ordering::Equal => String::new(),
        };
        self.change(current, wanted, min, sum.statuses);
        Some((target.object.clone(), Step { replicas: wanted, why }))
    }

    /// Sets the status and Event of a rescale.
    fn change(&mut self, current: i64, wanted: i64, min: i64, statuses: Vec<Value>) {
        self.memo.past.note_change(current, wanted, self.autoscaler.spec.behavior.as_ref(), self.now);
        let message = format!("the HPA controller was able to update the target scale to {wanted}");
        self.able("SucceededRescale", &message);
        if current > 0 && wanted == 0 && min == 0 && self.has_outside_metric() {
            let message = "the HPA controller scaled the workload to zero";
            self.set("ScaledToZero", "True", "ScaledToZero", message);
        } else {
            let message = "the HPA controller did not scale the workload to zero";
            self.set("ScaledToZero", "False", "NotScaledToZero", message);
        }
        self.status.last_scale_time = Some(self.now);
        self.settle(current, wanted, statuses);
    }

    /// Sets the observed and the desired number of pods.
    fn settle(&mut self, current: i64, desired: i64, statuses: Vec<Value>) {
        self.status.observed_generation = Some(self.object.meta().generation);
        self.status.current_replicas = (current > 0).then_some(current);
        self.status.desired_replicas = desired;
        self.status.current_metrics = statuses;
    }

    fn able(&mut self, reason: &str, message: &str) {
        self.set("AbleToScale", "True", reason, message);
    }

    fn set(&mut self, kind: &str, is: &str, reason: &str, message: &str) {
        conditions::set(&mut self.status.conditions, Condition::new(kind, is, reason, message, self.now));
    }

    fn warn(&mut self, reason: &'static str, message: impl Into<String>) {
        let subject = Subject::of(self.object, "autoscaling/v2", "HorizontalPodAutoscaler");
        self.said.push(subject.warning(reason, message));
    }
}

#[cfg(test)]
mod tests;
