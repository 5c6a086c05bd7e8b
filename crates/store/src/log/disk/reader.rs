//! Reader of a log on disk that may be written concurrently: past states, exports, checks.
//!
//! Compaction may remove a file between listing and opening it; then the reader lists again. The result is
//! always a prefix of the commits, each complete.

use std::sync::Arc;

use setpoint_api::Revision;

use super::checkpoint;
use super::files::{Files, LogFile};
use super::format::{FileKind, corrupt};
use super::segment::{ScanMode, check_length, scan};
use crate::commit::Commit;
use crate::disk::Disk;
use crate::log::wire::CommitDecoder;
use crate::log::{LogError, LogReader};
use crate::mirror::Snapshot;
use crate::seal::Sealer;

/// Maximum number of listings when files are removed concurrently.
const LISTINGS_MAX: u32 = 16;

/// Reader of the files of a disk log.
pub struct DiskReader {
    disk: Arc<dyn Disk>,
    sealer: Option<Arc<dyn Sealer>>,
}

impl DiskReader {
    /// Returns a reader of the log on `disk`.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>) -> DiskReader {
        DiskReader { disk, sealer: None }
    }

    /// Sets the sealer that opens sealed writes.
    #[must_use]
    pub fn with_sealer(self, sealer: Option<Arc<dyn Sealer>>) -> DiskReader {
        DiskReader { sealer, ..self }
    }

    fn decoder(&self) -> CommitDecoder<'_> {
        CommitDecoder::new(self.sealer.as_deref())
    }

    /// Reads every file to the end and returns the first damage. The log must not be written meanwhile.
    pub fn check(&mut self) -> Result<Revision, LogError> {
        let files = Files::list(&self.disk)?;
        if let Some(remaining_file) = files.remaining_file() {
            return Err(LogError::Lost { remaining_file });
        }
        let mut newest = Revision::ZERO;
        for file in &files.checkpoints {
            let (snapshot, header, _) = checkpoint::read(&self.disk, file, self.decoder())?;
            newest = newest.max(snapshot.revision());
            if Some(file) == files.checkpoints.last() {
                files.check_successor(&file.name(), &header)?;
            }
        }
        let commit_files = files.commit_files();
        let oldest = files.checkpoints.first().map_or(Revision::ZERO, |file| file.first);
        if let Some(first) = commit_files.first().filter(|file| file.first > oldest.next()) {
            return Err(missing_file(first, oldest));
        }
        let mut id = None;
        for (i, file) in commit_files.iter().enumerate() {
            let content = file.read(&*self.disk)?;
            if *id.get_or_insert(content.0.id) != content.0.id {
                return Err(corrupt(&file.name(), 0, "it belongs to another log"));
            }
            let next = commit_files.get(i + 1);
            let mode = match (file.kind, next) {
                (FileKind::History, _) => ScanMode::of_history(&content.0),
                (_, Some(_)) => ScanMode::Sealed,
                (_, None) => ScanMode::Last,
            };
            if mode == ScanMode::Last {
                files.check_successor(&file.name(), &content.0)?;
                check_length(file, &content)?;
            }
            let end = scan(file, &content, mode, Revision::ZERO, self.decoder(), &mut |_| ())?;
            let last = if file.kind == FileKind::History { file.last } else { end.last };
            if let Some(next) = next
                && next.first != last.next()
            {
                return Err(missing_file(next, last));
            }
            newest = newest.max(last);
        }
        Ok(newest)
    }
}

impl LogReader for DiskReader {
    fn base(&mut self, at_most: Revision) -> Result<Snapshot, LogError> {
        retry_on_new_files(&self.disk, |files| match files.checkpoint(at_most) {
            Some(file) => Ok(checkpoint::read(&self.disk, file, self.decoder())?.0),
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
        retry_on_new_files(&self.disk, |files| {
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
        let commit_files = files.commit_files();
        for (i, file) in commit_files.iter().enumerate() {
            // A file is needed only if the next one starts after the wanted revision.
            let covered = match file.kind {
                FileKind::History => file.last,
                _ => commit_files.get(i + 1).map_or(Revision(u64::MAX), |next| Revision(next.first.0 - 1)),
            };
            if covered <= *reached || file.first > until {
                continue;
            }
            if file.first > reached.next() {
                return Err(missing_file(file, *reached));
            }
            let content = file.read(&*self.disk)?;
            let is_history = file.kind == FileKind::History;
            let mode = if is_history { ScanMode::of_history(&content.0) } else { ScanMode::Live };
            let end = scan(file, &content, mode, *reached, self.decoder(), &mut |commit| {
                if commit.revision <= until {
                    // Recorded per commit, so that a retry does not deliver a commit twice.
                    *reached = commit.revision;
                    each(commit);
                }
            })?;
            let last = if is_history { file.last } else { end.last };
            *reached = (*reached).max(last).min(until);
            // Acknowledged commits must exist. Otherwise an unreadable frame counts as the end.
            let acknowledged = covered.min(until);
            if *reached < acknowledged && acknowledged != Revision(u64::MAX) {
                let detail = format!(
                    "revision {acknowledged} was acknowledged, but no commit after {reached} can be read"
                );
                return Err(corrupt(&file.name(), end.position as u64, &detail));
            }
        }
        Ok(())
    }
}

/// Returns the error for a missing file.
pub fn missing_file(next: &LogFile, last: Revision) -> LogError {
    corrupt(&next.name(), 0, &format!("it follows revision {last}: a file between them is missing"))
}

/// Retries until it succeeds, or fails with the same files listed before and after. A listing during a
/// rename proves nothing: it may contain a removed file, or neither name of a renamed one.
fn retry_on_new_files<T>(
    disk: &Arc<dyn Disk>,
    mut attempt: impl FnMut(&Files) -> Result<T, LogError>,
) -> Result<T, LogError> {
    let mut files = Files::list(disk)?;
    for _ in 1..LISTINGS_MAX {
        let result = attempt(&files);
        if matches!(result, Ok(_) | Err(LogError::Compacted { .. })) {
            return result;
        }
        let listed = Files::list(disk)?;
        if listed == files {
            return result;
        }
        files = listed;
    }
    attempt(&files)
}
