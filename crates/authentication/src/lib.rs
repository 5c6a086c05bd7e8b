//! Authentication: which user sends a request?
//!
//! The crate is pure: it reads no sockets, files, clocks or stores. It parses and verifies credentials, and maps them
//! to an [`Identity`](setpoint_api::Identity); the server's shells bring keys, objects and documents of other servers.
//!
//! - [`certificate`]: subjects of client certificates.
//! - [`jwt`], [`keys`]: signed tokens and the keys that sign and verify them.
//! - [`service_account`]: tokens of service accounts, bound ones and those in Secrets.
//! - [`oidc`]: tokens of external issuers, configured by an AuthenticationConfiguration.
//! - [`bootstrap_token`], [`token_file`], [`token_review`]: tokens in Secrets, in a file, and those that a webhook
//!   verifies.
//! - [`authenticated_token`]: the result of the verification of a token.
//! - [`request_header`]: users that an authenticating proxy names.
//! - [`anonymous`]: requests without credentials.
//! - [`impersonation`]: requests in the name of another user.
//! - [`token_cache`]: verified tokens by a keyed hash.
//!
//! Untrusted input never panics, and secrets are compared in constant time or by a keyed hash.

pub mod anonymous;
pub mod authenticated_token;
pub mod bootstrap_token;
pub mod certificate;
pub mod impersonation;
pub mod jwt;
pub mod keys;
pub mod oidc;
pub mod request_header;
pub mod service_account;
pub mod token_cache;
pub mod token_file;
pub mod token_review;
pub mod user;
