//! Audit events and their encoding.

mod legacy;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::IpAddr;

use setpoint_api::json::write_str;
use setpoint_api::rfc3339::Micros;
use setpoint_api::{Identity, Time};

use crate::level::{Level, Stage};

/// API version of events.
pub const API_VERSION: &str = "audit.k8s.io/v1";
/// First bytes of an encoded event, up to its first field after the type.
pub const KIND_PREFIX: &[u8] = br#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","#;
/// Annotation of events whose objects were removed because they were too large.
pub const TRUNCATED_ANNOTATION: &str = "audit.k8s.io/truncated";
/// Bytes of a user agent that an event has, as upstream.
pub const USER_AGENT_BYTES_MAX: usize = 1024;
/// End of a user agent that was cut.
const USER_AGENT_CUT: &str = "...TRUNCATED";

/// Event of one stage of a request. It borrows everything, and is encoded at once.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Level: objects above it are not encoded.
    pub level: Level,
    /// Unique id of the request.
    pub audit_id: &'a str,
    /// Stage.
    pub stage: Stage,
    /// URI as sent by the client.
    pub request_uri: &'a str,
    /// Verb.
    pub verb: &'a str,
    /// Authenticated user; that of an unauthenticated request has an empty name.
    pub user: &'a Identity,
    /// User that the request acts as.
    pub impersonated_user: Option<&'a Identity>,
    /// Verb of the constrained mode of the impersonation; empty otherwise.
    pub impersonation_constraint: &'a str,
    /// Addresses of the client.
    pub source_ips: &'a [IpAddr],
    /// User agent, see [`user_agent`].
    pub user_agent: &'a str,
    /// Object of the request; `None` for requests of other paths.
    pub object: Option<ObjectReference<'a>>,
    /// Status of the response as JSON; empty before there is one.
    pub response_status: &'a [u8],
    /// HTTP code of the response; 0 before there is one.
    pub code: u16,
    /// Request object as JSON; empty if there is none.
    pub request_object: &'a [u8],
    /// Response object as JSON; empty if there is none.
    pub response_object: &'a [u8],
    /// Time at which the request was received.
    pub received_at: Time,
    /// Time of the stage.
    pub stage_at: Time,
    /// Annotations, by key.
    pub annotations: &'a BTreeMap<String, String>,
    /// `true` if the objects are left out because the event would be too large.
    pub is_truncated: bool,
}

/// Object that a request is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectReference<'a> {
    /// Resource.
    pub resource: &'a str,
    /// Namespace.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
    /// UID, if the request object has one.
    pub uid: &'a str,
    /// API group.
    pub api_group: &'a str,
    /// API version.
    pub api_version: &'a str,
    /// Resource version, if the request object has one.
    pub resource_version: &'a str,
    /// Subresource.
    pub subresource: &'a str,
}

/// Returns a user agent, cut to [`USER_AGENT_BYTES_MAX`].
#[must_use]
pub fn user_agent(text: &str) -> String {
    if text.len() <= USER_AGENT_BYTES_MAX {
        return text.to_owned();
    }
    let kept = &text[..text.floor_char_boundary(USER_AGENT_BYTES_MAX)];
    format!("{kept}{USER_AGENT_CUT}")
}

impl Event<'_> {
    /// Appends the event as one line of JSON.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(KIND_PREFIX);
        out.extend_from_slice(br#""level":""#);
        out.extend_from_slice(self.level.as_str().as_bytes());
        text(r#"","auditID":"#, self.audit_id, out);
        out.extend_from_slice(br#","stage":""#);
        out.extend_from_slice(self.stage.as_str().as_bytes());
        text(r#"","requestURI":"#, self.request_uri, out);
        text(r#","verb":"#, self.verb, out);
        out.extend_from_slice(br#","user":"#);
        write_user(self.user, out);
        self.write_impersonation(out);
        if !self.source_ips.is_empty() {
            let mut separator = br#","sourceIPs":["#.as_slice();
            for ip in self.source_ips {
                out.extend_from_slice(separator);
                write!(out, "\"{ip}\"").expect("writing to a Vec cannot fail");
                separator = b",";
            }
            out.push(b']');
        }
        optional(r#","userAgent":"#, self.user_agent, out);
        if let Some(object) = &self.object {
            object.write(out);
        }
        raw(br#","responseStatus":"#, self.response_status, out);
        let has_objects = !self.is_truncated;
        if has_objects && self.level >= Level::Request {
            raw(br#","requestObject":"#, self.request_object, out);
        }
        if has_objects && self.level >= Level::RequestResponse {
            raw(br#","responseObject":"#, self.response_object, out);
        }
        let (received, reached) = (Micros(self.received_at), Micros(self.stage_at));
        write!(out, r#","requestReceivedTimestamp":"{received}","stageTimestamp":"{reached}""#)
            .expect("writing to a Vec cannot fail");
        self.write_annotations(out);
        out.extend_from_slice(b"}\n");
    }

    fn write_impersonation(&self, out: &mut Vec<u8>) {
        if let Some(user) = self.impersonated_user {
            out.extend_from_slice(br#","impersonatedUser":"#);
            write_user(user, out);
        }
        if !self.impersonation_constraint.is_empty() {
            let key = r#","authenticationMetadata":{"impersonationConstraint":"#;
            text(key, self.impersonation_constraint, out);
            out.push(b'}');
        }
    }

    fn write_annotations(&self, out: &mut Vec<u8>) {
        let truncated = self.is_truncated.then_some((TRUNCATED_ANNOTATION, "true"));
        let others = self.annotations.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let mut separator = r#","annotations":{"#;
        for (key, value) in truncated.into_iter().chain(others) {
            text(separator, key, out);
            text(":", value, out);
            separator = ",";
        }
        if separator == "," {
            out.push(b'}');
        }
    }
}

impl ObjectReference<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#","objectRef":{"#);
        let start = out.len();
        for (key, value) in [
            (r#","resource":"#, self.resource),
            (r#","namespace":"#, self.namespace),
            (r#","name":"#, self.name),
            (r#","uid":"#, self.uid),
            (r#","apiGroup":"#, self.api_group),
            (r#","apiVersion":"#, self.api_version),
            (r#","resourceVersion":"#, self.resource_version),
            (r#","subresource":"#, self.subresource),
        ] {
            let key = if out.len() == start { &key[1..] } else { key };
            optional(key, value, out);
        }
        out.push(b'}');
    }
}

fn write_user(user: &Identity, out: &mut Vec<u8>) {
    out.push(b'{');
    let start = out.len();
    optional(r#""username":"#, &user.user, out);
    let comma = |key: &'static str, out: &Vec<u8>| if out.len() == start { &key[1..] } else { key };
    optional(comma(r#","uid":"#, out), &user.uid, out);
    if !user.groups.is_empty() {
        out.extend_from_slice(comma(r#","groups":"#, out).as_bytes());
        write_list(&user.groups, out);
    }
    let mut separator = comma(r#","extra":{"#, out);
    for (key, values) in &user.extra {
        text(separator, key, out);
        out.push(b':');
        write_list(values, out);
        separator = ",";
    }
    if !user.extra.is_empty() {
        out.push(b'}');
    }
    out.push(b'}');
}

fn write_list(texts: &[String], out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, one) in texts.iter().enumerate() {
        text(if index == 0 { "" } else { "," }, one, out);
    }
    out.push(b']');
}

fn text(key: &str, value: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(key.as_bytes());
    write_str(value, out);
}

fn optional(key: &str, value: &str, out: &mut Vec<u8>) {
    if !value.is_empty() {
        text(key, value, out);
    }
}

fn raw(key: &[u8], json: &[u8], out: &mut Vec<u8>) {
    if !json.is_empty() {
        out.extend_from_slice(key);
        out.extend_from_slice(json);
    }
}

/// Encoder of an `EventList`, which webhooks get.
#[derive(Clone, Debug)]
pub struct EventList {
    bytes: Vec<u8>,
    len: usize,
}

impl Default for EventList {
    fn default() -> EventList {
        let start = br#"{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":["#;
        EventList { bytes: start.to_vec(), len: 0 }
    }
}

impl EventList {
    /// Adds an event that [`Event::write_json`] has encoded. Items of a list have no type.
    pub fn push(&mut self, event: &[u8]) {
        if self.len > 0 {
            self.bytes.push(b',');
        }
        let fields = event.strip_prefix(KIND_PREFIX).unwrap_or(event);
        self.bytes.push(b'{');
        self.bytes.extend_from_slice(fields.strip_suffix(b"\n").unwrap_or(fields));
        self.len += 1;
    }

    /// Number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// `true` if there are no events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the encoded list.
    #[must_use]
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.bytes.extend_from_slice(b"]}");
        self.bytes
    }
}
