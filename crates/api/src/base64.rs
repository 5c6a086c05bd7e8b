//! Base64 codec: the standard alphabet with padding, as Go's `base64.StdEncoding`.

use base64::Engine as _;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig, general_purpose::STANDARD};

/// As Go, accepts unused bits that are set in the last digit.
const LENIENT: GeneralPurpose =
    GeneralPurpose::new(&ALPHABET, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// Encodes bytes, with padding.
pub(crate) fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Decodes padded digits; `None` for any other character, including line breaks, and for wrong padding.
pub(crate) fn decode(digits: impl AsRef<[u8]>) -> Option<Vec<u8>> {
    LENIENT.decode(digits).ok()
}

/// Appends the decoded bytes to `out`; nothing if the text is not valid.
pub(crate) fn decode_into(text: &str, out: &mut Vec<u8>) {
    let start = out.len();
    if LENIENT.decode_vec(text, out).is_err() {
        out.truncate(start);
    }
}

/// `true` if this group of four digits is the one that [`encode`] writes: the unused bits are zero.
pub(crate) fn is_canonical_group(group: &[u8]) -> bool {
    STANDARD.decode_slice(group, &mut [0; 3]).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_requires_padding() {
        assert_eq!(decode("aGVsbG8="), Some(b"hello".to_vec()));
        assert_eq!(decode("aGVsbG8"), None);
        assert_eq!(decode("aGV*"), None);
        assert_eq!(decode(""), Some(Vec::new()));
        assert_eq!(decode("a==="), None);
        assert_eq!(decode("YR=="), Some(b"a".to_vec()));
    }

    proptest::proptest! {
        #[test]
        fn decoded_bytes_equal_the_encoded_ones(bytes: Vec<u8>) {
            let text = encode(&bytes);
            let mut decoded = Vec::new();
            decode_into(&text, &mut decoded);
            proptest::prop_assert_eq!(&decoded, &bytes);
            proptest::prop_assert_eq!(decode(&text), Some(bytes));
        }
    }
}
