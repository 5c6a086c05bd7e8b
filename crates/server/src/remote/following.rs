//! Following one resource: a list, then a watch, and a list again when the watch is lost.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use setpoint_api::{Key, Resource, Revision, Value, json};
use setpoint_reconcile::{Object, Observed};
use setpoint_store::Clock;
use tokio::sync::mpsc;

use super::{Report, arrived, meta};
use crate::client::{Client, ClientError, part};
use crate::served::{self, Served};

/// How long to wait before a list is tried again.
const PAUSE: Duration = Duration::from_millis(500);

/// Why a watch ended.
enum Ended {
    /// The connection broke, or the server ended it: it can be taken up again.
    Paused,
    /// What happened meanwhile is not known any more.
    Lost,
}

/// Follows a resource until nobody listens.
pub(super) async fn follow(
    client: Arc<Client>,
    resource: &'static Resource,
    clock: Arc<dyn Clock>,
    reports: mpsc::Sender<Report>,
) {
    let Some(served) = served::stored_form(resource) else { return };
    let path = collection(served);
    while !reports.is_closed() {
        let Some((objects, revision)) = list(&client, &path, served, &*clock).await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let mut after = revision;
        let listed = Report::Listed { resource: resource.clone(), objects, revision: Revision(revision) };
        if reports.send(listed).await.is_err() {
            return;
        }
        while let Ok(Ended::Paused) = watch(&client, &path, served, &mut after, &*clock, &reports).await {
            tokio::time::sleep(PAUSE).await;
            if reports.is_closed() {
                return;
            }
        }
    }
}

/// The path of all objects of a resource.
fn collection(served: &Served) -> String {
    let (group, version, plural) = (served.info.group, served.info.version, served.info.plural);
    if group.is_empty() {
        format!("/api/{version}/{plural}")
    } else {
        format!("/apis/{group}/{version}/{plural}")
    }
}

async fn list(client: &Client, path: &str, served: &Served, clock: &dyn Clock) -> Option<(Vec<Object>, u64)> {
    let (status, body) = client.ask(Method::GET, path, None, Bytes::new()).await.ok()?;
    if status.as_u16() == 404 {
        // A server that does not know the kind has none of it.
        return Some((Vec::new(), 0));
    }
    let list = json::parse(&body).ok().filter(|_| status.is_success())?;
    let revision = meta(&list, "resourceVersion").parse().ok()?;
    let items = list.get("items").and_then(Value::as_list).unwrap_or_default();
    Some((items.iter().filter_map(|item| object(served, item, clock)).collect(), revision))
}

fn object(served: &Served, item: &Value, clock: &dyn Clock) -> Option<Object> {
    let revision = meta(item, "resourceVersion").parse().ok()?;
    let key = key(served, item)?;
    Object::read(key, Revision(revision), arrived(clock), json::to_vec(item).into()).ok()
}

fn key(served: &Served, item: &Value) -> Option<Key> {
    served.key(meta(item, "namespace"), meta(item, "name")).ok()
}

/// Watches from `after`, which moves on with what was seen.
async fn watch(
    client: &Client,
    path: &str,
    served: &Served,
    after: &mut u64,
    clock: &dyn Clock,
    reports: &mpsc::Sender<Report>,
) -> Result<Ended, ClientError> {
    let path = format!("{path}?watch=1&allowWatchBookmarks=true&resourceVersion={after}");
    let Ok(response) = client.send(Method::GET, &path, None, Bytes::new()).await else {
        return Ok(Ended::Paused);
    };
    if response.status().as_u16() == 410 || !response.status().is_success() {
        return Ok(Ended::Lost);
    }
    let mut body = response.into_body();
    let mut line = Vec::new();
    loop {
        let Ok(Some(bytes)) = part(&mut body).await else { return Ok(Ended::Paused) };
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
                return Ok(Ended::Lost);
            }
            let Ok(revision) = meta(&item, "resourceVersion").parse() else { continue };
            *after = revision;
            let Some(key) = (kind != "BOOKMARK").then(|| key(served, &item)).flatten() else { continue };
            let after = if kind == "DELETED" { None } else { object(served, &item, clock) };
            let observed = Observed { key, revision: Revision(revision), after, by: None };
            if reports.send(Report::Changed(observed)).await.is_err() {
                return Ok(Ended::Lost);
            }
        }
    }
}
