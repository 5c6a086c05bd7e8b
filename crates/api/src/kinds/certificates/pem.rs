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
/// block but is none.
#[must_use]
pub fn next_block(mut text: &[u8]) -> Option<(Block, &[u8])> {
    loop {
        let start = find_line(text, b"-----BEGIN ")?;
        let rest = &text[start + b"-----BEGIN ".len()..];
        match read_block(rest) {
            Some(found) => return Some(found),
            None => text = rest,
        }
    }
}

/// Reads a block from after its first words.
fn read_block(text: &[u8]) -> Option<(Block, &[u8])> {
    let (line, mut rest) = split_line(text);
    let label = line.strip_suffix(b"-----")?;
    let mut has_headers = false;
    let mut digits = Vec::new();
    loop {
        if rest.is_empty() {
            return None;
        }
        let (line, after) = split_line(rest);
        rest = after;
        if let Some(end) = line.strip_prefix(b"-----END ") {
            if end.strip_suffix(b"-----") != Some(label) {
                return None;
            }
            break;
        }
        if digits.is_empty() && line.contains(&b':') {
            has_headers = true;
        } else {
            digits.extend(line.iter().filter(|byte| !byte.is_ascii_whitespace()));
        }
    }
    let label = String::from_utf8_lossy(label).into_owned();
    Some((Block { label, has_headers, bytes: base64::decode_exact(&digits)? }, rest))
}

/// Where a line begins with these bytes.
fn find_line(text: &[u8], start: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with(start) {
            return Some(at);
        }
        at += text[at..].iter().position(|byte| *byte == b'\n')? + 1;
    }
    None
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
