//! Mistakes that the store once made, each with the test that would have found it.

use setpoint_api::{Key, Resource, Revision, Time};
use setpoint_store::commit::Proposal;
use setpoint_store::{Cause, Draft, Expect, Retention, Store};

fn key(path: &str) -> Key {
    let pods = Resource::new("pods").expect("a plain word");
    Key::from_path(&pods, path).expect("a plain path")
}

fn put(path: &str, value: &str) -> Proposal {
    Proposal::new(Cause::default(), Time(1)).put(key(path), Expect::Any, Draft::new(value.to_owned()))
}

fn delete(path: &str) -> Proposal {
    Proposal::new(Cause::default(), Time(1)).delete(key(path), Expect::Any)
}

#[test]
fn the_past_of_a_key_goes_back_beyond_its_deletion() {
    let store = Store::in_memory(Retention::default());
    for proposal in [put("a/x", "1"), delete("a/x"), put("a/x", "3"), delete("a/x"), put("a/y", "5")] {
        store.commit(proposal).unwrap();
    }
    let at = |store: &Store, revision| store.get_at(&key("a/x"), Revision(revision)).unwrap();
    for newest in 5..9 {
        for revision in 0..=newest {
            let whole = store.at(Revision(revision)).unwrap().get(&key("a/x")).cloned();
            let one = at(&store, revision);
            assert_eq!(one.map(|r| r.value()), whole.map(|r| r.value()), "at {revision}, newest {newest}");
        }
        store.commit(if newest % 2 == 1 { put("a/x", "again") } else { delete("a/x") }).unwrap();
    }
    assert_eq!(at(&store, 1).unwrap().value_bytes(), b"1");
    assert_eq!(at(&store, 3).unwrap().value_bytes(), b"3");
}
