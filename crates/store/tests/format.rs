//! Compatibility with the files of earlier formats.
//!
//! `fixtures/format-N` is the data directory that [`write`] created in format N: a checkpoint, history
//! before it and a segment after it. Fixtures are never changed. A change of the format increments
//! [`FORMAT`]; a new fixture is created by running these tests with `SETPOINT_WRITE_FIXTURES=1`, and the old
//! one must still open.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use setpoint_api::{Key, Resource, Revision, Time};
use setpoint_sim::sim_sealer::SimSealer;
use setpoint_store::disk::OsDisk;
use setpoint_store::log::disk::format::FORMAT;
use setpoint_store::log::disk::{DiskOptions, DiskReader};
use setpoint_store::log::{DiskLog, LogError};
use setpoint_store::{
    CommitCause, Draft, Precondition, Proposal, ReadError, Record, Retention, Sealer, Snapshot, Store,
};

/// Empty checkpoint with which a log starts since format 2.
const EMPTY_CHECKPOINT: &str = "checkpoint-00000000000000000000.log";
const CHECKPOINT: &str = "checkpoint-00000000000000000005.log";
const HISTORY: &str = "history-00000000000000000001-00000000000000000005.log";
const SEGMENT: &str = "segment-00000000000000000006.log";

fn fixture(format: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(format!("format-{format}"))
}

fn key(resource: &str, path: &str) -> Key {
    Key::from_path(&Resource::new(resource).expect("a plain word"), path).expect("a plain path")
}

fn open(dir: &Path) -> Result<Store, LogError> {
    open_with(dir, None)
}

fn open_with(dir: &Path, sealer: Option<Arc<dyn Sealer>>) -> Result<Store, LogError> {
    let exempt = [Resource::new("leases.coordination.k8s.io").expect("a plain word")].into();
    let retention = Retention { exempt, cold_age: std::time::Duration::MAX, ..Retention::default() };
    let options = DiskOptions {
        segment_bytes_min: 1024,
        segment_bytes_max: 1024,
        retention: retention.clone(),
        entropy: 0x0123_4567_89ab_cdef,
        sealer,
        ..DiskOptions::default()
    };
    let disk = Arc::new(OsDisk::exclusive(dir)?);
    Store::open(Box::new(DiskLog::new(disk, options)), retention, |_| ())
}

fn cause(seen: u64) -> CommitCause {
    CommitCause {
        user: "ann".to_owned(),
        manager: "kubectl".to_owned(),
        reconciler: "deployment".to_owned(),
        seen: Revision(seen),
        paths: vec!["spec.replicas".to_owned(), "metadata.labels".to_owned()],
    }
}

fn lease() -> Key {
    key("leases.coordination.k8s.io", "kube-system/lease")
}

/// Writes the commits of the fixture.
fn write(dir: &Path) {
    let store = open(dir).expect("an empty directory");
    let at = |revision: u64| Proposal::new(cause(revision), Time(1_000_000 * revision as i64));
    let web = |value: &str| {
        let draft = Draft::with_revision_at(value.to_owned(), 7).labels([("app", "web"), ("tier", "front")]);
        draft.fields([("spec.nodeName", "n1")]).expires(Time(5_000_000_000))
    };
    let commit = |proposal| drop(store.commit(proposal).expect("nothing speaks against it"));
    commit(at(1).put(key("pods", "shop/web"), Precondition::Absent, web(r#"{"rv":"","n":1}"#)));
    let node = Draft::new(vec![0, 1, 2, 253, 254, 255]);
    commit(at(2).put(key("nodes", "n1"), Precondition::Absent, node).put(
        key("pods", "shop/db"),
        Precondition::Absent,
        Draft::new("db"),
    ));
    commit(at(3).put(
        key("pods", "shop/web"),
        Precondition::Revision(Revision(1)),
        web(r#"{"rv":"","n":3}"#),
    ));
    commit(at(4).delete(key("pods", "shop/db"), Precondition::Present));
    commit(at(5).put(lease(), Precondition::Any, Draft::new("held")));
    store.compact(Time(6_000_000)).expect("there is room");
    commit(at(6).put(key("pods", "shop/größe"), Precondition::Absent, Draft::new("")));
    commit(at(7).delete(key("nodes", "n1"), Precondition::Revision(Revision(2))));
    commit(at(8).put(lease(), Precondition::Present, Draft::new("held again")));
    store.record_durable_end();
}

/// Returns all files except the lock.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("a file"));
    let named = entries.map(|entry| (entry.file_name().into_string().expect("a plain name"), entry.path()));
    let ours = named.filter(|(name, _)| name.ends_with(".log"));
    ours.map(|(name, path)| (name, std::fs::read(path).expect("a file"))).collect()
}

/// Copies a format's fixture; `change` may modify each file.
fn copy(format: u32, change: impl Fn(&str, &mut Vec<u8>)) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for (name, mut bytes) in files(&fixture(format)) {
        change(&name, &mut bytes);
        std::fs::write(dir.path().join(name), bytes).expect("a temporary file");
    }
    dir
}

#[test]
fn written_files_equal_the_fixture() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path());
    let written = files(dir.path());
    if std::env::var("SETPOINT_WRITE_FIXTURES").is_ok() {
        std::fs::create_dir_all(fixture(FORMAT)).unwrap();
        written.iter().for_each(|(name, bytes)| std::fs::write(fixture(FORMAT).join(name), bytes).unwrap());
    }
    assert_eq!(written.keys().collect::<Vec<_>>(), [EMPTY_CHECKPOINT, CHECKPOINT, HISTORY, SEGMENT]);
    assert!(
        written == files(&fixture(FORMAT)),
        "the format has changed: raise FORMAT and make a new fixture"
    );
}

/// Directory with sealed writes, since format 4.
fn sealed_fixture(format: u32) -> PathBuf {
    fixture(format).with_file_name(format!("format-{format}-sealed"))
}

fn secrets_sealer() -> Arc<dyn Sealer> {
    SimSealer::new(Some(Resource::new("secrets").expect("a plain word")), &["key-1"])
}

/// Writes the commits of the fixture with sealed writes.
fn write_sealed(dir: &Path) {
    let store = open_with(dir, Some(secrets_sealer())).expect("an empty directory");
    let at = |revision: u64| Proposal::new(cause(revision), Time(1_000_000 * revision as i64));
    let commit = |proposal| drop(store.commit(proposal).expect("nothing speaks against it"));
    let secret = Draft::with_revision_at(r#"{"rv":""}"#.to_owned(), 7).labels([("app", "web")]);
    commit(at(1).put(key("secrets", "shop/a"), Precondition::Absent, secret.expires(Time(5_000_000_000))));
    commit(at(2).put(key("secrets", "shop/b"), Precondition::Absent, Draft::new("b")).put(
        key("pods", "shop/web"),
        Precondition::Absent,
        Draft::new("web"),
    ));
    commit(at(3).delete(key("secrets", "shop/b"), Precondition::Present));
    store.compact(Time(6_000_000)).expect("there is room");
    commit(at(4).put(key("secrets", "shop/c"), Precondition::Absent, Draft::new("c")));
    store.record_durable_end();
}

#[test]
fn written_files_with_sealed_writes_equal_the_fixture() {
    let dir = tempfile::tempdir().unwrap();
    write_sealed(dir.path());
    let written = files(dir.path());
    if std::env::var("SETPOINT_WRITE_FIXTURES").is_ok() {
        let fixture = sealed_fixture(FORMAT);
        std::fs::create_dir_all(&fixture).unwrap();
        written.iter().for_each(|(name, bytes)| std::fs::write(fixture.join(name), bytes).unwrap());
    }
    assert!(written == files(&sealed_fixture(FORMAT)), "the format has changed: raise FORMAT");
}

#[test]
fn sealed_writes_of_older_formats_are_readable() {
    for format in 4..=FORMAT {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in files(&sealed_fixture(format)) {
            std::fs::write(dir.path().join(name), bytes).unwrap();
        }
        let store = open_with(dir.path(), Some(secrets_sealer())).unwrap();
        let snapshot = store.snapshot();
        assert_eq!((snapshot.revision(), snapshot.len()), (Revision(4), 3));
        let first = snapshot.get(&key("secrets", "shop/a")).unwrap();
        assert_eq!((&first.value()[..], first.cause()), (&br#"{"rv":"1"}"#[..], cause(1)));
        assert_eq!(
            (first.expires(), first.attributes().label("app")),
            (Some(Time(5_000_000_000)), Some("web"))
        );
        assert_eq!(snapshot.get(&key("secrets", "shop/c")).unwrap().value(), "c");
        let past = store.snapshot_at(Revision(2)).unwrap();
        assert_eq!(past.get(&key("secrets", "shop/b")).unwrap().value(), "b");
    }
}

#[test]
fn objects_of_older_formats_are_readable() {
    (1..=FORMAT).for_each(check_objects);
}

fn check_objects(format: u32) {
    let dir = copy(format, |_, _| ());
    let store = open(dir.path()).unwrap();
    let snapshot = store.snapshot();
    assert_eq!((snapshot.revision(), snapshot.len()), (Revision(8), 3));
    let web = snapshot.get(&key("pods", "shop/web")).unwrap();
    assert_eq!(&web.value()[..], br#"{"rv":"3","n":3}"#);
    assert_eq!((web.revision(), web.time()), (Revision(3), Time(3_000_000)));
    assert_eq!((web.expires(), store.next_expiry()), (Some(Time(5_000_000_000)), Some(Time(5_000_000_000))));
    assert_eq!(web.attributes().labels().collect::<Vec<_>>(), [("app", "web"), ("tier", "front")]);
    assert_eq!(web.attributes().fields().collect::<Vec<_>>(), [("spec.nodeName", "n1")]);
    assert_eq!(web.cause(), cause(3));
    let odd = snapshot.get(&key("pods", "shop/größe")).unwrap();
    assert_eq!((&odd.value()[..], odd.revision(), odd.cause()), (&b""[..], Revision(6), cause(6)));
    assert_eq!(snapshot.get(&lease()).unwrap().value(), "held again");
    let next =
        Proposal::new(cause(8), Time(9)).put(key("pods", "shop/next"), Precondition::Absent, Draft::new("n"));
    assert_eq!(store.commit(next).unwrap().revision, Revision(9), "and it goes on from there");
}

#[test]
fn history_of_older_formats_is_readable() {
    (1..=FORMAT).for_each(check_history);
}

fn check_history(format: u32) {
    let dir = copy(format, |_, _| ());
    let store = open(dir.path()).unwrap();
    let paths = |snapshot: &Snapshot| -> Vec<String> {
        let records = snapshot.tables().flat_map(|(_, table)| table.iter());
        records.map(|record: &Record| format!("{}@{}", record.path(), record.revision())).collect()
    };
    let held = "kube-system/lease@5";
    let expected: [&[&str]; 9] = [
        &[],
        &["shop/web@1"],
        &["n1@2", "shop/db@2", "shop/web@1"],
        &["n1@2", "shop/db@2", "shop/web@3"],
        &["n1@2", "shop/web@3"],
        &[held, "n1@2", "shop/web@3"],
        &[held, "n1@2", "shop/größe@6", "shop/web@3"],
        &[held, "shop/größe@6", "shop/web@3"],
        &["kube-system/lease@8", "shop/größe@6", "shop/web@3"],
    ];
    for (revision, expected) in (0..).zip(expected) {
        let snapshot = store.snapshot_at(Revision(revision)).unwrap();
        assert_eq!(
            (snapshot.revision(), paths(&snapshot)),
            (Revision(revision), expected.iter().map(|path| (*path).to_owned()).collect())
        );
    }
    let node = store.get_at(&key("nodes", "n1"), Revision(4)).unwrap().unwrap();
    assert_eq!(node.value()[..], [0, 1, 2, 253, 254, 255]);
    drop(store);
    let disk = Arc::new(OsDisk::read_only(dir.path()).unwrap());
    assert_eq!(DiskReader::new(disk).check().unwrap(), Revision(8), "a check finds nothing wrong");
}

#[test]
fn newer_format_is_rejected_and_not_modified() {
    for newer in [CHECKPOINT, SEGMENT] {
        let dir = copy(FORMAT, |name, bytes| {
            if name == newer {
                bytes[8] = 5
            }
        });
        let before = files(dir.path());
        let error = open(dir.path()).err().expect("it cannot be read");
        let expected =
            format!("{newer} has format 5, this program reads formats up to 4: use a newer setpoint");
        assert_eq!(error.to_string(), expected);
        assert!(files(dir.path()) == before, "nothing was changed");
    }
    // History is read on demand.
    let dir = copy(FORMAT, |name, bytes| {
        if name == HISTORY {
            bytes[8] = 5
        }
    });
    let store = open(dir.path()).unwrap();
    assert!(matches!(
        store.snapshot_at(Revision(2)),
        Err(ReadError::Log(LogError::Format { found: 5, known: 4, .. }))
    ));
    assert!(store.snapshot_at(Revision(7)).is_ok());
}

#[test]
fn foreign_file_is_rejected_and_not_modified() {
    for foreign in [CHECKPOINT, SEGMENT] {
        for content in [&b"-----BEGIN CERTIFICATE-----"[..], &[0x7f; 5000], b""] {
            let dir = copy(FORMAT, |name, bytes| {
                if name == foreign {
                    *bytes = content.to_vec()
                }
            });
            let before = files(dir.path());
            let error = open(dir.path()).err().expect("it cannot be read");
            let expected = format!("{foreign} is corrupt at byte 0: this is not a file of a setpoint store");
            assert_eq!(error.to_string(), expected);
            assert!(files(dir.path()) == before, "nothing was changed");
        }
    }
    let dir = copy(FORMAT, |_, _| ());
    std::fs::write(dir.path().join("ca.pem"), "-----BEGIN CERTIFICATE-----").unwrap();
    assert_eq!(open(dir.path()).unwrap().snapshot().revision(), Revision(8));
    assert!(dir.path().join("ca.pem").exists(), "an unknown file is kept");
}

#[test]
fn file_of_another_log_is_rejected() {
    let other = tempfile::tempdir().unwrap();
    let disk = Arc::new(OsDisk::exclusive(other.path()).unwrap());
    let options = DiskOptions { segment_bytes_min: 1024, entropy: 99, ..DiskOptions::default() };
    let store = Store::open(Box::new(DiskLog::new(disk, options)), Retention::default(), |_| ()).unwrap();
    for n in 0..5 {
        let proposal = Proposal::new(cause(n), Time(1)).put(lease(), Precondition::Any, Draft::new("x"));
        store.commit(proposal).unwrap();
    }
    store.compact(Time(1)).unwrap();
    let stray = std::fs::read(other.path().join(SEGMENT)).unwrap();
    let dir = copy(FORMAT, |name, bytes| {
        if name == SEGMENT {
            bytes.clone_from(&stray)
        }
    });
    let error = open(dir.path()).err().unwrap().to_string();
    assert_eq!(error, format!("{SEGMENT} is corrupt at byte 0: it belongs to another log"));
}
