//! Flags of authentication, with kube-apiserver's names, and the files that they name.

mod oidc;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use setpoint_authentication::keys::certificates;
use setpoint_authentication::request_header::RequestHeaders;
use setpoint_authentication::token_review::ReviewVersion;
use setpoint_runtime::queries::QueryHandler;
use setpoint_server::authentication::{AuthenticationOptions, Authenticator, TokenWebhookOptions};
use setpoint_server::http::{ClientTrust, Tls};

use self::oidc::OidcArgs;
use super::certificate_files::CertificateFile;
use crate::commands::fleet::parse_duration;

/// Interval at which changed files are looked for. Upstream looks each minute and gets notified in between.
const RELOAD_INTERVAL: Duration = Duration::from_secs(10);
/// Bounds of the maximum validity of service account tokens. Upstream's values.
const TOKEN_EXPIRATION_BOUNDS: (Duration, Duration) =
    (Duration::from_secs(3600), Duration::from_secs(1 << 32));

/// Flags of authentication.
#[derive(Clone, Debug, clap::Args)]
pub struct AuthenticationArgs {
    /// File with an AuthenticationConfiguration for JWT authenticators and anonymous requests; it is read again when it
    /// changes
    #[arg(long, value_name = "PATH")]
    authentication_config: Option<PathBuf>,
    /// Identifiers of the API, one of which tokens must be for [default: the service account issuers]
    #[arg(long, value_name = "AUDIENCE[,AUDIENCE]", value_delimiter = ',')]
    api_audiences: Vec<String>,
    /// Enable requests without credentials, with the user system:anonymous and the group system:unauthenticated
    /// [default: only as the file of --authentication-config configures]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    anonymous_auth: Option<bool>,
    /// Enable tokens in Secrets of the type bootstrap.kubernetes.io/token in the namespace kube-system
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set)]
    enable_bootstrap_token_auth: bool,
    /// File with CA certificates of clients, in addition to the CA of the cluster
    #[arg(long, value_name = "PATH")]
    client_ca_file: Option<PathBuf>,
    /// CSV file with static tokens: token, user name, user UID, "group1,group2"
    #[arg(long, value_name = "PATH")]
    token_auth_file: Option<PathBuf>,
    #[command(flatten)]
    service_accounts: ServiceAccountArgs,
    #[command(flatten)]
    webhook: TokenWebhookArgs,
    #[command(flatten)]
    request_header: RequestHeaderArgs,
    #[command(flatten)]
    oidc: OidcArgs,
}

/// Flags of service account tokens.
#[derive(Clone, Debug, clap::Args)]
struct ServiceAccountArgs {
    /// Issuer of service account tokens; if repeated, the first signs and all are accepted [default:
    /// `https://kubernetes.default.svc.cluster.local`]
    #[arg(long, value_name = "ISSUER")]
    service_account_issuer: Vec<String>,
    /// File with PEM-encoded RSA or ECDSA keys that verify service account tokens, in addition to the key that signs
    /// them; may be repeated
    #[arg(long, value_name = "PATH")]
    service_account_key_file: Vec<PathBuf>,
    /// File with the PEM-encoded RSA or ECDSA private key that signs service account tokens [default: a generated key]
    #[arg(long, value_name = "PATH")]
    service_account_signing_key_file: Option<PathBuf>,
    /// URI of the JSON Web Key Set in the discovery document of the issuer [default: that of this server]
    #[arg(long, value_name = "URI", default_value = "")]
    service_account_jwks_uri: String,
    /// Maximum validity of service account tokens (0s for no maximum)
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_duration)]
    service_account_max_token_expiration: Duration,
    /// Extend the validity of tokens of projected volumes to one year, for clients that read them only once
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = true, action = clap::ArgAction::Set)]
    service_account_extend_token_expiration: bool,
}

/// Flags of the webhook that reviews tokens.
#[derive(Clone, Debug, clap::Args)]
struct TokenWebhookArgs {
    /// File in kubeconfig format with the webhook that reviews bearer tokens
    #[arg(long, value_name = "PATH")]
    authentication_token_webhook_config_file: Option<PathBuf>,
    /// API version of the TokenReviews that the webhook gets: v1 or v1beta1
    #[arg(long, value_name = "VERSION", default_value = "v1beta1")]
    authentication_token_webhook_version: String,
    /// Time for which answers of the webhook are cached
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = parse_duration)]
    authentication_token_webhook_cache_ttl: Duration,
}

/// Flags of authenticating proxies.
#[derive(Clone, Debug, clap::Args)]
struct RequestHeaderArgs {
    /// File with CA certificates of proxies, which may name users in the headers of --requestheader-username-headers
    #[arg(long, value_name = "PATH")]
    requestheader_client_ca_file: Option<PathBuf>,
    /// Common names of the certificates of proxies [default: all that the CA has signed]
    #[arg(long, value_name = "NAME[,NAME]", value_delimiter = ',')]
    requestheader_allowed_names: Vec<String>,
    /// Request headers with user names; X-Remote-User is common
    #[arg(long, value_name = "NAME[,NAME]", value_delimiter = ',')]
    requestheader_username_headers: Vec<String>,
    /// Request headers with UIDs; X-Remote-Uid is suggested
    #[arg(long, value_name = "NAME[,NAME]", value_delimiter = ',')]
    requestheader_uid_headers: Vec<String>,
    /// Request headers with groups; X-Remote-Group is suggested
    #[arg(long, value_name = "NAME[,NAME]", value_delimiter = ',')]
    requestheader_group_headers: Vec<String>,
    /// Prefixes of request headers with extra fields; X-Remote-Extra- is suggested
    #[arg(long, value_name = "PREFIX[,PREFIX]", value_delimiter = ',')]
    requestheader_extra_headers_prefix: Vec<String>,
}

impl AuthenticationArgs {
    /// Returns the options of authentication. The generated signing key is kept in `key_dir`.
    pub fn options(&self, key_dir: Option<PathBuf>) -> anyhow::Result<AuthenticationOptions> {
        let accounts = &self.service_accounts;
        accounts.validate()?;
        let oidc = self.oidc.options(self.authentication_config.is_some())?;
        let (max, webhook) = (accounts.service_account_max_token_expiration, &self.webhook);
        let version = ReviewVersion::from_name(&webhook.authentication_token_webhook_version)?;
        Ok(AuthenticationOptions {
            key_dir,
            service_account_issuers: accounts.service_account_issuer.clone(),
            service_account_key_files: accounts.service_account_key_file.clone(),
            service_account_signing_key_file: accounts.service_account_signing_key_file.clone(),
            service_account_jwks_uri: accounts.service_account_jwks_uri.clone(),
            token_expiration_max: Some(max).filter(|max| !max.is_zero()),
            extends_token_expiration: accounts.service_account_extend_token_expiration,
            api_audiences: self.api_audiences.clone(),
            allows_bootstrap_tokens: self.enable_bootstrap_token_auth,
            token_file: self.token_auth_file.clone(),
            configuration_file: self.authentication_config.clone(),
            oidc,
            allows_anonymous: self.anonymous_auth,
            webhook: webhook.authentication_token_webhook_config_file.as_ref().map(|file| {
                TokenWebhookOptions {
                    config_file: file.clone(),
                    version,
                    cache_ttl: webhook.authentication_token_webhook_cache_ttl,
                }
            }),
            request_headers: self.request_header.headers()?,
        })
    }

    /// Files with certificates.
    pub fn certificate_files(&self) -> Vec<CertificateFile> {
        let authorities =
            [&self.client_ca_file, &self.request_header.requestheader_client_ca_file, self.oidc.ca_file()];
        let webhook = &self.webhook.authentication_token_webhook_config_file;
        let authorities = authorities.into_iter().flatten().cloned().map(CertificateFile::Authorities);
        authorities.chain(webhook.iter().cloned().map(CertificateFile::Kubeconfig)).collect()
    }

    /// Reads the CA certificates of clients and proxies.
    pub fn trust(&self) -> anyhow::Result<ClientTrust> {
        let read = |path: &Option<PathBuf>| path.as_deref().map_or(Ok(Vec::new()), read_authorities);
        let header = &self.request_header;
        let trust = ClientTrust {
            client_ca: read(&self.client_ca_file)?,
            proxy_ca: read(&header.requestheader_client_ca_file)?,
        };
        if !trust.client_ca.is_empty()
            && !trust.proxy_ca.is_empty()
            && header.requestheader_allowed_names.is_empty()
        {
            let (clients, proxies) = (certificates(&trust.client_ca)?, certificates(&trust.proxy_ca)?);
            ensure!(
                !clients.iter().any(|one| proxies.contains(one)),
                "--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; \
                 --requestheader-allowed-names must be specified to ensure regular client certificates cannot set \
                 authenticating proxy headers for arbitrary users"
            );
        }
        Ok(trust)
    }
}

fn read_authorities(path: &Path) -> anyhow::Result<Vec<u8>> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    certificates(&text).with_context(|| path.display().to_string())?;
    Ok(text)
}

impl ServiceAccountArgs {
    fn validate(&self) -> anyhow::Result<()> {
        for (index, issuer) in self.service_account_issuer.iter().enumerate() {
            ensure!(!issuer.is_empty(), "service-account-issuer should not be an empty string");
            let earlier = self.service_account_issuer.iter().take(index);
            ensure!(
                !earlier.into_iter().any(|one| one == issuer),
                "service-account-issuer {issuer:?} is already specified"
            );
        }
        let uri = &self.service_account_jwks_uri;
        if !uri.is_empty() && !uri.starts_with("https://") {
            bail!("service-account-jwks-uri requires https scheme, parsed as: {uri}");
        }
        let max = self.service_account_max_token_expiration;
        let (low, high) = TOKEN_EXPIRATION_BOUNDS;
        if !max.is_zero() && !(low..=high).contains(&max) {
            bail!("the service-account-max-token-expiration must be between 1 hour and 2^32 seconds");
        }
        Ok(())
    }
}

impl RequestHeaderArgs {
    fn headers(&self) -> anyhow::Result<Option<RequestHeaders>> {
        let lists = [
            ("requestheader-username-headers", &self.requestheader_username_headers),
            ("requestheader-uid-headers", &self.requestheader_uid_headers),
            ("requestheader-group-headers", &self.requestheader_group_headers),
            ("requestheader-extra-headers-prefix", &self.requestheader_extra_headers_prefix),
            ("requestheader-allowed-names", &self.requestheader_allowed_names),
        ];
        for (flag, names) in lists {
            ensure!(names.iter().all(|name| !name.trim().is_empty()), "empty value in {flag:?}");
        }
        let is_standard = |name: &String| name.trim().eq_ignore_ascii_case("X-Remote-Uid");
        let uid = &self.requestheader_uid_headers;
        ensure!(
            uid.is_empty() || uid.iter().any(is_standard),
            "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header - API \
             aggregation will not work"
        );
        let trimmed = |names: &[String]| names.iter().map(|name| name.trim().to_owned()).collect();
        Ok(self.requestheader_client_ca_file.as_ref().map(|_| RequestHeaders {
            username: trimmed(&self.requestheader_username_headers),
            uid: trimmed(uid),
            group: trimmed(&self.requestheader_group_headers),
            extra_prefixes: trimmed(&self.requestheader_extra_headers_prefix),
            allowed_names: self.requestheader_allowed_names.clone(),
        }))
    }
}

/// Reads the files of authentication again whenever they have changed.
pub struct FileReloader {
    /// The authenticators.
    pub authenticator: Arc<Authenticator>,
    /// TLS configuration of the server.
    pub tls: Arc<Tls>,
    /// Handler of queries, which publishes the CA certificates.
    pub queries: Arc<QueryHandler>,
    /// Flags with the files of CA certificates.
    pub args: AuthenticationArgs,
    /// CA certificates in use.
    pub in_use: ClientTrust,
}

impl FileReloader {
    /// Looks for changes until it is dropped. Never returns.
    #[expect(clippy::disallowed_methods, reason = "files change in real time")]
    pub async fn run(mut self) {
        loop {
            tokio::time::sleep(RELOAD_INTERVAL).await;
            self.reload();
        }
    }

    /// Reads all files once. What cannot be read stays as it was.
    pub fn reload(&mut self) {
        match self.authenticator.reload() {
            Ok(true) => tracing::info!("authentication reloaded"),
            Ok(false) => {}
            Err(error) => tracing::error!(%error, "authentication was not reloaded"),
        }
        let replaced = self.args.trust().and_then(|trust| {
            let is_changed = trust != self.in_use;
            if is_changed {
                self.tls.set_trust(trust.clone())?;
                self.queries.set_client_ca(&trust.client_ca);
                self.in_use = trust;
            }
            Ok(is_changed)
        });
        match replaced {
            Ok(true) => tracing::info!("CA certificates of clients reloaded"),
            Ok(false) => {}
            Err(error) => {
                tracing::error!(error = %format!("{error:#}"), "CA certificates of clients were not reloaded");
            }
        }
    }
}

#[cfg(test)]
mod tests;
