//! Values of literal tokens.

use crate::error::ParseErrorKind;

/// Constant in the source.
#[derive(Clone, Debug)]
pub enum Literal {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// Signed integer.
    Int(i64),
    /// Unsigned integer.
    Uint(u64),
    /// Finite double.
    Double(f64),
    /// String.
    String(Box<str>),
    /// Bytes.
    Bytes(Box<[u8]>),
}

/// Doubles are equal if their bits are.
impl PartialEq for Literal {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Uint(a), Self::Uint(b)) => a == b,
            (Self::Double(a), Self::Double(b)) => a.to_bits() == b.to_bits(),
            (Self::String(a), Self::String(b)) => a == b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Literal {}

pub(crate) fn int(text: &str, is_negative: bool) -> Result<Literal, ParseErrorKind> {
    let invalid = ParseErrorKind::InvalidNumber("int");
    let (digits, radix) = digits_and_radix(text);
    let Ok(magnitude) = i128::from_str_radix(digits, radix) else { return Err(invalid) };
    i64::try_from(if is_negative { -magnitude } else { magnitude }).map(Literal::Int).map_err(|_| invalid)
}

pub(crate) fn uint(text: &str) -> Result<Literal, ParseErrorKind> {
    let (digits, radix) = digits_and_radix(text.trim_end_matches(['u', 'U']));
    u64::from_str_radix(digits, radix).map(Literal::Uint).map_err(|_| ParseErrorKind::InvalidNumber("uint"))
}

pub(crate) fn double(text: &str, is_negative: bool) -> Result<Literal, ParseErrorKind> {
    let value: f64 = text.parse().unwrap_or(f64::INFINITY);
    if value.is_infinite() {
        return Err(ParseErrorKind::InvalidNumber("double"));
    }
    Ok(Literal::Double(if is_negative { -value } else { value }))
}

fn digits_and_radix(text: &str) -> (&str, u32) {
    text.strip_prefix("0x").map_or((text, 10), |digits| (digits, 16))
}

/// Returns the value of a string token.
pub(crate) fn string(token: &str) -> Result<Literal, ParseErrorKind> {
    let value = unquote(token, false)?;
    // Escapes of strings are code points, so the bytes are UTF-8.
    let value = String::from_utf8(value).map_err(|_| INVALID_ESCAPE)?;
    Ok(Literal::String(value.into()))
}

/// Returns the value of a bytes token.
pub(crate) fn bytes(token: &str) -> Result<Literal, ParseErrorKind> {
    unquote(token.trim_start_matches(['b', 'B']), true).map(|value| Literal::Bytes(value.into()))
}

const INVALID_ESCAPE: ParseErrorKind = ParseErrorKind::InvalidEscape("unable to unescape string");
const INVALID_CODE_POINT: ParseErrorKind = ParseErrorKind::InvalidEscape("invalid unicode code point");

fn unquote(token: &str, is_bytes: bool) -> Result<Vec<u8>, ParseErrorKind> {
    let quoted = token.trim_start_matches(['r', 'R']);
    let is_triple = quoted.len() >= 6 && (quoted.starts_with("\"\"\"") || quoted.starts_with("'''"));
    let quotes = if is_triple { 3 } else { 1 };
    let body = quoted.get(quotes..quoted.len() - quotes).unwrap_or_default();
    // Newlines of the source are normalized; escaped ones are not.
    let body = body.replace("\r\n", "\n").replace('\r', "\n");
    if quoted.len() != token.len() { Ok(body.into_bytes()) } else { unescape(&body, is_bytes) }
}

/// Replaces the escapes of a text that the lexer has accepted.
fn unescape(mut text: &str, is_bytes: bool) -> Result<Vec<u8>, ParseErrorKind> {
    let mut value = Vec::with_capacity(text.len());
    while let Some((plain, escaped)) = text.split_once('\\') {
        value.extend_from_slice(plain.as_bytes());
        let code = escaped.as_bytes().first().copied().unwrap_or_default();
        let (start, length, radix) = match code {
            b'0'..=b'3' => (0, 3, 8),
            b'x' | b'X' => (1, 2, 16),
            b'u' | b'U' if is_bytes => return Err(INVALID_ESCAPE),
            b'u' => (1, 4, 16),
            b'U' => (1, 8, 16),
            _ => {
                value.push(simple_escape(code));
                text = escaped.get(1..).unwrap_or_default();
                continue;
            }
        };
        let digits = escaped.get(start..start + length).ok_or(INVALID_ESCAPE)?;
        let number = u32::from_str_radix(digits, radix).map_err(|_| INVALID_ESCAPE)?;
        if is_bytes {
            value.push(u8::try_from(number).map_err(|_| INVALID_ESCAPE)?);
        } else {
            let character = char::from_u32(number).ok_or(INVALID_CODE_POINT)?;
            value.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
        text = &escaped[start + length..];
    }
    value.extend_from_slice(text.as_bytes());
    Ok(value)
}

fn simple_escape(code: u8) -> u8 {
    match code {
        b'a' => 0x07,
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 0x0b,
        quoted => quoted,
    }
}
