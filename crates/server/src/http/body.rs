//! Response bodies: whole, encoded by a worker, or streamed, with compression and accounting.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap, HeaderValue, VARY};
use http_body::{Frame, SizeHint};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::Phase;
use super::budget::Reservation;
use super::connection::Connection;
use super::handler::WorkerTask;
use crate::encoded_chunk::Gzip;
use crate::exchange::{BodyPart, Chunks, Frames, Payload};
use crate::fairness::Seats;
use crate::inflight::InflightPermit;

/// Size from which on a response is compressed, as upstream's.
const GZIP_BYTES_MIN: usize = 128 * 1024;
/// Small parts are merged up to this size: a few TLS records.
const CHUNK_BYTES: usize = 64 * 1024;
/// Chunks that a worker encodes ahead of the client.
const CHUNKS_AHEAD: usize = 2;

/// Error that aborts a response body, so that the client does not take it for complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ResponseAborted {
    /// The encoder or the stream panicked.
    #[error("the response body failed")]
    Panicked,
    /// The source of the stream ended early.
    #[error("the source of the response body ended early")]
    EndedEarly,
}

/// A request in progress. It ends with the last byte of its response, or with the connection.
pub(super) struct ActiveRequest {
    connection: Arc<Connection>,
    sending: bool,
}

impl ActiveRequest {
    pub fn begin(connection: Arc<Connection>) -> ActiveRequest {
        connection.activity.begin();
        ActiveRequest { connection, sending: false }
    }

    fn begin_sending(&mut self) {
        self.connection.activity.begin_sending();
        self.sending = true;
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        if self.sending {
            self.connection.activity.end_sending();
        }
        self.connection.activity.end();
    }
}

/// Resources that a response holds until its last byte is sent.
pub(super) struct ResponseResources {
    active: ActiveRequest,
    pub permit: InflightPermit,
    pub seats: Seats,
    pub bytes: Option<Reservation>,
}

impl ResponseResources {
    pub fn new(active: ActiveRequest) -> ResponseResources {
        ResponseResources { active, permit: InflightPermit::default(), seats: Seats::default(), bytes: None }
    }
}

/// Body of a response.
pub(super) struct ResponseBody {
    kind: ResponseKind,
    resources: ResponseResources,
}

enum ResponseKind {
    /// Parts as they are.
    Whole(PartsBody),
    /// Chunks that a worker encodes.
    Encoded(EncodedBody),
    /// Frames until the stream ends or the server drains.
    Stream(StreamBody),
    /// Complete.
    Ended,
}

impl ResponseBody {
    /// Creates a body, and sets the headers that describe it.
    pub fn new(
        body: Payload,
        headers: &mut HeaderMap,
        accepts_gzip: bool,
        mut resources: ResponseResources,
    ) -> ResponseBody {
        let connection = &resources.active.connection;
        let compress = accepts_gzip && !headers.contains_key(CONTENT_ENCODING);
        let kind = match body {
            Payload::Stream(frames) => {
                let mut phase = connection.phase.clone();
                let draining = Box::pin(async move {
                    // A closed channel means the end of the server.
                    let _ = phase.wait_for(|phase| *phase != Phase::Serving).await;
                });
                ResponseKind::Stream(StreamBody { frames, draining })
            }
            Payload::Whole(parts) => match PartsBody::new(parts) {
                parts if compress && parts.left >= GZIP_BYTES_MIN => ResponseKind::Encoded(
                    EncodedBody::start(Box::new(parts), Some(headers), &connection.shared.workers),
                ),
                parts => ResponseKind::Whole(parts),
            },
            Payload::Chunked(chunks) => {
                let headers = compress.then_some(headers);
                ResponseKind::Encoded(EncodedBody::start(chunks, headers, &connection.shared.workers))
            }
        };
        if !matches!(kind, ResponseKind::Stream(_)) {
            resources.active.begin_sending();
        }
        ResponseBody { kind, resources }
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = ResponseAborted;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ResponseAborted>>> {
        let this = &mut *self;
        let next = match &mut this.kind {
            ResponseKind::Whole(parts) => Ok(parts.next_chunk()),
            ResponseKind::Encoded(encoded) => match encoded.poll_next(context) {
                Poll::Ready(next) => next,
                Poll::Pending => return Poll::Pending,
            },
            ResponseKind::Stream(stream) => {
                let polled = stream.poll_next(context);
                if this.resources.seats.are_occupied() && stream.frames.is_initialized() {
                    this.resources.seats.release();
                }
                match polled {
                    Poll::Ready(next) => next,
                    Poll::Pending => return Poll::Pending,
                }
            }
            ResponseKind::Ended => Ok(None),
        };
        this.resources.active.connection.activity.record_progress();
        if let Err(ResponseAborted::Panicked) = next {
            this.resources.active.connection.shared.counters.panicked();
            tracing::error!("panic in a response body");
        }
        if !matches!(next, Ok(Some(_))) {
            this.kind = ResponseKind::Ended;
        }
        Poll::Ready(next.transpose().map(|next| next.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            ResponseKind::Whole(parts) => parts.left == 0,
            ResponseKind::Encoded(_) | ResponseKind::Stream(_) => false,
            ResponseKind::Ended => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            ResponseKind::Whole(parts) => SizeHint::with_exact(parts.left as u64),
            ResponseKind::Encoded(_) | ResponseKind::Stream(_) => SizeHint::default(),
            ResponseKind::Ended => SizeHint::with_exact(0),
        }
    }
}

/// A body in consecutive parts.
struct PartsBody {
    parts: std::vec::IntoIter<BodyPart>,
    left: usize,
}

impl PartsBody {
    fn new(parts: Vec<BodyPart>) -> PartsBody {
        let left = parts.iter().map(|part| part.len()).sum();
        PartsBody { parts: parts.into_iter(), left }
    }

    /// Returns the next part, or several small ones merged. A large or single part is not copied.
    fn next_chunk(&mut self) -> Option<Bytes> {
        let first = self.parts.by_ref().find(|part| !part.is_empty())?;
        let fits = |length: usize, next: &BodyPart| length + next.len() <= CHUNK_BYTES;
        if self.parts.as_slice().first().is_none_or(|next| !fits(first.len(), next)) {
            self.left -= first.len();
            return Some(first.into_bytes());
        }
        let mut chunk = BytesMut::with_capacity(self.left.min(CHUNK_BYTES));
        chunk.extend_from_slice(&first);
        while self.parts.as_slice().first().is_some_and(|next| fits(chunk.len(), next)) {
            chunk.extend_from_slice(&self.parts.next().expect("the slice is not empty"));
        }
        self.left -= chunk.len();
        Some(chunk.freeze())
    }
}

impl Chunks for PartsBody {
    fn next_chunk(&mut self) -> Option<BodyPart> {
        // A shared part is kept apart, so that it is compressed once.
        if let Some(BodyPart::Shared(_)) = self.parts.as_slice().first() {
            let shared = self.parts.next()?;
            self.left -= shared.len();
            return Some(shared);
        }
        PartsBody::next_chunk(self).map(BodyPart::Encoded)
    }

    fn held_bytes(&self) -> usize {
        0
    }
}

/// A body that a worker encodes and compresses chunk by chunk, at most [`CHUNKS_AHEAD`] ahead of the client.
struct EncodedBody {
    chunks: mpsc::Receiver<Option<Bytes>>,
    _encoding: WorkerTask<()>,
}

impl EncodedBody {
    /// Starts encoding. With `gzip_headers` the body is compressed, and its headers are set there.
    fn start(
        mut chunks: Box<dyn Chunks>,
        gzip_headers: Option<&mut HeaderMap>,
        workers: &Handle,
    ) -> EncodedBody {
        let mut gzip = gzip_headers.map(|headers| {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
            headers.remove(CONTENT_LENGTH);
            (Gzip::default(), Vec::new())
        });
        let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
        let encoding = workers.spawn(async move {
            loop {
                // After a panic the channel closes without an end, which aborts the body.
                let next = catch_unwind(AssertUnwindSafe(|| encode_next(&mut *chunks, &mut gzip))).ok()?;
                let is_last = next.is_none();
                if next.as_ref().is_none_or(|bytes| !bytes.is_empty()) {
                    sender.send(next).await.ok()?;
                }
                if is_last {
                    return Some(());
                }
                // Yield, so that other responses make progress.
                tokio::task::yield_now().await;
            }
        });
        EncodedBody { chunks: receiver, _encoding: WorkerTask(encoding) }
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, ResponseAborted>> {
        self.chunks.poll_recv(context).map(|next| next.ok_or(ResponseAborted::Panicked))
    }
}

/// Encodes the next chunk, which may be empty; `None` at the end. Compressed bytes accumulate until they fill a
/// chunk.
fn encode_next(chunks: &mut dyn Chunks, gzip: &mut Option<(Gzip, Vec<u8>)>) -> Option<Bytes> {
    let next = chunks.next_chunk();
    let Some((mut stream, mut out)) = gzip.take() else { return next.map(BodyPart::into_bytes) };
    match &next {
        None => {
            // `gzip` is `None` from here on, so the next call ends the body.
            stream.end(&mut out);
            return Some(out.into());
        }
        Some(BodyPart::Shared(chunk)) => stream.write_shared(chunk, &mut out),
        Some(chunk) if chunk.is_empty() => {}
        Some(chunk) => stream.write(chunk, &mut out),
    }
    let full = if out.len() >= CHUNK_BYTES / 2 { std::mem::take(&mut out) } else { Vec::new() };
    *gzip = Some((stream, out));
    Some(full.into())
}

/// Body of a stream, which ends when the server drains.
struct StreamBody {
    frames: Box<dyn Frames>,
    draining: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl StreamBody {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, ResponseAborted>> {
        match catch_unwind(AssertUnwindSafe(|| self.frames.poll_frame(context))) {
            Ok(Poll::Ready(None)) if self.frames.has_failed() => {
                Poll::Ready(Err(ResponseAborted::EndedEarly))
            }
            Ok(Poll::Ready(next)) => Poll::Ready(Ok(next)),
            Ok(Poll::Pending) => self.draining.as_mut().poll(context).map(|()| Ok(None)),
            Err(_) => Poll::Ready(Err(ResponseAborted::Panicked)),
        }
    }
}

/// `true` if the client accepts gzip by name with a non-zero quality.
pub(super) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let mut parameters = coding.split(';').map(str::trim);
        let is_gzip = parameters.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        let is_refused = parameters
            .filter_map(|parameter| parameter.strip_prefix("q="))
            .any(|quality| quality.trim().parse::<f32>().is_ok_and(|quality| quality <= 0.0));
        is_gzip && !is_refused
    })
}
