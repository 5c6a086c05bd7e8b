//! Bugs listed by etcd's robustness tests, each as a claim about this store.
//!
//! The numbers are those of etcd's issues. A crash is simulated by a disk on which every operation after the
//! n-th fails, for every n; a power cut by a disk that withholds unsynced writes.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use setpoint_api::{Key, Resource, Revision, Time};
use setpoint_sim::naive::{NaiveLog, objects_of};
use setpoint_store::disk::{Disk, DiskFile, OsDisk, SECTOR_BYTES};
use setpoint_store::log::disk::DiskOptions;
use setpoint_store::log::{DiskLog, LogError, MemoryLog};
use setpoint_store::{
    CommitCause, CommitError, Compacted, Cursor, Draft, FailedPrecondition, Precondition, Proposal,
    RejectReason, Retention, Snapshot, Store, WatchEventType, WatchFilter,
};

fn pods() -> Resource {
    Resource::new("pods").expect("a plain word")
}

fn key(path: &str) -> Key {
    Key::from_path(&pods(), path).expect("a plain path")
}

fn propose() -> Proposal {
    Proposal::new(CommitCause::default(), Time(1))
}

fn put(path: &str, value: &str) -> Proposal {
    propose().put(key(path), Precondition::Any, Draft::with_revision_at(value.to_owned(), 0))
}

fn delete(path: &str) -> Proposal {
    propose().delete(key(path), Precondition::Any)
}

fn open(disk: Arc<dyn Disk>, retention: Retention) -> Result<Store, LogError> {
    let options = DiskOptions {
        segment_bytes_min: 1024,
        segment_bytes_max: 2048,
        reserve_bytes: 1024,
        retention: retention.clone(),
        entropy: 0xe7cd,
        ..DiskOptions::default()
    };
    Store::open(Box::new(DiskLog::new(disk, options)), retention, |_| ())
}

fn reopen(dir: &Path) -> Store {
    let disk = OsDisk::exclusive(dir).expect("its last holder is gone");
    open(Arc::new(disk), Retention::default()).expect("a log that a process operations_left can be read")
}

/// Two stores on one log, like two servers.
fn two_servers() -> [Store; 2] {
    let mut log = MemoryLog::default();
    let logs = [log.share(), log.share()];
    logs.map(|log| Store::open(Box::new(log), Retention::default(), |_| ()).expect("it is empty"))
}

/// Returns all available events.
fn drain(cursor: &mut Cursor) -> Result<Vec<(WatchEventType, u64)>, Compacted> {
    let mut events = Vec::new();
    while let Some(event) = cursor.try_next()? {
        events.push((event.event_type, event.revision().0));
    }
    Ok(events)
}

/// Step of a store that crashes: the n-th commit of the list gets revision n.
enum Step {
    Commit(Proposal),
    Maintain,
    Compact,
}

/// Runs the steps on a disk that fails after every possible number of operations, and compares the recovered
/// state with the acknowledgements.
fn crash_everywhere(steps: impl Fn() -> Vec<Step>, retention: &Retention) {
    let mut plan = NaiveLog::default();
    for step in steps() {
        if let Step::Commit(proposal) = step {
            plan.admit(&proposal);
        }
    }
    for operations in 0.. {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let disk = Arc::new(CrashingDisk {
            disk: OsDisk::exclusive(dir.path()).expect("the directory is empty"),
            operations_left: Arc::new(AtomicU64::new(operations)),
        });
        let operations_left = Arc::clone(&disk.operations_left);
        let acknowledged = open(disk, retention.clone()).map_or(0, |store| run_steps(&store, steps()));
        let crashed = operations_left.load(Ordering::SeqCst) == 0;
        let recovered = reopen(dir.path());
        let found = recovered.snapshot();
        let revision = found.revision();
        assert!(
            revision.0 >= acknowledged,
            "after {operations}: {revision}, but {acknowledged} was acknowledged"
        );
        assert!(revision.0 <= acknowledged + 1, "after {operations}: {revision} was never written");
        assert_eq!(
            objects_of(&found),
            plan.objects_at(revision),
            "after {operations}: state and revision disagree"
        );
        let next =
            recovered.commit(put("z/next", "{}")).expect("the recovered store accepts commits").revision;
        assert_eq!(next, revision.next(), "after {operations}");
        if !crashed {
            assert!(operations > 20, "the run has too few disk operations");
            assert_eq!(revision, plan.head());
            return;
        }
    }
}

/// Runs the steps until the store fails. Returns the number of acknowledged commits.
fn run_steps(store: &Store, steps: Vec<Step>) -> u64 {
    let mut acknowledged = 0;
    for step in steps {
        let succeeded = match step {
            Step::Commit(proposal) => match store.commit(proposal) {
                Ok(committed) => {
                    acknowledged = committed.revision.0;
                    true
                }
                Err(_) => false,
            },
            Step::Maintain => store.run_maintenance(Time(1)).is_ok(),
            Step::Compact => store.compact(Time(1)).is_ok(),
        };
        if !succeeded {
            break;
        }
    }
    acknowledged
}

#[test]
fn etcd_13766_14685_state_and_revision_are_one_record_through_any_crash() {
    let steps = || {
        let mut steps = vec![Step::Maintain];
        for n in 0..12 {
            steps.push(Step::Commit(put(&format!("a/{}", n % 4), &"v".repeat(700))));
            if n % 5 == 4 {
                steps.extend([Step::Commit(delete(&format!("a/{}", n % 4))), Step::Compact, Step::Maintain]);
            }
        }
        steps
    };
    crash_everywhere(steps, &Retention::default());
    crash_everywhere(steps, &Retention { cold_bytes: 0, ..Retention::default() });
}

#[test]
fn etcd_14370_acknowledged_commits_are_synced() {
    let dir = tempfile::tempdir().unwrap();
    let disk =
        UnsyncedDisk { disk: Arc::new(OsDisk::exclusive(dir.path()).unwrap()), pending: Arc::default() };
    let store = open(Arc::new(disk), Retention::default()).unwrap();
    let mut plan = NaiveLog::default();
    for n in 0..30 {
        let proposal = put(&format!("a/{}", n % 4), &"v".repeat(n * 20));
        plan.admit(&proposal);
        let revision = store.commit(proposal).unwrap().revision;
        // Simulated power cut: the directory contains only synced writes.
        let after = tempfile::tempdir().unwrap();
        copy_dir(dir.path(), after.path());
        let found = reopen(after.path()).snapshot();
        assert_eq!(found.revision(), revision);
        assert_eq!(objects_of(&found), plan.objects_at(revision));
        if n % 9 == 8 {
            store.compact(Time(1)).unwrap();
        }
    }
}

#[test]
fn etcd_15220_bookmark_never_exceeds_last_delivered_revision() {
    let store = Store::in_memory(Retention::default());
    let nodes = Resource::new("nodes").unwrap();
    let done = AtomicBool::new(false);
    let in_a = WatchFilter { namespace: Some("a".to_owned()), ..WatchFilter::default() };
    let cursors = [store.watch(&pods(), WatchFilter::default()), store.watch(&pods(), in_a)];
    let logs = std::thread::scope(|scope| {
        let followers = cursors.map(|mut cursor| {
            let done = &done;
            scope.spawn(move || {
                let (mut seen, mut bookmarks) = (Vec::new(), Vec::new());
                loop {
                    let last = done.load(Ordering::Acquire);
                    let event = cursor.try_next().unwrap();
                    seen.extend(event.iter().map(|event| event.revision()));
                    bookmarks.push((cursor.position(), seen.len()));
                    if last && event.is_none() {
                        return (seen, bookmarks);
                    }
                }
            })
        });
        for n in 0..3000 {
            let namespace = if n % 3 == 0 { "a" } else { "b" };
            let proposal = put(&format!("{namespace}/x"), "{}");
            let other = propose().put(Key::cluster(&nodes, "n").unwrap(), Precondition::Any, Draft::new("n"));
            store.commit(if n % 4 == 0 { other } else { proposal }).unwrap();
        }
        done.store(true, Ordering::Release);
        followers.map(|follower| follower.join().unwrap())
    });
    for (seen, bookmarks) in logs {
        assert!(seen.len() > 500);
        for (bookmark, delivered) in bookmarks {
            let due = seen.partition_point(|revision| *revision <= bookmark);
            assert!(
                due <= delivered,
                "bookmark {bookmark}: {due} events are due, {delivered} were delivered"
            );
        }
    }
}

#[test]
fn etcd_15271_watch_does_not_go_back_on_another_server() {
    let servers = two_servers();
    let mut position = Revision::ZERO;
    let mut seen = Vec::new();
    for n in 0..60 {
        servers[n % 3 % 2].commit(put("a/x", "{}")).unwrap();
        // The next server may not have applied the events that the client has already received.
        let server = &servers[n % 2];
        let mut cursor = server.watch_after(&pods(), WatchFilter::default(), position).unwrap();
        if n % 5 == 0 {
            server.catch_up().unwrap();
        }
        for (_, revision) in drain(&mut cursor).unwrap() {
            assert!(Revision(revision) > position, "{revision} after {position}");
            position = Revision(revision);
            seen.push(revision);
        }
        assert!(cursor.position() >= position, "the bookmark went back");
        position = cursor.position();
    }
    servers[0].catch_up().unwrap();
    let mut cursor = servers[0].watch_after(&pods(), WatchFilter::default(), position).unwrap();
    seen.extend(drain(&mut cursor).unwrap().iter().map(|(_, revision)| revision));
    assert_eq!(seen, (1..=60).collect::<Vec<u64>>(), "each once, in order, and none operations_left out");
}

#[test]
fn etcd_17247_no_event_is_delivered_twice() {
    let [store, other] = two_servers();
    let nodes = Resource::new("nodes").unwrap();
    let node = || Key::cluster(&nodes, "n").unwrap();
    let filters =
        || [WatchFilter::default(), WatchFilter { name: Some("x".to_owned()), ..WatchFilter::default() }];
    let mut cursors: Vec<Cursor> = filters()
        .into_iter()
        .chain(filters())
        .zip(0..)
        .map(|(filter, n)| if n < 2 { &store } else { &other }.watch(&pods(), filter))
        .collect();
    let mut on_nodes = store.watch(&nodes, WatchFilter::default());
    for _ in 0..20 {
        // One batch changes one key many times, and two resources in one commit.
        let pending: Vec<_> = (0..10)
            .map(|_| store.submit(put("a/x", "{}").put(node(), Precondition::Any, Draft::new("n"))))
            .collect();
        pending.into_iter().for_each(|commit| drop(commit.wait().unwrap()));
        other.catch_up().unwrap();
        other.commit(put("a/x", "{}")).unwrap();
        other.catch_up().unwrap();
        store.catch_up().unwrap();
        store.catch_up().unwrap();
    }
    for cursor in &mut cursors {
        let revisions: Vec<u64> = drain(cursor).unwrap().into_iter().map(|(_, revision)| revision).collect();
        assert_eq!(revisions, (1..=220).collect::<Vec<u64>>());
    }
    let on_nodes = drain(&mut on_nodes).unwrap();
    assert_eq!(on_nodes.len(), 200);
    assert!(on_nodes.windows(2).all(|pair| pair[0].1 < pair[1].1));
}

#[test]
fn etcd_17529_slow_watch_fails_and_never_skips() {
    let retention = Retention { hot_bytes: 4 << 10, ..Retention::default() };
    let store = Store::in_memory(retention);
    let filters = [
        WatchFilter::default(),
        WatchFilter { namespace: Some("a".to_owned()), ..WatchFilter::default() },
        WatchFilter { name: Some("x".to_owned()), ..WatchFilter::default() },
        WatchFilter { field: Some(("f".to_owned(), "1".to_owned())), ..WatchFilter::default() },
    ];
    // Cursors that read at different intervals; the slowest cannot keep up with the ring.
    let mut cursors: Vec<(u64, Cursor, Vec<u64>, bool)> = Vec::new();
    for pace in [1, 3, 7, 400] {
        for filter in &filters {
            cursors.push((pace, store.watch(&pods(), filter.clone()), Vec::new(), false));
        }
    }
    for n in 1..=400 {
        let draft = Draft::new("v".repeat(100)).fields([("f", "1")]);
        store.commit(propose().put(key("a/x"), Precondition::Any, draft)).unwrap();
        for (_, cursor, seen, ended) in
            cursors.iter_mut().filter(|(pace, _, _, ended)| n % pace == 0 && !ended)
        {
            loop {
                match cursor.try_next() {
                    Ok(Some(event)) => seen.push(event.revision().0),
                    Ok(None) => break,
                    Err(Compacted { floor }) => {
                        assert!(floor.0 > cursor.position().0, "the cursor failed without need");
                        *ended = true;
                        break;
                    }
                }
            }
        }
    }
    for (pace, _, seen, ended) in &cursors {
        let gapless: Vec<u64> = (1..=seen.len() as u64).collect();
        assert_eq!(seen, &gapless, "pace {pace}: a gap");
        assert_eq!(*ended, *pace == 400, "pace {pace}");
        assert!(*ended || seen.len() as u64 >= 400 - 400 % pace);
    }
}

#[test]
fn etcd_17780_revision_does_not_go_back_after_a_crashed_compaction() {
    // The last commits are deletes, so that no object of the folded state carries the last revision.
    let steps = || {
        let mut steps: Vec<Step> = (0..4).map(|n| Step::Commit(put(&format!("a/{n}"), "{}"))).collect();
        steps.extend((0..4).map(|n| Step::Commit(delete(&format!("a/{n}")))));
        steps.extend([
            Step::Compact,
            Step::Compact,
            Step::Commit(put("a/x", "{}")),
            Step::Commit(delete("a/x")),
        ]);
        steps.push(Step::Compact);
        steps
    };
    crash_everywhere(steps, &Retention { cold_bytes: 0, ..Retention::default() });
    crash_everywhere(steps, &Retention::default());
}

/// Puts at 1, 2 and 3, a delete at 4, a put at 5, and a put of another key at 6.
fn delete_and_recreate(store: &Store) -> Vec<(WatchEventType, u64)> {
    for proposal in [put("a/k", "2"), put("a/k", "3"), put("a/k", "4"), delete("a/k"), put("a/k", "6")] {
        store.commit(proposal).unwrap_or_else(|error| panic!("{error}"));
    }
    store.commit(put("a/other", "7")).unwrap_or_else(|error| panic!("{error}"));
    let (added, modified, deleted) =
        (WatchEventType::Added, WatchEventType::Modified, WatchEventType::Deleted);
    vec![(added, 1), (modified, 2), (modified, 3), (deleted, 4), (added, 5), (added, 6)]
}

#[test]
fn etcd_18089_compaction_never_hides_a_delete() {
    let mut floors = BTreeMap::new();
    // Each budget makes the ring evict a different number of events.
    for hot_bytes in (0..2000).step_by(20) {
        let store = Store::in_memory(Retention { hot_bytes, ..Retention::default() });
        let events = delete_and_recreate(&store);
        *floors.entry(store.stat().hot_floor).or_insert(0) += 1;
        for after in 0..=6 {
            match store.watch_after(&pods(), WatchFilter::default(), Revision(after)) {
                Ok(mut cursor) => assert_eq!(drain(&mut cursor).unwrap(), events[after as usize..]),
                Err(Compacted { floor }) => assert!(after < floor.0, "{after} is not before {floor}"),
            }
        }
    }
    assert!(floors.len() >= 5, "the ring forgot in too few ways: {floors:?}");
}

#[test]
fn etcd_19179_watch_at_the_compacted_revision_misses_no_delete() {
    for at in 1..=5 {
        let store = Store::in_memory(Retention::default());
        let mut opened = vec![(0, store.watch(&pods(), WatchFilter::default()))];
        let proposals = [put("a/k", "2"), put("a/k", "3"), put("a/k", "4"), delete("a/k"), put("a/k", "6")];
        for (n, proposal) in (1..).zip(proposals) {
            store.commit(proposal).unwrap();
            if n == at {
                store.compact(Time(1)).unwrap();
            }
            opened.push((n, store.watch(&pods(), WatchFilter::default())));
        }
        // Cursors opened before the compaction and not read since, and cursors opened afterwards at old
        // revisions.
        for after in 0..=5 {
            opened.extend(
                store.watch_after(&pods(), WatchFilter::default(), Revision(after)).ok().map(|c| (after, c)),
            );
            let rejected = store.watch_after(&pods(), WatchFilter::default(), Revision(after)).is_err();
            assert_eq!(rejected, after < at, "compacted at {at}, followed after {after}");
        }
        for (after, mut cursor) in opened {
            match drain(&mut cursor) {
                Ok(events) => {
                    let revisions: Vec<u64> = events.iter().map(|(_, revision)| *revision).collect();
                    assert_eq!(revisions, (after + 1..=5).collect::<Vec<u64>>(), "compacted at {at}");
                    assert_eq!(events.contains(&(WatchEventType::Deleted, 4)), after < 4);
                }
                Err(Compacted { floor }) => assert!(after < floor.0 && floor == Revision(at)),
            }
        }
    }
}

#[test]
fn etcd_18667_state_is_a_pure_function_of_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let alone = reopen(dir.path());
    let servers = two_servers();
    for n in 0..40u64 {
        // Preconditions on revisions that are long compacted, or that only one server has in its mirror.
        let precondition = if n % 3 == 0 {
            Precondition::Any
        } else {
            Precondition::Revision(Revision(n.saturating_sub(n % 5)))
        };
        let proposal = || {
            let draft = Draft::with_revision_at("{}", 1).labels([("n", n.to_string())]);
            propose().put(key("a/x"), precondition, draft).guard(key("a/other"), Precondition::Absent)
        };
        let verdict = |store: &Store| match store.commit(proposal()) {
            Ok(committed) => Ok(committed.revision),
            Err(CommitError::Rejected(refusal)) => Err(refusal),
            Err(failed) => panic!("{failed}"),
        };
        assert_eq!(verdict(&alone), verdict(&servers[(n % 2) as usize]), "commit {n}");
        if n % 7 == 0 {
            alone.compact(Time(1)).unwrap();
        }
    }
    servers.iter().for_each(|server| server.catch_up().unwrap());
    let state = |snapshot: Snapshot| (snapshot.revision(), objects_of(&snapshot));
    let live = state(alone.snapshot());
    assert!(live.0 > Revision(10));
    servers.iter().for_each(|server| assert_eq!(state(server.snapshot()), live));
    drop(alone);
    assert_eq!(state(reopen(dir.path()).snapshot()), live);
}

#[test]
fn etcd_20221_watch_at_a_future_revision_gets_no_older_event() {
    let store = Store::in_memory(Retention::default());
    store.commit(put("a/x", "{}")).unwrap();
    let in_a = WatchFilter { namespace: Some("a".to_owned()), ..WatchFilter::default() };
    let mut cursors =
        [WatchFilter::default(), in_a].map(|filter| store.watch_after(&pods(), filter, Revision(5)).unwrap());
    for revision in 2..=9 {
        for cursor in &mut cursors {
            assert_eq!(cursor.position(), Revision(5).max(Revision(revision - 1)));
        }
        store.commit(put("a/x", "{}")).unwrap();
        for cursor in &mut cursors {
            let events = drain(cursor).unwrap();
            let expected: Vec<_> =
                (revision > 5).then_some((WatchEventType::Modified, revision)).into_iter().collect();
            assert_eq!(events, expected, "at {revision}");
        }
    }
}

#[test]
fn etcd_20418_paused_server_does_not_serve_stale_reads() {
    let [paused, other] = two_servers();
    paused.commit(put("a/x", "1")).unwrap();
    other.catch_up().unwrap();
    // One server is paused while the other commits.
    other.commit(put("a/x", "2")).unwrap();
    // The paused server's state must not decide.
    let stale = propose().put(key("a/x"), Precondition::Revision(Revision(1)), Draft::new("mine"));
    let Err(CommitError::Rejected(RejectReason::Conflict(conflict))) = paused.commit(stale) else {
        panic!("decided by what it remembered")
    };
    let expected = Precondition::Revision(Revision(1));
    assert_eq!(conflict, FailedPrecondition { key: key("a/x"), expected, actual: Some(Revision(2)) });
    assert_eq!(paused.snapshot().revision(), Revision(2), "an answer brings it up to date");
    other.commit(put("a/x", "3")).unwrap();
    paused.catch_up().unwrap();
    assert_eq!(paused.snapshot().get(&key("a/x")).unwrap().revision(), Revision(3));
    // A log that is not shared has no other writer, so reads need no check.
    let dir = tempfile::tempdir().unwrap();
    let sleeper = reopen(dir.path());
    assert!(matches!(OsDisk::exclusive(dir.path()), Err(LogError::InUse { .. })));
    drop(sleeper);
    assert!(OsDisk::exclusive(dir.path()).is_ok());
}

/// Disk on which every operation fails after a number of changes. The last write is torn between two
/// sectors.
struct CrashingDisk {
    disk: OsDisk,
    operations_left: Arc<AtomicU64>,
}

struct CrashingFile {
    file: Box<dyn DiskFile>,
    operations_left: Arc<AtomicU64>,
}

fn consume_operation(operations_left: &AtomicU64) -> io::Result<()> {
    let consumed = operations_left
        .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |operations_left| operations_left.checked_sub(1));
    consumed.map(drop).map_err(|_| io::Error::other("the process was error"))
}

impl CrashingDisk {
    fn file(&self, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(CrashingFile { file, operations_left: Arc::clone(&self.operations_left) })
    }
}

impl Disk for CrashingDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.file(self.disk.open(name)?))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        consume_operation(&self.operations_left)?;
        Ok(self.file(self.disk.create(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        consume_operation(&self.operations_left)?;
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        consume_operation(&self.operations_left)?;
        self.disk.remove(name)
    }

    fn sync_names(&self) -> io::Result<()> {
        consume_operation(&self.operations_left)
    }
}

impl DiskFile for CrashingFile {
    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if let Err(error) = consume_operation(&self.operations_left) {
            let half = (offset as usize + data.len() / 2) / SECTOR_BYTES * SECTOR_BYTES;
            self.file.write_at(offset, &data[..half.saturating_sub(offset as usize)])?;
            return Err(error);
        }
        self.file.write_at(offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        consume_operation(&self.operations_left)
    }
}

/// Unsynced writes to a file. All handles of the file share them, also after a rename.
type Unsynced = Arc<Mutex<Vec<(u64, Vec<u8>)>>>;
/// Unsynced writes of each file, by name.
type Pending = Mutex<BTreeMap<String, Unsynced>>;

/// Disk that withholds every write until the file is synced: the directory is what a power cut would leave.
struct UnsyncedDisk {
    disk: Arc<OsDisk>,
    pending: Arc<Pending>,
}

struct UnsyncedFile {
    file: Box<dyn DiskFile>,
    unsynced: Unsynced,
}

impl UnsyncedDisk {
    fn file(&self, name: &str, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        let unsynced = Arc::clone(self.pending.lock().entry(name.to_owned()).or_default());
        Box::new(UnsyncedFile { file, unsynced })
    }
}

impl Disk for UnsyncedDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.file(name, self.disk.open(name)?))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = self.disk.create(name)?;
        self.pending.lock().remove(name);
        Ok(self.file(name, file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut pending = self.pending.lock();
        let unsynced = pending.remove(from).unwrap_or_default();
        // A segment's header may record its successor later.
        let is_durable = unsynced.lock().is_empty() || from.starts_with("segment-");
        assert!(is_durable, "{from} gets its name before its content is durable");
        pending.insert(to.to_owned(), unsynced);
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.disk.sync_names()
    }
}

impl DiskFile for UnsyncedFile {
    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.unsynced.lock().push((offset, data.to_vec()));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        for (offset, data) in std::mem::take(&mut *self.unsynced.lock()) {
            self.file.write_at(offset, &data)?;
        }
        self.file.sync()
    }
}

fn copy_dir(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("a file");
        if entry.file_name() != "LOCK" {
            std::fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
        }
    }
}
