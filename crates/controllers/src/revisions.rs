//! ControllerRevisions: history of the templates of a workload, numbered by last use.

use std::collections::BTreeSet;

use setpoint_api::labels::Selector;
use setpoint_api::{Value, value};
use setpoint_reconcile::{Action, Object, WorldReader, Write};
use setpoint_views::controller_revision::ControllerRevision;

use crate::hashes;
use crate::indexes::ORPHAN_REVISIONS;
use crate::owners::{self, Owner};

const REVISIONS: &str = "controllerrevisions.apps";
/// Maximum length of the workload's name in the name of a revision.
const NAME_BYTES_MAX: usize = 223;

/// ControllerRevision as object and as view.
pub type RevisionRef<'a> = (&'a Object, &'a ControllerRevision);

/// ControllerRevisions of a workload.
pub struct RevisionHistory<'a> {
    /// All revisions, oldest first.
    pub all: Vec<RevisionRef<'a>>,
    /// Adoptions and releases.
    pub actions: Vec<Action>,
}

/// Revision of the current template.
pub struct Latest {
    /// Name of the revision.
    pub name: String,
    /// Value of its hash label.
    pub hash: String,
    /// Write that creates it or makes it the latest, if it is needed.
    pub action: Option<Action>,
    /// Number of name collisions so far.
    pub collisions: i64,
}

impl<'a> RevisionHistory<'a> {
    /// Claims the revisions of a workload.
    #[must_use]
    pub fn of(world: &'a WorldReader<'a>, owner: &Owner<'a>, selector: &Selector) -> RevisionHistory<'a> {
        let selects = |object: &Object| selector.matches(|name| object.meta().labels.get(name));
        let (found, actions) =
            owners::claim_objects(world, owner, REVISIONS, ORPHAN_REVISIONS, selects, |_| true);
        let mut all: Vec<RevisionRef<'a>> =
            found.into_iter().filter_map(|object| Some((object, object.view()?))).collect();
        all.sort_by_key(|(object, view)| (view.revision, object.meta().created(), &*object.meta().name));
        RevisionHistory { all, actions }
    }

    /// Finds a revision by name.
    #[must_use]
    pub fn find_by_name(&self, name: &str) -> Option<RevisionRef<'a>> {
        self.all.iter().find(|(object, _)| &*object.meta().name == name).copied()
    }

    /// Revision of a template, and the write that makes it exist with the highest number. `label` is the hash
    /// label of revisions, `collisions` the number of name collisions so far.
    #[must_use]
    pub fn latest(
        &self,
        world: &WorldReader<'_>,
        owner: &Owner<'_>,
        template: &Value,
        label: &'static str,
        collisions: i64,
    ) -> Latest {
        let others = self.all.iter().filter(|(_, view)| !has_template(view, template));
        let next = others.map(|(_, view)| view.revision).max().unwrap_or(0).saturating_add(1);
        if let Some((object, view)) = self.all.iter().rev().find(|(_, view)| has_template(view, template)) {
            let meta = object.meta();
            let action =
                (view.revision < next).then(|| Write::merge(object, "", value!({"revision": (next)})).into());
            let hash = meta.labels.get(label).unwrap_or(&meta.name).to_owned();
            return Latest { name: meta.name.to_string(), hash, action, collisions };
        }
        let data = patch_data(template);
        let mut salt = collisions;
        let (name, hash) = loop {
            let hash = hashes::hash_data(&data, salt);
            let mut name = owner.object.meta().name.to_string();
            name.truncate(NAME_BYTES_MAX);
            let name = format!("{name}-{hash}");
            // A name that exists belongs to another workload or another template.
            if world.find(REVISIONS, &owner.object.meta().namespace, &name).is_none() {
                break (name, hash);
            }
            // A status can hold any number: the salt wraps around.
            salt = if salt >= i64::from(i32::MAX) { 0 } else { salt + 1 };
        };
        // The count never decreases.
        let collisions = if salt < collisions { i64::from(i32::MAX) } else { salt };
        let mut labels = template.at(&["metadata", "labels"]).cloned().unwrap_or_default();
        labels.make_map().insert(label, &*hash);
        let revision = value!({
            "metadata": {
                "name": (&*name),
                "labels": (labels),
                "annotations": (owner.object.meta().annotations.to_value()),
                "ownerReferences": [(owner.reference())],
            },
            "data": (data),
            "revision": (next),
        });
        let action = Write::create(REVISIONS, &owner.object.meta().namespace, revision).into();
        Latest { name, hash, action: Some(action), collisions }
    }
}

/// Content of a revision: a patch that sets the template. Clients compare its bytes with their own encoding
/// of a template, so its fields are sorted by name.
fn patch_data(template: &Value) -> Value {
    let mut template = template.clone();
    template.make_map().insert("$patch", "replace");
    template.sort_fields();
    value!({"spec": {"template": (template)}})
}

/// `true` if a revision holds a template.
fn has_template(revision: &ControllerRevision, template: &Value) -> bool {
    let stored = revision.data.at(&["spec", "template"]).and_then(Value::as_map);
    let (Some(stored), Some(template)) = (stored, template.as_map()) else { return false };
    // One field more than the template: `$patch`.
    stored.len() == template.len() + 1
        && stored.contains("$patch")
        && template.iter().all(|(name, value)| stored.get(name) == Some(value))
}

/// Template of a revision.
#[must_use]
pub fn template_of(revision: &ControllerRevision) -> Value {
    let mut template = revision.data.at(&["spec", "template"]).cloned().unwrap_or_default();
    template.make_map().remove("$patch");
    template
}

/// Deletes the oldest unused revisions, so at most `limit` of them remain.
#[must_use]
pub fn truncate_history(
    history: &RevisionHistory<'_>,
    used: &BTreeSet<&str>,
    limit: Option<i64>,
) -> Vec<Action> {
    let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { return Vec::new() };
    let unused = history.all.iter().filter(|(object, _)| !used.contains(&*object.meta().name));
    let unused: Vec<&RevisionRef<'_>> = unused.collect();
    let excess = &unused[..unused.len().saturating_sub(limit)];
    excess.iter().take(owners::CLAIM_ACTIONS_MAX).map(|(object, _)| Write::delete(object).into()).collect()
}
