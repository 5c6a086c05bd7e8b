//! Benchmarks of snapshots, forks, memory and recovery.

use std::sync::Arc;

use setpoint_api::{Key, Resource, Revision, Time};
use setpoint_store::{CommitCause, Draft, PendingCommit, Precondition, Proposal, Retention, Store};

use crate::meter::{Report, measure, micros_per, resident};
use crate::write::{directory, open};

const OBJECTS: u64 = 100_000;

fn fill(store: &Store) {
    let resource = Resource::new("pods").unwrap();
    let cause =
        Arc::new(CommitCause { user: "bench".into(), manager: "bench".into(), ..CommitCause::default() });
    for chunk in 0..OBJECTS / 1000 {
        let pending: Vec<PendingCommit> = (0..1000)
            .map(|n| {
                let name = format!("object-{}", chunk * 1000 + n);
                let key = Key::namespaced(&resource, "default", &name).unwrap();
                let draft = Draft::with_revision_at(vec![b'v'; 1024], 10).labels([("app", "bench")]);
                store.submit(Proposal::new(Arc::clone(&cause), Time(1)).put(key, Precondition::Absent, draft))
            })
            .collect();
        for commit in pending {
            commit.wait().unwrap();
        }
    }
}

pub fn snapshot_fork_memory(report: &mut Report) {
    const TIMES: u64 = 100_000;
    let before = resident();
    let store = Store::in_memory(Retention::default());
    fill(&store);
    let stat = store.stat();
    // The commits that the log in memory keeps are bounded and not part of an object's cost.
    let grown = resident() - before;
    let allowed = stat.bytes as f64 * 1.3 + 200.0 * OBJECTS as f64;
    let measured = format!(
        "{:.1} MiB for {:.1} MiB stored ({:.0} bytes over, per object)",
        grown as f64 / 1048576.0,
        stat.bytes as f64 / 1048576.0,
        (grown as f64 - stat.bytes as f64) / OBJECTS as f64
    );
    report.line(
        "memory with 100,000 objects of 1 KiB",
        &measured,
        &format!("≤ {:.1} MiB", allowed / 1048576.0),
    );
    let (last, spent) = measure(|| (0..TIMES).map(|_| store.snapshot().revision()).max());
    assert_eq!(last, Some(stat.revision));
    report.line(
        "snapshot of 100,000 objects",
        &format!("{:.2} µs", micros_per(spent.wall, TIMES)),
        "≤ 20 µs",
    );
    let (forks, spent) = measure(|| (0..1000).map(|_| store.fork()).collect::<Vec<Store>>());
    report.line("fork of 100,000 objects", &format!("{:.2} µs", micros_per(spent.wall, 1000)), "≤ 20 µs");
    drop(forks);
    let past = Revision(stat.revision.0 - 100);
    let (_, spent) = measure(|| (0..100).map(|_| store.fork_at(past).unwrap()).collect::<Vec<Store>>());
    let measured = format!("{:.0} µs", micros_per(spent.wall, 100));
    report.line("fork as it was 100 commits ago", &measured, "");
}

pub fn restart(report: &mut Report) {
    let dir = directory("restart");
    let store = open(&dir);
    fill(&store);
    store.run_maintenance(Time(1)).unwrap();
    let kept = store.stat();
    drop(store);
    for what in ["restart: log of 100,000 objects", "restart: checkpoint of 100,000 objects"] {
        let (store, spent) = measure(|| open(&dir));
        assert_eq!(store.stat().objects, kept.objects);
        let measured =
            format!("{:.0} ms, {:.0} ms CPU", spent.wall.as_secs_f64() * 1e3, spent.cpu.as_secs_f64() * 1e3);
        report.line(what, &measured, "≤ 300 ms");
        store.compact(Time(1)).unwrap();
    }
    std::fs::remove_dir_all(&dir).unwrap();
}
