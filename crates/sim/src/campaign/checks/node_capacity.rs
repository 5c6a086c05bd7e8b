//! Node capacity: running pods never use more than the allocatable resources of their node, nor a host port twice.

use std::collections::BTreeMap;

use setpoint_api::quantity::Quantity;
use setpoint_views::node::Node;
use setpoint_views::pod::{ContainerPort, Pod};

use super::{Check, CommitContext, pod, size};
use crate::campaign::coverage::CoverageMarks;
use crate::campaign::ground_truth::CommitChange;

/// Capacity of a node that its pods leave free.
pub struct FreeCapacity<'a> {
    pods: i64,
    /// Free amounts by resource, in thousandths.
    left: BTreeMap<&'a str, i64>,
    ports: Vec<&'a ContainerPort>,
}

fn milli_value(text: &str) -> i64 {
    Quantity::parse(text).map_or(0, Quantity::milli_value)
}

/// Requests of a pod in thousandths. Pods of the scenarios have no init containers.
fn requests(pod: &Pod) -> BTreeMap<&str, i64> {
    let mut sum = BTreeMap::new();
    for container in &pod.spec.containers {
        for (name, text) in container.resources.requests.iter() {
            *sum.entry(name).or_default() += milli_value(text);
        }
    }
    sum
}

fn ports(pod: &Pod) -> impl Iterator<Item = &ContainerPort> {
    pod.spec.containers.iter().flat_map(|container| &container.ports).filter(|port| port.host_port > 0)
}

impl<'a> FreeCapacity<'a> {
    /// Computes the free capacity beside other pods.
    pub fn new(node: &'a Node, others: impl Iterator<Item = &'a Pod>) -> FreeCapacity<'a> {
        let mut left: BTreeMap<&str, i64> =
            node.status.allocatable.iter().map(|(name, text)| (name, milli_value(text))).collect();
        let (mut count, mut taken) = (0, Vec::new());
        for other in others {
            count += 1;
            for (name, amount) in requests(other) {
                *left.entry(name).or_default() -= amount;
            }
            taken.extend(ports(other));
        }
        let pods = left.get("pods").copied().unwrap_or(0) / 1000 - count;
        FreeCapacity { pods, left, ports: taken }
    }

    /// Describes the first resource or port that a pod lacks; `None` if it fits.
    pub fn find_shortage(&self, pod: &Pod) -> Option<String> {
        if self.pods < 1 {
            return Some("has too many pods".to_owned());
        }
        for (name, amount) in requests(pod) {
            let left = self.left.get(name).copied().unwrap_or(0);
            if amount > left {
                return Some(format!("has {left} thousandths of {name} left, {amount} are asked for"));
            }
        }
        let clash = |port: &&ContainerPort| {
            self.ports
                .iter()
                .any(|taken| (taken.host_port, &taken.protocol) == (port.host_port, &port.protocol))
        };
        ports(pod).find(clash).map(|port| format!("has its port {} taken", port.host_port))
    }
}

/// Check of running pods.
pub struct NodeCapacity;

impl Check for NodeCapacity {
    fn check_change(
        &mut self,
        change: &CommitChange,
        context: &CommitContext<'_>,
        _: &mut CoverageMarks,
    ) -> Result<(), String> {
        let is_running = |pod: &Pod| pod.status.phase == "Running";
        let Some(view) = change.after.as_ref().and_then(pod).filter(|pod| is_running(pod)) else {
            return Ok(());
        };
        if change.before.as_ref().and_then(pod).is_some_and(is_running) {
            return Ok(());
        }
        let name = &view.spec.node_name;
        let Some((_, node)) = context.world.view::<Node>("", name) else { return Ok(()) };
        let others = context.world.views::<Pod>().filter(|(other, view)| {
            *other.key() != change.key && view.spec.node_name == *name && is_running(view)
        });
        let others: Vec<&Pod> = others.map(|(_, other)| other).collect();
        let count = size(others.len());
        match FreeCapacity::new(node, others.into_iter()).find_shortage(view) {
            Some(reason) => Err(format!("{} runs on {name} beside {count} others: it {reason}", change.key)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::{Key, Resource, Revision, Time, Value, json, value};
    use setpoint_reconcile::{Object, World};

    use super::*;

    fn object(resource: &str, path: &str, value: &Value) -> Object {
        let key = Key::from_path(&Resource::new(resource).unwrap(), path).unwrap();
        Object::read(key, Revision(1), Time::EPOCH, json::to_vec(value)).unwrap()
    }

    fn pod(name: &str, cpu: &str, port: i64, phase: &str) -> Object {
        let container = value!({
            "name": "c", "ports": [{"hostPort": (port), "protocol": "TCP"}],
            "resources": {"requests": {"cpu": (cpu)}},
        });
        let pod = value!({
            "metadata": {"name": (name), "namespace": "default", "uid": (name)},
            "spec": {"nodeName": "n", "containers": [(container)]},
            "status": {"phase": (phase)},
        });
        object("pods", &format!("default/{name}"), &pod)
    }

    fn starts(new: Object) -> Result<(), String> {
        let mut world = World::default();
        let allocatable = value!({"cpu": "4", "pods": "2"});
        let node = value!({"metadata": {"name": "n"}, "status": {"allocatable": (allocatable)}});
        world.put(object("nodes", "n", &node));
        world.put(pod("old", "3", 80, "Running"));
        world.put(pod("over", "3", 90, "Succeeded"));
        world.put(new.clone());
        let change = CommitChange {
            key: new.key().clone(),
            revision: Revision(2),
            before: None,
            after: Some(new),
            by: "node-pods".into(),
            seen: Revision(2),
            is_late: false,
        };
        let changes = [change];
        let context = CommitContext {
            world: &world.reader(),
            changes: &changes,
            admission: None,
            now: Time::EPOCH,
            calm: true,
        };
        NodeCapacity.check_change(&changes[0], &context, &mut CoverageMarks::default())
    }

    #[test]
    fn running_pod_without_free_capacity_is_rejected() {
        assert_eq!(starts(pod("new", "1", 90, "Running")), Ok(()));
        assert_eq!(starts(pod("new", "2", 80, "Pending")), Ok(()), "a pending pod uses nothing");
        let full = "has 1000 thousandths of cpu left, 2000 are asked for";
        for (pod, reason) in [
            (pod("new", "2", 90, "Running"), full),
            (pod("new", "1", 80, "Running"), "has its port 80 taken"),
        ] {
            let expected = format!("pods/default/new runs on n beside 1 others: it {reason}");
            assert_eq!(starts(pod), Err(expected));
        }
    }
}
