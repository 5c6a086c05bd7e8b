//! Aggregation layer: group versions of APIServices with a Service are served by extension API servers.
//!
//! A request below `/apis/GROUP/VERSION` of such an APIService is forwarded with the identity of its user in `X-Remote-*`
//! headers, over a connection with the front-proxy certificate ([`forward`]). Bodies are streamed in both directions, and
//! the end of the client's connection ends the forwarded request. Whether the server is available is decided by the
//! controller of the condition `Available`, which has [`check`] request the discovery document; the same document feeds
//! the merged discovery ([`merge`]). [`queries`] answers the queries of planners through this layer.
//!
//! An APIService with a Service takes precedence over a group version of this server, as upstream decides.

mod backend;
mod check;
mod documents;
mod forward;
pub mod merge;
mod queries;
pub mod registry;
mod tls;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use setpoint_api::{Revision, json};
use setpoint_pki::certs::{CertifiedKey, Pki};
use setpoint_store::Snapshot;

use self::backend::Backend;
use self::documents::DocumentCache;
use self::registry::{Registry, RegistryCache, RemoteApiService};
use self::tls::BackendTlsError;
use crate::discovery::TaggedDocument;

pub use backend::{BackendError, ForwardedBody};
pub use forward::UpgradeRequest;
pub(crate) use queries::AggregatedQueries;

/// State of the aggregation layer.
#[derive(Default)]
pub struct Aggregation {
    registry: RegistryCache,
    /// Client certificate that extension API servers trust.
    identity: RwLock<Option<CertifiedKey>>,
    backends: Mutex<BTreeMap<String, Arc<Backend>>>,
    pub(crate) documents: DocumentCache,
    /// Merged discovery, by the tag of the own document, the revision of the APIServices and the changes of documents.
    merged: Mutex<Option<(MergedKey, Arc<TaggedDocument>)>>,
}

type MergedKey = (String, Revision, u64);

impl Aggregation {
    /// Forwards requests with the front-proxy certificate from now on.
    pub fn set_identity(&self, pki: &Pki) {
        *self.identity.write() = Some(pki.front_proxy_client.clone());
        // Requests in flight keep their connections.
        self.backends.lock().clear();
    }

    /// APIServices with a Service in a snapshot.
    #[must_use]
    pub fn registry(&self, snapshot: &Snapshot) -> Arc<Registry> {
        self.registry.of(snapshot)
    }

    /// APIService that serves a path; `None` if this server does.
    #[must_use]
    pub fn find(&self, snapshot: &Snapshot, path: &str) -> Option<Arc<RemoteApiService>> {
        let rest = path.strip_prefix("/openapi/v3").unwrap_or(path).strip_prefix("/apis/")?;
        let mut parts = rest.splitn(3, '/');
        let (group, version) = (parts.next()?, parts.next()?);
        self.registry(snapshot).find(group, version).cloned()
    }

    /// Aggregated discovery of this server and of all extension API servers, encoded once until one of them changes.
    pub(crate) fn merged_discovery(
        &self,
        local: &TaggedDocument,
        registry: &Registry,
    ) -> Arc<TaggedDocument> {
        let key = (local.tag.clone(), registry.changed, self.documents.changes());
        let mut merged = self.merged.lock();
        if let Some((_, document)) = merged.as_ref().filter(|(of, _)| *of == key) {
            return Arc::clone(document);
        }
        let document = json::parse(&local.json).unwrap_or_default();
        let document = TaggedDocument::new(&merge::aggregated(document, registry, &self.documents));
        let document = Arc::new(document);
        *merged = Some((key, Arc::clone(&document)));
        document
    }

    /// Names and hashes of the OpenAPI v3 documents of extension API servers.
    pub(crate) fn openapi_v3_hashes(&self, registry: &Registry) -> Vec<(String, String)> {
        let hash = |service: &Arc<RemoteApiService>| {
            let hash = self.documents.get(&service.name).openapi_v3_hash?;
            Some((format!("apis/{}/{}", service.group, service.version), hash))
        };
        registry.iter().filter_map(hash).collect()
    }

    /// Connections to the server of an APIService.
    fn backend(
        &self,
        service: &RemoteApiService,
        registry: &Registry,
    ) -> Result<Arc<Backend>, Arc<BackendTlsError>> {
        let mut backends = self.backends.lock();
        if let Some(backend) = backends.get(&service.name).filter(|backend| backend.is_for(service)) {
            return Ok(Arc::clone(backend));
        }
        let identity = self.identity.read().clone();
        let backend = Arc::new(Backend::new(service, identity.as_ref()).map_err(Arc::new)?);
        backends.retain(|name, _| registry.get(name).is_some());
        backends.insert(service.name.clone(), Arc::clone(&backend));
        Ok(backend)
    }
}
