//! JSON parser: recursive descent over bytes.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write;

use compact_str::CompactString;
use thiserror::Error;

use super::scan::{EndsPlain, plain};
use super::skip::end_of;
use super::{DEPTH_MAX, DUPLICATES_BYTES_MAX, DUPLICATES_EXAMINED_MAX, DUPLICATES_MAX};
use crate::value::{Map, Value};

/// Initial capacity for the fields of open objects; enough for a common request.
const FIELDS_CAPACITY: usize = 32;

/// Spare capacity of an object for the fields that the server adds before it is stored, which saves a
/// reallocation.
const FIELDS_SPARE: usize = 6;

/// Syntax error of a JSON document.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JsonError {
    /// The input ends inside a value.
    #[error("unexpected end of JSON input")]
    UnexpectedEnd,
    /// A byte that is not allowed at its position.
    #[error("invalid character {} {context}", quote_byte(*.byte))]
    InvalidCharacter {
        /// The byte.
        byte: u8,
        /// State of the parser, in the words of Go's decoder.
        context: &'static str,
        /// Position of the byte.
        offset: usize,
    },
    /// A string that is not UTF-8.
    #[error("invalid UTF-8 in string literal")]
    InvalidUtf8 {
        /// Position of the string.
        offset: usize,
    },
    /// A number beyond the range of a double.
    #[error("json: cannot unmarshal number {literal} into Go value of type float64")]
    NumberRange {
        /// The number as written.
        literal: String,
    },
}

/// A field that occurs more than once in its object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// Path of the object, as in `spec.containers[0]`; empty at the root.
    pub parent: String,
    /// Repeated key.
    pub key: CompactString,
    /// Number of distinct fields of the object before the repetition.
    pub before: usize,
}

impl Duplicate {
    /// Path of the field, as in `spec.containers[0].name`.
    #[must_use]
    pub fn path(&self) -> String {
        if self.parent.is_empty() { self.key.to_string() } else { format!("{}.{}", self.parent, self.key) }
    }
}

/// Lists duplicate fields. Runs as a second pass, so that documents without duplicates pay nothing.
pub(super) fn find_duplicates(bytes: &[u8]) -> Result<Vec<Duplicate>, JsonError> {
    let mut parser = Parser::new(bytes);
    parser.tracker = Some(Tracker::default());
    parser.parse_document()?;
    Ok(parser.tracker.map(|tracker| tracker.found).unwrap_or_default())
}

/// Parser state over one input.
pub(crate) struct Parser<'a> {
    bytes: &'a [u8],
    /// The input as a string, if all of it is UTF-8: one check is cheaper than a check per string.
    text: Option<&'a str>,
    at: usize,
    depth: usize,
    saw_duplicate: bool,
    tracker: Option<Tracker>,
    region: RawRegion,
    /// Fields of the spec that stay unparsed.
    raw_spec: &'a [&'a str],
    /// Fields of the open objects, innermost last: when an object closes, they move into a vector of exact
    /// size.
    fields: Vec<(CompactString, Value)>,
    /// Items of the open arrays, likewise.
    items: Vec<Value>,
}

/// Field of a CustomResourceDefinition with the schema of a version: `spec.versions[].schema.openAPIV3Schema`.
pub(super) const SCHEMA_FIELD: &str = "openAPIV3Schema";
/// Number of objects and arrays around that field.
const SCHEMA_DEPTH: usize = 5;

/// Position of the parser relative to the parts that stay unparsed: `metadata.managedFields[].fieldsV1`, and
/// some fields of `spec`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RawRegion {
    /// Nothing stays unparsed.
    Nowhere,
    /// Outside of `metadata` and `spec`.
    Outside,
    /// In `metadata`.
    Metadata,
    /// In `metadata.managedFields`.
    ManagedFields,
    /// In `spec`.
    Spec,
}

/// Path of the parser and the duplicates found so far.
#[derive(Default)]
struct Tracker {
    path: String,
    found: Vec<Duplicate>,
    /// Duplicates found, up to the bound.
    examined: usize,
    /// Bytes of their paths.
    bytes: usize,
}

impl<'a> Parser<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Parser<'a> {
        Parser {
            bytes,
            text: std::str::from_utf8(bytes).ok(),
            at: 0,
            depth: 0,
            saw_duplicate: false,
            tracker: None,
            region: RawRegion::Nowhere,
            raw_spec: &[],
            fields: Vec::new(),
            items: Vec::new(),
        }
    }

    /// Creates a parser that leaves `fieldsV1` and these fields of the spec unparsed.
    pub(super) fn with_raw_spec(bytes: &'a [u8], raw_spec: &'a [&'a str]) -> Parser<'a> {
        Parser { region: RawRegion::Outside, raw_spec, ..Parser::new(bytes) }
    }

    pub(super) fn has_duplicate(&self) -> bool {
        self.saw_duplicate
    }

    /// Parses the whole input as one value.
    pub(super) fn parse_document(&mut self) -> Result<Value, JsonError> {
        let value = self.parse_value()?;
        self.expect_end()?;
        Ok(value)
    }

    /// Fails if anything but whitespace follows.
    pub(crate) fn expect_end(&mut self) -> Result<(), JsonError> {
        match self.peek() {
            Ok(_) => Err(self.invalid("after top-level value")),
            Err(_) => Ok(()),
        }
    }

    /// `true` if the next value is an object.
    pub(crate) fn is_object(&mut self) -> Result<bool, JsonError> {
        Ok(self.peek()? == b'{')
    }

    /// Returns the next byte that is not whitespace, without consuming it.
    fn peek(&mut self) -> Result<u8, JsonError> {
        loop {
            match self.bytes.get(self.at) {
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.at += 1,
                Some(byte) => return Ok(*byte),
                None => return Err(JsonError::UnexpectedEnd),
            }
        }
    }

    /// Error for the byte at the current position.
    fn invalid(&self, context: &'static str) -> JsonError {
        self.bytes.get(self.at).map_or(JsonError::UnexpectedEnd, |byte| JsonError::InvalidCharacter {
            byte: *byte,
            context,
            offset: self.at,
        })
    }

    /// Parses the next value.
    pub(crate) fn parse_value(&mut self) -> Result<Value, JsonError> {
        match self.peek()? {
            b'"' => self.parse_string().map(|text| Value::Str(text.into())),
            b'{' => self.with_nesting(Parser::parse_object),
            b'[' => self.with_nesting(Parser::parse_array),
            b'-' | b'0'..=b'9' => self.parse_number(),
            b't' => self.parse_literal("true", TRUE_CONTEXTS, Value::Bool(true)),
            b'f' => self.parse_literal("false", FALSE_CONTEXTS, Value::Bool(false)),
            b'n' => self.parse_literal("null", NULL_CONTEXTS, Value::Null),
            _ => Err(self.invalid("looking for beginning of value")),
        }
    }

    fn with_nesting<T, E: From<JsonError>>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        if self.depth == DEPTH_MAX {
            return Err(self.invalid("exceeded max depth").into());
        }
        self.at += 1;
        self.depth += 1;
        let value = inner(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn parse_array(&mut self) -> Result<Value, JsonError> {
        if self.peek()? == b']' {
            self.at += 1;
            return Ok(Value::List(Vec::new()));
        }
        let first = self.items.len();
        loop {
            let mark = self.enter_index(self.items.len() - first);
            let item = self.parse_value()?;
            self.items.push(item);
            self.leave(mark);
            match self.peek()? {
                b',' => self.at += 1,
                b']' => {
                    self.at += 1;
                    return Ok(Value::List(self.items.drain(first..).collect()));
                }
                _ => return Err(self.invalid("after array element")),
            }
        }
    }

    fn parse_object(&mut self) -> Result<Value, JsonError> {
        if self.fields.capacity() == 0 {
            self.fields.reserve(FIELDS_CAPACITY);
        }
        let first = self.fields.len();
        let mut seen = BTreeSet::new();
        self.parse_members(|parser, key| {
            let key = CompactString::from(key);
            let mark = parser.enter_key(&key, &mut seen);
            let value = parser.parse_field(&key)?;
            parser.leave(mark);
            parser.fields.push((key, value));
            Ok::<(), JsonError>(())
        })?;
        if self.fields.len() == first {
            return Ok(Value::map());
        }
        let mut fields = Vec::with_capacity(self.fields.len() - first + FIELDS_SPARE);
        fields.extend(self.fields.drain(first..));
        let (map, has_duplicates) = Map::from_entries(fields);
        self.saw_duplicate |= has_duplicates;
        Ok(Value::Map(map))
    }

    /// Parses the next object: calls `member` with each key, to parse the value that follows.
    pub(crate) fn for_each_member<E: From<JsonError>>(
        &mut self,
        member: impl FnMut(&mut Self, Cow<'a, str>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.with_nesting(|parser| parser.parse_members(member))
    }

    /// Parses the members of an object after its opening brace.
    fn parse_members<E: From<JsonError>>(
        &mut self,
        mut member: impl FnMut(&mut Self, Cow<'a, str>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.peek()? == b'}' {
            self.at += 1;
            return Ok(());
        }
        loop {
            if self.peek()? != b'"' {
                return Err(self.invalid("looking for beginning of object key string").into());
            }
            let key = self.parse_string()?;
            if self.peek()? != b':' {
                return Err(self.invalid("after object key").into());
            }
            self.at += 1;
            member(self, key)?;
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => break,
                _ => return Err(self.invalid("after object key:value pair").into()),
            }
        }
        self.at += 1;
        Ok(())
    }

    /// Parses the value of a field.
    fn parse_field(&mut self, key: &str) -> Result<Value, JsonError> {
        let outer = self.region;
        self.region = match (outer, self.depth, key) {
            (RawRegion::Outside, 1, "metadata") => RawRegion::Metadata,
            (RawRegion::Metadata, 2, "managedFields") => RawRegion::ManagedFields,
            (RawRegion::Outside, 1, "spec") if !self.raw_spec.is_empty() => RawRegion::Spec,
            (RawRegion::Spec, 2, key)
                if self.raw_spec.contains(&key) && matches!(self.peek()?, b'{' | b'[') =>
            {
                return self.take_raw().map(Value::Raw);
            }
            (RawRegion::Spec, SCHEMA_DEPTH, SCHEMA_FIELD)
                if self.raw_spec.contains(&SCHEMA_FIELD) && self.is_object()? =>
            {
                return self.take_raw().map(Value::Raw);
            }
            (RawRegion::ManagedFields, 4, "fieldsV1") if self.is_object()? => {
                return self.take_raw().map(Value::Raw);
            }
            _ => return self.parse_value(),
        };
        let value = self.parse_value();
        self.region = outer;
        value
    }

    /// Returns the text of the next object or array without parsing it. The text is trusted: it comes from
    /// the writer of this crate.
    fn take_raw(&mut self) -> Result<CompactString, JsonError> {
        let start = self.at;
        self.at = end_of(self.bytes, start).ok_or(JsonError::UnexpectedEnd)?;
        self.slice(start, self.at).map(CompactString::from)
    }

    fn enter_index(&mut self, index: usize) -> usize {
        let Some(tracker) = &mut self.tracker else { return 0 };
        let mark = tracker.path.len();
        write!(tracker.path, "[{index}]").expect("writing to a String cannot fail");
        mark
    }

    fn enter_key(&mut self, key: &CompactString, seen: &mut BTreeSet<CompactString>) -> usize {
        let Some(tracker) = &mut self.tracker else { return 0 };
        let mark = tracker.path.len();
        let may_note = tracker.found.len() < DUPLICATES_MAX
            && tracker.examined < DUPLICATES_EXAMINED_MAX
            && tracker.bytes < DUPLICATES_BYTES_MAX;
        if !seen.insert(key.clone()) && may_note {
            tracker.examined += 1;
            tracker.bytes += mark + key.len();
            let found = Duplicate { parent: tracker.path.clone(), key: key.clone(), before: seen.len() };
            if !tracker.found.contains(&found) {
                tracker.found.push(found);
            }
        }
        if mark > 0 {
            tracker.path.push('.');
        }
        tracker.path.push_str(key);
        mark
    }

    fn leave(&mut self, mark: usize) {
        if let Some(tracker) = &mut self.tracker {
            tracker.path.truncate(mark);
        }
    }

    fn parse_literal(
        &mut self,
        word: &str,
        contexts: &[&'static str],
        value: Value,
    ) -> Result<Value, JsonError> {
        self.at += 1;
        for (expected, context) in word.as_bytes()[1..].iter().zip(contexts) {
            if self.bytes.get(self.at) != Some(expected) {
                return Err(self.invalid(context));
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn skip_digits(&mut self, context: &'static str) -> Result<(), JsonError> {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at == start { Err(self.invalid(context)) } else { Ok(()) }
    }

    fn parse_number(&mut self) -> Result<Value, JsonError> {
        let start = self.at;
        if self.bytes[self.at] == b'-' {
            self.at += 1;
        }
        // A leading zero ends the integer part; the caller checks the byte that follows.
        if self.bytes.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            self.skip_digits("in numeric literal")?;
        }
        let mut whole = true;
        if self.bytes.get(self.at) == Some(&b'.') {
            whole = false;
            self.at += 1;
            self.skip_digits("after decimal point in numeric literal")?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            whole = false;
            self.at += 1;
            if matches!(self.bytes.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.skip_digits("in exponent of numeric literal")?;
        }
        let literal = std::str::from_utf8(&self.bytes[start..self.at]).expect("digits and signs are ASCII");
        if whole && let Ok(number) = literal.parse() {
            return Ok(Value::Int(number));
        }
        match literal.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Value::Float(number)),
            _ => Err(JsonError::NumberRange { literal: literal.to_owned() }),
        }
    }

    /// Parses the string that starts at the current position.
    fn parse_string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        let start = self.at + 1;
        self.at = start;
        self.skip_plain();
        match self.bytes.get(self.at) {
            Some(b'"') => {
                let text = self.slice(start, self.at)?;
                self.at += 1;
                Ok(Cow::Borrowed(text))
            }
            Some(b'\\') => self.parse_escaped_string(start).map(Cow::Owned),
            _ => Err(self.invalid("in string literal")),
        }
    }

    /// Skips to the next byte that is not plain text.
    fn skip_plain(&mut self) {
        self.at += plain::<EndsPlain>(&self.bytes[self.at..]);
    }

    fn slice(&self, from: usize, to: usize) -> Result<&'a str, JsonError> {
        // Strings begin and end at quotes, which are character boundaries.
        match self.text.and_then(|text| text.get(from..to)) {
            Some(text) => Ok(text),
            None => std::str::from_utf8(&self.bytes[from..to])
                .map_err(|_| JsonError::InvalidUtf8 { offset: from }),
        }
    }

    /// Parses a string with an escape at the current position and plain text from `start` up to there.
    fn parse_escaped_string(&mut self, start: usize) -> Result<String, JsonError> {
        let mut text = String::from(self.slice(start, self.at)?);
        loop {
            let plain = self.at;
            self.skip_plain();
            text.push_str(self.slice(plain, self.at)?);
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => {
                    self.at += 1;
                    text.push(self.parse_escape()?);
                }
                _ => return Err(self.invalid("in string literal")),
            }
        }
    }

    /// Parses the character after a backslash.
    fn parse_escape(&mut self) -> Result<char, JsonError> {
        let c = match self.bytes.get(self.at) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.parse_unicode();
            }
            _ => return Err(self.invalid("in string escape code")),
        };
        self.at += 1;
        Ok(c)
    }

    fn parse_hex4(&mut self) -> Result<u32, JsonError> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.bytes.get(self.at).and_then(|b| char::from(*b).to_digit(16));
            code = code * 16 + digit.ok_or_else(|| self.invalid("in \\u hexadecimal character escape"))?;
            self.at += 1;
        }
        Ok(code)
    }

    /// Parses the character of `\uXXXX`, including a surrogate pair. A lone surrogate becomes U+FFFD, as in
    /// Go.
    fn parse_unicode(&mut self) -> Result<char, JsonError> {
        let first = self.parse_hex4()?;
        if let Some(c) = char::from_u32(first) {
            return Ok(c);
        }
        if first < 0xdc00 && self.bytes[self.at..].starts_with(b"\\u") {
            let mark = self.at;
            self.at += 2;
            let second = self.parse_hex4()?;
            if (0xdc00..0xe000).contains(&second) {
                let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = mark;
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }
}

const TRUE_CONTEXTS: &[&str] = &[
    "in literal true (expecting 'r')",
    "in literal true (expecting 'u')",
    "in literal true (expecting 'e')",
];
const FALSE_CONTEXTS: &[&str] = &[
    "in literal false (expecting 'a')",
    "in literal false (expecting 'l')",
    "in literal false (expecting 's')",
    "in literal false (expecting 'e')",
];
const NULL_CONTEXTS: &[&str] = &[
    "in literal null (expecting 'u')",
    "in literal null (expecting 'l')",
    "in literal null (expecting 'l')",
];

/// Quotes a byte as Go does: as a character, escaped if it is not printable.
fn quote_byte(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        0x07 => r"'\a'".to_owned(),
        0x08 => r"'\b'".to_owned(),
        0x0b => r"'\v'".to_owned(),
        0x0c => r"'\f'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        0..=0x1f | 0x7f => format!(r"'\x{byte:02x}'"),
        0x80..=0xa0 | 0xad => format!(r"'\u00{byte:02x}'"),
        _ => format!("'{}'", char::from(byte)),
    }
}
