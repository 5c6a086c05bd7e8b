//! Request handler: authenticates and authorizes by the head, then reads the body, runs the service and responds.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, DATE, HOST, HeaderName, HeaderValue, UPGRADE};
use http::uri::Authority;
use http::{HeaderMap, Method, StatusCode, Version};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use parking_lot::Mutex;
use setpoint_api::status::Status;
use setpoint_authentication::impersonation::has_headers as has_impersonation_headers;
use setpoint_authentication::user::ANONYMOUS;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::body::{ActiveRequest, ResponseBody, ResponseResources};
use super::connection::Connection;
use super::{HEADER_BYTES_MAX, HEADERS_MAX, Phase, Shared, date, request_body};
use crate::aggregation::{ForwardedBody, UpgradeRequest};
use crate::audit::{AuditedRequest, Auditor, RequestOrigin};
use crate::authentication::{Authenticated, Unauthenticated};
use crate::exchange::{
    Admission, Cost, Credentials, Identity, LARGE_BYTES, Payload, Request, RequestPermit, Response,
};
use crate::fairness::Seats;
use crate::inflight::InflightPermit;
use crate::responses;
use crate::uuid;

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
/// Duration from which on a request is logged as slow.
const SLOW: Duration = Duration::from_secs(1);
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache, private");

/// Handles one request. Every failure becomes a `Status`.
pub(super) async fn handle(
    connection: Arc<Connection>,
    request: http::Request<Incoming>,
) -> Result<http::Response<ResponseBody>, Infallible> {
    let active = ActiveRequest::begin(Arc::clone(&connection));
    let shared = &connection.shared;
    let (mut parts, body) = request.into_parts();
    let on_upgrade = parts.extensions.remove::<OnUpgrade>();
    let id = audit_id(shared, &parts.headers);
    let accepts_gzip = super::body::accepts_gzip(&parts.headers);
    let (method, now) = (parts.method.clone(), date::unix_seconds());
    let (mut warning, mut audited) = (None, None);
    let (mut response, resources) = match admit(&connection, parts, (now, &id), &mut audited).await {
        Ok(admitted) => {
            let AdmittedRequest { mut request, permit, seats, .. } = admitted;
            warning = admitted.warning;
            let mut resources = ResponseResources::new(active);
            resources.seats = seats;
            if shared.service.is_forwarded(&request) {
                // Its events and those of the extension API server have the same id.
                request.headers.insert(AUDIT_ID, id.clone());
                let body = (body, on_upgrade);
                forward(&connection, request, body, permit.permit, resources, &mut audited).await
            } else {
                handle_admitted(&connection, request, body, permit, resources, &mut audited).await
            }
        }
        Err(error) => (*error, ResponseResources::new(active)),
    };
    if let Some(warning) = warning {
        responses::warn(&mut response, &[warning.to_owned()]);
    }
    resources.seats.add_headers(&mut response.headers);
    if let Some(audited) = audited {
        response = audited.respond(response).await;
    }
    Ok(respond(response, &method, (id, now), accepts_gzip, resources))
}

/// Request whose head was accepted, with what it holds until its response is sent.
struct AdmittedRequest {
    request: Request,
    permit: RequestPermit,
    seats: Seats,
    /// Warning about the credentials.
    warning: Option<&'static str>,
}

/// Authenticates a request by its head, waits for its seats, authorizes it, and takes an in-flight permit. Its body is
/// not read yet.
async fn admit(
    connection: &Connection,
    mut parts: http::request::Parts,
    (now, id): (u64, &HeaderValue),
    audited: &mut Option<AuditedRequest>,
) -> Result<AdmittedRequest, Box<Response>> {
    let reject = |status: Status| Box::new(responses::status(&status));
    check_target(&parts).map_err(reject)?;
    check_host(&parts).map_err(reject)?;
    let service = &connection.shared.service;
    let id = String::from_utf8_lossy(id.as_bytes());
    let auditing = service.auditor().map(|auditor| {
        let (audit_id, peer, received_at) = (&*id, Some(connection.peer), auditor.now());
        (auditor, RequestOrigin { audit_id, peer, received_at })
    });
    let Authenticated { identity, warning, .. } = authenticate(connection, &parts, now, auditing).await?;
    let checked = check_slot(connection, &identity).and_then(|()| check_headers(&parts.headers));
    service.strip_credentials(&mut parts.headers);
    let mut request = Request {
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        method: parts.method,
        headers: parts.headers,
        body: Bytes::new(),
        identity,
        impersonator: None,
        impersonation_constraint: "",
        annotations: Default::default(),
    };
    if let Some((auditor, origin)) = auditing {
        *audited = begin_audit(auditor, &mut request, origin).await.map_err(reject)?;
    }
    checked.map_err(reject)?;
    if has_impersonation_headers(&request.headers) {
        service.impersonate(&mut request).await?;
        if let Some(audited) = audited {
            audited.set_impersonation(&request);
        }
    }
    let seats = match service.take_seats(&request)? {
        Admission::Seated(seats) => seats,
        Admission::Queued(waiting) => waiting.await?,
    };
    let permit = match service.authorize(&request).await {
        Ok(()) => service.admit(&request),
        Err(error) => Err(error),
    };
    match permit {
        Ok(permit) => Ok(AdmittedRequest { request, permit, seats, warning }),
        Err(mut error) => {
            seats.add_headers(&mut error.headers);
            Err(error)
        }
    }
}

/// Authenticates a request by its head. A failure is audited.
async fn authenticate(
    connection: &Connection,
    parts: &http::request::Parts,
    now: u64,
    auditing: Option<(&Arc<Auditor>, RequestOrigin<'_>)>,
) -> Result<Authenticated, Box<Response>> {
    let certificate = connection.certificate.as_ref().map(|certificate| certificate.proof(now));
    let has_certificate = certificate.is_some();
    let credentials = Credentials { headers: &parts.headers, path: parts.uri.path(), certificate };
    match connection.shared.service.authenticate(&credentials).wait().await {
        Ok(authenticated) => Ok(authenticated),
        Err(Unauthenticated(errors)) => {
            tracing::debug!(?errors, "request is not authenticated");
            if let Some((auditor, origin)) = auditing {
                auditor.record_unauthenticated(parts, has_certificate, origin).await;
            }
            Err(Box::new(responses::status(&Status::unauthorized("Unauthorized"))))
        }
    }
}

/// Begins the audit of a request; 500 if a strict backend cannot record it.
async fn begin_audit(
    auditor: &Arc<Auditor>,
    request: &mut Request,
    origin: RequestOrigin<'_>,
) -> Result<Option<AuditedRequest>, Status> {
    match auditor.begin(request, origin) {
        Some(audited) => match audited.receive().await {
            Some(audited) => Ok(Some(audited)),
            None => Err(Status::internal_error("failed to store audit event")),
        },
        None => Ok(None),
    }
}

/// 429 for an authenticated connection beyond their maximum.
fn check_slot(connection: &Connection, identity: &Identity) -> Result<(), Status> {
    // Anyone can be anonymous, so anonymous connections stay among those that make room for others.
    if identity.user != ANONYMOUS && !connection.auth_state.authenticate(&connection.shared) {
        return Err(Status::too_many_requests("Too many connections, please try again later.", 1));
    }
    Ok(())
}

/// Reads the body of an admitted request, and runs the service.
async fn handle_admitted(
    connection: &Connection,
    mut request: Request,
    body: Incoming,
    RequestPermit { permit, mut cost }: RequestPermit,
    mut resources: ResponseResources,
    audited: &mut Option<AuditedRequest>,
) -> (Response, ResponseResources) {
    let shared = &connection.shared;
    resources.permit = permit;
    let mut bodies = shared.bodies.reserve(&request.identity.user);
    match request_body::read(body, &shared.bounds, &mut bodies).await {
        Ok(body) => request.body = body,
        Err(status) => return (responses::status(&status), resources),
    }
    connection.activity.record_progress();
    if let Some(audited) = audited {
        audited.set_body(&request);
    }
    if request.body.len() >= LARGE_BYTES {
        cost = Cost::Large;
    }
    let is_read = matches!(request.method, Method::GET | Method::HEAD);
    let mut bytes = shared.responses.reserve(&request.identity.user);
    let response = run_service(shared, request, cost, audited).await;
    // The response to a write is sent in any case if its commit has succeeded.
    let has_effect = !is_read && response.status.is_success();
    if !bytes.grow(response.body.held_bytes()) && !has_effect {
        let status =
            Status::too_many_requests("Too many large responses in flight, please try again later.", 1);
        return (responses::status(&status), resources);
    }
    resources.bytes = Some(bytes);
    (response, resources)
}

/// Forwards an admitted request with its body unread.
async fn forward(
    connection: &Connection,
    request: Request,
    (body, on_upgrade): (Incoming, Option<OnUpgrade>),
    permit: InflightPermit,
    mut resources: ResponseResources,
    audited: &mut Option<AuditedRequest>,
) -> (Response, ResponseResources) {
    let shared = &connection.shared;
    if resources.seats.is_of_watch() || on_upgrade.is_some() && request.headers.contains_key(UPGRADE) {
        // The extension API server has priority levels of its own for what lasts.
        resources.seats.release();
    }
    let (method, path) = (request.method.clone(), request.path.clone());
    let tunnel_audit: Arc<Mutex<Option<AuditedRequest>>> = Arc::default();
    let upgrade = match on_upgrade.filter(|_| request.headers.contains_key(UPGRADE)) {
        Some(upgrade) => {
            let mut phase = connection.phase.clone();
            let draining = Box::pin(async move {
                // A closed channel means the end of the server.
                let _ = phase.wait_for(|phase| *phase != Phase::Serving).await;
            });
            // The tunnel keeps the permit and the slot of its connection, and is audited when it ends.
            let held = Box::new((permit, Arc::clone(&connection.auth_state), Arc::clone(&tunnel_audit)));
            Some(UpgradeRequest { connection: upgrade, resources: held, draining })
        }
        None => {
            resources.permit = permit;
            None
        }
    };
    let body = ForwardedBody::Streamed(body);
    let response = catch_panic(|| shared.service.forward(request, body, upgrade)).await;
    let response = response.unwrap_or_else(|| panicked(shared, &method, &path, audited));
    if response.status == StatusCode::SWITCHING_PROTOCOLS
        && let Some(mut audited) = audited.take()
    {
        audited.open_tunnel().await;
        *tunnel_audit.lock() = Some(audited);
    }
    tracing::debug!(%method, %path, code = response.status.as_u16(), "forwarded request");
    (response, resources)
}

/// 500 for a request that panicked.
fn panicked(shared: &Shared, method: &Method, path: &str, audited: &mut Option<AuditedRequest>) -> Response {
    if let Some(audited) = audited {
        audited.set_panicked();
    }
    shared.counters.panicked();
    tracing::error!(%method, %path, "panic in a request");
    responses::status(&Status::internal_error("the server panicked while handling this request: see its log"))
}

/// 400 for a target that is no path: `*`, or the authority of a CONNECT.
fn check_target(parts: &http::request::Parts) -> Result<(), Status> {
    if parts.uri.path().starts_with('/') {
        return Ok(());
    }
    Err(Status::bad_request("the target of the request must be a path"))
}

/// 400 for an HTTP/1.1 request without exactly one `Host`, as RFC 9112 requires, and for an HTTP/2 request whose `Host`
/// differs from its authority, as RFC 9113 recommends: a proxy and this server could take it for different hosts.
fn check_host(parts: &http::request::Parts) -> Result<(), Status> {
    let mut hosts = parts.headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (_, Some(_)) => Err(Status::bad_request("too many Host headers")),
        (None, None) if parts.version == Version::HTTP_11 => {
            Err(Status::bad_request("missing required Host header"))
        }
        (Some(host), None) if parts.version == Version::HTTP_2 => {
            let is_same =
                |authority: &Authority| host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes());
            if parts.uri.authority().is_none_or(is_same) {
                Ok(())
            } else {
                Err(Status::bad_request("the Host header differs from the authority of the request"))
            }
        }
        _ => Ok(()),
    }
}

/// 431 for oversized headers. The HTTP/1.1 library has stricter bounds of its own.
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

/// Runs the service, on the reactor or a worker. A panic becomes a 500.
#[expect(clippy::disallowed_methods, reason = "the log shows durations in real time")]
async fn run_service(
    shared: &Shared,
    request: Request,
    cost: Cost,
    audited: &mut Option<AuditedRequest>,
) -> Response {
    let (method, path) = (request.method.clone(), request.path.clone());
    let started = Instant::now();
    let response = match cost {
        Cost::Small => catch_panic(|| shared.service.answer(request)).await,
        Cost::Large => {
            let service = Arc::clone(&shared.service);
            let response = shared.workers.spawn(async move { catch_panic(|| service.answer(request)).await });
            WorkerTask(response).await
        }
    };
    match response {
        Some(response) => {
            let (code, took) = (response.status.as_u16(), started.elapsed());
            // 501 for unimplemented endpoints is not a failure.
            if code >= 500 && code != 501 {
                tracing::warn!(%method, %path, code, ?took, "request failed");
            } else if took >= SLOW {
                tracing::info!(%method, %path, code, ?took, "slow request");
            } else {
                tracing::debug!(%method, %path, code, ?took, "request");
            }
            response
        }
        None => panicked(shared, &method, &path, audited),
    }
}

/// A task on a worker, aborted when the connection is closed.
pub(super) struct WorkerTask<T>(pub JoinHandle<Option<T>>);

impl<T> Future for WorkerTask<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        Pin::new(&mut self.0).poll(context).map(|finished| finished.ok().flatten())
    }
}

impl<T> Drop for WorkerTask<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs the service; `None` if it panics.
///
/// The service must keep state that requests share consistent when it unwinds; its locks do not poison.
async fn catch_panic<'a>(
    start: impl FnOnce() -> Pin<Box<dyn Future<Output = Response> + Send + 'a>>,
) -> Option<Response> {
    let mut response = catch_unwind(AssertUnwindSafe(start)).ok()?;
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| response.as_mut().poll(context))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(response)) => Poll::Ready(Some(response)),
        Err(_) => Poll::Ready(None),
    })
    .await
}

fn respond(
    response: Response,
    method: &Method,
    (id, now): (HeaderValue, u64),
    accepts_gzip: bool,
    resources: ResponseResources,
) -> http::Response<ResponseBody> {
    let Response { status, mut headers, body } = response;
    headers.entry(AUDIT_ID).or_insert(id);
    headers.entry(CACHE_CONTROL).or_insert(NO_CACHE);
    headers.insert(DATE, date::header(now));
    let body = match body {
        Payload::Whole(parts) if *method == Method::HEAD => {
            let bytes: usize = parts.iter().map(|part| part.len()).sum();
            headers.entry(CONTENT_LENGTH).or_insert_with(|| bytes.into());
            ResponseBody::new(Payload::Whole(Vec::new()), &mut headers, false, resources)
        }
        _ if *method == Method::HEAD => {
            ResponseBody::new(Payload::Whole(Vec::new()), &mut headers, false, resources)
        }
        body => ResponseBody::new(body, &mut headers, accepts_gzip, resources),
    };
    let mut response = http::Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Audit id of a request: the client's own, or a random UUID.
fn audit_id(shared: &Shared, headers: &HeaderMap) -> HeaderValue {
    if let Some(id) = headers.get(AUDIT_ID).filter(|id| !id.is_empty()) {
        return id.clone();
    }
    let number = shared.requests.fetch_add(1, Ordering::Relaxed);
    let high = mix(shared.seed ^ number);
    let low = mix(shared.seed.rotate_left(32).wrapping_add(number));
    let id = uuid::text(high, low);
    HeaderValue::from_maybe_shared(Bytes::from(id)).expect("an id is made of hexadecimal digits and hyphens")
}

/// Finalizer of SplitMix64: a bijection that spreads consecutive numbers.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
