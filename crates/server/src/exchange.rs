//! Interface between the HTTP server and the API: requests, responses, identity and the [`Service`] trait. Free of
//! sockets.

use std::borrow::Borrow;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};

use crate::aggregation::{ForwardedBody, UpgradeRequest};
use crate::audit::Auditor;
use crate::authentication::{Authenticated, Authentication, Pending, Unauthenticated};
use crate::encoded_chunk::EncodedChunk;
use crate::fairness::Seats;
use crate::inflight::InflightPermit;
use crate::pipeline::admission::AuditAnnotations;

pub use setpoint_api::Identity;

/// One request, its body read and bounded.
#[derive(Clone, Debug)]
pub struct Request {
    /// HTTP method.
    pub method: Method,
    /// Path as sent, still percent-encoded.
    pub path: String,
    /// Query as sent, without the question mark.
    pub query: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// Authenticated user; the impersonated one if the request impersonates.
    pub identity: Identity,
    /// Authenticated user of a request that impersonates.
    pub impersonator: Option<Identity>,
    /// Verb of the constrained mode that permits the impersonation; empty otherwise.
    pub impersonation_constraint: &'static str,
    /// Audit annotations of admission; filled in while the request is handled.
    pub annotations: AuditAnnotations,
}

/// Proof by the certificate of a connection, at the time of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateProof {
    /// User; `None` if the certificate names none. The error tells why the certificate is not valid for users.
    pub identity: Result<Option<Identity>, String>,
    /// Common name of an authenticating proxy; `None` if the certificate is not that of one.
    pub proxy: Option<String>,
}

/// Credentials of a request.
#[derive(Clone, Debug)]
pub struct Credentials<'a> {
    /// Headers of the request.
    pub headers: &'a HeaderMap,
    /// Path of the request.
    pub path: &'a str,
    /// Proof of the connection's certificate; `None` without a certificate.
    pub certificate: Option<CertificateProof>,
}

/// A response.
pub struct Response {
    /// Status code.
    pub status: StatusCode,
    /// Headers; length and date are added by the HTTP server.
    pub headers: HeaderMap,
    /// The body.
    pub body: Payload,
}

/// Body of a response.
pub enum Payload {
    /// A body in consecutive parts.
    Whole(Vec<BodyPart>),
    /// A large body that is encoded chunk by chunk while it is sent.
    Chunked(Box<dyn Chunks>),
    /// A stream that ends by itself or with the connection.
    Stream(Box<dyn Frames>),
}

impl Payload {
    /// Returns the bytes of memory that the body holds beside stored objects.
    #[must_use]
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Payload::Whole(parts) => parts.iter().map(BodyPart::held_bytes).sum(),
            Payload::Chunked(chunks) => chunks.held_bytes(),
            Payload::Stream(_) => 0,
        }
    }
}

/// A part of a body.
#[derive(Clone)]
pub enum BodyPart {
    /// Bytes that were encoded for this body.
    Encoded(Bytes),
    /// Bytes that are shared with a record.
    Stored(Bytes),
    /// A chunk of a list, which other responses send too.
    Shared(Arc<EncodedChunk>),
}

impl BodyPart {
    fn held_bytes(&self) -> usize {
        let encoded = if let BodyPart::Encoded(bytes) = self { bytes.len() } else { 0 };
        size_of::<BodyPart>() + encoded
    }

    /// Returns the bytes.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        match self {
            BodyPart::Encoded(bytes) | BodyPart::Stored(bytes) => bytes,
            BodyPart::Shared(chunk) => chunk.bytes.clone(),
        }
    }
}

impl Deref for BodyPart {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            BodyPart::Encoded(bytes) | BodyPart::Stored(bytes) => bytes,
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
        BodyPart::Encoded(bytes.into())
    }
}

/// A stream of frames: a watch or a followed log.
pub trait Frames: Send {
    /// Returns the next frame; `None` at the end. Everything that is ready belongs into one frame.
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>>;

    /// `true` if the stream ended early, so that its end must not look complete to the client.
    fn has_failed(&self) -> bool {
        false
    }

    /// `true` once the stream has taken what it began with: only events that happen from now on follow. A request
    /// occupies its seats until then.
    fn is_initialized(&self) -> bool {
        true
    }
}

/// Encoder of a large body. Each chunk costs a bounded amount of work, so that many encoders can share a thread.
pub trait Chunks: Send {
    /// Returns the next chunk, which may be empty; `None` at the end.
    fn next_chunk(&mut self) -> Option<BodyPart>;

    /// Returns the bytes of memory that the encoder holds until it is dropped.
    fn held_bytes(&self) -> usize;
}

/// Permission to process a request.
#[derive(Default)]
pub struct RequestPermit {
    /// Held until the last byte of the response is sent.
    pub permit: InflightPermit,
    /// Estimated cost if the body is smaller than [`LARGE_BYTES`].
    pub cost: Cost,
}

/// Seats of a request, or the wait for them.
pub enum Admission<'a> {
    /// The request may continue.
    Seated(Seats),
    /// The request must wait. It gives up when this is dropped.
    Queued(Pin<Box<dyn Future<Output = Result<Seats, Box<Response>>> + Send + 'a>>),
}

/// Bytes of a body or a stored object from which on a request is large: about a millisecond of work.
pub(crate) const LARGE_BYTES: usize = 32 * 1024;

/// Estimated cost of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cost {
    /// Well below a millisecond: runs on the reactor that read the request.
    #[default]
    Small,
    /// May take longer: runs on a worker, so that the reactor's other connections do not wait for it.
    Large,
}

/// A handler of requests.
pub trait Service: Send + Sync + 'static {
    /// Takes the seats of a request by its head, or queues it: its body is empty here, and is read only if this and
    /// [`Service::authorize`] succeed.
    ///
    /// # Errors
    /// The response, if the request is rejected at once.
    fn take_seats<'a>(&'a self, _head: &'a Request) -> Result<Admission<'a>, Box<Response>> {
        Ok(Admission::Seated(Seats::default()))
    }

    /// Authorizes a request by its head: its body is empty here, and is read only if this succeeds. Runs before
    /// [`Service::admit`], and may wait for other processes.
    ///
    /// # Errors
    /// The response, if the request is forbidden.
    fn authorize<'a>(
        &'a self,
        _head: &'a Request,
    ) -> Pin<Box<dyn Future<Output = Result<(), Box<Response>>> + Send + 'a>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Admits a request by its head: its body is empty here, and is read only if this succeeds.
    ///
    /// # Errors
    /// The response, if too many requests are in flight.
    fn admit(&self, _head: &Request) -> Result<RequestPermit, Box<Response>> {
        Ok(RequestPermit::default())
    }

    /// Auditor of the requests; `None` if none are audited.
    fn auditor(&self) -> Option<&Arc<Auditor>> {
        None
    }

    /// Authenticates a request. By default only certificates do.
    fn authenticate<'a>(&'a self, credentials: &Credentials<'_>) -> Authentication<'a> {
        let proved = credentials.certificate.as_ref().and_then(|proof| proof.identity.clone().ok().flatten());
        let identity = proved.map(Authenticated::from);
        Pending::Ready(identity.ok_or_else(|| Unauthenticated(Vec::new())))
    }

    /// Removes the credentials from the headers of an authenticated request.
    fn strip_credentials(&self, _headers: &mut HeaderMap) {}

    /// Replaces the user of a request with headers of impersonation. Runs before [`Service::authorize`].
    ///
    /// # Errors
    /// The response, if the impersonation is forbidden.
    fn impersonate<'a>(
        &'a self,
        _head: &'a mut Request,
    ) -> Pin<Box<dyn Future<Output = Result<(), Box<Response>>> + Send + 'a>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// `true` if [`Service::forward`] handles a request, with its body unread.
    fn is_forwarded(&self, _head: &Request) -> bool {
        false
    }

    /// Handles a request whose body is not read. An upgrade takes over the client's connection.
    fn forward(
        &self,
        request: Request,
        _body: ForwardedBody,
        _upgrade: Option<UpgradeRequest>,
    ) -> Pin<Box<dyn Future<Output = Response> + Send + '_>> {
        self.answer(request)
    }

    /// Handles a request.
    fn answer(&self, request: Request) -> Pin<Box<dyn Future<Output = Response> + Send + '_>>;
}
