//! Bodies of requests, read in bounded time and memory.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body::Body as _;
use hyper::body::Incoming;
use setpoint_api::status::Status;

use super::budget::Reservation;
use super::{BODY_BYTES_PER_SECOND, BODY_DISCARD_MAX, BODY_GRACE, Bounds};

/// Failure to read a body.
enum ReadError {
    /// The body exceeds its maximum size.
    TooLarge,
    /// The byte budget is exhausted.
    NoRoom,
    /// The connection failed.
    Http(hyper::Error),
}

/// Reads a body. Its bytes count against `bodies` as they arrive.
pub(super) async fn read(body: Incoming, bounds: &Bounds, bodies: &mut Reservation) -> Result<Bytes, Status> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let max = bounds.body_bytes;
    let too_large = || Status::request_entity_too_large(format_args!("limit is {max}"));
    if body.size_hint().lower() > (max + BODY_DISCARD_MAX) as u64 {
        return Err(too_large());
    }
    let timeout = timeout(&body, bounds);
    match tokio::time::timeout(timeout, collect(body, max, bodies)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(ReadError::TooLarge)) => Err(too_large()),
        Ok(Err(ReadError::NoRoom)) => Err(Status::too_many_requests(
            "Too many bytes of request bodies in flight, please try again later.",
            1,
        )),
        Ok(Err(ReadError::Http(error))) => {
            Err(Status::bad_request(format!("cannot read the body of the request: {error}")))
        }
        Err(_) => {
            let seconds = timeout.as_secs_f32();
            let message = format!("the body of the request did not arrive within {seconds} seconds");
            Err(Status::unclassified(StatusCode::REQUEST_TIMEOUT.as_u16(), message))
        }
    }
}

/// Time for a body: it grows with the announced length.
fn timeout(body: &Incoming, bounds: &Bounds) -> Duration {
    match body.size_hint().exact() {
        Some(bytes) => {
            bounds.body_timeout.min(BODY_GRACE + Duration::from_secs(bytes / BODY_BYTES_PER_SECOND))
        }
        None => bounds.body_timeout,
    }
}

/// Collects a body. A body in one chunk is not copied.
///
/// An oversized body is read on for a while: a client that is still writing would not read the response.
async fn collect(mut body: Incoming, max: usize, bodies: &mut Reservation) -> Result<Bytes, ReadError> {
    let mut first = Bytes::new();
    let mut joined = BytesMut::new();
    let mut received = 0;
    let mut failure = None;
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(data) = frame.map_err(ReadError::Http)?.into_data() else { continue };
        received += data.len();
        if received > max + BODY_DISCARD_MAX {
            return Err(failure.unwrap_or(ReadError::TooLarge));
        } else if failure.is_some() {
            continue;
        } else if received > max || !bodies.grow(data.len()) {
            failure = Some(if received > max { ReadError::TooLarge } else { ReadError::NoRoom });
            (first, joined) = (Bytes::new(), BytesMut::new());
            bodies.clear();
        } else if first.is_empty() && joined.is_empty() {
            first = data;
        } else {
            if joined.is_empty() {
                // Memory for bytes that have arrived, not for the announced length, which costs the client nothing.
                joined.reserve(2 * (first.len() + data.len()));
                joined.extend_from_slice(&first);
            }
            joined.extend_from_slice(&data);
        }
    }
    match failure {
        Some(failure) => Err(failure),
        None if joined.is_empty() => Ok(first),
        None => Ok(joined.freeze()),
    }
}
