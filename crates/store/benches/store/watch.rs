//! Watch benchmarks.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use setpoint_api::{Key, Resource, Time};
use setpoint_store::{CommitCause, Cursor, Draft, Precondition, Proposal, Retention, Store, WatchFilter};

use crate::meter::{Report, measure, micros_per};

fn store() -> Store {
    Store::in_memory(Retention { hot_bytes: 1 << 30, ..Retention::default() })
}

fn commit(store: &Store, name: &str, node: &str) {
    let key = Key::namespaced(&Resource::new("pods").unwrap(), "default", name).unwrap();
    let draft = Draft::new(vec![b'v'; 1024]).fields([("spec.nodeName", node)]);
    store.commit(Proposal::new(CommitCause::default(), Time(1)).put(key, Precondition::Any, draft)).unwrap();
}

pub fn a_thousand_cursors(report: &mut Report) {
    const CURSORS: u64 = 1_000;
    const EVENTS: u64 = 10_000;
    let store = store();
    let pods = Resource::new("pods").unwrap();
    let mut cursors: Vec<Cursor> = (0..CURSORS).map(|_| store.watch(&pods, WatchFilter::default())).collect();
    let mut delivered = 0;
    let mut spent = std::time::Duration::ZERO;
    // In rounds, so that cursors stay close to the head, as they do in a server.
    for round in 0..100 {
        for n in 0..EVENTS / 100 {
            commit(&store, &format!("p{}", n % 50), &format!("n{round}"));
        }
        let read = |cursor: &mut Cursor| std::iter::from_fn(|| cursor.try_next().unwrap()).count() as u64;
        let (count, took) = measure(|| cursors.iter_mut().map(read).sum::<u64>());
        delivered += count;
        spent += took.cpu;
    }
    assert_eq!(delivered, CURSORS * EVENTS);
    let each = micros_per(spent, delivered);
    report.line(
        "1,000 cursors, 10,000 events each",
        &format!("{each:.3} µs per delivered event"),
        "≤ 0.5 µs",
    );
}

/// Waker that records the cursor to poll.
struct Woken {
    number: usize,
    list: Arc<parking_lot::Mutex<Vec<usize>>>,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.list.lock().push(self.number);
    }
}

pub fn five_thousand_values(report: &mut Report) {
    const CURSORS: usize = 5_000;
    const EVENTS: u64 = 200_000;
    let store = store();
    let pods = Resource::new("pods").unwrap();
    let list = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let mut cursors: Vec<(Cursor, Waker)> = (0..CURSORS)
        .map(|number| {
            let field = Some(("spec.nodeName".to_owned(), format!("n{number}")));
            let cursor = store.watch(&pods, WatchFilter { field, ..WatchFilter::default() });
            (cursor, Waker::from(Arc::new(Woken { number, list: Arc::clone(&list) })))
        })
        .collect();
    for (cursor, waker) in &mut cursors {
        assert!(cursor.poll_next(&mut Context::from_waker(waker)).is_pending());
    }
    let names: Vec<(String, String)> =
        (0..EVENTS).map(|n| (format!("p{n}"), format!("n{}", n as usize * 7919 % CURSORS))).collect();
    let ((), without) = measure(|| {
        let bare = self::store();
        names.iter().for_each(|(name, node)| commit(&bare, name, node));
    });
    let mut delivered = 0;
    let ((), with) = measure(|| {
        for (name, node) in &names {
            commit(&store, name, node);
            let woken = std::mem::take(&mut *list.lock());
            for number in woken {
                let (cursor, waker) = &mut cursors[number];
                while let Poll::Ready(event) = cursor.poll_next(&mut Context::from_waker(waker)) {
                    event.unwrap();
                    delivered += 1;
                }
            }
        }
    });
    assert_eq!(delivered, EVENTS, "each event wakes exactly one cursor");
    let each = micros_per(with.cpu, EVENTS);
    let commit_alone = micros_per(without.cpu, EVENTS);
    let measured = format!("{each:.2} µs per event in all ({commit_alone:.2} without cursors)");
    report.line("5,000 cursors, each on its own field value", &measured, "≤ 10 µs");
}
