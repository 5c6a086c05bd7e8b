//! YAML encoder with the output of upstream's server: sorted keys, lists at the indentation of their key,
//! plain scalars where they parse back as strings, and block scalars for multi-line strings.
//!
//! Every YAML 1.1 or 1.2 parser reads the output back as the same value; strings are quoted in doubt.

use std::cmp::Ordering;
use std::str::Chars;

use crate::json;
use crate::value::{Map, Value};

/// Appends a value as a document.
pub fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Map(map) if !map.is_empty() => write_map(map, 0, out),
        Value::List(list) if !list.is_empty() => write_list(list, 0, out),
        value => {
            write_scalar(value, 2, out);
            out.push(b'\n');
        }
    }
}

fn indent(depth: usize, out: &mut Vec<u8>) {
    out.resize(out.len() + depth, b' ');
}

/// Writes the entries of a map; the first starts at the current column.
fn write_map(map: &Map, depth: usize, out: &mut Vec<u8>) {
    let mut entries: Vec<(&str, &Value)> = map.iter().collect();
    entries.sort_by(|(a, _), (b, _)| compare_naturally(a, b));
    for (i, (key, value)) in entries.into_iter().enumerate() {
        if i > 0 {
            indent(depth, out);
        }
        write_text(key, out);
        out.push(b':');
        match value {
            Value::Map(map) if !map.is_empty() => {
                out.push(b'\n');
                indent(depth + 2, out);
                write_map(map, depth + 2, out);
            }
            Value::List(list) if !list.is_empty() => {
                out.push(b'\n');
                indent(depth, out);
                write_list(list, depth, out);
            }
            value => {
                out.push(b' ');
                write_scalar(value, depth + 2, out);
                out.push(b'\n');
            }
        }
    }
}

/// Writes the items of a list; the first starts at the current column.
fn write_list(list: &[Value], depth: usize, out: &mut Vec<u8>) {
    for (i, value) in list.iter().enumerate() {
        if i > 0 {
            indent(depth, out);
        }
        out.extend_from_slice(b"- ");
        match value {
            Value::Map(map) if !map.is_empty() => write_map(map, depth + 2, out),
            Value::List(list) if !list.is_empty() => write_list(list, depth + 2, out),
            value => {
                write_scalar(value, depth + 2, out);
                out.push(b'\n');
            }
        }
    }
}

fn write_scalar(value: &Value, depth: usize, out: &mut Vec<u8>) {
    match value.as_str() {
        Some(text) if text.contains('\n') && is_block(text) => write_block(text, depth, out),
        Some(text) => write_text(text, out),
        None => json::write(value, out),
    }
}

/// Writes a single-line string.
fn write_text(text: &str, out: &mut Vec<u8>) {
    if text.chars().any(|char| !is_printable(char)) || is_other_type(text) {
        write_double_quoted(text, out);
    } else if is_plain(text) {
        out.extend_from_slice(text.as_bytes());
    } else {
        out.push(b'\'');
        out.extend_from_slice(text.replace('\'', "''").as_bytes());
        out.push(b'\'');
    }
}

/// JSON's quoting is valid YAML, except for characters that YAML requires to be escaped.
fn write_double_quoted(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for char in text.chars() {
        match char {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\r' => out.extend_from_slice(b"\\r"),
            char if is_printable(char) => {
                out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
            }
            char => {
                let code = u32::from(char);
                let escaped = if code > 0xffff { format!("\\U{code:08X}") } else { format!("\\u{code:04X}") };
                out.extend_from_slice(escaped.as_bytes());
            }
        }
    }
    out.push(b'"');
}

/// Writes a multi-line string as an indented block scalar.
fn write_block(text: &str, depth: usize, out: &mut Vec<u8>) {
    out.push(b'|');
    if text.starts_with([' ', '\n']) {
        out.push(b'2');
    }
    let body = text.trim_end_matches('\n');
    match text.len() - body.len() {
        0 => out.push(b'-'),
        1 if !body.is_empty() => {}
        _ => out.push(b'+'),
    }
    // The newline after the last line is written with the next token.
    let lines = text.strip_suffix('\n').unwrap_or(text);
    for line in lines.split('\n') {
        out.push(b'\n');
        if !line.is_empty() {
            indent(depth, out);
            out.extend_from_slice(line.as_bytes());
        }
    }
}

/// `true` if a string can be a block scalar: no character needs an escape, and no line ends in a space.
fn is_block(text: &str) -> bool {
    text.chars().all(|char| char == '\n' || is_printable(char))
        && !text.contains(" \n")
        && !text.ends_with(' ')
}

/// `true` if a character may appear unescaped. Tabs are excluded: parsers disagree on where they are allowed.
fn is_printable(char: char) -> bool {
    !char.is_control() && !matches!(char, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// `true` if a printable string can be a plain scalar.
fn is_plain(text: &str) -> bool {
    let mut chars = text.chars();
    let Some(first) = chars.next() else { return false };
    let rest = chars.as_str();
    let indicates = match first {
        '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' => {
            true
        }
        '?' | ':' | '-' => rest.is_empty() || rest.starts_with(' '),
        _ => false,
    };
    !(indicates
        || text.starts_with("---")
        || text.starts_with("...")
        || text.starts_with(' ')
        || text.ends_with([' ', ':'])
        || text.contains(": ")
        || text.contains(" #"))
}

/// `true` if a plain scalar would be parsed as a number, boolean, timestamp or null.
fn is_other_type(text: &str) -> bool {
    const WORDS: [&str; 12] = ["", "~", "null", "y", "n", "yes", "no", "on", "off", "true", "false", "<<"];
    if text.len() <= 5 && WORDS.iter().any(|word| text.eq_ignore_ascii_case(word)) {
        return true;
    }
    let Some(first) = text.chars().next() else { return true };
    matches!(first, '0'..='9' | '+' | '-' | '.') && (is_number(text) || is_time(text))
}

fn is_number(text: &str) -> bool {
    let plain = text.replace('_', "").to_ascii_lowercase();
    let unsigned = plain.strip_prefix(['+', '-']).unwrap_or(&plain);
    let digits = |text: &str, radix| !text.is_empty() && text.chars().all(|char: char| char.is_digit(radix));
    let based = |prefix, radix| unsigned.strip_prefix(prefix).is_some_and(|rest| digits(rest, radix));
    if [("0x", 16), ("0o", 8), ("0b", 2)].into_iter().any(|(prefix, radix)| based(prefix, radix)) {
        return true;
    }
    if matches!(unsigned, ".inf" | ".nan") {
        return true;
    }
    // YAML 1.1 parsers read `1:30` as ninety.
    if unsigned.contains(':') {
        return unsigned.split([':', '.']).all(|part| part.is_empty() || digits(part, 10));
    }
    let is_start = |char: char| char.is_ascii_digit() || char == '.';
    unsigned.starts_with(is_start) && unsigned.parse::<f64>().is_ok()
}

fn is_time(text: &str) -> bool {
    let Some((year, rest)) = text.split_once('-') else { return false };
    let date = rest.split(['T', 't', ' ']).next().unwrap_or_default();
    let is_part =
        |part: &str| (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_date = date.split_once('-').is_some_and(|(month, day)| is_part(month) && is_part(day));
    year.len() == 4 && year.bytes().all(|byte| byte.is_ascii_digit()) && is_date
}

/// Order of keys: letters last, and embedded numbers by value.
fn compare_naturally(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a.chars(), b.chars());
    loop {
        let (x, y) = match (left.clone().next(), right.clone().next()) {
            (Some(x), Some(y)) => (x, y),
            (x, y) => return x.is_some().cmp(&y.is_some()),
        };
        if x.is_ascii_digit() && y.is_ascii_digit() {
            let (m, n) = (number(&mut left), number(&mut right));
            if m != n {
                // Of equal numbers, the one with fewer leading zeros comes first.
                return m.cmp(&n);
            }
            continue;
        }
        if x != y {
            return (x.is_alphabetic(), x).cmp(&(y.is_alphabetic(), y));
        }
        left.next();
        right.next();
    }
}

/// Takes leading digits: the number of significant ones, those digits, and the number of all.
fn number<'a>(chars: &mut Chars<'a>) -> (usize, &'a str, usize) {
    let text = chars.as_str();
    let end = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    *chars = text[end..].chars();
    let digits = text[..end].trim_start_matches('0');
    (digits.len(), digits, end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::yaml::parse_strict;

    fn yaml(text: &str) -> String {
        let mut out = Vec::new();
        write(&json::parse(text.as_bytes()).unwrap(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn objects_are_written_as_by_upstream() {
        let object = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","creationTimestamp":"2026-01-02T03:04:05Z",
            "labels":{},"finalizers":[],"uid":"0123"},"data":{"b10":"1","b9":"yes","a":"one\ntwo\n","c":"x: y","d":"it's","e":"","f":" f",
            "g":"- a","h":"tail \nx","i":"tab\there","j":"\n lead","k":"end\n\n"},
            "list":[{"a":1,"b":[1,2]},[3,[4]],"x",null,1.5,true]}"#;
        let expected = concat!(
            "apiVersion: v1\ndata:\n  a: |\n    one\n    two\n  b9: \"yes\"\n  b10: \"1\"\n  c: 'x: y'\n  d: it's\n",
            "  e: \"\"\n  f: ' f'\n  g: '- a'\n  h: \"tail \\nx\"\n  i: \"tab\\there\"\n  j: |2-\n\n     lead\n",
            "  k: |+\n    end\n\nkind: ConfigMap\nlist:\n- a: 1\n  b:\n  - 1\n  - 2\n- - 3\n  - - 4\n- x\n- null\n- 1.5\n- true\n",
            "metadata:\n  creationTimestamp: \"2026-01-02T03:04:05Z\"\n  finalizers: []\n  labels: {}\n  name: x\n  uid: \"0123\"\n",
        );
        assert_eq!(yaml(object), expected);
    }

    #[test]
    fn only_strings_that_parse_as_another_type_are_quoted() {
        let quoted = [
            "",
            "~",
            "Null",
            "TRUE",
            "on",
            "n",
            "12",
            "-1.5",
            "1e3",
            "0x1f",
            "0b1",
            "1_000",
            ".5",
            ".inf",
            "-.INF",
            "1:30",
            "2026-01-02",
            "2026-1-2 03:04:05",
            "08",
            "+7",
            "<<",
        ];
        for text in quoted {
            assert!(is_other_type(text), "{text}");
        }
        for text in [
            "v1",
            "1.2.3",
            "10.0.0.1",
            "nginx:1.25",
            "-",
            "a",
            "no-way",
            "2026-01",
            "1Gi",
            "-x",
            "inf",
            "nan",
        ] {
            assert!(!is_other_type(text), "{text}");
        }
    }

    fn text() -> impl Strategy<Value = String> {
        prop_oneof![
            any::<String>(),
            "[-a-z0-9:#?.,'\"_ \n\t|>&*!%@{}\\[\\]~+=xXeE]{0,12}",
            "[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}[T ]?[0-9:]{0,8}Z?",
            "[-+]?[0-9_.]{1,6}(e[0-9]{1,2})?",
        ]
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            text().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::List),
                prop::collection::btree_map(text(), inner, 0..5).prop_map(|entries| Value::Map(
                    entries.iter().map(|(k, v)| (k.as_str(), v.clone())).collect()
                )),
            ]
        })
    }

    proptest! {
        #[test]
        fn written_values_parse_back(value in value()) {
            let mut out = Vec::new();
            write(&value, &mut out);
            let text = String::from_utf8(out).unwrap();
            let mut read = parse_strict(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}")).0;
            let mut value = value;
            read.sort_fields();
            value.sort_fields();
            prop_assert_eq!(read, value, "{}", text);
        }
    }
}
