//! Controller references: adoption and release of dependents.

use setpoint_api::labels::Selector;
use setpoint_api::{Key, Value, value};
use setpoint_reconcile::plan::{InvolvedObject, PLAN_ACTIONS_MAX};
use setpoint_reconcile::planner::enqueue_owner;
use setpoint_reconcile::{Action, Object, WorldReader, Write};

/// Owner of pods, or of objects that own pods.
pub struct Owner<'a> {
    /// The object.
    pub object: &'a Object,
    /// API version of its kind.
    pub api_version: &'static str,
    /// Its kind.
    pub kind: &'static str,
}

impl Owner<'_> {
    /// Controller reference to the owner.
    #[must_use]
    pub fn reference(&self) -> Value {
        let meta = self.object.meta();
        value!({
            "apiVersion": (self.api_version),
            "kind": (self.kind),
            "name": (&*meta.name),
            "uid": (&*meta.uid),
            "controller": true,
            "blockOwnerDeletion": true,
        })
    }

    /// The owner as the subject of Events.
    #[must_use]
    pub fn subject(&self) -> InvolvedObject {
        InvolvedObject::new(self.object, self.api_version, self.kind)
    }
}

/// Maximum number of adoptions and releases at a time: one more than fits into a plan, so a plan that leaves
/// some out is planned again.
pub(crate) const CLAIM_ACTIONS_MAX: usize = PLAN_ACTIONS_MAX + 1;

/// Claims the dependents of an owner: controlled objects that match, and orphans, found in an index by
/// namespace, that match and are adopted. Controlled objects that no longer match are released. An owner that
/// is being deleted neither adopts nor releases. The actions are the adoptions and releases.
#[must_use]
pub fn claim_objects<'a>(
    world: &'a WorldReader<'a>,
    owner: &Owner<'a>,
    resource: &'static str,
    orphans: &str,
    selects: impl Fn(&Object) -> bool,
    adopts: impl Fn(&Object) -> bool,
) -> (Vec<&'a Object>, Vec<Action>) {
    let meta = owner.object.meta();
    let (mut claimed, mut actions) = (Vec::new(), Vec::new());
    for object in world.owned(&meta.uid, resource) {
        if !object.meta().is_controlled_by(&meta.uid) {
            continue;
        }
        if selects(object) {
            claimed.push(object);
        } else if !meta.is_deleted() && actions.len() < CLAIM_ACTIONS_MAX {
            actions.push(release(object, &meta.uid));
        }
    }
    if meta.is_deleted() {
        return (claimed, actions);
    }
    for object in world.by_index(orphans, &meta.namespace) {
        if !object.meta().is_deleted() && selects(object) && adopts(object) {
            claimed.push(object);
            if actions.len() < CLAIM_ACTIONS_MAX {
                actions.push(adopt(object, owner));
            }
        }
    }
    (claimed, actions)
}

fn adopt(object: &Object, owner: &Owner<'_>) -> Action {
    let patch = value!({"metadata": {"ownerReferences": [(owner.reference())]}});
    Write::merge(object, "", patch).strategic().into()
}

fn release(object: &Object, uid: &str) -> Action {
    let patch = value!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": (uid)}]}});
    Write::merge(object, "", patch).strategic().into()
}

/// Enqueues the owner of a kind that controls an object, or every owner of that kind that selects an orphan.
/// `selector` reads the selector of an owner.
pub fn enqueue_owners(
    object: &Object,
    world: &WorldReader<'_>,
    (kind, resource): (&str, &str),
    selector: impl Fn(&Object) -> Option<&Selector>,
    enqueue: &mut dyn FnMut(Key),
) {
    let meta = object.meta();
    if meta.controller().is_some() {
        return enqueue_owner(object, kind, resource, enqueue);
    }
    let Some(namespace) = object.key().namespace() else { return };
    for owner in world.in_namespace(resource, namespace) {
        if selector(owner).is_some_and(|selector| selector.matches(|name| meta.labels.get(name))) {
            enqueue(owner.key().clone());
        }
    }
}
