//! Base64 as Go reads and writes it.

use super::DecodeError;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Checks the text. Line breaks are passed over and unused bits may be set; if so, the text that Go would write
/// for the same bytes is given back.
pub(super) fn canonical(text: &str) -> Result<Option<String>, DecodeError> {
    let bytes = text.as_bytes();
    let mut out = None;
    let mut digits = 0;
    let mut at = 0;
    let mut last = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\n' | b'\r' => out = Some(String::new()),
            b'=' => {
                let clean = padding(bytes, at, digits % 4)?;
                if !clean {
                    out = Some(String::new());
                }
                break;
            }
            byte => {
                last = sextet(byte).ok_or(DecodeError::Base64(at))?;
                digits += 1;
            }
        }
        at += 1;
    }
    if at == bytes.len() && digits % 4 != 0 {
        return Err(DecodeError::Base64(at - digits % 4));
    }
    let unused = match digits % 4 {
        2 => last & 0b1111,
        3 => last & 0b11,
        _ => 0,
    };
    if out.is_none() && unused == 0 {
        return Ok(None);
    }
    let mut clean: String = text.chars().filter(|c| !matches!(c, '\n' | '\r' | '=')).collect();
    clean.pop();
    if digits > 0 {
        clean.push(char::from(ALPHABET[usize::from(last - unused)]));
    }
    clean.extend(std::iter::repeat_n('=', (4 - digits % 4) % 4));
    Ok(Some(clean))
}

fn sextet(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

/// Checks the padding that starts at `at` after `digits` of a group, and that nothing but line breaks follows.
/// Says whether there were none of those.
fn padding(bytes: &[u8], at: usize, digits: usize) -> Result<bool, DecodeError> {
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
    Ok(end == at + 4 - digits)
}

/// Writes bytes as Go writes them.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let sextet = (bits >> (18 - 6 * digit)) & 0b11_1111;
            text.push(if digit > chunk.len() { '=' } else { char::from(ALPHABET[sextet as usize]) });
        }
    }
    text
}

/// The bytes of a text that [`canonical`] has let through.
pub(crate) fn decode(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for sextet in text.bytes().filter_map(sextet) {
        bits = bits << 6 | u32::from(sextet);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_go_would_write_is_kept_and_the_rest_is_put_right() {
        for text in ["", "YQ==", "YWI=", "YWJj", "YWJjZA==", "+/+/"] {
            assert_eq!(canonical(text), Ok(None), "{text}");
        }
        for (text, expected) in [
            ("YW\nJj\n", "YWJj"),
            ("YR==", "YQ=="),
            ("YWJ=", "YWI="),
            ("YQ=\n=", "YQ=="),
            ("\n", ""),
            ("YQ==\r\n", "YQ=="),
        ] {
            assert_eq!(canonical(text), Ok(Some(expected.to_owned())), "{text:?}");
        }
    }

    #[test]
    fn the_byte_that_is_wrong_is_named() {
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
            assert_eq!(canonical(text), Err(DecodeError::Base64(at)), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn bytes_come_back_as_they_were(bytes: Vec<u8>) {
            let text = encode(&bytes);
            proptest::prop_assert_eq!(canonical(&text), Ok(None));
            proptest::prop_assert_eq!(decode(&text), bytes);
        }
    }
}
