//! Room on disk, made ahead of need.
//!
//! A segment is zeroed before it is used: a write into it then changes no metadata, which makes a sync
//! cheap, and a torn write can be told from a damaged one. A *spare* segment waits ready, so that the writer
//! does not wait for the zeroing. The *reserve* is a small segment that only deletes may use when the disk
//! is full, so that there is always a way out. Both are held open, so that they are of use without a descriptor.

use std::sync::Arc;

use setpoint_api::Revision;

use super::files::{LogFile, UNFINISHED};
use super::format::{FileHeader, FileKind};
use super::segment::Segment;
use crate::disk::{Disk, DiskFile};
use crate::log::LogError;

const ZEROS_BYTES: usize = 256 << 10;

/// Zeroed room under a name of its own, held open: turning it into a segment needs no descriptor.
pub struct Prepared {
    name: &'static str,
    file: Box<dyn DiskFile>,
    capacity: u64,
}

impl Prepared {
    /// The room that is there under `name`.
    pub fn open(disk: &Arc<dyn Disk>, name: &'static str) -> Result<Prepared, LogError> {
        let opened = disk.open(name).and_then(|file| Ok((file.length()?, file)));
        let (capacity, file) =
            opened.map_err(|source| LogError::Io { action: "open", file: name.to_owned(), source })?;
        Ok(Prepared { name, file, capacity })
    }

    /// The length of the file in bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }
}

/// Makes a file of zeros under `name`, durably.
pub fn make_room(disk: &Arc<dyn Disk>, name: &'static str, capacity: u64) -> Result<Prepared, LogError> {
    let unfinished = format!("{name}{UNFINISHED}");
    let file = write_aside(disk, &unfinished, name, |file| {
        let zeros = vec![0; ZEROS_BYTES];
        let mut at = 0;
        while at < capacity {
            let length = (capacity - at).min(ZEROS_BYTES as u64);
            file.write_at(at, &zeros[..length as usize])?;
            at += length;
        }
        Ok(())
    })?;
    Ok(Prepared { name, file, capacity })
}

/// Turns room into the segment that starts with `first`. With a transient error nothing has happened, and the room
/// comes back.
pub fn use_room(
    disk: &Arc<dyn Disk>,
    room: Prepared,
    id: u64,
    first: Revision,
) -> Result<Segment, (LogError, Prepared)> {
    let header = FileHeader {
        kind: FileKind::Segment,
        id,
        first,
        last: Revision::ZERO,
        time: setpoint_api::Time::EPOCH,
        synced: 0,
        capacity: room.capacity,
        next: Revision::ZERO,
    };
    let failed = |action| move |source| LogError::Io { action, file: room.name.to_owned(), source };
    let name = LogFile::segment(first).name();
    let attempt = || {
        room.file.write_at(0, &header.encode()).map_err(failed("write"))?;
        room.file.sync().map_err(failed("sync"))?;
        disk.rename(room.name, &name).map_err(failed("rename"))?;
        // The segment has its name: there is no way back, whatever the error is.
        disk.sync_names().map_err(|source| failed("sync the directory of")(std::io::Error::other(source)))
    };
    match attempt() {
        Ok(()) => Ok(Segment::begin(room.file, header)),
        Err(error) => Err((error, room)),
    }
}

/// Writes a file aside, and gives it its name when it is whole and durable. What fails leaves nothing behind
/// but an unfinished file, which is removed.
pub fn write_aside(
    disk: &Arc<dyn Disk>,
    unfinished: &str,
    name: &str,
    write: impl FnOnce(&dyn DiskFile) -> std::io::Result<()>,
) -> Result<Box<dyn DiskFile>, LogError> {
    let attempt = || {
        let file = disk.create(unfinished)?;
        write(&*file)?;
        file.sync()?;
        disk.rename(unfinished, name)?;
        disk.sync_names()?;
        Ok(file)
    };
    attempt().map_err(|source| {
        // The error that brought us here is the one to report.
        let _ = disk.remove(unfinished);
        LogError::Io { action: "write", file: name.to_owned(), source }
    })
}
