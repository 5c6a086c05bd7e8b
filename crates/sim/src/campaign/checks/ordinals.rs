//! A StatefulSet that goes in order makes no pod before all of lower ordinals serve, as long as nothing but the
//! controllers moves pods. And at no moment do two pods of one ordinal run, also where nobody hears of one of them.

use std::collections::BTreeMap;

use setpoint_reconcile::views::stateful_set::StatefulSet;

use super::{Check, Scene, is_healthy, pod};
use crate::campaign::marks::Marks;
use crate::campaign::nodes::is_cut_off;
use crate::campaign::truth::Change;

/// See the module.
pub struct InOrder;

impl Check for InOrder {
    fn see(&mut self, change: &Change, scene: &Scene<'_>, marks: &mut Marks) -> Result<(), String> {
        let made = change.is_of("pods") && change.is_creation() && &*change.by == "statefulset-controller";
        let Some(owner) = change.object().meta().controller().filter(|_| made) else { return Ok(()) };
        let Some(set) = scene.world.identified(&owner.uid) else { return Ok(()) };
        let Some(view) = set.view::<StatefulSet>() else { return Ok(()) };
        let name = &change.object().meta().name;
        let Some(ordinal) = name.rsplit('-').next().and_then(|number| number.parse::<i64>().ok()) else {
            return Err(format!("{name} has no ordinal"));
        };
        if change.revision.0 > set.revision().0 && view.status.replicas > ordinal {
            marks.note("ordinal was replaced");
        }
        if !scene.calm || change.is_late || view.spec.pod_management_policy == "Parallel" {
            return Ok(());
        }
        for lower in view.spec.ordinals.start..ordinal {
            let name = format!("{}-{lower}", owner.name);
            let pod = scene.world.find("pods", &set.meta().namespace, &name);
            if !pod.is_some_and(is_healthy) {
                return Err(format!("{} was made before {name} served", change.key));
            }
        }
        Ok(())
    }
}

/// See the module. What runs is known from what nodes said last; a node that is cut off goes on with what it had.
#[derive(Default)]
pub struct NeverTwo {
    /// The pods that run, by their identities: where each is in the API, and on which node it runs.
    running: BTreeMap<Box<str>, (String, String)>,
}

impl Check for NeverTwo {
    fn see(&mut self, change: &Change, scene: &Scene<'_>, _: &mut Marks) -> Result<(), String> {
        let is_cut_off = |node: &str| scene.world.find("nodes", "", node).is_some_and(is_cut_off);
        if change.is_of("nodes") {
            let name = change.key.name();
            // A node that was removed took its containers along, as far as anybody can know; one that hears of the
            // API stops what is not there.
            if !is_cut_off(name) {
                self.running.retain(|uid, (_, node)| node != name || scene.world.identified(uid).is_some());
            }
        }
        let object = change.object();
        let is_ordinal = object.meta().controller().is_some_and(|owner| &*owner.kind == "StatefulSet");
        let Some(view) = pod(object).filter(|_| change.is_of("pods") && is_ordinal) else { return Ok(()) };
        let (uid, node) = (&object.meta().uid, &view.spec.node_name);
        if change.after.is_none() || view.is_finished() {
            if change.by.starts_with("node-") || !is_cut_off(node) {
                self.running.remove(uid);
            }
        } else if view.status.phase == "Running" && !self.running.contains_key(uid) {
            let path = change.key.path();
            let other = self.running.iter().find(|(_, (other, _))| other == path);
            if let Some((other, (_, where_else))) = other {
                return Err(format!("{path} starts on {node} while {other} still runs on {where_else}"));
            }
            self.running.insert(uid.clone(), (path.to_owned(), node.clone()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::{Key, Resource, Revision, Time, Value, json, value};
    use setpoint_reconcile::{Object, World};

    use super::*;
    use crate::campaign::nodes::POWER;

    fn object(resource: &str, path: &str, value: &Value) -> Object {
        let key = Key::from_path(&Resource::new(resource).unwrap(), path).unwrap();
        Object::read(key, Revision(1), Time::EPOCH, json::to_vec(value)).unwrap()
    }

    fn pod(uid: &str, node: &str, phase: &str) -> Object {
        let owner = value!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "set", "controller": true,
        });
        let meta =
            value!({"name": "db-0", "namespace": "default", "uid": (uid), "ownerReferences": [(owner)]});
        let pod = value!({"metadata": (meta), "spec": {"nodeName": (node)}, "status": {"phase": (phase)}});
        object("pods", "default/db-0", &pod)
    }

    fn node(power: &str) -> Object {
        let annotations = Value::Map([(POWER, Value::from(power))].into_iter().collect());
        object("nodes", "a", &value!({"metadata": {"name": "a", "annotations": (annotations)}}))
    }

    fn see(
        check: &mut NeverTwo,
        world: &World,
        by: &str,
        before: Option<Object>,
        after: Option<Object>,
    ) -> Result<(), String> {
        let key = before.as_ref().or(after.as_ref()).unwrap().key().clone();
        let (revision, seen) = (Revision(2), Revision(2));
        let change =
            Change { key, revision, before, after, by: by.into(), user: "".into(), seen, is_late: false };
        let changes = [change];
        let scene = Scene { world, changes: &changes, now: Time::EPOCH, calm: false };
        check.see(&changes[0], &scene, &mut Marks::default())
    }

    /// A pod runs on a node that is cut off, somebody takes it out of the API, and another of its name starts.
    fn replaced(by: &str, heals: bool) -> Result<(), String> {
        let (mut check, mut world) = (NeverTwo::default(), World::default());
        world.put(node("partitioned"));
        see(&mut check, &world, "node-pods", Some(pod("u", "a", "Pending")), Some(pod("u", "a", "Running")))?;
        see(&mut check, &world, by, Some(pod("u", "a", "Running")), None)?;
        if heals {
            let before = world.put(node("on"));
            see(&mut check, &world, "", before, Some(node("on")))?;
        }
        see(&mut check, &world, "node-pods", Some(pod("v", "b", "Pending")), Some(pod("v", "b", "Running")))
    }

    #[test]
    fn two_pods_of_one_ordinal_are_caught_also_where_nobody_hears_of_one() {
        assert_eq!(
            replaced("statefulset-controller", false),
            Err("default/db-0 starts on b while u still runs on a".to_owned())
        );
        assert_eq!(replaced("statefulset-controller", true), Ok(()), "the node has heard that it is gone");
        assert_eq!(replaced("node-pods", false), Ok(()), "the node itself has ended it");
    }
}
