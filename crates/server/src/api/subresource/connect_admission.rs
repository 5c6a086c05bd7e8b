//! Admission of connections: webhooks and policies see the options of `exec`, `attach`, `portforward` and `proxy`.

use std::sync::LazyLock;

use setpoint_api::custom_kind::CustomSchema;
use setpoint_api::kind_schema::SchemaRef;
use setpoint_api::status::Status;
use setpoint_api::{Map, Value};

use super::Api;
use crate::api::write::writer;
use crate::exchange::Request;
use crate::pipeline::PipelineResult;
use crate::query::QueryParams;
use crate::route::Target;
use crate::webhooks::{AdmissionRequest, ForeignKind, Operation, dispatch};

/// Schema of connect options: they are not stored, so all fields are kept.
static OPTIONS_SCHEMA: LazyLock<CustomSchema> =
    LazyLock::new(|| CustomSchema::new("ConnectOptions".into(), Box::new(|| None)));

/// Switches that the options of `exec` and `attach` have.
const STREAMS: [&str; 4] = ["stdin", "stdout", "stderr", "tty"];

impl Api {
    /// Has policies and webhooks admit a connection. Returns warnings.
    ///
    /// # Errors
    /// If the connection is rejected.
    pub(super) async fn admit_connection(
        &self,
        request: &Request,
        target: &Target,
        query: &QueryParams,
    ) -> Result<Vec<String>, Status> {
        if !query.all("dryRun").is_empty() {
            return Err(Status::bad_request("dryRun is not supported"));
        }
        let Some(kind) = options_kind(target) else { return Ok(Vec::new()) };
        let options = options(kind, request, target, query);
        let writer = writer(request, &QueryParams::default(), None)?;
        let schema = SchemaRef::Custom(&OPTIONS_SCHEMA);
        let mut warnings = Vec::new();
        let at = (target.namespace.as_str(), target.name.as_str());
        self.perform(request, &mut warnings, |context| {
            let admission = AdmissionRequest {
                foreign_kind: Some(ForeignKind { group: "", version: "v1", kind, schema }),
                ..AdmissionRequest::new(Operation::Connect, &target.resource_type, at, &writer)
            }
            .for_subresource(&target.subresource);
            let mut admitted = options.clone();
            match dispatch::admit_unstored(&admission, &mut admitted, None, context) {
                Ok(()) => Ok(PipelineResult::DryRun(Value::Null)),
                Err(interruption) => interruption.into_result(),
            }
        })
        .await?;
        Ok(warnings)
    }
}

/// Kind of the options of a connection; `None` for a subresource that is read, such as `log`.
fn options_kind(target: &Target) -> Option<&'static str> {
    Some(match (target.subresource.as_str(), &*target.resource_type.info.kind) {
        ("exec", _) => "PodExecOptions",
        ("attach", _) => "PodAttachOptions",
        ("portforward", _) => "PodPortForwardOptions",
        ("proxy", "Service") => "ServiceProxyOptions",
        ("proxy", "Node") => "NodeProxyOptions",
        ("proxy", _) => "PodProxyOptions",
        _ => return None,
    })
}

/// Options of a connection, from the query and the path.
fn options(kind: &'static str, request: &Request, target: &Target, query: &QueryParams) -> Value {
    let mut options = Map::new();
    options.insert("kind", kind);
    options.insert("apiVersion", "v1");
    match target.subresource.as_str() {
        "portforward" => {
            let ports = query.all("ports").into_iter().flat_map(|ports| ports.split(','));
            let ports: Vec<Value> =
                ports.filter_map(|port| port.parse::<i64>().ok()).map(Value::from).collect();
            if !ports.is_empty() {
                options.insert("ports", ports);
            }
        }
        "proxy" => {
            let marker = format!("/{}/proxy", target.name);
            let path = request.path.split_once(&marker).map_or("", |(_, path)| path);
            if !path.is_empty() {
                options.insert("path", path);
            }
        }
        connection => {
            for stream in STREAMS.into_iter().filter(|stream| query.flag(stream) == Some(true)) {
                options.insert(stream, true);
            }
            if !query.get("container").is_empty() {
                options.insert("container", query.get("container"));
            }
            if connection == "exec" {
                let command: Vec<Value> = query.all("command").into_iter().map(Value::from).collect();
                let command = if command.is_empty() { Value::Null } else { Value::List(command) };
                options.insert("command", command);
            }
        }
    }
    Value::Map(options)
}
