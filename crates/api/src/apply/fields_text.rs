//! The text in which a set of fields is stored, `fieldsV1`, written step by step.
//!
//! A step has braces behind it for what is below. Whether there is anything is seen only when it is closed, so it is
//! opened in any case, and taken back if it came to nothing.

use compact_str::CompactString;

/// Marks that a path with others below it is itself a member.
pub(super) const SELF: &str = ".";
/// That mark as it is written.
const SELF_JSON: &[u8] = br#"".":{}"#;
/// Room for what a common object says, so that the text rarely moves.
const CAPACITY: usize = 1024;

/// The text of a set, so far as it is written.
pub(super) struct FieldsText {
    out: Vec<u8>,
}

/// A step that is not closed yet.
pub(super) struct Opened {
    member: bool,
    /// Where the step begins, with the comma before it.
    start: usize,
    /// Where it would go on if nothing were below it.
    inner: usize,
}

impl FieldsText {
    pub(super) fn new() -> FieldsText {
        let mut out = Vec::with_capacity(CAPACITY);
        out.push(b'{');
        FieldsText { out }
    }

    /// The whole text.
    pub(super) fn finish(mut self) -> CompactString {
        self.out.push(b'}');
        String::from_utf8(self.out).expect("JSON of UTF-8 strings is UTF-8").into()
    }

    /// Whether nothing was written.
    pub(super) fn is_empty(&self) -> bool {
        self.out.len() == 1
    }

    /// Begins a step that `write` appends as it stands in quotes. Steps must come in their order.
    pub(super) fn open(&mut self, member: bool, write: impl FnOnce(&mut Vec<u8>)) -> Opened {
        let start = self.out.len();
        self.step(write);
        let inner = self.out.len();
        if member {
            self.out.extend_from_slice(SELF_JSON);
        }
        Opened { member, start, inner }
    }

    /// Ends a step. One that is no member and has nothing below it leaves no trace.
    pub(super) fn close(&mut self, Opened { member, start, inner }: Opened) {
        if !member && self.out.len() == inner {
            self.out.truncate(start);
            return;
        }
        if member && self.out.len() == inner + SELF_JSON.len() {
            self.out.truncate(inner);
        }
        self.out.push(b'}');
    }

    /// Writes a member with nothing below it.
    pub(super) fn leaf(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.step(write);
        self.out.push(b'}');
    }

    fn step(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        self.out.push(b'"');
        write(&mut self.out);
        self.out.extend_from_slice(b"\":{");
    }
}
