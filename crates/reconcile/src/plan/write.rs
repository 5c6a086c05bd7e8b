//! Writes to the API, each with its preconditions.

use setpoint_api::patch::PatchType;
use setpoint_api::{Key, Resource, Revision, Value};

use crate::new_event::NewEvent;
use crate::object::Object;

/// Write to the API.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Creates an object.
    Create {
        /// Resource.
        resource: Resource,
        /// Namespace; empty for cluster-scoped objects.
        namespace: Box<str>,
        /// The object.
        object: Value,
    },
    /// Patches an object.
    Patch {
        /// Key of the object.
        key: Key,
        /// Subresource: empty, `status`, `scale` …
        subresource: &'static str,
        /// Type of the patch.
        patch_type: MergePatchType,
        /// The patch.
        patch: Value,
        /// Precondition: UID.
        uid: Option<Box<str>>,
        /// Precondition: revision.
        revision: Option<Revision>,
    },
    /// Applies a configuration to an existing object, with force.
    Apply {
        /// Key of the object.
        key: Key,
        /// Subresource: empty, `status` …
        subresource: &'static str,
        /// Configuration: all fields that the manager owns afterwards.
        config: Value,
        /// Precondition: UID.
        uid: Box<str>,
    },
    /// Deletes an object.
    Delete {
        /// Key of the object.
        key: Key,
        /// Precondition: UID.
        uid: Option<Box<str>>,
        /// Precondition: revision.
        revision: Option<Revision>,
        /// Propagation policy: `Background`, `Foreground` or `Orphan`; `None` for the default of the resource.
        propagation: Option<&'static str>,
        /// Grace period; `None` for the default of the resource.
        grace_period_seconds: Option<i64>,
    },
    /// Posts to a subresource: `binding`, `eviction` …
    Post {
        /// Key of the object.
        key: Key,
        /// Subresource.
        subresource: &'static str,
        /// Request body.
        object: Value,
    },
    /// Creates an Event.
    CreateEvent(Box<NewEvent>),
}

/// Type of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergePatchType {
    /// JSON merge patch (RFC 7386): maps merge, other values are replaced, `null` removes.
    Merge,
    /// Strategic merge patch: lists merge by their keys.
    Strategic,
}

impl From<MergePatchType> for PatchType {
    fn from(patch_type: MergePatchType) -> PatchType {
        match patch_type {
            MergePatchType::Merge => PatchType::Merge,
            MergePatchType::Strategic => PatchType::Strategic,
        }
    }
}

impl Write {
    /// Creates an object in a namespace; in none if that is empty.
    ///
    /// # Panics
    /// If the resource has no valid name; planners name resources that exist.
    #[must_use]
    pub fn create(resource: &str, namespace: &str, object: Value) -> Write {
        let resource = Resource::new(resource).expect("a resource has a valid name");
        Write::Create { resource, namespace: namespace.into(), object }
    }

    /// Merges `patch` into an object or a subresource of it, unless it has changed.
    #[must_use]
    pub fn merge(seen: &Object, subresource: &'static str, patch: Value) -> Write {
        Write::Patch {
            key: seen.key().clone(),
            subresource,
            patch_type: MergePatchType::Merge,
            patch,
            uid: Some(seen.meta().uid.clone()),
            revision: Some(seen.revision()),
        }
    }

    /// Merges `status` into the status of an object, unless it has changed.
    #[must_use]
    pub fn status(seen: &Object, status: Value) -> Write {
        Write::merge(seen, "status", Value::Map([("status", status)].into_iter().collect()))
    }

    /// Applies a configuration to an object or a subresource of it, unless it was replaced.
    #[must_use]
    pub fn apply(seen: &Object, subresource: &'static str, config: Value) -> Write {
        Write::Apply { key: seen.key().clone(), subresource, config, uid: seen.meta().uid.clone() }
    }

    /// Deletes an object, unless it was replaced.
    #[must_use]
    pub fn delete(seen: &Object) -> Write {
        Write::Delete {
            key: seen.key().clone(),
            uid: Some(seen.meta().uid.clone()),
            revision: None,
            propagation: None,
            grace_period_seconds: None,
        }
    }

    /// Deletes an object, unless it has changed.
    #[must_use]
    pub fn delete_unchanged(seen: &Object) -> Write {
        match Write::delete(seen) {
            Write::Delete { key, uid, propagation, grace_period_seconds, .. } => {
                let revision = Some(seen.revision());
                Write::Delete { key, uid, revision, propagation, grace_period_seconds }
            }
            other => other,
        }
    }

    /// Sets the propagation policy of a delete.
    #[must_use]
    pub fn with_propagation(self, policy: &'static str) -> Write {
        match self {
            Write::Delete { key, uid, revision, grace_period_seconds, .. } => {
                Write::Delete { key, uid, revision, propagation: Some(policy), grace_period_seconds }
            }
            other => other,
        }
    }

    /// Sets the grace period of a delete.
    #[must_use]
    pub fn with_grace_period(self, seconds: i64) -> Write {
        match self {
            Write::Delete { key, uid, revision, propagation, .. } => {
                Write::Delete { key, uid, revision, propagation, grace_period_seconds: Some(seconds) }
            }
            other => other,
        }
    }

    /// Turns a patch into a strategic merge patch.
    #[must_use]
    pub fn strategic(self) -> Write {
        match self {
            Write::Patch { key, subresource, patch, uid, revision, .. } => {
                let patch_type = MergePatchType::Strategic;
                Write::Patch { key, subresource, patch_type, patch, uid, revision }
            }
            other => other,
        }
    }

    /// Removes the precondition on the revision of a patch. The one on the UID stays.
    #[must_use]
    pub fn at_any_revision(self) -> Write {
        match self {
            Write::Patch { key, subresource, patch_type, patch, uid, .. } => {
                Write::Patch { key, subresource, patch_type, patch, uid, revision: None }
            }
            other => other,
        }
    }

    /// Resource that is written.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        match self {
            Write::Create { resource, .. } => resource,
            Write::CreateEvent(new_event) => new_event.key.resource(),
            Write::Patch { key, .. }
            | Write::Apply { key, .. }
            | Write::Delete { key, .. }
            | Write::Post { key, .. } => key.resource(),
        }
    }

    /// Key of the object that is changed; `None` for a new one.
    #[must_use]
    pub fn key(&self) -> Option<&Key> {
        match self {
            Write::Create { .. } | Write::CreateEvent(_) => None,
            Write::Patch { key, .. }
            | Write::Apply { key, .. }
            | Write::Delete { key, .. }
            | Write::Post { key, .. } => Some(key),
        }
    }

    /// Verb of the API request.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        match self {
            Write::Create { .. } | Write::Post { .. } | Write::CreateEvent(_) => "create",
            Write::Patch { .. } | Write::Apply { .. } => "patch",
            Write::Delete { .. } => "delete",
        }
    }
}
