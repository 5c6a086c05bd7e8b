//! JSON Web Tokens in compact form: `header.claims.signature`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use setpoint_api::{Time, Value, json};

use crate::keys::Algorithm;

/// Bytes of the longest token that is parsed. The header of a request is smaller.
pub const TOKEN_BYTES_MAX: usize = 128 << 10;

/// Parsed token. Nothing is verified.
#[derive(Clone, Debug)]
pub struct Jwt<'a> {
    /// Bytes that are signed.
    pub signed: &'a str,
    /// Signature.
    pub signature: Vec<u8>,
    /// Name of the algorithm, `alg`.
    pub algorithm: String,
    /// Id of the key, `kid`; empty if the header has none.
    pub key_id: String,
    /// Claims: an object.
    pub claims: Value,
}

impl<'a> Jwt<'a> {
    /// Parses a token; `None` if it is no JWT, or its header has extensions that change its meaning.
    #[must_use]
    pub fn parse(token: &'a str) -> Option<Jwt<'a>> {
        let (signed, signature) = token.rsplit_once('.').filter(|_| token.len() <= TOKEN_BYTES_MAX)?;
        let (header, claims) = signed.split_once('.').filter(|(_, claims)| !claims.contains('.'))?;
        let header = json::parse(&decode(header)?).ok().filter(|header| header.as_map().is_some())?;
        // Critical extensions, and payloads that are not encoded, are not supported.
        if header.get("crit").is_some() || header.get("b64").is_some() {
            return None;
        }
        Some(Jwt {
            signed,
            signature: decode(signature)?,
            algorithm: header.str_at(&["alg"]).to_owned(),
            key_id: header.str_at(&["kid"]).to_owned(),
            claims: parse_claims(claims)?,
        })
    }

    /// Algorithm of the signature; `None` if it is unknown or symmetric.
    #[must_use]
    pub fn signature_algorithm(&self) -> Option<Algorithm> {
        Algorithm::from_name(&self.algorithm)
    }
}

fn decode(part: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(part).ok()
}

fn parse_claims(part: &str) -> Option<Value> {
    json::parse(&decode(part)?).ok().filter(|claims| claims.as_map().is_some())
}

/// Issuer that a token claims, without verification: it only selects an authenticator. `None` if the token is no JWT.
#[must_use]
pub fn untrusted_issuer(token: &str) -> Option<String> {
    let mut parts = token.split('.');
    let (_, claims, _) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || token.len() > TOKEN_BYTES_MAX {
        return None;
    }
    Some(parse_claims(claims)?.str_at(&["iss"]).to_owned())
}

/// Time of a claim in seconds since 1970, which may have a fraction; `None` if the claim is absent or no number.
#[must_use]
pub fn time_claim(claims: &Value, name: &str) -> Option<Time> {
    match claims.get(name)? {
        Value::Int(seconds) => Some(Time::from_seconds(*seconds)),
        #[expect(clippy::cast_possible_truncation, reason = "a conversion of a float saturates")]
        Value::Float(seconds) => Some(Time::from_seconds(*seconds as i64)),
        _ => None,
    }
}

/// Audiences of a token: one string or a list; `None` if the claim is something else.
#[must_use]
pub fn audiences(claims: &Value) -> Option<Vec<String>> {
    match claims.get("aud") {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Str(one)) => Some(vec![one.to_string()]),
        Some(Value::List(list)) => list.iter().map(|one| one.as_str().map(str::to_owned)).collect(),
        Some(_) => None,
    }
}

/// Encodes the header and the claims of a token to be signed.
pub(crate) fn signing_input(header: &Value, claims: &Value) -> String {
    let encoded = |part: &Value| URL_SAFE_NO_PAD.encode(json::to_vec(part));
    format!("{}.{}", encoded(header), encoded(claims))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use setpoint_api::value;

    use super::*;

    fn token(header: &str, claims: &str) -> String {
        format!("{}.{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims), "c2ln")
    }

    #[test]
    fn token_is_parsed_into_its_parts() {
        let text = token(r#"{"alg":"ES256","kid":"k"}"#, r#"{"iss":"https://i","aud":"a","exp":5.5}"#);
        let jwt = Jwt::parse(&text).unwrap();
        assert_eq!((jwt.signature_algorithm(), jwt.key_id.as_str()), (Some(Algorithm::Es256), "k"));
        assert_eq!(jwt.signature, b"sig");
        assert_eq!(untrusted_issuer(&text).as_deref(), Some("https://i"));
        assert_eq!(audiences(&jwt.claims), Some(vec!["a".into()]));
        assert_eq!(time_claim(&jwt.claims, "exp"), Some(Time::from_seconds(5)));
        assert_eq!(time_claim(&jwt.claims, "nbf"), None);
        assert_eq!(audiences(&value!({"aud": ["a", 1]})), None);
    }

    #[test]
    fn tokens_with_critical_extensions_or_other_forms_are_rejected() {
        let claims = "{}";
        assert!(Jwt::parse(&token(r#"{"alg":"ES256"}"#, claims)).is_some());
        for header in [r#"{"alg":"ES256","crit":["x"]}"#, r#"{"alg":"ES256","b64":false}"#, "[]", "x"] {
            assert!(Jwt::parse(&token(header, claims)).is_none(), "{header}");
        }
        for other in
            ["", ".", "..", "a.b", "{}", "a.b.c.d", &token("{}", "[]"), &format!("{}.x", token("{}", "{}"))]
        {
            assert!(Jwt::parse(other).is_none(), "{other}");
            assert!(untrusted_issuer(other).is_none_or(|issuer| issuer.is_empty()), "{other}");
        }
    }

    proptest! {
        #[test]
        fn no_token_panics(token in "\\PC{0,200}", header in "\\PC{0,60}", claims in "\\PC{0,60}") {
            let _ = Jwt::parse(&token);
            let _ = untrusted_issuer(&token);
            let _ = Jwt::parse(&self::token(&header, &claims));
        }
    }
}
