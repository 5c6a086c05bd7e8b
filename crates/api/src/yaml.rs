//! YAML codec of the API. The dialect is that of kubectl, where `0644` is octal and `yes` is true.
//!
//! [`parse_strict`] bounds nesting, nodes, aliases and text, so that the cost of a document is linear in its
//! size. A body that is JSON, as apply requests mostly are, takes the JSON parser. [`write()`] is the
//! encoder.

mod repeated;
mod writer;

use std::collections::BTreeSet;
use std::fmt::{self, Write};

use compact_str::{CompactString, ToCompactString};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_saphyr::options::DuplicateKeyPolicy;
use thiserror::Error as ThisError;

pub use self::repeated::repeated_keys;
pub use self::writer::write;

use crate::json::{self, DUPLICATES_BYTES_MAX, DUPLICATES_MAX, Duplicate};
use crate::value::{Map, Value};

/// Maximum nesting of a document. The YAML parser needs more stack per level than the JSON parser.
pub const DEPTH_MAX: usize = 128;
/// Maximum number of nodes of a document, including those repeated by aliases.
const NODES_MAX: usize = 1_000_000;
/// Maximum number of nodes that aliases may repeat.
const REPEATED_MAX: usize = 100_000;
/// Maximum bytes of text of a document, including those repeated by aliases.
const TEXT_BYTES_MAX: usize = 16 << 20;

/// Invalid YAML document.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
pub enum YamlError {
    /// The document is not UTF-8.
    #[error("error converting YAML to JSON: yaml: invalid UTF-8")]
    InvalidUtf8,
    /// Syntax error, or a bound is exceeded.
    #[error("error converting YAML to JSON: yaml: line {line}: {problem}")]
    Syntax {
        /// Line of the error.
        line: u64,
        /// Description of the error.
        problem: String,
    },
}

impl YamlError {
    /// The message without its prefix about the conversion to JSON.
    #[must_use]
    pub fn message_without_prefix(&self) -> String {
        let text = self.to_string();
        text.strip_prefix("error converting YAML to JSON: ").unwrap_or(&text).to_owned()
    }
}

/// Parses one document and reports its duplicate fields, of which the last value wins.
///
/// # Errors
/// If the bytes are not one YAML document within the bounds.
pub fn parse_strict(bytes: &[u8]) -> Result<(Value, Vec<Duplicate>), YamlError> {
    if bytes.trim_ascii_start().starts_with(b"{")
        && let Ok(read) = json::parse_strict(bytes)
    {
        return Ok(read);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| YamlError::InvalidUtf8)?;
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            flow_nesting_limit: DEPTH_MAX,
            max_nodes: NODES_MAX,
            max_events: 4 * NODES_MAX,
            max_total_scalar_bytes: TEXT_BYTES_MAX,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: REPEATED_MAX },
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    let mut track = Track::default();
    let read = serde_saphyr::with_deserializer_from_str_with_options(text, options, |deserializer| {
        NodeSeed(&mut track).deserialize(deserializer)
    });
    match read {
        Ok(value) => Ok((value, track.found)),
        Err(error) => Err(YamlError::Syntax {
            line: error.location().map_or(1, |location| location.line()),
            problem: error.without_snippet().to_string(),
        }),
    }
}

/// Path of the parser and the duplicates found so far.
#[derive(Default)]
struct Track {
    path: String,
    found: Vec<Duplicate>,
    /// Bytes of the paths of the duplicates.
    bytes: usize,
}

impl Track {
    fn enter_key(&mut self, key: &CompactString, seen: &mut BTreeSet<CompactString>) -> usize {
        let mark = self.path.len();
        let may_note = self.found.len() < DUPLICATES_MAX && self.bytes < DUPLICATES_BYTES_MAX;
        if !seen.insert(key.clone()) && may_note {
            self.bytes += mark + key.len();
            self.found.push(Duplicate { parent: self.path.clone(), key: key.clone(), before: seen.len() });
        }
        if mark > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        mark
    }

    fn enter_index(&mut self, index: usize) -> usize {
        let mark = self.path.len();
        write!(self.path, "[{index}]").expect("writing to a String cannot fail");
        mark
    }
}

/// Deserializes one value.
struct NodeSeed<'a>(&'a mut Track);

impl<'de> DeserializeSeed<'de> for NodeSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NodeSeed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<Value, E> {
        Ok(truth.into())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        self.visit_u128(number.into())
    }

    fn visit_i128<E: Error>(self, number: i128) -> Result<Value, E> {
        Ok(large(i64::try_from(number).ok(), &number))
    }

    fn visit_u128<E: Error>(self, number: u128) -> Result<Value, E> {
        Ok(large(i64::try_from(number).ok(), &number))
    }

    /// The conversion to JSON turns integral floats into integers.
    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        let mut text = Vec::new();
        json::write_float(number, &mut text);
        json::parse(&text).map_err(E::custom)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let mark = self.0.enter_index(list.len());
            let item = items.next_element_seed(NodeSeed(self.0))?;
            self.0.path.truncate(mark);
            match item {
                Some(item) => list.push(item),
                None => return Ok(Value::List(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        let mut seen = BTreeSet::new();
        while let Some(key) = fields.next_key_seed(KeySeed)? {
            let mark = self.0.enter_key(&key, &mut seen);
            let value = fields.next_value_seed(NodeSeed(self.0))?;
            self.0.path.truncate(mark);
            entries.push((key, value));
        }
        Ok(Value::Map(Map::from_entries(entries).0))
    }
}

/// An integer, or the nearest float if it does not fit.
fn large(fits: Option<i64>, number: &impl ToString) -> Value {
    fits.map_or_else(|| number.to_string().parse::<f64>().map_or(Value::Null, Value::Float), Value::Int)
}

/// Deserializes a key, which becomes a string whatever its YAML type.
struct KeySeed;

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = CompactString;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<CompactString, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for KeySeed {
    type Value = CompactString;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key that is text, a number or a truth value")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<CompactString, E> {
        Ok(text.into())
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<CompactString, E> {
        Ok(truth.to_compact_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<CompactString, E> {
        Ok(number.to_compact_string())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<CompactString, E> {
        Ok(number.to_compact_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<CompactString, E> {
        let mut text = Vec::new();
        json::write_float(number, &mut text);
        CompactString::from_utf8(text).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(yaml: &str) -> String {
        String::from_utf8(json::to_vec(&parse_strict(yaml.as_bytes()).unwrap().0)).unwrap()
    }

    #[test]
    fn scalars_parse_as_in_kubectl() {
        let yaml = "mode: 0644\nhex: 0x1f\non: off\nname: \"yes\"\nnone: ~\nempty:\nfloat: 1.5\nwhole: 1.0\n\
                    version: '1.0'\n1: one\nday: 2026-01-01\nbig: 99999999999999999999\n";
        assert_eq!(
            text(yaml),
            "{\"mode\":420,\"hex\":31,\"true\":false,\"name\":\"yes\",\"none\":null,\"empty\":null,\"float\":1.5,\
             \"whole\":1,\"version\":\"1.0\",\"1\":\"one\",\"day\":\"2026-01-01\",\"big\":100000000000000000000}"
        );
    }

    #[test]
    fn blocks_anchors_and_merges_are_parsed() {
        let yaml =
            "base: &base {a: 1, b: [x, z]}\nlist:\n- <<: *base\n  c: 2\n- *base\nscript: |\n  one\n  two\n";
        assert_eq!(
            text(yaml),
            r#"{"base":{"a":1,"b":["x","z"]},"list":[{"c":2,"a":1,"b":["x","z"]},{"a":1,"b":["x","z"]}],"script":"one\ntwo\n"}"#
        );
    }

    #[test]
    fn json_is_accepted_as_yaml() {
        assert_eq!(text(r#" {"a": [1, {"b": "c"}], "a2": 1.0}"#), r#"{"a":[1,{"b":"c"}],"a2":1}"#);
        assert_eq!(text("{a: 1, b: [c]}"), r#"{"a":1,"b":["c"]}"#);
    }

    #[test]
    fn duplicates_are_reported_and_the_last_value_wins() {
        let yaml = "spec:\n  containers:\n  - name: a\n    image: i\n    name: b\nkind: x\nkind: z\n";
        let (value, duplicates) = parse_strict(yaml.as_bytes()).unwrap();
        let paths: Vec<String> = duplicates.iter().map(Duplicate::path).collect();
        assert_eq!(paths, ["spec.containers[0].name", "kind"]);
        assert_eq!(value.str_at(&["kind"]), "z");
    }

    #[test]
    fn syntax_errors_contain_the_line() {
        let error = |yaml: &[u8]| parse_strict(yaml).unwrap_err();
        assert!(matches!(error(b"a: b\nc: d: e\n"), YamlError::Syntax { line: 2, .. }));
        assert!(matches!(error(b"a: 1\n---\nb: 2\n"), YamlError::Syntax { .. }));
        assert_eq!(error(b"a: \xff"), YamlError::InvalidUtf8);
    }

    #[test]
    fn depth_and_aliases_are_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse_strict(nested(DEPTH_MAX - 1).as_bytes()).is_ok());
        assert!(parse_strict(nested(DEPTH_MAX + 1).as_bytes()).is_err());
        assert!(parse_strict("- ".repeat(100_000).as_bytes()).is_err());
        let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
        for level in 1..9 {
            let before = format!("*a{}", level - 1);
            writeln!(bomb, "a{level}: &a{level} [{}]", vec![before; 10].join(",")).unwrap();
        }
        assert!(parse_strict(bomb.as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(yaml in "[a-c:\\-\\[\\]{},&*!|>'\"#% \n]{0,40}") {
            let _ = parse_strict(yaml.as_bytes());
        }
    }
}
