//! New Events: the first occurrence of an Event, to be created.

use setpoint_api::rfc3339::Seconds;
use setpoint_api::{Key, Time, Value};

use crate::plan::{EventType, InvolvedObject};

/// Event to create.
///
/// Most writes of a busy loop are Events that differ in a few texts only, so the loop hands on these texts, and the
/// executor fills them into an event template.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent {
    /// Key of the Event, in the namespace of the involved object, or in `default` if that is cluster-scoped.
    pub key: Key,
    /// Object that the Event is on.
    pub involved_object: InvolvedObject,
    /// Type of the Event.
    pub event_type: EventType,
    /// Reason in camel case.
    pub reason: &'static str,
    /// Message.
    pub message: String,
    /// Action that was taken or failed; may be empty.
    pub action: &'static str,
    /// Reporting component.
    pub reporter: Box<str>,
    /// Node of the reporting component; empty if there is none.
    pub host: Box<str>,
    /// First and last timestamp.
    pub at: Time,
}

impl NewEvent {
    /// Namespace of the Event.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.key.namespace().unwrap_or_default()
    }

    /// The Event as an API object.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let time = Seconds(self.at).to_string();
        let map = |pairs: Vec<(&str, Value)>| Value::Map(pairs.into_iter().collect());
        let metadata = vec![("name", self.key.name().into()), ("namespace", self.namespace().into())];
        let mut component = vec![("component", Value::from(&*self.reporter))];
        if !self.host.is_empty() {
            component.push(("host", Value::from(&*self.host)));
        }
        let mut event = vec![
            ("kind", "Event".into()),
            ("apiVersion", "v1".into()),
            ("metadata", map(metadata)),
            ("involvedObject", reference(&self.involved_object)),
            ("reason", self.reason.into()),
            ("message", self.message.as_str().into()),
            ("source", map(component)),
            ("firstTimestamp", time.clone().into()),
            ("lastTimestamp", time.into()),
            ("count", Value::Int(1)),
            ("type", self.event_type.as_str().into()),
            ("reportingComponent", Value::from(&*self.reporter)),
        ];
        if !self.host.is_empty() {
            event.push(("reportingInstance", Value::from(&*self.host)));
        }
        if !self.action.is_empty() {
            event.push(("action", self.action.into()));
        }
        map(event)
    }
}

fn reference(object: &InvolvedObject) -> Value {
    let mut pairs = vec![
        ("kind", Value::from(object.kind)),
        ("name", object.key.name().into()),
        ("uid", Value::from(&*object.uid)),
        ("apiVersion", object.api_version.into()),
        ("resourceVersion", object.revision.to_string().into()),
    ];
    if let Some(namespace) = object.key.namespace() {
        pairs.push(("namespace", namespace.into()));
    }
    if !object.field_path.is_empty() {
        pairs.push(("fieldPath", object.field_path.as_str().into()));
    }
    Value::Map(pairs.into_iter().collect())
}
