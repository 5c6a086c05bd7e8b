//! Volumes tie pods to nodes: where a volume can be reached, where one can be made, how many a node can have.
//!
//! A claim that waits for its first pod gets a node with it: the choice is written down, and the pod is bound once
//! the claim is.

use std::collections::BTreeSet;

use setpoint_api::quantity::Quantity;
use setpoint_api::{Value, value};
use setpoint_reconcile::object::Pairs;
use setpoint_reconcile::views::csi_node::CsiNode;
use setpoint_reconcile::views::persistent_volume::PersistentVolume;
use setpoint_reconcile::views::persistent_volume_claim::PersistentVolumeClaim;
use setpoint_reconcile::views::storage_class::StorageClass;
use setpoint_reconcile::{Act, Object, World, Write};

use super::{Helps, Rejection};
use crate::cache::Cache;
use crate::cache::node::Node;
use crate::shape::{NodeTerm, Shape};

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
    /// Whether another pod has what only one may have.
    is_taken: bool,
}

/// A volume that is there.
#[derive(Clone, Debug)]
struct Fixed {
    terms: Option<Vec<NodeTerm>>,
    zones: Vec<(&'static str, Vec<Box<str>>)>,
    driver: Box<str>,
    handle: Box<str>,
    /// Whether its claim is bound to it by now.
    is_bound: bool,
}

/// A claim that waits for a node.
#[derive(Clone, Debug)]
struct Open {
    claim: Object,
    selected: Option<Box<str>>,
    volumes: Vec<(Object, Option<Vec<NodeTerm>>)>,
    is_made: bool,
    topologies: Vec<NodeTerm>,
}

impl Needs {
    /// Whether every claim has its volume.
    #[must_use]
    pub fn are_met(&self) -> bool {
        self.open.is_empty() && self.fixed.iter().all(|fixed| fixed.is_bound)
    }
}

fn barred(why: String) -> Rejection {
    Rejection::for_good(why, Helps::VOLUMES)
}

/// What the volumes of a pod need.
///
/// # Errors
/// If no node will do, and why.
pub fn needs(shape: &Shape, world: &World) -> Result<Needs, Rejection> {
    let mut needs = Needs::default();
    for (name, is_own) in &shape.claims {
        let Some((object, claim)) = world.view::<PersistentVolumeClaim>(&shape.namespace, name) else {
            return Err(barred(if *is_own {
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
        let volume = claim.spec.volume_name.as_str();
        if claim.status.phase == "Lost" {
            let why = format!(
                "persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{volume}\""
            );
            return Err(barred(why));
        }
        needs.is_taken |= claim.spec.access_modes.iter().any(|mode| mode == "ReadWriteOncePod")
            && is_used(name, shape, world);
        if !volume.is_empty() && object.meta().annotations.get(BIND_COMPLETED).is_some() {
            match world.view::<PersistentVolume>("", volume) {
                Some((object, volume)) => needs.fixed.push(fixed(object, volume, true)),
                None => needs.is_lost = true,
            }
            continue;
        }
        let class = world.view::<StorageClass>("", claim.class(object)).filter(|(_, class)| class.waits());
        let Some((_, class)) = class.filter(|_| volume.is_empty()) else {
            return Err(barred("pod has unbound immediate PersistentVolumeClaims".to_owned()));
        };
        match world.views::<PersistentVolume>().find(|(_, volume)| volume.is_for(object)) {
            Some((object, volume)) => needs.fixed.push(fixed(object, volume, false)),
            None => needs.open.push(open(object, claim, class, world)),
        }
    }
    Ok(needs)
}

/// Whether a pod that has a node uses a claim.
fn is_used(claim: &str, shape: &Shape, world: &World) -> bool {
    use setpoint_reconcile::views::pod::Pod;
    world.in_namespace("pods", &shape.namespace).any(|object| {
        object.view::<Pod>().is_some_and(|pod| {
            let mut claims =
                pod.spec.volumes.iter().filter_map(|volume| volume.persistent_volume_claim.as_ref());
            !pod.spec.node_name.is_empty()
                && !pod.is_finished()
                && claims.any(|used| used.claim_name == claim)
        })
    })
}

fn fixed(object: &Object, volume: &PersistentVolume, is_bound: bool) -> Fixed {
    let labels = &object.meta().labels;
    let zones = ZONE_LABELS.iter().filter_map(|key| {
        let values = labels.get(key)?;
        Some((*key, values.split("__").map(Into::into).collect()))
    });
    let csi = volume.spec.csi.as_ref();
    Fixed {
        terms: terms(volume),
        zones: zones.collect(),
        driver: csi.map(|csi| csi.driver.as_str().into()).unwrap_or_default(),
        handle: csi.map(|csi| csi.volume_handle.as_str().into()).unwrap_or_default(),
        is_bound,
    }
}

fn terms(volume: &PersistentVolume) -> Option<Vec<NodeTerm>> {
    let terms = volume.spec.node_affinity.as_ref()?.at(&["required", "nodeSelectorTerms"])?.as_list()?;
    Some(terms.iter().filter_map(NodeTerm::of).collect())
}

fn open(object: &Object, claim: &PersistentVolumeClaim, class: &StorageClass, world: &World) -> Open {
    let storage = |amounts: &Pairs| {
        amounts.get("storage").and_then(|text| Quantity::parse(text).ok()).unwrap_or_default()
    };
    let wanted = storage(&claim.spec.resources.requests);
    let fits = |seen: &Object, volume: &PersistentVolume| {
        volume.spec.claim_ref.is_none()
            && volume.status.phase == "Available"
            && !seen.meta().is_deleted()
            && volume.class(seen) == claim.class(object)
            && storage(&volume.spec.capacity) >= wanted
            && volume.spec.volume_mode.as_deref().unwrap_or("Filesystem")
                == claim.spec.volume_mode.as_deref().unwrap_or("Filesystem")
            && claim.spec.access_modes.iter().all(|mode| volume.spec.access_modes.contains(mode))
            && claim.spec.selector.as_ref().is_none_or(|one| one.matches(|name| seen.meta().labels.get(name)))
    };
    let mut volumes: Vec<(Object, &PersistentVolume)> = world
        .views::<PersistentVolume>()
        .filter(|(seen, volume)| fits(seen, volume))
        .map(|(seen, volume)| (seen.clone(), volume))
        .collect();
    volumes.sort_by_key(|(_, volume)| storage(&volume.spec.capacity));
    let topologies = class.allowed_topologies.iter().filter_map(|one| {
        let expressions = one.get("matchLabelExpressions").and_then(Value::as_list)?.iter();
        let expressions = expressions.map(|one| {
            let values = one.get("values").cloned().unwrap_or_default();
            value!({"key": (one.str_at(&["key"])), "operator": "In", "values": (values)})
        });
        NodeTerm::of(&value!({"matchExpressions": (expressions.collect::<Vec<_>>())}))
    });
    Open {
        claim: object.clone(),
        selected: object.meta().annotations.get(SELECTED_NODE).map(Into::into),
        volumes: volumes.iter().map(|(seen, volume)| (seen.clone(), terms(volume))).collect(),
        is_made: !class.provisioner.is_empty() && class.provisioner != NO_PROVISIONER,
        topologies: topologies.collect(),
    }
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
    if needs.is_taken {
        let why = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";
        return Err(Rejection::by_pods(why, Helps::PODS | Helps::VOLUMES));
    }
    if exceeds(needs, node, cache, world) {
        let helps = Helps::PODS | Helps::VOLUMES | Helps::NODES;
        return Err(Rejection::by_pods("node(s) exceed max volume count", helps));
    }
    let helps = Helps::VOLUMES | Helps::NODES;
    if needs.is_lost {
        let why = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
        return Err(Rejection::for_good(why, helps));
    }
    let reaches = |terms: &Option<Vec<NodeTerm>>| {
        terms
            .as_ref()
            .is_none_or(|terms| terms.iter().any(|term| term.allows(&node.name, &node.offer.labels)))
    };
    if !needs.fixed.iter().all(|fixed| reaches(&fixed.terms)) {
        return Err(Rejection::for_good("node(s) didn't match PersistentVolume's node affinity", helps));
    }
    let mut taken = Vec::new();
    if !needs.open.iter().all(|open| open.finds(node, &mut taken)) {
        return Err(Rejection::for_good("node(s) didn't find available persistent volumes to bind", helps));
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
    /// one that is made.
    fn finds<'a>(&'a self, node: &Node, taken: &mut Vec<&'a Object>) -> bool {
        if let Some(selected) = &self.selected {
            return *selected == node.name;
        }
        if let Some(volume) = self.there(node, taken) {
            taken.push(volume);
            return true;
        }
        let labels = &node.offer.labels;
        let can_be_there =
            self.topologies.is_empty() || self.topologies.iter().any(|term| term.allows(&node.name, labels));
        self.is_made && can_be_there
    }

    fn there(&self, node: &Node, taken: &[&Object]) -> Option<&Object> {
        let reachable = self.volumes.iter().find(|(volume, terms)| {
            !taken.contains(&volume)
                && terms
                    .as_ref()
                    .is_none_or(|terms| terms.iter().any(|term| term.allows(&node.name, &node.offer.labels)))
        });
        reachable.map(|(volume, _)| volume)
    }
}

/// Whether a node could not have so many volumes of a driver.
fn exceeds(needs: &Needs, node: &Node, cache: &Cache, world: &World) -> bool {
    let wanted = needs.fixed.iter().filter(|fixed| !fixed.driver.is_empty());
    let wanted: BTreeSet<(&str, &str)> = wanted.map(|fixed| (&*fixed.driver, &*fixed.handle)).collect();
    if wanted.is_empty() {
        return false;
    }
    let Some((_, limits)) = world.view::<CsiNode>("", &node.name) else { return false };
    limits.spec.drivers.iter().any(|driver| {
        let Some(most) = driver.allocatable.as_ref().and_then(|allocatable| allocatable.count) else {
            return false;
        };
        let mut all: BTreeSet<&str> = BTreeSet::new();
        for shape in node.pods.iter().filter_map(|id| cache.shape_of(*id)) {
            for (name, _) in &shape.claims {
                all.extend(handle(world, &shape.namespace, name, &driver.name));
            }
        }
        let before = all.len();
        all.extend(wanted.iter().filter(|(of, _)| *of == driver.name).map(|(_, handle)| *handle));
        all.len() > before && i64::try_from(all.len()).unwrap_or(i64::MAX) > most
    })
}

/// What a driver calls the volume of a claim.
fn handle<'a>(world: &'a World, namespace: &str, claim: &str, driver: &str) -> Option<&'a str> {
    let (_, claim) = world.view::<PersistentVolumeClaim>(namespace, claim)?;
    let (_, volume) = world.view::<PersistentVolume>("", &claim.spec.volume_name)?;
    volume.spec.csi.as_ref().filter(|csi| csi.driver == driver).map(|csi| csi.volume_handle.as_str())
}

/// What to write so that the claims of a pod get volumes on a node.
#[must_use]
pub fn settle(needs: &Needs, node: &Node) -> Vec<Act> {
    let (mut acts, mut taken) = (Vec::new(), Vec::new());
    for open in needs.open.iter().filter(|open| open.selected.is_none()) {
        let (key, meta) = (open.claim.key(), open.claim.meta());
        if let Some(volume) = open.there(node, &taken) {
            taken.push(volume);
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
