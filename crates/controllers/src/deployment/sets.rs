//! ReplicaSets of a Deployment: the new set, revision annotations, and the writes that they need.

use std::collections::BTreeMap;

use setpoint_api::{Map, Value, value};
use setpoint_reconcile::plan::InvolvedObject;
use setpoint_reconcile::{Action, Object, Write};
use setpoint_views::deployment::Deployment;
use setpoint_views::replica_set::ReplicaSet;

use super::SETS;
use super::sizes::Bounds;
use crate::hashes;
use crate::owners::Owner;

/// Label that distinguishes the sets of a Deployment and their pods.
pub(super) const HASH: &str = "pod-template-hash";
/// Annotation with the revision of the rollout for which a set was created or reused.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
/// Annotation with the earlier revisions of a reused set.
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// Annotation with `spec.replicas` of the Deployment when the set was last scaled.
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// Annotation with `spec.replicas` plus `maxSurge` when the set was last scaled.
pub(super) const MAX: &str = "deployment.kubernetes.io/max-replicas";
/// Maximum size of the history annotation.
const HISTORY_BYTES_MAX: usize = 2000;
/// Maximum length of a set's name.
const NAME_BYTES_MAX: usize = 253;
/// Annotations that are copied neither from a Deployment to its sets nor back.
pub(super) const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAX,
    super::rollback::ANNOTATION,
];

/// Current and desired state of a ReplicaSet.
pub(super) struct Member<'a> {
    pub object: &'a Object,
    pub set: &'a ReplicaSet,
    /// Desired number of pods.
    pub replicas: i64,
    min_ready_seconds: i64,
    /// Annotations to set.
    notes: BTreeMap<String, String>,
}

impl<'a> Member<'a> {
    fn new(object: &'a Object) -> Option<Member<'a>> {
        let set: &ReplicaSet = object.view()?;
        let ReplicaSet { spec, .. } = set;
        let (replicas, min_ready_seconds) = (spec.replicas, spec.min_ready_seconds);
        Some(Member { object, set, replicas, min_ready_seconds, notes: BTreeMap::new() })
    }

    /// Sort key: creation time.
    pub fn age(&self) -> impl Ord + use<'a> {
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
    pub fn noted(&self, name: &str) -> Option<i64> {
        let number = self.object.meta().annotations.get(name)?.parse::<i32>().ok()?;
        (number >= 0).then(|| number.into())
    }

    fn note(&mut self, name: &str, text: &str) {
        if self.object.meta().annotations.get(name) != Some(text) {
            self.notes.insert(name.to_owned(), text.to_owned());
        }
    }

    /// Sets the desired size, and the annotations with the Deployment's sizes.
    pub fn resize(&mut self, replicas: i64, bounds: &Bounds) {
        self.replicas = replicas;
        self.note(DESIRED, &bounds.replicas.to_string());
        self.note(MAX, &bounds.most().to_string());
    }

    /// Patch from the current to the desired state; `None` if they are equal.
    fn patch(&self, about: &InvolvedObject) -> Option<Action> {
        let (from, to) = (self.set.spec.replicas, self.replicas);
        let mut patch = Value::map();
        if !self.notes.is_empty() {
            let notes = self.notes.iter().map(|(name, text)| (name.as_str(), Value::from(text.as_str())));
            patch.ensure_map("metadata").insert("annotations", Value::Map(notes.collect()));
        }
        if from != to {
            patch.ensure_map("spec").insert("replicas", to);
        }
        if self.min_ready_seconds != self.set.spec.min_ready_seconds {
            patch.ensure_map("spec").insert("minReadySeconds", self.min_ready_seconds);
        }
        let act = (!patch.is_empty()).then(|| Action::from(Write::merge(self.object, "", patch)))?;
        if from == to {
            return Some(act);
        }
        Some(act.on_done(scaled(about, &self.object.meta().name, from, to)))
    }
}

fn scaled(about: &InvolvedObject, name: &str, from: i64, to: i64) -> setpoint_reconcile::plan::EventRecord {
    let way = if from < to { "up" } else { "down" };
    about.normal("ScalingReplicaSet", format!("Scaled {way} replica set {name} from {from} to {to}"))
}

/// ReplicaSet to create.
pub(super) struct Missing {
    pub name: String,
    /// Revision of its rollout.
    pub revision: i64,
    hash: String,
}

/// ReplicaSets of a Deployment.
pub(super) struct Sets<'a> {
    pub owner: &'a Owner<'a>,
    pub deployment: &'a Deployment,
    pub bounds: Bounds,
    /// Set of the current template.
    pub new: Option<Member<'a>>,
    /// All other sets, oldest first.
    pub old: Vec<Member<'a>>,
    /// Size of the new set if it has to be created.
    pub created_size: i64,
}

impl<'a> Sets<'a> {
    pub fn of(owner: &'a Owner<'a>, deployment: &'a Deployment, claimed: Vec<&'a Object>) -> Sets<'a> {
        let mut old: Vec<Member<'a>> = claimed.into_iter().filter_map(Member::new).collect();
        old.sort_by_key(Member::age);
        let template = &deployment.spec.template.0;
        // The oldest set of the template, so all plans choose the same one.
        let new = old.iter().position(|member| is_same_template(&member.set.spec.template.0, template));
        let new = new.map(|at| old.remove(at));
        Sets { owner, deployment, bounds: Bounds::of(&deployment.spec), new, old, created_size: 0 }
    }

    /// All sets, the new one last.
    pub fn all(&self) -> impl Iterator<Item = &Member<'a>> {
        self.old.iter().chain(&self.new)
    }

    /// Sets with a desired size above zero.
    pub fn active_mut(&mut self) -> impl Iterator<Item = &mut Member<'a>> {
        self.old.iter_mut().chain(&mut self.new).filter(|member| member.replicas > 0)
    }

    /// Sum of the desired sizes.
    pub fn total(&self) -> i64 {
        self.all().map(|member| member.replicas).sum::<i64>() + self.created_size
    }

    /// Revision of the next rollout.
    fn next_revision(&self) -> i64 {
        self.old.iter().filter_map(Member::revision).max().unwrap_or(0).max(0).saturating_add(1)
    }

    /// Sets the annotations of the new set: those of the Deployment, and the revision, which is the highest
    /// of all sets. A reused set keeps its earlier revisions as its history.
    pub fn note_revision(&mut self) {
        let next = self.next_revision();
        let Some(new) = &mut self.new else { return };
        for (name, text) in copied(self.owner.object) {
            new.note(name, text);
        }
        new.min_ready_seconds = self.deployment.spec.min_ready_seconds;
        let annotations = &new.object.meta().annotations;
        let Some(revision) = new.revision().filter(|revision| *revision < next) else { return };
        if annotations.get(REVISION).is_some() {
            let history = with_history(annotations.get(HISTORY).unwrap_or(""), revision);
            new.note(HISTORY, &history);
        }
        new.note(REVISION, &next.to_string());
    }

    /// Revision of the rollout: the annotation of the new set, as it is or will be.
    pub fn revision(&self) -> Option<String> {
        let new = self.new.as_ref()?;
        let noted = new.notes.get(REVISION).map(String::as_str);
        noted.or(new.object.meta().annotations.get(REVISION)).map(str::to_owned)
    }

    /// Returns the ReplicaSet to create.
    pub fn missing(&self) -> Missing {
        let hash =
            hashes::of_template(&self.deployment.spec.template.0, self.deployment.status.collision_count);
        let mut name = self.owner.object.meta().name.to_string();
        name.truncate(NAME_BYTES_MAX - 1 - hash.len());
        Missing { name: format!("{name}-{hash}"), revision: self.next_revision(), hash }
    }

    /// Creates the new ReplicaSet.
    pub fn create(&self, missing: Missing) -> Action {
        let Missing { name, revision, hash } = missing;
        let object = self.owner.object.value();
        let mut template = self.deployment.spec.template.0.clone();
        template.ensure_map("metadata").ensure_map("labels").insert(HASH, &*hash);
        let mut selector = object.at(&["spec", "selector"]).cloned().unwrap_or_default();
        selector.ensure_map("matchLabels").insert(HASH, &*hash);
        let mut notes: Map =
            copied(self.owner.object).map(|(name, text)| (name, Value::from(text))).collect();
        notes.insert(REVISION, revision.to_string());
        notes.insert(DESIRED, self.bounds.replicas.to_string());
        notes.insert(MAX, self.bounds.most().to_string());
        let set = value!({
            "metadata": {
                "name": (&*name),
                "labels": (template.at(&["metadata", "labels"]).cloned()),
                "annotations": (notes),
                "ownerReferences": [(self.owner.reference())],
            },
            "spec": {
                "replicas": (self.created_size),
                "minReadySeconds": (self.deployment.spec.min_ready_seconds),
                "selector": (selector),
                "template": (template),
            },
        });
        let about = self.owner.subject();
        let failed = format!("Failed to create new replica set \"{name}\": {{error}}");
        let act = Action::from(Write::create(SETS, &self.owner.object.meta().namespace, set))
            .on_failed(about.warning("ReplicaSetCreateError", failed));
        match self.created_size {
            0 => act,
            size => act.on_done(scaled(&about, &name, 0, size)),
        }
    }

    /// Patches to the desired states, the new set first: it only grows into room that exists already.
    pub fn patches(&self) -> Vec<Action> {
        let about = self.owner.subject();
        self.new.iter().chain(&self.old).filter_map(|member| member.patch(&about)).collect()
    }

    /// Deletes empty old sets beyond `revisionHistoryLimit`, lowest revision first.
    pub fn surplus(&self) -> Vec<Action> {
        let limit = self.deployment.spec.revision_history_limit.filter(|limit| *limit != i64::from(i32::MAX));
        let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { return Vec::new() };
        let mut old: Vec<_> = self.old.iter().filter(|old| !old.object.meta().is_deleted()).collect();
        old.sort_by_key(|old| (old.revision(), old.age()));
        let surplus = old.len().saturating_sub(limit);
        let is_empty = |old: &&&Member<'_>| {
            let (spec, status) = (&old.set.spec, &old.set.status);
            let seen = status.observed_generation.unwrap_or(0) >= old.object.meta().generation;
            spec.replicas == 0 && status.replicas == 0 && old.replicas == 0 && seen
        };
        let surplus = old[..surplus].iter().filter(is_empty);
        surplus.map(|old| Write::delete_unchanged(old.object).into()).collect()
    }
}

/// Annotations that are copied between a Deployment and its sets.
pub(super) fn copied(object: &Object) -> impl Iterator<Item = (&str, &str)> {
    object.meta().annotations.iter().filter(|(name, _)| !NOT_COPIED.contains(name))
}

/// Appends a revision to the history, and drops the oldest ones above [`HISTORY_BYTES_MAX`].
fn with_history(history: &str, revision: i64) -> String {
    let revision = revision.to_string();
    let mut rest = history;
    while !rest.is_empty() && rest.len() + 1 + revision.len() > HISTORY_BYTES_MAX {
        rest = rest.split_once(',').map_or("", |(_, rest)| rest);
    }
    if rest.is_empty() { revision } else { format!("{rest},{revision}") }
}

/// `true` if two templates are equal apart from the label [`HASH`].
pub(super) fn is_same_template(one: &Value, other: &Value) -> bool {
    let metadata = (one.get("metadata"), other.get("metadata"));
    let labels = (one.at(&["metadata", "labels"]), other.at(&["metadata", "labels"]));
    is_same_but((Some(one), Some(other)), "metadata")
        && is_same_but(metadata, "labels")
        && is_same_but(labels, HASH)
}

/// `true` if two objects have equal fields, apart from `but`.
fn is_same_but((one, other): (Option<&Value>, Option<&Value>), but: &str) -> bool {
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
