//! Reference log: all commits in a list, with every query answered by a scan.

use std::collections::BTreeMap;

use setpoint_api::{Key, Revision, Time};
use setpoint_store::commit::{Commit, LogWrite, Proposal, RecordBody};
use setpoint_store::log::{
    CurrentRevisions, Log, LogError, LogReader, LogStat, MaintenanceTask, Replay, Verdict,
};
use setpoint_store::record::RecordEnvelope;
use setpoint_store::{Retention, Snapshot, Store};

/// Object in parts that can be compared exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NaiveObject {
    /// Revision that put it.
    pub revision: Revision,
    /// Time of that commit.
    pub time: Time,
    /// Value, hole and expiry.
    pub body: RecordBody,
    /// Labels, fields and cause.
    pub envelope: RecordEnvelope,
}

/// All objects at one revision.
pub type Objects = BTreeMap<Key, NaiveObject>;

/// Returns all objects of a snapshot.
#[must_use]
pub fn objects_of(snapshot: &Snapshot) -> Objects {
    let mut objects = Objects::new();
    for (resource, table) in snapshot.tables() {
        for record in table.iter() {
            let key = Key::from_path(resource, record.path()).expect("a record lies at a key");
            let object = NaiveObject {
                revision: record.revision(),
                time: record.time(),
                body: record.body(),
                envelope: record.envelope(),
            };
            objects.insert(key, object);
        }
    }
    objects
}

/// Returns commits whose replay gives a snapshot: for each revision the writes that are still current, and an empty
/// commit at the end if the last revision has none.
#[must_use]
pub fn commits_of(snapshot: &Snapshot) -> Vec<Commit> {
    let mut commits: BTreeMap<Revision, Commit> = BTreeMap::new();
    for (key, object) in objects_of(snapshot) {
        let NaiveObject { revision, time, body, envelope } = object;
        let commit = commits.entry(revision).or_insert(Commit { revision, time, writes: Vec::new() });
        commit.writes.push(LogWrite { key, body: Some(body), envelope, sealed: None });
    }
    let revision = snapshot.revision();
    if revision > Revision::ZERO {
        commits.entry(revision).or_insert(Commit { revision, time: Time::EPOCH, writes: Vec::new() });
    }
    commits.into_values().collect()
}

/// Returns the snapshot that a replay of `commits` gives.
#[must_use]
pub fn snapshot_of(commits: impl IntoIterator<Item = Commit>) -> Snapshot {
    let past = Box::new(ReplayOnlyLog(commits.into_iter().collect()));
    Store::open(past, Retention::default(), |_| ()).expect("a list is always readable").snapshot()
}

/// All commits since the first.
#[derive(Clone, Debug, Default)]
pub struct NaiveLog {
    /// The commits in order; never compacted.
    pub commits: Vec<Commit>,
}

impl NaiveLog {
    /// Last revision.
    #[must_use]
    pub fn head(&self) -> Revision {
        self.commits.last().map_or(Revision::ZERO, |commit| commit.revision)
    }

    /// Appends `proposal` as the next commit.
    pub fn admit(&mut self, proposal: &Proposal) {
        let writes = proposal.writes().cloned().collect();
        self.commits.push(Commit { revision: self.head().next(), time: proposal.time(), writes });
    }

    /// Returns the commits after `after`, up to `until`.
    #[must_use]
    pub fn between(&self, after: Revision, until: Revision) -> Vec<Commit> {
        let is_in_range = |commit: &&Commit| commit.revision > after && commit.revision <= until;
        self.commits.iter().filter(is_in_range).cloned().collect()
    }

    /// Returns all objects at a revision.
    #[must_use]
    pub fn objects_at(&self, revision: Revision) -> Objects {
        let mut objects = Objects::new();
        for Commit { revision, time, writes } in self.between(Revision::ZERO, revision) {
            for LogWrite { key, body, envelope, .. } in writes {
                match body {
                    Some(body) => drop(objects.insert(key, NaiveObject { revision, time, body, envelope })),
                    None => drop(objects.remove(&key)),
                }
            }
        }
        objects
    }

    /// Returns the newest state, as the store passes it to a log.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        snapshot_of(self.commits.iter().cloned())
    }
}

impl CurrentRevisions for NaiveLog {
    fn current_revision(&self, key: &Key) -> Option<Revision> {
        for commit in self.commits.iter().rev() {
            if let Some(write) = commit.writes.iter().find(|write| write.key == *key) {
                return write.body.is_some().then_some(commit.revision);
            }
        }
        None
    }
}

/// List of commits that can only be replayed.
struct ReplayOnlyLog(Vec<Commit>);

impl ReplayOnlyLog {
    fn unsupported<T>() -> Result<T, LogError> {
        Err(LogError::Engine("replay only".to_owned()))
    }
}

impl Log for ReplayOnlyLog {
    fn replay(&mut self, into: &mut dyn Replay) -> Result<(), LogError> {
        self.0.drain(..).for_each(|commit| into.commit(commit));
        Ok(())
    }

    fn append(&mut self, _: &[Proposal], _: &dyn CurrentRevisions) -> Result<Vec<Verdict>, LogError> {
        ReplayOnlyLog::unsupported()
    }

    fn reader(&self) -> Box<dyn LogReader> {
        Box::new(ReplayOnlyLog(Vec::new()))
    }

    fn maintenance_task(
        &mut self,
        _: &Snapshot,
        _: Time,
    ) -> Result<Option<Box<dyn MaintenanceTask>>, LogError> {
        Ok(None)
    }

    fn compact(&mut self, _: &Snapshot, _: Time) -> Result<Box<dyn MaintenanceTask>, LogError> {
        ReplayOnlyLog::unsupported()
    }

    fn stat(&self) -> LogStat {
        LogStat::default()
    }
}

impl LogReader for ReplayOnlyLog {
    fn base(&mut self, _: Revision) -> Result<Snapshot, LogError> {
        ReplayOnlyLog::unsupported()
    }

    fn tail(&mut self, _: Revision, _: Revision, _: &mut dyn FnMut(Commit)) -> Result<(), LogError> {
        ReplayOnlyLog::unsupported()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use setpoint_api::Resource;
    use setpoint_store::{CommitCause, Draft, Precondition};

    #[test]
    fn snapshot_equals_the_replay_of_its_commits() {
        let pods = Resource::new("pods").unwrap();
        let key = |path| Key::from_path(&pods, path).unwrap();
        let proposal = || Proposal::new(CommitCause::default(), Time(3));
        let mut naive = NaiveLog::default();
        naive.admit(&proposal().put(
            key("a/x"),
            Precondition::Any,
            Draft::with_revision_at("{}", 1).expires(Time(9)),
        ));
        naive.admit(&proposal().put(key("a/y"), Precondition::Any, Draft::new("y")));
        naive.admit(&proposal().delete(key("a/y"), Precondition::Any));
        let snapshot = naive.snapshot();
        assert_eq!((snapshot.revision(), snapshot.len()), (Revision(3), 1));
        assert_eq!(objects_of(&snapshot), naive.objects_at(Revision(3)));
        let again = snapshot_of(commits_of(&snapshot));
        assert_eq!((again.revision(), objects_of(&again)), (Revision(3), objects_of(&snapshot)));
        assert_eq!(
            (
                CurrentRevisions::current_revision(&naive, &key("a/x")),
                CurrentRevisions::current_revision(&naive, &key("a/y"))
            ),
            (Some(Revision(1)), None)
        );
    }
}
