//! Bearer tokens in the headers of a request.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{AUTHORIZATION, CONNECTION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue};

/// Authentication scheme of tokens.
const SCHEME: &str = "bearer";
/// Prefix of the WebSocket subprotocol by which browsers, which cannot set headers, send a token.
const SUBPROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// Bearer token of a request: in the first `Authorization` header, whose scheme is case-insensitive, or, if that has
/// none, in a WebSocket subprotocol beside at least one other subprotocol. `None` for requests without a token.
///
/// As upstream, only the text between the first two spaces counts, so a token after two spaces is empty.
#[must_use]
pub(crate) fn bearer_token(headers: &HeaderMap) -> Option<Cow<'_, str>> {
    let authorization =
        headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).map(str::trim).unwrap_or_default();
    let mut parts = authorization.split(' ');
    if parts.next().is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME))
        && let Some(token) = parts.next().filter(|token| !token.is_empty())
    {
        return Some(Cow::Borrowed(token));
    }
    subprotocol_token(headers).map(Cow::Owned)
}

fn subprotocol_token(headers: &HeaderMap) -> Option<String> {
    let is_listed = |name: HeaderName, token: &str| {
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(token))
    };
    if !(is_listed(CONNECTION, "upgrade") && is_listed(UPGRADE, "websocket")) {
        return None;
    }
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).into_iter().filter_map(|value| value.to_str().ok());
    let protocols = values.flat_map(|value| value.split(',')).map(str::trim);
    let (tokens, others): (Vec<&str>, Vec<&str>) = protocols.partition(|name| name.starts_with(SUBPROTOCOL));
    let [token] = tokens[..] else { return None };
    let token = URL_SAFE_NO_PAD.decode(token.strip_prefix(SUBPROTOCOL)?).ok()?;
    String::from_utf8(token).ok().filter(|token| !token.is_empty() && !others.is_empty())
}

/// Removes the token from the WebSocket subprotocols of a request.
pub(crate) fn strip_subprotocol_token(headers: &mut HeaderMap) {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).into_iter().filter_map(|value| value.to_str().ok());
    let protocols: Vec<&str> = values.flat_map(|value| value.split(',')).map(str::trim).collect();
    if !protocols.iter().any(|name| name.starts_with(SUBPROTOCOL)) {
        return;
    }
    let others: Vec<&str> = protocols.into_iter().filter(|name| !name.starts_with(SUBPROTOCOL)).collect();
    let kept = HeaderValue::try_from(others.join(", "));
    headers.remove(SEC_WEBSOCKET_PROTOCOL);
    if let Ok(kept) = kept
        && !kept.is_empty()
    {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(pairs: &[(&str, &str)]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        bearer_token(&headers).map(Cow::into_owned)
    }

    #[test]
    fn bearer_scheme_is_case_insensitive() {
        for sent in ["Bearer abc", "bearer abc", "BEARER abc", "  bEaReR abc  ", "Bearer abc def"] {
            assert_eq!(token(&[("authorization", sent)]).as_deref(), Some("abc"), "{sent:?}");
        }
        for sent in ["", "Bearer", "Bearer ", "Bearer  abc", "Bearerabc", "Basic abc", "abc", "Bearer\tabc"] {
            assert_eq!(token(&[("authorization", sent)]), None, "{sent:?}");
        }
        assert_eq!(token(&[]), None);
        let two = [("authorization", "Bearer first"), ("authorization", "Bearer second")];
        assert_eq!(token(&two).as_deref(), Some("first"));
    }

    #[test]
    fn websocket_request_can_send_its_token_as_a_subprotocol() {
        let encoded = format!("{SUBPROTOCOL}{}", URL_SAFE_NO_PAD.encode("abc"));
        let ask = |connection: &str, protocols: &[&str]| {
            let mut pairs = vec![("connection", connection), ("upgrade", "WebSocket")];
            pairs.extend(protocols.iter().map(|protocol| ("sec-websocket-protocol", *protocol)));
            token(&pairs)
        };
        let both = format!("v5.channel.k8s.io, {encoded}");
        assert_eq!(ask("keep-alive, Upgrade", &[&both]).as_deref(), Some("abc"));
        assert_eq!(ask("Upgrade", &[&encoded, "v5.channel.k8s.io"]).as_deref(), Some("abc"));
        assert_eq!(ask("Upgrade", &[&encoded]), None, "no other subprotocol to answer with");
        assert_eq!(ask("Upgrade", &[&both, &encoded]), None, "two tokens");
        assert_eq!(ask("close", &[&both]), None, "not a WebSocket request");
        assert_eq!(ask("Upgrade", &["v5", &format!("{SUBPROTOCOL}%%")]), None);
        assert_eq!(ask("Upgrade", &["v5", SUBPROTOCOL]), None);
    }
}
