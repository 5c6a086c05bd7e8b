//! The bytes on disk.
//!
//! Every file starts with a [`FileHeader`] and goes on with frames. A frame holds what one batch committed:
//!
//! ```text
//! magic length first-revision commits payload-crc 0 header-crc | commit commit … | padding to 8 bytes
//! ```
//!
//! There is always some padding, and it is not zero, so that the last sector of a whole frame never looks like
//! one that was not written.
//!
//! Both checksums are seeded with the log's own id, so that no value a user stores, and no leftover of
//! another log, can be taken for a frame. Preallocated segments are zeroed: a header of zeros is the end.

use bytes::Bytes;
use setpoint_api::{Revision, Time};

use crate::disk::SECTOR_BYTES;
use crate::log::LogError;

/// The format that this program writes. Format 2 added [`FileHeader::capacity`], [`FileHeader::next`] and the last
/// revision of a segment that has a successor; format 1 has zeros there. Format 3 added [`FileHeader::synced`].
pub const FORMAT: u32 = 3;
/// How long the header of a file is.
pub const FILE_HEADER_BYTES: usize = 64;
/// How long the header of a frame is.
pub const FRAME_HEADER_BYTES: usize = 32;

const FILE_MAGIC: &[u8; 8] = b"SETPOINT";
const FRAME_MAGIC: u32 = 0x5350_4631;
const ALIGNMENT: usize = 8;
const PADDING: u8 = 0xa5;

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Commits as they came.
    Segment = 1,
    /// Commits before a checkpoint, less what is exempt from history.
    History = 2,
    /// All objects at one revision.
    Checkpoint = 3,
}

/// The first bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// What the file is for.
    pub kind: FileKind,
    /// The log it belongs to.
    pub id: u64,
    /// The first revision it covers (a checkpoint: the one it shows).
    pub first: Revision,
    /// The last revision it covers; zero for a segment without a successor, which may still grow.
    pub last: Revision,
    /// The time of its last commit; zero for a segment.
    pub time: Time,
    /// The bytes of a segment that are known to be durable: frames reach at least so far. Zero in other files, and where
    /// it is not known.
    pub synced: u64,
    /// The length in bytes that a segment was made with: a shorter file has been cut. Zero in other files, and where
    /// it is not known.
    pub capacity: u64,
    /// The first revision of the segment that was in use when a checkpoint was written: it, or a later one, is there
    /// until the next checkpoint is. Zero in other files, and where there was no segment.
    pub next: Revision,
}

impl FileHeader {
    /// The header as bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; FILE_HEADER_BYTES] {
        let mut out = [0; FILE_HEADER_BYTES];
        out[..8].copy_from_slice(FILE_MAGIC);
        out[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        out[12..16].copy_from_slice(&(self.kind as u32).to_le_bytes());
        out[16..24].copy_from_slice(&self.id.to_le_bytes());
        out[24..32].copy_from_slice(&self.first.0.to_le_bytes());
        out[32..40].copy_from_slice(&self.last.0.to_le_bytes());
        let time = if self.kind == FileKind::Segment { self.synced } else { self.time.0 as u64 };
        out[40..48].copy_from_slice(&time.to_le_bytes());
        let extra = if self.kind == FileKind::Checkpoint { self.next.0 } else { self.capacity };
        out[48..56].copy_from_slice(&extra.to_le_bytes());
        let crc = crc32fast::hash(&out[..60]);
        out[60..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads the header of the file called `name`.
    pub fn decode(name: &str, bytes: &[u8]) -> Result<FileHeader, LogError> {
        let corrupt = |position, what: &str| corrupt(name, position, what);
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

/// A frame that has been checked.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The revision of its first commit (in a checkpoint: the one it shows).
    pub first: Revision,
    /// How many commits it holds.
    pub count: u32,
    /// The commits, encoded.
    pub payload: Bytes,
    /// Where the next frame starts.
    pub end: usize,
}

/// What stands at a place where a frame should be.
#[derive(Clone, Debug)]
pub enum Slot {
    /// A frame.
    Frame(Frame),
    /// Zeros, or the end of the file: nothing was ever written here.
    Empty,
    /// Something else.
    Bad {
        /// What is wrong.
        what: &'static str,
        /// Where the damaged item ends, as far as that is known.
        end: usize,
    },
}

/// Starts a frame in `out`; its header follows when the payload is there ([`finish_frame`]).
pub fn start_frame(out: &mut Vec<u8>) {
    out.clear();
    out.resize(FRAME_HEADER_BYTES, 0);
}

/// Ends the frame in `out`.
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

/// How many bytes a frame takes whose header says `length`; `header` must be whole.
fn frame_bytes(header: &[u8]) -> usize {
    (FRAME_HEADER_BYTES + u32_at(header, 4) as usize + 1).next_multiple_of(ALIGNMENT)
}

/// Whether `header` is that of a frame of this log.
fn is_header(header: &[u8], id: u64) -> bool {
    header.len() == FRAME_HEADER_BYTES
        && u32_at(header, 0) == FRAME_MAGIC
        && u32_at(header, 28) == checksum(id, &header[..28])
}

/// Looks at the frame of a file that starts at `position`.
#[must_use]
pub fn slot_at(file: &Bytes, position: usize, id: u64) -> Slot {
    let Some(header) = file.get(position..position + FRAME_HEADER_BYTES) else { return Slot::Empty };
    if header.iter().all(|byte| *byte == 0) {
        return Slot::Empty;
    }
    let header_end = position + FRAME_HEADER_BYTES;
    if !is_header(header, id) {
        return Slot::Bad { what: "the frame's header is damaged", end: header_end };
    }
    let end = position + frame_bytes(header);
    let payload_end = header_end + u32_at(header, 4) as usize;
    if end > file.len() {
        return Slot::Bad { what: "the frame is longer than the file", end: file.len() };
    }
    if checksum(id, &file[header_end..payload_end]) != u32_at(header, 20) {
        return Slot::Bad { what: "the frame's checksum does not match", end };
    }
    Slot::Frame(Frame {
        first: Revision(u64_at(header, 8)),
        count: u32_at(header, 16),
        payload: file.slice(header_end..payload_end),
        end,
    })
}

/// Looks for a whole frame anywhere after `position` that is newer than `newest`.
///
/// A batch is written only after the one before it was synced. So if damage is followed by a newer frame, the
/// damaged bytes had been synced: this is corruption and not a write cut short.
#[must_use]
pub fn newer_frame_after(file: &Bytes, position: usize, id: u64, newest: Revision) -> Option<usize> {
    let start = position.next_multiple_of(ALIGNMENT);
    (start..file.len()).step_by(ALIGNMENT).find(|at| {
        let header = &file[*at..file.len().min(at + FRAME_HEADER_BYTES)];
        is_header(header, id) && matches!(slot_at(file, *at, id), Slot::Frame(frame) if frame.first > newest)
    })
}

/// Whether the bytes from `start` to `end` can be a write that was cut short: in a zeroed segment such a write
/// leaves at least one sector, or its share of one, as it was.
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

/// The error for damage in a file.
pub fn corrupt(file: &str, position: u64, what: &str) -> LogError {
    LogError::Corrupt { file: file.to_owned(), position, what: what.to_owned() }
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
