//! Authorization modes of flags.

use std::time::Duration;

use setpoint_api::quote::Quoted;

use super::validate::built_in;
use super::{
    AuthorizationConfiguration, AuthorizerConfiguration, AuthorizerType, MatchConditions, ReviewVersion,
    WEBHOOK, WebhookConfiguration,
};

/// Name of the webhook of flags.
const WEBHOOK_NAME: &str = "default";
/// Time for a call of the webhook of flags.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Rejection of authorization modes, with upstream's texts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModeError {
    /// No mode.
    #[error("at least one authorization-mode must be passed")]
    Missing,
    /// Unknown mode.
    #[error("authorization-mode {} is not a valid mode", Quoted(.0))]
    Unknown(String),
    /// A mode is given twice.
    #[error("authorization-mode {} has mode specified more than once", quoted(.0))]
    Repeated(Vec<String>),
    /// The webhook has no kubeconfig.
    #[error("authorization-mode Webhook's authorization config file not passed")]
    NoWebhookFile,
    /// A kubeconfig without a webhook.
    #[error("cannot specify --authorization-webhook-config-file without mode Webhook")]
    UnusedWebhookFile,
}

fn quoted(modes: &[String]) -> String {
    let modes: Vec<String> = modes.iter().map(|mode| Quoted(mode).to_string()).collect();
    format!("[{}]", modes.join(" "))
}

/// Returns the configuration of a list of modes. `webhook` has the settings of the webhook, without its conditions.
///
/// # Errors
/// If a mode is unknown or repeated, or the kubeconfig of the webhook is missing or not used.
pub fn modes(
    modes: &[String],
    webhook_file: Option<&str>,
    version: ReviewVersion,
    (authorized_ttl, unauthorized_ttl): (Duration, Duration),
) -> Result<AuthorizationConfiguration, ModeError> {
    if modes.is_empty() {
        return Err(ModeError::Missing);
    }
    let mut authorizers: Vec<AuthorizerConfiguration> = Vec::with_capacity(modes.len());
    for mode in modes {
        let (name, authorizer) = match (mode.as_str(), webhook_file) {
            (WEBHOOK, None) => return Err(ModeError::NoWebhookFile),
            (WEBHOOK, Some(file)) => {
                let webhook = WebhookConfiguration {
                    authorized_ttl,
                    unauthorized_ttl,
                    timeout: TIMEOUT,
                    version,
                    denies_on_error: false,
                    kubeconfig: file.into(),
                    match_conditions: MatchConditions::default(),
                };
                (WEBHOOK_NAME.to_owned(), AuthorizerType::Webhook(Box::new(webhook)))
            }
            (name, _) => {
                let known = built_in(name).ok_or_else(|| ModeError::Unknown(mode.clone()))?;
                (name.to_lowercase(), known)
            }
        };
        if authorizers.iter().any(|other| *other.name == *name) {
            return Err(ModeError::Repeated(modes.to_vec()));
        }
        authorizers.push(AuthorizerConfiguration { name: name.into(), authorizer });
    }
    if webhook_file.is_some() && !modes.iter().any(|mode| mode == WEBHOOK) {
        return Err(ModeError::UnusedWebhookFile);
    }
    Ok(AuthorizationConfiguration { authorizers })
}
