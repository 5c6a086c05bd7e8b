//! PEM decoder: labeled base64 blocks, as Go's `encoding/pem`.

use crate::base64;

/// A PEM block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Label, as in `CERTIFICATE REQUEST`.
    pub label: String,
    /// `true` if headers of the form `Key: value` precede the content.
    pub has_headers: bool,
    /// Decoded content.
    pub bytes: Vec<u8>,
}

/// Finds the first PEM block, and returns it with the remaining text. Text before it and malformed blocks are
/// skipped. Each line is read once.
#[must_use]
pub fn next_block(text: &[u8]) -> Option<(Block, &[u8])> {
    let mut open = OpenBlocks::default();
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

/// Blocks that the next end line may close: those whose begin lines are among the headers of the first one.
#[derive(Default)]
struct OpenBlocks<'a> {
    /// Label of each, and the number of headers before it.
    begun: Vec<(&'a [u8], usize)>,
    headers: usize,
    digits: Vec<u8>,
}

impl<'a> OpenBlocks<'a> {
    fn add(&mut self, line: &'a [u8]) {
        let begin = line.strip_prefix(BEGIN);
        if !self.begun.is_empty() && self.digits.is_empty() && line.contains(&b':') {
            self.headers += 1;
        } else if begin.is_some() {
            // A hyphen is not a base64 digit, so no block before this one can be decoded.
            *self = OpenBlocks::default();
        } else if !self.begun.is_empty() {
            self.digits.extend(line.iter().filter(|byte| !byte.is_ascii_whitespace()));
        }
        if let Some(label) = begin.and_then(|begin| begin.strip_suffix(DASHES)) {
            self.begun.push((label, self.headers));
        }
    }

    /// First open block with this label, if its content can be decoded.
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

/// Splits off the first line, without its line ending.
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
    fn block_is_found_after_junk_and_malformed_blocks() {
        let (block, rest) = next_block(TEXT.as_bytes()).unwrap();
        let wanted = Block { label: "A B".to_owned(), has_headers: true, bytes: b"hello".to_vec() };
        assert_eq!((block, rest), (wanted, &b"rest"[..]));
        assert_eq!(next_block(b"rest"), None);
    }

    #[test]
    fn block_with_another_end_label_is_rejected() {
        assert_eq!(next_block(b"-----BEGIN A-----\naGVs\n-----END B-----\n"), None);
        assert_eq!(next_block(b"-----BEGIN A-----\naGVs\n"), None);
        assert_eq!(next_block(b"x -----BEGIN A-----\naGVs\n-----END A-----\n"), None);
        assert_eq!(next_block(b"-----BEGIN A\naGVs\n-----END A-----\n"), None);
    }

    #[test]
    fn begin_line_may_be_a_header_of_another_block() {
        let label =
            |text: &str| next_block(text.as_bytes()).map(|(block, _)| (block.label, block.has_headers));
        let begun = |labels: &[&str], end: &str| {
            let begun: String = labels.iter().map(|label| format!("-----BEGIN {label}-----\n")).collect();
            label(&format!("{begun}aGVs\n-----END {end}-----\n"))
        };
        assert_eq!(begun(&["A", "B"], "B"), Some(("B".to_owned(), false)));
        assert_eq!(begun(&["A", "B"], "A"), None);
        // A begin line with a colon is a header of the block before it.
        assert_eq!(begun(&["A", "b:c"], "A"), Some(("A".to_owned(), true)));
        assert_eq!(begun(&["A", "b:c"], "b:c"), Some(("b:c".to_owned(), false)));
    }

    #[test]
    fn megabyte_of_begin_lines_is_searched_once() {
        for line in ["-----BEGIN A-----\n", "-----BEGIN a:-----\n", "-----BEGIN "] {
            let text = line.repeat((1 << 20) / line.len());
            assert_eq!(next_block(text.as_bytes()), None);
            assert_eq!(next_block(format!("{text}\n-----END B-----\n").as_bytes()), None);
        }
    }

    proptest::proptest! {
        #[test]
        fn encoded_blocks_decode(bytes: Vec<u8>) {
            let digits = base64::encode(&bytes);
            let text = [b"-----BEGIN X-----\n", digits.as_bytes(), b"\n-----END X-----\n"].concat();
            proptest::prop_assert_eq!(next_block(&text).map(|(block, _)| block.bytes), Some(bytes));
        }

        #[test]
        fn arbitrary_text_never_panics(text: String) {
            let _ = next_block(text.as_bytes());
        }
    }
}
