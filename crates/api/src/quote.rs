//! Quoted strings as the Kubernetes API prints them.
//!
//! Messages quote strings as Go's `%q` does, and tools match on those messages. JSON strings are escaped as
//! Go's encoder does, including `<`, `>` and `&`.

use std::fmt;

use crate::json;

/// Displays a string in double quotes with Go's escapes: `Quoted("a\"b")` prints `"a\"b"`.
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        let mut plain_from = 0;
        for (at, c) in self.0.char_indices() {
            if is_plain(c) {
                continue;
            }
            f.write_str(&self.0[plain_from..at])?;
            plain_from = at + c.len_utf8();
            write_escape(f, c)?;
        }
        f.write_str(&self.0[plain_from..])?;
        f.write_str("\"")
    }
}

fn is_plain(c: char) -> bool {
    match c {
        '"' | '\\' => false,
        ' '..='~' => true,
        _ => is_printable(c),
    }
}

/// `true` for letters, marks, numbers, punctuation and symbols, which print unescaped.
///
/// The standard library exposes printability only through its escapes, and it also escapes combining marks
/// that follow no other character; hence the `a`.
pub(crate) fn is_printable(c: char) -> bool {
    let mut bytes = [b'a'; 5];
    let end = 1 + c.encode_utf8(&mut bytes[1..]).len();
    std::str::from_utf8(&bytes[..end]).is_ok_and(|pair| pair.escape_debug().nth(2).is_none())
}

fn write_escape(f: &mut fmt::Formatter<'_>, c: char) -> fmt::Result {
    match c {
        '"' => f.write_str("\\\""),
        '\\' => f.write_str("\\\\"),
        '\x07' => f.write_str("\\a"),
        '\x08' => f.write_str("\\b"),
        '\x0c' => f.write_str("\\f"),
        '\n' => f.write_str("\\n"),
        '\r' => f.write_str("\\r"),
        '\t' => f.write_str("\\t"),
        '\x0b' => f.write_str("\\v"),
        '\0'..' ' | '\x7f' => write!(f, "\\x{:02x}", u32::from(c)),
        c if u32::from(c) < 0x1_0000 => write!(f, "\\u{:04x}", u32::from(c)),
        c => write!(f, "\\U{:08x}", u32::from(c)),
    }
}

/// Returns `text` as a JSON string.
#[must_use]
pub fn json_string(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    json::write_str(text, &mut out);
    String::from_utf8(out).expect("escapes of UTF-8 are UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_matches_go() {
        for (text, quoted) in [
            ("plain", r#""plain""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\x07\x08\x0c\n\r\t\x0b\0\x1f\x7f", r#""\a\b\f\n\r\t\v\x00\x1f\x7f""#),
            ("é中😀", "\"é中😀\""),
            ("a\u{301}\u{301}", "\"a\u{301}\u{301}\""),
            ("\u{a0}\u{200b}\u{feff}", r#""\u00a0\u200b\ufeff""#),
            ("\u{e0001}", r#""\U000e0001""#),
            ("it's", r#""it's""#),
        ] {
            assert_eq!(Quoted(text).to_string(), quoted);
        }
    }

    #[test]
    fn lone_combining_mark_is_not_escaped() {
        assert_eq!(Quoted("\u{301}").to_string(), "\"\u{301}\"");
    }

    #[test]
    fn json_strings_escape_html_markup() {
        assert_eq!(json_string("<a href=\"x\">&"), r#""\u003ca href=\"x\"\u003e\u0026""#);
        assert_eq!(json_string("\0\x08\x0c\n\r\t\x1f\x7f"), "\"\\u0000\\b\\f\\n\\r\\t\\u001f\x7f\"");
        assert_eq!(json_string("é\u{2028}\u{2029}😀"), "\"é\\u2028\\u2029😀\"");
    }
}
