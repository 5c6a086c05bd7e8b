//! Request and response objects of events: JSON without managed fields, and the status of a response.

use setpoint_api::{Map, Value, json};

/// Fields of a Status that an event has, in their order.
const STATUS_FIELDS: [&str; 5] = ["status", "message", "reason", "details", "code"];
/// First bytes of a Status that this server has encoded.
const STATUS_PREFIX: &[u8] = br#"{"kind":"Status","apiVersion":"v1","metadata":{},"#;

/// Names of an object that a request has in its body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectNames {
    /// Namespace.
    pub namespace: Box<str>,
    /// Name.
    pub name: Box<str>,
    /// UID.
    pub uid: Box<str>,
    /// Resource version.
    pub resource_version: Box<str>,
}

impl ObjectNames {
    /// Returns the names of an object.
    #[must_use]
    pub fn of(object: &Value) -> ObjectNames {
        let text = |field: &str| object.str_at(&["metadata", field]).into();
        ObjectNames {
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
        }
    }
}

/// Removes the managed fields of an object, of the items of a list, and of the objects in the rows of a table.
pub fn remove_managed_fields(object: &mut Value) {
    remove_own(object);
    for list in ["items", "rows"] {
        // A map may have a field of this name that is no list.
        let Some(Value::List(items)) = object.get_mut(list) else { continue };
        for item in items {
            remove_own(item);
            if let Some(row) = item.get_mut("object").filter(|_| list == "rows") {
                remove_own(row);
            }
        }
    }
}

fn remove_own(object: &mut Value) {
    if let Some(Value::Map(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
}

/// Returns the status of a response without a Status, such as `{"metadata":{},"code":200}`.
#[must_use]
pub fn status_of_code(code: u16) -> Vec<u8> {
    format!(r#"{{"metadata":{{}},"code":{code}}}"#).into_bytes()
}

/// Returns the status of a response that has only a message.
#[must_use]
pub fn status_with(success: Option<bool>, message: &str, reason: &str, code: u16) -> Vec<u8> {
    let mut status = Map::new();
    status.insert("metadata", Map::new());
    let word = success.map(|success| if success { "Success" } else { "Failure" });
    for (key, text) in [("status", word.unwrap_or_default()), ("message", message), ("reason", reason)] {
        if !text.is_empty() {
            status.insert(key, text);
        }
    }
    if code != 0 {
        status.insert("code", i64::from(code));
    }
    json::to_vec(&Value::Map(status))
}

/// Returns the status of a response whose body is a Status that this server has encoded as JSON; `None` if it is
/// another document.
#[must_use]
pub fn status_of_json(body: &[u8]) -> Option<Vec<u8>> {
    let fields = body.strip_prefix(STATUS_PREFIX)?;
    let fields = fields.strip_suffix(b"\n").unwrap_or(fields);
    Some([br#"{"metadata":{},"#, fields].concat())
}

/// Returns the status of a response whose body is a Status; `None` if it is another object.
#[must_use]
pub fn status_of(object: &Value) -> Option<Vec<u8>> {
    if object.str_at(&["kind"]) != "Status" || object.str_at(&["apiVersion"]) != "v1" {
        return None;
    }
    let mut status = Map::new();
    status.insert("metadata", Map::new());
    for field in STATUS_FIELDS {
        if let Some(value) = object.get(field).filter(|value| !value.is_null()) {
            status.insert(field, value.clone());
        }
    }
    Some(json::to_vec(&Value::Map(status)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> String {
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[test]
    fn managed_fields_are_removed_from_objects_lists_and_tables() {
        let own =
            r#"{"metadata":{"managedFields":[1],"name":"a"},"spec":{"metadata":{"managedFields":[2]}}}"#;
        let left = r#"{"metadata":{"name":"a"},"spec":{"metadata":{"managedFields":[2]}}}"#;
        for (full, expected) in [
            (own.to_owned(), left.to_owned()),
            (format!(r#"{{"items":[{own},5]}}"#), format!(r#"{{"items":[{left},5]}}"#)),
            (
                format!(r#"{{"rows":[{{"object":{own}}},{{}}]}}"#),
                format!(r#"{{"rows":[{{"object":{left}}},{{}}]}}"#),
            ),
            (r#"{"items":"x","metadata":3}"#.to_owned(), r#"{"items":"x","metadata":3}"#.to_owned()),
            ("[1]".to_owned(), "[1]".to_owned()),
        ] {
            let mut object = json::parse(full.as_bytes()).unwrap();
            remove_managed_fields(&mut object);
            assert_eq!(json::to_text(&object), expected);
        }
    }

    #[test]
    fn status_of_a_response_has_no_type() {
        let body = br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no","reason":"Forbidden","details":{"name":"x"},"code":403}"#;
        let expected = r#"{"metadata":{},"status":"Failure","message":"no","reason":"Forbidden","details":{"name":"x"},"code":403}"#;
        assert_eq!(text(&status_of_json(&[body.as_slice(), b"\n"].concat()).unwrap()), expected);
        assert_eq!(text(&status_of(&json::parse(body).unwrap()).unwrap()), expected);
        let expired = br#"{"kind":"Status","apiVersion":"v1","metadata":{"continue":"t"},"status":"Failure","code":410}"#;
        assert_eq!(status_of_json(expired), None);
        let found = status_of(&json::parse(expired).unwrap()).unwrap();
        assert_eq!(text(&found), r#"{"metadata":{},"status":"Failure","code":410}"#);
        assert_eq!(status_of(&json::parse(br#"{"kind":"Pod","apiVersion":"v1"}"#).unwrap()), None);
        assert_eq!(text(&status_of_code(201)), r#"{"metadata":{},"code":201}"#);
        assert_eq!(text(&status_with(None, "m", "", 0)), r#"{"metadata":{},"message":"m"}"#);
    }
}
