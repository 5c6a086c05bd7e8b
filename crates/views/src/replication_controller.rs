//! View of a ReplicationController, in the form of a ReplicaSet.

use serde::Deserialize;
use setpoint_api::labels::Selector;
use setpoint_reconcile::object::{Pairs, View};

use super::replica_set::{ReplicaSet, ReplicaSetSpec, ReplicaSetStatus};
use super::{PodTemplate, default_replicas, or_default};

/// View of a ReplicationController, in the form of a ReplicaSet.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Stored")]
pub struct ReplicationController(pub ReplicaSet);

impl View for ReplicationController {
    const RESOURCE: &'static str = "replicationcontrollers";
}

/// Stored form: its selector is a map of labels, without expressions.
#[derive(Deserialize)]
struct Stored {
    spec: StoredSpec,
    #[serde(default)]
    status: ReplicaSetStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredSpec {
    #[serde(default = "default_replicas")]
    replicas: i64,
    #[serde(default)]
    min_ready_seconds: i64,
    #[serde(default, deserialize_with = "or_default")]
    selector: Pairs,
    #[serde(default)]
    template: PodTemplate,
}

impl From<Stored> for ReplicationController {
    fn from(Stored { spec, status }: Stored) -> ReplicationController {
        let StoredSpec { replicas, min_ready_seconds, selector, template } = spec;
        let selector =
            if selector.is_empty() { Selector::Nothing } else { Selector::from_labels(selector.iter()) };
        ReplicationController(ReplicaSet {
            spec: ReplicaSetSpec { replicas, min_ready_seconds, selector, template },
            status,
        })
    }
}
