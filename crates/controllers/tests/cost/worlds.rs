//! Worlds of the cost test, one for each expensive dimension of a planner.

#[path = "worlds/devices.rs"]
mod devices;
#[path = "worlds/network.rs"]
mod network;
#[path = "worlds/nodes.rs"]
mod nodes;
#[path = "worlds/policies.rs"]
mod policies;
#[path = "worlds/storage.rs"]
mod storage;
#[path = "worlds/workloads.rs"]
mod workloads;

use setpoint_reconcile::Object;

/// World that grows in one dimension, for one planner.
#[derive(Clone, Copy)]
pub struct Case {
    /// Name of the planner.
    pub planner: &'static str,
    /// Dimension that grows.
    pub name: &'static str,
    /// Planned key, as `resource namespace/name`.
    pub key: &'static str,
    /// Maximum number of pairs of elements that one plan compares, if the planner has such a budget: the cost
    /// of a step is then measured instead of the growth.
    pub steps_max: Option<u64>,
    /// Objects of the world of a size.
    pub objects: fn(usize) -> Vec<Object>,
}

impl Case {
    /// Case without a budget of steps.
    const fn new(
        planner: &'static str,
        name: &'static str,
        key: &'static str,
        objects: fn(usize) -> Vec<Object>,
    ) -> Case {
        Case { planner, name, key, steps_max: None, objects }
    }

    /// Sets the budget of steps.
    const fn with_budget(self, steps: u64) -> Case {
        Case { steps_max: Some(steps), ..self }
    }
}

/// All cases.
pub fn all() -> Vec<Case> {
    let tables =
        [devices::CASES, network::CASES, nodes::CASES, policies::CASES, storage::CASES, workloads::CASES];
    tables.concat()
}
