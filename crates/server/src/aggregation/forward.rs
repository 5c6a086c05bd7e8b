//! Forwarding of requests to extension API servers.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION,
    TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{StatusCode, Uri};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use setpoint_api::status::Status;
use setpoint_store::Snapshot;
use tokio::io::{AsyncWriteExt, copy_bidirectional_with_sizes};

use super::Aggregation;
use super::backend::{BackendError, ConnectionLease, ForwardedBody};
use super::registry::RemoteApiService;
use crate::exchange::{Frames, Identity, Payload, Request, Response};
use crate::{inflight, responses, service_resolver};

/// Time for the head of a response to a request that is not long-running, as upstream's.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// Buffer of each direction of an upgraded connection.
const TUNNEL_BUFFER_BYTES: usize = 32 * 1024;

const REMOTE_USER: HeaderName = HeaderName::from_static("x-remote-user");
const REMOTE_UID: HeaderName = HeaderName::from_static("x-remote-uid");
const REMOTE_GROUP: HeaderName = HeaderName::from_static("x-remote-group");
/// Prefix of headers with extra fields.
const REMOTE_EXTRA_PREFIX: &str = "x-remote-extra-";
/// Prefix of all headers with the identity of a user.
const REMOTE_PREFIX: &str = "x-remote-";
/// Prefix of impersonation headers, which this server has handled.
const IMPERSONATION_PREFIX: &str = "impersonate-";

/// Client side of a request that asks for an upgrade.
pub struct UpgradeRequest {
    /// The connection, once the response has been sent.
    pub connection: OnUpgrade,
    /// Held until the tunnel ends.
    pub resources: Box<dyn Send>,
    /// Resolves when the server drains, which ends the tunnel.
    pub draining: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Aggregation {
    /// Forwards a request to the server of an APIService.
    pub async fn forward(
        &self,
        snapshot: &Snapshot,
        service: &RemoteApiService,
        request: Request,
        body: ForwardedBody,
        upgrade: Option<UpgradeRequest>,
    ) -> Response {
        if !service.is_available {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "service unavailable");
        }
        let backend = match self.backend(service, &self.registry(snapshot)) {
            Ok(backend) => backend,
            Err(error) => return plain(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        };
        let addresses =
            service_resolver::resolve(snapshot, &service.namespace, &service.service, service.port);
        let addresses = match addresses {
            Ok(addresses) => addresses,
            Err(error) => {
                tracing::warn!(service = %service.name, %error, "cannot resolve an APIService");
                return plain(StatusCode::SERVICE_UNAVAILABLE, "service unavailable");
            }
        };
        let is_long_running =
            upgrade.is_some() || inflight::is_long_running(&request.method, &request.path, &request.query);
        let outgoing = match outgoing(request, body, upgrade.is_some()) {
            Ok(outgoing) => outgoing,
            Err(error) => return plain(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        };
        let sending = async {
            match upgrade {
                None => backend
                    .send(&addresses, outgoing)
                    .await
                    .map(|(response, lease)| incoming(response, lease)),
                Some(upgrade) => {
                    let response = backend.send_upgrade(&addresses, outgoing).await?;
                    Ok(open_tunnel(response, upgrade))
                }
            }
        };
        let limit = if is_long_running { Duration::MAX } else { RESPONSE_TIMEOUT };
        match tokio::time::timeout(limit, sending).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => unreachable(&error),
            Err(_) => {
                responses::status(&Status::timeout("request did not complete within the allotted timeout", 0))
            }
        }
    }
}

/// Response with a line of text, as Go's `http.Error`.
fn plain(code: StatusCode, message: &str) -> Response {
    responses::text(code.as_u16(), format!("{message}\n"))
}

fn unreachable(error: &BackendError) -> Response {
    plain(StatusCode::SERVICE_UNAVAILABLE, &format!("error trying to reach service: {error}"))
}

/// Request to the extension API server. Headers that authenticate the client, that claim an identity or that concern the
/// client's connection alone are dropped.
fn outgoing(
    request: Request,
    body: ForwardedBody,
    is_upgrade: bool,
) -> Result<http::Request<ForwardedBody>, http::Error> {
    let target = match request.query.as_str() {
        "" => request.path,
        query => format!("{}?{query}", request.path),
    };
    let mut outgoing = http::Request::new(body);
    *outgoing.method_mut() = request.method;
    *outgoing.uri_mut() = Uri::try_from(target)?;
    let mut headers = request.headers;
    let upgrade = headers.get(UPGRADE).cloned().filter(|_| is_upgrade);
    remove_hop_by_hop(&mut headers);
    for name in [AUTHORIZATION, CONTENT_LENGTH, EXPECT, HOST] {
        headers.remove(name);
    }
    let is_claim = |name: &&HeaderName| {
        name.as_str().starts_with(REMOTE_PREFIX) || name.as_str().starts_with(IMPERSONATION_PREFIX)
    };
    let claims: Vec<HeaderName> = headers.keys().filter(is_claim).cloned().collect();
    for name in claims {
        headers.remove(name);
    }
    if let Some(upgrade) = upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, upgrade);
    }
    insert_identity(&mut headers, &request.identity)?;
    *outgoing.headers_mut() = headers;
    Ok(outgoing)
}

/// Sets the headers with the identity of a user.
pub(super) fn insert_identity(headers: &mut HeaderMap, identity: &Identity) -> Result<(), http::Error> {
    headers.insert(REMOTE_USER, HeaderValue::from_bytes(identity.user.as_bytes())?);
    if !identity.uid.is_empty() {
        headers.insert(REMOTE_UID, HeaderValue::from_bytes(identity.uid.as_bytes())?);
    }
    for group in &identity.groups {
        headers.append(REMOTE_GROUP, HeaderValue::from_bytes(group.as_bytes())?);
    }
    // Extra fields can restrict what the user may do.
    for (key, values) in &identity.extra {
        let name = HeaderName::from_bytes(format!("{REMOTE_EXTRA_PREFIX}{}", escape_key(key)).as_bytes())?;
        for value in values {
            headers.append(&name, HeaderValue::from_bytes(value.as_bytes())?);
        }
    }
    Ok(())
}

/// Escapes the bytes of a key that the name of a header must not have, and the percent sign.
fn escape_key(key: &str) -> String {
    let mut escaped = String::with_capacity(key.len());
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

/// Removes the headers that concern one connection alone (RFC 9110, section 7.6.1).
fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE] {
        headers.remove(name);
    }
    for name in ["keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization"] {
        headers.remove(name);
    }
}

/// Response of the extension API server, its body not read yet.
fn incoming(response: http::Response<Incoming>, lease: Option<ConnectionLease>) -> Response {
    let (mut parts, body) = response.into_parts();
    if parts.status.is_redirection() && parts.headers.contains_key(LOCATION) {
        let message = "the backend attempted to redirect this request, which is not permitted";
        let mut response = responses::text(StatusCode::BAD_GATEWAY.as_u16(), message);
        response.headers.remove(CONNECTION);
        return response;
    }
    remove_hop_by_hop(&mut parts.headers);
    let frames = ForwardedFrames { body, lease, has_failed: false };
    Response { status: parts.status, headers: parts.headers, body: Payload::Stream(Box::new(frames)) }
}

/// Connects both sides of an upgraded connection; another response is returned as it is.
fn open_tunnel(mut response: http::Response<Incoming>, upgrade: UpgradeRequest) -> Response {
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return incoming(response, None);
    }
    let server = hyper::upgrade::on(&mut response);
    let UpgradeRequest { connection, resources, draining } = upgrade;
    tokio::spawn(async move {
        let tunnel = async {
            let (client, server) = tokio::try_join!(connection, server)?;
            let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
            let size = TUNNEL_BUFFER_BYTES;
            // Either side may end the tunnel by closing or resetting its connection.
            let _ = copy_bidirectional_with_sizes(&mut client, &mut server, size, size).await;
            let _ = tokio::join!(client.shutdown(), server.shutdown());
            Ok::<(), hyper::Error>(())
        };
        tokio::select! {
            ended = tunnel => if let Err(error) = ended {
                tracing::debug!(%error, "upgrade of a forwarded connection failed");
            },
            () = draining => {}
        }
        drop(resources);
    });
    let mut response = Response {
        status: response.status(),
        headers: std::mem::take(response.headers_mut()),
        body: Payload::Whole(Vec::new()),
    };
    response.headers.remove(CONTENT_LENGTH);
    response
}

/// Body of a forwarded response.
struct ForwardedFrames {
    body: Incoming,
    /// Connection, which others use after the last frame.
    lease: Option<ConnectionLease>,
    has_failed: bool,
}

impl Frames for ForwardedFrames {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => {
                    if let Some(lease) = self.lease.take() {
                        lease.give_back();
                    }
                    return Poll::Ready(None);
                }
                Poll::Ready(Some(Ok(frame))) => {
                    // Trailers are dropped.
                    if let Ok(data) = frame.into_data() {
                        return Poll::Ready(Some(data));
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    tracing::debug!(%error, "forwarded response aborted");
                    self.has_failed = true;
                    return Poll::Ready(None);
                }
            }
        }
    }

    fn has_failed(&self) -> bool {
        self.has_failed
    }
}

#[cfg(test)]
mod tests {
    use setpoint_authentication::request_header::RequestHeaders;

    use super::*;

    #[test]
    fn extension_api_server_gets_the_whole_identity() {
        let mut identity = Identity::new("ann", vec!["devs".to_owned(), "ops".to_owned()]);
        identity.uid = "u-1".to_owned();
        let extra = [("example.com/scopes", &["read", "list"][..]), ("100%", &["x"]), ("ä b", &["y"])];
        for (key, values) in extra {
            identity.extra.insert(key.to_owned(), values.iter().map(|value| (*value).to_owned()).collect());
        }
        let mut headers = HeaderMap::new();
        insert_identity(&mut headers, &identity).unwrap();
        assert_eq!(headers["x-remote-extra-example.com%2fscopes"], "read");
        // As the extension API server reads it.
        let read = RequestHeaders::standard().identity(&headers).unwrap();
        assert_eq!(read, Some(identity));
    }
}
