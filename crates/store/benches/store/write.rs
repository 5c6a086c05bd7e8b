//! Benchmarks of durable writes, compared with etcd.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use setpoint_api::{Key, ManualClock, Resource, Time};
use setpoint_store::disk::OsDisk;
use setpoint_store::log::disk::{DiskLog, DiskOptions};
use setpoint_store::{CommitCause, Draft, MaintenanceThread, Precondition, Proposal, Retention, Store};

use crate::etcd;
use crate::meter::{Report, Spent, measure, micros_per};

pub const VALUE_BYTES: usize = 1024;
pub const WRITERS: u64 = 64;
const PUTS: u64 = 200_000;
/// Number of keys that a writer overwrites in turn.
pub const KEYS: u64 = 128;

/// Directory on the disk of the build, not in memory.
pub fn directory(name: &str) -> PathBuf {
    let base = std::env::var_os("CARGO_TARGET_TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = base.join(format!("setpoint-bench-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

pub fn open(dir: &std::path::Path) -> Store {
    let disk = Arc::new(OsDisk::exclusive(dir).unwrap());
    let log = DiskLog::new(disk, DiskOptions { entropy: 1, ..DiskOptions::default() });
    Store::open(Box::new(log), Retention::default(), |error| panic!("{error}")).unwrap()
}

pub fn sixty_four_writers(report: &mut Report) {
    let dir = directory("writers");
    let store = open(&dir);
    let maintenance = MaintenanceThread::start(store.clone(), Arc::new(ManualClock::new(Time(1))), |error| {
        eprintln!("{error}")
    })
    .unwrap();
    let ((), ours) = measure(|| as_tasks(&store));
    let syncs = store.stat().log.syncs;
    let ((), threads) = measure(|| {
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let store = &store;
                scope.spawn(move || put_in_turn(store, writer, PUTS / WRITERS));
            }
        });
    });
    drop(maintenance);
    drop(store);
    std::fs::remove_dir_all(&dir).unwrap();
    let shown = |spent: &Spent, puts: u64| {
        let rate = puts as f64 / spent.wall.as_secs_f64();
        format!("{rate:.0} puts/s, {:.1} µs CPU per put", micros_per(spent.cpu, puts))
    };
    report.line("64 writers, 1 KiB, durable", &shown(&ours, PUTS), "≥ 3 × etcd, ≤ 1/5 of its CPU");
    report.line("  the same, each writer a blocked thread", &shown(&threads, PUTS), "");
    report.line("  commits per sync", &format!("{:.1}", PUTS as f64 / syncs as f64), "");
    match etcd::sixty_four_writers() {
        Some((theirs, puts)) => {
            report.line("  etcd, 64 clients, the same puts", &shown(&theirs, puts), "");
            let rate = |spent: &Spent, puts: u64| puts as f64 / spent.wall.as_secs_f64();
            let cpu = |spent: &Spent, puts: u64| micros_per(spent.cpu, puts);
            let faster = rate(&ours, PUTS) / rate(&theirs, puts);
            let share = cpu(&ours, PUTS) / cpu(&theirs, puts);
            report.line("  ratio", &format!("{faster:.1} × the rate, {share:.3} of the CPU"), "≥ 3, ≤ 0.2");
        }
        None => report.line("  etcd", "not found: install etcd-server to compare", ""),
    }
}

/// Writers as tasks and one driver thread, as in a server.
fn as_tasks(store: &Store) {
    let stop = Arc::new(AtomicBool::new(false));
    let (driven, stopped) = (store.clone(), Arc::clone(&stop));
    let driver = std::thread::spawn(move || driven.drive(&stopped));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let local = tokio::task::LocalSet::new();
        for writer in 0..WRITERS {
            let store = store.clone();
            local.spawn_local(async move {
                for proposal in proposals(writer, PUTS / WRITERS) {
                    store.submit(proposal).await.unwrap();
                }
            });
        }
        local.await;
    });
    stop.store(true, Ordering::Release);
    store.wake();
    driver.join().unwrap();
}

fn proposals(writer: u64, puts: u64) -> impl Iterator<Item = Proposal> {
    let resource = Resource::new("pods").unwrap();
    let cause = Arc::new(CommitCause { user: "bench".into(), ..CommitCause::default() });
    (0..puts).map(move |n| {
        let key = Key::namespaced(&resource, &format!("w{writer}"), &format!("k{}", n % KEYS)).unwrap();
        let draft = Draft::new(vec![b'v'; VALUE_BYTES]);
        Proposal::new(Arc::clone(&cause), Time(1)).put(key, Precondition::Any, draft)
    })
}

fn put_in_turn(store: &Store, writer: u64, puts: u64) {
    for proposal in proposals(writer, puts) {
        store.commit(proposal).unwrap();
    }
}

pub fn one_writer(report: &mut Report) {
    const ALONE: u64 = 5_000;
    let dir = directory("lone");
    let store = open(&dir);
    put_in_turn(&store, 0, 1);
    store.run_maintenance(Time(1)).unwrap();
    let before = store.stat().log.syncs;
    let ((), spent) = measure(|| put_in_turn(&store, 0, ALONE));
    let syncs = store.stat().log.syncs - before;
    std::fs::remove_dir_all(&dir).unwrap();
    let each = micros_per(spent.wall, ALONE);
    let measured = format!("{:.3} syncs per put, {each:.0} µs each", syncs as f64 / ALONE as f64);
    report.line("one writer alone", &measured, "one sync (and those of new segments)");
}
