//! Response constructors: objects, lists' views, tables, `Status` objects and warnings.
//!
//! Bodies are JSON, protobuf or plain text here; [`to_yaml`] converts JSON.

use std::borrow::Cow;
use std::collections::BTreeSet;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, WARNING};
use http::{HeaderMap, StatusCode};
use setpoint_api::ResourceType;
use setpoint_api::printing::table::{
    IncludeObject, ListMeta, MetaVersion, TableObject, TableOptions, write_object_table, write_partial,
    write_partial_list, write_table,
};
use setpoint_api::status::{Reason, Status};
use setpoint_api::{Time, Value, json, protobuf, yaml};
use setpoint_store::Record;

use crate::body::Expected;
use crate::codec;
use crate::exchange::{BodyPart, Payload, Response};
use crate::media::{Form, Representation};
use crate::query::QueryParams;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PROTOBUF: HeaderValue = HeaderValue::from_static("application/vnd.kubernetes.protobuf");
const YAML: HeaderValue = HeaderValue::from_static("application/yaml");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

fn answer(code: u16, kind: HeaderValue, parts: Vec<BodyPart>) -> Response {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, kind);
    headers.insert("cache-control", HeaderValue::from_static("no-cache, private"));
    let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Response { status, headers, body: Payload::Whole(parts) }
}

/// A JSON body from encoded parts.
#[must_use]
pub(crate) fn json_bytes(code: u16, parts: Vec<BodyPart>) -> Response {
    answer(code, JSON, parts)
}

/// A JSON document.
#[must_use]
pub fn document(value: &Value) -> Response {
    let mut bytes = json::to_vec(value);
    bytes.push(b'\n');
    json_bytes(200, vec![bytes.into()])
}

/// Plain text.
#[must_use]
pub fn text(code: u16, text: impl Into<Bytes>) -> Response {
    answer(code, TEXT, vec![BodyPart::Encoded(text.into())])
}

/// 406 for a client that accepts none of the offered media types.
#[must_use]
pub(crate) fn not_offered(offered: &[&str]) -> Status {
    let message = format!("406: Not Acceptable\n\nAvailable representations: {}", offered.join(", "));
    Status { details: Some(Box::default()), ..Status::failure(Reason::NotAcceptable, message) }
}

/// 415 for an unknown patch type.
#[must_use]
pub(crate) fn unsupported_patch() -> Status {
    let message = "415: Unsupported Media Type";
    Status { details: Some(Box::default()), ..Status::failure(Reason::UnsupportedMediaType, message) }
}

/// A `Status` object as JSON.
#[must_use]
pub fn status(status: &Status) -> Response {
    let mut bytes = status.to_json();
    bytes.push(b'\n');
    let mut response = json_bytes(status.http_code(), vec![bytes.into()]);
    let retry = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    if retry > 0 {
        response.headers.insert("retry-after", HeaderValue::from(retry));
    }
    response
}

/// A `Status` object in the form that the client accepts.
#[must_use]
pub fn error(error: &Status, form: Form) -> Response {
    let mut response = status(error);
    let schema = setpoint_api::schema::builtin().meta("Status");
    match (form, schema, json::parse(&error.to_json())) {
        (Form::Yaml, ..) => to_yaml(response),
        (Form::Protobuf, Some(schema), Ok(value)) => {
            let (mut message, mut out) = (Vec::new(), Vec::new());
            protobuf::encode(&value, schema, &mut message);
            protobuf::write_object("v1", "Status", &message, &mut out);
            response.headers.insert(CONTENT_TYPE, PROTOBUF);
            response.body = Payload::Whole(vec![out.into()]);
            response
        }
        _ => response,
    }
}

/// Converts a JSON response to YAML.
#[must_use]
pub(crate) fn to_yaml(mut response: Response) -> Response {
    if let Payload::Whole(parts) = &response.body
        && response.headers.get(CONTENT_TYPE) == Some(&JSON)
        && let Ok(value) = json::parse(&parts.concat())
    {
        let mut out = Vec::new();
        yaml::write(&value, &mut out);
        response.headers.insert(CONTENT_TYPE, YAML);
        response.body = Payload::Whole(vec![out.into()]);
    }
    response
}

/// An object, given as the bytes of its served version.
#[must_use]
pub fn object(code: u16, resource_type: &ResourceType, bytes: Bytes, form: Form, pretty: bool) -> Response {
    match form {
        Form::Protobuf => {
            let value = json::parse(&bytes).unwrap_or(Value::Null);
            let out = resource_type.schema.built_in().map(|schema| protobuf::to_vec(&value, schema));
            let out = out.unwrap_or_default();
            answer(code, PROTOBUF, vec![out.into()])
        }
        _ if pretty => {
            let mut out = Vec::with_capacity(bytes.len() * 2);
            json::write_pretty(&json::parse(&bytes).unwrap_or(Value::Null), &mut out);
            json_bytes(code, vec![out.into()])
        }
        _ => json_bytes(code, vec![bytes.into(), BodyPart::from("\n")]),
    }
}

/// A stored object.
#[must_use]
pub fn record(
    code: u16,
    resource_type: &ResourceType,
    record: &Record,
    form: Form,
    pretty: bool,
) -> Response {
    if form != Form::Protobuf {
        return object(code, resource_type, codec::served(resource_type, record), form, pretty);
    }
    let mut out = Vec::new();
    protobuf::write_object(
        &resource_type.api_version(),
        &resource_type.info.kind,
        &codec::message(resource_type, record),
        &mut out,
    );
    answer(code, PROTOBUF, vec![out.into()])
}

/// An object of a kind that is not stored.
#[must_use]
pub fn value(code: u16, expected: Expected<'_>, value: Value, form: Form, pretty: bool) -> Response {
    let value = expected.schema.decode(value.clone(), &[]).map_or(value, |decoded| decoded.value);
    let mut out = Vec::new();
    match form {
        Form::Protobuf => {
            let mut message = Vec::with_capacity(256);
            if let Some(schema) = expected.schema.built_in() {
                protobuf::encode(&value, schema, &mut message);
            }
            protobuf::write_object(expected.api_version, expected.kind, &message, &mut out);
            return answer(code, PROTOBUF, vec![out.into()]);
        }
        _ if pretty => json::write_pretty(&value, &mut out),
        _ => {
            json::write(&value, &mut out);
            out.push(b'\n');
        }
    }
    json_bytes(code, vec![out.into()])
}

/// Reads the table options of a request.
///
/// # Errors
/// If they are invalid.
pub(crate) fn table_options(query: &QueryParams, version: MetaVersion) -> Result<TableOptions, Status> {
    let requested = query.get("includeObject");
    let include = IncludeObject::parse(requested).ok_or_else(|| {
        Status::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {requested:?}: must be \
             'Metadata', 'Object', 'None', or empty"
        ))
    })?;
    Ok(TableOptions { include, version, ..TableOptions::default() })
}

/// Returns the `object` of a table row. Its metadata is that of the stored version, without the annotations that hold
/// fields which a served version lacks.
pub(crate) fn row_object<'a>(
    resource_type: &ResourceType,
    stored: &'a Value,
    served: &'a Value,
    include: IncludeObject,
) -> Cow<'a, Value> {
    const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
    if include != IncludeObject::Metadata || resource_type.custom.is_some() {
        return Cow::Borrowed(served);
    }
    if stored.at(&["metadata", "annotations", TEMPLATE_GENERATION]).is_none() {
        return Cow::Borrowed(if resource_type.is_converted() { stored } else { served });
    }
    let mut bare = stored.clone();
    let metadata = bare.ensure_map("metadata");
    let annotations = metadata.ensure_map("annotations");
    annotations.remove(TEMPLATE_GENERATION);
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    Cow::Owned(bare)
}

/// 406 for a list view of a single object, or the reverse.
pub fn mismatch(resource_type: &ResourceType, is_list: bool) -> Status {
    let group = match &*resource_type.info.group {
        "" | "events.k8s.io" => "core",
        group => group.split('.').next().unwrap_or_default(),
    };
    let kind = &resource_type.info.kind;
    let message = if is_list {
        format!(
            "you requested PartialObjectMetadata, but the requested object is a list (*{group}.{kind}List)"
        )
    } else {
        format!(
            "you requested PartialObjectMetadataList, but the requested object is not a list (*{group}.{kind})"
        )
    };
    Status::failure(Reason::NotAcceptable, message)
}

/// A table or the metadata of one object, given as it is stored.
///
/// # Errors
/// If the options of the view are invalid.
pub(crate) fn view_of_object(
    code: u16,
    resource_type: &ResourceType,
    object: &Value,
    view: Representation,
    query: &QueryParams,
    now: Time,
) -> Result<Response, Status> {
    let mut out = Vec::new();
    let kind = resource_type.table_kind();
    let served = resource_type.is_converted().then(|| resource_type.to_served(object.clone()));
    let served = served.as_ref().unwrap_or(object);
    match view {
        Representation::Table(version) => {
            let options = table_options(query, version)?;
            let embedded = row_object(resource_type, object, served, options.include);
            let stored = if resource_type.custom.is_some() { served } else { object };
            let row = TableObject { stored, served: &embedded };
            write_object_table(kind, row, options, now, &mut out);
        }
        Representation::Metadata(version) => write_partial(served, version, &mut out),
        Representation::MetadataList(_) => return Err(mismatch(resource_type, false)),
        Representation::Whole => json::write(served, &mut out),
    }
    out.push(b'\n');
    Ok(json_bytes(code, vec![out.into()]))
}

/// A table or the metadata of a list of objects, given as they are stored.
///
/// # Errors
/// If the options of the view are invalid.
pub(crate) fn view_of_list(
    resource_type: &ResourceType,
    objects: &[Value],
    meta: ListMeta<'_>,
    view: Representation,
    query: &QueryParams,
    now: Time,
) -> Result<Response, Status> {
    let mut out = Vec::new();
    let kind = resource_type.table_kind();
    let served: Option<Vec<Value>> = resource_type
        .is_converted()
        .then(|| objects.iter().map(|object| resource_type.to_served(object.clone())).collect());
    let served = served.as_deref().unwrap_or(objects);
    match view {
        Representation::Table(version) => {
            let options = table_options(query, version)?;
            let stored = if resource_type.custom.is_some() { served } else { objects };
            let pairs = stored.iter().zip(served);
            let embedded =
                |(stored, served)| (stored, row_object(resource_type, stored, served, options.include));
            let embedded: Vec<(&Value, Cow<'_, Value>)> = pairs.map(embedded).collect();
            let rows = embedded.iter().map(|(stored, served)| TableObject { stored, served });
            let rows: Vec<TableObject<'_>> = rows.collect();
            write_table(kind, &rows, meta, options, now, &mut out);
        }
        Representation::Metadata(_) => return Err(mismatch(resource_type, true)),
        Representation::MetadataList(version) => write_partial_list(served, meta, version, &mut out),
        Representation::Whole => write_partial_list(served, meta, MetaVersion::V1, &mut out),
    }
    out.push(b'\n');
    Ok(json_bytes(200, vec![out.into()]))
}

/// Characters of all warnings above which each is truncated.
const WARNINGS_CHARS_MAX: usize = 4096;
/// Characters of a truncated warning.
const WARNING_CHARS_MAX: usize = 256;

/// Response with warnings, which an error has too.
///
/// # Errors
/// The status, if there are no warnings.
pub(crate) fn with_warnings(
    response: Result<Response, Status>,
    warnings: &[String],
) -> Result<Response, Status> {
    let mut response = match response {
        Err(error) if warnings.is_empty() => return Err(error),
        Err(error) => status(&error),
        Ok(response) => response,
    };
    warn(&mut response, warnings);
    Ok(response)
}

/// Adds `Warning` headers, which kubectl prints. Duplicates are sent once; if the warnings are too long together,
/// each is truncated, and the last are left out. Warnings after the bound are not read.
pub fn warn(response: &mut Response, warnings: &[String]) {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut kept: Vec<&str> = Vec::new();
    let (mut chars, mut cut_chars) = (0, 0);
    for warning in warnings.iter().map(String::as_str).filter(|warning| !warning.is_empty()) {
        if cut_chars >= WARNINGS_CHARS_MAX {
            // All warnings together have at least as many characters: they are truncated.
            chars = chars.max(WARNINGS_CHARS_MAX + 1);
            break;
        }
        if seen.insert(warning) {
            let length = warning.chars().count();
            chars += length;
            cut_chars += length.min(WARNING_CHARS_MAX);
            kept.push(warning);
        }
    }
    let chars_max = if chars > WARNINGS_CHARS_MAX { WARNING_CHARS_MAX } else { usize::MAX };
    for warning in kept {
        let text: String = warning.chars().take(chars_max).collect();
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers.append(WARNING, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header_lengths(warnings: &[String]) -> Vec<usize> {
        let mut response = status(&Status::bad_request("x"));
        warn(&mut response, warnings);
        response.headers.get_all(WARNING).iter().map(HeaderValue::len).collect()
    }

    #[test]
    fn warnings_are_deduplicated_and_truncated() {
        assert_eq!(header_lengths(&["a".into(), "b".into(), "a".into()]).len(), 2);
        let long: Vec<String> = (0..30).map(|n| format!("{n:02}{}", "x".repeat(500))).collect();
        let cut = header_lengths(&long);
        assert_eq!(cut.len(), WARNINGS_CHARS_MAX / WARNING_CHARS_MAX);
        assert!(cut.iter().all(|len| *len == WARNING_CHARS_MAX + "299 - \"\"".len()));
    }
}
