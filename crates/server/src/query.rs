//! Query parameters of a request.

use std::num::IntErrorKind;

use setpoint_api::quote::Quoted;

/// Invalid number, with Go's error message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("strconv.ParseInt: parsing {}: {why}", Quoted(.text))]
pub struct NumberError {
    text: String,
    why: &'static str,
}

/// Query parameters, in the order sent.
#[derive(Clone, Debug, Default)]
pub struct QueryParams(Vec<(String, String)>);

impl QueryParams {
    /// Parses a query string. Malformed pairs are dropped, as upstream's parser does.
    #[must_use]
    pub fn parse(text: &str) -> QueryParams {
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

    /// First value of a parameter; empty if it is absent.
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// `true` if a parameter is present, with or without a value.
    #[must_use]
    pub(crate) fn is_present(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }

    /// All values of a parameter.
    #[must_use]
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect()
    }

    /// A boolean as upstream parses it: present and neither `false` nor `0`.
    #[must_use]
    pub fn flag(&self, name: &str) -> Option<bool> {
        let value = self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())?;
        Some(!matches!(value.to_ascii_lowercase().as_str(), "false" | "0"))
    }

    /// A whole number.
    ///
    /// # Errors
    /// If it is malformed.
    pub fn number(&self, name: &str) -> Result<Option<i64>, NumberError> {
        if !self.is_present(name) {
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

/// Decodes percent escapes; `None` if they are malformed. Bytes that are not UTF-8 are replaced: a selector must not
/// vanish, because then it would select everything.
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
        let query = QueryParams::parse("labelSelector=a%3Db%2Cc&dryRun=All&dryRun=x&watch&limit=5&bad=%zz");
        assert_eq!(query.get("labelSelector"), "a=b,c");
        assert_eq!(query.all("dryRun"), ["All", "x"]);
        assert_eq!((query.flag("watch"), query.flag("none")), (Some(true), None));
        assert_eq!(query.number("limit").unwrap(), Some(5));
        assert_eq!(query.get("bad"), "");
        let error = QueryParams::parse("limit=x").number("limit").unwrap_err().to_string();
        assert_eq!(error, "strconv.ParseInt: parsing \"x\": invalid syntax");
        let error = QueryParams::parse("limit=").number("limit").unwrap_err().to_string();
        assert_eq!(error, "strconv.ParseInt: parsing \"\": invalid syntax");
        let error = QueryParams::parse("limit=99999999999999999999").number("limit").unwrap_err().to_string();
        assert!(error.ends_with("value out of range"), "{error}");
    }

    #[test]
    fn selector_that_is_not_utf8_is_kept() {
        assert_eq!(QueryParams::parse("labelSelector=%ff").get("labelSelector"), "\u{fffd}");
        assert_eq!(QueryParams::parse("limit=%+5&limit=%5").get("limit"), "");
    }

    #[test]
    fn encoded_query_values_round_trip() {
        let text = "app in (a,b),x!=y&z=+%ä";
        assert_eq!(
            QueryParams::parse(&format!("labelSelector={}", percent_encode(text))).get("labelSelector"),
            text
        );
    }
}
