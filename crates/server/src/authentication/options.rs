//! Options of authentication.

use std::path::PathBuf;
use std::time::Duration;

use setpoint_authentication::keys::Algorithm;
use setpoint_authentication::oidc::config::OidcFlags;
use setpoint_authentication::request_header::RequestHeaders;
use setpoint_authentication::token_review::ReviewVersion;

/// Issuer of service account tokens, and default audience.
pub const DEFAULT_ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// Issuer that the flags `--oidc-*` configure.
#[derive(Clone, Debug)]
pub struct OidcOptions {
    /// Issuer and mappings.
    pub flags: OidcFlags,
    /// Accepted algorithms of signatures.
    pub algorithms: Vec<Algorithm>,
    /// File with the CA certificates of the issuer.
    pub ca_file: Option<PathBuf>,
}

/// Webhook that reviews tokens.
#[derive(Clone, Debug)]
pub struct TokenWebhookOptions {
    /// Kubeconfig with the address and the credentials.
    pub config_file: PathBuf,
    /// Version of the TokenReviews.
    pub version: ReviewVersion,
    /// Time for which answers are cached.
    pub cache_ttl: Duration,
}

/// Options of authentication.
#[derive(Clone, Debug)]
pub struct AuthenticationOptions {
    /// Directory of the generated signing key; `None` to keep it in memory.
    pub key_dir: Option<PathBuf>,
    /// Issuers of service account tokens: the first signs, all are accepted. [`DEFAULT_ISSUER`] if empty.
    pub service_account_issuers: Vec<String>,
    /// Files with keys that verify service account tokens, in addition to the key that signs them.
    pub service_account_key_files: Vec<PathBuf>,
    /// File with the key that signs service account tokens; `None` for the generated key.
    pub service_account_signing_key_file: Option<PathBuf>,
    /// URL of the keys in the discovery document; that of this server if empty.
    pub service_account_jwks_uri: String,
    /// Maximum validity of service account tokens.
    pub token_expiration_max: Option<Duration>,
    /// `true` to extend the validity of tokens of projected volumes.
    pub extends_token_expiration: bool,
    /// Audiences of this server; the issuers if empty.
    pub api_audiences: Vec<String>,
    /// `true` to accept bootstrap tokens.
    pub allows_bootstrap_tokens: bool,
    /// Static token file.
    pub token_file: Option<PathBuf>,
    /// File with an AuthenticationConfiguration.
    pub configuration_file: Option<PathBuf>,
    /// External issuer, if there is no file.
    pub oidc: Option<OidcOptions>,
    /// `true` if requests without credentials are anonymous. `None` leaves it to the AuthenticationConfiguration, and
    /// forbids them without one.
    pub allows_anonymous: Option<bool>,
    /// Webhook that reviews tokens.
    pub webhook: Option<TokenWebhookOptions>,
    /// Headers of authenticating proxies.
    pub request_headers: Option<RequestHeaders>,
}

impl Default for AuthenticationOptions {
    fn default() -> AuthenticationOptions {
        AuthenticationOptions {
            key_dir: None,
            service_account_issuers: Vec::new(),
            service_account_key_files: Vec::new(),
            service_account_signing_key_file: None,
            service_account_jwks_uri: String::new(),
            token_expiration_max: None,
            extends_token_expiration: true,
            api_audiences: Vec::new(),
            allows_bootstrap_tokens: false,
            token_file: None,
            configuration_file: None,
            oidc: None,
            allows_anonymous: None,
            webhook: None,
            request_headers: None,
        }
    }
}

impl AuthenticationOptions {
    /// Issuers of service account tokens; at least one.
    #[must_use]
    pub fn issuers(&self) -> Vec<String> {
        if self.service_account_issuers.is_empty() {
            vec![DEFAULT_ISSUER.to_owned()]
        } else {
            self.service_account_issuers.clone()
        }
    }

    /// Audiences of this server.
    #[must_use]
    pub fn audiences(&self) -> Vec<String> {
        if self.api_audiences.is_empty() { self.issuers() } else { self.api_audiences.clone() }
    }
}
