//! Scheduler profile: the settings for pods of one `schedulerName`. All profiles share one queue and one cache.

use setpoint_requirements::node_affinity::{NodeSelectorTerm, RequiredNodeAffinity};

use crate::plugins::{
    dynamic_resources, inter_pod_affinity, node_affinity, pod_topology_spread, taint_toleration,
};
use crate::signature::SpreadConstraint;

/// Settings for pods of one `schedulerName`.
#[derive(Clone, Debug)]
pub struct Profile {
    /// `schedulerName` of the pods.
    pub name: Box<str>,
    /// Required part of `addedAffinity` of NodeAffinity.
    pub added_affinity: Option<RequiredNodeAffinity>,
    /// Preferred part of `addedAffinity` of NodeAffinity, with weights.
    pub added_preferences: Vec<(i64, NodeSelectorTerm)>,
    /// `true` for `defaultingType: System` of PodTopologySpread, `false` for `List`.
    pub has_system_defaults: bool,
    /// `defaultConstraints` of PodTopologySpread; their selectors are not used.
    pub default_constraints: Vec<SpreadConstraint>,
    /// Weights of the score plugins.
    pub weights: ScoreWeights,
}

/// Weights of the score plugins; 0 disables the score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the names of kube-scheduler's plugins")]
pub struct ScoreWeights {
    pub node_resources_fit: i64,
    pub balanced_allocation: i64,
    pub image_locality: i64,
    pub taint_toleration: i64,
    pub node_affinity: i64,
    pub pod_topology_spread: i64,
    pub inter_pod_affinity: i64,
    pub dynamic_resources: i64,
}

impl Default for ScoreWeights {
    fn default() -> ScoreWeights {
        ScoreWeights {
            node_resources_fit: 1,
            balanced_allocation: 1,
            image_locality: 1,
            taint_toleration: taint_toleration::WEIGHT,
            node_affinity: node_affinity::WEIGHT,
            pod_topology_spread: pod_topology_spread::WEIGHT,
            inter_pod_affinity: inter_pod_affinity::WEIGHT,
            dynamic_resources: dynamic_resources::WEIGHT,
        }
    }
}

impl ScoreWeights {
    /// All scores disabled.
    pub(crate) const NONE: ScoreWeights = ScoreWeights {
        node_resources_fit: 0,
        balanced_allocation: 0,
        image_locality: 0,
        taint_toleration: 0,
        node_affinity: 0,
        pod_topology_spread: 0,
        inter_pod_affinity: 0,
        dynamic_resources: 0,
    };

    /// Returns the weight of a plugin by its name in a KubeSchedulerConfiguration; `None` if it does not score.
    pub(crate) fn get_mut(&mut self, plugin: &str) -> Option<&mut i64> {
        Some(match plugin {
            "NodeResourcesFit" => &mut self.node_resources_fit,
            "NodeResourcesBalancedAllocation" => &mut self.balanced_allocation,
            "ImageLocality" => &mut self.image_locality,
            "TaintToleration" => &mut self.taint_toleration,
            "NodeAffinity" => &mut self.node_affinity,
            "PodTopologySpread" => &mut self.pod_topology_spread,
            "InterPodAffinity" => &mut self.inter_pod_affinity,
            "DynamicResources" => &mut self.dynamic_resources,
            _ => return None,
        })
    }
}

impl Profile {
    /// Returns the default profile of kube-scheduler for a `schedulerName`.
    #[must_use]
    pub fn new(name: &str) -> Profile {
        Profile {
            name: name.into(),
            added_affinity: None,
            added_preferences: Vec::new(),
            has_system_defaults: true,
            default_constraints: Vec::new(),
            weights: ScoreWeights::default(),
        }
    }
}
