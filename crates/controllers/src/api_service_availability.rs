//! Availability of APIServices with a Service: the condition `Available`.
//!
//! Reasons and messages are those of upstream's remote availability controller. The Service, its port and its
//! EndpointSlices are checked in the world; then the discovery document of the extension API server is requested by the
//! query `api-service`, `{"name"}`, which the API server answers. A failed check is repeated with the backoff of
//! queries, a passed one after [`RESYNC_PERIOD`], or at once if the Service or its endpoints change.

use std::time::Duration;

use setpoint_api::quote::Quoted;
use setpoint_api::{Key, Time, Value, value};
use setpoint_reconcile::plan::value_of;
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Object, Plan, Planner, Query, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::api_service::{ApiService, ServiceReference};
use setpoint_views::endpoint_slice::EndpointSlice;
use setpoint_views::service::Service;
use setpoint_views::{Condition, condition};

use crate::conditions::{is_same, set_condition};

const API_SERVICES: &str = "apiservices.apiregistration.k8s.io";
const SLICES: &str = "endpointslices.discovery.k8s.io";
/// Label of an EndpointSlice with the name of its Service.
const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";
/// Type of the condition.
const AVAILABLE: &str = "Available";
/// Interval of checks that pass.
pub const RESYNC_PERIOD: Duration = Duration::from_secs(30);

/// Maintains the condition `Available` of APIServices with a Service.
pub struct RemoteAvailability;

/// Condition that follows from the world alone, or the id of the query that decides it.
enum Check {
    Failed { reason: &'static str, message: String },
    Query(String),
}

impl Planner for RemoteAvailability {
    type Memo = ();

    fn name(&self) -> &'static str {
        "remote-available-controller"
    }

    fn user(&self) -> String {
        "system:apiserver".to_owned()
    }

    fn manager(&self) -> &'static str {
        "kube-apiserver"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 3] = [
            Watch::primary(API_SERVICES),
            Watch::mapped("services", enqueue_for_service),
            Watch::mapped(SLICES, enqueue_for_slice),
        ];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, seen: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some((object, api_service)) = world.view::<ApiService>("", key.name()) else { return plan };
        let Some(service) = api_service.spec.service.as_ref().filter(|_| !object.meta().is_deleted()) else {
            return plan;
        };
        let new = match check_service(object, service, world) {
            Check::Failed { reason, message } => Condition::new(AVAILABLE, "False", reason, &message, now),
            Check::Query(id) => {
                let answered = seen.answers.get(&id);
                let due = answered
                    .filter(|answered| answered.answer.is_ok())
                    .map(|one| one.at.after(RESYNC_PERIOD));
                match due {
                    Some(due) if now < due => plan.requeue_at(due),
                    _ => plan.queries.push(Query {
                        target: "api-service",
                        id,
                        question: value!({"name": (key.name())}),
                    }),
                }
                match answered.map(|answered| &answered.answer) {
                    Some(Ok(_)) => Condition::new(AVAILABLE, "True", "Passed", "all checks passed", now),
                    Some(Err(error)) => {
                        Condition::new(AVAILABLE, "False", "FailedDiscoveryCheck", error, now)
                    }
                    // The condition stays until the answer arrives.
                    None => return plan,
                }
            }
        };
        let existing = &api_service.status.conditions;
        if !condition(existing, AVAILABLE).is_some_and(|existing| is_same(existing, &new)) {
            let mut conditions = existing.clone();
            set_condition(&mut conditions, new);
            let status = value!({"status": {"conditions": (value_of(&conditions))}});
            plan.push(Write::merge(object, "status", status));
        }
        plan
    }
}

/// Checks the Service of an APIService and its endpoints.
fn check_service(object: &Object, reference: &ServiceReference, world: &WorldReader<'_>) -> Check {
    let ServiceReference { namespace, name, port } = reference;
    let failed = |reason, message| Check::Failed { reason, message };
    let place = format!("service/{name} in {}", Quoted(namespace));
    let Some((service_object, service)) = world.view::<Service>(namespace, name) else {
        return failed("ServiceNotFound", format!("{place} is not present"));
    };
    let slices: Vec<&Object> = world
        .in_namespace(SLICES, namespace)
        .filter(|slice| slice.meta().labels.get(SERVICE_NAME_LABEL).is_some_and(|owner| owner == name))
        .collect();
    if service.spec.kind == "ClusterIP" {
        let Some(service_port) = service.spec.ports.iter().find(|one| one.port == *port) else {
            return failed("ServicePortError", format!("{place} is not listening on port {port}"));
        };
        if slices.is_empty() {
            return failed("EndpointsNotFound", format!("cannot find endpointslices for {place}"));
        }
        let port_name = &service_port.name;
        let views = slices.iter().filter_map(|slice| slice.view::<EndpointSlice>());
        if !views.into_iter().any(|slice| has_available_endpoint(slice, port_name)) {
            let message =
                format!("endpointslices for {place} have no addresses with port name {}", Quoted(port_name));
            return failed("MissingEndpoints", message);
        }
    }
    // A change of the spec, the Service or its endpoints is another query, so an old answer does not count.
    let revisions = slices.iter().map(|slice| slice.revision().0);
    let newest = revisions.chain([service_object.revision().0]).max().unwrap_or_default();
    Check::Query(format!("{}/{}/{newest}", object.meta().generation, slices.len()))
}

/// `true` if a slice has an endpoint that is ready, and the port.
fn has_available_endpoint(slice: &EndpointSlice, port_name: &str) -> bool {
    let is_ready =
        |endpoint: &Value| endpoint.at(&["conditions", "ready"]).and_then(Value::as_bool) != Some(false);
    let is_port = |port: &Value| {
        port.get("name").and_then(Value::as_str).unwrap_or_default() == port_name
            && port.get("port").is_some()
    };
    slice.endpoints.iter().any(is_ready) && slice.ports.iter().any(is_port)
}

fn enqueue_for_service(service: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    enqueue_for(&service.meta().namespace, &service.meta().name, world, enqueue);
}

fn enqueue_for_slice(slice: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    if let Some(service) = slice.meta().labels.get(SERVICE_NAME_LABEL) {
        enqueue_for(&slice.meta().namespace, service, world, enqueue);
    }
}

/// Enqueues the APIServices of a Service.
fn enqueue_for(namespace: &str, name: &str, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    for (object, api_service) in world.views::<ApiService>() {
        let reference = api_service.spec.service.as_ref();
        if reference.is_some_and(|one| one.namespace == namespace && one.name == name)
            && let Some(key) = key_of(API_SERVICES, "", &object.meta().name)
        {
            enqueue(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use setpoint_sim::cluster::{Cluster, Controllers};

    use super::*;

    const NAME: &str = "v1.things.example.com";

    fn cluster() -> Cluster {
        let controllers: Controllers = || (vec![Box::new(RemoteAvailability)], crate::indexes::all());
        let mut cluster = Cluster::new(controllers, 1);
        let spec = value!({
            "group": "things.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
            "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "things", "port": 443},
        });
        cluster.create(API_SERVICES, "", value!({"metadata": {"name": (NAME)}, "spec": (spec)}));
        cluster
    }

    fn available(cluster: &Cluster) -> (String, String, String) {
        let found = cluster.get(API_SERVICES, NAME).unwrap();
        let conditions = found.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
        let one = conditions.first().cloned().unwrap_or_default();
        let text = |field: &str| one.str_at(&[field]).to_owned();
        (text("status"), text("reason"), text("message"))
    }

    fn is(cluster: &mut Cluster, reason: &str, message: &str) {
        cluster.settle();
        assert_eq!(available(cluster), ("False".to_owned(), reason.to_owned(), message.to_owned()));
    }

    #[test]
    fn unavailable_service_has_upstreams_reason() {
        let mut cluster = cluster();
        is(&mut cluster, "ServiceNotFound", r#"service/things in "default" is not present"#);
        let service = |port: i64| value!({"metadata": {"name": "things"}, "spec": {"ports": [{"name": "https", "port": (port)}]}});
        cluster.create("services", "default", service(80));
        is(&mut cluster, "ServicePortError", r#"service/things in "default" is not listening on port 443"#);
        cluster.delete("services", "default/things", &value!({})).unwrap();
        cluster.create("services", "default", service(443));
        is(
            &mut cluster,
            "EndpointsNotFound",
            r#"cannot find endpointslices for service/things in "default""#,
        );
        let mut labels = setpoint_api::Map::new();
        labels.insert(SERVICE_NAME_LABEL, "things");
        let slice = value!({
            "metadata": {"name": "things-1", "labels": (labels)}, "addressType": "IPv4",
            "endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": false}}],
            "ports": [{"name": "https", "port": 8443, "protocol": "TCP"}],
        });
        cluster.create(SLICES, "default", slice);
        let missing =
            r#"endpointslices for service/things in "default" have no addresses with port name "https""#;
        is(&mut cluster, "MissingEndpoints", missing);
    }
}
