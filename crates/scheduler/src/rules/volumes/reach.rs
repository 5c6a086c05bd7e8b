//! Nodes that can reach a volume: the node affinity of each PersistentVolume, parsed once per plan and shared by all
//! claims that may get the volume.

use std::collections::BTreeMap;
use std::sync::Arc;

use setpoint_api::{Key, Revision, Value};
use setpoint_reconcile::Object;
use setpoint_reconcile::views::persistent_volume::PersistentVolume;

use crate::cost::VOLUME_VALUES_MAX;
use crate::shape::NodeTerm;

/// Terms of which a node must meet one; nothing if every node will do.
pub type Terms = Option<Arc<[NodeTerm]>>;

/// Size of terms that are not parsed yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// Conditions that a node is compared with.
    pub conditions: u64,
    /// Values in these conditions.
    pub values: u64,
}

impl Weight {
    /// The weight of some requirements.
    pub fn of(requirements: &[Value]) -> Weight {
        let values = requirements.iter().filter_map(|one| Some(one.get("values")?.as_list()?.len()));
        Weight { conditions: count(requirements.len()), values: count(values.sum()) }
    }

    /// The weight of the node affinity of a volume.
    pub fn of_volume(volume: &PersistentVolume) -> Weight {
        let mut weight = Weight::default();
        for term in unparsed(volume).into_iter().flatten() {
            for field in ["matchExpressions", "matchFields"] {
                weight += term.get(field).and_then(Value::as_list).map(Weight::of).unwrap_or_default();
            }
        }
        weight
    }

    /// `true` if volumes are seldom like this: a local volume has one condition with one value.
    pub fn is_heavy(self) -> bool {
        self.conditions > 2 || self.values > 8
    }
}

impl std::ops::AddAssign for Weight {
    fn add_assign(&mut self, other: Weight) {
        self.conditions = self.conditions.saturating_add(other.conditions);
        self.values = self.values.saturating_add(other.values);
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn unparsed(volume: &PersistentVolume) -> Option<&[Value]> {
    volume.spec.node_affinity.as_ref()?.at(&["required", "nodeSelectorTerms"])?.as_list()
}

/// Parsed terms of volumes.
#[derive(Clone, Default)]
pub struct ReachCache {
    known: BTreeMap<Key, (Revision, Terms)>,
    values: u64,
}

impl ReachCache {
    /// Returns the terms of a volume.
    pub fn terms(&mut self, object: &Object, volume: &PersistentVolume) -> Terms {
        let unparsed = unparsed(volume)?;
        if let Some((revision, terms)) = self.known.get(object.key())
            && *revision == object.revision()
        {
            return terms.clone();
        }
        let values = Weight::of_volume(volume).values;
        self.values = self.values.saturating_add(values);
        // Terms shared by pods of several classes would have no bound in all: the pod at hand keeps its own.
        if self.values > VOLUME_VALUES_MAX {
            self.known.clear();
            self.values = values;
        }
        let mut terms: Vec<NodeTerm> = unparsed.iter().filter_map(NodeTerm::of).collect();
        terms.sort_unstable();
        terms.dedup();
        let terms = Some(Arc::from(terms));
        self.known.insert(object.key().clone(), (object.revision(), Terms::clone(&terms)));
        terms
    }

    /// The number of volumes whose terms are parsed.
    #[cfg(test)]
    pub fn parsed(&self) -> usize {
        self.known.len()
    }

    /// Drops what was parsed, at the end of a plan.
    pub fn clear(&mut self) {
        *self = ReachCache::default();
    }
}
