//! A request and its answer, without a socket in sight.

use std::borrow::Borrow;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use setpoint_store::Record;

use crate::encoded_chunk::EncodedChunk;
use crate::inflight::InflightPermit;

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
pub struct Response {
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
    Whole(Vec<BodyPart>),
    /// A large body that is encoded chunk by chunk while it is sent.
    Chunked(Box<dyn Chunks>),
    /// A stream that goes on until it ends or the client goes.
    Stream(Box<dyn Frames>),
}

impl Body {
    /// Returns the bytes of memory that the body holds beside stored objects.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        match self {
            Body::Whole(parts) => parts.iter().map(BodyPart::held_bytes).sum(),
            Body::Chunked(chunks) => chunks.held_bytes(),
            Body::Stream(_) => 0,
        }
    }
}

/// A part of a body.
#[derive(Clone)]
pub enum BodyPart {
    /// Bytes that were made for it.
    Made(Bytes),
    /// What [`BodyPart::stored`] makes of a record that can be read where it lies.
    Stored(Record, usize),
    /// A chunk of a list, which other answers send too.
    Shared(Arc<EncodedChunk>),
}

impl BodyPart {
    /// A stored object from this byte on, read where it lies while it is sent, if it can be.
    #[must_use]
    pub fn stored(record: Record, from: usize) -> BodyPart {
        match record.value_in_place() {
            Some(_) => BodyPart::Stored(record, from),
            None => BodyPart::Made(record.value().slice(from..)),
        }
    }

    fn held_bytes(&self) -> usize {
        let made = if let BodyPart::Made(bytes) = self { bytes.len() } else { 0 };
        size_of::<BodyPart>() + made
    }

    /// The bytes, shared.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        match self {
            BodyPart::Made(bytes) => bytes,
            BodyPart::Stored(record, from) => record.value().slice(from..),
            BodyPart::Shared(chunk) => chunk.bytes.clone(),
        }
    }
}

impl Deref for BodyPart {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            BodyPart::Made(bytes) => bytes,
            BodyPart::Stored(record, from) => &record.value_in_place().expect("it was not packed")[*from..],
            BodyPart::Shared(chunk) => &chunk.bytes,
        }
    }
}

impl Borrow<[u8]> for BodyPart {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl<T: Into<Bytes>> From<T> for BodyPart {
    fn from(bytes: T) -> BodyPart {
        BodyPart::Made(bytes.into())
    }
}

/// A stream of parts: a watch.
pub trait Frames: Send {
    /// The next part; none when the stream has ended. What is ready together should come together.
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>>;
}

/// Encoder of a large body. Each chunk costs a bounded amount of work, so that many encoders can share a thread.
pub trait Chunks: Send {
    /// Returns the next chunk, which may be empty; `None` at the end.
    fn next_chunk(&mut self) -> Option<BodyPart>;

    /// Returns the bytes of memory that the encoder holds until it is dropped.
    fn held_bytes(&self) -> usize;
}

/// Permission to answer a request.
#[derive(Default)]
pub struct Admission {
    /// Held until the last byte of the answer is sent.
    pub permit: InflightPermit,
    /// Estimated cost if the body is smaller than [`LARGE_BYTES`].
    pub cost: Cost,
}

/// Bytes of a body or a stored object from which on a request is large: about a millisecond of work.
pub const LARGE_BYTES: usize = 32 * 1024;

/// Estimated cost of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cost {
    /// Well below a millisecond: runs on the reactor that read the request.
    #[default]
    Small,
    /// May take longer: runs on a worker, so that the reactor's other connections do not wait for it.
    Large,
}

/// Something that answers requests.
pub trait Service: Send + Sync + 'static {
    /// Authorizes and admits a request by its head: its body is empty here, and is read only if this succeeds.
    ///
    /// # Errors
    /// The refusal, if the request is forbidden or there are too many already.
    fn admit(&self, _head: &Request) -> Result<Admission, Box<Response>> {
        Ok(Admission::default())
    }

    /// Whose token it is; nobody's if it does not hold.
    fn authenticate(&self, _token: &str) -> Option<Identity> {
        None
    }

    /// Answers one.
    fn answer(&self, request: Request) -> Pin<Box<dyn Future<Output = Response> + Send + '_>>;
}
