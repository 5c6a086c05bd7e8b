//! Node authorizer: the graph of relationships, kept from the store.
//!
//! The graph is built with the first request of a node that depends on it, and follows the changes of five resources from
//! then on. It is brought up to date before each decision, so that a node reads the Secrets of a pod as soon as the pod
//! is bound to it, and no longer than the pod exists. Without nodes outside of this process it costs nothing.

use std::sync::{Arc, LazyLock};

use memchr::memmem;
use parking_lot::{Mutex, RwLock};
use setpoint_api::{Identity, Resource, Revision, Value};
use setpoint_authorization::node::{
    NodeGraph, NodeVerdict, PodReferences, Relation, VertexType, VolumeReferences, node_name, review,
};
use setpoint_authorization::{Attributes, Decision};
use setpoint_store::{Cursor, Record, Snapshot, Store, WatchEvent, WatchFilter};

use super::{Answer, Authorizer, UserRules};
use crate::codec;

/// Commits that the graph may be behind to be brought up to date by a reactor. More are read by another thread.
const CATCH_UP_COMMITS_MAX: u64 = 512;
/// Resources of the graph.
const RESOURCES: usize = 5;

/// Types of the objects of each resource.
const TYPES: [VertexType; RESOURCES] = [
    VertexType::Pod,
    VertexType::Volume,
    VertexType::VolumeAttachment,
    VertexType::ResourceSlice,
    VertexType::PodCertificateRequest,
];

static NAMES: LazyLock<[Resource; RESOURCES]> = LazyLock::new(|| {
    [
        "pods",
        "persistentvolumes",
        "volumeattachments.storage.k8s.io",
        "resourceslices.resource.k8s.io",
        "podcertificaterequests.certificates.k8s.io",
    ]
    .map(|name| Resource::new(name).expect("a valid resource name"))
});

/// Fields of a bound pod that change its references.
const CHANGING_FIELDS: [&str; 3] =
    ["\"ephemeralContainers\"", "\"resourceClaimStatuses\"", "\"extendedResourceClaimStatus\""];

/// Authorizer of nodes.
pub struct NodeAuthorizer(Arc<GraphFeed>);

impl NodeAuthorizer {
    /// Returns an authorizer of the nodes of a store.
    #[must_use]
    pub fn new(store: Store) -> NodeAuthorizer {
        NodeAuthorizer(Arc::new(GraphFeed { store, state: RwLock::default(), cursors: Mutex::default() }))
    }
}

impl Authorizer for NodeAuthorizer {
    fn name(&self) -> &str {
        "node"
    }

    fn authorize(&self, attributes: &Attributes<'_>, snapshot: &Snapshot) -> Answer {
        let relation = match review(attributes) {
            NodeVerdict::Decided(decision) => return Answer::Now(decision),
            NodeVerdict::IfRelated(relation) => relation,
        };
        let missing = self.0.commits_behind(snapshot);
        if missing <= CATCH_UP_COMMITS_MAX {
            return Answer::Now(self.0.decide(&relation, snapshot.revision()));
        }
        let (feed, revision) = (Arc::clone(&self.0), snapshot.revision());
        Answer::Later(Box::pin(async move {
            let decided = tokio::task::spawn_blocking(move || feed.decide(&relation, revision)).await;
            decided.unwrap_or_else(|error| Decision::NoOpinion(error.to_string()))
        }))
    }

    fn add_rules(&self, user: &Identity, _: &str, _: &Snapshot, rules: &mut UserRules) {
        if node_name(user).is_some() {
            rules.is_incomplete = true;
            rules.errors.push("node authorizer does not support user rule resolution".to_owned());
        }
    }
}

/// Graph, and the revision up to which it has every change; none before it is built.
#[derive(Default)]
struct GraphState {
    graph: NodeGraph,
    revision: Option<Revision>,
}

/// Graph that follows a store. Lock order: cursors, state.
struct GraphFeed {
    store: Store,
    state: RwLock<GraphState>,
    cursors: Mutex<Vec<Cursor>>,
}

impl GraphFeed {
    fn commits_behind(&self, snapshot: &Snapshot) -> u64 {
        let built = self.state.read().revision;
        built.map_or(u64::MAX, |revision| snapshot.revision().0.saturating_sub(revision.0))
    }

    /// Decides by the graph at `revision` or later.
    fn decide(&self, relation: &Relation, revision: Revision) -> Decision {
        {
            let state = self.state.read();
            if state.revision.is_some_and(|known| known >= revision) {
                return relation.decide(&state.graph);
            }
        }
        self.catch_up(revision);
        relation.decide(&self.state.read().graph)
    }

    /// Applies all changes up to `revision`, and those after it that are there.
    fn catch_up(&self, revision: Revision) {
        let mut cursors = self.cursors.lock();
        if self.state.read().revision.is_some_and(|known| known >= revision) {
            return;
        }
        // The store drops old changes: then the graph is rebuilt.
        if cursors.is_empty() || !self.apply_changes(&mut cursors) {
            *cursors = self.build();
            while !self.apply_changes(&mut cursors) {
                *cursors = self.build();
            }
        }
    }

    /// Builds the graph from the current objects. Returns the cursors of later changes.
    fn build(&self) -> Vec<Cursor> {
        let mut graph = NodeGraph::default();
        let cursors = NAMES.iter().zip(TYPES).map(|(resource, vertex_type)| {
            let (snapshot, cursor) = self.store.list_and_watch(resource, WatchFilter::default());
            let records = snapshot.table(resource).into_iter().flat_map(setpoint_store::Table::iter);
            for record in records {
                Change::read(vertex_type, record).apply(&mut graph);
            }
            cursor
        });
        let cursors = cursors.collect();
        *self.state.write() = GraphState { graph, revision: None };
        cursors
    }

    /// Applies the changes since the last call. Returns `false` if some were dropped.
    fn apply_changes(&self, cursors: &mut [Cursor]) -> bool {
        let mut changes = Vec::new();
        for (cursor, vertex_type) in cursors.iter_mut().zip(TYPES) {
            loop {
                match cursor.try_next() {
                    Ok(Some(event)) => changes.extend(change_of(vertex_type, &event)),
                    Ok(None) => break,
                    Err(_) => return false,
                }
            }
        }
        // Each cursor has delivered everything up to its position.
        let revision = cursors.iter().map(Cursor::position).min();
        let mut state = self.state.write();
        changes.into_iter().for_each(|change| change.apply(&mut state.graph));
        state.revision = revision;
        true
    }
}

/// Facts about a changed object.
enum Change {
    Pod(Box<str>, Option<PodReferences>),
    Volume(Box<str>, Option<VolumeReferences>),
    Owned(VertexType, Box<str>, Option<Box<str>>),
}

impl Change {
    fn read(vertex_type: VertexType, record: &Record) -> Change {
        let path = record.path().into();
        match vertex_type {
            VertexType::Pod if !is_bound(record) => Change::Pod(path, None),
            VertexType::Pod => Change::Pod(path, PodReferences::read(&codec::object(record))),
            VertexType::Volume => Change::Volume(path, VolumeReferences::read(&codec::object(record))),
            other => {
                let object = codec::object(record);
                let node = object.at(&["spec", "nodeName"]).and_then(Value::as_str);
                Change::Owned(other, path, node.map(Into::into))
            }
        }
    }

    fn apply(self, graph: &mut NodeGraph) {
        match self {
            Change::Pod(path, references) => graph.set_pod(&path, references.as_ref()),
            Change::Volume(name, references) => graph.set_volume(&name, references.as_ref()),
            Change::Owned(vertex_type, path, node) => graph.set_owned(vertex_type, &path, node.as_deref()),
        }
    }
}

/// Returns the change of an event; `None` if it does not concern the graph.
fn change_of(vertex_type: VertexType, event: &WatchEvent) -> Option<Change> {
    if event.after.is_tombstone() {
        let path = event.after.path().into();
        return Some(match vertex_type {
            VertexType::Pod => Change::Pod(path, None),
            VertexType::Volume => Change::Volume(path, None),
            other => Change::Owned(other, path, None),
        });
    }
    let is_known = event.before.as_ref().is_some_and(|before| !before.is_tombstone());
    if vertex_type == VertexType::Pod && is_known {
        let before = event.before.as_ref()?;
        if has_equal_references(before, &event.after) {
            return None;
        }
    }
    Some(Change::read(vertex_type, &event.after))
}

fn node_of(record: &Record) -> Option<String> {
    record.attributes().field("spec.nodeName").map(str::to_owned)
}

fn is_bound(record: &Record) -> bool {
    record.attributes().field("spec.nodeName").is_some_and(|node| !node.is_empty())
}

/// `true` if two versions of a pod certainly have the same references: a bound pod changes few of them.
fn has_equal_references(before: &Record, after: &Record) -> bool {
    if node_of(before) != node_of(after) {
        return false;
    }
    if !is_bound(after) {
        return true;
    }
    let (before, after) = (before.value(), after.value());
    let has = |value: &[u8], field: &str| memmem::find(value, field.as_bytes()).is_some();
    !CHANGING_FIELDS.iter().any(|field| has(&before, field) || has(&after, field))
}

#[cfg(test)]
mod tests;
