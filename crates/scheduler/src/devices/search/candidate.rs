//! Tests of a candidate, and the state that changes while it is taken.

use setpoint_views::resource_slice::Device;

use super::{
    AllocatedDevice, Amounts, COST_PER_STEP, Candidate, PendingClaim, Place, Request, Search, Stop,
    add_amounts, capacity,
};
use crate::devices::claims::SelectorUse;
use crate::devices::inventory::{DeviceInfo, DeviceNumber};
use crate::devices::selectors::Fault;

/// Changes by a device, to be undone if it is taken back.
#[derive(Debug, Default)]
pub(super) struct Taken {
    has_counters: bool,
    constraints: usize,
    is_marked: bool,
    /// Capacity of a share, and `true` if the search had taken a share of the device before.
    share: Option<(Amounts, bool)>,
    has_result: bool,
}

impl<'a> Search<'a> {
    fn info(&self, candidate: Candidate) -> &'a DeviceInfo {
        &self.task.inventory.slices[candidate.slice].devices[candidate.device]
    }

    fn driver(&self, candidate: Candidate) -> &'a str {
        &self.task.inventory.pool_of(candidate.slice).driver
    }

    /// Returns `driver/pool/device`.
    fn device_name(&self, candidate: Candidate) -> String {
        let pool = self.task.inventory.pool_of(candidate.slice);
        format!("{}/{}/{}", pool.driver, pool.name, self.device(candidate).name)
    }

    /// `true` if no claim holds the device.
    pub(super) fn is_available(&self, at: Place, candidate: Candidate) -> bool {
        let number = self.info(candidate).number;
        let users = self.allocating.get(&number);
        if self.request(at).is_admin {
            return users.is_none_or(|users| !users.contains(&at.claim));
        }
        !self.task.allocated.is_dedicated(number) && users.is_none_or(|users| users.is_empty())
    }

    /// `true` if the selectors of the class and the request match a device, and the device is for this node.
    pub(super) fn is_selectable(
        &self,
        claim: &PendingClaim,
        request: &Request,
        candidate: Candidate,
    ) -> Result<bool, Stop> {
        let (info, device) = (self.info(candidate), self.device(candidate));
        for one in &request.selectors {
            let (result, cost) = one.selector.matches(self.driver(candidate), device, info.position);
            self.add_steps(cost / COST_PER_STEP)?;
            let is_match =
                result.map_err(|fault| self.selector_error(claim, request, one, candidate, fault))?;
            if !is_match {
                return Ok(false);
            }
        }
        Ok(info.nodes.as_ref().is_none_or(|nodes| nodes.matches(self.node, self.labels)))
    }

    fn selector_error(
        &self,
        claim: &PendingClaim,
        request: &Request,
        one: &SelectorUse,
        candidate: Candidate,
        fault: Fault,
    ) -> Stop {
        let owner = if one.is_of_class {
            format!("class {}", request.class.meta().name)
        } else {
            format!("claim {}", claim.key())
        };
        Stop::Fatal(match fault {
            Fault::Compile(text) => {
                format!("{owner}: selector #{}: CEL compile error: {text}", one.position)
            }
            Fault::Runtime(text) | Fault::Device(text) => format!(
                "{owner}: selector #{} on device {}: CEL runtime error: {text}",
                one.position,
                self.device_name(candidate)
            ),
        })
    }

    /// `true` if the device has the capacity that a request consumes.
    pub(super) fn has_capacity(&self, at: Place, candidate: Candidate, verb: &str) -> Result<bool, Stop> {
        let (request, number) = (self.request(at), self.info(candidate).number);
        let fits = capacity::fits(
            request.spec.capacity.as_ref(),
            self.device(candidate),
            self.task.allocated.shares(number),
            self.shares.get(&number),
        );
        fits.map_err(|text| self.capacity_error(at, candidate, verb, &text))
    }

    fn capacity_error(&self, at: Place, candidate: Candidate, verb: &str, text: &str) -> Stop {
        Stop::Fatal(format!(
            "claim {}, request {}: {verb} capacity for device {}: {text}",
            self.task.claims[at.claim].key(),
            self.request(at).name,
            self.device_name(candidate)
        ))
    }

    /// Takes a device that is selectable. Returns `None` and changes nothing if it cannot be taken.
    pub(super) fn take(
        &mut self,
        at: Place,
        candidate: Candidate,
        is_required: bool,
    ) -> Result<Option<Taken>, Stop> {
        let mut taken = Taken::default();
        match self.try_take(at, candidate, is_required, &mut taken) {
            Ok(true) => Ok(Some(taken)),
            Ok(false) => {
                self.take_back(at, candidate, taken);
                Ok(None)
            }
            Err(stop) => {
                self.take_back(at, candidate, taken);
                Err(stop)
            }
        }
    }

    fn try_take(
        &mut self,
        at: Place,
        candidate: Candidate,
        is_required: bool,
        taken: &mut Taken,
    ) -> Result<bool, Stop> {
        let (info, device, request) = (self.info(candidate), self.device(candidate), self.request(at));
        let is_shared = device.allow_multiple_allocations == Some(true);
        let is_admin_share = is_shared && request.is_admin;
        if !is_admin_share && !self.is_available(at, candidate) {
            return Ok(false);
        }
        // The first share of a device consumes its counters.
        let is_counted = !is_shared || !self.has_shares(info.number);
        if is_counted && !device.consumes_counters.is_empty() {
            let generation = self.pools[candidate.pool].generation;
            let available = self.task.counters(generation);
            if !self.counters.reserve(generation, device, available) {
                return Ok(false);
            }
            taken.has_counters = true;
        }
        if has_untolerated_taint(info, device, request) {
            return Ok(false);
        }
        if !self.meets_constraints(at, candidate, taken) {
            // A claim whose constraints exclude one of all devices makes no sense.
            return if is_required { Err(self.constraint_error(at, candidate)) } else { Ok(false) };
        }
        if !is_shared {
            self.allocating.entry(info.number).or_default().insert(at.claim);
            taken.is_marked = true;
        }
        if !self.has_capacity(at, candidate, "rechecking")? {
            return Ok(false);
        }
        let mut consumed = Amounts::new();
        if is_shared {
            consumed = capacity::consumed(request.spec.capacity.as_ref(), device)
                .map_err(|text| self.capacity_error(at, candidate, "computing consumed", &text))?;
            let had_share = self.shares.contains_key(&info.number);
            let amounts = consumed.iter().map(|(name, amount)| (&**name, *amount));
            add_amounts(self.shares.entry(info.number).or_default(), amounts);
            taken.share = Some((consumed.clone(), had_share));
        }
        self.results[at.claim].devices.push(AllocatedDevice {
            group: at.group,
            choice: at.choice,
            slice: candidate.slice,
            device: candidate.device,
            number: info.number,
            is_admin: request.is_admin,
            is_shared,
            consumed,
        });
        taken.has_result = true;
        Ok(true)
    }

    fn has_shares(&self, number: DeviceNumber) -> bool {
        self.task.allocated.shares(number).is_some() || self.shares.contains_key(&number)
    }

    fn meets_constraints(&mut self, at: Place, candidate: Candidate, taken: &mut Taken) -> bool {
        let (name, driver, device) = (self.request_name(at), self.driver(candidate), self.device(candidate));
        for constraint in &mut self.constraints[at.claim] {
            if !constraint.add(name, driver, device) {
                return false;
            }
            taken.constraints += 1;
        }
        true
    }

    fn constraint_error(&self, at: Place, candidate: Candidate) -> Stop {
        Stop::Fatal(format!(
            "claim {}, request {}: cannot add device {} because a claim constraint would not be satisfied",
            self.task.claims[at.claim].key(),
            self.request(at).name,
            self.device_name(candidate)
        ))
    }

    /// Undoes the changes by a device, in reverse order.
    pub(super) fn take_back(&mut self, at: Place, candidate: Candidate, taken: Taken) {
        let number = self.info(candidate).number;
        if taken.has_result {
            self.results[at.claim].devices.pop();
        }
        if let Some((amounts, had_share)) = taken.share {
            if had_share {
                let sum = self.shares.entry(number).or_default();
                for (name, amount) in amounts {
                    if let Some(total) = sum.get_mut(&name) {
                        *total -= amount;
                    }
                }
            } else {
                self.shares.remove(&number);
            }
        }
        if taken.is_marked
            && let Some(users) = self.allocating.get_mut(&number)
        {
            users.remove(&at.claim);
        }
        let name = self.request_name(at);
        for constraint in self.constraints[at.claim][..taken.constraints].iter_mut().rev() {
            constraint.remove(name);
        }
        if taken.has_counters {
            let generation = self.pools[candidate.pool].generation;
            self.counters.release(generation, self.device(candidate));
        }
    }
}

/// `true` if a taint prevents the allocation. Taints of other effects only inform.
fn has_untolerated_taint(info: &DeviceInfo, device: &Device, request: &Request) -> bool {
    let mut taints = device.taints.iter().chain(&info.rule_taints);
    taints.any(|taint| {
        matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
            && !request.tolerations.iter().any(|toleration| toleration.tolerates(taint))
    })
}
