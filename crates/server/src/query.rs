//! The words after the question mark.

use std::num::IntErrorKind;

use setpoint_api::quote::Quoted;

/// Why a parameter is no whole number, in the words that clients know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("strconv.ParseInt: parsing {}: {why}", Quoted(.text))]
pub struct NumberError {
    text: String,
    why: &'static str,
}

/// The parameters of a request, in the order they came.
#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Reads a query string. What is malformed is left out, as upstream's parser does.
    #[must_use]
    pub fn parse(text: &str) -> Query {
        let pairs = text.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
        Query(
            pairs
                .filter_map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    Some((unescape(key)?, unescape(value)?))
                })
                .collect(),
        )
    }

    /// The first value of a parameter; empty if it is not there.
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// Whether a parameter is there, with a value or without.
    #[must_use]
    pub fn is_given(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }

    /// All values of a parameter.
    #[must_use]
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect()
    }

    /// A truth value as upstream reads it: there and neither `false` nor `0`.
    #[must_use]
    pub fn flag(&self, name: &str) -> Option<bool> {
        let value = self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())?;
        Some(!matches!(value.to_ascii_lowercase().as_str(), "false" | "0"))
    }

    /// A whole number.
    ///
    /// # Errors
    /// If it is none.
    pub fn number(&self, name: &str) -> Result<Option<i64>, NumberError> {
        if !self.is_given(name) {
            return Ok(None);
        }
        let text = self.get(name);
        text.parse::<i64>().map(Some).map_err(|error| NumberError {
            text: text.to_owned(),
            why: match error.kind() {
                IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
                _ => "invalid syntax",
            },
        })
    }
}

/// The text behind the escapes, unless they are malformed. What is no UTF-8 stays, visibly broken: a selector must
/// not vanish, because then it selects everything.
fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        match first {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digit = |index: usize| (*rest.get(index)? as char).to_digit(16);
                bytes.push(u8::try_from(digit(0)? << 4 | digit(1)?).ok()?);
                rest = &rest[2..];
            }
            byte => bytes.push(*byte),
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use setpoint_runtime::client::percent_encode;

    use super::*;

    #[test]
    fn parameters_are_unescaped_and_repeated_ones_kept() {
        let query = Query::parse("labelSelector=a%3Db%2Cc&dryRun=All&dryRun=x&watch&limit=5&bad=%zz");
        assert_eq!(query.get("labelSelector"), "a=b,c");
        assert_eq!(query.all("dryRun"), ["All", "x"]);
        assert_eq!((query.flag("watch"), query.flag("none")), (Some(true), None));
        assert_eq!(query.number("limit").unwrap(), Some(5));
        assert_eq!(query.get("bad"), "");
        let error = Query::parse("limit=x").number("limit").unwrap_err().to_string();
        assert_eq!(error, "strconv.ParseInt: parsing \"x\": invalid syntax");
        let error = Query::parse("limit=").number("limit").unwrap_err().to_string();
        assert_eq!(error, "strconv.ParseInt: parsing \"\": invalid syntax");
        let error = Query::parse("limit=99999999999999999999").number("limit").unwrap_err().to_string();
        assert!(error.ends_with("value out of range"), "{error}");
    }

    #[test]
    fn a_selector_that_is_no_text_does_not_vanish() {
        assert_eq!(Query::parse("labelSelector=%ff").get("labelSelector"), "\u{fffd}");
        assert_eq!(Query::parse("limit=%+5&limit=%5").get("limit"), "");
    }

    #[test]
    fn what_is_encoded_is_read_back() {
        let text = "app in (a,b),x!=y&z=+%ä";
        assert_eq!(
            Query::parse(&format!("labelSelector={}", percent_encode(text))).get("labelSelector"),
            text
        );
    }
}
