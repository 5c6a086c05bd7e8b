//! Objects of the namespace, and the state to which they must converge.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use setpoint_runtime::client::ClientError;

use crate::api::Api;

/// Replicas of the Deployment.
pub const WEB: usize = 4;
/// Replicas of the StatefulSet.
pub const DB: usize = 3;
/// Revision history limit of each.
pub const HISTORY: usize = 2;
/// Completions of each Job.
const COMPLETIONS: usize = 3;

/// Collections, with the kind of their objects.
const COLLECTIONS: [(&str, &str); 8] = [
    ("Deployment", "/apis/apps/v1/namespaces/default/deployments"),
    ("ReplicaSet", "/apis/apps/v1/namespaces/default/replicasets"),
    ("StatefulSet", "/apis/apps/v1/namespaces/default/statefulsets"),
    ("ControllerRevision", "/apis/apps/v1/namespaces/default/controllerrevisions"),
    ("Job", "/apis/batch/v1/namespaces/default/jobs"),
    ("Pod", "/api/v1/namespaces/default/pods"),
    ("Endpoints", "/api/v1/namespaces/default/endpoints"),
    ("EndpointSlice", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"),
];

/// All objects, by kind.
pub struct State(BTreeMap<&'static str, Vec<Value>>);

pub fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// Uid of the controller of an object.
fn owner(object: &Value) -> &Value {
    object["metadata"]["ownerReferences"]
        .as_array()
        .and_then(|owners| owners.iter().find(|owner| owner["controller"] == true))
        .map_or(&Value::Null, |owner| &owner["uid"])
}

fn image(pod_spec: &Value) -> &Value {
    &pod_spec["containers"][0]["image"]
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
}

impl State {
    pub async fn read(api: &Api) -> Result<State, ClientError> {
        let mut all = BTreeMap::new();
        for (kind, path) in COLLECTIONS {
            all.insert(kind, api.list(path).await?);
        }
        Ok(State(all))
    }

    fn one(&self, kind: &str, wanted: &str) -> anyhow::Result<&Value> {
        self.0[kind]
            .iter()
            .find(|object| name(object) == wanted)
            .with_context(|| format!("no {kind} {wanted}"))
    }

    fn owned<'a>(&'a self, kind: &str, uid: &'a Value) -> Vec<&'a Value> {
        self.0[kind].iter().filter(|object| owner(object) == uid).collect()
    }

    /// Checks the converged state, with this image of the workloads and these Jobs.
    pub fn check(&self, wanted: &str, jobs: &BTreeSet<String>) -> anyhow::Result<()> {
        self.check_owners()?;
        self.check_deployment(wanted)?;
        self.check_stateful_set(wanted)?;
        self.check_endpoints()?;
        let found: BTreeSet<String> = self.0["Job"].iter().map(|job| name(job).to_owned()).collect();
        ensure!(found == *jobs, "Jobs {found:?} instead of {jobs:?}");
        self.0["Job"].iter().try_for_each(|job| self.check_job(job))?;
        let pods = WEB + DB + COMPLETIONS * jobs.len();
        ensure!(self.0["Pod"].len() == pods, "{} pods instead of {pods}", self.0["Pod"].len());
        Ok(())
    }

    /// Checks that every dependent has an existing owner, and that no object is being deleted.
    fn check_owners(&self) -> anyhow::Result<()> {
        let uids: BTreeSet<&str> =
            self.0.values().flatten().filter_map(|object| object["metadata"]["uid"].as_str()).collect();
        for (kind, objects) in &self.0 {
            for object in objects {
                let name = name(object);
                ensure!(
                    object["metadata"]["deletionTimestamp"].is_null(),
                    "{kind} {name} is still being deleted"
                );
                if ["Pod", "ReplicaSet", "ControllerRevision"].contains(kind) {
                    let owner =
                        owner(object).as_str().with_context(|| format!("{kind} {name} has no owner"))?;
                    ensure!(uids.contains(owner), "{kind} {name} has an owner that does not exist");
                }
            }
        }
        Ok(())
    }

    fn check_deployment(&self, wanted: &str) -> anyhow::Result<()> {
        let web = self.one("Deployment", "web")?;
        let status = &web["status"];
        ensure!(status["observedGeneration"] == web["metadata"]["generation"], "not observed: {status}");
        for count in ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"] {
            ensure!(status[count] == json!(WEB), "{count}: {status}");
        }
        let sets = self.owned("ReplicaSet", &web["metadata"]["uid"]);
        ensure!(sets.len() <= HISTORY + 1, "{} ReplicaSets", sets.len());
        let images: BTreeSet<String> =
            sets.iter().map(|set| image(&set["spec"]["template"]["spec"]).to_string()).collect();
        ensure!(images.len() == sets.len(), "two ReplicaSets of one template: {images:?}");
        let revision = |object: &Value| -> anyhow::Result<u64> {
            let text = object["metadata"]["annotations"]["deployment.kubernetes.io/revision"].as_str();
            Ok(text.context("no revision")?.parse()?)
        };
        let mut revisions = BTreeMap::new();
        for set in &sets {
            ensure!(revisions.insert(revision(set)?, *set).is_none(), "two ReplicaSets of one revision");
            ensure!(set["status"]["replicas"] == set["spec"]["replicas"], "ReplicaSet {}", set["status"]);
        }
        let (newest, current) = revisions.last_key_value().context("no ReplicaSet")?;
        ensure!(revision(web)? == *newest, "the Deployment is not of revision {newest}");
        ensure!(
            *image(&current["spec"]["template"]["spec"]) == json!(wanted),
            "revision {newest} is another"
        );
        for set in &sets {
            let replicas = if set == current { WEB } else { 0 };
            ensure!(
                set["spec"]["replicas"] == json!(replicas),
                "{} has {}",
                name(set),
                set["spec"]["replicas"]
            );
        }
        let pods = self.owned("Pod", &current["metadata"]["uid"]);
        ensure!(pods.len() == WEB, "{} pods of the Deployment", pods.len());
        ensure!(
            pods.iter().all(|pod| is_ready(pod) && *image(&pod["spec"]) == json!(wanted)),
            "not all ready"
        );
        Ok(())
    }

    fn check_stateful_set(&self, wanted: &str) -> anyhow::Result<()> {
        let db = self.one("StatefulSet", "db")?;
        let status = &db["status"];
        ensure!(status["observedGeneration"] == db["metadata"]["generation"], "not observed: {status}");
        ensure!(status["currentRevision"] == status["updateRevision"], "still rolling: {status}");
        for count in ["replicas", "updatedReplicas", "currentReplicas", "readyReplicas", "availableReplicas"]
        {
            ensure!(status[count] == json!(DB), "{count}: {status}");
        }
        let uid = &db["metadata"]["uid"];
        let pods = self.owned("Pod", uid);
        let names: Vec<String> = pods.iter().map(|pod| name(pod).to_owned()).collect();
        ensure!(names == (0..DB).map(|at| format!("db-{at}")).collect::<Vec<_>>(), "{names:?}");
        for pod in pods {
            ensure!(is_ready(pod) && *image(&pod["spec"]) == json!(wanted), "{} is old", name(pod));
            let hash = &pod["metadata"]["labels"]["controller-revision-hash"];
            ensure!(*hash == status["updateRevision"], "{} is of revision {hash}", name(pod));
        }
        let revisions = self.owned("ControllerRevision", uid);
        ensure!(revisions.len() <= HISTORY + 1, "{} ControllerRevisions", revisions.len());
        let data: BTreeSet<String> = revisions.iter().map(|revision| revision["data"].to_string()).collect();
        ensure!(data.len() == revisions.len(), "two ControllerRevisions of one template");
        let newest = revisions.iter().max_by_key(|revision| revision["revision"].as_i64());
        let newest = newest.map(|revision| name(revision));
        ensure!(newest == status["updateRevision"].as_str(), "the newest revision is {newest:?}");
        Ok(())
    }

    /// Checks that each pod is counted exactly once.
    fn check_job(&self, job: &Value) -> anyhow::Result<()> {
        let (name, status) = (name(job), &job["status"]);
        let conditions = status["conditions"].as_array().context("no conditions")?;
        ensure!(
            conditions.iter().any(|one| one["type"] == "Complete" && one["status"] == "True"),
            "{name}: {status}"
        );
        ensure!(status["succeeded"] == json!(COMPLETIONS) && status["failed"].is_null(), "{name}: {status}");
        ensure!(status["active"].is_null(), "{name}: {status}");
        ensure!(
            status["uncountedTerminatedPods"].as_object().is_none_or(serde_json::Map::is_empty),
            "{name}: {status}"
        );
        let pods = self.owned("Pod", &job["metadata"]["uid"]);
        ensure!(pods.len() == COMPLETIONS, "{name} has {} pods", pods.len());
        for pod in pods {
            ensure!(pod["status"]["phase"] == "Succeeded", "a pod of {name} is {}", pod["status"]["phase"]);
            ensure!(
                pod["metadata"]["finalizers"].is_null(),
                "a pod of {name} keeps {}",
                pod["metadata"]["finalizers"]
            );
        }
        Ok(())
    }

    /// Checks that the endpoints are the ready pods, each once.
    fn check_endpoints(&self) -> anyhow::Result<()> {
        let web =
            self.0["Pod"].iter().filter(|pod| pod["metadata"]["labels"]["app"] == "web" && is_ready(pod));
        let mut wanted: Vec<&str> = web.filter_map(|pod| pod["status"]["podIP"].as_str()).collect();
        wanted.sort_unstable();
        let list = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
        let mine = |slice: &&Value| slice["metadata"]["labels"]["kubernetes.io/service-name"] == "web";
        let slices = self.0["EndpointSlice"].iter().filter(mine).flat_map(|slice| list(&slice["endpoints"]));
        let sliced = slices.flat_map(|endpoint| list(&endpoint["addresses"]));
        let subsets = list(&self.one("Endpoints", "web")?["subsets"]).into_iter();
        let whole = subsets.flat_map(|subset| list(&subset["addresses"])).map(|one| one["ip"].clone());
        for found in [sliced.collect::<Vec<_>>(), whole.collect()] {
            let mut found: Vec<&str> = found.iter().filter_map(Value::as_str).collect();
            found.sort_unstable();
            ensure!(found == wanted, "endpoints {found:?} instead of {wanted:?}");
        }
        Ok(())
    }
}
