//! Executor of the loop's writes in the process of the store.
//!
//! The loop plans, an API server decides and commits. This trait is the seam between the two: a runtime drives it, a
//! server implements it, and neither links the other.

use std::task::Context;

use crate::{WriteId, WriteOutcome, WriteRequest};

/// Decides writes and commits them.
pub trait WriteExecutor: Send {
    /// Starts a write. Returns its outcome if there is nothing to commit.
    fn start(&mut self, request: WriteRequest) -> Option<(WriteId, WriteOutcome)>;

    /// Submits the writes that were started. Writes of one turn are submitted together, so that they share a sync.
    /// Returns `true` if any was started since the last call: it must be polled once to wake the context later.
    fn submit(&mut self) -> bool;

    /// Returns the outcomes of writes that have ended. The context is woken when another one ends.
    fn poll(&mut self, context: &mut Context<'_>) -> Vec<(WriteId, WriteOutcome)>;

    /// `true` if no write is in flight.
    fn is_idle(&self) -> bool;
}
