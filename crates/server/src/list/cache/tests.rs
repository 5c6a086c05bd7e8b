//! Tests of the cache alone. `tests/api/lists.rs` shows that cached responses equal uncached ones.

use setpoint_api::printing::table::TableOptions;
use setpoint_api::resource_types;

use super::*;
use crate::list::encoding::ItemEncoder;
use crate::media::{Form, Representation};
use crate::query::QueryParams;
use crate::route::{Route, route};

fn key(labels: &str) -> ViewKey {
    let Route::Objects(target) = route("/api/v1/configmaps", crate::catalog::Catalog::built_in()) else {
        panic!("no objects")
    };
    let query = QueryParams::parse(&format!("labelSelector={labels}"));
    ViewKey::new(&target, &query, (Form::Json, Representation::Whole), TableOptions::default())
}

fn items() -> Arc<Items> {
    let resource_type = resource_types::find("", "v1", "configmaps").unwrap();
    let form = (Form::Json, Representation::Whole);
    Items::new(Vec::new(), ItemEncoder::new(resource_type, form, TableOptions::default(), Time::EPOCH), None)
}

fn at(changed: u64) -> Version {
    Version { changed: Revision(changed), second: None }
}

/// Requests a list, and caches it if it should be. Returns `true` if it was cached.
fn request(cache: &Arc<ListCache>, key: &ViewKey, version: Version) -> bool {
    match cache.find(key, version) {
        Found::Items(_) => true,
        Found::Requested => {
            cache.insert(key, version, items(), 0);
            false
        }
        Found::Nothing => false,
    }
}

#[test]
fn second_request_of_a_list_caches_it_until_its_resource_changes() {
    let (cache, key) = (Arc::new(ListCache::default()), key("a"));
    let requests = [3, 3, 3, 3, 4, 4, 4].map(|changed| request(&cache, &key, at(changed)));
    assert_eq!(requests, [false, false, true, true, false, false, true]);
}

#[test]
fn requests_that_race_share_the_items_of_the_first() {
    let (cache, key) = (Arc::new(ListCache::default()), key("a"));
    assert!(!request(&cache, &key, at(1)));
    let (first, second) = (items(), items());
    assert!(Arc::ptr_eq(&cache.insert(&key, at(1), Arc::clone(&first), 0), &first));
    assert!(Arc::ptr_eq(&cache.insert(&key, at(1), Arc::clone(&second), 0), &first));
    assert!(Arc::ptr_eq(&cache.insert(&key, at(2), Arc::clone(&second), 0), &second), "not of that state");
}

#[test]
fn least_recently_used_list_is_evicted() {
    let cache = Arc::new(ListCache::default());
    let keys: Vec<ViewKey> = (0..LISTS_MAX).map(|n| key(&format!("a={n}"))).collect();
    for key in &keys {
        assert!(!request(&cache, key, at(1)) && !request(&cache, key, at(1)));
    }
    assert!(request(&cache, &keys[0], at(1)));
    assert!(!request(&cache, &key("another"), at(1)));
    assert!(request(&cache, &keys[0], at(1)), "used since");
    assert!(!request(&cache, &keys[1], at(1)), "the oldest");
    assert_eq!(cache.state.lock().entries.len(), LISTS_MAX);
}

#[test]
fn older_lists_are_evicted_for_a_newer_one() {
    let cache = Arc::new(ListCache { budget: ChunkBudget::new(100), state: Mutex::default() });
    for n in 0..2 {
        request(&cache, &key(&format!("a={n}")), at(1));
        request(&cache, &key(&format!("a={n}")), at(1));
    }
    let kept = crate::encoded_chunk::EncodedChunk::new(vec![0; 60].into(), cache.budget());
    let newer = key("newer");
    assert!(!request(&cache, &newer, at(1)));
    cache.insert(&newer, at(1), items(), 50);
    let cached = cache.state.lock().entries.iter().filter(|entry| entry.items.is_some()).count();
    assert_eq!(cached, 1, "the others were dropped, although chunks are still being sent");
    drop(kept);
    assert!(cache.budget().has_room(100));
}

#[tokio::test(start_paused = true)]
#[expect(clippy::disallowed_methods, reason = "the clock of the runtime is paused")]
async fn unused_lists_are_dropped_and_the_sweeper_ends() {
    let (cache, key) = (Arc::new(ListCache::default()), key("a"));
    assert!(!request(&cache, &key, at(1)) && !request(&cache, &key, at(1)));
    tokio::time::sleep(IDLE_TIME + IDLE_TIME / 2).await;
    assert!(request(&cache, &key, at(1)), "it was used before the first sweep");
    tokio::time::sleep(2 * IDLE_TIME).await;
    assert!(cache.state.lock().entries.is_empty());
    tokio::time::sleep(IDLE_TIME).await;
    assert!(!cache.state.lock().has_sweeper);
}
