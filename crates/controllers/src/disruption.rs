//! Disruption controller: status of PodDisruptionBudgets.
//!
//! The status has the expected, the desired and the current healthy pods, and the number of allowed
//! disruptions. A pod whose eviction was granted counts as gone until it is deleted, or for two minutes. The
//! condition `DisruptionTarget` of a pod that is not deleted within two minutes is reset.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use setpoint_api::{Key, Time, Value, format_label_selector, rfc3339, value};
use setpoint_reconcile::plan::{InvolvedObject, value_of};
use setpoint_reconcile::planner::SERVED_LATER;
use setpoint_reconcile::{
    Action, EventRecord, Object, Plan, Planner, Seed, Seen, View, Watch, WorldReader, Write, int32,
};
use setpoint_views::pod::Pod;
use setpoint_views::pod_disruption_budget::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use setpoint_views::{Condition, IntOrString, condition};

use crate::indexes::DISRUPTION_TARGETS;
use crate::{conditions, event_dedup, pods, scale};

/// Time for a pod to be deleted after its eviction was granted.
const DELETION_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum age of the condition `DisruptionTarget` of a pod that is not deleted.
const STALE_DISRUPTION_TIMEOUT: Duration = Duration::from_secs(120);

/// The disruption controller.
pub struct DisruptionController;

impl Planner for DisruptionController {
    /// Events emitted by the last plan.
    type Memo = Vec<EventRecord>;

    fn name(&self) -> &'static str {
        "disruption-controller"
    }

    fn source(&self) -> &'static str {
        "controllermanager"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 7] = [
            Watch::primary(PodDisruptionBudget::RESOURCE),
            Watch::mapped(Pod::RESOURCE, enqueue_for_pod),
            Watch::mapped("deployments.apps", enqueue_for_owner),
            Watch::mapped("replicasets.apps", enqueue_for_owner),
            Watch::mapped("replicationcontrollers", enqueue_for_owner),
            Watch::mapped("statefulsets.apps", enqueue_for_owner),
            Watch::mapped(SERVED_LATER, enqueue_for_owner),
        ];
        &WATCHES
    }

    fn keys(&self, world: &WorldReader<'_>) -> Vec<Key> {
        let disruption_targets = world.by_index(DISRUPTION_TARGETS, "");
        world
            .all(PodDisruptionBudget::RESOURCE)
            .chain(disruption_targets)
            .map(|object| object.key().clone())
            .collect()
    }

    fn plan(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        seen: &Seen<'_, Vec<EventRecord>>,
        now: Time,
        _: Seed,
    ) -> Plan<Vec<EventRecord>> {
        let Some(object) = world.get(key) else { return Plan::default() };
        if let Some(pod) = object.view::<Pod>() {
            return sync_stale_disruption(object, pod, now);
        }
        let Some(budget) = object.view::<PodDisruptionBudget>() else { return Plan::default() };
        let mut plan = Plan::default();
        let mut sync = BudgetSync::new(world, object, budget, now);
        let status = sync.status();
        if status != budget.status {
            let mut patch = value_of(&status);
            if !status.disrupted_pods.is_empty() {
                // A merge patch keeps keys that it does not name, so expired pods are removed by `null`.
                let gone = budget.status.disrupted_pods.keys();
                for name in gone.filter(|name| !status.disrupted_pods.contains_key(*name)) {
                    patch.ensure_map("disruptedPods").insert(name.as_str(), Value::Null);
                }
            }
            plan.stage([Action::from(Write::status(object, patch))]);
        }
        plan.requeue_at = sync.requeue_at;
        plan.events = event_dedup::new_events(&sync.events, &seen.memo);
        plan.memo = sync.events;
        plan
    }
}

/// Time of the condition `DisruptionTarget`, if the pod is not deleted.
pub(crate) fn disruption_target_since(object: &Object, pod: &Pod) -> Option<Time> {
    if object.meta().is_deleted() || pod.is_finished() {
        return None;
    }
    let target = condition(&pod.status.conditions, "DisruptionTarget").filter(|target| target.is_true())?;
    // The kubelet carries out its own terminations.
    if target.reason == "TerminationByKubelet" {
        return None;
    }
    Some(target.last_transition_time.unwrap_or(Time::EPOCH))
}

/// Resets a stale condition `DisruptionTarget`.
fn sync_stale_disruption(object: &Object, pod: &Pod, now: Time) -> Plan<Vec<EventRecord>> {
    let mut plan = Plan::default();
    let Some(end) = disruption_target_since(object, pod).map(|since| since.after(STALE_DISRUPTION_TIMEOUT))
    else {
        return plan;
    };
    if end > now {
        plan.requeue_at(end);
        return plan;
    }
    let time = rfc3339::Seconds(now).to_string();
    let reset = value!({
        "type": "DisruptionTarget", "status": "False", "lastTransitionTime": (time),
        "reason": (Value::Null), "message": (Value::Null),
    });
    let patch = value!({"status": {"conditions": [(reset)]}});
    plan.stage([Action::from(Write::merge(object, "status", patch).strategic())]);
    plan
}

/// Enqueues the budgets that select a pod, and the pod itself if it has the condition `DisruptionTarget`.
fn enqueue_for_pod(pod: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    if pod.view::<Pod>().is_some_and(|view| disruption_target_since(pod, view).is_some()) {
        enqueue(pod.key().clone());
    }
    for budget in world.in_namespace(PodDisruptionBudget::RESOURCE, &pod.meta().namespace) {
        let selects =
            |budget: &PodDisruptionBudget| budget.spec.selector.matches(|name| pod.meta().labels.get(name));
        if budget.view::<PodDisruptionBudget>().is_some_and(selects) {
            enqueue(budget.key().clone());
        }
    }
}

/// Enqueues the budgets in the namespace of an owner of pods.
fn enqueue_for_owner(owner: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    for budget in world.in_namespace(PodDisruptionBudget::RESOURCE, &owner.meta().namespace) {
        enqueue(budget.key().clone());
    }
}

/// Sync context of one budget.
struct BudgetSync<'a> {
    world: &'a WorldReader<'a>,
    object: &'a Object,
    budget: &'a PodDisruptionBudget,
    pods: Vec<pods::PodRef<'a>>,
    events: Vec<EventRecord>,
    requeue_at: Option<Time>,
    now: Time,
}

/// Expected number of pods, and desired number of healthy ones.
struct ExpectedPods {
    expected: i64,
    desired_healthy: i64,
    has_unmanaged: bool,
}

impl<'a> BudgetSync<'a> {
    fn new(
        world: &'a WorldReader<'a>,
        object: &'a Object,
        budget: &'a PodDisruptionBudget,
        now: Time,
    ) -> BudgetSync<'a> {
        let pods = pods::select_pods(world, &object.meta().namespace, &budget.spec.selector);
        BudgetSync { world, object, budget, pods, events: Vec::new(), requeue_at: None, now }
    }

    fn subject(&self) -> InvolvedObject {
        InvolvedObject::new(self.object, "policy/v1", "PodDisruptionBudget")
    }

    fn status(&mut self) -> PodDisruptionBudgetStatus {
        if self.pods.is_empty() {
            self.events.push(self.subject().normal("NoPods", "No matching pods found"));
        }
        let desired = match self.expected_pods() {
            Ok(desired) => desired,
            Err(error) => return self.fail_safe_status(&error),
        };
        if desired.has_unmanaged {
            let message = self.unmanaged_message();
            self.events.push(self.subject().warning("UnmanagedPods", message));
        }
        let disrupted = self.disrupted();
        let is_healthy = |(object, pod): &&pods::PodRef<'_>| {
            !object.meta().is_deleted() && !disrupted.contains_key(&*object.meta().name) && pod.is_ready()
        };
        let healthy = to_i64(self.pods.iter().filter(is_healthy).count());
        let allowed = if desired.expected > 0 { (healthy - desired.desired_healthy).max(0) } else { 0 };
        let generation = self.object.meta().generation;
        let mut status = PodDisruptionBudgetStatus {
            observed_generation: Some(generation),
            disrupted_pods: disrupted,
            disruptions_allowed: allowed,
            current_healthy: healthy,
            desired_healthy: desired.desired_healthy,
            expected_pods: desired.expected,
            conditions: self.budget.status.conditions.clone(),
        };
        let (is, reason) =
            if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
        let condition = Condition::new("DisruptionAllowed", is, reason, "", self.now);
        conditions::set_condition(
            &mut status.conditions,
            Condition { observed_generation: Some(generation), ..condition },
        );
        status
    }

    /// Allows no disruptions if the expected number of pods is unknown.
    fn fail_safe_status(&mut self, error: &str) -> PodDisruptionBudgetStatus {
        let message = format!("Failed to calculate the number of expected pods: {error}");
        self.events.push(self.subject().warning("CalculateExpectedPodCountFailed", message));
        let mut status = self.budget.status.clone();
        status.disruptions_allowed = 0;
        let condition = Condition::new("DisruptionAllowed", "False", "SyncFailed", error, self.now);
        let observed_generation = status.observed_generation;
        conditions::set_condition(&mut status.conditions, Condition { observed_generation, ..condition });
        status
    }

    fn expected_pods(&self) -> Result<ExpectedPods, String> {
        let spec = &self.budget.spec;
        let resolve = |bound: &IntOrString, total: i64| {
            let text = || match bound {
                IntOrString::Text(text) => text.clone(),
                IntOrString::Int(number) => number.to_string(),
            };
            bound.scaled(total, true).ok_or_else(|| format!("invalid value for IntOrString: {}", text()))
        };
        if let Some(max) = &spec.max_unavailable {
            let (expected, has_unmanaged) = self.expected_scale()?;
            return Ok(ExpectedPods {
                expected,
                desired_healthy: (expected - resolve(max, expected)?).max(0),
                has_unmanaged,
            });
        }
        match &spec.min_available {
            Some(IntOrString::Int(min)) => Ok(ExpectedPods {
                expected: to_i64(self.pods.len()),
                desired_healthy: *min,
                has_unmanaged: false,
            }),
            Some(min) => {
                let (expected, has_unmanaged) = self.expected_scale()?;
                Ok(ExpectedPods { expected, desired_healthy: resolve(min, expected)?, has_unmanaged })
            }
            None => Ok(ExpectedPods { expected: 0, desired_healthy: 0, has_unmanaged: false }),
        }
    }

    /// Sum of the scales of the pods' controllers, and `true` if some pods have no controller.
    fn expected_scale(&self) -> Result<(i64, bool), String> {
        let mut scales: BTreeMap<Box<str>, i64> = BTreeMap::new();
        let mut owners: BTreeSet<&str> = BTreeSet::new();
        let mut has_unmanaged = false;
        for (pod, _) in &self.pods {
            let Some(owner) = pod.meta().controller() else {
                has_unmanaged = true;
                continue;
            };
            if owners.insert(&owner.uid) {
                let found = self.find_scale(owner, &pod.meta().namespace)?;
                let (uid, replicas) =
                    found.ok_or_else(|| format!("found no controllers for pod \"{}\"", pod.meta().name))?;
                scales.insert(uid, replicas);
            }
        }
        Ok((int32::saturate(scales.values().sum()), has_unmanaged))
    }

    /// Controller that decides the number of pods: of a ReplicaSet, its Deployment.
    fn find_scale(
        &self,
        owner: &'a setpoint_reconcile::OwnerReference,
        namespace: &str,
    ) -> Result<Option<(Box<str>, i64)>, String> {
        let found = scale::find(self.world, &owner.api_version, &owner.kind, namespace, &owner.name)?;
        let Some(found) = found.filter(|scale| scale.object.meta().uid == owner.uid) else { return Ok(None) };
        let parent = found.object.meta().controller().filter(|_| &*owner.kind == "ReplicaSet");
        match parent.filter(|parent| &*parent.kind == "Deployment") {
            Some(parent) => self.find_scale(parent, namespace),
            None => Ok(Some((owner.uid.clone(), found.replicas))),
        }
    }

    /// Pods whose eviction was granted and that still exist. Pods past [`DELETION_TIMEOUT`] are healthy
    /// again.
    fn disrupted(&mut self) -> BTreeMap<String, String> {
        let recorded = &self.budget.status.disrupted_pods;
        let mut disrupted = BTreeMap::new();
        for (pod, _) in self.pods.iter().filter(|(pod, _)| !pod.meta().is_deleted()) {
            let name: &str = &pod.meta().name;
            let Some(since) = recorded.get(name) else { continue };
            let end = rfc3339::parse(since).unwrap_or(Time::EPOCH).after(DELETION_TIMEOUT);
            if end > self.now {
                self.requeue_at = Some(self.requeue_at.map_or(end, |earlier| earlier.min(end)));
                disrupted.insert(name.to_owned(), since.clone());
            } else {
                let path = self.object.key().path();
                let message = format!("Pod was expected by PDB {path} to be deleted but it wasn't");
                self.events.push(InvolvedObject::new(pod, "v1", "Pod").warning("NotDeleted", message));
            }
        }
        disrupted
    }

    fn unmanaged_message(&self) -> String {
        let budget = self.object.value();
        let selector = format_label_selector(budget.at(&["spec", "selector"]).unwrap_or(&Value::Null));
        format!(
            "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. As a \
             result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. \
             To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value."
        )
    }
}

fn to_i64(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
