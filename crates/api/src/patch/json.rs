//! JSON patches, RFC 6902, in the dialect that the API has always had: an index may be negative and then counts
//! from the end, `replace` also sets a field that was not there, and `test` takes an absent field for null.
//!
//! Bounds: [`OPERATIONS_MAX`] operations, [`COPY_BYTES_MAX`] bytes copied, [`crate::json::DEPTH_MAX`] levels.

use std::borrow::Cow;

use thiserror::Error;

use super::{PatchError, duplicate_texts, unmarshal_text};
use crate::decode::{STRICT_ERRORS_MAX, StrictError};
use crate::json::{self, DEPTH_MAX, Duplicate};
use crate::value::{Map, Value};

/// How many operations one patch may have.
pub const OPERATIONS_MAX: usize = 10_000;

/// How many bytes of JSON the `copy` operations of one patch may add together.
pub const COPY_BYTES_MAX: usize = 3 << 20;

/// Why an operation fails. Clients are not told, logs may be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JsonPatchError {
    /// An operation lacks a field, or has it with another type.
    #[error("operation {0} has no text in field {1}")]
    Field(usize, &'static str),
    /// There is no such operation.
    #[error("Unexpected kind: {0}")]
    Kind(String),
    /// The object has no such place.
    #[error("{kind} operation does not apply: doc is missing path: {path}")]
    Missing {
        /// The operation.
        kind: &'static str,
        /// The place.
        path: String,
    },
    /// A list has no such place.
    #[error("Unable to access invalid index: {0}")]
    Index(String),
    /// The value is another one.
    #[error("testing value {0} failed")]
    Test(String),
    /// The whole object is replaced by something that is none.
    #[error("replace operation value must be object or array")]
    Root,
    /// Too much is copied.
    #[error("the accumulated size increase of copy is {0}, exceeding the limit {COPY_BYTES_MAX}")]
    CopySize(usize),
    /// The object would nest too deep.
    #[error("exceeded max depth")]
    Depth,
}

/// Checks that a body is a list of operations, not too many, and says what they have beyond their form.
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

/// Applies the operations in order; the first that fails ends it.
pub(super) fn apply(mut object: Value, patch: &Value) -> Result<Value, JsonPatchError> {
    read_owned(&mut object);
    let mut copied = 0;
    let mut bound = Bound::default();
    for (at, operation) in patch.as_list().unwrap_or_default().iter().enumerate() {
        let operation = Operation { at, fields: operation.as_map() };
        match operation.text("op").unwrap_or("unknown") {
            "add" => add(&mut object, &operation, &mut bound)?,
            "remove" => drop(remove("remove", &mut object, operation.required("path")?)?),
            "replace" => replace(&mut object, &operation, &mut bound)?,
            "move" => {
                let (from, path) = (operation.required("from")?, operation.required("path")?);
                bound.shift(&object, from, path)?;
                let value = remove("move", &mut object, from)?;
                place("move", &mut object, path, value)?;
            }
            "copy" => copy(&mut object, &operation, &mut copied, &mut bound)?,
            "test" => test(&mut object, &operation)?,
            kind => return Err(JsonPatchError::Kind(kind.to_owned())),
        }
    }
    Ok(object)
}

/// Reads what owners own where it was left as it is stored, since operations can reach into it.
fn read_owned(object: &mut Value) {
    let entries = object.at_mut(&["metadata", "managedFields"]).and_then(Value::as_list_mut);
    for fields in entries.into_iter().flatten().filter_map(|entry| entry.get_mut("fieldsV1")) {
        if let Value::Raw(text) = fields {
            *fields = json::parse(text.as_bytes()).unwrap_or_default();
        }
    }
}

/// One operation.
struct Operation<'a> {
    at: usize,
    fields: Option<&'a Map>,
}

impl<'a> Operation<'a> {
    fn text(&self, field: &str) -> Option<&'a str> {
        self.fields?.get_str(field)
    }

    fn required(&self, field: &'static str) -> Result<&'a str, JsonPatchError> {
        self.text(field).ok_or(JsonPatchError::Field(self.at, field))
    }

    /// The value; none reads as null.
    fn value(&self) -> &'a Value {
        self.fields.and_then(|fields| fields.get("value")).unwrap_or(&Value::Null)
    }
}

fn add(object: &mut Value, operation: &Operation<'_>, bound: &mut Bound) -> Result<(), JsonPatchError> {
    let (path, value) = (operation.required("path")?, operation.value().clone());
    bound.place(path, &value)?;
    place("add", object, path, value)
}

fn replace(object: &mut Value, operation: &Operation<'_>, bound: &mut Bound) -> Result<(), JsonPatchError> {
    let (path, value) = (operation.required("path")?, operation.value().clone());
    bound.place(path, &value)?;
    if path.is_empty() {
        return match value {
            Value::Map(_) | Value::List(_) => {
                *object = value;
                Ok(())
            }
            _ => Err(JsonPatchError::Root),
        };
    }
    match find("replace", object, path)? {
        (Value::List(list), key) => {
            let at = index(&key, list.len())?;
            list[at] = value;
        }
        (parent, key) => drop(parent.make_map().insert(&*key, value)),
    }
    Ok(())
}

fn copy(
    object: &mut Value,
    operation: &Operation<'_>,
    copied: &mut usize,
    bound: &mut Bound,
) -> Result<(), JsonPatchError> {
    let (from, path) = (operation.required("from")?, operation.required("path")?);
    let value = get("copy", object, from)?.clone();
    *copied += json::to_vec(&value).len();
    if *copied > COPY_BYTES_MAX {
        return Err(JsonPatchError::CopySize(*copied));
    }
    bound.place(path, &value)?;
    place("copy", object, path, value)
}

fn test(object: &mut Value, operation: &Operation<'_>) -> Result<(), JsonPatchError> {
    let path = operation.required("path")?;
    let found = if path.is_empty() { &*object } else { get("test", object, path)? };
    if found == operation.value() { Ok(()) } else { Err(JsonPatchError::Test(path.to_owned())) }
}

/// The value at a place; a field that is not there reads as null.
fn get<'v>(kind: &'static str, object: &'v mut Value, path: &str) -> Result<&'v Value, JsonPatchError> {
    match find(kind, object, path)? {
        (Value::List(list), key) => {
            let at = index(&key, list.len())?;
            Ok(&list[at])
        }
        (parent, key) => Ok(parent.get(&key).unwrap_or(&Value::Null)),
    }
}

/// Adds a value: a field is set, an item of a list moves those behind it.
fn place(kind: &'static str, object: &mut Value, path: &str, value: Value) -> Result<(), JsonPatchError> {
    match find(kind, object, path)? {
        (Value::List(list), key) if key == "-" => list.push(value),
        (Value::List(list), key) => {
            let at = index(&key, list.len() + 1)?;
            list.insert(at, value);
        }
        (parent, key) => drop(parent.make_map().insert(&*key, value)),
    }
    Ok(())
}

fn remove(kind: &'static str, object: &mut Value, path: &str) -> Result<Value, JsonPatchError> {
    match find(kind, object, path)? {
        (Value::List(list), key) => {
            let at = index(&key, list.len())?;
            Ok(list.remove(at))
        }
        (parent, key) => parent
            .make_map()
            .remove(&key)
            .ok_or_else(|| JsonPatchError::Missing { kind, path: path.to_owned() }),
    }
}

/// The object or list that a path ends in, and the last part of the path.
fn find<'v, 'p>(
    kind: &'static str,
    object: &'v mut Value,
    path: &'p str,
) -> Result<(&'v mut Value, Cow<'p, str>), JsonPatchError> {
    let missing = || JsonPatchError::Missing { kind, path: path.to_owned() };
    let mut parts = path.split('/').skip(1).map(unescape).peekable();
    let mut value = object;
    loop {
        let part = parts.next().ok_or_else(missing)?;
        if parts.peek().is_none() {
            return Ok((value, part));
        }
        let next = match value {
            Value::Map(map) => map.get_mut(&part),
            Value::List(list) => match index(&part, list.len()) {
                Ok(at) => list.get_mut(at),
                Err(_) => None,
            },
            _ => None,
        };
        value = next.filter(|value| matches!(value, Value::Map(_) | Value::List(_))).ok_or_else(missing)?;
    }
}

/// Reads an index below `end`; a negative one counts back from there.
fn index(text: &str, end: usize) -> Result<usize, JsonPatchError> {
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

/// How deep the object nests at most. Operations can nest it ever deeper in itself, and all that walk a value later
/// rely on its depth; but a walk for each operation would cost too much.
#[derive(Default)]
struct Bound(Option<usize>);

impl Bound {
    /// A value is about to stand at a path.
    fn place(&mut self, path: &str, value: &Value) -> Result<(), JsonPatchError> {
        let levels = parents(path) + depth(value);
        self.0 = self.0.map(|bound| bound.max(levels));
        if levels > DEPTH_MAX { Err(JsonPatchError::Depth) } else { Ok(()) }
    }

    /// A part of the object is about to move. The object is walked only when the bound would be passed otherwise.
    fn shift(&mut self, object: &Value, from: &str, path: &str) -> Result<(), JsonPatchError> {
        let rise = parents(path).saturating_sub(parents(from));
        if rise == 0 {
            return Ok(());
        }
        let known = self.0.filter(|bound| bound + rise <= DEPTH_MAX).unwrap_or_else(|| depth(object));
        self.0 = Some(known + rise);
        if known + rise > DEPTH_MAX { Err(JsonPatchError::Depth) } else { Ok(()) }
    }
}

fn parents(path: &str) -> usize {
    path.bytes().filter(|byte| *byte == b'/').count()
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Map(map) => 1 + map.iter().map(|(_, value)| depth(value)).max().unwrap_or(0),
        Value::List(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// The outcome as upstream shows it: what the operations reached into has its keys in order.
pub(super) fn shown(patched: &Value, patch: &Value) -> String {
    let mut shown = patched.clone();
    sort(&mut shown);
    for operation in patch.as_list().unwrap_or_default() {
        for path in [operation.str_at(&["path"]), operation.str_at(&["from"])] {
            let Some((parents, _)) = path.rsplit_once('/') else { continue };
            let mut value = &mut shown;
            for part in parents.split('/').skip(1).map(unescape) {
                let next = match value {
                    Value::Map(map) => map.get_mut(&part),
                    Value::List(list) => index(&part, list.len()).ok().map(|at| &mut list[at]),
                    _ => None,
                };
                let Some(next) = next else { break };
                value = next;
                sort(value);
            }
        }
    }
    json::to_text(&shown)
}

fn sort(value: &mut Value) {
    if let Value::Map(map) = value {
        map.sort();
    }
}
