//! The words after the question mark.

use setpoint_api::field_error::{ErrorList, FieldError, Path};

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
    pub fn number(&self, name: &'static str) -> Result<Option<i64>, ErrorList> {
        match self.get(name) {
            "" => Ok(None),
            text => text
                .parse()
                .map(Some)
                .map_err(|_| FieldError::invalid(&Path::root(name), text, "must be an integer").into()),
        }
    }
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        match first {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = &rest[2..];
            }
            byte => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_unescaped_and_repeated_ones_kept() {
        let query = Query::parse("labelSelector=a%3Db%2Cc&dryRun=All&dryRun=x&watch&limit=5&bad=%zz");
        assert_eq!(query.get("labelSelector"), "a=b,c");
        assert_eq!(query.all("dryRun"), ["All", "x"]);
        assert_eq!((query.flag("watch"), query.flag("none")), (Some(true), None));
        assert_eq!(query.number("limit").unwrap(), Some(5));
        assert_eq!(query.get("bad"), "");
        assert!(Query::parse("limit=x").number("limit").is_err());
    }
}
