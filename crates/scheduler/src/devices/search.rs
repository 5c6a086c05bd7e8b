//! Search for devices: tries candidates one after another, and takes them back where they lead to no solution.
//!
//! The search goes through claims, their requests, and the devices of each request, in this order; see [`Place`]. A
//! request takes devices in the order of the pools, so that a set of devices is tried once and not in every order.

mod candidate;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use setpoint_reconcile::object::Pairs;
use setpoint_views::resource_slice::Device;

use super::allocated::{AllocatedState, Amounts, add_amounts};
use super::claims::{Mode, PendingClaim, Request};
use super::constraints::{Constraint, RequestName};
use super::counters::ConsumedCounters;
use super::inventory::{Counters, DeviceInventory, DeviceNumber};
use super::pools::{Pool, PoolState, are_shared, gather};
use super::{capacity, counters};

/// Maximum number of steps of an attempt, over all nodes: about a second. Upstream stops after 10 seconds on one node.
pub const SEARCH_STEPS_MAX: u64 = 5_000_000;
/// Maximum number of devices and requests of a pod's claims, which bounds the stack of the search.
pub const SEARCH_DEPTH_MAX: usize = 500;
/// Units of CEL cost that count as one step.
const COST_PER_STEP: u64 = 8;
/// Maximum number of devices in an allocation.
const RESULTS_MAX: usize = 32;

/// Search for the devices of a pod's claims, for any node.
#[derive(Debug)]
pub struct AllocationTask {
    inventory: Arc<DeviceInventory>,
    allocated: Arc<AllocatedState>,
    claims: Vec<PendingClaim>,
    /// Counters that allocated devices leave, by generation.
    counters: Vec<OnceLock<Counters>>,
    steps: AtomicU64,
    /// Result for nodes that reach these pools and have no devices of their own.
    shared: OnceLock<(Vec<Pool>, Found)>,
}

/// Devices for all claims; `None` if there are none.
type Found = Result<Option<Vec<ClaimAllocation>>, AllocationError>;

/// Reason why a node gets no allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllocationError {
    /// The claims cannot be allocated on this node.
    OnNode(String),
    /// A claim, class or slice is invalid: the pod is not attempted on other nodes either.
    Fatal(String),
}

/// Devices of a claim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClaimAllocation {
    /// Devices in the order of the requests.
    pub devices: Vec<AllocatedDevice>,
    /// Chosen alternative of each request; 0 for a request without alternatives.
    pub choices: Vec<usize>,
}

/// A device of an allocation.
#[derive(Clone, Debug, PartialEq)]
pub struct AllocatedDevice {
    /// Index of the request.
    pub group: usize,
    /// Index of the alternative.
    pub choice: usize,
    /// Slice of the device.
    pub slice: usize,
    /// Position in the slice.
    pub device: usize,
    /// Number of the device.
    pub number: DeviceNumber,
    /// `true` for administrative access.
    pub is_admin: bool,
    /// `true` if the allocation is a share of the device.
    pub is_shared: bool,
    /// Capacity that the share consumes.
    pub consumed: Amounts,
}

/// Place of the search: the next device to choose.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    claim: usize,
    group: usize,
    choice: usize,
    device: usize,
}

/// Position of a device in the pools of a search.
#[derive(Clone, Copy, Debug, Default)]
struct Location {
    pool: usize,
    slice: usize,
    device: usize,
}

/// Device that a request may get.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    pool: usize,
    slice: usize,
    device: usize,
}

/// Number of devices that a request needs, and which ones if it needs all.
#[derive(Debug, Default)]
struct Need {
    count: usize,
    all: Option<Vec<Candidate>>,
}

/// End of the search, or of a part of it.
enum Stop {
    Fatal(String),
    /// The claim would get too many devices: other devices for earlier requests would not help.
    SizeExceeded,
}

/// State of the search on one node.
struct Search<'a> {
    task: &'a AllocationTask,
    node: &'a str,
    labels: &'a Pairs,
    pools: Vec<Pool>,
    /// By claim, request and alternative.
    needs: Vec<Vec<Vec<Need>>>,
    constraints: Vec<Vec<Constraint>>,
    /// Claims that get each device.
    allocating: BTreeMap<DeviceNumber, BTreeSet<usize>>,
    /// Capacity of each shared device.
    shares: BTreeMap<DeviceNumber, Amounts>,
    counters: ConsumedCounters,
    results: Vec<ClaimAllocation>,
    depth: usize,
}

impl AllocationTask {
    /// Returns the search for the devices of these claims.
    #[must_use]
    pub fn new(
        inventory: Arc<DeviceInventory>,
        allocated: Arc<AllocatedState>,
        claims: Vec<PendingClaim>,
    ) -> AllocationTask {
        let counters = inventory.generations.iter().map(|_| OnceLock::new()).collect();
        let (steps, shared) = (AtomicU64::new(0), OnceLock::new());
        AllocationTask { inventory, allocated, claims, counters, steps, shared }
    }

    /// Claims to allocate.
    #[must_use]
    pub fn claims(&self) -> &[PendingClaim] {
        &self.claims
    }

    /// Devices of the cluster.
    #[must_use]
    pub fn inventory(&self) -> &DeviceInventory {
        &self.inventory
    }

    /// Number of steps so far.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Returns devices for all claims on a node, in the order of the claims; `None` if there are none.
    ///
    /// # Errors
    /// If a claim, class or slice is invalid, or the search takes too long.
    pub fn allocate(
        &self,
        node: &str,
        labels: &Pairs,
    ) -> Result<Option<Vec<ClaimAllocation>>, AllocationError> {
        let pools = gather(&self.inventory, node, labels);
        if !are_shared(&self.inventory, &pools) {
            return self.search(node, labels, pools);
        }
        match self.shared.get() {
            Some((known, found)) if *known == pools => found.clone(),
            _ => {
                let found = self.search(node, labels, pools.clone());
                let _ = self.shared.set((pools, found.clone()));
                found
            }
        }
    }

    fn search(&self, node: &str, labels: &Pairs, pools: Vec<Pool>) -> Found {
        let mut search = Search::new(self, node, labels, pools);
        let found =
            search.prepare().and_then(|()| search.allocate_one(Place::default(), false, Location::default()));
        match found {
            Ok(true) => Ok(Some(search.results)),
            Ok(false) | Err(Stop::SizeExceeded) => {
                if search.pools.iter().any(|pool| pool.state == PoolState::Invalid) {
                    let text = "invalid resource pools were encountered";
                    return Err(AllocationError::OnNode(text.to_owned()));
                }
                Ok(None)
            }
            Err(Stop::Fatal(text)) => Err(AllocationError::Fatal(text)),
        }
    }

    fn counters(&self, generation: usize) -> &Counters {
        self.counters[generation]
            .get_or_init(|| counters::available(&self.inventory, generation, &self.allocated))
    }
}

impl<'a> Search<'a> {
    fn new(task: &'a AllocationTask, node: &'a str, labels: &'a Pairs, pools: Vec<Pool>) -> Search<'a> {
        let constraints =
            |claim: &PendingClaim| claim.spec().constraints.iter().map(Constraint::new).collect();
        let result = |claim: &PendingClaim| ClaimAllocation {
            devices: Vec::new(),
            choices: vec![0; claim.groups.len()],
        };
        Search {
            task,
            node,
            labels,
            pools,
            needs: Vec::new(),
            constraints: task.claims.iter().map(constraints).collect(),
            allocating: BTreeMap::new(),
            shares: BTreeMap::new(),
            counters: ConsumedCounters::default(),
            results: task.claims.iter().map(result).collect(),
            depth: 0,
        }
    }

    /// Determines how many devices each request needs.
    fn prepare(&mut self) -> Result<(), Stop> {
        let task = self.task;
        for claim in &task.claims {
            let mut least = 0_usize;
            let mut needs = Vec::new();
            for group in &claim.groups {
                let choices: Result<Vec<Need>, Stop> =
                    group.choices.iter().map(|request| self.need(claim, request)).collect();
                let choices = choices?;
                least = least.saturating_add(choices.iter().map(|need| need.count).min().unwrap_or(0));
                needs.push(choices);
            }
            if least > RESULTS_MAX {
                let text =
                    format!("number of requested devices {least} exceeds the claim limit of {RESULTS_MAX}");
                return Err(Stop::Fatal(format!("claim {}: {text}", claim.key())));
            }
            self.needs.push(needs);
        }
        Ok(())
    }

    fn need(&self, claim: &PendingClaim, request: &Request) -> Result<Need, Stop> {
        let Mode::Exact(count) = request.mode else { return self.need_of_all(claim, request) };
        Ok(Need { count, all: None })
    }

    fn need_of_all(&self, claim: &PendingClaim, request: &Request) -> Result<Need, Stop> {
        let failed =
            |text: String| Stop::Fatal(format!("claim {}, request {}: {text}", claim.key(), request.name));
        let mut all = Vec::new();
        for (number, pool) in self.pools.iter().enumerate() {
            let state = match pool.state {
                PoolState::Complete => None,
                PoolState::Incomplete => Some("being updated"),
                PoolState::Invalid => Some("invalid"),
            };
            if let Some(state) = state {
                let info = &self.task.inventory.pools[pool.number];
                let name = format!("{}/{}", info.driver, info.name);
                return Err(failed(format!(
                    "asks for all devices, but resource pool {name} is currently {state}"
                )));
            }
            for slice in &pool.slices {
                for device in 0..self.task.inventory.slices[*slice].devices.len() {
                    self.step()?;
                    let candidate = Candidate { pool: number, slice: *slice, device };
                    if !self.is_selectable(claim, request, candidate)? {
                        continue;
                    }
                    // Consumed capacity does not exclude a device from all: then the request cannot be satisfied.
                    let spec = self.device(candidate);
                    let fits = capacity::fits(request.spec.capacity.as_ref(), spec, None, None);
                    if fits.map_err(|text| {
                        failed(format!("checking capacity for device {}: {text}", spec.name))
                    })? {
                        all.push(candidate);
                    }
                }
            }
        }
        Ok(Need { count: all.len(), all: Some(all) })
    }

    /// Counts a step.
    fn step(&self) -> Result<(), Stop> {
        self.add_steps(1)
    }

    fn add_steps(&self, steps: u64) -> Result<(), Stop> {
        let before = self.task.steps.fetch_add(steps, Ordering::Relaxed);
        if before.saturating_add(steps) > SEARCH_STEPS_MAX {
            return Err(Stop::Fatal(format!("node {}: timed out trying to allocate devices", self.node)));
        }
        Ok(())
    }

    fn device(&self, candidate: Candidate) -> &'a Device {
        &self.task.inventory.slices[candidate.slice].spec().devices[candidate.device]
    }

    fn request(&self, at: Place) -> &'a Request {
        &self.task.claims[at.claim].groups[at.group].choices[at.choice]
    }

    fn request_name(&self, at: Place) -> RequestName<'a> {
        let group = &self.task.claims[at.claim].groups[at.group];
        let choice = group.is_prioritized.then(|| &*group.choices[at.choice].name);
        RequestName { request: &group.name, choice }
    }

    /// Chooses the device at a place and all after it. Returns `false` if there is no solution. With `is_chosen`, the
    /// alternative of the request is chosen already.
    fn allocate_one(&mut self, at: Place, is_chosen: bool, start: Location) -> Result<bool, Stop> {
        self.step()?;
        if self.depth >= SEARCH_DEPTH_MAX {
            return Err(Stop::Fatal(format!("node {}: too many requested devices", self.node)));
        }
        self.depth += 1;
        let found = self.allocate_at(at, is_chosen, start);
        self.depth -= 1;
        found
    }

    fn allocate_at(&mut self, at: Place, is_chosen: bool, start: Location) -> Result<bool, Stop> {
        let Some(claim) = self.task.claims.get(at.claim) else { return Ok(true) };
        let Some(group) = claim.groups.get(at.group) else {
            let next = Place { claim: at.claim + 1, ..Place::default() };
            return match self.allocate_one(next, false, Location::default()) {
                // Another choice for this claim may leave an alternative with fewer devices for the next one.
                Err(Stop::SizeExceeded) => Ok(false),
                found => found,
            };
        };
        if group.is_prioritized && !is_chosen {
            return self.allocate_choice(at, group.choices.len());
        }
        let need = &self.needs[at.claim][at.group][at.choice];
        let (count, candidate) = (need.count, need.all.as_ref().map(|all| all.get(at.device).copied()));
        if candidate.is_some() && count == 0 {
            return Ok(false);
        }
        if at.device >= count {
            let next = Place { claim: at.claim, group: at.group + 1, ..Place::default() };
            return self.allocate_one(next, false, Location::default());
        }
        if self.results[at.claim].devices.len() + (count - at.device) > RESULTS_MAX {
            return Err(Stop::SizeExceeded);
        }
        match candidate.flatten() {
            Some(candidate) => self.allocate_candidate(at, is_chosen, candidate, true, Location::default()),
            None => self.allocate_any(at, is_chosen, start),
        }
    }

    /// Tries the alternatives of a request in their order.
    fn allocate_choice(&mut self, at: Place, choices: usize) -> Result<bool, Stop> {
        let mut is_exceeded = true;
        for choice in 0..choices {
            match self.allocate_one(Place { choice, ..at }, true, Location::default()) {
                Err(Stop::SizeExceeded) => {}
                Err(stop) => return Err(stop),
                Ok(true) => {
                    self.results[at.claim].choices[at.group] = choice;
                    return Ok(true);
                }
                Ok(false) => is_exceeded = false,
            }
        }
        if is_exceeded { Err(Stop::SizeExceeded) } else { Ok(false) }
    }

    /// Tries the devices of the pools from a location on.
    fn allocate_any(&mut self, at: Place, is_chosen: bool, start: Location) -> Result<bool, Stop> {
        let (task, request) = (self.task, self.request(at));
        let claim = &task.claims[at.claim];
        for pool in start.pool..self.pools.len() {
            let first_slice = if pool == start.pool { start.slice } else { 0 };
            for slice in first_slice..self.pools[pool].slices.len() {
                let info = self.pools[pool].slices[slice];
                let is_start = pool == start.pool && slice == start.slice;
                let first_device = if is_start { start.device } else { 0 };
                for device in first_device..task.inventory.slices[info].devices.len() {
                    self.step()?;
                    let candidate = Candidate { pool, slice: info, device };
                    if !self.is_available(at, candidate)
                        || !self.is_selectable(claim, request, candidate)?
                        || !self.has_capacity(at, candidate, "checking")?
                    {
                        continue;
                    }
                    let next = Location { pool, slice, device: device + 1 };
                    if self.allocate_candidate(at, is_chosen, candidate, false, next)? {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }

    /// Takes a device and continues; takes it back if that leads to no solution.
    fn allocate_candidate(
        &mut self,
        at: Place,
        is_chosen: bool,
        candidate: Candidate,
        is_required: bool,
        next: Location,
    ) -> Result<bool, Stop> {
        let Some(taken) = self.take(at, candidate, is_required)? else { return Ok(false) };
        let found = self.allocate_one(Place { device: at.device + 1, ..at }, is_chosen, next);
        if !matches!(found, Ok(true)) {
            self.take_back(at, candidate, taken);
        }
        found
    }
}
