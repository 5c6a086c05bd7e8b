//! Encoder of list items, chunk by chunk, in every form: stored JSON, converted versions, YAML, protobuf, tables,
//! metadata.
//!
//! A chunk depends on nothing but the items and the form, so equal lists can share it. It takes a bounded amount of
//! work: [`CHUNK_BYTES`] of output or [`CHUNK_ITEMS`] objects, whichever comes first.

use std::fmt;
use std::sync::Arc;

use http::HeaderValue;
use setpoint_api::ResourceType;
use setpoint_api::printing::table::{
    ListMeta, MetaVersion, TableObject, TableOptions, TableWriter, write_partial, write_partial_list_head,
};
use setpoint_api::protobuf::ListWriter;
use setpoint_api::{Time, Value, json, yaml};
use setpoint_store::Record;

use super::PageMeta;
use crate::media::{Form, Representation};
use crate::{codec, responses};

/// Bytes after which a chunk ends.
pub(super) const CHUNK_BYTES: usize = 64 * 1024;
/// Objects after which a chunk ends where each is parsed: some milliseconds of work.
pub(super) const CHUNK_ITEMS: usize = 64;

/// Encoder of lists of one resource in one form.
#[derive(Clone)]
pub(super) struct ItemEncoder {
    resource_type: Arc<ResourceType>,
    form: ItemForm,
    now: Time,
}

impl fmt::Debug for ItemEncoder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ItemEncoder").field("form", &self.form).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug)]
enum ItemForm {
    /// JSON as it is stored.
    Stored,
    /// JSON of a version other than the stored one.
    Converted,
    Yaml,
    Partial(MetaVersion),
    Table(TableOptions),
    Protobuf,
}

impl ItemEncoder {
    pub fn new(
        resource_type: &Arc<ResourceType>,
        (form, view): (Form, Representation),
        table: TableOptions,
        now: Time,
    ) -> ItemEncoder {
        let form = match (view, form) {
            (Representation::Table(_), _) => ItemForm::Table(table),
            (Representation::MetadataList(version) | Representation::Metadata(version), _) => {
                ItemForm::Partial(version)
            }
            (Representation::Whole, Form::Json) if resource_type.is_converted() => ItemForm::Converted,
            (Representation::Whole, Form::Json) => ItemForm::Stored,
            (Representation::Whole, Form::Yaml) => ItemForm::Yaml,
            (Representation::Whole, Form::Protobuf) => ItemForm::Protobuf,
        };
        ItemEncoder { resource_type: Arc::clone(resource_type), form, now }
    }

    /// Returns the media type of the list.
    pub fn media_type(&self) -> HeaderValue {
        HeaderValue::from_static(match self.form {
            ItemForm::Yaml => "application/yaml",
            ItemForm::Protobuf => "application/vnd.kubernetes.protobuf",
            _ => "application/json",
        })
    }

    /// `true` if items are sent as they are stored.
    pub fn is_stored(&self) -> bool {
        matches!(self.form, ItemForm::Stored)
    }

    /// `true` if the length of all items precedes them.
    pub(crate) fn needs_length(&self) -> bool {
        matches!(self.form, ItemForm::Protobuf)
    }

    /// Returns the length of an item in a form that [needs it](ItemEncoder::needs_length).
    pub fn item_len(&self, record: &Record) -> usize {
        ListWriter::item_len(codec::message(&self.resource_type, record).len())
    }

    /// Returns the part of a list before its items.
    pub fn head(&self, meta: &PageMeta, count: usize, items_len: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        let revision = meta.revision.to_string();
        let list_meta = meta.to_list_meta(&revision);
        let (kind, api_version) = (self.list_kind(), self.resource_type.api_version());
        match self.form {
            ItemForm::Table(options) => {
                let _ = TableWriter::start(self.resource_type.table_kind(), list_meta, options, &mut out);
            }
            ItemForm::Partial(version) => write_partial_list_head(list_meta, version, &mut out),
            ItemForm::Stored | ItemForm::Converted => {
                let meta = meta.to_json();
                let head = format!(
                    "{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{meta},\"items\":["
                );
                out.extend_from_slice(head.as_bytes());
            }
            ItemForm::Yaml => {
                let version = [("apiVersion", Value::from(api_version))];
                yaml::write(&Value::Map(version.into_iter().collect()), &mut out);
                out.extend_from_slice(if count == 0 { b"items: []\n" } else { b"items:\n" });
            }
            ItemForm::Protobuf => {
                let schema = setpoint_api::schema::builtin().meta("ListMeta");
                let meta =
                    schema.map(|schema| codec::encoded(&meta.to_value(), Some(schema))).unwrap_or_default();
                ListWriter::head(&api_version, &kind, &meta, items_len, &mut out);
            }
        }
        out
    }

    /// Returns the part of a list after its items.
    pub fn tail(&self, meta: &PageMeta, count: usize) -> Vec<u8> {
        let mut out = Vec::new();
        match self.form {
            ItemForm::Stored | ItemForm::Converted => out.extend_from_slice(b"]}\n"),
            ItemForm::Yaml => {
                let rest = [("kind", Value::from(self.list_kind())), ("metadata", meta.to_value())];
                yaml::write(&Value::Map(rest.into_iter().collect()), &mut out);
            }
            ItemForm::Partial(_) => out.extend_from_slice(if count == 0 { b"null}\n" } else { b"]}\n" }),
            ItemForm::Table(options) => {
                TableWriter::resume(self.resource_type.table_kind(), options, count).end(&mut out);
                out.push(b'\n');
            }
            ItemForm::Protobuf => ListWriter::end(&mut out),
        }
        out
    }

    /// Encodes a chunk that starts at the item `from`. Returns it with the item after its last one.
    pub fn chunk(&self, records: &[Record], from: usize) -> (Vec<u8>, usize) {
        let mut out = Vec::with_capacity(CHUNK_BYTES + CHUNK_BYTES / 16);
        let items_max = if self.is_stored() { usize::MAX } else { CHUNK_ITEMS };
        let mut next = from;
        for record in records[from..].iter().take(items_max) {
            if next > from && out.len() + record.value_len() > CHUNK_BYTES {
                break;
            }
            self.item(next, record, &mut out);
            next += 1;
        }
        out.shrink_to_fit();
        (out, next)
    }

    fn item(&self, index: usize, record: &Record, out: &mut Vec<u8>) {
        let resource_type = &self.resource_type;
        match self.form {
            ItemForm::Stored => {
                // The items of a list do not repeat their type.
                out.extend_from_slice(if index > 0 { b",{" } else { b"{" });
                record.append_value(resource_type.type_prefix.len(), out);
            }
            ItemForm::Converted => {
                out.extend_from_slice(if index > 0 { b"," } else { b"" });
                if codec::is_current(resource_type, record) {
                    record.append_value(0, out);
                } else {
                    json::write(&without_type(resource_type, record), out);
                }
            }
            ItemForm::Yaml => yaml::write(&Value::List(vec![without_type(resource_type, record)]), out),
            ItemForm::Partial(version) => {
                out.extend_from_slice(if index > 0 { b"," } else { b"[" });
                write_partial(&resource_type.to_served(codec::object(record)), version, out);
            }
            ItemForm::Table(options) => {
                let object = codec::object(record);
                let served = resource_type.is_converted().then(|| resource_type.to_served(object.clone()));
                let served = served.as_ref().unwrap_or(&object);
                let embedded = responses::row_object(resource_type, &object, served, options.include);
                let mut table = TableWriter::resume(resource_type.table_kind(), options, index);
                let stored = if resource_type.custom.is_some() { served } else { &object };
                table.row(TableObject { stored, served: &embedded }, self.now, out);
            }
            ItemForm::Protobuf => ListWriter::item(&codec::message(resource_type, record), out),
        }
    }

    fn list_kind(&self) -> String {
        self.resource_type.info.list_kind.to_string()
    }
}

impl PageMeta {
    /// Returns the metadata as table writers take it; `revision` is that of the page, printed.
    pub(super) fn to_list_meta<'a>(&'a self, revision: &'a str) -> ListMeta<'a> {
        ListMeta {
            resource_version: revision,
            continue_token: &self.continue_token,
            remaining_item_count: self.remaining.and_then(|count| i64::try_from(count).ok()),
        }
    }

    fn to_value(&self) -> Value {
        json::parse(self.to_json().as_bytes()).unwrap_or(Value::Null)
    }

    pub(super) fn to_json(&self) -> String {
        let mut meta = format!("{{\"resourceVersion\":\"{}\"", self.revision);
        if !self.continue_token.is_empty() {
            meta.push_str(&format!(",\"continue\":\"{}\"", self.continue_token));
        }
        if let Some(remaining) = self.remaining {
            meta.push_str(&format!(",\"remainingItemCount\":{remaining}"));
        }
        meta.push('}');
        meta
    }
}

/// Returns an object as it is served in a list: the list has its type.
fn without_type(resource_type: &ResourceType, record: &Record) -> Value {
    let mut value = resource_type.to_served(codec::object(record));
    // Items of a custom kind repeat their type, as upstream's do.
    if resource_type.custom.is_some() {
        return value;
    }
    for field in ["kind", "apiVersion"] {
        value.make_map().remove(field);
    }
    value
}
