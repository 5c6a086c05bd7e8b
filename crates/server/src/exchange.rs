//! A request and its answer, without a socket in sight.

use std::borrow::Borrow;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use setpoint_api::status::Status;
use setpoint_store::Record;

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
    Whole(Vec<Part>),
    /// A stream that goes on until it ends or the client goes.
    Stream(Box<dyn Frames>),
}

/// A part of a body.
#[derive(Clone)]
pub enum Part {
    /// Bytes that were made for it.
    Made(Bytes),
    /// What [`Part::stored`] makes of a record that can be read where it lies.
    Stored(Record, usize),
}

impl Part {
    /// A stored object from this byte on, read where it lies while it is sent, if it can be.
    #[must_use]
    pub fn stored(record: Record, from: usize) -> Part {
        match record.value_in_place() {
            Some(_) => Part::Stored(record, from),
            None => Part::Made(record.value().slice(from..)),
        }
    }

    /// The bytes, shared.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        match self {
            Part::Made(bytes) => bytes,
            Part::Stored(record, from) => record.value().slice(from..),
        }
    }
}

impl Deref for Part {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Part::Made(bytes) => bytes,
            Part::Stored(record, from) => &record.value_in_place().expect("it was not packed")[*from..],
        }
    }
}

impl Borrow<[u8]> for Part {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl<T: Into<Bytes>> From<T> for Part {
    fn from(bytes: T) -> Part {
        Part::Made(bytes.into())
    }
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

    /// Whose token it is; nobody's if it does not hold.
    fn authenticate(&self, _token: &str) -> Option<Identity> {
        None
    }

    /// Answers one.
    fn answer(&self, request: Request) -> Pin<Box<dyn Future<Output = Answer> + Send + '_>>;
}
