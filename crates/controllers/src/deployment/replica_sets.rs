//! ReplicaSets of a Deployment: the new set, revision annotations, and the writes that they need.

use std::collections::BTreeMap;

use setpoint_api::{Map, Value, value};
use setpoint_reconcile::plan::InvolvedObject;
use setpoint_reconcile::{Action, Object, Write};
use setpoint_views::deployment::Deployment;
use setpoint_views::replica_set::ReplicaSet;

use super::REPLICA_SETS;
use super::scaling::RolloutBounds;
use crate::hashes;
use crate::owners::Owner;

/// Label that distinguishes the sets of a Deployment and their pods.
pub(super) const POD_TEMPLATE_HASH: &str = "pod-template-hash";
/// Annotation with the revision of the rollout for which a set was created or reused.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
/// Annotation with the earlier revisions of a reused set.
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// Annotation with `spec.replicas` of the Deployment when the set was last scaled.
pub(super) const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// Annotation with `spec.replicas` plus `maxSurge` when the set was last scaled.
pub(super) const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// Maximum size of the history annotation.
const HISTORY_BYTES_MAX: usize = 2000;
/// Maximum length of a set's name.
const NAME_BYTES_MAX: usize = 253;
/// Annotations that are copied neither from a Deployment to its sets nor back.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    super::rollback::ANNOTATION,
];

/// Current and desired state of a ReplicaSet.
pub(super) struct OwnedReplicaSet<'a> {
    pub object: &'a Object,
    pub set: &'a ReplicaSet,
    /// Desired number of pods.
    pub replicas: i64,
    min_ready_seconds: i64,
    /// Annotations to set.
    new_annotations: BTreeMap<String, String>,
}

impl<'a> OwnedReplicaSet<'a> {
    fn new(object: &'a Object) -> Option<OwnedReplicaSet<'a>> {
        let set: &ReplicaSet = object.view()?;
        let ReplicaSet { spec, .. } = set;
        let (replicas, min_ready_seconds) = (spec.replicas, spec.min_ready_seconds);
        Some(OwnedReplicaSet { object, set, replicas, min_ready_seconds, new_annotations: BTreeMap::new() })
    }

    /// Sort key: creation time.
    pub fn creation_order(&self) -> impl Ord + use<'a> {
        (self.object.meta().created(), &*self.object.meta().name)
    }

    /// Available pods among those that the set keeps: a ReplicaSet that scales down deletes unavailable pods
    /// first.
    pub fn available(&self) -> i64 {
        self.set.status.available_replicas.unwrap_or(0).min(self.replicas)
    }

    /// Revision of the set: `None` if the annotation cannot be parsed, zero if it is missing.
    pub fn revision(&self) -> Option<i64> {
        self.object.meta().annotations.get(REVISION).map_or(Some(0), |text| text.parse().ok())
    }

    /// Value of a numeric annotation.
    pub fn annotation_number(&self, name: &str) -> Option<i64> {
        let number = self.object.meta().annotations.get(name)?.parse::<i32>().ok()?;
        (number >= 0).then(|| number.into())
    }

    fn set_annotation(&mut self, name: &str, text: &str) {
        if self.object.meta().annotations.get(name) != Some(text) {
            self.new_annotations.insert(name.to_owned(), text.to_owned());
        }
    }

    /// Sets the desired size, and the annotations with the Deployment's sizes.
    pub fn scale_to(&mut self, replicas: i64, bounds: &RolloutBounds) {
        self.replicas = replicas;
        self.set_annotation(DESIRED_REPLICAS, &bounds.replicas.to_string());
        self.set_annotation(MAX_REPLICAS, &bounds.max_replicas().to_string());
    }

    /// Patch from the current to the desired state; `None` if they are equal.
    fn patch(&self, subject: &InvolvedObject) -> Option<Action> {
        let (from, to) = (self.set.spec.replicas, self.replicas);
        let mut patch = Value::map();
        if !self.new_annotations.is_empty() {
            let new_annotations =
                self.new_annotations.iter().map(|(name, text)| (name.as_str(), Value::from(text.as_str())));
            patch.ensure_map("metadata").insert("annotations", Value::Map(new_annotations.collect()));
        }
        if from != to {
            patch.ensure_map("spec").insert("replicas", to);
        }
        if self.min_ready_seconds != self.set.spec.min_ready_seconds {
            patch.ensure_map("spec").insert("minReadySeconds", self.min_ready_seconds);
        }
        let action = (!patch.is_empty()).then(|| Action::from(Write::merge(self.object, "", patch)))?;
        if from == to {
            return Some(action);
        }
        Some(action.on_done(scaled(subject, &self.object.meta().name, from, to)))
    }
}

fn scaled(subject: &InvolvedObject, name: &str, from: i64, to: i64) -> setpoint_reconcile::plan::EventRecord {
    let direction = if from < to { "up" } else { "down" };
    subject.normal("ScalingReplicaSet", format!("Scaled {direction} replica set {name} from {from} to {to}"))
}

/// ReplicaSet to create.
pub(super) struct NewReplicaSet {
    pub name: String,
    /// Revision of its rollout.
    pub revision: i64,
    hash: String,
}

/// ReplicaSets of a Deployment.
pub(super) struct ReplicaSets<'a> {
    pub owner: &'a Owner<'a>,
    pub deployment: &'a Deployment,
    pub bounds: RolloutBounds,
    /// Set of the current template.
    pub new: Option<OwnedReplicaSet<'a>>,
    /// All other sets, oldest first.
    pub old: Vec<OwnedReplicaSet<'a>>,
    /// Size of the new set if it has to be created.
    pub created_replicas: i64,
}

impl<'a> ReplicaSets<'a> {
    pub fn of(owner: &'a Owner<'a>, deployment: &'a Deployment, claimed: Vec<&'a Object>) -> ReplicaSets<'a> {
        let mut old: Vec<OwnedReplicaSet<'a>> =
            claimed.into_iter().filter_map(OwnedReplicaSet::new).collect();
        old.sort_by_key(OwnedReplicaSet::creation_order);
        let template = &deployment.spec.template.0;
        // The oldest set of the template, so all plans choose the same one.
        let new = old.iter().position(|owned| is_equal_ignoring_hash(&owned.set.spec.template.0, template));
        let new = new.map(|at| old.remove(at));
        ReplicaSets {
            owner,
            deployment,
            bounds: RolloutBounds::of(&deployment.spec),
            new,
            old,
            created_replicas: 0,
        }
    }

    /// All sets, the new one last.
    pub fn all(&self) -> impl Iterator<Item = &OwnedReplicaSet<'a>> {
        self.old.iter().chain(&self.new)
    }

    /// Sets with a desired size above zero.
    pub fn active_mut(&mut self) -> impl Iterator<Item = &mut OwnedReplicaSet<'a>> {
        self.old.iter_mut().chain(&mut self.new).filter(|owned| owned.replicas > 0)
    }

    /// Sum of the desired sizes.
    pub fn total(&self) -> i64 {
        self.all().map(|owned| owned.replicas).sum::<i64>() + self.created_replicas
    }

    /// Revision of the next rollout.
    fn next_revision(&self) -> i64 {
        self.old.iter().filter_map(OwnedReplicaSet::revision).max().unwrap_or(0).max(0).saturating_add(1)
    }

    /// Sets the annotations of the new set: those of the Deployment, and the revision, which is the highest
    /// of all sets. A reused set keeps its earlier revisions as its history.
    pub fn set_new_annotations(&mut self) {
        let next = self.next_revision();
        let Some(new) = &mut self.new else { return };
        for (name, text) in copied_annotations(self.owner.object) {
            new.set_annotation(name, text);
        }
        new.min_ready_seconds = self.deployment.spec.min_ready_seconds;
        let annotations = &new.object.meta().annotations;
        let Some(revision) = new.revision().filter(|revision| *revision < next) else { return };
        if annotations.get(REVISION).is_some() {
            let history = append_to_history(annotations.get(REVISION_HISTORY).unwrap_or(""), revision);
            new.set_annotation(REVISION_HISTORY, &history);
        }
        new.set_annotation(REVISION, &next.to_string());
    }

    /// Revision of the rollout: the annotation of the new set, as it is or will be.
    pub fn revision(&self) -> Option<String> {
        let new = self.new.as_ref()?;
        let revision = new.new_annotations.get(REVISION).map(String::as_str);
        revision.or(new.object.meta().annotations.get(REVISION)).map(str::to_owned)
    }

    /// Returns the ReplicaSet to create.
    pub fn new_replica_set(&self) -> NewReplicaSet {
        let hash =
            hashes::hash_template(&self.deployment.spec.template.0, self.deployment.status.collision_count);
        let mut name = self.owner.object.meta().name.to_string();
        name.truncate(NAME_BYTES_MAX - 1 - hash.len());
        NewReplicaSet { name: format!("{name}-{hash}"), revision: self.next_revision(), hash }
    }

    /// Creates the new ReplicaSet.
    pub fn create(&self, new_set: NewReplicaSet) -> Action {
        let NewReplicaSet { name, revision, hash } = new_set;
        let object = self.owner.object.value();
        let mut template = self.deployment.spec.template.0.clone();
        template.ensure_map("metadata").ensure_map("labels").insert(POD_TEMPLATE_HASH, &*hash);
        let mut selector = object.at(&["spec", "selector"]).cloned().unwrap_or_default();
        selector.ensure_map("matchLabels").insert(POD_TEMPLATE_HASH, &*hash);
        let mut new_annotations: Map =
            copied_annotations(self.owner.object).map(|(name, text)| (name, Value::from(text))).collect();
        new_annotations.insert(REVISION, revision.to_string());
        new_annotations.insert(DESIRED_REPLICAS, self.bounds.replicas.to_string());
        new_annotations.insert(MAX_REPLICAS, self.bounds.max_replicas().to_string());
        let set = value!({
            "metadata": {
                "name": (&*name),
                "labels": (template.at(&["metadata", "labels"]).cloned()),
                "annotations": (new_annotations),
                "ownerReferences": [(self.owner.reference())],
            },
            "spec": {
                "replicas": (self.created_replicas),
                "minReadySeconds": (self.deployment.spec.min_ready_seconds),
                "selector": (selector),
                "template": (template),
            },
        });
        let subject = self.owner.subject();
        let failed = format!("Failed to create new replica set \"{name}\": {{error}}");
        let action = Action::from(Write::create(REPLICA_SETS, &self.owner.object.meta().namespace, set))
            .on_failed(subject.warning("ReplicaSetCreateError", failed));
        match self.created_replicas {
            0 => action,
            size => action.on_done(scaled(&subject, &name, 0, size)),
        }
    }

    /// Patches to the desired states, the new set first: it only grows into room that exists already.
    pub fn patches(&self) -> Vec<Action> {
        let subject = self.owner.subject();
        self.new.iter().chain(&self.old).filter_map(|owned| owned.patch(&subject)).collect()
    }

    /// Deletes empty old sets beyond `revisionHistoryLimit`, lowest revision first.
    pub fn cleanup(&self) -> Vec<Action> {
        let limit = self.deployment.spec.revision_history_limit.filter(|limit| *limit != i64::from(i32::MAX));
        let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { return Vec::new() };
        let mut old: Vec<_> = self.old.iter().filter(|old| !old.object.meta().is_deleted()).collect();
        old.sort_by_key(|old| (old.revision(), old.creation_order()));
        let surplus = old.len().saturating_sub(limit);
        let is_empty = |old: &&&OwnedReplicaSet<'_>| {
            let (spec, status) = (&old.set.spec, &old.set.status);
            let seen = status.observed_generation.unwrap_or(0) >= old.object.meta().generation;
            spec.replicas == 0 && status.replicas == 0 && old.replicas == 0 && seen
        };
        let surplus = old[..surplus].iter().filter(is_empty);
        surplus.map(|old| Write::delete_unchanged(old.object).into()).collect()
    }
}

/// Annotations that are copied between a Deployment and its sets.
pub(super) fn copied_annotations(object: &Object) -> impl Iterator<Item = (&str, &str)> {
    object.meta().annotations.iter().filter(|(name, _)| !NOT_COPIED.contains(name))
}

/// Appends a revision to the history, and drops the oldest ones above [`HISTORY_BYTES_MAX`].
fn append_to_history(history: &str, revision: i64) -> String {
    let revision = revision.to_string();
    let mut rest = history;
    while !rest.is_empty() && rest.len() + 1 + revision.len() > HISTORY_BYTES_MAX {
        rest = rest.split_once(',').map_or("", |(_, rest)| rest);
    }
    if rest.is_empty() { revision } else { format!("{rest},{revision}") }
}

/// `true` if two templates are equal apart from the label [`POD_TEMPLATE_HASH`].
pub(super) fn is_equal_ignoring_hash(one: &Value, other: &Value) -> bool {
    let metadata = (one.get("metadata"), other.get("metadata"));
    let labels = (one.at(&["metadata", "labels"]), other.at(&["metadata", "labels"]));
    is_equal_except((Some(one), Some(other)), "metadata")
        && is_equal_except(metadata, "labels")
        && is_equal_except(labels, POD_TEMPLATE_HASH)
}

/// `true` if two objects have equal fields, apart from `but`.
fn is_equal_except((one, other): (Option<&Value>, Option<&Value>), but: &str) -> bool {
    let fields = |value: Option<&'_ Value>| {
        let map = value.and_then(Value::as_map);
        map.map_or(0, |map| map.len() - usize::from(map.contains(but)))
    };
    let is_in_other = |name: &str, value: &Value| other.and_then(|other| other.get(name)) == Some(value);
    fields(one) == fields(other)
        && one
            .and_then(Value::as_map)
            .is_none_or(|map| map.iter().all(|(name, value)| name == but || is_in_other(name, value)))
}
