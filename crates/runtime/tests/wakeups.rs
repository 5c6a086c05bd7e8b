//! Model check of the loop's wakeups: every interleaving of two writers and the loop with a few preemptions.
//!
//! The bell and the feeds are the runtime's own files, compiled over the checker's primitives. The store is a model
//! of the real one: a commit is published under a lock, and the wakers of its lane are taken and woken after that.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::{Arc, Mutex};
use loom::thread;
use setpoint_api::Revision;

use self::doorbell::Doorbell;
use self::resource_feed::{Changes, Drained, ResourceFeed};

#[path = "../src/in_process/doorbell.rs"]
mod doorbell;
#[path = "../src/in_process/resource_feed.rs"]
mod resource_feed;

/// The checker's primitives with the interface of those that the runtime uses.
mod sync {
    use std::ops::{Deref, DerefMut};
    use std::time::Duration;

    #[derive(Default)]
    pub(super) struct Mutex<T>(loom::sync::Mutex<T>);
    pub(super) struct Guard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);
    #[derive(Default)]
    pub(super) struct Condvar(loom::sync::Condvar);

    impl<T> Mutex<T> {
        pub(super) fn lock(&self) -> Guard<'_, T> {
            Guard(Some(self.0.lock().unwrap()))
        }
    }

    impl Condvar {
        pub(super) fn notify_one(&self) {
            self.0.notify_one();
        }

        /// Waits without timeout: a lost wakeup is a deadlock, which the checker reports.
        pub(super) fn wait_for<T>(&self, guard: &mut Guard<'_, T>, _: Duration) {
            let inner = guard.0.take().unwrap();
            guard.0 = Some(self.0.wait(inner).unwrap());
        }
    }

    impl<T> Deref for Guard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_ref().unwrap()
        }
    }

    impl<T> DerefMut for Guard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().unwrap()
        }
    }
}

/// State that the store publishes atomically: the newest revision, the changes of each lane, and their wakers.
#[derive(Default)]
struct Published {
    newest: u64,
    changes: [Vec<u64>; 2],
    wakers: [Option<Waker>; 2],
}

#[derive(Clone, Default)]
struct Store {
    published: Arc<Mutex<Published>>,
    /// Held while a commit is published and its wakers are woken, as the writer of the real store is.
    writer: Arc<Mutex<()>>,
    /// Commits whose wakers have been woken.
    completed: std::sync::Arc<AtomicUsize>,
}

impl Store {
    fn commit(&self, lane: usize) {
        let _writer = self.writer.lock().unwrap();
        {
            let mut published = self.published.lock().unwrap();
            published.newest += 1;
            let revision = published.newest;
            published.changes[lane].push(revision);
        }
        let waker = self.published.lock().unwrap().wakers[lane].take();
        if let Some(waker) = waker {
            waker.wake();
        }
        self.completed.fetch_add(1, Ordering::SeqCst);
    }
}

struct Cursor {
    store: Store,
    lane: usize,
    next: usize,
}

impl Changes for Cursor {
    type Change = Revision;
    type Lost = ();

    fn poll_change(&mut self, context: &mut Context<'_>) -> Poll<Result<Revision, ()>> {
        let mut published = self.store.published.lock().unwrap();
        let Some(revision) = published.changes[self.lane].get(self.next).copied() else {
            published.wakers[self.lane] = Some(context.waker().clone());
            return Poll::Pending;
        };
        self.next += 1;
        Poll::Ready(Ok(Revision(revision)))
    }

    fn revision(change: &Revision) -> Revision {
        *change
    }
}

/// The bell, with a flag that can be read without a step of the checker.
#[derive(Default)]
struct Bell {
    bell: std::sync::Arc<Doorbell>,
    is_rung: AtomicBool,
}

impl Wake for Bell {
    fn wake(self: std::sync::Arc<Bell>) {
        self.is_rung.store(true, Ordering::SeqCst);
        self.bell.ring();
    }
}

/// Runs the loop until it has taken in `commits` changes, and returns `true`. With `may_sleep_unarmed` it sleeps
/// although a feed has no registered waker, as an earlier version did: it returns `false` if all commits are made and
/// the bell has not rung.
fn run_loop(store: &Store, commits: usize, may_sleep_unarmed: bool) -> bool {
    let ringing = std::sync::Arc::new(Bell::default());
    let bell = &ringing.bell;
    let waker = Waker::from(std::sync::Arc::clone(&ringing));
    let mut context = Context::from_waker(&waker);
    let mut lanes = [0, 1].map(|lane| ResourceFeed::new(Cursor { store: store.clone(), lane, next: 0 }));
    let mut taken = Vec::new();
    loop {
        ringing.is_rung.store(false, Ordering::SeqCst);
        bell.clear();
        let newest = Revision(store.published.lock().unwrap().newest);
        let mut is_armed = true;
        for lane in &mut lanes {
            let drained = lane.drain(newest, &mut context, |revision| {
                assert!(revision <= newest, "a change from beyond the snapshot");
                taken.push(revision);
            });
            is_armed &= drained == Drained::Armed;
        }
        if taken.len() == commits {
            return true;
        }
        if is_armed {
            bell.wait(std::time::Duration::MAX);
        } else if may_sleep_unarmed {
            // Not a real wait: the checker could only report that as a deadlock, from which a test cannot recover.
            while !ringing.is_rung.load(Ordering::SeqCst) {
                if store.completed.load(Ordering::SeqCst) == commits {
                    return false;
                }
                thread::yield_now();
            }
        }
    }
}

/// Preemptions per execution. The earlier protocol fails within this bound, which keeps the number of interleavings
/// small.
const PREEMPTIONS_MAX: usize = 3;

/// Two writers and the loop; each writer commits to the lanes that it is given. Returns `true` if no interleaving loses a
/// wakeup.
fn model(writers: [&'static [usize]; 2], may_sleep_unarmed: bool) -> bool {
    let keeps_all = std::sync::Arc::new(AtomicBool::new(true));
    let result = std::sync::Arc::clone(&keeps_all);
    let mut checker = loom::model::Builder::new();
    checker.preemption_bound = Some(PREEMPTIONS_MAX);
    checker.check(move || {
        let store = Store::default();
        let threads = writers.map(|lanes| {
            let store = store.clone();
            thread::spawn(move || lanes.iter().for_each(|lane| store.commit(*lane)))
        });
        if !run_loop(&store, writers.iter().map(|lanes| lanes.len()).sum(), may_sleep_unarmed) {
            result.store(false, Ordering::SeqCst);
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    keeps_all.load(Ordering::SeqCst)
}

#[test]
fn no_interleaving_of_two_writers_in_one_lane_loses_a_wakeup() {
    assert!(model([&[0], &[0]], false));
}

#[test]
fn no_interleaving_of_two_writers_in_two_lanes_loses_a_wakeup() {
    assert!(model([&[0], &[1]], false));
}

#[test]
fn sleeping_without_rechecking_for_changes_loses_a_wakeup() {
    assert!(!model([&[0], &[0]], true));
}
