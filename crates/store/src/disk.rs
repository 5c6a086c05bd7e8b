//! Disk interface of the log, so that a simulated disk can lose, tear and reorder unsynced writes.
//!
//! A disk is one flat directory. Writes to a file are durable after [`DiskFile::sync`], names after
//! [`Disk::sync_names`]. Before that, a power cut may keep any part of them, in sectors of [`SECTOR_BYTES`].

mod os;

use std::io;

use rustix::io::Errno;

pub use os::OsDisk;

/// Unit that a power cut keeps or loses as a whole.
pub const SECTOR_BYTES: usize = 512;

/// Directory of files.
pub trait Disk: Send + Sync {
    /// Returns the names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Opens an existing file.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Creates an empty file, or truncates an existing one.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Renames a file, replacing an existing one.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes all names durable.
    fn sync_names(&self) -> io::Result<()>;
}

/// File of a [`Disk`].
pub trait DiskFile: Send + Sync {
    /// Length in bytes.
    fn length(&self) -> io::Result<u64>;
    /// Fills `buffer` from `offset`. Fails if the file ends before.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Writes all of `data` at `offset`, and extends the file if necessary.
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()>;
    /// Makes all writes durable.
    fn sync(&self) -> io::Result<()>;
}

/// `true` if an operation failed for lack of disk space.
#[must_use]
pub fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// `true` if an operation failed for lack of file descriptors (EMFILE, ENFILE) or kernel memory (ENOMEM). It
/// had no effect, and a retry succeeds once other users have released theirs.
#[must_use]
pub fn is_short_of_descriptors(error: &io::Error) -> bool {
    [Errno::MFILE, Errno::NFILE, Errno::NOMEM]
        .into_iter()
        .any(|errno| Errno::from_io_error(error) == Some(errno))
}

/// `true` if an operation failed for a transient reason: a full disk, or a shortage of descriptors.
#[must_use]
pub fn is_transient(error: &io::Error) -> bool {
    is_full(error) || is_short_of_descriptors(error)
}
