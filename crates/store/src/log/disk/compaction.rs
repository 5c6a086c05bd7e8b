//! Compaction: folds old commits into a checkpoint, and drops history beyond its budgets.
//!
//! The order of steps makes a power cut harmless at any point: the checkpoint is durable before a segment
//! becomes history, history is durable before its segment is removed, and commits that a cut leaves in two
//! files are read once.

use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_api::{Resource, Revision, Time};
use std::collections::BTreeSet;

use super::checkpoint;
use super::files::{Files, LogFile, TEMPORARY_SUFFIX};
use super::format::{FILE_HEADER_BYTES, FileHeader, FileKind, finish_frame, start_frame};
use super::preallocation::{preallocate, write_atomically};
use super::segment::{ScanMode, scan};
use super::{RESERVE, SPARE, State};
use crate::commit::Commit;
use crate::disk::Disk;
use crate::log::wire::{CommitDecoder, encode_commit_sealed};
use crate::log::{LogError, MaintenanceTask};
use crate::mirror::Snapshot;
use crate::retention::Retention;
use crate::seal::{CheckpointKeys, KeepSealed, Sealing};

const FRAME_BYTES: usize = 256 << 10;

/// Task that preallocates the missing spare and reserve segments.
pub(super) struct PreallocateTask {
    pub disk: Arc<dyn Disk>,
    pub state: Arc<Mutex<State>>,
    pub needs_reserve: bool,
    pub needs_spare: bool,
    pub spare_bytes: u64,
    pub reserve_bytes: u64,
}

impl MaintenanceTask for PreallocateTask {
    fn run(self: Box<Self>) -> Result<(), LogError> {
        let result = self.preallocate_missing();
        self.state.lock().is_maintenance_running = false;
        result
    }
}

impl PreallocateTask {
    fn preallocate_missing(&self) -> Result<(), LogError> {
        if self.needs_reserve {
            let reserve = preallocate(&self.disk, RESERVE, self.reserve_bytes)?;
            self.state.lock().preallocated.reserve = Some(reserve);
        }
        if self.needs_spare {
            let spare = preallocate(&self.disk, SPARE, self.spare_bytes)?;
            self.state.lock().preallocated.spare = Some(spare);
        }
        let sealed = self.state.lock().sealed.take();
        match sealed.map(|file| file.sync()) {
            Some(Err(source)) => {
                Err(LogError::Io { action: "sync", file: "a sealed segment".to_owned(), source })
            }
            _ => Ok(()),
        }
    }
}

/// Task that folds everything up to a snapshot into a checkpoint.
pub(super) struct CompactTask {
    pub disk: Arc<dyn Disk>,
    pub state: Arc<Mutex<State>>,
    pub id: u64,
    pub snapshot: Snapshot,
    /// First revision of the segment in use; zero if there is none.
    pub next: Revision,
    pub retention: Retention,
    pub now: Time,
    /// First revisions of the segments that are known to hold no resource exempt from history.
    pub without_exempt: BTreeSet<Revision>,
    /// Sealing of records, and the keys with which the checkpoint seals.
    pub sealing: Option<(Arc<Sealing>, CheckpointKeys)>,
}

impl MaintenanceTask for CompactTask {
    fn run(self: Box<Self>) -> Result<(), LogError> {
        let result = self.compact();
        self.state.lock().is_maintenance_running = false;
        result
    }
}

impl CompactTask {
    fn compact(&self) -> Result<(), LogError> {
        let base = self.snapshot.revision();
        let files = Files::list(&self.disk)?;
        let sealing = self.sealing.as_ref();
        let has_stale = sealing.is_some_and(|(sealing, _)| sealing.has_stale());
        let base_bytes = match files.checkpoints.last() {
            Some(file) if file.first == base && !has_stale => length(&self.disk, &file.name())?,
            _ => {
                let sealer = sealing.map(|(sealing, _)| &**sealing.sealer());
                checkpoint::write(&self.disk, self.id, &self.snapshot, self.next, sealer)?
            }
        };
        if let Some((sealing, keys)) = sealing {
            sealing.finish_checkpoint(keys, base);
        }
        for pair in files.commit_files().windows(2) {
            let last = Revision(pair[1].first.0 - 1);
            if pair[0].kind == FileKind::Segment && last <= base && self.retention.cold_bytes > 0 {
                self.keep_history(pair[0], last)?;
            }
        }
        // The floor rises before the commits below it are removed, so that a reader never finds a gap above
        // it.
        let history_bytes = prune_history(&self.disk, &self.retention, self.now)?;
        for pair in files.segments.windows(2).filter(|pair| pair[1].first <= base.next()) {
            remove_if_exists(&self.disk, &pair[0].name())?;
        }
        let floor = Files::list(&self.disk)?.floor();
        let mut state = self.state.lock();
        state.base = base;
        state.base_bytes = base_bytes;
        state.history_bytes = history_bytes;
        state.live_bytes = state.live_bytes.saturating_sub(state.compacting_bytes);
        state.floor = floor;
        Ok(())
    }

    /// Turns a segment into history: by renaming it if it holds no exempt resource, otherwise by a copy
    /// without those.
    fn keep_history(&self, segment: &LogFile, last: Revision) -> Result<(), LogError> {
        let history = LogFile::history(segment.first, last);
        if self.without_exempt.contains(&segment.first) {
            let renamed = self.disk.rename(&segment.name(), &history.name());
            return renamed.and_then(|()| self.disk.sync_names()).map_err(|source| LogError::Io {
                action: "rename",
                file: segment.name(),
                source,
            });
        }
        let content = segment.read(&*self.disk)?;
        let mut frames = FrameBuilder { id: self.id, out: Vec::new(), frame: Vec::new(), open: None };
        let mut time = Time::EPOCH;
        // Sealed writes are copied as they are: their key need not be available.
        let decoder = CommitDecoder::new(Some(&KeepSealed));
        scan(segment, &content, ScanMode::Sealed, Revision::ZERO, decoder, &mut |commit| {
            time = time.max(commit.time);
            frames.push(remove_exempt(commit, &self.retention.exempt));
        })?;
        let header = FileHeader {
            kind: FileKind::History,
            id: self.id,
            first: segment.first,
            last,
            time,
            synced: 0,
            capacity: 0,
            next: Revision::ZERO,
        };
        let header = header.encode();
        let body = frames.finish(last);
        write_atomically(
            &self.disk,
            &format!("{}{TEMPORARY_SUFFIX}", history.name()),
            &history.name(),
            |file| {
                file.write_at(0, &header)?;
                file.write_at(FILE_HEADER_BYTES as u64, &body)
            },
        )
        .map(drop)
    }
}

fn remove_exempt(mut commit: Commit, exempt: &BTreeSet<Resource>) -> Commit {
    commit.writes.retain(|write| !exempt.contains(write.key.resource()));
    commit
}

/// Builder that packs commits into frames.
struct FrameBuilder {
    id: u64,
    out: Vec<u8>,
    frame: Vec<u8>,
    open: Option<(Revision, u32)>,
}

impl FrameBuilder {
    fn push(&mut self, commit: Commit) {
        if commit.writes.is_empty() {
            return;
        }
        let (first, count) = self.open.unwrap_or_else(|| {
            start_frame(&mut self.frame);
            (commit.revision, 0)
        });
        self.open = Some((first, count + 1));
        let writes = commit.writes.iter();
        encode_commit_sealed(&mut self.frame, commit.revision, commit.time, writes, &KeepSealed)
            .expect("writes are copied as they are");
        if self.frame.len() >= FRAME_BYTES {
            self.close();
        }
    }

    fn close(&mut self) {
        if let Some((first, count)) = self.open.take() {
            finish_frame(&mut self.frame, self.id, first, count);
            self.out.extend_from_slice(&self.frame);
        }
    }

    /// Appends a frame without commits, so that a truncated file is detected.
    fn finish(mut self, last: Revision) -> Vec<u8> {
        self.close();
        start_frame(&mut self.frame);
        self.open = Some((last, 0));
        self.close();
        self.out
    }
}

/// Drops the oldest history until it is within its budgets. Returns the bytes of history that remain.
///
/// History is readable only from a checkpoint on, so a checkpoint is dropped together with the commits up to
/// the next one.
pub(super) fn prune_history(disk: &Arc<dyn Disk>, retention: &Retention, now: Time) -> Result<u64, LogError> {
    loop {
        let files = Files::list(disk)?;
        let Some(newest) = files.checkpoints.last() else { return Ok(0) };
        let mut bytes = 0;
        for file in files.history.iter().chain(&files.checkpoints).filter(|file| *file != newest) {
            bytes += length(disk, &file.name())?;
        }
        let oldest = oldest_generation(&files, newest.first);
        let is_too_old = match oldest.iter().rev().find(|file| file.kind == FileKind::History) {
            Some(file) => now.since(last_time(disk, file)?) > retention.cold_age,
            None => false,
        };
        if oldest.is_empty() || (bytes <= retention.cold_bytes && !is_too_old) {
            return Ok(bytes);
        }
        for file in oldest {
            remove(disk, &file.name())?;
        }
    }
}

/// Returns the oldest checkpoint and the commits up to the next one, in the order in which they can be
/// removed one by one.
fn oldest_generation(files: &Files, newest: Revision) -> Vec<LogFile> {
    let has_earlier_history = files
        .history
        .first()
        .is_some_and(|file| files.checkpoints.first().is_none_or(|oldest| file.first <= oldest.first));
    let oldest = &files.checkpoints[0];
    let mut removable = Vec::new();
    let end = if has_earlier_history {
        oldest.first
    } else if oldest.first < newest {
        removable.push(oldest.clone());
        files.checkpoints[1].first
    } else {
        return removable;
    };
    removable.extend(files.history.iter().filter(|file| file.last <= end).cloned());
    removable
}

/// Returns the time of the last commit in a history file.
fn last_time(disk: &Arc<dyn Disk>, file: &LogFile) -> Result<Time, LogError> {
    let content = file.read(&**disk)?;
    if content.0.kind == FileKind::History {
        return Ok(content.0.time);
    }
    let mut time = Time::EPOCH;
    let decoder = CommitDecoder::new(Some(&KeepSealed));
    scan(file, &content, ScanMode::Sealed, Revision::ZERO, decoder, &mut |commit| {
        time = time.max(commit.time);
    })?;
    Ok(time)
}

fn remove_if_exists(disk: &Arc<dyn Disk>, name: &str) -> Result<(), LogError> {
    match remove(disk, name) {
        Err(LogError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn length(disk: &Arc<dyn Disk>, name: &str) -> Result<u64, LogError> {
    let opened = disk.open(name).and_then(|file| file.length());
    opened.map_err(|source| LogError::Io { action: "open", file: name.to_owned(), source })
}

pub(super) fn remove(disk: &Arc<dyn Disk>, name: &str) -> Result<(), LogError> {
    let removed = disk.remove(name).and_then(|()| disk.sync_names());
    removed.map_err(|source| LogError::Io { action: "remove", file: name.to_owned(), source })
}
