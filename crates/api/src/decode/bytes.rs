//! Base64 as Go reads and writes it.

use super::DecodeError;
use crate::base64;

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
                last = base64::value(byte).ok_or(DecodeError::Base64(at))?;
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
        clean.push(base64::digit(last - unused));
    }
    clean.extend(std::iter::repeat_n('=', (4 - digits % 4) % 4));
    Ok(Some(clean))
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
}
