//! Preallocated segments.
//!
//! A segment is zeroed before it is used: then a write changes no file metadata, which makes a sync cheap,
//! and a torn write can be distinguished from corruption. A *spare* segment is kept ready, so that the
//! writer does not wait for the zeroing. The *reserve* is a small segment for deletes on a full disk, so
//! that objects can always be deleted. Both are held open, so that using them needs no file descriptor.

use std::sync::Arc;

use setpoint_api::Revision;

use super::files::{LogFile, TEMPORARY_SUFFIX};
use super::format::{FileHeader, FileKind};
use super::segment::Segment;
use crate::disk::{Disk, DiskFile};
use crate::log::LogError;

const ZEROS_BYTES: usize = 256 << 10;

/// Preallocated file, held open: turning it into a segment needs no file descriptor.
pub struct PreallocatedFile {
    name: &'static str,
    file: Box<dyn DiskFile>,
    capacity: u64,
}

impl PreallocatedFile {
    /// Opens the preallocated file `name`.
    pub fn open(disk: &Arc<dyn Disk>, name: &'static str) -> Result<PreallocatedFile, LogError> {
        let opened = disk.open(name).and_then(|file| Ok((file.length()?, file)));
        let (capacity, file) =
            opened.map_err(|source| LogError::Io { action: "open", file: name.to_owned(), source })?;
        Ok(PreallocatedFile { name, file, capacity })
    }

    /// Size of the file in bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }
}

/// Creates a file of zeros called `name`, durably.
pub fn preallocate(
    disk: &Arc<dyn Disk>,
    name: &'static str,
    capacity: u64,
) -> Result<PreallocatedFile, LogError> {
    let temporary = format!("{name}{TEMPORARY_SUFFIX}");
    let file = write_atomically(disk, &temporary, name, |file| {
        let zeros = vec![0; ZEROS_BYTES];
        let mut offset = 0;
        while offset < capacity {
            let length = (capacity - offset).min(ZEROS_BYTES as u64);
            file.write_at(offset, &zeros[..length as usize])?;
            offset += length;
        }
        Ok(())
    })?;
    Ok(PreallocatedFile { name, file, capacity })
}

/// Turns a preallocated file into the segment that starts with `first`. A transient error changes nothing
/// and returns the file.
pub fn begin_segment(
    disk: &Arc<dyn Disk>,
    prepared: PreallocatedFile,
    id: u64,
    first: Revision,
) -> Result<Segment, Box<(LogError, PreallocatedFile)>> {
    let header = FileHeader {
        kind: FileKind::Segment,
        id,
        first,
        last: Revision::ZERO,
        time: setpoint_api::Time::EPOCH,
        synced: 0,
        capacity: prepared.capacity,
        next: Revision::ZERO,
    };
    let failed = |action| move |source| LogError::Io { action, file: prepared.name.to_owned(), source };
    let name = LogFile::segment(first).name();
    let attempt = || {
        prepared.file.write_at(0, &header.encode()).map_err(failed("write"))?;
        prepared.file.sync().map_err(failed("sync"))?;
        disk.rename(prepared.name, &name).map_err(failed("rename"))?;
        // The segment is renamed already, so no error from here on is transient.
        disk.sync_names().map_err(|source| failed("sync the directory of")(std::io::Error::other(source)))
    };
    match attempt() {
        Ok(()) => Ok(Segment::begin(prepared.file, header)),
        Err(error) => Err(Box::new((error, prepared))),
    }
}

/// Writes a file under a temporary name, and renames it when it is complete and durable. On failure the
/// temporary file is removed.
pub fn write_atomically(
    disk: &Arc<dyn Disk>,
    temporary: &str,
    name: &str,
    write: impl FnOnce(&dyn DiskFile) -> std::io::Result<()>,
) -> Result<Box<dyn DiskFile>, LogError> {
    let attempt = || {
        let file = disk.create(temporary)?;
        write(&*file)?;
        file.sync()?;
        disk.rename(temporary, name)?;
        disk.sync_names()?;
        Ok(file)
    };
    attempt().map_err(|source| {
        // The first error is the one to return.
        let _ = disk.remove(temporary);
        LogError::Io { action: "write", file: name.to_owned(), source }
    })
}
