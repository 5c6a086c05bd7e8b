//! The files of a disk log, by name.
//!
//! ```text
//! segment-00000000000000000042.log                         commits from revision 42 on
//! history-00000000000000000001-00000000000000000041.log    commits 1 to 41, before a checkpoint: a segment
//!                                                          under a new name, or a copy without what is exempt
//! checkpoint-00000000000000000041.log                      all objects at revision 41
//! spare.log, reserve.log                                   zeroed room, see `room`
//! *.tmp                                                    never finished: to be removed
//! ```

use std::sync::Arc;

use bytes::Bytes;
use setpoint_api::Revision;

use super::format::{FILE_HEADER_BYTES, FileHeader, FileKind, corrupt};
use crate::disk::Disk;
use crate::log::LogError;

/// Zeroed room for the next segment, made ahead of need.
pub const SPARE: &str = "spare.log";
/// Zeroed room that only deletes may use, for when the disk is full.
pub const RESERVE: &str = "reserve.log";
/// Zeroed room that the writer made itself, because there was no spare; it becomes a segment at once.
pub const NEXT: &str = "next.tmp";
/// How unfinished files end.
pub const UNFINISHED: &str = ".tmp";

/// The longest segment or history file that is read, where the header does not say how long it was made. A segment is
/// longer than [`segment_bytes_max`](super::DiskOptions) only if one batch is.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// A file that holds part of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFile {
    /// What it is for.
    pub kind: FileKind,
    /// The first revision it covers.
    pub first: Revision,
    /// The last revision it covers, where the name tells.
    pub last: Revision,
}

impl LogFile {
    /// A segment that starts with `first`.
    #[must_use]
    pub fn segment(first: Revision) -> LogFile {
        LogFile { kind: FileKind::Segment, first, last: Revision::ZERO }
    }

    /// History from `first` to `last`.
    #[must_use]
    pub fn history(first: Revision, last: Revision) -> LogFile {
        LogFile { kind: FileKind::History, first, last }
    }

    /// The checkpoint at `revision`.
    #[must_use]
    pub fn checkpoint(revision: Revision) -> LogFile {
        LogFile { kind: FileKind::Checkpoint, first: revision, last: revision }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> String {
        match self.kind {
            FileKind::Segment => format!("segment-{:020}.log", self.first.0),
            FileKind::History => format!("history-{:020}-{:020}.log", self.first.0, self.last.0),
            FileKind::Checkpoint => format!("checkpoint-{:020}.log", self.first.0),
        }
    }

    /// The file with this name; nothing if it is not part of the log.
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

    /// Reads it whole, and checks that its header fits its name.
    pub fn read(&self, disk: &dyn Disk) -> Result<(FileHeader, Bytes), LogError> {
        let name = self.name();
        let failed = |source| LogError::Io { action: "read", file: name.clone(), source };
        let file = disk.open(&name).map_err(failed)?;
        let length = file.length().map_err(failed)?;
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX).min(FILE_HEADER_BYTES)];
        file.read_at(0, &mut bytes).map_err(failed)?;
        if FileHeader::decode(&name, &bytes).is_err() && bytes.len() == FILE_HEADER_BYTES {
            // The writer may have been changing the header just then; what is damaged stays damaged.
            file.read_at(0, &mut bytes).map_err(failed)?;
        }
        let header = self.checked(FileHeader::decode(&name, &bytes)?)?;
        // Nothing makes a file longer, and all of it has to fit into memory.
        let most = if header.capacity > 0 { header.capacity } else { FILE_BYTES_MAX };
        if length > most {
            let what = format!("the file has {length} bytes, {most} are the most that it can have");
            return Err(corrupt(&name, most, &what));
        }
        bytes.resize(usize::try_from(length).unwrap_or(usize::MAX), 0);
        file.read_at(FILE_HEADER_BYTES as u64, &mut bytes[FILE_HEADER_BYTES..]).map_err(failed)?;
        Ok((header, Bytes::from(bytes)))
    }

    /// Lets a header pass that fits the name. History may be a segment that was only given another name, and only
    /// the header of a segment tells where it ends.
    pub fn checked(&self, header: FileHeader) -> Result<FileHeader, LogError> {
        let fits = match (self.kind, header.kind) {
            (FileKind::Segment, FileKind::Segment) => true,
            (FileKind::History, FileKind::Segment) => {
                header.last == Revision::ZERO || header.last == self.last
            }
            _ => (header.kind, header.last) == (self.kind, self.last),
        };
        if header.first == self.first && fits {
            Ok(header)
        } else {
            Err(corrupt(&self.name(), 0, "the file's header does not fit its name"))
        }
    }
}

/// The files of a log, each kind in the order of revisions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// Segments; the last one is being written.
    pub segments: Vec<LogFile>,
    /// Commits before the newest checkpoint.
    pub history: Vec<LogFile>,
    /// Checkpoints, the newest last.
    pub checkpoints: Vec<LogFile>,
    /// Leftovers of work that never finished.
    pub unfinished: Vec<String>,
    /// Whether there is room made ahead of need.
    pub spare: bool,
    /// Whether there is room for deletes.
    pub reserve: bool,
}

impl Files {
    /// Looks what is there.
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
                None if name.ends_with(UNFINISHED) => files.unfinished.push(name),
                None => {}
            }
        }
        files.segments.sort_by_key(|file| file.first);
        files.history.sort_by_key(|file| file.first);
        files.checkpoints.sort_by_key(|file| file.first);
        Ok(files)
    }

    /// The file that shows that there was a log, if all files are gone that a log cannot be without: a log begins with a
    /// checkpoint, which is durable before there is anything else.
    #[must_use]
    pub fn leftover(&self) -> Option<String> {
        if !self.segments.is_empty() || !self.checkpoints.is_empty() {
            return None;
        }
        let history = self.history.first().map(LogFile::name);
        history.or(self.reserve.then(|| RESERVE.to_owned())).or(self.spare.then(|| SPARE.to_owned()))
    }

    /// The files that hold commits, in order, each revision once: a cut may have left a segment beside the
    /// history that was made of it.
    #[must_use]
    pub fn sources(&self) -> Vec<&LogFile> {
        let made = |segment: &&LogFile| !self.history.iter().any(|history| history.first == segment.first);
        let mut sources: Vec<&LogFile> = self.segments.iter().filter(made).chain(&self.history).collect();
        sources.sort_by_key(|file| file.first);
        sources
    }

    /// Fails if a segment is gone that `header`, of the file `name`, says to be there.
    pub fn check_follower(&self, name: &str, header: &FileHeader) -> Result<(), LogError> {
        let first = match header.kind {
            FileKind::Checkpoint => header.next,
            FileKind::Segment if header.last > Revision::ZERO => header.last.next(),
            _ => Revision::ZERO,
        };
        if first == Revision::ZERO || self.segments.iter().any(|segment| segment.first >= first) {
            return Ok(());
        }
        let what = format!("the file is missing, and {name} says that it was in use");
        Err(corrupt(&LogFile::segment(first).name(), 0, &what))
    }

    /// The newest checkpoint at or before `at_most`.
    #[must_use]
    pub fn checkpoint(&self, at_most: Revision) -> Option<&LogFile> {
        self.checkpoints.iter().rev().find(|file| file.first <= at_most)
    }

    /// The oldest revision from which on everything can be rebuilt.
    #[must_use]
    pub fn floor(&self) -> Revision {
        let from_the_start = |files: &[LogFile]| files.first().is_some_and(|file| file.first == Revision(1));
        if from_the_start(&self.history) || from_the_start(&self.segments) {
            return Revision::ZERO;
        }
        self.checkpoints.first().map_or(Revision::ZERO, |file| file.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_and_strangers_are_left_alone() {
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
