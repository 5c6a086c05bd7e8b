//! Requests that extension API servers handle.

use std::sync::Arc;

use http::header::ACCEPT;
use setpoint_pki::certs::Pki;
use setpoint_runtime::queries::api_queries::ApiQueries;
use tokio::runtime::Handle;

use super::{Api, negotiated};
use crate::aggregation::registry::RemoteApiService;
use crate::aggregation::{AggregatedQueries, ForwardedBody, UpgradeRequest};
use crate::exchange::{Request, Response};
use crate::responses;

impl Api {
    /// Authenticates to extension API servers with the front-proxy certificate from now on.
    pub fn use_front_proxy(&self, pki: &Pki) {
        self.aggregation.set_identity(pki);
    }

    /// Handler of queries that extension API servers and authorizers answer. Its requests run on `runtime`.
    #[must_use]
    pub fn aggregated_queries(&self, runtime: Handle) -> Arc<dyn ApiQueries> {
        Arc::new(AggregatedQueries {
            aggregation: Arc::clone(&self.aggregation),
            authorization: Arc::clone(&self.authorization),
            store: self.store.clone(),
            clock: Arc::clone(&self.options.clock),
            runtime,
        })
    }

    /// APIService that handles a request; `None` if this server does.
    pub(super) fn forward_target(&self, path: &str) -> Option<Arc<RemoteApiService>> {
        let is_candidate = path.starts_with("/apis/") || path.starts_with("/openapi/v3/apis/");
        if !is_candidate {
            return None;
        }
        self.aggregation.find(&self.store.snapshot(), path)
    }

    /// Forwards a request, and counts it.
    pub(super) async fn forward_to(
        &self,
        service: Arc<RemoteApiService>,
        request: Request,
        body: ForwardedBody,
        upgrade: Option<UpgradeRequest>,
    ) -> Response {
        let begun = self.options.clock.uptime();
        let route = self.route(&request.path);
        let key = self.metrics.key(&route, &request);
        let response = match self.check(&request).await {
            Ok(()) => {
                self.aggregation.forward(&self.store.snapshot(), &service, request, body, upgrade).await
            }
            Err(status) => {
                let accept = request.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
                responses::error(&status, negotiated(accept))
            }
        };
        let took = self.options.clock.uptime().saturating_sub(begun);
        self.metrics.count_answer(key, &response, took);
        response
    }
}
