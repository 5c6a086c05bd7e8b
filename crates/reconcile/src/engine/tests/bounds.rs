//! Tests of the bounds of plans and turns.

use super::*;
use crate::plan::PLAN_ACTIONS_MAX;

/// Commits all writes of a plan, and reports the created copies. Returns the sizes of the batches.
fn carry_out(engine: &mut Engine, mut turn: Turn, revision: &mut u64) -> Vec<usize> {
    let mut sizes = Vec::new();
    while !turn.writes.is_empty() {
        sizes.push(turn.writes.len());
        let mut next = Turn::default();
        for request in turn.writes {
            *revision += 1;
            engine.observe(copy("x", *revision), at(0));
            engine.complete_write(request.id, done(*revision), at(0), &mut next);
        }
        turn = next;
    }
    engine.reach(Revision(*revision));
    sizes
}

#[test]
fn full_plan_is_truncated_and_its_key_is_requeued_at_once() {
    let mut engine = engine();
    let replicas = 2 * PLAN_ACTIONS_MAX + 7;
    engine.observe(thing("x", replicas, 1), at(0));
    let mut revision = 1;
    for (round, size) in [PLAN_ACTIONS_MAX, PLAN_ACTIONS_MAX, 7, 0].into_iter().enumerate() {
        let turn = engine.turn(at(0), Seed(1));
        let waiting = (round < 2).then(|| engine.keys("copier")[0].deferred_writes);
        assert_eq!(waiting, [Some(replicas as u64 - size as u64), Some(7), None, None][round]);
        assert_eq!(carry_out(&mut engine, turn, &mut revision).iter().sum::<usize>(), size);
    }
    let (_, _, stats) = engine.stats().next().unwrap();
    assert_eq!((stats.truncated_plans, stats.plans), (2, 4));
    assert_eq!(engine.unsettled(), 0);
}

#[test]
fn stages_that_bypass_the_bound_are_truncated_in_order() {
    let action = || Action::from(Write::create("copies", "a", Value::map()));
    let mut plan = Plan::<()>::default();
    for size in [10, PLAN_ACTIONS_MAX, 3] {
        plan.stages.push((0..size).map(|_| action()).collect());
    }
    plan.truncate();
    let sizes: Vec<usize> = plan.stages.iter().map(Vec::len).collect();
    assert_eq!(sizes, [10, PLAN_ACTIONS_MAX - 10, 0]);
    assert_eq!(plan.deferred, 13);
}

#[test]
fn stage_does_not_read_beyond_the_bound_and_later_stages_wait() {
    let mut plan = Plan::<()>::default();
    let read = std::cell::Cell::new(0);
    let endless = std::iter::repeat_with(|| {
        read.set(read.get() + 1);
        Action::from(Write::create("copies", "a", Value::map()))
    });
    plan.stage(endless);
    assert_eq!((plan.actions(), read.get()), (PLAN_ACTIONS_MAX, PLAN_ACTIONS_MAX + 1));
    assert!(plan.deferred > 0);
    plan.stage([Action::from(Write::create("copies", "a", Value::map()))]);
    assert_eq!(plan.actions(), PLAN_ACTIONS_MAX, "a stage must not overtake the rest of the one before it");
}

#[test]
fn many_large_plans_share_the_bound_of_in_flight_writes() {
    let mut engine = engine();
    let count = 40;
    for number in 0..count {
        engine.observe(thing(&format!("x{number}"), 2000, number + 1), at(0));
    }
    let mut turn = engine.turn(at(0), Seed(1));
    let mut peak = 0;
    for revision in 0..12 {
        peak = peak.max(turn.writes.len());
        let mut next = Turn::default();
        for request in turn.writes {
            engine.complete_write(request.id, done(100 + revision), at(0), &mut next);
        }
        turn = next;
    }
    let bound = IN_FLIGHT_WRITES_MAX + usize::try_from(count).unwrap();
    assert!((IN_FLIGHT_WRITES_MAX / 2..=bound).contains(&peak), "{peak} writes at a time, at most {bound}");
}
