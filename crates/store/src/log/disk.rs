//! A log on disk.
//!
//! Commits go into zeroed segments, a frame per batch, and one sync makes a batch durable for all who wait.
//! Now and then all objects are written to a checkpoint, and the segments before it become history, which is
//! kept by budget. See [`files`] for what lies in the directory and [`mod@format`] for what lies in a file.
//!
//! Opening reads the newest checkpoint and the segments after it. Only the end of the last segment may be torn,
//! and only in the way a cut can tear it; any other damage is an error that names file and position.

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
use crate::commit::Proposal;
use crate::disk::{Disk, is_full};
use crate::mirror::Snapshot;
use crate::retention::Retention;
use crate::writer::BATCH_BYTES_MAX;
use compaction::{Compact, Provision, forget, remove};
use files::{Files, NEXT, RESERVE, SPARE};
use format::{corrupt, finish_frame, start_frame};
pub use reader::DiskReader;
use reader::missing;
use segment::{Reading, Segment, scan};

/// How much room is kept between batches: enough for all but a single object that is larger.
const FRAME_ROOM_BYTES_MAX: usize = BATCH_BYTES_MAX + (4 << 10);

/// How a log is kept on disk.
#[derive(Clone, Debug)]
pub struct DiskOptions {
    /// How large segments become; the first ones are smaller, so that an empty store starts in a blink.
    pub segment_bytes_max: u64,
    /// How large the first segment is.
    pub segment_bytes_min: u64,
    /// How many bytes of commits make a checkpoint worth while; a larger state waits for as many bytes as its
    /// last checkpoint had.
    pub compact_bytes_min: u64,
    /// How many bytes of deletes are still taken when the disk is full.
    pub reserve_bytes: u64,
    /// How much history is kept.
    pub retention: Retention,
    /// A random number: the id of the log, should there be none yet.
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

/// The log on a disk. Made by [`DiskLog::new`], ready after [`Log::replay`].
pub struct DiskLog {
    disk: Arc<dyn Disk>,
    options: DiskOptions,
    id: u64,
    head: Revision,
    active: Option<Segment>,
    state: Arc<Mutex<State>>,
    /// The segments of this process, by first revision, that hold nothing exempt from history.
    plain: BTreeSet<Revision>,
    /// The frame of the current batch; kept for its room, up to [`FRAME_ROOM_BYTES_MAX`].
    frame: Vec<u8>,
    syncs: u64,
}

/// What the writer and its chores both know.
#[derive(Debug, Default)]
struct State {
    room: Room,
    /// Whether a chore is under way; there is one at a time.
    busy: bool,
    /// Whether the last put was refused for want of room.
    full: bool,
    base: Revision,
    base_bytes: u64,
    live_bytes: u64,
    /// The part of `live_bytes` that the compaction under way folds.
    sealing_bytes: u64,
    history_bytes: u64,
    floor: Revision,
}

/// Room that is ready.
#[derive(Clone, Copy, Debug, Default)]
struct Room {
    reserve: bool,
    /// How large the spare segment is.
    spare: Option<u64>,
}

impl Room {
    fn is_ready(self) -> bool {
        self.reserve && self.spare.is_some()
    }
}

impl DiskLog {
    /// The log on `disk`.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, options: DiskOptions) -> DiskLog {
        DiskLog {
            disk,
            id: options.entropy,
            options,
            head: Revision::ZERO,
            active: None,
            state: Arc::default(),
            plain: BTreeSet::new(),
            frame: Vec::new(),
            syncs: 0,
        }
    }

    /// Starts a log on an empty disk from `base`, as an import does. False if the disk already holds a log.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn start_from(disk: &Arc<dyn Disk>, entropy: u64, base: &Snapshot) -> Result<bool, LogError> {
        let files = Files::list(disk)?;
        if !(files.checkpoints.is_empty() && files.history.is_empty() && files.segments.is_empty()) {
            return Ok(false);
        }
        checkpoint::write(disk, entropy, base).map(|_| true)
    }

    fn recover(&mut self, files: &Files, into: &mut dyn Replay) -> Result<(), LogError> {
        let mut state = State { floor: files.floor(), ..State::default() };
        if let Some(file) = files.checkpoints.last() {
            let (snapshot, id, bytes) = checkpoint::read(&self.disk, file)?;
            (self.id, self.head) = (id, snapshot.revision());
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
            let ending = scan(file, &content, reading, self.head, &mut |commit| into.commit(commit))?;
            self.head = self.head.max(ending.last);
            state.live_bytes += ending.position as u64;
            if next.is_none() {
                let mut segment = Segment::resume(&self.disk, file, ending.position as u64)?;
                segment.settle(&content.1[ending.position..])?;
                self.active = Some(segment);
            }
        }
        state.history_bytes = history_bytes(&self.disk, files)?;
        *self.state.lock() = state;
        Ok(())
    }

    /// Makes the segment that takes the next commit. A failure for want of room leaves all as it was.
    fn rotate(&mut self, frame: usize) -> Result<(), LogError> {
        let needed = (frame + format::FILE_HEADER_BYTES) as u64;
        let spare = self.state.lock().room.spare.filter(|capacity| *capacity >= needed);
        if spare.is_some() {
            self.begin_segment(SPARE)?;
            self.state.lock().room.spare = None;
            return Ok(());
        }
        let capacity = self.next_capacity().max(needed.next_multiple_of(4096));
        room::make_room(&self.disk, NEXT, capacity)?;
        self.syncs += 2;
        self.begin_segment(NEXT)
    }

    fn begin_segment(&mut self, room: &str) -> Result<(), LogError> {
        let file = room::use_room(&self.disk, room, self.id, self.head.next())?;
        self.syncs += 2;
        self.active = Some(Segment::resume(&self.disk, &file, format::FILE_HEADER_BYTES as u64)?);
        self.plain.insert(file.first);
        Ok(())
    }

    fn is_compaction_due(&self, state: &State) -> bool {
        let enough = self.options.compact_bytes_min.max(state.base_bytes);
        self.head > state.base && (state.live_bytes > enough || state.full)
    }

    fn next_capacity(&self) -> u64 {
        let last = self.active.as_ref().map_or(0, Segment::capacity);
        (last * 2).clamp(self.options.segment_bytes_min, self.options.segment_bytes_max)
    }

    /// Writes the admitted proposals as one frame.
    fn write(&mut self, batch: &[Proposal], verdicts: &[Verdict]) -> Result<bool, LogError> {
        let first = self.head.next();
        let mut count = 0;
        start_frame(&mut self.frame);
        // A frame that grows bit by bit is copied again and again.
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
            return Ok(true);
        }
        finish_frame(&mut self.frame, self.id, first, count);
        if !self.make_room_for_frame()? {
            return Ok(false);
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
        Ok(true)
    }

    /// Finds room for the frame, by giving up history if nothing else helps; false if the disk is full.
    fn make_room_for_frame(&mut self) -> Result<bool, LogError> {
        let length = self.frame.len();
        if self.active.as_ref().is_some_and(|segment| segment.fits(length)) {
            return Ok(true);
        }
        match self.rotate(length) {
            Ok(()) => return Ok(true),
            Err(LogError::Io { source, .. }) if is_full(&source) => {}
            Err(error) => return Err(error),
        }
        let nothing = Retention { cold_bytes: 0, ..self.options.retention.clone() };
        if !self.state.lock().busy && self.state.lock().history_bytes > 0 {
            let left = forget(&self.disk, &nothing, Time::EPOCH)?;
            let floor = Files::list(&self.disk)?.floor();
            let mut state = self.state.lock();
            (state.history_bytes, state.floor) = (left, floor);
            drop(state);
            match self.rotate(length) {
                Ok(()) => return Ok(true),
                Err(LogError::Io { source, .. }) if is_full(&source) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Writes what only deletes, into the reserve if there is no other room.
    fn write_deletes(&mut self, batch: &[Proposal], heads: &dyn Heads) -> Result<Vec<Verdict>, LogError> {
        let verdicts = decide(batch, heads, self.head, false);
        if self.write(batch, &verdicts)? {
            return Ok(verdicts);
        }
        let fits = self.frame.len() as u64 + format::FILE_HEADER_BYTES as u64 <= self.options.reserve_bytes;
        let taken = std::mem::take(&mut self.state.lock().room.reserve);
        if taken && fits {
            self.begin_segment(RESERVE)?;
            if self.write(batch, &verdicts)? {
                return Ok(verdicts);
            }
        }
        let refused = |verdict: Verdict| verdict.and(Err(crate::commit::Refusal::DiskFull));
        Ok(verdicts.into_iter().map(refused).collect())
    }
}

impl Log for DiskLog {
    fn replay(&mut self, into: &mut dyn Replay) -> Result<(), LogError> {
        let files = Files::list(&self.disk)?;
        for name in &files.unfinished {
            remove(&self.disk, name)?;
        }
        // What is spare was made for another moment; it is cheaper to make it anew than to trust it.
        if files.spare {
            remove(&self.disk, SPARE)?;
        }
        self.recover(&files, into)?;
        self.state.lock().room.reserve = files.reserve;
        Ok(())
    }

    fn append(&mut self, batch: &[Proposal], heads: &dyn Heads) -> Result<Vec<Verdict>, LogError> {
        let verdicts = decide(batch, heads, self.head, true);
        if self.write(batch, &verdicts)? {
            // A batch that was refused as a whole needed no room, and says nothing about it.
            if verdicts.iter().any(Result::is_ok) {
                self.state.lock().full = false;
            }
            return Ok(verdicts);
        }
        self.state.lock().full = true;
        self.write_deletes(batch, heads)
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
        let room = state.room;
        drop(state);
        Ok(Some(Box::new(Provision {
            disk: Arc::clone(&self.disk),
            state: Arc::clone(&self.state),
            room,
            spare_bytes: self.next_capacity(),
            reserve_bytes: self.options.reserve_bytes,
        })))
    }

    fn compact(&mut self, snapshot: &Snapshot, now: Time) -> Result<Box<dyn Chore>, LogError> {
        assert_eq!(snapshot.revision(), self.head, "only the newest state can become the base");
        if self.active.as_ref().is_some_and(|segment| segment.first() <= self.head) {
            match self.rotate(0) {
                // Without a fresh segment the current one stays, and is folded next time.
                Err(LogError::Io { source, .. }) if is_full(&source) => {}
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
            retention: self.options.retention.clone(),
            now,
            plain,
        }))
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
    fn room_for_frames_is_made_for_what_is_admitted_and_kept_unless_it_is_more_than_a_batch_needs() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = DiskLog::new(Arc::new(OsDisk::exclusive(dir.path()).unwrap()), DiskOptions::default());
        let nothing = Snapshot::default();
        let mut room_after = |proposal: Proposal| {
            let is_admitted = log.append(&[proposal], &nothing).unwrap()[0].is_ok();
            (is_admitted, log.frame.capacity())
        };
        let (is_admitted, room) = room_after(put(Expect::Any, BATCH_BYTES_MAX));
        assert!(is_admitted && (BATCH_BYTES_MAX..=FRAME_ROOM_BYTES_MAX).contains(&room), "{room}");
        assert_eq!(room_after(put(Expect::Any, 1)), (true, room), "a small batch leaves the room as it is");
        assert_eq!(
            room_after(put(Expect::Present, 2 * BATCH_BYTES_MAX)),
            (false, room),
            "nothing came of it"
        );
        assert_eq!(room_after(put(Expect::Any, 2 * BATCH_BYTES_MAX)), (true, 0), "such a batch is rare");
    }
}
