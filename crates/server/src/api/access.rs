//! Authentication and authorization of requests.
//!
//! The rules are those of [`crate::authorization`].

use http::{HeaderMap, HeaderName};
use setpoint_api::status::{Qualified, Status};
use setpoint_authorization::Decision;

use super::Api;
use crate::authorization::{forbidden, is_privileged};
use crate::exchange::{Identity, Request};
use crate::request_info::RequestAttributes;
use crate::tokens::{ISSUER, TokenError, Verified};

impl Api {
    /// Verifies a token for one of these audiences; for this server if there are none.
    pub(super) fn verify(&self, token: &str, audiences: &[&str]) -> Result<Verified, TokenError> {
        let own = [ISSUER];
        let audiences = if audiences.is_empty() { &own } else { audiences };
        self.tokens.verify(token, audiences, &self.store.snapshot(), self.options.clock.now())
    }
}

/// Prefix of impersonation headers: user, group, UID and extra fields.
const IMPERSONATION: &str = "impersonate-";

/// Rejects impersonation: serving the request as its sender would ignore what it requests.
fn reject_impersonation(headers: &HeaderMap, identity: &Identity) -> Result<(), Status> {
    let mut names = headers.keys().map(HeaderName::as_str);
    let Some(header) = names.find(|name| name.starts_with(IMPERSONATION)) else { return Ok(()) };
    let user = headers.get("impersonate-user").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let why = format!(
        "User {:?} cannot impersonate: this server does not support impersonation yet, send the request without the \
         header {header} (kubectl: without --as, --as-group and --as-uid)",
        identity.user
    );
    Err(Status::forbidden(Qualified { group: "", name: "users" }, user, why))
}

impl Api {
    /// Authorizes a request.
    ///
    /// # Errors
    /// 403 if it is not allowed.
    pub(super) async fn check(&self, request: &Request) -> Result<(), Status> {
        reject_impersonation(&request.headers, &request.identity)?;
        if is_privileged(&request.identity) {
            return Ok(());
        }
        let parsed = RequestAttributes::of(request);
        let attributes = parsed.for_user(&request.identity);
        match self.authorization.authorize(&attributes, &self.store.snapshot()).await {
            Decision::Allowed(_) => Ok(()),
            Decision::Denied(reason) | Decision::NoOpinion(reason) => Err(forbidden(&attributes, &reason)),
        }
    }
}
