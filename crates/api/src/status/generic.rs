//! `Status` for a plain HTTP status code, upstream's `NewGenericServerResponse`.

use crate::quote::Quoted;

use super::{CAUSE_UNEXPECTED_SERVER_RESPONSE, Details, Qualified, Reason, Status, StatusCause};

/// Context of the response beside its code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Generic<'a> {
    /// HTTP method.
    pub method: &'a str,
    /// Resource, if there is one.
    pub resource: Qualified<'a>,
    /// Name of the object, if there is one.
    pub name: &'a str,
    /// Message of the server.
    pub message: &'a str,
    /// Seconds after which to retry; 0 if not given.
    pub retry_after_seconds: i32,
    /// `true` if the message becomes a cause of its own.
    pub unexpected: bool,
}

impl Status {
    /// Status for an unknown path, method or media type, and for any other code without a reason of its own.
    #[must_use]
    pub fn generic(code: u16, about: &Generic<'_>) -> Status {
        let (reason, mut message) = reason_and_message(code, about);
        if !about.resource.is_empty() {
            let space = if about.name.is_empty() { "" } else { " " };
            let method = about.method.to_lowercase();
            message = format!("{message} ({method} {}{space}{})", about.resource, about.name);
        }
        let mut details = Details::about(about.resource, about.name);
        details.retry_after_seconds = about.retry_after_seconds;
        if about.unexpected {
            details.causes.push(StatusCause {
                reason: CAUSE_UNEXPECTED_SERVER_RESPONSE.into(),
                message: about.message.into(),
                field: Box::default(),
            });
        }
        Status { code, details: Some(Box::new(details)), ..Status::failure(reason, message) }
    }
}

fn reason_and_message(code: u16, about: &Generic<'_>) -> (Reason, String) {
    let (reason, message) = match code {
        400 => (Reason::BadRequest, "the server rejected our request for an unknown reason"),
        401 => (Reason::Unauthorized, "the server has asked for the client to provide credentials"),
        403 => (Reason::Forbidden, about.message),
        404 => (Reason::NotFound, "the server could not find the requested resource"),
        405 => (Reason::MethodNotAllowed, "the server does not allow this method on the requested resource"),
        406 if matches!(about.message, "" | "unknown") => (
            Reason::NotAcceptable,
            "the server was unable to respond with a content type that the client supports",
        ),
        406 => (Reason::NotAcceptable, about.message),
        409 if about.method == "POST" => (Reason::AlreadyExists, "the server reported a conflict"),
        409 => (Reason::Conflict, "the server reported a conflict"),
        415 => (Reason::UnsupportedMediaType, about.message),
        422 => (Reason::Invalid, "the server rejected our request due to an error in our request"),
        429 => (
            Reason::TooManyRequests,
            "the server has received too many requests and has asked us to try again later",
        ),
        503 => (Reason::ServiceUnavailable, "the server is currently unable to handle the request"),
        504 => (
            Reason::Timeout,
            "the server was unable to return a response in the time allotted, but may still be processing the request",
        ),
        500.. => {
            let said = Quoted(about.message);
            let message =
                format!("an error on the server ({said}) has prevented the request from succeeding");
            return (Reason::InternalError, message);
        }
        code => {
            let message = format!(
                "the server responded with the status code {code} but did not return more information"
            );
            return (Reason::Unknown, message);
        }
    };
    (reason, message.to_owned())
}
