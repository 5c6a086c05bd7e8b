//! Bytes as text: base64 with its padding, as JSON and PEM have it.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// What stands in [`VALUES`] for what is no digit.
const NONE: u8 = 64;
/// What each byte counts as a digit.
const VALUES: [u8; 256] = {
    let mut values = [NONE; 256];
    let mut at = 0;
    while at < 64 {
        values[DIGITS[at] as usize] = at as u8;
        at += 1;
    }
    values
};

/// What a digit counts; nothing if it is none.
pub(crate) fn value(digit: u8) -> Option<u8> {
    Some(VALUES[usize::from(digit)]).filter(|value| *value != NONE)
}

/// The digit for a number below 64.
pub(crate) fn digit(value: u8) -> char {
    char::from(DIGITS[usize::from(value & 63)])
}

/// Bytes as text.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let value = (bits >> (18 - 6 * at) & 63) as u8;
            text.push(if at <= group.len() { digit(value) } else { '=' });
        }
    }
    text
}

/// Adds what a text stands for to `out`. What is no digit is passed over, and a last digit that makes no byte is
/// dropped: this is for what was checked before.
pub(crate) fn decode_into(text: &str, out: &mut Vec<u8>) {
    let (mut bits, mut count) = (0_u32, 0);
    out.reserve(text.len() / 4 * 3);
    for value in text.bytes().filter_map(value) {
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count & 0xff) as u8);
        }
    }
}

/// What a text stands for, as [`decode_into`] reads it.
pub(crate) fn decode(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    decode_into(text, &mut bytes);
    bytes
}

/// What digits stand for; nothing if anything else is among them, or their padding is wrong.
pub(crate) fn decode_exact(digits: &[u8]) -> Option<Vec<u8>> {
    let significant = digits.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
    if !digits.len().is_multiple_of(4) || digits.len() - significant > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3);
    for group in digits[..significant].chunks(4) {
        let mut bits = 0_u32;
        for digit in group {
            bits = bits << 6 | u32::from(value(*digit)?);
        }
        bits <<= 6 * (4 - group.len());
        bytes.extend(&bits.to_be_bytes()[1..group.len()]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exact_reader_needs_the_padding() {
        assert_eq!(decode_exact(b"aGVsbG8="), Some(b"hello".to_vec()));
        assert_eq!(decode_exact(b"aGVsbG8"), None);
        assert_eq!(decode_exact(b"aGV*"), None);
        assert_eq!(decode_exact(b""), Some(Vec::new()));
        assert_eq!(decode_exact(b"a==="), None);
    }

    proptest::proptest! {
        #[test]
        fn bytes_come_back_as_they_were(bytes: Vec<u8>) {
            let text = encode(&bytes);
            proptest::prop_assert_eq!(&decode(&text), &bytes);
            proptest::prop_assert_eq!(decode_exact(text.as_bytes()), Some(bytes));
        }
    }
}
