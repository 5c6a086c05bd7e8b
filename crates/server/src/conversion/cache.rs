//! Cache of converted objects, oldest evicted first.

use std::collections::{BTreeMap, VecDeque};

use super::{ConversionKey, ObjectText};

/// Bytes of the cached objects.
const CACHE_BYTES_MAX: usize = 8 << 20;
/// Bytes of an entry beside the object.
const ENTRY_BYTES: usize = 256;

/// Converted objects by the digest of their source. Keys contain the revision of the definition, so entries of a
/// changed definition are not found again.
#[derive(Debug, Default)]
pub(super) struct ConversionCache {
    objects: BTreeMap<ConversionKey, ObjectText>,
    order: VecDeque<ConversionKey>,
    bytes: usize,
}

impl ConversionCache {
    pub(super) fn get(&self, key: &ConversionKey) -> Option<ObjectText> {
        self.objects.get(key).cloned()
    }

    pub(super) fn insert(&mut self, key: ConversionKey, object: ObjectText) {
        let size = object.bytes.len() + ENTRY_BYTES;
        if size > CACHE_BYTES_MAX || self.objects.contains_key(&key) {
            return;
        }
        self.bytes += size;
        self.order.push_back(key.clone());
        self.objects.insert(key, object);
        while self.bytes > CACHE_BYTES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            let object = self.objects.remove(&oldest);
            self.bytes -= object.map_or(0, |object| object.bytes.len() + ENTRY_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::Revision;

    use super::*;

    #[test]
    fn oldest_objects_are_evicted_within_the_bound() {
        let key =
            |at: u8| ConversionKey { definition: Revision(1), api_version: "v1".into(), digest: [at; 32] };
        let text = |length| ObjectText { bytes: vec![0; length].into(), revision_offset: 0 };
        let mut cache = ConversionCache::default();
        for at in 0..20 {
            cache.insert(key(at), text(1 << 20));
            assert!(cache.bytes <= CACHE_BYTES_MAX);
        }
        assert!(cache.get(&key(0)).is_none() && cache.get(&key(19)).is_some());
        assert_eq!(cache.objects.len(), cache.order.len());
        cache.insert(key(100), text(CACHE_BYTES_MAX));
        assert!(cache.get(&key(100)).is_none(), "too large to be cached");
    }
}
