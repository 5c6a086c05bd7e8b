//! Rotated log file, with the names and rules of upstream's logger: `audit.log` becomes `audit-2026-11-19T04-15-08.123.log`
//! when the next event would exceed the size, and old files are removed by number and age, or compressed.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use setpoint_api::Time;
use setpoint_api::rfc3339::{self, Micros};

use super::options::RotationOptions;

/// Mode of log files.
const FILE_MODE: u32 = 0o600;
/// Mode of directories of log files.
const DIR_MODE: u32 = 0o700;
/// Suffix of compressed files.
const GZIP_SUFFIX: &str = ".gz";
/// Length of the time in the name of an old file.
const STAMP_LEN: usize = "2006-01-02T15-04-05.000".len();

/// Log file that is rotated.
#[derive(Debug)]
pub(super) struct RotatedFile {
    path: PathBuf,
    options: RotationOptions,
    /// `None` after a failure: it is opened again with the next write.
    file: Option<File>,
    bytes: u64,
}

impl RotatedFile {
    /// Opens a log file, and creates it and its directory if they are missing.
    pub(super) fn open(path: &Path, options: RotationOptions) -> io::Result<RotatedFile> {
        if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            std::fs::DirBuilder::new().recursive(true).mode(DIR_MODE).create(dir)?;
        }
        let mut opened = RotatedFile { path: path.to_owned(), options, file: None, bytes: 0 };
        opened.file()?;
        Ok(opened)
    }

    fn file(&mut self) -> io::Result<&mut File> {
        if self.file.is_none() {
            let file = OpenOptions::new().append(true).create(true).mode(FILE_MODE).open(&self.path)?;
            self.bytes = file.metadata()?.len();
            self.file = Some(file);
        }
        Ok(self.file.as_mut().expect("the file is open"))
    }

    /// Appends events. Returns `true` if the file was rotated.
    pub(super) fn write(&mut self, events: &[impl AsRef<[u8]>], now: impl Fn() -> Time) -> io::Result<bool> {
        let (mut pending, mut is_rotated) = (Vec::new(), false);
        self.file()?;
        for event in events {
            let event = event.as_ref();
            let after = self.bytes + (pending.len() + event.len()) as u64;
            let has_bytes = self.bytes > 0 || !pending.is_empty();
            if self.options.max_bytes > 0 && after > self.options.max_bytes && has_bytes {
                self.append(&pending)?;
                pending.clear();
                self.rotate(now())?;
                is_rotated = true;
            }
            pending.extend_from_slice(event);
        }
        self.append(&pending)?;
        Ok(is_rotated)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.file()?.write_all(bytes);
        match written {
            Ok(()) => self.bytes += bytes.len() as u64,
            // The file may be gone; what is left of it counts again.
            Err(_) => self.file = None,
        }
        written
    }

    /// Renames the file, and opens a new one with the same mode.
    fn rotate(&mut self, now: Time) -> io::Result<()> {
        let mode = self.file()?.metadata()?.permissions().mode();
        self.file = None;
        let mut at = now;
        let backup = loop {
            let backup = backup_path(&self.path, at);
            if !backup.exists() {
                break backup;
            }
            at = at.after(Duration::from_millis(1));
        };
        match std::fs::rename(&self.path, backup) {
            // Removed by an administrator.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.file()?.set_permissions(std::fs::Permissions::from_mode(mode & 0o777))
    }
}

/// Name of a log file without its extension, and the extension with its dot.
fn name_parts(path: &Path) -> (String, String) {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match name.rfind('.') {
        Some(dot) => (name[..dot].to_owned(), name[dot..].to_owned()),
        None => (name, String::new()),
    }
}

/// Path of an old file.
fn backup_path(path: &Path, at: Time) -> PathBuf {
    let (prefix, extension) = name_parts(path);
    let stamp = Micros(at).to_string().replace(':', "-");
    path.with_file_name(format!("{prefix}-{}{extension}", &stamp[..STAMP_LEN.min(stamp.len())]))
}

/// Time in the name of an old file; `None` if it is another file.
fn backup_time(path: &Path, name: &str) -> Option<Time> {
    let (prefix, extension) = name_parts(path);
    let name = name.strip_suffix(GZIP_SUFFIX).unwrap_or(name);
    let stamp = name.strip_prefix(&prefix)?.strip_prefix('-')?.strip_suffix(&extension)?;
    if stamp.len() != STAMP_LEN || !stamp.is_ascii() {
        return None;
    }
    let (date, time) = stamp.split_once('T')?;
    rfc3339::parse_micros(&format!("{date}T{}000Z", time.replace('-', ":"))).ok()
}

/// Work on old files.
#[derive(Debug, Default, PartialEq, Eq)]
struct Cleanup {
    removed: Vec<String>,
    compressed: Vec<String>,
}

/// Decides which old files are removed and compressed. A file and its compressed form count once.
fn cleanup(path: &Path, names: &[String], options: RotationOptions, now: Time) -> Cleanup {
    let mut backups: Vec<(Time, &String)> =
        names.iter().filter_map(|name| Some((backup_time(path, name)?, name))).collect();
    backups.sort_by(|a, b| b.cmp(a));
    let mut times: Vec<Time> = backups.iter().map(|(at, _)| *at).collect();
    times.dedup();
    let oldest = match options.max_backups {
        0 => None,
        max => times.get(max - 1).or(times.last()).copied(),
    };
    let mut work = Cleanup::default();
    for (at, name) in backups {
        let is_surplus = oldest.is_some_and(|oldest| at < oldest);
        let is_old = !options.max_age.is_zero() && at < now.before(options.max_age);
        if is_surplus || is_old {
            work.removed.push(name.clone());
        } else if options.compress && !name.ends_with(GZIP_SUFFIX) {
            work.compressed.push(name.clone());
        }
    }
    work
}

/// Removes and compresses old files.
pub(super) fn clean_up(path: &Path, options: RotationOptions, now: Time) -> io::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(dir)?.filter_map(Result::ok);
    let names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let work = cleanup(path, &names, options, now);
    for name in work.removed {
        std::fs::remove_file(dir.join(name))?;
    }
    for name in work.compressed {
        compress(&dir.join(name))?;
    }
    Ok(())
}

/// Replaces a file by its compressed form. A crash leaves the file, which is compressed again.
fn compress(path: &Path) -> io::Result<()> {
    let mut target = path.as_os_str().to_owned();
    target.push(GZIP_SUFFIX);
    let mut source = File::open(path)?;
    let mode = source.metadata()?.permissions().mode() & 0o777;
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&target)?;
    let mut encoder = GzEncoder::new(file, Compression::default());
    io::copy(&mut source, &mut encoder)?;
    encoder.finish()?.sync_all()?;
    std::fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    const NOW: Time = Time(1_700_000_000_123_456);

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn old_files_have_their_time_in_the_name() {
        let path = Path::new("/var/log/audit.log");
        let backup = backup_path(path, NOW);
        assert_eq!(backup, Path::new("/var/log/audit-2023-11-14T22-13-20.123.log"));
        let name = backup.file_name().unwrap().to_str().unwrap();
        assert_eq!(backup_time(path, name), Some(Time(1_700_000_000_123_000)));
        assert_eq!(backup_time(path, &format!("{name}.gz")), Some(Time(1_700_000_000_123_000)));
        for other in [
            "audit.log",
            "audit-x.log",
            "other-2023-11-14T22-13-20.123.log",
            "audit-2023-11-14T22-13-20.123",
            "",
        ] {
            assert_eq!(backup_time(path, other), None, "{other}");
        }
    }

    #[test]
    fn file_is_rotated_before_it_exceeds_its_size() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logs/audit.log");
        let options = RotationOptions { max_bytes: 10, ..RotationOptions::default() };
        let mut file = RotatedFile::open(&path, options).unwrap();
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert!(!file.write(&["12345\n"], || NOW).unwrap());
        assert!(!file.write(&["789\n"], || NOW).unwrap());
        assert!(file.write(&["a\n", "0123456789 is too long\n", "b\n"], || NOW).unwrap());
        drop(file);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "b\n");
        let backups = names(path.parent().unwrap());
        let backup = |at: usize| std::fs::read_to_string(path.with_file_name(&backups[at])).unwrap();
        assert_eq!(backups[0], "audit-2023-11-14T22-13-20.123.log");
        assert_eq!(backups[1], "audit-2023-11-14T22-13-20.124.log", "no old file is overwritten");
        assert_eq!((backup(0), backup(1)), ("12345\n789\n".to_owned(), "a\n".to_owned()));
        assert!(backups[..3].iter().all(|name| mode(&path.with_file_name(name)) == 0o600));
        // A new process continues the file.
        let mut file = RotatedFile::open(&path, options).unwrap();
        assert!(file.write(&["0123456789"], || NOW).unwrap());
    }

    #[test]
    fn old_files_are_removed_by_number_and_age_and_compressed() {
        let path = Path::new("a.log");
        let name = |days: u64| backup_path(path, NOW.before(Duration::from_secs(days * 86_400)));
        let name = |days| name(days).to_str().unwrap().to_owned();
        let gz = |days| format!("{}.gz", name(days));
        let files = vec![name(1), gz(1), gz(2), name(3), gz(40), "a.log".to_owned(), "b.log".to_owned()];
        let days = |days: u64| Duration::from_secs(days * 86_400);
        let options = RotationOptions { max_backups: 2, ..RotationOptions::default() };
        assert_eq!(cleanup(path, &files, options, NOW).removed, [name(3), gz(40)]);
        let options = RotationOptions { max_age: days(30), compress: true, ..RotationOptions::default() };
        let work = cleanup(path, &files, options, NOW);
        assert_eq!(work, Cleanup { removed: vec![gz(40)], compressed: vec![name(1), name(3)] });
        assert_eq!(cleanup(path, &files, RotationOptions::default(), NOW), Cleanup::default());
    }

    #[test]
    fn compressed_file_has_the_same_contents_and_mode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        let options = RotationOptions { max_bytes: 1, compress: true, ..RotationOptions::default() };
        let mut file = RotatedFile::open(&path, options).unwrap();
        assert!(file.write(&["one\n", "two\n"], || NOW).unwrap());
        clean_up(&path, options, NOW).unwrap();
        let names = names(dir.path());
        assert_eq!(names, ["audit-2023-11-14T22-13-20.123.log.gz", "audit.log"]);
        let compressed = dir.path().join(&names[0]);
        let mut text = String::new();
        flate2::read::GzDecoder::new(File::open(&compressed).unwrap()).read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), mode(&compressed)), ("one\n", 0o600));
    }
}
