//! Users: they create, edit, scale, pause, roll back and delete objects while controllers work on them.
//!
//! A [`UserScenario`] is a group of objects with a user who edits them. A seed chooses some of [`ALL`].

mod batch;
mod cluster_wide;
mod crowd;
mod custom;
mod definitions;
mod pods;
mod rollouts;
mod services;
mod webhooks;

use setpoint_api::status::Status;
use setpoint_api::{Revision, Value, value};

use super::coverage::CoverageMarks;
use crate::campaign::path;
use crate::cluster::Cluster;

/// Result of an edit. A rejection is no failure.
pub type EditResult = Result<Revision, Status>;

/// Access of a user to the cluster.
pub struct UserSession<'a> {
    /// The control plane.
    pub cluster: &'a mut Cluster,
    /// `true` if users do not touch pods.
    pub calm: bool,
    /// Coverage marks.
    pub marks: &'a mut CoverageMarks,
}

/// Group of objects with a user who edits them.
pub struct UserScenario {
    /// Name of the scenario.
    pub name: &'static str,
    /// Creates the objects.
    pub begin: fn(&mut UserSession<'_>),
    /// Makes a random edit.
    pub edit: fn(&mut UserSession<'_>) -> EditResult,
}

/// Number of scenarios with built-in resources only, which come first in [`ALL`].
pub const BUILT_IN: usize = 15;

/// All scenarios.
pub const ALL: [UserScenario; 17] = [
    UserScenario { name: "deployment", begin: rollouts::begin_rolling, edit: rollouts::edit_rolling },
    UserScenario {
        name: "recreated deployment",
        begin: rollouts::begin_recreate,
        edit: rollouts::edit_recreate,
    },
    UserScenario { name: "ordered set", begin: rollouts::begin_ordered, edit: rollouts::edit_ordered },
    UserScenario { name: "parallel set", begin: rollouts::begin_parallel, edit: rollouts::edit_parallel },
    UserScenario { name: "daemon set", begin: rollouts::begin_daemons, edit: rollouts::edit_daemons },
    UserScenario { name: "replica set", begin: pods::begin_set, edit: pods::edit_set },
    UserScenario {
        name: "replication controller",
        begin: pods::begin_controller,
        edit: pods::edit_controller,
    },
    UserScenario { name: "jobs", begin: batch::begin_jobs, edit: batch::edit_jobs },
    UserScenario { name: "cron job", begin: batch::begin_cron, edit: batch::edit_cron },
    UserScenario { name: "services", begin: services::begin, edit: services::edit },
    UserScenario { name: "budgets", begin: services::begin_budget, edit: services::edit_budget },
    UserScenario {
        name: "namespace",
        begin: cluster_wide::begin_namespace,
        edit: cluster_wide::edit_namespace,
    },
    UserScenario { name: "owners", begin: cluster_wide::begin_owners, edit: cluster_wide::edit_owners },
    UserScenario {
        name: "quota and claims",
        begin: cluster_wide::begin_bounds,
        edit: cluster_wide::edit_bounds,
    },
    UserScenario { name: "crowd", begin: crowd::begin, edit: crowd::edit },
    UserScenario { name: "custom resources", begin: custom::begin, edit: custom::edit },
    UserScenario { name: "webhooks", begin: webhooks::begin, edit: webhooks::edit },
];

pub use custom::release_instances;

/// Ends the edits after the faults: stops what would never converge, and resumes what is paused.
pub fn end_edits(session: &mut UserSession<'_>) {
    // Later edits must not wait for webhooks.
    webhooks::end_edits(session);
    crowd::end_edits(session);
    custom::end_edits(session);
    let cluster = &mut *session.cluster;
    for cron in cluster.list("cronjobs.batch") {
        let _ = cluster.patch("cronjobs.batch", &path(&cron), "", value!({"spec": {"suspend": true}}));
    }
    for quota in cluster.list("resourcequotas") {
        let hard = value!({"pods": "100", "requests.cpu": "100"});
        let _ = cluster.patch("resourcequotas", &path(&quota), "", value!({"spec": {"hard": (hard)}}));
    }
    for deployment in cluster.list("deployments.apps") {
        let _ =
            cluster.patch("deployments.apps", &path(&deployment), "", value!({"spec": {"paused": false}}));
    }
    for node in cluster.list("nodes") {
        let _ = cluster.patch("nodes", &path(&node), "", value!({"spec": {"unschedulable": false}}));
    }
    for job in cluster.list("jobs.batch") {
        let _ = cluster.patch("jobs.batch", &path(&job), "", value!({"spec": {"suspend": false}}));
    }
    // Deletes pods that wait for a claim which no longer exists.
    for pod in cluster.list("pods") {
        if is_consumer(&path(&pod)) && pod.str_at(&["spec", "nodeName"]).is_empty() {
            let _ = cluster.delete("pods", &path(&pod), &Value::map());
        }
    }
}

/// `true` if a pod uses the claim of the scenario "quota and claims".
fn is_consumer(path: &str) -> bool {
    path.starts_with("default/consumer-")
}

/// Pod template with the label `app`.
fn template(app: &str, image: &str) -> Value {
    value!({
        "metadata": {"labels": {"app": (app)}},
        "spec": {"terminationGracePeriodSeconds": 5, "containers": [{"name": "c", "image": (image)}]},
    })
}

/// Workload with a selector, a template and replicas.
fn workload(name: &str, image: &str, replicas: i64) -> Value {
    value!({
        "metadata": {"name": (name)},
        "spec": {
            "replicas": (replicas),
            "selector": {"matchLabels": {"app": (name)}},
            "template": (template(name, image)),
        },
    })
}

impl UserSession<'_> {
    /// Creates an object of a scenario.
    fn create(&mut self, resource: &str, namespace: &str, object: Value) {
        self.cluster.create(resource, namespace, object);
        self.marks.record("object created");
    }

    /// Creates an object that may exist already.
    fn try_create(&mut self, resource: &str, namespace: &str, object: Value) -> EditResult {
        let made = self.cluster.try_create(resource, namespace, object);
        if made.is_ok() {
            self.marks.record("object created");
        }
        made
    }

    fn merge(&mut self, resource: &str, path: &str, patch: Value) -> EditResult {
        self.cluster.patch(resource, path, "", patch)
    }

    fn scale(&mut self, resource: &str, path: &str, most: i64) -> EditResult {
        let replicas = self.cluster.rng.i64(0..=most);
        self.merge(resource, path, value!({"spec": {"replicas": (replicas)}}))
    }

    /// Sets a random image in the template.
    fn set_image(&mut self, resource: &str, path: &str) -> EditResult {
        let image = self.random_image();
        let containers = value!([{"name": "c", "image": (image)}]);
        self.merge(resource, path, value!({"spec": {"template": {"spec": {"containers": (containers)}}}}))
    }

    fn random_image(&mut self) -> String {
        format!("v{}", self.cluster.rng.u8(1..5))
    }

    /// Deletes with a random propagation policy.
    fn delete(&mut self, resource: &str, path: &str) -> EditResult {
        let (policy, mark) = match self.cluster.rng.u8(..4) {
            0 => ("Foreground", "deleted in the foreground"),
            1 => ("Orphan", "deleted and orphaned"),
            _ => ("Background", "deleted in the background"),
        };
        let done = self.cluster.delete(resource, path, &value!({"propagationPolicy": (policy)}));
        if done.is_ok() {
            self.marks.record(mark);
        }
        done
    }

    /// Picks a random object of a resource.
    fn pick(&mut self, resource: &str) -> Option<Value> {
        let objects = self.cluster.list(resource);
        self.cluster.rng.choice(objects)
    }

    /// Picks the path of a random object of a resource; of none if there is no object.
    fn pick_path(&mut self, resource: &str) -> String {
        self.pick(resource).map_or("nothing".to_owned(), |object| path(&object))
    }

    /// Draws a random number below `bound`.
    fn chance(&mut self, bound: u8) -> u8 {
        self.cluster.rng.u8(..bound)
    }

    /// Relabels, evicts or deletes a random pod, unless the run is calm.
    fn disturb_pod(&mut self) -> EditResult {
        let Some(pod) = self.pick("pods").filter(|_| !self.calm) else { return Ok(Revision::ZERO) };
        let path = path(&pod);
        // Some pods are not relabeled: one that its StatefulSet no longer selects would keep its name until it is
        // deleted, one that waits for a claim may wait forever, and one with large requests may leave no capacity for
        // others.
        let owners = pod.at(&["metadata", "ownerReferences"]).and_then(Value::as_list).unwrap_or_default();
        let has_place = owners.iter().any(|owner| owner.str_at(&["kind"]) == "StatefulSet")
            || is_consumer(&path)
            || crowd::is_crowd_pod(&path);
        match self.chance(4) {
            0 if !has_place => {
                let names = ["web", "plain", "legacy", "nobody"];
                let name = names[self.cluster.rng.usize(..names.len())];
                self.merge("pods", &path, value!({"metadata": {"labels": {"app": (name)}}}))
            }
            1 => self.evict(&path),
            _ => self.cluster.delete("pods", &path, &Value::map()),
        }
    }

    fn evict(&mut self, path: &str) -> EditResult {
        let done = self.cluster.evict(path);
        self.marks.record(if done.is_ok() { "eviction allowed" } else { "eviction rejected" });
        done
    }
}
