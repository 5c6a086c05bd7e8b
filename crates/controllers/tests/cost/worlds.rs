//! A world for each dimension that is dangerous to a planner.

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

/// A world that grows in one dimension, for one planner.
#[derive(Clone, Copy)]
pub struct Case {
    /// The planner.
    pub planner: &'static str,
    /// What there are many of.
    pub name: &'static str,
    /// The key that is planned, as `resource namespace/name`.
    pub key: &'static str,
    /// Maximum number of pairs of elements that one plan compares, where it has a budget of such steps: the cost of a step
    /// is then measured instead of the growth.
    pub steps_max: Option<u64>,
    /// The world with so many of them.
    pub objects: fn(usize) -> Vec<Object>,
}

impl Case {
    /// A case without a budget of steps.
    const fn new(
        planner: &'static str,
        name: &'static str,
        key: &'static str,
        objects: fn(usize) -> Vec<Object>,
    ) -> Case {
        Case { planner, name, key, steps_max: None, objects }
    }

    /// The same for a planner with such a budget.
    const fn with_budget(self, steps: u64) -> Case {
        Case { steps_max: Some(steps), ..self }
    }
}

/// All of them.
pub fn all() -> Vec<Case> {
    let tables =
        [devices::CASES, network::CASES, nodes::CASES, policies::CASES, storage::CASES, workloads::CASES];
    tables.concat()
}
