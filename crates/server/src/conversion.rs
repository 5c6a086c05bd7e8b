//! Conversion webhooks: HTTPS services that convert objects of a custom kind between its versions.
//!
//! Decisions stay pure. The pipeline looks conversions up in [`RequestConversions`]; a missing one is recorded, and the
//! decision continues with the object as it is. The shell discards such a decision, has [`ConversionWebhooks`] convert
//! the recorded objects, and decides again. Reads convert records before these are encoded.
//!
//! A decision converts the object to the storage version, and the result back to the version of the response. So a
//! write whose response cannot be converted is not committed.
//!
//! Deletes and writes of the loop keep an object in the version in which it is stored. So a webhook that is down stops
//! neither garbage collection nor the deletion of a namespace, and no other kind.
//!
//! [`review`] encodes ConversionReviews; [`shell`] calls webhooks and caches their answers.

mod cache;
pub mod metrics;
pub mod review;
pub mod shell;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest;
use bytes::Bytes;
use parking_lot::Mutex;
use setpoint_api::custom_kind::CustomKind;
use setpoint_api::resource_types::ResourceType;
use setpoint_api::status::Status;
use setpoint_api::{Revision, Value, json};
use setpoint_store::{Draft, Record};

pub use self::shell::ConversionWebhooks;
use crate::codec;
use crate::pipeline::{RequestContext, encoding_error};

/// JSON text of an object without its resource version.
#[derive(Clone, Debug)]
pub struct ObjectText {
    bytes: Bytes,
    /// Offset at which the resource version belongs.
    revision_offset: u32,
}

impl ObjectText {
    /// Returns the text of a stored object.
    fn of_record(record: &Record) -> ObjectText {
        let body = record.body();
        ObjectText { bytes: body.bytes, revision_offset: body.revision_offset.unwrap_or_default() }
    }

    /// Encodes an object of a custom kind; `None` if it has the wrong shape.
    fn of_value(kind: &CustomKind, object: &Value) -> Option<ObjectText> {
        let schema = kind.schema(object.str_at(&["apiVersion"]))?;
        let (bytes, revision_offset) = codec::text_of(schema, &mut object.clone())?;
        Some(ObjectText { bytes: bytes.into(), revision_offset })
    }

    /// Returns the text with a resource version.
    fn with_revision(&self, revision: &str) -> Bytes {
        let (head, tail) = self.bytes.split_at(self.revision_offset as usize);
        [head, revision.as_bytes(), tail].concat().into()
    }
}

/// Digest of an object without its resource version, its definition and the requested version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConversionKey {
    definition: Revision,
    api_version: Box<str>,
    digest: [u8; 32],
}

impl ConversionKey {
    fn new(kind: &CustomKind, source: &ObjectText, api_version: &str) -> ConversionKey {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest::digest(&digest::SHA256, &source.bytes).as_ref());
        ConversionKey { definition: kind.revision, api_version: api_version.into(), digest: bytes }
    }
}

/// A conversion that a decision waits for.
#[derive(Clone, Debug)]
pub struct ConversionCall {
    key: ConversionKey,
    kind: Arc<CustomKind>,
    source: ObjectText,
    /// Resource version of the object; may be empty.
    revision: String,
}

/// Conversions of one request: the results so far, and those that the last decision missed.
#[derive(Debug, Default)]
pub struct RequestConversions {
    converted: BTreeMap<ConversionKey, ObjectText>,
    missing: Mutex<Vec<ConversionCall>>,
    /// Uptime at the first call.
    started_at: Option<Duration>,
}

impl RequestConversions {
    /// Returns the converted object; a missing one is recorded.
    fn find(
        &self,
        kind: &Arc<CustomKind>,
        source: ObjectText,
        revision: &str,
        api_version: &str,
    ) -> Option<Value> {
        let key = ConversionKey::new(kind, &source, api_version);
        if let Some(converted) = self.converted.get(&key) {
            return json::parse_stored(&converted.with_revision(revision)).ok();
        }
        let mut missing = self.missing.lock();
        if missing.iter().all(|call| call.key != key) {
            missing.push(ConversionCall {
                key,
                kind: Arc::clone(kind),
                source,
                revision: revision.to_owned(),
            });
        }
        None
    }

    /// Returns the conversions that the last decision missed. If there are any, the decision is void.
    #[must_use]
    pub fn take_missing(&self) -> Vec<ConversionCall> {
        std::mem::take(&mut self.missing.lock())
    }

    /// Adds results.
    pub fn extend(&mut self, converted: impl IntoIterator<Item = (ConversionKey, ObjectText)>) {
        self.converted.extend(converted);
    }
}

/// Conversions in the context of a decision.
#[derive(Clone, Copy)]
pub struct ConversionContext<'a> {
    /// Conversions of the request.
    pub request: &'a RequestConversions,
    /// `true` if the object stays in the version in which it is stored: a write of the loop.
    pub keeps_version: bool,
}

/// Returns the kind of a resource type that has a conversion webhook.
#[must_use]
pub fn webhook_kind(resource_type: &ResourceType) -> Option<&Arc<CustomKind>> {
    let kind = &resource_type.custom.as_ref()?.kind;
    kind.definition.conversion.is_some().then_some(kind)
}

/// `true` if only a webhook can convert the record to the version of the resource type.
#[must_use]
pub fn needs_webhook(resource_type: &ResourceType, record: &Record) -> bool {
    webhook_kind(resource_type).is_some() && !is_stored_as(resource_type, record)
}

/// `true` if the record is stored in the version of the resource type.
#[must_use]
pub fn is_stored_as(resource_type: &ResourceType, record: &Record) -> bool {
    record.value().starts_with(resource_type.type_prefix.as_bytes())
}

impl RequestContext<'_> {
    /// Decodes the object of a record as the pipeline handles it: in the storage version, or in the served version of
    /// a custom kind.
    #[must_use]
    pub fn live(&self, resource_type: &ResourceType, record: &Record) -> Value {
        let Some(kind) = webhook_kind(resource_type).filter(|_| !is_stored_as(resource_type, record)) else {
            return codec::live(resource_type, record);
        };
        let (source, revision) = (ObjectText::of_record(record), record.revision().to_string());
        let request = self.conversions.filter(|conversions| !conversions.keeps_version);
        let converted = request.and_then(|conversions| {
            conversions.request.find(kind, source, &revision, &resource_type.api_version())
        });
        converted.unwrap_or_else(|| codec::object(record))
    }

    /// Encodes an object of a resource type for a commit, in its storage version. A conversion webhook also converts it
    /// back, for the response.
    ///
    /// # Errors
    /// If it cannot be encoded: a bug.
    pub(crate) fn draft(&self, resource_type: &ResourceType, object: Value) -> Result<Draft, Status> {
        let encode = |resource_type: &ResourceType, object| {
            codec::draft(resource_type, object, self.now).ok_or_else(encoding_error)
        };
        let is_converted = self.conversions.is_some_and(|conversions| !conversions.keeps_version);
        let kind = webhook_kind(resource_type).filter(|_| is_converted);
        let (Some(kind), api_version) = (kind, resource_type.api_version()) else {
            return encode(resource_type, object);
        };
        if kind.storage_api_version == api_version {
            return encode(resource_type, object);
        }
        let Some(object) = self.convert(kind, &object, &kind.storage_api_version) else {
            return encode(resource_type, object);
        };
        // Without a resource version, as the key of the committed record.
        if let Some(stored) = ObjectText::of_value(kind, &object)
            && let Some(conversions) = self.conversions
        {
            conversions.request.find(kind, stored, "", &api_version);
        }
        let storage = self.catalog.storage_type(&resource_type.resource).map(|storage| &**storage);
        let storage = storage.filter(|storage| storage.api_version() == kind.storage_api_version);
        encode(storage.unwrap_or(resource_type), object)
    }

    /// `true` if a write that changes nothing moves the object to the storage version, or to the current encryption key.
    pub(crate) fn is_stale(&self, resource_type: &ResourceType, record: &Record) -> bool {
        if self.snapshot.is_stored_with_old_key(&resource_type.resource, record.revision()) {
            return true;
        }
        let Some(custom) = &resource_type.custom else { return false };
        let can_convert = webhook_kind(resource_type).is_none()
            || self.conversions.is_some_and(|conversions| !conversions.keeps_version);
        can_convert && codec::object(record).str_at(&["apiVersion"]) != custom.kind.storage_api_version
    }

    /// Converts an object of a custom kind to another version by its webhook; `None` if it is not converted yet, or
    /// the request converts nothing.
    pub(crate) fn convert(&self, kind: &Arc<CustomKind>, object: &Value, api_version: &str) -> Option<Value> {
        let conversions = self.conversions?;
        let source = ObjectText::of_value(kind, object)?;
        let revision = object.str_at(&["metadata", "resourceVersion"]);
        conversions.request.find(kind, source, revision, api_version)
    }

    /// Returns an object of one version of a kind in another version.
    pub(crate) fn in_version(&self, from: &ResourceType, object: Value, to: &ResourceType) -> Value {
        match webhook_kind(to).filter(|_| from.info.version != to.info.version) {
            Some(kind) => self.convert(kind, &object, &to.api_version()).unwrap_or(object),
            None => to.to_served(object),
        }
    }
}
