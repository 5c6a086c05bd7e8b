//! Maintenance thread of a store in a server: compaction, preallocation, expiry.
//!
//! It sleeps until the writer announces maintenance, or until the next key expires; an idle store never
//! wakes it. A store without this thread is correct, but grows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use setpoint_api::Clock;

use crate::store::{MaintenanceError, Store};

/// Delay before maintenance that failed for lack of space or descriptors is retried.
const RETRY_DELAY: Duration = Duration::from_secs(5);
/// Minimum time between two runs, so that a stream of expiries is handled in batches.
const RUN_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Maximum sleep while a key waits to expire. Expiry times refer to the wall clock, which may be set; a jump
/// is noticed when the sleep ends.
const EXPIRY_SLEEP_MAX: Duration = Duration::from_secs(60);

/// Running maintenance thread. Dropping it stops the thread and waits for it.
pub struct MaintenanceThread {
    store: Store,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl MaintenanceThread {
    /// Starts maintenance of `store`. `report` is called with errors of postponed maintenance, which is
    /// retried.
    ///
    /// # Errors
    /// If the thread cannot be created.
    pub fn start(
        store: Store,
        clock: Arc<dyn Clock>,
        report: impl Fn(&MaintenanceError) + Send + 'static,
    ) -> std::io::Result<MaintenanceThread> {
        let stop = Arc::new(AtomicBool::new(false));
        let (maintained, stopped) = (store.clone(), Arc::clone(&stop));
        let thread = std::thread::Builder::new()
            .name("maintenance".to_owned())
            .spawn(move || run(&maintained, &*clock, &stopped, &report))?;
        Ok(MaintenanceThread { store, stop, thread: Some(thread) })
    }
}

impl Drop for MaintenanceThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.store.notify_maintenance();
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic of the thread.
            let _ = thread.join();
        }
    }
}

fn run(store: &Store, clock: &dyn Clock, stop: &AtomicBool, report: &dyn Fn(&MaintenanceError)) {
    while !stop.load(Ordering::Acquire) {
        let now = clock.now();
        let mut wait = None;
        let result = store.run_maintenance(now);
        if let Err(error) = &result {
            report(error);
            wait = Some(RETRY_DELAY);
        }
        if store.expire(now).is_err() {
            return;
        }
        if let Some(at) = store.next_expiry() {
            let expiry = at.since(now).clamp(RUN_INTERVAL_MIN, EXPIRY_SLEEP_MAX);
            wait = Some(wait.map_or(expiry, |retry| retry.min(expiry)));
        }
        if let Some(at) = store.next_packing() {
            let packing = at.since(now).max(RUN_INTERVAL_MIN);
            wait = Some(wait.map_or(packing, |wait| wait.min(packing)));
        }
        match (result, wait) {
            // Every batch announces maintenance that is still due. Retrying it each time would waste time
            // and flood the log.
            (Err(_), Some(wait)) => store.wait_for_stop(stop, wait),
            _ => store.wait_for_maintenance(stop, wait),
        }
    }
}
