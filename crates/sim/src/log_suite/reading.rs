//! Claims about reading: what a log returns.

use std::sync::atomic::{AtomicBool, Ordering};

use setpoint_api::{Revision, Time};
use setpoint_store::commit::{Commit, Proposal};
use setpoint_store::log::LogReader;
use setpoint_store::{CommitCause, Draft, Precondition};

use super::{END, LogFactory, LogTest, delete, is_compacted, key, pod, proposal, put};
use crate::naive::{objects_of, snapshot_of};

/// All acknowledged commits and no others, in order, also after the log is reopened.
pub fn acknowledged_commits_are_read_in_order(factory: &mut dyn LogFactory) {
    let mut test = LogTest::new(factory);
    for n in 0..40 {
        let path = format!("a/{}", n % 7);
        test.append(&[
            put(&path, Precondition::Any, &format!("value {n}")),
            put(&path, Precondition::Absent, "rejected"),
            put("b/other", Precondition::Any, "v").put(
                key("nodes", "n"),
                Precondition::Any,
                Draft::new("node"),
            ),
        ]);
        if n % 5 == 0 {
            test.append(&[delete(&path, Precondition::Any)]);
        }
        if n % 10 == 0 {
            test.check();
        }
    }
    test.check();
}

/// Reading changes nothing.
pub fn reading_twice_returns_the_same(factory: &mut dyn LogFactory) {
    let mut test = LogTest::new(factory);
    test.append(&[
        put("a/x", Precondition::Any, "1"),
        put("a/y", Precondition::Any, "2"),
        delete("a/x", Precondition::Any),
    ]);
    for _ in 0..3 {
        test.check();
        test.reopen();
    }
    test.commit(put("a/x", Precondition::Absent, "3"));
    test.check();
}

/// Time, cause, labels, fields, hole and expiry, also with extreme values.
pub fn every_part_of_a_commit_is_read_back_exactly(factory: &mut dyn LogFactory) {
    let mut test = LogTest::new(factory);
    let cause = CommitCause {
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
        test.commit(Proposal::new(cause.clone(), time).put(pod(&format!("a/{n}")), Precondition::Any, draft));
    }
    let bytes: Vec<u8> = (0..=255).collect();
    test.append(&[
        proposal().put(pod("a/bytes"), Precondition::Any, Draft::new(bytes)),
        proposal().put(pod("a/empty"), Precondition::Any, Draft::new("")),
        proposal().put(pod("a/hole"), Precondition::Any, Draft::with_revision_at("", 0)),
        proposal().put(pod("a/zeros"), Precondition::Any, Draft::new(vec![0; 4096])),
        proposal().put(pod("a/first"), Precondition::Any, Draft::with_revision_at("abc", 0)),
        Proposal::new(cause.clone(), Time(-9)).delete(pod("a/0"), Precondition::Any),
    ]);
    for compacted in [false, true] {
        test.check();
        let snapshot = read_state(&mut *test.log().reader(), END);
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
            let last = test.naive.commits.last().expect("the delete");
            assert_eq!((last.time, last.writes[0].body.as_ref()), (Time(-9), None));
            test.compact();
        }
    }
}

/// Between any two revisions there are exactly the commits between them.
pub fn tail_starts_and_ends_at_any_revision(factory: &mut dyn LogFactory) {
    let mut test = LogTest::new(factory);
    for n in 0..12 {
        test.append(&[put("a/x", Precondition::Any, &n.to_string()), put("a/y", Precondition::Any, "y")]);
    }
    for reopened in [false, true] {
        let mut reader = test.log().reader();
        for after in (0..=24).map(Revision) {
            for until in (after.0..=24).map(Revision) {
                assert_eq!(read_tail(&mut *reader, after, until), test.naive.between(after, until));
            }
            let mut tail = Vec::new();
            test.log().tail(after, &mut |commit| tail.push(commit)).expect("nothing is compacted");
            assert_eq!(tail, test.naive.between(after, END));
        }
        drop(reader);
        if !reopened && !test.reopen() {
            break;
        }
    }
}

/// Reading after the end yields nothing and is no error.
pub fn tail_after_the_end_is_empty(factory: &mut dyn LogFactory) {
    let mut test = LogTest::new(factory);
    for commits in 0..3 {
        let mut reader = test.log().reader();
        for after in [commits, commits + 1, 1000, u64::MAX - 1, u64::MAX].map(Revision) {
            assert_eq!(read_tail(&mut *reader, after, END), [], "after {after}");
            test.log().tail(after, &mut |_| panic!("nothing comes after {after}")).expect("no error");
        }
        test.commit(put("a/x", Precondition::Any, "v"));
    }
}

/// A reader sees later commits: it is no copy.
pub fn reader_sees_commits_appended_after_it_was_opened(factory: &mut dyn LogFactory) {
    let mut test = LogTest::new(factory);
    let mut reader = test.log().reader();
    assert_eq!(read_tail(&mut *reader, Revision::ZERO, END), []);
    for n in 1..=5 {
        test.commit(put("a/x", Precondition::Any, &n.to_string()));
        assert_eq!(read_tail(&mut *reader, Revision::ZERO, END), test.naive.commits);
        assert_eq!(objects_of(&read_state(&mut *reader, END)), test.naive.objects_at(Revision(n)));
    }
}

/// Beside a writer that appends and compacts, a reader sees whole commits without gaps, or `Compacted`.
pub fn concurrent_reader_sees_a_prefix_of_the_commits(factory: &mut dyn LogFactory) {
    let mut test = LogTest::new(factory);
    let mut reader = test.log().reader();
    let done = AtomicBool::new(false);
    let views: Vec<ReaderView> = std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut views = Vec::new();
            while !done.load(Ordering::Acquire) || views.is_empty() {
                views.push(read_view(&mut *reader));
            }
            views
        });
        for n in 0..60 {
            test.append(&[
                put("a/x", Precondition::Any, &"x".repeat(n * 40)),
                put("a/y", Precondition::Any, "y"),
            ]);
            if n % 20 == 19 {
                test.compact();
            }
        }
        done.store(true, Ordering::Release);
        reading.join().expect("the reader does not panic")
    });
    let mut reached = Revision::ZERO;
    for ReaderView { base, objects, commits } in views {
        assert_eq!(objects, test.naive.objects_at(base), "the base at {base}");
        let end = commits.last().map_or(base, |commit| commit.revision);
        assert_eq!(commits, test.naive.between(base, end), "whole commits, without gaps");
        assert!(end >= reached, "the reader went back from {reached} to {end}");
        reached = end;
    }
    drop(reader);
    test.check();
}

struct ReaderView {
    base: Revision,
    objects: crate::naive::Objects,
    commits: Vec<Commit>,
}

fn read_view(reader: &mut dyn LogReader) -> ReaderView {
    loop {
        let base = reader.base(END).expect("there is always a base");
        let mut commits = Vec::new();
        // A compaction between the two calls makes the base stale: start again from the new one.
        let tail = reader.tail(base.revision(), END, &mut |commit| commits.push(commit));
        if is_compacted(tail).is_none() {
            return ReaderView { base: base.revision(), objects: objects_of(&base), commits };
        }
    }
}

/// The base is no newer than the requested revision, and its tail gives the state at that revision.
pub fn base_is_no_newer_than_requested(factory: &mut dyn LogFactory) {
    let mut test = LogTest::new(factory);
    for n in 0..4 {
        for m in 0..3 {
            test.commit(put(&format!("a/{m}"), Precondition::Any, &n.to_string()));
        }
        test.append(&[delete("a/1", Precondition::Any)]);
        test.compact();
        let floor = test.log().stat().floor;
        let mut reader = test.log().reader();
        let head = test.naive.head();
        assert_eq!(reader.base(Revision(head.0 + 2)).expect("it is not compacted").revision(), head);
        for at in (0..=head.0).map(Revision) {
            match reader.base(at) {
                Ok(base) => {
                    assert!(at >= floor && base.revision() <= at && base.revision() >= floor);
                    let state = read_state(&mut *reader, at);
                    assert_eq!(objects_of(&state), test.naive.objects_at(at), "the state at {at}");
                }
                Err(error) => {
                    assert!(at < floor, "{at} is not before {floor}");
                    assert_eq!(is_compacted(Err(error)), Some(floor));
                }
            }
        }
    }
}

/// Returns the commits between two revisions.
pub(super) fn read_tail(reader: &mut dyn LogReader, after: Revision, until: Revision) -> Vec<Commit> {
    let mut commits = Vec::new();
    reader.tail(after, until, &mut |commit| commits.push(commit)).expect("nothing is compacted");
    commits
}

/// Returns the state at a revision, from the base before it.
pub(super) fn read_state(reader: &mut dyn LogReader, at: Revision) -> setpoint_store::Snapshot {
    let base = reader.base(at).expect("it is not compacted");
    let mut commits = crate::naive::commits_of(&base);
    commits.extend(read_tail(reader, base.revision(), at));
    snapshot_of(commits)
}
