//! State that the files of the options configure: keys, issuers, the token file. Replaced as a whole when a file changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use setpoint_api::field_error::{FieldError, Path as FieldPath};
use setpoint_api::{Value, value};
use setpoint_authentication::anonymous::AnonymousAccess;
use setpoint_authentication::keys::{self, Algorithm, KeyError, SigningKey, VerifyingKey};
use setpoint_authentication::oidc::config::{AuthenticationConfiguration, JwtAuthenticator};
use setpoint_authentication::oidc::{self, JwtVerifier};
use setpoint_authentication::service_account::ServiceAccountVerifier;
use setpoint_authentication::token_cache::TokenHasher;
use setpoint_authentication::token_file::TokenFile;
use setpoint_pki::private_file;

use super::error::AuthenticationError;
use super::issuers::OidcIssuer;
use super::options::AuthenticationOptions;

/// File name of the generated signing key.
const KEY_FILE: &str = "service-account.key";

/// Contents of the files.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Sources {
    key_files: Vec<Vec<u8>>,
    signing_key: Option<Vec<u8>>,
    token_file: Option<Vec<u8>>,
    configuration: Option<Vec<u8>>,
    oidc_ca: Option<Vec<u8>>,
}

impl Sources {
    /// Reads all files.
    pub fn read(options: &AuthenticationOptions) -> Result<Sources, AuthenticationError> {
        let optional = |path: &Option<PathBuf>| path.as_deref().map(read).transpose();
        let oidc_ca = options.oidc.as_ref().and_then(|oidc| oidc.ca_file.clone());
        Ok(Sources {
            key_files: options
                .service_account_key_files
                .iter()
                .map(|path| read(path))
                .collect::<Result<_, _>>()?,
            signing_key: optional(&options.service_account_signing_key_file)?,
            token_file: optional(&options.token_file)?,
            configuration: optional(&options.configuration_file)?,
            oidc_ca: optional(&oidc_ca)?,
        })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, AuthenticationError> {
    std::fs::read(path).map_err(|source| AuthenticationError::Io { path: path.to_owned(), source })
}

/// Keys, issuers and tokens in use.
pub(crate) struct AuthenticationState {
    pub sources: Sources,
    /// Key that signs service account tokens.
    pub signing_key: Arc<SigningKey>,
    pub service_accounts: ServiceAccountVerifier,
    pub token_file: Option<TokenFile>,
    issuers: Vec<Arc<OidcIssuer>>,
    pub anonymous: AnonymousAccess,
    /// Anonymous section of the file, which must not change.
    configured_anonymous: Option<AnonymousAccess>,
}

impl AuthenticationState {
    /// Parses the files. Keys of issuers that have not changed since `previous` are kept.
    pub fn build(
        sources: Sources,
        options: &AuthenticationOptions,
        hasher: &TokenHasher,
        previous: Option<&AuthenticationState>,
    ) -> Result<AuthenticationState, AuthenticationError> {
        let signing_key = match (&sources.signing_key, &options.service_account_signing_key_file, previous) {
            (Some(text), Some(path), _) => Arc::new(
                keys::signing_key(text)
                    .map_err(|source| AuthenticationError::Key { path: path.clone(), source })?,
            ),
            (_, _, Some(previous)) => Arc::clone(&previous.signing_key),
            _ => Arc::new(generated_key(options.key_dir.as_deref())?),
        };
        let token_file = match (&sources.token_file, &options.token_file) {
            (Some(text), Some(path)) => Some(
                TokenFile::parse(text, hasher)
                    .map_err(|source| AuthenticationError::TokenFile { path: path.clone(), source })?,
            ),
            _ => None,
        };
        let skipped = token_file.iter().flat_map(|file| &file.skipped_records);
        for record in skipped {
            tracing::warn!(record, "empty token has been found in the token file");
        }
        let (configuration, algorithms) = configuration(&sources, options)?;
        let configured_anonymous = configuration.anonymous.clone();
        let mut errors = oidc::validate(&configuration, &options.issuers());
        if previous.is_some_and(|previous| previous.configured_anonymous != configured_anonymous) {
            let path = FieldPath::root("anonymous");
            errors.push(FieldError::forbidden(&path, "changed from initial configuration file"));
        }
        if configured_anonymous.is_some() && options.allows_anonymous.is_some() {
            let why = "--anonymous-auth flag cannot be set when anonymous field is configured in authentication \
                       configuration file";
            errors.push(FieldError::forbidden(&FieldPath::root("anonymous"), why));
        }
        if !errors.is_empty() {
            return Err(AuthenticationError::Invalid(errors));
        }
        let issuers = issuers(configuration, &algorithms, options, previous)?;
        let by_flag =
            AnonymousAccess { is_enabled: options.allows_anonymous == Some(true), paths: Vec::new() };
        Ok(AuthenticationState {
            service_accounts: ServiceAccountVerifier {
                issuers: options.issuers(),
                keys: verifying_keys(&signing_key, &sources, options)?,
                audiences: options.audiences(),
            },
            sources,
            signing_key,
            token_file,
            issuers,
            anonymous: configured_anonymous.clone().unwrap_or(by_flag),
            configured_anonymous,
        })
    }

    /// External issuer with a URL.
    pub fn issuer(&self, url: &str) -> Option<Arc<OidcIssuer>> {
        self.issuers.iter().find(|issuer| issuer.url() == url).cloned()
    }

    /// Keys that verify service account tokens, as a JSON Web Key Set.
    pub fn jwks(&self) -> Value {
        keys::jwks(&self.service_accounts.keys)
    }

    /// Discovery document of this server as an issuer; `None` if the issuer is no URL of the form that OpenID requires.
    pub fn openid_configuration(&self, options: &AuthenticationOptions, address: &str) -> Option<Value> {
        let issuer = self.service_accounts.issuers.first()?;
        let is_url = issuer.starts_with("https://") && !issuer.contains(['?', '#']);
        let jwks_uri = match options.service_account_jwks_uri.as_str() {
            "" => format!("https://{address}/openid/v1/jwks"),
            uri => uri.to_owned(),
        };
        let mut algorithms: Vec<Algorithm> =
            self.service_accounts.keys.iter().map(VerifyingKey::algorithm).collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        let algorithms: Vec<Value> = algorithms.iter().map(|algorithm| algorithm.name().into()).collect();
        is_url.then(|| {
            value!({
                "issuer": (issuer.as_str()),
                "jwks_uri": (jwks_uri),
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": (algorithms),
            })
        })
    }
}

/// Configuration of the file, or of the flags, and the accepted algorithms of its tokens.
fn configuration(
    sources: &Sources,
    options: &AuthenticationOptions,
) -> Result<(AuthenticationConfiguration, Vec<Algorithm>), AuthenticationError> {
    if let (Some(text), Some(path)) = (&sources.configuration, &options.configuration_file) {
        let decoded = oidc::decode(text)
            .map_err(|source| AuthenticationError::Decode { path: path.clone(), source })?;
        return Ok((decoded, Algorithm::ALL.to_vec()));
    }
    let Some(oidc) = &options.oidc else { return Ok(Default::default()) };
    let mut flags = oidc.flags.clone();
    if let Some(ca) = &sources.oidc_ca {
        flags.certificate_authority = String::from_utf8_lossy(ca).into_owned();
    }
    let configuration = AuthenticationConfiguration { jwt: vec![flags.authenticator()], anonymous: None };
    Ok((configuration, oidc.algorithms.clone()))
}

fn issuers(
    configuration: AuthenticationConfiguration,
    algorithms: &[Algorithm],
    options: &AuthenticationOptions,
    previous: Option<&AuthenticationState>,
) -> Result<Vec<Arc<OidcIssuer>>, AuthenticationError> {
    let known = previous.map_or(&[][..], |previous| &previous.issuers[..]);
    let build = |config: JwtAuthenticator| {
        if let Some(same) = known.iter().find(|issuer| *issuer.config() == config) {
            return Ok(Arc::clone(same));
        }
        let verifier = JwtVerifier::new(config, algorithms.to_vec(), &options.issuers());
        verifier.map(|verifier| Arc::new(OidcIssuer::new(verifier))).map_err(AuthenticationError::Invalid)
    };
    configuration.jwt.into_iter().map(build).collect()
}

/// Keys that verify service account tokens: the one that signs them, and those of the files.
fn verifying_keys(
    signing_key: &SigningKey,
    sources: &Sources,
    options: &AuthenticationOptions,
) -> Result<Vec<VerifyingKey>, AuthenticationError> {
    let mut found = vec![signing_key.public().clone()];
    for (text, path) in sources.key_files.iter().zip(&options.service_account_key_files) {
        let keys = keys::public_keys(text)
            .map_err(|source| AuthenticationError::Key { path: path.clone(), source })?;
        for key in keys {
            if !found.contains(&key) {
                found.push(key);
            }
        }
    }
    Ok(found)
}

/// Loads the generated signing key, or creates it.
fn generated_key(dir: Option<&Path>) -> Result<SigningKey, AuthenticationError> {
    let path = dir.map(|dir| dir.join(KEY_FILE)).unwrap_or_default();
    let damaged = |_: KeyError| AuthenticationError::Damaged { path: path.clone() };
    let failed = |source| AuthenticationError::Io { path: path.clone(), source };
    let existing = match dir.map(|_| std::fs::read(&path)) {
        Some(Ok(bytes)) => Some(bytes),
        Some(Err(error)) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => None,
    };
    if let Some(bytes) = existing {
        return SigningKey::from_der(&bytes).map_err(damaged);
    }
    let generated = SigningKey::generate_pkcs8().map_err(damaged)?;
    if let Some(dir) = dir {
        private_file::make_dir(dir).map_err(failed)?;
        private_file::write_all(&[(path.clone(), &generated)]).map_err(|(_, error)| failed(error))?;
    }
    SigningKey::from_der(&generated).map_err(damaged)
}
