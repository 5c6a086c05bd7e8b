//! Inputs and outputs of the engine: observed changes, write requests and their outcomes.

use std::sync::Arc;

use setpoint_api::{Key, Revision, Time};

use crate::object::Object;
use crate::plan::{Query, Write};

/// Change that the shell observed.
#[derive(Clone, Debug)]
pub struct ObservedChange {
    /// Key of the changed object.
    pub key: Key,
    /// Revision of the change.
    pub revision: Revision,
    /// New state of the object; `None` if it was deleted.
    pub after: Option<Object>,
    /// Reconciler that caused the change, as in [`WriteRequest::reconciler`]; `None` for other clients, or if unknown.
    pub reconciler: Option<Arc<str>>,
}

/// Identifies an in-flight write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WriteId(pub(super) u64);

/// Write to send.
#[derive(Clone, Debug)]
pub struct WriteRequest {
    /// Id for [`crate::Engine::complete_write`].
    pub id: WriteId,
    /// The write.
    pub write: Write,
    /// User that the write is attributed to.
    pub user: Arc<str>,
    /// Field manager.
    pub manager: &'static str,
    /// Controller and key, for the cause of the commit.
    pub reconciler: Arc<str>,
    /// Revision of the world that was planned on.
    pub seen: Revision,
}

/// Result of a write.
#[derive(Clone, Debug, PartialEq)]
pub enum WriteOutcome {
    /// Committed, or a no-op.
    Done {
        /// Revision of the object.
        revision: Revision,
        /// Name of the object.
        name: Box<str>,
    },
    /// The object to change or delete does not exist.
    Gone,
    /// A precondition failed: the object changed, or it exists already.
    Conflict,
    /// Rejected by the API server.
    Rejected(WriteRejection),
    /// Unknown, because the connection broke. If the write was committed, then not after this revision, which the shell
    /// learned later. The key is not planned before the world has reached it, so that nothing is done twice.
    Lost {
        /// Upper bound of the revision of the commit.
        by: Revision,
    },
}

/// Reason and message of a rejected write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteRejection {
    /// Reason of the API status: `Forbidden`.
    pub reason: String,
    /// Message of the API status.
    pub message: String,
}

/// Output of one turn.
#[derive(Debug, Default)]
pub struct Turn {
    /// Writes to send.
    pub writes: Vec<WriteRequest>,
    /// Queries to answer, each with its controller and key.
    pub queries: Vec<(&'static str, Key, Query)>,
    /// Latest time of the next turn; `None` if only a change or an outcome requires one.
    pub next_turn_at: Option<Time>,
}
