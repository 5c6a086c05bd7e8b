//! Flags of one external issuer.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use setpoint_authentication::keys::Algorithm;
use setpoint_authentication::oidc::config::OidcFlags;
use setpoint_server::authentication::OidcOptions;

/// Flags of one external issuer. An AuthenticationConfiguration can have several.
#[derive(Clone, Debug, clap::Args)]
pub struct OidcArgs {
    /// URL of the OpenID issuer, which must use HTTPS
    #[arg(long, value_name = "URL")]
    oidc_issuer_url: Option<String>,
    /// Client ID of the OpenID Connect client, the audience of its tokens
    #[arg(long, value_name = "ID")]
    oidc_client_id: Option<String>,
    /// File with CA certificates of the OpenID server [default: those of the system]
    #[arg(long, value_name = "PATH")]
    oidc_ca_file: Option<PathBuf>,
    /// OpenID claim with the user name [default: sub]
    #[arg(long, value_name = "CLAIM")]
    oidc_username_claim: Option<String>,
    /// Prefix of user names (- for none) [default: the issuer URL and #, none for the claim email]
    #[arg(long, value_name = "PREFIX", allow_hyphen_values = true)]
    oidc_username_prefix: Option<String>,
    /// OpenID claim with groups: a string or an array of strings
    #[arg(long, value_name = "CLAIM")]
    oidc_groups_claim: Option<String>,
    /// Prefix of groups
    #[arg(long, value_name = "PREFIX")]
    oidc_groups_prefix: Option<String>,
    /// Accepted JOSE signing algorithms: RS256, RS384, RS512, ES256, ES384, ES512, PS256, PS384, PS512 [default: RS256]
    #[arg(long, value_name = "ALG[,ALG]", value_delimiter = ',')]
    oidc_signing_algs: Vec<String>,
    /// Claim that tokens must have with this value; may be repeated
    #[arg(long, value_name = "CLAIM=VALUE")]
    oidc_required_claim: Vec<String>,
}

impl OidcArgs {
    fn is_set(&self) -> bool {
        let texts = [
            &self.oidc_issuer_url,
            &self.oidc_client_id,
            &self.oidc_username_claim,
            &self.oidc_username_prefix,
            &self.oidc_groups_claim,
            &self.oidc_groups_prefix,
        ];
        texts.iter().any(|text| text.is_some())
            || self.oidc_ca_file.is_some()
            || !self.oidc_signing_algs.is_empty()
            || !self.oidc_required_claim.is_empty()
    }

    /// File with CA certificates of the issuer.
    pub fn ca_file(&self) -> &Option<PathBuf> {
        &self.oidc_ca_file
    }

    /// Returns the options of the issuer; `None` without flags. `has_file` if an AuthenticationConfiguration is set.
    pub fn options(&self, has_file: bool) -> anyhow::Result<Option<OidcOptions>> {
        if !self.is_set() {
            return Ok(None);
        }
        ensure!(!has_file, "authentication-config file and oidc-* flags are mutually exclusive");
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let (issuer_url, client_id) = (text(&self.oidc_issuer_url), text(&self.oidc_client_id));
        ensure!(
            !issuer_url.is_empty() && !client_id.is_empty(),
            "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set"
        );
        let algorithm = |name: &String| {
            Algorithm::from_name(name).with_context(|| format!("oidc: unsupported signing alg: {name:?}"))
        };
        let mut algorithms = self.oidc_signing_algs.iter().map(algorithm).collect::<Result<Vec<_>, _>>()?;
        if algorithms.is_empty() {
            algorithms.push(Algorithm::Rs256);
        }
        let required = |pair: &String| {
            let (claim, value) = pair.split_once('=').with_context(|| {
                format!("malformed pair, expect string=string: --oidc-required-claim {pair}")
            })?;
            anyhow::Ok((claim.trim().to_owned(), value.to_owned()))
        };
        let flags = OidcFlags {
            issuer_url,
            client_id,
            certificate_authority: String::new(),
            username_claim: self.oidc_username_claim.clone().unwrap_or_else(|| "sub".to_owned()),
            username_prefix: text(&self.oidc_username_prefix),
            groups_claim: text(&self.oidc_groups_claim),
            groups_prefix: text(&self.oidc_groups_prefix),
            required_claims: self.oidc_required_claim.iter().map(required).collect::<Result<_, _>>()?,
        };
        Ok(Some(OidcOptions { flags, algorithms, ca_file: self.oidc_ca_file.clone() }))
    }
}
