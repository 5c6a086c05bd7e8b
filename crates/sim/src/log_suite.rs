//! Conformance suite for logs.
//!
//! Each claim is a function that panics if a log violates it. A log takes part by implementing [`LogFactory`]; the
//! macro [`log_claims!`](crate::log_claims) makes one test per claim. After each claim the content of the log is
//! compared with a [`NaiveLog`], commit by commit and byte by byte.

mod appending;
mod compacting;
mod random;
mod reading;

use setpoint_api::{Key, Resource, Revision, Time};
use setpoint_store::commit::{Commit, Proposal};
use setpoint_store::log::{Log, LogError, MaintenanceTask, Replay, Verdict};
use setpoint_store::{CommitCause, Draft, Precondition, RejectReason, Snapshot};

pub use appending::*;
pub use compacting::*;
pub use random::*;
pub use reading::*;

use crate::naive::{NaiveLog, objects_of};

/// Revision after all others.
const END: Revision = Revision(u64::MAX);

/// Creates the logs under test.
pub trait LogFactory {
    /// Returns an empty log that is not replayed yet.
    fn create(&mut self) -> Box<dyn Log>;

    /// Closes a log and reopens it, not replayed yet. Returns the log unchanged as an error if its content would be
    /// lost.
    fn reopen(&mut self, log: Box<dyn Log>) -> Result<Box<dyn Log>, Box<dyn Log>>;
}

/// Makes one test per claim of the suite, on the factory that the expression returns.
#[macro_export]
macro_rules! log_claims {
    ($factory:expr) => {
        $crate::log_claims! { $factory =>
            empty_log_holds_nothing
            revisions_count_from_one_without_gaps
            every_kind_of_precondition_is_checked
            preconditions_see_the_commits_before_them_in_the_batch
            guards_are_checked_in_order_and_write_nothing
            conflict_names_the_key_and_both_revisions
            rejected_proposal_leaves_no_trace
            commit_is_atomic
            two_keys_of_one_resource_are_rejected
            chained_proposals_are_admitted_or_rejected_together
            invalid_proposals_are_rejected
            largest_commit_is_admitted
            delete_of_a_missing_key_is_rejected
            batch_may_be_empty_or_rejected_as_a_whole
            acknowledged_commits_are_read_in_order
            reading_twice_returns_the_same
            every_part_of_a_commit_is_read_back_exactly
            tail_starts_and_ends_at_any_revision
            tail_after_the_end_is_empty
            reader_sees_commits_appended_after_it_was_opened
            concurrent_reader_sees_a_prefix_of_the_commits
            base_is_no_newer_than_requested
            compaction_keeps_state_and_revision
            compaction_of_an_empty_log_changes_nothing
            second_compaction_changes_nothing
            appends_continue_between_compactions
            commits_made_during_a_compaction_are_kept
            late_compaction_does_not_undo_a_newer_one
            abandoned_compaction_changes_nothing
            revisions_before_the_floor_are_reported_as_compacted
            publishing_and_maintenance_lose_nothing
            random_batches_match_the_reference_log
        }
    };
    ($factory:expr => $($claim:ident)*) => {
        $(#[test]
        fn $claim() {
            $crate::log_suite::$claim(&mut $factory);
        })*
    };
}

/// Log under test with its expected content.
pub(crate) struct LogTest<'a> {
    factory: &'a mut dyn LogFactory,
    log: Option<Box<dyn Log>>,
    naive: NaiveLog,
}

impl<'a> LogTest<'a> {
    fn new(factory: &'a mut dyn LogFactory) -> LogTest<'a> {
        let mut log = factory.create();
        let replayed = replay(&mut *log);
        assert_eq!((replayed.base.revision(), replayed.commits.len()), (Revision::ZERO, 0), "not empty");
        LogTest { factory, log: Some(log), naive: NaiveLog::default() }
    }

    fn log(&mut self) -> &mut dyn Log {
        self.log.as_deref_mut().expect("a log is open")
    }

    /// Appends a batch, and applies the admitted proposals to the reference.
    fn append(&mut self, batch: &[Proposal]) -> Vec<Verdict> {
        let log = self.log.as_deref_mut().expect("a log is open");
        let verdicts = log.append(batch, &self.naive).expect("the log accepts a batch");
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
        self.append(&[proposal]).remove(0).expect("the proposal is valid")
    }

    /// Appends one proposal that must be rejected.
    fn rejected(&mut self, proposal: Proposal) -> RejectReason {
        self.append(&[proposal]).remove(0).expect_err("this must be rejected")
    }

    /// Compares the content, by a reader and, if the log is persistent, after reopening it.
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

    /// Closes and reopens the log. Returns `false` if it is not persistent.
    fn reopen(&mut self) -> bool {
        let log = self.log.take().expect("a log is open");
        match self.factory.reopen(log) {
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

/// Result of a replay.
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
    Proposal::new(CommitCause::default(), Time(7))
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
        Err(other) => panic!("neither readable nor compacted: {other}"),
    }
}
