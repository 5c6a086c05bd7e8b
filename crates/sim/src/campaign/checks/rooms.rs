//! What runs on a node fits on it: together, its pods never take more than it has, nor one port twice.

use std::collections::BTreeMap;

use setpoint_api::quantity::Quantity;
use setpoint_reconcile::views::node::Node;
use setpoint_reconcile::views::pod::{ContainerPort, Pod};

use super::{Check, Scene, pod, size};
use crate::campaign::marks::Marks;
use crate::campaign::truth::Change;

/// What is left of a node.
pub struct Room<'a> {
    pods: i64,
    /// By resource, in thousandths.
    left: BTreeMap<&'a str, i64>,
    ports: Vec<&'a ContainerPort>,
}

fn thousandths(text: &str) -> i64 {
    Quantity::parse(text).map_or(0, Quantity::milli_value)
}

/// What a pod asks for, in thousandths. Nobody here has containers that run first.
fn asked(pod: &Pod) -> BTreeMap<&str, i64> {
    let mut sum = BTreeMap::new();
    for container in &pod.spec.containers {
        for (name, text) in container.resources.requests.iter() {
            *sum.entry(name).or_default() += thousandths(text);
        }
    }
    sum
}

fn ports(pod: &Pod) -> impl Iterator<Item = &ContainerPort> {
    pod.spec.containers.iter().flat_map(|container| &container.ports).filter(|port| port.host_port > 0)
}

impl<'a> Room<'a> {
    /// What these pods leave of a node.
    pub fn of(node: &'a Node, others: impl Iterator<Item = &'a Pod>) -> Room<'a> {
        let mut left: BTreeMap<&str, i64> =
            node.status.allocatable.iter().map(|(name, text)| (name, thousandths(text))).collect();
        let (mut count, mut taken) = (0, Vec::new());
        for other in others {
            count += 1;
            for (name, amount) in asked(other) {
                *left.entry(name).or_default() -= amount;
            }
            taken.extend(ports(other));
        }
        let pods = left.get("pods").copied().unwrap_or(0) / 1000 - count;
        Room { pods, left, ports: taken }
    }

    /// Why there is no room for a pod; nothing if there is.
    pub fn objection(&self, pod: &Pod) -> Option<String> {
        if self.pods < 1 {
            return Some("has too many pods".to_owned());
        }
        for (name, amount) in asked(pod) {
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

/// See the module.
pub struct RoomsHold;

impl Check for RoomsHold {
    fn see(&mut self, change: &Change, scene: &Scene<'_>, _: &mut Marks) -> Result<(), String> {
        let is_running = |pod: &Pod| pod.status.phase == "Running";
        let Some(view) = change.after.as_ref().and_then(pod).filter(|pod| is_running(pod)) else {
            return Ok(());
        };
        if change.before.as_ref().and_then(pod).is_some_and(is_running) {
            return Ok(());
        }
        let name = &view.spec.node_name;
        let Some((_, node)) = scene.world.view::<Node>("", name) else { return Ok(()) };
        let others = scene.world.views::<Pod>().filter(|(other, view)| {
            *other.key() != change.key && view.spec.node_name == *name && is_running(view)
        });
        let others: Vec<&Pod> = others.map(|(_, other)| other).collect();
        let count = size(others.len());
        match Room::of(node, others.into_iter()).objection(view) {
            Some(why) => Err(format!("{} runs on {name} beside {count} others: it {why}", change.key)),
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
        let change = Change {
            key: new.key().clone(),
            revision: Revision(2),
            before: None,
            after: Some(new),
            by: "node-pods".into(),
            user: "".into(),
            seen: Revision(2),
            is_late: false,
        };
        let changes = [change];
        let scene = Scene { world: &world, changes: &changes, now: Time::EPOCH, calm: true };
        RoomsHold.see(&changes[0], &scene, &mut Marks::default())
    }

    #[test]
    fn a_node_that_runs_what_it_has_no_room_for_is_caught() {
        assert_eq!(starts(pod("new", "1", 90, "Running")), Ok(()));
        assert_eq!(starts(pod("new", "2", 80, "Pending")), Ok(()), "it does not run");
        let full = "has 1000 thousandths of cpu left, 2000 are asked for";
        for (pod, why) in [
            (pod("new", "2", 90, "Running"), full),
            (pod("new", "1", 80, "Running"), "has its port 80 taken"),
        ] {
            let expected = format!("pods/default/new runs on n beside 1 others: it {why}");
            assert_eq!(starts(pod), Err(expected));
        }
    }
}
