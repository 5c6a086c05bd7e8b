//! JSON writer with the output of Go's encoder.

use std::io::Write;

use super::scan::{NeedsEscape, plain};
use crate::value::Value;

/// Appends the compact form.
pub(super) fn compact(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::List(list) => {
            out.push(b'[');
            for (at, item) in list.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                compact(item, out);
            }
            out.push(b']');
        }
        Value::Map(map) => {
            out.push(b'{');
            for (at, (key, item)) in map.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_str(key, out);
                out.push(b':');
                compact(item, out);
            }
            out.push(b'}');
        }
        Value::Str(text) => write_str(text, out),
        Value::Raw(json) => out.extend_from_slice(json.as_bytes()),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(number) => out.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes()),
        Value::Float(number) => write_float(*number, out),
        Value::Null => out.extend_from_slice(b"null"),
    }
}

/// Appends the indented form of a value at nesting `level`.
pub(super) fn pretty(value: &Value, level: usize, out: &mut Vec<u8>) {
    match value {
        Value::List(list) if !list.is_empty() => {
            out.push(b'[');
            for (at, item) in list.iter().enumerate() {
                new_line(at > 0, level + 1, out);
                pretty(item, level + 1, out);
            }
            new_line(false, level, out);
            out.push(b']');
        }
        Value::Map(map) if !map.is_empty() => {
            out.push(b'{');
            for (at, (key, item)) in map.iter().enumerate() {
                new_line(at > 0, level + 1, out);
                write_str(key, out);
                out.extend_from_slice(b": ");
                pretty(item, level + 1, out);
            }
            new_line(false, level, out);
            out.push(b'}');
        }
        flat => compact(flat, out),
    }
}

fn new_line(comma: bool, level: usize, out: &mut Vec<u8>) {
    if comma {
        out.push(b',');
    }
    out.push(b'\n');
    out.resize(out.len() + 2 * level, b' ');
}

/// Appends a number as Go writes a double: shortest digits, an exponent only for very large and very small
/// numbers. NaN and infinities have no JSON form and become null.
pub(crate) fn write_float(number: f64, out: &mut Vec<u8>) {
    if !number.is_finite() {
        out.extend_from_slice(b"null");
        return;
    }
    let size = number.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{number:e}");
        let (digits, exponent) = text.split_once('e').expect("this form has an exponent");
        let sign = if exponent.starts_with('-') { "" } else { "+" };
        write!(out, "{digits}e{sign}{exponent}").expect("writing to a Vec cannot fail");
    } else {
        write!(out, "{number}").expect("writing to a Vec cannot fail");
    }
}

/// Appends a quoted string with Go's default escapes, which include `<`, `>`, `&` and the two line separators
/// of JavaScript.
pub fn write_str(text: &str, out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    write_escaped(text, out);
    out.push(b'"');
}

/// Appends the escaped text without quotes, see [`write_str`].
pub(crate) fn write_escaped(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let bytes = text.as_bytes();
    let (mut written, mut at) = (0, 0);
    loop {
        at += plain::<NeedsEscape>(&bytes[at..]);
        let Some(byte) = bytes.get(at).copied() else { break };
        let mut width = 1;
        let escaped: &[u8] = match byte {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            b'\t' => b"\\t",
            0x08 => b"\\b",
            0x0c => b"\\f",
            0xe2 => {
                width = 3;
                match &bytes[at + 1..at + 3] {
                    [0x80, 0xa8] => b"\\u2028",
                    [0x80, 0xa9] => b"\\u2029",
                    _ => {
                        at += 1;
                        continue;
                    }
                }
            }
            _ => &[b'\\', b'u', b'0', b'0', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]],
        };
        out.extend_from_slice(&bytes[written..at]);
        out.extend_from_slice(escaped);
        at += width;
        written = at;
    }
    out.extend_from_slice(&bytes[written..]);
}
