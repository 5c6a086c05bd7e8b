//! Estimated cost of requests, by their heads.
//!
//! Most of what the pipeline does is `O(n log n)` in the bytes of the request and of the object it is about, and a list
//! visits every object of its collection. So a few numbers identify a request that may block a reactor: the bytes of its body
//! (which `http/handler.rs` checks), those of the stored object, and the objects in the collection. Expressions and
//! schemas of users take longer than their bytes suggest: they are large until they are compiled, and then if their
//! estimated cost is.

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, Method};
use setpoint_api::ResourceType;
use setpoint_api::kind_schema::KindSchema;
use setpoint_store::{Record, Snapshot};

use crate::catalog::Catalog;
use crate::codec;
use crate::exchange::{Cost, LARGE_BYTES, Request};
use crate::route::{Route, Target};
use crate::webhooks::config::WebhookRegistry;

/// Bytes of a query from which on its selectors are large.
const LARGE_QUERY_BYTES: usize = 1024;
/// Objects in a collection from which on a list of their stored bytes is large.
const LARGE_COUNT: usize = 5_000;
/// Bytes of a collection from which on it is large: they may be copied to be shared with other lists.
const LARGE_COLLECTION_BYTES: u64 = 4 * 1024 * 1024;
/// [`LARGE_COUNT`] where each object is parsed and encoded in another form, or deleted.
const LARGE_COUNT_ENCODED: usize = 50;
/// Definitions from which on discovery documents are large.
const LARGE_DEFINITIONS: usize = 50;
/// Groups whose objects contain schemas and expressions: a short one can take seconds to compile.
const COMPILED_GROUPS: [&str; 2] = ["apiextensions.k8s.io", "admissionregistration.k8s.io"];

/// State that a cost depends on.
pub(super) struct State<'a> {
    pub snapshot: &'a Snapshot,
    pub catalog: &'a Catalog,
    pub webhooks: &'a WebhookRegistry,
}

/// Estimates the cost of a request whose body is small.
pub(super) fn estimate(request: &Request, route: &Route, state: &State<'_>) -> Cost {
    let is_large = match route {
        Route::Objects(target) => is_large(request, target, state),
        Route::Document(parts) => match parts.first().map(String::as_str) {
            None | Some("api" | "apis") => state.catalog.definitions() >= LARGE_DEFINITIONS,
            Some(first) => is_generated(first),
        },
        Route::Usage(_) => true,
        Route::NotFound => false,
    };
    if is_large { Cost::Large } else { Cost::Small }
}

/// `true` for documents that are generated when they are requested.
fn is_generated(first: &str) -> bool {
    matches!(first, "openapi" | "metrics" | "setpoint" | "debug")
}

/// `true` if a write runs schemas or expressions of users that may take milliseconds.
fn runs_costly_rules(method: &Method, resource_type: &ResourceType, state: &State<'_>) -> bool {
    if matches!(*method, Method::GET | Method::HEAD) {
        return false;
    }
    let validates = *method != Method::DELETE;
    validates && (COMPILED_GROUPS.contains(&&*resource_type.info.group) || resource_type.rules.is_costly())
        || state.catalog.has_costly_policies(state.snapshot)
        || state.webhooks.is_costly(state.snapshot)
}

/// `true` if a read of objects that are not stored as they are served must compile their schema first.
fn compiles_schema(resource_type: &ResourceType) -> bool {
    matches!(&resource_type.schema, KindSchema::Custom(schema) if !schema.is_compiled())
}

fn is_large(request: &Request, target: &Target, state: &State<'_>) -> bool {
    let resource_type = &target.resource_type;
    if runs_costly_rules(&request.method, resource_type, state) {
        return true;
    }
    if resource_type.is_virtual || (request.method == Method::POST && target.name.is_empty()) {
        return false;
    }
    let is_plain = request.method == Method::GET
        && !resource_type.is_converted()
        && takes_stored_bytes(&request.headers);
    if target.name.is_empty() {
        if reads_history(&request.query) {
            return true;
        }
        let Some(table) = state.snapshot.table(&resource_type.resource) else { return false };
        if is_plain && request.query.len() < LARGE_QUERY_BYTES {
            return table.len() >= LARGE_COUNT || table.bytes() >= LARGE_COLLECTION_BYTES;
        }
        let bytes = || table.range("", None).map(Record::value_len).sum::<usize>();
        return table.len() >= LARGE_COUNT_ENCODED
            || bytes() >= LARGE_BYTES
            || (!table.is_empty() && compiles_schema(resource_type));
    }
    if is_plain {
        return false;
    }
    if is_json_patch(&request.headers) {
        // A few operations of this patch can copy megabytes.
        return true;
    }
    let Ok(key) = resource_type.key(&target.namespace, &target.name) else { return false };
    state.snapshot.get(&key).is_some_and(|record| {
        record.value_len() >= LARGE_BYTES
            || (compiles_schema(resource_type) && !codec::is_current(resource_type, record))
    })
}

/// `true` if a list is about a past state, which may have to be rebuilt from disk.
fn reads_history(query: &str) -> bool {
    let names_revision = query.contains("resourceVersion=") && !query.contains("resourceVersion=0");
    query.contains("continue=") || (names_revision && !query.contains("watch="))
}

/// `true` if the client takes objects as they are stored.
fn takes_stored_bytes(headers: &HeaderMap) -> bool {
    let Some(accept) = headers.get(ACCEPT).map(|accept| accept.as_bytes()) else { return true };
    let has = |word: &[u8]| accept.windows(word.len()).any(|window| window == word);
    let has_other = has(b"as=") || has(b"yaml") || has(b"protobuf");
    !has_other && (accept.starts_with(b"application/json") || accept.starts_with(b"*/*"))
}

/// `true` if the body is a JSON patch.
fn is_json_patch(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|content| content.as_bytes().starts_with(b"application/json-patch"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_json_is_sent_as_it_is_stored() {
        let takes = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            takes_stored_bytes(&headers)
        };
        assert!(takes("application/json") && takes("application/json, */*") && takes("*/*"));
        assert!(takes_stored_bytes(&HeaderMap::new()));
        assert!(!takes("application/json;as=Table;v=v1;g=meta.k8s.io,application/json"));
        assert!(!takes("application/json;q=0.1,application/yaml"));
        assert!(!takes("application/vnd.kubernetes.protobuf,application/json") && !takes("application/yaml"));
    }
}
