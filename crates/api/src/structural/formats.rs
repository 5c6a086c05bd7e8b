//! Formats of strings that custom resources validate: those of upstream's `strfmt` registry.

use std::sync::LazyLock;

use regex::Regex;

use super::schema::SchemaType;
use crate::names::ip::{Cidr, parse_ip};

mod time;
mod url;

/// Maximum bytes of a host name.
const HOSTNAME_BYTES_MAX: usize = 255;
/// Maximum bytes of a label of a host name.
const HOST_LABEL_BYTES_MAX: usize = 63;
/// Maximum bytes of a `k8s-long-name`.
const LONG_NAME_BYTES_MAX: usize = 253;

/// A validated format of strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "variants have the names of their formats")]
pub enum StringFormat {
    BsonObjectId,
    Uri,
    Email,
    Hostname,
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
    Isbn,
    Isbn10,
    Isbn13,
    CreditCard,
    Ssn,
    HexColor,
    RgbColor,
    Byte,
    Password,
    Date,
    Duration,
    DateTime,
    ShortName,
    LongName,
}

/// `true` if a schema of this type validates the format; any other format is ignored.
#[must_use]
pub fn is_recognized_format(name: &str, ty: Option<SchemaType>) -> bool {
    match ty {
        None | Some(SchemaType::String) => StringFormat::from_name(name).is_some(),
        Some(SchemaType::Integer) => matches!(name, "int32" | "int64"),
        Some(SchemaType::Number) => matches!(name, "float" | "double"),
        Some(SchemaType::Array | SchemaType::Boolean | SchemaType::Object) => false,
    }
}

impl StringFormat {
    /// Format with this name; dashes do not count.
    #[must_use]
    pub fn from_name(name: &str) -> Option<StringFormat> {
        Some(match name.replace('-', "").as_str() {
            "bsonobjectid" => StringFormat::BsonObjectId,
            "uri" => StringFormat::Uri,
            "email" => StringFormat::Email,
            "hostname" => StringFormat::Hostname,
            "ipv4" => StringFormat::Ipv4,
            "ipv6" => StringFormat::Ipv6,
            "cidr" => StringFormat::Cidr,
            "mac" => StringFormat::Mac,
            "uuid" => StringFormat::Uuid,
            "uuid3" => StringFormat::Uuid3,
            "uuid4" => StringFormat::Uuid4,
            "uuid5" => StringFormat::Uuid5,
            "isbn" => StringFormat::Isbn,
            "isbn10" => StringFormat::Isbn10,
            "isbn13" => StringFormat::Isbn13,
            "creditcard" => StringFormat::CreditCard,
            "ssn" => StringFormat::Ssn,
            "hexcolor" => StringFormat::HexColor,
            "rgbcolor" => StringFormat::RgbColor,
            "byte" => StringFormat::Byte,
            "password" => StringFormat::Password,
            "date" => StringFormat::Date,
            "duration" => StringFormat::Duration,
            "datetime" => StringFormat::DateTime,
            "k8sshortname" => StringFormat::ShortName,
            "k8slongname" => StringFormat::LongName,
            _ => return None,
        })
    }

    /// `true` if the text has this format.
    #[must_use]
    pub fn is_valid(self, text: &str) -> bool {
        match self {
            StringFormat::BsonObjectId => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
            StringFormat::Uri => url::is_request_uri(text),
            StringFormat::Email => url::is_email(text),
            StringFormat::Hostname => is_hostname(text),
            StringFormat::Ipv4 => text.contains('.') && parse_ip(text).is_some(),
            StringFormat::Ipv6 => text.contains(':') && text.parse::<std::net::IpAddr>().is_ok(),
            StringFormat::Cidr => Cidr::parse(text).is_some(),
            StringFormat::Mac => is_mac(text),
            StringFormat::Uuid => is_uuid(text, None, false),
            StringFormat::Uuid3 => is_uuid(text, Some(b'3'), false),
            StringFormat::Uuid4 => is_uuid(text, Some(b'4'), true),
            StringFormat::Uuid5 => is_uuid(text, Some(b'5'), true),
            StringFormat::Isbn => is_isbn10(text) || is_isbn13(text),
            StringFormat::Isbn10 => is_isbn10(text),
            StringFormat::Isbn13 => is_isbn13(text),
            StringFormat::CreditCard => is_credit_card(text),
            StringFormat::Ssn => text.len() == 11 && SSN.is_match(text),
            StringFormat::HexColor => is_hex_color(text),
            StringFormat::RgbColor => RGB_COLOR.is_match(text),
            StringFormat::Byte => is_base64(text),
            StringFormat::Password => true,
            StringFormat::Date => time::is_date(text),
            StringFormat::Duration => time::is_duration(text),
            StringFormat::DateTime => time::is_date_time(text),
            StringFormat::ShortName => text.len() <= HOST_LABEL_BYTES_MAX && is_short_name(text),
            StringFormat::LongName => text.len() <= LONG_NAME_BYTES_MAX && text.split('.').all(is_short_name),
        }
    }
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is constant")
}

static SSN: LazyLock<Regex> = LazyLock::new(|| regex("^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"));
static RGB_COLOR: LazyLock<Regex> = LazyLock::new(|| {
    let part = r"[\t\n\f\r ]*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[\t\n\f\r ]*";
    regex(&format!(r"^rgb\({part},{part},{part}\)$"))
});
static CREDIT_CARD: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}",
        "|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$"
    ))
});
static SYMBOL_OR_LETTER: LazyLock<Regex> = LazyLock::new(|| regex(r"^[\p{S}\p{L}]$"));
static LETTER: LazyLock<Regex> = LazyLock::new(|| regex(r"^\p{L}$"));

fn is_short_name(text: &str) -> bool {
    let is_alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|byte| is_alphanumeric(*byte))
        && bytes.last().is_some_and(|byte| is_alphanumeric(*byte))
        && bytes.iter().all(|byte| is_alphanumeric(*byte) || *byte == b'-')
}

/// `true` for a character of a label: alphanumeric, any letter or symbol.
fn is_host_char(c: char) -> bool {
    match c {
        '$' | '+' | '<' | '=' | '>' | '^' | '`' | '|' | '~' => true,
        c if c.is_ascii() => c.is_ascii_alphanumeric(),
        c => SYMBOL_OR_LETTER.is_match(c.encode_utf8(&mut [0; 4])),
    }
}

fn is_host_letter(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphabetic() } else { LETTER.is_match(c.encode_utf8(&mut [0; 4])) }
}

fn is_hostname(text: &str) -> bool {
    if text.len() > HOSTNAME_BYTES_MAX || text.split('.').any(|label| label.len() > HOST_LABEL_BYTES_MAX) {
        return false;
    }
    is_single_label(text) || is_qualified(text)
}

/// One label: a dash only after the first character.
fn is_single_label(text: &str) -> bool {
    let mut chars = text.chars();
    if !chars.next().is_some_and(is_host_char) {
        return false;
    }
    let rest = chars.as_str();
    rest.strip_prefix('-').unwrap_or(rest).chars().all(is_host_char)
}

/// Labels, then a top-level domain of at least two letters.
fn is_qualified(text: &str) -> bool {
    let Some((labels, top)) = text.rsplit_once('.') else { return false };
    let is_label = |label: &str| {
        label.chars().next().is_some_and(is_host_char)
            && label.chars().next_back().is_some_and(is_host_char)
            && label.chars().all(|c| c == '-' || is_host_char(c))
    };
    top.chars().count() >= 2 && top.chars().all(is_host_letter) && labels.split('.').all(is_label)
}

/// Hexadecimal digits in groups of 8, 4, 4, 4 and 12 with optional dashes.
fn is_uuid(text: &str, version: Option<u8>, has_variant: bool) -> bool {
    let mut digits = Vec::with_capacity(32);
    for byte in text.bytes() {
        match byte {
            b'-' if matches!(digits.len(), 8 | 12 | 16 | 20) => digits.push(b'-'),
            byte if byte.is_ascii_hexdigit() => digits.push(byte),
            _ => return false,
        }
        // A dash is kept until the next digit, so that two in a row are found.
        if let [.., b'-', last] = digits.as_slice() {
            if *last == b'-' {
                return false;
            }
            let last = *last;
            digits.truncate(digits.len() - 2);
            digits.push(last);
        }
    }
    digits.len() == 32
        && !digits.contains(&b'-')
        && version.is_none_or(|version| digits[12] == version)
        && (!has_variant || matches!(digits[16].to_ascii_lowercase(), b'8' | b'9' | b'a' | b'b'))
}

/// Text without whitespace and dashes.
fn without_separators(text: &str) -> Vec<u8> {
    text.bytes().filter(|byte| !matches!(byte, b'\t' | b'\n' | b'\x0c' | b'\r' | b' ' | b'-')).collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = without_separators(text);
    let [first @ .., last] = digits.as_slice() else { return false };
    if first.len() != 9 || !first.iter().all(u8::is_ascii_digit) || !(last.is_ascii_digit() || *last == b'X')
    {
        return false;
    }
    let value = |byte: u8| if byte == b'X' { 10 } else { u32::from(byte - b'0') };
    let sum: u32 = (1..).zip(&digits).map(|(weight, byte)| weight * value(*byte)).sum();
    sum.is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let digits = without_separators(text);
    if digits.len() != 13 || !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let weights = [1, 3].into_iter().cycle();
    let sum: u32 = digits.iter().zip(weights).map(|(byte, weight)| weight * u32::from(byte - b'0')).sum();
    sum.is_multiple_of(10)
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if !CREDIT_CARD.is_match(&digits) {
        return false;
    }
    let luhn = |(at, byte): (usize, u8)| match u32::from(byte - b'0') {
        digit if at % 2 == 0 => digit,
        digit if digit >= 5 => digit * 2 - 9,
        digit => digit * 2,
    };
    digits.bytes().rev().enumerate().map(luhn).sum::<u32>().is_multiple_of(10)
}

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Standard alphabet, padded, and not empty.
fn is_base64(text: &str) -> bool {
    let padding = text.bytes().rev().take(2).take_while(|byte| *byte == b'=').count();
    let data = &text[..text.len() - padding];
    !data.is_empty()
        && text.len().is_multiple_of(4)
        && data.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

/// 6, 8 or 20 bytes in the notations of Go's `net.ParseMAC`.
fn is_mac(text: &str) -> bool {
    let has_groups = |separator: char, digits: usize, counts: [usize; 3]| {
        counts.contains(&text.split(separator).count())
            && text
                .split(separator)
                .all(|group| group.len() == digits && group.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    has_groups(':', 2, [6, 8, 20]) || has_groups('-', 2, [6, 8, 20]) || has_groups('.', 4, [3, 4, 10])
}

#[cfg(test)]
mod tests;
