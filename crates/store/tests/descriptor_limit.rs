//! Operating system limit of open files. One test per process, because the limit is per process.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs::File;
use std::sync::Arc;

use rustix::process::{Resource as Limited, Rlimit, getrlimit, setrlimit};
use setpoint_api::{Key, Resource, Time};
use setpoint_store::disk::{OsDisk, is_short_of_descriptors};
use setpoint_store::log::DiskLog;
use setpoint_store::log::disk::DiskOptions;
use setpoint_store::{CommitCause, Draft, Precondition, Proposal, Retention, Store};

const LIMIT: u64 = 256;

fn put(store: &Store, number: usize) {
    let key = Key::from_path(&Resource::new("pods").unwrap(), &format!("n/{}", number % 5)).unwrap();
    let draft = Draft::new(vec![b'v'; 1000]);
    store.commit(Proposal::new(CommitCause::default(), Time(1)).put(key, Precondition::Any, draft)).unwrap();
}

#[test]
fn segments_and_checkpoints_are_written_while_connections_use_every_descriptor() {
    let limit = getrlimit(Limited::Nofile);
    setrlimit(Limited::Nofile, Rlimit { current: Some(LIMIT), maximum: limit.maximum }).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let options = DiskOptions {
        segment_bytes_min: 4096,
        segment_bytes_max: 4096,
        compact_bytes_min: 16 << 10,
        reserve_bytes: 4096,
        ..DiskOptions::default()
    };
    let open = || {
        let disk = Arc::new(OsDisk::exclusive(dir.path()).unwrap());
        Store::open(Box::new(DiskLog::new(disk, options.clone())), Retention::default(), |_| ()).unwrap()
    };
    let store = open();
    put(&store, 0);
    let mut connections = Vec::new();
    // Take every free descriptor at every moment, as connections do.
    let mut exhaust = || {
        let error = loop {
            match File::open("/dev/null") {
                Ok(file) => connections.push(file),
                Err(error) => break error,
            }
        };
        assert!(is_short_of_descriptors(&error), "{error}");
        connections.len()
    };
    let taken = exhaust();
    for number in 1..100 {
        put(&store, number);
        store.run_maintenance(Time(1)).unwrap();
        exhaust();
    }
    store.compact(Time(1)).unwrap();
    assert_eq!(exhaust(), taken, "the store gave none of its descriptors away");
    assert!(store.stat().log.base_bytes > 0);
    let revision = store.snapshot().revision();
    drop((store, connections));
    assert_eq!(open().snapshot().revision(), revision);
}
