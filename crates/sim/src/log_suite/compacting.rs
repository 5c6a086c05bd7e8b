//! Claims about compaction.

use setpoint_api::{Revision, Time};
use setpoint_store::{Draft, Precondition};

use super::reading::{read_state, read_tail};
use super::{END, LogFactory, LogTest, compacted_floor, delete, pod, proposal, put};
use crate::naive::objects_of;

fn some_commits(test: &mut LogTest<'_>, round: usize) {
    test.append(&[
        put("a/x", Precondition::Any, &format!("x{round}")),
        put(&format!("a/{round}"), Precondition::Absent, "new"),
        proposal().put(
            pod("a/e"),
            Precondition::Any,
            Draft::with_revision_at("{}", 1).expires(Time(round as i64)),
        ),
    ]);
}

/// Objects and revision stay the same, also if the last commit was a delete.
pub fn compaction_keeps_state_and_revision(factory: &mut dyn LogFactory) {
    let mut test = LogTest::new(factory);
    some_commits(&mut test, 0);
    test.append(&[
        delete("a/x", Precondition::Any),
        delete("a/0", Precondition::Any),
        delete("a/e", Precondition::Any),
    ]);
    let head = test.naive.head();
    test.compact();
    test.check();
    let base = test.log().reader().base(END).expect("there is a base");
    assert_eq!((base.revision(), base.len()), (head, 0), "the base is at the newest revision");
    test.check();
    assert_eq!(test.commit(put("a/x", Precondition::Absent, "again")), head.next());
    test.check();
}

/// Compacting an empty log is no error.
pub fn compaction_of_an_empty_log_changes_nothing(factory: &mut dyn LogFactory) {
    let mut test = LogTest::new(factory);
    test.compact();
    test.check();
    test.compact();
    assert_eq!(test.commit(put("a/x", Precondition::Absent, "1")), Revision(1));
    test.check();
    test.compact();
    test.check();
}

/// A second compaction finds nothing to do.
pub fn second_compaction_changes_nothing(factory: &mut dyn LogFactory) {
    let mut test = LogTest::new(factory);
    some_commits(&mut test, 0);
    test.compact();
    let stat = test.log().stat();
    test.compact();
    assert_eq!(test.log().stat().floor, stat.floor);
    test.check();
    test.compact();
    test.check();
}

/// Rounds of appends and compactions, with the log reopened in between.
pub fn appends_continue_between_compactions(factory: &mut dyn LogFactory) {
    let mut test = LogTest::new(factory);
    let mut floor = Revision::ZERO;
    for round in 0..6 {
        some_commits(&mut test, round);
        if round % 2 == 1 {
            test.reopen();
        }
        test.compact();
        some_commits(&mut test, 100 + round);
        test.check();
        let now = test.log().stat().floor;
        assert!(now >= floor, "the floor went back from {floor} to {now}");
        floor = now;
    }
}

/// The task runs beside the writer, and keeps what is committed meanwhile.
pub fn commits_made_during_a_compaction_are_kept(factory: &mut dyn LogFactory) {
    let mut test = LogTest::new(factory);
    some_commits(&mut test, 0);
    let chore = test.maintenance_task();
    some_commits(&mut test, 1);
    test.check_reader();
    chore.run().expect("a compaction can be done");
    test.check_reader();
    some_commits(&mut test, 2);
    test.check();
}

/// Of two compactions in progress, the older one must not replace the newer base.
pub fn late_compaction_does_not_undo_a_newer_one(factory: &mut dyn LogFactory) {
    let mut test = LogTest::new(factory);
    some_commits(&mut test, 0);
    let late = test.maintenance_task();
    some_commits(&mut test, 1);
    test.compact();
    let base = test.log().reader().base(END).expect("there is a base").revision();
    some_commits(&mut test, 2);
    late.run().expect("it has nothing to do");
    test.check_reader();
    let now = test.log().reader().base(END).expect("there is a base").revision();
    assert_eq!(now, base, "the newest base stays");
    let (floor, head) = (test.log().stat().floor, test.naive.head());
    for at in (floor.0..=head.0).map(Revision) {
        let state = read_state(&mut *test.log().reader(), at);
        assert_eq!(objects_of(&state), test.naive.objects_at(at), "the state at {at}");
    }
    test.check();
}

/// A process may end between starting a compaction and running it.
pub fn abandoned_compaction_changes_nothing(factory: &mut dyn LogFactory) {
    let mut test = LogTest::new(factory);
    for round in 0..3 {
        some_commits(&mut test, round);
        drop(test.maintenance_task());
        test.check();
    }
    test.compact();
    test.check();
}

/// Reads before the floor report `Compacted` with the floor; reads from it on succeed.
pub fn revisions_before_the_floor_are_reported_as_compacted(factory: &mut dyn LogFactory) {
    let mut test = LogTest::new(factory);
    for round in 0..4 {
        some_commits(&mut test, round);
        test.compact();
        some_commits(&mut test, 10 + round);
        let (floor, head) = (test.log().stat().floor, test.naive.head());
        let mut reader = test.log().reader();
        for after in (0..head.0).map(Revision) {
            if after < floor {
                let tail = reader.tail(after, END, &mut |_| panic!("a commit from before the floor"));
                assert_eq!(compacted_floor(tail), Some(floor));
                assert_eq!(compacted_floor(reader.base(after).map(drop)), Some(floor));
            } else {
                assert_eq!(read_tail(&mut *reader, after, END), test.naive.between(after, END));
            }
        }
        drop(reader);
        test.check();
    }
}

/// A log may take over published snapshots and run its maintenance at any time.
pub fn publishing_and_maintenance_lose_nothing(factory: &mut dyn LogFactory) {
    let mut test = LogTest::new(factory);
    for n in 0..12 {
        let large = Draft::new(vec![n; 200_000]);
        test.commit(proposal().put(pod(&format!("a/{}", n % 5)), Precondition::Any, large));
        let snapshot = test.naive.snapshot();
        test.log().published(&snapshot);
        while let Some(chore) =
            test.log().maintenance_task(&snapshot, Time(1)).expect("maintenance can be started")
        {
            chore.run().expect("maintenance can be done");
        }
        assert!(!test.log().needs_maintenance(), "nothing is left to do");
        test.check_reader();
    }
    test.check();
}
