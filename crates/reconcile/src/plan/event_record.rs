//! Event records: Events that planners emit, before correlation.

use setpoint_api::{Key, Revision};

use crate::object::Object;

/// Type of an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventType {
    /// Expected.
    Normal,
    /// Possibly a problem.
    Warning,
}

impl EventType {
    /// Value of the Event's `type`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        }
    }
}

/// Event on an object, as shown by `kubectl describe`.
#[derive(Clone, Debug, PartialEq)]
pub struct EventRecord {
    /// Object that the Event is on.
    pub involved_object: InvolvedObject,
    /// Type of the Event.
    pub event_type: EventType,
    /// Reason in camel case: `SuccessfulCreate`.
    pub reason: &'static str,
    /// Message.
    pub message: String,
    /// Action that was taken or failed: `Binding`; may be empty.
    pub action: &'static str,
    /// Reporting component; `None` for [`crate::Planner::source`].
    pub reporter: Option<Box<str>>,
}

impl EventRecord {
    /// Sets the action.
    #[must_use]
    pub fn with_action(self, action: &'static str) -> EventRecord {
        EventRecord { action, ..self }
    }

    /// Sets the reporting component.
    #[must_use]
    pub fn reported_by(self, reporter: &str) -> EventRecord {
        EventRecord { reporter: Some(reporter.into()), ..self }
    }
}

/// Reference to the object that an Event is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvolvedObject {
    /// Key of the object.
    pub key: Key,
    /// Group and version.
    pub api_version: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// UID.
    pub uid: Box<str>,
    /// Revision at which it was read.
    pub revision: Revision,
    /// Part of the object, such as `spec.containers{name}`; empty for the whole.
    pub field_path: String,
}

impl InvolvedObject {
    /// Returns the reference to an object.
    #[must_use]
    pub fn new(object: &Object, api_version: &'static str, kind: &'static str) -> InvolvedObject {
        InvolvedObject {
            key: object.key().clone(),
            api_version,
            kind,
            uid: object.meta().uid.clone(),
            revision: object.revision(),
            field_path: String::new(),
        }
    }

    /// Sets the field path.
    #[must_use]
    pub fn with_field_path(mut self, field_path: String) -> InvolvedObject {
        self.field_path = field_path;
        self
    }

    /// Returns a Normal Event on the object.
    #[must_use]
    pub fn normal(&self, reason: &'static str, message: impl Into<String>) -> EventRecord {
        self.event(EventType::Normal, reason, message.into())
    }

    /// Returns a Warning Event on the object.
    #[must_use]
    pub fn warning(&self, reason: &'static str, message: impl Into<String>) -> EventRecord {
        self.event(EventType::Warning, reason, message.into())
    }

    fn event(&self, event_type: EventType, reason: &'static str, message: String) -> EventRecord {
        EventRecord { involved_object: self.clone(), event_type, reason, message, action: "", reporter: None }
    }
}
