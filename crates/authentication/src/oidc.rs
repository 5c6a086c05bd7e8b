//! Tokens of external issuers (OpenID Connect), configured by an AuthenticationConfiguration.
//!
//! A [`JwtVerifier`] checks a token with the keys of its issuer, which a shell fetches and [`provider`] parses, and
//! maps its claims to a user. Texts of errors are upstream's.

pub mod config;
mod decode;
mod expressions;
mod id_token;
mod mapping;
pub mod provider;
mod validate;

use setpoint_api::Time;
use setpoint_api::field_error::{ErrorList, Path};
use thiserror::Error;

pub use decode::{ConfigurationError, decode};
pub use validate::validate;

use crate::authenticated_token::AuthenticatedToken;
use crate::jwt::{Jwt, untrusted_issuer};
use crate::keys::{Algorithm, VerifyingKey};
use config::JwtAuthenticator;
use mapping::ClaimMapper;

/// Issuer of Google, whose tokens lack the scheme.
const GOOGLE: (&str, &str) = ("https://accounts.google.com", "accounts.google.com");

/// Rejected token.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct OidcError(String);

impl OidcError {
    fn new(text: impl std::fmt::Display) -> OidcError {
        OidcError(format!("oidc: {text}"))
    }
}

/// Issuer that a token claims; `None` if it is no JWT.
#[must_use]
pub fn token_issuer(token: &str) -> Option<String> {
    let issuer = untrusted_issuer(token)?;
    Some(if issuer == GOOGLE.1 { GOOGLE.0.to_owned() } else { issuer })
}

/// Verifier of the tokens of one issuer.
#[derive(Debug)]
pub struct JwtVerifier {
    config: JwtAuthenticator,
    algorithms: Vec<Algorithm>,
    mapper: ClaimMapper,
}

impl JwtVerifier {
    /// Compiles the expressions of an authenticator, whose tokens are signed with one of these algorithms.
    ///
    /// # Errors
    /// If the authenticator is invalid.
    pub fn new(
        config: JwtAuthenticator,
        algorithms: Vec<Algorithm>,
        disallowed_issuers: &[String],
    ) -> Result<JwtVerifier, ErrorList> {
        let mut errors = ErrorList::new();
        let mapper = validate::check_authenticator(&config, &Path::NONE, disallowed_issuers, &mut errors);
        if errors.is_empty() { Ok(JwtVerifier { config, algorithms, mapper }) } else { Err(errors) }
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &JwtAuthenticator {
        &self.config
    }

    /// Parses a token of this issuer.
    ///
    /// # Errors
    /// If it is malformed, or signed with an algorithm that is not accepted.
    pub fn parse<'t>(&self, token: &'t str) -> Result<Jwt<'t>, OidcError> {
        id_token::parse(token, &self.algorithms)
    }

    /// `true` if one of the keys verifies the signature.
    #[must_use]
    pub fn has_valid_signature(&self, jwt: &Jwt<'_>, keys: &[VerifyingKey]) -> bool {
        id_token::has_valid_signature(jwt, keys)
    }

    /// Error of a token whose signature no key verifies.
    #[must_use]
    pub fn signature_error(&self, why: &str) -> OidcError {
        OidcError::new(format!("verify token: failed to verify signature: {why}"))
    }

    /// Checks the claims of a token whose signature is valid, and maps them to a user.
    ///
    /// # Errors
    /// If a claim or a rule rejects it.
    pub fn authenticate(&self, jwt: &Jwt<'_>, now: Time) -> Result<AuthenticatedToken, OidcError> {
        let expires = id_token::check_claims(&jwt.claims, &self.config.issuer, now)?;
        let identity = self.mapper.identity(&self.config, &jwt.claims)?;
        Ok(AuthenticatedToken { identity, valid_until: Some(expires), ..AuthenticatedToken::default() })
    }
}

#[cfg(test)]
mod tests;
