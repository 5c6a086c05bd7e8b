//! Tests of Event writes.

use super::*;
use crate::plan::InvolvedObject;

/// Records an Event with the number of wanted copies of every thing.
struct Reporter;

impl Planner for Reporter {
    type Memo = ();

    fn name(&self) -> &'static str {
        "reporter"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 1] = [Watch::primary("things")];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, _: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        if let Some(object) = world.get(key) {
            let want = object.view::<Thing>().map_or(0, |thing| thing.spec.replicas);
            let object_reference = InvolvedObject::new(object, "example.com/v1", "Thing");
            plan.events.push(object_reference.normal("Counted", format!("{want} wanted")));
        }
        plan
    }
}

/// Returns the write that follows a change of `spec.replicas`.
fn scale(engine: &mut Engine, replicas: usize, revision: u64) -> Option<WriteRequest> {
    engine.observe(thing("x", replicas, revision), at(0));
    let mut turn = engine.turn(at(0), Seed(1));
    assert!(turn.writes.len() < 2);
    turn.writes.pop()
}

/// Returns the write that follows an outcome.
fn after(engine: &mut Engine, sent: &WriteRequest, outcome: WriteOutcome) -> Option<WriteRequest> {
    let mut turn = Turn::default();
    engine.complete_write(sent.id, outcome, at(1), &mut turn);
    assert!(turn.writes.len() < 2);
    turn.writes.pop()
}

#[test]
fn event_with_an_unknown_outcome_is_retried_under_the_same_name() {
    let mut engine = Engine::new(vec![Box::new(Reporter)], WorldConfig::default());
    let first = scale(&mut engine, 1, 1).unwrap();
    assert!(matches!(first.write, Write::CreateEvent(_)));
    let second = after(&mut engine, &first, WriteOutcome::Conflict).expect("the Event may not exist");
    let third = after(&mut engine, &second, WriteOutcome::Lost { by: Revision(9) })
        .expect("the outcome is unknown again");
    for again in [&second, &third] {
        assert_eq!(
            (&again.write, &again.user, &again.reconciler),
            (&first.write, &first.user, &first.reconciler)
        );
    }
    assert!(after(&mut engine, &third, WriteOutcome::Conflict).is_none(), "retried forever");
    let patch = scale(&mut engine, 1, 2).unwrap();
    assert!(matches!(patch.write, Write::Patch { .. }), "the Event is assumed to exist");
    let again = after(&mut engine, &patch, WriteOutcome::Conflict).expect("the count was not written");
    assert_eq!(again.write, patch.write);
    assert!(after(&mut engine, &again, done(3)).is_none());
}

#[test]
fn deleted_event_is_recreated_with_its_last_message() {
    let mut engine = Engine::new(vec![Box::new(Reporter)], WorldConfig::default());
    let mut last = None;
    for count in 1..=10 {
        last = scale(&mut engine, count, count as u64);
    }
    let combined = last.expect("the tenth is the combined Event");
    assert!(scale(&mut engine, 11, 11).is_none(), "it waits for the outcome");
    let patch = after(&mut engine, &combined, done(20)).expect("the pending update");
    let recreated = after(&mut engine, &patch, WriteOutcome::Gone).expect("the Event was deleted");
    let Write::CreateEvent(new_event) = &recreated.write else { panic!("{recreated:?}") };
    assert_eq!(new_event.message, "(combined from similar events): 11 wanted");
}
