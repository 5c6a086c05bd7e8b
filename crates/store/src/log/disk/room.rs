//! Preallocated segments.
//!
//! A segment is zeroed before it is used: then a write changes no file metadata, which makes a sync cheap,
//! and a torn write can be distinguished from corruption. A *spare* segment is kept ready, so that the
//! writer does not wait for the zeroing. The *reserve* is a small segment for deletes on a full disk, so
//! that objects can always be deleted. Both are held open, so that using them needs no file descriptor.

use std::sync::Arc;

use setpoint_api::Revision;

use super::files::{LogFile, UNFINISHED};
use super::format::{FileHeader, FileKind};
use super::segment::Segment;
use crate::disk::{Disk, DiskFile};
use crate::log::LogError;

const ZEROS_BYTES: usize = 256 << 10;

/// Preallocated file, held open: turning it into a segment needs no file descriptor.
pub struct Prepared {
    name: &'static str,
    file: Box<dyn DiskFile>,
    capacity: u64,
}

impl Prepared {
    /// Opens the preallocated file `name`.
    pub fn open(disk: &Arc<dyn Disk>, name: &'static str) -> Result<Prepared, LogError> {
        let opened = disk.open(name).and_then(|file| Ok((file.length()?, file)));
        let (capacity, file) =
            opened.map_err(|source| LogError::Io { action: "open", file: name.to_owned(), source })?;
        Ok(Prepared { name, file, capacity })
    }

    /// Size of the file in bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }
}

/// Creates a file of zeros called `name`, durably.
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

/// Turns a preallocated file into the segment that starts with `first`. A transient error changes nothing
/// and returns the file.
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
        // The segment is renamed already, so no error from here on is transient.
        disk.sync_names().map_err(|source| failed("sync the directory of")(std::io::Error::other(source)))
    };
    match attempt() {
        Ok(()) => Ok(Segment::begin(room.file, header)),
        Err(error) => Err((error, room)),
    }
}

/// Writes a file under a temporary name, and renames it when it is complete and durable. On failure the
/// temporary file is removed.
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
        // The first error is the one to return.
        let _ = disk.remove(unfinished);
        LogError::Io { action: "write", file: name.to_owned(), source }
    })
}
