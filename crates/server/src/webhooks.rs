//! Admission webhooks: HTTPS services that change or reject writes.
//!
//! Decisions stay pure. The pipeline matches the request to webhooks and looks their answers up in
//! [`WebhookAnswers`]; a missing answer ends the decision with the calls to make
//! ([`PipelineResult::Call`]). The shell makes them ([`AdmissionWebhooks`]),
//! records the answers, and decides again on a fresh snapshot with the same time and entropy. An answer is stored under
//! a digest of the request that it was given for, so equal input finds it, and changed input is sent again.
//!
//! [`config`] compiles configurations, [`matching`] selects webhooks, [`review`] encodes AdmissionReviews, [`dispatch`]
//! runs both phases of admission. [`client`] makes HTTPS calls; it also fits conversion webhooks.

pub mod answers;
pub mod client;
pub mod conditions;
pub mod config;
pub mod dispatch;
pub mod endpoint;
pub mod kubeconfig;
pub mod matching;
pub mod metrics;
mod pool;
pub mod review;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use setpoint_api::kind_schema::SchemaRef;
use setpoint_api::resource_types::ResourceType;
use setpoint_api::status::Status;
use setpoint_api::{Clock, Value};

use self::answers::{AnswerKey, PendingCall, WebhookAnswer, WebhookAnswers};
use self::client::{CallTask, WebhookClient};
use self::config::WebhookRegistry;
use self::metrics::WebhookMetrics;
use crate::pipeline::{Decision, PipelineResult, WriteOrigin};

/// Webhooks in the context of a decision.
#[derive(Clone, Copy)]
pub struct WebhookContext<'a> {
    /// Compiled configurations.
    pub registry: &'a WebhookRegistry,
    /// Answers received so far.
    pub answers: &'a WebhookAnswers,
}

/// Operation of an admission request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Create an object, or post to a subresource.
    Create,
    /// Update an object or a subresource.
    Update,
    /// Delete an object.
    Delete,
    /// Connect to a subresource.
    Connect,
}

impl Operation {
    /// Name in rules and reviews.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }

    /// Kind of the options of the operation.
    fn options_kind(self) -> &'static str {
        match self {
            // A connection has no options.
            Operation::Create | Operation::Connect => "CreateOptions",
            Operation::Update => "UpdateOptions",
            Operation::Delete => "DeleteOptions",
        }
    }
}

/// Kind of a subresource that is not the kind of its resource, such as `Scale`.
#[derive(Clone, Copy)]
pub struct ForeignKind<'a> {
    /// API group.
    pub group: &'a str,
    /// API version.
    pub version: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Schema of the kind.
    pub schema: SchemaRef<'a>,
}

/// A write as webhooks see it, without its objects.
#[derive(Clone, Copy)]
pub struct AdmissionRequest<'a> {
    /// Resource in the version of the request.
    pub resource_type: &'a ResourceType,
    /// Subresource; empty for the main resource.
    pub subresource: &'a str,
    /// Kind of the objects, if it is not that of the resource.
    pub foreign_kind: Option<ForeignKind<'a>>,
    /// Operation.
    pub operation: Operation,
    /// Name of the object; empty if it will be generated.
    pub name: &'a str,
    /// Namespace of the object. A Namespace is in itself.
    pub namespace: &'a str,
    /// Author and options.
    pub writer: &'a WriteOrigin,
    /// Options of a delete.
    pub options: Option<&'a Value>,
}

impl<'a> AdmissionRequest<'a> {
    /// A request for an object of the resource itself.
    #[must_use]
    pub fn new(
        operation: Operation,
        resource_type: &'a ResourceType,
        (namespace, name): (&'a str, &'a str),
        writer: &'a WriteOrigin,
    ) -> AdmissionRequest<'a> {
        let is_namespace = resource_type.resource.as_str() == "namespaces";
        let namespace = if is_namespace { name } else { namespace };
        AdmissionRequest {
            resource_type,
            subresource: "",
            foreign_kind: None,
            operation,
            name,
            namespace,
            writer,
            options: None,
        }
    }

    /// The request for a subresource.
    #[must_use]
    pub fn for_subresource(self, subresource: &'a str) -> AdmissionRequest<'a> {
        AdmissionRequest { subresource, ..self }
    }
}

/// Early end of a decision.
#[derive(Debug)]
pub enum Interruption {
    /// The request is rejected.
    Rejected(Status),
    /// Webhooks must be called first.
    Calls(Vec<PendingCall>),
}

impl From<Status> for Interruption {
    fn from(status: Status) -> Interruption {
        Interruption::Rejected(status)
    }
}

impl Interruption {
    /// Result of the pipeline for the early end of a decision.
    ///
    /// # Errors
    /// The rejection.
    pub fn into_result(self) -> Result<PipelineResult, Status> {
        match self {
            Interruption::Rejected(status) => Err(status),
            Interruption::Calls(calls) => Ok(PipelineResult::Call(calls)),
        }
    }

    /// As [`Interruption::into_result`], without warnings.
    ///
    /// # Errors
    /// The rejection.
    pub fn into_decision(self) -> Result<Decision, Status> {
        Ok(Decision { step: self.into_result()?, warnings: Vec::new() })
    }
}

/// Time for all webhook calls of a request together, upstream's default request timeout.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Calls of one request. Inputs that change with every decision would be sent without end otherwise.
pub const CALLS_MAX: usize = 256;

/// Shell of the webhooks of a server: configurations, client and metrics.
pub struct AdmissionWebhooks {
    /// Compiled configurations.
    pub registry: WebhookRegistry,
    /// HTTPS client.
    pub client: WebhookClient,
    metrics: Arc<WebhookMetrics>,
    clock: Arc<dyn Clock>,
}

impl AdmissionWebhooks {
    /// Webhooks without calls so far.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> AdmissionWebhooks {
        AdmissionWebhooks {
            registry: WebhookRegistry::default(),
            client: WebhookClient::default(),
            metrics: Arc::default(),
            clock,
        }
    }

    /// The metrics.
    #[must_use]
    pub fn metrics(&self) -> &Arc<WebhookMetrics> {
        &self.metrics
    }

    /// Starts the calls of a decision. `answers` are those of the request so far.
    ///
    /// # Errors
    /// If the request made too many calls, or took too long.
    pub fn start(&self, calls: Vec<PendingCall>, answers: &mut WebhookAnswers) -> Result<CallBatch, Status> {
        let now = self.clock.uptime();
        let elapsed = now.saturating_sub(*answers.started_at.get_or_insert(now));
        let Some(left) = REQUEST_TIMEOUT.checked_sub(elapsed).filter(|left| !left.is_zero()) else {
            return Err(Status::timeout("request did not complete within requested timeout", 0));
        };
        if answers.len() + calls.len() > CALLS_MAX {
            let why = format!("the request caused more than {CALLS_MAX} calls of admission webhooks");
            return Err(Status::internal_error(why));
        }
        answers.record_calls(&calls);
        let calls = calls.into_iter().map(|mut pending| {
            pending.call.timeout = pending.call.timeout.min(left);
            let task = self.client.start(pending.call.clone());
            RunningCall { pending, task, answer: None }
        });
        Ok(CallBatch {
            calls: calls.collect(),
            metrics: Arc::clone(&self.metrics),
            clock: Arc::clone(&self.clock),
            started_at: now,
        })
    }
}

/// A call in flight.
struct RunningCall {
    pending: PendingCall,
    task: CallTask,
    answer: Option<WebhookAnswer>,
}

/// Calls of one decision in flight. Dropping it ends them.
pub struct CallBatch {
    calls: Vec<RunningCall>,
    metrics: Arc<WebhookMetrics>,
    clock: Arc<dyn Clock>,
    started_at: Duration,
}

impl Future for CallBatch {
    type Output = Vec<(AnswerKey, WebhookAnswer)>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let batch = &mut *self;
        for call in &mut batch.calls {
            if call.answer.is_some() {
                continue;
            }
            if let Poll::Ready(response) = Pin::new(&mut call.task).poll(context) {
                let answer = call.pending.answer(response);
                let took = batch.clock.uptime().saturating_sub(batch.started_at);
                batch.metrics.count(&call.pending, &answer, took);
                call.pending.log(&answer);
                call.answer = Some(answer);
            }
        }
        if batch.calls.iter().any(|call| call.answer.is_none()) {
            return Poll::Pending;
        }
        let calls = batch.calls.drain(..);
        Poll::Ready(calls.filter_map(|call| Some((call.pending.key, call.answer?))).collect())
    }
}
