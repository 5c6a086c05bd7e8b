//! Files that only their owner may read, written whole or not at all.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Makes a directory, and those above it, for its owner alone.
pub(crate) fn make_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Replaces a file: readers see the old text or the new one, also after a crash.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let aside = dir.join(format!(".{}.{}.new", name.to_string_lossy(), std::process::id()));
    let written = write_new(&aside, bytes).and_then(|()| std::fs::rename(&aside, path));
    if written.is_err() {
        // What is half made helps nobody; the first error is the one to tell.
        let _ = std::fs::remove_file(&aside);
        return written;
    }
    File::open(dir)?.sync_all()
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // A process that had our number may have died here; its rest may be readable to others.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
