//! One suite for every log.
//!
//! Each claim is a function that panics when a log breaks it. A log takes part by implementing [`Subject`]; the
//! macro [`log_claims!`](crate::log_claims) makes a test of every claim, so that a failure names both. What a
//! log holds is compared with [`Naive`], commit by commit and bit by bit, after every claim's work.

mod appending;
mod compacting;
mod random;
mod reading;

use setpoint_api::{Key, Resource, Revision, Time};
use setpoint_store::commit::{Commit, Proposal};
use setpoint_store::log::{Log, LogError, MaintenanceTask, Replay, Verdict};
use setpoint_store::{Cause, Draft, Precondition, RejectReason, Snapshot};

pub use appending::*;
pub use compacting::*;
pub use random::*;
pub use reading::*;

use crate::naive::{Naive, objects_of};

/// After everything.
const END: Revision = Revision(u64::MAX);

/// Makes the logs that the claims are tried on.
pub trait Subject {
    /// A log that holds nothing, not yet replayed.
    fn fresh(&mut self) -> Box<dyn Log>;

    /// Lets go of a log and opens it again, not yet replayed; gives it back as it is if it would be lost.
    fn reopen(&mut self, log: Box<dyn Log>) -> Result<Box<dyn Log>, Box<dyn Log>>;
}

/// Makes a test of each claim of the suite, on the subject that the expression gives.
#[macro_export]
macro_rules! log_claims {
    ($subject:expr) => {
        $crate::log_claims! { $subject =>
            an_empty_log_holds_nothing
            revisions_count_from_one_without_gaps
            every_kind_of_precondition_is_judged
            preconditions_see_the_commits_before_them_in_the_batch
            guards_are_judged_in_order_and_change_nothing
            a_conflict_names_the_key_and_both_revisions
            a_refused_proposal_leaves_no_trace
            a_commit_is_all_or_nothing
            two_keys_of_one_resource_are_refused
            what_is_made_together_is_admitted_or_refused_together
            what_no_state_could_admit_is_refused
            the_largest_commit_is_admitted
            a_delete_of_nothing_is_refused
            a_batch_may_be_empty_or_refused_as_a_whole
            what_was_acknowledged_comes_back_in_order
            reading_twice_gives_the_same
            every_part_of_a_commit_comes_back_bit_for_bit
            a_tail_starts_and_ends_at_any_revision
            a_tail_from_past_the_end_is_empty
            a_reader_sees_what_was_appended_after_it_was_made
            a_reader_beside_the_writer_sees_a_prefix
            the_base_is_no_newer_than_asked
            compaction_keeps_state_and_revision
            compaction_of_an_empty_log_changes_nothing
            compaction_twice_in_a_row_is_as_good_as_once
            appends_go_on_between_compactions
            commits_made_during_a_compaction_are_kept
            a_late_compaction_does_not_undo_a_newer_one
            a_compaction_that_was_given_up_changes_nothing
            what_lies_before_the_floor_is_called_compacted
            publishing_and_chores_lose_nothing
            random_batches_give_what_a_list_would
        }
    };
    ($subject:expr => $($claim:ident)*) => {
        $(#[test]
        fn $claim() {
            $crate::log_suite::$claim(&mut $subject);
        })*
    };
}

/// A log under test, and what it should hold.
pub(crate) struct Bench<'a> {
    subject: &'a mut dyn Subject,
    log: Option<Box<dyn Log>>,
    naive: Naive,
}

impl<'a> Bench<'a> {
    fn new(subject: &'a mut dyn Subject) -> Bench<'a> {
        let mut log = subject.fresh();
        let replayed = replay(&mut *log);
        assert_eq!((replayed.base.revision(), replayed.commits.len()), (Revision::ZERO, 0), "not fresh");
        Bench { subject, log: Some(log), naive: Naive::default() }
    }

    fn log(&mut self) -> &mut dyn Log {
        self.log.as_deref_mut().expect("there is a log between claims")
    }

    /// Appends a batch, and notes what was admitted.
    fn append(&mut self, batch: &[Proposal]) -> Vec<Verdict> {
        let log = self.log.as_deref_mut().expect("there is a log between claims");
        let verdicts = log.append(batch, &self.naive).expect("the log takes a batch");
        assert_eq!(verdicts.len(), batch.len(), "a verdict for each proposal");
        for (proposal, verdict) in batch.iter().zip(&verdicts) {
            if let Ok(revision) = verdict {
                assert_eq!(*revision, self.naive.head().next(), "revisions are consecutive");
                self.naive.admit(proposal);
            }
        }
        verdicts
    }

    /// Appends one proposal that must be admitted.
    fn commit(&mut self, proposal: Proposal) -> Revision {
        self.append(&[proposal]).remove(0).expect("nothing speaks against it")
    }

    /// Appends one proposal that must be refused.
    fn refused(&mut self, proposal: Proposal) -> RejectReason {
        self.append(&[proposal]).remove(0).expect_err("this must be refused")
    }

    /// Reads everything back, by a reader and, where the log outlives its handle, by opening it again.
    fn check(&mut self) {
        self.check_reader();
        if self.reopen() {
            self.check_reader();
        }
    }

    fn check_reader(&mut self) {
        let mut reader = self.log().reader();
        let base = reader.base(END).expect("there is always a base");
        let mut commits = Vec::new();
        reader.tail(base.revision(), END, &mut |commit| commits.push(commit)).expect("the tail of the base");
        self.check_parts(&base, &commits);
        let mut tail = Vec::new();
        self.log().tail(base.revision(), &mut |commit| tail.push(commit)).expect("the tail of the base");
        assert_eq!(tail, commits, "log and reader agree");
    }

    fn check_parts(&self, base: &Snapshot, commits: &[Commit]) {
        assert!(base.revision() <= self.naive.head(), "the base is not ahead");
        assert_eq!(
            objects_of(base),
            self.naive.objects_at(base.revision()),
            "the base at {}",
            base.revision()
        );
        assert_eq!(
            commits,
            self.naive.between(base.revision(), END),
            "the commits after {}",
            base.revision()
        );
    }

    /// Ends the log and opens it again; false if it would not outlive that.
    fn reopen(&mut self) -> bool {
        let log = self.log.take().expect("there is a log between claims");
        match self.subject.reopen(log) {
            Ok(mut log) => {
                let replayed = replay(&mut *log);
                self.log = Some(log);
                self.check_parts(&replayed.base, &replayed.commits);
                true
            }
            Err(log) => {
                self.log = Some(log);
                false
            }
        }
    }

    fn maintenance_task(&mut self) -> Box<dyn MaintenanceTask> {
        let snapshot = self.naive.snapshot();
        self.log().compact(&snapshot, Time(1)).expect("a compaction can be started")
    }

    fn compact(&mut self) {
        self.maintenance_task().run().expect("a compaction can be done");
    }
}

/// What a replay gave.
#[derive(Default)]
struct Replayed {
    base: Snapshot,
    commits: Vec<Commit>,
}

impl Replay for Replayed {
    fn base(&mut self, snapshot: Snapshot) {
        assert!(self.commits.is_empty(), "the base comes first");
        self.base = snapshot;
    }

    fn commit(&mut self, commit: Commit) {
        self.commits.push(commit);
    }
}

fn replay(log: &mut dyn Log) -> Replayed {
    let mut replayed = Replayed::default();
    log.replay(&mut replayed).expect("the log can be read back");
    replayed
}

fn resource(name: &str) -> Resource {
    Resource::new(name).expect("a plain word")
}

fn key(resource_name: &str, path: &str) -> Key {
    Key::from_path(&resource(resource_name), path).expect("a plain path")
}

fn pod(path: &str) -> Key {
    key("pods", path)
}

fn proposal() -> Proposal {
    Proposal::new(Cause::default(), Time(7))
}

fn put(path: &str, expect: Precondition, value: &str) -> Proposal {
    proposal().put(pod(path), expect, Draft::new(value.to_owned()))
}

fn delete(path: &str, expect: Precondition) -> Proposal {
    proposal().delete(pod(path), expect)
}

fn is_compacted(result: Result<(), LogError>) -> Option<Revision> {
    match result {
        Ok(()) => None,
        Err(LogError::Compacted { floor }) => Some(floor),
        Err(other) => panic!("neither there nor compacted: {other}"),
    }
}
