//! Disruption controller: status of PodDisruptionBudgets.
//!
//! The status has the expected, the desired and the current healthy pods, and the number of allowed
//! disruptions. A pod whose eviction was granted counts as gone until it is deleted, or for two minutes. The
//! condition `DisruptionTarget` of a pod that is not deleted within two minutes is reset.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use setpoint_api::{Key, Time, Value, rfc3339, value};
use setpoint_reconcile::plan::{Subject, value_of};
use setpoint_reconcile::{
    Act, Note, Object, Plan, Planner, Seed, Seen, View, Watch, WorldReader, Write, int32,
};
use setpoint_views::pod::Pod;
use setpoint_views::pod_disruption_budget::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use setpoint_views::{Condition, IntOrString, condition};

use crate::indexes::DISRUPTION_TARGETS;
use crate::{conditions, pods, said, scale};

/// Time for a pod to be deleted after its eviction was granted.
const DELETION_MAX: Duration = Duration::from_secs(120);
/// Maximum age of the condition `DisruptionTarget` of a pod that is not deleted.
const ANNOUNCED_MAX: Duration = Duration::from_secs(120);

/// The disruption controller.
pub struct DisruptionController;

impl Planner for DisruptionController {
    /// Events emitted by the last plan.
    type Memo = Vec<Note>;

    fn name(&self) -> &'static str {
        "disruption-controller"
    }

    fn source(&self) -> &'static str {
        "controllermanager"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 6] = [
            Watch::itself(PodDisruptionBudget::RESOURCE),
            Watch::via(Pod::RESOURCE, of_pod),
            Watch::via("deployments.apps", of_owner),
            Watch::via("replicasets.apps", of_owner),
            Watch::via("replicationcontrollers", of_owner),
            Watch::via("statefulsets.apps", of_owner),
        ];
        &WATCHES
    }

    fn keys(&self, world: &WorldReader<'_>) -> Vec<Key> {
        let announced = world.by_index(DISRUPTION_TARGETS, "");
        world.all(PodDisruptionBudget::RESOURCE).chain(announced).map(|object| object.key().clone()).collect()
    }

    fn plan(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        seen: &Seen<'_, Vec<Note>>,
        now: Time,
        _: Seed,
    ) -> Plan<Vec<Note>> {
        let Some(object) = world.get(key) else { return Plan::default() };
        if let Some(pod) = object.view::<Pod>() {
            return call_off(object, pod, now);
        }
        let Some(budget) = object.view::<PodDisruptionBudget>() else { return Plan::default() };
        let mut plan = Plan::default();
        let mut look = Look::new(world, object, budget, now);
        let status = look.status();
        if status != budget.status {
            let mut patch = value_of(&status);
            if !status.disrupted_pods.is_empty() {
                // A merge patch keeps keys that it does not name, so expired pods are removed by `null`.
                let gone = budget.status.disrupted_pods.keys();
                for name in gone.filter(|name| !status.disrupted_pods.contains_key(*name)) {
                    patch.ensure_map("disruptedPods").insert(name.as_str(), Value::Null);
                }
            }
            plan.stage([Act::from(Write::status(object, patch))]);
        }
        plan.look_again = look.look_again;
        plan.notes = said::news(&look.said, &seen.memo);
        plan.memo = look.said;
        plan
    }
}

/// Time of the condition `DisruptionTarget`, if the pod is not deleted.
pub(crate) fn announced_since(object: &Object, pod: &Pod) -> Option<Time> {
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
fn call_off(object: &Object, pod: &Pod, now: Time) -> Plan<Vec<Note>> {
    let mut plan = Plan::default();
    let Some(end) = announced_since(object, pod).map(|since| since.after(ANNOUNCED_MAX)) else { return plan };
    if end > now {
        plan.look_again_at(end);
        return plan;
    }
    let time = rfc3339::Seconds(now).to_string();
    let calm = value!({
        "type": "DisruptionTarget", "status": "False", "lastTransitionTime": (time),
        "reason": (Value::Null), "message": (Value::Null),
    });
    let patch = value!({"status": {"conditions": [(calm)]}});
    plan.stage([Act::from(Write::merge(object, "status", patch).strategic())]);
    plan
}

/// Enqueues the budgets that select a pod, and the pod itself if it has the condition `DisruptionTarget`.
fn of_pod(pod: &Object, world: &WorldReader<'_>, wake: &mut dyn FnMut(Key)) {
    if pod.view::<Pod>().is_some_and(|view| announced_since(pod, view).is_some()) {
        wake(pod.key().clone());
    }
    for budget in world.in_namespace(PodDisruptionBudget::RESOURCE, &pod.meta().namespace) {
        let selects =
            |budget: &PodDisruptionBudget| budget.spec.selector.matches(|name| pod.meta().labels.get(name));
        if budget.view::<PodDisruptionBudget>().is_some_and(selects) {
            wake(budget.key().clone());
        }
    }
}

/// Enqueues the budgets in the namespace of an owner of pods.
fn of_owner(owner: &Object, world: &WorldReader<'_>, wake: &mut dyn FnMut(Key)) {
    for budget in world.in_namespace(PodDisruptionBudget::RESOURCE, &owner.meta().namespace) {
        wake(budget.key().clone());
    }
}

/// Sync context of one budget.
struct Look<'a> {
    world: &'a WorldReader<'a>,
    object: &'a Object,
    budget: &'a PodDisruptionBudget,
    pods: Vec<pods::Seen<'a>>,
    said: Vec<Note>,
    look_again: Option<Time>,
    now: Time,
}

/// Expected number of pods, and desired number of healthy ones.
struct Wanted {
    expected: i64,
    healthy: i64,
    unmanaged: bool,
}

impl<'a> Look<'a> {
    fn new(
        world: &'a WorldReader<'a>,
        object: &'a Object,
        budget: &'a PodDisruptionBudget,
        now: Time,
    ) -> Look<'a> {
        let pods = pods::selected(world, &object.meta().namespace, &budget.spec.selector);
        Look { world, object, budget, pods, said: Vec::new(), look_again: None, now }
    }

    fn subject(&self) -> Subject {
        Subject::of(self.object, "policy/v1", "PodDisruptionBudget")
    }

    fn status(&mut self) -> PodDisruptionBudgetStatus {
        if self.pods.is_empty() {
            self.said.push(self.subject().normal("NoPods", "No matching pods found"));
        }
        let wanted = match self.wanted() {
            Ok(wanted) => wanted,
            Err(error) => return self.fail_safe(&error),
        };
        if wanted.unmanaged {
            let message = self.unmanaged();
            self.said.push(self.subject().warning("UnmanagedPods", message));
        }
        let disrupted = self.disrupted();
        let is_healthy = |(object, pod): &&pods::Seen<'_>| {
            !object.meta().is_deleted() && !disrupted.contains_key(&*object.meta().name) && pod.is_ready()
        };
        let healthy = size(self.pods.iter().filter(is_healthy).count());
        let allowed = if wanted.expected > 0 { (healthy - wanted.healthy).max(0) } else { 0 };
        let generation = self.object.meta().generation;
        let mut status = PodDisruptionBudgetStatus {
            observed_generation: Some(generation),
            disrupted_pods: disrupted,
            disruptions_allowed: allowed,
            current_healthy: healthy,
            desired_healthy: wanted.healthy,
            expected_pods: wanted.expected,
            conditions: self.budget.status.conditions.clone(),
        };
        let (is, reason) =
            if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
        let condition = Condition::new("DisruptionAllowed", is, reason, "", self.now);
        conditions::set(
            &mut status.conditions,
            Condition { observed_generation: Some(generation), ..condition },
        );
        status
    }

    /// Allows no disruptions if the expected number of pods is unknown.
    fn fail_safe(&mut self, error: &str) -> PodDisruptionBudgetStatus {
        let message = format!("Failed to calculate the number of expected pods: {error}");
        self.said.push(self.subject().warning("CalculateExpectedPodCountFailed", message));
        let mut status = self.budget.status.clone();
        status.disruptions_allowed = 0;
        let condition = Condition::new("DisruptionAllowed", "False", "SyncFailed", error, self.now);
        let observed_generation = status.observed_generation;
        conditions::set(&mut status.conditions, Condition { observed_generation, ..condition });
        status
    }

    fn wanted(&self) -> Result<Wanted, String> {
        let spec = &self.budget.spec;
        let share = |share: &IntOrString, total: i64| {
            let text = || match share {
                IntOrString::Text(text) => text.clone(),
                IntOrString::Int(number) => number.to_string(),
            };
            share.scaled(total, true).ok_or_else(|| format!("invalid value for IntOrString: {}", text()))
        };
        if let Some(max) = &spec.max_unavailable {
            let (expected, unmanaged) = self.expected()?;
            return Ok(Wanted { expected, healthy: (expected - share(max, expected)?).max(0), unmanaged });
        }
        match &spec.min_available {
            Some(IntOrString::Int(min)) => {
                Ok(Wanted { expected: size(self.pods.len()), healthy: *min, unmanaged: false })
            }
            Some(min) => {
                let (expected, unmanaged) = self.expected()?;
                Ok(Wanted { expected, healthy: share(min, expected)?, unmanaged })
            }
            None => Ok(Wanted { expected: 0, healthy: 0, unmanaged: false }),
        }
    }

    /// Sum of the scales of the pods' controllers, and `true` if some pods have no controller.
    fn expected(&self) -> Result<(i64, bool), String> {
        let mut scales: BTreeMap<Box<str>, i64> = BTreeMap::new();
        let mut known: BTreeSet<&str> = BTreeSet::new();
        let mut unmanaged = false;
        for (pod, _) in &self.pods {
            let Some(owner) = pod.meta().controller() else {
                unmanaged = true;
                continue;
            };
            if known.insert(&owner.uid) {
                let found = self.scale_of(owner, &pod.meta().namespace)?;
                let (uid, replicas) =
                    found.ok_or_else(|| format!("found no controllers for pod \"{}\"", pod.meta().name))?;
                scales.insert(uid, replicas);
            }
        }
        Ok((int32::saturate(scales.values().sum()), unmanaged))
    }

    /// Controller that decides the number of pods: of a ReplicaSet, its Deployment.
    fn scale_of(
        &self,
        owner: &'a setpoint_reconcile::OwnerReference,
        namespace: &str,
    ) -> Result<Option<(Box<str>, i64)>, String> {
        let found = scale::find(self.world, &owner.api_version, &owner.kind, namespace, &owner.name)?;
        let Some(found) = found.filter(|scale| scale.object.meta().uid == owner.uid) else { return Ok(None) };
        let parent = found.object.meta().controller().filter(|_| &*owner.kind == "ReplicaSet");
        match parent.filter(|parent| &*parent.kind == "Deployment") {
            Some(parent) => self.scale_of(parent, namespace),
            None => Ok(Some((owner.uid.clone(), found.replicas))),
        }
    }

    /// Pods whose eviction was granted and that still exist. Pods past [`DELETION_MAX`] are healthy again.
    fn disrupted(&mut self) -> BTreeMap<String, String> {
        let known = &self.budget.status.disrupted_pods;
        let mut still = BTreeMap::new();
        for (pod, _) in self.pods.iter().filter(|(pod, _)| !pod.meta().is_deleted()) {
            let name: &str = &pod.meta().name;
            let Some(since) = known.get(name) else { continue };
            let end = rfc3339::parse(since).unwrap_or(Time::EPOCH).after(DELETION_MAX);
            if end > self.now {
                self.look_again = Some(self.look_again.map_or(end, |earlier| earlier.min(end)));
                still.insert(name.to_owned(), since.clone());
            } else {
                let path = self.object.key().path();
                let message = format!("Pod was expected by PDB {path} to be deleted but it wasn't");
                self.said.push(Subject::of(pod, "v1", "Pod").warning("NotDeleted", message));
            }
        }
        still
    }

    fn unmanaged(&self) -> String {
        let budget = self.object.value();
        let labels = budget.at(&["spec", "selector", "matchLabels"]).and_then(Value::as_map);
        let labels = labels.into_iter().flat_map(|labels| labels.iter());
        let labels: String =
            labels.map(|(name, value)| format!("{name}: {},", value.as_str().unwrap_or_default())).collect();
        format!(
            "Pods selected by this PodDisruptionBudget (selector: &LabelSelector{{MatchLabels:map[string]string\
             {{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{}},}}) were found to be unmanaged. As a \
             result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. \
             To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value."
        )
    }
}

fn size(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
