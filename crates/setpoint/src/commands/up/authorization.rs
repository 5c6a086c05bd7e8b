//! Flags of authorization.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use setpoint_authorization::config::{self, AuthorizationConfiguration, AuthorizerType, ReviewVersion};
use setpoint_server::api::Api;

use super::certificate_files::CertificateFile;
use crate::commands::fleet::parse_duration;

/// Authorizers of the server.
#[derive(Debug, clap::Args)]
pub struct AuthorizationArgs {
    /// Ordered list of authorizers: AlwaysAllow, AlwaysDeny, Node, RBAC, Webhook [default: Node,RBAC]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    authorization_mode: Option<Vec<String>>,
    /// File with an AuthorizationConfiguration, in place of the other authorization flags
    #[arg(long, value_name = "PATH")]
    authorization_config: Option<PathBuf>,
    /// Kubeconfig of the service of the authorizer Webhook
    #[arg(long, value_name = "PATH")]
    authorization_webhook_config_file: Option<String>,
    /// Version of the SubjectAccessReviews for the service: v1 or v1beta1 [default: v1beta1]
    #[arg(long, value_name = "VERSION", value_parser = parse_version)]
    authorization_webhook_version: Option<ReviewVersion>,
    /// Duration to cache requests that the service allows [default: 5m]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    authorization_webhook_cache_authorized_ttl: Option<Duration>,
    /// Duration to cache requests that the service does not allow [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    authorization_webhook_cache_unauthorized_ttl: Option<Duration>,
}

/// Interval at which a configuration file is read again, upstream's.
const RELOAD_INTERVAL: Duration = Duration::from_secs(60);
/// Authorizers without flags.
const DEFAULT_MODES: [&str; 2] = ["Node", "RBAC"];
/// Default time for which allowed requests are cached.
const AUTHORIZED_TTL: Duration = Duration::from_secs(5 * 60);
/// Default time for which other requests are cached.
const UNAUTHORIZED_TTL: Duration = Duration::from_secs(30);

fn parse_version(text: &str) -> anyhow::Result<ReviewVersion> {
    match text {
        "v1" => Ok(ReviewVersion::V1),
        "v1beta1" => Ok(ReviewVersion::V1Beta1),
        other => bail!(
            "unsupported webhook authorizer version {other:?}, supported versions are \"v1\", \"v1beta1\""
        ),
    }
}

impl AuthorizationArgs {
    /// Returns the configured authorizers.
    pub fn configuration(&self) -> anyhow::Result<AuthorizationConfiguration> {
        if let Some(path) = &self.authorization_config {
            let has_others = self.authorization_mode.is_some()
                || self.authorization_webhook_config_file.is_some()
                || self.authorization_webhook_version.is_some()
                || self.authorization_webhook_cache_authorized_ttl.is_some()
                || self.authorization_webhook_cache_unauthorized_ttl.is_some();
            if has_others {
                bail!(
                    "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* \
                     flags are defined"
                );
            }
            return read(path).map(|(read, _)| read);
        }
        let default = || DEFAULT_MODES.map(str::to_owned).to_vec();
        let modes = self.authorization_mode.clone().unwrap_or_else(default);
        let file = self.authorization_webhook_config_file.as_deref();
        let version = self.authorization_webhook_version.unwrap_or(ReviewVersion::V1Beta1);
        let ttls = (
            self.authorization_webhook_cache_authorized_ttl.unwrap_or(AUTHORIZED_TTL),
            self.authorization_webhook_cache_unauthorized_ttl.unwrap_or(UNAUTHORIZED_TTL),
        );
        Ok(config::modes(&modes, file, version, ttls)?)
    }
}

/// Files with certificates: the kubeconfigs of webhooks.
pub fn certificate_files(configuration: &AuthorizationConfiguration) -> Vec<CertificateFile> {
    let types = configuration.authorizers.iter().map(|one| &one.authorizer);
    let kubeconfig = |authorizer: &AuthorizerType| match authorizer {
        AuthorizerType::Webhook(webhook) => {
            Some(CertificateFile::Kubeconfig(PathBuf::from(&*webhook.kubeconfig)))
        }
        _ => None,
    };
    types.filter_map(kubeconfig).collect()
}

/// Reads a configuration file. Returns its text too.
fn read(path: &Path) -> anyhow::Result<(AuthorizationConfiguration, Vec<u8>)> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let read = config::read(&text, &check_file).with_context(|| path.display().to_string())?;
    Ok((read, text))
}

/// A configuration file that is followed while the server runs.
pub struct ConfigurationFile {
    path: PathBuf,
    text: Vec<u8>,
    /// Types other than Webhook, which must stay.
    required: Vec<&'static str>,
}

impl ConfigurationFile {
    /// Returns the file of the flags, as it is now; `None` if there is none.
    pub fn of(args: &AuthorizationArgs) -> anyhow::Result<Option<ConfigurationFile>> {
        let Some(path) = &args.authorization_config else { return Ok(None) };
        let (config, text) = read(path)?;
        Ok(Some(ConfigurationFile { path: path.clone(), text, required: built_in_types(&config) }))
    }

    /// Applies changes of the file. A file that is not usable is reported, and the authorizers stay.
    #[expect(clippy::disallowed_methods, reason = "the file is read in real time")]
    pub async fn follow(mut self, api: Arc<Api>) {
        loop {
            tokio::time::sleep(RELOAD_INTERVAL).await;
            let applied = self.reload().and_then(|changed| match changed {
                Some(config) => Ok(api.set_authorizers(config).map(|()| true)?),
                None => Ok(false),
            });
            match applied {
                Ok(true) => tracing::info!("reloaded the authorization config"),
                Ok(false) => {}
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::error!(error, "cannot reload the authorization config, keeping the old one");
                }
            }
        }
    }

    /// Returns the configuration if the file has changed. A change is reported once, be it usable or not.
    fn reload(&mut self) -> anyhow::Result<Option<AuthorizationConfiguration>> {
        let text =
            std::fs::read(&self.path).with_context(|| format!("cannot read {}", self.path.display()))?;
        if text == self.text {
            return Ok(None);
        }
        let parsed = config::read(&text, &check_file);
        self.text = text;
        let config = parsed.with_context(|| self.path.display().to_string())?;
        let types = built_in_types(&config);
        let missing: Vec<&str> = self.required.iter().copied().filter(|one| !types.contains(one)).collect();
        if !missing.is_empty() {
            bail!("missing required types: [{}]", missing.join(" "));
        }
        if let Some(new) =
            types.iter().find(|one| matches!(**one, "Node" | "RBAC") && !self.required.contains(*one))
        {
            bail!("authorizer type {new} is not allowed if it was not enabled at initial server startup");
        }
        Ok(Some(config))
    }
}

/// Types of the authorizers other than webhooks, sorted.
fn built_in_types(config: &AuthorizationConfiguration) -> Vec<&'static str> {
    let types = config.authorizers.iter().map(|one| one.authorizer.name());
    let mut types: Vec<&str> = types.filter(|name| *name != "Webhook").collect();
    types.sort_unstable();
    types
}

/// Checks a kubeconfig that a configuration names. The texts are upstream's.
fn check_file(path: &str) -> Result<(), String> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() => Ok(()),
        Ok(_) => Err("must be a regular file".to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(format!("error loading file: stat {path}: no such file or directory"))
        }
        Err(error) => Err(format!("error loading file: stat {path}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        authorization: AuthorizationArgs,
    }

    fn names(args: &[&str]) -> Result<String, String> {
        let args = ["up"].iter().chain(args);
        let command = Command::try_parse_from(args).map_err(|error| error.to_string())?;
        let read = command.authorization.configuration().map_err(|error| format!("{error:#}"))?;
        Ok(read.authorizers.iter().map(|one| one.authorizer.name()).collect::<Vec<_>>().join(","))
    }

    #[test]
    fn flags_select_the_authorizers() {
        assert_eq!(names(&[]), Ok("Node,RBAC".to_owned()));
        assert_eq!(names(&["--authorization-mode", "RBAC"]), Ok("RBAC".to_owned()));
        let webhook =
            ["--authorization-mode", "RBAC,Webhook", "--authorization-webhook-config-file", "/kubeconfig"];
        assert_eq!(names(&webhook), Ok("RBAC,Webhook".to_owned()));
        let unknown = names(&["--authorization-mode", "Foo"]).unwrap_err();
        assert_eq!(unknown, "authorization-mode \"Foo\" is not a valid mode");
        assert!(
            names(&["--authorization-webhook-version", "v2"]).unwrap_err().contains("unsupported webhook")
        );
    }

    #[test]
    fn changed_configuration_is_applied_once_and_keeps_its_built_in_types() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.yaml");
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n";
        let write = |items: &str| std::fs::write(&path, format!("{head}{items}")).unwrap();
        write("- {type: RBAC, name: rbac}\n");
        let command = Command::parse_from(["up", "--authorization-config", path.to_str().unwrap()]);
        let mut file = ConfigurationFile::of(&command.authorization).unwrap().unwrap();
        assert!(file.reload().unwrap().is_none(), "unchanged");
        write("- {type: AlwaysAllow, name: alwaysallow}\n- {type: RBAC, name: rbac}\n");
        assert_eq!(file.reload().unwrap().unwrap().authorizers.len(), 2);
        assert!(file.reload().unwrap().is_none(), "applied");
        write("- {type: AlwaysAllow, name: alwaysallow}\n");
        assert_eq!(file.reload().unwrap_err().to_string(), "missing required types: [RBAC]");
        assert!(file.reload().unwrap().is_none(), "reported once");
        write("- {type: Node, name: node}\n- {type: RBAC, name: rbac}\n");
        let added = file.reload().unwrap_err().to_string();
        assert_eq!(
            added,
            "authorizer type Node is not allowed if it was not enabled at initial server startup"
        );
        write("nothing");
        assert!(file.reload().is_err());
    }

    #[test]
    fn configuration_file_excludes_the_other_flags() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.yaml");
        let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n- {type: RBAC, name: rbac}\n";
        std::fs::write(&path, text).unwrap();
        let file = path.to_str().unwrap();
        assert_eq!(names(&["--authorization-config", file]), Ok("RBAC".to_owned()));
        let both = names(&["--authorization-config", file, "--authorization-mode", "RBAC"]).unwrap_err();
        assert!(both.starts_with("--authorization-config can not be specified when --authorization-mode or"));
        assert!(
            names(&["--authorization-config", "/missing"]).unwrap_err().starts_with("cannot read /missing")
        );
    }
}
