//! What the loop promises, shown with a planner that keeps a thing's copies.

use setpoint_api::{Revision, Value};

use super::*;
use crate::object::Object;
use crate::plan::{InvolvedObject, PLAN_ACTIONS_MAX, Query, Write};
use crate::planner::{Planner, Seen, Watch, enqueue_owner, key_of};
use crate::world::{Heartbeat, WorldReader};

/// Keeps `spec.replicas` copies of every thing; panics at those called `bad`.
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
        let have = world.owned(&object.meta().uid, "copies").count();
        let want = object.view::<Thing>().map_or(0, |thing| thing.spec.replicas);
        let create = || Action::from(Write::create("copies", "a", Value::map()));
        plan.stage((have..want).map(|_| create()));
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

fn done(revision: u64) -> Outcome {
    Outcome::Done { revision: Revision(revision), name: "x".into() }
}

fn refused() -> Outcome {
    Outcome::Rejected(WriteRejection { reason: "Forbidden".into(), message: "no room".into() })
}

#[test]
fn all_gaps_are_closed_in_one_plan_in_batches_that_double() {
    let mut engine = engine();
    engine.observe(thing("x", 10, 1), at(0));
    let mut turn = engine.turn(at(0), Seed(1));
    let (mut sizes, mut revision) = (Vec::new(), 1);
    for _ in 0..10 {
        sizes.push(turn.writes.len());
        let mut next = Turn::default();
        for sent in std::mem::take(&mut turn.writes) {
            revision += 1;
            engine.observe(copy("x", revision), at(0));
            engine.complete_write(sent.id, done(revision), at(0), &mut next);
        }
        turn = next;
    }
    assert_eq!(sizes, [1, 2, 4, 3, 0, 0, 0, 0, 0, 0]);
    engine.reach(Revision(revision));
    assert!(engine.turn(at(0), Seed(2)).writes.is_empty(), "quiet");
    assert_eq!(engine.unsettled(), 0);
}

#[test]
fn a_refusal_drops_the_rest_and_backs_off() {
    let mut engine = engine();
    engine.observe(thing("x", 100, 1), at(0));
    let turn = engine.turn(at(0), Seed(1));
    let mut next = Turn::default();
    engine.complete_write(turn.writes[0].id, refused(), at(1), &mut next);
    assert!(next.writes.is_empty());
    let turn = engine.turn(at(2), Seed(1));
    assert!(turn.writes.is_empty());
    assert_eq!(turn.next_turn_at, Some(at(6)), "5 ms after the failure");
    assert_eq!(engine.keys("copier")[0].last_error.as_deref(), Some("no room"));
    assert_eq!(engine.turn(at(6), Seed(1)).writes.len(), 1);
}

#[test]
fn a_conflict_is_planned_again_at_once() {
    let mut engine = engine();
    engine.observe(thing("x", 1, 1), at(0));
    let turn = engine.turn(at(0), Seed(1));
    engine.complete_write(turn.writes[0].id, Outcome::Conflict, at(0), &mut Turn::default());
    assert_eq!(engine.turn(at(0), Seed(1)).writes.len(), 1);
}

#[test]
fn no_key_is_planned_before_the_world_shows_its_own_writes() {
    let mut engine = engine();
    engine.observe(thing("x", 1, 1), at(0));
    let turn = engine.turn(at(0), Seed(1));
    engine.complete_write(turn.writes[0].id, done(3), at(0), &mut Turn::default());
    engine.observe(thing("x", 1, 2), at(0));
    assert!(engine.turn(at(0), Seed(1)).writes.is_empty(), "a second copy before the first was seen");
    engine.observe(copy("x", 3), at(0));
    assert!(engine.turn(at(0), Seed(1)).writes.is_empty());
    assert_eq!(engine.stats().next().map(|(_, _, stats)| stats.plans), Some(2));
}

#[test]
fn how_long_a_line_was_at_the_most_is_known_when_it_is_gone() {
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
fn a_panic_harms_no_other_key() {
    let mut engine = engine();
    engine.observe(thing("bad", 1, 1), at(0));
    engine.observe(thing("good", 1, 2), at(0));
    assert_eq!(engine.turn(at(0), Seed(1)).writes.len(), 1);
    let (_, _, stats) = engine.stats().next().unwrap();
    assert_eq!((stats.panics, stats.plans), (1, 2));
}

#[test]
fn a_resync_finds_what_no_change_told_and_counts_it() {
    let mut engine = engine();
    engine.observe(thing("x", 1, 1), at(0));
    let turn = engine.turn(at(0), Seed(1));
    engine.complete_write(turn.writes[0].id, done(2), at(0), &mut Turn::default());
    // The copy went away before it was ever seen.
    engine.reach(Revision(9));
    assert!(engine.turn(at(10), Seed(1)).writes.is_empty());
    let mut writes = 0;
    for second in 0..70 {
        writes += engine.turn(at(second * 1000), Seed(1)).writes.len();
    }
    assert_eq!(writes, 1);
    assert_eq!(engine.stats().next().map(|(_, _, stats)| stats.resync_gaps), Some(1));
}

/// Wants of every thing to be told how many others there are, which it does not watch.
struct Shy;

impl Planner for Shy {
    type Memo = ();

    fn name(&self) -> &'static str {
        "shy"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 1] = [Watch::primary("things")];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, _: Time, _: Seed) -> Plan {
        assert!(world.get(key).is_some() && world.count("copies") < 100);
        Plan::default()
    }
}

#[test]
fn a_resync_leaves_out_keys_for_which_nothing_can_have_changed() {
    let mut engine = Engine::new(vec![Box::new(Shy)], WorldConfig::default());
    engine.observe(copy("x", 1), at(0));
    for name in ["x", "y", "z"] {
        engine.observe(thing(name, 1, 2 + u64::from(name.as_bytes()[0])), at(0));
    }
    engine.reach(Revision(500));
    engine.turn(at(0), Seed(1));
    let plans_in_round = |engine: &mut Engine, round: i64| {
        let plans = |engine: &Engine| engine.stats().next().map_or(0, |(_, _, stats)| stats.plans);
        let before = plans(engine);
        for slice in 0..i64::from(RESYNC_SLICES) {
            engine.turn(at((round * i64::from(RESYNC_SLICES) + slice) * 1000), Seed(1));
        }
        plans(engine) - before
    };
    assert_eq!(plans_in_round(&mut engine, 0), 0, "the first comes after half a minute");
    assert_eq!(plans_in_round(&mut engine, 1), 3, "the first looks at everything");
    assert_eq!(plans_in_round(&mut engine, 2), 0, "nothing has changed");
    engine.observe(thing("y", 1, 501), at(89_999));
    engine.reach(Revision(501));
    assert_eq!(plans_in_round(&mut engine, 3), 1, "one has changed");
    assert_eq!(plans_in_round(&mut engine, 4), 0);
    engine.observe(copy("x", 502), at(149_999));
    engine.reach(Revision(502));
    assert_eq!(plans_in_round(&mut engine, 5), 3, "what was read has changed, though no watch told");
    let whole = i64::from(RESYNC_WHOLE);
    assert_eq!((6..=whole).map(|round| plans_in_round(&mut engine, round)).sum::<u64>(), 0);
    assert_eq!(plans_in_round(&mut engine, whole + 1), 3, "one in so many looks at everything");
}

/// Reads a node for every thing.
struct NodeReader;

impl Planner for NodeReader {
    type Memo = ();

    fn name(&self) -> &'static str {
        "node reader"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 1] = [Watch::primary("things")];
        &WATCHES
    }

    fn plan(&self, _: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, _: Time, _: Seed) -> Plan {
        assert!(world.find("nodes", "", "n").is_some());
        Plan::default()
    }
}

fn node(revision: u64, ready: &str, beat: i64) -> ObservedChange {
    let beat = setpoint_api::rfc3339::Seconds(Time::from_seconds(beat));
    let text = format!(
        r#"{{"metadata":{{"name":"n","uid":"u","resourceVersion":"{revision}"}},"status":{{"conditions":[{{"type":"Ready","status":"{ready}","lastHeartbeatTime":"{beat}"}}]}}}}"#
    );
    let key = key_of("nodes", "", "n").unwrap();
    let after = Object::read(key.clone(), Revision(revision), Time::EPOCH, text).unwrap();
    ObservedChange { key, revision: Revision(revision), after: Some(after), reconciler: None }
}

#[test]
fn heartbeats_are_no_reason_to_plan_what_has_read_a_node() {
    let heartbeats = &[Heartbeat { resource: "nodes", field: "lastHeartbeatTime" }];
    let config = WorldConfig { heartbeats, ..WorldConfig::default() };
    let mut engine = Engine::new(vec![Box::new(NodeReader)], config);
    engine.observe(node(1, "True", 0), at(0));
    for number in 0..100 {
        engine.observe(thing(&format!("x{number}"), 1, 2 + number), at(0));
    }
    engine.reach(Revision(200));
    engine.turn(at(0), Seed(1));
    let plans_in_round = |engine: &mut Engine, round: i64| {
        let plans = |engine: &Engine| engine.stats().next().map_or(0, |(_, _, stats)| stats.plans);
        let before = plans(engine);
        for slice in 0..i64::from(RESYNC_SLICES) {
            engine.turn(at((round * i64::from(RESYNC_SLICES) + slice) * 1000), Seed(1));
        }
        plans(engine) - before
    };
    assert_eq!((plans_in_round(&mut engine, 0), plans_in_round(&mut engine, 1)), (0, 100));
    for round in 2..20 {
        engine.observe(node(199 + u64::try_from(round).unwrap(), "True", round), at(round * 30_000 - 1));
        engine.reach(Revision(199 + u64::try_from(round).unwrap()));
        assert_eq!(plans_in_round(&mut engine, round), 0, "round {round}");
    }
    engine.observe(node(300, "False", 20), at(20 * 30_000 - 1));
    engine.reach(Revision(300));
    assert_eq!(plans_in_round(&mut engine, 20), 100, "it is more than a heartbeat");
}

#[test]
fn a_relist_takes_away_what_is_not_in_it() {
    let mut engine = engine();
    engine.observe(thing("x", 0, 1), at(0));
    engine.observe(copy("x", 2), at(0));
    engine.relist(&Resource::new("copies").unwrap(), Vec::new(), Revision(5), at(0));
    assert_eq!(engine.world().reader().count("copies"), 0);
    assert_eq!(engine.world().revision_of(&Resource::new("copies").unwrap()), Revision(5));
    engine.observe(thing("x", 3, 4), at(0));
    engine.observe(thing("x", 9, 3), at(0));
    let thing = engine.world().reader().find("things", "a", "x").unwrap();
    assert_eq!(thing.view::<Thing>().unwrap().spec.replicas, 3, "a late change was taken for the newest");
}

/// Asks about every thing for as long as it has no answer, and copies it once it has one.
struct Curious;

impl Planner for Curious {
    type Memo = ();

    fn name(&self) -> &'static str {
        "curious"
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

fn curious() -> (Engine, Key) {
    let mut engine = Engine::new(vec![Box::new(Curious)], WorldConfig::default());
    engine.observe(thing("x", 1, 1), at(0));
    (engine, key_of("things", "a", "x").unwrap())
}

#[test]
fn what_cannot_be_answered_is_asked_after_growing_pauses_however_eager_the_planner_is() {
    let (mut engine, key) = curious();
    let (mut now, mut asked) = (at(0), 0);
    while now < at(60_000) {
        let turn = engine.turn(now, Seed(1));
        asked += turn.queries.len();
        for (name, key, query) in turn.queries {
            engine.answer_query(name, &key, &query.id, Err("nobody knows".to_owned()), now);
        }
        let next = engine.turn(now, Seed(1)).next_turn_at.unwrap();
        assert!(next > now, "the loop spins");
        now = next;
    }
    assert!((8..=13).contains(&asked), "asked {asked} times in a minute");
    let (_, _, stats) = engine.stats().next().unwrap();
    assert!(stats.plans < 100, "planned {} times", stats.plans);
    engine.answer_query("curious", &key, "q", Ok(Value::Null), now);
    assert_eq!(engine.turn(now, Seed(1)).writes.len(), 1, "an answer is taken in at once");
}

#[test]
fn a_question_is_not_asked_again_while_its_answer_is_under_way() {
    let (mut engine, _) = curious();
    assert_eq!(engine.turn(at(0), Seed(1)).queries.len(), 1);
    engine.observe(thing("x", 2, 2), at(1));
    let turn = engine.turn(at(1), Seed(1));
    assert!(turn.queries.is_empty());
    engine.observe(thing("x", 2, 3), at(12_000));
    assert_eq!(engine.turn(at(12_000), Seed(1)).queries.len(), 1, "a lost answer is asked for again");
}

#[test]
fn an_answer_cuts_no_backoff_short() {
    let (mut engine, key) = curious();
    engine.turn(at(0), Seed(1));
    engine.answer_query("curious", &key, "q", Ok(Value::Null), at(1));
    let turn = engine.turn(at(1), Seed(1));
    engine.complete_write(turn.writes[0].id, refused(), at(1), &mut Turn::default());
    engine.answer_query("curious", &key, "q", Ok(Value::Null), at(2));
    assert!(engine.turn(at(2), Seed(1)).writes.is_empty());
    assert_eq!(engine.turn(at(6), Seed(1)).writes.len(), 1);
}

#[test]
fn the_answers_about_what_is_gone_cost_nothing() {
    let (mut engine, key) = curious();
    engine.turn(at(0), Seed(1));
    let gone = ObservedChange { key: key.clone(), revision: Revision(2), after: None, reconciler: None };
    engine.observe(gone, at(1));
    engine.answer_query("curious", &key, "q", Ok(Value::Null), at(2));
    engine.turn(at(2), Seed(1));
    assert!(engine.keys("curious").is_empty());
}

#[test]
fn what_is_told_again_does_not_bring_back_what_is_gone() {
    let mut engine = engine();
    let told = copy("x", 2);
    engine.observe(told.clone(), at(0));
    engine.observe(ObservedChange { revision: Revision(3), after: None, ..told.clone() }, at(0));
    engine.observe(told, at(0));
    assert_eq!(engine.world().reader().count("copies"), 0);
}

#[test]
fn every_write_of_a_plan_says_which_world_was_planned_on() {
    let mut engine = engine();
    engine.observe(thing("x", 3, 1), at(0));
    engine.reach(Revision(1));
    let mut turn = engine.turn(at(0), Seed(1));
    engine.reach(Revision(7));
    let first = turn.writes.remove(0);
    engine.complete_write(first.id, done(8), at(0), &mut turn);
    assert_eq!(turn.writes.iter().map(|sent| sent.seen).collect::<Vec<_>>(), [Revision(1), Revision(1)]);
}

/// Tells of every thing how many copies it wants.
struct Teller;

impl Planner for Teller {
    type Memo = ();

    fn name(&self) -> &'static str {
        "teller"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 1] = [Watch::primary("things")];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, _: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        if let Some(object) = world.get(key) {
            let want = object.view::<Thing>().map_or(0, |thing| thing.spec.replicas);
            let about = InvolvedObject::new(object, "example.com/v1", "Thing");
            plan.events.push(about.normal("Counted", format!("{want} wanted")));
        }
        plan
    }
}

/// What is sent after a thing wants so many copies.
fn told(engine: &mut Engine, replicas: usize, revision: u64) -> Option<WriteRequest> {
    engine.observe(thing("x", replicas, revision), at(0));
    let mut turn = engine.turn(at(0), Seed(1));
    assert!(turn.writes.len() < 2);
    turn.writes.pop()
}

/// What is sent after a write ended.
fn after(engine: &mut Engine, sent: &WriteRequest, outcome: Outcome) -> Option<WriteRequest> {
    let mut turn = Turn::default();
    engine.complete_write(sent.id, outcome, at(1), &mut turn);
    assert!(turn.writes.len() < 2);
    turn.writes.pop()
}

#[test]
fn a_note_whose_namespace_changed_or_whose_answer_was_lost_is_told_under_the_same_name() {
    let mut engine = Engine::new(vec![Box::new(Teller)], WorldConfig::default());
    let first = told(&mut engine, 1, 1).unwrap();
    assert!(matches!(first.write, Write::CreateEvent(_)));
    let second = after(&mut engine, &first, Outcome::Conflict).expect("it may not be there");
    let third = after(&mut engine, &second, Outcome::Lost { by: Revision(9) }).expect("nor may this");
    for again in [&second, &third] {
        assert_eq!(
            (&again.write, &again.user, &again.reconciler),
            (&first.write, &first.user, &first.reconciler)
        );
    }
    assert!(after(&mut engine, &third, Outcome::Conflict).is_none(), "it is tried for ever");
    let patch = told(&mut engine, 1, 2).unwrap();
    assert!(matches!(patch.write, Write::Patch { .. }), "it is taken to be there");
    let again = after(&mut engine, &patch, Outcome::Conflict).expect("the count was not told");
    assert_eq!(again.write, patch.write);
    assert!(after(&mut engine, &again, done(3)).is_none());
}

#[test]
fn what_an_event_that_is_gone_was_to_say_last_is_told_anew() {
    let mut engine = Engine::new(vec![Box::new(Teller)], WorldConfig::default());
    let mut last = None;
    for count in 1..=10 {
        last = told(&mut engine, count, count as u64);
    }
    let combined = last.expect("the tenth stands for all that follow");
    assert!(told(&mut engine, 11, 11).is_none(), "it waits for the answer");
    let patch = after(&mut engine, &combined, done(20)).expect("what was said since");
    let anew = after(&mut engine, &patch, Outcome::Gone).expect("people deleted it");
    let Write::CreateEvent(new_event) = &anew.write else { panic!("{anew:?}") };
    assert_eq!(new_event.message, "(combined from similar events): 11 wanted");
}

/// Answers all writes of a turn and of those that follow, and shows the copies that were made. Returns the sizes of the
/// batches.
fn carry_out(engine: &mut Engine, mut turn: Turn, revision: &mut u64) -> Vec<usize> {
    let mut sizes = Vec::new();
    while !turn.writes.is_empty() {
        sizes.push(turn.writes.len());
        let mut next = Turn::default();
        for sent in turn.writes {
            *revision += 1;
            engine.observe(copy("x", *revision), at(0));
            engine.complete_write(sent.id, done(*revision), at(0), &mut next);
        }
        turn = next;
    }
    engine.reach(Revision(*revision));
    sizes
}

#[test]
fn plan_is_cut_at_its_bound_and_the_key_is_planned_again_at_once() {
    let mut engine = engine();
    let wanted = 2 * PLAN_ACTIONS_MAX + 7;
    engine.observe(thing("x", wanted, 1), at(0));
    let mut revision = 1;
    for (round, size) in [PLAN_ACTIONS_MAX, PLAN_ACTIONS_MAX, 7, 0].into_iter().enumerate() {
        let turn = engine.turn(at(0), Seed(1));
        let waiting = (round < 2).then(|| engine.keys("copier")[0].deferred_writes);
        assert_eq!(waiting, [Some(wanted as u64 - size as u64), Some(7), None, None][round]);
        assert_eq!(carry_out(&mut engine, turn, &mut revision).iter().sum::<usize>(), size);
    }
    let (_, _, stats) = engine.stats().next().unwrap();
    assert_eq!((stats.truncated_plans, stats.plans), (2, 4));
    assert_eq!(engine.unsettled(), 0);
}

#[test]
fn stages_that_bypass_the_bound_are_cut_in_their_order() {
    let act = || Action::from(Write::create("copies", "a", Value::map()));
    let mut plan = Plan::<()>::default();
    for size in [10, PLAN_ACTIONS_MAX, 3] {
        plan.stages.push((0..size).map(|_| act()).collect());
    }
    plan.truncate();
    let sizes: Vec<usize> = plan.stages.iter().map(Vec::len).collect();
    assert_eq!(sizes, [10, PLAN_ACTIONS_MAX - 10, 0]);
    assert_eq!(plan.deferred, 13);
}

#[test]
fn stage_reads_no_more_than_fits_and_later_stages_wait() {
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
fn many_large_plans_share_the_room_for_writes() {
    let mut engine = engine();
    let count = 40;
    for number in 0..count {
        engine.observe(thing(&format!("x{number}"), 2000, number + 1), at(0));
    }
    let mut turn = engine.turn(at(0), Seed(1));
    let mut most = 0;
    for revision in 0..12 {
        most = most.max(turn.writes.len());
        let mut next = Turn::default();
        for sent in turn.writes {
            engine.complete_write(sent.id, done(100 + revision), at(0), &mut next);
        }
        turn = next;
    }
    let bound = IN_FLIGHT_WRITES_MAX + usize::try_from(count).unwrap();
    assert!((IN_FLIGHT_WRITES_MAX / 2..=bound).contains(&most), "{most} writes at a time, {bound} at most");
}
