//! Tokens in Secrets of the type `kubernetes.io/service-account-token`, which do not expire.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use setpoint_api::{Identity, Time, Value, metadata, value};
use std::time::Duration;

use super::bound::check_times;
use super::{ServiceAccountError, deletion_time, look_up};
use crate::authenticated_token::{AuthenticatedToken, ObjectReader, TokenUse};
use crate::user::{service_account_groups, service_account_user, split_service_account};

/// Issuer of legacy tokens.
pub const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";
/// Label with the date of the last use of a token.
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
/// Label of tokens that the cleaner has invalidated.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
const CLAIM_PREFIX: &str = "kubernetes.io/serviceaccount/";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const AUTO_GENERATED: &str = "Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated secret-based tokens.";

/// Claims of the token in a Secret.
#[must_use]
pub fn legacy_claims(account: &Value, secret_name: &str) -> Value {
    let (namespace, name) = (metadata::namespace(account), metadata::name(account));
    value!({
        "iss": (LEGACY_ISSUER),
        "kubernetes.io/serviceaccount/namespace": (namespace),
        "kubernetes.io/serviceaccount/secret.name": (secret_name),
        "kubernetes.io/serviceaccount/service-account.name": (name),
        "kubernetes.io/serviceaccount/service-account.uid": (metadata::text(account, "uid")),
        "sub": (service_account_user(namespace, name)),
    })
}

/// Checks the claims, and that the Secret still has the token and the account still exists.
pub(super) fn validate(
    token: &str,
    claims: &Value,
    reader: &dyn ObjectReader,
    now: Time,
) -> Result<AuthenticatedToken, ServiceAccountError> {
    let failed = |why: &str| ServiceAccountError::Legacy(why.to_owned());
    let claim = |name: &str, missing: &str| {
        let text = claims.get(&format!("{CLAIM_PREFIX}{name}")).and_then(Value::as_str).unwrap_or_default();
        if text.is_empty() { Err(failed(&format!("{missing} claim is missing"))) } else { Ok(text) }
    };
    let subject = claims.str_at(&["sub"]);
    if subject.is_empty() {
        return Err(failed("sub claim is missing"));
    }
    let namespace = claim("namespace", "namespace")?;
    let secret_name = claim("secret.name", "secretName")?;
    let account_name = claim("service-account.name", "serviceAccountName")?;
    let account_uid = claim("service-account.uid", "serviceAccountUID")?;
    if split_service_account(subject) != Some((namespace, account_name)) {
        return Err(failed("sub claim is invalid"));
    }
    let mut verified = AuthenticatedToken::default();
    check_times(claims, now, &mut verified)?;
    let secret = look_up(&mut verified, reader, ("secrets", namespace, secret_name))
        .filter(|secret| deletion_time(secret).is_none())
        .ok_or_else(|| failed("Token has been invalidated"))?;
    let stored = STANDARD.decode(secret.str_at(&["data", "token"])).unwrap_or_default();
    if verify_slices_are_equal(&stored, token.as_bytes()).is_err() {
        return Err(failed("Token does not match server's copy"));
    }
    let account = look_up(&mut verified, reader, ("serviceaccounts", namespace, account_name))
        .ok_or_else(|| failed(&format!("serviceaccounts \"{account_name}\" not found")))?;
    if deletion_time(&account).is_some() {
        return Err(failed(&format!("ServiceAccount {namespace}/{account_name} has been deleted")));
    }
    let uid = metadata::text(&account, "uid");
    if uid != account_uid {
        return Err(failed(&format!("ServiceAccount UID ({uid}) does not match claim ({account_uid})")));
    }
    if metadata::entry(&secret, "labels", INVALID_SINCE).is_some_and(|since| !since.is_empty()) {
        return Err(failed(&format!(
            "the token in secret {namespace}/{secret_name} for service account {namespace}/{account_name} has been \
             marked invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, or remove \
             the '{INVALID_SINCE}' label from the secret to temporarily allow use of this token"
        )));
    }
    let references = account.get("secrets").and_then(Value::as_list).unwrap_or_default();
    let is_auto_generated = references.iter().any(|reference| reference.str_at(&["name"]) == secret_name);
    verified.warning = is_auto_generated.then_some(AUTO_GENERATED);
    record_use(&secret, now, &mut verified);
    let mut identity =
        Identity::new(service_account_user(namespace, account_name), service_account_groups(namespace));
    identity.uid = account_uid.to_owned();
    verified.identity = identity;
    Ok(verified)
}

/// Requests that the use is recorded once a day. A label of the next day is valid too, because clocks of servers
/// differ.
fn record_use(secret: &Value, now: Time, verified: &mut AuthenticatedToken) {
    let (today, tomorrow) = (date(now), date(now.after(DAY)));
    let last = metadata::entry(secret, "labels", LAST_USED).unwrap_or_default();
    if last != today && last != tomorrow {
        verified.unrecorded_use = Some(TokenUse {
            namespace: metadata::namespace(secret).to_owned(),
            name: metadata::name(secret).to_owned(),
            uid: metadata::text(secret, "uid").to_owned(),
            date: today,
        });
    }
    // The use of the next day has to be recorded too.
    verified.limit(Time(now.whole(DAY).after(DAY).0 - 1));
}

fn date(time: Time) -> String {
    let text = setpoint_api::rfc3339::Seconds(time).to_string();
    text.split('T').next().unwrap_or_default().to_owned()
}
