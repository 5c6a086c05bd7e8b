//! Volumes tie pods to nodes: where a volume can be reached, where one can be made, how many a node can have.
//!
//! A claim that waits for its first pod gets a node with it: the choice is written down, and the pod is bound once
//! the claim is.

mod limits;
pub mod reach;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use setpoint_api::quantity::Quantity;
use setpoint_api::{Key, Value, value};
use setpoint_reconcile::object::Pairs;
use setpoint_reconcile::views::csi_driver::CsiDriver;
use setpoint_reconcile::views::csi_storage_capacity::CsiStorageCapacity;
use setpoint_reconcile::views::persistent_volume::PersistentVolume;
use setpoint_reconcile::views::persistent_volume_claim::PersistentVolumeClaim;
use setpoint_reconcile::views::storage_class::StorageClass;
use setpoint_reconcile::{Act, Object, World, Write};

use super::{Helps, Rejection};
use crate::cache::Cache;
use crate::cache::node::Node;
use crate::cost::{TooCostly, VolumeCost};
use crate::shape::{Claim, NodeTerm, Shape};
use limits::Limits;
use reach::{ReachCache, Terms, Weight};

const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
const ZONE_LABELS: [&str; 4] = [
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];

/// What the volumes of a pod need.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    fixed: Vec<Fixed>,
    open: Vec<Open>,
    /// Whether a volume is gone.
    is_lost: bool,
    /// The claims that only one pod may use.
    single: Vec<Box<str>>,
    /// How many volumes nodes can have.
    limits: Limits,
}

/// A volume that is there.
#[derive(Clone, Debug)]
struct Fixed {
    terms: Terms,
    zones: Vec<(&'static str, Vec<Box<str>>)>,
    /// Whether its claim is bound to it by now.
    is_bound: bool,
}

/// A claim that waits for a node.
#[derive(Clone, Debug)]
struct Open {
    claim: Object,
    selected: Option<Box<str>>,
    volumes: Vec<(Object, Terms)>,
    is_made: bool,
    topologies: Arc<[NodeTerm]>,
    /// CSIStorageCapacities that have room for it; nothing if its driver does not report any.
    room: Option<Vec<Object>>,
}

/// What a claim finds on a node.
enum Finds {
    /// A volume, or room for one.
    Volume,
    /// Neither, and none can be made.
    Nothing,
    /// A driver without room for it.
    NoRoom,
}

impl Needs {
    /// The number of allocations that hold terms of volumes.
    #[cfg(test)]
    pub fn shared_terms(&self) -> usize {
        let all = self.open.iter().flat_map(|open| &open.volumes);
        all.filter_map(|(_, terms)| terms.as_ref().map(|terms| Arc::as_ptr(terms).addr()))
            .collect::<BTreeSet<_>>()
            .len()
    }

    /// Whether every claim has its volume.
    #[must_use]
    pub fn are_met(&self) -> bool {
        self.open.is_empty() && self.fixed.iter().all(|fixed| fixed.is_bound)
    }
}

/// Reasons why no node is looked for.
#[derive(Clone, Debug)]
pub enum Unmet {
    /// No node will do.
    Rejected(Rejection),
    /// It would take too long.
    TooCostly(TooCostly),
}

impl From<TooCostly> for Unmet {
    fn from(costly: TooCostly) -> Unmet {
        Unmet::TooCostly(costly)
    }
}

fn barred(why: String) -> Unmet {
    Unmet::Rejected(Rejection::for_good(why, Helps::VOLUMES))
}

/// Returns what the volumes of a pod need on so many nodes.
///
/// # Errors
/// If no node will do, or if it would take too long to find one.
pub fn needs(shape: &Shape, world: &World, nodes: usize, reach: &mut ReachCache) -> Result<Needs, Unmet> {
    let mut needs = Needs::default();
    if shape.claims.is_empty() {
        return Ok(needs);
    }
    let mut search = Search::new(world, VolumeCost::on(nodes), reach);
    // The volumes that nodes have already are compared with those of the pod.
    search.cost.add_conditions(u64::try_from(shape.claims.len()).unwrap_or(u64::MAX))?;
    search.cost.add_scans(open_claims(shape, world), world.count("persistentvolumes"))?;
    for claim in &shape.claims {
        search.add_claim(shape, claim, &mut needs)?;
    }
    needs.limits = Limits::of(shape, world);
    Ok(needs)
}

/// The number of claims of a pod that are not bound yet.
pub fn open_claims(shape: &Shape, world: &World) -> usize {
    let is_open = |claim: &&Claim| {
        let view = world.view::<PersistentVolumeClaim>(&shape.namespace, &claim.name);
        view.is_some_and(|(_, claim)| claim.spec.volume_name.is_empty())
    };
    shape.claims.iter().filter(is_open).count()
}

/// Available volumes that cost more than usual to compare with nodes.
#[must_use]
pub fn heavy_volumes(world: &World) -> Weight {
    let mut all = Weight::default();
    let available = world.views::<PersistentVolume>().filter(|(_, volume)| volume.spec.claim_ref.is_none());
    for weight in available.map(|(_, volume)| Weight::of_volume(volume)).filter(|weight| weight.is_heavy()) {
        all += weight;
    }
    all
}

/// A search for the volumes of one pod. What it costs is added up before it is built.
struct Search<'a> {
    world: &'a World,
    cost: VolumeCost,
    reach: &'a mut ReachCache,
    /// Volumes whose values are in the cost.
    weighed: BTreeMap<&'a Key, Weight>,
    /// Topologies of storage classes, by name.
    topologies: BTreeMap<&'a str, (Weight, Arc<[NodeTerm]>)>,
}

impl<'a> Search<'a> {
    fn new(world: &'a World, cost: VolumeCost, reach: &'a mut ReachCache) -> Search<'a> {
        Search { world, cost, reach, weighed: BTreeMap::new(), topologies: BTreeMap::new() }
    }

    fn add_claim(&mut self, shape: &Shape, claim: &Claim, needs: &mut Needs) -> Result<(), Unmet> {
        let (world, Claim { name, made_for }) = (self.world, claim);
        let Some((object, claim)) = world.view::<PersistentVolumeClaim>(&shape.namespace, name) else {
            return Err(barred(if made_for.is_some() {
                format!(
                    "waiting for ephemeral volume controller to create the persistentvolumeclaim \"{name}\""
                )
            } else {
                format!("persistentvolumeclaim \"{name}\" not found")
            }));
        };
        if object.meta().is_deleted() {
            return Err(barred(format!("persistentvolumeclaim \"{name}\" is being deleted")));
        }
        if let Some((pod, _)) = made_for.as_ref().filter(|(_, uid)| !object.meta().is_controlled_by(uid)) {
            let space = &shape.namespace;
            let why = format!("PVC {space}/{name} was not created for pod {space}/{pod} (pod is not owner)");
            return Err(barred(why));
        }
        let volume = claim.spec.volume_name.as_str();
        if claim.status.phase == "Lost" {
            let why = format!(
                "persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{volume}\""
            );
            return Err(barred(why));
        }
        if claim.spec.access_modes.iter().any(|mode| mode == "ReadWriteOncePod") {
            needs.single.push(name.clone());
        }
        if !volume.is_empty() && object.meta().annotations.get(BIND_COMPLETED).is_some() {
            match world.view::<PersistentVolume>("", volume) {
                Some((object, volume)) => needs.fixed.push(self.fixed(object, volume, true)?),
                None => needs.is_lost = true,
            }
            return Ok(());
        }
        let class = world.view::<StorageClass>("", claim.class(object)).filter(|(_, class)| class.waits());
        let Some((_, class)) = class.filter(|_| volume.is_empty()) else {
            return Err(barred("pod has unbound immediate PersistentVolumeClaims".to_owned()));
        };
        match world.views::<PersistentVolume>().find(|(_, volume)| volume.is_for(object)) {
            Some((object, volume)) => needs.fixed.push(self.fixed(object, volume, false)?),
            None => needs.open.push(self.open(object, claim, class)?),
        }
        Ok(())
    }

    fn fixed(
        &mut self,
        object: &'a Object,
        volume: &PersistentVolume,
        is_bound: bool,
    ) -> Result<Fixed, TooCostly> {
        let labels = &object.meta().labels;
        let zones = ZONE_LABELS.iter().filter_map(|key| {
            let values = labels.get(key)?;
            Some((*key, values.split("__").map(Into::into).collect()))
        });
        Ok(Fixed { terms: self.terms(object, volume)?, zones: zones.collect(), is_bound })
    }

    /// Returns the nodes that can reach a volume, once the cost of comparing them is in the sum.
    fn terms(&mut self, object: &'a Object, volume: &PersistentVolume) -> Result<Terms, TooCostly> {
        let weight = match self.weighed.get(object.key()) {
            Some(weight) => *weight,
            None => {
                let weight = Weight::of_volume(volume);
                self.cost.add_values(weight.values)?;
                self.weighed.insert(object.key(), weight);
                weight
            }
        };
        self.cost.add_conditions(weight.conditions.max(1))?;
        Ok(self.reach.terms(object, volume))
    }

    fn open(
        &mut self,
        object: &'a Object,
        claim: &'a PersistentVolumeClaim,
        class: &'a StorageClass,
    ) -> Result<Open, TooCostly> {
        let mut fitting: Vec<(&'a Object, &PersistentVolume)> = self
            .world
            .views::<PersistentVolume>()
            .filter(|(seen, volume)| fits(seen, volume, object, claim))
            .collect();
        fitting.sort_by_cached_key(|(_, volume)| storage(&volume.spec.capacity));
        let mut volumes = Vec::with_capacity(fitting.len());
        for (seen, volume) in fitting {
            volumes.push((seen.clone(), self.terms(seen, volume)?));
        }
        let name = claim.class(object);
        let room = room(claim, name, class, self.world);
        self.cost.add_conditions(u64::try_from(room.as_ref().map_or(0, Vec::len)).unwrap_or(u64::MAX))?;
        Ok(Open {
            claim: object.clone(),
            selected: object.meta().annotations.get(SELECTED_NODE).map(Into::into),
            volumes,
            is_made: !class.provisioner.is_empty() && class.provisioner != NO_PROVISIONER,
            topologies: self.topologies(name, class)?,
            room,
        })
    }

    /// Returns where the volumes of a class can be, parsed once for all claims of the class.
    fn topologies(&mut self, name: &'a str, class: &'a StorageClass) -> Result<Arc<[NodeTerm]>, TooCostly> {
        if let Some((weight, known)) = self.topologies.get(name) {
            self.cost.add_conditions(weight.conditions)?;
            return Ok(Arc::clone(known));
        }
        let expressions = |one: &'a Value| one.get("matchLabelExpressions").and_then(Value::as_list);
        let mut weight = Weight::default();
        for one in &class.allowed_topologies {
            weight += expressions(one).map(Weight::of).unwrap_or_default();
        }
        self.cost.add_values(weight.values)?;
        self.cost.add_conditions(weight.conditions)?;
        let terms = class.allowed_topologies.iter().filter_map(|one| {
            let expressions = expressions(one)?.iter().map(|one| {
                let values = one.get("values").cloned().unwrap_or_default();
                value!({"key": (one.str_at(&["key"])), "operator": "In", "values": (values)})
            });
            NodeTerm::of(&value!({"matchExpressions": (expressions.collect::<Vec<_>>())}))
        });
        let terms: Arc<[NodeTerm]> = terms.collect();
        self.topologies.insert(name, (weight, Arc::clone(&terms)));
        Ok(terms)
    }
}

fn storage(amounts: &Pairs) -> Quantity {
    amounts.get("storage").and_then(|text| Quantity::parse(text).ok()).unwrap_or_default()
}

/// The CSIStorageCapacities with room for a claim; nothing if the driver of its class does not report any.
fn room(
    claim: &PersistentVolumeClaim,
    name: &str,
    class: &StorageClass,
    world: &World,
) -> Option<Vec<Object>> {
    let (_, driver) = world.view::<CsiDriver>("", &class.provisioner)?;
    let tells = driver.spec.storage_capacity == Some(true);
    claim.spec.resources.requests.get("storage").filter(|_| tells)?;
    let wanted = storage(&claim.spec.resources.requests);
    let suffices = |one: &CsiStorageCapacity| {
        let most = one.maximum_volume_size.as_deref().or(one.capacity.as_deref());
        most.and_then(|text| Quantity::parse(text).ok()).is_some_and(|most| most >= wanted)
    };
    let all = world.views::<CsiStorageCapacity>();
    let fitting = all.filter(|(_, one)| one.storage_class_name == name && suffices(one));
    Some(fitting.map(|(object, _)| object.clone()).collect())
}

/// `true` if a claim may get a volume on a node that reaches it.
fn fits(seen: &Object, volume: &PersistentVolume, object: &Object, claim: &PersistentVolumeClaim) -> bool {
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

/// `true` if a node meets one of the terms.
fn is_reached(terms: &Terms, node: &Node) -> bool {
    let allows = |term: &NodeTerm| term.allows(&node.name, &node.offer.labels);
    terms.as_ref().is_none_or(|terms| terms.iter().any(allows))
}

/// Whether the node will do.
///
/// # Errors
/// If not, and why.
pub fn filter(
    needs: &Needs,
    shape: &Shape,
    node: &Node,
    cache: &Cache,
    world: &World,
) -> Result<(), Rejection> {
    if shape.claims.is_empty() {
        return Ok(());
    }
    if needs.single.iter().any(|claim| cache.users.of(&shape.namespace, claim) > 0) {
        let why = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";
        return Err(Rejection::by_pods(why, Helps::PODS | Helps::VOLUMES));
    }
    needs.limits.filter(shape, node, cache, world)?;
    let helps = Helps::VOLUMES | Helps::NODES;
    if needs.is_lost {
        let why = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
        return Err(Rejection::for_good(why, helps));
    }
    if !needs.fixed.iter().all(|fixed| is_reached(&fixed.terms, node)) {
        return Err(Rejection::for_good("node(s) didn't match PersistentVolume's node affinity", helps));
    }
    let mut taken = BTreeSet::new();
    for open in &needs.open {
        let why = match open.finds(node, &mut taken) {
            Finds::Volume => continue,
            Finds::Nothing => "node(s) didn't find available persistent volumes to bind",
            Finds::NoRoom => "node(s) did not have enough free storage",
        };
        return Err(Rejection::for_good(why, helps));
    }
    if !needs.fixed.iter().all(|fixed| fixed.is_in_zone(&node.offer.labels)) {
        return Err(Rejection::for_good("node(s) had no available volume zone", helps));
    }
    Ok(())
}

impl Fixed {
    fn is_in_zone(&self, labels: &Pairs) -> bool {
        if !ZONE_LABELS.iter().any(|key| labels.get(key).is_some()) {
            return true;
        }
        self.zones.iter().all(|(key, values)| {
            let newer = key.replace("failure-domain.beta", "topology");
            let own = labels.get(key).or_else(|| labels.get(&newer));
            own.is_some_and(|own| values.iter().any(|value| **value == *own))
        })
    }
}

impl Open {
    /// Whether the claim can have a volume on a node: one that is there and that no other claim of the pod took, or
    /// one that is made. A claim for which a node was chosen has its answer: what room it takes there may be gone.
    fn finds<'a>(&'a self, node: &Node, taken: &mut BTreeSet<&'a Key>) -> Finds {
        if let Some(selected) = &self.selected {
            return if *selected == node.name { Finds::Volume } else { Finds::Nothing };
        }
        if let Some(volume) = self.there(node, taken) {
            taken.insert(volume.key());
            return Finds::Volume;
        }
        let labels = &node.offer.labels;
        let can_be_there =
            self.topologies.is_empty() || self.topologies.iter().any(|term| term.allows(&node.name, labels));
        if !self.is_made || !can_be_there {
            return Finds::Nothing;
        }
        let reaches = |room: &Object| {
            let room = room.view::<CsiStorageCapacity>();
            room.is_some_and(|room| room.node_topology.matches(|name| labels.get(name)))
        };
        let has_room = self.room.as_ref().is_none_or(|room| room.iter().any(reaches));
        if has_room { Finds::Volume } else { Finds::NoRoom }
    }

    fn there(&self, node: &Node, taken: &BTreeSet<&Key>) -> Option<&Object> {
        let is_free = |volume: &Object| !taken.contains(volume.key());
        let reachable =
            self.volumes.iter().find(|(volume, terms)| is_free(volume) && is_reached(terms, node));
        reachable.map(|(volume, _)| volume)
    }
}

/// What to write so that the claims of a pod get volumes on a node.
#[must_use]
pub fn settle(needs: &Needs, node: &Node) -> Vec<Act> {
    let (mut acts, mut taken) = (Vec::new(), BTreeSet::new());
    for open in needs.open.iter().filter(|open| open.selected.is_none()) {
        let (key, meta) = (open.claim.key(), open.claim.meta());
        if let Some(volume) = open.there(node, &taken) {
            taken.insert(volume.key());
            let claim = value!({
                "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": (&*meta.namespace),
                "name": (key.name()), "uid": (&*meta.uid), "resourceVersion": (open.claim.revision().to_string()),
            });
            let patch = value!({
                "metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
                "spec": {"claimRef": (claim)},
            });
            acts.push(Write::merge(volume, "", patch).into());
        } else {
            let annotations = Value::Map([(SELECTED_NODE, Value::from(&*node.name))].into_iter().collect());
            acts.push(
                Write::merge(&open.claim, "", value!({"metadata": {"annotations": (annotations)}})).into(),
            );
        }
    }
    acts
}
