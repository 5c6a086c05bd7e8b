//! Tests of the event correlator.

use setpoint_api::{Revision, Value};

use super::*;
use crate::plan::InvolvedObject;

const C: Reporter<'_> = Reporter { source: "c", name: "c", host: "" };

fn subject() -> InvolvedObject {
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

fn write(next: Option<FollowUp>) -> Write {
    match next {
        Some(FollowUp::Write(write, _)) => write,
        _ => panic!("there is nothing to write"),
    }
}

#[test]
fn the_same_note_again_counts_and_another_makes_another_event() {
    let mut correlator = EventCorrelator::default();
    let note = subject().normal("Started", "it runs");
    let (first, mut attempt) = correlator.record(C, &note, Time::EPOCH, 1).unwrap();
    let Write::CreateEvent(new_event) = first else { panic!("{first:?}") };
    assert_eq!(new_event.to_value().str_at(&["metadata", "name"]), "x.1");
    assert_eq!(new_event.to_value().str_at(&["involvedObject", "resourceVersion"]), "3");
    assert!(correlator.complete(C, &note, &mut attempt, EventOutcome::Exists).is_none());
    let (second, mut attempt) = correlator.record(C, &note, Time::EPOCH, 2).unwrap();
    assert_eq!(count(second), ("x.1".to_owned(), 2));
    assert!(correlator.complete(C, &note, &mut attempt, EventOutcome::Exists).is_none());
    let other = subject().normal("Started", "it runs well");
    let other = correlator.record(C, &other, Time::EPOCH, 3).unwrap().0;
    assert!(matches!(other, Write::CreateEvent(_)));
}

#[test]
fn what_is_said_while_a_write_is_under_way_is_told_in_one_when_it_is_done() {
    let mut correlator = EventCorrelator::default();
    let note = subject().normal("Started", "it runs");
    let (_, mut made) = correlator.record(C, &note, Time::EPOCH, 1).unwrap();
    for nonce in 2..5 {
        assert!(correlator.record(C, &note, Time::EPOCH, nonce).is_none(), "nobody knows if there is one");
    }
    let behind = write(correlator.complete(C, &note, &mut made, EventOutcome::Exists));
    assert_eq!(count(behind), ("x.1".to_owned(), 4));
    assert!(correlator.record(C, &note, Time::EPOCH, 5).is_none(), "the patch is under way");
    let behind = write(correlator.complete(C, &note, &mut made, EventOutcome::Exists));
    assert_eq!(count(behind), ("x.1".to_owned(), 5));
    assert!(correlator.complete(C, &note, &mut made, EventOutcome::Exists).is_none());
    assert!(correlator.record(C, &note, Time::EPOCH, 6).is_some());
}

#[test]
fn a_note_whose_event_is_gone_is_told_anew_and_one_that_is_not_taken_is_not() {
    let mut correlator = EventCorrelator::default();
    let note = subject().normal("Started", "it runs");
    let (_, mut made) = correlator.record(C, &note, Time::EPOCH, 1).unwrap();
    assert!(correlator.complete(C, &note, &mut made, EventOutcome::Exists).is_none());
    let (_, mut again) = correlator.record(C, &note, Time::EPOCH, 2).unwrap();
    assert!(matches!(
        correlator.complete(C, &note, &mut again, EventOutcome::Gone),
        Some(FollowUp::Recreate(None))
    ));
    let (anew, mut made) = correlator.record(C, &note, Time::EPOCH, 3).unwrap();
    assert!(matches!(anew, Write::CreateEvent(_)));
    assert!(correlator.complete(C, &note, &mut made, EventOutcome::Gone).is_none(), "its namespace is gone");
    let (anew, mut made) = correlator.record(C, &note, Time::EPOCH, 4).unwrap();
    assert!(matches!(anew, Write::CreateEvent(_)));
    assert!(correlator.complete(C, &note, &mut made, EventOutcome::Rejected).is_none());
    assert_eq!(correlator.logged_count, 0);
}

/// Tells notes one after another, and counts the Events.
fn tell(
    correlator: &mut EventCorrelator,
    notes: impl IntoIterator<Item = EventRecord>,
    now: Time,
) -> (usize, usize) {
    let (mut made, mut said) = (0, 0);
    for (i, note) in notes.into_iter().enumerate() {
        if let Some((write, mut attempt)) = correlator.record(C, &note, now, i as u64) {
            said += 1;
            made += usize::from(matches!(write, Write::CreateEvent(_)));
            assert!(correlator.complete(C, &note, &mut attempt, EventOutcome::Exists).is_none());
        }
    }
    (made, said)
}

#[test]
fn many_similar_notes_become_one_and_too_many_fall_silent() {
    let mut correlator = EventCorrelator::default();
    let failed = |i: i32| subject().warning("Failed", format!("try {i}"));
    let apart = AGGREGATE_MIN_MESSAGES as usize - 1;
    let said = tell(&mut correlator, (0..100).map(failed), Time::EPOCH);
    assert_eq!(said, (apart + 1, SPAM_BURST as usize), "nine of their own, one for all the rest");
    let later = Time::EPOCH.after(SPAM_REFILL_INTERVAL);
    assert_eq!(tell(&mut correlator, (0..2).map(failed), later), (0, 1), "one more, which stands apart");
    let other = InvolvedObject { uid: "v".into(), ..subject() };
    assert_eq!(tell(&mut correlator, [other.warning("Failed", "try 1")], later), (1, 1), "another object");
    assert_eq!(tell(&mut correlator, [subject().normal("Started", "")], later), (1, 1), "in another tone");
}

#[test]
fn the_same_words_are_never_combined_and_a_pause_begins_anew() {
    let mut correlator = EventCorrelator::default();
    let same = (0..20).map(|_| subject().warning("Failed", "as ever"));
    assert_eq!(tell(&mut correlator, same, Time::EPOCH), (1, 20));
    let mut correlator = EventCorrelator::default();
    let failed = |i: i32| subject().warning("Failed", format!("try {i}"));
    let apart = AGGREGATE_MIN_MESSAGES as usize - 1;
    tell(&mut correlator, (0..9).map(failed), Time::EPOCH);
    let later = Time::EPOCH.after(2 * AGGREGATE_INTERVAL);
    assert_eq!(tell(&mut correlator, (100..111).map(failed), later).0, apart + 1);
}

#[test]
fn memory_is_bounded() {
    let mut correlator = EventCorrelator::default();
    for i in 0..20_000 {
        let about = InvolvedObject { key: key_of("pods", "a", &format!("p{i}")).unwrap(), ..subject() };
        let note = about.normal("Made", "made");
        let (_, mut attempt) = correlator.record(C, &note, Time(i), 0).unwrap();
        assert!(correlator.complete(C, &note, &mut attempt, EventOutcome::Exists).is_none());
    }
    assert!(
        correlator.logged_count <= LOGGED_EVENTS_MAX && correlator.spam_records.len() <= LOGGED_EVENTS_MAX
    );
    assert!(correlator.logged_count > LOGGED_EVENTS_MAX / 4, "half of it is kept");
}

#[test]
fn where_no_answer_comes_everything_is_kept_and_seldom_looked_at_until_answers_come() {
    let mut correlator = EventCorrelator::default();
    let made = |i: i64| {
        let key = key_of("pods", "a", &format!("p{i}")).unwrap();
        InvolvedObject { key, ..subject() }.normal("Made", "made")
    };
    let (mut waiting, mut looks) = (Vec::new(), 0);
    for i in 0..20_000 {
        let (note, left) = (made(i), correlator.len_after_eviction);
        let (_, attempt) = correlator.record(C, &note, Time(i), 0).unwrap();
        looks += usize::from(correlator.len_after_eviction != left);
        waiting.push((note, attempt));
    }
    assert_eq!(
        (correlator.logged_count, correlator.spam_records.len()),
        (20_000, 20_000),
        "each waits for an answer"
    );
    assert!((1..=5).contains(&looks), "looked at everything {looks} times");
    for (note, mut attempt) in waiting {
        assert!(correlator.complete(C, &note, &mut attempt, EventOutcome::Exists).is_none());
    }
    tell_each(&mut correlator, (20_000..40_000).map(made));
    assert!(
        correlator.logged_count <= LOGGED_EVENTS_MAX && correlator.spam_records.len() <= LOGGED_EVENTS_MAX
    );
}

/// Tells notes about different objects, each later than the one before.
fn tell_each(correlator: &mut EventCorrelator, notes: impl Iterator<Item = EventRecord>) {
    for (note, time) in notes.zip(20_000..) {
        assert_eq!(tell(correlator, [note], Time(time)), (1, 1));
    }
}

#[test]
fn a_topic_that_comes_up_now_and_then_remembers_no_events_that_are_gone() {
    let mut correlator = EventCorrelator::default();
    let mut now = Time::EPOCH;
    for i in 0..20 {
        let notes = (0..5).map(|j| subject().warning("Failed", format!("try {j} of {i}")));
        assert_eq!(tell(&mut correlator, notes, now), (5, 5));
        let remembered: usize =
            correlator.spam_records.values().map(|record| record.logged_events().count()).sum();
        assert_eq!((correlator.logged_count, remembered), (5, 5));
        now = now.after(2 * EVENT_TTL);
    }
    let note = subject().warning("Failed", "for long");
    let (_, mut slow) = correlator.record(C, &note, now, 77).unwrap();
    now = now.after(2 * EVENT_TTL);
    assert!(correlator.record(C, &note, now, 78).is_none(), "the write is under way");
    assert_eq!(correlator.logged_count, 1, "what is under way is kept");
    let behind = write(correlator.complete(C, &note, &mut slow, EventOutcome::Exists));
    assert_eq!(count(behind), ("x.4d".to_owned(), 2));
    assert!(correlator.complete(C, &note, &mut slow, EventOutcome::Exists).is_none());
    let (again, _) = correlator.record(C, &note, now.after(2 * AGGREGATE_INTERVAL), 79).unwrap();
    assert_eq!(count(again), ("x.4d".to_owned(), 3), "its Event is still there");
}

#[test]
fn the_same_words_whose_event_is_gone_each_time_are_never_combined() {
    let note = subject().normal("Started", "it runs");
    let made = |write: Write| {
        let Write::CreateEvent(new_event) = write else { panic!("{write:?}") };
        new_event.message
    };
    let mut correlator = EventCorrelator::default();
    for nonce in 0..12 {
        let (first, mut attempt) = correlator.record(C, &note, Time::EPOCH, nonce).unwrap();
        assert_eq!(made(first), "it runs");
        assert!(correlator.complete(C, &note, &mut attempt, EventOutcome::Exists).is_none());
        let (_, mut again) = correlator.record(C, &note, Time::EPOCH, 100).unwrap();
        let next = correlator.complete(C, &note, &mut again, EventOutcome::Gone);
        assert!(matches!(next, Some(FollowUp::Recreate(None))));
    }
    let mut correlator = EventCorrelator::default();
    for nonce in 0..12 {
        let (first, mut attempt) = correlator.record(C, &note, Time::EPOCH, nonce).unwrap();
        assert_eq!(made(first), "it runs");
        assert!(correlator.complete(C, &note, &mut attempt, EventOutcome::Rejected).is_none());
    }
}

#[test]
fn a_first_write_that_may_not_be_done_is_sent_again_as_it_was_a_few_times() {
    let mut correlator = EventCorrelator::default();
    let note = subject().normal("Scheduled", "it has a node");
    let (first, mut attempt) = correlator.record(C, &note, Time::EPOCH, 1).unwrap();
    let later = Time::EPOCH.after(Duration::from_secs(5));
    assert!(correlator.record(C, &note, later, 2).is_none(), "nobody knows if there is one");
    for _ in 0..RETRIES_MAX {
        assert_eq!(write(correlator.complete(C, &note, &mut attempt, EventOutcome::Unknown)), first);
    }
    let behind = write(correlator.complete(C, &note, &mut attempt, EventOutcome::Unknown));
    assert_eq!(count(behind), ("x.1".to_owned(), 2), "it is taken to be there");
    assert!(correlator.complete(C, &note, &mut attempt, EventOutcome::Exists).is_none());
    assert!(correlator.record(C, &note, later, 3).is_some(), "nothing is under way");
}

#[test]
fn a_patch_that_may_not_be_done_is_sent_again_with_the_newest_words_a_few_times() {
    let mut correlator = EventCorrelator::default();
    let failed = |i: u32| subject().warning("Failed", format!("try {i}"));
    tell(&mut correlator, (0..AGGREGATE_MIN_MESSAGES).map(failed), Time::EPOCH);
    let (old, new) = (failed(AGGREGATE_MIN_MESSAGES), failed(AGGREGATE_MIN_MESSAGES + 1));
    let (patch, mut attempt) = correlator.record(C, &old, Time::EPOCH, 100).unwrap();
    assert_eq!(write(correlator.complete(C, &old, &mut attempt, EventOutcome::Unknown)), patch);
    assert!(correlator.record(C, &new, Time::EPOCH, 101).is_none(), "the patch is under way");
    let next = correlator.complete(C, &old, &mut attempt, EventOutcome::Unknown);
    let Some(FollowUp::Write(Write::Patch { patch, .. }, words)) = next else { panic!("nothing to patch") };
    assert_eq!(patch.str_at(&["message"]), "(combined from similar events): try 11");
    assert_eq!(words.as_deref(), Some("try 11"));
    assert!(correlator.complete(C, &new, &mut attempt, EventOutcome::Unknown).is_none(), "enough was tried");
    assert!(correlator.record(C, &new, Time::EPOCH, 102).is_some(), "nothing is under way");
}
