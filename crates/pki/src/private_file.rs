//! Files that only their owner can read, replaced atomically.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Creates a directory and its parents, readable by the owner alone.
///
/// # Errors
/// If the system cannot create it.
pub fn make_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Replaces a file. Readers see the old content or the new one, also after a crash.
///
/// # Errors
/// If the system fails to write; the old file stays.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary_path = temporary_path(path);
    let replaced = write_new(&temporary_path, bytes).and_then(|()| std::fs::rename(&temporary_path, path));
    if replaced.is_err() {
        // The write failed: remove the partial file, and return the first error.
        let _ = std::fs::remove_file(&temporary_path);
    }
    replaced
}

/// Creates a file. An existing file stays as it is.
///
/// # Errors
/// If the file exists, or the system fails to write.
pub fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary_path = temporary_path(path);
    // A link, unlike a rename, fails if the file exists.
    let created = write_new(&temporary_path, bytes).and_then(|()| std::fs::hard_link(&temporary_path, path));
    // Either the file has a second name now, or the write failed: return the first error.
    let _ = std::fs::remove_file(&temporary_path);
    created
}

/// Replaces files of one directory, in the order given, as [`replace`] does, and returns when all are durable.
///
/// All temporary files are synced in parallel, and the directory once, so a start waits for the disk twice however
/// many files there are.
///
/// # Errors
/// The file that could not be written, and the system's error.
pub fn write_all(files: &[(PathBuf, &[u8])]) -> Result<(), (PathBuf, io::Error)> {
    let temporary_paths: Vec<PathBuf> = files.iter().map(|(path, _)| temporary_path(path)).collect();
    let written = std::thread::scope(|scope| {
        let writes: Vec<_> = files
            .iter()
            .zip(&temporary_paths)
            .map(|((path, bytes), temporary_path)| (path, scope.spawn(|| write_new(temporary_path, bytes))))
            .collect();
        writes.into_iter().try_for_each(|(path, write)| {
            let written =
                write.join().unwrap_or_else(|_| Err(io::Error::other("the writing thread panicked")));
            written.map_err(|error| (path.clone(), error))
        })
    });
    let replaced = written.and_then(|()| {
        files.iter().zip(&temporary_paths).try_for_each(|((path, _), temporary_path)| {
            std::fs::rename(temporary_path, path).map_err(|error| (path.clone(), error))
        })
    });
    if replaced.is_err() {
        // A write failed: remove the partial files, and return the first error.
        temporary_paths.iter().for_each(|temporary_path| drop(std::fs::remove_file(temporary_path)));
        return replaced;
    }
    let Some((first, _)) = files.first() else { return Ok(()) };
    let dir = dir_of(first);
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|error| (dir.to_owned(), error))
}

fn dir_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Path of the temporary file.
fn temporary_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    dir_of(path).join(format!(".{name}.{}.new", std::process::id()))
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // A file left by a crashed process with the same number may be readable by others.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
