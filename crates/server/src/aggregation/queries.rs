//! Queries of planners that are answered later: by extension API servers (availability checks, and metrics of the
//! autoscaler), by authorizers in other processes, or by work that takes milliseconds (type checks of policies).

use std::sync::Arc;
use std::time::Duration;

use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue};
use setpoint_api::{Clock, Value, json, value};
use setpoint_authorization::Decision;
use setpoint_reconcile::Query;
use setpoint_runtime::queries::api_queries::{ApiQueries, PendingAnswer};
use setpoint_runtime::queries::metrics_apis::{self, ApiReader, ApiResponse};
use setpoint_store::Store;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::check::ReadLimits;
use super::{Aggregation, merge};
use crate::authorization::{Authorization, ReviewedRequest};
use crate::exchange::Identity;
use crate::policies::answer_types;

/// User of the autoscaler's requests.
const AUTOSCALER: &str = "system:serviceaccount:kube-system:horizontal-pod-autoscaler";
/// Limits of a response with metrics. Shorter than the timeout of queries.
const METRICS_LIMITS: ReadLimits = ReadLimits { bytes: 16 * 1024 * 1024, time: Duration::from_secs(10) };

/// Handler of queries over the aggregation layer.
#[derive(Clone)]
pub(crate) struct AggregatedQueries {
    pub aggregation: Arc<Aggregation>,
    pub authorization: Arc<Authorization>,
    pub store: Store,
    pub clock: Arc<dyn Clock>,
    /// Runtime of the requests.
    pub runtime: Handle,
}

impl ApiQueries for AggregatedQueries {
    fn start(&self, query: &Query) -> Option<PendingAnswer> {
        let (sender, receiver) = oneshot::channel();
        let (this, question) = (self.clone(), query.question.clone());
        match query.target {
            "access" => {
                self.runtime.spawn(async move {
                    // The loop may have ended.
                    let _ = sender.send(Ok(this.review(&question).await));
                });
            }
            "api-service" => {
                self.runtime.spawn(async move { this.check(&question, sender).await });
            }
            "metrics" if self.is_remote_metric(&question) => {
                self.runtime.spawn(async move {
                    // The loop may have ended.
                    let _ = sender.send(metrics_apis::answer(&question, &this).await);
                });
            }
            "policy-types" => {
                self.runtime.spawn_blocking(move || {
                    // The loop may have ended.
                    let _ = sender.send(Ok(answer_types(&question, &this.store.snapshot())));
                });
            }
            _ => return None,
        }
        Some(receiver)
    }
}

impl AggregatedQueries {
    /// `true` if a metric comes from an extension API server: all but resource metrics of this server.
    fn is_remote_metric(&self, question: &Value) -> bool {
        match question.str_at(&["type"]) {
            "Resource" | "ContainerResource" => {
                let registry = self.aggregation.registry(&self.store.snapshot());
                registry.find("metrics.k8s.io", "v1beta1").is_some()
            }
            _ => true,
        }
    }

    /// Decides on the request of a SubjectAccessReview's `spec`.
    async fn review(&self, spec: &Value) -> Value {
        let reviewed = ReviewedRequest::of_subject(spec);
        let decision = self.authorization.authorize(&reviewed.attributes(), &self.store.snapshot()).await;
        value!({"allowed": (matches!(decision, Decision::Allowed(_)))})
    }

    /// Checks an APIService, and then reads its OpenAPI documents if they are due.
    async fn check(&self, question: &Value, sender: oneshot::Sender<Result<Value, String>>) {
        let snapshot = self.store.snapshot();
        let registry = self.aggregation.registry(&snapshot);
        let Some(service) = registry.get(question.str_at(&["name"])) else {
            let _ = sender.send(Err("the APIService has no service".to_owned()));
            return;
        };
        let checked = self.aggregation.check(&snapshot, service).await;
        let has_passed = checked.is_ok();
        let _ = sender.send(checked.map(|()| Value::map()));
        let documents = &self.aggregation.documents;
        documents.retain(&registry);
        if has_passed && documents.begin_openapi(&service.name, self.clock.uptime()) {
            self.aggregation.read_openapi(&snapshot, service).await;
        }
    }
}

impl ApiReader for AggregatedQueries {
    fn get<'a>(&'a self, path: &'a str) -> ApiResponse<'a> {
        Box::pin(async move {
            let snapshot = self.store.snapshot();
            let registry = self.aggregation.registry(&snapshot);
            let (bare, _) = path.split_once('?').unwrap_or((path, ""));
            if let Some(group) = bare.strip_prefix("/apis/").filter(|rest| !rest.contains('/')) {
                let found = merge::group(None, group, &registry);
                return Ok(found.map_or((404, Value::map()), |group| (200, group)));
            }
            let Some(service) = self.aggregation.find(&snapshot, bare) else {
                return Ok((404, Value::map()));
            };
            if !service.is_available {
                return Err("the server is currently unable to handle the request".to_owned());
            }
            let groups =
                ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"];
            let identity = Identity::new(AUTOSCALER, groups.map(str::to_owned).to_vec());
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
            let read = self.aggregation.read(&snapshot, &service, (path, headers), &identity, METRICS_LIMITS);
            let response = read.await.map_err(|error| error.to_string())?;
            Ok((response.status.as_u16(), json::parse(&response.body).unwrap_or_default()))
        })
    }
}
