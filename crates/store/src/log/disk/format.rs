//! On-disk format of the log.
//!
//! Every file consists of a [`FileHeader`] and frames. A frame holds the commits of one batch:
//!
//! ```text
//! magic length first-revision commits payload-crc 0 header-crc | commit commit … | padding to 8 bytes
//! ```
//!
//! There is always some padding, and it is not zero, so that the last sector of a complete frame never looks
//! like an unwritten one.
//!
//! Both checksums are seeded with the log's id, so that no stored value and no leftover of another log can be
//! mistaken for a frame. Preallocated segments are zeroed: a frame header of zeros is the end of the log.

use bytes::Bytes;
use setpoint_api::{Revision, Time};

use crate::disk::SECTOR_BYTES;
use crate::log::{CommitDecodeError, LogError};
use crate::seal::OpenError;

/// Format that this program writes. Format 2 added [`FileHeader::capacity`], [`FileHeader::next`] and the
/// last revision of a segment that has a successor; format 1 has zeros there. Format 3 added
/// [`FileHeader::synced`]. Format 4 added sealed writes.
pub const FORMAT: u32 = 4;
/// Bytes of a file header.
pub const FILE_HEADER_BYTES: usize = 64;
/// Bytes of a frame header.
pub const FRAME_HEADER_BYTES: usize = 32;

const FILE_MAGIC: &[u8; 8] = b"SETPOINT";
const FRAME_MAGIC: u32 = 0x5350_4631;
const ALIGNMENT: usize = 8;
const PADDING: u8 = 0xa5;

/// Kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Commits in the order in which they were appended.
    Segment = 1,
    /// Commits before a checkpoint, without the resources that are exempt from history.
    History = 2,
    /// All objects at one revision.
    Checkpoint = 3,
}

/// File header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// Kind of the file.
    pub kind: FileKind,
    /// Id of the log.
    pub id: u64,
    /// First revision that the file covers (checkpoint: its revision).
    pub first: Revision,
    /// Last revision that the file covers; zero for a segment without a successor, which may still grow.
    pub last: Revision,
    /// Time of the last commit; zero for a segment.
    pub time: Time,
    /// Bytes of a segment that are known to be durable: its frames reach at least this far. Zero if unknown,
    /// and in other files.
    pub synced: u64,
    /// Size in bytes with which a segment was created: a shorter file has been truncated. Zero if unknown,
    /// and in other files.
    pub capacity: u64,
    /// First revision of the segment that was in use when a checkpoint was written. That segment or a later
    /// one exists until the next checkpoint. Zero in other files, and if there was no segment.
    pub next: Revision,
}

impl FileHeader {
    /// Encodes the header.
    #[must_use]
    pub fn encode(&self) -> [u8; FILE_HEADER_BYTES] {
        let mut out = [0; FILE_HEADER_BYTES];
        out[..8].copy_from_slice(FILE_MAGIC);
        out[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        out[12..16].copy_from_slice(&(self.kind as u32).to_le_bytes());
        out[16..24].copy_from_slice(&self.id.to_le_bytes());
        out[24..32].copy_from_slice(&self.first.0.to_le_bytes());
        out[32..40].copy_from_slice(&self.last.0.to_le_bytes());
        let synced_or_time = if self.kind == FileKind::Segment { self.synced } else { self.time.0 as u64 };
        out[40..48].copy_from_slice(&synced_or_time.to_le_bytes());
        let size_or_next = if self.kind == FileKind::Checkpoint { self.next.0 } else { self.capacity };
        out[48..56].copy_from_slice(&size_or_next.to_le_bytes());
        let crc = crc32fast::hash(&out[..60]);
        out[60..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Decodes the header of the file called `name`.
    pub fn decode(name: &str, bytes: &[u8]) -> Result<FileHeader, LogError> {
        let corrupt = |position, detail: &str| corrupt(name, position, detail);
        if bytes.len() < FILE_HEADER_BYTES || &bytes[..8] != FILE_MAGIC {
            return Err(corrupt(0, "this is not a file of a setpoint store"));
        }
        let version = u32_at(bytes, 8);
        if version == 0 || version > FORMAT {
            return Err(LogError::Format { file: name.to_owned(), found: version, known: FORMAT });
        }
        if crc32fast::hash(&bytes[..60]) != u32_at(bytes, 60) {
            return Err(corrupt(0, "the file's header is damaged"));
        }
        let kind = match u32_at(bytes, 12) {
            1 => FileKind::Segment,
            2 => FileKind::History,
            3 => FileKind::Checkpoint,
            _ => return Err(corrupt(12, "unknown kind of file")),
        };
        let (capacity, next) = match (kind, u64_at(bytes, 48)) {
            (FileKind::Checkpoint, next) => (0, Revision(next)),
            (_, capacity) => (capacity, Revision::ZERO),
        };
        let (time, synced) = match (kind, u64_at(bytes, 40)) {
            (FileKind::Segment, synced) => (Time::EPOCH, synced),
            (_, time) => (Time(time as i64), 0),
        };
        Ok(FileHeader {
            kind,
            capacity,
            next,
            time,
            synced,
            id: u64_at(bytes, 16),
            first: Revision(u64_at(bytes, 24)),
            last: Revision(u64_at(bytes, 32)),
        })
    }
}

/// Frame with valid checksums.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Revision of its first commit (in a checkpoint: the checkpoint's revision).
    pub first: Revision,
    /// Number of commits.
    pub count: u32,
    /// Encoded commits.
    pub payload: Bytes,
    /// Offset of the next frame.
    pub end: usize,
}

/// Content at an offset where a frame is expected.
#[derive(Clone, Debug)]
pub enum FrameRead {
    /// Valid frame.
    Frame(Frame),
    /// Zeros, or the end of the file: never written.
    Empty,
    /// Invalid data.
    Invalid {
        /// Description of the damage.
        detail: &'static str,
        /// End of the damaged item, as far as it is known.
        end: usize,
    },
}

/// Starts a frame in `out`, with room for the header, which [`finish_frame`] fills in.
pub fn start_frame(out: &mut Vec<u8>) {
    out.clear();
    out.resize(FRAME_HEADER_BYTES, 0);
}

/// Completes the frame in `out`.
pub fn finish_frame(out: &mut Vec<u8>, id: u64, first: Revision, count: u32) {
    let payload_crc = checksum(id, &out[FRAME_HEADER_BYTES..]);
    let length = u32::try_from(out.len() - FRAME_HEADER_BYTES).expect("a batch is far smaller than 4 GiB");
    out[0..4].copy_from_slice(&FRAME_MAGIC.to_le_bytes());
    out[4..8].copy_from_slice(&length.to_le_bytes());
    out[8..16].copy_from_slice(&first.0.to_le_bytes());
    out[16..20].copy_from_slice(&count.to_le_bytes());
    out[20..24].copy_from_slice(&payload_crc.to_le_bytes());
    let header_crc = checksum(id, &out[..28]);
    out[28..32].copy_from_slice(&header_crc.to_le_bytes());
    out.resize((out.len() + 1).next_multiple_of(ALIGNMENT), PADDING);
}

/// Bytes of the frame with this header, which must be complete.
fn frame_bytes(header: &[u8]) -> usize {
    (FRAME_HEADER_BYTES + u32_at(header, 4) as usize + 1).next_multiple_of(ALIGNMENT)
}

/// `true` if `header` is a valid frame header of this log.
fn is_frame_header(header: &[u8], id: u64) -> bool {
    header.len() == FRAME_HEADER_BYTES
        && u32_at(header, 0) == FRAME_MAGIC
        && u32_at(header, 28) == checksum(id, &header[..28])
}

/// Decodes the frame at `position`.
#[must_use]
pub fn read_frame(file: &Bytes, position: usize, id: u64) -> FrameRead {
    let Some(header) = file.get(position..position + FRAME_HEADER_BYTES) else { return FrameRead::Empty };
    if header.iter().all(|byte| *byte == 0) {
        return FrameRead::Empty;
    }
    let header_end = position + FRAME_HEADER_BYTES;
    if !is_frame_header(header, id) {
        return FrameRead::Invalid { detail: "the frame's header is damaged", end: header_end };
    }
    let end = position + frame_bytes(header);
    let payload_end = header_end + u32_at(header, 4) as usize;
    if end > file.len() {
        return FrameRead::Invalid { detail: "the frame is longer than the file", end: file.len() };
    }
    if checksum(id, &file[header_end..payload_end]) != u32_at(header, 20) {
        return FrameRead::Invalid { detail: "the frame's checksum does not match", end };
    }
    FrameRead::Frame(Frame {
        first: Revision(u64_at(header, 8)),
        count: u32_at(header, 16),
        payload: file.slice(header_end..payload_end),
        end,
    })
}

/// Searches for a valid frame anywhere after `position` that is newer than `newest`.
///
/// A batch is written only after the previous one was synced. Damage that is followed by a newer frame had
/// therefore been synced: it is corruption, not a torn write.
#[must_use]
pub fn newer_frame_after(file: &Bytes, position: usize, id: u64, newest: Revision) -> Option<usize> {
    let start = position.next_multiple_of(ALIGNMENT);
    (start..file.len()).step_by(ALIGNMENT).find(|at| {
        let header = &file[*at..file.len().min(at + FRAME_HEADER_BYTES)];
        is_frame_header(header, id)
            && matches!(read_frame(file, *at, id), FrameRead::Frame(frame) if frame.first > newest)
    })
}

/// `true` if the bytes from `start` to `end` can be a torn write: in a zeroed segment, a torn write leaves
/// at least one sector, or its part of one, unchanged.
#[must_use]
pub fn looks_torn(file: &[u8], start: usize, end: usize) -> bool {
    let mut from = start;
    while from < end {
        let to = (from + 1).next_multiple_of(SECTOR_BYTES).min(end);
        if file[from..to].iter().all(|byte| *byte == 0) {
            return true;
        }
        from = to;
    }
    false
}

/// Returns the error for a commit that cannot be decoded.
pub fn undecodable(file: &str, position: u64, noun: &str, error: CommitDecodeError) -> LogError {
    match error {
        CommitDecodeError::Sealed { resource, path, revision, key, error } if error != OpenError::Damaged => {
            LogError::Sealed { file: file.to_owned(), position, resource, path, revision, key, error }
        }
        error => corrupt(file, position, &format!("{noun} cannot be read: {error}")),
    }
}

/// Returns the error for damage in a file.
pub fn corrupt(file: &str, position: u64, detail: &str) -> LogError {
    LogError::Corrupt { file: file.to_owned(), position, detail: detail.to_owned() }
}

fn checksum(id: u64, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&id.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
