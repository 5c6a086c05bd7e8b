//! Detection of log files that are deleted or truncated while no process writes them.
//!
//! Every acknowledged commit is in some file. A store that starts without such a file would serve an older
//! state as the current one. Each loss must be reported with the name of the file.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;

use fastrand::Rng;
use setpoint_api::{Key, Revision, Time};
use setpoint_sim::disk::{Faults, SimDisk};
use setpoint_sim::store_world::{self, resource};
use setpoint_store::disk::{Disk, OsDisk};
use setpoint_store::log::LogError;
use setpoint_store::log::disk::files::Files;
use setpoint_store::log::disk::{DiskLog, DiskOptions, DiskReader};
use setpoint_store::{CommitCause, Draft, Precondition, Proposal, Retention, Store};

fn put(store: &Store, number: usize, bytes: usize) -> Revision {
    let key = Key::from_path(&resource(0), &format!("n/{number}")).unwrap();
    let draft = Draft::new(vec![b'v'; bytes]);
    let proposal = Proposal::new(CommitCause::default(), Time(1)).put(key, Precondition::Any, draft);
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

/// Returns the error of opening the store, which the check must return as well.
fn damage(disk: &SimDisk, what: &str) -> (String, u64, String) {
    let found = |error: LogError| match error {
        LogError::Corrupt { file, position, detail } => (file, position, detail),
        other => panic!("{what}: {other}"),
    };
    let checked = found(DiskReader::new(shared(disk)).check().expect_err(what));
    let opened = found(store_world::open(disk).err().unwrap_or_else(|| panic!("{what}: it opened")));
    assert_eq!(opened, checked, "{what}");
    opened
}

/// Stores at different stages of their life, by name.
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
        assert!(DiskLog::start_from(&shared(disk), 7, &source.snapshot(), None).unwrap());
        put(&open(disk), 1, 10);
    });
    stores
}

#[test]
fn deleted_last_segment_is_reported() {
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
fn truncated_last_segment_is_reported() {
    for (name, disk) in stores() {
        let segment = last_segment(&disk);
        let length = disk.content(&segment).unwrap().len();
        for cut in [length - 1, length / 2, 512, 100, 65, 64, 63, 1, 0] {
            assert!(disk.truncate(&segment, cut));
            let (file, _, what) = damage(&disk, &format!("{name}, cut to {cut}"));
            assert_eq!(file, segment, "{name}, cut to {cut}");
            let expected =
                if cut < 64 { "this is not a file of a setpoint store" } else { "the file is truncated" };
            assert!(what.starts_with(expected), "{name}, cut to {cut}: {what}");
        }
    }
}

#[test]
fn truncated_or_deleted_older_segment_is_reported() {
    let disk = SimDisk::default();
    let store = store_world::open(&disk).unwrap();
    fill(&store, 40, 700);
    drop(store);
    let first = Files::list(&shared(&disk)).unwrap().segments[0].name();
    assert!(disk.truncate(&first, 64));
    damage(&disk, "cut to its header");
    disk.remove(&first).unwrap();
    damage(&disk, "deleted");
}

/// Zeroes a file from an offset on.
fn zero(disk: &SimDisk, name: &str, from: usize) {
    let mut content = disk.content(name).unwrap();
    content[from..].fill(0);
    assert!(disk.replace(name, content));
}

#[test]
fn zeroed_frames_at_the_end_are_reported() {
    for (name, disk) in stores() {
        // Opening a store records the length of its last segment.
        drop(store_world::open(&disk).unwrap());
        let segment = last_segment(&disk);
        let whole = disk.content(&segment).unwrap();
        let used = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        // The last bytes of a frame are padding, up to eight.
        let mut from = 64;
        while from + 8 < used {
            zero(&disk, &segment, from);
            let (file, position, _) = damage(&disk, &format!("{name}, zeroed from {from}"));
            assert!(file == segment && position <= from as u64, "{name}, zeroed from {from}: {position}");
            assert!(disk.replace(&segment, whole.clone()));
            from += 8;
        }
        store_world::open(&disk).unwrap();
    }
}

#[test]
fn orderly_exit_records_the_synced_length() {
    for (stops, commits) in [(true, 1), (true, 5), (false, 70)] {
        let disk = SimDisk::default();
        let options = || DiskOptions { entropy: 7, ..DiskOptions::default() };
        let open =
            || Store::open(Box::new(DiskLog::new(shared(&disk), options())), Retention::default(), |_| ());
        let store = open().unwrap();
        fill(&store, commits, 700);
        if stops {
            store.record_durable_end();
        }
        drop(store);
        zero(&disk, &last_segment(&disk), 64);
        let error = open().err().unwrap().to_string();
        assert!(error.contains("corrupt at byte 64: the last frames are missing: "), "{commits}: {error}");
    }
}

/// The synced length is written before a frame that is not synced: it is correct in every state that a power
/// cut leaves.
#[test]
fn power_cut_while_recording_the_synced_length_is_not_reported_as_damage() {
    for seed in 0..150 {
        let mut rng = Rng::with_seed(seed);
        let disk = SimDisk::default();
        let open = |what: &str| {
            let options = DiskOptions { entropy: 7, ..DiskOptions::default() };
            let log = Box::new(DiskLog::new(shared(&disk), options));
            Store::open(log, Retention::default(), |_| ()).unwrap_or_else(|error| panic!("{what}: {error}"))
        };
        let mut acknowledged = Revision::ZERO;
        for round in 0..3 {
            let store = open(&format!("seed {seed}, round {round}"));
            assert!(store.snapshot().revision() >= acknowledged, "seed {seed}, round {round}");
            disk.set_faults(Faults {
                power_cut_at: Some(disk.operations() + rng.u64(10..500)),
                ..Faults::default()
            });
            for number in 0..400 {
                let key = Key::from_path(&resource(0), &format!("n/{}", number % 7)).unwrap();
                let draft = Draft::new(vec![b'v'; rng.usize(1..900)]);
                let proposal =
                    Proposal::new(CommitCause::default(), Time(1)).put(key, Precondition::Any, draft);
                let Ok(done) = store.commit(proposal) else { break };
                acknowledged = done.revision;
            }
            drop(store);
            disk.power_cycle(&mut rng);
        }
    }
}

#[test]
fn recording_the_synced_length_costs_no_sync() {
    let disk = SimDisk::default();
    let options = DiskOptions { entropy: 7, ..DiskOptions::default() };
    let store =
        Store::open(Box::new(DiskLog::new(shared(&disk), options)), Retention::default(), |_| ()).unwrap();
    fill(&store, 1, 10);
    let before = disk.syncs();
    fill(&store, 300, 10);
    assert_eq!(disk.syncs() - before, 300);
}

#[test]
fn oversized_segment_is_reported_before_it_is_read() {
    for (name, disk) in stores() {
        let segment = last_segment(&disk);
        let mut content = disk.content(&segment).unwrap();
        let made = content.len();
        content.resize(made + 1, 0);
        assert!(disk.replace(&segment, content));
        let (file, position, what) = damage(&disk, name);
        assert_eq!((file, position), (segment, made as u64), "{name}");
        assert!(what.starts_with("the file has "), "{name}: {what}");
    }
    // Longer than the memory of any machine.
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        let disk = Arc::new(OsDisk::exclusive(dir.path())?);
        Store::open(Box::new(DiskLog::new(disk, DiskOptions::default())), Retention::default(), |_| ())
    };
    fill(&open().unwrap(), 3, 10);
    let segment = dir.path().join("segment-00000000000000000001.log");
    std::fs::OpenOptions::new().write(true).open(segment).unwrap().set_len(10 << 40).unwrap();
    let error = open().err().unwrap().to_string();
    assert!(error.contains("the file has 10995116277760 bytes"), "{error}");
}

#[test]
fn directory_without_segments_and_checkpoints_is_rejected() {
    for (name, disk) in stores() {
        store_world::open(&disk).unwrap().run_maintenance(Time(1)).unwrap();
        let all = disk.list().unwrap();
        assert!(all.iter().any(|name| name == "spare.log" || name == "reserve.log"), "{name}: {all:?}");
        for file in all.iter().filter(|name| name.starts_with("segment-") || name.starts_with("checkpoint-"))
        {
            disk.remove(file).unwrap();
        }
        disk.sync_names().unwrap();
        let opened = store_world::open(&disk).err().unwrap_or_else(|| panic!("{name}: it opened"));
        let checked = DiskReader::new(shared(&disk)).check().unwrap_err();
        for error in [opened, checked] {
            assert!(matches!(error, LogError::Lost { .. }), "{name}: {error}");
        }
    }
}

#[test]
fn interrupted_first_start_can_be_repeated() {
    for seed in 0..200 {
        let mut rng = Rng::with_seed(seed);
        let disk = SimDisk::default();
        let faults = || Faults { power_cut_at: Some(seed % 60), ..Faults::default() };
        disk.set_faults(faults());
        if let Ok(store) = store_world::open(&disk) {
            // Preallocation happens before and during the first commit.
            let _ = store.run_maintenance(Time(1));
            let key = Key::from_path(&resource(0), "n/1").unwrap();
            let proposal =
                Proposal::new(CommitCause::default(), Time(1)).put(key, Precondition::Any, Draft::new("x"));
            let _ = store.commit(proposal);
            let _ = store.run_maintenance(Time(1));
        }
        // A killed process loses nothing that it has written, a power cut loses some unsynced writes.
        if seed.is_multiple_of(2) {
            disk.power_cycle(&mut rng);
        } else {
            disk.power_on();
        }
        store_world::open(&disk).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// The records of successors are not synced before a commit: no state that a power cut leaves is reported as
/// damage.
#[test]
fn power_cut_after_a_rotation_is_not_reported_as_damage() {
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
fn lost_segment_is_reported_in_a_log_that_began_in_format_1() {
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
