//! Names with values: most objects hold several such sets, and each is one allocation, or none if it is empty.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use setpoint_api::Value;

/// Names with values, in the order of the names: labels, annotations, selectors.
///
/// Names and values stand one after another, each behind its length: six bits to a byte, the least first, with a seventh
/// where more follow. So all of it is text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pairs(Text);

/// The text, in a form that takes no more room than the text alone: hardly any set is large, and every object has several.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Text {
    /// At most [`SCAN_LEN_MAX`] pairs.
    Few(Box<str>),
    Many(Box<Indexed>),
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Indexed {
    text: Box<str>,
    /// Start of each pair.
    places: Vec<u32>,
}

impl Default for Pairs {
    fn default() -> Pairs {
        Pairs(Text::Few(Box::default()))
    }
}

/// Pairs up to which a name is found by reading them one after another.
const SCAN_LEN_MAX: usize = 32;

impl Pairs {
    /// The value of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let Text::Many(many) = &self.0 else {
            return self.iter().find(|(other, _)| *other == name).map(|(_, value)| value);
        };
        let places = &many.places;
        let rest = |place: &u32| many.text.get(*place as usize..).unwrap_or_default();
        let at = places.partition_point(|place| take(&mut rest(place)).is_some_and(|other| other < name));
        let mut rest = rest(places.get(at)?);
        (take(&mut rest)? == name).then(|| take(&mut rest)).flatten()
    }

    fn text(&self) -> &str {
        match &self.0 {
            Text::Few(text) => text,
            Text::Many(many) => &many.text,
        }
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut rest = self.text();
        std::iter::from_fn(move || Some((take(&mut rest)?, take(&mut rest)?)))
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.text().is_empty()
    }

    /// As a value, to write it.
    #[must_use]
    pub fn to_value(&self) -> Value {
        Value::Map(self.iter().map(|(name, value)| (name, Value::from(value))).collect())
    }

    fn sorted(mut pairs: Vec<(Cow<'_, str>, Cow<'_, str>)>) -> Pairs {
        pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
        pairs.dedup_by(|(a, _), (b, _)| a == b);
        let pieces = || pairs.iter().flat_map(|(name, value)| [name, value]);
        let mut text = String::with_capacity(pieces().map(|piece| piece.len() + 1).sum());
        let mut places = Vec::new();
        for (name, value) in &pairs {
            places.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
            put(&mut text, name);
            put(&mut text, value);
        }
        let text = text.into_boxed_str();
        if places.len() > SCAN_LEN_MAX {
            return Pairs(Text::Many(Box::new(Indexed { text, places })));
        }
        Pairs(Text::Few(text))
    }
}

fn put(text: &mut String, piece: &str) {
    let mut length = piece.len();
    while length >= 64 {
        text.push(char::from(64 | (length % 64) as u8));
        length /= 64;
    }
    text.push(char::from(length as u8));
    text.push_str(piece);
}

fn take<'a>(rest: &mut &'a str) -> Option<&'a str> {
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
        Pairs::sorted(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pairs, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("names with values")
            }

            fn visit_unit<E>(self) -> Result<Pairs, E> {
                Ok(Pairs::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::with_capacity(map.size_hint().unwrap_or(4));
                while let Some((Piece(name), Piece(value))) = map.next_entry()? {
                    pairs.push((name, value));
                }
                Ok(Pairs::sorted(pairs))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// A text that is read where it stands, if it can be.
#[derive(Deserialize)]
struct Piece<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pairs_order_by_name_and_the_last_of_a_name_does_not_count_twice() {
        let pairs: Pairs = serde_json::from_str(r#"{"b":"\u00fc\n","a":"","":"x"}"#).unwrap();
        assert_eq!(pairs.iter().collect::<Vec<_>>(), [("", "x"), ("a", ""), ("b", "ü\n")]);
        assert_eq!((pairs.get("a"), pairs.get("c")), (Some(""), None));
        assert_eq!(serde_json::from_str::<Pairs>("null").unwrap(), Pairs::default());
        assert!(Pairs::default().is_empty() && !pairs.is_empty());
    }

    proptest! {
        #[test]
        fn what_is_put_in_comes_out(
            pairs in prop::collection::btree_map(".{0,80}", prop_oneof![".{0,80}", "a{4000,4200}"], 0..80),
        ) {
            let read: Pairs = serde_json::from_str(&serde_json::to_string(&pairs).unwrap()).unwrap();
            let made: Pairs = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            prop_assert_eq!(&read, &made);
            let expected: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (&**name, &**value)).collect();
            prop_assert_eq!(read.iter().collect::<Vec<_>>(), expected);
            prop_assert!(pairs.iter().all(|(name, value)| read.get(name) == Some(value)));
        }
    }
}
