//! Disk faults: power cuts, full disks, failed syncs, flipped bits.
//!
//! `SETPOINT_SEEDS` sets the number of simulated worlds; a failure contains its seed.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use setpoint_api::{Revision, Time};
use setpoint_sim::disk::{Faults, SimDisk};
use setpoint_sim::model::{Change, state_of};
use setpoint_sim::store_world::{self, StoreWorld, key, options, retention};
use setpoint_store::disk::Disk;
use setpoint_store::log::LogError;
use setpoint_store::log::disk::{DiskLog, DiskReader};
use setpoint_store::{CommitCause, CommitError, Draft, Precondition, Proposal, RejectReason, Store};

fn seeds() -> u64 {
    std::env::var("SETPOINT_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1000)
}

fn random_change(rng: &mut Rng, resource: usize) -> Change {
    let value = (rng.u8(..10) > 1).then(|| (0..rng.usize(..600)).map(|_| rng.u8(1..)).collect());
    let precondition = if value.is_none() { Precondition::Present } else { Precondition::Any };
    (key(resource, rng.usize(..5)), precondition, value)
}

fn random_batch(rng: &mut Rng) -> Vec<Vec<Change>> {
    (0..rng.usize(1..6))
        .map(|_| (0..rng.usize(1..=3)).map(|number| random_change(rng, number)).collect())
        .collect()
}

/// Rare events that occurred.
type Marks = BTreeSet<&'static str>;

fn cut_power(world: &mut StoreWorld, rng: &mut Rng, marks: &mut Marks) {
    world.arm_power_cut(rng.u64(..60));
    let mut durable = world.model.revision();
    loop {
        world.pass(Duration::from_secs(rng.u64(..20)));
        let going = match rng.u8(..10) {
            0 => world.compact(),
            1 | 2 => world.run_maintenance(),
            _ => {
                let before = world.model.revision();
                let (acknowledged, failed) = world.commit_batch(&random_batch(rng));
                assert!(acknowledged == 0 || !failed, "a batch is acknowledged as one");
                if failed {
                    marks.insert("cut in a batch");
                    assert_eq!(durable, before);
                } else {
                    durable = world.model.revision();
                }
                !failed
            }
        };
        if !going {
            break;
        }
    }
    let newest = world.model.revision();
    world.recover(durable, rng);
    let kept = world.model.revision();
    marks.insert(if newest == durable {
        "nothing in flight"
    } else if kept == newest {
        "in flight and kept"
    } else {
        "in flight and lost"
    });
    for number in 0..=kept.0 {
        world.check_at(Revision(number));
    }
}

#[test]
fn power_cut_loses_no_acknowledged_commit() {
    let mut marks = Marks::new();
    for seed in 0..seeds() {
        let mut rng = Rng::with_seed(seed);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut world = StoreWorld::new();
            for _ in 0..rng.usize(1..5) {
                cut_power(&mut world, &mut rng, &mut marks);
            }
            world.restart();
        }));
        assert!(outcome.is_ok(), "seed {seed} failed");
    }
    let wanted = ["cut in a batch", "nothing in flight", "in flight and kept", "in flight and lost"];
    assert_eq!(marks, wanted.into(), "every kind of cut was tried");
}

#[test]
fn flipped_bit_is_detected_or_harmless() {
    let (mut found, mut harmless) = (0, 0);
    for seed in 0..seeds() {
        let mut rng = Rng::with_seed(seed);
        let mut world = StoreWorld::new();
        world.commit(&[(key(0, 0), Precondition::Absent, Some(vec![1]))]);
        for _ in 0..rng.usize(1..40) {
            world.commit(&[random_change(&mut rng, 0)]);
            if rng.u8(..8) == 0 {
                assert!(world.run_maintenance());
            }
        }
        let names = world.disk.list().unwrap();
        let name = &names[rng.usize(..names.len())];
        let length = world.disk.content(name).unwrap().len();
        assert!(world.disk.flip_bit(name, rng.usize(..length), rng.u8(..8)));
        match store_world::open(&world.disk) {
            Ok(store) => {
                assert_eq!(state_of(&store.snapshot()), *world.model.newest(), "seed {seed}: {name}");
                harmless += 1;
            }
            Err(LogError::Corrupt { file, .. }) => {
                assert_eq!(file, *name, "seed {seed}");
                found += 1;
            }
            Err(LogError::Format { .. }) => found += 1,
            Err(other) => panic!("seed {seed}: {name}: {other}"),
        }
    }
    assert!(found > 0 && harmless > 0, "both were tried: {found} {harmless}");
}

#[test]
fn corruption_in_the_middle_is_reported_with_its_position() {
    let mut world = StoreWorld::new();
    for _ in 0..3 {
        world.commit(&[(key(0, 0), Precondition::Any, Some(vec![1; 100]))]);
    }
    let name = world.disk.list().unwrap().into_iter().find(|name| name.starts_with("segment")).unwrap();
    world.disk.flip_bit(&name, 120, 3);
    let error = store_world::open(&world.disk).err().unwrap();
    assert_eq!(
        error.to_string(),
        "segment-00000000000000000001.log is corrupt at byte 64: \
         a complete frame follows at byte 248, so this one had been synced"
    );
    let disk: Arc<dyn Disk> = Arc::new(world.disk.clone());
    assert!(matches!(DiskReader::new(disk).check(), Err(LogError::Corrupt { position: 64, .. })));
}

fn put(store: &Store, number: usize, bytes: usize) -> Result<Revision, CommitError> {
    let path = format!("n/{number}");
    let key = setpoint_api::Key::from_path(&store_world::resource(0), &path).unwrap();
    let draft = Draft::new(vec![b'v'; bytes]);
    Ok(store
        .commit(Proposal::new(CommitCause::default(), Time(1)).put(key, Precondition::Any, draft))?
        .revision)
}

#[test]
fn full_disk_rejects_puts_and_accepts_deletes() {
    let disk = SimDisk::default();
    let store = store_world::open(&disk).unwrap();
    put(&store, 0, 10).unwrap();
    store.run_maintenance(Time(1)).unwrap();
    disk.set_faults(Faults { capacity_bytes: Some(disk.bytes() + 4096), ..Faults::default() });
    let mut stored = 1;
    let rejected = loop {
        match put(&store, stored, 300) {
            Ok(_) => stored += 1,
            Err(rejected) => break rejected,
        }
        assert!(stored < 1000, "the disk never got full");
    };
    assert!(matches!(rejected, CommitError::Rejected(RejectReason::DiskFull)), "{rejected}");
    assert!(store.stat().log.full);
    assert_eq!(store.snapshot().len(), stored, "reads go on");
    for number in 0..8 {
        let key = setpoint_api::Key::from_path(&store_world::resource(0), &format!("n/{number}")).unwrap();
        let delete = Proposal::new(CommitCause::default(), Time(1)).delete(key, Precondition::Present);
        store.commit(delete).unwrap_or_else(|error| panic!("delete {number}: {error}"));
    }
    assert_eq!(store.snapshot().len(), stored - 8);
    drop(store);
    let store = store_world::open(&disk).expect("a full disk can be opened");
    assert_eq!(store.snapshot().len(), stored - 8);
    disk.set_faults(Faults::default());
    put(&store, stored, 300).expect("room came back, and was noticed");
    store.run_maintenance(Time(1)).unwrap();
    assert!(!store.stat().log.full);
}

#[test]
fn history_is_dropped_before_a_put_is_rejected() {
    let disk = SimDisk::default();
    let store = store_world::open(&disk).unwrap();
    for round in 0..200 {
        put(&store, round % 3, 200).unwrap();
        store.run_maintenance(Time(1)).unwrap();
    }
    let history = store.stat().log.history_bytes;
    assert!(history > 8 << 10, "there is history to give up: {history}");
    disk.set_faults(Faults { capacity_bytes: Some(disk.bytes()), ..Faults::default() });
    let gave_up = (0..200).find(|round| {
        put(&store, round % 3, 200).unwrap();
        store.stat().log.history_bytes < history
    });
    assert!(gave_up.is_some());
    assert!(store.stat().log.floor > Revision::ZERO);
}

#[test]
fn failed_sync_fails_the_store_and_its_commits() {
    let disk = SimDisk::default();
    let is_reported = Arc::new(AtomicBool::new(false));
    let heard = Arc::clone(&is_reported);
    let log = DiskLog::new(Arc::new(disk.clone()), options());
    let store =
        Store::open(Box::new(log), retention(), move |_| heard.store(true, Ordering::Release)).unwrap();
    put(&store, 0, 10).unwrap();
    disk.set_faults(Faults { failing_sync: Some(disk.syncs() + 1), ..Faults::default() });
    let failed = put(&store, 1, 10).unwrap_err();
    assert!(matches!(failed, CommitError::Failed(_)), "{failed}");
    assert!(is_reported.load(Ordering::Acquire), "on_failure is called");
    assert_eq!(store.snapshot().revision(), Revision(1), "what is not durable is not shown");
    disk.set_faults(Faults::default());
    assert!(matches!(put(&store, 2, 10), Err(CommitError::Failed(_))), "there is no way back but to reopen");
    drop(store);
    disk.power_cycle(&mut Rng::with_seed(1));
    let revision = store_world::open(&disk).unwrap().snapshot().revision();
    assert!(revision == Revision(1) || revision == Revision(2));
}

#[test]
fn single_writer_takes_one_sync_and_a_batch_shares_one() {
    let mut world = StoreWorld::new();
    let one = |n: u8| vec![(key(0, usize::from(n)), Precondition::Any, Some(vec![n]))];
    world.commit(&one(1));
    let before = world.disk.syncs();
    for n in 2..6 {
        world.commit(&one(n));
    }
    assert_eq!(world.disk.syncs() - before, 4, "one sync per commit of a lone writer");
    let before = world.disk.syncs();
    let batch: Vec<Vec<Change>> = (0..5).map(one).collect();
    assert_eq!(world.commit_batch(&batch), (5, false));
    assert_eq!(world.disk.syncs() - before, 1, "one sync for all that wait");
}
