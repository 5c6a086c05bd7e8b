//! Secret: confidential data.

use crate::base64;
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::fields::{FieldLabels, UnsupportedLabel};
use crate::json;
use crate::kinds::{Rules, SelectableFields};
use crate::metadata::entry;
use crate::names::key::config_key;
use crate::value::{Map, Value};

mod pem;

/// Maximum bytes of all values.
const DATA_BYTES_MAX: usize = 1 << 20;
const SERVICE_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const CERTIFICATE: &str = "tls.crt";
const PRIVATE_KEY: &str = "tls.key";

const FIELDS: FieldLabels<'static> = FieldLabels {
    known: &[
        ("type", "type"),
        ("metadata.namespace", "metadata.namespace"),
        ("metadata.name", "metadata.name"),
    ],
    unsupported: UnsupportedLabel::Plain,
};

/// Rules of Secret.
pub struct Secret;

impl Rules for Secret {
    fn default(&self, object: &mut Value) {
        encode_string_data(object);
        let map = object.make_map();
        if map.get("type").is_none_or(Value::is_empty) {
            map.insert("type", "Opaque");
        }
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        if new.str_at(&["type"]).is_empty() {
            crate::kinds::keep(new, old, "type");
        }
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let data_path = Path::root("data");
        let mut total = 0;
        for (key, value) in data(object).into_iter().flat_map(Map::iter) {
            errors.push_invalid(&data_path.key(key), key, config_key(key));
            total += value.as_str().map_or(0, decoded_len);
        }
        if total > DATA_BYTES_MAX {
            errors.push(FieldError::too_long(&data_path, DATA_BYTES_MAX));
        }
        check_type(errors, object);
    }

    fn validate_transition(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let (kind, old_kind) = (new.str_at(&["type"]), old.str_at(&["type"]));
        if kind != old_kind {
            let value = BadValue::json_string(kind);
            errors.push(FieldError::invalid(&Path::root("type"), value, "field is immutable"));
        }
        if old.get("immutable").and_then(Value::as_bool) != Some(true) {
            return;
        }
        let detail = "field is immutable when `immutable` is set";
        if new.get("immutable").and_then(Value::as_bool) != Some(true) {
            errors.push(FieldError::forbidden(&Path::root("immutable"), detail));
        }
        if data(new) != data(old) {
            errors.push(FieldError::forbidden(&Path::root("data"), detail));
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        self.validate_transition(new, old, errors);
        self.validate(new, errors);
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        if new.str_at(&["type"]) != "kubernetes.io/tls" {
            return Vec::new();
        }
        let text = |key: &str| base64::decode(new.str_at(&["data", key])).unwrap_or_default();
        pem::key_pair_fault(&text(CERTIFICATE), &text(PRIVATE_KEY)).into_iter().collect()
    }

    fn field_labels(&self) -> &'static FieldLabels<'static> {
        &FIELDS
    }

    fn fields<'o>(&'o self, object: &'o Value) -> SelectableFields<'o> {
        vec![("type", object.str_at(&["type"]).into())]
    }
}

/// Decoded length of base64.
pub(super) fn decoded_len(text: &str) -> usize {
    text.len() / 4 * 3 - text.bytes().rev().take_while(|byte| *byte == b'=').count()
}

fn data(object: &Value) -> Option<&Map> {
    object.get("data").and_then(Value::as_map).filter(|map| !map.is_empty())
}

/// Moves `stringData` into `data`, whose keys it overrides.
fn encode_string_data(object: &mut Value) {
    let Some(Value::Map(texts)) = object.as_map_mut().and_then(|map| map.remove("stringData")) else {
        return;
    };
    if texts.is_empty() {
        return;
    }
    let encode = |text: Value| Value::from(base64::encode(text.as_str().unwrap_or_default().as_bytes()));
    let data = object.ensure_map("data");
    let mut entries = std::mem::take(data).into_entries();
    entries.extend(texts.into_entries().into_iter().map(|(key, text)| (key, encode(text))));
    (*data, _) = Map::from_entries(entries);
}

/// Checks that the data required by the type is present.
fn check_type(errors: &mut ErrorList, object: &Value) {
    let data = data(object);
    let has = |key: &str| data.is_some_and(|data| data.contains(key));
    let path = Path::root("data");
    let mut require = |key: &str| errors.push(FieldError::required(&path.key(key), ""));
    match object.str_at(&["type"]) {
        "kubernetes.io/service-account-token"
            if entry(object, "annotations", SERVICE_ACCOUNT_NAME).unwrap_or_default().is_empty() =>
        {
            let metadata = Path::root("metadata");
            let annotations = metadata.child("annotations");
            errors.push(FieldError::required(&annotations.key(SERVICE_ACCOUNT_NAME), ""));
        }
        "kubernetes.io/dockercfg" => check_json(errors, data, ".dockercfg"),
        "kubernetes.io/dockerconfigjson" => check_json(errors, data, ".dockerconfigjson"),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            require("username");
            require("password");
        }
        "kubernetes.io/ssh-auth" => {
            let key = "ssh-privatekey";
            if data.and_then(|data| data.get_str(key)).unwrap_or_default().is_empty() {
                require(key);
            }
        }
        "kubernetes.io/tls" => {
            [CERTIFICATE, PRIVATE_KEY].into_iter().filter(|key| !has(key)).for_each(require)
        }
        _ => {}
    }
}

fn check_json(errors: &mut ErrorList, data: Option<&Map>, key: &str) {
    let data_path = Path::root("data");
    let path = data_path.key(key);
    let Some(text) = data.and_then(|data| data.get_str(key)) else {
        errors.push(FieldError::required(&path, ""));
        return;
    };
    let fault = match json::parse(&base64::decode(text).unwrap_or_default()) {
        Ok(Value::Map(_) | Value::Null) => return,
        Ok(other) => {
            let kind = other.type_name();
            format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")
        }
        Err(error) => error.to_string(),
    };
    errors.push(FieldError::invalid(&path, "<secret contents redacted>", fault));
}
