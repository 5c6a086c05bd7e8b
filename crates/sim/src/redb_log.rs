//! Log on redb: a second implementation, to compare the disk log with.
//!
//! It shares the encoding of commits with the product's logs, and nothing else: pages, checksums and recovery are
//! those of redb, so that a bug of the disk log does not hide in both. It keeps one
//! base, the snapshot of the last compaction, and no commits before it.

use std::sync::Arc;
use std::{fmt, io};

use bytes::Bytes;
use redb::backends::InMemoryBackend;
use redb::{Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition, WriteTransaction};
use setpoint_api::{Revision, Time};
use setpoint_store::Snapshot;
use setpoint_store::commit::{Commit, Proposal};
use setpoint_store::log::{
    CurrentRevisions, Interner, Log, LogError, LogReader, LogStat, MaintenanceTask, Replay, Verdict, decide,
    decode_commit, encode_commit,
};

use crate::naive::{commits_of, snapshot_of};

/// Commits after the base, by revision.
const COMMITS: TableDefinition<u64, &[u8]> = TableDefinition::new("commits");
/// Commits whose replay gives the base. The last of them has the revision of the base.
const BASE: TableDefinition<u64, &[u8]> = TableDefinition::new("base");
const CACHE_BYTES: usize = 8 << 20;

/// Log in a redb database.
pub struct RedbLog {
    database: Arc<Database>,
    syncs: u64,
}

impl RedbLog {
    /// Opens the log in `backend`, which may be empty.
    ///
    /// # Errors
    /// If redb cannot read the backend.
    pub fn open(backend: impl StorageBackend) -> Result<RedbLog, LogError> {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        let database = builder.create_with_backend(backend).map_err(engine_error)?;
        let log = RedbLog { database: Arc::new(database), syncs: 0 };
        // Readers require both tables.
        log.in_transaction(|transaction| {
            transaction.open_table(COMMITS).map_err(engine_error)?;
            transaction.open_table(BASE).map_err(engine_error)?;
            Ok(())
        })?;
        Ok(log)
    }

    /// Runs `work` in a durable transaction.
    fn in_transaction(
        &self,
        work: impl FnOnce(&WriteTransaction) -> Result<(), LogError>,
    ) -> Result<(), LogError> {
        in_transaction(&self.database, work)
    }

    fn head(&self) -> Result<Revision, LogError> {
        let transaction = self.database.begin_read().map_err(engine_error)?;
        let commits = transaction.open_table(COMMITS).map_err(engine_error)?;
        let base = transaction.open_table(BASE).map_err(engine_error)?;
        Ok(last_revision(&commits)?.max(last_revision(&base)?))
    }
}

impl Log for RedbLog {
    fn replay(&mut self, into: &mut dyn Replay) -> Result<(), LogError> {
        let mut reader = RedbReader(Arc::clone(&self.database));
        let base = reader.base(Revision(u64::MAX))?;
        let revision = base.revision();
        into.base(base);
        reader.tail(revision, Revision(u64::MAX), &mut |commit| into.commit(commit))
    }

    fn append(&mut self, batch: &[Proposal], heads: &dyn CurrentRevisions) -> Result<Vec<Verdict>, LogError> {
        let verdicts = decide(batch, heads, self.head()?, true);
        self.in_transaction(|transaction| {
            let mut commits = transaction.open_table(COMMITS).map_err(engine_error)?;
            for (proposal, verdict) in batch.iter().zip(&verdicts) {
                if let Ok(revision) = verdict {
                    let mut out = Vec::new();
                    encode_commit(&mut out, *revision, proposal.time(), proposal.writes());
                    commits.insert(revision.0, &out[..]).map_err(engine_error)?;
                }
            }
            Ok(())
        })?;
        self.syncs += 1;
        Ok(verdicts)
    }

    fn reader(&self) -> Box<dyn LogReader> {
        Box::new(RedbReader(Arc::clone(&self.database)))
    }

    fn maintenance_task(
        &mut self,
        _: &Snapshot,
        _: Time,
    ) -> Result<Option<Box<dyn MaintenanceTask>>, LogError> {
        Ok(None)
    }

    fn compact(&mut self, snapshot: &Snapshot, _: Time) -> Result<Box<dyn MaintenanceTask>, LogError> {
        Ok(Box::new(Compaction { database: Arc::clone(&self.database), base: snapshot.clone() }))
    }

    fn stat(&self) -> LogStat {
        let floor = RedbReader(Arc::clone(&self.database)).floor().unwrap_or_default();
        LogStat { floor, syncs: self.syncs, ..LogStat::default() }
    }
}

/// Compaction: makes a snapshot the base and drops the commits up to it.
struct Compaction {
    database: Arc<Database>,
    base: Snapshot,
}

impl MaintenanceTask for Compaction {
    fn run(self: Box<Self>) -> Result<(), LogError> {
        in_transaction(&self.database, |transaction| {
            let mut base = transaction.open_table(BASE).map_err(engine_error)?;
            if last_revision(&base)? >= self.base.revision() {
                return Ok(());
            }
            base.retain(|_, _| false).map_err(engine_error)?;
            for commit in commits_of(&self.base) {
                let mut out = Vec::new();
                encode_commit(&mut out, commit.revision, commit.time, commit.writes.iter());
                base.insert(commit.revision.0, &out[..]).map_err(engine_error)?;
            }
            let mut commits = transaction.open_table(COMMITS).map_err(engine_error)?;
            commits.retain_in(..=self.base.revision().0, |_, _| false).map_err(engine_error)
        })
    }
}

struct RedbReader(Arc<Database>);

impl RedbReader {
    fn floor(&self) -> Result<Revision, LogError> {
        let transaction = self.0.begin_read().map_err(engine_error)?;
        last_revision(&transaction.open_table(BASE).map_err(engine_error)?)
    }
}

impl LogReader for RedbReader {
    fn base(&mut self, at_most: Revision) -> Result<Snapshot, LogError> {
        let transaction = self.0.begin_read().map_err(engine_error)?;
        let base = transaction.open_table(BASE).map_err(engine_error)?;
        let floor = last_revision(&base)?;
        if floor > at_most {
            return Err(LogError::Compacted { floor });
        }
        let mut commits = Vec::new();
        read_commits(&base, Revision::ZERO, floor, &mut |commit| commits.push(commit))?;
        Ok(snapshot_of(commits))
    }

    fn tail(
        &mut self,
        after: Revision,
        until: Revision,
        each: &mut dyn FnMut(Commit),
    ) -> Result<(), LogError> {
        let transaction = self.0.begin_read().map_err(engine_error)?;
        let floor = last_revision(&transaction.open_table(BASE).map_err(engine_error)?)?;
        if after < floor {
            return Err(LogError::Compacted { floor });
        }
        read_commits(&transaction.open_table(COMMITS).map_err(engine_error)?, after, until, each)
    }
}

fn in_transaction(
    database: &Database,
    work: impl FnOnce(&WriteTransaction) -> Result<(), LogError>,
) -> Result<(), LogError> {
    let transaction = database.begin_write().map_err(engine_error)?;
    work(&transaction)?;
    transaction.commit().map_err(engine_error)
}

/// Last revision of a table; 0 if it is empty.
fn last_revision(table: &impl ReadableTable<u64, &'static [u8]>) -> Result<Revision, LogError> {
    let last = table.last().map_err(engine_error)?;
    Ok(last.map_or(Revision::ZERO, |(revision, _)| Revision(revision.value())))
}

fn read_commits(
    table: &impl ReadableTable<u64, &'static [u8]>,
    after: Revision,
    until: Revision,
    each: &mut dyn FnMut(Commit),
) -> Result<(), LogError> {
    let mut names = Interner::default();
    if until <= after {
        return Ok(());
    }
    for entry in table.range(after.0 + 1..=until.0).map_err(engine_error)? {
        let (_, bytes) = entry.map_err(engine_error)?;
        let mut bytes = Bytes::copy_from_slice(bytes.value());
        each(decode_commit(&mut bytes, &mut names).map_err(engine_error)?);
    }
    Ok(())
}

fn engine_error(error: impl fmt::Display) -> LogError {
    LogError::Engine(error.to_string())
}

/// Memory that outlives the database in it, so that a log can be reopened.
#[derive(Clone, Debug, Default)]
pub struct SharedMemory(Arc<InMemoryBackend>);

impl StorageBackend for SharedMemory {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        StorageBackend::read(&*self.0, offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        StorageBackend::write(&*self.0, offset, data)
    }
}
