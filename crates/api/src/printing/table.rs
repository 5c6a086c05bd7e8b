//! Responses in another form: `Table`, `PartialObjectMetadata` and its list.
//!
//! They are encoded directly, since each is built for one response. Those that clients also request in
//! protobuf are available as values.

use crate::json;
use crate::time::Time;
use crate::value::{Map, Value};

use super::custom::CustomColumns;
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

/// Columns and cells of a kind: those of a built-in kind, by group and kind, or the columns of a definition.
#[derive(Clone, Copy, Debug)]
pub enum TableKind<'k> {
    /// Group and kind of a built-in kind.
    BuiltIn(&'k str, &'k str),
    /// Columns of a custom kind.
    Custom(&'k CustomColumns),
}

impl<'k> From<(&'k str, &'k str)> for TableKind<'k> {
    fn from((group, kind): (&'k str, &'k str)) -> TableKind<'k> {
        TableKind::BuiltIn(group, kind)
    }
}

impl TableKind<'_> {
    fn columns(self) -> Vec<Value> {
        match self {
            TableKind::BuiltIn(group, kind) => {
                printer(group, kind).columns.iter().map(|column| column.to_value()).collect()
            }
            TableKind::Custom(columns) => columns.definitions(),
        }
    }

    fn row(self, object: TableObject<'_>, now: Time) -> Vec<Value> {
        match self {
            TableKind::BuiltIn(group, kind) => (printer(group, kind).row)(object.stored, now),
            TableKind::Custom(columns) => columns.row(object.stored, now),
        }
    }

    fn is_null_without_rows(self) -> bool {
        matches!(self, TableKind::BuiltIn(group, kind) if printer(group, kind).is_null_without_rows)
    }

    /// `true` if the row of an object does not depend on other objects of its list.
    #[must_use]
    pub fn has_independent_rows(self) -> bool {
        match self {
            TableKind::BuiltIn(group, kind) => printer(group, kind).list.is_none(),
            TableKind::Custom(_) => true,
        }
    }
}

/// Streaming writer of a table. Lists are encoded in chunks, so that a long one is never in memory as a
/// whole.
#[derive(Debug)]
pub struct TableWriter<'k> {
    kind: TableKind<'k>,
    options: TableOptions,
    rows: usize,
}

impl<'k> TableWriter<'k> {
    /// Appends the bytes before the rows.
    pub fn start(
        kind: TableKind<'k>,
        meta: ListMeta<'_>,
        options: TableOptions,
        out: &mut Vec<u8>,
    ) -> TableWriter<'k> {
        write_head(kind, meta, options, out);
        TableWriter { kind, options, rows: 0 }
    }

    /// Returns the writer of a table that has these many rows already.
    #[must_use]
    pub fn resume(kind: TableKind<'k>, options: TableOptions, rows: usize) -> TableWriter<'k> {
        TableWriter { kind, options, rows }
    }

    /// Appends the row of an object.
    pub fn row(&mut self, object: TableObject<'_>, now: Time, out: &mut Vec<u8>) {
        let cells = self.kind.row(object, now);
        self.cells(object, cells, out);
    }

    fn cells(&mut self, object: TableObject<'_>, cells: Vec<Value>, out: &mut Vec<u8>) {
        out.push(if self.rows == 0 { b'[' } else { b',' });
        self.rows += 1;
        let completed =
            if matches!(self.kind, TableKind::BuiltIn("", "Pod")) { completion(object.stored) } else { None };
        write_row(object, cells, completed, self.options, out);
    }

    /// Appends the bytes after the rows.
    pub fn end(self, out: &mut Vec<u8>) {
        let end: &[u8] = match self.rows {
            0 if self.kind.is_null_without_rows() => b"null}",
            0 => b"[]}",
            _ => b"]}",
        };
        out.extend_from_slice(end);
    }
}

/// Appends the table of a list of objects.
pub fn write_table(
    kind: TableKind<'_>,
    objects: &[TableObject<'_>],
    meta: ListMeta<'_>,
    options: TableOptions,
    now: Time,
    out: &mut Vec<u8>,
) {
    let mut rows: Vec<Vec<Value>> = objects.iter().map(|object| kind.row(*object, now)).collect();
    let list = match kind {
        TableKind::BuiltIn(group, kind) => printer(group, kind).list,
        TableKind::Custom(_) => None,
    };
    if let Some(list) = list {
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
    kind: TableKind<'_>,
    object: TableObject<'_>,
    options: TableOptions,
    now: Time,
    out: &mut Vec<u8>,
) {
    let mut table = TableWriter::start(kind, ListMeta::of_object(object.served), options, out);
    table.row(object, now, out);
    table.end(out);
}

/// Appends a row, without the separator before it.
fn write_row(
    object: TableObject<'_>,
    cells: Vec<Value>,
    condition: Option<Value>,
    options: TableOptions,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"{\"cells\":");
    json::write(&Value::List(cells), out);
    if let Some(condition) = condition {
        out.extend_from_slice(b",\"conditions\":");
        json::write(&Value::List(vec![condition]), out);
    }
    out.extend_from_slice(b",\"object\":");
    match options.include {
        IncludeObject::None => out.extend_from_slice(b"null"),
        IncludeObject::Metadata => write_partial(object.served, options.version, out),
        IncludeObject::Object => json::write(object.served, out),
    }
    out.push(b'}');
}

/// Appends the bytes before the rows.
fn write_head(kind: TableKind<'_>, meta: ListMeta<'_>, options: TableOptions, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"kind\":\"Table\",\"apiVersion\":");
    json::write_str(options.version.api_version(), out);
    out.extend_from_slice(b",\"metadata\":");
    json::write(&meta.to_value(), out);
    out.extend_from_slice(b",\"columnDefinitions\":");
    json::write(&Value::from(options.with_columns.then(|| kind.columns())), out);
    out.extend_from_slice(b",\"rows\":");
}

impl Column {
    /// Definition of the column, as a `Table` has it.
    pub(super) fn to_value(self) -> Value {
        let texts = [
            ("name", self.name),
            ("type", self.kind),
            ("format", self.format),
            ("description", self.description()),
        ];
        let mut map: Map = texts.into_iter().collect();
        map.insert("priority", self.priority);
        Value::Map(map)
    }
}

/// Condition of the row of a pod that has terminated.
fn completion(pod: &Value) -> Option<Value> {
    let (reason, message) = match pod.str_at(&["status", "phase"]) {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    let condition: Map =
        [("type", "Completed"), ("status", "True"), ("reason", reason), ("message", message)]
            .into_iter()
            .collect();
    Some(Value::Map(condition))
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
