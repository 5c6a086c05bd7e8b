//! List requests: pages of one snapshot, and their responses.
//!
//! [`respond`] is the entry. A whole list of the newest state goes through the [`ListCache`].

mod cache;
mod converted;
mod encoding;
mod items;
mod token;

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::header::CONTENT_TYPE;
use setpoint_api::printing::table::TableOptions;
use setpoint_api::status::Status;
use setpoint_api::{Revision, Time, Value};
use setpoint_store::disk::is_transient;
use setpoint_store::log::LogError;
use setpoint_store::{ReadError, Record, RecordSelector, Snapshot, Store};

pub use self::cache::ListCache;
use self::cache::{Found, LIST_BYTES_MAX, Version};
pub(crate) use self::converted::selected_page;
use self::encoding::{CHUNK_BYTES, ItemEncoder};
use self::items::Items;
use self::token::ContinueToken;
use crate::exchange::{BodyPart, Payload, Response};
use crate::media::{Form, Representation};
use crate::query::QueryParams;
use crate::route::Target;
use crate::select::{Selection, ViewKey};
use crate::{codec, responses};

/// Lifetime of a continue token.
const PAGE_AGE_MAX: Duration = Duration::from_secs(5 * 60);

/// Objects of a list that is encoded at once, if they have at most [`CHUNK_BYTES`] in all. Its length is then known, and
/// no worker is needed.
const WHOLE_ITEMS_MAX: usize = 50;

/// One page.
pub struct Page {
    /// Objects of the page.
    pub records: Vec<Record>,
    /// Metadata of the page.
    pub meta: PageMeta,
}

/// Metadata of a page, which its response shows beside the objects.
#[derive(Clone, Debug)]
pub struct PageMeta {
    /// Revision that the objects are shown at.
    pub revision: Revision,
    /// Start of the next page; empty if there is none.
    pub continue_token: String,
    /// Number of objects after this page, where that is known.
    pub remaining: Option<usize>,
}

/// A list request, its options read.
struct ListRequest {
    selection: Selection,
    /// Objects of a page; zero for all.
    limit: usize,
    snapshot: Snapshot,
    /// `true` if the snapshot is the newest of its store.
    is_newest: bool,
    /// Path after which the page starts.
    after: Option<String>,
}

impl ListRequest {
    fn parse(store: &Store, target: &Target, query: &QueryParams, now: Time) -> Result<ListRequest, Status> {
        let selection = Selection::parse(target, query)?;
        let limit = query.number("limit").map_err(|error| Status::bad_request(error.to_string()))?;
        query.number("timeoutSeconds").map_err(|error| Status::bad_request(error.to_string()))?;
        let mut limit = usize::try_from(limit.unwrap_or(0)).unwrap_or(0);
        if query.get("resourceVersion") == "0" && query.get("continue").is_empty() {
            // Upstream serves such lists from its watch cache, which ignores the limit, and clients rely on that.
            limit = 0;
        }
        let ((snapshot, is_newest), after) = match query.get("continue") {
            "" => (requested_snapshot(store, query)?, None),
            text => {
                let token = ContinueToken::parse(text)
                    .map_err(|error| Status::bad_request(format!("invalid continue token: {error}")))?;
                if !matches!(query.get("resourceVersion"), "" | "0") {
                    let message = "specifying resource version is not allowed when using continue";
                    return Err(Status::bad_request(message));
                }
                ((continued_snapshot(store, &token, now)?, false), Some(token.after))
            }
        };
        Ok(ListRequest { selection, limit, snapshot, is_newest, after })
    }

    fn collect(&self, store: &Store, target: &Target, now: Time) -> Page {
        let page = collect(&self.snapshot, target, &self.selection, self.limit, self.after.as_deref(), now);
        if !page.meta.continue_token.is_empty() && self.after.is_none() {
            store.pin(&self.snapshot, now);
        }
        page
    }

    /// Returns the state of the resource that a cached response may show; `None` if the response cannot be cached: it
    /// is one page of several, about the past, or cheap.
    fn cached_version(&self, target: &Target, view: Representation, now: Time) -> Option<Version> {
        let table = self.snapshot.table(&target.resource_type.resource)?;
        let is_whole = self.after.is_none() && (self.limit == 0 || self.limit >= table.len());
        let is_cheap = table.len() <= WHOLE_ITEMS_MAX && table.bytes() <= CHUNK_BYTES as u64;
        let second = view.is_table().then(|| now.whole(Duration::from_secs(1)));
        (self.is_newest && is_whole && !is_cheap).then_some(Version { changed: table.changed(), second })
    }
}

/// Responds to a list request in the form and view that the client accepts.
///
/// # Errors
/// If the options are invalid, or the snapshot has expired.
pub fn respond(
    (store, cache): (&Store, &Arc<ListCache>),
    target: &Target,
    query: &QueryParams,
    media: (Form, Representation),
    now: Time,
) -> Result<Response, Status> {
    let request = ListRequest::parse(store, target, query, now)?;
    let table = table_options(query, media.1)?;
    let version = request.cached_version(target, media.1, now);
    let version = version.filter(|_| is_encoded_by_item(target, media));
    let (Some(version), false) = (version, matches!(media.1, Representation::Metadata(_))) else {
        return answer(target, request.collect(store, target, now), media, query, now);
    };
    let key = ViewKey::new(target, query, media, table);
    let revision = request.snapshot.revision();
    let meta = PageMeta { revision, continue_token: String::new(), remaining: None };
    let encoder = ItemEncoder::new(&target.resource_type, media, table, now);
    let media_type = encoder.media_type();
    let items = match cache.find(&key, version) {
        Found::Items(items) => items,
        Found::Nothing => return answer(target, request.collect(store, target, now), media, query, now),
        Found::Requested => {
            let page = request.collect(store, target, now);
            let bytes = page.records.iter().map(Record::value_len).sum::<usize>();
            if page.records.is_empty() || bytes > LIST_BYTES_MAX {
                return answer(target, page, media, query, now);
            }
            let items = Items::new(page.records, encoder, Some(cache.budget()));
            cache.insert(&key, version, items, bytes)
        }
    };
    Ok(encoded_answer(media_type, items.body(meta)))
}

/// Returns the snapshot of a continue token.
fn continued_snapshot(store: &Store, token: &ContinueToken, now: Time) -> Result<Snapshot, Status> {
    let Some(revision) = token.revision else { return Ok(store.snapshot()) };
    let gone =
        || Status::continue_expired(Some(&ContinueToken { revision: None, ..token.clone() }.to_text()));
    if now.since(token.issued) > PAGE_AGE_MAX {
        return Err(gone());
    }
    store.snapshot_at(revision).map_err(|error| match error {
        ReadError::Busy => retry_later(&error),
        _ => gone(),
    })
}

/// 429 for a read that may succeed a moment later.
fn retry_later(error: &ReadError) -> Status {
    Status::too_many_requests(error.to_string(), 1)
}

/// Parses `resourceVersion`; zero if it is absent.
///
/// # Errors
/// If it is not a number.
pub fn revision(query: &QueryParams) -> Result<Revision, Status> {
    let text = query.get("resourceVersion");
    if text.is_empty() {
        return Ok(Revision(0));
    }
    let why = match text.parse::<u64>() {
        Ok(revision) => return Ok(Revision(revision)),
        Err(_) if text.bytes().all(|byte| byte.is_ascii_digit()) => "value out of range",
        Err(_) => "invalid syntax",
    };
    Err(Status::bad_request(format!(
        "invalid resource version: resourceVersion: Invalid value: {text:?}: \
         strconv.ParseUint: parsing {text:?}: {why}"
    )))
}

/// Returns the snapshot of a list without a continue token, and `true` if it is the newest.
fn requested_snapshot(store: &Store, query: &QueryParams) -> Result<(Snapshot, bool), Status> {
    let (requested, newest) = (revision(query)?, store.snapshot());
    if requested.0 == 0 {
        return Ok((newest, true));
    }
    if requested > newest.revision() {
        let retry_after_seconds = i32::from(query.get("resourceVersionMatch") != "Exact");
        let newest = newest.revision().0;
        return Err(Status::too_large_resource_version(requested.0, newest, retry_after_seconds));
    }
    let exact = query.get("resourceVersionMatch") == "Exact"
        || (query.get("resourceVersionMatch").is_empty() && !query.get("limit").is_empty());
    if !exact {
        return Ok((newest, true));
    }
    store.snapshot_at(requested).map(|past| (past, false)).map_err(|error| match error {
        ReadError::Compacted(compacted) => Status::too_old_resource_version(requested.0, compacted.floor.0),
        ReadError::Busy => retry_later(&error),
        // The files of past revisions cannot be opened, for lack of file descriptors.
        ReadError::Log(LogError::Io { source, .. }) if is_transient(&source) => {
            Status::too_many_requests(source.to_string(), 1)
        }
        other => Status::internal_error(other),
    })
}

fn collect(
    snapshot: &Snapshot,
    target: &Target,
    selection: &Selection,
    limit: usize,
    after: Option<&str>,
    now: Time,
) -> Page {
    let revision = snapshot.revision();
    let meta = PageMeta { revision, continue_token: String::new(), remaining: None };
    let mut page = Page { records: Vec::new(), meta };
    let Some(table) = snapshot.table(&target.resource_type.resource) else { return page };
    let prefix = if target.namespace.is_empty() { String::new() } else { format!("{}/", target.namespace) };
    let everything = selection.is_everything();
    let served = selection.served_fields();
    let mut records = table.range(&prefix, after);
    let selected = |record: &&Record| {
        everything || (selection.matches(record) && served.is_none_or(|fields| fields.matches(record)))
    };
    while let Some(record) = records.find(selected) {
        page.records.push(record.clone());
        if limit > 0 && page.records.len() == limit {
            // With selectors the number of remaining objects is unknown; the next page may be empty.
            let rest = if everything { records.count() } else { usize::from(records.next().is_some()) };
            if rest > 0 {
                let after = record.path().to_owned();
                page.meta.continue_token =
                    ContinueToken { revision: Some(revision), issued: now, after }.to_text();
                page.meta.remaining = everything.then_some(rest);
            }
            break;
        }
    }
    page
}

/// Reads the options of a table; the defaults for other views.
fn table_options(query: &QueryParams, view: Representation) -> Result<TableOptions, Status> {
    match view {
        Representation::Table(version) => responses::table_options(query, version),
        _ => Ok(TableOptions::default()),
    }
}

/// `true` if a list in this form is encoded item by item. Few kinds have rows that depend on the whole list, and hardly
/// any client requests tables as YAML.
fn is_encoded_by_item(target: &Target, (form, view): (Form, Representation)) -> bool {
    view == Representation::Whole
        || (form != Form::Yaml && target.resource_type.table_kind().has_independent_rows())
}

/// Responds with a page, in the form and view that the client accepts.
///
/// # Errors
/// If the options of the view are invalid.
pub fn answer(
    target: &Target,
    page: Page,
    (form, view): (Form, Representation),
    query: &QueryParams,
    now: Time,
) -> Result<Response, Status> {
    let resource_type = &target.resource_type;
    let table = table_options(query, view)?;
    match (view, form) {
        (Representation::Metadata(_), _) => Err(responses::mismatch(resource_type, true)),
        (Representation::Whole, Form::Json) if !resource_type.is_converted() => {
            Ok(match stored_bytes(target, &page) {
                Some(response) => response,
                None => encoded_page(page, ItemEncoder::new(resource_type, (form, view), table, now)),
            })
        }
        _ if !is_encoded_by_item(target, (form, view)) => {
            let objects: Vec<Value> = page.records.iter().map(codec::object).collect();
            let revision = page.meta.revision.to_string();
            let meta = page.meta.to_list_meta(&revision);
            responses::view_of_list(resource_type, &objects, meta, view, query, now)
        }
        _ => Ok(encoded_page(page, ItemEncoder::new(resource_type, (form, view), table, now))),
    }
}

/// Responds with a page that is encoded item by item.
fn encoded_page(Page { records, meta }: Page, encoder: ItemEncoder) -> Response {
    let bytes = || records.iter().map(Record::value_len).sum::<usize>();
    let is_short = records.len() <= WHOLE_ITEMS_MAX && bytes() <= CHUNK_BYTES;
    let media_type = encoder.media_type();
    let mut body = Items::new(records, encoder, None).body(meta);
    if is_short && let Payload::Chunked(chunks) = &mut body {
        body = Payload::Whole(std::iter::from_fn(|| chunks.next_chunk()).collect());
    }
    encoded_answer(media_type, body)
}

fn encoded_answer(media_type: HeaderValue, body: Payload) -> Response {
    let mut response = responses::json_bytes(200, Vec::new());
    response.headers.insert(CONTENT_TYPE, media_type);
    response.body = body;
    response
}

/// Responds with a page of objects as they are stored: their bytes are only referred to, and written piece by piece
/// while they are sent. `None` if any of them is packed: unpacked together they may take much more memory.
fn stored_bytes(target: &Target, page: &Page) -> Option<Response> {
    let resource_type = &target.resource_type;
    let encoder = ItemEncoder::new(
        resource_type,
        (Form::Json, Representation::Whole),
        TableOptions::default(),
        Time::EPOCH,
    );
    let count = page.records.len();
    let mut parts = Vec::with_capacity(2 * count + 2);
    parts.push(BodyPart::from(encoder.head(&page.meta, count, 0)));
    for (i, record) in page.records.iter().enumerate() {
        // List items do not repeat their type.
        parts.push(BodyPart::from(if i > 0 { ",{" } else { "{" }));
        parts.push(BodyPart::Stored(record.plain_value(resource_type.type_prefix.len())?));
    }
    parts.push(BodyPart::from(encoder.tail(&page.meta, count)));
    Some(responses::json_bytes(200, parts))
}
