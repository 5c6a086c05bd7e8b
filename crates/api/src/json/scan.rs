//! Vectorized search for the bytes of a string that need special treatment.
//!
//! Most strings are short and are scanned in words of eight bytes. The plain prefix of a long string is
//! scanned in blocks of 32 bytes, which the compiler turns into SIMD comparisons.

pub(super) const WORD: usize = 8;
const BLOCK: usize = 32;
/// Maximum length of a string that is scanned without blocks.
const SHORT: usize = 2 * WORD;

const ONES: u64 = 0x0101_0101_0101_0101;
pub(super) const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Special bytes of a word: the highest bit of each. Only the lowest mark has to be exact.
type Marks = u64;

/// A class of special bytes.
pub(super) trait Special {
    /// Marks the special bytes of a word, without a branch.
    fn in_word(word: u64) -> Marks;

    /// `true` if the byte is special, without a branch.
    fn is(byte: u8) -> bool;
}

/// Bytes that end plain text inside a string: the quote, the backslash and control characters.
pub(super) struct EndsPlain;

impl Special for EndsPlain {
    fn in_word(word: u64) -> Marks {
        controls(word) | zeros(word ^ repeat(b'"')) | zeros(word ^ repeat(b'\\'))
    }

    fn is(byte: u8) -> bool {
        (byte < 0x20) | (byte == b'"') | (byte == b'\\')
    }
}

/// Bytes that are escaped when a string is written, or may start a character that is.
pub(super) struct NeedsEscape;

impl Special for NeedsEscape {
    fn in_word(word: u64) -> Marks {
        // The quote and the ampersand differ in one bit, and so do the two angle brackets.
        controls(word)
            | zeros((word & !repeat(b'"' ^ b'&')) ^ repeat(b'"' & b'&'))
            | zeros((word & !repeat(b'<' ^ b'>')) ^ repeat(b'<' & b'>'))
            | zeros(word ^ repeat(b'\\'))
            | zeros(word ^ repeat(0xe2))
    }

    fn is(byte: u8) -> bool {
        (byte < 0x20)
            | (byte == b'"')
            | (byte == b'&')
            | (byte == b'<')
            | (byte == b'>')
            | (byte == b'\\')
            | (byte == 0xe2)
    }
}

pub(super) const fn repeat(byte: u8) -> u64 {
    ONES * byte as u64
}

/// Marks the zero bytes.
const fn zeros(word: u64) -> Marks {
    word.wrapping_sub(ONES) & !word & HIGHS
}

/// Marks the bytes below the space.
const fn controls(word: u64) -> Marks {
    word.wrapping_sub(repeat(0x20)) & !word & HIGHS
}

/// Length of the plain prefix.
#[inline]
pub(super) fn plain<S: Special>(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(word) = bytes[at..].first_chunk::<WORD>() {
        let marks = S::in_word(u64::from_le_bytes(*word));
        if marks != 0 {
            return at + marks.trailing_zeros() as usize / WORD;
        }
        at += WORD;
        if at == SHORT {
            at += plain_blocks::<S>(&bytes[at..]);
        }
    }
    at + bytes[at..].iter().take_while(|byte| !S::is(**byte)).count()
}

/// Length of the prefix of whole blocks without a special byte.
fn plain_blocks<S: Special>(bytes: &[u8]) -> usize {
    let is_plain = |block: &&[u8; BLOCK]| !block.iter().fold(false, |any, byte| any | S::is(*byte));
    bytes.as_chunks::<BLOCK>().0.iter().take_while(is_plain).count() * BLOCK
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<S: Special>() {
        for byte in 0..=u8::MAX {
            for len in [0, 1, 7, 8, 15, 16, 17, 47, 48, 70, 100] {
                // Bytes adjacent to special ones.
                for filler in [b'a', b'!', b'#', b'=', b'%', b']', b'[', b' ', 0x7f, 0x80, 0xe1, 0xe3, 0xff] {
                    let mut bytes = vec![filler; len];
                    bytes.push(byte);
                    bytes.extend([b'"', filler]);
                    let expected = bytes.iter().position(|byte| S::is(*byte)).unwrap();
                    assert_eq!(plain::<S>(&bytes), expected, "{byte} after {len} of {filler}");
                    assert_eq!(plain::<S>(&bytes[..expected]), expected);
                }
            }
        }
    }

    #[test]
    fn first_special_byte_is_found_at_any_position() {
        check::<EndsPlain>();
        check::<NeedsEscape>();
    }
}
