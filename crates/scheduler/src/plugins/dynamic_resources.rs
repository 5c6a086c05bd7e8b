//! DynamicResources plugin: ResourceClaims of a pod must be allocated, reachable from the node and reserved for the pod.
//!
//! Claims without an allocation get one on the node that is selected: [`filter`] searches for devices on every node, and
//! [`prebind_writes`] writes those of the selected one. The pod is bound once the allocation and the reservation are
//! visible, and the binding conditions of its devices are met. If no node suits the allocation of an idle claim,
//! [`deallocation_write`] removes it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use setpoint_api::rfc3339::Seconds;
use setpoint_api::{Time, Value, value};
use setpoint_reconcile::{Action, Object, Seed, WorldReader, Write};
use setpoint_requirements::node_affinity::NodeSelectorTerm;
use setpoint_views::condition;
use setpoint_views::resource_claim::{AllocatedDevice, ResourceClaim};

use super::{QueueingHint, Rejection};
use crate::cache::SchedulerCache;
use crate::cache::node_info::NodeInfo;
use crate::devices::result::AllocationWriter;
use crate::devices::search::AllocationError;
use crate::devices::{AllocationTask, ClaimsError};
use crate::queue_state::DEVICE_BIND_TIMEOUT;
use crate::signature::{PodSignature, ResourceClaimRefs};

/// Default weight of the score.
pub const WEIGHT: i64 = 2;
/// Maximum length of `status.reservedFor`.
const RESERVED_FOR_MAX: usize = 256;
/// Finalizer of allocated claims.
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// Maximum number of alternatives of a request: the score of the first one.
const CHOICES_MAX: i64 = 8;
/// Cost of a step of the search, in steps of [`cost`](crate::cost).
const STEP_COST: u64 = 16;

/// State of the ResourceClaims of a pod.
#[derive(Clone, Debug, Default)]
pub struct ClaimAllocations {
    allocated: Vec<AllocatedClaim>,
    /// Search for the devices of claims without an allocation.
    pending: Option<Arc<AllocationTask>>,
    /// Error of the search, which ends the attempt; `None` if there is no search.
    error: Option<Arc<OnceLock<String>>>,
    /// `true` if a driver has not met the binding conditions of a device yet.
    is_waiting: bool,
    /// `true` if a request lists alternatives.
    is_prioritized: bool,
}

/// An allocated claim.
#[derive(Clone, Debug)]
struct AllocatedClaim {
    object: Object,
    /// Terms of the node selector, of which a node must match one; `None` for all nodes.
    terms: Option<Vec<NodeSelectorTerm>>,
    is_reserved: bool,
    /// `true` if the pod may remove the allocation.
    is_idle: bool,
    /// `true` if a driver could not prepare a device, so that no node suits.
    has_failed: bool,
    /// Set if a node is rejected because of this claim.
    is_unavailable: Arc<AtomicBool>,
    /// Score by the chosen alternatives.
    score: i64,
}

/// State of the binding conditions of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BindingState {
    Ready,
    Waiting,
    Failed,
}

impl ClaimAllocations {
    /// `true` if every claim is allocated and reserved for the pod, and its devices are ready.
    #[must_use]
    pub fn are_ready(&self) -> bool {
        self.pending.is_none() && !self.is_waiting && self.allocated.iter().all(|claim| claim.is_reserved)
    }

    /// Returns the error of the search for devices, which concerns all nodes.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.error.as_ref()?.get().map(String::as_str)
    }

    /// Keeps the first error.
    fn set_error(&self, text: String) {
        if let Some(error) = &self.error {
            let _ = error.set(text);
        }
    }

    /// Cost of the search for devices so far.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.pending.as_ref().map_or(0, |task| task.steps().saturating_mul(STEP_COST))
    }

    /// `true` if nodes have scores by the alternatives that they offer.
    #[must_use]
    pub fn has_scores(&self) -> bool {
        self.is_prioritized
    }
}

fn reject(reason: String) -> Rejection {
    Rejection::unresolvable(reason, QueueingHint::DEVICE)
}

/// Reads the ResourceClaims of a pod.
///
/// # Errors
/// Rejects every node if a claim is missing or cannot be used by the pod.
pub fn read_claims(
    signature: &PodSignature,
    world: &WorldReader<'_>,
    cache: &mut SchedulerCache,
) -> Result<ClaimAllocations, Rejection> {
    let mut allocations = ClaimAllocations::default();
    let Some(refs) = &signature.resource_claims else { return Ok(allocations) };
    let claims = find_claims(signature, refs, world)?;
    let mut pending = Vec::new();
    for (object, claim) in claims {
        let requests = &claim.spec.devices.requests;
        allocations.is_prioritized |= requests.iter().any(|request| !request.first_available.is_empty());
        let Some(allocation) = &claim.status.allocation else {
            let meta = object.meta();
            if cache.devices.is_pending(&meta.uid) {
                let name = format!("{}/{}", meta.namespace, meta.name);
                return Err(reject(format!("resource claim {name} is in the process of being allocated")));
            }
            pending.push(object.clone());
            continue;
        };
        let is_reserved = claim.is_reserved_for(&refs.uid);
        let users = claim.status.reserved_for.len();
        if !is_reserved && users >= RESERVED_FOR_MAX {
            return Err(reject("resourceclaim in use".to_owned()));
        }
        let terms = allocation.node_selector.as_ref().and_then(|one| one.get("nodeSelectorTerms"));
        let state = binding_state(claim, cache.now);
        allocations.is_waiting |= state == BindingState::Waiting;
        allocations.allocated.push(AllocatedClaim {
            object: object.clone(),
            terms: terms
                .and_then(Value::as_list)
                .map(|terms| terms.iter().filter_map(NodeSelectorTerm::read).collect()),
            is_reserved,
            is_idle: users == 0 || (users == 1 && is_reserved),
            has_failed: state == BindingState::Failed,
            is_unavailable: Arc::default(),
            score: score_of_allocated(claim),
        });
    }
    if pending.is_empty() {
        return Ok(allocations);
    }
    allocations.error = Some(Arc::default());
    match cache.devices.prepare(&pending, world) {
        Ok(task) => allocations.pending = Some(Arc::new(task)),
        Err(ClaimsError::Unschedulable(reason)) => return Err(reject(reason)),
        Err(ClaimsError::Failed(text)) => allocations.set_error(text),
    }
    Ok(allocations)
}

/// Returns the claims that a pod refers to.
fn find_claims<'w>(
    signature: &PodSignature,
    refs: &ResourceClaimRefs,
    world: &WorldReader<'w>,
) -> Result<Vec<(&'w Object, &'w ResourceClaim)>, Rejection> {
    let ResourceClaimRefs { pod, uid, claims } = refs;
    let space = &signature.namespace;
    let mut found: Vec<(&Object, &ResourceClaim)> = Vec::new();
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
        // A pod may refer to a claim by several names.
        if !found.iter().any(|(known, _)| known.key() == object.key()) {
            found.push((object, claim));
        }
    }
    Ok(found)
}

/// Returns the state of the devices that drivers prepare before the pod is bound.
fn binding_state(claim: &ResourceClaim, now: Time) -> BindingState {
    let with_conditions = || claim.devices().filter(|device| !device.binding_conditions.is_empty());
    for device in with_conditions() {
        let AllocatedDevice { driver, pool, device: name, .. } = device;
        let mut statuses = claim.status.devices.iter();
        let status = statuses.find(|one| one.driver == *driver && one.pool == *pool && one.device == *name);
        let Some(status) = status else { return waiting(claim, now) };
        let is_true = |name: &String| condition(&status.conditions, name).is_some_and(|one| one.is_true());
        if device.binding_failure_conditions.iter().any(is_true) {
            return BindingState::Failed;
        }
        if !device.binding_conditions.iter().all(is_true) {
            return waiting(claim, now);
        }
    }
    BindingState::Ready
}

fn waiting(claim: &ResourceClaim, now: Time) -> BindingState {
    let allocation = claim.status.allocation.as_ref();
    let since = allocation.and_then(|allocation| allocation.allocation_timestamp);
    match since.is_some_and(|since| since.after(DEVICE_BIND_TIMEOUT) <= now) {
        true => BindingState::Failed,
        false => BindingState::Waiting,
    }
}

/// Filters nodes that cannot reach the allocated devices, or on which the claims cannot be allocated.
///
/// # Errors
/// Rejects the node.
pub fn filter(allocations: &ClaimAllocations, node: &NodeInfo) -> Result<(), Rejection> {
    let hint = QueueingHint::DEVICE | QueueingHint::NODE_ADD_OR_UPDATE;
    if let Some(error) = allocations.error() {
        return Err(Rejection::unresolvable(error.to_owned(), hint));
    }
    if let Some(task) = &allocations.pending {
        match task.allocate(&node.name, &node.attributes.labels) {
            Ok(Some(_)) => {}
            Ok(None) => return Err(Rejection::unresolvable("cannot allocate all claims", hint)),
            Err(AllocationError::OnNode(reason)) => return Err(Rejection::unresolvable(reason, hint)),
            Err(AllocationError::Fatal(error)) => {
                allocations.set_error(error.clone());
                return Err(Rejection::unresolvable(error, hint));
            }
        }
    }
    let mut is_available = true;
    for claim in &allocations.allocated {
        let is_reachable = claim
            .terms
            .as_ref()
            .is_none_or(|terms| terms.iter().any(|term| term.matches(&node.name, &node.attributes.labels)));
        if !is_reachable || claim.has_failed {
            claim.is_unavailable.store(true, Ordering::Relaxed);
            is_available = false;
        }
    }
    if is_available {
        Ok(())
    } else {
        Err(Rejection::unresolvable("resourceclaim not available on the node", hint))
    }
}

/// Scores a node by the alternatives that it offers: the earlier in the lists of the requests, the better.
#[must_use]
pub fn score(allocations: &ClaimAllocations, node: &NodeInfo) -> i64 {
    let of_allocated: i64 = allocations.allocated.iter().map(|claim| claim.score).sum();
    let Some(task) = &allocations.pending else { return of_allocated };
    let Ok(Some(found)) = task.allocate(&node.name, &node.attributes.labels) else { return of_allocated };
    let scores = task.claims().iter().zip(&found).map(|(claim, allocation)| {
        let groups = claim.groups.iter().zip(&allocation.choices);
        let scores = groups.filter(|(group, _)| group.is_prioritized).map(|(_, at)| choice_score(*at));
        scores.sum::<i64>()
    });
    of_allocated + scores.sum::<i64>()
}

fn choice_score(at: usize) -> i64 {
    CHOICES_MAX - i64::try_from(at).unwrap_or(CHOICES_MAX)
}

fn score_of_allocated(claim: &ResourceClaim) -> i64 {
    let mut score = 0;
    for request in &claim.spec.devices.requests {
        for (at, choice) in request.first_available.iter().enumerate() {
            let name = format!("{}/{}", request.name, choice.name);
            if claim.devices().any(|device| device.request == name) {
                score += choice_score(at);
            }
        }
    }
    score
}

/// Writes for the claims of a pod that is assumed on a node.
#[derive(Debug, Default)]
pub struct ClaimWrites {
    /// Finalizers of the claims that are allocated. They are written first.
    pub finalizers: Vec<Action>,
    /// Allocations and reservations.
    pub statuses: Vec<Action>,
    /// `true` if the pod has to wait for the binding conditions of a device that is allocated now.
    pub has_binding_conditions: bool,
}

/// Allocates the claims of a pod on a node and reserves them for the pod. The allocation is assumed, so that no other pod
/// of this plan gets the devices.
pub fn prebind_writes(
    allocations: &ClaimAllocations,
    pod: &Object,
    node: usize,
    cache: &mut SchedulerCache,
    seed: Seed,
) -> ClaimWrites {
    let meta = pod.meta();
    let user = value!({"resource": "pods", "name": (&*meta.name), "uid": (&*meta.uid)});
    let mut writes = ClaimWrites::default();
    for claim in allocations.allocated.iter().filter(|claim| !claim.is_reserved) {
        // At any revision: the server rejects a reservation of a claim that is not allocated any more.
        let status = value!({"reservedFor": [(user.clone())]});
        writes.statuses.push(Write::status(&claim.object, status).strategic().at_any_revision().into());
    }
    let Some(task) = &allocations.pending else { return writes };
    let info = &cache.nodes[node];
    let Ok(Some(found)) = task.allocate(&info.name, &info.attributes.labels) else { return writes };
    for (at, (claim, allocation)) in task.claims().iter().zip(&found).enumerate() {
        let object = claim.object();
        let seed = Seed(seed.draw(at as u64));
        let writer =
            AllocationWriter { inventory: task.inventory(), claim, allocation, node: &info.name, seed };
        writes.has_binding_conditions |= writer.has_binding_conditions();
        let mut allocation = writer.write();
        allocation.make_map().insert("allocationTimestamp", Seconds(cache.now).to_string());
        if !object.meta().has_finalizer(FINALIZER) {
            let patch = value!({"metadata": {"finalizers": [(FINALIZER)]}});
            let write = Write::merge(object, "", patch).strategic().at_any_revision();
            writes.finalizers.push(write.into());
        }
        // An allocation is immutable, so the server rejects this one if the claim was allocated in the meantime.
        let status = value!({"allocation": (allocation), "reservedFor": [(user.clone())]});
        writes.statuses.push(Write::status(object, status).strategic().at_any_revision().into());
    }
    cache.devices.assume(task, &found);
    writes
}

/// Returns the write that removes the allocation of a claim which no node suits, if only this pod may use it. The claim
/// is allocated again for a node where the pod fits.
#[must_use]
pub fn deallocation_write(allocations: &ClaimAllocations) -> Option<Action> {
    let mut claims = allocations.allocated.iter();
    let claim = claims.find(|claim| claim.is_idle && claim.is_unavailable.load(Ordering::Relaxed))?;
    let status = value!({"allocation": null, "reservedFor": null, "devices": null});
    Some(Write::status(&claim.object, status).into())
}

/// `true` if the world shows that the claims of a pod are reserved for it.
#[must_use]
pub fn are_reserved(signature: &PodSignature, world: &WorldReader<'_>) -> bool {
    let Some(refs) = &signature.resource_claims else { return true };
    refs.claims.iter().all(|(name, _)| {
        let claim = name.as_ref().and_then(|name| world.view::<ResourceClaim>(&signature.namespace, name));
        claim.is_some_and(|(_, claim)| claim.is_reserved_for(&refs.uid))
    })
}
