//! The parser: recursive descent over bytes.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write;

use compact_str::CompactString;
use thiserror::Error;

use super::scan::{EndsPlain, plain};
use super::skip::end_of;
use super::{DEPTH_MAX, DUPLICATES_BYTES_MAX, DUPLICATES_EXAMINED_MAX, DUPLICATES_MAX};
use crate::value::{Map, Value};

/// Room for the fields of the open objects of a common request, made once.
const FIELDS_CAPACITY: usize = 32;

/// Room for the fields that an object is given before it is stored, so that it need not move.
const FIELDS_SPARE: usize = 6;

/// Why bytes are not one JSON value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JsonError {
    /// The input ends inside a value.
    #[error("unexpected end of JSON input")]
    UnexpectedEnd,
    /// A byte that cannot stand where it stands.
    #[error("invalid character {} {context}", quote_byte(*.byte))]
    InvalidCharacter {
        /// The byte.
        byte: u8,
        /// Where the parser was, in Go's words.
        context: &'static str,
        /// Where it stands.
        offset: usize,
    },
    /// Text that is not UTF-8.
    #[error("invalid UTF-8 in string literal")]
    InvalidUtf8 {
        /// Where the text starts.
        offset: usize,
    },
    /// A number beyond the range of a double.
    #[error("json: cannot unmarshal number {literal} into Go value of type float64")]
    NumberRange {
        /// The number as it was written.
        literal: String,
    },
}

/// A field that came more than once in its object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// The path of the object that has it, as in `spec.containers[0]`; empty at the top.
    pub parent: String,
    /// The key.
    pub key: CompactString,
    /// How many different fields of the object came before it was met again.
    pub before: usize,
}

impl Duplicate {
    /// The path of the field, as in `spec.containers[0].name`.
    #[must_use]
    pub fn path(&self) -> String {
        if self.parent.is_empty() { self.key.to_string() } else { format!("{}.{}", self.parent, self.key) }
    }
}

/// Names the fields that come twice. It reads the input once more, so that the common case pays nothing.
pub(super) fn duplicates(bytes: &[u8]) -> Result<Vec<Duplicate>, JsonError> {
    let mut parser = Parser::new(bytes);
    parser.tracker = Some(Tracker::default());
    parser.document()?;
    Ok(parser.tracker.map(|tracker| tracker.found).unwrap_or_default())
}

/// The state of a run over one input.
pub(crate) struct Parser<'a> {
    bytes: &'a [u8],
    /// The same as text, where all of it is: to look at once is cheaper than string by string.
    text: Option<&'a str>,
    at: usize,
    depth: usize,
    saw_duplicate: bool,
    tracker: Option<Tracker>,
    owners: Owners,
    /// The parts of the spec that are left as they are written.
    closed: &'a [&'a str],
    /// Fields of the objects that are open, the innermost last: they move into a vector of the right size when
    /// their object is closed.
    fields: Vec<(CompactString, Value)>,
    /// Items of the arrays that are open, likewise.
    items: Vec<Value>,
}

/// How far the parser is on its way to what the owners of an object own, `metadata.managedFields[].fieldsV1`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owners {
    /// It reads them like everything else.
    Read,
    /// It leaves them as they are, and is not on the way to them.
    Outside,
    /// It is in the metadata of the object.
    Metadata,
    /// It is in the list of its owners.
    Entries,
    /// It is in the spec of the object, of which parts are left as they are too.
    Spec,
}

/// Where the parser is and what it found twice.
#[derive(Default)]
struct Tracker {
    path: String,
    found: Vec<Duplicate>,
    /// Fields that came again, up to the bound.
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
            owners: Owners::Read,
            closed: &[],
            fields: Vec::new(),
            items: Vec::new(),
        }
    }

    /// A parser that leaves what owners own as it is written, and these parts of the spec.
    pub(super) fn leaving(bytes: &'a [u8], closed: &'a [&'a str]) -> Parser<'a> {
        Parser { owners: Owners::Outside, closed, ..Parser::new(bytes) }
    }

    pub(super) fn saw_duplicate(&self) -> bool {
        self.saw_duplicate
    }

    /// The whole input as one value.
    pub(super) fn document(&mut self) -> Result<Value, JsonError> {
        let value = self.value()?;
        self.end()?;
        Ok(value)
    }

    /// Makes sure that nothing comes any more.
    pub(crate) fn end(&mut self) -> Result<(), JsonError> {
        match self.peek() {
            Ok(_) => Err(self.invalid("after top-level value")),
            Err(_) => Ok(()),
        }
    }

    /// Whether an object comes next.
    pub(crate) fn is_object(&mut self) -> Result<bool, JsonError> {
        Ok(self.peek()? == b'{')
    }

    /// The next byte that is no space, left in place.
    fn peek(&mut self) -> Result<u8, JsonError> {
        loop {
            match self.bytes.get(self.at) {
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.at += 1,
                Some(byte) => return Ok(*byte),
                None => return Err(JsonError::UnexpectedEnd),
            }
        }
    }

    /// The error for the byte at the current place.
    fn invalid(&self, context: &'static str) -> JsonError {
        self.bytes.get(self.at).map_or(JsonError::UnexpectedEnd, |byte| JsonError::InvalidCharacter {
            byte: *byte,
            context,
            offset: self.at,
        })
    }

    /// The value that comes next.
    pub(crate) fn value(&mut self) -> Result<Value, JsonError> {
        match self.peek()? {
            b'"' => self.string().map(|text| Value::Str(text.into())),
            b'{' => self.nested(Parser::object),
            b'[' => self.nested(Parser::array),
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.literal("true", TRUE_CONTEXTS, Value::Bool(true)),
            b'f' => self.literal("false", FALSE_CONTEXTS, Value::Bool(false)),
            b'n' => self.literal("null", NULL_CONTEXTS, Value::Null),
            _ => Err(self.invalid("looking for beginning of value")),
        }
    }

    fn nested<T, E: From<JsonError>>(
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

    fn array(&mut self) -> Result<Value, JsonError> {
        if self.peek()? == b']' {
            self.at += 1;
            return Ok(Value::List(Vec::new()));
        }
        let first = self.items.len();
        loop {
            let mark = self.enter_index(self.items.len() - first);
            let item = self.value()?;
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

    fn object(&mut self) -> Result<Value, JsonError> {
        if self.fields.capacity() == 0 {
            self.fields.reserve(FIELDS_CAPACITY);
        }
        let first = self.fields.len();
        let mut seen = BTreeSet::new();
        self.members(|parser, key| {
            let key = CompactString::from(key);
            let mark = parser.enter_key(&key, &mut seen);
            let value = parser.field(&key)?;
            parser.leave(mark);
            parser.fields.push((key, value));
            Ok::<(), JsonError>(())
        })?;
        if self.fields.len() == first {
            return Ok(Value::map());
        }
        let mut fields = Vec::with_capacity(self.fields.len() - first + FIELDS_SPARE);
        fields.extend(self.fields.drain(first..));
        let (map, duplicates) = Map::from_entries(fields);
        self.saw_duplicate |= duplicates;
        Ok(Value::Map(map))
    }

    /// Reads the object that comes next: `member` is called with each key, to read the value that follows.
    pub(crate) fn each_member<E: From<JsonError>>(
        &mut self,
        member: impl FnMut(&mut Self, Cow<'a, str>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.nested(|parser| parser.members(member))
    }

    /// Reads the members of an object whose brace is behind.
    fn members<E: From<JsonError>>(
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
            let key = self.string()?;
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

    /// The value of a field of an object.
    fn field(&mut self, key: &str) -> Result<Value, JsonError> {
        let outer = self.owners;
        self.owners = match (outer, self.depth, key) {
            (Owners::Outside, 1, "metadata") => Owners::Metadata,
            (Owners::Metadata, 2, "managedFields") => Owners::Entries,
            (Owners::Outside, 1, "spec") if !self.closed.is_empty() => Owners::Spec,
            (Owners::Spec, 2, key) if self.closed.contains(&key) && matches!(self.peek()?, b'{' | b'[') => {
                return self.unread().map(Value::Raw);
            }
            (Owners::Entries, 4, "fieldsV1") if self.is_object()? => return self.unread().map(Value::Raw),
            _ => return self.value(),
        };
        let value = self.value();
        self.owners = outer;
        value
    }

    /// The text of the object or array that comes next. That it is one is taken on trust: it was written here.
    fn unread(&mut self) -> Result<CompactString, JsonError> {
        let start = self.at;
        self.at = end_of(self.bytes, start).ok_or(JsonError::UnexpectedEnd)?;
        self.text(start, self.at).map(CompactString::from)
    }

    fn enter_index(&mut self, index: usize) -> usize {
        let Some(tracker) = &mut self.tracker else { return 0 };
        let mark = tracker.path.len();
        write!(tracker.path, "[{index}]").expect("a string takes any text");
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

    fn literal(&mut self, word: &str, contexts: &[&'static str], value: Value) -> Result<Value, JsonError> {
        self.at += 1;
        for (expected, context) in word.as_bytes()[1..].iter().zip(contexts) {
            if self.bytes.get(self.at) != Some(expected) {
                return Err(self.invalid(context));
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn digits(&mut self, context: &'static str) -> Result<(), JsonError> {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at == start { Err(self.invalid(context)) } else { Ok(()) }
    }

    fn number(&mut self) -> Result<Value, JsonError> {
        let start = self.at;
        if self.bytes[self.at] == b'-' {
            self.at += 1;
        }
        // A leading zero ends the whole part: what follows is judged by who comes next.
        if self.bytes.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        let mut whole = true;
        if self.bytes.get(self.at) == Some(&b'.') {
            whole = false;
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            whole = false;
            self.at += 1;
            if matches!(self.bytes.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
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

    /// The string that starts at the current place.
    fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        let start = self.at + 1;
        self.at = start;
        self.skip_plain();
        match self.bytes.get(self.at) {
            Some(b'"') => {
                let text = self.text(start, self.at)?;
                self.at += 1;
                Ok(Cow::Borrowed(text))
            }
            Some(b'\\') => self.escaped_string(start).map(Cow::Owned),
            _ => Err(self.invalid("in string literal")),
        }
    }

    /// Goes to the next byte that is not plain text.
    fn skip_plain(&mut self) {
        self.at += plain::<EndsPlain>(&self.bytes[self.at..]);
    }

    fn text(&self, from: usize, to: usize) -> Result<&'a str, JsonError> {
        // Strings begin and end at bytes that are characters of their own.
        match self.text.and_then(|text| text.get(from..to)) {
            Some(text) => Ok(text),
            None => std::str::from_utf8(&self.bytes[from..to])
                .map_err(|_| JsonError::InvalidUtf8 { offset: from }),
        }
    }

    /// A string with an escape at the current place, and plain text from `start` up to there.
    fn escaped_string(&mut self, start: usize) -> Result<String, JsonError> {
        let mut text = String::from(self.text(start, self.at)?);
        loop {
            let plain = self.at;
            self.skip_plain();
            text.push_str(self.text(plain, self.at)?);
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => {
                    self.at += 1;
                    text.push(self.escape()?);
                }
                _ => return Err(self.invalid("in string literal")),
            }
        }
    }

    /// The character behind a backslash.
    fn escape(&mut self) -> Result<char, JsonError> {
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
                return self.unicode();
            }
            _ => return Err(self.invalid("in string escape code")),
        };
        self.at += 1;
        Ok(c)
    }

    fn hex4(&mut self) -> Result<u32, JsonError> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.bytes.get(self.at).and_then(|b| char::from(*b).to_digit(16));
            code = code * 16 + digit.ok_or_else(|| self.invalid("in \\u hexadecimal character escape"))?;
            self.at += 1;
        }
        Ok(code)
    }

    /// The character of `\uXXXX`, both halves if it has two. A half alone reads as U+FFFD, as in Go.
    fn unicode(&mut self) -> Result<char, JsonError> {
        let first = self.hex4()?;
        if let Some(c) = char::from_u32(first) {
            return Ok(c);
        }
        if first < 0xdc00 && self.bytes[self.at..].starts_with(b"\\u") {
            let mark = self.at;
            self.at += 2;
            let second = self.hex4()?;
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

/// The byte in quotes as Go shows it: taken as a character, escaped where it cannot be printed.
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
