//! Request and response bodies as objects of events.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method};
use setpoint_api::{Value, json, protobuf, yaml};
use setpoint_audit::objects::{self, remove_managed_fields};

use crate::body;
use crate::exchange::BodyPart;
use crate::media::{self, Form};

/// First bytes of a Status as JSON.
const STATUS_START: &[u8] = br#"{"kind":"Status","apiVersion":"v1""#;

/// Encoding of a response; `None` for bodies that are no API objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResponseForm(Option<Form>);

impl ResponseForm {
    /// JSON.
    pub(super) const JSON: ResponseForm = ResponseForm(Some(Form::Json));

    pub(super) fn of(headers: &HeaderMap) -> ResponseForm {
        let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        ResponseForm(content_type.and_then(|content_type| media::content_form(Some(content_type))))
    }

    fn parse(self, body: &[u8]) -> Option<Value> {
        match self.0? {
            Form::Json => json::parse(body).ok(),
            Form::Yaml => yaml::parse_strict(body).ok().map(|(value, _)| value),
            Form::Protobuf => {
                let object = protobuf::decode(body).ok()?;
                let mut value = Value::map();
                let map = value.make_map();
                map.insert("kind", object.kind.as_str());
                map.insert("apiVersion", object.api_version.as_str());
                let Value::Map(fields) = object.value else { return None };
                fields.iter().for_each(|(name, field)| drop(map.insert(name, field.clone())));
                Some(value)
            }
        }
    }
}

/// Returns the status of a response as JSON: that of its body if it is a Status, otherwise one with the code alone.
pub(super) fn status(form: ResponseForm, parts: &[BodyPart], (verb, code): (&str, u16)) -> Vec<u8> {
    let may_be_status = match form.0 {
        Some(Form::Json) => parts.first().is_some_and(|part| part.starts_with(STATUS_START)),
        // Only errors and deletes have a Status.
        Some(Form::Yaml | Form::Protobuf) => code >= 400 || matches!(verb, "delete" | "deletecollection"),
        None => false,
    };
    let found = may_be_status.then(|| {
        let body = parts.concat();
        let plain = if form.0 == Some(Form::Json) { objects::status_of_json(&body) } else { None };
        plain.or_else(|| form.parse(&body).as_ref().and_then(objects::status_of))
    });
    found.flatten().unwrap_or_else(|| objects::status_of_code(code))
}

/// Returns the API object of a response as JSON. Documents of other paths are no objects unless they have a kind.
pub(super) fn object(
    form: ResponseForm,
    body: &[u8],
    is_resource: bool,
    omits_managed_fields: bool,
) -> Option<Vec<u8>> {
    let mut value = form.parse(body)?;
    if value.as_map().is_none() || !is_resource && value.str_at(&["kind"]).is_empty() {
        return None;
    }
    if omits_managed_fields {
        remove_managed_fields(&mut value);
    }
    Some(json::to_vec(&value))
}

/// Returns the object or patch of a request as JSON; `None` if it is malformed.
pub(super) fn request_object(
    method: &Method,
    content_type: Option<&str>,
    body: &[u8],
    omits_managed_fields: bool,
) -> Option<Vec<u8>> {
    if *method == Method::PATCH {
        let is_yaml = content_type.is_some_and(|content_type| content_type.contains("yaml"));
        let patch = if is_yaml { yaml::parse_strict(body).ok()?.0 } else { json::parse(body).ok()? };
        return Some(json::to_vec(&patch));
    }
    let (mut object, _) = body::read(body, content_type).ok()?;
    if omits_managed_fields {
        remove_managed_fields(&mut object);
    }
    Some(json::to_vec(&object))
}
