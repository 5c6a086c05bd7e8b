//! Fields that a definition makes selectable, in the version of the request.
//!
//! The fields of the storage version are stored with each object when it is written. They are current only if the
//! object has not been written since by an older definition, and is served as it is stored; any other object is brought
//! into the served version first. So an object that was stored before a field became selectable, or before its schema
//! got a default, is selected by what clients see.

use std::fmt;
use std::sync::Arc;

use setpoint_api::ResourceType;
use setpoint_api::fields::{CompiledFieldSelector, FieldSelector};
use setpoint_store::{Record, WatchEvent, WatchEventType};

use crate::codec;
use crate::conversion::{needs_webhook, webhook_kind};

/// Terms of a field selector on selectable fields of a custom kind.
pub(crate) struct ServedFields {
    resource_type: Arc<ResourceType>,
    fields: CompiledFieldSelector,
}

impl fmt::Debug for ServedFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fields.fmt(f)
    }
}

impl ServedFields {
    pub(super) fn new(resource_type: Arc<ResourceType>, fields: &FieldSelector) -> ServedFields {
        ServedFields { resource_type, fields: CompiledFieldSelector::new(fields) }
    }

    /// `true` if the object has the fields. One that needs a conversion webhook must have been converted.
    pub fn matches(&self, record: &Record) -> bool {
        if self.are_stored_with(record) {
            let attributes = record.attributes();
            return self.fields.matches(|field| attributes.field(field));
        }
        self.matches_object(record)
    }

    /// As [`ServedFields::matches`], for records that a webhook may have converted: such a record still has the fields
    /// of the version in which it is stored.
    pub fn matches_converted(&self, record: &Record, original: &Record) -> bool {
        if needs_webhook(&self.resource_type, original) {
            return self.matches_object(record);
        }
        self.matches(record)
    }

    /// Narrows an event of a cursor, which filters by everything but these fields. Returns `None` if the object has the
    /// fields neither before nor after.
    pub fn narrowed(&self, event: WatchEvent) -> Option<WatchEvent> {
        let was_there = event.event_type != WatchEventType::Added;
        let before = event.before.as_ref().is_some_and(|before| was_there && self.matches(before));
        let after = event.event_type != WatchEventType::Deleted && self.matches(&event.after);
        let event_type = event_type(before, after)?;
        Some(WatchEvent { event_type, ..event })
    }

    /// `true` if the stored fields are those of the served object.
    fn are_stored_with(&self, record: &Record) -> bool {
        let Some(custom) = &self.resource_type.custom else { return true };
        // Without a webhook every object that is newer than the definition is in the storage version.
        custom.version().storage
            && record.revision() > custom.kind.revision
            && (webhook_kind(&self.resource_type).is_none() || codec::is_current(&self.resource_type, record))
    }

    fn matches_object(&self, record: &Record) -> bool {
        let object = self.resource_type.to_served(codec::object(record));
        let values = self.resource_type.rules.fields(&object);
        self.fields.matches(|field| {
            values.iter().find(|(label, _)| *label == field).map(|(_, value)| value.as_ref())
        })
    }
}

/// Type of an event by whether the object is selected before and after it.
pub(crate) fn event_type(before: bool, after: bool) -> Option<WatchEventType> {
    match (before, after) {
        (false, true) => Some(WatchEventType::Added),
        (true, true) => Some(WatchEventType::Modified),
        (true, false) => Some(WatchEventType::Deleted),
        (false, false) => None,
    }
}
