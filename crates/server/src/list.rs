//! Lists, in pages of one snapshot.

mod encoding;
mod token;

use std::time::Duration;

use setpoint_api::printing::table::{ListMeta, TableOptions, has_independent_rows};
use setpoint_api::status::Status;
use setpoint_api::{Revision, Time, Value};
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
    let page = collect(&snapshot, target, &selection, limit, after.as_deref(), now);
    if !page.continue_token.is_empty() && after.is_none() {
        store.pin(&snapshot, now);
    }
    Ok(page)
}

/// The state that the rest of a list is about.
fn rest(store: &Store, token: &Token, now: Time) -> Result<Snapshot, Status> {
    let Some(revision) = token.revision else { return Ok(store.snapshot()) };
    let gone = || Status::continue_expired(Some(&Token { revision: None, ..token.clone() }.to_text()));
    if now.since(token.issued) > PAGE_AGE_MAX {
        return Err(gone());
    }
    store.at(revision).map_err(|error| match error {
        ReadError::Busy => busy(&error),
        _ => gone(),
    })
}

/// 429 for a read that may succeed a moment later.
fn busy(error: &ReadError) -> Status {
    Status::too_many_requests(error.to_string(), 1)
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
        ReadError::Busy => busy(&error),
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

/// Answers with a page, in the form and view that the client wants.
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
    let served = target.served;
    let table = match view {
        View::Table(version) => answers::table_options(query, version)?,
        _ => TableOptions::default(),
    };
    match (view, form) {
        (View::Metadata(_), _) => Err(answers::mismatch(served, true)),
        (View::Whole, Form::Json) if !served.is_converted() => Ok(match stored_bytes(target, &page) {
            Some(answer) => answer,
            None => encoding::answer(served, page, (form, view), table, now),
        }),
        // Few kinds have rows that depend on the whole list, and hardly anyone wants tables as YAML.
        (View::Table(_) | View::MetadataList(_), _)
            if form == Form::Yaml || !has_independent_rows((served.info.group, served.info.kind)) =>
        {
            let objects: Vec<Value> = page.records.iter().map(stored::object).collect();
            let revision = page.revision.to_string();
            let meta = ListMeta {
                resource_version: &revision,
                continue_token: &page.continue_token,
                remaining_item_count: page.remaining.and_then(|count| i64::try_from(count).ok()),
            };
            answers::view_of_list(served, &objects, meta, view, query, now)
        }
        _ => Ok(encoding::answer(served, page, (form, view), table, now)),
    }
}

/// Answers with a page of objects as they are stored: their bytes are only referred to, and put together piece by piece
/// while they are sent. Nothing if any of them is packed, for then a page may take much more memory than its objects do.
fn stored_bytes(target: &Target, page: &Page) -> Option<Answer> {
    let served = target.served;
    let (kind, api_version, meta) = (served.info.kind, served.api_version(), meta(page));
    let head =
        format!("{{\"kind\":\"{kind}List\",\"apiVersion\":\"{api_version}\",\"metadata\":{meta},\"items\":[");
    let mut parts = Vec::with_capacity(2 * page.records.len() + 2);
    parts.push(Part::from(head));
    for (i, record) in page.records.iter().enumerate() {
        // The objects of a list do not repeat their type.
        parts.push(Part::from(if i > 0 { ",{" } else { "{" }));
        parts.push(Part::Stored(record.plain_value()?.slice(served.type_prefix.len()..)));
    }
    parts.push(Part::from("]}\n"));
    Some(answers::json_bytes(200, parts))
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
