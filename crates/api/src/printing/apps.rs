//! Printers of the group `apps`.

use super::cell::{age, bool_at, containers, int, labels, list, name, selector, selector_text};
use super::{AGE, CONTAINERS, Cell, Column, Doc, IMAGES, NAME, Printer, cells, field};
use crate::time::Time;
use crate::value::Value;

pub(super) fn printer(kind: &str) -> Option<&'static Printer> {
    Some(match kind {
        "ControllerRevision" => &CONTROLLER_REVISION,
        "DaemonSet" => &DAEMON_SET,
        "Deployment" => &DEPLOYMENT,
        "ReplicaSet" => &REPLICA_SET,
        "StatefulSet" => &STATEFUL_SET,
        _ => return None,
    })
}

const READY: Column = Column::text("Ready", Doc::Own("Number of ready pods."));

static CONTROLLER_REVISION: Printer = Printer::new(
    &[
        NAME,
        Column::text("Controller", Doc::Own("Object that the revision belongs to.")),
        Column::text("Revision", field!("apps.v1.ControllerRevision", "revision")),
        AGE,
    ],
    |object, now| cells![name(object), controller(object), int(object, &["revision"]), age(object, now)],
);

fn controller(object: &Value) -> String {
    let owners = list(object, &["metadata", "ownerReferences"]);
    let Some(owner) = owners.iter().find(|owner| bool_at(owner, &["controller"])) else {
        return "<none>".to_owned();
    };
    let kind = owner.str_at(&["kind"]).to_lowercase();
    let name = owner.str_at(&["name"]);
    match owner.str_at(&["apiVersion"]).split_once('/') {
        Some((group, _)) => format!("{kind}.{}/{name}", group.to_lowercase()),
        None => format!("{kind}/{name}"),
    }
}

static DAEMON_SET: Printer = Printer::new(
    &[
        NAME,
        Column::integer("Desired", field!("apps.v1.DaemonSetStatus", "desiredNumberScheduled")),
        Column::integer("Current", field!("apps.v1.DaemonSetStatus", "currentNumberScheduled")),
        Column::integer("Ready", field!("apps.v1.DaemonSetStatus", "numberReady")),
        Column::integer("Up-to-date", field!("apps.v1.DaemonSetStatus", "updatedNumberScheduled")),
        Column::integer("Available", field!("apps.v1.DaemonSetStatus", "numberAvailable")),
        Column::text("Node Selector", field!("core.v1.PodSpec", "nodeSelector")),
        AGE,
        CONTAINERS,
        IMAGES,
        Column::wide("Selector", field!("apps.v1.DaemonSetSpec", "selector")),
    ],
    daemon_set,
);

fn daemon_set(object: &Value, now: Time) -> Vec<Cell> {
    let status = |field: &str| int(object, &["status", field]);
    let spec = object.at(&["spec", "template", "spec"]);
    let (names, images) = containers(spec);
    cells![
        name(object),
        status("desiredNumberScheduled"),
        status("currentNumberScheduled"),
        status("numberReady"),
        status("updatedNumberScheduled"),
        status("numberAvailable"),
        labels(spec.and_then(|spec| spec.get("nodeSelector"))),
        age(object, now),
        names,
        images,
        selector_text(object.at(&["spec", "selector"])),
    ]
}

static DEPLOYMENT: Printer = Printer::new(
    &[
        NAME,
        READY,
        Column::text("Up-to-date", field!("apps.v1.DeploymentStatus", "updatedReplicas")),
        Column::text("Available", field!("apps.v1.DeploymentStatus", "availableReplicas")),
        AGE,
        CONTAINERS,
        IMAGES,
        Column::wide("Selector", field!("apps.v1.DeploymentSpec", "selector")),
    ],
    deployment,
);

fn deployment(object: &Value, now: Time) -> Vec<Cell> {
    let (names, images) = containers(object.at(&["spec", "template", "spec"]));
    let selector = selector(object.at(&["spec", "selector"]));
    cells![
        name(object),
        ready(object),
        int(object, &["status", "updatedReplicas"]),
        int(object, &["status", "availableReplicas"]),
        age(object, now),
        names,
        images,
        selector.map_or_else(|_| "<invalid>".to_owned(), |selector| selector.to_string()),
    ]
}

fn ready(object: &Value) -> String {
    format!("{}/{}", int(object, &["status", "readyReplicas"]), int(object, &["spec", "replicas"]))
}

static REPLICA_SET: Printer = Printer::new(
    &[
        NAME,
        Column::integer("Desired", field!("apps.v1.ReplicaSetSpec", "replicas")),
        Column::integer("Current", field!("apps.v1.ReplicaSetStatus", "replicas")),
        Column::integer("Ready", field!("apps.v1.ReplicaSetStatus", "readyReplicas")),
        AGE,
        CONTAINERS,
        IMAGES,
        Column::wide("Selector", field!("apps.v1.ReplicaSetSpec", "selector")),
    ],
    |object, now| replicas(object, now, selector_text(object.at(&["spec", "selector"]))),
);

/// Cells of a ReplicaSet or ReplicationController.
pub(super) fn replicas(object: &Value, now: Time, selector: String) -> Vec<Cell> {
    let (names, images) = containers(object.at(&["spec", "template", "spec"]));
    cells![
        name(object),
        int(object, &["spec", "replicas"]),
        int(object, &["status", "replicas"]),
        int(object, &["status", "readyReplicas"]),
        age(object, now),
        names,
        images,
        selector,
    ]
}

static STATEFUL_SET: Printer = Printer::new(&[NAME, READY, AGE, CONTAINERS, IMAGES], |object, now| {
    let (names, images) = containers(object.at(&["spec", "template", "spec"]));
    cells![name(object), ready(object), age(object, now), names, images]
});
