//! Users that an authenticating proxy names in headers. The proxy proves itself with a client certificate.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName};
use setpoint_api::Identity;
use thiserror::Error;

/// Header that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("header {0} is not valid UTF-8")]
pub struct HeaderError(pub String);

/// Headers with the user of a request, and the proxies that may set them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestHeaders {
    /// Headers with the user name; the first that has a value counts.
    pub username: Vec<String>,
    /// Headers with the UID; the first that has a value counts.
    pub uid: Vec<String>,
    /// Headers with groups; all values count.
    pub group: Vec<String>,
    /// Prefixes of headers with extra fields.
    pub extra_prefixes: Vec<String>,
    /// Common names of the certificates of proxies; empty if every certificate of the CA is one.
    pub allowed_names: Vec<String>,
}

impl RequestHeaders {
    /// Headers that are removed from every request, because extension API servers trust them.
    #[must_use]
    pub fn standard() -> RequestHeaders {
        RequestHeaders {
            username: vec!["X-Remote-User".to_owned()],
            uid: vec!["X-Remote-Uid".to_owned()],
            group: vec!["X-Remote-Group".to_owned()],
            extra_prefixes: vec!["X-Remote-Extra-".to_owned()],
            allowed_names: Vec::new(),
        }
    }

    /// `true` if a certificate with this common name may name users.
    #[must_use]
    pub fn allows(&self, common_name: &str) -> bool {
        self.allowed_names.is_empty() || self.allowed_names.iter().any(|name| name == common_name)
    }

    /// Returns the user that the headers of a proxy name; `None` if they name none.
    ///
    /// # Errors
    /// If a header is not UTF-8.
    pub fn identity(&self, headers: &HeaderMap) -> Result<Option<Identity>, HeaderError> {
        let Some(user) = first(headers, &self.username)? else { return Ok(None) };
        let mut identity = Identity::new(user, Vec::new());
        identity.uid = first(headers, &self.uid)?.unwrap_or_default().to_owned();
        for name in &self.group {
            for value in headers.get_all(name) {
                let group = text(name, value)?;
                if !group.is_empty() {
                    identity.groups.push(group.to_owned());
                }
            }
        }
        for prefix in &self.extra_prefixes {
            add_extra(headers, prefix, &mut identity.extra)?;
        }
        Ok(Some(identity))
    }

    /// Removes these headers from a request.
    pub fn strip(&self, headers: &mut HeaderMap) {
        for name in self.username.iter().chain(&self.uid).chain(&self.group) {
            headers.remove(name);
        }
        for prefix in &self.extra_prefixes {
            strip_prefixed(headers, prefix);
        }
    }
}

fn first<'h>(headers: &'h HeaderMap, names: &[String]) -> Result<Option<&'h str>, HeaderError> {
    for name in names {
        // Only the first value counts, as with Go's `Get`.
        if let Some(value) = headers.get(name) {
            let value = text(name, value)?;
            if !value.is_empty() {
                return Ok(Some(value));
            }
        }
    }
    Ok(None)
}

pub(crate) fn text<'h>(name: &str, value: &'h http::HeaderValue) -> Result<&'h str, HeaderError> {
    std::str::from_utf8(value.as_bytes()).map_err(|_| HeaderError(name.to_owned()))
}

/// Adds the values of the headers with a prefix, by the rest of their names.
pub(crate) fn add_extra(
    headers: &HeaderMap,
    prefix: &str,
    extra: &mut BTreeMap<String, Vec<String>>,
) -> Result<(), HeaderError> {
    for name in headers.keys() {
        let Some(rest) = rest_of(name, prefix) else { continue };
        let values = extra.entry(unescape(rest)).or_default();
        for value in headers.get_all(name) {
            values.push(text(name.as_str(), value)?.to_owned());
        }
    }
    Ok(())
}

/// Rest of the name of a header with a prefix, in lower case.
pub(crate) fn rest_of<'n>(name: &'n HeaderName, prefix: &str) -> Option<&'n str> {
    let (start, rest) = name.as_str().split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// Removes the headers with a prefix.
pub(crate) fn strip_prefixed(headers: &mut HeaderMap, prefix: &str) {
    let names: Vec<HeaderName> =
        headers.keys().filter(|name| rest_of(name, prefix).is_some()).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

/// Decodes percent escapes; a text that is not escaped well is returned as it is.
pub(crate) fn unescape(text: &str) -> String {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        if *byte != b'%' {
            decoded.push(*byte);
            rest = after;
            continue;
        }
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let digits = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) else {
            return text.to_owned();
        };
        decoded.push(byte);
        rest = after.get(2..).unwrap_or_default();
    }
    String::from_utf8(decoded).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(
                HeaderName::try_from(*name).unwrap(),
                HeaderValue::from_bytes(value.as_bytes()).unwrap(),
            );
        }
        headers
    }

    #[test]
    fn proxy_headers_name_user_groups_uid_and_extra() {
        let mut sent = headers(&[
            ("x-remote-user", "änn"),
            ("x-remote-uid", "7"),
            ("x-remote-group", "a"),
            ("x-remote-group", ""),
            ("x-remote-group", "b"),
            ("x-remote-extra-acme.com%2fproject", "p"),
            ("x-remote-extra-acme.com%2fproject", "q"),
            ("x-remote-extra-bad%zz", "r"),
            ("accept", "x"),
        ]);
        let identity = RequestHeaders::standard().identity(&sent).unwrap().unwrap();
        assert_eq!((identity.user.as_str(), identity.uid.as_str()), ("änn", "7"));
        assert_eq!(identity.groups, ["a", "b"]);
        assert_eq!(identity.extra["acme.com/project"], ["p", "q"]);
        assert_eq!(identity.extra["bad%zz"], ["r"]);
        RequestHeaders::standard().strip(&mut sent);
        assert_eq!(sent, headers(&[("accept", "x")]));
    }

    #[test]
    fn proxy_without_user_names_nobody() {
        let none = headers(&[("x-remote-user", ""), ("x-remote-group", "system:masters")]);
        assert_eq!(RequestHeaders::standard().identity(&none), Ok(None));
        let restricted = RequestHeaders { allowed_names: vec!["proxy".into()], ..RequestHeaders::standard() };
        assert!(restricted.allows("proxy") && !restricted.allows("other"));
        assert!(RequestHeaders::standard().allows("other"));
    }

    proptest! {
        #[test]
        fn no_header_panics(value in proptest::collection::vec(32..=255u8, 0..30), rest in "[a-z0-9%.]{1,12}") {
            let mut headers = HeaderMap::new();
            let Ok(value) = HeaderValue::from_bytes(&value) else { return Ok(()) };
            headers.insert("x-remote-user", value.clone());
            headers.insert("x-remote-group", value.clone());
            headers.insert(HeaderName::try_from(format!("x-remote-extra-{rest}")).unwrap(), value);
            let _ = RequestHeaders::standard().identity(&headers);
            RequestHeaders::standard().strip(&mut headers);
            prop_assert!(headers.is_empty());
        }
    }
}
