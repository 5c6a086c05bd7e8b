//! Checkpoint: all objects at one revision, in one file.
//!
//! Objects are written as the commits that last put them, in frames of about [`BLOCK_BYTES`]. A frame
//! without commits ends the file, so that a truncated file is detected.

use std::sync::Arc;

use bytes::Bytes;
use setpoint_api::Revision;

use super::files::{LogFile, TEMPORARY_SUFFIX};
use super::format::{
    FILE_HEADER_BYTES, FRAME_HEADER_BYTES, FileHeader, FileKind, FrameRead, corrupt, finish_frame,
    read_frame, start_frame, undecodable,
};
use super::preallocation::write_atomically;
use crate::disk::{Disk, DiskFile};
use crate::log::LogError;
use crate::log::wire::{CommitDecoder, encode_record, encode_record_sealed};
use crate::mirror::Snapshot;
use crate::seal::Sealer;

const BLOCK_BYTES: usize = 256 << 10;
/// Bytes that are read at a time.
const WINDOW_BYTES: usize = 4 << 20;

/// Writes a checkpoint of `snapshot` durably. Returns its length in bytes. `next` is the first revision of
/// the segment in use, whose name is durable; zero if there is none.
pub fn write(
    disk: &Arc<dyn Disk>,
    id: u64,
    snapshot: &Snapshot,
    next: Revision,
    sealer: Option<&dyn Sealer>,
) -> Result<u64, LogError> {
    let log_file = LogFile::checkpoint(snapshot.revision());
    let mut at = FILE_HEADER_BYTES as u64;
    let mut seal_error = None;
    let written =
        write_atomically(disk, &format!("{}{TEMPORARY_SUFFIX}", log_file.name()), &log_file.name(), |file| {
            let header = FileHeader {
                kind: FileKind::Checkpoint,
                id,
                first: snapshot.revision(),
                last: snapshot.revision(),
                time: setpoint_api::Time::EPOCH,
                synced: 0,
                capacity: 0,
                next,
            };
            file.write_at(0, &header.encode())?;
            let mut frame = Vec::with_capacity(BLOCK_BYTES * 2);
            let mut count = 0;
            start_frame(&mut frame);
            let mut flush = |frame: &mut Vec<u8>, count: &mut u32| {
                finish_frame(frame, id, snapshot.revision(), *count);
                file.write_at(at, frame)?;
                at += frame.len() as u64;
                start_frame(frame);
                *count = 0;
                Ok::<(), std::io::Error>(())
            };
            for (resource, table) in snapshot.tables() {
                for record in table.iter() {
                    match sealer {
                        None => encode_record(&mut frame, resource, record),
                        Some(sealer) => {
                            encode_record_sealed(&mut frame, resource, record, sealer).map_err(|error| {
                                seal_error = Some(error.clone());
                                std::io::Error::other(error)
                            })?;
                        }
                    }
                    count += 1;
                    if frame.len() >= BLOCK_BYTES {
                        flush(&mut frame, &mut count)?;
                    }
                }
            }
            if count > 0 {
                flush(&mut frame, &mut count)?;
            }
            flush(&mut frame, &mut count)
        });
    match (written, seal_error) {
        (Ok(_), _) => Ok(at),
        (Err(_), Some(error)) => Err(LogError::Seal(error)),
        (Err(error), None) => Err(error),
    }
}

/// Records the segment that follows in the header of a checkpoint that was written before that segment
/// existed. The record is in one sector and needs no sync: without it, only the loss of that segment is not
/// detected.
pub fn record_next_segment(disk: &Arc<dyn Disk>, log_file: &LogFile, next: Revision) -> Result<(), LogError> {
    let name = log_file.name();
    let failed = |source| LogError::Io { action: "write", file: name.clone(), source };
    let file = disk.open(&name).map_err(failed)?;
    let mut header = [0; FILE_HEADER_BYTES];
    file.read_at(0, &mut header).map_err(failed)?;
    let header = FileHeader { next, ..log_file.check_header(FileHeader::decode(&name, &header)?)? };
    file.write_at(0, &header.encode()).map_err(failed)
}

/// Reads a checkpoint with its header. Also returns its length in bytes.
pub fn read(
    disk: &Arc<dyn Disk>,
    log_file: &LogFile,
    mut decoder: CommitDecoder<'_>,
) -> Result<(Snapshot, FileHeader, u64), LogError> {
    let name = log_file.name();
    let failed = |source| LogError::Io { action: "read", file: name.clone(), source };
    let file = disk.open(&name).map_err(failed)?;
    let length = file.length().map_err(failed)?;
    let mut header = vec![0; FILE_HEADER_BYTES.min(length as usize)];
    file.read_at(0, &mut header).map_err(failed)?;
    let header = log_file.check_header(FileHeader::decode(&name, &header)?)?;
    let mut snapshot = Snapshot::default();
    snapshot.set_revision(log_file.first);
    let mut window = Window { file: &*file, length, start: 0, bytes: Bytes::new() };
    let mut position = FILE_HEADER_BYTES as u64;
    loop {
        let (read, base) = window.read_frame(position, header.id).map_err(failed)?;
        let damaged = |detail: &str| corrupt(&name, position, detail);
        let frame = match read {
            FrameRead::Frame(frame) => frame,
            FrameRead::Empty => return Err(damaged("the file ends too early")),
            FrameRead::Invalid { detail, .. } => return Err(damaged(detail)),
        };
        if frame.count == 0 {
            return Ok((snapshot, header, length));
        }
        let mut payload = frame.payload;
        for _ in 0..frame.count {
            let commit = decoder
                .decode(&mut payload)
                .map_err(|error| undecodable(&name, position, "an object", error))?;
            if !snapshot.restore(&commit) {
                return Err(damaged("an object is malformed"));
            }
        }
        position = base + frame.end as u64;
    }
}

/// Part of a large file, which bounds the memory for reading it.
struct Window<'a> {
    file: &'a dyn DiskFile,
    length: u64,
    start: u64,
    bytes: Bytes,
}

impl Window<'_> {
    /// Returns the frame at `position`, and the file offset to which its own offsets are relative.
    fn read_frame(&mut self, position: u64, id: u64) -> std::io::Result<(FrameRead, u64)> {
        let frame = self.read_loaded(position, id);
        if let FrameRead::Frame(_) = frame {
            return Ok((frame, self.start));
        }
        let mut bytes_to_load = WINDOW_BYTES;
        loop {
            self.load(position, bytes_to_load)?;
            let frame = self.read_loaded(position, id);
            let is_at_end = self.start + self.bytes.len() as u64 >= self.length;
            if matches!(frame, FrameRead::Frame(_)) || is_at_end || bytes_to_load > (64 << 20) {
                return Ok((frame, self.start));
            }
            bytes_to_load *= 4;
        }
    }

    fn read_loaded(&self, position: u64, id: u64) -> FrameRead {
        match position.checked_sub(self.start) {
            Some(at) if at + FRAME_HEADER_BYTES as u64 <= self.bytes.len() as u64 => {
                read_frame(&self.bytes, at as usize, id)
            }
            _ => FrameRead::Empty,
        }
    }

    fn load(&mut self, position: u64, bytes_to_load: usize) -> std::io::Result<()> {
        let length = (self.length.saturating_sub(position)).min(bytes_to_load as u64);
        let mut bytes = vec![0; length as usize];
        self.file.read_at(position, &mut bytes)?;
        (self.start, self.bytes) = (position, Bytes::from(bytes));
        Ok(())
    }
}
