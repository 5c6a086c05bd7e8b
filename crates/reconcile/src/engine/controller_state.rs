//! State of one controller in the engine: its queue, the progress of its plans, its statistics.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use setpoint_api::{Key, Revision, Time};

use super::SentAction;
use super::plan_progress::PlanProgress;
use crate::planner::{Controller, Failure};
use crate::queue::Queue;
use crate::stats::ControllerStats;
use crate::world::{Reads, World};

/// A controller with its keys.
pub(super) struct ControllerState {
    pub controller: Box<dyn Controller>,
    pub queue: Queue,
    /// Plans that are being carried out.
    pub progress: BTreeMap<Key, PlanProgress>,
    pub stats: ControllerStats,
    pub user: Arc<str>,
    /// Keys that the current resync has yet to enqueue.
    pub resync_keys: Vec<Key>,
    /// Number of keys per slice of the current resync.
    pub resync_slice_len: usize,
    /// Keys whose last plan was not quiet. Their next plan may differ without any change.
    pub non_quiet_keys: BTreeSet<Key>,
    /// Reads of its plans since the last full resync.
    pub reads: Reads,
    /// Reads of the last listing of its keys.
    pub list_reads: Reads,
    /// Revision at which the last resync began.
    pub resync_revision: Revision,
}

impl ControllerState {
    pub fn new(controller: Box<dyn Controller>) -> ControllerState {
        ControllerState {
            user: controller.user().into(),
            controller,
            queue: Queue::default(),
            progress: BTreeMap::new(),
            stats: ControllerStats::default(),
            resync_keys: Vec::new(),
            resync_slice_len: 0,
            non_quiet_keys: BTreeSet::new(),
            reads: Reads::default(),
            list_reads: Reads::default(),
            resync_revision: Revision::ZERO,
        }
    }

    /// User that the writes of a key are attributed to.
    pub fn user_for(&self, key: &Key, world: &World) -> Arc<str> {
        let node = self.controller.node(key, &world.reader());
        node.map_or_else(|| Arc::clone(&self.user), |node| node_user(&node))
    }

    /// Keys that a resync has to enqueue. Unless it is a full one, keys are left out if nothing that their controller
    /// has read has changed since the last resync.
    pub fn keys_to_resync(&mut self, world: &World, is_full: bool) -> Vec<Key> {
        let since = std::mem::replace(&mut self.resync_revision, world.revision());
        if !is_full && !world.has_changed(self.reads.and(self.list_reads), since) {
            return self.non_quiet_keys.iter().cloned().collect();
        }
        let reader = world.reader();
        let mut keys = self.controller.keys(&reader);
        reader.record_keys(keys.iter());
        self.list_reads = reader.reads();
        if is_full {
            self.reads = Reads::default();
        } else if !world.has_changed(self.reads, since) {
            let is_changed = |key: &Key| world.get(key).is_none_or(|object| object.revision() > since);
            keys.retain(|key| {
                is_changed(key) || self.non_quiet_keys.contains(key) || self.queue.contains(key)
            });
        }
        keys
    }

    /// Stores the failure of a write for the next plan of its key.
    pub fn record_failure(&mut self, key: &Key, action: &SentAction, reason: &str, message: &str, now: Time) {
        self.stats.failures += 1;
        self.queue.entry(key).soft.failure = Some(Failure {
            verb: action.verb,
            resource: action.resource.clone(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            at: now,
        });
    }
}

/// User name of a node.
pub(super) fn node_user(node: &str) -> Arc<str> {
    format!("system:node:{node}").into()
}
