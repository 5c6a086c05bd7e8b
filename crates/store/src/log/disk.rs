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
mod reader;
mod room;
mod segment;

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_api::{Revision, Time};

use super::wire::encode_commit;
use super::{Chore, Heads, Log, LogError, LogReader, LogStat, Replay, Verdict, decide};
use crate::commit::{Proposal, Refusal};
use crate::disk::{Disk, DiskFile, is_full, is_short_of_descriptors, is_transient};
use crate::mirror::Snapshot;
use crate::retention::Retention;
use crate::writer::BATCH_BYTES_MAX;
use compaction::{Compact, Provision, forget, remove};
use files::{Files, LogFile, NEXT, RESERVE, SPARE};
use format::{corrupt, finish_frame, start_frame};
pub use reader::DiskReader;
use reader::missing;
use room::Prepared;
use segment::{Reading, Segment, check_length, scan};

/// Maximum capacity of the frame buffer that is kept between batches. Only a batch with a larger single
/// object exceeds it.
const FRAME_ROOM_BYTES_MAX: usize = BATCH_BYTES_MAX + (4 << 10);

/// Options of a log on disk.
#[derive(Clone, Debug)]
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
        }
    }
}

/// Log on a disk. Created by [`DiskLog::new`], usable after [`Log::replay`].
pub struct DiskLog {
    disk: Arc<dyn Disk>,
    options: DiskOptions,
    id: u64,
    head: Revision,
    active: Option<Segment>,
    /// Newest checkpoint at the time the log was opened.
    opened_from: Option<LogFile>,
    state: Arc<Mutex<State>>,
    /// First revisions of the segments written by this process that hold no resource exempt from history.
    plain: BTreeSet<Revision>,
    /// Buffer for the frame of the current batch, with a capacity of at most [`FRAME_ROOM_BYTES_MAX`]
    /// between batches.
    frame: Vec<u8>,
    syncs: u64,
}

/// State shared by the writer and its maintenance.
#[derive(Default)]
struct State {
    room: Room,
    /// Segment whose header marks it as sealed; maintenance has yet to sync it.
    sealed: Option<Box<dyn DiskFile>>,
    /// `true` while maintenance runs; one task at a time.
    busy: bool,
    /// `true` if the last put was rejected for lack of space.
    full: bool,
    base: Revision,
    base_bytes: u64,
    live_bytes: u64,
    /// Part of `live_bytes` that the running compaction folds.
    sealing_bytes: u64,
    history_bytes: u64,
    floor: Revision,
}

/// Preallocated segments.
#[derive(Default)]
struct Room {
    reserve: Option<Prepared>,
    spare: Option<Prepared>,
}

impl Room {
    fn is_ready(&self) -> bool {
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

    fn refusal(self) -> Refusal {
        match self {
            Shortage::Space => Refusal::DiskFull,
            Shortage::Descriptors => Refusal::NoDescriptors,
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
            options,
            head: Revision::ZERO,
            active: None,
            opened_from: None,
            state: Arc::default(),
            plain: BTreeSet::new(),
            frame: Vec::new(),
            syncs: 0,
        }
    }

    /// Creates a log on an empty disk that starts from `base`, as an import does. Returns `false` if the
    /// disk already holds a log.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn start_from(disk: &Arc<dyn Disk>, entropy: u64, base: &Snapshot) -> Result<bool, LogError> {
        let files = Files::list(disk)?;
        if !(files.checkpoints.is_empty() && files.history.is_empty() && files.segments.is_empty()) {
            return Ok(false);
        }
        checkpoint::write(disk, entropy, base, Revision::ZERO).map(|_| true)
    }

    fn recover(&mut self, files: &Files, into: &mut dyn Replay) -> Result<(), LogError> {
        let mut state = State { floor: files.floor(), ..State::default() };
        let mut is_unnoted = false;
        if let Some(file) = files.checkpoints.last() {
            let (snapshot, header, bytes) = checkpoint::read(&self.disk, file)?;
            files.check_follower(&file.name(), &header)?;
            self.opened_from = Some(file.clone());
            (self.id, self.head) = (header.id, snapshot.revision());
            (state.base, state.base_bytes) = (self.head, bytes);
            into.base(snapshot);
        } else if let Some(first) = files.segments.first()
            && first.first != Revision(1)
        {
            return Err(missing(first, Revision::ZERO));
        }
        for (i, file) in files.segments.iter().enumerate() {
            let next = files.segments.get(i + 1);
            if next.is_some_and(|next| next.first <= self.head.next()) {
                continue;
            }
            if file.first > self.head.next() {
                return Err(missing(file, self.head));
            }
            let content = file.read(&*self.disk)?;
            if i == 0 && files.checkpoints.is_empty() {
                self.id = content.0.id;
            }
            if content.0.id != self.id {
                return Err(corrupt(&file.name(), 0, "it belongs to another log"));
            }
            let reading = if next.is_some() { Reading::Sealed } else { Reading::Last };
            if reading == Reading::Last {
                files.check_follower(&file.name(), &content.0)?;
                check_length(file, &content)?;
            }
            let ending = scan(file, &content, reading, self.head, &mut |commit| into.commit(commit))?;
            self.head = self.head.max(ending.last);
            state.live_bytes += ending.position as u64;
            if next.is_none() {
                let mut segment = Segment::resume(&self.disk, content.0, ending.position as u64)?;
                segment.settle(&content.1[ending.position..])?;
                self.active = Some(segment);
                is_unnoted = content.0.capacity == 0;
            }
        }
        state.history_bytes = history_bytes(&self.disk, files)?;
        *self.state.lock() = state;
        if let (true, Some(first)) = (is_unnoted, self.active.as_ref().map(Segment::first)) {
            // Format 1 does not record that the segment is in use.
            self.note_successor(None, first);
        }
        Ok(())
    }

    /// Starts a new segment for the next commit. A transient failure changes nothing.
    fn rotate(&mut self, frame: usize) -> Result<(), LogError> {
        let needed = (frame + format::FILE_HEADER_BYTES) as u64;
        let spare = self.state.lock().room.spare.take_if(|spare| spare.capacity() >= needed);
        if let Some(spare) = spare {
            return self.begin_segment(spare).map_err(|(error, spare)| {
                self.state.lock().room.spare = Some(spare);
                error
            });
        }
        let capacity = self.next_capacity().max(needed.next_multiple_of(4096));
        let next = room::make_room(&self.disk, NEXT, capacity)?;
        self.syncs += 2;
        self.begin_segment(next).map_err(|(error, _)| error)
    }

    fn begin_segment(&mut self, room: Prepared) -> Result<(), (LogError, Prepared)> {
        let first = self.head.next();
        let segment = room::use_room(&self.disk, room, self.id, first)?;
        self.syncs += 2;
        self.plain.insert(first);
        let previous = self.active.replace(segment);
        self.note_successor(previous, first);
        Ok(())
    }

    /// Records in the preceding file that the segment at `first` is in use, so that its loss is detected. In
    /// a new log that file is the empty checkpoint, which is rewritten. Failures are ignored: the commits
    /// are durable without the record.
    fn note_successor(&mut self, previous: Option<Segment>, first: Revision) {
        let noted = match (previous, &self.opened_from) {
            (Some(previous), _) => previous.seal(self.head).map(|sealed| {
                self.state.lock().sealed = Some(sealed);
            }),
            (None, Some(checkpoint)) if checkpoint.first > Revision::ZERO => {
                checkpoint::note_next(&self.disk, checkpoint, first)
            }
            (None, _) => {
                self.syncs += 2;
                let empty = Snapshot::default();
                checkpoint::write(&self.disk, self.id, &empty, first).map(|bytes| {
                    self.state.lock().base_bytes = bytes;
                })
            }
        };
        // A lasting error surfaces again at the next write, or when maintenance syncs the sealed segment.
        drop(noted);
    }

    fn is_compaction_due(&self, state: &State) -> bool {
        let enough = self.options.compact_bytes_min.max(state.base_bytes);
        self.head > state.base && (state.live_bytes > enough || state.full)
    }

    fn next_capacity(&self) -> u64 {
        let last = self.active.as_ref().map_or(0, Segment::capacity);
        (last * 2).clamp(self.options.segment_bytes_min, self.options.segment_bytes_max)
    }

    /// Writes the admitted proposals as one frame. Returns the shortage if there is no room for it.
    fn write(&mut self, batch: &[Proposal], verdicts: &[Verdict]) -> Result<Option<Shortage>, LogError> {
        let first = self.head.next();
        let mut count = 0;
        start_frame(&mut self.frame);
        // Reserve once: growing the buffer step by step would copy it repeatedly.
        let admitted = || batch.iter().zip(verdicts).filter(|(_, verdict)| verdict.is_ok());
        self.frame.reserve_exact(admitted().map(|(proposal, _)| proposal.bytes()).sum());
        for (proposal, verdict) in batch.iter().zip(verdicts) {
            if let Ok(revision) = verdict {
                let writes = proposal.changes.iter().map(|change| &change.write);
                encode_commit(&mut self.frame, *revision, proposal.time, writes);
                count += 1;
            }
        }
        if count == 0 {
            return Ok(None);
        }
        finish_frame(&mut self.frame, self.id, first, count);
        if let Some(shortage) = self.make_room_for_frame()? {
            return Ok(Some(shortage));
        }
        let segment = self.active.as_mut().expect("room was made for the frame");
        segment.append(&self.frame)?;
        self.syncs += 1;
        let first = segment.first();
        let exempt = &self.options.retention.exempt;
        if admitted().any(|(proposal, _)| proposal.touches_any(exempt)) {
            self.plain.remove(&first);
        }
        self.head = Revision(self.head.0 + u64::from(count));
        self.state.lock().live_bytes += self.frame.len() as u64;
        if self.frame.capacity() > FRAME_ROOM_BYTES_MAX {
            self.frame = Vec::new();
        }
        Ok(None)
    }

    /// Makes room for the frame, by dropping history if the disk is full and nothing else helps.
    fn make_room_for_frame(&mut self) -> Result<Option<Shortage>, LogError> {
        let length = self.frame.len();
        if self.active.as_ref().is_some_and(|segment| segment.fits(length)) {
            return Ok(None);
        }
        let shortage = shortage_of(self.rotate(length))?;
        let is_busy = self.state.lock().busy;
        if shortage != Some(Shortage::Space) || is_busy || self.state.lock().history_bytes == 0 {
            return Ok(shortage);
        }
        match shortage_of(self.give_up_history())? {
            None => shortage_of(self.rotate(length)),
            shortage => Ok(shortage),
        }
    }

    fn give_up_history(&mut self) -> Result<(), LogError> {
        let nothing = Retention { cold_bytes: 0, ..self.options.retention.clone() };
        let left = forget(&self.disk, &nothing, Time::EPOCH)?;
        let floor = Files::list(&self.disk)?.floor();
        let mut state = self.state.lock();
        (state.history_bytes, state.floor) = (left, floor);
        Ok(())
    }

    /// Writes the proposals that only delete, into the reserve if there is no other room.
    fn write_deletes(
        &mut self,
        batch: &[Proposal],
        heads: &dyn Heads,
        shortage: Shortage,
    ) -> Result<Vec<Verdict>, LogError> {
        let mut verdicts = decide(batch, heads, self.head, false);
        for verdict in &mut verdicts {
            if *verdict == Err(Refusal::DiskFull) {
                *verdict = Err(shortage.refusal());
            }
        }
        let Some(shortage) = self.write(batch, &verdicts)? else { return Ok(verdicts) };
        let needed = (self.frame.len() + format::FILE_HEADER_BYTES) as u64;
        let reserve = self.state.lock().room.reserve.take_if(|reserve| reserve.capacity() >= needed);
        if let Some(reserve) = reserve {
            match self.begin_segment(reserve) {
                Ok(()) if self.write(batch, &verdicts)?.is_none() => return Ok(verdicts),
                Ok(()) => {}
                Err((error, reserve)) => {
                    self.state.lock().room.reserve = Some(reserve);
                    shortage_of(Err(error))?;
                }
            }
        }
        let refused = |verdict: Verdict| verdict.and(Err(shortage.refusal()));
        Ok(verdicts.into_iter().map(refused).collect())
    }
}

impl Log for DiskLog {
    fn replay(&mut self, into: &mut dyn Replay) -> Result<(), LogError> {
        let mut files = Files::list(&self.disk)?;
        if let Some(leftover) = files.leftover() {
            return Err(LogError::Lost { leftover });
        }
        for name in &files.unfinished {
            remove(&self.disk, name)?;
        }
        // A spare segment may have been left half-made; making another is cheaper than verifying it.
        if files.spare {
            remove(&self.disk, SPARE)?;
        }
        if files.checkpoints.is_empty() && files.segments.is_empty() {
            // Written before any other file: other files without it prove that it was lost.
            checkpoint::write(&self.disk, self.id, &Snapshot::default(), Revision::ZERO)?;
            files.checkpoints.push(LogFile::checkpoint(Revision::ZERO));
        }
        self.recover(&files, into)?;
        if files.reserve {
            self.state.lock().room.reserve = Some(Prepared::open(&self.disk, RESERVE)?);
        }
        Ok(())
    }

    fn append(&mut self, batch: &[Proposal], heads: &dyn Heads) -> Result<Vec<Verdict>, LogError> {
        let verdicts = decide(batch, heads, self.head, true);
        let Some(shortage) = self.write(batch, &verdicts)? else {
            // A batch without admitted proposals needs no space, so it does not show that there is some.
            if verdicts.iter().any(Result::is_ok) {
                self.state.lock().full = false;
            }
            return Ok(verdicts);
        };
        self.state.lock().full = shortage == Shortage::Space;
        self.write_deletes(batch, heads, shortage)
    }

    fn reader(&self) -> Box<dyn LogReader> {
        Box::new(DiskReader::new(Arc::clone(&self.disk)))
    }

    fn has_chore(&self) -> bool {
        let state = self.state.lock();
        !state.busy && (!state.room.is_ready() || self.is_compaction_due(&state))
    }

    fn chore(&mut self, snapshot: &Snapshot, now: Time) -> Result<Option<Box<dyn Chore>>, LogError> {
        if !self.has_chore() {
            return Ok(None);
        }
        let mut state = self.state.lock();
        if self.is_compaction_due(&state) {
            drop(state);
            return self.compact(snapshot, now).map(Some);
        }
        state.busy = true;
        let (needs_reserve, needs_spare) = (state.room.reserve.is_none(), state.room.spare.is_none());
        drop(state);
        Ok(Some(Box::new(Provision {
            disk: Arc::clone(&self.disk),
            state: Arc::clone(&self.state),
            needs_reserve,
            needs_spare,
            spare_bytes: self.next_capacity(),
            reserve_bytes: self.options.reserve_bytes,
        })))
    }

    fn compact(&mut self, snapshot: &Snapshot, now: Time) -> Result<Box<dyn Chore>, LogError> {
        assert_eq!(snapshot.revision(), self.head, "only the newest state can become the base");
        if self.active.as_ref().is_some_and(|segment| segment.first() <= self.head) {
            match self.rotate(0) {
                // Without a new segment, the current one stays in use and is folded by the next compaction.
                Err(LogError::Io { source, .. }) if is_transient(&source) => {}
                other => other?,
            }
        }
        let active = self.active.as_ref().map_or(self.head.next(), Segment::first);
        let plain = self.plain.clone();
        self.plain.retain(|first| *first >= active);
        let mut state = self.state.lock();
        state.busy = true;
        state.sealing_bytes =
            state.live_bytes - self.active.as_ref().map_or(0, Segment::used).min(state.live_bytes);
        drop(state);
        Ok(Box::new(Compact {
            disk: Arc::clone(&self.disk),
            state: Arc::clone(&self.state),
            id: self.id,
            snapshot: snapshot.clone(),
            next: self.active.as_ref().map_or(Revision::ZERO, Segment::first),
            retention: self.options.retention.clone(),
            now,
            plain,
        }))
    }

    fn note_end(&mut self) {
        if let Some(segment) = &mut self.active {
            segment.note_synced();
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
fn shortage_of(result: Result<(), LogError>) -> Result<Option<Shortage>, LogError> {
    let Err(error) = result else { return Ok(None) };
    Shortage::of(&error).map(Some).ok_or(error)
}

fn history_bytes(disk: &Arc<dyn Disk>, files: &Files) -> Result<u64, LogError> {
    let newest = files.checkpoints.last();
    let past = files.history.iter().chain(&files.checkpoints).filter(|file| Some(*file) != newest);
    let mut bytes = 0;
    for file in past {
        let length = disk.open(&file.name()).and_then(|opened| opened.length());
        bytes += length.map_err(|source| LogError::Io { action: "open", file: file.name(), source })?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use setpoint_api::{Key, Resource};

    use super::*;
    use crate::commit::{Cause, Draft, Expect};
    use crate::disk::OsDisk;

    fn put(expect: Expect, bytes: usize) -> Proposal {
        let key = Key::cluster(&Resource::new("nodes").unwrap(), "n1").unwrap();
        Proposal::new(Cause::default(), Time(1)).put(key, expect, Draft::new(vec![b'x'; bytes]))
    }

    #[test]
    fn frame_buffer_is_kept_unless_it_exceeds_a_usual_batch() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = DiskLog::new(Arc::new(OsDisk::exclusive(dir.path()).unwrap()), DiskOptions::default());
        let nothing = Snapshot::default();
        let mut room_after = |proposal: Proposal| {
            let is_admitted = log.append(&[proposal], &nothing).unwrap()[0].is_ok();
            (is_admitted, log.frame.capacity())
        };
        let (is_admitted, room) = room_after(put(Expect::Any, BATCH_BYTES_MAX));
        assert!(is_admitted && (BATCH_BYTES_MAX..=FRAME_ROOM_BYTES_MAX).contains(&room), "{room}");
        assert_eq!(room_after(put(Expect::Any, 1)), (true, room), "a small batch keeps the buffer");
        assert_eq!(
            room_after(put(Expect::Present, 2 * BATCH_BYTES_MAX)),
            (false, room),
            "a rejected batch reserves nothing"
        );
        assert_eq!(
            room_after(put(Expect::Any, 2 * BATCH_BYTES_MAX)),
            (true, 0),
            "an oversized buffer is freed"
        );
    }
}
