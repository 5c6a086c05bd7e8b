//! The thread that runs the loop: it follows the store, sends writes into it, and sleeps when nothing is to do.

mod sending;
mod telling;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use parking_lot::Mutex;
use setpoint_api::{Key, Resource, Revision};
use setpoint_reconcile::{Engine, Seed, Turn};
use setpoint_store::{Clock, Cursor, Event, Filter, Store};
use thiserror::Error;

use self::sending::Sending;
use super::{object, observed, resources};
use crate::api::Entropy;
use crate::asks::Oracle;
use crate::pipeline::admission::tolerations::Tolerations;

/// How long changes gather before they are taken in together.
const GATHER: Duration = Duration::from_millis(1);

/// A running loop. Dropping it stops the thread and waits for it.
pub struct Shell {
    engine: Arc<Mutex<Engine>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Why a loop cannot run.
#[derive(Debug, Error)]
#[error("the system gives no thread for the loop: {0}")]
pub struct ShellError(#[from] std::io::Error);

impl Shell {
    /// Starts `engine` over `store`. What its planners ask, `oracle` answers.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(
        store: Store,
        engine: Engine,
        clock: Arc<dyn Clock>,
        entropy: Arc<Entropy>,
        oracle: Arc<Oracle>,
        tolerations: Tolerations,
    ) -> Result<Shell, ShellError> {
        let stop = Arc::new(AtomicBool::new(false));
        let engine = Arc::new(Mutex::new(engine));
        let (stopped, run) = (Arc::clone(&stop), Arc::clone(&engine));
        let thread = std::thread::Builder::new().name("loop".to_owned()).spawn(move || {
            let feed = Feed::open(&run.lock());
            let sending = Sending::default();
            Running { feed, store, clock, entropy, oracle, tolerations, sending }.run(&run, &stopped);
        })?;
        Ok(Shell { engine, stop, thread: Some(thread) })
    }

    /// The loop, to ask it how it does. It stands still while it is held.
    #[must_use]
    pub fn engine(&self) -> &Arc<Mutex<Engine>> {
        &self.engine
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic in the thread has been reported where it happened.
            let _ = thread.join();
        }
    }
}

/// Wakes the thread of the loop. Waking it before it sleeps keeps it from sleeping.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}

struct Running {
    store: Store,
    feed: Feed,
    clock: Arc<dyn Clock>,
    entropy: Arc<Entropy>,
    oracle: Arc<Oracle>,
    tolerations: Tolerations,
    sending: Sending,
}

impl Running {
    fn run(mut self, engine: &Mutex<Engine>, stop: &AtomicBool) {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        while !stop.load(Ordering::Acquire) {
            let mut engine = engine.lock();
            self.feed.drain(&self.store, &mut engine, &*self.clock, &mut context);
            let mut turn = Turn::default();
            self.take_answers(&mut engine, &mut turn, &mut context);
            let now = self.clock.now();
            let planned = engine.turn(now, Seed((self.entropy)()));
            turn.writes.extend(planned.writes);
            // An answer wakes who asked, as a write may.
            let asked_any = !turn.writes.is_empty() || !planned.asks.is_empty();
            self.send(&mut engine, turn);
            // What was begun must be asked for once, to be woken when it is done.
            let did_any = self.sending.take_begun() || asked_any;
            for (controller, key, ask) in planned.asks {
                let answer = self.oracle.answer(&ask, now, &*self.entropy);
                if let Err(error) = &answer {
                    tracing::debug!(controller, %key, whom = ask.whom, error, "a question has no answer");
                }
                engine.reply(controller, &key, &ask.id, answer, self.clock.now());
            }
            drop(engine);
            if did_any {
                continue;
            }
            match planned.wake.map(|wake| wake.since(self.clock.now())) {
                Some(Duration::ZERO) => continue,
                Some(pause) => std::thread::park_timeout(pause),
                None => std::thread::park(),
            }
            // Whoever waits for its own writes goes on at once; otherwise what happens together is taken in together.
            if self.sending.is_empty() {
                self.gather(stop);
            }
        }
    }

    /// Lets changes gather for a moment: taking them in one by one costs many times what each is worth.
    fn gather(&self, stop: &AtomicBool) {
        let end = self.clock.now().after(GATHER);
        while !stop.load(Ordering::Acquire) {
            // Each resource wakes the thread once at the most until it is looked at again.
            match end.since(self.clock.now()) {
                Duration::ZERO => return,
                rest => std::thread::park_timeout(rest),
            }
        }
    }
}

/// All changes of the store, in an order in which the world is whole at every revision that is reached.
struct Feed {
    lanes: Vec<Lane>,
}

struct Lane {
    resource: Resource,
    cursor: Option<Cursor>,
    /// An event from beyond the revision that was drained to.
    ahead: Option<Event>,
}

impl Feed {
    fn open(engine: &Engine) -> Feed {
        let followed = resources().filter(|resource| engine.follows(resource));
        let lanes = followed.map(|resource| Lane { resource: resource.clone(), cursor: None, ahead: None });
        Feed { lanes: lanes.collect() }
    }

    /// Takes in everything up to the newest revision.
    fn drain(&mut self, store: &Store, engine: &mut Engine, clock: &dyn Clock, context: &mut Context<'_>) {
        let newest = store.snapshot().revision();
        for lane in &mut self.lanes {
            lane.drain(store, engine, newest, clock, context);
        }
        engine.reach(newest);
    }
}

impl Lane {
    fn drain(
        &mut self,
        store: &Store,
        engine: &mut Engine,
        newest: Revision,
        clock: &dyn Clock,
        context: &mut Context<'_>,
    ) {
        loop {
            let Some(cursor) = &mut self.cursor else {
                self.list(store, engine, clock);
                continue;
            };
            let event = match self.ahead.take() {
                Some(event) => event,
                None => match cursor.poll_next(context) {
                    Poll::Ready(Ok(event)) => event,
                    Poll::Ready(Err(_)) => {
                        // Too far behind: what was missed is found by listing.
                        self.cursor = None;
                        continue;
                    }
                    Poll::Pending => return,
                },
            };
            if event.revision() > newest {
                self.ahead = Some(event);
                return;
            }
            let Ok(key) = Key::from_path(&self.resource, event.after.path()) else { continue };
            if let Some(observed) = observed(key, &event) {
                engine.observe(observed, clock.now());
            }
        }
    }

    fn list(&mut self, store: &Store, engine: &mut Engine, clock: &dyn Clock) {
        let (snapshot, cursor) = store.list_and_follow(&self.resource, Filter::default());
        let records = snapshot.table(&self.resource).into_iter().flat_map(|table| table.iter());
        let objects = records.filter_map(|record| {
            let key = Key::from_path(&self.resource, record.path()).ok()?;
            object(key, record)
        });
        engine.relist(&self.resource, objects.collect(), snapshot.revision(), clock.now());
        self.cursor = Some(cursor);
        self.ahead = None;
    }
}
