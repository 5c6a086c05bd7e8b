//! Responses in another form: `Table`, `PartialObjectMetadata` and its list.
//!
//! They are encoded directly, since each is built for one response. Those that clients also request in
//! protobuf are available as values.

use crate::json;
use crate::time::Time;
use crate::value::{Map, Value};

use super::{Column, printer};

/// Requested version of the group `meta.k8s.io`. The versions differ in name only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetaVersion {
    /// Current version.
    #[default]
    V1,
    /// Version of old clients.
    V1Beta1,
}

impl MetaVersion {
    /// Group and version, as in `meta.k8s.io/v1`.
    #[must_use]
    pub const fn api_version(self) -> &'static str {
        match self {
            MetaVersion::V1 => "meta.k8s.io/v1",
            MetaVersion::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// Part of the object that is embedded in its row, `includeObject`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// Only metadata.
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

impl IncludeObject {
    /// Parses the parameter `includeObject`; it may be empty.
    #[must_use]
    pub fn parse(text: &str) -> Option<IncludeObject> {
        Some(match text {
            "" | "Metadata" => IncludeObject::Metadata,
            "None" => IncludeObject::None,
            "Object" => IncludeObject::Object,
            _ => return None,
        })
    }
}

/// List metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListMeta<'a> {
    /// `resourceVersion` of the list.
    pub resource_version: &'a str,
    /// Continue token; empty on the last page.
    pub continue_token: &'a str,
    /// Number of remaining objects, if known.
    pub remaining_item_count: Option<i64>,
}

impl<'a> ListMeta<'a> {
    /// List metadata for the table of one object.
    #[must_use]
    pub fn of_object(object: &'a Value) -> ListMeta<'a> {
        ListMeta { resource_version: object.str_at(&["metadata", "resourceVersion"]), ..ListMeta::default() }
    }

    fn to_value(self) -> Value {
        let mut map = Map::new();
        for (key, text) in [("resourceVersion", self.resource_version), ("continue", self.continue_token)] {
            if !text.is_empty() {
                map.insert(key, text);
            }
        }
        if let Some(count) = self.remaining_item_count {
            map.insert("remainingItemCount", count);
        }
        Value::Map(map)
    }
}

/// Options of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableOptions {
    /// Version of the table.
    pub version: MetaVersion,
    /// Embedded part of the objects.
    pub include: IncludeObject,
    /// `true` to include column definitions: not with `noHeaders`, and in a watch only with the first event.
    pub with_columns: bool,
}

impl Default for TableOptions {
    fn default() -> TableOptions {
        TableOptions { version: MetaVersion::V1, include: IncludeObject::Metadata, with_columns: true }
    }
}

/// An object of a table in two versions, which are mostly the same value.
#[derive(Clone, Copy, Debug)]
pub struct TableObject<'a> {
    /// Object in the storage version, from which cells are built.
    pub stored: &'a Value,
    /// Object in the version of the request, which is embedded in the row.
    pub served: &'a Value,
}

impl<'a> From<&'a Value> for TableObject<'a> {
    fn from(object: &'a Value) -> TableObject<'a> {
        TableObject { stored: object, served: object }
    }
}

/// Streaming writer of a table. Lists are encoded in chunks, so that a long one is never in memory as a
/// whole.
#[derive(Debug)]
pub struct TableWriter {
    kind: (&'static str, &'static str),
    options: TableOptions,
    rows: usize,
}

impl TableWriter {
    /// Appends the bytes before the rows.
    pub fn start(
        kind: (&'static str, &'static str),
        meta: ListMeta<'_>,
        options: TableOptions,
        out: &mut Vec<u8>,
    ) -> TableWriter {
        write_head(printer(kind.0, kind.1).columns, meta, options, out);
        TableWriter { kind, options, rows: 0 }
    }

    /// Returns the writer of a table that has these many rows already.
    #[must_use]
    pub fn resume(kind: (&'static str, &'static str), options: TableOptions, rows: usize) -> TableWriter {
        TableWriter { kind, options, rows }
    }

    /// Appends the row of an object.
    pub fn row(&mut self, object: TableObject<'_>, now: Time, out: &mut Vec<u8>) {
        let cells = (printer(self.kind.0, self.kind.1).row)(object.stored, now);
        self.cells(object, cells, out);
    }

    fn cells(&mut self, object: TableObject<'_>, cells: Vec<Value>, out: &mut Vec<u8>) {
        out.extend_from_slice(if self.rows == 0 { b"[{\"cells\":" } else { b",{\"cells\":" });
        self.rows += 1;
        json::write(&Value::List(cells), out);
        if self.kind == ("", "Pod") {
            write_completed(object.stored, out);
        }
        out.extend_from_slice(b",\"object\":");
        match self.options.include {
            IncludeObject::None => out.extend_from_slice(b"null"),
            IncludeObject::Metadata => write_partial(object.served, self.options.version, out),
            IncludeObject::Object => json::write(object.served, out),
        }
        out.push(b'}');
    }

    /// Appends the bytes after the rows.
    pub fn end(self, out: &mut Vec<u8>) {
        let end: &[u8] = match self.rows {
            0 if printer(self.kind.0, self.kind.1).is_null_without_rows => b"null}",
            0 => b"[]}",
            _ => b"]}",
        };
        out.extend_from_slice(end);
    }
}

/// `true` if the row of an object does not depend on other objects of its list.
#[must_use]
pub fn has_independent_rows(kind: (&str, &str)) -> bool {
    printer(kind.0, kind.1).list.is_none()
}

/// Appends the table of a list of objects.
pub fn write_table(
    kind: (&'static str, &'static str),
    objects: &[TableObject<'_>],
    meta: ListMeta<'_>,
    options: TableOptions,
    now: Time,
    out: &mut Vec<u8>,
) {
    let printer = printer(kind.0, kind.1);
    let mut rows: Vec<Vec<Value>> = objects.iter().map(|object| (printer.row)(object.stored, now)).collect();
    if let Some(list) = printer.list {
        let stored: Vec<&Value> = objects.iter().map(|object| object.stored).collect();
        list(&stored, &mut rows);
    }
    let mut table = TableWriter::start(kind, meta, options, out);
    for (object, cells) in objects.iter().zip(rows) {
        table.cells(*object, cells, out);
    }
    table.end(out);
}

/// Appends the table of one object.
pub fn write_object_table(
    kind: (&'static str, &'static str),
    object: TableObject<'_>,
    options: TableOptions,
    now: Time,
    out: &mut Vec<u8>,
) {
    let mut table = TableWriter::start(kind, ListMeta::of_object(object.served), options, out);
    table.row(object, now, out);
    table.end(out);
}

/// Appends the bytes before the rows.
fn write_head(columns: &[Column], meta: ListMeta<'_>, options: TableOptions, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"kind\":\"Table\",\"apiVersion\":");
    json::write_str(options.version.api_version(), out);
    out.extend_from_slice(b",\"metadata\":");
    json::write(&meta.to_value(), out);
    out.extend_from_slice(b",\"columnDefinitions\":");
    let columns = options.with_columns.then(|| columns.iter().map(definition).collect::<Vec<Value>>());
    json::write(&Value::from(columns), out);
    out.extend_from_slice(b",\"rows\":");
}

fn definition(column: &Column) -> Value {
    let texts = [
        ("name", column.name),
        ("type", column.kind),
        ("format", column.format),
        ("description", column.description()),
    ];
    let mut map: Map = texts.into_iter().collect();
    map.insert("priority", column.priority);
    Value::Map(map)
}

/// Appends the condition of a row whose pod has terminated.
fn write_completed(pod: &Value, out: &mut Vec<u8>) {
    let (reason, message) = match pod.str_at(&["status", "phase"]) {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return,
    };
    let condition: Map =
        [("type", "Completed"), ("status", "True"), ("reason", reason), ("message", message)]
            .into_iter()
            .collect();
    out.extend_from_slice(b",\"conditions\":");
    json::write(&Value::List(vec![Value::Map(condition)]), out);
}

/// Appends an object's `PartialObjectMetadata`.
pub fn write_partial(object: &Value, version: MetaVersion, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":");
    json::write_str(version.api_version(), out);
    out.extend_from_slice(b",\"metadata\":");
    match object.get("metadata") {
        Some(metadata @ Value::Map(_)) => json::write(metadata, out),
        _ => out.extend_from_slice(b"{}"),
    }
    out.push(b'}');
}

/// Appends the bytes before the items of a `PartialObjectMetadataList`.
pub fn write_partial_list_head(meta: ListMeta<'_>, version: MetaVersion, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":");
    json::write_str(version.api_version(), out);
    out.extend_from_slice(b",\"metadata\":");
    json::write(&meta.to_value(), out);
    out.extend_from_slice(b",\"items\":");
}

/// Appends the `PartialObjectMetadataList` of some objects.
pub fn write_partial_list<'v>(
    objects: impl IntoIterator<Item = &'v Value>,
    meta: ListMeta<'_>,
    version: MetaVersion,
    out: &mut Vec<u8>,
) {
    write_partial_list_head(meta, version, out);
    let mut before: &[u8] = b"[";
    for object in objects {
        out.extend_from_slice(before);
        write_partial(object, version, out);
        before = b",";
    }
    out.extend_from_slice(if before == b"[" { b"null}" } else { b"]}" });
}

/// `PartialObjectMetadata` of an object.
#[must_use]
pub fn partial(object: &Value, version: MetaVersion) -> Value {
    let metadata = object.get("metadata").filter(|metadata| metadata.as_map().is_some());
    let mut map = Map::with_capacity(3);
    map.insert("kind", "PartialObjectMetadata");
    map.insert("apiVersion", version.api_version());
    map.insert("metadata", metadata.cloned().unwrap_or_else(Value::map));
    Value::Map(map)
}

/// `PartialObjectMetadataList` of some objects.
#[must_use]
pub fn partial_list<'v>(
    objects: impl IntoIterator<Item = &'v Value>,
    meta: ListMeta<'_>,
    version: MetaVersion,
) -> Value {
    let items: Vec<Value> = objects.into_iter().map(|object| partial(object, version)).collect();
    let mut map = Map::with_capacity(4);
    map.insert("kind", "PartialObjectMetadataList");
    map.insert("apiVersion", version.api_version());
    map.insert("metadata", meta.to_value());
    map.insert("items", if items.is_empty() { Value::Null } else { Value::List(items) });
    Value::Map(map)
}
