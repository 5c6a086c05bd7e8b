//! File names of a log on disk.
//!
//! ```text
//! segment-00000000000000000042.log                         commits from revision 42 on
//! history-00000000000000000001-00000000000000000041.log    commits 1 to 41, before a checkpoint: a segment
//!                                                          renamed, or copied without exempt resources
//! checkpoint-00000000000000000041.log                      all objects at revision 41
//! spare.log, reserve.log                                   preallocated segments, see `preallocation`
//! *.tmp                                                    temporary files, removed at start
//! ```

use std::sync::Arc;

use bytes::Bytes;
use setpoint_api::Revision;

use super::format::{FILE_HEADER_BYTES, FileHeader, FileKind, corrupt};
use crate::disk::Disk;
use crate::log::LogError;

/// Preallocated next segment.
pub const SPARE: &str = "spare.log";
/// Preallocated segment for deletes on a full disk.
pub const RESERVE: &str = "reserve.log";
/// Segment that the writer preallocated itself because there was no spare; it is renamed at once.
pub const NEXT: &str = "next.tmp";
/// Suffix of temporary files.
pub const TEMPORARY_SUFFIX: &str = ".tmp";

/// Maximum size of a segment or history file whose header does not contain its capacity. A segment exceeds
/// [`segment_bytes_max`](super::DiskOptions) only if one batch does.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// File that holds part of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFile {
    /// Kind of the file.
    pub kind: FileKind,
    /// First revision that it covers.
    pub first: Revision,
    /// Last revision that it covers, if the name contains it.
    pub last: Revision,
}

impl LogFile {
    /// Returns the segment that starts with `first`.
    #[must_use]
    pub fn segment(first: Revision) -> LogFile {
        LogFile { kind: FileKind::Segment, first, last: Revision::ZERO }
    }

    /// Returns the history file from `first` to `last`.
    #[must_use]
    pub fn history(first: Revision, last: Revision) -> LogFile {
        LogFile { kind: FileKind::History, first, last }
    }

    /// Returns the checkpoint at `revision`.
    #[must_use]
    pub fn checkpoint(revision: Revision) -> LogFile {
        LogFile { kind: FileKind::Checkpoint, first: revision, last: revision }
    }

    /// Returns the file name.
    #[must_use]
    pub fn name(&self) -> String {
        match self.kind {
            FileKind::Segment => format!("segment-{:020}.log", self.first.0),
            FileKind::History => format!("history-{:020}-{:020}.log", self.first.0, self.last.0),
            FileKind::Checkpoint => format!("checkpoint-{:020}.log", self.first.0),
        }
    }

    /// Parses a file name; `None` if the file is not part of the log.
    #[must_use]
    pub fn parse(name: &str) -> Option<LogFile> {
        let (kind, numbers) = name.strip_suffix(".log")?.split_once('-')?;
        let number = |text: &str| Some(Revision(text.parse().ok().filter(|_| text.len() == 20)?));
        match (kind, numbers.split_once('-')) {
            ("segment", None) => Some(LogFile::segment(number(numbers)?)).filter(|file| file.first.0 > 0),
            ("history", Some((first, last))) => {
                Some(LogFile::history(number(first)?, number(last)?)).filter(|file| file.first.0 > 0)
            }
            ("checkpoint", None) => Some(LogFile::checkpoint(number(numbers)?)),
            _ => None,
        }
    }

    /// Reads the whole file, and checks that its header matches its name.
    pub fn read(&self, disk: &dyn Disk) -> Result<(FileHeader, Bytes), LogError> {
        let name = self.name();
        let failed = |source| LogError::Io { action: "read", file: name.clone(), source };
        let file = disk.open(&name).map_err(failed)?;
        let length = file.length().map_err(failed)?;
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX).min(FILE_HEADER_BYTES)];
        file.read_at(0, &mut bytes).map_err(failed)?;
        if FileHeader::decode(&name, &bytes).is_err() && bytes.len() == FILE_HEADER_BYTES {
            // The writer may have been changing the header during the first read. Real damage is still there
            // at the second.
            file.read_at(0, &mut bytes).map_err(failed)?;
        }
        let header = self.check_header(FileHeader::decode(&name, &bytes)?)?;
        // Files never grow beyond their capacity, and the whole file has to fit into memory.
        let max = if header.capacity > 0 { header.capacity } else { FILE_BYTES_MAX };
        if length > max {
            let detail = format!("the file has {length} bytes, more than its capacity of {max}");
            return Err(corrupt(&name, max, &detail));
        }
        bytes.resize(usize::try_from(length).unwrap_or(usize::MAX), 0);
        file.read_at(FILE_HEADER_BYTES as u64, &mut bytes[FILE_HEADER_BYTES..]).map_err(failed)?;
        Ok((header, Bytes::from(bytes)))
    }

    /// Checks that a header matches the name. A history file may be a renamed segment, and only the header
    /// of a segment contains its last revision.
    pub fn check_header(&self, header: FileHeader) -> Result<FileHeader, LogError> {
        let matches_name = match (self.kind, header.kind) {
            (FileKind::Segment, FileKind::Segment) => true,
            (FileKind::History, FileKind::Segment) => {
                header.last == Revision::ZERO || header.last == self.last
            }
            _ => (header.kind, header.last) == (self.kind, self.last),
        };
        if header.first == self.first && matches_name {
            Ok(header)
        } else {
            Err(corrupt(&self.name(), 0, "the file's header does not match its name"))
        }
    }
}

/// Files of a log, each kind ordered by revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// Segments; the last one is being written.
    pub segments: Vec<LogFile>,
    /// Commits before the newest checkpoint.
    pub history: Vec<LogFile>,
    /// Checkpoints, the newest last.
    pub checkpoints: Vec<LogFile>,
    /// Unfinished files.
    pub temporary: Vec<String>,
    /// `true` if there is a spare segment.
    pub spare: bool,
    /// `true` if there is a reserve segment.
    pub reserve: bool,
}

impl Files {
    /// Lists the files of the directory.
    pub fn list(disk: &Arc<dyn Disk>) -> Result<Files, LogError> {
        let names = disk.list().map_err(|source| LogError::Io {
            action: "list",
            file: "the data directory".to_owned(),
            source,
        })?;
        let mut files = Files::default();
        for name in names {
            match LogFile::parse(&name) {
                Some(file) if file.kind == FileKind::Segment => files.segments.push(file),
                Some(file) if file.kind == FileKind::History => files.history.push(file),
                Some(file) => files.checkpoints.push(file),
                None if name == SPARE => files.spare = true,
                None if name == RESERVE => files.reserve = true,
                None if name.ends_with(TEMPORARY_SUFFIX) => files.temporary.push(name),
                None => {}
            }
        }
        files.segments.sort_by_key(|file| file.first);
        files.history.sort_by_key(|file| file.first);
        files.checkpoints.sort_by_key(|file| file.first);
        Ok(files)
    }

    /// Returns a file that proves that there was a log although all segments and checkpoints are missing. A
    /// log begins with a checkpoint, which is durable before any other file.
    #[must_use]
    pub fn remaining_file(&self) -> Option<String> {
        if !self.segments.is_empty() || !self.checkpoints.is_empty() {
            return None;
        }
        let history = self.history.first().map(LogFile::name);
        history.or(self.reserve.then(|| RESERVE.to_owned())).or(self.spare.then(|| SPARE.to_owned()))
    }

    /// Returns the files that hold commits, in order, without duplicates: a power cut may have left a
    /// segment beside the history file that was made of it.
    #[must_use]
    pub fn commit_files(&self) -> Vec<&LogFile> {
        let is_segment =
            |segment: &&LogFile| !self.history.iter().any(|history| history.first == segment.first);
        let mut commit_files: Vec<&LogFile> =
            self.segments.iter().filter(is_segment).chain(&self.history).collect();
        commit_files.sort_by_key(|file| file.first);
        commit_files
    }

    /// Fails if the segment is missing that `header`, of the file `name`, records as its successor.
    pub fn check_successor(&self, name: &str, header: &FileHeader) -> Result<(), LogError> {
        let first = match header.kind {
            FileKind::Checkpoint => header.next,
            FileKind::Segment if header.last > Revision::ZERO => header.last.next(),
            _ => Revision::ZERO,
        };
        if first == Revision::ZERO || self.segments.iter().any(|segment| segment.first >= first) {
            return Ok(());
        }
        let detail = format!("the file is missing, and {name} records it as in use");
        Err(corrupt(&LogFile::segment(first).name(), 0, &detail))
    }

    /// Returns the newest checkpoint at or before `at_most`.
    #[must_use]
    pub fn checkpoint(&self, at_most: Revision) -> Option<&LogFile> {
        self.checkpoints.iter().rev().find(|file| file.first <= at_most)
    }

    /// Returns the oldest revision from which everything can be rebuilt.
    #[must_use]
    pub fn floor(&self) -> Revision {
        let starts_at_one = |files: &[LogFile]| files.first().is_some_and(|file| file.first == Revision(1));
        if starts_at_one(&self.history) || starts_at_one(&self.segments) {
            return Revision::ZERO;
        }
        self.checkpoints.first().map_or(Revision::ZERO, |file| file.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_unknown_files_are_ignored() {
        let files = [
            LogFile::segment(Revision(42)),
            LogFile::history(Revision(1), Revision(41)),
            LogFile::checkpoint(Revision(u64::MAX)),
        ];
        for file in files {
            assert_eq!(LogFile::parse(&file.name()), Some(file));
        }
        for name in ["LOCK", SPARE, RESERVE, "segment-1.log", "checkpoint-x.log", "segment-.log", "ca.pem"] {
            assert_eq!(LogFile::parse(name), None, "{name}");
        }
    }
}
