//! Why a request failed.

/// Why a request failed, in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Not known; shown as nothing at all.
    #[default]
    Unknown,
    /// The client did not say who it is.
    Unauthorized,
    /// The client may not do this.
    Forbidden,
    /// There is no such thing.
    NotFound,
    /// There is one already.
    AlreadyExists,
    /// The object is not as the client took it to be.
    Conflict,
    /// It is gone for good.
    Gone,
    /// The object is not valid.
    Invalid,
    /// It could not be done in time, and was not.
    ServerTimeout,
    /// The stored object cannot be read.
    StoreReadError,
    /// It was not done in time, and may be done yet.
    Timeout,
    /// The client, or all clients, ask too much.
    TooManyRequests,
    /// The request makes no sense.
    BadRequest,
    /// The resource has no such verb.
    MethodNotAllowed,
    /// The server has no form that the client takes.
    NotAcceptable,
    /// The request is too large.
    RequestEntityTooLarge,
    /// The server does not understand the form of the request.
    UnsupportedMediaType,
    /// The server is at fault.
    InternalError,
    /// The revision is too old.
    Expired,
    /// The server cannot do this now.
    ServiceUnavailable,
}

impl Reason {
    /// The word; empty if the reason is not known.
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

    /// The HTTP status code that goes with it.
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
