//! Classification of requests, with a cache per thread.
//!
//! A request is identified by its user, groups, verb, resource, subresource and namespace, or by its path. A cache is for
//! one configuration: its first use with another one empties it. It takes no lock, and allocates only for requests that
//! it does not have.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use setpoint_api::{Identity, RequestInfo};
use setpoint_fairness::{Arrival, RequestSubject, RequestWork, flow_hash};

use super::Fairness;
use super::objects::CompiledConfiguration;

/// Entries per thread; each is replaced by another request with the same place.
const ENTRIES: usize = 256;
/// Bytes of a key that is cached.
const KEY_BYTES_MAX: usize = 1024;

thread_local! {
    static CACHE: RefCell<Option<Cache>> = const { RefCell::new(None) };
}

/// Classification of a request.
pub(super) struct Classified {
    /// Position of the FlowSchema.
    pub schema: usize,
    flow: u64,
    subject: Arc<RequestSubject>,
}

struct Cache {
    compiled: Arc<CompiledConfiguration>,
    entries: Vec<Option<(Box<[u8]>, Classified)>>,
    /// Key of the current request.
    key: Vec<u8>,
}

/// Classifies a request by the configuration in force, and calls `use_it` with the result.
pub(super) fn classify<T>(
    fairness: &Fairness,
    user: &Identity,
    info: &RequestInfo<'_>,
    use_it: impl FnOnce(&Classified, &Arc<CompiledConfiguration>) -> T,
) -> T {
    CACHE.with_borrow_mut(|cache| {
        let generation = fairness.generation.load(Ordering::Acquire);
        let cache = match cache {
            Some(cache) if cache.compiled.generation() == generation => cache,
            _ => {
                let compiled = Arc::clone(&fairness.compiled.read());
                let entries = std::iter::repeat_with(|| None).take(ENTRIES).collect();
                cache.insert(Cache { compiled, entries, key: Vec::new() })
            }
        };
        let Cache { compiled, entries, key } = cache;
        write_key(key, user, info);
        if key.len() > KEY_BYTES_MAX {
            *key = Vec::new();
            return use_it(&Classified::new(fairness, compiled, user, info), compiled);
        }
        let entry = &mut entries[place(key)];
        let is_known = entry.as_ref().is_some_and(|(known, _)| **known == **key);
        if !is_known {
            *entry = Some((key.as_slice().into(), Classified::new(fairness, compiled, user, info)));
        }
        let (_, classified) = entry.as_ref().expect("the entry was set");
        use_it(classified, compiled)
    })
}

/// Writes what determines the classification, each part with its length, so that different requests have different keys.
fn write_key(key: &mut Vec<u8>, user: &Identity, info: &RequestInfo<'_>) {
    key.clear();
    let mut write = |part: &str| {
        key.extend_from_slice(&(part.len() as u64).to_le_bytes()[..4]);
        key.extend_from_slice(part.as_bytes());
    };
    let place = if info.is_resource { info.namespace } else { info.path };
    let kind = if info.is_resource { "r" } else { "p" };
    let parts =
        [kind, &user.user, info.verb, info.group, info.version, info.resource, info.subresource, place];
    parts.into_iter().for_each(&mut write);
    user.groups.iter().for_each(|group| write(group));
}

/// Place of a key among the entries. Clients that choose colliding names only evict each other.
fn place(key: &[u8]) -> usize {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = key.len() as u64;
    let (words, rest) = key.as_chunks::<8>();
    let mut mix = |word: u64| hash = (hash.rotate_left(5) ^ word).wrapping_mul(MULTIPLIER);
    words.iter().for_each(|word| mix(u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(u64::from_le_bytes(last));
    (hash >> 32) as usize % ENTRIES
}

impl Classified {
    fn new(
        fairness: &Fairness,
        compiled: &CompiledConfiguration,
        user: &Identity,
        info: &RequestInfo<'_>,
    ) -> Classified {
        let position = compiled.configuration().classify(user, info);
        let schema = &compiled.schemas()[position].schema;
        let flow = schema.flow(user, info);
        let api_version = match (info.group, info.version) {
            ("", version) => version.into(),
            (group, version) => format!("{group}/{version}").into(),
        };
        let subject = RequestSubject {
            user: user.user.as_str().into(),
            flow: flow.into(),
            verb: info.verb.into(),
            api_version,
            resource: info.resource.into(),
            subresource: info.subresource.into(),
            namespace: info.namespace.into(),
        };
        let flow = flow_hash(fairness.seed, &schema.name, flow);
        Classified { schema: position, flow, subject: Arc::new(subject) }
    }

    /// Returns the request as its level sees it.
    pub fn arrival<'a>(
        &'a self,
        compiled: &CompiledConfiguration,
        info: &RequestInfo<'a>,
        work: RequestWork,
    ) -> Arrival<'a> {
        Arrival {
            generation: compiled.generation(),
            schema: compiled.schemas()[self.schema].position,
            flow: self.flow,
            work,
            is_watch: info.verb == "watch",
            subject: Some(&self.subject),
            path: info.path,
            name: info.name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_in_every_attribute() {
        let info = RequestInfo {
            is_resource: true,
            verb: "get",
            resource: "pods",
            namespace: "a",
            ..Default::default()
        };
        let key = |user: &str, groups: &[&str], info: RequestInfo<'_>| {
            let mut key = Vec::new();
            let groups = groups.iter().map(|group| (*group).to_owned()).collect();
            write_key(&mut key, &Identity::new(user, groups), &info);
            key
        };
        let keys = [
            key("ann", &["g"], info),
            key("bob", &["g"], info),
            key("ann", &["g", "h"], info),
            key("ann", &["gh"], info),
            key("ann", &["g"], RequestInfo { verb: "list", ..info }),
            key("ann", &["g"], RequestInfo { group: "apps", ..info }),
            key("ann", &["g"], RequestInfo { resource: "nodes", ..info }),
            key("ann", &["g"], RequestInfo { subresource: "status", ..info }),
            key("ann", &["g"], RequestInfo { namespace: "b", ..info }),
            key("ann", &["g"], RequestInfo { is_resource: false, path: "a", ..info }),
        ];
        let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
        assert_eq!(key("ann", &["g"], RequestInfo { name: "p", path: "/x", ..info }), keys[0]);
        let places: std::collections::BTreeSet<_> = keys.iter().map(|key| place(key)).collect();
        assert!(places.len() > 5, "{places:?}");
    }
}
