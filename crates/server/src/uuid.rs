//! Random identifiers (UUIDs of version 4) as text.

const HEX: &[u8; 16] = b"0123456789abcdef";
const LEN: usize = 36;
/// Bytes before which hyphens are placed.
const GROUPS: [usize; 4] = [4, 6, 8, 10];

/// UUID of these random bits, with version and variant set.
#[must_use]
pub fn text(high: u64, low: u64) -> String {
    let high = (high & !0xf000) | 0x4000;
    let low = (low & !(0b11 << 62)) | (0b10 << 62);
    let bytes = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
    let mut text = Vec::with_capacity(LEN);
    for (at, byte) in bytes.into_iter().enumerate() {
        if GROUPS.contains(&at) {
            text.push(b'-');
        }
        text.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
    String::from_utf8(text).expect("hexadecimal digits and hyphens are text")
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn uuid_is_well_formed_for_any_entropy() {
        assert_eq!(text(0, 0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(text(u64::MAX, u64::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(
            text(0x0123_4567_89ab_cdef, 0x8123_4567_89ab_cdef),
            "01234567-89ab-4def-8123-456789abcdef"
        );
    }
}
