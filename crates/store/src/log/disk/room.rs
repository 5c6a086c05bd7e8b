//! Room on disk, made ahead of need.
//!
//! A segment is zeroed before it is used: a write into it then changes no metadata, which makes a sync
//! cheap, and a torn write can be told from a damaged one. A *spare* segment waits ready, so that the writer
//! does not wait for the zeroing. The *reserve* is a small segment that only deletes may use when the disk
//! is full, so that there is always a way out.

use std::sync::Arc;

use setpoint_api::Revision;

use super::files::{LogFile, UNFINISHED};
use super::format::{FileHeader, FileKind};
use crate::disk::Disk;
use crate::log::LogError;

const ZEROS_BYTES: usize = 256 << 10;

/// Makes a file of zeros under `name`, durably.
pub fn make_room(disk: &Arc<dyn Disk>, name: &str, capacity: u64) -> Result<(), LogError> {
    let unfinished = format!("{name}{UNFINISHED}");
    write_aside(disk, &unfinished, name, |file| {
        let zeros = vec![0; ZEROS_BYTES];
        let mut at = 0;
        while at < capacity {
            let length = (capacity - at).min(ZEROS_BYTES as u64);
            file.write_at(at, &zeros[..length as usize])?;
            at += length;
        }
        Ok(())
    })
}

/// Turns room into the segment that starts with `first`.
pub fn use_room(disk: &Arc<dyn Disk>, room: &str, id: u64, first: Revision) -> Result<LogFile, LogError> {
    let segment = LogFile::segment(first);
    let header = FileHeader {
        kind: FileKind::Segment,
        id,
        first,
        last: Revision::ZERO,
        time: setpoint_api::Time::EPOCH,
    };
    let failed = |action| {
        let file = room.to_owned();
        move |source| LogError::Io { action, file, source }
    };
    let file = disk.open(room).map_err(failed("open"))?;
    file.write_at(0, &header.encode()).map_err(failed("write"))?;
    file.sync().map_err(failed("sync"))?;
    disk.rename(room, &segment.name()).map_err(failed("rename"))?;
    disk.sync_names().map_err(failed("sync the directory of"))?;
    Ok(segment)
}

/// Writes a file aside, and gives it its name when it is whole and durable. What fails leaves nothing behind
/// but an unfinished file, which is removed.
pub fn write_aside(
    disk: &Arc<dyn Disk>,
    unfinished: &str,
    name: &str,
    write: impl FnOnce(&dyn crate::disk::DiskFile) -> std::io::Result<()>,
) -> Result<(), LogError> {
    let attempt = || {
        let file = disk.create(unfinished)?;
        write(&*file)?;
        file.sync()?;
        disk.rename(unfinished, name)?;
        disk.sync_names()
    };
    attempt().map_err(|source| {
        // The error that brought us here is the one to report.
        let _ = disk.remove(unfinished);
        LogError::Io { action: "write", file: name.to_owned(), source }
    })
}
