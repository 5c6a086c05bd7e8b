//! Configuration of a [`World`](super::World): its indexes, and the resources that need special treatment.
//!
//! The loop itself names no kind. A resource with heartbeats, with too many objects to index, or with views that
//! are worth sharing is declared here; `setpoint_views::world_config` declares those of Kubernetes.

use crate::object::{Object, View};

/// Index over the objects of one resource, as client-go's `Indexer` has them.
#[derive(Clone, Copy)]
pub struct Index {
    /// Unique name.
    pub name: &'static str,
    /// Resource of the indexed objects.
    pub resource: &'static str,
    /// Computes the values under which an object is found.
    pub values: IndexValues,
}

/// Passes the values under which an index holds an object to a callback.
pub type IndexValues = fn(&Object, &mut dyn FnMut(&str));

/// Heartbeats of a resource: writes that renew one field and change nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Heartbeat {
    /// Resource with heartbeats.
    pub resource: &'static str,
    /// JSON name of the renewed field.
    pub field: &'static str,
}

/// Resource whose views are decoded as objects arrive, sharing equal parts with an earlier commit or a sibling.
#[derive(Clone, Copy)]
pub struct SharedView {
    pub(super) resource: &'static str,
    pub(super) decode_after: fn(&Object, &Object),
    pub(super) decode_beside: fn(&Object, &Object),
}

impl SharedView {
    /// Shares the views of `V`.
    #[must_use]
    pub const fn of<V: View>() -> SharedView {
        SharedView {
            resource: V::RESOURCE,
            decode_after: |object, before| object.decode_view_after::<V>(before),
            decode_beside: |object, sibling| object.decode_view_beside::<V>(sibling),
        }
    }
}

/// Configuration of a world. The default has no index and treats all resources alike.
#[derive(Clone, Default)]
pub struct WorldConfig {
    /// Indexes by name; duplicates are dropped, so planners may declare the same index.
    pub indexes: Vec<Index>,
    /// Resources that no index contains, neither by UID nor by owner: those with many objects and no dependents,
    /// which the garbage collector skips.
    pub unindexed: &'static [&'static str],
    /// Resources with heartbeats.
    pub heartbeats: &'static [Heartbeat],
    /// Resources with shared views.
    pub shared_views: &'static [SharedView],
}

impl WorldConfig {
    /// Adds indexes.
    #[must_use]
    pub fn with_indexes(mut self, indexes: impl IntoIterator<Item = Index>) -> WorldConfig {
        self.indexes.extend(indexes);
        self
    }
}
