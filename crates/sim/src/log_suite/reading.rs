//! What a log gives back.

use std::sync::atomic::{AtomicBool, Ordering};

use setpoint_api::{Revision, Time};
use setpoint_store::commit::{Commit, Proposal};
use setpoint_store::log::LogReader;
use setpoint_store::{Cause, Draft, Precondition};

use super::{Bench, END, Subject, delete, is_compacted, key, pod, proposal, put};
use crate::naive::{objects_of, snapshot_of};

/// All that was acknowledged, nothing else, in order, however often it is opened.
pub fn what_was_acknowledged_comes_back_in_order(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    for n in 0..40 {
        let path = format!("a/{}", n % 7);
        bench.append(&[
            put(&path, Precondition::Any, &format!("value {n}")),
            put(&path, Precondition::Absent, "refused"),
            put("b/other", Precondition::Any, "v").put(
                key("nodes", "n"),
                Precondition::Any,
                Draft::new("node"),
            ),
        ]);
        if n % 5 == 0 {
            bench.append(&[delete(&path, Precondition::Any)]);
        }
        if n % 10 == 0 {
            bench.check();
        }
    }
    bench.check();
}

/// Reading changes nothing.
pub fn reading_twice_gives_the_same(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    bench.append(&[
        put("a/x", Precondition::Any, "1"),
        put("a/y", Precondition::Any, "2"),
        delete("a/x", Precondition::Any),
    ]);
    for _ in 0..3 {
        bench.check();
        bench.reopen();
    }
    bench.commit(put("a/x", Precondition::Absent, "3"));
    bench.check();
}

/// Time, cause, labels, fields, hole and expiry, at their extremes too.
pub fn every_part_of_a_commit_comes_back_bit_for_bit(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    let cause = Cause {
        user: "ann@example.org".to_owned(),
        manager: "kubectl client-side".to_owned(),
        reconciler: "größe/déploiement".to_owned(),
        seen: Revision(u64::MAX),
        paths: vec!["spec.replicas".to_owned(), String::new(), "метка".to_owned()],
    };
    let times = [Time(i64::MIN), Time(-1), Time::EPOCH, Time(1_700_000_000_123_456), Time(i64::MAX)];
    for (n, time) in times.into_iter().enumerate() {
        let draft = Draft::with_revision_at(r#"{"metadata":{"resourceVersion":""}}"#, 32)
            .labels([("app", "web"), ("", ""), ("tier", "ü")])
            .fields([("spec.nodeName", "n1"), ("status.phase", "")])
            .expires(times[times.len() - 1 - n]);
        bench.commit(Proposal::new(cause.clone(), time).put(
            pod(&format!("a/{n}")),
            Precondition::Any,
            draft,
        ));
    }
    let bytes: Vec<u8> = (0..=255).collect();
    bench.append(&[
        proposal().put(pod("a/bytes"), Precondition::Any, Draft::new(bytes)),
        proposal().put(pod("a/empty"), Precondition::Any, Draft::new("")),
        proposal().put(pod("a/hole"), Precondition::Any, Draft::with_revision_at("", 0)),
        proposal().put(pod("a/zeros"), Precondition::Any, Draft::new(vec![0; 4096])),
        proposal().put(pod("a/first"), Precondition::Any, Draft::with_revision_at("abc", 0)),
        Proposal::new(cause.clone(), Time(-9)).delete(pod("a/0"), Precondition::Any),
    ]);
    for compacted in [false, true] {
        bench.check();
        let snapshot = read_state(&mut *bench.log().reader(), END);
        let record = snapshot.get(&pod("a/3")).expect("it was put and never deleted");
        assert_eq!(&record.value()[..], br#"{"metadata":{"resourceVersion":"4"}}"#);
        assert_eq!(
            record.attributes().labels().collect::<Vec<_>>(),
            [("app", "web"), ("", ""), ("tier", "ü")]
        );
        assert_eq!(record.attributes().field("spec.nodeName"), Some("n1"));
        assert_eq!(
            (record.cause(), record.time(), record.expires()),
            (cause.clone(), times[3], Some(times[1]))
        );
        if !compacted {
            let last = bench.naive.commits.last().expect("the delete");
            assert_eq!((last.time, last.writes[0].body.as_ref()), (Time(-9), None));
            bench.compact();
        }
    }
}

/// From any revision to any other there is exactly what lies between them.
pub fn a_tail_starts_and_ends_at_any_revision(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    for n in 0..12 {
        bench.append(&[put("a/x", Precondition::Any, &n.to_string()), put("a/y", Precondition::Any, "y")]);
    }
    for reopened in [false, true] {
        let mut reader = bench.log().reader();
        for after in (0..=24).map(Revision) {
            for until in (after.0..=24).map(Revision) {
                assert_eq!(read_tail(&mut *reader, after, until), bench.naive.between(after, until));
            }
            let mut tail = Vec::new();
            bench.log().tail(after, &mut |commit| tail.push(commit)).expect("nothing is compacted");
            assert_eq!(tail, bench.naive.between(after, END));
        }
        drop(reader);
        if !reopened && !bench.reopen() {
            break;
        }
    }
}

/// There is nothing yet after the end, and that is no error.
pub fn a_tail_from_past_the_end_is_empty(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    for commits in 0..3 {
        let mut reader = bench.log().reader();
        for after in [commits, commits + 1, 1000, u64::MAX - 1, u64::MAX].map(Revision) {
            assert_eq!(read_tail(&mut *reader, after, END), [], "after {after}");
            bench.log().tail(after, &mut |_| panic!("nothing comes after {after}")).expect("no error");
        }
        bench.commit(put("a/x", Precondition::Any, "v"));
    }
}

/// A reader is a window, not a copy.
pub fn a_reader_sees_what_was_appended_after_it_was_made(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    let mut reader = bench.log().reader();
    assert_eq!(read_tail(&mut *reader, Revision::ZERO, END), []);
    for n in 1..=5 {
        bench.commit(put("a/x", Precondition::Any, &n.to_string()));
        assert_eq!(read_tail(&mut *reader, Revision::ZERO, END), bench.naive.commits);
        assert_eq!(objects_of(&read_state(&mut *reader, END)), bench.naive.objects_at(Revision(n)));
    }
}

/// While a writer appends and compacts, a reader finds whole commits without gaps, or is told `Compacted`.
pub fn a_reader_beside_the_writer_sees_a_prefix(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    let mut reader = bench.log().reader();
    let done = AtomicBool::new(false);
    let looks: Vec<Look> = std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut looks = Vec::new();
            while !done.load(Ordering::Acquire) || looks.is_empty() {
                looks.push(look(&mut *reader));
            }
            looks
        });
        for n in 0..60 {
            bench.append(&[
                put("a/x", Precondition::Any, &"x".repeat(n * 40)),
                put("a/y", Precondition::Any, "y"),
            ]);
            if n % 20 == 19 {
                bench.compact();
            }
        }
        done.store(true, Ordering::Release);
        looking.join().expect("the reader does not panic")
    });
    let mut reached = Revision::ZERO;
    for Look { base, objects, commits } in looks {
        assert_eq!(objects, bench.naive.objects_at(base), "the base at {base}");
        let end = commits.last().map_or(base, |commit| commit.revision);
        assert_eq!(commits, bench.naive.between(base, end), "whole commits, without gaps");
        assert!(end >= reached, "the reader went back from {reached} to {end}");
        reached = end;
    }
    drop(reader);
    bench.check();
}

struct Look {
    base: Revision,
    objects: crate::naive::Objects,
    commits: Vec<Commit>,
}

fn look(reader: &mut dyn LogReader) -> Look {
    loop {
        let base = reader.base(END).expect("there is always a base");
        let mut commits = Vec::new();
        // A compaction may come between the two calls; then one starts again from the new base.
        let tail = reader.tail(base.revision(), END, &mut |commit| commits.push(commit));
        if is_compacted(tail).is_none() {
            return Look { base: base.revision(), objects: objects_of(&base), commits };
        }
    }
}

/// Whatever is asked for, the base is not past it, and with its tail gives the state at that revision.
pub fn the_base_is_no_newer_than_asked(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    for n in 0..4 {
        for m in 0..3 {
            bench.commit(put(&format!("a/{m}"), Precondition::Any, &n.to_string()));
        }
        bench.append(&[delete("a/1", Precondition::Any)]);
        bench.compact();
        let floor = bench.log().stat().floor;
        let mut reader = bench.log().reader();
        let head = bench.naive.head();
        assert_eq!(reader.base(Revision(head.0 + 2)).expect("it is not compacted").revision(), head);
        for at in (0..=head.0).map(Revision) {
            match reader.base(at) {
                Ok(base) => {
                    assert!(at >= floor && base.revision() <= at && base.revision() >= floor);
                    let state = read_state(&mut *reader, at);
                    assert_eq!(objects_of(&state), bench.naive.objects_at(at), "the state at {at}");
                }
                Err(error) => {
                    assert!(at < floor, "{at} is not before {floor}");
                    assert_eq!(is_compacted(Err(error)), Some(floor));
                }
            }
        }
    }
}

/// The commits between two revisions.
pub(super) fn read_tail(reader: &mut dyn LogReader, after: Revision, until: Revision) -> Vec<Commit> {
    let mut commits = Vec::new();
    reader.tail(after, until, &mut |commit| commits.push(commit)).expect("nothing is compacted");
    commits
}

/// The state at a revision, from the base before it.
pub(super) fn read_state(reader: &mut dyn LogReader, at: Revision) -> setpoint_store::Snapshot {
    let base = reader.base(at).expect("it is not compacted");
    let mut commits = crate::naive::commits_of(&base);
    commits.extend(read_tail(reader, base.revision(), at));
    snapshot_of(commits)
}
