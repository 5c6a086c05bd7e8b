//! Impersonation: requests in the name of another user.
//!
//! The modes of constrained impersonation come first, each of which permits the impersonation for some requests only;
//! then the legacy mode with the verb `impersonate`, which permits it for all. Each value is authorized separately.

mod headers;
mod modes;

use setpoint_api::quote::Quoted;
use setpoint_api::status::{Qualified, Status};
use setpoint_api::{Identity, RequestInfo};
use setpoint_authorization::{Attributes, Decision};

pub use headers::{has_headers, strip, wanted_user};

/// Decides whether a user may send a request.
pub trait Permissions {
    /// Decides on a request.
    fn is_allowed(&self, attributes: &Attributes<'_>) -> Decision;
}

/// User in whose name a request is handled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImpersonatedUser {
    /// User, with all its groups.
    pub identity: Identity,
    /// Verb of the constrained mode that permits it; empty in legacy mode.
    pub constraint: &'static str,
}

/// Decides whether the user of a request may act as `wanted` for it.
///
/// # Errors
/// 403 of the first mode that applies and does not permit it.
pub fn impersonate(
    wanted: &Identity,
    attributes: &Attributes<'_>,
    permissions: &dyn Permissions,
) -> Result<ImpersonatedUser, Box<Status>> {
    let mut first = None;
    for mode in &modes::MODES {
        match mode.check(wanted, attributes, permissions) {
            Ok(Some(user)) => return Ok(user),
            Ok(None) => {}
            Err(status) => {
                first.get_or_insert(status);
            }
        }
    }
    Err(first.unwrap_or_else(|| Box::new(Status::internal_error("all impersonation modes failed"))))
}

/// 403 unless the request is allowed.
fn authorize(attributes: &Attributes<'_>, permissions: &dyn Permissions) -> Result<(), Box<Status>> {
    match permissions.is_allowed(attributes) {
        Decision::Allowed(_) => Ok(()),
        Decision::Denied(reason) | Decision::NoOpinion(reason) => Err(forbidden(attributes, &reason)),
    }
}

/// 403 with upstream's text.
fn forbidden(attributes: &Attributes<'_>, reason: &str) -> Box<Status> {
    let request = &attributes.request;
    let message = escape_html(&describe(&attributes.user.user, request));
    let why = if reason.is_empty() { message } else { format!("{message}: {reason}") };
    Box::new(Status::forbidden(Qualified { group: request.group, name: request.resource }, request.name, why))
}

fn describe(user: &str, request: &RequestInfo<'_>) -> String {
    let (user, verb) = (Quoted(user), request.verb);
    if !request.is_resource {
        return format!("User {user} cannot {verb} path {}", Quoted(request.path));
    }
    let slash = if request.subresource.is_empty() { "" } else { "/" };
    let resource = format!("{}{slash}{}", request.resource, request.subresource);
    let place = if request.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace {}", Quoted(request.namespace))
    };
    format!(
        "User {user} cannot {verb} resource {} in API group {} {place}",
        Quoted(&resource),
        Quoted(request.group)
    )
}

/// Escapes a text so that it is no HTML, as upstream does.
fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests;
