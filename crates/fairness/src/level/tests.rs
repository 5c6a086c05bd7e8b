//! Tests of one level: examples, and random operations against a slow model.

mod model;

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use self::model::SlowLevel;
use super::*;
use crate::dealer::Dealer;
use crate::objects::priority_level::QueuingSpec;
use crate::work::WorkEstimate;

const MILLI: Duration = Duration::from_millis(1);

fn spec(response: LimitResponse) -> LevelSpec {
    LevelSpec { shares: 10, lendable_percent: 0, borrowing_percent: None, response }
}

fn queues(queues: u32, hand_size: u32, length_limit: u32) -> LimitResponse {
    let dealer = Dealer::new(queues, hand_size).unwrap();
    LimitResponse::Queue(QueuingSpec { queues, hand_size, length_limit, dealer })
}

fn limits(seats: u32) -> LevelLimits {
    LevelLimits { nominal: seats, lower: seats, upper: seats, current: seats }
}

fn level(response: LimitResponse, seats: u32) -> Level<u32> {
    let level = PriorityLevel { name: "l".into(), uid: "u".into(), spec: spec(response) };
    let mut level = Level::new(&level, Duration::ZERO);
    level.configure(Duration::ZERO, 1, Some(&spec(response)));
    level.set_limits(Duration::ZERO, limits(seats), seats.max(1));
    assert_eq!(level.schema_position("s"), 0);
    level
}

fn arrival(flow: u64, work: RequestWork) -> Arrival<'static> {
    Arrival { generation: 1, schema: 0, flow, work, is_watch: false, subject: None, path: "/p", name: "n" }
}

/// Starts a plain request, whose waiter is its flow.
fn start(level: &mut Level<u32>, millis: u32, flow: u32) -> Start {
    level.start(MILLI * millis, &arrival(flow.into(), RequestWork::Plain), || flow)
}

fn executing(start: Start) -> RequestId {
    match start {
        Start::Executing(id) => id,
        other => panic!("{other:?}"),
    }
}

fn waiting(start: Start) -> RequestId {
    match start {
        Start::Waiting(id) => id,
        other => panic!("{other:?}"),
    }
}

#[test]
fn exempt_level_never_rejects_and_never_waits() {
    let mut level = level(LimitResponse::Exempt, 0);
    let ids: Vec<RequestId> = (0..1000).map(|flow| executing(start(&mut level, 0, flow))).collect();
    assert_eq!(level.executing(), 1000);
    ids.into_iter().for_each(|id| assert_eq!(level.leave(MILLI, id), Departure::Finished));
    assert!(level.is_idle());
}

#[test]
fn level_without_queues_rejects_over_its_limit() {
    let mut level = level(LimitResponse::Reject, 2);
    let first = executing(start(&mut level, 0, 1));
    let second = executing(start(&mut level, 0, 1));
    assert_eq!(start(&mut level, 0, 1), Start::Rejected(Rejection::ConcurrencyLimit, 1));
    level.leave(MILLI, first);
    let third = executing(start(&mut level, 2, 1));
    level.leave(MILLI, second);
    level.leave(MILLI, third);
    assert_eq!(level.counts, LevelCounts { dispatched: 3, rejected: 1, ..LevelCounts::default() });
}

#[test]
fn request_over_the_queue_length_is_rejected() {
    let mut level = level(queues(1, 1, 2), 1);
    let running = executing(start(&mut level, 0, 1));
    let queued = [waiting(start(&mut level, 0, 1)), waiting(start(&mut level, 0, 1))];
    assert_eq!(start(&mut level, 0, 1), Start::Rejected(Rejection::QueueFull, 1));
    level.leave(MILLI, running);
    assert_eq!(level.take_dispatched(), [1]);
    let [first, second] = queued;
    assert_eq!(level.expire(MILLI, first), Err(RequestId(1)), "it has been dispatched");
    assert_eq!(level.expire(MILLI, second), Ok(1));
    let report = level.report(MILLI);
    assert_eq!(report.schemas[0].rejected, [1, 0, 1, 0]);
    assert_eq!((report.waiting, report.executing, report.counts.timed_out), (0, 1, 1));
}

#[test]
fn cancelled_request_leaves_its_queue() {
    let mut level = level(queues(4, 2, 10), 1);
    let running = executing(start(&mut level, 0, 1));
    let queued: Vec<RequestId> = (0..3).map(|flow| waiting(start(&mut level, 0, flow))).collect();
    for id in queued {
        assert_eq!(level.leave(MILLI, id), Departure::Cancelled);
    }
    level.leave(MILLI, running);
    assert!(level.take_dispatched().is_empty() && level.is_idle() && level.queues.is_empty());
    assert_eq!(level.counts.cancelled, 3);
    assert_eq!(level.report(MILLI).schemas[0].rejected, [0, 0, 0, 3]);
}

#[test]
fn seats_of_a_write_stay_occupied_for_its_additional_latency() {
    let mut level = level(queues(4, 2, 10), 10);
    let write = arrival(1, RequestWork::Mutating(100));
    // The level allows two seats, so ten seats for 5 ms become two for 25 ms.
    let first = executing(level.start(Duration::ZERO, &write, || 0));
    assert_eq!(level.seats_in_use(), 2);
    level.leave(MILLI, first);
    assert_eq!((level.seats_in_use(), level.executing()), (2, 0));
    let others: Vec<RequestId> = (0..8).map(|flow| executing(start(&mut level, 1, flow))).collect();
    assert_eq!(level.next_release(), None, "nothing waits for the seats");
    let late = waiting(start(&mut level, 1, 7));
    assert_eq!(level.next_release(), Some(MILLI * 26));
    level.release_lingering(MILLI * 25);
    assert!(level.take_dispatched().is_empty());
    level.release_lingering(MILLI * 26);
    assert_eq!(level.take_dispatched(), [7]);
    others.into_iter().chain([late]).for_each(|id| _ = level.leave(MILLI * 27, id));
    assert!(level.is_idle() && level.queues.is_empty());
}

#[test]
fn request_wider_than_the_limit_runs_alone() {
    let mut level = level(LimitResponse::Reject, 3);
    let wide = arrival(1, RequestWork::List(50));
    let id = executing(level.start(Duration::ZERO, &wide, || 0));
    assert_eq!(start(&mut level, 0, 1), Start::Rejected(Rejection::ConcurrencyLimit, 1));
    level.leave(MILLI, id);
    let id = executing(start(&mut level, 1, 1));
    assert!(matches!(level.start(MILLI, &wide, || 0), Start::Rejected(..)));
    level.leave(MILLI, id);
}

#[test]
fn request_of_another_configuration_is_stale() {
    let mut level = level(queues(4, 2, 10), 1);
    let old = Arrival { generation: 0, ..arrival(1, RequestWork::Plain) };
    assert_eq!(level.start(MILLI, &old, || 0), Start::Stale);
    let unknown = Arrival { schema: 5, ..arrival(1, RequestWork::Plain) };
    assert_eq!(level.start(MILLI, &unknown, || 0), Start::Stale);
    level.remove();
    assert_eq!(start(&mut level, 1, 1), Start::Stale);
}

#[test]
fn waiting_requests_survive_every_reconfiguration() {
    for response in [queues(2, 1, 1), queues(64, 6, 50), LimitResponse::Reject] {
        let mut level = level(queues(16, 4, 50), 1);
        let mut ids = vec![executing(start(&mut level, 0, 0))];
        ids.extend((1..=20).map(|flow| waiting(start(&mut level, 0, flow))));
        level.configure(MILLI, 2, Some(&spec(response)));
        level.set_limits(MILLI, limits(3), 3);
        let mut dispatched = level.take_dispatched();
        assert_eq!(dispatched.len(), 2, "the new limit has two more seats");
        for step in 2..100 {
            let Some(position) = ids.iter().position(|id| level.requests.get(id.0).started_at.is_some())
            else {
                break;
            };
            level.leave(MILLI * step, ids.remove(position));
            dispatched.append(&mut level.take_dispatched());
        }
        dispatched.sort_unstable();
        assert_eq!(dispatched, (1..=20).collect::<Vec<_>>(), "{response:?}");
        assert!(level.is_idle() && level.queues.is_empty());
    }
}

#[test]
fn statistics_of_a_removed_flow_schema_go_with_its_last_request() {
    let mut level = level(queues(4, 2, 10), 1);
    let id = executing(start(&mut level, 0, 1));
    level.retain_schemas(|_| false);
    assert_eq!(level.report(MILLI).schemas.len(), 1);
    level.leave(MILLI, id);
    level.retain_schemas(|_| false);
    assert!(level.report(MILLI).schemas.is_empty());
    assert_eq!((level.schema_position("t"), level.schema_position("u")), (0, 1));
}

#[test]
fn hundred_million_possible_queues_take_no_memory() {
    let mut level = level(queues(1 << 26, 2, 10), 4);
    for flow in 0..1000_u32 {
        let id = executing(level.start(MILLI, &arrival(u64::from(flow) << 32, RequestWork::Plain), || 0));
        level.leave(MILLI * 2, id);
    }
    assert!(level.queues.is_empty());
}

/// One random operation.
#[derive(Clone, Debug)]
enum Operation {
    Start { flow: u64, work: RequestWork },
    Leave(prop::sample::Index),
    Expire(prop::sample::Index),
    Release,
    Configure { seats: u32, response: LimitResponse },
}

fn response() -> impl Strategy<Value = LimitResponse> {
    prop_oneof![
        4 => (1u32..8, 0u32..6).prop_map(|(deck, length)| queues(deck, deck.min(3), length)),
        1 => Just(LimitResponse::Reject),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    let work = prop_oneof![
        4 => Just(RequestWork::Plain),
        1 => (0u32..20).prop_map(RequestWork::List),
        1 => (0u64..120).prop_map(RequestWork::Mutating),
    ];
    prop_oneof![
        12 => (0u64..1000, work).prop_map(|(flow, work)| Operation::Start { flow, work }),
        8 => any::<prop::sample::Index>().prop_map(Operation::Leave),
        2 => any::<prop::sample::Index>().prop_map(Operation::Expire),
        1 => Just(Operation::Release),
        1 => (0u32..12, response()).prop_map(|(seats, response)| Operation::Configure { seats, response }),
    ]
}

/// A level and its model, driven by the same operations.
struct Pair {
    level: Level<u32>,
    model: SlowLevel,
    ids: BTreeMap<u32, RequestId>,
    executing: BTreeMap<u32, ()>,
    ended: u32,
    dispatched: u32,
}

impl Pair {
    fn apply(&mut self, now: Duration, number: u32, operation: &Operation) {
        match operation {
            Operation::Start { flow, work } => {
                let estimate: WorkEstimate = work.estimate(self.level.limits.max_seats(&self.level.spec));
                let expected = self.model.start(now, number, *flow, estimate);
                match self.level.start(now, &arrival(*flow, *work), || number) {
                    Start::Executing(id) => {
                        assert_eq!(expected, Ok(()));
                        self.ids.insert(number, id);
                        self.executing.insert(number, ());
                    }
                    Start::Waiting(id) => {
                        assert_eq!(expected, Ok(()));
                        self.ids.insert(number, id);
                    }
                    Start::Rejected(rejection, _) => assert_eq!(expected, Err(rejection)),
                    Start::Stale => panic!("the configuration is current"),
                }
            }
            Operation::Leave(index) => {
                let Some(number) = self.pick(index) else { return };
                let id = self.ids.remove(&number).unwrap();
                let departure = self.level.leave(now, id);
                let was_executing = self.model.leave(now, number);
                assert_eq!(departure == Departure::Finished, was_executing);
                self.executing.remove(&number);
                self.ended += 1;
            }
            Operation::Expire(index) => {
                let Some(number) = self.pick(index) else { return };
                let id = self.ids.remove(&number).unwrap();
                match self.level.expire(now, id) {
                    Ok(_) => {
                        assert!(!self.model.leave(now, number));
                        self.ended += 1;
                    }
                    Err(id) => {
                        self.model.advance(now);
                        self.ids.insert(number, id);
                    }
                }
            }
            Operation::Release => {
                self.level.release_lingering(now);
                self.model.release_lingering(now);
            }
            Operation::Configure { seats, response } => {
                self.level.configure(now, 1, Some(&spec(*response)));
                self.level.set_limits(now, limits(*seats), (*seats).max(1));
                self.model.configure(now, *seats, *response);
            }
        }
        for number in self.level.take_dispatched() {
            // A request may be dispatched by the passage of time just before it leaves.
            if self.ids.contains_key(&number) {
                assert!(self.executing.insert(number, ()).is_none(), "{number} is dispatched twice");
            }
            self.dispatched += 1;
        }
    }

    fn pick(&self, index: &prop::sample::Index) -> Option<u32> {
        let numbers: Vec<u32> = self.ids.keys().copied().collect();
        (!numbers.is_empty()).then(|| *index.get(&numbers))
    }

    /// Compares with the model, and checks the invariants.
    fn check(&self, limit_decreased: bool) {
        assert_eq!(self.executing.keys().copied().collect::<Vec<_>>(), self.model.executing());
        let level = &self.level;
        assert_eq!(level.seats_in_use(), self.model.seats_in_use());
        assert_eq!(level.progress, self.model.progress);
        assert_eq!(level.executing() + level.waiting(), self.ids.len(), "no request is lost");
        let widest = level.requests.iter().map(|record| record.estimate.max_seats()).max().unwrap_or(0);
        // A request that is wider than the limit runs alone, beside seats of finished requests.
        let lingering: u32 = level.lingering.iter().map(|(_, _, lingering)| lingering.seats).sum();
        let limit = level.limits.current.max(widest + lingering).max(10);
        assert!(limit_decreased || level.seats_in_use() <= limit, "{} > {limit}", level.seats_in_use());
        let statistics = level.schemas[0].as_ref().unwrap();
        assert_eq!(statistics.executing_seats, u64::from(level.seats_in_use()));
        assert_eq!(statistics.waiting, level.waiting() as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 400 } else { 4000 }))]

    #[test]
    fn level_and_slow_model_agree(
        seats in 1u32..12,
        response in response(),
        steps in prop::collection::vec((0u32..12, operation()), 1..120),
    ) {
        let mut pair = Pair {
            level: level(response, seats),
            model: SlowLevel::new(seats, response),
            ids: BTreeMap::new(),
            executing: BTreeMap::new(),
            ended: 0,
            dispatched: 0,
        };
        let mut now = Duration::ZERO;
        let mut has_decreased = false;
        for (number, (elapsed, operation)) in (0..).zip(&steps) {
            now += MILLI * *elapsed;
            has_decreased |= matches!(operation, Operation::Configure { .. });
            pair.apply(now, number, operation);
            pair.check(has_decreased);
        }
        // Every request leaves once seats are free again.
        pair.apply(now, u32::MAX, &Operation::Configure { seats: 5, response: queues(4, 2, 5) });
        for _ in 0..200 {
            now += Duration::from_secs(1);
            pair.apply(now, u32::MAX, &Operation::Release);
            let Some(number) = pair.executing.keys().next().copied() else { break };
            let id = pair.ids.remove(&number).unwrap();
            pair.executing.remove(&number);
            pair.model.leave(now, number);
            prop_assert_eq!(pair.level.leave(now, id), Departure::Finished);
            for number in pair.level.take_dispatched() {
                pair.executing.insert(number, ());
            }
        }
        pair.apply(now + Duration::from_secs(9), u32::MAX, &Operation::Release);
        prop_assert!(pair.ids.is_empty() && pair.level.is_idle() && pair.level.queues.is_empty());
    }
}
