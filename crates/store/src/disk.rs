//! All that the log wants of a disk, so that a simulated one can lose, tear and reorder what was not synced.
//!
//! A disk is one flat directory. Writes to a file are durable after [`DiskFile::sync`], names after
//! [`Disk::sync_names`]; before that a power cut may keep any part of them, in sectors of [`SECTOR_BYTES`].

mod os;

use std::io;

use rustix::io::Errno;

pub use os::OsDisk;

/// The unit that a power cut keeps or loses whole.
pub const SECTOR_BYTES: usize = 512;

/// A directory of files.
pub trait Disk: Send + Sync {
    /// The names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Opens an existing file.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Makes an empty file, or empties an existing one.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Gives a file another name, in place of what had that name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes all names durable.
    fn sync_names(&self) -> io::Result<()>;
}

/// A file of a [`Disk`].
pub trait DiskFile: Send + Sync {
    /// How long it is.
    fn length(&self) -> io::Result<u64>;
    /// Fills `buffer` from `offset`; an error if the file ends before.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Writes all of `data` at `offset`, and makes the file longer if need be.
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()>;
    /// Makes all writes durable.
    fn sync(&self) -> io::Result<()>;
}

/// Whether an operation failed for want of room.
#[must_use]
pub fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// `true` if an operation failed for want of file descriptors (EMFILE, ENFILE) or kernel memory (ENOMEM): it did
/// nothing, and succeeds once other users have released theirs.
#[must_use]
pub fn is_short_of_descriptors(error: &io::Error) -> bool {
    [Errno::MFILE, Errno::NFILE, Errno::NOMEM]
        .into_iter()
        .any(|errno| Errno::from_io_error(error) == Some(errno))
}

/// `true` if an operation failed for a reason that passes by itself: a full disk, or a shortage of descriptors.
#[must_use]
pub fn is_transient(error: &io::Error) -> bool {
    is_full(error) || is_short_of_descriptors(error)
}
