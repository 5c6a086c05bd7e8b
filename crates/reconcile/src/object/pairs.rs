//! Compact map of strings: one allocation per map, or none if it is empty. Most objects hold several.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use setpoint_api::Value;

/// Map of strings, sorted by name: labels, annotations, label selectors.
///
/// Names and values are concatenated, each after its length. A length is a varint of 6 bits per byte, least significant
/// first; bit 6 marks that another byte follows, so that every byte of it is ASCII. Example: `{"app":"web"}` is
/// `\x03app\x03web`; the length 70 is `\x46\x01` (6 + 64 as the mark, then 1).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pairs(Encoded);

/// Encoded pairs, as small as the text alone if there are few: few maps are large, and every object has several.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Encoded {
    /// At most [`SCAN_LEN_MAX`] pairs.
    Few(Box<str>),
    Many(Box<Indexed>),
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Indexed {
    text: Box<str>,
    /// Offset of each pair in the text.
    offsets: Vec<u32>,
}

impl Default for Pairs {
    fn default() -> Pairs {
        Pairs(Encoded::Few(Box::default()))
    }
}

/// Maximum number of pairs that are searched linearly; larger maps have an index.
const SCAN_LEN_MAX: usize = 32;

impl Pairs {
    /// Returns the value of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let Encoded::Many(many) = &self.0 else {
            return self.iter().find(|(other, _)| *other == name).map(|(_, value)| value);
        };
        let offsets = &many.offsets;
        let rest = |offset: &u32| many.text.get(*offset as usize..).unwrap_or_default();
        let index = offsets
            .partition_point(|offset| take_string(&mut rest(offset)).is_some_and(|other| other < name));
        let mut rest = rest(offsets.get(index)?);
        (take_string(&mut rest)? == name).then(|| take_string(&mut rest)).flatten()
    }

    fn text(&self) -> &str {
        match &self.0 {
            Encoded::Few(text) => text,
            Encoded::Many(many) => &many.text,
        }
    }

    /// Iterates over names and values, in the order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut rest = self.text();
        std::iter::from_fn(move || Some((take_string(&mut rest)?, take_string(&mut rest)?)))
    }

    /// `true` if there are no pairs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.text().is_empty()
    }

    /// Converts to a value.
    #[must_use]
    pub fn to_value(&self) -> Value {
        Value::Map(self.iter().map(|(name, value)| (name, Value::from(value))).collect())
    }

    fn from_unsorted(mut pairs: Vec<(Cow<'_, str>, Cow<'_, str>)>) -> Pairs {
        pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
        pairs.dedup_by(|(a, _), (b, _)| a == b);
        let pieces = || pairs.iter().flat_map(|(name, value)| [name, value]);
        let mut text = String::with_capacity(pieces().map(|piece| piece.len() + 1).sum());
        let mut offsets = Vec::new();
        for (name, value) in &pairs {
            offsets.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
            push_string(&mut text, name);
            push_string(&mut text, value);
        }
        let text = text.into_boxed_str();
        if offsets.len() > SCAN_LEN_MAX {
            return Pairs(Encoded::Many(Box::new(Indexed { text, offsets })));
        }
        Pairs(Encoded::Few(text))
    }
}

fn push_string(text: &mut String, piece: &str) {
    let mut length = piece.len();
    while length >= 64 {
        text.push(char::from(64 | (length % 64) as u8));
        length /= 64;
    }
    text.push(char::from(length as u8));
    text.push_str(piece);
}

fn take_string<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let (mut length, mut shift, mut count) = (0, 0, 0);
    for byte in rest.bytes() {
        count += 1;
        length |= usize::from(byte % 64) << shift;
        shift += 6;
        if byte < 64 {
            break;
        }
    }
    let piece;
    (piece, *rest) = rest.get(count..)?.split_at_checked(length).filter(|_| count > 0)?;
    Some(piece)
}

impl fmt::Debug for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Pairs {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(pairs: I) -> Pairs {
        Pairs::from_unsorted(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pairs, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }

            fn visit_unit<E>(self) -> Result<Pairs, E> {
                Ok(Pairs::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::with_capacity(map.size_hint().unwrap_or(4));
                while let Some((Piece(name), Piece(value))) = map.next_entry()? {
                    pairs.push((name, value));
                }
                Ok(Pairs::from_unsorted(pairs))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// String that is borrowed from the input unless it has escapes.
#[derive(Deserialize)]
struct Piece<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pairs_are_sorted_by_name() {
        let pairs: Pairs = serde_json::from_str(r#"{"b":"\u00fc\n","a":"","":"x"}"#).unwrap();
        assert_eq!(pairs.iter().collect::<Vec<_>>(), [("", "x"), ("a", ""), ("b", "ü\n")]);
        assert_eq!((pairs.get("a"), pairs.get("c")), (Some(""), None));
        assert_eq!(serde_json::from_str::<Pairs>("null").unwrap(), Pairs::default());
        assert!(Pairs::default().is_empty() && !pairs.is_empty());
    }

    proptest! {
        #[test]
        fn pairs_survive_a_round_trip(
            pairs in prop::collection::btree_map(".{0,80}", prop_oneof![".{0,80}", "a{4000,4200}"], 0..80),
        ) {
            let decoded: Pairs = serde_json::from_str(&serde_json::to_string(&pairs).unwrap()).unwrap();
            let collected: Pairs = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            prop_assert_eq!(&decoded, &collected);
            let expected: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (&**name, &**value)).collect();
            prop_assert_eq!(decoded.iter().collect::<Vec<_>>(), expected);
            prop_assert!(pairs.iter().all(|(name, value)| decoded.get(name) == Some(value)));
        }
    }
}
