//! Duplicate mapping keys with their line numbers, for error messages.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use serde_saphyr::options::DuplicateKeyPolicy;

use super::DEPTH_MAX;

/// Returns a message for each duplicate key, in document order. For documents that were parsed before, within
/// the bounds, and that have duplicates.
#[must_use]
pub fn repeated_keys(bytes: &[u8]) -> Vec<String> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: DEPTH_MAX, flow_nesting_limit: DEPTH_MAX },
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        with_snippet: false,
    };
    let mut found = Vec::new();
    let text = String::from_utf8_lossy(bytes);
    let read = serde_saphyr::with_deserializer_from_str_with_options(&text, options, |deserializer| {
        Keys(&mut found).deserialize(deserializer)
    });
    match read {
        Ok(()) => found,
        Err(_) => Vec::new(),
    }
}

/// Visits one value.
struct Keys<'a>(&'a mut Vec<String>);

impl<'de> DeserializeSeed<'de> for Keys<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Keys<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_bytes<E: Error>(self, _: &[u8]) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Keys(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(key) = fields.next_key::<Spanned<String>>()? {
            let line = key.referenced.line();
            if !seen.insert(key.value.clone()) {
                self.0.push(format!("line {line}: key {:?} already set in map", key.value));
            }
            fields.next_value_seed(Keys(self.0))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_keys_are_reported_with_their_lines() {
        let text =
            "metadata:\n  name: x\ndata:\n  a: \"1\"\n  a: \"2\"\n  b: {c: 1, c: [1, {d: ~, d: true}]}\n";
        let expected = [
            "line 5: key \"a\" already set in map",
            "line 6: key \"c\" already set in map",
            "line 6: key \"d\" already set in map",
        ];
        assert_eq!(repeated_keys(text.as_bytes()), expected);
        assert_eq!(repeated_keys(b"{\"a\":1,\n\"a\":2}"), ["line 2: key \"a\" already set in map"]);
        assert!(repeated_keys(b"a: 1\nb: {a: 2}\n").is_empty());
    }
}
