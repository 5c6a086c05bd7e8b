//! Bytes as the text that JSON has for them, and back.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The digits' values; 64 is no digit.
const VALUES: [u8; 256] = {
    let mut values = [64; 256];
    let mut at = 0;
    while at < 64 {
        values[ALPHABET[at] as usize] = at as u8;
        at += 1;
    }
    values
};

/// The text of bytes, with padding.
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let value = (bits >> (18 - 6 * digit) & 63) as usize;
            text.push(if digit <= group.len() { char::from(ALPHABET[value]) } else { '=' });
        }
    }
    text
}

/// Appends the bytes of a text in its one form. What is no digit is passed over, so a text that was not
/// checked before gives some bytes, never an error.
pub(super) fn decode(text: &str, out: &mut Vec<u8>) {
    let (mut bits, mut count) = (0_u32, 0);
    out.reserve(text.len() / 4 * 3);
    for byte in text.bytes() {
        let value = VALUES[usize::from(byte)];
        if value == 64 {
            continue;
        }
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
}
