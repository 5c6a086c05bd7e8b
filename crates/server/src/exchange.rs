//! A request and its answer, without a socket in sight.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use setpoint_api::status::Status;

use crate::inflight::Place;

/// Who asks: what the connection proved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The user.
    pub user: String,
    /// The user's groups.
    pub groups: Vec<String>,
}

/// One request, its body read and bounded.
#[derive(Clone, Debug)]
pub struct Request {
    /// The verb of HTTP.
    pub method: Method,
    /// The path as it was sent, still percent-encoded.
    pub path: String,
    /// The query as it was sent, without the question mark.
    pub query: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// Who asks.
    pub identity: Identity,
}

/// What goes back.
pub struct Answer {
    /// The code.
    pub status: StatusCode,
    /// The headers; length and date are the shell's.
    pub headers: HeaderMap,
    /// The body.
    pub body: Body,
}

/// The body of an answer.
pub enum Body {
    /// All of it, in parts that follow one another.
    Whole(Vec<Bytes>),
    /// A stream that goes on until it ends or the client goes.
    Stream(Box<dyn Frames>),
}

/// A stream of parts: a watch.
pub trait Frames: Send {
    /// The next part; none when the stream has ended. What is ready together should come together.
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>>;
}

/// Something that answers requests.
pub trait Service: Send + Sync + 'static {
    /// Says whether a request may come in, before its body is read. The place is held until it is answered.
    ///
    /// # Errors
    /// If there are too many already.
    fn enter(&self, _method: &Method, _path: &str, _query: &str) -> Result<Place, Status> {
        Ok(Place::default())
    }

    /// Answers one.
    fn answer(&self, request: Request) -> Pin<Box<dyn Future<Output = Answer> + Send + '_>>;
}
