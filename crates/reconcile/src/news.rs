//! Something that people are told for the first time, and the Event that it becomes.

use setpoint_api::rfc3339::Seconds;
use setpoint_api::{Key, Time, Value};

use crate::plan::{Severity, Subject};

/// Something that people are told for the first time. Most of what a busy loop writes is news, and it differs in a few
/// texts only; so it is handed on as these, and who writes it makes an Event of it.
#[derive(Clone, Debug, PartialEq)]
pub struct News {
    /// The Event that is made. It is in the namespace of what it is about, or in `default` if that is in none.
    pub event: Key,
    /// What it is about.
    pub about: Subject,
    /// Whether it is good news.
    pub severity: Severity,
    /// The reason, one word in camel case.
    pub reason: &'static str,
    /// The message.
    pub message: String,
    /// What was done, or tried; empty where nobody says so.
    pub action: &'static str,
    /// Who says so.
    pub said_by: Box<str>,
    /// On which node; empty if on none.
    pub host: Box<str>,
    /// When.
    pub at: Time,
}

impl News {
    /// The namespace of the Event.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.event.namespace().unwrap_or_default()
    }

    /// The Event.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let time = Seconds(self.at).to_string();
        let map = |pairs: Vec<(&str, Value)>| Value::Map(pairs.into_iter().collect());
        let metadata = vec![("name", self.event.name().into()), ("namespace", self.namespace().into())];
        let mut component = vec![("component", Value::from(&*self.said_by))];
        if !self.host.is_empty() {
            component.push(("host", Value::from(&*self.host)));
        }
        let mut event = vec![
            ("kind", "Event".into()),
            ("apiVersion", "v1".into()),
            ("metadata", map(metadata)),
            ("involvedObject", reference(&self.about)),
            ("reason", self.reason.into()),
            ("message", self.message.as_str().into()),
            ("source", map(component)),
            ("firstTimestamp", time.clone().into()),
            ("lastTimestamp", time.into()),
            ("count", Value::Int(1)),
            ("type", self.severity.as_str().into()),
            ("reportingComponent", Value::from(&*self.said_by)),
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

fn reference(subject: &Subject) -> Value {
    let mut pairs = vec![
        ("kind", Value::from(subject.kind)),
        ("name", subject.key.name().into()),
        ("uid", Value::from(&*subject.uid)),
        ("apiVersion", subject.api_version.into()),
        ("resourceVersion", subject.revision.to_string().into()),
    ];
    if let Some(namespace) = subject.key.namespace() {
        pairs.push(("namespace", namespace.into()));
    }
    if !subject.part.is_empty() {
        pairs.push(("fieldPath", subject.part.as_str().into()));
    }
    Value::Map(pairs.into_iter().collect())
}
