//! Repeated kill -9 of the server during rollouts, on one data directory.
//!
//! Each round changes the image of a Deployment and of a StatefulSet and creates a Job; the server is killed
//! at a random moment of that. Every few rounds there is no kill, and everything must converge: no object
//! lost, duplicated or left over.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use setpoint_runtime::client::ClientError;

use crate::api::Api;
use crate::converged_state::{self, State};
use crate::kubelet::{ARGS, Kubelet};
use crate::server::Server;

/// Number of kills between two rounds without one.
const CONVERGE_EVERY: u64 = 5;
/// Maximum time to converge, on a busy machine.
const CONVERGE_TIMEOUT: Duration = Duration::from_secs(120);
/// Number of consecutive polls in which the state must be converged, to detect late changes.
const STABLE_POLLS: usize = 3;
/// Pause between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum time from the start of a rollout to the kill, in microseconds.
const KILL_MICROS_MAX: u64 = 250_000;

const APPS: &str = "/apis/apps/v1/namespaces/default";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

fn kills() -> u64 {
    std::env::var("SETPOINT_ROLLOUT_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(25)
}

/// Requested and acknowledged state.
struct RequestedState {
    rng: fastrand::Rng,
    /// Image that was acknowledged last, and image that was requested last.
    image: [String; 2],
    /// Earlier images of the Deployment, for rollbacks.
    past: Vec<String>,
    jobs: BTreeSet<String>,
    /// Jobs whose creation or deletion was not acknowledged.
    unacknowledged: BTreeSet<String>,
}

impl RequestedState {
    /// Starts a rollout of all workloads.
    async fn roll_out(&mut self, api: &Api, round: u64) -> Result<(), ClientError> {
        // From time to time back to an earlier image, as `rollout undo` does.
        let back = self.rng.u8(..4) == 0 && !self.past.is_empty();
        let image = if back { self.rng.choice(&self.past).unwrap().clone() } else { format!("web:{round}") };
        self.image[1].clone_from(&image);
        let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}});
        assert_eq!(api.merge(&format!("{APPS}/deployments/web"), &patch).await?, 200);
        self.past.push(std::mem::replace(&mut self.image[0], image));
        self.past = self.past.split_off(self.past.len().saturating_sub(3));
        assert_eq!(api.merge(&format!("{APPS}/statefulsets/db"), &patch).await?, 200);
        let name = format!("job-{round}");
        self.unacknowledged.insert(name.clone());
        assert_eq!(api.post(JOBS, &job(&name)).await?, 201);
        self.unacknowledged.remove(&name);
        self.jobs.insert(name);
        Ok(())
    }

    /// Checks that all acknowledged writes are in the store.
    async fn check_acknowledged(&mut self, api: &Api) -> Result<(), ClientError> {
        let deployment = api.get(&format!("{APPS}/deployments/web")).await?;
        let image = deployment["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap();
        assert!(self.image.iter().any(|known| known == image), "{image} is none of {:?}", self.image);
        self.image = [image.to_owned(), image.to_owned()];
        let jobs: BTreeSet<String> =
            api.list(JOBS).await?.iter().map(|job| converged_state::name(job).to_owned()).collect();
        assert!(jobs.is_superset(&self.jobs), "{jobs:?} are there, acknowledged are {:?}", self.jobs);
        let made = jobs.difference(&self.jobs).cloned().collect::<BTreeSet<_>>();
        assert!(
            made.is_subset(&self.unacknowledged),
            "{made:?} are there, wanted were {:?}",
            self.unacknowledged
        );
        self.unacknowledged.clear();
        self.jobs = jobs;
        Ok(())
    }

    /// Deletes all Jobs, whose dependents must be deleted too.
    async fn delete_jobs(&mut self, api: &Api) -> Result<(), ClientError> {
        while let Some(name) = self.jobs.pop_first() {
            self.unacknowledged.insert(name.clone());
            let background = json!({"propagationPolicy": "Background"});
            assert_eq!(api.delete(&format!("{JOBS}/{name}"), background).await?, 200);
            self.unacknowledged.remove(&name);
        }
        Ok(())
    }
}

fn template(app: &str, restart: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"restartPolicy": restart, "containers": [{"name": "c", "image": "web:first"}]},
    })
}

fn job(name: &str) -> Value {
    let spec = json!({"completions": 3, "parallelism": 2, "template": template(name, "Never")});
    json!({"metadata": {"name": name}, "spec": spec})
}

async fn create_workloads(api: &Api) -> Result<(), ClientError> {
    let selector = |app: &str| json!({"matchLabels": {"app": app}});
    let web = json!({"metadata": {"name": "web"}, "spec": {"replicas": converged_state::WEB, "revisionHistoryLimit": converged_state::HISTORY,
        "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
        "selector": selector("web"), "template": template("web", "Always")}});
    let db = json!({"metadata": {"name": "db"}, "spec": {"replicas": converged_state::DB, "revisionHistoryLimit": converged_state::HISTORY,
        "serviceName": "db", "selector": selector("db"), "template": template("db", "Always")}});
    let service =
        json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    for (path, object) in [
        (format!("{APPS}/deployments"), web),
        (format!("{APPS}/statefulsets"), db),
        ("/api/v1/namespaces/default/services".to_owned(), service),
    ] {
        assert_eq!(api.post(&path, &object).await?, 201, "{path}");
    }
    Ok(())
}

/// Runs the node until the server ends.
async fn run_node(kubelet: &mut Kubelet, api: &Api) -> Result<(), ClientError> {
    loop {
        if kubelet.tick(api).await? == 0 {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// Waits until everything has converged.
async fn wait_for_convergence(
    kubelet: &mut Kubelet,
    api: &Api,
    requested: &RequestedState,
) -> Result<(), ClientError> {
    let mut wrong = String::new();
    let polling = async {
        let mut stable_polls = 0;
        while stable_polls < STABLE_POLLS {
            if kubelet.tick(api).await? > 0 {
                stable_polls = 0;
                continue;
            }
            let found = State::read(api).await?.check(&requested.image[0], &requested.jobs);
            stable_polls = if found.is_ok() { stable_polls + 1 } else { 0 };
            if let Err(error) = found {
                wrong = error.to_string();
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    };
    let result = tokio::time::timeout(CONVERGE_TIMEOUT, polling).await;
    result.unwrap_or_else(|_| panic!("no convergence: {wrong}"))
}

/// Rollout during which the server is killed.
async fn roll_out_until_killed(kubelet: &mut Kubelet, api: &Api, requested: &mut RequestedState, round: u64) {
    let longest = if requested.rng.u8(..4) == 0 { KILL_MICROS_MAX / 20 } else { KILL_MICROS_MAX };
    let moment = Duration::from_micros(requested.rng.u64(..longest));
    let work = async {
        requested.roll_out(api, round).await?;
        run_node(kubelet, api).await
    };
    // The timeout interrupts the rollout at any point.
    let ended = tokio::time::timeout(moment, work).await;
    assert!(ended.is_err(), "the server ended by itself: {ended:?}");
}

/// Rollout without a kill.
async fn roll_out_and_converge(
    kubelet: &mut Kubelet,
    api: &Api,
    requested: &mut RequestedState,
    round: u64,
) -> Result<(), ClientError> {
    requested.roll_out(api, round).await?;
    wait_for_convergence(kubelet, api, requested).await?;
    let panics = api.get("/setpoint/loop").await?["controllers"]
        .as_array()
        .map(|all| all.iter().filter(|one| one["panics"] != 0).cloned().collect::<Vec<_>>());
    assert_eq!(panics, Some(Vec::new()));
    requested.delete_jobs(api).await
}

#[test]
fn rollout_survives_kill_9_without_lost_duplicate_or_leftover_objects() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = "web:first".to_owned();
    let mut requested = RequestedState {
        rng: fastrand::Rng::with_seed(4),
        image: [first.clone(), first],
        past: Vec::new(),
        jobs: BTreeSet::new(),
        unacknowledged: BTreeSet::new(),
    };
    let (mut kubelet, mut server) = (Kubelet::default(), Server::start_with(ARGS));
    runtime.block_on(async {
        let api = Api::of(&server);
        kubelet.register(&api).await.unwrap();
        create_workloads(&api).await.unwrap();
    });
    for round in 1..=kills() {
        runtime.block_on(async {
            let api = Api::of(&server);
            requested.check_acknowledged(&api).await.unwrap();
            roll_out_until_killed(&mut kubelet, &api, &mut requested, round).await;
        });
        server.kill_and_restart(ARGS);
        if round % CONVERGE_EVERY == 0 || round == kills() {
            runtime.block_on(async {
                let api = Api::of(&server);
                requested.check_acknowledged(&api).await.unwrap();
                roll_out_and_converge(&mut kubelet, &api, &mut requested, kills() + round).await.unwrap();
            });
        }
    }
    println!("{} kills in rollouts, {} convergences", kills(), kills().div_ceil(CONVERGE_EVERY));
}
