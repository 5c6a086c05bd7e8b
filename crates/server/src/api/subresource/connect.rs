//! Subresources that connect to a node: `log`, `exec`, `attach`, `portforward` and `proxy`.
//!
//! Requests are validated as far as possible without a node, with upstream's messages. Only logs of simulated nodes
//! are served; the rest is 501, because this server does not connect to nodes yet.

use std::sync::Arc;

use setpoint_api::Value;
use setpoint_api::quote::Quoted;
use setpoint_api::resource_types;
use setpoint_api::status::Status;
use setpoint_runtime::objects;
use setpoint_store::Snapshot;

use super::Api;
use crate::exchange::{Payload, Response};
use crate::nodes::{LogFollower, LogOptions, LogSource};
use crate::query::QueryParams;
use crate::route::Target;
use crate::{codec, responses};

impl Api {
    /// Handles a request to a connect subresource.
    pub(super) fn connect(&self, target: &Target, query: &QueryParams) -> Result<Response, Status> {
        let snapshot = self.store.snapshot();
        let part = target.subresource.as_str();
        if part == "proxy" {
            let node = self.check_proxy(target, &snapshot)?;
            let is_simulated = node.is_some_and(|node| is_simulated(&snapshot, &node));
            return Err(if is_simulated { simulated_error(target) } else { unimplemented_error(target) });
        }
        let pod = codec::object(&self.find(target, &snapshot)?);
        if part != "portforward" {
            check_container(&pod, &target.name, query.get("container"))?;
        }
        match (pod.str_at(&["spec", "nodeName"]), part) {
            // A pod without a node has no log.
            ("", "log") => Ok(responses::text(200, "")),
            ("", _) => Err(Status::bad_request(format!("pod {} does not have a host assigned", target.name))),
            (node, part) => {
                let nodes = self.log_source.get().filter(|_| is_simulated(&snapshot, node));
                match nodes {
                    None => Err(unimplemented_error(target)),
                    Some(nodes) if part == "log" => self.log(target, query, &pod, Arc::clone(nodes)),
                    Some(_) => Err(simulated_error(target)),
                }
            }
        }
    }

    /// Log of a container; a stream if the request follows it.
    fn log(
        &self,
        target: &Target,
        query: &QueryParams,
        pod: &Value,
        source: Arc<dyn LogSource>,
    ) -> Result<Response, Status> {
        let only = || pod.at(&["spec", "containers"])?.as_list()?.first().map(|one| one.str_at(&["name"]));
        let container = Some(query.get("container")).filter(|name| !name.is_empty()).or_else(only);
        let now = self.options.clock.now();
        let options = LogOptions::parse(query, container.unwrap_or_default(), now)?;
        let record = self.find(target, &self.store.snapshot())?;
        let missing = || Status::not_found(target.resource_type.qualified(), &target.name);
        let key = target.resource_type.key(&target.namespace, &target.name).map_err(|_| missing())?;
        let pod = objects::object(key.clone(), &record).ok_or_else(missing)?;
        let log = source.container_log(&pod, &options.container, options.previous, now)?;
        let mut response = responses::text(200, "");
        response.body = if options.follow {
            let clock = Arc::clone(&self.options.clock);
            Payload::Stream(Box::new(LogFollower::new(self.store.clone(), key, source, clock, options)))
        } else {
            Payload::Whole(vec![options.text(&log, 0).into()])
        };
        Ok(response)
    }

    /// Checks that the proxied object exists. Returns its node, if it is known.
    fn check_proxy(&self, target: &Target, snapshot: &Snapshot) -> Result<Option<String>, Status> {
        let noun = &target.resource_type.info.singular;
        let requested = &target.name;
        let Some((name, port)) = name_and_port(requested) else {
            return Err(Status::bad_request(format!("invalid {noun} request {}", Quoted(requested))));
        };
        let object = |name: &str| {
            let key = target.resource_type.key(&target.namespace, name).ok()?;
            snapshot.get(&key).map(codec::object)
        };
        let missing = || Status::not_found(target.resource_type.qualified(), name);
        if noun != "service" {
            let found = object(name).ok_or_else(missing)?;
            if noun == "node" {
                return Ok(Some(name.to_owned()));
            }
            if found.str_at(&["status", "podIP"]).is_empty() {
                return Err(Status::bad_request("address not allowed"));
            }
            return Ok(Some(found.str_at(&["spec", "nodeName"]).to_owned()));
        }
        if let Ok(number) = port.parse::<i64>() {
            let service = object(name).ok_or_else(missing)?;
            let ports = service.at(&["spec", "ports"]).and_then(Value::as_list).unwrap_or_default();
            if !ports.iter().any(|port| port.get("port").and_then(Value::as_i64) == Some(number)) {
                let name = Quoted(name);
                return Err(Status::service_unavailable(format!(
                    "no service port {number} found for service {name}"
                )));
            }
        }
        let none =
            || Status::service_unavailable(format!("no endpoints available for service {}", Quoted(name)));
        let endpoint = endpoint(snapshot, &target.namespace, name).ok_or_else(none)?;
        Ok(Some(endpoint.str_at(&["nodeName"]).to_owned()))
    }
}

/// `true` if the node is simulated.
fn is_simulated(snapshot: &Snapshot, node: &str) -> bool {
    let key = || resource_types::find("", "v1", "nodes")?.key("", node).ok();
    let found = key().and_then(|key| snapshot.get(&key)).map(codec::object).unwrap_or_default();
    found.str_at(&["status", "nodeInfo", "containerRuntimeVersion"]).starts_with("simulated://")
}

/// 501 for connections to simulated containers.
fn simulated_error(target: &Target) -> Status {
    let (plural, part, name) = (&target.resource_type.info.plural, &target.subresource, &target.name);
    let what = match &*target.resource_type.info.singular {
        "node" => format!("node {name} is simulated: no kubelet runs"),
        "service" => "what is behind it is on a simulated node: its containers do not run".to_owned(),
        _ => "the node of this pod is simulated: its containers do not run".to_owned(),
    };
    Status::unclassified(501, format!("{plural}/{part}: {what}, so there is nothing to connect to"))
}

/// 501 for connections to real nodes.
fn unimplemented_error(target: &Target) -> Status {
    let (plural, part) = (&target.resource_type.info.plural, &target.subresource);
    Status::unclassified(
        501,
        format!("{plural}/{part} is not implemented: this server does not connect to nodes yet"),
    )
}

/// Parses `name`, `name:port` or `scheme:name:port`.
fn name_and_port(text: &str) -> Option<(&str, &str)> {
    let parts: Vec<&str> = text.split(':').collect();
    let (name, port) = match parts[..] {
        [name] => (name, ""),
        [name, port] => (name, port),
        ["" | "http" | "https", name, port] => (name, port),
        _ => return None,
    };
    (!name.is_empty()).then_some((name, port))
}

/// An endpoint of a Service that is ready or not reported as unready.
fn endpoint(snapshot: &Snapshot, namespace: &str, name: &str) -> Option<Value> {
    let slices = resource_types::find("discovery.k8s.io", "v1", "endpointslices");
    let table = slices.and_then(|slices| snapshot.table(&slices.resource))?;
    let prefix = format!("{namespace}/");
    let mut slices = table
        .range(&prefix, None)
        .filter(|record| record.attributes().label("kubernetes.io/service-name") == Some(name));
    slices.find_map(|record| {
        let slice = codec::object(record);
        let endpoints = slice.get("endpoints").and_then(Value::as_list).unwrap_or_default();
        let may_be = |one: &&Value| one.at(&["conditions", "ready"]).and_then(Value::as_bool) != Some(false);
        endpoints.iter().find(may_be).cloned()
    })
}

/// 400 if the container is not one of the pod's, or is not named in a pod with several.
fn check_container(pod: &Value, name: &str, container: &str) -> Result<(), Status> {
    let names = |field: &str| -> Vec<&str> {
        let containers = pod.at(&["spec", field]).and_then(Value::as_list).unwrap_or_default();
        containers.iter().map(|container| container.str_at(&["name"])).collect()
    };
    let all = [names("initContainers"), names("containers"), names("ephemeralContainers")].concat();
    let fault = match (container, names("containers").len()) {
        ("", 1) => return Ok(()),
        ("", 0) => format!("a container name must be specified for pod {name}"),
        ("", _) => {
            format!("a container name must be specified for pod {name}, choose one of: [{}]", all.join(" "))
        }
        (container, _) if all.contains(&container) => return Ok(()),
        (container, _) => format!("container {container} is not valid for pod {name}"),
    };
    Err(Status::bad_request(fault))
}

#[cfg(test)]
mod tests {
    use setpoint_api::json;

    use super::*;

    #[test]
    fn proxy_name_can_have_a_scheme_and_a_port() {
        for (text, expected) in [
            ("web", Some(("web", ""))),
            ("web:80", Some(("web", "80"))),
            ("https:web:443", Some(("web", "443"))),
            (":web:http", Some(("web", "http"))),
            ("ftp:web:1", None),
            ("a:b:c:d", None),
            ("", None),
        ] {
            assert_eq!(name_and_port(text), expected, "{text}");
        }
    }

    #[test]
    fn unknown_container_is_rejected() {
        let pod = r#"{"spec":{"initContainers":[{"name":"i"}],"containers":[{"name":"a"},{"name":"b"}]}}"#;
        let pod = json::parse(pod.as_bytes()).unwrap();
        assert!(check_container(&pod, "p", "i").is_ok());
        let fault = |container| check_container(&pod, "p", container).unwrap_err().to_string();
        assert_eq!(fault("x"), "container x is not valid for pod p");
        assert_eq!(fault(""), "a container name must be specified for pod p, choose one of: [i a b]");
    }
}
