//! Reader of a log on disk that may be written concurrently: past states, exports, checks.
//!
//! Compaction may remove a file between listing and opening it; then the reader lists again. The result is
//! always a prefix of the commits, each complete.

use std::sync::Arc;

use setpoint_api::Revision;

use super::checkpoint;
use super::files::{Files, LogFile};
use super::format::{FileKind, corrupt};
use super::segment::{Reading, check_length, scan};
use crate::commit::Commit;
use crate::disk::Disk;
use crate::log::{LogError, LogReader};
use crate::mirror::Snapshot;

/// Maximum number of listings when files are removed concurrently.
const LOOKS_MAX: u32 = 16;

/// Reader of the files of a disk log.
pub struct DiskReader {
    disk: Arc<dyn Disk>,
}

impl DiskReader {
    /// Returns a reader of the log on `disk`.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>) -> DiskReader {
        DiskReader { disk }
    }

    /// Reads every file to the end and returns the first damage. The log must not be written meanwhile.
    pub fn check(&mut self) -> Result<Revision, LogError> {
        let files = Files::list(&self.disk)?;
        if let Some(leftover) = files.leftover() {
            return Err(LogError::Lost { leftover });
        }
        let mut newest = Revision::ZERO;
        for file in &files.checkpoints {
            let (snapshot, header, _) = checkpoint::read(&self.disk, file)?;
            newest = newest.max(snapshot.revision());
            if Some(file) == files.checkpoints.last() {
                files.check_follower(&file.name(), &header)?;
            }
        }
        let sources = files.sources();
        let oldest = files.checkpoints.first().map_or(Revision::ZERO, |file| file.first);
        if let Some(first) = sources.first().filter(|file| file.first > oldest.next()) {
            return Err(missing(first, oldest));
        }
        let mut id = None;
        for (i, file) in sources.iter().enumerate() {
            let content = file.read(&*self.disk)?;
            if *id.get_or_insert(content.0.id) != content.0.id {
                return Err(corrupt(&file.name(), 0, "it belongs to another log"));
            }
            let next = sources.get(i + 1);
            let reading = match (file.kind, next) {
                (FileKind::History, _) => Reading::of_history(&content.0),
                (_, Some(_)) => Reading::Sealed,
                (_, None) => Reading::Last,
            };
            if reading == Reading::Last {
                files.check_follower(&file.name(), &content.0)?;
                check_length(file, &content)?;
            }
            let ending = scan(file, &content, reading, Revision::ZERO, &mut |_| ())?;
            let last = if file.kind == FileKind::History { file.last } else { ending.last };
            if let Some(next) = next
                && next.first != last.next()
            {
                return Err(missing(next, last));
            }
            newest = newest.max(last);
        }
        Ok(newest)
    }
}

impl LogReader for DiskReader {
    fn base(&mut self, at_most: Revision) -> Result<Snapshot, LogError> {
        look_again(&self.disk, |files| match files.checkpoint(at_most) {
            Some(file) => Ok(checkpoint::read(&self.disk, file)?.0),
            None if files.floor() == Revision::ZERO => Ok(Snapshot::default()),
            None => Err(LogError::Compacted { floor: files.floor() }),
        })
    }

    fn tail(
        &mut self,
        after: Revision,
        until: Revision,
        each: &mut dyn FnMut(Commit),
    ) -> Result<(), LogError> {
        let mut reached = after;
        look_again(&self.disk, |files| {
            if reached < files.floor() {
                return Err(LogError::Compacted { floor: files.floor() });
            }
            self.read_files(files, &mut reached, until, each)
        })
    }
}

impl DiskReader {
    fn read_files(
        &self,
        files: &Files,
        reached: &mut Revision,
        until: Revision,
        each: &mut dyn FnMut(Commit),
    ) -> Result<(), LogError> {
        let sources = files.sources();
        for (i, file) in sources.iter().enumerate() {
            // A file is needed only if the next one starts after the wanted revision.
            let covered = match file.kind {
                FileKind::History => file.last,
                _ => sources.get(i + 1).map_or(Revision(u64::MAX), |next| Revision(next.first.0 - 1)),
            };
            if covered <= *reached || file.first > until {
                continue;
            }
            if file.first > reached.next() {
                return Err(missing(file, *reached));
            }
            let content = file.read(&*self.disk)?;
            let past = file.kind == FileKind::History;
            let reading = if past { Reading::of_history(&content.0) } else { Reading::Live };
            let ending = scan(file, &content, reading, *reached, &mut |commit| {
                if commit.revision <= until {
                    // Recorded per commit, so that a retry does not deliver a commit twice.
                    *reached = commit.revision;
                    each(commit);
                }
            })?;
            let end = if past { file.last } else { ending.last };
            *reached = (*reached).max(end).min(until);
            // Acknowledged commits must exist. Otherwise an unreadable frame counts as the end.
            let written = covered.min(until);
            if *reached < written && written != Revision(u64::MAX) {
                let what = format!("revision {written} was written, but nothing after {reached} can be read");
                return Err(corrupt(&file.name(), ending.position as u64, &what));
            }
        }
        Ok(())
    }
}

/// Returns the error for a missing file.
pub fn missing(next: &LogFile, last: Revision) -> LogError {
    corrupt(&next.name(), 0, &format!("it follows revision {last}: a file between them is missing"))
}

/// Retries until it succeeds, or fails with the same files listed before and after. A listing during a
/// rename proves nothing: it may contain a removed file, or neither name of a renamed one.
fn look_again<T>(
    disk: &Arc<dyn Disk>,
    mut attempt: impl FnMut(&Files) -> Result<T, LogError>,
) -> Result<T, LogError> {
    let mut files = Files::list(disk)?;
    for _ in 1..LOOKS_MAX {
        let result = attempt(&files);
        if matches!(result, Ok(_) | Err(LogError::Compacted { .. })) {
            return result;
        }
        let now = Files::list(disk)?;
        if now == files {
            return result;
        }
        files = now;
    }
    attempt(&files)
}
