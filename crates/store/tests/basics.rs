//! Basic semantics of the store, on a log in memory.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use setpoint_api::{Key, Resource, Revision, Time};
use setpoint_store::{
    CommitCause, CommitError, Draft, FailedPrecondition, Precondition, Proposal, ReadError, RejectReason,
    Retention, Store, WatchEventType, WatchFilter,
};

fn pods() -> Resource {
    Resource::new("pods").expect("a plain word")
}

fn key(path: &str) -> Key {
    Key::from_path(&pods(), path).expect("a plain path")
}

fn put(path: &str, precondition: Precondition, value: &str) -> Proposal {
    Proposal::new(CommitCause::default(), Time(1)).put(key(path), precondition, Draft::new(value.to_owned()))
}

fn store() -> Store {
    Store::in_memory(Retention::default())
}

#[test]
fn first_revision_is_one_and_revisions_are_consecutive() {
    let store = store();
    for n in 1..=5 {
        assert_eq!(store.commit(put("a/x", Precondition::Any, "v")).unwrap().revision, Revision(n));
    }
    assert_eq!(store.snapshot().revision(), Revision(5));
}

#[test]
fn conflict_contains_the_key_and_both_revisions() {
    let store = store();
    store.commit(put("a/x", Precondition::Absent, "1")).unwrap();
    let rejected = store.commit(put("a/x", Precondition::Revision(Revision(7)), "2")).unwrap_err();
    let CommitError::Rejected(RejectReason::Conflict(conflict)) = rejected else { panic!("{rejected}") };
    let expected = Precondition::Revision(Revision(7));
    assert_eq!(conflict, FailedPrecondition { key: key("a/x"), expected, actual: Some(Revision(1)) });
    assert_eq!(conflict.to_string(), "pods/a/x: expected revision 7, found revision 1");
    assert_eq!(store.snapshot().revision(), Revision(1), "a rejected commit takes no revision");
}

#[test]
fn commit_is_atomic() {
    let store = store();
    let nodes = Resource::new("nodes").unwrap();
    let node = Key::cluster(&nodes, "n1").unwrap();
    let both = |precondition| {
        Proposal::new(CommitCause::default(), Time(1))
            .put(key("a/x"), Precondition::Any, Draft::new("pod"))
            .put(node.clone(), precondition, Draft::new("node"))
    };
    assert!(store.commit(both(Precondition::Present)).is_err());
    assert!(store.snapshot().is_empty());
    let committed = store.commit(both(Precondition::Absent)).unwrap();
    let snapshot = store.snapshot();
    assert_eq!(snapshot.get(&key("a/x")).unwrap().revision(), committed.revision);
    assert_eq!(snapshot.get(&node).unwrap().revision(), committed.revision);
}

#[test]
fn two_keys_of_one_resource_in_a_commit_are_rejected() {
    let proposal = put("a/x", Precondition::Any, "1").put(key("a/y"), Precondition::Any, Draft::new("2"));
    let rejected = store().commit(proposal).unwrap_err();
    assert!(matches!(rejected, CommitError::Rejected(RejectReason::TwoOfOneResource { .. })), "{rejected}");
}

#[test]
fn guard_is_a_precondition_on_an_unchanged_key() {
    let store = store();
    let namespace = Key::cluster(&Resource::new("namespaces").unwrap(), "a").unwrap();
    let guarded = || put("a/x", Precondition::Absent, "1").guard(namespace.clone(), Precondition::Present);
    assert!(store.commit(guarded()).is_err());
    let make = Proposal::new(CommitCause::default(), Time(1)).put(
        namespace.clone(),
        Precondition::Absent,
        Draft::new("ns"),
    );
    store.commit(make).unwrap();
    assert!(store.commit(guarded()).is_ok());
}

#[test]
fn delete_of_a_missing_key_is_a_conflict() {
    let store = store();
    for precondition in
        [Precondition::Any, Precondition::Present, Precondition::Absent, Precondition::Revision(Revision(1))]
    {
        let rejected =
            store.commit(Proposal::new(CommitCause::default(), Time(1)).delete(key("a/x"), precondition));
        assert!(
            matches!(rejected, Err(CommitError::Rejected(RejectReason::Conflict(_)))),
            "{precondition:?}"
        );
    }
    assert_eq!(store.snapshot().revision(), Revision::ZERO);
}

#[test]
fn pages_of_one_snapshot_do_not_see_later_commits() {
    let store = store();
    for name in ["a/1", "a/2", "a/3", "b/1"] {
        store.commit(put(name, Precondition::Absent, "v")).unwrap();
    }
    let snapshot = store.snapshot();
    let table = snapshot.table(&pods()).unwrap();
    let first: Vec<&str> = table.range("a/", None).take(2).map(|r| r.path()).collect();
    store.commit(put("a/25", Precondition::Absent, "v")).unwrap();
    let rest: Vec<&str> = table.range("a/", Some(first[1])).map(|r| r.path()).collect();
    assert_eq!((first, rest), (vec!["a/1", "a/2"], vec!["a/3"]));
}

#[test]
fn past_revisions_are_readable_and_future_ones_are_not() {
    let store = store();
    store.commit(put("a/x", Precondition::Absent, "1")).unwrap();
    store.commit(put("a/x", Precondition::Present, "2")).unwrap();
    store
        .commit(Proposal::new(CommitCause::default(), Time(1)).delete(key("a/x"), Precondition::Any))
        .unwrap();
    let value = |revision| store.get_at(&key("a/x"), Revision(revision)).unwrap().map(|r| r.value());
    assert_eq!(value(1).as_deref(), Some(&b"1"[..]));
    assert_eq!(value(2).as_deref(), Some(&b"2"[..]));
    assert_eq!(value(3), None);
    assert_eq!(store.snapshot_at(Revision(2)).unwrap().get(&key("a/x")).unwrap().value(), "2");
    assert!(store.snapshot_at(Revision(0)).unwrap().is_empty());
    assert!(matches!(store.snapshot_at(Revision(4)), Err(ReadError::Future { .. })));
}

#[test]
fn entering_and_leaving_a_selector_are_added_and_deleted() {
    let store = store();
    let labelled = |app: &str| {
        let draft = Draft::with_revision_at("{}", 1).labels([("app", app)]);
        Proposal::new(CommitCause::default(), Time(1)).put(key("a/x"), Precondition::Any, draft)
    };
    let select = std::sync::Arc::new(|record: &setpoint_store::Record| {
        record.attributes().label("app") == Some("web")
    });
    let mut cursor = store.watch(&pods(), WatchFilter { selector: Some(select), ..WatchFilter::default() });
    for app in ["db", "web", "web", "db", "web"] {
        store.commit(labelled(app)).unwrap();
    }
    store
        .commit(Proposal::new(CommitCause::default(), Time(1)).delete(key("a/x"), Precondition::Any))
        .unwrap();
    let seen = std::iter::from_fn(|| cursor.try_next().unwrap());
    let seen: Vec<_> =
        seen.map(|event| (event.event_type, String::from_utf8(event.value().to_vec()).unwrap())).collect();
    let expected = [
        (WatchEventType::Added, "{2}"),
        (WatchEventType::Modified, "{3}"),
        (WatchEventType::Deleted, "{4}"),
        (WatchEventType::Added, "{5}"),
        (WatchEventType::Deleted, "{6}"),
    ];
    assert_eq!(seen, expected.map(|(change, value)| (change, value.to_owned())));
}

#[test]
fn fork_is_independent() {
    let store = store();
    store.commit(put("a/x", Precondition::Absent, "1")).unwrap();
    store.commit(put("a/x", Precondition::Present, "2")).unwrap();
    let (now, then) = (store.fork(), store.fork_at(Revision(1)).unwrap());
    now.commit(put("a/y", Precondition::Absent, "fork")).unwrap();
    assert_eq!(then.commit(put("a/z", Precondition::Absent, "past")).unwrap().revision, Revision(2));
    assert_eq!(then.snapshot().get(&key("a/x")).unwrap().value(), "1");
    assert_eq!(store.snapshot().len(), 1);
    assert_eq!(store.snapshot().revision(), Revision(2));
}

#[test]
fn keys_expire_by_ordinary_commits() {
    let store = store();
    let expiring = Draft::new("e").expires(Time(100));
    store
        .commit(Proposal::new(CommitCause::default(), Time(1)).put(key("a/x"), Precondition::Any, expiring))
        .unwrap();
    let mut cursor = store.watch(&pods(), WatchFilter::default());
    assert_eq!((store.next_expiry(), store.expire(Time(99)).unwrap()), (Some(Time(100)), 0));
    assert_eq!(store.expire(Time(100)).unwrap(), 1);
    let event = cursor.try_next().unwrap().unwrap();
    assert_eq!((event.event_type, event.revision()), (WatchEventType::Deleted, Revision(2)));
    assert_eq!(event.after.cause().reconciler, "expiry");
    assert_eq!(store.next_expiry(), None);
}

#[test]
fn cause_is_stored_with_puts_and_deletes() {
    let store = store();
    let cause = CommitCause {
        user: "ann".into(),
        manager: "kubectl".into(),
        reconciler: "deployment".into(),
        seen: Revision(3),
        paths: vec!["spec.replicas".into()],
    };
    let proposal = |cause: &CommitCause| Proposal::new(cause.clone(), Time(5));
    store.commit(proposal(&cause).put(key("a/x"), Precondition::Any, Draft::new("v"))).unwrap();
    assert_eq!(store.snapshot().get(&key("a/x")).unwrap().cause(), cause);
    let gone = store.commit(proposal(&cause).delete(key("a/x"), Precondition::Any)).unwrap();
    assert!(gone.records[0].is_tombstone());
    assert_eq!((gone.records[0].cause(), gone.records[0].time()), (cause, Time(5)));
}

#[test]
fn writers_proceed_while_readers_use_the_log() {
    let store = store();
    let (done, finished) = std::sync::mpsc::channel();
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (store, done) = (store.clone(), done.clone());
            std::thread::spawn(move || {
                for n in 0..5000 {
                    store.commit(put(&format!("w{writer}/{n}"), Precondition::Absent, "v")).unwrap();
                }
                done.send(()).unwrap();
            })
        })
        .collect();
    drop(done);
    // A writer that finds the writer lock taken sleeps; releasing the lock must wake it.
    let (mut seen, mut looks) = (Revision::ZERO, 0);
    while finished.try_recv() != Err(std::sync::mpsc::TryRecvError::Disconnected) {
        let revision = store.stat().revision;
        looks = if revision == seen { looks + 1 } else { 0 };
        seen = revision;
        assert!(looks < 50_000_000, "no writer proceeds at {seen}");
    }
    for writer in writers {
        writer.join().unwrap();
    }
    assert_eq!(store.snapshot().revision(), Revision(20_000));
}

#[test]
fn chained_commits_have_own_revisions_and_become_visible_together() {
    let store = store();
    let mut watch = store.watch(&pods(), WatchFilter::default());
    store.commit(put("a/1", Precondition::Absent, "0").after(put("a/2", Precondition::Absent, "0"))).unwrap();
    let revisions = |store: &Store| {
        let snapshot = store.snapshot();
        ["a/1", "a/2"].map(|path| snapshot.get(&key(path)).unwrap().revision().0)
    };
    assert_eq!(revisions(&store), [2, 1]);
    // A watch can resume between them, and no part of the rejected chain exists.
    assert_eq!(watch.try_next().unwrap().unwrap().revision(), Revision(1));
    let mut later = store.watch_after(&pods(), WatchFilter::default(), Revision(1)).unwrap();
    assert_eq!(later.try_next().unwrap().unwrap().revision(), Revision(2));
    let rejected = put("a/1", Precondition::Absent, "1").after(put("a/2", Precondition::Any, "1"));
    assert!(matches!(store.commit(rejected), Err(CommitError::Rejected(RejectReason::Conflict(_)))));
    assert_eq!(revisions(&store), [2, 1]);
    // Four writers and a reader: every snapshot contains both objects, whose revisions differ by one.
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let both =
                            put("a/1", Precondition::Any, "v").after(put("a/2", Precondition::Any, "v"));
                        assert_eq!(store.commit(both).unwrap().records[0].path(), "a/1");
                    }
                })
            })
            .collect();
        while !writers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            let [second, first] = revisions(&store);
            assert_eq!(second, first + 1);
        }
    });
    assert_eq!(store.snapshot().revision(), Revision(2 + 2 * 4 * 200));
}
