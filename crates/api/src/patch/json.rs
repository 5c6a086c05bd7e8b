//! JSON patch, RFC 6902, in upstream's dialect: a negative index counts from the end, `replace` also sets an
//! absent field, and `test` treats an absent field as null.
//!
//! Bounds: [`OPERATIONS_MAX`] operations, [`COPY_BYTES_MAX`] copied bytes, [`crate::json::DEPTH_MAX`] levels.
//! Up to [`SHORT_LEN_MAX`] operations are applied to the value itself, with one walk each; longer patches to
//! a [`document`], which is built once and whose operations take no walk.

use std::borrow::Cow;
use std::collections::BTreeMap;

use thiserror::Error;

use super::{PatchError, duplicate_texts, unmarshal_text};
use crate::decode::{STRICT_ERRORS_MAX, StrictError};
use crate::json::{self, Duplicate};
use crate::value::{Map, Value};

mod document;
mod short;

#[cfg(test)]
mod tests;

use document::DocumentNode;

/// Maximum number of operations of a patch.
pub const OPERATIONS_MAX: usize = 10_000;

/// Maximum bytes of JSON that the `copy` operations of one patch may add together.
pub const COPY_BYTES_MAX: usize = 3 << 20;

/// Maximum number of operations applied without a [`document`]: building one costs about as much as so many
/// walks.
const SHORT_LEN_MAX: usize = 16;

/// Error of an operation, with the text of Go's library. Clients see it if the patch is that of a mutating policy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JsonPatchError {
    /// An operation lacks a field, or the field has the wrong type.
    #[error("operation {0} has no text in field {1}")]
    Field(usize, &'static str),
    /// Unknown operation.
    #[error("Unexpected kind: {0}")]
    Kind(String),
    /// The container that a path leads to does not exist.
    #[error("{}", missing_text(.kind, .path))]
    Missing {
        /// The operation, or one of the `DESTINATION`s.
        kind: &'static str,
        /// The path.
        path: String,
    },
    /// The field that is removed or moved does not exist.
    #[error("{}", missing_key_text(.kind, .path))]
    MissingKey {
        /// The operation.
        kind: &'static str,
        /// The path.
        path: String,
    },
    /// The index is out of range.
    #[error("Unable to access invalid index: {0}")]
    Index(String),
    /// A `test` failed.
    #[error("testing value {0} failed")]
    Test(String),
    /// The root is replaced by a scalar.
    #[error("replace operation value must be object or array")]
    Root,
    /// Too many bytes are copied.
    #[error("the accumulated size increase of copy is {0}, exceeding the limit {COPY_BYTES_MAX}")]
    CopySize(usize),
    /// The result would nest too deep.
    #[error("exceeded max depth")]
    Depth,
}

/// Destination of the operation `move`.
const MOVE_DESTINATION: &str = "move destination";
/// Destination of the operation `copy`.
const COPY_DESTINATION: &str = "copy destination";

fn missing_text(kind: &str, path: &str) -> String {
    let what = match kind {
        "add" | "remove" => format!("{kind} operation does not apply: doc is missing path: \"{path}\""),
        "move" | "copy" => format!("{kind} operation does not apply: doc is missing from path: {path}"),
        MOVE_DESTINATION => format!("move operation does not apply: doc is missing destination path: {path}"),
        COPY_DESTINATION => format!("copy operation does not apply: doc is missing destination path: {path}"),
        "test" => format!("test operation does not apply: is missing path: {path}"),
        _ => format!("{kind} operation does not apply: doc is missing path: {path}"),
    };
    format!("{what}: missing value")
}

fn missing_key_text(kind: &str, path: &str) -> String {
    let key = unescape(path.rsplit('/').next().unwrap_or_default());
    let place: &str = if kind == "move" { &key } else { path };
    format!("error in {kind} for path: '{place}': Unable to remove nonexistent key: {key}: missing value")
}

/// Checks that a body is a list of operations within the bound, and returns their strict errors.
pub(super) fn check(
    body: &Value,
    duplicates: &[Duplicate],
    strict: bool,
) -> Result<Vec<Box<str>>, PatchError> {
    let (outer, inner) = if strict {
        ("[]handlers.jsonPatchOp", "handlers.jsonPatchOp")
    } else {
        ("jsonpatch.Patch", "jsonpatch.Operation")
    };
    let prefix = if strict { "error decoding patch: " } else { "" };
    let wrong = |value: &Value, target: String| {
        PatchError::Shape(format!("{prefix}{}", unmarshal_text(value, &target)))
    };
    let operations = match body {
        Value::List(list) => list.as_slice(),
        Value::Null => &[],
        other => return Err(wrong(other, format!("value of type {outer}"))),
    };
    let mut unknown = Vec::new();
    for (at, operation) in operations.iter().enumerate() {
        let fields = match operation {
            Value::Map(fields) => fields,
            Value::Null => continue,
            other => return Err(wrong(other, format!("value of type {inner}"))),
        };
        for (key, value) in fields.iter().filter(|_| strict) {
            match (key, value) {
                ("value", _) | ("op" | "path" | "from", Value::Str(_) | Value::Null) => {}
                ("op" | "path" | "from", other) => {
                    return Err(wrong(other, format!("struct field jsonPatchOp.{key} of type string")));
                }
                _ if unknown.len() >= STRICT_ERRORS_MAX => {}
                _ => unknown.push(StrictError::Unknown { path: format!("[{at}].{key}") }.to_string().into()),
            }
        }
    }
    if operations.len() > OPERATIONS_MAX {
        return Err(PatchError::TooManyOperations(operations.len()));
    }
    let mut texts = unknown;
    texts.extend(duplicate_texts(duplicates));
    Ok(texts.into_iter().map(|text: Box<str>| format!("json patch {text}").into()).collect())
}

/// Applies the operations in order; stops at the first that fails.
pub(super) fn apply(mut object: Value, patch: &Value) -> Result<Value, JsonPatchError> {
    parse_owned(&mut object);
    let operations = patch.as_list().unwrap_or_default();
    if operations.len() <= SHORT_LEN_MAX {
        short::apply(object, operations)
    } else {
        apply_long(object, operations)
    }
}

/// Applies many operations, each in time independent of the size of the object.
fn apply_long(object: Value, operations: &[Value]) -> Result<Value, JsonPatchError> {
    let mut root = DocumentNode::new(object);
    let mut copied = 0;
    for (at, operation) in operations.iter().enumerate() {
        let operation = JsonOperation { at, fields: operation.as_map() };
        let path = || operation.required("path");
        match operation.text("op").unwrap_or("unknown") {
            "add" => {
                let node = DocumentNode::new(operation.value().clone());
                place(&mut root, "add", path()?, node)?;
            }
            "remove" => drop(remove(&mut root, "remove", path()?)?),
            "replace" => replace(&mut root, path()?, operation.value())?,
            "move" => {
                let (from, path) = (operation.required("from")?, path()?);
                let node = remove(&mut root, "move", from)?;
                place(&mut root, MOVE_DESTINATION, path, node)?;
            }
            "copy" => {
                let (from, path) = (operation.required("from")?, path()?);
                let node = root.with_parent("copy", from, |parent, key| {
                    let child = parent.child(key)?;
                    copied += child.map_or(NULL_LEN, DocumentNode::json_len);
                    if copied > COPY_BYTES_MAX {
                        return Err(JsonPatchError::CopySize(copied));
                    }
                    Ok(child.cloned().unwrap_or(DocumentNode::Leaf(Value::Null)))
                })?;
                place(&mut root, COPY_DESTINATION, path, node)?;
            }
            "test" => test(&mut root, path()?, operation.value())?,
            kind => return Err(JsonPatchError::Kind(kind.to_owned())),
        }
    }
    Ok(root.into_value())
}

/// Bytes of `null`, the copy of an absent field.
const NULL_LEN: usize = 4;

fn place(
    root: &mut DocumentNode,
    kind: &'static str,
    path: &str,
    node: DocumentNode,
) -> Result<(), JsonPatchError> {
    check_depth(path, node.height())?;
    root.with_parent(kind, path, |parent, key| parent.add_child(key, node))
}

fn remove(root: &mut DocumentNode, kind: &'static str, path: &str) -> Result<DocumentNode, JsonPatchError> {
    let missing = || JsonPatchError::MissingKey { kind, path: path.to_owned() };
    root.with_parent(kind, path, |parent, key| parent.remove_child(key)?.ok_or_else(missing))
}

fn replace(root: &mut DocumentNode, path: &str, value: &Value) -> Result<(), JsonPatchError> {
    let node = DocumentNode::new(value.clone());
    check_depth(path, node.height())?;
    if !path.is_empty() {
        return root.with_parent("replace", path, |parent, key| parent.set_child(key, node));
    }
    if !node.is_container() {
        return Err(JsonPatchError::Root);
    }
    *root = node;
    Ok(())
}

fn test(root: &mut DocumentNode, path: &str, value: &Value) -> Result<(), JsonPatchError> {
    let is_equal = if path.is_empty() {
        root.equals(value)
    } else {
        root.with_parent("test", path, |parent, key| {
            Ok(parent.child(key)?.map_or(value.is_null(), |child| child.equals(value)))
        })?
    };
    if is_equal { Ok(()) } else { Err(JsonPatchError::Test(path.to_owned())) }
}

/// Parses raw field sets, since operations can reach into them.
fn parse_owned(object: &mut Value) {
    let entries = object.at_mut(&["metadata", "managedFields"]).and_then(Value::as_list_mut);
    for fields in entries.into_iter().flatten().filter_map(|entry| entry.get_mut("fieldsV1")) {
        if let Value::Raw(text) = fields {
            *fields = json::parse(text.as_bytes()).unwrap_or_default();
        }
    }
}

/// One operation.
struct JsonOperation<'a> {
    at: usize,
    fields: Option<&'a Map>,
}

impl<'a> JsonOperation<'a> {
    fn text(&self, field: &str) -> Option<&'a str> {
        self.fields?.get_str(field)
    }

    fn required(&self, field: &'static str) -> Result<&'a str, JsonPatchError> {
        self.text(field).ok_or(JsonPatchError::Field(self.at, field))
    }

    /// The value; null if absent.
    fn value(&self) -> &'a Value {
        self.fields.and_then(|fields| fields.get("value")).unwrap_or(&Value::Null)
    }
}

/// Parses an index below `end`; a negative one counts from there.
fn parse_index(text: &str, end: usize) -> Result<usize, JsonPatchError> {
    let number: Option<i64> = text.parse().ok();
    let at = number.and_then(|number| {
        if number < 0 {
            end.checked_sub(usize::try_from(number.unsigned_abs()).ok()?)
        } else {
            usize::try_from(number).ok()
        }
    });
    at.filter(|at| *at < end).ok_or_else(|| JsonPatchError::Index(text.to_owned()))
}

fn unescape(part: &str) -> Cow<'_, str> {
    if !part.contains('~') {
        return Cow::Borrowed(part);
    }
    let mut text = String::with_capacity(part.len());
    let mut rest = part;
    while let Some(at) = rest.find('~') {
        text.push_str(&rest[..at]);
        let (plain, width) = match rest.as_bytes().get(at + 1) {
            Some(b'0') => ('~', 2),
            Some(b'1') => ('/', 2),
            _ => ('~', 1),
        };
        text.push(plain);
        rest = &rest[at + width..];
    }
    text.push_str(rest);
    Cow::Owned(text)
}

/// Rejects a value of this height at the end of a path, if it would nest too deep there. Operations can nest
/// an object ever deeper in itself, and later walks rely on a bounded depth.
fn check_depth(path: &str, height: usize) -> Result<(), JsonPatchError> {
    let levels = path.bytes().filter(|byte| *byte == b'/').count() + height;
    if levels > json::DEPTH_MAX { Err(JsonPatchError::Depth) } else { Ok(()) }
}

/// Containers that operations reached into, by the segments of their paths.
#[derive(Default)]
struct Reached<'p>(BTreeMap<Cow<'p, str>, Reached<'p>>);

/// Result as upstream shows it: containers that operations reached into have sorted keys.
pub(super) fn shown(patched: &Value, patch: &Value) -> String {
    let mut reached = Reached::default();
    for operation in patch.as_list().unwrap_or_default() {
        for path in [operation.str_at(&["path"]), operation.str_at(&["from"])] {
            let Some((parents, _)) = path.rsplit_once('/') else { continue };
            // No value is deeper, so there is nothing to sort.
            parents
                .split('/')
                .skip(1)
                .take(json::DEPTH_MAX)
                .fold(&mut reached, |reached, part| reached.0.entry(unescape(part)).or_default());
        }
    }
    let mut shown = patched.clone();
    sort_reached(&mut shown, &reached);
    json::to_text(&shown)
}

fn sort_reached(value: &mut Value, reached: &Reached<'_>) {
    match value {
        Value::Map(map) => {
            map.sort();
            // Both are sorted by key: one pass finds all.
            let mut fields = map.iter_mut().peekable();
            for (key, inner) in &reached.0 {
                while fields.next_if(|(name, _)| **name < **key).is_some() {}
                if let Some((_, value)) = fields.next_if(|(name, _)| *name == &**key) {
                    sort_reached(value, inner);
                }
            }
        }
        Value::List(list) => {
            for (key, inner) in &reached.0 {
                if let Ok(at) = parse_index(key, list.len()) {
                    sort_reached(&mut list[at], inner);
                }
            }
        }
        _ => {}
    }
}
