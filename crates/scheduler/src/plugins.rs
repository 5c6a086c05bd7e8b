//! Scheduler plugins: the Filter and Score steps of kube-scheduler's default plugins, one file for each.
//!
//! A plugin that depends on one node only has a function `filter`; its result is valid for all pods of a signature
//! until the node changes. Plugins that depend on other pods, [`inter_pod_affinity`] and [`pod_topology_spread`],
//! produce constraints on topology domains instead, which [`topology`](crate::topology) evaluates. Rejection reasons
//! are the texts of kube-scheduler, which clients parse.

pub mod dynamic_resources;
pub mod image_locality;
pub mod inter_pod_affinity;
pub mod node_affinity;
pub mod node_declared_features;
pub mod node_ports;
pub mod node_resources;
pub mod node_unschedulable;
pub mod pod_topology_spread;
pub mod taint_toleration;
pub mod volume_restrictions;
pub mod volumes;

use std::borrow::Cow;
use std::ops::{BitOr, BitOrAssign};

/// Highest score of a plugin for a node, before its weight.
pub const SCORE_MAX: i64 = 100;

/// Kinds of cluster events that can make a rejected pod schedulable: a bit set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueingHint(u8);

impl QueueingHint {
    /// No event.
    pub const NONE: QueueingHint = QueueingHint(0);
    /// A node was added or changed.
    pub const NODE_ADD_OR_UPDATE: QueueingHint = QueueingHint(1);
    /// A pod was removed from its node.
    pub const ASSIGNED_POD_DELETE: QueueingHint = QueueingHint(2);
    /// A pod was assigned to a node.
    pub const ASSIGNED_POD_ADD: QueueingHint = QueueingHint(4);
    /// A volume, claim, storage class or CSI object changed.
    pub const STORAGE: QueueingHint = QueueingHint(8);
    /// A node was deleted: its domain no longer counts for the minimum of a spread constraint.
    pub const NODE_DELETE: QueueingHint = QueueingHint(16);
    /// A ResourceClaim was released, or a ResourceSlice, DeviceClass or DeviceTaintRule changed.
    pub const DEVICE: QueueingHint = QueueingHint(32);

    /// Returns the events of both sets.
    #[must_use]
    pub const fn or(self, other: QueueingHint) -> QueueingHint {
        QueueingHint(self.0 | other.0)
    }

    /// `true` if a kind is in both sets.
    #[must_use]
    pub const fn intersects(self, other: QueueingHint) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for QueueingHint {
    type Output = QueueingHint;

    fn bitor(self, other: QueueingHint) -> QueueingHint {
        self.or(other)
    }
}

impl BitOrAssign for QueueingHint {
    fn bitor_assign(&mut self, other: QueueingHint) {
        self.0 |= other.0;
    }
}

/// Rejection of a node by a plugin.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rejection {
    /// Reasons as kube-scheduler prints them.
    pub reasons: Vec<Cow<'static, str>>,
    /// `true` if preemption on the node may resolve it (upstream: `Unschedulable`), `false` if not
    /// (`UnschedulableAndUnresolvable`).
    pub is_resolvable: bool,
    /// Events that can make the node feasible.
    pub hint: QueueingHint,
}

impl Rejection {
    /// Returns a rejection that preemption cannot resolve.
    #[must_use]
    pub fn unresolvable(reason: impl Into<Cow<'static, str>>, hint: QueueingHint) -> Rejection {
        Rejection { reasons: vec![reason.into()], is_resolvable: false, hint }
    }

    /// Returns a rejection that preemption may resolve.
    #[must_use]
    pub fn resolvable(reason: impl Into<Cow<'static, str>>, hint: QueueingHint) -> Rejection {
        Rejection { reasons: vec![reason.into()], is_resolvable: true, hint }
    }
}
