//! Search for the volumes of one pod: reads its claims and the volumes that they are bound to or can be bound to.
//!
//! The cost of each step is added to a [`VolumeCost`] before the step is taken, so a pod with very many claims or
//! volumes with very many terms is given up early.

use std::collections::BTreeMap;
use std::sync::Arc;

use setpoint_api::quantity::Quantity;
use setpoint_api::{Key, Value, value};
use setpoint_reconcile::object::Pairs;
use setpoint_reconcile::{Object, WorldReader};
use setpoint_requirements::node_affinity::NodeSelectorTerm;
use setpoint_views::csi_driver::CsiDriver;
use setpoint_views::csi_storage_capacity::CsiStorageCapacity;
use setpoint_views::persistent_volume::PersistentVolume;
use setpoint_views::persistent_volume_claim::PersistentVolumeClaim;
use setpoint_views::storage_class::StorageClass;

use super::node_terms::{TermSize, VolumeAffinityCache, VolumeNodeTerms};
use super::{
    AssignedVolume, SELECTED_NODE, UnboundClaim, VolumeError, VolumeRequirements, ZONE_LABELS, reject,
};
use crate::cost::{TooCostly, VolumeCost};
use crate::signature::{PodSignature, VolumeClaimRef};

const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Search for the volumes of one pod.
pub(super) struct VolumeSearch<'a> {
    world: &'a WorldReader<'a>,
    cost: VolumeCost,
    volume_affinity: &'a mut VolumeAffinityCache,
    /// Volumes whose values are already in `cost`.
    measured: BTreeMap<&'a Key, TermSize>,
    /// Allowed topologies of storage classes by class name.
    topologies: BTreeMap<&'a str, (TermSize, Arc<[NodeSelectorTerm]>)>,
}

impl<'a> VolumeSearch<'a> {
    pub(super) fn new(
        world: &'a WorldReader<'a>,
        cost: VolumeCost,
        volume_affinity: &'a mut VolumeAffinityCache,
    ) -> VolumeSearch<'a> {
        VolumeSearch { world, cost, volume_affinity, measured: BTreeMap::new(), topologies: BTreeMap::new() }
    }

    /// Adds the requirements of one claim.
    pub(super) fn add_claim(
        &mut self,
        signature: &PodSignature,
        claim: &VolumeClaimRef,
        requirements: &mut VolumeRequirements,
    ) -> Result<(), VolumeError> {
        let (world, VolumeClaimRef { name, ephemeral_owner }) = (self.world, claim);
        let Some((object, claim)) = world.view::<PersistentVolumeClaim>(&signature.namespace, name) else {
            return Err(reject(if ephemeral_owner.is_some() {
                format!(
                    "waiting for ephemeral volume controller to create the persistentvolumeclaim \"{name}\""
                )
            } else {
                format!("persistentvolumeclaim \"{name}\" not found")
            }));
        };
        if object.meta().is_deleted() {
            return Err(reject(format!("persistentvolumeclaim \"{name}\" is being deleted")));
        }
        let owner = ephemeral_owner.as_ref();
        if let Some((pod, _)) = owner.filter(|(_, uid)| !object.meta().is_controlled_by(uid)) {
            let space = &signature.namespace;
            let reason =
                format!("PVC {space}/{name} was not created for pod {space}/{pod} (pod is not owner)");
            return Err(reject(reason));
        }
        let volume = claim.spec.volume_name.as_str();
        if claim.status.phase == "Lost" {
            let reason = format!(
                "persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{volume}\""
            );
            return Err(reject(reason));
        }
        if claim.spec.access_modes.iter().any(|mode| mode == "ReadWriteOncePod") {
            requirements.single_pod_claims.push(name.clone());
        }
        if !volume.is_empty() && object.meta().annotations.get(BIND_COMPLETED).is_some() {
            match world.view::<PersistentVolume>("", volume) {
                Some((object, volume)) => {
                    requirements.assigned.push(self.assigned_volume(object, volume, true)?);
                }
                None => requirements.has_lost_volume = true,
            }
            return Ok(());
        }
        let class = world
            .view::<StorageClass>("", claim.class(object))
            .filter(|(_, class)| class.is_wait_for_first_consumer());
        let Some((_, class)) = class.filter(|_| volume.is_empty()) else {
            return Err(reject("pod has unbound immediate PersistentVolumeClaims".to_owned()));
        };
        match world.views::<PersistentVolume>().find(|(_, volume)| volume.is_for(object)) {
            Some((object, volume)) => {
                requirements.assigned.push(self.assigned_volume(object, volume, false)?);
            }
            None => requirements.unbound.push(self.unbound_claim(object, claim, class)?),
        }
        Ok(())
    }

    fn assigned_volume(
        &mut self,
        object: &'a Object,
        volume: &PersistentVolume,
        is_bound: bool,
    ) -> Result<AssignedVolume, TooCostly> {
        let labels = &object.meta().labels;
        let zones = ZONE_LABELS.iter().filter_map(|key| {
            let values = labels.get(key)?;
            Some((*key, values.split("__").map(Into::into).collect()))
        });
        Ok(AssignedVolume { terms: self.node_terms(object, volume)?, zones: zones.collect(), is_bound })
    }

    /// Returns the node affinity of a volume, after adding the cost of comparing it with every node.
    fn node_terms(
        &mut self,
        object: &'a Object,
        volume: &PersistentVolume,
    ) -> Result<VolumeNodeTerms, TooCostly> {
        let size = match self.measured.get(object.key()) {
            Some(size) => *size,
            None => {
                let size = TermSize::of_volume(volume);
                self.cost.add_values(size.values)?;
                self.measured.insert(object.key(), size);
                size
            }
        };
        self.cost.add_conditions(size.conditions.max(1))?;
        Ok(self.volume_affinity.terms(object, volume))
    }

    fn unbound_claim(
        &mut self,
        object: &'a Object,
        claim: &'a PersistentVolumeClaim,
        class: &'a StorageClass,
    ) -> Result<UnboundClaim, TooCostly> {
        let mut matching: Vec<(&'a Object, &PersistentVolume)> = self
            .world
            .views::<PersistentVolume>()
            .filter(|(seen, volume)| can_bind(seen, volume, object, claim))
            .collect();
        matching.sort_by_cached_key(|(_, volume)| storage(&volume.spec.capacity));
        let mut volumes = Vec::with_capacity(matching.len());
        for (seen, volume) in matching {
            volumes.push((seen.clone(), self.node_terms(seen, volume)?));
        }
        let name = claim.class(object);
        let capacities = find_capacities(claim, name, class, self.world);
        let conditions = capacities.as_ref().map_or(0, Vec::len);
        self.cost.add_conditions(u64::try_from(conditions).unwrap_or(u64::MAX))?;
        Ok(UnboundClaim {
            claim: object.clone(),
            selected_node: object.meta().annotations.get(SELECTED_NODE).map(Into::into),
            volumes,
            can_be_provisioned: !class.provisioner.is_empty() && class.provisioner != NO_PROVISIONER,
            allowed_topologies: self.allowed_topologies(name, class)?,
            capacities,
        })
    }

    /// Returns the allowed topologies of a storage class, parsed once for all claims of the class.
    fn allowed_topologies(
        &mut self,
        name: &'a str,
        class: &'a StorageClass,
    ) -> Result<Arc<[NodeSelectorTerm]>, TooCostly> {
        if let Some((size, known)) = self.topologies.get(name) {
            self.cost.add_conditions(size.conditions)?;
            return Ok(Arc::clone(known));
        }
        let expressions = |one: &'a Value| one.get("matchLabelExpressions").and_then(Value::as_list);
        let mut size = TermSize::default();
        for one in &class.allowed_topologies {
            size += expressions(one).map(TermSize::of_requirements).unwrap_or_default();
        }
        self.cost.add_values(size.values)?;
        self.cost.add_conditions(size.conditions)?;
        let terms = class.allowed_topologies.iter().filter_map(|one| {
            let expressions = expressions(one)?.iter().map(|one| {
                let values = one.get("values").cloned().unwrap_or_default();
                value!({"key": (one.str_at(&["key"])), "operator": "In", "values": (values)})
            });
            NodeSelectorTerm::read(&value!({"matchExpressions": (expressions.collect::<Vec<_>>())}))
        });
        let terms: Arc<[NodeSelectorTerm]> = terms.collect();
        self.topologies.insert(name, (size, Arc::clone(&terms)));
        Ok(terms)
    }
}

fn storage(amounts: &Pairs) -> Quantity {
    amounts.get("storage").and_then(|text| Quantity::parse(text).ok()).unwrap_or_default()
}

/// Returns the CSIStorageCapacities that are large enough for a claim; `None` if the driver does not report capacity.
fn find_capacities(
    claim: &PersistentVolumeClaim,
    class_name: &str,
    class: &StorageClass,
    world: &WorldReader<'_>,
) -> Option<Vec<Object>> {
    let (_, driver) = world.view::<CsiDriver>("", &class.provisioner)?;
    let reports_capacity = driver.spec.storage_capacity == Some(true);
    claim.spec.resources.requests.get("storage").filter(|_| reports_capacity)?;
    let requested = storage(&claim.spec.resources.requests);
    let is_large_enough = |one: &CsiStorageCapacity| {
        let max = one.maximum_volume_size.as_deref().or(one.capacity.as_deref());
        max.and_then(|text| Quantity::parse(text).ok()).is_some_and(|max| max >= requested)
    };
    let all = world.views::<CsiStorageCapacity>();
    let matching = all.filter(|(_, one)| one.storage_class_name == class_name && is_large_enough(one));
    Some(matching.map(|(object, _)| object.clone()).collect())
}

/// `true` if a claim can be bound to a volume, on a node that reaches the volume.
fn can_bind(
    seen: &Object,
    volume: &PersistentVolume,
    object: &Object,
    claim: &PersistentVolumeClaim,
) -> bool {
    volume.spec.claim_ref.is_none()
        && volume.status.phase == "Available"
        && !seen.meta().is_deleted()
        && volume.class(seen) == claim.class(object)
        && storage(&volume.spec.capacity) >= storage(&claim.spec.resources.requests)
        && volume.spec.volume_mode.as_deref().unwrap_or("Filesystem")
            == claim.spec.volume_mode.as_deref().unwrap_or("Filesystem")
        && claim.spec.access_modes.iter().all(|mode| volume.spec.access_modes.contains(mode))
        && claim.spec.selector.as_ref().is_none_or(|one| one.matches(|name| seen.meta().labels.get(name)))
}
