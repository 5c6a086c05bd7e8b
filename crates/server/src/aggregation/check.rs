//! Availability check of extension API servers, which also reads their discovery and OpenAPI documents.

use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body::Body as _;
use setpoint_api::{Value, json};
use setpoint_store::Snapshot;

use super::backend::ForwardedBody;
use super::forward::insert_identity;
use super::registry::RemoteApiService;
use super::{Aggregation, BackendError};
use crate::exchange::Identity;
use crate::service_resolver;

/// Time for the discovery document, as upstream's.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for an OpenAPI document.
const OPENAPI_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a discovery document.
const DISCOVERY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes of an OpenAPI document.
const OPENAPI_BYTES_MAX: usize = 16 * 1024 * 1024;
/// User of the availability check. Members of its group may do everything.
const CHECK_USER: &str = "system:kube-aggregator";

/// Failure to read a document.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error(transparent)]
    Backend(#[from] BackendError),
    #[error("{0}")]
    Resolve(#[from] service_resolver::ResolveError),
    #[error("{0}")]
    Body(#[from] hyper::Error),
    #[error("context deadline exceeded")]
    Timeout,
    #[error("the response exceeds {0} bytes")]
    TooLarge(usize),
}

/// A response that was read to its end.
pub(super) struct ReadResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Limits of a response.
#[derive(Clone, Copy)]
pub(super) struct ReadLimits {
    pub bytes: usize,
    pub time: Duration,
}

/// Identity of the server itself.
fn check_identity() -> Identity {
    Identity::new(CHECK_USER, vec!["system:masters".to_owned()])
}

impl Aggregation {
    /// Requests the discovery document of an APIService.
    ///
    /// # Errors
    /// The message of the condition `Available`, if the server does not respond with success.
    pub(super) async fn check(&self, snapshot: &Snapshot, service: &RemoteApiService) -> Result<(), String> {
        let path = service.path();
        let address = service_resolver::resolve(snapshot, &service.namespace, &service.service, service.port)
            .map(|addresses| addresses.into_iter().next().unwrap_or_default());
        let address = address.map_err(|error| error.to_string())?;
        let url = format!("https://{address}{path}");
        let limits = ReadLimits { bytes: DISCOVERY_BYTES_MAX, time: CHECK_TIMEOUT };
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let read = self.read(snapshot, service, (&path, headers), &check_identity(), limits).await;
        let response = read.map_err(|error| {
            self.documents.mark_stale(&service.name);
            format!("failing or missing response from {url}: Get {url:?}: {error}")
        })?;
        if !response.status.is_success() {
            self.documents.mark_stale(&service.name);
            let code = response.status.as_u16();
            return Err(format!("failing or missing response from {url}: bad status from {url}: {code}"));
        }
        let list = json::parse(&response.body).unwrap_or_default();
        self.documents.set_resources(service, &list);
        Ok(())
    }

    /// Reads the OpenAPI documents of an APIService. Servers without them are not merged.
    pub(super) async fn read_openapi(&self, snapshot: &Snapshot, service: &RemoteApiService) {
        let limits = ReadLimits { bytes: OPENAPI_BYTES_MAX, time: OPENAPI_TIMEOUT };
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let identity = check_identity();
        let index = self.read(snapshot, service, ("/openapi/v3", headers.clone()), &identity, limits).await;
        if let Ok(index) = index
            && index.status == StatusCode::OK
        {
            let index = json::parse(&index.body).unwrap_or_default();
            let name = format!("apis/{}/{}", service.group, service.version);
            let url = index.at(&["paths", &name, "serverRelativeURL"]).and_then(Value::as_str);
            self.documents.set_openapi_v3(&service.name, url);
        }
        if let Some(tag) = self.documents.openapi_v2_tag(&service.name)
            && let Ok(tag) = HeaderValue::from_str(&tag)
        {
            headers.insert(IF_NONE_MATCH, tag);
        }
        let swagger = self.read(snapshot, service, ("/openapi/v2", headers), &identity, limits).await;
        if let Ok(swagger) = swagger
            && swagger.status == StatusCode::OK
        {
            let tag = swagger.headers.get(ETAG).and_then(|tag| tag.to_str().ok()).unwrap_or_default();
            self.documents.set_openapi_v2(service, tag, &swagger.body);
        }
    }

    /// Reads a document of an extension API server, available or not.
    pub(super) async fn read(
        &self,
        snapshot: &Snapshot,
        service: &RemoteApiService,
        (target, mut headers): (&str, HeaderMap),
        identity: &Identity,
        limits: ReadLimits,
    ) -> Result<ReadResponse, ReadError> {
        let addresses =
            service_resolver::resolve(snapshot, &service.namespace, &service.service, service.port)?;
        let backend = self.backend(service, &self.registry(snapshot)).map_err(BackendError::from)?;
        let invalid = |error: http::Error| ReadError::Backend(BackendError::Request(error));
        insert_identity(&mut headers, identity).map_err(invalid)?;
        let mut request = http::Request::new(ForwardedBody::Whole(Bytes::new()));
        *request.uri_mut() = target.parse().map_err(http::Error::from).map_err(invalid)?;
        *request.headers_mut() = headers;
        let reading = async {
            let (response, lease) = backend.send(&addresses, request).await?;
            let (parts, mut body) = response.into_parts();
            let mut bytes = BytesMut::new();
            while let Some(frame) =
                std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
            {
                let Ok(data) = frame?.into_data() else { continue };
                if bytes.len() + data.len() > limits.bytes {
                    return Err(ReadError::TooLarge(limits.bytes));
                }
                bytes.extend_from_slice(&data);
            }
            if let Some(lease) = lease {
                lease.give_back();
            }
            Ok(ReadResponse { status: parts.status, headers: parts.headers, body: bytes.freeze() })
        };
        tokio::time::timeout(limits.time, reading).await.unwrap_or(Err(ReadError::Timeout))
    }
}
