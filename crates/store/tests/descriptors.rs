//! Shortage of file descriptors: the store rejects writes that need one, and continues.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;

use setpoint_api::{Key, Time};
use setpoint_sim::disk::{Faults, SimDisk};
use setpoint_sim::store_world::{self, resource};
use setpoint_store::store::MaintenanceError;
use setpoint_store::{CommitCause, CommitError, Draft, Precondition, Proposal, RejectReason, Store};

fn key(number: usize) -> Key {
    Key::from_path(&resource(0), &format!("n/{number}")).unwrap()
}

fn put(store: &Store, number: usize, bytes: usize) -> Result<(), CommitError> {
    let draft = Draft::new(vec![b'v'; bytes]);
    store
        .commit(Proposal::new(CommitCause::default(), Time(1)).put(key(number), Precondition::Any, draft))
        .map(drop)
}

fn delete(store: &Store, number: usize) -> Result<(), CommitError> {
    store
        .commit(Proposal::new(CommitCause::default(), Time(1)).delete(key(number), Precondition::Present))
        .map(drop)
}

/// Names and sizes of the objects in a store.
fn state(store: &Store) -> BTreeMap<String, usize> {
    let snapshot = store.snapshot();
    let records = snapshot.tables().flat_map(|(_, table)| table.iter());
    records.map(|record| (record.path().to_owned(), record.value().len())).collect()
}

/// `true` if it succeeded. Any error but a shortage of descriptors fails the test.
fn is_done(outcome: Result<(), CommitError>, context: &str) -> bool {
    match outcome {
        Ok(()) => true,
        Err(CommitError::Rejected(RejectReason::NoDescriptors)) => false,
        Err(other) => panic!("{context}: {other}"),
    }
}

#[test]
fn single_failed_open_loses_nothing_and_fails_no_store() {
    let mut rejections = 0;
    for failing in 0.. {
        let disk = SimDisk::default();
        let store = store_world::open(&disk).unwrap();
        let context = format!("open {failing} fails");
        let fault = disk.opens() + failing;
        disk.set_faults(Faults { failing_open: Some(fault), ..Faults::default() });
        let mut expected = BTreeMap::new();
        for round in 0..40 {
            let (number, bytes) = (round % 7, 200 + 13 * round);
            if is_done(put(&store, number, bytes), &context) {
                expected.insert(format!("n/{number}"), bytes);
            } else {
                rejections += 1;
                put(&store, number, bytes).unwrap_or_else(|error| panic!("{context}: at once: {error}"));
                expected.insert(format!("n/{number}"), bytes);
            }
            let maintained = match round % 10 {
                9 => store.compact(Time(1)),
                3 | 6 => store.run_maintenance(Time(1)),
                _ => Ok(()),
            };
            assert!(
                matches!(maintained, Ok(()) | Err(MaintenanceError::Postponed(_))),
                "{context}: {maintained:?}"
            );
            assert!(store.failure().is_none(), "{context}");
        }
        assert_eq!(state(&store), expected, "{context}");
        let is_last = disk.opens() <= fault;
        disk.set_faults(Faults::default());
        store.run_maintenance(Time(1)).unwrap_or_else(|error| panic!("{context}: afterwards: {error}"));
        drop(store);
        let store = store_world::open(&disk).unwrap_or_else(|error| panic!("{context}: again: {error}"));
        assert_eq!(state(&store), expected, "{context}: after a restart");
        if is_last {
            break;
        }
    }
    assert!(rejections > 0, "a put was rejected at least once");
}

#[test]
fn puts_fail_while_deletes_and_reads_succeed_without_descriptors() {
    let disk = SimDisk::default();
    let store = store_world::open(&disk).unwrap();
    put(&store, 0, 10).unwrap();
    store.run_maintenance(Time(1)).unwrap();
    disk.set_faults(Faults { descriptors_max: Some(disk.open_files()), ..Faults::default() });
    let mut stored = 1;
    while is_done(put(&store, stored, 300), "put") {
        stored += 1;
        assert!(stored < 1000, "the spare segment lasts for ever");
    }
    assert!(stored > 10, "the rest of the segment and the spare one were used: {stored}");
    assert!(!store.stat().log.full, "the disk is not full");
    assert!(matches!(store.run_maintenance(Time(1)), Err(MaintenanceError::Postponed(_))));
    assert!(matches!(store.compact(Time(1)), Err(MaintenanceError::Postponed(_))));
    assert_eq!(store.snapshot().len(), stored, "reads go on");
    for number in 0..8 {
        delete(&store, number).unwrap_or_else(|error| panic!("delete {number}: {error}"));
    }
    assert!(store.failure().is_none());
    disk.set_faults(Faults::default());
    put(&store, stored, 300).expect("the next put finds descriptors again");
    store.run_maintenance(Time(1)).unwrap();
    let expected = state(&store);
    drop(store);
    assert_eq!(state(&store_world::open(&disk).unwrap()), expected);
}

#[test]
fn history_is_kept_when_descriptors_are_short() {
    let disk = SimDisk::default();
    let store = store_world::open(&disk).unwrap();
    for round in 0..100 {
        put(&store, round % 3, 200).unwrap();
        store.run_maintenance(Time(1)).unwrap();
    }
    let history = store.stat().log.history_bytes;
    assert!(history > 0);
    disk.set_faults(Faults { descriptors_max: Some(disk.open_files()), ..Faults::default() });
    let rejected = (0..1000).any(|round| !is_done(put(&store, round % 3, 200), "put"));
    assert!(rejected);
    assert_eq!(store.stat().log.history_bytes, history);
}
