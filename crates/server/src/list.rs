//! Lists, in pages of one snapshot.

mod token;

use std::time::Duration;

use setpoint_api::printing::table::ListMeta;
use setpoint_api::protobuf::ListWriter;
use setpoint_api::status::Status;
use setpoint_api::{Revision, Time, Value, json};
use setpoint_store::disk::is_transient;
use setpoint_store::log::LogError;
use setpoint_store::{ReadError, Record, Select, Snapshot, Store};

use self::token::Token;
use crate::exchange::{Answer, Part};
use crate::media::{Form, View};
use crate::query::Query;
use crate::route::Target;
use crate::select::Selection;
use crate::{answers, stored};

/// How long the rest of a list can be asked for.
const PAGE_AGE_MAX: Duration = Duration::from_secs(5 * 60);

/// One page.
pub struct Page {
    /// The objects.
    pub records: Vec<Record>,
    /// The revision they are shown at.
    pub revision: Revision,
    /// Where the next page starts; empty if there is none.
    pub continue_token: String,
    /// How many objects are left, where that is known.
    pub remaining: Option<usize>,
}

/// Reads the page that a request asks for.
///
/// # Errors
/// If its options are wrong, or its snapshot is gone.
pub fn page(store: &Store, target: &Target, query: &Query, now: Time) -> Result<Page, Status> {
    let selection = Selection::parse(target, query)?;
    let limit = query.number("limit").map_err(|error| Status::bad_request(error.to_string()))?;
    query.number("timeoutSeconds").map_err(|error| Status::bad_request(error.to_string()))?;
    let mut limit = usize::try_from(limit.unwrap_or(0)).unwrap_or(0);
    if query.get("resourceVersion") == "0" && query.get("continue").is_empty() {
        // Who takes any state is given all of it: so did servers that had it at hand, and clients count on it.
        limit = 0;
    }
    let (snapshot, after) = match query.get("continue") {
        "" => (fresh(store, query)?, None),
        text => {
            let token = Token::parse(text)
                .map_err(|error| Status::bad_request(format!("invalid continue token: {error}")))?;
            if !matches!(query.get("resourceVersion"), "" | "0") {
                let message = "specifying resource version is not allowed when using continue";
                return Err(Status::bad_request(message));
            }
            (rest(store, &token, now)?, Some(token.after))
        }
    };
    Ok(collect(&snapshot, target, &selection, limit, after.as_deref(), now))
}

/// The state that the rest of a list is about.
fn rest(store: &Store, token: &Token, now: Time) -> Result<Snapshot, Status> {
    let Some(revision) = token.revision else { return Ok(store.snapshot()) };
    let gone = || Status::continue_expired(Some(&Token { revision: None, ..token.clone() }.to_text()));
    if now.since(token.issued) > PAGE_AGE_MAX {
        return Err(gone());
    }
    store.at(revision).map_err(|_| gone())
}

/// The revision that a request names; zero if it names none.
///
/// # Errors
/// If what stands there is none.
pub fn revision(query: &Query) -> Result<Revision, Status> {
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

/// The state that a list without a token is about.
fn fresh(store: &Store, query: &Query) -> Result<Snapshot, Status> {
    let (asked, newest) = (revision(query)?, store.snapshot());
    if asked.0 == 0 {
        return Ok(newest);
    }
    if asked > newest.revision() {
        let retry_after_seconds = i32::from(query.get("resourceVersionMatch") != "Exact");
        let newest = newest.revision().0;
        return Err(Status::too_large_resource_version(asked.0, newest, retry_after_seconds));
    }
    let exact = query.get("resourceVersionMatch") == "Exact"
        || (query.get("resourceVersionMatch").is_empty() && !query.get("limit").is_empty());
    if !exact {
        return Ok(newest);
    }
    store.at(asked).map_err(|error| match error {
        ReadError::Compacted(compacted) => Status::too_old_resource_version(asked.0, compacted.floor.0),
        // The files of the past cannot be opened for now, for want of descriptors.
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
    let mut page = Page { records: Vec::new(), revision, continue_token: String::new(), remaining: None };
    let Some(table) = snapshot.table(&target.served.resource) else { return page };
    let prefix = if target.namespace.is_empty() { String::new() } else { format!("{}/", target.namespace) };
    let everything = selection.is_everything();
    let mut records = table.range(&prefix, after);
    let selected = |record: &&Record| everything || selection.selects(record);
    while let Some(record) = records.find(selected) {
        page.records.push(record.clone());
        if limit > 0 && page.records.len() == limit {
            // Whether what is left is selected too, the next page tells.
            let rest = if everything { records.count() } else { usize::from(records.next().is_some()) };
            if rest > 0 {
                let after = record.path().to_owned();
                page.continue_token = Token { revision: Some(revision), issued: now, after }.to_text();
                page.remaining = everything.then_some(rest);
            }
            break;
        }
    }
    page
}

/// Writes a page as a list, or as what is to be shown of one.
///
/// # Errors
/// If the options of the view are wrong.
pub fn answer(
    target: &Target,
    page: Page,
    (form, view): (Form, View),
    query: &Query,
    now: Time,
) -> Result<Answer, Status> {
    if view != View::Whole {
        let objects: Vec<Value> = page.records.iter().map(stored::object).collect();
        let revision = page.revision.to_string();
        let meta = ListMeta {
            resource_version: &revision,
            continue_token: &page.continue_token,
            remaining_item_count: page.remaining.and_then(|count| i64::try_from(count).ok()),
        };
        return answers::view_of_list(target.served, &objects, meta, view, query, now);
    }
    Ok(whole(target, page, form))
}

fn whole(target: &Target, page: Page, form: Form) -> Answer {
    let served = target.served;
    let kind = format!("{}List", served.info.kind);
    if form == Form::Protobuf {
        return protobuf_answer(target, &page, &kind);
    }
    let (api_version, meta) = (served.api_version(), meta(&page));
    let head =
        format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{meta},\"items\":[");
    // The stored bytes are only referred to: they are put together piece by piece while they are sent.
    let mut parts = Vec::with_capacity(2 * page.records.len() + 2);
    parts.push(Part::from(head));
    for (i, record) in page.records.into_iter().enumerate() {
        // The objects of a list do not repeat their type.
        if served.is_converted() {
            parts.push(Part::from(if i > 0 { "," } else { "" }));
            parts.push(json::to_vec(&without_type(target, &record)).into());
        } else {
            parts.push(Part::from(if i > 0 { ",{" } else { "{" }));
            parts.push(Part::stored(record, served.type_prefix.len()));
        }
    }
    parts.push(Part::from("]}\n"));
    answers::json_bytes(200, parts)
}

/// An object as it is served in a list.
fn without_type(target: &Target, record: &Record) -> Value {
    let mut value = target.served.to_served(stored::object(record));
    for field in ["kind", "apiVersion"] {
        value.make_map().remove(field);
    }
    value
}

fn meta(page: &Page) -> String {
    let mut meta = format!("{{\"resourceVersion\":\"{}\"", page.revision);
    if !page.continue_token.is_empty() {
        meta.push_str(&format!(",\"continue\":\"{}\"", page.continue_token));
    }
    if let Some(remaining) = page.remaining {
        meta.push_str(&format!(",\"remainingItemCount\":{remaining}"));
    }
    meta.push('}');
    meta
}

fn protobuf_answer(target: &Target, page: &Page, kind: &str) -> Answer {
    let served = target.served;
    let meta = json::parse(meta(page).as_bytes()).unwrap_or(Value::Null);
    let messages: Vec<_> = page.records.iter().map(|record| stored::message(served, record)).collect();
    let meta = setpoint_api::schema::builtin().meta("ListMeta").map(|of| stored::encoded(&meta, of));
    let items_len = messages.iter().map(|message| ListWriter::item_len(message.len())).sum();
    let mut out = Vec::with_capacity(items_len + 256);
    let meta = meta.unwrap_or_default();
    let mut list = ListWriter::start(&served.api_version(), kind, &meta, items_len, &mut out);
    messages.iter().for_each(|message| list.item(message, &mut out));
    list.end(&mut out);
    let mut answer = answers::json_bytes(200, vec![out.into()]);
    let kind = http::HeaderValue::from_static("application/vnd.kubernetes.protobuf");
    answer.headers.insert(http::header::CONTENT_TYPE, kind);
    answer
}
