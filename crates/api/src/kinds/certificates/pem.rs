//! PEM blocks: base64 between lines that say what it is.

use crate::base64;

/// A PEM block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// What it is: `CERTIFICATE REQUEST`.
    pub label: String,
    /// Whether lines of the form `Key: value` stand before the content.
    pub has_headers: bool,
    /// The content.
    pub bytes: Vec<u8>,
}

/// Finds the first PEM block, and what stands after it. Text before it is passed over, and so is what begins as a
/// block but is none. Each line is read once.
#[must_use]
pub fn next_block(text: &[u8]) -> Option<(Block, &[u8])> {
    let mut open = Open::default();
    let mut rest = text;
    while !rest.is_empty() {
        let (line, after) = split_line(rest);
        rest = after;
        if let Some(end) = line.strip_prefix(END) {
            if let Some(block) = std::mem::take(&mut open).close(end) {
                return Some((block, rest));
            }
        } else {
            open.add(line);
        }
    }
    None
}

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"-----END ";
const DASHES: &[u8] = b"-----";

/// Blocks that the next end may close: those whose first lines stand among the headers of the first one.
#[derive(Default)]
struct Open<'a> {
    /// Label of each, and the number of headers before it.
    begun: Vec<(&'a [u8], usize)>,
    headers: usize,
    digits: Vec<u8>,
}

impl<'a> Open<'a> {
    fn add(&mut self, line: &'a [u8]) {
        let begin = line.strip_prefix(BEGIN);
        if !self.begun.is_empty() && self.digits.is_empty() && line.contains(&b':') {
            self.headers += 1;
        } else if begin.is_some() {
            // A hyphen is no digit: no block before this one can be decoded.
            *self = Open::default();
        } else if !self.begun.is_empty() {
            self.digits.extend(line.iter().filter(|byte| !byte.is_ascii_whitespace()));
        }
        if let Some(label) = begin.and_then(|begin| begin.strip_suffix(DASHES)) {
            self.begun.push((label, self.headers));
        }
    }

    /// The first block of this label, if its content can be decoded.
    fn close(self, end: &[u8]) -> Option<Block> {
        let end = end.strip_suffix(DASHES)?;
        let (label, headers) = self.begun.iter().find(|(label, _)| *label == end)?;
        let bytes = base64::decode(&self.digits)?;
        Some(Block {
            label: String::from_utf8_lossy(label).into_owned(),
            has_headers: self.headers > *headers,
            bytes,
        })
    }
}

/// The first line, without what ends it, and the rest.
fn split_line(text: &[u8]) -> (&[u8], &[u8]) {
    let (line, rest) = match text.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&text[..end], &text[end + 1..]),
        None => (text, &[][..]),
    };
    (line.trim_ascii_end(), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "junk\n-----BEGIN X-----\nnot base64!\n-----END X-----\n-----BEGIN A B-----\r\nKey: v\r\n\r\naGVs\nbG8=\r\n-----END A B-----\nrest";

    #[test]
    fn a_block_is_found_after_junk_and_after_what_is_no_block() {
        let (block, rest) = next_block(TEXT.as_bytes()).unwrap();
        let wanted = Block { label: "A B".to_owned(), has_headers: true, bytes: b"hello".to_vec() };
        assert_eq!((block, rest), (wanted, &b"rest"[..]));
        assert_eq!(next_block(b"rest"), None);
    }

    #[test]
    fn a_block_that_ends_otherwise_is_none() {
        assert_eq!(next_block(b"-----BEGIN A-----\naGVs\n-----END B-----\n"), None);
        assert_eq!(next_block(b"-----BEGIN A-----\naGVs\n"), None);
        assert_eq!(next_block(b"x -----BEGIN A-----\naGVs\n-----END A-----\n"), None);
        assert_eq!(next_block(b"-----BEGIN A\naGVs\n-----END A-----\n"), None);
    }

    #[test]
    fn block_may_begin_within_another() {
        let label =
            |text: &str| next_block(text.as_bytes()).map(|(block, _)| (block.label, block.has_headers));
        let begun = |labels: &[&str], end: &str| {
            let begun: String = labels.iter().map(|label| format!("-----BEGIN {label}-----\n")).collect();
            label(&format!("{begun}aGVs\n-----END {end}-----\n"))
        };
        assert_eq!(begun(&["A", "B"], "B"), Some(("B".to_owned(), false)));
        assert_eq!(begun(&["A", "B"], "A"), None);
        // A first line with a colon is a header of the block before it.
        assert_eq!(begun(&["A", "b:c"], "A"), Some(("A".to_owned(), true)));
        assert_eq!(begun(&["A", "b:c"], "b:c"), Some(("b:c".to_owned(), false)));
    }

    #[test]
    fn a_megabyte_of_first_lines_is_searched_once() {
        for line in ["-----BEGIN A-----\n", "-----BEGIN a:-----\n", "-----BEGIN "] {
            let text = line.repeat((1 << 20) / line.len());
            assert_eq!(next_block(text.as_bytes()), None);
            assert_eq!(next_block(format!("{text}\n-----END B-----\n").as_bytes()), None);
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_encoded_is_decoded(bytes: Vec<u8>) {
            let digits = base64::encode(&bytes);
            let text = [b"-----BEGIN X-----\n", digits.as_bytes(), b"\n-----END X-----\n"].concat();
            proptest::prop_assert_eq!(next_block(&text).map(|(block, _)| block.bytes), Some(bytes));
        }

        #[test]
        fn anything_can_be_searched_for_blocks(text: String) {
            let _ = next_block(text.as_bytes());
        }
    }
}
