//! Tests of the event correlator.

use setpoint_api::{Revision, Value};

use super::*;
use crate::plan::InvolvedObject;

const REPORTER: Reporter<'_> = Reporter { source: "c", name: "c", host: "" };

fn pod() -> InvolvedObject {
    let key = key_of("pods", "a", "x").unwrap();
    InvolvedObject {
        key,
        api_version: "v1",
        kind: "Pod",
        uid: "u".into(),
        revision: Revision(3),
        field_path: String::new(),
    }
}

fn count(write: Write) -> (String, i64) {
    let Write::Patch { key, patch, .. } = write else { panic!("{write:?}") };
    let Some(Value::Int(count)) = patch.get("count") else { panic!("{patch:?}") };
    (key.name().to_owned(), *count)
}

fn write(follow_up: Option<FollowUp>) -> Write {
    match follow_up {
        Some(FollowUp::Write(write, _)) => write,
        _ => panic!("no write follows"),
    }
}

#[test]
fn repeated_event_is_counted_and_a_different_one_is_created() {
    let mut correlator = EventCorrelator::default();
    let record = pod().normal("Started", "it runs");
    let (first, mut attempt) = correlator.record(REPORTER, &record, Time::EPOCH, 1).unwrap();
    let Write::CreateEvent(new_event) = first else { panic!("{first:?}") };
    assert_eq!(new_event.to_value().str_at(&["metadata", "name"]), "x.1");
    assert_eq!(new_event.to_value().str_at(&["involvedObject", "resourceVersion"]), "3");
    assert!(correlator.complete(REPORTER, &record, &mut attempt, EventOutcome::Exists).is_none());
    let (second, mut attempt) = correlator.record(REPORTER, &record, Time::EPOCH, 2).unwrap();
    assert_eq!(count(second), ("x.1".to_owned(), 2));
    assert!(correlator.complete(REPORTER, &record, &mut attempt, EventOutcome::Exists).is_none());
    let other = pod().normal("Started", "it runs well");
    let other = correlator.record(REPORTER, &other, Time::EPOCH, 3).unwrap().0;
    assert!(matches!(other, Write::CreateEvent(_)));
}

#[test]
fn repetitions_during_a_write_become_one_update_afterwards() {
    let mut correlator = EventCorrelator::default();
    let record = pod().normal("Started", "it runs");
    let (_, mut attempt) = correlator.record(REPORTER, &record, Time::EPOCH, 1).unwrap();
    for nonce in 2..5 {
        assert!(
            correlator.record(REPORTER, &record, Time::EPOCH, nonce).is_none(),
            "unknown if the Event exists"
        );
    }
    let pending = write(correlator.complete(REPORTER, &record, &mut attempt, EventOutcome::Exists));
    assert_eq!(count(pending), ("x.1".to_owned(), 4));
    assert!(correlator.record(REPORTER, &record, Time::EPOCH, 5).is_none(), "the patch is in flight");
    let pending = write(correlator.complete(REPORTER, &record, &mut attempt, EventOutcome::Exists));
    assert_eq!(count(pending), ("x.1".to_owned(), 5));
    assert!(correlator.complete(REPORTER, &record, &mut attempt, EventOutcome::Exists).is_none());
    assert!(correlator.record(REPORTER, &record, Time::EPOCH, 6).is_some());
}

#[test]
fn deleted_event_is_recreated_and_a_rejected_one_is_not() {
    let mut correlator = EventCorrelator::default();
    let record = pod().normal("Started", "it runs");
    let (_, mut attempt) = correlator.record(REPORTER, &record, Time::EPOCH, 1).unwrap();
    assert!(correlator.complete(REPORTER, &record, &mut attempt, EventOutcome::Exists).is_none());
    let (_, mut update) = correlator.record(REPORTER, &record, Time::EPOCH, 2).unwrap();
    assert!(matches!(
        correlator.complete(REPORTER, &record, &mut update, EventOutcome::Gone),
        Some(FollowUp::Recreate(None))
    ));
    let (recreated, mut attempt) = correlator.record(REPORTER, &record, Time::EPOCH, 3).unwrap();
    assert!(matches!(recreated, Write::CreateEvent(_)));
    assert!(
        correlator.complete(REPORTER, &record, &mut attempt, EventOutcome::Gone).is_none(),
        "its namespace is gone"
    );
    let (recreated, mut attempt) = correlator.record(REPORTER, &record, Time::EPOCH, 4).unwrap();
    assert!(matches!(recreated, Write::CreateEvent(_)));
    assert!(correlator.complete(REPORTER, &record, &mut attempt, EventOutcome::Rejected).is_none());
    assert_eq!(correlator.logged_count, 0);
}

/// Records and confirms Events. Returns the number of creates and of all writes.
fn record_all(
    correlator: &mut EventCorrelator,
    records: impl IntoIterator<Item = EventRecord>,
    now: Time,
) -> (usize, usize) {
    let (mut creates, mut writes) = (0, 0);
    for (i, record) in records.into_iter().enumerate() {
        if let Some((write, mut attempt)) = correlator.record(REPORTER, &record, now, i as u64) {
            writes += 1;
            creates += usize::from(matches!(write, Write::CreateEvent(_)));
            assert!(correlator.complete(REPORTER, &record, &mut attempt, EventOutcome::Exists).is_none());
        }
    }
    (creates, writes)
}

#[test]
fn similar_events_are_aggregated_and_rate_limited() {
    let mut correlator = EventCorrelator::default();
    let failed = |i: i32| pod().warning("Failed", format!("try {i}"));
    let separate = AGGREGATE_MIN_MESSAGES as usize - 1;
    let counts = record_all(&mut correlator, (0..100).map(failed), Time::EPOCH);
    assert_eq!(counts, (separate + 1, SPAM_BURST as usize), "nine separate Events and a combined one");
    let later = Time::EPOCH.after(SPAM_REFILL_INTERVAL);
    assert_eq!(
        record_all(&mut correlator, (0..2).map(failed), later),
        (0, 1),
        "one more token, for a separate Event"
    );
    let other = InvolvedObject { uid: "v".into(), ..pod() };
    assert_eq!(
        record_all(&mut correlator, [other.warning("Failed", "try 1")], later),
        (1, 1),
        "another object"
    );
    assert_eq!(record_all(&mut correlator, [pod().normal("Started", "")], later), (1, 1), "another type");
}

#[test]
fn equal_messages_are_not_aggregated_and_a_pause_starts_a_new_round() {
    let mut correlator = EventCorrelator::default();
    let same = (0..20).map(|_| pod().warning("Failed", "same"));
    assert_eq!(record_all(&mut correlator, same, Time::EPOCH), (1, 20));
    let mut correlator = EventCorrelator::default();
    let failed = |i: i32| pod().warning("Failed", format!("try {i}"));
    let separate = AGGREGATE_MIN_MESSAGES as usize - 1;
    record_all(&mut correlator, (0..9).map(failed), Time::EPOCH);
    let later = Time::EPOCH.after(2 * AGGREGATE_INTERVAL);
    assert_eq!(record_all(&mut correlator, (100..111).map(failed), later).0, separate + 1);
}

#[test]
fn number_of_logged_events_is_bounded() {
    let mut correlator = EventCorrelator::default();
    for i in 0..20_000 {
        let object = InvolvedObject { key: key_of("pods", "a", &format!("p{i}")).unwrap(), ..pod() };
        let record = object.normal("Created", "created");
        let (_, mut attempt) = correlator.record(REPORTER, &record, Time(i), 0).unwrap();
        assert!(correlator.complete(REPORTER, &record, &mut attempt, EventOutcome::Exists).is_none());
    }
    assert!(
        correlator.logged_count <= LOGGED_EVENTS_MAX && correlator.spam_records.len() <= LOGGED_EVENTS_MAX
    );
    assert!(correlator.logged_count > LOGGED_EVENTS_MAX / 4, "half of the records are kept");
}

#[test]
fn in_flight_events_are_not_evicted_and_evictions_stay_rare() {
    let mut correlator = EventCorrelator::default();
    let created = |i: i64| {
        let key = key_of("pods", "a", &format!("p{i}")).unwrap();
        InvolvedObject { key, ..pod() }.normal("Created", "created")
    };
    let (mut in_flight, mut evictions) = (Vec::new(), 0);
    for i in 0..20_000 {
        let (record, before) = (created(i), correlator.len_after_eviction);
        let (_, attempt) = correlator.record(REPORTER, &record, Time(i), 0).unwrap();
        evictions += usize::from(correlator.len_after_eviction != before);
        in_flight.push((record, attempt));
    }
    assert_eq!(
        (correlator.logged_count, correlator.spam_records.len()),
        (20_000, 20_000),
        "all are in flight"
    );
    assert!((1..=5).contains(&evictions), "{evictions} evictions");
    for (record, mut attempt) in in_flight {
        assert!(correlator.complete(REPORTER, &record, &mut attempt, EventOutcome::Exists).is_none());
    }
    record_each(&mut correlator, (20_000..40_000).map(created));
    assert!(
        correlator.logged_count <= LOGGED_EVENTS_MAX && correlator.spam_records.len() <= LOGGED_EVENTS_MAX
    );
}

/// Records Events on different objects, each later than the one before.
fn record_each(correlator: &mut EventCorrelator, records: impl Iterator<Item = EventRecord>) {
    for (record, time) in records.zip(20_000..) {
        assert_eq!(record_all(correlator, [record], Time(time)), (1, 1));
    }
}

#[test]
fn expired_events_of_an_aggregate_are_dropped() {
    let mut correlator = EventCorrelator::default();
    let mut now = Time::EPOCH;
    for i in 0..20 {
        let records = (0..5).map(|j| pod().warning("Failed", format!("try {j} of {i}")));
        assert_eq!(record_all(&mut correlator, records, now), (5, 5));
        let logged: usize =
            correlator.spam_records.values().map(|spam_record| spam_record.logged_events().count()).sum();
        assert_eq!((correlator.logged_count, logged), (5, 5));
        now = now.after(2 * EVENT_TTL);
    }
    let record = pod().warning("Failed", "slow");
    let (_, mut slow) = correlator.record(REPORTER, &record, now, 77).unwrap();
    now = now.after(2 * EVENT_TTL);
    assert!(correlator.record(REPORTER, &record, now, 78).is_none(), "the write is in flight");
    assert_eq!(correlator.logged_count, 1, "in-flight Events are kept");
    let pending = write(correlator.complete(REPORTER, &record, &mut slow, EventOutcome::Exists));
    assert_eq!(count(pending), ("x.4d".to_owned(), 2));
    assert!(correlator.complete(REPORTER, &record, &mut slow, EventOutcome::Exists).is_none());
    let (again, _) = correlator.record(REPORTER, &record, now.after(2 * AGGREGATE_INTERVAL), 79).unwrap();
    assert_eq!(count(again), ("x.4d".to_owned(), 3), "its Event still exists");
}

#[test]
fn message_whose_event_is_deleted_each_time_is_not_aggregated() {
    let record = pod().normal("Started", "it runs");
    let message_of = |write: Write| {
        let Write::CreateEvent(new_event) = write else { panic!("{write:?}") };
        new_event.message
    };
    let mut correlator = EventCorrelator::default();
    for nonce in 0..12 {
        let (first, mut attempt) = correlator.record(REPORTER, &record, Time::EPOCH, nonce).unwrap();
        assert_eq!(message_of(first), "it runs");
        assert!(correlator.complete(REPORTER, &record, &mut attempt, EventOutcome::Exists).is_none());
        let (_, mut update) = correlator.record(REPORTER, &record, Time::EPOCH, 100).unwrap();
        let next = correlator.complete(REPORTER, &record, &mut update, EventOutcome::Gone);
        assert!(matches!(next, Some(FollowUp::Recreate(None))));
    }
    let mut correlator = EventCorrelator::default();
    for nonce in 0..12 {
        let (first, mut attempt) = correlator.record(REPORTER, &record, Time::EPOCH, nonce).unwrap();
        assert_eq!(message_of(first), "it runs");
        assert!(correlator.complete(REPORTER, &record, &mut attempt, EventOutcome::Rejected).is_none());
    }
}

#[test]
fn create_with_an_unknown_outcome_is_retried_unchanged() {
    let mut correlator = EventCorrelator::default();
    let record = pod().normal("Scheduled", "assigned");
    let (first, mut attempt) = correlator.record(REPORTER, &record, Time::EPOCH, 1).unwrap();
    let later = Time::EPOCH.after(Duration::from_secs(5));
    assert!(correlator.record(REPORTER, &record, later, 2).is_none(), "unknown if the Event exists");
    for _ in 0..RETRIES_MAX {
        assert_eq!(write(correlator.complete(REPORTER, &record, &mut attempt, EventOutcome::Unknown)), first);
    }
    let pending = write(correlator.complete(REPORTER, &record, &mut attempt, EventOutcome::Unknown));
    assert_eq!(count(pending), ("x.1".to_owned(), 2), "the Event is assumed to exist");
    assert!(correlator.complete(REPORTER, &record, &mut attempt, EventOutcome::Exists).is_none());
    assert!(correlator.record(REPORTER, &record, later, 3).is_some(), "nothing is in flight");
}

#[test]
fn update_with_an_unknown_outcome_is_retried_with_the_latest_message() {
    let mut correlator = EventCorrelator::default();
    let failed = |i: u32| pod().warning("Failed", format!("try {i}"));
    record_all(&mut correlator, (0..AGGREGATE_MIN_MESSAGES).map(failed), Time::EPOCH);
    let (old, new) = (failed(AGGREGATE_MIN_MESSAGES), failed(AGGREGATE_MIN_MESSAGES + 1));
    let (patch, mut attempt) = correlator.record(REPORTER, &old, Time::EPOCH, 100).unwrap();
    assert_eq!(write(correlator.complete(REPORTER, &old, &mut attempt, EventOutcome::Unknown)), patch);
    assert!(correlator.record(REPORTER, &new, Time::EPOCH, 101).is_none(), "the patch is in flight");
    let next = correlator.complete(REPORTER, &old, &mut attempt, EventOutcome::Unknown);
    let Some(FollowUp::Write(Write::Patch { patch, .. }, message)) = next else { panic!("no patch follows") };
    assert_eq!(patch.str_at(&["message"]), "(combined from similar events): try 11");
    assert_eq!(message.as_deref(), Some("try 11"));
    assert!(
        correlator.complete(REPORTER, &new, &mut attempt, EventOutcome::Unknown).is_none(),
        "no retry is left"
    );
    assert!(correlator.record(REPORTER, &new, Time::EPOCH, 102).is_some(), "nothing is in flight");
}
