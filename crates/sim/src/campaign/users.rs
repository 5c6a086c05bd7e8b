//! Users who cannot make up their minds: they make, edit, scale, pause, roll back and delete, at bad moments.
//!
//! A [`Scenario`] is a corner of a cluster with somebody who works on it. [`ALL`] lists them; a seed picks some.

mod batch;
mod cluster_wide;
mod crowd;
mod pods;
mod rollouts;
mod services;

use setpoint_api::status::Status;
use setpoint_api::{Revision, Value, value};

use super::marks::Marks;
use crate::campaign::path;
use crate::cluster::Cluster;

/// What became of an edit. Users do not mind being refused.
pub type Done = Result<Revision, Status>;

/// A user at work.
pub struct Desk<'a> {
    /// The cluster.
    pub cluster: &'a mut Cluster,
    /// Whether users leave pods alone.
    pub calm: bool,
    /// What happened how often.
    pub marks: &'a mut Marks,
}

/// A corner of a cluster with somebody who works on it.
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// Sets the stage.
    pub begin: fn(&mut Desk<'_>),
    /// Does something.
    pub edit: fn(&mut Desk<'_>) -> Done,
}

/// Every scenario.
pub const ALL: [Scenario; 15] = [
    Scenario { name: "deployment", begin: rollouts::begin_rolling, edit: rollouts::edit_rolling },
    Scenario { name: "recreated deployment", begin: rollouts::begin_recreate, edit: rollouts::edit_recreate },
    Scenario { name: "ordered set", begin: rollouts::begin_ordered, edit: rollouts::edit_ordered },
    Scenario { name: "parallel set", begin: rollouts::begin_parallel, edit: rollouts::edit_parallel },
    Scenario { name: "daemon set", begin: rollouts::begin_daemons, edit: rollouts::edit_daemons },
    Scenario { name: "replica set", begin: pods::begin_set, edit: pods::edit_set },
    Scenario { name: "replication controller", begin: pods::begin_controller, edit: pods::edit_controller },
    Scenario { name: "jobs", begin: batch::begin_jobs, edit: batch::edit_jobs },
    Scenario { name: "cron job", begin: batch::begin_cron, edit: batch::edit_cron },
    Scenario { name: "services", begin: services::begin, edit: services::edit },
    Scenario { name: "budgets", begin: services::begin_budget, edit: services::edit_budget },
    Scenario { name: "namespace", begin: cluster_wide::begin_namespace, edit: cluster_wide::edit_namespace },
    Scenario { name: "owners", begin: cluster_wide::begin_owners, edit: cluster_wide::edit_owners },
    Scenario { name: "quota and claims", begin: cluster_wide::begin_bounds, edit: cluster_wide::edit_bounds },
    Scenario { name: "crowd", begin: crowd::begin, edit: crowd::edit },
];

/// What users do when the faults end: what would never come to rest is put to rest, what waits for them goes on.
pub fn put_right(desk: &mut Desk<'_>) {
    crowd::put_right(desk);
    let cluster = &mut *desk.cluster;
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
    // Who waits for a claim that is gone would do so for ever.
    for pod in cluster.list("pods") {
        if is_consumer(&path(&pod)) && pod.str_at(&["spec", "nodeName"]).is_empty() {
            let _ = cluster.delete("pods", &path(&pod), &Value::map());
        }
    }
}

/// Whether a pod is one that uses the claim of a scenario.
fn is_consumer(path: &str) -> bool {
    path.starts_with("default/consumer-")
}

/// A template of pods with the label `app`.
fn template(app: &str, image: &str) -> Value {
    value!({
        "metadata": {"labels": {"app": (app)}},
        "spec": {"terminationGracePeriodSeconds": 5, "containers": [{"name": "c", "image": (image)}]},
    })
}

/// What every workload says of its pods.
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

impl Desk<'_> {
    /// Makes what a scenario begins with.
    fn make(&mut self, resource: &str, namespace: &str, object: Value) {
        self.cluster.create(resource, namespace, object);
        self.marks.note("object made");
    }

    /// Makes something, if it is not there.
    fn try_make(&mut self, resource: &str, namespace: &str, object: Value) -> Done {
        let made = self.cluster.try_create(resource, namespace, object);
        if made.is_ok() {
            self.marks.note("object made");
        }
        made
    }

    fn merge(&mut self, resource: &str, path: &str, patch: Value) -> Done {
        self.cluster.patch(resource, path, "", patch)
    }

    fn scale(&mut self, resource: &str, path: &str, most: i64) -> Done {
        let replicas = self.cluster.rng.i64(0..=most);
        self.merge(resource, path, value!({"spec": {"replicas": (replicas)}}))
    }

    /// Another image in a template.
    fn roll(&mut self, resource: &str, path: &str) -> Done {
        let image = self.image();
        let containers = value!([{"name": "c", "image": (image)}]);
        self.merge(resource, path, value!({"spec": {"template": {"spec": {"containers": (containers)}}}}))
    }

    fn image(&mut self) -> String {
        format!("v{}", self.cluster.rng.u8(1..5))
    }

    /// Deletes in one of the three ways.
    fn remove(&mut self, resource: &str, path: &str) -> Done {
        let (policy, mark) = match self.cluster.rng.u8(..4) {
            0 => ("Foreground", "deleted in the foreground"),
            1 => ("Orphan", "deleted and orphaned"),
            _ => ("Background", "deleted in the background"),
        };
        let done = self.cluster.delete(resource, path, &value!({"propagationPolicy": (policy)}));
        if done.is_ok() {
            self.marks.note(mark);
        }
        done
    }

    /// Some object of a resource.
    fn some(&mut self, resource: &str) -> Option<Value> {
        let objects = self.cluster.list(resource);
        self.cluster.rng.choice(objects)
    }

    /// Where some object of a resource is; a place where nothing is if there is none.
    fn some_path(&mut self, resource: &str) -> String {
        self.some(resource).map_or("nothing".to_owned(), |object| path(&object))
    }

    fn chance(&mut self, of: u8) -> u8 {
        self.cluster.rng.u8(..of)
    }

    /// Something that is done to pods, unless users leave them alone.
    fn disturb(&mut self) -> Done {
        let Some(pod) = self.some("pods").filter(|_| !self.calm) else { return Ok(Revision::ZERO) };
        let path = path(&pod);
        // A pod that a StatefulSet no longer selects keeps its name, and so its place, until somebody deletes it. One
        // that waits for a claim may do so for ever, whoever takes it in; one that takes up much room may leave none.
        let owners = pod.at(&["metadata", "ownerReferences"]).and_then(Value::as_list).unwrap_or_default();
        let has_place = owners.iter().any(|owner| owner.str_at(&["kind"]) == "StatefulSet")
            || is_consumer(&path)
            || crowd::is_of_crowd(&path);
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

    fn evict(&mut self, path: &str) -> Done {
        let done = self.cluster.evict(path);
        self.marks.note(if done.is_ok() { "eviction granted" } else { "eviction refused" });
        done
    }
}
