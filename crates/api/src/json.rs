//! JSON in and out, as the API speaks it.
//!
//! [`parse`] reads bytes into a [`Value`] in one pass, in bounded stack and in time linear in the input
//! (times the logarithm of the largest object). Errors read as those of Go's decoder, because people and
//! clients know them. [`parse_strict`] also names the fields that came twice. [`write()`] gives compact bytes,
//! escaped as Go escapes them; [`write_pretty`] the form people asked for.

use std::borrow::Cow;

use crate::value::Value;

mod reader;
mod scan;
mod skip;
mod writer;

#[cfg(test)]
mod tests;

pub(crate) use reader::Parser;
pub use reader::{Duplicate, JsonError};
pub use skip::{Member, Members};
pub use writer::{write_escaped, write_float, write_str};

/// How deep arrays and objects may nest. Upstream allows 10,000; ours is what every recursive walk over a
/// value can afford on a small stack, and far beyond what any kind needs.
pub const DEPTH_MAX: usize = 512;

/// How many duplicate fields are named, as upstream bounds its strict errors.
pub const DUPLICATES_MAX: usize = 100;

/// Maximum number of duplicate fields to examine, equal ones too.
const DUPLICATES_EXAMINED_MAX: usize = 4 * DUPLICATES_MAX;

/// Bytes of paths after which no further duplicate is named; the first is named however long its path is. A path
/// contains the keys of maps, and can be as long as the body.
pub(crate) const DUPLICATES_BYTES_MAX: usize = 1 << 20;

/// Reads one JSON value. Of a field that came twice, the last value counts.
///
/// # Errors
/// If the bytes are not one JSON value, in words that Go's decoder would use; or if it nests too deep.
pub fn parse(bytes: &[u8]) -> Result<Value, JsonError> {
    reader::Parser::new(bytes).document()
}

/// Reads one JSON value and names the fields that came more than once, in the order they were met.
///
/// # Errors
/// As [`parse`].
pub fn parse_strict(bytes: &[u8]) -> Result<(Value, Vec<Duplicate>), JsonError> {
    let mut parser = reader::Parser::new(bytes);
    let value = parser.document()?;
    let duplicates = if parser.saw_duplicate() { reader::duplicates(bytes)? } else { Vec::new() };
    Ok((value, duplicates))
}

/// Reads an object as it is stored. What its owners own (`fieldsV1`) is left as it is written, as [`Value::Raw`]: it is
/// about half of the text, and mostly nobody looks into it.
///
/// # Errors
/// As [`parse`].
pub fn parse_stored(bytes: &[u8]) -> Result<Value, JsonError> {
    parse_closed(bytes, &[])
}

/// As [`parse_stored`], and leaves these parts of the spec as they are written too: for who changes the rest. See
/// [`opened`].
///
/// # Errors
/// As [`parse`].
pub fn parse_closed(bytes: &[u8], closed: &[&str]) -> Result<Value, JsonError> {
    reader::Parser::leaving(bytes, closed).document()
}

/// A value to look into: read, if it was left as it is written.
#[must_use]
pub fn opened(value: &Value) -> Cow<'_, Value> {
    match value {
        Value::Raw(json) => Cow::Owned(parse(json.as_bytes()).unwrap_or_default()),
        value => Cow::Borrowed(value),
    }
}

/// Appends the compact form.
pub fn write(value: &Value, out: &mut Vec<u8>) {
    writer::compact(value, out);
}

/// The compact form.
#[must_use]
pub fn to_vec(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    write(value, &mut out);
    out
}

/// The compact form as text.
#[must_use]
pub fn to_text(value: &Value) -> String {
    String::from_utf8(to_vec(value)).expect("JSON of UTF-8 strings is UTF-8")
}

/// Appends the form for people: a field per line, two spaces for each level.
pub fn write_pretty(value: &Value, out: &mut Vec<u8>) {
    writer::pretty(value, 0, out);
}
