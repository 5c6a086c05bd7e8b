//! Writer for the stored form of a field set, `fieldsV1`.
//!
//! An element is followed by braces with its children. Children are known only when the element is closed, so
//! every element is opened, and removed again if it turns out to be empty.

use compact_str::CompactString;

/// Key that marks a path with children as a member itself.
pub(super) const SELF: &str = ".";
/// Encoded form of that key.
const SELF_JSON: &[u8] = br#"".":{}"#;
/// Initial capacity: the set of a common object.
const CAPACITY: usize = 1024;

/// Stored form of a set, as far as it is written.
pub(super) struct FieldSetWriter {
    out: Vec<u8>,
}

/// An element that is not closed yet.
pub(super) struct OpenElement {
    member: bool,
    /// Start of the element, including the comma before it.
    start: usize,
    /// Position after the element if it has no children.
    inner: usize,
}

impl FieldSetWriter {
    pub(super) fn new() -> FieldSetWriter {
        let mut out = Vec::with_capacity(CAPACITY);
        out.push(b'{');
        FieldSetWriter { out }
    }

    /// Returns the complete text.
    pub(super) fn finish(mut self) -> CompactString {
        self.out.push(b'}');
        String::from_utf8(self.out).expect("JSON of UTF-8 strings is UTF-8").into()
    }

    /// `true` if nothing was written.
    pub(super) fn is_empty(&self) -> bool {
        self.out.len() == 1
    }

    /// Begins an element; `write` appends it as it is between quotes. Elements must come in order.
    pub(super) fn open(&mut self, member: bool, write: impl FnOnce(&mut Vec<u8>)) -> OpenElement {
        let start = self.out.len();
        self.write_element(write);
        let inner = self.out.len();
        if member {
            self.out.extend_from_slice(SELF_JSON);
        }
        OpenElement { member, start, inner }
    }

    /// Ends an element. One that is neither a member nor has children is removed.
    pub(super) fn close(&mut self, OpenElement { member, start, inner }: OpenElement) {
        if !member && self.out.len() == inner {
            self.out.truncate(start);
            return;
        }
        if member && self.out.len() == inner + SELF_JSON.len() {
            self.out.truncate(inner);
        }
        self.out.push(b'}');
    }

    /// Writes a member without children.
    pub(super) fn write_leaf(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.write_element(write);
        self.out.push(b'}');
    }

    fn write_element(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        self.out.push(b'"');
        write(&mut self.out);
        self.out.extend_from_slice(b"\":{");
    }
}
