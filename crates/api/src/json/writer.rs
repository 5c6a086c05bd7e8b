//! The writer: bytes as Go's encoder gives them.

use std::io::Write;

use super::plain_blocks;
use crate::value::Value;

/// The compact form.
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
        scalar => write_scalar(scalar, out),
    }
}

/// The form with a line for each field, which stands `level` levels deep.
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

fn write_scalar(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(number) => out.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes()),
        Value::Float(number) => write_float(*number, out),
        Value::Str(text) => write_str(text, out),
        Value::Null | Value::List(_) | Value::Map(_) => out.extend_from_slice(b"null"),
    }
}

/// Appends a number as Go writes a double: shortest digits, an exponent only for the very large and very
/// small. What is no number cannot be said in JSON and becomes null.
pub fn write_float(number: f64, out: &mut Vec<u8>) {
    if !number.is_finite() {
        out.extend_from_slice(b"null");
        return;
    }
    let size = number.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{number:e}");
        let (digits, exponent) = text.split_once('e').expect("this form has an exponent");
        let sign = if exponent.starts_with('-') { "" } else { "+" };
        write!(out, "{digits}e{sign}{exponent}").expect("a vector takes any bytes");
    } else {
        write!(out, "{number}").expect("a vector takes any bytes");
    }
}

/// Appends a text in quotes, escaped as Go does by default: what HTML would mistake for markup and the two
/// line separators of JavaScript too.
pub fn write_str(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    let (mut plain, mut at) = (0, plain_blocks(bytes, needs_care));
    while let Some(found) = bytes[at..].iter().position(|byte| NEEDS_CARE[usize::from(*byte)]) {
        at += found;
        let byte = bytes[at];
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
        out.extend_from_slice(&bytes[plain..at]);
        out.extend_from_slice(escaped);
        at += width;
        plain = at;
    }
    out.extend_from_slice(&bytes[plain..]);
    out.push(b'"');
}

/// Whether a byte is escaped, or may start a character that is. Without a branch, so that many are looked at at once.
const fn needs_care(byte: u8) -> bool {
    (byte < 0x20)
        | (byte == b'"')
        | (byte == b'\\')
        | (byte == b'<')
        | (byte == b'>')
        | (byte == b'&')
        | (byte == 0xe2)
}

/// The same as a table, for single bytes.
const NEEDS_CARE: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = needs_care(byte as u8);
        byte += 1;
    }
    table
};
