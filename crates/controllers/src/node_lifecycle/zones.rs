//! Rate of `NoExecute` taints: node by node in each zone, slower in disrupted zones, paused if all nodes are
//! down.
//!
//! The state is in the taints themselves: the newest taint of a zone determines the time of the next one.
//! Nothing is remembered, so the rate holds over restarts and for two loops.

use std::time::Duration;

use setpoint_api::{Key, Time};
use setpoint_reconcile::{Object, WorldReader};
use setpoint_views::node::Node;

use super::{NOT_READY, UNREACHABLE};
use crate::indexes::{NODES_BY_STATE, NODES_BY_ZONE, NODES_PENDING_TAINT_BY_ZONE, zone_of};

/// Rate at which nodes are tainted for eviction.
#[derive(Clone, Debug, PartialEq)]
pub struct EvictionRate {
    /// Interval between two nodes of a healthy zone; `None` never taints.
    pub interval: Option<Duration>,
    /// Interval between two nodes of a large disrupted zone; `None` never taints.
    pub interval_disrupted: Option<Duration>,
    /// Maximum number of nodes of a small zone.
    pub large_zone: usize,
    /// Share of unhealthy nodes from which on a zone is disrupted.
    pub unhealthy_share: f64,
}

impl Default for EvictionRate {
    fn default() -> EvictionRate {
        EvictionRate {
            interval: Some(Duration::from_secs(10)),
            interval_disrupted: Some(Duration::from_secs(100)),
            large_zone: 50,
            unhealthy_share: 0.55,
        }
    }
}

/// Label of nodes that are ignored when the state of a zone is determined.
const EXCLUDE_DISRUPTION_LABEL: &str = "node.kubernetes.io/exclude-disruption";

/// Values of the index [`NODES_BY_STATE`].
const DOWN: &str = "down";
const HEALTHY: &str = "healthy";

/// Key of the `NoExecute` taint that a node should have now, if any.
pub(super) fn desired_no_execute_taint(
    object: &Object,
    node: &Node,
    world: &WorldReader<'_>,
    now: Time,
    eviction_rate: &EvictionRate,
) -> Option<&'static str> {
    let (key, opposite) = match node.readiness()? {
        "False" => (NOT_READY, UNREACHABLE),
        "Unknown" => (UNREACHABLE, NOT_READY),
        _ => return None,
    };
    if is_fully_disrupted(world) {
        return None;
    }
    let has = |key: &str| node.spec.taints.iter().any(|taint| taint.matches(key, "NoExecute"));
    // A change from one key to the other needs no rate limit: the node was tainted before.
    (has(key) || has(opposite) || is_next(object, world, now, eviction_rate)).then_some(key)
}

/// `true` if no counted node is healthy.
fn is_fully_disrupted(world: &WorldReader<'_>) -> bool {
    let is_any = |state: &str| world.by_index(NODES_BY_STATE, state).next().is_some();
    is_any(DOWN) && !is_any(HEALTHY)
}

fn is_counted(object: &Object) -> bool {
    object.meta().labels.get(EXCLUDE_DISRUPTION_LABEL).is_none()
}

/// Index function: health of counted nodes.
pub(crate) fn index_state(object: &Object, emit: &mut dyn FnMut(&str)) {
    if let Some(node) = object.view::<Node>().filter(|_| is_counted(object)) {
        emit(if node.is_ready() { HEALTHY } else { DOWN });
    }
}

/// Index function: zone of nodes that are down and not yet tainted.
pub(crate) fn index_zone_pending_taint(object: &Object, emit: &mut dyn FnMut(&str)) {
    let is_down = |node: &&Node| node.readiness().is_some_and(|ready| ready != "True");
    if object.view::<Node>().filter(is_down).is_some_and(|node| evicting_taint_added(node).is_none()) {
        emit(&zone_of(object));
    }
}

/// Time of the `NoExecute` taint; `None` without one.
fn evicting_taint_added(node: &Node) -> Option<Time> {
    let mut evicting =
        node.spec.taints.iter().filter(|taint| {
            taint.effect == "NoExecute" && (taint.key == NOT_READY || taint.key == UNREACHABLE)
        });
    evicting.next().map(|taint| taint.time_added.unwrap_or(Time::EPOCH))
}

/// Sort key: time since which a node is in its state. The node that is down for longest is tainted first.
fn down_since(object: &Object) -> (Option<Time>, &Key) {
    let ready = object.view::<Node>().and_then(|node| node.condition("Ready"));
    (ready.and_then(|ready| ready.last_transition_time), object.key())
}

/// `true` if a node is the next of its zone to be tainted, and the interval has passed.
fn is_next(object: &Object, world: &WorldReader<'_>, now: Time, eviction_rate: &EvictionRate) -> bool {
    let zone = zone_of(object);
    let own = down_since(object);
    if world.by_index(NODES_PENDING_TAINT_BY_ZONE, &zone).any(|other| down_since(other) < own) {
        return false;
    }
    let (mut down, mut all, mut last) = (0, 0, None);
    for other in world.by_index(NODES_BY_ZONE, &zone) {
        let Some(node) = other.view::<Node>() else { continue };
        if is_counted(other) {
            all += 1;
            down += usize::from(!node.is_ready());
        }
        last = last.max(evicting_taint_added(node));
    }
    let Some(interval) = eviction_rate.interval_for(down, all) else { return false };
    last.is_none_or(|last: Time| last.after(interval) <= now)
}

impl EvictionRate {
    /// Interval between two nodes of a zone; `None` if none is to be tainted.
    fn interval_for(&self, down: usize, all: usize) -> Option<Duration> {
        // In single precision, as upstream: 55 of 100 nodes reach a share of 0.55.
        let share = down as f32 / all as f32;
        let is_disrupted = down > 2 && down < all && share >= self.unhealthy_share as f32;
        match (is_disrupted, all > self.large_zone) {
            (false, _) => self.interval,
            (true, true) => self.interval_disrupted,
            (true, false) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disrupted_zones_taint_slower_and_small_ones_stop() {
        let eviction_rate = EvictionRate::default();
        let interval_for = |down, all| eviction_rate.interval_for(down, all).map(|pause| pause.as_secs());
        assert_eq!(interval_for(1, 10), Some(10));
        assert_eq!(interval_for(2, 3), Some(10), "two nodes never disrupt a zone");
        assert_eq!(interval_for(6, 10), None);
        assert_eq!(interval_for(54, 100), Some(10));
        assert_eq!(interval_for(55, 100), Some(100));
        assert_eq!(interval_for(10, 10), Some(10), "a zone that is wholly down is tainted at full rate");
    }
}
