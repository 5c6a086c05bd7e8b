//! Sealing of resources: nothing of them is readable in the files, and keys can be replaced.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::sync::Arc;

use setpoint_api::{Key, Resource, Revision, Time};
use setpoint_sim::sim_sealer::SimSealer;
use setpoint_store::disk::OsDisk;
use setpoint_store::log::disk::{DiskLog, DiskOptions, DiskReader};
use setpoint_store::log::{LogError, open_write, seal_record};
use setpoint_store::seal::OpenError;
use setpoint_store::{
    CommitCause, CommitError, Draft, Precondition, Proposal, ReadError, RejectReason, Retention, Sealer,
    Store,
};

/// Occurs in values, labels, fields and causes of Secrets, and in nothing else.
const MARKER: &[u8] = b"hunter2";

fn secrets() -> Resource {
    Resource::new("secrets").unwrap()
}

fn secret(name: &str) -> Key {
    Key::from_path(&secrets(), &format!("shop/{name}")).unwrap()
}

fn pod(name: &str) -> Key {
    Key::from_path(&Resource::new("pods").unwrap(), &format!("shop/{name}")).unwrap()
}

fn options(sealer: Option<Arc<SimSealer>>) -> DiskOptions {
    let exempt = [Resource::new("events").unwrap()].into();
    DiskOptions {
        segment_bytes_min: 4 << 10,
        segment_bytes_max: 4 << 10,
        reserve_bytes: 4 << 10,
        retention: Retention { exempt, cold_age: std::time::Duration::MAX, ..Retention::default() },
        entropy: 7,
        sealer: sealer.map(|sealer| sealer as Arc<dyn Sealer>),
        ..DiskOptions::default()
    }
}

fn open(dir: &Path, sealer: Option<&Arc<SimSealer>>) -> Result<Store, LogError> {
    let options = options(sealer.cloned());
    let retention = options.retention.clone();
    let disk = Arc::new(OsDisk::exclusive(dir).unwrap());
    Store::open(Box::new(DiskLog::new(disk, options)), retention, |_| ())
}

fn proposal() -> Proposal {
    let cause = CommitCause { user: "hunter2".to_owned(), ..CommitCause::default() };
    Proposal::new(cause, Time(1))
}

fn put(store: &Store, key: Key) -> Revision {
    let draft = Draft::with_revision_at(r#"{"rv":"","password":"hunter2"}"#, 7);
    let draft = draft.labels([("owner", "hunter2")]).fields([("type", "hunter2")]);
    store.commit(proposal().put(key, Precondition::Any, draft)).unwrap().revision
}

fn put_pod(store: &Store, name: &str) -> Revision {
    let proposal = Proposal::new(CommitCause::default(), Time(1));
    store.commit(proposal.put(pod(name), Precondition::Any, Draft::new("plain pod"))).unwrap().revision
}

/// Returns the number of files, and of those that contain the bytes.
fn files_with(dir: &Path, bytes: &[u8]) -> (usize, usize) {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
    let found: Vec<bool> = files.map(|file| file.windows(bytes.len()).any(|part| part == bytes)).collect();
    (found.len(), found.iter().filter(|found| **found).count())
}

fn number_of(dir: &Path, prefix: &str) -> usize {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_str().unwrap().starts_with(prefix)).count()
}

#[test]
fn plaintext_of_sealed_resources_occurs_in_no_file() {
    let (dir, sealer) = (tempfile::tempdir().unwrap(), SimSealer::new(Some(secrets()), &["k1"]));
    let store = open(dir.path(), Some(&sealer)).unwrap();
    for round in 0..3 {
        for n in 0..40 {
            put(&store, secret(&format!("s{n}")));
            put_pod(&store, &format!("p{n}"));
        }
        store.commit(proposal().delete(secret("s1"), Precondition::Present)).unwrap();
        store.compact(Time(round)).unwrap();
    }
    put(&store, secret("last"));
    assert!(number_of(dir.path(), "history-") > 1 && number_of(dir.path(), "checkpoint-") > 1);
    assert_eq!(files_with(dir.path(), MARKER).1, 0);
    assert!(files_with(dir.path(), b"plain pod").1 > 2, "other resources are stored as they are");
    drop(store);
    // Without a sync of the end, as after a kill.
    let store = open(dir.path(), Some(&sealer)).unwrap();
    let snapshot = store.snapshot();
    let record = snapshot.get(&secret("last")).unwrap();
    let value = format!(r#"{{"rv":"{}","password":"hunter2"}}"#, record.revision());
    assert_eq!(record.value(), value.as_bytes());
    assert_eq!(record.attributes().label("owner"), Some("hunter2"));
    assert_eq!((record.attributes().field("type"), &*record.cause().user), (Some("hunter2"), "hunter2"));
    assert!(store.snapshot_at(Revision(100)).unwrap().get(&secret("s0")).is_some(), "history is readable");
    drop(store);
    let disk = Arc::new(OsDisk::exclusive(dir.path()).unwrap());
    let sealer: Arc<dyn Sealer> = sealer;
    assert!(DiskReader::new(disk).with_sealer(Some(sealer)).check().is_ok());
}

#[test]
fn resources_that_are_not_sealed_are_stored_as_without_a_sealer() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let sealer = SimSealer::new(Some(secrets()), &["k1"]);
    for (dir, sealer) in dirs.iter().zip([None, Some(&sealer)]) {
        let store = open(dir.path(), sealer).unwrap();
        (0..80).for_each(|n| _ = put_pod(&store, &format!("p{n}")));
        store.compact(Time(1)).unwrap();
        put_pod(&store, "last");
    }
    let files = |dir: &Path| {
        let mut files: Vec<_> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.file_name().to_str().unwrap().ends_with(".log"))
            .map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap()))
            .collect();
        files.sort();
        files
    };
    assert!(files(dirs[0].path()) == files(dirs[1].path()));
}

#[test]
fn missing_key_is_named_in_the_error() {
    let (dir, sealer) = (tempfile::tempdir().unwrap(), SimSealer::new(Some(secrets()), &["k1"]));
    let store = open(dir.path(), Some(&sealer)).unwrap();
    put(&store, secret("a"));
    drop(store);
    let error = |sealer: Option<&Arc<SimSealer>>| open(dir.path(), sealer).err().unwrap().to_string();
    let start = "segment-00000000000000000001.log has a sealed object at byte 64 that cannot be opened: secrets shop/a at \
                 revision 1, sealed with key \"k1\": ";
    assert_eq!(
        error(None),
        format!("{start}there is no encryption configuration: set --encryption-provider-config")
    );
    sealer.rotate(&["k2"]);
    assert_eq!(
        error(Some(&sealer)),
        format!("{start}the key is not in the encryption configuration: put it back")
    );
    sealer.rotate(&["k1"]);
    sealer.replace(9);
    let damaged = error(Some(&sealer));
    assert!(damaged.starts_with("segment-00000000000000000001.log is corrupt at byte 64: "), "{damaged}");
    assert!(damaged.ends_with("or belong to another object or another key of this name"), "{damaged}");
    sealer.replace(0);
    assert!(open(dir.path(), Some(&sealer)).is_ok(), "nothing was changed");
}

#[test]
fn checkpoint_ends_the_need_for_the_old_key_except_for_history() {
    let (dir, sealer) = (tempfile::tempdir().unwrap(), SimSealer::new(Some(secrets()), &["k1"]));
    let store = open(dir.path(), Some(&sealer)).unwrap();
    let first = put(&store, secret("a"));
    assert!(!store.has_records_of_old_keys());
    sealer.rotate(&["k2", "k1"]);
    assert!(store.has_records_of_old_keys());
    assert!(store.snapshot().is_stored_with_old_key(&secrets(), first));
    let second = put(&store, secret("b"));
    let snapshot = store.snapshot();
    assert!(snapshot.is_stored_with_old_key(&secrets(), first));
    assert!(!snapshot.is_stored_with_old_key(&secrets(), second));
    assert!(!snapshot.is_stored_with_old_key(pod("p").resource(), first), "it was never sealed");
    store.seal_again(Time(1)).unwrap();
    assert!(!store.has_records_of_old_keys());
    assert!(!store.snapshot().is_stored_with_old_key(&secrets(), first));
    drop(store);
    sealer.rotate(&["k2"]);
    let store = open(dir.path(), Some(&sealer)).unwrap();
    assert_eq!(store.snapshot().len(), 2);
    let past = store.snapshot_at(first);
    let Err(ReadError::Log(error @ LogError::Sealed { error: OpenError::MissingKey, .. })) = past else {
        panic!("{past:?}")
    };
    assert!(error.to_string().starts_with("history-") && error.to_string().contains("\"k1\""), "{error}");
}

#[test]
fn checkpoint_without_new_commits_is_sealed_again() {
    let (dir, sealer) = (tempfile::tempdir().unwrap(), SimSealer::new(Some(secrets()), &[]));
    let store = open(dir.path(), Some(&sealer)).unwrap();
    let first = put(&store, secret("a"));
    store.compact(Time(1)).unwrap();
    assert!(files_with(dir.path(), MARKER).1 > 0, "nothing is sealed yet");
    drop(store);
    sealer.rotate(&["k1"]);
    let store = open(dir.path(), Some(&sealer)).unwrap();
    assert!(store.snapshot().is_stored_with_old_key(&secrets(), first), "it is stored as it is");
    store.seal_again(Time(1)).unwrap();
    drop(store);
    sealer.rotate(&["k2", "k1"]);
    let store = open(dir.path(), Some(&sealer)).unwrap();
    assert!(store.has_records_of_old_keys());
    store.seal_again(Time(1)).unwrap();
    drop(store);
    sealer.rotate(&["k2"]);
    assert!(!open(dir.path(), Some(&sealer)).unwrap().has_records_of_old_keys());
}

#[test]
fn history_is_kept_without_its_key() {
    let (dir, sealer) = (tempfile::tempdir().unwrap(), SimSealer::new(Some(secrets()), &["k1"]));
    let store = open(dir.path(), Some(&sealer)).unwrap();
    let event = Key::from_path(&Resource::new("events").unwrap(), "shop/e").unwrap();
    let first = put(&store, secret("a"));
    // History is copied without events, instead of renamed.
    put(&store, event);
    sealer.rotate(&["k2"]);
    store.compact(Time(1)).unwrap();
    assert!(number_of(dir.path(), "history-") > 0);
    sealer.rotate(&["k2", "k1"]);
    assert!(store.snapshot_at(first).unwrap().get(&secret("a")).is_some());
}

#[test]
fn puts_of_sealed_resources_are_rejected_without_a_valid_key() {
    let (dir, sealer) = (tempfile::tempdir().unwrap(), SimSealer::new(Some(secrets()), &["k1"]));
    let store = open(dir.path(), Some(&sealer)).unwrap();
    put(&store, secret("a"));
    sealer.set_writable(false);
    let draft = || Draft::new("x");
    let chain = Proposal::new(CommitCause::default(), Time(1)).put(pod("b"), Precondition::Any, draft());
    for proposal in [
        proposal().put(secret("b"), Precondition::Any, draft()),
        chain.after(proposal().put(secret("b"), Precondition::Any, draft())),
    ] {
        let rejected = store.commit(proposal).unwrap_err();
        assert!(matches!(rejected, CommitError::Rejected(RejectReason::NoValidKey { .. })), "{rejected}");
        assert_eq!(rejected.to_string(), "secrets cannot be encrypted: the keys are locked");
    }
    put_pod(&store, "c");
    store.commit(proposal().delete(secret("a"), Precondition::Present)).unwrap();
    assert_eq!(store.snapshot().len(), 1);
}

#[test]
fn sealed_bytes_are_bound_to_their_object_and_revision() {
    let sealer = SimSealer::new(None, &["k1"]);
    let store = Store::in_memory(Retention::default());
    let revision = put(&store, secret("a"));
    let snapshot = store.snapshot();
    let record = snapshot.get(&secret("a")).unwrap();
    let sealed = seal_record(&secrets(), record, &*sealer).unwrap().unwrap();
    let opened = open_write(&secret("a"), revision, &sealed, &*sealer).unwrap();
    assert_eq!(opened.body, Some(record.body()));
    assert_eq!(opened.envelope.bytes(), record.envelope().bytes());
    let moved = [
        open_write(&secret("b"), revision, &sealed, &*sealer),
        open_write(&pod("a"), revision, &sealed, &*sealer),
        open_write(&secret("a"), Revision(9), &sealed, &*sealer),
    ];
    for moved in moved {
        let error = moved.unwrap_err().to_string();
        assert!(error.ends_with(&OpenError::Damaged.to_string()), "{error}");
    }
}
