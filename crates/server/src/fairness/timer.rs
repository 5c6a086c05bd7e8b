//! Task that releases lingering seats and adjusts limits while requests wait, since no other request may come to do so.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Fairness, nanos, wake};

/// Longest time between two actions while requests wait.
const REST_MAX: Duration = Duration::from_secs(1);

/// Starts the task unless it runs. Must be called within a runtime.
pub(super) fn ensure_running(fairness: &Arc<Fairness>) {
    if !fairness.timer.is_running.swap(true, Ordering::AcqRel) {
        tokio::spawn(run(RunningTimer { fairness: Arc::clone(fairness), is_current: true }));
    }
}

/// Has the task act at `at`, if it would act later.
pub(super) fn advance_to(fairness: &Fairness, at: Duration) {
    if nanos(at) < fairness.timer.wakes_at.load(Ordering::Acquire) {
        fairness.timer.wake.notify_one();
    }
}

/// The running task. If its runtime ends, another can be started.
struct RunningTimer {
    fairness: Arc<Fairness>,
    is_current: bool,
}

impl RunningTimer {
    fn stop(&mut self) {
        if std::mem::replace(&mut self.is_current, false) {
            self.fairness.timer.is_running.store(false, Ordering::Release);
        }
    }

    /// Continues after a stop, unless another task runs by now.
    fn resume(&mut self) -> bool {
        self.is_current = !self.fairness.timer.is_running.swap(true, Ordering::AcqRel);
        self.is_current
    }
}

impl Drop for RunningTimer {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn run(mut running: RunningTimer) {
    let fairness = Arc::clone(&running.fairness);
    loop {
        let now = fairness.clock.uptime();
        // Seats that begin to linger from here on wake the task.
        fairness.timer.wakes_at.store(u64::MAX, Ordering::Release);
        fairness.adjust_if_due(now);
        let Some(next) = act(&fairness, now) else {
            running.stop();
            // A request that began to wait before the stop found the task running.
            if act(&fairness, now).is_some() && running.resume() {
                continue;
            }
            return;
        };
        fairness.timer.wakes_at.store(nanos(next), Ordering::Release);
        // Both outcomes mean to look again.
        let _ = tokio::time::timeout(next.saturating_sub(now), fairness.timer.wake.notified()).await;
    }
}

/// Releases seats in all levels. Returns the time to act again; `None` if no request waits.
fn act(fairness: &Fairness, now: Duration) -> Option<Duration> {
    let mut next = None;
    for handle in fairness.controller.levels() {
        let mut level = handle.lock();
        level.release_lingering(now);
        if level.has_waiting() {
            let at = level.next_release().unwrap_or(Duration::MAX).min(now + REST_MAX);
            next = Some(next.map_or(at, |next: Duration| next.min(at)));
        }
        let dispatched = level.take_dispatched();
        drop(level);
        wake(dispatched);
    }
    next
}
