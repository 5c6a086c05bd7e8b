//! What compaction may do, and what not.

use setpoint_api::{Revision, Time};
use setpoint_store::{Draft, Precondition};

use super::reading::{read_state, read_tail};
use super::{Bench, END, Subject, delete, is_compacted, pod, proposal, put};
use crate::naive::objects_of;

fn some_commits(bench: &mut Bench<'_>, round: usize) {
    bench.append(&[
        put("a/x", Precondition::Any, &format!("x{round}")),
        put(&format!("a/{round}"), Precondition::Absent, "new"),
        proposal().put(
            pod("a/e"),
            Precondition::Any,
            Draft::with_revision_at("{}", 1).expires(Time(round as i64)),
        ),
    ]);
}

/// The objects are the same, and the next revision is the next one, even when the last commit was a delete.
pub fn compaction_keeps_state_and_revision(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    some_commits(&mut bench, 0);
    bench.append(&[
        delete("a/x", Precondition::Any),
        delete("a/0", Precondition::Any),
        delete("a/e", Precondition::Any),
    ]);
    let head = bench.naive.head();
    bench.compact();
    bench.check();
    let base = bench.log().reader().base(END).expect("there is a base");
    assert_eq!((base.revision(), base.len()), (head, 0), "the base is at the newest revision");
    bench.check();
    assert_eq!(bench.commit(put("a/x", Precondition::Absent, "again")), head.next());
    bench.check();
}

/// There is nothing to fold, and that is no error.
pub fn compaction_of_an_empty_log_changes_nothing(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    bench.compact();
    bench.check();
    bench.compact();
    assert_eq!(bench.commit(put("a/x", Precondition::Absent, "1")), Revision(1));
    bench.check();
    bench.compact();
    bench.check();
}

/// The second finds the first one's work.
pub fn compaction_twice_in_a_row_is_as_good_as_once(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    some_commits(&mut bench, 0);
    bench.compact();
    let stat = bench.log().stat();
    bench.compact();
    assert_eq!(bench.log().stat().floor, stat.floor);
    bench.check();
    bench.compact();
    bench.check();
}

/// Rounds of both, with the log opened again in between.
pub fn appends_go_on_between_compactions(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    let mut floor = Revision::ZERO;
    for round in 0..6 {
        some_commits(&mut bench, round);
        if round % 2 == 1 {
            bench.reopen();
        }
        bench.compact();
        some_commits(&mut bench, 100 + round);
        bench.check();
        let now = bench.log().stat().floor;
        assert!(now >= floor, "the floor went back from {floor} to {now}");
        floor = now;
    }
}

/// The chore runs beside the writer: what comes meanwhile is not its business.
pub fn commits_made_during_a_compaction_are_kept(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    some_commits(&mut bench, 0);
    let chore = bench.maintenance_task();
    some_commits(&mut bench, 1);
    bench.check_reader();
    chore.run().expect("a compaction can be done");
    bench.check_reader();
    some_commits(&mut bench, 2);
    bench.check();
}

/// Should two ever be under way, the older one finds that it is too late.
pub fn a_late_compaction_does_not_undo_a_newer_one(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    some_commits(&mut bench, 0);
    let late = bench.maintenance_task();
    some_commits(&mut bench, 1);
    bench.compact();
    let base = bench.log().reader().base(END).expect("there is a base").revision();
    some_commits(&mut bench, 2);
    late.run().expect("it has nothing to do");
    bench.check_reader();
    let now = bench.log().reader().base(END).expect("there is a base").revision();
    assert_eq!(now, base, "the newest base stays");
    let (floor, head) = (bench.log().stat().floor, bench.naive.head());
    for at in (floor.0..=head.0).map(Revision) {
        let state = read_state(&mut *bench.log().reader(), at);
        assert_eq!(objects_of(&state), bench.naive.objects_at(at), "the state at {at}");
    }
    bench.check();
}

/// A process may end between starting a compaction and doing it.
pub fn a_compaction_that_was_given_up_changes_nothing(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    for round in 0..3 {
        some_commits(&mut bench, round);
        drop(bench.maintenance_task());
        bench.check();
    }
    bench.compact();
    bench.check();
}

/// Before the floor there is a clear answer, from it on there is everything.
pub fn what_lies_before_the_floor_is_called_compacted(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    for round in 0..4 {
        some_commits(&mut bench, round);
        bench.compact();
        some_commits(&mut bench, 10 + round);
        let (floor, head) = (bench.log().stat().floor, bench.naive.head());
        let mut reader = bench.log().reader();
        for after in (0..head.0).map(Revision) {
            if after < floor {
                let tail = reader.tail(after, END, &mut |_| panic!("a commit from before the floor"));
                assert_eq!(is_compacted(tail), Some(floor));
                assert_eq!(is_compacted(reader.base(after).map(drop)), Some(floor));
            } else {
                assert_eq!(read_tail(&mut *reader, after, END), bench.naive.between(after, END));
            }
        }
        drop(reader);
        bench.check();
    }
}

/// A log may take over the mirror's own snapshot and do its chores whenever it likes.
pub fn publishing_and_chores_lose_nothing(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    for n in 0..12 {
        let large = Draft::new(vec![n; 200_000]);
        bench.commit(proposal().put(pod(&format!("a/{}", n % 5)), Precondition::Any, large));
        let snapshot = bench.naive.snapshot();
        bench.log().published(&snapshot);
        while let Some(chore) =
            bench.log().maintenance_task(&snapshot, Time(1)).expect("a chore can be started")
        {
            chore.run().expect("a chore can be done");
        }
        assert!(!bench.log().needs_maintenance(), "nothing is left to do");
        bench.check_reader();
    }
    bench.check();
}
