//! Base64 fields, read as Go reads them and stored as Go writes them.

use super::DecodeError;
use crate::base64;

/// Checks base64 text with the error positions of Go. Line breaks are skipped and unused bits may be set: such a
/// text is returned as Go would write it, any other as `None`.
pub(super) fn canonicalize(text: &str) -> Result<Option<String>, DecodeError> {
    let bytes = text.as_bytes();
    let mut has_breaks = false;
    let mut digits = 0;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\n' | b'\r' => has_breaks = true,
            b'=' => {
                has_breaks |= padding_has_breaks(bytes, at, digits % 4)?;
                break;
            }
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' => digits += 1,
            _ => return Err(DecodeError::Base64(at)),
        }
        at += 1;
    }
    if at == bytes.len() && digits % 4 != 0 {
        return Err(DecodeError::Base64(at - digits % 4));
    }
    let last_group = &bytes[bytes.len().saturating_sub(4)..];
    if !has_breaks && base64::is_canonical_group(last_group) {
        return Ok(None);
    }
    let without_breaks: Vec<u8> =
        bytes.iter().copied().filter(|byte| !matches!(byte, b'\n' | b'\r')).collect();
    let decoded = base64::decode(without_breaks).expect("digits and padding were checked above");
    Ok(Some(base64::encode(&decoded)))
}

/// Checks the padding that starts at `at` after `digits` of a group, and that only line breaks follow; `true` if
/// there are any.
fn padding_has_breaks(bytes: &[u8], at: usize, digits: usize) -> Result<bool, DecodeError> {
    if digits < 2 {
        return Err(DecodeError::Base64(at));
    }
    let skip = |mut at: usize| {
        while matches!(bytes.get(at), Some(b'\n' | b'\r')) {
            at += 1;
        }
        at
    };
    let mut end = at + 1;
    if digits == 2 {
        end = skip(end);
        match bytes.get(end) {
            None => return Err(DecodeError::Base64(bytes.len())),
            Some(b'=') => end += 1,
            Some(_) => return Err(DecodeError::Base64(end - 1)),
        }
    }
    let end = skip(end);
    if end < bytes.len() {
        return Err(DecodeError::Base64(end));
    }
    Ok(end != at + 4 - digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_returned_only_if_go_would_write_it_differently() {
        for text in ["", "YQ==", "YWI=", "YWJj", "YWJjZA==", "+/+/"] {
            assert_eq!(canonicalize(text), Ok(None), "{text}");
        }
        for (text, expected) in [
            ("YW\nJj\n", "YWJj"),
            ("YR==", "YQ=="),
            ("YWJ=", "YWI="),
            ("YQ=\n=", "YQ=="),
            ("\n", ""),
            ("YQ==\r\n", "YQ=="),
        ] {
            assert_eq!(canonicalize(text), Ok(Some(expected.to_owned())), "{text:?}");
        }
    }

    #[test]
    fn errors_name_the_byte_that_go_names() {
        for (text, at) in [
            ("Y", 0),
            ("YQ", 0),
            ("YWJjY", 4),
            ("Y!==", 1),
            ("=", 0),
            ("Y===", 1),
            ("YQ=", 3),
            ("YQ=Y", 2),
            ("YQ==YQ==", 4),
        ] {
            assert_eq!(canonicalize(text), Err(DecodeError::Base64(at)), "{text}");
        }
    }
}
