//! The thread that keeps a store fit while a server runs: compaction, room on disk, expiry.
//!
//! It sleeps until the writer says that something is due, or until the next key expires; an idle store never
//! wakes it. A store without a housekeeper is right all the same, only larger.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use setpoint_api::Clock;

use crate::store::{ChoreError, Store};

/// How long it waits before it tries again what failed for want of room or descriptors.
const RETRY: Duration = Duration::from_secs(5);
/// The shortest time between two looks, so that a stream of expiries is worked off in batches.
const PAUSE: Duration = Duration::from_millis(100);

/// The longest sleep while a key waits to expire. Expiry is a time of the wall clock, which may be set: a step is
/// noticed when the sleep ends.
pub const EXPIRY_SLEEP_MAX: Duration = Duration::from_secs(60);

/// A running housekeeper. Dropping it stops the thread and waits for it.
pub struct Housekeeper {
    store: Store,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Housekeeper {
    /// Starts to keep `store`. `report` is told what could not be done for want of room; it is tried again.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(
        store: Store,
        clock: Arc<dyn Clock>,
        report: impl Fn(&ChoreError) + Send + 'static,
    ) -> std::io::Result<Housekeeper> {
        let stop = Arc::new(AtomicBool::new(false));
        let (kept, stopped) = (store.clone(), Arc::clone(&stop));
        let thread = std::thread::Builder::new()
            .name("housekeeper".to_owned())
            .spawn(move || keep(&kept, &*clock, &stopped, &report))?;
        Ok(Housekeeper { store, stop, thread: Some(thread) })
    }
}

impl Drop for Housekeeper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.store.announce_chore();
        if let Some(thread) = self.thread.take() {
            // A panic in the thread has been reported where it happened.
            let _ = thread.join();
        }
    }
}

fn keep(store: &Store, clock: &dyn Clock, stop: &AtomicBool, report: &dyn Fn(&ChoreError)) {
    while !stop.load(Ordering::Acquire) {
        let now = clock.now();
        let mut wait = None;
        let tended = store.tend(now);
        if let Err(error) = &tended {
            report(error);
            wait = Some(RETRY);
        }
        if store.expire(now).is_err() {
            return;
        }
        if let Some(at) = store.next_expiry() {
            let expiry = at.since(now).clamp(PAUSE, EXPIRY_SLEEP_MAX);
            wait = Some(wait.map_or(expiry, |retry| retry.min(expiry)));
        }
        if let Some(at) = store.next_packing() {
            let packing = at.since(now).max(PAUSE);
            wait = Some(wait.map_or(packing, |wait| wait.min(packing)));
        }
        match (tended, wait) {
            // Every batch announces what is still due; trying it again each time would only cost and fill the log.
            (Err(_), Some(wait)) => store.wait_for_stop(stop, wait),
            _ => store.wait_for_chore(stop, wait),
        }
    }
}
