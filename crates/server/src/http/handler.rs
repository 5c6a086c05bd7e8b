//! One request: who asks, what they send, what they get.

use std::convert::Infallible;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Response, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use setpoint_api::status::Status;
use tokio::time::Instant;

use super::body::{Active, Outgoing};
use super::connection::Connection;
use super::{BODY_DISCARD_MAX, Bounds, HEADER_BYTES_MAX, HEADERS_MAX, Shared};
use crate::answers;
use crate::exchange::{Answer, Body, Request, Service};
use crate::inflight::Place;
use crate::uuid;

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
/// How long an answer may take before it is worth a line.
const SLOW: Duration = Duration::from_secs(1);
const UNCACHED: HeaderValue = HeaderValue::from_static("no-cache, private");

/// Answers one request. It cannot fail: whatever goes wrong becomes a `Status`.
pub(super) async fn handle(
    connection: Arc<Connection>,
    request: http::Request<Incoming>,
) -> Result<Response<Outgoing>, Infallible> {
    let active = Active::begin(Arc::clone(&connection));
    let shared = &connection.shared;
    let (parts, body) = request.into_parts();
    let id = audit_id(shared, &parts.headers);
    let accepts_gzip = super::body::accepts_gzip(&parts.headers);
    let method = parts.method.clone();
    let answer = match admit(&connection, parts, body).await {
        Ok((request, _place)) => contained(shared, request).await,
        Err(status) => answers::status(&status),
    };
    Ok(respond(answer, &method, id, accepts_gzip, active))
}

/// Turns what came over the wire into a request, or says why not.
async fn admit(
    connection: &Connection,
    parts: http::request::Parts,
    body: Incoming,
) -> Result<(Request, Place), Status> {
    let token = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let identity = match token.and_then(|value| value.strip_prefix("Bearer ")) {
        Some(token) if connection.identity.is_none() => connection.shared.service.authenticate(token.trim()),
        _ => connection.identity.clone(),
    };
    let identity = identity.ok_or_else(|| Status::unauthorized("Unauthorized"))?;
    check_headers(&parts.headers)?;
    let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
    let place = connection.shared.service.enter(&parts.method, path, query)?;
    let body = read(body, &connection.shared.bounds).await?;
    connection.activity.moved();
    let request = Request {
        path: path.to_owned(),
        query: query.to_owned(),
        method: parts.method,
        headers: parts.headers,
        body,
        identity,
    };
    Ok((request, place))
}

/// Refuses headers beyond the bounds. The library that reads HTTP/1.1 has stricter ones of its own.
fn check_headers(headers: &HeaderMap) -> Result<(), Status> {
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    let message = if headers.len() > HEADERS_MAX {
        format!("the request has more than {HEADERS_MAX} header fields")
    } else if bytes > HEADER_BYTES_MAX {
        format!("the header fields of the request take more than {HEADER_BYTES_MAX} bytes")
    } else {
        return Ok(());
    };
    Err(Status::unclassified(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE.as_u16(), message))
}

/// Reads a body of bounded size in bounded time.
async fn read(body: Incoming, bounds: &Bounds) -> Result<Bytes, Status> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let max = bounds.body_bytes;
    let too_large = || Status::request_entity_too_large(format_args!("limit is {max}"));
    if body.size_hint().lower() > (max + BODY_DISCARD_MAX) as u64 {
        return Err(too_large());
    }
    match tokio::time::timeout(bounds.body_timeout, collect(body, max)).await {
        Ok(Ok(Some(body))) => Ok(body),
        Ok(Ok(None)) => Err(too_large()),
        Ok(Err(error)) => Err(Status::bad_request(format!("cannot read the body of the request: {error}"))),
        Err(_) => {
            let seconds = bounds.body_timeout.as_secs_f32();
            let message = format!("the body of the request did not arrive within {seconds} seconds");
            Err(Status::unclassified(StatusCode::REQUEST_TIMEOUT.as_u16(), message))
        }
    }
}

/// All of a body; none if it is larger than `max`. A body in one piece is not copied.
///
/// One that is too large is read on for a while: a client that still writes would not see the answer.
async fn collect(mut body: Incoming, max: usize) -> Result<Option<Bytes>, hyper::Error> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    let mut seen = 0;
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(data) = frame?.into_data() else { continue };
        seen += data.len();
        if seen > max + BODY_DISCARD_MAX {
            return Ok(None);
        } else if seen > max {
            (first, rest) = (Bytes::new(), BytesMut::new());
        } else if first.is_empty() && rest.is_empty() {
            first = data;
        } else {
            if rest.is_empty() {
                rest.reserve(first.len().saturating_add(body.size_hint().lower() as usize).min(max));
                rest.extend_from_slice(&first);
            }
            rest.extend_from_slice(&data);
        }
    }
    let whole = if rest.is_empty() { first } else { rest.freeze() };
    Ok((seen <= max).then_some(whole))
}

/// The answer of the service, whatever becomes of it.
async fn contained(shared: &Shared, request: Request) -> Answer {
    let (method, path) = (request.method.clone(), request.path.clone());
    let begun = Instant::now();
    match guarded(&*shared.service, request).await {
        Some(answer) => {
            let (code, took) = (answer.status.as_u16(), begun.elapsed());
            // What this server cannot do, and says so, is no failure of it.
            if code >= 500 && code != 501 {
                tracing::warn!(%method, %path, code, ?took, "a request failed");
            } else if took >= SLOW {
                tracing::info!(%method, %path, code, ?took, "a request was slow");
            } else {
                tracing::debug!(%method, %path, code, ?took, "request");
            }
            answer
        }
        None => {
            shared.counters.panicked();
            tracing::error!(%method, %path, "the request made the server panic");
            answers::status(&Status::internal_error("this request made the server panic: its log tells more"))
        }
    }
}

/// The answer of the service; none if it panicked.
///
/// The service must hold whatever it shares with other requests to its own standard of being safe to unwind;
/// its locks do not poison.
async fn guarded(service: &dyn Service, request: Request) -> Option<Answer> {
    let mut answering = catch_unwind(AssertUnwindSafe(|| service.answer(request))).ok()?;
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| answering.as_mut().poll(context))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(answer)) => Poll::Ready(Some(answer)),
        Err(_) => Poll::Ready(None),
    })
    .await
}

fn respond(
    answer: Answer,
    method: &Method,
    id: HeaderValue,
    accepts_gzip: bool,
    active: Active,
) -> Response<Outgoing> {
    let Answer { status, mut headers, body } = answer;
    headers.entry(AUDIT_ID).or_insert(id);
    headers.entry(CACHE_CONTROL).or_insert(UNCACHED);
    let body = match body {
        Body::Whole(parts) if *method == Method::HEAD => {
            let bytes: usize = parts.iter().map(|part| part.len()).sum();
            headers.entry(CONTENT_LENGTH).or_insert_with(|| bytes.into());
            Outgoing::new(Body::Whole(Vec::new()), &mut headers, false, active)
        }
        body => Outgoing::new(body, &mut headers, accepts_gzip, active),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// The id of a request: the client's own, or one in the form of a version 4 UUID.
fn audit_id(shared: &Shared, headers: &HeaderMap) -> HeaderValue {
    if let Some(id) = headers.get(AUDIT_ID).filter(|id| !id.is_empty()) {
        return id.clone();
    }
    let number = shared.requests.fetch_add(1, Ordering::Relaxed);
    let high = mixed(shared.seed ^ number);
    let low = mixed(shared.seed.rotate_left(32).wrapping_add(number));
    let id = uuid::text(high, low);
    HeaderValue::from_maybe_shared(Bytes::from(id)).expect("an id is made of hexadecimal digits and hyphens")
}

/// The finalizer of SplitMix64: neighbours go far apart, no two numbers meet.
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
