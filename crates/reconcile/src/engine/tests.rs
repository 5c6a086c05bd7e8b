//! Guarantees of the loop, tested with a planner that keeps a number of copies of every thing.

mod bounds;
mod events;
mod queries;
mod resync;

use setpoint_api::{Revision, Value};

use super::*;
use crate::object::Object;
use crate::plan::Write;
use crate::planner::{Planner, Seen, Watch, enqueue_owner, key_of};
use crate::world::{Heartbeat, WorldReader};

/// Keeps `spec.replicas` copies of every thing; panics for a thing named `bad`.
struct Copies;

#[derive(serde::Deserialize)]
struct Thing {
    spec: Spec,
}

#[derive(serde::Deserialize)]
struct Spec {
    replicas: usize,
}

impl crate::object::View for Thing {
    const RESOURCE: &'static str = "things";
}

impl Planner for Copies {
    type Memo = u32;

    fn name(&self) -> &'static str {
        "copier"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 2] = [
            Watch::primary("things"),
            Watch::mapped("copies", |object, _, enqueue| enqueue_owner(object, "Thing", "things", enqueue)),
        ];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, seen: &Seen<'_, u32>, _: Time, _: Seed) -> Plan<u32> {
        assert!(key.name() != "bad", "a bad thing");
        let mut plan = Plan { memo: seen.memo + 1, ..Plan::default() };
        let Some(object) = world.get(key) else { return plan };
        let actual = world.owned(&object.meta().uid, "copies").count();
        let desired = object.view::<Thing>().map_or(0, |thing| thing.spec.replicas);
        let create = || Action::from(Write::create("copies", "a", Value::map()));
        plan.stage((actual..desired).map(|_| create()));
        plan
    }
}

fn at(millis: i64) -> Time {
    Time(millis * 1000)
}

fn engine() -> Engine {
    Engine::new(vec![Box::new(Copies)], WorldConfig::default())
}

fn thing(name: &str, replicas: usize, revision: u64) -> ObservedChange {
    let key = key_of("things", "a", name).unwrap();
    let text = format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"a","uid":"{name}"}},"spec":{{"replicas":{replicas}}}}}"#
    );
    let after = Object::read(key.clone(), Revision(revision), Time::EPOCH, text).unwrap();
    ObservedChange { key, revision: Revision(revision), after: Some(after), reconciler: None }
}

fn copy(owner: &str, revision: u64) -> ObservedChange {
    let key = key_of("copies", "a", &format!("c{revision}")).unwrap();
    let text = format!(
        r#"{{"metadata":{{"name":"c{revision}","namespace":"a","uid":"c{revision}",
        "ownerReferences":[{{"kind":"Thing","name":"{owner}","uid":"{owner}","controller":true}}]}}}}"#
    );
    let after = Object::read(key.clone(), Revision(revision), Time::EPOCH, text).unwrap();
    let by = Some(format!("copier things/a/{owner}").into());
    ObservedChange { key, revision: Revision(revision), after: Some(after), reconciler: by }
}

fn done(revision: u64) -> WriteOutcome {
    WriteOutcome::Done { revision: Revision(revision), name: "x".into() }
}

fn rejected() -> WriteOutcome {
    WriteOutcome::Rejected(WriteRejection { reason: "Forbidden".into(), message: "no room".into() })
}

#[test]
fn one_plan_closes_all_gaps_in_batches_that_double() {
    let mut engine = engine();
    engine.observe(thing("x", 10, 1), at(0));
    let mut turn = engine.turn(at(0), Seed(1));
    let (mut sizes, mut revision) = (Vec::new(), 1);
    for _ in 0..10 {
        sizes.push(turn.writes.len());
        let mut next = Turn::default();
        for request in std::mem::take(&mut turn.writes) {
            revision += 1;
            engine.observe(copy("x", revision), at(0));
            engine.complete_write(request.id, done(revision), at(0), &mut next);
        }
        turn = next;
    }
    assert_eq!(sizes, [1, 2, 4, 3, 0, 0, 0, 0, 0, 0]);
    engine.reach(Revision(revision));
    assert!(engine.turn(at(0), Seed(2)).writes.is_empty(), "quiet");
    assert_eq!(engine.unsettled(), 0);
}

#[test]
fn rejection_drops_the_rest_of_the_plan_and_backs_off() {
    let mut engine = engine();
    engine.observe(thing("x", 100, 1), at(0));
    let turn = engine.turn(at(0), Seed(1));
    let mut next = Turn::default();
    engine.complete_write(turn.writes[0].id, rejected(), at(1), &mut next);
    assert!(next.writes.is_empty());
    let turn = engine.turn(at(2), Seed(1));
    assert!(turn.writes.is_empty());
    assert_eq!(turn.next_turn_at, Some(at(6)), "5 ms after the failure");
    assert_eq!(engine.keys("copier")[0].last_error.as_deref(), Some("no room"));
    assert_eq!(engine.turn(at(6), Seed(1)).writes.len(), 1);
}

#[test]
fn conflict_requeues_the_key_at_once() {
    let mut engine = engine();
    engine.observe(thing("x", 1, 1), at(0));
    let turn = engine.turn(at(0), Seed(1));
    engine.complete_write(turn.writes[0].id, WriteOutcome::Conflict, at(0), &mut Turn::default());
    assert_eq!(engine.turn(at(0), Seed(1)).writes.len(), 1);
}

#[test]
fn key_is_not_planned_before_the_world_shows_its_own_writes() {
    let mut engine = engine();
    engine.observe(thing("x", 1, 1), at(0));
    let turn = engine.turn(at(0), Seed(1));
    engine.complete_write(turn.writes[0].id, done(3), at(0), &mut Turn::default());
    engine.observe(thing("x", 1, 2), at(0));
    assert!(engine.turn(at(0), Seed(1)).writes.is_empty(), "second copy before the first was observed");
    engine.observe(copy("x", 3), at(0));
    assert!(engine.turn(at(0), Seed(1)).writes.is_empty());
    assert_eq!(engine.stats().next().map(|(_, _, stats)| stats.plans), Some(2));
}

#[test]
fn peak_queue_depth_outlasts_the_queue() {
    let mut engine = engine();
    for (number, name) in (1..).zip(["a", "b", "c"]) {
        engine.observe(thing(name, 0, number), at(0));
    }
    engine.turn(at(0), Seed(1));
    engine.observe(thing("a", 0, 4), at(1));
    engine.turn(at(1), Seed(2));
    let (_, depth, stats) = engine.stats().next().unwrap();
    assert_eq!((depth, stats.peak_queue_depth), (0, 3));
}

#[test]
fn panic_of_a_plan_does_not_affect_other_keys() {
    let mut engine = engine();
    engine.observe(thing("bad", 1, 1), at(0));
    engine.observe(thing("good", 1, 2), at(0));
    assert_eq!(engine.turn(at(0), Seed(1)).writes.len(), 1);
    let (_, _, stats) = engine.stats().next().unwrap();
    assert_eq!((stats.panics, stats.plans), (1, 2));
}

#[test]
fn relist_removes_objects_that_are_not_in_it() {
    let mut engine = engine();
    engine.observe(thing("x", 0, 1), at(0));
    engine.observe(copy("x", 2), at(0));
    engine.relist(&Resource::new("copies").unwrap(), Vec::new(), Revision(5), at(0));
    assert_eq!(engine.world().reader().count("copies"), 0);
    assert_eq!(engine.world().revision_of(&Resource::new("copies").unwrap()), Revision(5));
    engine.observe(thing("x", 3, 4), at(0));
    engine.observe(thing("x", 9, 3), at(0));
    let thing = engine.world().reader().find("things", "a", "x").unwrap();
    assert_eq!(thing.view::<Thing>().unwrap().spec.replicas, 3, "a late change replaced a newer one");
}

#[test]
fn duplicate_change_does_not_restore_a_deleted_object() {
    let mut engine = engine();
    let change = copy("x", 2);
    engine.observe(change.clone(), at(0));
    engine.observe(ObservedChange { revision: Revision(3), after: None, ..change.clone() }, at(0));
    engine.observe(change, at(0));
    assert_eq!(engine.world().reader().count("copies"), 0);
}

#[test]
fn every_write_of_a_plan_carries_the_revision_of_its_world() {
    let mut engine = engine();
    engine.observe(thing("x", 3, 1), at(0));
    engine.reach(Revision(1));
    let mut turn = engine.turn(at(0), Seed(1));
    engine.reach(Revision(7));
    let first = turn.writes.remove(0);
    engine.complete_write(first.id, done(8), at(0), &mut turn);
    assert_eq!(
        turn.writes.iter().map(|request| request.seen).collect::<Vec<_>>(),
        [Revision(1), Revision(1)]
    );
}

#[test]
fn removed_resource_enqueues_the_keys_of_its_objects() {
    let mut engine = engine();
    engine.observe(thing("x", 1, 1), at(0));
    engine.observe(copy("x", 2), at(0));
    assert!(engine.turn(at(0), Seed(1)).writes.is_empty(), "the copy exists");
    let copies = Resource::new("copies").unwrap();
    engine.add_resource(&copies);
    engine.remove_resource(&copies, Revision(3), at(1));
    assert!(engine.world().reader().find_resource("copies").is_none());
    assert_eq!(engine.turn(at(1), Seed(2)).writes.len(), 1, "the thing is planned again");
}
