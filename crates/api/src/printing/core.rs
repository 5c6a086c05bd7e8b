//! Printers of the core group.

use super::cell::{age, containers, count, labels, list, name, or};
use super::{AGE, CONTAINERS, Cell, Column, Doc, IMAGES, NAME, NAME_AND_AGE, Printer, cells, field};
use crate::time::Time;
use crate::value::Value;

pub(super) mod event;
mod node;
pub(super) mod pod;
mod service;
mod volume;

pub(super) fn printer(kind: &str) -> Option<&'static Printer> {
    Some(match kind {
        "ComponentStatus" => &COMPONENT_STATUS,
        "ConfigMap" => &CONFIG_MAP,
        "Endpoints" => &service::ENDPOINTS,
        "Event" => &event::EVENT,
        "Namespace" => &NAMESPACE,
        "Node" => &node::NODE,
        "PersistentVolume" => &volume::PERSISTENT_VOLUME,
        "PersistentVolumeClaim" => &volume::PERSISTENT_VOLUME_CLAIM,
        "Pod" => &pod::POD,
        "PodTemplate" => &POD_TEMPLATE,
        "ReplicationController" => &REPLICATION_CONTROLLER,
        "ResourceQuota" => &RESOURCE_QUOTA,
        "Secret" => &SECRET,
        "Service" => &service::SERVICE,
        "ServiceAccount" => &NAME_AND_AGE,
        _ => return None,
    })
}

static COMPONENT_STATUS: Printer = Printer::new(
    &[
        NAME,
        Column::text("Status", Doc::Own("Health of the component.")),
        Column::text("Message", Doc::Own("Message of the health check.")),
        Column::text("Error", Doc::Own("Error of the health check.")),
    ],
    |object, _| {
        let healthy = list(object, &["conditions"]).iter().find(|one| one.str_at(&["type"]) == "Healthy");
        let status = match healthy.map(|one| one.str_at(&["status"])) {
            None => "Unknown",
            Some("True") => "Healthy",
            Some(_) => "Unhealthy",
        };
        let text = |field: &str| healthy.map_or("", |one| one.str_at(&[field]));
        cells![name(object), status, text("message"), text("error")]
    },
);

static CONFIG_MAP: Printer =
    Printer::new(&[NAME, Column::text("Data", field!("core.v1.ConfigMap", "data")), AGE], |object, now| {
        cells![name(object), count(object, &["data"]) + count(object, &["binaryData"]), age(object, now)]
    });

static NAMESPACE: Printer = Printer::new(
    &[NAME, Column::text("Status", Doc::Own("Phase of the namespace: Active or Terminating.")), AGE],
    |object, now| cells![name(object), object.str_at(&["status", "phase"]), age(object, now)],
);

static POD_TEMPLATE: Printer = Printer::new(
    &[
        NAME,
        Column { priority: 0, ..CONTAINERS },
        Column { priority: 0, ..IMAGES },
        Column::text("Pod Labels", Doc::Own("Labels of the pods.")),
    ],
    |object, _| {
        let (names, images) = containers(object.at(&["template", "spec"]));
        cells![name(object), names, images, labels(object.at(&["template", "metadata", "labels"]))]
    },
);

static REPLICATION_CONTROLLER: Printer = Printer::new(
    &[
        NAME,
        Column::integer("Desired", field!("core.v1.ReplicationControllerSpec", "replicas")),
        Column::integer("Current", field!("core.v1.ReplicationControllerStatus", "replicas")),
        Column::integer("Ready", field!("core.v1.ReplicationControllerStatus", "readyReplicas")),
        AGE,
        CONTAINERS,
        IMAGES,
        Column::wide("Selector", field!("core.v1.ReplicationControllerSpec", "selector")),
    ],
    |object, now| super::apps::replicas(object, now, labels(object.at(&["spec", "selector"]))),
);

static RESOURCE_QUOTA: Printer = Printer::new(
    &[
        NAME,
        Column::text("Request", Doc::Own("Used and hard amount of each resource, except limits.")),
        Column::text("Limit", Doc::Own("Used and hard amount of each limit.")),
        AGE,
    ],
    resource_quota,
);

fn resource_quota(object: &Value, now: Time) -> Vec<Cell> {
    let hard = object.at(&["status", "hard"]).and_then(Value::as_map);
    let mut resources: Vec<&str> = hard.into_iter().flat_map(|map| map.keys()).collect();
    resources.sort_unstable();
    let amount =
        |which: &str, resource: &str| or(object.str_at(&["status", which, resource]), "0").to_owned();
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for resource in resources {
        let text = format!("{resource}: {}/{}", amount("used", resource), amount("hard", resource));
        if resource.starts_with("limits.") { limits.push(text) } else { requests.push(text) }
    }
    cells![name(object), requests.join(", "), limits.join(", "), age(object, now)]
}

static SECRET: Printer = Printer::new(
    &[
        NAME,
        Column::text("Type", field!("core.v1.Secret", "type")),
        Column::text("Data", field!("core.v1.Secret", "data")),
        AGE,
    ],
    |object, now| cells![name(object), object.str_at(&["type"]), count(object, &["data"]), age(object, now)],
);
