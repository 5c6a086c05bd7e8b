//! Queries of a remote loop: access and metrics go to the API server, all others to the local handler.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use setpoint_api::{Clock, Entropy, Key, Value, json, value};
use setpoint_reconcile::Query;
use tokio::sync::mpsc;

use super::Report;
use crate::client::{Client, percent_encode};
use crate::queries::{QueryHandler, usage};

/// Timeout of a request. Shorter than the sync period of autoscalers.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Path of access reviews.
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// Path of pod metrics.
const METRICS: &str = "/apis/metrics.k8s.io/v1beta1";

/// Query handler that forwards to the API server.
pub(super) struct RemoteQueries {
    pub client: Arc<Client>,
    pub local: Arc<QueryHandler>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<Entropy>,
}

impl RemoteQueries {
    /// Answers a query, and reports the answer to the loop.
    pub async fn answer(
        self,
        (controller, key, query): (&'static str, Key, Query),
        reports: mpsc::Sender<Report>,
    ) {
        let late = |_| Err("the server did not answer in time".to_owned());
        let answer = match query.target {
            "access" => {
                tokio::time::timeout(REQUEST_TIMEOUT, self.access(&query.question)).await.unwrap_or_else(late)
            }
            "metrics" => tokio::time::timeout(REQUEST_TIMEOUT, self.metrics(&query.question))
                .await
                .unwrap_or_else(late),
            _ => self.local.answer(&query, self.clock.now(), &*self.entropy),
        };
        // The loop may have ended.
        let _ = reports.send(Report::Replied { controller, key, query, answer }).await;
    }

    async fn access(&self, question: &Value) -> Result<Value, String> {
        let review = value!({
            "kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "spec": (question.clone()),
        });
        let body = json::to_vec(&review).into();
        let review = self.request_json(Method::POST, REVIEWS, body).await?;
        let allowed = review.at(&["status", "allowed"]) == Some(&Value::from(true));
        Ok(value!({"allowed": (allowed)}))
    }

    async fn metrics(&self, question: &Value) -> Result<Value, String> {
        if let Some(error) = usage::missing_source_error(question) {
            return Err(error);
        }
        let (namespace, selector) = (question.str_at(&["namespace"]), question.str_at(&["selector"]));
        let path =
            format!("{METRICS}/namespaces/{namespace}/pods?labelSelector={}", percent_encode(selector));
        let list = self.request_json(Method::GET, &path, Bytes::new()).await;
        let list = list.map_err(|error| usage::fetch_error(&error))?;
        usage::to_answer(question, &usage::from_list(&list))
    }

    /// Sends a request. Returns the decoded body, or the reason of the failure.
    async fn request_json(&self, method: Method, path: &str, body: Bytes) -> Result<Value, String> {
        let answered = self.client.request(method, path, Some("application/json"), body).await;
        let (status, body) = answered.map_err(|error| error.to_string())?;
        let body = json::parse(&body).unwrap_or_default();
        match status.as_u16() {
            _ if status.is_success() => Ok(body),
            404 if path.starts_with(METRICS) => Err(usage::NOT_SERVED_ERROR.to_owned()),
            _ => Err(body.str_at(&["message"]).to_owned()),
        }
    }
}
