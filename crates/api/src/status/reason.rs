//! Machine-readable reasons of failures.

/// Reason of a failure, upstream's `StatusReason`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Unknown; shown as an empty string.
    #[default]
    Unknown,
    /// The client is not authenticated.
    Unauthorized,
    /// The request is not authorized, or rejected by admission.
    Forbidden,
    /// The object or path does not exist.
    NotFound,
    /// The object exists already.
    AlreadyExists,
    /// The object was modified, or a precondition does not hold.
    Conflict,
    /// The requested state is gone.
    Gone,
    /// The object failed validation.
    Invalid,
    /// The request timed out before it had any effect.
    ServerTimeout,
    /// The stored object cannot be read.
    StoreReadError,
    /// The request timed out and may still take effect.
    Timeout,
    /// The client, or all clients together, exceed a limit.
    TooManyRequests,
    /// The request is malformed.
    BadRequest,
    /// The resource does not support this verb.
    MethodNotAllowed,
    /// The server has no media type that the client accepts.
    NotAcceptable,
    /// The request is too large.
    RequestEntityTooLarge,
    /// The media type of the request is not supported.
    UnsupportedMediaType,
    /// Internal error of the server.
    InternalError,
    /// The `resourceVersion` is too old.
    Expired,
    /// The server is temporarily unavailable.
    ServiceUnavailable,
}

impl Reason {
    const ALL: [Reason; 20] = [
        Reason::Unknown,
        Reason::Unauthorized,
        Reason::Forbidden,
        Reason::NotFound,
        Reason::AlreadyExists,
        Reason::Conflict,
        Reason::Gone,
        Reason::Invalid,
        Reason::ServerTimeout,
        Reason::StoreReadError,
        Reason::Timeout,
        Reason::TooManyRequests,
        Reason::BadRequest,
        Reason::MethodNotAllowed,
        Reason::NotAcceptable,
        Reason::RequestEntityTooLarge,
        Reason::UnsupportedMediaType,
        Reason::InternalError,
        Reason::Expired,
        Reason::ServiceUnavailable,
    ];

    /// Reason with this name; unknown if there is none.
    #[must_use]
    pub fn from_name(name: &str) -> Reason {
        Reason::ALL.into_iter().find(|reason| reason.as_str() == name).unwrap_or_default()
    }

    /// Name of the reason; empty if unknown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::Unknown => "",
            Reason::Unauthorized => "Unauthorized",
            Reason::Forbidden => "Forbidden",
            Reason::NotFound => "NotFound",
            Reason::AlreadyExists => "AlreadyExists",
            Reason::Conflict => "Conflict",
            Reason::Gone => "Gone",
            Reason::Invalid => "Invalid",
            Reason::ServerTimeout => "ServerTimeout",
            Reason::StoreReadError => "StorageReadError",
            Reason::Timeout => "Timeout",
            Reason::TooManyRequests => "TooManyRequests",
            Reason::BadRequest => "BadRequest",
            Reason::MethodNotAllowed => "MethodNotAllowed",
            Reason::NotAcceptable => "NotAcceptable",
            Reason::RequestEntityTooLarge => "RequestEntityTooLarge",
            Reason::UnsupportedMediaType => "UnsupportedMediaType",
            Reason::InternalError => "InternalError",
            Reason::Expired => "Expired",
            Reason::ServiceUnavailable => "ServiceUnavailable",
        }
    }

    /// HTTP status code of the reason.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Reason::BadRequest => 400,
            Reason::Unauthorized => 401,
            Reason::Forbidden => 403,
            Reason::NotFound => 404,
            Reason::MethodNotAllowed => 405,
            Reason::NotAcceptable => 406,
            Reason::AlreadyExists | Reason::Conflict => 409,
            Reason::Gone | Reason::Expired => 410,
            Reason::RequestEntityTooLarge => 413,
            Reason::UnsupportedMediaType => 415,
            Reason::Invalid => 422,
            Reason::TooManyRequests => 429,
            Reason::Unknown | Reason::InternalError | Reason::ServerTimeout | Reason::StoreReadError => 500,
            Reason::ServiceUnavailable => 503,
            Reason::Timeout => 504,
        }
    }
}
