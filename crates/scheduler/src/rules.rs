//! The rules: which nodes will do for a pod, and which do best. One file each.
//!
//! A rule that looks at one node says of it that it will do, or why it will not; what it says holds for all pods of
//! a shape until the node changes. Rules about other pods, [`pod_affinity`] and [`spread`], say which domains of
//! nodes will do, by counts that are kept.

pub mod devices;
pub mod disks;
pub mod features;
pub mod fit;
pub mod images;
pub mod node_affinity;
pub mod pod_affinity;
pub mod ports;
pub mod spread;
pub mod taints;
pub mod unschedulable;
pub mod volumes;

use std::borrow::Cow;
use std::ops::{BitOr, BitOrAssign};

/// The best score that a rule gives.
pub const SCORE_MAX: i64 = 100;

/// Sorts of changes that may help a pod for which no node would do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Helps(u8);

impl Helps {
    /// Nothing.
    pub const NONE: Helps = Helps(0);
    /// A node came or changed.
    pub const NODES: Helps = Helps(1);
    /// A pod went from its node.
    pub const PODS: Helps = Helps(2);
    /// A pod came to a node.
    pub const PODS_CAME: Helps = Helps(4);
    /// A volume, a claim, a class of them or what a node can mount changed; or a claim for devices.
    pub const VOLUMES: Helps = Helps(8);
    /// A node went: the least of its domain no longer counts.
    pub const NODES_GONE: Helps = Helps(16);

    /// Whether both have anything in common.
    #[must_use]
    pub const fn meets(self, other: Helps) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Helps {
    type Output = Helps;

    fn bitor(self, other: Helps) -> Helps {
        Helps(self.0 | other.0)
    }
}

impl BitOrAssign for Helps {
    fn bitor_assign(&mut self, other: Helps) {
        self.0 |= other.0;
    }
}

/// Why a node will not do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rejection {
    /// In words.
    pub reasons: Vec<Cow<'static, str>>,
    /// Whether it might do if pods went from it.
    pub is_resolvable: bool,
    /// What may help.
    pub helps: Helps,
}

impl Rejection {
    /// A node that will not do, whichever pods went.
    #[must_use]
    pub fn for_good(reason: impl Into<Cow<'static, str>>, helps: Helps) -> Rejection {
        Rejection { reasons: vec![reason.into()], is_resolvable: false, helps }
    }

    /// A node that will not do as long as some pods are on it.
    #[must_use]
    pub fn by_pods(reason: impl Into<Cow<'static, str>>, helps: Helps) -> Rejection {
        Rejection { reasons: vec![reason.into()], is_resolvable: true, helps }
    }
}
