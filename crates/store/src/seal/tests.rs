//! Tests of sealed writes.

use super::*;

/// Sealer with one key for all resources, which can be replaced.
#[derive(Default)]
struct OneKey(Mutex<Option<Arc<str>>>);

impl Sealer for OneKey {
    fn write_key(&self, _: &Resource) -> Option<Arc<str>> {
        self.0.lock().clone()
    }

    fn check_writable(&self, _: &Resource) -> Result<(), String> {
        Ok(())
    }

    fn seal(&self, _: &Context<'_>, _: &[u8]) -> Result<Option<SealedBytes>, String> {
        Ok(None)
    }

    fn open(&self, _: &Context<'_>, _: &SealedBytes) -> Result<Option<Vec<u8>>, OpenError> {
        Ok(None)
    }
}

fn sealing(key: Option<&str>) -> (Arc<OneKey>, Sealing) {
    let sealer = Arc::new(OneKey(Mutex::new(key.map(Arc::from))));
    (Arc::clone(&sealer), Sealing::new(sealer))
}

fn secrets() -> Resource {
    Resource::new("secrets").unwrap()
}

#[test]
fn records_read_with_another_key_are_stale() {
    let (_, sealing) = sealing(Some("k2"));
    sealing.record_stored(&secrets(), Revision(1), None);
    sealing.record_stored(&secrets(), Revision(2), Some("k1"));
    sealing.record_stored(&secrets(), Revision(3), Some("k2"));
    let stale: Vec<bool> = (1..=3).map(|n| sealing.is_stale(&secrets(), Revision(n))).collect();
    assert_eq!(stale, [true, true, false]);
}

#[test]
fn checkpoint_that_begins_before_a_rotation_leaves_records_stale() {
    let (sealer, sealing) = sealing(Some("k1"));
    sealing.record_write(&secrets(), Revision(0));
    let keys = sealing.begin_checkpoint([&secrets()].into_iter(), Revision(1));
    *sealer.0.lock() = Some("k2".into());
    sealing.finish_checkpoint(&keys, Revision(1));
    assert!(sealing.has_stale() && sealing.is_stale(&secrets(), Revision(1)));
    sealing.record_write(&secrets(), Revision(1));
    assert!(sealing.is_stale(&secrets(), Revision(1)) && !sealing.is_stale(&secrets(), Revision(2)));
    let keys = sealing.begin_checkpoint([&secrets()].into_iter(), Revision(2));
    sealing.finish_checkpoint(&keys, Revision(2));
    assert!(!sealing.has_stale());
}

#[test]
fn checkpoint_without_records_of_a_resource_ends_its_old_keys() {
    let (_, sealing) = sealing(Some("k2"));
    sealing.record_stored(&secrets(), Revision(1), Some("k1"));
    let keys = sealing.begin_checkpoint([].into_iter(), Revision(2));
    sealing.finish_checkpoint(&keys, Revision(2));
    assert!(!sealing.has_stale());
}

#[test]
fn sealing_that_is_turned_off_leaves_sealed_records_stale() {
    let (sealer, sealing) = sealing(Some("k1"));
    sealing.record_stored(&secrets(), Revision(1), Some("k1"));
    assert!(!sealing.has_stale());
    *sealer.0.lock() = None;
    assert!(sealing.has_stale() && sealing.is_stale(&secrets(), Revision(1)));
}

#[test]
fn contexts_of_different_writes_differ() {
    let resources = [Resource::new("a").unwrap(), Resource::new("ab").unwrap()];
    let context = |resource: usize, path, revision, tag| {
        Context { resource: &resources[resource], path, revision: Revision(revision), tag }.to_bytes()
    };
    let first = context(0, "bc", 1, 9);
    for other in
        [context(1, "c", 1, 9), context(0, "b", 1, 9), context(0, "bc", 2, 9), context(0, "bc", 1, 8)]
    {
        assert_ne!(first, other);
    }
}

#[test]
fn debug_output_of_sealed_bytes_has_no_bytes() {
    let sealed = SealedBytes { key: "k".into(), bytes: Bytes::from_static(b"cipher") };
    assert_eq!(format!("{sealed:?}"), "SealedBytes(k, 6 bytes)");
}
