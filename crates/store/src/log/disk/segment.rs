//! Segments: appending to the current one, and scanning any of them.

use std::sync::Arc;

use bytes::Bytes;
use setpoint_api::Revision;

use super::files::LogFile;
use super::format::{
    FILE_HEADER_BYTES, FileHeader, FileKind, FrameRead, corrupt, looks_torn, newer_frame_after, read_frame,
    undecodable,
};
use crate::commit::Commit;
use crate::disk::{Disk, DiskFile};
use crate::log::LogError;
use crate::log::wire::CommitDecoder;

/// Number of frames after which the header records the synced length.
const SYNC_RECORD_FRAMES: u32 = 64;
/// Bytes of frames after which the header records the synced length.
const SYNC_RECORD_BYTES: u64 = 1 << 20;

/// Segment that takes the next batch.
pub struct Segment {
    name: String,
    file: Box<dyn DiskFile>,
    header: FileHeader,
    position: u64,
    capacity: u64,
    /// Frames since the header last recorded the synced length.
    unrecorded_frames: u32,
}

impl Segment {
    /// Returns an empty segment: a header followed by zeros.
    pub fn begin(file: Box<dyn DiskFile>, header: FileHeader) -> Segment {
        let name = LogFile::segment(header.first).name();
        let (position, capacity) = (FILE_HEADER_BYTES as u64, header.capacity);
        Segment { name, file, header, position, capacity, unrecorded_frames: 0 }
    }

    /// Resumes a segment at the first free position.
    pub fn resume(disk: &Arc<dyn Disk>, header: FileHeader, position: u64) -> Result<Segment, LogError> {
        let name = LogFile::segment(header.first).name();
        let failed = |source| LogError::Io { action: "open", file: name.clone(), source };
        let file = disk.open(&name).map_err(failed)?;
        let capacity = file.length().map_err(failed)?;
        Ok(Segment { file, header, position, capacity, name, unrecorded_frames: 0 })
    }

    /// Records in the header that `last` is the last revision, once the name of the next segment is durable.
    /// The record is in one sector and needs no sync before the next commit: without it, only the loss of
    /// that segment is not detected.
    pub fn seal(self, last: Revision) -> Result<Box<dyn DiskFile>, LogError> {
        let header = FileHeader { last, capacity: self.capacity, synced: self.position, ..self.header };
        let written = self.file.write_at(0, &header.encode());
        written.map_err(|source| LogError::Io { action: "seal", file: self.name, source })?;
        Ok(self.file)
    }

    /// First revision that it holds, or will hold.
    #[must_use]
    pub fn first(&self) -> Revision {
        self.header.first
    }

    /// Maximum bytes that it can hold.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes that it holds.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.position
    }

    /// `true` if a frame of this many bytes fits.
    #[must_use]
    pub fn fits(&self, frame: usize) -> bool {
        self.position + frame as u64 <= self.capacity
    }

    /// Writes a frame and waits until it is durable.
    pub fn append(&mut self, frame: &[u8]) -> Result<(), LogError> {
        // The header becomes durable with this frame or before it; it describes only earlier frames, so both
        // are safe.
        if self.unrecorded_frames >= SYNC_RECORD_FRAMES
            || self.position - self.header.synced.min(self.position) >= SYNC_RECORD_BYTES
        {
            self.record_synced_length();
        }
        let failed = |action| {
            let file = self.name.clone();
            move |source| LogError::Io { action, file, source }
        };
        self.file.write_at(self.position, frame).map_err(failed("write"))?;
        self.file.sync().map_err(failed("sync"))?;
        self.position += frame.len() as u64;
        self.unrecorded_frames += 1;
        Ok(())
    }

    /// Records the synced length in the header, so that the loss of complete frames at the end is detected.
    /// All frames must be durable before this call, because the record can become durable at any time. It
    /// needs no sync of its own and ignores failures: without the record, only such a loss is not detected.
    pub fn record_synced_length(&mut self) {
        let header = FileHeader { synced: self.position, ..self.header };
        if self.header != header && self.file.write_at(0, &header.encode()).is_ok() {
            self.header = header;
        }
        self.unrecorded_frames = 0;
    }

    /// Zeroes everything after the last complete frame, so that a torn write is never read again. Syncs the
    /// frames that were read, because a killed process may have left them in the page cache.
    pub fn repair_tail(&mut self, tail: &[u8]) -> Result<(), LogError> {
        let failed = |source| LogError::Io { action: "repair the end of", file: self.name.clone(), source };
        if tail.iter().any(|byte| *byte != 0) {
            self.file.write_at(self.position, &vec![0; tail.len()]).map_err(failed)?;
        }
        if self.header.capacity == 0 {
            // Format 1 does not record the capacity.
            self.header.capacity = self.capacity;
            self.file.write_at(0, &self.header.encode()).map_err(failed)?;
        }
        self.file.sync().map_err(failed)?;
        self.record_synced_length();
        Ok(())
    }
}

/// End of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentEnd {
    /// Offset of the next frame.
    pub position: usize,
    /// Last revision.
    pub last: Revision,
}

/// State of the segment that is scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanMode {
    /// Last segment, without a writer: a torn tail is dropped, any other damage is corruption.
    Last,
    /// Segment with a successor: must be complete.
    Sealed,
    /// Segment that may be written concurrently: ends with the last complete frame.
    Live,
    /// History file: commits may have been removed from it.
    History,
}

impl ScanMode {
    /// Returns the state of a history file with this header: a renamed segment must be complete.
    #[must_use]
    pub fn of_history(header: &FileHeader) -> ScanMode {
        if header.kind == FileKind::Segment { ScanMode::Sealed } else { ScanMode::History }
    }
}

/// Scans the frames of a segment or history file and passes each commit after `after` to `each`.
pub fn scan(
    log_file: &LogFile,
    (header, file): &(FileHeader, Bytes),
    mode: ScanMode,
    after: Revision,
    mut decoder: CommitDecoder<'_>,
    each: &mut dyn FnMut(Commit),
) -> Result<SegmentEnd, LogError> {
    let name = log_file.name();
    let mut position = FILE_HEADER_BYTES;
    let mut last = Revision(header.first.0 - 1);
    loop {
        let frame = match read_frame(file, position, header.id) {
            FrameRead::Frame(frame) => frame,
            frame => {
                check_end(&name, header, file, position, frame, mode, last)?;
                return Ok(SegmentEnd { position, last });
            }
        };
        let damaged = |detail: String| corrupt(&name, position as u64, &detail);
        if mode == ScanMode::History && frame.count == 0 {
            return Ok(SegmentEnd { position: frame.end, last });
        }
        let has_gap =
            if mode == ScanMode::History { frame.first <= last } else { frame.first != last.next() };
        if has_gap {
            return Err(damaged(format!("revision {} follows {last}", frame.first)));
        }
        let mut payload = frame.payload;
        for _ in 0..frame.count {
            let commit = decoder
                .decode(&mut payload)
                .map_err(|error| undecodable(&name, position as u64, "a commit", error))?;
            if commit.revision <= last || (mode != ScanMode::History && commit.revision != last.next()) {
                return Err(damaged(format!("revision {} follows {last}", commit.revision)));
            }
            last = commit.revision;
            if commit.revision > after {
                each(commit);
            }
        }
        if !payload.is_empty() {
            return Err(damaged("a frame has bytes left over".to_owned()));
        }
        position = frame.end;
    }
}

/// Fails if a segment is shorter than its capacity. Frames are written into zeros, so a power cut never
/// shortens it.
pub fn check_length(log_file: &LogFile, (header, file): &(FileHeader, Bytes)) -> Result<(), LogError> {
    let length = file.len() as u64;
    if length >= header.capacity {
        return Ok(());
    }
    let detail = format!("the file is truncated: it was created with {} bytes", header.capacity);
    Err(corrupt(&log_file.name(), length, &detail))
}

/// Classifies the content at the offset of the next frame.
fn check_end(
    name: &str,
    header: &FileHeader,
    file: &Bytes,
    position: usize,
    frame: FrameRead,
    mode: ScanMode,
    last: Revision,
) -> Result<(), LogError> {
    if mode == ScanMode::Live {
        return Ok(());
    }
    let damaged = |detail: &str| Err(corrupt(name, position as u64, detail));
    let is_rest_zero = file[position.min(file.len())..].iter().all(|byte| *byte == 0);
    if mode == ScanMode::History && matches!(frame, FrameRead::Empty) {
        return damaged("the file ends too early");
    }
    let missing =
        format!("the last frames are missing: {} bytes of this file had been synced", header.synced);
    let is_short = (position as u64) < header.synced;
    if let FrameRead::Empty = frame
        && is_rest_zero
    {
        return if is_short { damaged(&missing) } else { Ok(()) };
    }
    if let Some(at) = newer_frame_after(file, position, header.id, last) {
        return damaged(&format!("a complete frame follows at byte {at}, so this one had been synced"));
    }
    match (frame, mode) {
        (FrameRead::Empty, _) if is_short => damaged(&missing),
        (FrameRead::Invalid { detail, .. }, _) if is_short => damaged(detail),
        (FrameRead::Empty, ScanMode::Last) => Ok(()),
        (FrameRead::Invalid { end, .. }, ScanMode::Last) if looks_torn(file, position, end) => Ok(()),
        (FrameRead::Invalid { detail, .. }, _) => damaged(detail),
        _ => damaged("bytes follow the last frame"),
    }
}
