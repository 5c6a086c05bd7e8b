//! Lists in forms other than the stored one: tables, metadata, YAML, protobuf, converted versions; and lists of packed
//! objects.
//!
//! Each object is parsed and encoded when its chunk is due, so a list of any length takes the memory of a few chunks,
//! and no chunk takes long: [`CHUNK_BYTES`] of output or [`CHUNK_ITEMS`] objects, whichever comes first.

use bytes::Bytes;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use setpoint_api::printing::table::{
    ListMeta, MetaVersion, TableObject, TableOptions, TableWriter, write_partial, write_partial_list_head,
};
use setpoint_api::protobuf::ListWriter;
use setpoint_api::{Time, Value, json, yaml};
use setpoint_store::Record;

use super::{Page, meta};
use crate::exchange::{Answer, Body, Chunks, Part};
use crate::media::{Form, View};
use crate::served::Served;
use crate::{answers, stored};

/// Bytes after which a chunk ends.
const CHUNK_BYTES: usize = 64 * 1024;
/// Objects after which a chunk ends: some milliseconds of work.
const CHUNK_ITEMS: usize = 64;
/// Objects of a list that is encoded at once, if they have at most [`CHUNK_BYTES`] in all. Its length is then known, and no worker is needed.
const WHOLE_ITEMS_MAX: usize = 50;

/// Encoder of one list.
struct ListEncoder {
    served: &'static Served,
    records: std::vec::IntoIter<Record>,
    form: ItemForm,
    now: Time,
    /// The next chunk as far as it is written: at first what comes before the items.
    out: Vec<u8>,
    /// Items written.
    written: usize,
    has_ended: bool,
}

enum ItemForm {
    /// A version other than the stored one, or packed objects.
    Json,
    Yaml {
        /// What comes after the items.
        tail: Vec<u8>,
    },
    Partial(MetaVersion),
    Table(TableWriter, TableOptions),
    /// First pass of protobuf: the length of all items comes before them.
    ProtobufLength {
        measured: usize,
        items_len: usize,
        meta: Vec<u8>,
    },
    Protobuf(ListWriter),
}

/// Returns the answer for a page in a form that is encoded item by item.
pub(super) fn answer(
    served: &'static Served,
    page: Page,
    (form, view): (Form, View),
    table: TableOptions,
    now: Time,
) -> Answer {
    let bytes = || page.records.iter().map(Record::value_len).sum::<usize>();
    let is_short = page.records.len() <= WHOLE_ITEMS_MAX && bytes() <= CHUNK_BYTES;
    let mut encoder = ListEncoder::start(served, page, (form, view), table, now);
    let media = match &encoder.form {
        ItemForm::Yaml { .. } => HeaderValue::from_static("application/yaml"),
        ItemForm::ProtobufLength { .. } => HeaderValue::from_static("application/vnd.kubernetes.protobuf"),
        _ => HeaderValue::from_static("application/json"),
    };
    let mut answer = answers::json_bytes(200, Vec::new());
    answer.headers.insert(CONTENT_TYPE, media);
    answer.body = if is_short {
        Body::Whole(std::iter::from_fn(|| encoder.next_chunk()).map(Part::from).collect())
    } else {
        Body::Chunked(Box::new(encoder))
    };
    answer
}

impl ListEncoder {
    fn start(
        served: &'static Served,
        page: Page,
        (form, view): (Form, View),
        table: TableOptions,
        now: Time,
    ) -> ListEncoder {
        let mut out = Vec::with_capacity(CHUNK_BYTES / 4);
        let revision = page.revision.to_string();
        let list_meta = ListMeta {
            resource_version: &revision,
            continue_token: &page.continue_token,
            remaining_item_count: page.remaining.and_then(|count| i64::try_from(count).ok()),
        };
        let (kind, api_version) = (format!("{}List", served.info.kind), served.api_version());
        let form = match (view, form) {
            (View::Table(_), _) => {
                let kind = (served.info.group, served.info.kind);
                ItemForm::Table(TableWriter::start(kind, list_meta, table, &mut out), table)
            }
            (View::MetadataList(version) | View::Metadata(version), _) => {
                write_partial_list_head(list_meta, version, &mut out);
                ItemForm::Partial(version)
            }
            (View::Whole, Form::Json) => {
                let meta = meta(&page);
                let head = format!(
                    "{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{meta},\"items\":["
                );
                out.extend_from_slice(head.as_bytes());
                ItemForm::Json
            }
            (View::Whole, Form::Yaml) => {
                let mut tail = Vec::new();
                let meta = json::parse(meta(&page).as_bytes()).unwrap_or(Value::Null);
                let rest = [("kind", Value::from(kind)), ("metadata", meta)];
                yaml::write(&Value::Map(rest.into_iter().collect()), &mut tail);
                let version = [("apiVersion", Value::from(api_version))];
                yaml::write(&Value::Map(version.into_iter().collect()), &mut out);
                out.extend_from_slice(if page.records.is_empty() { b"items: []\n" } else { b"items:\n" });
                ItemForm::Yaml { tail }
            }
            (View::Whole, Form::Protobuf) => {
                let meta = json::parse(meta(&page).as_bytes()).unwrap_or(Value::Null);
                let schema = setpoint_api::schema::builtin().meta("ListMeta");
                let meta = schema.map(|schema| stored::encoded(&meta, schema)).unwrap_or_default();
                ItemForm::ProtobufLength { measured: 0, items_len: 0, meta }
            }
        };
        let records = page.records.into_iter();
        ListEncoder { served, records, form, now, out, written: 0, has_ended: false }
    }

    /// Appends an object.
    fn item(&mut self, record: &Record, out: &mut Vec<u8>) {
        let served = self.served;
        let before: &[u8] = if self.written > 0 { b"," } else { b"" };
        self.written += 1;
        match &mut self.form {
            ItemForm::Json => {
                out.extend_from_slice(before);
                if !served.is_converted() {
                    // All that is stored begins with its type, which the list has.
                    out.push(b'{');
                    out.extend_from_slice(&record.value()[served.type_prefix.len()..]);
                    return;
                }
                json::write(&without_type(served, record), out);
            }
            ItemForm::Yaml { .. } => yaml::write(&Value::List(vec![without_type(served, record)]), out),
            ItemForm::Partial(version) => {
                out.extend_from_slice(if self.written > 1 { b"," } else { b"[" });
                write_partial(&served.to_served(stored::object(record)), *version, out);
            }
            ItemForm::Table(table, options) => {
                let object = stored::object(record);
                let shown = served.is_converted().then(|| served.to_served(object.clone()));
                let shown = shown.as_ref().unwrap_or(&object);
                let beside = answers::beside_row(served, &object, shown, options.include);
                table.row(TableObject { stored: &object, served: &beside }, self.now, out);
            }
            ItemForm::Protobuf(list) => list.item(&stored::message(served, record), out),
            ItemForm::ProtobufLength { .. } => unreachable!("items are measured before any is written"),
        }
    }

    /// Appends what comes after the items.
    fn tail(&mut self, out: &mut Vec<u8>) {
        match std::mem::replace(&mut self.form, ItemForm::Json) {
            ItemForm::Json => out.extend_from_slice(b"]}\n"),
            ItemForm::Yaml { tail } => out.extend_from_slice(&tail),
            ItemForm::Partial(_) => {
                out.extend_from_slice(if self.written == 0 { b"null}\n" } else { b"]}\n" });
            }
            ItemForm::Table(table, _) => {
                table.end(out);
                out.push(b'\n');
            }
            ItemForm::Protobuf(list) => list.end(out),
            ItemForm::ProtobufLength { .. } => unreachable!("items are measured before the end"),
        }
    }

    /// Measures some protobuf items. Returns `true` while there is something left to measure.
    fn measure(&mut self) -> bool {
        let ItemForm::ProtobufLength { measured, items_len, meta } = &mut self.form else { return false };
        let rest = &self.records.as_slice()[*measured..];
        for record in rest.iter().take(CHUNK_ITEMS) {
            *items_len += ListWriter::item_len(stored::message(self.served, record).len());
            *measured += 1;
        }
        if *measured < self.records.len() {
            return true;
        }
        let kind = format!("{}List", self.served.info.kind);
        let list = ListWriter::start(&self.served.api_version(), &kind, meta, *items_len, &mut self.out);
        self.form = ItemForm::Protobuf(list);
        false
    }
}

impl Chunks for ListEncoder {
    fn next_chunk(&mut self) -> Option<Bytes> {
        if self.has_ended {
            return None;
        }
        if self.measure() {
            return Some(Bytes::new());
        }
        let mut out = std::mem::take(&mut self.out);
        for _ in 0..CHUNK_ITEMS {
            if out.len() >= CHUNK_BYTES {
                break;
            }
            let Some(record) = self.records.next() else {
                self.tail(&mut out);
                self.has_ended = true;
                break;
            };
            self.item(&record, &mut out);
        }
        self.out = Vec::with_capacity(if self.has_ended { 0 } else { CHUNK_BYTES });
        Some(out.into())
    }

    fn held_bytes(&self) -> usize {
        self.records.len() * size_of::<Record>() + 4 * CHUNK_BYTES
    }
}

/// An object as it is served in a list: the list has its type.
fn without_type(served: &Served, record: &Record) -> Value {
    let mut value = served.to_served(stored::object(record));
    for field in ["kind", "apiVersion"] {
        value.make_map().remove(field);
    }
    value
}
