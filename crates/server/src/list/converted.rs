//! Pages of kinds with a conversion webhook.
//!
//! A page is converted after it is read. If it is selected by fields of the requested version, then every candidate is
//! converted first, batch by batch, until the page is full.

use std::sync::Arc;

use setpoint_api::Time;
use setpoint_api::status::Status;
use setpoint_store::{Record, RecordSelector, Store};

use super::{ContinueToken, ListRequest, Page, PageMeta};
use crate::conversion::ConversionWebhooks;
use crate::query::QueryParams;
use crate::route::Target;
use crate::select::ServedFields;

/// Candidates of a batch, as many as a webhook converts in one call.
const CANDIDATES_MAX: usize = 500;

/// Reads the requested page. Its objects are converted to the requested version only as far as they are selected by
/// fields of that version.
///
/// # Errors
/// If the options are invalid, the snapshot has expired, or a needed conversion fails.
pub(crate) async fn selected_page(
    store: &Store,
    webhooks: &Arc<ConversionWebhooks>,
    target: &Target,
    query: &QueryParams,
    now: Time,
) -> Result<Page, Status> {
    let request = ListRequest::parse(store, target, query, now)?;
    let is_converted = crate::conversion::webhook_kind(&target.resource_type).is_some();
    let Some(fields) = request.selection.served_fields().filter(|_| is_converted) else {
        return Ok(request.collect(store, target, now));
    };
    let meta =
        PageMeta { revision: request.snapshot.revision(), continue_token: String::new(), remaining: None };
    let mut page = Page { records: Vec::new(), meta };
    let mut after = request.after.clone();
    loop {
        let candidates = request.candidates(target, after.as_deref(), CANDIDATES_MAX);
        let Some(last) = candidates.last() else { return Ok(page) };
        after = Some(last.path().to_owned());
        page.records.extend(selected(fields, webhooks, target, candidates).await?);
        if request.limit > 0 && page.records.len() >= request.limit {
            page.records.truncate(request.limit);
            request.end(store, target, &mut page, now);
            return Ok(page);
        }
    }
}

/// Converts the candidates, and returns those that have the fields.
async fn selected(
    fields: &ServedFields,
    webhooks: &Arc<ConversionWebhooks>,
    target: &Target,
    candidates: Vec<Record>,
) -> Result<Vec<Record>, Status> {
    let converted = webhooks.records(&target.resource_type, candidates.clone()).await?;
    let pairs = converted.into_iter().zip(&candidates);
    let selected = pairs.filter(|(record, original)| fields.matches_converted(record, original));
    Ok(selected.map(|(record, _)| record).collect())
}

impl ListRequest {
    /// Returns the next objects that may be selected.
    fn candidates(&self, target: &Target, after: Option<&str>, count: usize) -> Vec<Record> {
        let Some(table) = self.snapshot.table(&target.resource_type.resource) else { return Vec::new() };
        let prefix =
            if target.namespace.is_empty() { String::new() } else { format!("{}/", target.namespace) };
        let candidates = table.range(&prefix, after).filter(|record| self.selection.matches(record));
        candidates.take(count).cloned().collect()
    }

    /// Adds a continue token to a full page if objects may follow it.
    fn end(&self, store: &Store, target: &Target, page: &mut Page, now: Time) {
        let Some(after) = page.records.last().map(|last| last.path().to_owned()) else { return };
        if self.candidates(target, Some(&after), 1).is_empty() {
            return;
        }
        let revision = Some(page.meta.revision);
        page.meta.continue_token = ContinueToken { revision, issued: now, after }.to_text();
        if self.after.is_none() {
            store.pin(&self.snapshot, now);
        }
    }
}
