//! AuthorizationConfiguration: the authorizers of a server, in order.
//!
//! [`read`] parses a file of `apiserver.config.k8s.io/v1`, `v1beta1` or `v1alpha1`, whose fields are the same. Unknown and
//! repeated fields are rejected. Errors have upstream's texts. Not supported are the authorizer ABAC, and connections of
//! webhooks by `InClusterConfig`, which kube-apiserver does not support either.

mod conditions;
mod duration;
mod modes;
mod strict;
mod validate;

use std::time::Duration;

use setpoint_api::field_error::ErrorList;

pub use conditions::{CONDITIONS_MAX, MatchConditions};
pub use modes::{ModeError, modes};
pub use validate::{FileCheck, read};

/// Name of the authorizer type of webhooks.
const WEBHOOK: &str = "Webhook";
/// Supported authorizer types, sorted as upstream lists them.
const TYPES: [&str; 5] = ["AlwaysAllow", "AlwaysDeny", "Node", "RBAC", WEBHOOK];

/// Authorizers of a server. A request is allowed or denied by the first one that has an opinion.
#[derive(Debug, Default)]
pub struct AuthorizationConfiguration {
    /// Authorizers, in order.
    pub authorizers: Vec<AuthorizerConfiguration>,
}

/// A configured authorizer.
#[derive(Debug)]
pub struct AuthorizerConfiguration {
    /// Name in metrics; that of authorizers other than webhooks is their type in lower case.
    pub name: Box<str>,
    /// Type with its settings.
    pub authorizer: AuthorizerType,
}

/// Type of an authorizer.
#[derive(Debug)]
pub enum AuthorizerType {
    /// Allows every request.
    AlwaysAllow,
    /// Has an opinion on no request.
    AlwaysDeny,
    /// Requests of nodes.
    Node,
    /// Roles and their bindings.
    Rbac,
    /// A remote service.
    Webhook(Box<WebhookConfiguration>),
}

impl AuthorizerType {
    /// Name in configurations and metrics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            AuthorizerType::AlwaysAllow => "AlwaysAllow",
            AuthorizerType::AlwaysDeny => "AlwaysDeny",
            AuthorizerType::Node => "Node",
            AuthorizerType::Rbac => "RBAC",
            AuthorizerType::Webhook(_) => WEBHOOK,
        }
    }
}

/// Settings of a webhook.
#[derive(Debug)]
pub struct WebhookConfiguration {
    /// Time for which allowed requests are cached; zero if they are not.
    pub authorized_ttl: Duration,
    /// Time for which requests that are not allowed are cached; zero if they are not.
    pub unauthorized_ttl: Duration,
    /// Time for one call.
    pub timeout: Duration,
    /// Version of SubjectAccessReviews that are sent.
    pub version: ReviewVersion,
    /// `true` if an error denies the request; otherwise the webhook has no opinion on it.
    pub denies_on_error: bool,
    /// Path of the kubeconfig that describes the service.
    pub kubeconfig: Box<str>,
    /// Conditions of the requests that are sent to the webhook.
    pub match_conditions: MatchConditions,
}

/// Version of a SubjectAccessReview.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    /// `authorization.k8s.io/v1`.
    V1,
    /// `authorization.k8s.io/v1beta1`.
    V1Beta1,
}

impl ReviewVersion {
    /// API version of the review.
    #[must_use]
    pub fn api_version(self) -> &'static str {
        match self {
            ReviewVersion::V1 => "authorization.k8s.io/v1",
            ReviewVersion::V1Beta1 => "authorization.k8s.io/v1beta1",
        }
    }
}

/// Rejection of a configuration, with upstream's texts.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// The file is not an AuthorizationConfiguration.
    #[error("failed to load AuthorizationConfiguration from file: {0}")]
    Load(String),
    /// Fields are invalid.
    #[error("{0}")]
    Invalid(ErrorList),
    /// Authorizers have other names than their types require.
    #[error("{0}")]
    Names(String),
}

#[cfg(test)]
mod tests;
