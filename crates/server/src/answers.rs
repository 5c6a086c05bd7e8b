//! Putting answers together.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, WARNING};
use http::{HeaderMap, StatusCode};
use setpoint_api::status::Status;
use setpoint_api::{Value, json, protobuf};

use crate::exchange::{Answer, Body};
use crate::media::Form;
use crate::served::Served;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PROTOBUF: HeaderValue = HeaderValue::from_static("application/vnd.kubernetes.protobuf");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

fn answer(code: u16, kind: HeaderValue, parts: Vec<Bytes>) -> Answer {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, kind);
    headers.insert("cache-control", HeaderValue::from_static("no-cache, private"));
    let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Answer { status, headers, body: Body::Whole(parts) }
}

/// Bytes that are JSON already.
#[must_use]
pub fn json_bytes(code: u16, parts: Vec<Bytes>) -> Answer {
    answer(code, JSON, parts)
}

/// A document.
#[must_use]
pub fn document(value: &Value) -> Answer {
    let mut bytes = json::to_vec(value);
    bytes.push(b'\n');
    json_bytes(200, vec![bytes.into()])
}

/// Plain text.
#[must_use]
pub fn text(code: u16, text: impl Into<Bytes>) -> Answer {
    answer(code, TEXT, vec![text.into()])
}

/// A refusal, or the word that something was deleted.
#[must_use]
pub fn status(status: &Status) -> Answer {
    let mut bytes = status.to_json();
    bytes.push(b'\n');
    let mut answer = json_bytes(status.http_code(), vec![bytes.into()]);
    let retry = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    if retry > 0 {
        answer.headers.insert("retry-after", HeaderValue::from(retry));
    }
    answer
}

/// An object, given as stored bytes.
#[must_use]
pub fn object(code: u16, served: &Served, bytes: Bytes, form: Form, pretty: bool) -> Answer {
    match form {
        Form::Protobuf => {
            let value = json::parse(&bytes).unwrap_or(Value::Null);
            let message = protobuf::to_vec(&value, served.schema);
            let mut out = Vec::with_capacity(message.len() + 64);
            protobuf::write_object(&served.api_version(), served.info.kind, &message, &mut out);
            answer(code, PROTOBUF, vec![out.into()])
        }
        _ if pretty => {
            let mut out = Vec::with_capacity(bytes.len() * 2);
            json::write_pretty(&json::parse(&bytes).unwrap_or(Value::Null), &mut out);
            json_bytes(code, vec![out.into()])
        }
        _ => json_bytes(code, vec![bytes, Bytes::from_static(b"\n")]),
    }
}

/// Adds warnings, as headers that kubectl prints.
pub fn warn(answer: &mut Answer, warnings: &[String]) {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            answer.headers.append(WARNING, value);
        }
    }
}
