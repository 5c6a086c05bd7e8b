//! Memory per object, counted by [`Record::bytes`], and reads of packed objects.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use setpoint_api::{Key, Resource, Time};
use setpoint_store::{CommitCause, Draft, Precondition, Proposal, Record, Retention, Store};

const POD: &str = include_str!("fixtures/pod.json");
const EVENT: &str = include_str!("fixtures/event.json");
/// Pods of one ReplicaSet.
const REPLICAS: u64 = 200;
/// Enough pods for a table whose idle objects are packed.
const PODS: u64 = 8000;

const NOW: Time = Time::from_seconds(1_800_000_000);

/// Digits that differ from pod to pod: `hex(7, 3)` has 3 of them.
fn hex(seed: u64, length: usize) -> String {
    let word = |i: u64| (seed * 5 + i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31);
    let digits: String =
        (0..4).map(|i| format!("{:016x}", word(i).wrapping_mul(0xd6e8_feb8_6659_fd93))).collect();
    digits[..length].to_owned()
}

fn uid(seed: u64) -> String {
    let digits = hex(seed, 32);
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

fn fill(template: &str, number: u64) -> String {
    let set = number / REPLICAS;
    let (app, hash) = (format!("conv-{set}"), hex(set + 77, 10));
    let pod = format!("{app}-{hash}-{}", hex(number, 5));
    let time = format!("2026-11-18T06:{:02}:{:02}Z", number / 600 % 60, number / 10 % 60);
    let ip = format!("10.128.{}.{}", number / 250, number % 250);
    let [node, host] = [format!("node-{}", number % 1000), format!("172.18.{}.{}", number % 8, number % 250)];
    let values = [
        ("EVENT_NAME", format!("{pod}.{}", hex(number + 9, 16))),
        ("EVENT_UID", uid(number + 1_000_000)),
        ("POD_NAME", pod),
        ("POD_UID", uid(number)),
        ("POD_IP", ip),
        ("HOST_IP", host),
        ("NODE_NAME", node),
        ("TIME", time),
        ("CONTAINER_ID", hex(number + 2_000_000, 64)),
        ("OWNER_UID", uid(set + 3_000_000)),
        ("HASH", hash),
        ("APP", app),
    ];
    values.iter().fold(template.to_owned(), |text, (name, value)| text.replace(name, value))
}

fn put(store: &Store, resource: &str, number: u64, text: String, expires: Option<Time>) -> Key {
    let resource = Resource::new(resource).unwrap();
    let name = text.split("\"name\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let key = Key::namespaced(&resource, "shop", &name).unwrap();
    let hole = u32::try_from(text.find("\"resourceVersion\":\"").unwrap() + 19).unwrap();
    let draft =
        Draft::with_revision_at(text, hole).labels([("app", "web")]).fields([("spec.nodeName", "n1")]);
    let draft = match expires {
        Some(at) => draft.expires(at),
        None => draft,
    };
    let cause = CommitCause { user: format!("system:node:node-{}", number % 1000), ..CommitCause::default() };
    store.commit(Proposal::new(cause, NOW).put(key.clone(), Precondition::Absent, draft)).unwrap();
    key
}

fn values(store: &Store, resource: &str) -> BTreeMap<String, (Bytes, Bytes, CommitCause)> {
    let snapshot = store.snapshot();
    let table = snapshot.table(&Resource::new(resource).unwrap()).unwrap();
    let read = |record: &Record| (record.value(), record.body().bytes, record.cause());
    table.iter().map(|record| (record.path().to_owned(), read(record))).collect()
}

fn bytes_each(store: &Store, resource: &str) -> usize {
    let snapshot = store.snapshot();
    let table = snapshot.table(&Resource::new(resource).unwrap()).unwrap();
    table.iter().map(Record::bytes).sum::<usize>() / table.len()
}

#[test]
fn idle_pods_of_a_large_table_take_a_seventh_and_read_as_before() {
    let store = Store::in_memory(Retention::default());
    for number in 0..PODS {
        put(&store, "pods", number, fill(POD, number), None);
    }
    let (plain, before) = (bytes_each(&store, "pods"), values(&store, "pods"));
    store.run_maintenance(NOW.after(Duration::from_secs(1))).unwrap();
    assert_eq!(bytes_each(&store, "pods"), plain, "pods that have just changed are left alone");
    let held = store.snapshot();
    store.run_maintenance(NOW.after(Duration::from_secs(5))).unwrap();
    let packed = bytes_each(&store, "pods");
    assert!(packed <= 780, "{packed} of {plain} bytes per pod");
    assert!(before == values(&store, "pods"), "packed pods read as plain ones");
    let held = held.table(&Resource::new("pods").unwrap()).unwrap().iter().map(Record::bytes).sum::<usize>();
    assert_eq!(held / PODS as usize, packed, "older snapshots share the packed bytes");
}

#[test]
fn pods_of_a_small_table_are_not_packed() {
    let store = Store::in_memory(Retention::default());
    for number in 0..500 {
        put(&store, "pods", number, fill(POD, number), None);
    }
    let plain = bytes_each(&store, "pods");
    for seconds in [1, 5, 60] {
        store.run_maintenance(NOW.after(Duration::from_secs(seconds))).unwrap();
    }
    assert_eq!(bytes_each(&store, "pods"), plain);
}

#[test]
fn packed_pod_can_be_updated_and_deleted() {
    let store = Store::in_memory(Retention::default());
    let keys: Vec<Key> =
        (0..PODS).map(|number| put(&store, "pods", number, fill(POD, number), None)).collect();
    for seconds in [1, 5] {
        store.run_maintenance(NOW.after(Duration::from_secs(seconds))).unwrap();
    }
    let before = store.snapshot();
    let [changed, deleted] = [&keys[10], &keys[20]].map(|key| before.get(key).unwrap().clone());
    let body = changed.body();
    let draft = Draft::with_revision_at(body.bytes.clone(), body.revision_offset.unwrap());
    let proposal = Proposal::new(CommitCause::default(), NOW).put(keys[10].clone(), Precondition::Any, draft);
    let revision = store.commit(proposal).unwrap().revision;
    assert_eq!(store.snapshot().get(&keys[10]).unwrap().value(), changed.value_at(revision));
    let gone = store
        .commit(Proposal::new(CommitCause::default(), NOW).delete(keys[20].clone(), Precondition::Any))
        .unwrap();
    assert_eq!(gone.records[0].value(), deleted.value_at(gone.revision));
    let rewound = store.snapshot_at(before.revision()).unwrap();
    assert_eq!(rewound.get(&keys[10]).unwrap().value(), changed.value());
    assert_eq!(rewound.get(&keys[20]).unwrap().value(), deleted.value());
}

#[test]
fn event_takes_a_third_of_its_bytes() {
    let store = Store::in_memory(Retention::default());
    for number in 0..PODS {
        put(&store, "events", number, fill(EVENT, number), Some(NOW.after(Duration::from_secs(3600))));
    }
    let each = bytes_each(&store, "events");
    assert!(each <= 460, "{each} bytes per Event");
}
