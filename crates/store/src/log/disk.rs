//! Log on disk.
//!
//! Commits are appended to preallocated, zeroed segments, one frame per batch; one sync makes the batch
//! durable. From time to time all objects are written to a checkpoint. The segments before it become
//! history, which is kept within its budgets. [`files`] describes the files of the directory, [`mod@format`]
//! their contents.
//!
//! Opening reads the newest checkpoint and the segments after it. Only the end of the last segment may be
//! torn, and only in the way a power cut tears it; any other damage is an error with file and position.

mod checkpoint;
mod compaction;
pub mod files;
pub mod format;
mod preallocation;
mod reader;
mod segment;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_api::{Revision, Time};

use super::wire::{CommitDecoder, encode_commit, encode_commit_sealed};
use super::{CurrentRevisions, Log, LogError, LogReader, LogStat, MaintenanceTask, Replay, Verdict, decide};
use crate::commit::{Proposal, RejectReason};
use crate::disk::{Disk, DiskFile, is_full, is_short_of_descriptors, is_transient};
use crate::mirror::Snapshot;
use crate::retention::Retention;
use crate::seal::{Sealer, Sealing};
use crate::writer::BATCH_BYTES_MAX;
use compaction::{CompactTask, PreallocateTask, prune_history, remove};
use files::{Files, LogFile, NEXT, RESERVE, SPARE};
use format::{corrupt, finish_frame, start_frame};
use preallocation::PreallocatedFile;
pub use reader::DiskReader;
use reader::missing_file;
use segment::{ScanMode, Segment, check_length, scan};

/// Maximum capacity of the frame buffer that is kept between batches. Only a batch with a larger single
/// object exceeds it.
const FRAME_CAPACITY_MAX: usize = BATCH_BYTES_MAX + (4 << 10);

/// Options of a log on disk.
#[derive(Clone)]
pub struct DiskOptions {
    /// Maximum size of a segment. The first ones are smaller, so that an empty store starts fast.
    pub segment_bytes_max: u64,
    /// Size of the first segment.
    pub segment_bytes_min: u64,
    /// Minimum bytes of commits that make a checkpoint due. With a larger state, as many bytes as its last
    /// checkpoint had.
    pub compact_bytes_min: u64,
    /// Bytes of deletes that are still accepted when the disk is full.
    pub reserve_bytes: u64,
    /// Budgets of history.
    pub retention: Retention,
    /// Random number that becomes the id of a new log.
    pub entropy: u64,
    /// Encryption of records; `None` to store them as they are.
    pub sealer: Option<Arc<dyn Sealer>>,
}

impl fmt::Debug for DiskOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskOptions")
            .field("segment_bytes_max", &self.segment_bytes_max)
            .field("segment_bytes_min", &self.segment_bytes_min)
            .field("compact_bytes_min", &self.compact_bytes_min)
            .field("reserve_bytes", &self.reserve_bytes)
            .field("retention", &self.retention)
            .field("is_sealed", &self.sealer.is_some())
            .finish_non_exhaustive()
    }
}

impl Default for DiskOptions {
    fn default() -> DiskOptions {
        DiskOptions {
            segment_bytes_max: 16 << 20,
            segment_bytes_min: 1 << 20,
            compact_bytes_min: 128 << 20,
            reserve_bytes: 1 << 20,
            retention: Retention::default(),
            entropy: 0,
            sealer: None,
        }
    }
}

/// Log on a disk. Created by [`DiskLog::new`], usable after [`Log::replay`].
pub struct DiskLog {
    disk: Arc<dyn Disk>,
    options: DiskOptions,
    id: u64,
    last_revision: Revision,
    active: Option<Segment>,
    /// Newest checkpoint at the time the log was opened.
    base_checkpoint: Option<LogFile>,
    state: Arc<Mutex<State>>,
    /// First revisions of the segments written by this process that hold no resource exempt from history.
    without_exempt: BTreeSet<Revision>,
    /// Buffer for the frame of the current batch, with a capacity of at most [`FRAME_CAPACITY_MAX`]
    /// between batches.
    frame: Vec<u8>,
    syncs: u64,
    sealing: Option<Arc<Sealing>>,
}

/// State shared by the writer and its maintenance.
#[derive(Default)]
struct State {
    preallocated: Preallocated,
    /// Segment whose header marks it as sealed; maintenance has yet to sync it.
    sealed: Option<Box<dyn DiskFile>>,
    /// `true` while maintenance runs; one task at a time.
    is_maintenance_running: bool,
    /// `true` if the last put was rejected for lack of space.
    full: bool,
    base: Revision,
    base_bytes: u64,
    live_bytes: u64,
    /// Part of `live_bytes` that the running compaction folds.
    compacting_bytes: u64,
    history_bytes: u64,
    floor: Revision,
}

/// Preallocated segments.
#[derive(Default)]
struct Preallocated {
    reserve: Option<PreallocatedFile>,
    spare: Option<PreallocatedFile>,
}

impl Preallocated {
    fn is_complete(&self) -> bool {
        self.reserve.is_some() && self.spare.is_some()
    }
}

/// Transient reason for which a frame cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shortage {
    Space,
    Descriptors,
}

impl Shortage {
    fn of(error: &LogError) -> Option<Shortage> {
        match error {
            LogError::Io { source, .. } if is_full(source) => Some(Shortage::Space),
            LogError::Io { source, .. } if is_short_of_descriptors(source) => Some(Shortage::Descriptors),
            _ => None,
        }
    }

    fn reject_reason(self) -> RejectReason {
        match self {
            Shortage::Space => RejectReason::DiskFull,
            Shortage::Descriptors => RejectReason::NoDescriptors,
        }
    }
}

impl DiskLog {
    /// Returns the log on `disk`.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, options: DiskOptions) -> DiskLog {
        DiskLog {
            disk,
            id: options.entropy,
            sealing: options.sealer.clone().map(|sealer| Arc::new(Sealing::new(sealer))),
            options,
            last_revision: Revision::ZERO,
            active: None,
            base_checkpoint: None,
            state: Arc::default(),
            without_exempt: BTreeSet::new(),
            frame: Vec::new(),
            syncs: 0,
        }
    }

    /// Creates a log on an empty disk that starts from `base`, as an import does. Returns `false` if the
    /// disk already holds a log.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn start_from(
        disk: &Arc<dyn Disk>,
        entropy: u64,
        base: &Snapshot,
        sealer: Option<&dyn Sealer>,
    ) -> Result<bool, LogError> {
        let files = Files::list(disk)?;
        if !(files.checkpoints.is_empty() && files.history.is_empty() && files.segments.is_empty()) {
            return Ok(false);
        }
        checkpoint::write(disk, entropy, base, Revision::ZERO, sealer).map(|_| true)
    }

    fn recover(&mut self, files: &Files, into: &mut dyn Replay) -> Result<(), LogError> {
        let mut state = State { floor: files.floor(), ..State::default() };
        let mut needs_next_segment = false;
        let sealing = self.sealing.clone();
        let sealing = sealing.as_deref();
        if let Some(file) = files.checkpoints.last() {
            let (snapshot, header, bytes) =
                checkpoint::read(&self.disk, file, CommitDecoder::recording(sealing))?;
            files.check_successor(&file.name(), &header)?;
            self.base_checkpoint = Some(file.clone());
            (self.id, self.last_revision) = (header.id, snapshot.revision());
            (state.base, state.base_bytes) = (self.last_revision, bytes);
            into.base(snapshot);
        } else if let Some(first) = files.segments.first()
            && first.first != Revision(1)
        {
            return Err(missing_file(first, Revision::ZERO));
        }
        for (i, file) in files.segments.iter().enumerate() {
            let next = files.segments.get(i + 1);
            if next.is_some_and(|next| next.first <= self.last_revision.next()) {
                continue;
            }
            if file.first > self.last_revision.next() {
                return Err(missing_file(file, self.last_revision));
            }
            let content = file.read(&*self.disk)?;
            if i == 0 && files.checkpoints.is_empty() {
                self.id = content.0.id;
            }
            if content.0.id != self.id {
                return Err(corrupt(&file.name(), 0, "it belongs to another log"));
            }
            let mode = if next.is_some() { ScanMode::Sealed } else { ScanMode::Last };
            if mode == ScanMode::Last {
                files.check_successor(&file.name(), &content.0)?;
                check_length(file, &content)?;
            }
            let decoder = CommitDecoder::recording(sealing);
            let end =
                scan(file, &content, mode, self.last_revision, decoder, &mut |commit| into.commit(commit))?;
            self.last_revision = self.last_revision.max(end.last);
            state.live_bytes += end.position as u64;
            if next.is_none() {
                let mut segment = Segment::resume(&self.disk, content.0, end.position as u64)?;
                segment.repair_tail(&content.1[end.position..])?;
                self.active = Some(segment);
                needs_next_segment = content.0.capacity == 0;
            }
        }
        state.history_bytes = history_bytes(&self.disk, files)?;
        *self.state.lock() = state;
        if let (true, Some(first)) = (needs_next_segment, self.active.as_ref().map(Segment::first)) {
            // Format 1 does not record that the segment is in use.
            self.record_next_segment(None, first);
        }
        Ok(())
    }

    /// Starts a new segment for the next commit. A transient failure changes nothing.
    fn rotate(&mut self, frame: usize) -> Result<(), LogError> {
        let needed_bytes = (frame + format::FILE_HEADER_BYTES) as u64;
        let spare = self.state.lock().preallocated.spare.take_if(|spare| spare.capacity() >= needed_bytes);
        if let Some(spare) = spare {
            return self.begin_segment(spare).map_err(|failed| {
                let (error, spare) = *failed;
                self.state.lock().preallocated.spare = Some(spare);
                error
            });
        }
        let capacity = self.next_capacity().max(needed_bytes.next_multiple_of(4096));
        let next = preallocation::preallocate(&self.disk, NEXT, capacity)?;
        self.syncs += 2;
        self.begin_segment(next).map_err(|failed| failed.0)
    }

    fn begin_segment(&mut self, file: PreallocatedFile) -> Result<(), Box<(LogError, PreallocatedFile)>> {
        let first = self.last_revision.next();
        let segment = preallocation::begin_segment(&self.disk, file, self.id, first)?;
        self.syncs += 2;
        self.without_exempt.insert(first);
        let previous = self.active.replace(segment);
        self.record_next_segment(previous, first);
        Ok(())
    }

    /// Records in the preceding file that the segment at `first` is in use, so that its loss is detected. In
    /// a new log that file is the empty checkpoint, which is rewritten. Failures are ignored: the commits
    /// are durable without the record.
    fn record_next_segment(&mut self, previous: Option<Segment>, first: Revision) {
        let recorded = match (previous, &self.base_checkpoint) {
            (Some(previous), _) => previous.seal(self.last_revision).map(|sealed| {
                self.state.lock().sealed = Some(sealed);
            }),
            (None, Some(checkpoint)) if checkpoint.first > Revision::ZERO => {
                checkpoint::record_next_segment(&self.disk, checkpoint, first)
            }
            (None, _) => {
                self.syncs += 2;
                let empty = Snapshot::default();
                checkpoint::write(&self.disk, self.id, &empty, first, None).map(|bytes| {
                    self.state.lock().base_bytes = bytes;
                })
            }
        };
        // A lasting error surfaces again at the next write, or when maintenance syncs the sealed segment.
        drop(recorded);
    }

    fn is_compaction_due(&self, state: &State) -> bool {
        let due_bytes = self.options.compact_bytes_min.max(state.base_bytes);
        self.last_revision > state.base && (state.live_bytes > due_bytes || state.full)
    }

    fn next_capacity(&self) -> u64 {
        let last = self.active.as_ref().map_or(0, Segment::capacity);
        (last * 2).clamp(self.options.segment_bytes_min, self.options.segment_bytes_max)
    }

    /// Writes the admitted proposals as one frame. Returns the shortage if there is no space for it.
    fn write(&mut self, batch: &[Proposal], verdicts: &[Verdict]) -> Result<Option<Shortage>, LogError> {
        let first = self.last_revision.next();
        let mut count = 0;
        start_frame(&mut self.frame);
        // Reserve once: growing the buffer step by step would copy it repeatedly.
        let admitted = || batch.iter().zip(verdicts).filter(|(_, verdict)| verdict.is_ok());
        self.frame.reserve_exact(admitted().map(|(proposal, _)| proposal.bytes()).sum());
        for (proposal, verdict) in batch.iter().zip(verdicts) {
            if let Ok(revision) = verdict {
                self.encode(*revision, proposal)?;
                count += 1;
            }
        }
        if count == 0 {
            return Ok(None);
        }
        finish_frame(&mut self.frame, self.id, first, count);
        if let Some(shortage) = self.ensure_space()? {
            return Ok(Some(shortage));
        }
        let segment = self.active.as_mut().expect("ensure_space provided a segment");
        segment.append(&self.frame)?;
        self.syncs += 1;
        let first = segment.first();
        let exempt = &self.options.retention.exempt;
        if admitted().any(|(proposal, _)| proposal.touches_any(exempt)) {
            self.without_exempt.remove(&first);
        }
        self.last_revision = Revision(self.last_revision.0 + u64::from(count));
        self.state.lock().live_bytes += self.frame.len() as u64;
        if self.frame.capacity() > FRAME_CAPACITY_MAX {
            self.frame = Vec::new();
        }
        Ok(None)
    }

    /// Appends a commit to the frame, sealed if its resources are.
    fn encode(&mut self, revision: Revision, proposal: &Proposal) -> Result<(), LogError> {
        let (time, writes) = (proposal.time, proposal.changes.iter().map(|change| &change.write));
        let Some(sealing) = &self.sealing else {
            encode_commit(&mut self.frame, revision, time, writes);
            return Ok(());
        };
        proposal.writes().for_each(|write| sealing.record_write(write.key.resource(), self.last_revision));
        encode_commit_sealed(&mut self.frame, revision, time, writes, &**sealing.sealer())
            .map_err(LogError::Seal)
    }

    /// Rotates if the frame does not fit. Drops history if the disk is full and nothing else helps.
    fn ensure_space(&mut self) -> Result<Option<Shortage>, LogError> {
        let length = self.frame.len();
        if self.active.as_ref().is_some_and(|segment| segment.fits(length)) {
            return Ok(None);
        }
        let shortage = as_shortage(self.rotate(length))?;
        let is_maintenance_running = self.state.lock().is_maintenance_running;
        if shortage != Some(Shortage::Space) || is_maintenance_running || self.state.lock().history_bytes == 0
        {
            return Ok(shortage);
        }
        match as_shortage(self.drop_history())? {
            None => as_shortage(self.rotate(length)),
            shortage => Ok(shortage),
        }
    }

    fn drop_history(&mut self) -> Result<(), LogError> {
        let none = Retention { cold_bytes: 0, ..self.options.retention.clone() };
        let history_bytes = prune_history(&self.disk, &none, Time::EPOCH)?;
        let floor = Files::list(&self.disk)?.floor();
        let mut state = self.state.lock();
        (state.history_bytes, state.floor) = (history_bytes, floor);
        Ok(())
    }

    /// Writes the proposals that only delete, into the reserve if there is no other space.
    fn write_deletes(
        &mut self,
        batch: &[Proposal],
        current: &dyn CurrentRevisions,
        shortage: Shortage,
    ) -> Result<Vec<Verdict>, LogError> {
        let mut verdicts = decide(batch, current, self.last_revision, false);
        for verdict in &mut verdicts {
            if *verdict == Err(RejectReason::DiskFull) {
                *verdict = Err(shortage.reject_reason());
            }
        }
        let Some(shortage) = self.write(batch, &verdicts)? else { return Ok(verdicts) };
        let needed_bytes = (self.frame.len() + format::FILE_HEADER_BYTES) as u64;
        let reserve =
            self.state.lock().preallocated.reserve.take_if(|reserve| reserve.capacity() >= needed_bytes);
        if let Some(reserve) = reserve {
            match self.begin_segment(reserve) {
                Ok(()) if self.write(batch, &verdicts)?.is_none() => return Ok(verdicts),
                Ok(()) => {}
                Err(failed) => {
                    let (error, reserve) = *failed;
                    self.state.lock().preallocated.reserve = Some(reserve);
                    as_shortage(Err(error))?;
                }
            }
        }
        let reject = |verdict: Verdict| verdict.and(Err(shortage.reject_reason()));
        Ok(verdicts.into_iter().map(reject).collect())
    }
}

impl Log for DiskLog {
    fn replay(&mut self, into: &mut dyn Replay) -> Result<(), LogError> {
        let mut files = Files::list(&self.disk)?;
        if let Some(remaining_file) = files.remaining_file() {
            return Err(LogError::Lost { remaining_file });
        }
        for name in &files.temporary {
            remove(&self.disk, name)?;
        }
        // A spare segment may have been left half-made; making another is cheaper than verifying it.
        if files.spare {
            remove(&self.disk, SPARE)?;
        }
        if files.checkpoints.is_empty() && files.segments.is_empty() {
            // Written before any other file: other files without it prove that it was lost.
            checkpoint::write(&self.disk, self.id, &Snapshot::default(), Revision::ZERO, None)?;
            files.checkpoints.push(LogFile::checkpoint(Revision::ZERO));
        }
        self.recover(&files, into)?;
        if files.reserve {
            self.state.lock().preallocated.reserve = Some(PreallocatedFile::open(&self.disk, RESERVE)?);
        }
        Ok(())
    }

    fn append(
        &mut self,
        batch: &[Proposal],
        current: &dyn CurrentRevisions,
    ) -> Result<Vec<Verdict>, LogError> {
        let verdicts = decide(batch, current, self.last_revision, true);
        let Some(shortage) = self.write(batch, &verdicts)? else {
            // A batch without admitted proposals needs no space, so it does not show that there is some.
            if verdicts.iter().any(Result::is_ok) {
                self.state.lock().full = false;
            }
            return Ok(verdicts);
        };
        self.state.lock().full = shortage == Shortage::Space;
        self.write_deletes(batch, current, shortage)
    }

    fn reader(&self) -> Box<dyn LogReader> {
        Box::new(DiskReader::new(Arc::clone(&self.disk)).with_sealer(self.options.sealer.clone()))
    }

    fn needs_maintenance(&self) -> bool {
        let state = self.state.lock();
        !state.is_maintenance_running && (!state.preallocated.is_complete() || self.is_compaction_due(&state))
    }

    fn maintenance_task(
        &mut self,
        snapshot: &Snapshot,
        now: Time,
    ) -> Result<Option<Box<dyn MaintenanceTask>>, LogError> {
        if !self.needs_maintenance() {
            return Ok(None);
        }
        let mut state = self.state.lock();
        if self.is_compaction_due(&state) {
            drop(state);
            return self.compact(snapshot, now).map(Some);
        }
        state.is_maintenance_running = true;
        let (needs_reserve, needs_spare) =
            (state.preallocated.reserve.is_none(), state.preallocated.spare.is_none());
        drop(state);
        Ok(Some(Box::new(PreallocateTask {
            disk: Arc::clone(&self.disk),
            state: Arc::clone(&self.state),
            needs_reserve,
            needs_spare,
            spare_bytes: self.next_capacity(),
            reserve_bytes: self.options.reserve_bytes,
        })))
    }

    fn compact(&mut self, snapshot: &Snapshot, now: Time) -> Result<Box<dyn MaintenanceTask>, LogError> {
        assert_eq!(snapshot.revision(), self.last_revision, "only the newest state can become the base");
        if self.active.as_ref().is_some_and(|segment| segment.first() <= self.last_revision) {
            match self.rotate(0) {
                // Without a new segment, the current one stays in use and is folded by the next compaction.
                Err(LogError::Io { source, .. }) if is_transient(&source) => {}
                other => other?,
            }
        }
        let active = self.active.as_ref().map_or(self.last_revision.next(), Segment::first);
        let without_exempt = self.without_exempt.clone();
        self.without_exempt.retain(|first| *first >= active);
        let sealing = self.sealing.clone().map(|sealing| {
            let resources = snapshot.tables().map(|(resource, _)| resource);
            let keys = sealing.begin_checkpoint(resources, self.last_revision);
            (sealing, keys)
        });
        let mut state = self.state.lock();
        state.is_maintenance_running = true;
        state.compacting_bytes =
            state.live_bytes - self.active.as_ref().map_or(0, Segment::used).min(state.live_bytes);
        drop(state);
        Ok(Box::new(CompactTask {
            disk: Arc::clone(&self.disk),
            state: Arc::clone(&self.state),
            id: self.id,
            snapshot: snapshot.clone(),
            next: self.active.as_ref().map_or(Revision::ZERO, Segment::first),
            retention: self.options.retention.clone(),
            now,
            without_exempt,
            sealing,
        }))
    }

    fn sealing(&self) -> Option<Arc<Sealing>> {
        self.sealing.clone()
    }

    fn record_durable_end(&mut self) {
        if let Some(segment) = &mut self.active {
            segment.record_synced_length();
        }
    }

    fn stat(&self) -> LogStat {
        let state = self.state.lock();
        LogStat {
            floor: state.floor,
            live_bytes: state.live_bytes,
            base_bytes: state.base_bytes,
            history_bytes: state.history_bytes,
            syncs: self.syncs,
            full: state.full,
        }
    }
}

/// Turns a transient error into a value.
fn as_shortage(result: Result<(), LogError>) -> Result<Option<Shortage>, LogError> {
    let Err(error) = result else { return Ok(None) };
    Shortage::of(&error).map(Some).ok_or(error)
}

fn history_bytes(disk: &Arc<dyn Disk>, files: &Files) -> Result<u64, LogError> {
    let newest = files.checkpoints.last();
    let past_files = files.history.iter().chain(&files.checkpoints).filter(|file| Some(*file) != newest);
    let mut bytes = 0;
    for file in past_files {
        let length = disk.open(&file.name()).and_then(|opened| opened.length());
        bytes += length.map_err(|source| LogError::Io { action: "open", file: file.name(), source })?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use setpoint_api::{Key, Resource};

    use super::*;
    use crate::commit::{CommitCause, Draft, Precondition};
    use crate::disk::OsDisk;

    fn put(precondition: Precondition, bytes: usize) -> Proposal {
        let key = Key::cluster(&Resource::new("nodes").unwrap(), "n1").unwrap();
        Proposal::new(CommitCause::default(), Time(1)).put(key, precondition, Draft::new(vec![b'x'; bytes]))
    }

    #[test]
    fn frame_buffer_is_kept_unless_it_exceeds_a_usual_batch() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = DiskLog::new(Arc::new(OsDisk::exclusive(dir.path()).unwrap()), DiskOptions::default());
        let empty = Snapshot::default();
        let mut capacity_after = |proposal: Proposal| {
            let is_admitted = log.append(&[proposal], &empty).unwrap()[0].is_ok();
            (is_admitted, log.frame.capacity())
        };
        let (is_admitted, capacity) = capacity_after(put(Precondition::Any, BATCH_BYTES_MAX));
        assert!(is_admitted && (BATCH_BYTES_MAX..=FRAME_CAPACITY_MAX).contains(&capacity), "{capacity}");
        assert_eq!(
            capacity_after(put(Precondition::Any, 1)),
            (true, capacity),
            "a small batch keeps the buffer"
        );
        assert_eq!(
            capacity_after(put(Precondition::Present, 2 * BATCH_BYTES_MAX)),
            (false, capacity),
            "a rejected batch reserves nothing"
        );
        assert_eq!(
            capacity_after(put(Precondition::Any, 2 * BATCH_BYTES_MAX)),
            (true, 0),
            "an oversized buffer is freed"
        );
    }
}
