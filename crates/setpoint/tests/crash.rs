//! kill -9 at random moments under load, checked with the ledger of the load.
//!
//! `SETPOINT_KILLS` sets the number of kills.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use setpoint_api::{Resource, Revision};
use setpoint_store::disk::OsDisk;
use setpoint_store::log::disk::{DiskLog, DiskOptions};
use setpoint_store::{Retention, Snapshot, Store};

fn kills() -> u64 {
    std::env::var("SETPOINT_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(200)
}

/// Acknowledged operations of one writer, and the one in flight.
#[derive(Default)]
struct Ledger {
    /// Value of each key after the last acknowledgement.
    acknowledged_values: BTreeMap<String, Option<u64>>,
    /// Operation without an outcome: its number, the key, and the value that it would have.
    in_flight: Option<(u64, String, Option<u64>)>,
    acknowledged: u64,
    rejected: u64,
    newest: Revision,
}

impl Ledger {
    fn record(&mut self, words: &[&str]) {
        let number: u64 = words[2].parse().unwrap();
        match words[0] {
            "try" => {
                assert!(self.in_flight.is_none(), "{words:?} before the outcome of {:?}", self.in_flight);
                let value = (words[3] != "delete").then_some(number);
                self.in_flight = Some((number, words[4].to_owned(), value));
            }
            "ack" => {
                let (tried, key, value) = self.in_flight.take().unwrap();
                assert_eq!(tried, number);
                self.acknowledged_values.insert(key, value);
                self.acknowledged += 1;
                let revision = Revision(words[3].parse().unwrap());
                assert!(revision > self.newest, "revision {revision} after {}", self.newest);
                self.newest = revision;
            }
            "rejected" => {
                assert_eq!(self.in_flight.take().unwrap().0, number);
                self.rejected += 1;
            }
            _ => panic!("{words:?}"),
        }
    }

    /// Compares the ledger with the store, and takes over the outcome of the operation in flight.
    fn reconcile_with(&mut self, writer: &str, snapshot: &Snapshot) {
        let table = snapshot.table(&Resource::new("exercise").unwrap());
        let found = |key: &str| {
            let record = table.and_then(|table| table.get(&format!("writer-{writer}/{key}")))?;
            let text = std::str::from_utf8(&record.value()).unwrap().to_owned();
            assert!(!text.starts_with("rejected"), "a rejected write is in the store: {text}");
            Some(text.parse::<u64>().unwrap())
        };
        if let Some((_, key, value)) = self.in_flight.take()
            && found(&key) == value
        {
            self.acknowledged_values.insert(key, value);
        }
        for (key, value) in &self.acknowledged_values {
            assert_eq!(found(key), *value, "writer {writer}, {key}");
        }
        assert!(snapshot.revision() >= self.newest);
    }
}

fn start(dir: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_setpoint"))
        .args(["store", "exercise", "--small", "--data-dir"])
        .arg(dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn open(dir: &Path) -> Snapshot {
    let disk = OsDisk::exclusive(dir).unwrap();
    let log = DiskLog::new(Arc::new(disk), DiskOptions::default());
    Store::open(Box::new(log), Retention::default(), |error| panic!("{error}")).unwrap().snapshot()
}

#[test]
fn kill_9_loses_no_acknowledged_write_and_keeps_no_rejected_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = fastrand::Rng::with_seed(9);
    let mut ledgers: BTreeMap<String, Ledger> = BTreeMap::new();
    let mut newest = Revision::ZERO;
    for kill in 0..kills() {
        let mut child = start(dir.path());
        // The process is killed after a random number of output lines, so no clock is needed.
        let mut left = rng.u64(..if kill % 4 == 0 { 20 } else { 3000 });
        let mut killed = false;
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            let words: Vec<&str> = line.split(' ').collect();
            ledgers.entry(words[1].to_owned()).or_default().record(&words);
            left = left.saturating_sub(1);
            if left == 0 && !killed {
                child.kill().unwrap();
                killed = true;
            }
        }
        child.wait().unwrap();
        assert!(killed, "the process ended by itself");
        let snapshot = open(dir.path());
        assert!(snapshot.revision() >= newest, "the revision went back");
        newest = snapshot.revision();
        for (writer, ledger) in &mut ledgers {
            ledger.reconcile_with(writer, &snapshot);
        }
    }
    let acknowledged: u64 = ledgers.values().map(|ledger| ledger.acknowledged).sum();
    let rejected: u64 = ledgers.values().map(|ledger| ledger.rejected).sum();
    assert!(acknowledged > kills() && rejected > 0, "{acknowledged} acknowledged, {rejected} rejected");
    println!("{} kills, {acknowledged} acknowledged writes, {rejected} rejected, revision {newest}", kills());
}
