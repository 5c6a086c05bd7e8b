//! Creation and deletion of a Job's pods.

use std::collections::BTreeMap;

use setpoint_api::{Value, value};

use super::backoff::{backoff, finished_at};
use super::indexes::IndexSet;
use super::policy::PodFailureAction;
use super::sync::{IndexState, JobPodChanges, Sync};
use super::{
    COMPLETION_INDEX, INDEX_FAILURES, INDEX_IGNORED_FAILURES, PODS_PER_PLAN_MAX, TRACKING_FINALIZER,
    TrackedPod,
};
use crate::pods;

/// Environment variable with the completion index.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// Maximum length of the prefix of a generated name.
const PREFIX_MAX: usize = 58;

impl<'a> Sync<'a> {
    /// Scales the active pods to the desired number. One plan deletes or creates pods, not both.
    pub fn manage(&self) -> JobPodChanges {
        let spec = &self.job.spec;
        let active: Vec<TrackedPod<'a>> = self.active().copied().collect();
        let count = size(active.len());
        let desired = match spec.completions {
            _ if spec.suspend => 0,
            Some(completions) => (completions - self.succeeded).min(spec.parallelism).max(0),
            // After the first success running pods continue, and none is added.
            None if self.succeeded > 0 => count,
            None => spec.parallelism,
        };
        let surplus = usize::try_from(count - desired).unwrap_or(0);
        let mut removed = self.pods_to_delete(active, surplus);
        let deferred = removed.len().saturating_sub(PODS_PER_PLAN_MAX);
        removed.truncate(PODS_PER_PLAN_MAX);
        if !removed.is_empty() {
            let tracked = removed.iter().filter(|pod| pod.is_tracked);
            return JobPodChanges {
                deferred,
                // A pod that has finished meanwhile must be counted, so the write conflicts.
                removals: tracked
                    .map(|pod| pods::remove_finalizer_unchanged(pod.object, TRACKING_FINALIZER))
                    .collect(),
                deletions: removed.iter().map(|pod| pods::delete(pod.object, &self.owner)).collect(),
                ..JobPodChanges::default()
            };
        }
        let terminating = self.pods.iter().filter(|pod| pod.is_terminating()).count();
        let terminating = if spec.replaces_only_failed() { size(terminating) } else { 0 };
        let missing = usize::try_from(desired - terminating - count).unwrap_or(0);
        if missing == 0 {
            return JobPodChanges::default();
        }
        let now = missing.min(PODS_PER_PLAN_MAX);
        JobPodChanges { deferred: missing - now, ..self.create_pods(now) }
    }

    /// Pods to delete: those without a valid or unique index, and as many more as are surplus.
    fn pods_to_delete(&self, active: Vec<TrackedPod<'a>>, at_least: usize) -> Vec<TrackedPod<'a>> {
        // Pods without the finalizer first: their outcome is not counted any more.
        let order = |pod: &TrackedPod<'a>| (pod.is_tracked, pods::deletion_order(&(pod.object, pod.pod), 0));
        let (mut left, mut removed) = (active, Vec::new());
        if self.job.spec.is_indexed() {
            let (valid, invalid): (Vec<_>, Vec<_>) = left.into_iter().partition(|pod| self.is_valid(pod));
            removed = invalid;
            let mut by_index: BTreeMap<Option<i64>, Vec<TrackedPod<'a>>> = BTreeMap::new();
            for pod in valid {
                by_index.entry(pod.index).or_default().push(pod);
            }
            left = Vec::new();
            for mut duplicates in by_index.into_values() {
                duplicates.sort_by_cached_key(order);
                left.extend(duplicates.pop());
                removed.extend(duplicates);
            }
        }
        if removed.len() < at_least {
            left.sort_by_cached_key(order);
            let more = at_least - removed.len();
            removed.extend(left.into_iter().take(more));
        }
        removed
    }

    /// Creates pods, unless they are backing off after failures.
    fn create_pods(&self, count: usize) -> JobPodChanges {
        let is_by_index = self.job.spec.backoff_limit_per_index.is_some();
        let backoff_until = self.failures.backoff_until().filter(|until| !is_by_index && *until > self.now);
        if backoff_until.is_some() {
            return JobPodChanges { backoff_until, ..JobPodChanges::default() };
        }
        let template = self.template();
        let create = |pod: Value| pods::create(pod, &self.owner);
        let Some(state) = &self.indexes else {
            let creations = std::iter::repeat_n(create(template), count).collect();
            return JobPodChanges { creations, ..JobPodChanges::default() };
        };
        let mut changes = JobPodChanges::default();
        for index in self.indexes_without_need(state).first_missing(count, state.completions) {
            let replaced = state.last_failed.get(&index).map(|at| &self.pods[*at]);
            let until = replaced.map(|pod| {
                let failures = usize::try_from(pod.failures_before()).unwrap_or(0) + 1;
                finished_at(pod).after(backoff(failures))
            });
            match until.filter(|until| *until > self.now) {
                Some(until) => {
                    changes.backoff_until =
                        Some(changes.backoff_until.map_or(until, |earliest| earliest.min(until)));
                }
                None => {
                    changes.creations.push(create(self.new_indexed_pod(template.clone(), index, replaced)))
                }
            }
        }
        changes
    }

    /// Indexes that need no new pod.
    fn indexes_without_need(&self, state: &IndexState) -> IndexSet {
        let has_pod = |pod: &&TrackedPod<'_>| {
            pod.is_active() || self.job.spec.replaces_only_failed() && pod.is_terminating()
        };
        let taken =
            state.succeeded.with_indexes(self.pods.iter().filter(has_pod).filter_map(|pod| pod.index));
        state.failed.as_ref().map_or(taken.clone(), |failed| taken.union(failed))
    }

    /// Template of new pods.
    fn template(&self) -> Value {
        let mut pod = pods::from_template(&self.job.spec.template.0, &self.owner);
        let finalizers = pod.ensure_map("metadata").ensure("finalizers", || Value::List(Vec::new()));
        if finalizers.is_null() {
            *finalizers = Value::List(Vec::new());
        }
        if let Some(list) = finalizers.as_list_mut()
            && !list.iter().any(|finalizer| finalizer.as_str() == Some(TRACKING_FINALIZER))
        {
            list.push(TRACKING_FINALIZER.into());
        }
        if self.job.spec.is_indexed() {
            set_index_variable(&mut pod);
        }
        pod
    }

    /// New pod of an index.
    fn new_indexed_pod(&self, mut pod: Value, index: i64, replaced: Option<&TrackedPod<'_>>) -> Value {
        let name = &self.object.meta().name;
        let metadata = pod.ensure_map("metadata");
        let end = format!("-{index}-");
        let kept = name.len().min(PREFIX_MAX - end.len());
        metadata.insert("generateName", format!("{}{end}", name.get(..kept).unwrap_or(name)));
        for part in ["annotations", "labels"] {
            let pairs = metadata.ensure(part, Value::map);
            pairs.make_map().insert(COMPLETION_INDEX, index.to_string());
        }
        if self.job.spec.backoff_limit_per_index.is_some() {
            let (mut counted, mut ignored) =
                replaced.map_or((0, 0), |pod| (pod.counted_failures_before(), pod.ignored_failures_before()));
            match replaced.map(|pod| self.match_failure_policy(pod)) {
                Some(PodFailureAction::Ignore) => ignored += 1,
                Some(_) => counted += 1,
                None => {}
            }
            let annotations = metadata.ensure("annotations", Value::map).make_map();
            annotations.insert(INDEX_FAILURES, counted.to_string());
            if ignored > 0 {
                annotations.insert(INDEX_IGNORED_FAILURES, ignored.to_string());
            }
        }
        pod.ensure_map("spec").insert("hostname", format!("{name}-{index}"));
        pod
    }
}

/// Sets the index variable of the containers, unless they define it.
fn set_index_variable(pod: &mut Value) {
    for list in ["initContainers", "containers"] {
        let containers = pod.at_mut(&["spec", list]).and_then(Value::as_list_mut);
        for container in containers.into_iter().flatten() {
            let variables = container.make_map().ensure("env", || Value::List(Vec::new()));
            let Some(variables) = variables.as_list_mut() else { continue };
            if variables.iter().all(|variable| variable.str_at(&["name"]) != INDEX_VARIABLE) {
                let path = format!("metadata.labels['{COMPLETION_INDEX}']");
                variables.push(
                    value!({"name": (INDEX_VARIABLE), "valueFrom": {"fieldRef": {"fieldPath": (path)}}}),
                );
            }
        }
    }
}

fn size(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
