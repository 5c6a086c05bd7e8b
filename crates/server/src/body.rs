//! An object out of a request's body.

use setpoint_api::decode::{StrictError, decode_sent};
use setpoint_api::schema::Struct;
use setpoint_api::status::Status;
use setpoint_api::{Value, json, protobuf, yaml};

use crate::media::{self, Form};

/// How strictly a body is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// What is not known is dropped.
    Ignore,
    /// It is dropped, and the client is warned.
    Warn,
    /// It is refused.
    Strict,
}

impl Strictness {
    /// What the parameter `fieldValidation` says.
    #[must_use]
    pub fn of(text: &str) -> Strictness {
        match text {
            "Strict" => Strictness::Strict,
            "Ignore" => Strictness::Ignore,
            _ => Strictness::Warn,
        }
    }
}

/// Which object is expected.
#[derive(Clone, Copy)]
pub struct Expected<'a> {
    /// `group/version`.
    pub api_version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// Its definition.
    pub schema: Struct<'static>,
}

/// What a body says.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The object, decoded.
    pub object: Value,
    /// Whether it still has empty lists that are not stored.
    pub hollow: bool,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

/// The object in a body, decoded, and warnings for the client.
///
/// # Errors
/// If there is none, or it is another one.
pub fn object(
    body: &[u8],
    content_type: Option<&str>,
    expected: Expected<'_>,
    strictness: Strictness,
) -> Result<Sent, Status> {
    let unrecognized = |why: String| {
        let kind = expected.kind;
        let message = format!(
            "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; {why}"
        );
        Status::bad_request(message)
    };
    let form = media::sent(content_type).ok_or_else(|| Status::unsupported_media_type(&media::ACCEPTED))?;
    let (value, duplicates) = match form {
        Form::Json => json::parse_strict(body)
            .map_err(|error| unrecognized(format!("json parse error: {error} ({})", shown(body))))?,
        Form::Yaml => yaml::parse_strict(body).map_err(|error| Status::bad_request(error.to_string()))?,
        Form::Protobuf => {
            let object = protobuf::decode(body).map_err(|error| Status::bad_request(error.to_string()))?;
            let mut value = object.value;
            let map = value.make_map();
            map.insert("kind", object.kind.as_str());
            map.insert("apiVersion", object.api_version.as_str());
            (value, Vec::new())
        }
    };
    if value.as_map().is_none() {
        let fields = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
        let found = value.type_name();
        let why = format!(
            "json parse error: json: cannot unmarshal {found} into Go value of type {fields} ({})",
            hex(body)
        );
        return Err(unrecognized(why));
    }
    check_type(&value, expected)?;
    let about = |why: &dyn std::fmt::Display| {
        let (kind, version) = (expected.kind, expected.api_version.rsplit('/').next().unwrap_or_default());
        Status::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"))
    };
    let mut decoded = decode_sent(value, expected.schema, &duplicates).map_err(|error| about(&error))?;
    let map = decoded.value.make_map();
    map.insert("kind", expected.kind);
    map.insert("apiVersion", expected.api_version);
    let warnings = match strictness {
        Strictness::Strict if !decoded.strict.is_empty() => {
            return Err(about(&StrictError::join(&decoded.strict)));
        }
        Strictness::Warn => decoded.strict.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    };
    Ok(Sent { object: decoded.value, hollow: decoded.hollow, warnings })
}

/// Refuses an object of another type. What does not say its type is taken for the right one.
fn check_type(value: &Value, expected: Expected<'_>) -> Result<(), Status> {
    let (kind, api_version) = (value.str_at(&["kind"]), value.str_at(&["apiVersion"]));
    if !api_version.is_empty() && api_version != expected.api_version {
        return Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({})",
            expected.api_version
        )));
    }
    if !kind.is_empty() && kind != expected.kind {
        let version = expected.api_version.rsplit('/').next().unwrap_or_default();
        let group = expected
            .api_version
            .split_once('/')
            .map_or("core", |(group, _)| group.split('.').next().unwrap_or_default());
        let wanted = expected.kind;
        return Err(Status::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {wanted}: \
             converting ({version}.{kind}) to ({group}.{wanted}): unknown conversion"
        )));
    }
    Ok(())
}

/// The beginning of a body, for a message.
fn shown(body: &[u8]) -> String {
    match std::str::from_utf8(body) {
        Ok("") => "<empty>".to_owned(),
        Ok(text) => text.chars().take(1024).collect(),
        Err(_) => hex(body),
    }
}

fn hex(body: &[u8]) -> String {
    body.iter().take(512).map(|byte| format!("{byte:02x}")).collect()
}
