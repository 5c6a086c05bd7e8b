//! Shell of the conversion webhooks of a server: calls them, and caches converted objects.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use parking_lot::Mutex;
use setpoint_api::custom::{ConversionWebhook, WebhookTarget};
use setpoint_api::custom_kind::CustomKind;
use setpoint_api::resource_types::ResourceType;
use setpoint_api::status::Status;
use setpoint_api::{Clock, Entropy, Value, json};
use setpoint_store::{Record, Store};

use super::cache::ConversionCache;
use super::metrics::{ConversionMetrics, FailureType};
use super::review::{ConversionError, ConversionReview, kind_text, uid_bits};
use super::{ConversionCall, ConversionKey, ObjectText, RequestConversions, needs_webhook, webhook_kind};
use crate::webhooks::AdmissionWebhooks;
use crate::webhooks::client::WebhookCall;
use crate::webhooks::endpoint::ClientConfig;

/// Time for one call, upstream's default.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of the objects of one call. A larger list takes several.
const CALL_BYTES_MAX: usize = 1 << 20;
/// Objects of one call.
const CALL_OBJECTS_MAX: usize = 500;
/// Bytes of a response: a converted object may be several times as long as its source.
const RESPONSE_BYTES_MAX: usize = 16 << 20;
/// Time for all conversions of a request together, upstream's default request timeout.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Conversions in progress.
pub type ConversionBatch =
    Pin<Box<dyn Future<Output = Result<Vec<(ConversionKey, ObjectText)>, Status>> + Send>>;
/// Records in conversion.
pub type RecordBatch = Pin<Box<dyn Future<Output = Result<Vec<Record>, Status>> + Send>>;

/// Conversion webhooks of a server.
pub struct ConversionWebhooks {
    store: Store,
    webhooks: Arc<AdmissionWebhooks>,
    clock: Arc<dyn Clock>,
    entropy: Arc<Entropy>,
    cache: Mutex<ConversionCache>,
    metrics: Arc<ConversionMetrics>,
}

impl ConversionWebhooks {
    /// Webhooks that share the connections of admission webhooks.
    #[must_use]
    pub fn new(
        store: Store,
        webhooks: Arc<AdmissionWebhooks>,
        clock: Arc<dyn Clock>,
        entropy: Arc<Entropy>,
    ) -> ConversionWebhooks {
        let (cache, metrics) = (Mutex::default(), Arc::default());
        ConversionWebhooks { store, webhooks, clock, entropy, cache, metrics }
    }

    /// The metrics.
    #[must_use]
    pub fn metrics(&self) -> &Arc<ConversionMetrics> {
        &self.metrics
    }

    /// Starts the conversions that a decision missed. `request` has those of the request so far.
    ///
    /// # Errors
    /// If the request took too long.
    pub fn start(
        self: &Arc<Self>,
        calls: Vec<ConversionCall>,
        request: &mut RequestConversions,
    ) -> Result<ConversionBatch, Status> {
        let now = self.clock.uptime();
        let started_at = *request.started_at.get_or_insert(now);
        if now.saturating_sub(started_at) >= REQUEST_TIMEOUT {
            return Err(Status::timeout("request did not complete within requested timeout", 0));
        }
        let webhooks = Arc::clone(self);
        Ok(Box::pin(async move {
            let mut converted = Vec::with_capacity(calls.len());
            for ConversionCall { key, kind, source, revision } in calls {
                let api_version = key.api_version.clone();
                let texts = webhooks.convert(&kind, &api_version, vec![(source, revision)]).await?;
                converted.extend(texts.into_iter().map(|text| (key.clone(), text)));
            }
            Ok(converted)
        }))
    }

    /// Starts the conversion of records to the version of a resource type.
    #[must_use]
    pub fn start_records(
        self: &Arc<Self>,
        resource_type: &Arc<ResourceType>,
        records: Vec<Record>,
    ) -> RecordBatch {
        let (webhooks, resource_type) = (Arc::clone(self), Arc::clone(resource_type));
        Box::pin(async move { webhooks.records(&resource_type, records).await })
    }

    /// Converts records to the version of a resource type. Those that need no webhook stay as they are.
    ///
    /// # Errors
    /// 500 if a webhook fails, as upstream.
    pub async fn records(
        &self,
        resource_type: &ResourceType,
        mut records: Vec<Record>,
    ) -> Result<Vec<Record>, Status> {
        let Some(kind) = webhook_kind(resource_type) else { return Ok(records) };
        let foreign = records.iter().enumerate().filter(|(_, record)| needs_webhook(resource_type, record));
        let sources =
            foreign.map(|(at, record)| (at, (ObjectText::of_record(record), record.revision().to_string())));
        let (positions, sources): (Vec<usize>, Vec<_>) = sources.unzip();
        let converted = self.convert(kind, &resource_type.api_version(), sources).await?;
        for (at, text) in positions.into_iter().zip(converted) {
            records[at] = records[at].with_text(&text.bytes, text.revision_offset);
        }
        Ok(records)
    }

    /// Converts objects, each with its resource version. Returns them in their order.
    async fn convert(
        &self,
        kind: &Arc<CustomKind>,
        api_version: &str,
        sources: Vec<(ObjectText, String)>,
    ) -> Result<Vec<ObjectText>, Status> {
        let keys: Vec<ConversionKey> =
            sources.iter().map(|(source, _)| ConversionKey::new(kind, source, api_version)).collect();
        let mut converted: Vec<Option<ObjectText>> = {
            let cache = self.cache.lock();
            keys.iter().map(|key| cache.get(key)).collect()
        };
        let missing: Vec<usize> = (0..sources.len()).filter(|at| converted[*at].is_none()).collect();
        for batch in batches(&missing, |at| sources[at].0.bytes.len()) {
            let objects: Vec<Bytes> = batch
                .iter()
                .map(|at| {
                    let (text, revision) = &sources[*at];
                    text.with_revision(revision)
                })
                .collect();
            let answers = self.call(kind, api_version, &objects).await?;
            for (at, answer) in batch.iter().zip(answers) {
                self.cache.lock().insert(keys[*at].clone(), answer.clone());
                converted[*at] = Some(answer);
            }
        }
        Ok(converted.into_iter().flatten().collect())
    }

    async fn call(
        &self,
        kind: &CustomKind,
        api_version: &str,
        objects: &[Bytes],
    ) -> Result<Vec<ObjectText>, Status> {
        let started_at = self.clock.uptime();
        let answer = self.review(kind, api_version, objects).await;
        let took = self.clock.uptime().saturating_sub(started_at);
        self.metrics.count(answer.as_ref().err().map(|error| error.failure_type), took);
        answer.map_err(|error| {
            let definition = kind.definition.name.as_str();
            tracing::warn!(definition, why = error.message, "conversion webhook failed");
            Status::unclassified(500, error.to_string())
        })
    }

    async fn review(
        &self,
        kind: &CustomKind,
        api_version: &str,
        objects: &[Bytes],
    ) -> Result<Vec<ObjectText>, ConversionError> {
        let failed = |why: String| {
            let first = objects.first().and_then(|object| json::parse(object).ok()).unwrap_or_default();
            let message = format!("conversion webhook for {} failed: {why}", kind_text(&first));
            ConversionError { message, failure_type: FailureType::Call }
        };
        let webhook = kind.definition.conversion.as_ref();
        let webhook = webhook.ok_or_else(|| failed("the definition has no webhook".to_owned()))?;
        let entropy = (self.entropy)();
        let review = ConversionReview::encode(webhook, api_version, objects, uid_bits(entropy, objects))?;
        let endpoint = client_config(webhook)
            .resolve(&self.store.snapshot(), entropy, CALL_TIMEOUT.as_secs())
            .map_err(|error| failed(error.to_string()))?;
        let url = endpoint.url(CALL_TIMEOUT.as_secs());
        let call = WebhookCall {
            endpoint,
            body: review.body.clone(),
            timeout: CALL_TIMEOUT,
            response_bytes_max: RESPONSE_BYTES_MAX,
        };
        let response = self.webhooks.client.call(call).await;
        let response = response.map_err(|error| failed(error.describe(&url)))?;
        let converted = review.decode(objects, &response)?;
        converted.into_iter().map(|object| served_text(kind, api_version, object)).collect()
    }
}

/// Splits positions into batches of at most [`CALL_OBJECTS_MAX`] objects and about [`CALL_BYTES_MAX`] bytes.
fn batches(positions: &[usize], bytes: impl Fn(usize) -> usize) -> Vec<&[usize]> {
    let (mut batches, mut start, mut size) = (Vec::new(), 0, 0);
    for (i, at) in positions.iter().enumerate() {
        let length = bytes(*at);
        if i > start && (size + length > CALL_BYTES_MAX || i - start == CALL_OBJECTS_MAX) {
            batches.push(&positions[start..i]);
            (start, size) = (i, 0);
        }
        size += length;
    }
    if start < positions.len() {
        batches.push(&positions[start..]);
    }
    batches
}

/// Encodes a converted object as it is served: pruned and with the defaults of its version.
fn served_text(kind: &CustomKind, api_version: &str, object: Value) -> Result<ObjectText, ConversionError> {
    let invalid = |why: String| ConversionError {
        message: format!("conversion webhook for {} returned invalid object: {why}", kind_text(&object)),
        failure_type: FailureType::InvalidConvertedObject,
    };
    let schema = kind.schema(api_version).ok_or_else(|| invalid(format!("{api_version} has no schema")))?;
    let decoded = schema.decode(object.clone(), &[]).map_err(|error| invalid(error.to_string()))?.value;
    ObjectText::of_value(kind, &decoded).ok_or_else(|| invalid("it cannot be encoded".to_owned()))
}

fn client_config(webhook: &ConversionWebhook) -> ClientConfig {
    let ca_bundle = Bytes::from(STANDARD.decode(webhook.ca_bundle.as_bytes()).unwrap_or_default());
    match &webhook.target {
        WebhookTarget::Url(url) => ClientConfig::Url { url: url.clone(), ca_bundle },
        WebhookTarget::Service { namespace, name, path, port } => ClientConfig::Service {
            namespace: namespace.as_str().into(),
            name: name.as_str().into(),
            path: path.clone(),
            port: *port,
            ca_bundle,
        },
    }
}
