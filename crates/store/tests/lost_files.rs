//! Files of the log that are deleted or cut while no process writes them.
//!
//! Every acknowledged commit is in some file; a store that starts without such a file would serve an older state as if
//! it were the newest. Each loss has to be reported with the name of the file.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;

use fastrand::Rng;
use setpoint_api::{Key, Revision, Time};
use setpoint_sim::disk::SimDisk;
use setpoint_sim::store_world::{self, resource};
use setpoint_store::disk::{Disk, OsDisk};
use setpoint_store::log::LogError;
use setpoint_store::log::disk::files::Files;
use setpoint_store::log::disk::{DiskLog, DiskOptions, DiskReader};
use setpoint_store::{Cause, Draft, Expect, Proposal, Retention, Store};

fn put(store: &Store, number: usize, bytes: usize) -> Revision {
    let key = Key::from_path(&resource(0), &format!("n/{number}")).unwrap();
    let draft = Draft::new(vec![b'v'; bytes]);
    let proposal = Proposal::new(Cause::default(), Time(1)).put(key, Expect::Any, draft);
    store.commit(proposal).unwrap().revision
}

fn fill(store: &Store, commits: usize, bytes: usize) {
    for number in 0..commits {
        put(store, number % 7, bytes);
    }
}

fn shared(disk: &SimDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

fn last_segment(disk: &SimDisk) -> String {
    Files::list(&shared(disk)).unwrap().segments.last().unwrap().name()
}

/// The error that opening gives, which the check must give as well.
fn damage(disk: &SimDisk, what: &str) -> (String, u64, String) {
    let found = |error: LogError| match error {
        LogError::Corrupt { file, position, what } => (file, position, what),
        other => panic!("{what}: {other}"),
    };
    let checked = found(DiskReader::new(shared(disk)).check().expect_err(what));
    let opened = found(store_world::open(disk).err().unwrap_or_else(|| panic!("{what}: it opened")));
    assert_eq!(opened, checked, "{what}");
    opened
}

/// Stores of every age, by name.
fn stores() -> Vec<(&'static str, SimDisk)> {
    let mut stores = Vec::new();
    let mut add = |name, work: &dyn Fn(&SimDisk)| {
        let disk = SimDisk::default();
        work(&disk);
        stores.push((name, disk));
    };
    let open = |disk: &SimDisk| store_world::open(disk).unwrap();
    add("one commit", &|disk| fill(&open(disk), 1, 10));
    add("several segments", &|disk| {
        let store = open(disk);
        fill(&store, 60, 300);
    });
    add("a checkpoint", &|disk| {
        let store = open(disk);
        fill(&store, 9, 300);
        store.compact(Time(1)).unwrap();
        put(&store, 1, 10);
    });
    add("a checkpoint and no commit since", &|disk| {
        let store = open(disk);
        fill(&store, 9, 300);
        store.compact(Time(1)).unwrap();
    });
    add("opened again", &|disk| {
        (0..30).for_each(|_| fill(&open(disk), 1, 300));
    });
    add("an import", &|disk| {
        let source = Store::in_memory(Retention::default());
        fill(&source, 40, 10);
        assert!(DiskLog::start_from(&shared(disk), 7, &source.snapshot()).unwrap());
        put(&open(disk), 1, 10);
    });
    stores
}

#[test]
fn a_deleted_last_segment_is_reported() {
    for (name, disk) in stores() {
        let segment = last_segment(&disk);
        disk.remove(&segment).unwrap();
        disk.sync_names().unwrap();
        let (file, _, what) = damage(&disk, name);
        assert_eq!(file, segment, "{name}");
        assert!(what.starts_with("the file is missing, and "), "{name}: {what}");
    }
}

#[test]
fn several_deleted_last_segments_are_reported() {
    let disk = SimDisk::default();
    let store = store_world::open(&disk).unwrap();
    fill(&store, 40, 700);
    drop(store);
    let segments = Files::list(&shared(&disk)).unwrap().segments;
    assert!(segments.len() > 2, "{segments:?}");
    for (gone, segment) in segments.iter().rev().enumerate() {
        disk.remove(&segment.name()).unwrap();
        disk.sync_names().unwrap();
        assert_eq!(damage(&disk, &format!("{} are gone", gone + 1)).0, segment.name());
    }
}

#[test]
fn a_last_segment_that_was_cut_anywhere_is_reported() {
    for (name, disk) in stores() {
        let segment = last_segment(&disk);
        let length = disk.content(&segment).unwrap().len();
        for cut in [length - 1, length / 2, 512, 100, 65, 64, 63, 1, 0] {
            assert!(disk.cut(&segment, cut));
            let (file, _, what) = damage(&disk, &format!("{name}, cut to {cut}"));
            assert_eq!(file, segment, "{name}, cut to {cut}");
            let expected =
                if cut < 64 { "this is not a file of a setpoint store" } else { "the file has been cut" };
            assert!(what.starts_with(expected), "{name}, cut to {cut}: {what}");
        }
    }
}

#[test]
fn an_older_segment_that_was_cut_or_deleted_is_reported() {
    let disk = SimDisk::default();
    let store = store_world::open(&disk).unwrap();
    fill(&store, 40, 700);
    drop(store);
    let first = Files::list(&shared(&disk)).unwrap().segments[0].name();
    assert!(disk.cut(&first, 64));
    damage(&disk, "cut to its header");
    disk.remove(&first).unwrap();
    damage(&disk, "deleted");
}

/// The notes are not synced where a commit waits: whatever a power cut leaves of them raises no false alarm.
#[test]
fn a_power_cut_right_after_a_rotation_is_no_damage() {
    for seed in 0..300 {
        let mut rng = Rng::with_seed(seed);
        let disk = SimDisk::default();
        let store = store_world::open(&disk).unwrap();
        let commits = rng.usize(1..40);
        let newest = (0..commits).map(|number| put(&store, number % 7, rng.usize(200..900))).last().unwrap();
        drop(store);
        disk.power_cycle(&mut rng);
        let store = store_world::open(&disk).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(store.snapshot().revision(), newest, "seed {seed}");
    }
}

#[test]
fn the_loss_of_a_segment_is_found_in_a_log_that_began_in_format_1() {
    for commits in [0, 1, 20] {
        let dir = tempfile::tempdir().unwrap();
        let fixture = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-1");
        for entry in std::fs::read_dir(fixture).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
        }
        let open = || {
            let options =
                DiskOptions { segment_bytes_min: 1024, segment_bytes_max: 1024, ..DiskOptions::default() };
            let disk = Arc::new(OsDisk::exclusive(dir.path())?);
            Store::open(Box::new(DiskLog::new(disk, options)), Retention::default(), |_| ())
        };
        fill(&open().unwrap(), commits, 700);
        let disk: Arc<dyn Disk> = Arc::new(OsDisk::read_only(dir.path()).unwrap());
        let last = Files::list(&disk).unwrap().segments.last().unwrap().name();
        std::fs::remove_file(dir.path().join(&last)).unwrap();
        let error = open().err().unwrap_or_else(|| panic!("{commits} commits")).to_string();
        let expected = format!("{last} is corrupt at byte 0: the file is missing, and ");
        assert!(error.starts_with(&expected), "{commits} commits: {error}");
    }
}
