//! Verification of ID tokens, with the texts of the library that upstream uses.

use std::time::Duration;

use setpoint_api::quote::Quoted;
use setpoint_api::rfc3339::Seconds;
use setpoint_api::{Time, Value};

use super::config::Issuer;
use super::{GOOGLE, OidcError};
use crate::jwt::{self, Jwt, time_claim};
use crate::keys::{Algorithm, VerifyingKey};
use crate::service_account::quoted;

/// Tolerated clock difference before the validity begins.
const LEEWAY: Duration = Duration::from_secs(60);

fn failed(why: impl std::fmt::Display) -> OidcError {
    OidcError::new(format!("verify token: {why}"))
}

/// Parses a token that is signed with one of these algorithms.
pub(super) fn parse<'t>(token: &'t str, algorithms: &[Algorithm]) -> Result<Jwt<'t>, OidcError> {
    let jwt = Jwt::parse(token).ok_or_else(|| failed("oidc: malformed jwt"))?;
    if jwt.signature_algorithm().is_none_or(|algorithm| !algorithms.contains(&algorithm)) {
        let names: Vec<String> = algorithms.iter().map(|algorithm| algorithm.name().to_owned()).collect();
        let (expected, found) = (quoted(&names), Quoted(&jwt.algorithm));
        let why =
            format!("oidc: id token signed with unsupported algorithm, expected {expected} got {found}");
        return Err(failed(why));
    }
    Ok(jwt)
}

/// `true` if one of the keys with the id of the token verifies it; any key if the token names none.
pub(super) fn has_valid_signature(jwt: &Jwt<'_>, keys: &[VerifyingKey]) -> bool {
    let Some(algorithm) = jwt.signature_algorithm() else { return false };
    let has_id = |key: &&VerifyingKey| jwt.key_id.is_empty() || key.id() == jwt.key_id;
    keys.iter().filter(has_id).any(|key| key.verifies(algorithm, jwt.signed.as_bytes(), &jwt.signature))
}

/// Checks issuer, audience and validity period. Returns the end of the validity.
pub(super) fn check_claims(claims: &Value, issuer: &Issuer, now: Time) -> Result<Time, OidcError> {
    let found = claims.str_at(&["iss"]);
    if found != issuer.url && (issuer.url.as_str(), found) != GOOGLE {
        let (expected, found) = (Quoted(&issuer.url), Quoted(found));
        let why = format!("oidc: id token issued by a different provider, expected {expected} got {found}");
        return Err(failed(why));
    }
    let audiences = jwt::audiences(claims).ok_or_else(|| {
        failed("oidc: failed to unmarshal claims: the audience is not a string or a list of strings")
    })?;
    let is_accepted = issuer.audiences.iter().any(|audience| audiences.contains(audience));
    match &issuer.audiences[..] {
        _ if is_accepted => {}
        [only] => {
            let why = format!("oidc: expected audience {} got {}", Quoted(only), quoted(&audiences));
            return Err(failed(why));
        }
        several => {
            let mut several = several.to_vec();
            several.sort_unstable();
            let why = format!("oidc: expected audience in {} got {}", quoted(&several), quoted(&audiences));
            return Err(failed(why));
        }
    }
    let expires = time_claim(claims, "exp");
    let Some(expires) = expires.filter(|expires| *expires >= now) else {
        let shown = expires.map_or_else(|| "0001-01-01 00:00:00 +0000 UTC".to_owned(), go_time);
        return Err(failed(format!("oidc: token is expired (Token Expiry: {shown})")));
    };
    if let Some(begins) = time_claim(claims, "nbf")
        && now.after(LEEWAY) < begins
    {
        let (now, begins) = (go_time(now), go_time(begins));
        return Err(failed(format!("oidc: current time {now} before the nbf (not before) time: {begins}")));
    }
    Ok(expires)
}

/// Time as Go prints it, in whole seconds.
fn go_time(time: Time) -> String {
    let text = Seconds(time).to_string();
    let (date, clock) = text.trim_end_matches('Z').split_once('T').unwrap_or_default();
    format!("{date} {clock} +0000 UTC")
}
