//! HorizontalPodAutoscaler: scales a target to the number of pods that its metrics require.
//!
//! Every 15 seconds each metric is queried. When all answers are there, the highest proposal is stabilized,
//! limited by the scaling policies and by `minReplicas` and `maxReplicas`, and written to the target. A
//! number of pods outside of that range is corrected at once, without metrics.

mod ambiguous_selector;
mod behavior;
mod metrics;
mod replica_calculator;

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_api::labels::Selector;
use setpoint_api::quantity::Quantity;
use setpoint_api::{Key, Time, Value, value};
use setpoint_reconcile::plan::{InvolvedObject, value_of};
use setpoint_reconcile::planner::QueryAnswer;
use setpoint_reconcile::planner::SERVED_LATER;
use setpoint_reconcile::{
    Action, EventRecord, Failure, Jump, Object, Plan, Planner, Seed, Seen, View, Watch, WorldReader, Write,
};
use setpoint_views::Condition;
use setpoint_views::horizontal_pod_autoscaler::{HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus};

use crate::scale::{self, Scale};
use crate::{conditions, event_dedup, pods};
use behavior::{ReplicaBounds, ScaleHistory};
use metrics::{MetricError, MetricProposal};
use replica_calculator::{ReplicaCalculator, Tolerances};

/// Interval of metric queries.
const SYNC_PERIOD: Duration = Duration::from_secs(15);
/// Default tolerance.
const TOLERANCE: f64 = 0.1;

/// The horizontal pod autoscaler.
pub struct HorizontalPodAutoscalerController;

/// Memo of an autoscaler.
#[derive(Clone, Default)]
pub struct AutoscalerMemo {
    history: ScaleHistory,
    /// Time of the last metric queries, and the generation they were made for.
    queried: Option<(Time, i64)>,
    /// Time of the last evaluation of the answers.
    evaluated: Option<Time>,
    /// Events emitted by the last plan.
    emitted: Vec<EventRecord>,
}

impl Planner for HorizontalPodAutoscalerController {
    type Memo = AutoscalerMemo;

    fn name(&self) -> &'static str {
        "horizontal-pod-autoscaler"
    }

    fn clock_jumped(&self, memo: &mut AutoscalerMemo, jump: Jump, _: Time) {
        memo.history.clock_jumped(jump);
        memo.queried = memo.queried.map(|(at, generation)| (jump.shift(at), generation));
        memo.evaluated = memo.evaluated.map(|at| jump.shift(at));
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 6] = [
            Watch::primary(HorizontalPodAutoscaler::RESOURCE),
            Watch::mapped("deployments.apps", enqueue_for_target),
            Watch::mapped("replicasets.apps", enqueue_for_target),
            Watch::mapped("replicationcontrollers", enqueue_for_target),
            Watch::mapped("statefulsets.apps", enqueue_for_target),
            Watch::mapped(SERVED_LATER, enqueue_for_target),
        ];
        &WATCHES
    }

    fn plan(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        seen: &Seen<'_, AutoscalerMemo>,
        now: Time,
        _: Seed,
    ) -> Plan<AutoscalerMemo> {
        let mut plan = Plan { memo: seen.memo.clone(), ..Plan::default() };
        let Some(object) = world.get(key).filter(|object| !object.meta().is_deleted()) else { return plan };
        let Some(autoscaler) = object.view::<HorizontalPodAutoscaler>() else { return plan };
        let sync = AutoscalerSync {
            world,
            object,
            autoscaler,
            status: autoscaler.status.clone(),
            memo: seen.memo.clone(),
            events: Vec::new(),
            now,
        };
        sync.plan(&mut plan, seen.answers, seen.failure);
        plan
    }
}

/// Enqueues the autoscalers of a changed scale target.
fn enqueue_for_target(target: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    for autoscaler in world.in_namespace(HorizontalPodAutoscaler::RESOURCE, &target.meta().namespace) {
        let targets = |autoscaler: &HorizontalPodAutoscaler| {
            *autoscaler.spec.scale_target_ref.name == *target.meta().name
        };
        if autoscaler.view::<HorizontalPodAutoscaler>().is_some_and(targets) {
            enqueue(autoscaler.key().clone());
        }
    }
}

/// Sync context of one autoscaler.
struct AutoscalerSync<'a> {
    world: &'a WorldReader<'a>,
    object: &'a Object,
    autoscaler: &'a HorizontalPodAutoscaler,
    status: HorizontalPodAutoscalerStatus,
    memo: AutoscalerMemo,
    events: Vec<EventRecord>,
    now: Time,
}

/// Combined result of all metrics.
struct MetricsResult {
    replicas: Option<i64>,
    /// Metric with the highest proposal.
    name: String,
    statuses: Vec<Value>,
}

/// Decision about the number of pods.
struct Rescale {
    replicas: i64,
    reason: String,
}

impl<'a> AutoscalerSync<'a> {
    fn plan(
        mut self,
        plan: &mut Plan<AutoscalerMemo>,
        answers: &BTreeMap<String, QueryAnswer>,
        failure: Option<&Failure>,
    ) {
        let step = self.compute_rescale(plan, answers, failure);
        if let Some((target, step)) = &step {
            let subject = InvolvedObject::new(self.object, "autoscaling/v2", "HorizontalPodAutoscaler");
            let size = format!("New size: {}; reason: {}", step.replicas, step.reason);
            let patch = value!({"spec": {"replicas": (step.replicas)}});
            let action = Action::from(Write::merge(target, "scale", patch).at_any_revision())
                .on_done(subject.normal("SuccessfulRescale", size.clone()))
                .on_failed(subject.warning("FailedRescale", format!("{size}; error: {{error}}")));
            plan.stage([action]);
        }
        if self.status != self.autoscaler.status {
            let mut status = value_of(&self.status);
            let metrics = self.status.current_metrics.clone();
            status.make_map().insert(
                "currentMetrics",
                if metrics.is_empty() { Value::Null } else { Value::List(metrics) },
            );
            plan.stage([Action::from(Write::status(self.object, status))]);
        }
        plan.events = event_dedup::new_events(&self.events, &self.memo.emitted);
        // Between two evaluations no Event is emitted, and the memo stays.
        if !self.events.is_empty() || self.memo.evaluated == Some(self.now) {
            self.memo.emitted = self.events;
        }
        plan.memo = self.memo;
    }

    /// Decides the number of pods; `None` if it does not change, or is not known yet.
    fn compute_rescale(
        &mut self,
        plan: &mut Plan<AutoscalerMemo>,
        answers: &BTreeMap<String, QueryAnswer>,
        failure: Option<&Failure>,
    ) -> Option<(Object, Rescale)> {
        plan.requeue_at(self.now.after(SYNC_PERIOD));
        let target = match self.target() {
            Ok(target) => target,
            Err(error) => {
                self.record_warning("FailedGetScale", error.clone());
                let message =
                    format!("the HPA controller was unable to get the target's current scale: {error}");
                self.set_condition("AbleToScale", "False", "FailedGetScale", &message);
                return None;
            }
        };
        if let Some(failure) = failure.filter(|failure| failure.resource == *target.object.key().resource()) {
            let message =
                format!("the HPA controller was unable to update the target scale: {}", failure.message);
            self.set_condition("AbleToScale", "False", "FailedUpdateScale", &message);
            return None;
        }
        let current = target.replicas;
        let (min, max) = (self.autoscaler.spec.min_replicas.unwrap_or(1), self.autoscaler.spec.max_replicas);
        self.memo.history.record_initial(current, self.now);
        let correct_to = |replicas: i64, reason: &str| Some(Rescale { replicas, reason: reason.to_owned() });
        let step = if current == 0 && !self.can_scale_from_zero(min) {
            let message = "scaling is disabled since the replica count of the target is zero";
            self.set_able_to_scale(
                "SucceededGetScale",
                "the HPA controller was able to get the target's current scale",
            );
            self.set_condition("ScalingActive", "False", "ScalingDisabled", message);
            self.set_replica_status(current, 0, Vec::new());
            None
        } else if current > max {
            correct_to(max, "Current number of replicas above Spec.MaxReplicas")
        } else if current != 0 && current < min {
            correct_to(min, "Current number of replicas below Spec.MinReplicas")
        } else {
            let result = self.compute_metrics(&target, plan, answers)?;
            return self.apply_proposal(&target, result, ReplicaBounds { current, min, max });
        };
        let step = step?;
        self.set_rescaled(current, step.replicas, min, Vec::new());
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
    fn can_scale_from_zero(&self, min: i64) -> bool {
        let zero = setpoint_views::condition(&self.status.conditions, "ScaledToZero");
        zero.is_some_and(Condition::is_true) && (min != 0 || self.has_object_or_external_metric())
    }

    fn has_object_or_external_metric(&self) -> bool {
        let metrics = &self.autoscaler.spec.metrics;
        metrics.iter().any(|metric| matches!(metric.kind.as_str(), "Object" | "External"))
    }

    /// Queries the metrics when they are due, and evaluates the answers when they are complete.
    fn compute_metrics(
        &mut self,
        target: &Scale<'_>,
        plan: &mut Plan<AutoscalerMemo>,
        answers: &BTreeMap<String, QueryAnswer>,
    ) -> Option<MetricsResult> {
        let spec = &self.autoscaler.spec;
        let generation = self.object.meta().generation;
        let Some(selector) = &target.selector else {
            self.record_warning("SelectorRequired", "selector is required");
            self.set_condition(
                "ScalingActive",
                "False",
                "InvalidSelector",
                "the HPA target's scale is missing a selector",
            );
            return None;
        };
        let id = |at: usize| format!("{generation}/{at}");
        let queried =
            self.memo.queried.filter(|(at, of)| *of == generation && at.after(SYNC_PERIOD) > self.now);
        let Some((queried, _)) = queried else {
            if self.is_ambiguous(selector, target.replicas) {
                return None;
            }
            self.memo.queried = Some((self.now, generation));
            let (namespace, selector) = (&self.object.meta().namespace, selector.to_string());
            let metrics = spec.metrics.iter().enumerate();
            plan.queries.extend(
                metrics.map(|(at, metric)| metrics::build_query(id(at), metric, namespace, &selector)),
            );
            return None;
        };
        // Waits for missing answers, and evaluates each set of answers once.
        if self.memo.evaluated.is_some_and(|evaluated| evaluated >= queried) {
            plan.requeue_at = Some(queried.after(SYNC_PERIOD));
            return None;
        }
        let current_answer = |at: usize| answers.get(&id(at)).filter(|answer| answer.at >= queried);
        let all: Option<Vec<&QueryAnswer>> = (0..spec.metrics.len()).map(current_answer).collect();
        plan.requeue_at = Some(queried.after(SYNC_PERIOD));
        let all = all?;
        self.memo.evaluated = Some(self.now.max(queried));
        let calculator = self.replica_calculator(target);
        let proposals = spec.metrics.iter().zip(all).map(|(metric, answered)| {
            metrics::compute_proposal(metric, answered, &calculator, target.current)
        });
        let proposals: Vec<Result<MetricProposal, MetricError>> = proposals.collect();
        Some(self.combine_proposals(proposals, target.replicas))
    }

    /// Returns `true` if other autoscalers control pods of the target too, and sets the condition.
    fn is_ambiguous(&mut self, selector: &Selector, current: i64) -> bool {
        let all =
            ambiguous_selector::controlling_autoscalers(self.world, &self.object.meta().namespace, selector);
        if all.len() < 2 {
            return false;
        }
        let all = all.join(" ");
        let message = format!("pods by selector {selector} are controlled by multiple HPAs: [{all}]");
        self.set_able_to_scale(
            "SucceededGetScale",
            "the HPA controller was able to get the target's current scale",
        );
        self.set_condition("ScalingActive", "False", "AmbiguousSelector", &message);
        self.record_warning("AmbiguousSelector", message.clone());
        self.record_warning("FailedComputeMetricsReplicas", message);
        let desired = self.status.desired_replicas;
        self.set_replica_status(current, desired, Vec::new());
        true
    }

    fn replica_calculator(&self, target: &Scale<'_>) -> ReplicaCalculator<'a> {
        let selector = target.selector.as_ref().unwrap_or(&Selector::Nothing);
        let behavior = self.autoscaler.spec.behavior.as_ref();
        let tolerance = |rules: Option<&setpoint_views::horizontal_pod_autoscaler::ScalingRules>| {
            let text = rules.and_then(|rules| rules.tolerance.as_ref());
            text.and_then(|text| Quantity::parse(text).ok()).map_or(TOLERANCE, Quantity::to_f64)
        };
        ReplicaCalculator {
            pods: pods::select_pods(self.world, &self.object.meta().namespace, selector),
            current: target.replicas,
            tolerances: Tolerances {
                down: tolerance(behavior.and_then(|behavior| behavior.scale_down.as_ref())),
                up: tolerance(behavior.and_then(|behavior| behavior.scale_up.as_ref())),
            },
            now: self.now,
        }
    }

    /// Takes the highest proposal. If some metrics are unknown, the target may only be scaled up.
    fn combine_proposals(
        &mut self,
        proposals: Vec<Result<MetricProposal, MetricError>>,
        current: i64,
    ) -> MetricsResult {
        let count = proposals.len();
        let mut result = MetricsResult { replicas: None, name: String::new(), statuses: Vec::new() };
        let mut errors = Vec::new();
        for proposal in proposals {
            match proposal {
                Ok(MetricProposal { replicas, name, status }) => {
                    result.statuses.push(status);
                    if result.replicas.is_none_or(|highest| highest == 0 || replicas > highest) {
                        (result.replicas, result.name) = (Some(replicas), name);
                    }
                }
                Err(error) => {
                    result.statuses.push(value!({"type": ""}));
                    self.record_warning(error.reason, error.cause.clone());
                    errors.push(error);
                }
            }
        }
        if let Some(first) = errors.first()
            && result.replicas.is_none_or(|highest| highest < current)
        {
            let message = format!("the HPA was unable to compute the replica count: {}", first.cause);
            self.set_able_to_scale(
                "SucceededGetScale",
                "the HPA controller was able to get the target's current scale",
            );
            self.set_condition("ScalingActive", "False", first.reason, &message);
            let failed = errors.len();
            let first = &first.message;
            let message =
                format!("invalid metrics ({failed} invalid out of {count}), first error is: {first}");
            self.record_warning("FailedComputeMetricsReplicas", message);
            result.replicas = None;
        }
        result
    }

    /// Scales to the proposal, within the limits.
    fn apply_proposal(
        &mut self,
        target: &Scale<'_>,
        result: MetricsResult,
        bounds: ReplicaBounds,
    ) -> Option<(Object, Rescale)> {
        let ReplicaBounds { current, min, .. } = bounds;
        let Some(proposed) = result.replicas else {
            let desired = self.status.desired_replicas;
            self.set_replica_status(current, desired, result.statuses);
            return None;
        };
        let found =
            format!("the HPA was able to successfully calculate a replica count from {}", result.name);
        self.set_condition("ScalingActive", "True", "ValidMetricFound", &found);
        let behavior = self.autoscaler.spec.behavior.as_ref();
        let stable = self.memo.history.stabilize(proposed, current, behavior, self.now);
        self.set_able_to_scale(stable.reason, stable.message);
        let limited = self.memo.history.limit(stable.replicas, bounds, behavior, self.now);
        let is_limited = if limited.replicas == stable.replicas { "False" } else { "True" };
        self.set_condition("ScalingLimited", is_limited, limited.reason, limited.message);
        let desired = if current == 0 { limited.replicas.max(min) } else { limited.replicas };
        if desired == current {
            self.set_replica_status(current, current, result.statuses);
            return None;
        }
        let reason = match proposed.cmp(&current) {
            std::cmp::Ordering::Greater => format!("{} above target", result.name),
            std::cmp::Ordering::Less => "All metrics below target".to_owned(),
            std::cmp::Ordering::Equal => String::new(),
        };
        self.set_rescaled(current, desired, min, result.statuses);
        Some((target.object.clone(), Rescale { replicas: desired, reason }))
    }

    /// Sets the status and Event of a rescale.
    fn set_rescaled(&mut self, current: i64, desired: i64, min: i64, statuses: Vec<Value>) {
        self.memo.history.record_scale_event(
            current,
            desired,
            self.autoscaler.spec.behavior.as_ref(),
            self.now,
        );
        let message = format!("the HPA controller was able to update the target scale to {desired}");
        self.set_able_to_scale("SucceededRescale", &message);
        if current > 0 && desired == 0 && min == 0 && self.has_object_or_external_metric() {
            let message = "the HPA controller scaled the workload to zero";
            self.set_condition("ScaledToZero", "True", "ScaledToZero", message);
        } else {
            let message = "the HPA controller did not scale the workload to zero";
            self.set_condition("ScaledToZero", "False", "NotScaledToZero", message);
        }
        self.status.last_scale_time = Some(self.now);
        self.set_replica_status(current, desired, statuses);
    }

    /// Sets the observed and the desired number of pods.
    fn set_replica_status(&mut self, current: i64, desired: i64, statuses: Vec<Value>) {
        self.status.observed_generation = Some(self.object.meta().generation);
        self.status.current_replicas = (current > 0).then_some(current);
        self.status.desired_replicas = desired;
        self.status.current_metrics = statuses;
    }

    fn set_able_to_scale(&mut self, reason: &str, message: &str) {
        self.set_condition("AbleToScale", "True", reason, message);
    }

    fn set_condition(&mut self, kind: &str, is: &str, reason: &str, message: &str) {
        conditions::set_condition(
            &mut self.status.conditions,
            Condition::new(kind, is, reason, message, self.now),
        );
    }

    fn record_warning(&mut self, reason: &'static str, message: impl Into<String>) {
        let subject = InvolvedObject::new(self.object, "autoscaling/v2", "HorizontalPodAutoscaler");
        self.events.push(subject.warning(reason, message));
    }
}

#[cfg(test)]
mod tests;
