//! Unusable configuration of authentication.

use std::path::PathBuf;

use setpoint_api::field_error::ErrorList;
use setpoint_api::quote::Quoted;
use setpoint_authentication::keys::KeyError;
use setpoint_authentication::oidc::ConfigurationError;
use setpoint_authentication::token_file::TokenFileError;
use thiserror::Error;

use crate::webhooks::kubeconfig::EndpointFileError;

/// Unusable file or option.
#[derive(Debug, Error)]
pub enum AuthenticationError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A key file has no usable key.
    #[error("{}: {source}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// Fault of the key.
        source: KeyError,
    },
    /// The generated signing key is damaged.
    #[error("the token signing key is damaged: remove {} to create a new one", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// The token file is malformed.
    #[error("token file '{}' {source}", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// Fault of the file.
        source: TokenFileError,
    },
    /// The AuthenticationConfiguration cannot be decoded.
    #[error("failed to load authentication configuration from file {}: {source}", Quoted(&path.display().to_string()))]
    Decode {
        /// The file.
        path: PathBuf,
        /// Fault of the file.
        source: ConfigurationError,
    },
    /// The AuthenticationConfiguration is invalid.
    #[error("invalid authentication configuration: {0}")]
    Invalid(ErrorList),
    /// The kubeconfig of the webhook is unusable.
    #[error(transparent)]
    Webhook(#[from] EndpointFileError),
}
