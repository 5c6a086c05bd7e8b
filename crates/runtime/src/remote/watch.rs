//! Reflector of one resource: lists, then watches, and lists again when the watch is lost.
//!
//! Start at [`ResourceWatch::follow`].

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use setpoint_api::{Clock, Key, Revision, Value, json};
use setpoint_reconcile::{Object, ObservedChange};
use tokio::sync::mpsc;

use super::endpoint::Endpoint;
use super::{Report, arrived, meta};
use crate::client::{Client, ClientError, METADATA_LIST, METADATA_OBJECT, next_chunk};

/// Pause before a list is retried.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// Time without a watch event after which the watch is restarted. Bookmarks come every minute.
const IDLE_TIMEOUT: Duration = Duration::from_secs(180);

/// End of a watch.
enum WatchEnd {
    /// The connection or the watch ended: it can be resumed at the last revision.
    Interrupted,
    /// The revision is too old to resume from: the resource has to be listed again.
    Expired,
}

/// Reflector of one resource: lists it, watches it, and reports changes to the loop.
pub(super) struct ResourceWatch {
    pub client: Arc<Client>,
    pub clock: Arc<dyn Clock>,
    /// Time for a list, or for the start of a watch.
    pub timeout: Duration,
    pub reports: mpsc::Sender<Report>,
}

impl ResourceWatch {
    /// Follows a resource until the loop ends.
    #[expect(clippy::disallowed_methods, reason = "pauses between requests to a server that fails")]
    pub async fn follow(self, endpoint: Arc<Endpoint>) {
        let resource = &endpoint.resource;
        let path = endpoint.collection_path("");
        while !self.reports.is_closed() {
            if let Some((objects, revision)) = self.list(&path, &endpoint).await {
                let mut after = revision;
                let revision = Revision(revision);
                let listed = Report::Listed { resource: resource.clone(), objects, revision };
                if self.reports.send(listed).await.is_err() {
                    return;
                }
                while let Ok(WatchEnd::Interrupted) = self.watch(&path, &endpoint, &mut after).await {
                    tokio::time::sleep(RETRY_PAUSE).await;
                    if self.reports.is_closed() {
                        return;
                    }
                }
            }
            // Pause between failed attempts.
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    async fn list(&self, path: &str, endpoint: &Endpoint) -> Option<(Vec<Object>, u64)> {
        let accept = endpoint.is_metadata_only.then_some(METADATA_LIST);
        let response = self.client.get(path, accept);
        let (status, body) = tokio::time::timeout(self.timeout, response).await.ok()?.ok()?;
        if status.as_u16() == 404 {
            // The server does not serve the resource, so there are no objects.
            return Some((Vec::new(), 0));
        }
        let list = json::parse(&body).ok().filter(|_| status.is_success())?;
        let revision = meta(&list, "resourceVersion").parse().ok()?;
        let items = list.get("items").and_then(Value::as_list).unwrap_or_default();
        Some((items.iter().filter_map(|item| object(endpoint, item, &*self.clock)).collect(), revision))
    }

    /// Watches from `after`, which advances with the events.
    async fn watch(&self, path: &str, endpoint: &Endpoint, after: &mut u64) -> Result<WatchEnd, ClientError> {
        let path = format!("{path}?watch=1&allowWatchBookmarks=true&resourceVersion={after}");
        let accept = endpoint.is_metadata_only.then_some(METADATA_OBJECT);
        let response = self.client.send_accepting(Method::GET, &path, None, accept, Bytes::new());
        let Ok(Ok(response)) = tokio::time::timeout(self.timeout, response).await else {
            return Ok(WatchEnd::Interrupted);
        };
        if response.status().as_u16() == 410 || !response.status().is_success() {
            return Ok(WatchEnd::Expired);
        }
        let mut body = response.into_body();
        let mut line = Vec::new();
        loop {
            let Ok(Ok(Some(bytes))) = tokio::time::timeout(IDLE_TIMEOUT, next_chunk(&mut body)).await else {
                return Ok(WatchEnd::Interrupted);
            };
            for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
                line.extend_from_slice(piece);
                if line.last() != Some(&b'\n') {
                    continue;
                }
                let event = json::parse(&line).unwrap_or_default();
                line.clear();
                let item = event.get("object").cloned().unwrap_or_default();
                let kind = event.str_at(&["type"]);
                if kind == "ERROR" {
                    return Ok(WatchEnd::Expired);
                }
                let Ok(revision) = meta(&item, "resourceVersion").parse() else { continue };
                *after = revision;
                let report = report(kind, endpoint, &item, Revision(revision), &*self.clock);
                let Some(report) = report else { continue };
                if self.reports.send(report).await.is_err() {
                    return Ok(WatchEnd::Expired);
                }
            }
        }
    }
}

fn object(endpoint: &Endpoint, item: &Value, clock: &dyn Clock) -> Option<Object> {
    let revision = meta(item, "resourceVersion").parse().ok()?;
    let key = key(endpoint, item)?;
    Object::read(key, Revision(revision), arrived(clock), json::to_vec(item)).ok()
}

fn key(endpoint: &Endpoint, item: &Value) -> Option<Key> {
    endpoint.key(meta(item, "namespace"), meta(item, "name"))
}

/// Decodes a watch event; `None` if its object cannot be named.
fn report(
    kind: &str,
    endpoint: &Endpoint,
    item: &Value,
    revision: Revision,
    clock: &dyn Clock,
) -> Option<Report> {
    if kind == "BOOKMARK" {
        return Some(Report::Reached { resource: endpoint.resource.clone(), revision });
    }
    let after = if kind == "DELETED" { None } else { object(endpoint, item, clock) };
    Some(Report::Changed(ObservedChange { key: key(endpoint, item)?, revision, after, reconciler: None }))
}

#[cfg(test)]
mod tests {
    use setpoint_api::{ManualClock, Time, resource_types, value};

    use super::*;

    #[test]
    fn bookmark_advances_the_revision_of_a_resource() {
        let endpoint = Endpoint::built_in(resource_types::find("", "v1", "configmaps").unwrap());
        let bookmark = value!({"kind": "ConfigMap", "metadata": {"resourceVersion": "42"}});
        let decoded = report(
            "BOOKMARK",
            &endpoint,
            &bookmark,
            Revision(42),
            &ManualClock::new(Time::from_seconds(1_800_000_000)),
        );
        let Some(Report::Reached { resource, revision }) = decoded else {
            panic!("the bookmark is not decoded")
        };
        let mut engine =
            setpoint_reconcile::Engine::new(Vec::new(), setpoint_reconcile::WorldConfig::default());
        engine.reach_of(&resource, revision);
        assert_eq!(engine.world().revision_of(&endpoint.resource), Revision(42));
        assert_eq!(engine.world().revision(), Revision(0), "of others nothing is known");
    }

    #[test]
    fn watch_events_are_decoded_with_their_object() {
        let endpoint = Endpoint::built_in(resource_types::find("", "v1", "configmaps").unwrap());
        let metadata = value!({"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "7"});
        let item = value!({"metadata": (metadata), "data": {"x": "y"}});
        for (kind, stays) in [("ADDED", true), ("MODIFIED", true), ("DELETED", false)] {
            let decoded = report(
                kind,
                &endpoint,
                &item,
                Revision(7),
                &ManualClock::new(Time::from_seconds(1_800_000_000)),
            );
            let Some(Report::Changed(observed)) = decoded else { panic!("{kind} is not decoded") };
            assert_eq!((observed.after.is_some(), observed.key.name()), (stays, "a"), "{kind}");
        }
    }
}
