//! `setpoint store exercise`: load generator for crash tests, which prints a ledger of its operations.
//!
//! Each writer has its own keys and runs one operation at a time. It prints each operation and its outcome to the
//! standard output, each line with one system call:
//!
//! ```text
//! try WRITER NUMBER put|delete|stale KEY     before the commit; `stale` has a revision that cannot match
//! ack WRITER NUMBER REVISION                 the commit is durable
//! rejected WRITER NUMBER                     the commit was rejected
//! ```
//!
//! A test can kill the process at any moment, reopen the directory, and compare it with the ledger: acknowledged
//! operations are in the store, rejected ones are not. Numbers continue after a restart.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use setpoint_api::{Clock, Key, Resource, Revision};
use setpoint_store::log::disk::DiskOptions;
use setpoint_store::{CommitCause, CommitError, Draft, MaintenanceThread, Precondition, Proposal, Store};

use super::{EncryptionArgs, SystemClock, entropy, open_with};

/// Number of keys per writer.
const KEYS: u64 = 7;

/// Arguments of `setpoint store exercise`.
#[derive(Debug, clap::Args)]
pub struct ExerciseArgs {
    /// Data directory
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    #[command(flatten)]
    encryption: EncryptionArgs,
    /// Number of concurrent writers
    #[arg(long, default_value_t = 8)]
    writers: u64,
    /// Number of operations per writer [default: unlimited]
    #[arg(long)]
    operations: Option<u64>,
    /// Use tiny segments and checkpoints, so that rotation and compaction happen often
    #[arg(long)]
    small: bool,
}

/// Runs the command.
pub fn run(args: &ExerciseArgs) -> anyhow::Result<()> {
    let sealer = args.encryption.open()?.map(|encryption| encryption.sealer());
    let mut options = DiskOptions { entropy: entropy(), sealer, ..DiskOptions::default() };
    if args.small {
        options.segment_bytes_min = 4 << 10;
        options.segment_bytes_max = 32 << 10;
        options.compact_bytes_min = 64 << 10;
        options.retention.cold_bytes = 1 << 20;
    }
    let store = open_with(&args.data_dir, options)?;
    let report = |error: &setpoint_store::MaintenanceError| eprintln!("setpoint: {error}");
    let maintenance = MaintenanceThread::start(store.clone(), Arc::new(SystemClock), report)?;
    let resource = Resource::new("exercise")?;
    let outcome = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..args.writers)
            .map(|id| {
                let writer = Writer { id, store: &store, resource: &resource };
                scope.spawn(move || writer.run(args.operations.unwrap_or(u64::MAX)))
            })
            .collect();
        writers.into_iter().try_for_each(|writer| writer.join().expect("a writer does not panic"))
    });
    drop(maintenance);
    outcome
}

struct Writer<'a> {
    id: u64,
    store: &'a Store,
    resource: &'a Resource,
}

impl Writer<'_> {
    fn run(&self, operations: u64) -> anyhow::Result<()> {
        let start = self.last_number()? + 1;
        for number in start..start.saturating_add(operations) {
            self.run_operation(number)?;
        }
        Ok(())
    }

    /// Returns the highest number that this writer has put, from which a restart continues.
    fn last_number(&self) -> anyhow::Result<u64> {
        let counter = self.store.snapshot().get(&self.key("counter")?).map(|record| record.value());
        Ok(counter.and_then(|value| std::str::from_utf8(&value).ok()?.parse().ok()).unwrap_or(0))
    }

    fn key(&self, name: &str) -> anyhow::Result<Key> {
        Ok(Key::namespaced(self.resource, &format!("writer-{}", self.id), name)?)
    }

    /// Commits one operation: every fifth number deletes, every seventh must be rejected, the others put. Every
    /// eleventh puts the counter.
    fn run_operation(&self, number: u64) -> anyhow::Result<()> {
        let name =
            if number.is_multiple_of(11) { "counter".to_owned() } else { format!("key-{}", number % KEYS) };
        let key = self.key(&name)?;
        let present = self.store.snapshot().get(&key).map(setpoint_store::Record::revision);
        let precondition = present.map_or(Precondition::Absent, Precondition::Revision);
        let proposal = Proposal::new(CommitCause::default(), SystemClock.now());
        let text = number.to_string();
        let (operation, proposal) = if name != "counter" && number.is_multiple_of(5) && present.is_some() {
            ("delete", proposal.delete(key, precondition))
        } else if name != "counter" && number.is_multiple_of(7) {
            (
                "stale",
                proposal.put(
                    key,
                    Precondition::Revision(Revision(u64::MAX)),
                    Draft::new(format!("rejected {text}")),
                ),
            )
        } else {
            ("put", proposal.put(key, precondition, Draft::new(text)))
        };
        self.print(&format!("try {} {number} {operation} {name}\n", self.id))?;
        match self.store.commit(proposal) {
            Ok(committed) => self.print(&format!("ack {} {number} {}\n", self.id, committed.revision)),
            Err(CommitError::Rejected(_)) => self.print(&format!("rejected {} {number}\n", self.id)),
            Err(error) => Err(error.into()),
        }
    }

    fn print(&self, line: &str) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        out.write_all(line.as_bytes())?;
        Ok(out.flush()?)
    }
}
