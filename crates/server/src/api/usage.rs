//! `metrics.k8s.io`: resource usage of nodes and pods, from the usage source.
//!
//! Nothing is stored. Errors and table columns are those of upstream's metrics server.

mod encoding;

use std::sync::Arc;

use http::Method;
use setpoint_api::fields::{self, FieldLabels};
use setpoint_api::labels;
use setpoint_api::resource_types;
use setpoint_api::status::{Generic, Qualified, Status};
use setpoint_runtime::queries::usage::{UsageSample, UsageSelector, UsageSource};

use self::encoding::{answer_list, answer_one};
use super::{Api, accepted_view};
use crate::discovery::usage::GROUP;
use crate::exchange::{Request, Response};
use crate::query::QueryParams;
use crate::responses;
use crate::route::MetricsTarget;

/// Selection of samples by a request.
struct MetricsQuery {
    about: MetricsTarget,
    labels: labels::Selector,
    fields: fields::FieldSelector,
}

impl MetricsQuery {
    fn read(about: MetricsTarget, query: &QueryParams) -> Result<MetricsQuery, Status> {
        let labels = labels::Selector::parse(query.get("labelSelector"))
            .map_err(|error| Status::bad_request(error.to_string()))?;
        let fields = fields::FieldSelector::parse(query.get("fieldSelector"))
            .and_then(|fields| fields.translate(&FieldLabels::METADATA))
            .map_err(|error| Status::bad_request(error.to_string()))?;
        Ok(MetricsQuery { about, labels, fields })
    }

    /// Reads the samples. The source may visit every pod, so it runs on a blocking thread.
    async fn read_samples(self, source: Arc<dyn UsageSource>) -> Result<Vec<UsageSample>, Status> {
        let reading = tokio::task::spawn_blocking(move || {
            let MetricsTarget { plural, namespace, name } = &self.about;
            let selector = UsageSelector { namespace, name, labels: &self.labels };
            let samples = if *plural == "nodes" { source.nodes(selector) } else { source.pods(selector) };
            let mut samples = samples.map_err(Status::internal_error)?;
            samples.retain(|sample| {
                self.fields.matches(|field| match field {
                    "metadata.name" => Some(sample.name.as_str()),
                    _ => Some(sample.namespace.as_str()),
                })
            });
            Ok(samples)
        });
        reading.await.map_err(Status::internal_error)?
    }
}

impl Api {
    /// Sets the source of resource usage.
    pub fn set_usage_source(&self, source: Arc<dyn UsageSource>) {
        // The first source stays; only one is ever set.
        let _ = self.usage.set(source);
    }

    /// Handles a request for resource usage.
    pub(super) async fn respond_usage(
        &self,
        request: &Request,
        about: &MetricsTarget,
    ) -> Result<Response, Status> {
        let Some(source) = self.usage.get().filter(|source| source.is_served()) else {
            return Ok(responses::text(404, "404 page not found\n"));
        };
        let query = QueryParams::parse(&request.query);
        if !matches!(request.method, Method::GET | Method::HEAD) {
            let method = request.method.as_str();
            return Err(Status::generic(405, &Generic { method, ..Generic::default() }));
        }
        let resource = Qualified { group: GROUP, name: about.plural };
        if query.flag("watch") == Some(true) && about.name.is_empty() {
            return Err(Status::method_not_supported(resource, "watch"));
        }
        let view = accepted_view(request)?;
        let metrics_query = MetricsQuery::read(about.clone(), &query)?;
        let samples = metrics_query.read_samples(Arc::clone(source)).await?;
        let now = self.options.clock.now();
        if about.name.is_empty() {
            return answer_list(about.plural, &samples, view, &query, now);
        }
        match samples.first() {
            Some(sample) => answer_one(about.plural, sample, view, &query, now),
            None => Err(self.not_found_error(about, resource)),
        }
    }

    /// 404 for an object that does not exist or has no sample.
    fn not_found_error(&self, about: &MetricsTarget, resource: Qualified<'_>) -> Status {
        let MetricsTarget { plural, namespace, name } = about;
        let key = resource_types::find("", "v1", plural)
            .and_then(|resource_type| resource_type.key(namespace, name).ok());
        let is_there = key.is_some_and(|key| self.store.snapshot().get(&key).is_some());
        match (*plural, is_there) {
            ("nodes", false) => Status::not_found(Qualified { group: "", name: "node" }, name),
            ("nodes", true) => Status::not_found(resource, name),
            (_, false) => Status::not_found(Qualified { group: "", name: "pods" }, name),
            (_, true) => Status::not_found(resource, &format!("{namespace}/{name}")),
        }
    }
}
