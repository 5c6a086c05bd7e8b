//! Request body decoder: JSON, YAML or protobuf to an object of the expected kind, with field validation.

use setpoint_api::decode::StrictError;
use setpoint_api::field_error::{ErrorList, FieldError, Path};
use setpoint_api::json::Duplicate;
use setpoint_api::kind_schema::SchemaRef;
use setpoint_api::status::{Qualified, Status};
use setpoint_api::{Value, json, protobuf, yaml};

use crate::media::{self, Form};

/// Field validation: handling of unknown and duplicate fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// Drop them.
    Ignore,
    /// Drop them, and warn the client.
    Warn,
    /// Reject the request.
    Strict,
}

impl Strictness {
    /// Parses the `fieldValidation` parameter.
    #[must_use]
    pub fn of(text: &str) -> Strictness {
        match text {
            "Strict" => Strictness::Strict,
            "Ignore" => Strictness::Ignore,
            _ => Strictness::Warn,
        }
    }
}

/// Type of the expected object.
#[derive(Clone, Copy)]
pub struct Expected<'a> {
    /// `group/version`.
    pub api_version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// Schema.
    pub schema: SchemaRef<'a>,
}

/// A decoded body.
#[derive(Clone, Debug)]
pub struct DecodedBody {
    /// The object.
    pub object: Value,
    /// `true` if the object still has empty lists that are omitted in storage.
    pub has_omitted_empty: bool,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

/// Decodes the object in a body.
///
/// # Errors
/// If there is none, or it has another type.
pub fn object(
    body: &[u8],
    content_type: Option<&str>,
    expected: Expected<'_>,
    strictness: Strictness,
) -> Result<DecodedBody, Status> {
    let (value, duplicates) = read(body, content_type).map_err(|fault| match fault {
        BodyError::Media => Status::unsupported_media_type(&media::ACCEPTED),
        BodyError::Unrecognized(why) => {
            let (kind, shown) = (expected.kind, excerpt(body));
            Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): {why} ({shown})"
            ))
        }
    })?;
    if matches!(expected.schema, SchemaRef::Custom(_)) {
        check_custom_type(&value, body, expected)?;
    }
    check_type(&value, expected)?;
    let about = |why: &dyn std::fmt::Display| {
        let (kind, version) = (expected.kind, expected.api_version.rsplit('/').next().unwrap_or_default());
        Status::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"))
    };
    let is_yaml = media::content_form(content_type) == Some(Form::Yaml);
    // Duplicate YAML keys are reported by line, before other errors.
    let repeated = if is_yaml && !duplicates.is_empty() { yaml::repeated_keys(body) } else { Vec::new() };
    let duplicates = if is_yaml { &[] } else { &duplicates[..] };
    let mut decoded = expected.schema.decode_request(value, duplicates).map_err(|error| about(&error))?;
    let map = decoded.value.make_map();
    map.insert("kind", expected.kind);
    map.insert("apiVersion", expected.api_version);
    let warnings = match strictness {
        Strictness::Strict if !repeated.is_empty() => {
            let lines = format!("yaml: unmarshal errors:\n  {}", repeated.join("\n  "));
            let unknown = decoded.strict.iter().map(ToString::to_string);
            let all: Vec<String> = std::iter::once(lines).chain(unknown).collect();
            return Err(about(&format!("strict decoding error: {}", all.join(", "))));
        }
        Strictness::Strict if !decoded.strict.is_empty() => {
            return Err(about(&StrictError::join(&decoded.strict)));
        }
        Strictness::Warn => {
            repeated.into_iter().chain(decoded.strict.iter().map(ToString::to_string)).collect()
        }
        _ => Vec::new(),
    };
    Ok(DecodedBody { object: decoded.value, has_omitted_empty: decoded.has_omitted_empty, warnings })
}

/// Failure to read a body as an object.
pub enum BodyError {
    /// Unknown media type.
    Media,
    /// Malformed, or without a valid type.
    Unrecognized(String),
}

/// Parses an object of any kind, with its duplicate fields.
///
/// # Errors
/// If the body is not an object.
pub fn read(body: &[u8], content_type: Option<&str>) -> Result<(Value, Vec<Duplicate>), BodyError> {
    let unversioned =
        |why: String| BodyError::Unrecognized(format!("couldn't get version/kind; json parse error: {why}"));
    let (value, duplicates) = match media::content_form(content_type).ok_or(BodyError::Media)? {
        Form::Json => json::parse_strict(body).map_err(|error| unversioned(error.to_string()))?,
        Form::Yaml => yaml::parse_strict(body)
            .map_err(|error| BodyError::Unrecognized(error.message_without_prefix()))?,
        Form::Protobuf => {
            let object =
                protobuf::decode(body).map_err(|error| BodyError::Unrecognized(error.to_string()))?;
            let mut value = object.value;
            let map = value.make_map();
            map.insert("kind", object.kind.as_str());
            map.insert("apiVersion", object.api_version.as_str());
            (value, Vec::new())
        }
    };
    let value = if value.is_null() { Value::map() } else { value };
    if value.as_map().is_none() {
        let fields = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
        let found = value.type_name();
        return Err(unversioned(format!("json: cannot unmarshal {found} into Go value of type {fields}")));
    }
    for field in ["apiVersion", "kind"] {
        let is_text = |value: &Value| value.is_null() || value.as_str().is_some();
        if let Some(other) = value.get(field).filter(|value| !is_text(value)) {
            let found = other.type_name();
            let why = format!("json: cannot unmarshal {found} into Go struct field .{field} of type string");
            return Err(unversioned(why));
        }
    }
    let version = value.str_at(&["apiVersion"]);
    if version.split('/').count() > 2 {
        return Err(BodyError::Unrecognized(format!("unexpected GroupVersion string: {version}")));
    }
    Ok((value, duplicates))
}

/// An error for a custom object without a type, or of another kind. Upstream decodes it without defaults for its type,
/// and validates the kind only then.
fn check_custom_type(value: &Value, body: &[u8], expected: Expected<'_>) -> Result<(), Status> {
    let (kind, api_version) = (value.str_at(&["kind"]), value.str_at(&["apiVersion"]));
    if kind.is_empty() {
        let text = match body.first() {
            Some(b'{') => String::from_utf8_lossy(body).into_owned(),
            _ => json::to_text(value),
        };
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing in '{text}' ({})",
            expected.kind,
            excerpt(body)
        )));
    }
    if value.get("apiVersion").is_some_and(Value::is_null) {
        return Err(Status::bad_request(format!(
            "{kind} in version \"\" cannot be handled as a {}: .apiVersion accessor error: <nil> is of the type <nil>, \
             expected string",
            expected.kind
        )));
    }
    if api_version.is_empty() {
        return Err(Status::bad_request(format!(
            "the API version in the data () does not match the expected API version ({})",
            expected.api_version
        )));
    }
    if kind != expected.kind && api_version == expected.api_version {
        let group = api_version.split('/').next().unwrap_or_default();
        let mut errors = ErrorList::new();
        errors.push(FieldError::invalid(&Path::root("kind"), kind, format!("must be {}", expected.kind)));
        let name = value.str_at(&["metadata", "name"]);
        return Err(Status::invalid(Qualified { group, name: kind }, name, &errors));
    }
    Ok(())
}

/// 400 for an object of another type. Missing type fields are accepted.
fn check_type(value: &Value, expected: Expected<'_>) -> Result<(), Status> {
    let (kind, api_version) = (value.str_at(&["kind"]), value.str_at(&["apiVersion"]));
    let api_version = api_version.strip_prefix('/').unwrap_or(api_version);
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
        let expected_kind = expected.kind;
        return Err(Status::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {expected_kind}: \
             converting ({version}.{kind}) to ({group}.{expected_kind}): unknown conversion"
        )));
    }
    Ok(())
}

/// Start of a body for an error message: as text if it may be JSON.
fn excerpt(body: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 30;
    let start = &body[..body.len().min(SHOWN_BYTES_MAX)];
    let text = match body.first() {
        None => return "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(start).into_owned(),
        Some(_) => start.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    if body.len() > SHOWN_BYTES_MAX { text + " ..." } else { text }
}
