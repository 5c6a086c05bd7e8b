//! The `Status` object: the response to a failed request or a successful delete.
//!
//! Each constructor builds the response for one reason, with upstream's code, details and message; clients
//! match on messages. JSON fields are in upstream's order.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

mod details;
mod generic;
mod json;
mod reason;

pub use details::{Details, StatusCause};
pub use generic::Generic;
pub use reason::Reason;

use crate::field_error::ErrorList;
use crate::quote::Quoted;

/// Cause reason: a field is owned by another field manager.
pub const CAUSE_FIELD_MANAGER_CONFLICT: &str = "FieldManagerConflict";
/// Cause reason: the server sent an unexpected response.
pub const CAUSE_UNEXPECTED_SERVER_RESPONSE: &str = "UnexpectedServerResponse";
/// Cause reason: the requested `resourceVersion` is in the future.
const CAUSE_RESOURCE_VERSION_TOO_LARGE: &str = "ResourceVersionTooLarge";

const LIST_EXPIRED: &str = "The resourceVersion for the provided list is too old.";
const WATCH_EXPIRED: &str = "The resourceVersion for the provided watch is too old.";
const CONTINUE_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.";
const CONTINUE_INCONSISTENT: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/// A group-resource or group-kind, which prints as `deployments.apps` or `Pod`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Qualified<'a> {
    /// API group; empty for the core group.
    pub group: &'a str,
    /// Plural of a resource, or name of a kind.
    pub name: &'a str,
}

impl Qualified<'_> {
    fn is_empty(&self) -> bool {
        self.group.is_empty() && self.name.is_empty()
    }
}

impl fmt::Display for Qualified<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group {
            "" => f.write_str(self.name),
            group => write!(f, "{}.{group}", self.name),
        }
    }
}

/// A `meta/v1` Status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// `true` for `Success`.
    pub success: bool,
    /// HTTP status code; 0 is not shown and means 200.
    pub code: u16,
    /// Machine-readable reason of a failure.
    pub reason: Reason,
    /// Human-readable message.
    pub message: Cow<'static, str>,
    /// Machine-readable details.
    pub details: Option<Box<Details>>,
    /// Continue token with which an expired list can be resumed.
    pub continue_token: Option<Box<str>>,
}

impl Status {
    /// A failure with a reason and its usual code, without details.
    #[must_use]
    pub fn failure(reason: Reason, message: impl Into<Cow<'static, str>>) -> Status {
        Status {
            success: false,
            code: reason.code(),
            reason,
            message: message.into(),
            details: None,
            continue_token: None,
        }
    }

    fn about(reason: Reason, what: Qualified<'_>, name: &str, message: String) -> Status {
        Status { details: Some(Box::new(Details::about(what, name))), ..Status::failure(reason, message) }
    }

    fn retry_after(mut self, seconds: i32) -> Status {
        self.details.get_or_insert_default().retry_after_seconds = seconds;
        self
    }

    /// Code of the HTTP response.
    #[must_use]
    pub fn http_code(&self) -> u16 {
        match (self.code, self.success) {
            (0, true) => 200,
            (0, false) => 500,
            (code, _) => code,
        }
    }

    /// An object was removed.
    #[must_use]
    pub fn deleted(resource: Qualified<'_>, name: &str, uid: &str) -> Status {
        let details = Details { uid: uid.into(), ..Details::about(resource, name) };
        Status {
            success: true,
            code: 0,
            details: Some(Box::new(details)),
            ..Status::failure(Reason::Unknown, "")
        }
    }

    /// The object does not exist.
    #[must_use]
    pub fn not_found(resource: Qualified<'_>, name: &str) -> Status {
        let message = format!("{resource} {} not found", Quoted(name));
        Status::about(Reason::NotFound, resource, name, message)
    }

    /// The object exists already.
    #[must_use]
    pub fn already_exists(resource: Qualified<'_>, name: &str) -> Status {
        let message = format!("{resource} {} already exists", Quoted(name));
        Status::about(Reason::AlreadyExists, resource, name, message)
    }

    /// Every name generated from `generateName` is taken.
    #[must_use]
    pub fn generate_name_conflict(resource: Qualified<'_>, name: &str, retry_after_seconds: i32) -> Status {
        let message = format!(
            "{resource} {} already exists, the server was not able to generate a unique name for the object",
            Quoted(name)
        );
        Status::about(Reason::AlreadyExists, resource, name, message).retry_after(retry_after_seconds)
    }

    /// The client is not authenticated.
    #[must_use]
    pub fn unauthorized(message: impl Into<Cow<'static, str>>) -> Status {
        let message = message.into();
        let message = if message.is_empty() { "not authorized".into() } else { message };
        Status::failure(Reason::Unauthorized, message)
    }

    /// The request is not authorized, or rejected by admission.
    #[must_use]
    pub fn forbidden(resource: Qualified<'_>, name: &str, why: impl fmt::Display) -> Status {
        let message = match (resource.is_empty(), name) {
            (true, _) => format!("forbidden: {why}"),
            (false, "") => format!("{resource} is forbidden: {why}"),
            (false, name) => format!("{resource} {} is forbidden: {why}", Quoted(name)),
        };
        Status::about(Reason::Forbidden, resource, name, message)
    }

    /// The object was modified, or a precondition does not hold.
    #[must_use]
    pub fn conflict(resource: Qualified<'_>, name: &str, why: impl fmt::Display) -> Status {
        let message = format!("Operation cannot be fulfilled on {resource} {}: {why}", Quoted(name));
        Status::about(Reason::Conflict, resource, name, message)
    }

    /// Other managers own applied fields.
    #[must_use]
    pub fn apply_conflict(causes: Vec<StatusCause>, message: String) -> Status {
        let details = Details { causes, ..Details::default() };
        Status { details: Some(Box::new(details)), ..Status::failure(Reason::Conflict, message) }
    }

    /// The object failed validation.
    #[must_use]
    pub fn invalid(kind: Qualified<'_>, name: &str, errors: &ErrorList) -> Status {
        let quoted = Quoted(name);
        let message = if errors.is_empty() {
            format!("{kind} {quoted} is invalid")
        } else {
            format!("{kind} {quoted} is invalid: {errors}")
        };
        let mut status = Status::about(Reason::Invalid, kind, name, message);
        let causes = &mut status.details.get_or_insert_default().causes;
        // Errors embed values of any length: duplicates are found by a set instead of pairwise comparison.
        let mut seen = BTreeSet::new();
        for error in errors.iter() {
            let cause = StatusCause {
                reason: error.kind.reason().into(),
                message: error.body().to_string().into(),
                field: error.field.as_str().into(),
            };
            // An error that two rules found is one cause.
            if seen.insert((cause.field.clone(), cause.message.clone(), cause.reason.clone())) {
                causes.push(cause);
            }
        }
        status
    }

    /// The request is malformed.
    #[must_use]
    pub fn bad_request(message: impl Into<Cow<'static, str>>) -> Status {
        Status::failure(Reason::BadRequest, message)
    }

    /// The requested state is gone. Older servers use it; see [`Status::expired`].
    #[must_use]
    pub fn gone(message: impl Into<Cow<'static, str>>) -> Status {
        Status::failure(Reason::Gone, message)
    }

    /// The requested `resourceVersion` is too old.
    #[must_use]
    pub fn expired(message: impl Into<Cow<'static, str>>) -> Status {
        Status::failure(Reason::Expired, message)
    }

    /// The `resourceVersion` of a list is too old.
    #[must_use]
    pub fn list_expired() -> Status {
        Status::expired(LIST_EXPIRED)
    }

    /// The start `resourceVersion` of a watch is too old.
    #[must_use]
    pub fn watch_expired() -> Status {
        Status::expired(WATCH_EXPIRED)
    }

    /// The `resourceVersion` of a watch is older than the oldest kept event.
    #[must_use]
    pub fn too_old_resource_version(revision: u64, oldest: u64) -> Status {
        Status::expired(format!("too old resource version: {revision} ({oldest})"))
    }

    /// The `resourceVersion` of a paginated list is too old. With a token, the client can continue at the
    /// newest one.
    #[must_use]
    pub fn continue_expired(token: Option<&str>) -> Status {
        let message = if token.is_some() { CONTINUE_INCONSISTENT } else { CONTINUE_EXPIRED };
        Status { continue_token: token.map(Into::into), ..Status::expired(message) }
    }

    /// The client, or all clients together, exceed a limit.
    #[must_use]
    pub fn too_many_requests(message: impl Into<Cow<'static, str>>, retry_after_seconds: i32) -> Status {
        Status::failure(Reason::TooManyRequests, message).retry_after(retry_after_seconds)
    }

    /// The server is temporarily unavailable.
    #[must_use]
    pub fn service_unavailable(message: impl Into<Cow<'static, str>>) -> Status {
        Status::failure(Reason::ServiceUnavailable, message)
    }

    /// The resource does not support this verb.
    #[must_use]
    pub fn method_not_supported(resource: Qualified<'_>, action: &str) -> Status {
        let message =
            format!("{action} is not supported on resources of kind {}", Quoted(&resource.to_string()));
        Status::about(Reason::MethodNotAllowed, resource, "", message)
    }

    /// The request timed out before it had any effect.
    #[must_use]
    pub fn server_timeout(resource: Qualified<'_>, operation: &str, retry_after_seconds: i32) -> Status {
        let message = format!(
            "The {operation} operation against {resource} could not be completed at this time, please try again."
        );
        Status::about(Reason::ServerTimeout, resource, operation, message).retry_after(retry_after_seconds)
    }

    /// The request timed out and may still take effect.
    #[must_use]
    pub fn timeout(message: impl fmt::Display, retry_after_seconds: i32) -> Status {
        Status::failure(Reason::Timeout, format!("Timeout: {message}")).retry_after(retry_after_seconds)
    }

    /// The requested `resourceVersion` is in the future.
    #[must_use]
    pub fn too_large_resource_version(asked: u64, current: u64, retry_after_seconds: i32) -> Status {
        let message = format!("Too large resource version: {asked}, current: {current}");
        let mut status = Status::timeout(message, retry_after_seconds);
        status.details.get_or_insert_default().causes = vec![StatusCause {
            reason: CAUSE_RESOURCE_VERSION_TOO_LARGE.into(),
            message: "Too large resource version".into(),
            field: Box::default(),
        }];
        status
    }

    /// Internal error of the server.
    #[must_use]
    pub fn internal_error(why: impl fmt::Display) -> Status {
        let why = why.to_string();
        let mut status = Status::failure(Reason::InternalError, format!("Internal error occurred: {why}"));
        status.details.get_or_insert_default().causes =
            vec![StatusCause { reason: "".into(), message: why.into(), field: Box::default() }];
        status
    }

    /// A failure with a code and a message, but without a reason.
    #[must_use]
    pub fn unclassified(code: u16, message: impl Into<Cow<'static, str>>) -> Status {
        Status { code, ..Status::failure(Reason::Unknown, message) }
    }

    /// The request is too large.
    #[must_use]
    pub fn request_entity_too_large(message: impl fmt::Display) -> Status {
        Status::failure(Reason::RequestEntityTooLarge, format!("Request entity too large: {message}"))
    }

    /// The server has no media type that the client accepts.
    #[must_use]
    pub fn not_acceptable(accepted: &[&str]) -> Status {
        let accepted = accepted.join(", ");
        Status::failure(
            Reason::NotAcceptable,
            format!("only the following media types are accepted: {accepted}"),
        )
    }

    /// The server can convert an object to `target`, but not in a media type that the client accepts.
    #[must_use]
    pub fn not_acceptable_conversion(target: &str, accepted: &[&str]) -> Status {
        let accepted = accepted.join(", ");
        Status::failure(
            Reason::NotAcceptable,
            format!("only the following media types are accepted when converting to {target}: {accepted}"),
        )
    }

    /// The media type of the request is not supported.
    #[must_use]
    pub fn unsupported_media_type(accepted: &[&str]) -> Status {
        let accepted = accepted.join(", ");
        Status::failure(
            Reason::UnsupportedMediaType,
            format!(
                "the body of the request was in an unknown format - accepted media types include: {accepted}"
            ),
        )
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

#[cfg(test)]
mod tests;
