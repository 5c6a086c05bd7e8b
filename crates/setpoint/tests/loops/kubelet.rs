//! Stand-in for a scheduler and a node, through the API: binds pods, reports them as running, completes
//! those that end by themselves, and terminates those that are deleted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use setpoint_runtime::client::ClientError;

use crate::api::Api;
use crate::server::Server;

/// Arguments of a server on which this stand-in is the only scheduler and node.
pub const ARGS: &[&str] = &["--controllers=*,-scheduler", "--nodes=0"];

const NODE: &str = "node-0";
const TIME: &str = "2030-01-01T00:00:00Z";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
/// Number of ticks between two heartbeats.
const TICKS_PER_HEARTBEAT: u64 = 100;

/// Node that runs all pods.
#[derive(Default)]
pub struct Kubelet {
    /// IP address of each pod, by uid. Kept when the node restarts.
    addresses: BTreeMap<String, String>,
    ticks: u64,
}

impl Kubelet {
    /// Registers the node.
    pub async fn register(&self, api: &Api) -> Result<(), ClientError> {
        api.post("/api/v1/nodes", &json!({"metadata": {"name": NODE}})).await?;
        let ready = json!({"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
            "lastHeartbeatTime": TIME, "lastTransitionTime": TIME});
        let status = json!({"status": {"conditions": [ready]}});
        assert_eq!(api.merge(&format!("/api/v1/nodes/{NODE}/status"), &status).await?, 200);
        Ok(())
    }

    /// Advances every pod by one step. Returns the number of pods that had one.
    pub async fn tick(&mut self, api: &Api) -> Result<usize, ClientError> {
        if self.ticks.is_multiple_of(TICKS_PER_HEARTBEAT) {
            self.renew_lease(api).await?;
        }
        self.ticks += 1;
        let mut steps = 0;
        for pod in api.list("/api/v1/pods").await? {
            steps += usize::from(self.step(api, &pod).await?);
        }
        Ok(steps)
    }

    /// Renews the Lease of the node. The time of the update counts, not its content.
    async fn renew_lease(&self, api: &Api) -> Result<(), ClientError> {
        let lease = json!({"metadata": {"name": NODE}, "spec": {"holderIdentity": NODE,
            "leaseDurationSeconds": 40, "leaseTransitions": self.ticks / TICKS_PER_HEARTBEAT}});
        if api.merge(&format!("{LEASES}/{NODE}"), &lease).await? == 404 {
            assert_eq!(api.post(LEASES, &lease).await?, 201);
        }
        Ok(())
    }

    /// Advances a pod. A step may be rejected because the pod is gone or replaced; the next tick sees the
    /// new state.
    async fn step(&mut self, api: &Api, pod: &Value) -> Result<bool, ClientError> {
        let meta = &pod["metadata"];
        let (name, uid) = (&meta["name"], &meta["uid"]);
        let path = format!(
            "/api/v1/namespaces/{}/pods/{}",
            meta["namespace"].as_str().unwrap(),
            name.as_str().unwrap()
        );
        let ends = pod["spec"]["restartPolicy"] != "Always";
        if meta["deletionTimestamp"].is_string() {
            // The next pod of a StatefulSet has the same name.
            api.delete(&path, json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})).await?;
        } else if !pod["spec"]["nodeName"].is_string() {
            let target = json!({"kind": "Node", "name": NODE});
            let binding = json!({"kind": "Binding", "apiVersion": "v1", "metadata": {"name": name, "uid": uid},
                "target": target});
            api.post(&format!("{path}/binding"), &binding).await?;
        } else if pod["status"]["phase"] == "Pending" {
            let status = self.running(uid.as_str().unwrap());
            api.merge(&format!("{path}/status"), &json!({"metadata": {"uid": uid}, "status": status}))
                .await?;
        } else if pod["status"]["phase"] == "Running" && ends {
            let status = json!({"phase": "Succeeded", "conditions": []});
            api.merge(&format!("{path}/status"), &json!({"metadata": {"uid": uid}, "status": status}))
                .await?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn running(&mut self, uid: &str) -> Value {
        let number = self.addresses.len();
        let address = self.addresses.entry(uid.to_owned()).or_insert_with(|| {
            format!("10.{}.{}.{}", 100 + number / 62_500, number / 250 % 250, number % 250 + 1)
        });
        let conditions = ["Initialized", "ContainersReady", "Ready"]
            .map(|kind| json!({"type": kind, "status": "True", "lastTransitionTime": TIME}));
        json!({"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": conditions,
            "startTime": TIME})
    }
}

/// Node that runs in its own thread until it is dropped.
pub struct RunningNode(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl RunningNode {
    pub fn start(server: &Server) -> RunningNode {
        let (stop, api) = (Arc::new(AtomicBool::new(false)), Api::of(server));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut kubelet = Kubelet::default();
                kubelet.register(&api).await.unwrap();
                while !stopped.load(Ordering::Acquire) {
                    kubelet.tick(&api).await.unwrap();
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            });
        });
        RunningNode(stop, Some(thread))
    }
}

impl Drop for RunningNode {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
        // The panic hook has reported a panic of the thread.
        let _ = self.1.take().map(JoinHandle::join);
    }
}
