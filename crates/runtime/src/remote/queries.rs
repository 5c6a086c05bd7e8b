//! Queries of a remote loop: access, metrics and definitions come from the API server; all others go to the local
//! handler.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use setpoint_api::{Clock, Entropy, Key, Value, json, value};
use setpoint_extensions::policy::{check_types, definition_schema, definitions_of};
use setpoint_reconcile::Query;
use tokio::sync::mpsc;

use super::Report;
use crate::client::Client;
use crate::queries::QueryHandler;
use crate::queries::metrics_apis::{self, ApiReader, ApiResponse};

/// Timeout of a request. Shorter than the sync period of autoscalers.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Path of access reviews.
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// Path of CustomResourceDefinitions.
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

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
            "metrics" => tokio::time::timeout(REQUEST_TIMEOUT, metrics_apis::answer(&query.question, &self))
                .await
                .unwrap_or_else(late),
            "policy-types" => {
                tokio::time::timeout(REQUEST_TIMEOUT, self.policy_types(query.question.clone()))
                    .await
                    .unwrap_or_else(late)
            }
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

    /// Reads the definitions that a type check depends on, and checks.
    async fn policy_types(&self, question: Value) -> Result<Value, String> {
        let mut definitions = BTreeMap::new();
        for name in definitions_of(&question) {
            let (status, definition) = self.get(&format!("{DEFINITIONS}/{name}")).await?;
            if status == 200 {
                definitions.insert(name.to_owned(), definition);
            }
        }
        let check = move || {
            let schema_of = |name: &str, version: &str| definition_schema(definitions.get(name)?, version);
            check_types(&question, &schema_of)
        };
        tokio::task::spawn_blocking(check).await.map_err(|error| error.to_string())
    }

    /// Sends a request. Returns the decoded body, or the reason of the failure.
    async fn request_json(&self, method: Method, path: &str, body: Bytes) -> Result<Value, String> {
        let answered = self.client.request(method, path, Some("application/json"), body).await;
        let (status, body) = answered.map_err(|error| error.to_string())?;
        let body = json::parse(&body).unwrap_or_default();
        if status.is_success() { Ok(body) } else { Err(body.str_at(&["message"]).to_owned()) }
    }
}

impl ApiReader for RemoteQueries {
    fn get<'a>(&'a self, path: &'a str) -> ApiResponse<'a> {
        Box::pin(async move {
            let answered = self.client.request(Method::GET, path, None, Bytes::new()).await;
            let (status, body) = answered.map_err(|error| error.to_string())?;
            Ok((status.as_u16(), json::parse(&body).unwrap_or_default()))
        })
    }
}
