//! Tests of queries.

use super::*;
use crate::plan::Query;

/// Sends a query for every thing until it is answered, and then copies the thing.
struct Querier;

impl Planner for Querier {
    type Memo = ();

    fn name(&self) -> &'static str {
        "querier"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 1] = [Watch::primary("things")];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, seen: &Seen<'_, ()>, _: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        if world.get(key).is_none() {
            return plan;
        }
        match seen.answers.get("q").map(|answered| &answered.answer) {
            Some(Ok(_)) => plan.stage([Action::from(Write::create("copies", "a", Value::map()))]),
            _ => plan.queries.push(Query { target: "none", id: "q".to_owned(), question: Value::Null }),
        }
        plan
    }
}

fn querier() -> (Engine, Key) {
    let mut engine = Engine::new(vec![Box::new(Querier)], WorldConfig::default());
    engine.observe(thing("x", 1, 1), at(0));
    (engine, key_of("things", "a", "x").unwrap())
}

#[test]
fn failing_query_backs_off_however_often_the_planner_repeats_it() {
    let (mut engine, key) = querier();
    let (mut now, mut sends) = (at(0), 0);
    while now < at(60_000) {
        let turn = engine.turn(now, Seed(1));
        sends += turn.queries.len();
        for (name, key, query) in turn.queries {
            engine.answer_query(name, &key, &query.id, Err("unknown".to_owned()), now);
        }
        let next = engine.turn(now, Seed(1)).next_turn_at.unwrap();
        assert!(next > now, "the loop spins");
        now = next;
    }
    assert!((8..=13).contains(&sends), "sent {sends} times in a minute");
    let (_, _, stats) = engine.stats().next().unwrap();
    assert!(stats.plans < 100, "planned {} times", stats.plans);
    engine.answer_query("querier", &key, "q", Ok(Value::Null), now);
    assert_eq!(engine.turn(now, Seed(1)).writes.len(), 1, "an answer enqueues the key at once");
}

#[test]
fn query_is_not_repeated_while_it_is_in_flight() {
    let (mut engine, _) = querier();
    assert_eq!(engine.turn(at(0), Seed(1)).queries.len(), 1);
    engine.observe(thing("x", 2, 2), at(1));
    let turn = engine.turn(at(1), Seed(1));
    assert!(turn.queries.is_empty());
    engine.observe(thing("x", 2, 3), at(12_000));
    assert_eq!(engine.turn(at(12_000), Seed(1)).queries.len(), 1, "a query without an answer is repeated");
}

#[test]
fn answer_does_not_end_a_backoff_early() {
    let (mut engine, key) = querier();
    engine.turn(at(0), Seed(1));
    engine.answer_query("querier", &key, "q", Ok(Value::Null), at(1));
    let turn = engine.turn(at(1), Seed(1));
    engine.complete_write(turn.writes[0].id, rejected(), at(1), &mut Turn::default());
    engine.answer_query("querier", &key, "q", Ok(Value::Null), at(2));
    assert!(engine.turn(at(2), Seed(1)).writes.is_empty());
    assert_eq!(engine.turn(at(6), Seed(1)).writes.len(), 1);
}

#[test]
fn answers_for_a_deleted_object_are_dropped() {
    let (mut engine, key) = querier();
    engine.turn(at(0), Seed(1));
    let gone = ObservedChange { key: key.clone(), revision: Revision(2), after: None, reconciler: None };
    engine.observe(gone, at(1));
    engine.answer_query("querier", &key, "q", Ok(Value::Null), at(2));
    engine.turn(at(2), Seed(1));
    assert!(engine.keys("querier").is_empty());
}
