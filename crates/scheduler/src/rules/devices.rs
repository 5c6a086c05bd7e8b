//! Devices that a pod claims: those that its claims got must be reachable from the node, and be kept for the pod.
//!
//! Nobody gives out devices here yet. Claims that got some from elsewhere are used as they are: the pod is written into
//! them first, and is bound once that is seen.

use setpoint_api::{Value, value};
use setpoint_reconcile::views::resource_claim::ResourceClaim;
use setpoint_reconcile::{Act, Object, World, Write};

use super::{Helps, Rejection};
use crate::cache::node::Node;
use crate::shape::{DeviceClaims, NodeTerm, Shape};

/// How many may use the devices of one claim.
const USERS_MAX: usize = 256;

/// What the claims of a pod come to.
#[derive(Clone, Debug, Default)]
pub struct Devices {
    /// Whether some claim got nothing yet.
    lacks: bool,
    /// Of each claim that says so, the nodes that can reach its devices.
    nodes: Vec<Vec<NodeTerm>>,
    /// The claims that are not kept for the pod yet.
    open: Vec<Object>,
}

impl Devices {
    /// Whether every claim is kept for the pod.
    #[must_use]
    pub fn are_kept(&self) -> bool {
        self.open.is_empty()
    }
}

fn barred(why: String) -> Rejection {
    Rejection::for_good(why, Helps::VOLUMES)
}

/// What the claims of a pod come to.
///
/// # Errors
/// If no node will do, and why.
pub fn needs(shape: &Shape, world: &World) -> Result<Devices, Rejection> {
    let mut devices = Devices::default();
    let Some(wanted) = &shape.devices else { return Ok(devices) };
    let DeviceClaims { pod, uid, claims } = &**wanted;
    let space = &shape.namespace;
    for (name, is_own) in claims {
        let Some(name) = name else {
            return Err(barred(format!("pod \"{space}/{pod}\": ResourceClaim not created yet")));
        };
        let Some((object, claim)) = world.view::<ResourceClaim>(space, name) else {
            return Err(barred(format!("could not find ResourceClaim \"{space}/{name}\"")));
        };
        if object.meta().is_deleted() {
            return Err(barred(format!("resourceclaim \"{name}\" is being deleted")));
        }
        if *is_own && !object.meta().is_controlled_by(uid) {
            let who = format!("ResourceClaim {space}/{name} was not created for Pod {space}/{pod}");
            return Err(barred(format!("{who} (Pod is not owner)")));
        }
        let Some(allocation) = &claim.status.allocation else {
            devices.lacks = true;
            continue;
        };
        if !claim.is_reserved_for(uid) {
            if claim.status.reserved_for.len() >= USERS_MAX {
                return Err(barred("resourceclaim in use".to_owned()));
            }
            devices.open.push(object.clone());
        }
        let terms = allocation.node_selector.as_ref().and_then(|one| one.get("nodeSelectorTerms"));
        let terms = terms.and_then(Value::as_list).map(|terms| terms.iter().filter_map(NodeTerm::of));
        devices.nodes.extend(terms.map(Iterator::collect::<Vec<_>>));
    }
    Ok(devices)
}

/// Whether the node will do.
///
/// # Errors
/// If not, and why.
pub fn filter(devices: &Devices, node: &Node) -> Result<(), Rejection> {
    let helps = Helps::VOLUMES | Helps::NODES;
    let reaches =
        |terms: &Vec<NodeTerm>| terms.iter().any(|term| term.allows(&node.name, &node.offer.labels));
    if !devices.nodes.iter().all(reaches) {
        return Err(Rejection::for_good("resourceclaim not available on the node", helps));
    }
    if devices.lacks {
        return Err(Rejection::for_good("cannot allocate all claims", helps));
    }
    Ok(())
}

/// What to write so that the devices are kept for a pod; nothing if they are.
pub fn settle<'a>(devices: &'a Devices, pod: &'a Object) -> impl Iterator<Item = Act> + 'a {
    let meta = pod.meta();
    devices.open.iter().map(move |claim| {
        let user = value!({"resource": "pods", "name": (&*meta.name), "uid": (&*meta.uid)});
        Write::status(claim, value!({"reservedFor": [(user)]})).strategic().at_any_revision().into()
    })
}
