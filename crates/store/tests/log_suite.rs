//! Conformance of all logs: runs `setpoint_sim::log_suite` on each of them.

use std::sync::Arc;

use redb::backends::FileBackend;
use setpoint_api::{Key, Revision, Time};
use setpoint_sim::log_suite::LogFactory;
use setpoint_sim::redb_log::{RedbLog, SharedMemory};
use setpoint_sim::sim_sealer::SimSealer;
use setpoint_store::disk::OsDisk;
use setpoint_store::log::disk::DiskOptions;
use setpoint_store::log::{
    CurrentRevisions, DiskLog, Log, LogError, LogReader, LogStat, MaintenanceTask, MemoryLog, Replay, Verdict,
};
use setpoint_store::{Proposal, Retention, Snapshot};
use tempfile::TempDir;

mod memory {
    setpoint_sim::log_claims!(super::Memory);
}

mod shared_memory {
    setpoint_sim::log_claims!(super::Shared::default());
}

mod disk {
    setpoint_sim::log_claims!(super::Disk::new(1 << 30));
}

mod disk_without_history {
    setpoint_sim::log_claims!(super::Disk::new(0));
}

mod disk_with_sealed_resources {
    setpoint_sim::log_claims!(super::Disk::sealed(1 << 30));
}

mod redb_in_memory {
    setpoint_sim::log_claims!(super::RedbInMemory::default());
}

mod redb_in_a_file {
    setpoint_sim::log_claims!(super::RedbInFile::new());
}

struct Memory;

impl LogFactory for Memory {
    fn create(&mut self) -> Box<dyn Log> {
        Box::new(MemoryLog::default())
    }

    fn reopen(&mut self, log: Box<dyn Log>) -> Result<Box<dyn Log>, Box<dyn Log>> {
        Err(log)
    }
}

/// Two handles of one shared log; reopening takes two new ones.
#[derive(Default)]
struct Shared {
    kept: MemoryLog,
}

impl Shared {
    fn pair(&mut self) -> Box<dyn Log> {
        Box::new(AlternatingLog { handles: [self.kept.share(), self.kept.share()], turn: 0 })
    }
}

impl LogFactory for Shared {
    fn create(&mut self) -> Box<dyn Log> {
        self.kept = MemoryLog::default();
        self.pair()
    }

    fn reopen(&mut self, log: Box<dyn Log>) -> Result<Box<dyn Log>, Box<dyn Log>> {
        drop(log);
        Ok(self.pair())
    }
}

/// Two alternating writers without the current state: a shared log decides by its own.
struct AlternatingLog {
    handles: [MemoryLog; 2],
    turn: usize,
}

/// Lookup that finds no key.
struct EmptyRevisions;

impl CurrentRevisions for EmptyRevisions {
    fn current_revision(&self, _: &Key) -> Option<Revision> {
        None
    }
}

impl AlternatingLog {
    fn next(&mut self) -> &mut MemoryLog {
        self.turn += 1;
        &mut self.handles[self.turn % 2]
    }
}

impl Log for AlternatingLog {
    fn replay(&mut self, into: &mut dyn Replay) -> Result<(), LogError> {
        self.next().replay(into)
    }

    fn append(&mut self, batch: &[Proposal], _: &dyn CurrentRevisions) -> Result<Vec<Verdict>, LogError> {
        let handle = self.next();
        assert!(handle.is_shared());
        handle.append(batch, &EmptyRevisions)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn reader(&self) -> Box<dyn LogReader> {
        self.handles[self.turn % 2].reader()
    }

    fn published(&mut self, snapshot: &Snapshot) {
        self.next().published(snapshot);
    }

    fn needs_maintenance(&self) -> bool {
        self.handles[0].needs_maintenance()
    }

    fn maintenance_task(
        &mut self,
        snapshot: &Snapshot,
        now: Time,
    ) -> Result<Option<Box<dyn MaintenanceTask>>, LogError> {
        self.next().maintenance_task(snapshot, now)
    }

    fn compact(&mut self, snapshot: &Snapshot, now: Time) -> Result<Box<dyn MaintenanceTask>, LogError> {
        self.next().compact(snapshot, now)
    }

    fn stat(&self) -> LogStat {
        self.handles[0].stat()
    }
}

/// Disk log in a temporary directory, with segments so small that it has many.
struct Disk {
    dir: TempDir,
    options: DiskOptions,
}

impl Disk {
    fn new(cold_bytes: u64) -> Disk {
        let options = DiskOptions {
            segment_bytes_min: 4 << 10,
            segment_bytes_max: 64 << 10,
            compact_bytes_min: 1 << 20,
            reserve_bytes: 4 << 10,
            retention: Retention { cold_bytes, ..Retention::default() },
            entropy: 0x1ce,
            sealer: None,
        };
        Disk { dir: tempfile::tempdir().expect("a temporary directory can be used"), options }
    }

    fn sealed(cold_bytes: u64) -> Disk {
        let mut disk = Disk::new(cold_bytes);
        disk.options.sealer = Some(SimSealer::new(None, &["key"]));
        disk
    }

    fn open(&self) -> Box<dyn Log> {
        let disk = Arc::new(OsDisk::exclusive(self.dir.path()).expect("a temporary directory can be used"));
        Box::new(DiskLog::new(disk, self.options.clone()))
    }
}

impl LogFactory for Disk {
    fn create(&mut self) -> Box<dyn Log> {
        self.dir = tempfile::tempdir().expect("a temporary directory can be used");
        self.open()
    }

    fn reopen(&mut self, log: Box<dyn Log>) -> Result<Box<dyn Log>, Box<dyn Log>> {
        drop(log);
        Ok(self.open())
    }
}

#[derive(Default)]
struct RedbInMemory(SharedMemory);

impl LogFactory for RedbInMemory {
    fn create(&mut self) -> Box<dyn Log> {
        self.0 = SharedMemory::default();
        Box::new(RedbLog::open(self.0.clone()).expect("a temporary directory can be used"))
    }

    fn reopen(&mut self, log: Box<dyn Log>) -> Result<Box<dyn Log>, Box<dyn Log>> {
        drop(log);
        Ok(Box::new(RedbLog::open(self.0.clone()).expect("a temporary directory can be used")))
    }
}

struct RedbInFile(TempDir);

impl RedbInFile {
    fn new() -> RedbInFile {
        RedbInFile(tempfile::tempdir().expect("a temporary directory can be used"))
    }

    fn open(&self) -> Box<dyn Log> {
        let mut options = std::fs::OpenOptions::new();
        let file =
            options.read(true).write(true).create(true).truncate(false).open(self.0.path().join("log"));
        Box::new(
            RedbLog::open(
                FileBackend::new(file.expect("a temporary directory can be used"))
                    .expect("a temporary directory can be used"),
            )
            .expect("a temporary directory can be used"),
        )
    }
}

impl LogFactory for RedbInFile {
    fn create(&mut self) -> Box<dyn Log> {
        self.0 = tempfile::tempdir().expect("a temporary directory can be used");
        self.open()
    }

    fn reopen(&mut self, log: Box<dyn Log>) -> Result<Box<dyn Log>, Box<dyn Log>> {
        drop(log);
        Ok(self.open())
    }
}
