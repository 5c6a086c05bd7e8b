//! JSON codec of the API.
//!
//! [`parse`] reads bytes into a [`Value`] in one pass, in bounded stack and in time linear in the input
//! (times the logarithm of the largest object). Error texts are those of Go's decoder, which clients match
//! on. [`parse_strict`] also reports duplicate fields. [`write()`] gives compact bytes with Go's escapes;
//! [`write_pretty`] the indented form of `?pretty=true`.

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
pub use writer::write_str;
pub(crate) use writer::{write_escaped, write_float};

/// Maximum nesting of arrays and objects. Upstream allows 10,000; this bound lets every recursive walk over a
/// value run on a small stack, and is far beyond the depth of any kind.
pub const DEPTH_MAX: usize = 512;

/// Maximum number of duplicate fields to report, as upstream bounds its strict errors.
pub const DUPLICATES_MAX: usize = 100;

/// Maximum number of duplicate fields to examine, including repeated ones.
const DUPLICATES_EXAMINED_MAX: usize = 4 * DUPLICATES_MAX;

/// Bytes of paths after which no further duplicate is reported; the first is reported however long its path
/// is. A path contains the keys of maps, and can be as long as the body.
pub(crate) const DUPLICATES_BYTES_MAX: usize = 1 << 20;

/// Parses one JSON value. The last value of a duplicate field wins.
///
/// # Errors
/// If the bytes are not one JSON value, with the text of Go's decoder; or if it nests deeper than [`DEPTH_MAX`].
pub fn parse(bytes: &[u8]) -> Result<Value, JsonError> {
    reader::Parser::new(bytes).parse_document()
}

/// Parses one JSON value and reports its duplicate fields in the order they occur.
///
/// # Errors
/// As [`parse`].
pub fn parse_strict(bytes: &[u8]) -> Result<(Value, Vec<Duplicate>), JsonError> {
    let mut parser = reader::Parser::new(bytes);
    let value = parser.parse_document()?;
    let duplicates = if parser.has_duplicate() { reader::find_duplicates(bytes)? } else { Vec::new() };
    Ok((value, duplicates))
}

/// Parses a stored object. `fieldsV1` of its managed fields stays unparsed, as [`Value::Raw`]: it is about
/// half of the text, and most requests never read it.
///
/// # Errors
/// As [`parse`].
pub fn parse_stored(bytes: &[u8]) -> Result<Value, JsonError> {
    parse_with_raw_spec(bytes, &[])
}

/// As [`parse_stored`], and leaves these fields of the spec unparsed too: for writes that do not read them.
/// See [`parse_raw`].
///
/// # Errors
/// As [`parse`].
pub fn parse_with_raw_spec(bytes: &[u8], raw_fields: &[&str]) -> Result<Value, JsonError> {
    reader::Parser::with_raw_spec(bytes, raw_fields).parse_document()
}

/// As [`parse_stored`], for a CustomResourceDefinition: the schemas of its versions stay unparsed. They can have
/// megabytes, and most requests only need the names.
///
/// # Errors
/// As [`parse`].
pub fn parse_definition(bytes: &[u8]) -> Result<Value, JsonError> {
    parse_with_raw_spec(bytes, &[reader::SCHEMA_FIELD])
}

/// Parses a value that was left unparsed; borrows any other.
#[must_use]
pub fn parse_raw(value: &Value) -> Cow<'_, Value> {
    match value {
        Value::Raw(json) => Cow::Owned(parse(json.as_bytes()).unwrap_or_default()),
        value => Cow::Borrowed(value),
    }
}

/// Appends the compact form.
pub fn write(value: &Value, out: &mut Vec<u8>) {
    writer::compact(value, out);
}

/// Returns the compact form.
#[must_use]
pub fn to_vec(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    write(value, &mut out);
    out
}

/// Returns the compact form as a string.
#[must_use]
pub fn to_text(value: &Value) -> String {
    String::from_utf8(to_vec(value)).expect("JSON of UTF-8 strings is UTF-8")
}

/// Appends the indented form: one field per line, two spaces per level.
pub fn write_pretty(value: &Value, out: &mut Vec<u8>) {
    writer::pretty(value, 0, out);
}
