//! The operating system's disk.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{Disk, DiskFile};
use crate::log::LogError;

/// The file whose lock keeps other processes out. It holds the process id of the holder, for people.
const LOCK_FILE: &str = "LOCK";

/// A directory, held exclusively or only read.
#[derive(Debug)]
pub struct OsDisk {
    dir: PathBuf,
    /// Held as long as the disk is; the system gives it up with the process, however that ends.
    lock: Option<File>,
}

impl OsDisk {
    /// Takes a directory for this process alone, and makes it if it is not there.
    ///
    /// # Errors
    /// If it cannot be made, written or locked; [`LogError::InUse`] if another process holds it.
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
        // Only people read the id; a disk too full for it is still ours.
        let _ = lock.set_len(0).and_then(|()| lock.rewind());
        let _ = writeln!(lock, "{}", std::process::id());
        Ok(OsDisk { dir: dir.to_owned(), lock: Some(lock) })
    }

    /// Looks into a directory that another process may be writing.
    ///
    /// # Errors
    /// If there is no such directory.
    pub fn read_only(dir: &Path) -> Result<OsDisk, LogError> {
        let failed = |source| LogError::Io { action: "open", file: dir.display().to_string(), source };
        let metadata = std::fs::metadata(dir).map_err(failed)?;
        if !metadata.is_dir() {
            return Err(failed(io::ErrorKind::NotADirectory.into()));
        }
        Ok(OsDisk { dir: dir.to_owned(), lock: None })
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.lock.is_some() { Ok(()) } else { Err(io::ErrorKind::ReadOnlyFilesystem.into()) }
    }
}

impl Disk for OsDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.dir)? {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let writable = self.lock.is_some();
        Ok(Box::new(OpenOptions::new().read(true).write(writable).open(self.dir.join(name))?))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.check_writable()?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        Ok(Box::new(options.open(self.dir.join(name))?))
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
        File::open(&self.dir)?.sync_all()
    }
}

impl DiskFile for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write_all_at(data, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
