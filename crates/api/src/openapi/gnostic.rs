//! Protobuf encoding (gnostic) of the OpenAPI v2 document, for older clients.
//!
//! The messages are a table that maps JSON keys to field numbers; it covers the keys that the document uses.

use crate::json;
use crate::protobuf::wire::{close, open, write_bytes, write_number, write_tag};
use crate::value::{Map, Value};

/// Wire type of 8 bytes.
const FIXED64: u8 = 1;

/// Media type of the document.
pub const MEDIA_TYPE: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// A message: its fields by JSON name, in order of their numbers, and the field number of extensions.
struct Message {
    fields: &'static [(&'static str, u32, Form)],
    extensions: u32,
}

/// Encoding of the value of a field.
enum Form {
    /// A string.
    Text,
    /// A boolean.
    Flag,
    /// An integer.
    Integer,
    /// A floating-point number.
    Double,
    /// A schema or a boolean: a message with one field of two.
    SchemaOrFlag,
    /// A repeated string.
    Texts,
    /// A string inside a message with one field.
    InnerText,
    /// Any value, as YAML text.
    Any,
    /// Repeated values of any type.
    Anys,
    /// A message, wrapped in messages with a single field of these numbers.
    Message(&'static [u32], &'static Message),
    /// An object as repeated name-message pairs: field number, numbers of the wrapping messages, message.
    Named(u32, &'static [u32], &'static Message),
    /// Parameters, with one message type per location.
    Parameters,
    /// Names with lists of strings.
    Requirements,
}

use Form::{
    Any, Anys, Double, Flag, InnerText, Integer, Named, Parameters, Requirements, SchemaOrFlag, Text, Texts,
};

static DOCUMENT: Message = Message {
    fields: &[
        ("swagger", 1, Text),
        ("info", 2, Form::Message(&[], &INFO)),
        ("paths", 8, Named(2, &[], &PATH_ITEM)),
        ("definitions", 9, Named(1, &[], &SCHEMA)),
        ("security", 12, Requirements),
        ("securityDefinitions", 13, Named(1, &[2], &API_KEY)),
    ],
    extensions: 16,
};
static INFO: Message = Message { fields: &[("title", 1, Text), ("version", 2, Text)], extensions: 7 };
static API_KEY: Message = Message {
    fields: &[("type", 1, Text), ("name", 2, Text), ("in", 3, Text), ("description", 4, Text)],
    extensions: 5,
};
static PATH_ITEM: Message = Message {
    fields: &[
        ("get", 2, Form::Message(&[], &OPERATION)),
        ("put", 3, Form::Message(&[], &OPERATION)),
        ("post", 4, Form::Message(&[], &OPERATION)),
        ("delete", 5, Form::Message(&[], &OPERATION)),
        ("options", 6, Form::Message(&[], &OPERATION)),
        ("head", 7, Form::Message(&[], &OPERATION)),
        ("patch", 8, Form::Message(&[], &OPERATION)),
        ("parameters", 9, Parameters),
    ],
    extensions: 10,
};
static OPERATION: Message = Message {
    fields: &[
        ("tags", 1, Texts),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("produces", 6, Texts),
        ("consumes", 7, Texts),
        ("parameters", 8, Parameters),
        ("responses", 9, Named(1, &[1], &RESPONSE)),
        ("schemes", 10, Texts),
    ],
    extensions: 13,
};
static RESPONSE: Message = Message {
    fields: &[("description", 1, Text), ("schema", 2, Form::Message(&[1], &SCHEMA))],
    extensions: 5,
};
static BODY_PARAMETER: Message = Message {
    fields: &[
        ("description", 1, Text),
        ("name", 2, Text),
        ("in", 3, Text),
        ("required", 4, Flag),
        ("schema", 5, Form::Message(&[], &SCHEMA)),
    ],
    extensions: 6,
};
static QUERY_PARAMETER: Message = Message {
    fields: &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 6, Text),
        ("uniqueItems", 20, Flag),
    ],
    extensions: 23,
};
static PATH_PARAMETER: Message = Message {
    fields: &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 5, Text),
        ("uniqueItems", 19, Flag),
    ],
    extensions: 22,
};
static SCHEMA: Message = Message {
    fields: &[
        ("$ref", 1, Text),
        ("format", 2, Text),
        ("title", 3, Text),
        ("description", 4, Text),
        ("default", 5, Any),
        ("multipleOf", 6, Double),
        ("maximum", 7, Double),
        ("exclusiveMaximum", 8, Flag),
        ("minimum", 9, Double),
        ("exclusiveMinimum", 10, Flag),
        ("maxLength", 11, Integer),
        ("minLength", 12, Integer),
        ("pattern", 13, Text),
        ("maxItems", 14, Integer),
        ("minItems", 15, Integer),
        ("uniqueItems", 16, Flag),
        ("maxProperties", 17, Integer),
        ("minProperties", 18, Integer),
        ("required", 19, Texts),
        ("enum", 20, Anys),
        ("additionalProperties", 21, SchemaOrFlag),
        ("type", 22, InnerText),
        ("items", 23, Form::Message(&[1], &SCHEMA)),
        ("properties", 25, Named(1, &[], &SCHEMA)),
        ("externalDocs", 28, Form::Message(&[], &EXTERNAL_DOCS)),
        ("example", 29, Any),
    ],
    extensions: 31,
};
static EXTERNAL_DOCS: Message =
    Message { fields: &[("description", 1, Text), ("url", 2, Text)], extensions: 3 };

/// Encodes an OpenAPI v2 document.
#[must_use]
pub fn to_vec(document: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 << 20);
    write(document, &DOCUMENT, &mut out);
    out
}

fn write(value: &Value, message: &Message, out: &mut Vec<u8>) {
    let Value::Map(map) = value else { return };
    for (key, number, form) in message.fields {
        if let Some(value) = map.get(key) {
            field(value, *number, form, out);
        }
    }
    extensions(map, message.extensions, out);
}

fn extensions(map: &Map, number: u32, out: &mut Vec<u8>) {
    for (key, value) in map.iter().filter(|(key, _)| key.starts_with("x-")) {
        let named = open(number, out);
        write_bytes(1, key.as_bytes(), out);
        any(value, 2, out);
        close(named, out);
    }
}

fn field(value: &Value, number: u32, form: &Form, out: &mut Vec<u8>) {
    match form {
        Text => write_bytes(number, value.as_str().unwrap_or_default().as_bytes(), out),
        Flag => {
            if value.as_bool() == Some(true) {
                write_number(number, 1, out);
            }
        }
        Integer => write_number(number, value.as_i64().unwrap_or_default().cast_unsigned(), out),
        Double => {
            write_tag(number, FIXED64, out);
            out.extend(double(value).to_le_bytes());
        }
        SchemaOrFlag => match value.as_bool() {
            Some(flag) => {
                let start = open(number, out);
                write_number(2, u64::from(flag), out);
                close(start, out);
            }
            None => write_nested(number, &[1], value, &SCHEMA, out),
        },
        Texts => texts(value, number, out),
        InnerText => {
            let start = open(number, out);
            write_bytes(1, value.as_str().unwrap_or_default().as_bytes(), out);
            close(start, out);
        }
        Any => any(value, number, out),
        Anys => value.as_list().unwrap_or_default().iter().for_each(|value| any(value, number, out)),
        Form::Message(around, message) => write_nested(number, around, value, message, out),
        Named(list, around, message) => {
            let start = open(number, out);
            for (name, value) in value.as_map().into_iter().flat_map(Map::iter) {
                let named = open(*list, out);
                write_bytes(1, name.as_bytes(), out);
                write_nested(2, around, value, message, out);
                close(named, out);
            }
            close(start, out);
        }
        Parameters => {
            value.as_list().unwrap_or_default().iter().for_each(|value| parameter(value, number, out))
        }
        Requirements => {
            for requirement in value.as_list().unwrap_or_default() {
                let start = open(number, out);
                for (name, scopes) in requirement.as_map().into_iter().flat_map(Map::iter) {
                    let named = open(1, out);
                    write_bytes(1, name.as_bytes(), out);
                    let inner = open(2, out);
                    texts(scopes, 1, out);
                    close(inner, out);
                    close(named, out);
                }
                close(start, out);
            }
        }
    }
}

/// Number as protobuf has it.
fn double(value: &Value) -> f64 {
    match value {
        Value::Int(number) => *number as f64,
        Value::Float(number) => *number,
        _ => 0.0,
    }
}

fn texts(value: &Value, number: u32, out: &mut Vec<u8>) {
    for text in value.as_list().unwrap_or_default() {
        write_bytes(number, text.as_str().unwrap_or_default().as_bytes(), out);
    }
}

/// Writes a message field, wrapped in other messages.
fn write_nested(number: u32, around: &[u32], value: &Value, message: &Message, out: &mut Vec<u8>) {
    let start = open(number, out);
    match around.split_first() {
        Some((next, rest)) => write_nested(*next, rest, value, message, out),
        None => write(value, message, out),
    }
    close(start, out);
}

/// Writes any value as the text of its JSON, which is valid YAML.
fn any(value: &Value, number: u32, out: &mut Vec<u8>) {
    let start = open(number, out);
    let text = open(2, out);
    json::write(value, out);
    close(text, out);
    close(start, out);
}

fn parameter(value: &Value, number: u32, out: &mut Vec<u8>) {
    // A parameter (not a reference), with or without a body, by its location.
    match value.str_at(&["in"]) {
        "body" => write_nested(number, &[1, 1], value, &BODY_PARAMETER, out),
        "path" => write_nested(number, &[1, 2, 4], value, &PATH_PARAMETER, out),
        _ => write_nested(number, &[1, 2, 3], value, &QUERY_PARAMETER, out),
    }
}
