//! Disk of the operating system.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::io::{DupFlags, dup3};

use super::{Disk, DiskFile, is_short_of_descriptors};
use crate::log::LogError;

/// File whose lock excludes other processes. Contains the process id of the holder, for error messages.
const LOCK_FILE: &str = "LOCK";
/// Descriptors that are reserved for maintenance while connections use up all others. Compaction holds a
/// listing, or a file that it reads or writes; readers of past states hold one each; the next spare segment
/// needs one.
const RESERVED_DESCRIPTORS: usize = 6;

/// Directory, locked exclusively or opened read-only.
#[derive(Debug)]
pub struct OsDisk {
    dir: PathBuf,
    /// Lock of the directory. The operating system releases it when the process ends in any way.
    lock: Option<File>,
    reserve: Arc<Reserve>,
}

/// Reserve of descriptors. A file that is closed gives its descriptor to an incomplete reserve atomically,
/// so that no other thread can take it in between.
#[derive(Debug)]
struct Reserve {
    /// Directory handle. Names are synced through it, so a sync needs no descriptor of its own.
    directory: File,
    /// Duplicates of `directory`.
    placeholders: Mutex<Vec<OwnedFd>>,
    /// Number of duplicates that there should be.
    target: usize,
}

impl Reserve {
    fn new(dir: &Path, target: usize) -> io::Result<Arc<Reserve>> {
        let reserve = Reserve { directory: File::open(dir)?, placeholders: Mutex::default(), target };
        reserve.top_up();
        Ok(Arc::new(reserve))
    }

    /// Fills the reserve as far as the system permits.
    fn top_up(&self) {
        let mut placeholders = self.placeholders.lock();
        while placeholders.len() < self.target {
            let Ok(placeholder) = self.directory.try_clone() else { return };
            placeholders.push(placeholder.into());
        }
    }

    /// Runs `attempt`, releasing placeholders if no other descriptor is left. Releases more than one if
    /// another thread takes the released descriptor first.
    fn open<T>(&self, attempt: impl Fn() -> io::Result<T>) -> io::Result<T> {
        loop {
            match attempt() {
                Err(error) if is_short_of_descriptors(&error) => {
                    let placeholder = self.placeholders.lock().pop();
                    drop(placeholder.ok_or(error)?);
                }
                result => return result,
            }
        }
    }

    /// Closes a file, or moves its descriptor into the reserve.
    fn close(&self, file: File) {
        let mut placeholders = self.placeholders.lock();
        if placeholders.len() < self.target {
            let mut descriptor = OwnedFd::from(file);
            // `dup3` closes the file and reuses its descriptor for the directory, atomically.
            if dup3(&self.directory, &mut descriptor, DupFlags::CLOEXEC).is_ok() {
                placeholders.push(descriptor);
            }
        }
    }
}

/// Open file of an [`OsDisk`].
struct OsFile {
    /// `Some` until dropped.
    file: Option<File>,
    reserve: Arc<Reserve>,
}

impl OsFile {
    fn file(&self) -> &File {
        self.file.as_ref().expect("a file is held until it is dropped")
    }
}

impl Drop for OsFile {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            self.reserve.close(file);
        }
    }
}

impl OsDisk {
    /// Locks a directory for this process, and creates it if it does not exist.
    ///
    /// # Errors
    /// If it cannot be created, written or locked; [`LogError::InUse`] if another process holds the lock.
    pub fn exclusive(dir: &Path) -> Result<OsDisk, LogError> {
        let name = dir.display().to_string();
        let failed = |action| {
            let file = name.clone();
            move |source| LogError::Io { action, file, source }
        };
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(dir).map_err(failed("create"))?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut lock = options.open(dir.join(LOCK_FILE)).map_err(failed("lock"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                lock.read_to_string(&mut holder).map_err(failed("read the lock of"))?;
                return Err(LogError::InUse { dir: name, pid: holder.trim().parse().ok() });
            }
            Err(TryLockError::Error(source)) => return Err(failed("lock")(source)),
        }
        // The id is only informative, so a disk that is too full for it is not an error.
        let _ = lock.set_len(0).and_then(|()| lock.rewind());
        let _ = writeln!(lock, "{}", std::process::id());
        let reserve = Reserve::new(dir, RESERVED_DESCRIPTORS).map_err(failed("open"))?;
        Ok(OsDisk { dir: dir.to_owned(), lock: Some(lock), reserve })
    }

    /// Opens a directory that another process may be writing.
    ///
    /// # Errors
    /// If the directory does not exist.
    pub fn read_only(dir: &Path) -> Result<OsDisk, LogError> {
        let failed = |source| LogError::Io { action: "open", file: dir.display().to_string(), source };
        let metadata = std::fs::metadata(dir).map_err(failed)?;
        if !metadata.is_dir() {
            return Err(failed(io::ErrorKind::NotADirectory.into()));
        }
        // A read-only disk has no maintenance that needs reserved descriptors.
        Ok(OsDisk { dir: dir.to_owned(), lock: None, reserve: Reserve::new(dir, 0).map_err(failed)? })
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.lock.is_some() { Ok(()) } else { Err(io::ErrorKind::ReadOnlyFilesystem.into()) }
    }

    fn open_with(&self, options: &OpenOptions, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let path = self.dir.join(name);
        let file = self.reserve.open(|| options.open(&path))?;
        Ok(Box::new(OsFile { file: Some(file), reserve: Arc::clone(&self.reserve) }))
    }
}

impl Disk for OsDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        let entries = self.reserve.open(|| std::fs::read_dir(&self.dir))?;
        for entry in entries {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        // The listing is closed by now, so the descriptor that it took from the reserve is free again.
        self.reserve.top_up();
        names.sort();
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.open_with(OpenOptions::new().read(true).write(self.lock.is_some()), name)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.check_writable()?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        self.open_with(&options, name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.check_writable()?;
        std::fs::rename(self.dir.join(from), self.dir.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.check_writable()?;
        std::fs::remove_file(self.dir.join(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        self.reserve.directory.sync_all()
    }
}

impl DiskFile for OsFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.file().metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file().read_exact_at(buffer, offset)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file().write_all_at(data, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file().sync_data()
    }
}
