//! Measures of the work of requests, and scopes of watches.

use setpoint_api::RequestInfo;
use setpoint_authorization::SelectorRequirement;
use setpoint_fairness::{CollectionSize, ListRequest, RequestWork, WatchScope, WatchTracker};
use setpoint_store::Snapshot;

use crate::catalog::Catalogs;
use crate::query::QueryParams;

/// Watches from which on a write costs more than its own execution.
const WATCHES_MIN: u64 = 10;

/// Returns the measure of the work of a request.
pub(super) fn work(
    info: &RequestInfo<'_>,
    query: &str,
    (snapshot, catalogs): (&Snapshot, &Catalogs),
    watches: &WatchTracker,
) -> RequestWork {
    if info.is_resource && matches!(info.verb, "list" | "watch") {
        return list_work(info, &QueryParams::parse(query), (snapshot, catalogs));
    }
    RequestWork::of_write(info, || watches.interested(info, WATCHES_MIN))
}

fn list_work(
    info: &RequestInfo<'_>,
    query: &QueryParams,
    (snapshot, catalogs): (&Snapshot, &Catalogs),
) -> RequestWork {
    let request = ListRequest {
        is_watch: info.verb == "watch",
        names_one: !info.name.is_empty(),
        limit: query.number("limit").unwrap_or_default(),
        resource_version: query.get("resourceVersion"),
        resource_version_match: query.get("resourceVersionMatch"),
        is_continued: !query.get("continue").is_empty(),
        has_selector: !query.get("fieldSelector").is_empty() || !query.get("labelSelector").is_empty(),
        send_initial_events: query.flag("sendInitialEvents"),
    };
    let catalog = catalogs.of(snapshot);
    let resource_type = catalog.find(info.group, info.version, info.resource);
    let collection = resource_type.filter(|resource_type| !resource_type.is_virtual).map(|resource_type| {
        let table = snapshot.table(&resource_type.resource);
        table.map_or_else(CollectionSize::default, |table| CollectionSize {
            objects: table.len() as u64,
            bytes: table.bytes(),
        })
    });
    request.work(collection)
}

/// Returns the scope of a watch; `None` for the pods of one node, since a write concerns few of these watches.
pub(super) fn watch_scope(info: &RequestInfo<'_>, selectors: &[SelectorRequirement]) -> Option<WatchScope> {
    let is_of_node = |selector: &SelectorRequirement| {
        selector.key == "spec.nodeName"
            && selector.operator == "In"
            && selector.values.iter().any(|value| !value.is_empty())
    };
    let is_of_one_node = info.resource == "pods" && selectors.iter().any(is_of_node);
    (!is_of_one_node).then(|| WatchScope::of(info))
}
