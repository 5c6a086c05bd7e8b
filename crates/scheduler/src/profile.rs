//! What one scheduler name means. Several may be served: they share the nodes, and so one line.

use crate::rules::{node_affinity, pod_affinity, spread, taints};
use crate::shape::{Constraint, NodeChoice, NodeTerm};

/// What one scheduler name means.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The name that pods ask for.
    pub name: Box<str>,
    /// Nodes that will do for its pods, beside what they say; nothing for all.
    pub nodes: Option<NodeChoice>,
    /// Nodes that its pods would rather have, beside what they say.
    pub prefers: Vec<(i64, NodeTerm)>,
    /// Whether pods that do not say how they spread do so by what owns them, as upstream has it built in.
    pub spreads: bool,
    /// How they spread otherwise, with the pods of the same owner.
    pub constraints: Vec<Constraint>,
    /// What rules count for beside each other.
    pub weights: Weights,
}

/// What rules count for beside each other; 0 for one that has no say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// How much room is left.
    pub room: i64,
    /// How evenly processors and memory are taken.
    pub evenness: i64,
    /// Images that are there.
    pub images: i64,
    /// Taints that discourage.
    pub taints: i64,
    /// Nodes that a pod would rather have.
    pub nodes: i64,
    /// How pods spread.
    pub spread: i64,
    /// Pods that a pod would rather be near to.
    pub pods: i64,
}

impl Default for Weights {
    fn default() -> Weights {
        Weights {
            room: 1,
            evenness: 1,
            images: 1,
            taints: taints::WEIGHT,
            nodes: node_affinity::WEIGHT,
            spread: spread::WEIGHT,
            pods: pod_affinity::WEIGHT,
        }
    }
}

impl Weights {
    /// The weight of a rule, by upstream's name of it.
    pub fn named(&mut self, plugin: &str) -> Option<&mut i64> {
        Some(match plugin {
            "NodeResourcesFit" => &mut self.room,
            "NodeResourcesBalancedAllocation" => &mut self.evenness,
            "ImageLocality" => &mut self.images,
            "TaintToleration" => &mut self.taints,
            "NodeAffinity" => &mut self.nodes,
            "PodTopologySpread" => &mut self.spread,
            "InterPodAffinity" => &mut self.pods,
            _ => return None,
        })
    }

    /// No rule has a say.
    pub const NONE: Weights =
        Weights { room: 0, evenness: 0, images: 0, taints: 0, nodes: 0, spread: 0, pods: 0 };
}

impl Profile {
    /// The profile of a name, as upstream's default one is.
    #[must_use]
    pub fn named(name: &str) -> Profile {
        Profile {
            name: name.into(),
            nodes: None,
            prefers: Vec::new(),
            spreads: true,
            constraints: Vec::new(),
            weights: Weights::default(),
        }
    }
}
