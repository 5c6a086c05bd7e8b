//! StatefulSets: with `OrderedReady` no pod is created before all lower ordinals are ready, in calm runs. Two pods of
//! one ordinal never run at the same time, not even if one is on a partitioned node.

use std::collections::BTreeMap;

use setpoint_views::stateful_set::StatefulSet;

use super::{Check, CommitContext, is_healthy, pod};
use crate::campaign::coverage::CoverageMarks;
use crate::campaign::ground_truth::CommitChange;
use crate::campaign::nodes::is_partitioned;

/// Check of the creation order.
pub struct OrderedCreation;

impl Check for OrderedCreation {
    fn check_change(
        &mut self,
        change: &CommitChange,
        context: &CommitContext<'_>,
        marks: &mut CoverageMarks,
    ) -> Result<(), String> {
        let is_created =
            change.is_of("pods") && change.is_creation() && &*change.by == "statefulset-controller";
        let Some(owner) = change.object().meta().controller().filter(|_| is_created) else { return Ok(()) };
        let Some(set) = context.world.get_by_uid(&owner.uid) else { return Ok(()) };
        let Some(view) = set.view::<StatefulSet>() else { return Ok(()) };
        let name = &change.object().meta().name;
        let Some(ordinal) = name.rsplit('-').next().and_then(|number| number.parse::<i64>().ok()) else {
            return Err(format!("{name} has no ordinal"));
        };
        if change.revision.0 > set.revision().0 && view.status.replicas > ordinal {
            marks.record("ordinal was replaced");
        }
        if !context.calm || change.is_late || view.spec.pod_management_policy == "Parallel" {
            return Ok(());
        }
        for lower in view.spec.ordinals.start..ordinal {
            let name = format!("{}-{lower}", owner.name);
            let pod = context.world.find("pods", &set.meta().namespace, &name);
            if !pod.is_some_and(is_healthy) {
                return Err(format!("{} was created before {name} was ready", change.key));
            }
        }
        Ok(())
    }
}

/// Check of running pods per ordinal. A pod runs until its node reports its end; a partitioned node keeps running its
/// pods.
#[derive(Default)]
pub struct OnePodPerOrdinal {
    /// Running pods by UID, with path and node.
    running: BTreeMap<Box<str>, (String, String)>,
}

impl Check for OnePodPerOrdinal {
    fn check_change(
        &mut self,
        change: &CommitChange,
        context: &CommitContext<'_>,
        _: &mut CoverageMarks,
    ) -> Result<(), String> {
        let is_partitioned = |node: &str| context.world.find("nodes", "", node).is_some_and(is_partitioned);
        if change.is_of("nodes") {
            let name = change.key.name();
            // The containers of a removed node are taken as gone, and a connected node stops pods that no longer
            // exist.
            if !is_partitioned(name) {
                self.running.retain(|uid, (_, node)| node != name || context.world.get_by_uid(uid).is_some());
            }
        }
        let object = change.object();
        let is_ordinal = object.meta().controller().is_some_and(|owner| &*owner.kind == "StatefulSet");
        let Some(view) = pod(object).filter(|_| change.is_of("pods") && is_ordinal) else { return Ok(()) };
        let (uid, node) = (&object.meta().uid, &view.spec.node_name);
        if change.after.is_none() || view.is_finished() {
            if change.by.starts_with("node-") || !is_partitioned(node) {
                self.running.remove(uid);
            }
        } else if view.status.phase == "Running" && !self.running.contains_key(uid) {
            let path = change.key.path();
            let other = self.running.iter().find(|(_, (other, _))| other == path);
            if let Some((other, (_, other_node))) = other {
                return Err(format!("{path} starts on {node} while {other} still runs on {other_node}"));
            }
            self.running.insert(uid.clone(), (path.to_owned(), node.clone()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::{Key, Resource, Revision, Time, Value, json, value};
    use setpoint_reconcile::{Object, World, WorldReader};

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

    fn check(
        ordinals: &mut OnePodPerOrdinal,
        world: &WorldReader<'_>,
        by: &str,
        before: Option<Object>,
        after: Option<Object>,
    ) -> Result<(), String> {
        let key = before.as_ref().or(after.as_ref()).unwrap().key().clone();
        let (revision, seen) = (Revision(2), Revision(2));
        let change = CommitChange { key, revision, before, after, by: by.into(), seen, is_late: false };
        let changes = [change];
        let context =
            CommitContext { world, changes: &changes, admission: None, now: Time::EPOCH, calm: false };
        ordinals.check_change(&changes[0], &context, &mut CoverageMarks::default())
    }

    /// Removes a pod that runs on a partitioned node from the API, and starts another with its name.
    fn replaced(by: &str, heals: bool) -> Result<(), String> {
        let (mut ordinals, mut world) = (OnePodPerOrdinal::default(), World::default());
        world.put(node("partitioned"));
        check(
            &mut ordinals,
            &world.reader(),
            "node-pods",
            Some(pod("u", "a", "Pending")),
            Some(pod("u", "a", "Running")),
        )?;
        check(&mut ordinals, &world.reader(), by, Some(pod("u", "a", "Running")), None)?;
        if heals {
            let before = world.put(node("on"));
            check(&mut ordinals, &world.reader(), "", before, Some(node("on")))?;
        }
        check(
            &mut ordinals,
            &world.reader(),
            "node-pods",
            Some(pod("v", "b", "Pending")),
            Some(pod("v", "b", "Running")),
        )
    }

    #[test]
    fn two_running_pods_of_one_ordinal_are_rejected_also_on_a_partitioned_node() {
        assert_eq!(
            replaced("statefulset-controller", false),
            Err("default/db-0 starts on b while u still runs on a".to_owned())
        );
        assert_eq!(replaced("statefulset-controller", true), Ok(()), "the connected node stopped the pod");
        assert_eq!(replaced("node-pods", false), Ok(()), "the node reported the end of the pod");
    }
}
