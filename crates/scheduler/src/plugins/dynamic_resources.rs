//! DynamicResources plugin: ResourceClaims of a pod must be allocated, reachable from the node and reserved for the pod.
//!
//! This scheduler does not allocate devices. It uses claims that were allocated elsewhere: it adds the pod to
//! `status.reservedFor`, and binds the pod once that is visible.

use setpoint_api::{Value, value};
use setpoint_reconcile::{Action, Object, WorldReader, Write};
use setpoint_requirements::node_affinity::NodeSelectorTerm;
use setpoint_views::resource_claim::ResourceClaim;

use super::{QueueingHint, Rejection};
use crate::cache::node_info::NodeInfo;
use crate::signature::{PodSignature, ResourceClaimRefs};

/// Maximum length of `status.reservedFor`.
const RESERVED_FOR_MAX: usize = 256;

/// State of the ResourceClaims of a pod.
#[derive(Clone, Debug, Default)]
pub struct ClaimAllocations {
    /// `true` if a claim is not allocated.
    has_unallocated: bool,
    /// Node selectors of the allocations: a node must match a term of each.
    node_selectors: Vec<Vec<NodeSelectorTerm>>,
    /// Claims that are not reserved for the pod yet.
    unreserved: Vec<Object>,
}

impl ClaimAllocations {
    /// `true` if every claim is reserved for the pod.
    #[must_use]
    pub fn are_reserved(&self) -> bool {
        self.unreserved.is_empty()
    }
}

fn reject(reason: String) -> Rejection {
    Rejection::unresolvable(reason, QueueingHint::STORAGE_OR_DEVICE)
}

/// Reads the ResourceClaims of a pod.
///
/// # Errors
/// Rejects every node if a claim is missing or cannot be used by the pod.
pub fn read_claims(signature: &PodSignature, world: &WorldReader<'_>) -> Result<ClaimAllocations, Rejection> {
    let mut allocations = ClaimAllocations::default();
    let Some(refs) = &signature.resource_claims else { return Ok(allocations) };
    let ResourceClaimRefs { pod, uid, claims } = &**refs;
    let space = &signature.namespace;
    for (name, is_generated) in claims {
        let Some(name) = name else {
            return Err(reject(format!("pod \"{space}/{pod}\": ResourceClaim not created yet")));
        };
        let Some((object, claim)) = world.view::<ResourceClaim>(space, name) else {
            return Err(reject(format!("could not find ResourceClaim \"{space}/{name}\"")));
        };
        if object.meta().is_deleted() {
            return Err(reject(format!("resourceclaim \"{name}\" is being deleted")));
        }
        if *is_generated && !object.meta().is_controlled_by(uid) {
            let reason = format!("ResourceClaim {space}/{name} was not created for Pod {space}/{pod}");
            return Err(reject(format!("{reason} (Pod is not owner)")));
        }
        let Some(allocation) = &claim.status.allocation else {
            allocations.has_unallocated = true;
            continue;
        };
        if !claim.is_reserved_for(uid) {
            if claim.status.reserved_for.len() >= RESERVED_FOR_MAX {
                return Err(reject("resourceclaim in use".to_owned()));
            }
            allocations.unreserved.push(object.clone());
        }
        let terms = allocation.node_selector.as_ref().and_then(|one| one.get("nodeSelectorTerms"));
        let terms =
            terms.and_then(Value::as_list).map(|terms| terms.iter().filter_map(NodeSelectorTerm::read));
        allocations.node_selectors.extend(terms.map(Iterator::collect::<Vec<_>>));
    }
    Ok(allocations)
}

/// Filters nodes that cannot reach the allocated devices.
///
/// # Errors
/// Rejects the node.
pub fn filter(allocations: &ClaimAllocations, node: &NodeInfo) -> Result<(), Rejection> {
    let hint = QueueingHint::STORAGE_OR_DEVICE | QueueingHint::NODE_ADD_OR_UPDATE;
    let is_reachable = |terms: &Vec<NodeSelectorTerm>| {
        terms.iter().any(|term| term.matches(&node.name, &node.attributes.labels))
    };
    if !allocations.node_selectors.iter().all(is_reachable) {
        return Err(Rejection::unresolvable("resourceclaim not available on the node", hint));
    }
    if allocations.has_unallocated {
        return Err(Rejection::unresolvable("cannot allocate all claims", hint));
    }
    Ok(())
}

/// Returns the writes that reserve the claims for a pod; none if they are reserved.
pub fn reservation_writes<'a>(
    allocations: &'a ClaimAllocations,
    pod: &'a Object,
) -> impl Iterator<Item = Action> + 'a {
    let meta = pod.meta();
    allocations.unreserved.iter().map(move |claim| {
        let user = value!({"resource": "pods", "name": (&*meta.name), "uid": (&*meta.uid)});
        Write::status(claim, value!({"reservedFor": [(user)]})).strategic().at_any_revision().into()
    })
}
