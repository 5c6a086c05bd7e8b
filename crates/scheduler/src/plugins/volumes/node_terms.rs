//! Node affinity of PersistentVolumes, parsed once per plan and shared by all claims that can be bound to the volume.

use std::collections::BTreeMap;
use std::sync::Arc;

use setpoint_api::{Key, Revision, Value};
use setpoint_reconcile::Object;
use setpoint_requirements::node_affinity::NodeSelectorTerm;
use setpoint_views::persistent_volume::PersistentVolume;

use crate::cost::VOLUME_VALUES_MAX;

/// Terms of which a node must match one; `None` if every node reaches the volume.
pub type VolumeNodeTerms = Option<Arc<[NodeSelectorTerm]>>;

/// Size of node selector terms, known before they are parsed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TermSize {
    /// Requirements that a node is compared with.
    pub conditions: u64,
    /// Values in these requirements.
    pub values: u64,
}

impl TermSize {
    /// Size of some requirements.
    pub fn of_requirements(requirements: &[Value]) -> TermSize {
        let values = requirements.iter().filter_map(|one| Some(one.get("values")?.as_list()?.len()));
        TermSize { conditions: to_u64(requirements.len()), values: to_u64(values.sum()) }
    }

    /// Size of the node affinity of a volume.
    pub fn of_volume(volume: &PersistentVolume) -> TermSize {
        let mut size = TermSize::default();
        for term in unparsed_terms(volume).into_iter().flatten() {
            for field in ["matchExpressions", "matchFields"] {
                let requirements = term.get(field).and_then(Value::as_list);
                size += requirements.map(TermSize::of_requirements).unwrap_or_default();
            }
        }
        size
    }

    /// `true` if it is larger than usual: a local volume has one requirement with one value.
    pub fn is_large(self) -> bool {
        self.conditions > 2 || self.values > 8
    }
}

impl std::ops::AddAssign for TermSize {
    fn add_assign(&mut self, other: TermSize) {
        self.conditions = self.conditions.saturating_add(other.conditions);
        self.values = self.values.saturating_add(other.values);
    }
}

fn to_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn unparsed_terms(volume: &PersistentVolume) -> Option<&[Value]> {
    volume.spec.node_affinity.as_ref()?.at(&["required", "nodeSelectorTerms"])?.as_list()
}

/// Parsed node affinity of volumes.
#[derive(Clone, Default)]
pub struct VolumeAffinityCache {
    known: BTreeMap<Key, (Revision, VolumeNodeTerms)>,
    /// Values in `known`.
    values: u64,
}

impl VolumeAffinityCache {
    /// Returns the terms of a volume.
    pub fn terms(&mut self, object: &Object, volume: &PersistentVolume) -> VolumeNodeTerms {
        let unparsed = unparsed_terms(volume)?;
        if let Some((revision, terms)) = self.known.get(object.key())
            && *revision == object.revision()
        {
            return terms.clone();
        }
        let values = TermSize::of_volume(volume).values;
        self.values = self.values.saturating_add(values);
        // Bounds the memory over all pods of a plan. The current pod keeps the terms that it shares by `Arc`.
        if self.values > VOLUME_VALUES_MAX {
            self.known.clear();
            self.values = values;
        }
        let mut terms: Vec<NodeSelectorTerm> = unparsed.iter().filter_map(NodeSelectorTerm::read).collect();
        terms.sort_unstable();
        terms.dedup();
        let terms = Some(Arc::from(terms));
        self.known.insert(object.key().clone(), (object.revision(), VolumeNodeTerms::clone(&terms)));
        terms
    }

    /// Number of volumes whose terms are parsed.
    #[cfg(test)]
    pub fn parsed_volumes(&self) -> usize {
        self.known.len()
    }

    /// Drops all terms, at the end of a plan.
    pub fn clear(&mut self) {
        *self = VolumeAffinityCache::default();
    }
}
