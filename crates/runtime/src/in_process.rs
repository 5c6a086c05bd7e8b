//! In-process shell of the loop: a thread that follows the store, plans, executes writes, and sleeps when idle.
//!
//! No change is missed: before each sleep every [`resource_feed`] has registered the loop's waker, or the loop turns
//! again. `tests/wakeups.rs` checks every interleaving of that. Start at [`Shell::start`].

mod doorbell;
mod feed;
mod resource_feed;
mod watchdog;
/// Primitives of `doorbell`, which a model checker replaces.
mod sync {
    pub(super) use parking_lot::{Condvar, Mutex};
}

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::task::{Context, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use setpoint_api::{Clock, Entropy, Time};
use setpoint_reconcile::{Engine, LoopTime, Seed, Turn, WriteExecutor};
use setpoint_store::Store;
use thiserror::Error;

use self::doorbell::Doorbell;
use self::feed::Feed;
use self::watchdog::Watchdog;
use crate::queries::QueryHandler;
use crate::queries::api_queries::QueriesInFlight;

pub use watchdog::LOOP_STALL_MAX;

/// Delay before a turn, in which further changes arrive and join the batch.
const BATCH_DELAY: Duration = Duration::from_millis(1);

/// Maximum sleep of the loop. A step of the wall clock is detected when the sleep ends.
pub(crate) const SLEEP_MAX: Duration = Duration::from_secs(5);

/// Time that a plan has to end when the loop is stopped. The process does not wait longer: a plan writes nothing by
/// itself, and a write that was sent is committed or rejected without the loop.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// A running loop. Dropping it stops it as [`Shell::stop`] does.
pub struct Shell {
    engine: Arc<Mutex<Engine>>,
    stop: Arc<AtomicBool>,
    bell: Arc<Doorbell>,
    watchdog: Arc<Watchdog>,
    /// Disconnected when the thread ends.
    ended: Receiver<()>,
}

/// Failure to start the thread of a loop.
#[derive(Debug, Error)]
#[error("cannot start the thread of the loop: {0}")]
pub struct ShellError(#[from] std::io::Error);

impl Shell {
    /// Starts `engine` over `store`. Its planners' queries go to `queries`, its writes to `executor`.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(
        store: Store,
        engine: Engine,
        clock: Arc<dyn Clock>,
        entropy: Arc<Entropy>,
        queries: Arc<QueryHandler>,
        executor: Box<dyn WriteExecutor>,
    ) -> Result<Shell, ShellError> {
        let time = LoopTime::new(clock.now(), clock.uptime());
        let (feed, bell) = (Feed::open(&engine), Arc::new(Doorbell::default()));
        let watchdog = Arc::new(Watchdog::new(Arc::clone(&clock)));
        let thread = LoopThread {
            store,
            feed,
            clock,
            time,
            entropy,
            queries,
            executor,
            bell: Arc::clone(&bell),
            watchdog: Arc::clone(&watchdog),
            in_flight: QueriesInFlight::default(),
            sleep_max: SLEEP_MAX,
        };
        Shell::run(engine, thread)
    }

    /// Runs the loop in a new thread.
    fn run(engine: Engine, loop_thread: LoopThread) -> Result<Shell, ShellError> {
        let stop = Arc::new(AtomicBool::new(false));
        let engine = Arc::new(Mutex::new(engine));
        let (bell, watchdog) = (Arc::clone(&loop_thread.bell), Arc::clone(&loop_thread.watchdog));
        let (stopped, run) = (Arc::clone(&stop), Arc::clone(&engine));
        let (ending, ended) = sync_channel(0);
        let thread = std::thread::Builder::new().name("loop".to_owned());
        thread.spawn(move || {
            let _ending: SyncSender<()> = ending;
            loop_thread.run(&run, &stopped);
        })?;
        Ok(Shell { engine, stop, bell, watchdog, ended })
    }

    /// The engine, for reports. The loop is blocked while the lock is held.
    #[must_use]
    pub fn engine(&self) -> &Arc<Mutex<Engine>> {
        &self.engine
    }

    /// Stops the thread, and waits for it up to [`STOP_TIMEOUT`].
    #[must_use]
    pub fn stop(self) -> LoopEnd {
        self.end()
    }

    fn end(&self) -> LoopEnd {
        self.stop.store(true, Ordering::Release);
        self.bell.ring();
        if self.ended.recv_timeout(STOP_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("loop stopped during a plan: it exceeded the stop timeout");
            return LoopEnd::CutOff;
        }
        LoopEnd::Stopped
    }

    /// Returns a health check that fails when the loop has not turned for [`LOOP_STALL_MAX`].
    pub fn check(&self) -> impl Fn() -> Result<(), String> + Send + Sync + 'static {
        let watchdog = Arc::clone(&self.watchdog);
        move || watchdog.check()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        if !self.stop.load(Ordering::Acquire) {
            self.end();
        }
    }
}

/// End of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopEnd {
    /// Between two plans.
    Stopped,
    /// In the middle of a plan that took longer than [`STOP_TIMEOUT`].
    CutOff,
}

struct LoopThread {
    store: Store,
    feed: Feed,
    clock: Arc<dyn Clock>,
    time: LoopTime,
    entropy: Arc<Entropy>,
    queries: Arc<QueryHandler>,
    executor: Box<dyn WriteExecutor>,
    bell: Arc<Doorbell>,
    watchdog: Arc<Watchdog>,
    in_flight: QueriesInFlight,
    /// [`SLEEP_MAX`], except in tests in which only a wakeup may end a sleep.
    sleep_max: Duration,
}

impl LoopThread {
    fn run(mut self, engine: &Mutex<Engine>, stop: &AtomicBool) {
        let waker = Waker::from(Arc::clone(&self.bell));
        let mut context = Context::from_waker(&waker);
        while !stop.load(Ordering::Acquire) {
            self.watchdog.reset(Duration::ZERO);
            let pause = self.turn(&mut engine.lock(), &mut context);
            if pause.is_zero() {
                continue;
            }
            self.watchdog.reset(pause);
            self.bell.wait(pause);
            // The loop continues at once when its own writes are done. Otherwise it waits for more changes: one turn
            // per change costs many times what a batch does. The next turn clears the bell and drains every feed, so
            // no change is lost.
            if self.executor.is_idle() {
                std::thread::park_timeout(BATCH_DELAY);
            }
        }
    }

    /// Loop time now.
    fn now(&self) -> Time {
        self.time.now(self.clock.uptime())
    }

    /// Observes changes and outcomes, plans, and sends writes. Returns the maximum time to sleep until the bell rings;
    /// zero if the next turn is due at once.
    fn turn(&mut self, engine: &mut Engine, context: &mut Context<'_>) -> Duration {
        self.follow_clock(engine);
        self.bell.clear();
        let is_armed = self.feed.drain(&self.store, engine, self.now(), context);
        let mut turn = Turn::default();
        for (id, outcome) in self.executor.poll(context) {
            engine.complete_write(id, outcome, self.now(), &mut turn);
        }
        for (controller, key, id, answer) in self.in_flight.poll(context) {
            if let Err(error) = &answer {
                tracing::debug!(controller, %key, id, error, "query failed");
            }
            engine.answer_query(controller, &key, &id, answer, self.now());
        }
        let now = self.now();
        let planned = engine.turn(now, Seed((self.entropy)()));
        turn.writes.extend(planned.writes);
        // The answer to a query requeues its key, as the outcome of a write can.
        let asked_any = !turn.writes.is_empty() || !planned.queries.is_empty();
        // A started write must be polled once, so that it rings the bell when it ends.
        let did_any = self.send(engine, turn) || asked_any;
        for (controller, key, query) in planned.queries {
            let started = self.in_flight.start(self.queries.api_queries(), (controller, &key, &query));
            let answer = match started {
                Some(Ok(())) => continue,
                Some(Err(error)) => Err(error),
                None => self.queries.answer(&query, now, &*self.entropy),
            };
            if let Err(error) = &answer {
                tracing::debug!(controller, %key, query = query.target, error, "query failed");
            }
            engine.answer_query(controller, &key, &query.id, answer, self.now());
        }
        if did_any || !is_armed {
            return Duration::ZERO;
        }
        planned.next_turn_at.map_or(self.sleep_max, |at| at.since(self.now()).min(self.sleep_max))
    }

    /// Executes writes. Returns `true` if one is in flight that was not polled yet.
    fn send(&mut self, engine: &mut Engine, mut turn: Turn) -> bool {
        // A write that ends without a commit can cause further writes at once.
        while !turn.writes.is_empty() {
            let mut next = Turn::default();
            for request in turn.writes {
                if let Some((id, outcome)) = self.executor.start(request) {
                    engine.complete_write(id, outcome, self.now(), &mut next);
                }
            }
            turn = next;
        }
        self.executor.submit()
    }

    /// Follows the wall clock, and requeues delayed keys if it was set.
    fn follow_clock(&mut self, engine: &mut Engine) {
        if let Some(jump) = self.time.follow(self.clock.now(), self.clock.uptime()) {
            let (seconds, is_forward) = (jump.size().as_secs(), jump.is_forward());
            tracing::warn!(seconds, is_forward, "clock jump detected");
            engine.clock_jumped(jump, self.now());
        }
    }
}

#[cfg(test)]
mod tests;
