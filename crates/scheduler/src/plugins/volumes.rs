//! VolumeBinding, VolumeZone and NodeVolumeLimits plugins, and `ReadWriteOncePod` of VolumeRestrictions: nodes that can
//! reach the volumes of a pod, or on which its unbound claims can get volumes.
//!
//! A claim with `volumeBindingMode: WaitForFirstConsumer` is bound together with its pod: [`prebind_writes`] selects a
//! volume or a node for the claim, and the pod is bound once the claim is. Start at [`find_requirements`].

mod limits;
pub mod node_terms;
mod search;

use std::collections::BTreeSet;
use std::sync::Arc;

use setpoint_api::{Key, Value, value};
use setpoint_reconcile::object::Pairs;
use setpoint_reconcile::{Action, Object, WorldReader, Write};
use setpoint_requirements::node_affinity::NodeSelectorTerm;
use setpoint_views::csi_storage_capacity::CsiStorageCapacity;
use setpoint_views::persistent_volume::PersistentVolume;
use setpoint_views::persistent_volume_claim::PersistentVolumeClaim;

use super::{QueueingHint, Rejection};
use crate::cache::SchedulerCache;
use crate::cache::node_info::NodeInfo;
use crate::cost::{TooCostly, VolumeCost};
use crate::signature::{PodSignature, VolumeClaimRef};
use limits::VolumeLimits;
use node_terms::{TermSize, VolumeAffinityCache, VolumeNodeTerms};
use search::VolumeSearch;

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const ZONE_LABELS: [&str; 4] = [
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];

/// Requirements of a pod's volumes on a node.
#[derive(Clone, Debug, Default)]
pub struct VolumeRequirements {
    assigned: Vec<AssignedVolume>,
    unbound: Vec<UnboundClaim>,
    /// `true` if a claim is bound to a volume that does not exist.
    has_lost_volume: bool,
    /// Names of claims with the access mode `ReadWriteOncePod`.
    single_pod_claims: Vec<Box<str>>,
    limits: VolumeLimits,
}

/// Existing volume that a claim of the pod is bound to or is reserved for.
#[derive(Clone, Debug)]
struct AssignedVolume {
    terms: VolumeNodeTerms,
    /// Zone and region labels of the volume, with the values that a node may have.
    zones: Vec<(&'static str, Vec<Box<str>>)>,
    /// `true` if the binding of the claim is complete.
    is_bound: bool,
}

/// Claim that is bound together with its pod.
#[derive(Clone, Debug)]
struct UnboundClaim {
    claim: Object,
    /// Node that an earlier attempt selected for provisioning.
    selected_node: Option<Box<str>>,
    /// Available volumes that match the claim, smallest first.
    volumes: Vec<(Object, VolumeNodeTerms)>,
    /// `true` if its storage class has a provisioner.
    can_be_provisioned: bool,
    /// `allowedTopologies` of its storage class; empty if every node is allowed.
    allowed_topologies: Arc<[NodeSelectorTerm]>,
    /// CSIStorageCapacities that are large enough; `None` if the driver does not report capacity.
    capacities: Option<Vec<Object>>,
}

/// Result of looking for a volume for a claim on a node.
enum VolumeLookup {
    /// A volume exists, or one can be provisioned.
    Available,
    /// No volume exists, and none can be provisioned.
    NotFound,
    /// The driver has not enough free capacity.
    NoCapacity,
}

impl VolumeRequirements {
    /// Number of distinct allocations for terms of volumes.
    #[cfg(test)]
    pub fn shared_terms(&self) -> usize {
        let all = self.unbound.iter().flat_map(|claim| &claim.volumes);
        all.filter_map(|(_, terms)| terms.as_ref().map(|terms| Arc::as_ptr(terms).addr()))
            .collect::<BTreeSet<_>>()
            .len()
    }

    /// `true` if every claim is bound.
    #[must_use]
    pub fn are_bound(&self) -> bool {
        self.unbound.is_empty() && self.assigned.iter().all(|volume| volume.is_bound)
    }
}

/// Reason why no node is evaluated.
#[derive(Clone, Debug)]
pub enum VolumeError {
    /// Every node is rejected.
    Rejected(Rejection),
    /// The evaluation would cost too much.
    TooCostly(TooCostly),
}

impl From<TooCostly> for VolumeError {
    fn from(costly: TooCostly) -> VolumeError {
        VolumeError::TooCostly(costly)
    }
}

fn reject(reason: String) -> VolumeError {
    VolumeError::Rejected(Rejection::unresolvable(reason, QueueingHint::STORAGE))
}

/// Returns the requirements of a pod's volumes. `nodes` is the number of nodes that they are compared with.
///
/// # Errors
/// If every node is rejected, or if the comparison would cost too much.
pub fn find_requirements(
    signature: &PodSignature,
    world: &WorldReader<'_>,
    nodes: usize,
    volume_affinity: &mut VolumeAffinityCache,
) -> Result<VolumeRequirements, VolumeError> {
    let mut requirements = VolumeRequirements::default();
    if signature.claims.is_empty() {
        return Ok(requirements);
    }
    let mut cost = VolumeCost::on_nodes(nodes);
    // NodeVolumeLimits compares the volumes of each node with those of the pod.
    cost.add_conditions(u64::try_from(signature.claims.len()).unwrap_or(u64::MAX))?;
    cost.add_scans(count_unbound_claims(signature, world), world.count("persistentvolumes"))?;
    let mut search = VolumeSearch::new(world, cost, volume_affinity);
    for claim in &signature.claims {
        search.add_claim(signature, claim, &mut requirements)?;
    }
    requirements.limits = VolumeLimits::new(signature, world);
    Ok(requirements)
}

/// Number of claims of a pod that have no volume yet.
pub fn count_unbound_claims(signature: &PodSignature, world: &WorldReader<'_>) -> usize {
    let is_unbound = |claim: &&VolumeClaimRef| {
        let view = world.view::<PersistentVolumeClaim>(&signature.namespace, &claim.name);
        view.is_some_and(|(_, claim)| claim.spec.volume_name.is_empty())
    };
    signature.claims.iter().filter(is_unbound).count()
}

/// Returns the total size of the node affinity of available volumes, of those that are larger than usual.
#[must_use]
pub fn measure_large_volumes(world: &WorldReader<'_>) -> TermSize {
    let mut total = TermSize::default();
    let available = world.views::<PersistentVolume>().filter(|(_, volume)| volume.spec.claim_ref.is_none());
    for size in available.map(|(_, volume)| TermSize::of_volume(volume)).filter(|size| size.is_large()) {
        total += size;
    }
    total
}

/// `true` if a node matches one of the terms.
fn is_reachable(terms: &VolumeNodeTerms, node: &NodeInfo) -> bool {
    let matches = |term: &NodeSelectorTerm| term.matches(&node.name, &node.attributes.labels);
    terms.as_ref().is_none_or(|terms| terms.iter().any(matches))
}

/// Filters nodes that do not meet the requirements.
///
/// # Errors
/// Rejects the node.
pub fn filter(
    requirements: &VolumeRequirements,
    signature: &PodSignature,
    node: &NodeInfo,
    cache: &SchedulerCache,
    world: &WorldReader<'_>,
) -> Result<(), Rejection> {
    if signature.claims.is_empty() {
        return Ok(());
    }
    let is_in_use = |claim: &str| cache.claim_users.count_users(&signature.namespace, claim) > 0;
    if requirements.single_pod_claims.iter().any(|claim| is_in_use(claim)) {
        let reason = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";
        let hint = QueueingHint::ASSIGNED_POD_DELETE | QueueingHint::STORAGE;
        return Err(Rejection::resolvable(reason, hint));
    }
    requirements.limits.filter(signature, node, cache, world)?;
    let hint = QueueingHint::STORAGE | QueueingHint::NODE_ADD_OR_UPDATE;
    if requirements.has_lost_volume {
        let reason = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
        return Err(Rejection::unresolvable(reason, hint));
    }
    if !requirements.assigned.iter().all(|volume| is_reachable(&volume.terms, node)) {
        return Err(Rejection::unresolvable("node(s) didn't match PersistentVolume's node affinity", hint));
    }
    let mut taken = BTreeSet::new();
    for claim in &requirements.unbound {
        let reason = match claim.look_up(node, &mut taken) {
            VolumeLookup::Available => continue,
            VolumeLookup::NotFound => "node(s) didn't find available persistent volumes to bind",
            VolumeLookup::NoCapacity => "node(s) did not have enough free storage",
        };
        return Err(Rejection::unresolvable(reason, hint));
    }
    if !requirements.assigned.iter().all(|volume| volume.is_in_zone(&node.attributes.labels)) {
        return Err(Rejection::unresolvable("node(s) had no available volume zone", hint));
    }
    Ok(())
}

impl AssignedVolume {
    /// `true` if a node with these labels is in the zones of the volume. As upstream, a node without any zone label is.
    fn is_in_zone(&self, labels: &Pairs) -> bool {
        if !ZONE_LABELS.iter().any(|key| labels.get(key).is_some()) {
            return true;
        }
        self.zones.iter().all(|(key, values)| {
            let current_key = key.replace("failure-domain.beta", "topology");
            let zone = labels.get(key).or_else(|| labels.get(&current_key));
            zone.is_some_and(|zone| values.iter().any(|value| **value == *zone))
        })
    }
}

impl UnboundClaim {
    /// Looks for a volume on a node: an available one that is not `taken` by another claim of the pod, or a new one. If
    /// an earlier attempt selected a node, that decides: its capacity may be used up by this very claim.
    fn look_up<'a>(&'a self, node: &NodeInfo, taken: &mut BTreeSet<&'a Key>) -> VolumeLookup {
        if let Some(selected) = &self.selected_node {
            return if *selected == node.name { VolumeLookup::Available } else { VolumeLookup::NotFound };
        }
        if let Some(volume) = self.find_available(node, taken) {
            taken.insert(volume.key());
            return VolumeLookup::Available;
        }
        let labels = &node.attributes.labels;
        let is_allowed = self.allowed_topologies.is_empty()
            || self.allowed_topologies.iter().any(|term| term.matches(&node.name, labels));
        if !self.can_be_provisioned || !is_allowed {
            return VolumeLookup::NotFound;
        }
        let is_for_node = |capacity: &Object| {
            let capacity = capacity.view::<CsiStorageCapacity>();
            capacity.is_some_and(|capacity| capacity.node_topology.matches(|name| labels.get(name)))
        };
        let has_capacity = self.capacities.as_ref().is_none_or(|all| all.iter().any(is_for_node));
        if has_capacity { VolumeLookup::Available } else { VolumeLookup::NoCapacity }
    }

    fn find_available(&self, node: &NodeInfo, taken: &BTreeSet<&Key>) -> Option<&Object> {
        let is_free = |volume: &Object| !taken.contains(volume.key());
        let reachable =
            self.volumes.iter().find(|(volume, terms)| is_free(volume) && is_reachable(terms, node));
        reachable.map(|(volume, _)| volume)
    }
}

/// Returns the writes that bind the claims of a pod on a node: `claimRef` of an available volume, or the selected-node
/// annotation of a claim to provision. None for claims that have a selected node.
#[must_use]
pub fn prebind_writes(requirements: &VolumeRequirements, node: &NodeInfo) -> Vec<Action> {
    let (mut writes, mut taken) = (Vec::new(), BTreeSet::new());
    for unbound in requirements.unbound.iter().filter(|unbound| unbound.selected_node.is_none()) {
        let (key, meta) = (unbound.claim.key(), unbound.claim.meta());
        if let Some(volume) = unbound.find_available(node, &taken) {
            taken.insert(volume.key());
            let claim = value!({
                "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": (&*meta.namespace),
                "name": (key.name()), "uid": (&*meta.uid), "resourceVersion": (unbound.claim.revision().to_string()),
            });
            let patch = value!({
                "metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
                "spec": {"claimRef": (claim)},
            });
            writes.push(Write::merge(volume, "", patch).into());
        } else {
            let annotations = Value::Map([(SELECTED_NODE, Value::from(&*node.name))].into_iter().collect());
            let patch = value!({"metadata": {"annotations": (annotations)}});
            writes.push(Write::merge(&unbound.claim, "", patch).into());
        }
    }
    writes
}
