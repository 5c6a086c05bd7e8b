//! Tests of resyncs.

use super::*;

#[test]
fn resync_finds_and_counts_a_gap_without_a_change() {
    let mut engine = engine();
    engine.observe(thing("x", 1, 1), at(0));
    let turn = engine.turn(at(0), Seed(1));
    engine.complete_write(turn.writes[0].id, done(2), at(0), &mut Turn::default());
    // The copy was deleted before it was observed.
    engine.reach(Revision(9));
    assert!(engine.turn(at(10), Seed(1)).writes.is_empty());
    let mut writes = 0;
    for second in 0..70 {
        writes += engine.turn(at(second * 1000), Seed(1)).writes.len();
    }
    assert_eq!(writes, 1);
    assert_eq!(engine.stats().next().map(|(_, _, stats)| stats.resync_gaps), Some(1));
}

/// Reads the number of copies, which it does not watch.
struct UnwatchedReader;

impl Planner for UnwatchedReader {
    type Memo = ();

    fn name(&self) -> &'static str {
        "unwatched reader"
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

/// Runs the turns of one resync, and returns the number of plans.
fn plans_in_round(engine: &mut Engine, round: i64) -> u64 {
    let plans = |engine: &Engine| engine.stats().next().map_or(0, |(_, _, stats)| stats.plans);
    let before = plans(engine);
    for slice in 0..i64::from(RESYNC_SLICES) {
        engine.turn(at((round * i64::from(RESYNC_SLICES) + slice) * 1000), Seed(1));
    }
    plans(engine) - before
}

#[test]
fn resync_skips_keys_whose_inputs_have_not_changed() {
    let mut engine = Engine::new(vec![Box::new(UnwatchedReader)], WorldConfig::default());
    engine.observe(copy("x", 1), at(0));
    for name in ["x", "y", "z"] {
        engine.observe(thing(name, 1, 2 + u64::from(name.as_bytes()[0])), at(0));
    }
    engine.reach(Revision(500));
    engine.turn(at(0), Seed(1));
    assert_eq!(plans_in_round(&mut engine, 0), 0, "the first resync is after 30 s");
    assert_eq!(plans_in_round(&mut engine, 1), 3, "the first resync is full");
    assert_eq!(plans_in_round(&mut engine, 2), 0, "nothing has changed");
    engine.observe(thing("y", 1, 501), at(89_999));
    engine.reach(Revision(501));
    assert_eq!(plans_in_round(&mut engine, 3), 1, "one key has changed");
    assert_eq!(plans_in_round(&mut engine, 4), 0);
    engine.observe(copy("x", 502), at(149_999));
    engine.reach(Revision(502));
    assert_eq!(plans_in_round(&mut engine, 5), 3, "an unwatched input has changed");
    let full = i64::from(RESYNC_WHOLE);
    assert_eq!((6..=full).map(|round| plans_in_round(&mut engine, round)).sum::<u64>(), 0);
    assert_eq!(plans_in_round(&mut engine, full + 1), 3, "one resync per hour is full");
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
fn heartbeats_of_a_node_do_not_resync_keys_that_have_read_it() {
    let heartbeats = &[Heartbeat { resource: "nodes", field: "lastHeartbeatTime" }];
    let config = WorldConfig { heartbeats, ..WorldConfig::default() };
    let mut engine = Engine::new(vec![Box::new(NodeReader)], config);
    engine.observe(node(1, "True", 0), at(0));
    for number in 0..100 {
        engine.observe(thing(&format!("x{number}"), 1, 2 + number), at(0));
    }
    engine.reach(Revision(200));
    engine.turn(at(0), Seed(1));
    assert_eq!((plans_in_round(&mut engine, 0), plans_in_round(&mut engine, 1)), (0, 100));
    for round in 2..20 {
        engine.observe(node(199 + u64::try_from(round).unwrap(), "True", round), at(round * 30_000 - 1));
        engine.reach(Revision(199 + u64::try_from(round).unwrap()));
        assert_eq!(plans_in_round(&mut engine, round), 0, "round {round}");
    }
    engine.observe(node(300, "False", 20), at(20 * 30_000 - 1));
    engine.reach(Revision(300));
    assert_eq!(plans_in_round(&mut engine, 20), 100, "more than a heartbeat");
}
