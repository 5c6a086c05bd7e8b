//! Tests of the removal of instances in a control plane.

use std::time::Duration;

use setpoint_api::{Resource, Revision, Value, json, value};
use setpoint_reconcile::{Engine, ObservedChange, WriteOutcome, WriteRejection};
use setpoint_sim::cluster::Cluster;
use setpoint_views::world_config;

use super::*;
use crate::crd;
use crate::crd_names::tests::{cluster, condition_of, definition};

const NAME: &str = "foos.example.com";
const NOW: Time = Time::from_seconds(1_800_000_000);

fn create(cluster: &mut Cluster) {
    let mut object = definition("foos", "example.com", value!({}));
    object.ensure_map("metadata").insert("finalizers", vec![Value::from(CLEANUP_FINALIZER)]);
    cluster.create(DEFINITIONS, "", object);
}

#[test]
fn deleted_definition_without_instances_is_removed() {
    let mut cluster = cluster();
    create(&mut cluster);
    cluster.settle();
    assert_eq!(
        condition_of(&cluster, NAME, "Established"),
        "True InitialNamesAccepted the initial names have been accepted"
    );
    cluster.delete(DEFINITIONS, NAME, &value!({})).unwrap();
    assert!(cluster.get(DEFINITIONS, NAME).is_some(), "the finalizer keeps it");
    cluster.settle();
    assert!(cluster.get(DEFINITIONS, NAME).is_none());
    assert!(cluster.engine.world().reader().find_resource(NAME).is_none(), "the world drops its table");
    cluster.assert_quiet();
}

#[test]
fn definition_that_was_never_established_is_removed() {
    let mut cluster = cluster();
    create(&mut cluster);
    cluster.delete(DEFINITIONS, NAME, &value!({})).unwrap();
    cluster.settle();
    assert!(cluster.get(DEFINITIONS, NAME).is_none());
    cluster.assert_quiet();
}

#[test]
fn crash_between_any_two_writes_removes_the_definition() {
    for steps in 0..8 {
        let mut cluster = cluster();
        create(&mut cluster);
        cluster.settle();
        cluster.delete(DEFINITIONS, NAME, &value!({})).unwrap();
        cluster.crash_after(steps);
        cluster.run(Duration::from_secs(5));
        assert!(cluster.get(DEFINITIONS, NAME).is_none(), "after {steps} steps");
    }
}

/// Loop without a server: the test observes changes and answers writes.
struct Loop {
    engine: Engine,
    revision: u64,
}

impl Loop {
    fn new() -> Loop {
        let mut engine = Engine::new(vec![Box::new(CrdCleanup)], world_config(crd::indexes()));
        engine.add_resource(&Resource::new(NAME).unwrap());
        Loop { engine, revision: 0 }
    }

    fn observe(&mut self, resource: &str, namespace: &str, name: &str, object: Option<Value>, now: Time) {
        self.revision += 1;
        let (key, revision) = (key_of(resource, namespace, name).unwrap(), Revision(self.revision));
        let after =
            object.map(|object| Object::read(key.clone(), revision, now, json::to_vec(&object)).unwrap());
        self.engine.observe(ObservedChange { key, revision, after, reconciler: None }, now);
        self.engine.reach(revision);
    }

    fn observe_instance(&mut self, name: &str, is_deleted: bool, now: Time) {
        let mut metadata = value!({"name": (name), "namespace": "a", "uid": (name)});
        if is_deleted {
            metadata.make_map().insert("deletionTimestamp", "2026-11-18T00:00:00Z");
        }
        self.observe(NAME, "a", name, Some(value!({"metadata": (metadata)})), now);
    }

    /// Observes a deleted definition with these conditions besides `Established`.
    fn observe_definition(&mut self, terminating: Option<&Value>, now: Time) {
        let mut conditions = vec![value!({"type": "Established", "status": "True"})];
        conditions.extend(terminating.cloned());
        let mut object = definition("foos", "example.com", value!({}));
        object.make_map().insert("status", value!({"conditions": (conditions)}));
        let metadata = object.ensure_map("metadata");
        metadata.insert("uid", "u");
        metadata.insert("finalizers", vec![Value::from(CLEANUP_FINALIZER)]);
        metadata.insert("deletionTimestamp", "2026-11-18T00:00:00Z");
        self.observe(DEFINITIONS, "", NAME, Some(object), now);
    }

    /// Plans, and carries the writes out, except on instances. Returns them.
    fn turn(&mut self, now: Time) -> Vec<Write> {
        let mut requests = std::collections::VecDeque::from(self.engine.turn(now, Seed(1)).writes);
        let mut writes = Vec::new();
        while let Some(request) = requests.pop_front() {
            let mut next = setpoint_reconcile::Turn::default();
            let is_definition = request.write.resource().as_str() == DEFINITIONS;
            let outcome = if is_definition {
                self.revision += 1;
                WriteOutcome::Done { revision: Revision(self.revision), name: NAME.into() }
            } else {
                WriteOutcome::Rejected(WriteRejection {
                    reason: "Forbidden".to_owned(),
                    message: "not now".to_owned(),
                })
            };
            self.engine.complete_write(request.id, outcome, now, &mut next);
            requests.extend(next.writes);
            writes.push(request.write);
        }
        self.engine.reach(Revision(self.revision));
        writes
    }
}

/// Reason and message of the condition `Terminating` in a write.
fn terminating(write: &Write) -> Value {
    let Write::Patch { patch, subresource: "status", .. } = write else { panic!("no status: {write:?}") };
    let conditions = patch.at(&["status", "conditions"]).and_then(Value::as_list).unwrap();
    conditions.iter().find(|condition| condition.str_at(&["type"]) == TERMINATING).unwrap().clone()
}

#[test]
fn instances_are_deleted_after_the_condition_and_before_the_finalizer() {
    let mut control = Loop::new();
    for name in ["x", "y"] {
        control.observe_instance(name, false, NOW);
    }
    control.observe_definition(None, NOW);
    let writes = control.turn(NOW);
    assert_eq!(writes.len(), 1, "no instance is deleted while instances can be created: {writes:?}");
    let condition = terminating(&writes[0]);
    assert_eq!(condition.str_at(&["reason"]), "InstanceDeletionInProgress");
    assert_eq!(condition.str_at(&["message"]), "CustomResource deletion is in progress");

    control.observe_definition(Some(&condition), NOW);
    let writes = control.turn(NOW);
    let deletes = writes.iter().filter(|write| write.verb() == "delete" && write.resource().as_str() == NAME);
    assert!(deletes.count() >= 1 && writes.iter().all(|write| write.verb() == "delete"), "{writes:?}");

    // The server rejected a delete.
    let later = NOW.after(Duration::from_secs(30));
    let writes = control.turn(later);
    let failed = terminating(&writes[0]);
    assert_eq!(failed.str_at(&["reason"]), "InstanceDeletionFailed");
    assert_eq!(failed.str_at(&["message"]), "could not issue all deletes: not now");

    for name in ["x", "y"] {
        control.observe_instance(name, true, later);
    }
    control.observe_definition(Some(&condition), later);
    assert!(control.turn(later).is_empty(), "finalizers of instances are waited for");
    let late = NOW.after(Duration::from_secs(61));
    let writes = control.turn(late);
    assert_eq!(terminating(&writes[0]).str_at(&["reason"]), "InstanceDeletionCheck");
    control.observe_definition(Some(&terminating(&writes[0])), late);
    assert!(control.turn(late).is_empty(), "reported once");

    for name in ["x", "y"] {
        control.observe(NAME, "a", name, None, late);
    }
    let writes = control.turn(late);
    let Some(Write::Patch { patch, .. }) = writes.first() else { panic!("{writes:?}") };
    assert_eq!(terminating(&writes[0]).str_at(&["reason"]), "InstanceDeletionCompleted");
    assert_eq!(patch.at(&["metadata", "finalizers"]), Some(&Value::List(Vec::new())));
}
