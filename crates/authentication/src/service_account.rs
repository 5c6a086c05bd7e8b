//! Service account tokens.
//!
//! A token is valid while its signature and audience match, it has not expired, and its ServiceAccount and the object
//! that it is bound to exist with the UIDs of the claims: deleting a pod revokes its tokens.

mod bound;
mod claims;
mod legacy;

use setpoint_api::{Time, Value, metadata, rfc3339};
use thiserror::Error;

use crate::authenticated_token::{AuthenticatedToken, ObjectReader, TokenObject, intersect};
use crate::jwt::{self, Jwt};
use crate::keys::VerifyingKey;

pub use claims::{TokenGrant, WARN_ONLY_SECONDS, bound_claims};
pub use legacy::{LEGACY_ISSUER, legacy_claims};

/// Tolerated clock difference, and time for which an object counts as existing after its deletion was due. Upstream's
/// value.
pub const LEEWAY: std::time::Duration = std::time::Duration::from_secs(60);

/// Rejected token, with upstream's texts.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ServiceAccountError {
    /// No key has the id.
    #[error("invalid signature, no keys found")]
    NoKey,
    /// The signature does not match.
    #[error("go-jose/go-jose: error in cryptographic primitive")]
    Signature,
    /// The audiences claim is malformed.
    #[error("go-jose/go-jose/jwt: expected string or array value to unmarshal to Audience")]
    AudienceForm,
    /// For other audiences.
    #[error("token audiences {0} is invalid for the target audiences {1}")]
    Audience(String, String),
    /// Expired.
    #[error("service account token has expired")]
    Expired,
    /// Not valid yet.
    #[error("service account token is not valid yet")]
    NotYetValid,
    /// Issued in the future.
    #[error("service account token is issued in the future")]
    IssuedInFuture,
    /// The account or the bound object does not exist any more, or is another one.
    #[error("{0}")]
    Revoked(String),
    /// A legacy token lacks a claim, or was changed or invalidated.
    #[error("{0}")]
    Legacy(String),
}

/// Verifier of service account tokens.
#[derive(Debug)]
pub struct ServiceAccountVerifier {
    /// Accepted issuers.
    pub issuers: Vec<String>,
    /// Keys of valid signatures.
    pub keys: Vec<VerifyingKey>,
    /// Audiences of the API server, which tokens without audiences have.
    pub audiences: Vec<String>,
}

impl ServiceAccountVerifier {
    /// Verifies a token for one of the requested audiences; `None` if it is no token of these issuers.
    ///
    /// # Errors
    /// If it is invalid.
    pub fn authenticate(
        &self,
        token: &str,
        requested: &[String],
        reader: &dyn ObjectReader,
        now: Time,
    ) -> Result<Option<AuthenticatedToken>, ServiceAccountError> {
        let Some(issuer) = jwt::untrusted_issuer(token) else { return Ok(None) };
        let is_legacy = issuer == LEGACY_ISSUER;
        if !is_legacy && !self.issuers.contains(&issuer) {
            return Ok(None);
        }
        let Some(jwt) = Jwt::parse(token) else { return Ok(None) };
        self.check_signature(&jwt)?;
        let mut audiences = jwt::audiences(&jwt.claims).ok_or(ServiceAccountError::AudienceForm)?;
        if audiences.is_empty() {
            audiences.clone_from(&self.audiences);
        }
        let matching = intersect(&audiences, requested);
        if matching.is_empty() && !self.audiences.is_empty() {
            return Err(ServiceAccountError::Audience(quoted(&audiences), quoted(requested)));
        }
        let mut verified = if is_legacy {
            legacy::validate(token, &jwt.claims, reader, now)?
        } else {
            bound::validate(&jwt.claims, reader, now)?
        };
        verified.audiences = matching;
        Ok(Some(verified))
    }

    fn check_signature(&self, jwt: &Jwt<'_>) -> Result<(), ServiceAccountError> {
        let has_id = |key: &&VerifyingKey| jwt.key_id.is_empty() || key.id() == jwt.key_id;
        let mut keys = self.keys.iter().filter(has_id).peekable();
        if keys.peek().is_none() {
            return Err(ServiceAccountError::NoKey);
        }
        let algorithm = jwt.signature_algorithm().ok_or(ServiceAccountError::Signature)?;
        let is_signed = |key: &VerifyingKey| {
            key.algorithm() == algorithm && key.verifies(algorithm, jwt.signed.as_bytes(), &jwt.signature)
        };
        if keys.any(is_signed) { Ok(()) } else { Err(ServiceAccountError::Signature) }
    }
}

/// List of texts as Go prints it with `%q`.
pub(crate) fn quoted(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| setpoint_api::quote::Quoted(text).to_string()).collect();
    format!("[{}]", texts.join(" "))
}

/// Looks an object up, and records that the token depends on it.
fn look_up(
    verified: &mut AuthenticatedToken,
    reader: &dyn ObjectReader,
    (resource, namespace, name): (&'static str, &str, &str),
) -> Option<Value> {
    verified.objects.push(TokenObject { resource, namespace: namespace.to_owned(), name: name.to_owned() });
    reader.object(resource, namespace, name)
}

/// Time at which the deletion of an object is due; `None` if it is not deleted.
fn deletion_time(object: &Value) -> Option<Time> {
    metadata::deletion_timestamp(object).map(|text| rfc3339::parse(text).unwrap_or(Time::EPOCH))
}

#[cfg(test)]
mod tests;
