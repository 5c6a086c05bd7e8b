//! An operator in one file: a custom kind and its planner. A `Website` keeps a ConfigMap with its page and a Deployment
//! that serves it, and reports how many replicas are ready. Delete or edit either, and it is corrected within a moment;
//! delete the website, and the garbage collector removes both.
//!
//! ```text
//! cargo run --release -- up --kubeconfig /tmp/kc &
//! cargo run --release --example operator -- /tmp/kc &
//! kubectl --kubeconfig /tmp/kc apply -f - <<< '{"apiVersion": "example.org/v1", "kind": "Website",
//!   "metadata": {"name": "home"}, "spec": {"text": "hello"}}'
//! kubectl --kubeconfig /tmp/kc get websites,deployments
//! ```

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use http::Method;
use setpoint_api::{Clock, Key, Time, Value, json, value};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Engine, Object, Plan, Planner, Seed, Seen, Watch, WorldConfig, WorldReader, Write};
use setpoint_runtime::client::Client;
use setpoint_runtime::remote::{REQUEST_TIMEOUT, Remote};

/// Resource of the websites.
pub const WEBSITES: &str = "websites.example.org";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// CustomResourceDefinition of websites.
pub fn definition() -> Value {
    value!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": (WEBSITES)},
        "spec": {
            "group": "example.org", "scope": "Namespaced",
            "names": {"plural": "websites", "singular": "website", "kind": "Website"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "Ready", "type": "integer", "jsonPath": ".status.ready"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "required": ["text"], "properties": {
                        "text": {"type": "string"},
                        "replicas": {"type": "integer", "minimum": 0, "maximum": 9, "default": 2},
                    }},
                    "status": {"type": "object", "properties": {"ready": {"type": "integer"}}},
                }}},
            }],
        },
    })
}

/// Keeps the page and the Deployment of each website.
pub struct Websites;

impl Planner for Websites {
    type Memo = ();

    fn name(&self) -> &'static str {
        "websites"
    }

    fn manager(&self) -> &'static str {
        "website-operator"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 3] = [
            Watch::primary(WEBSITES),
            Watch::mapped("configmaps", enqueue_owner),
            Watch::mapped("deployments.apps", enqueue_owner),
        ];
        &WATCHES
    }

    /// Compares page and Deployment with the website, and returns the writes that correct them.
    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, _: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(site) = world.get(key).filter(|site| !site.meta().is_deleted()) else { return plan };
        let (namespace, name) = (key.namespace().unwrap_or_default(), key.name());
        let spec = site.value();
        let page = value!({"index.html": (spec.str_at(&["spec", "text"]))});
        match world.find("configmaps", namespace, name) {
            None => {
                let object = value!({"metadata": (metadata(site)), "data": (page)});
                plan.push(Write::create("configmaps", namespace, object));
            }
            Some(map) if map.value().get("data") != Some(&page) => {
                // A merge patch removes only what it names.
                let mut data = page.clone();
                let old = map.value();
                let others = old.get("data").and_then(Value::as_map).into_iter().flat_map(|data| data.keys());
                for file in others.filter(|file| page.get(file).is_none()) {
                    data.make_map().insert(file, Value::Null);
                }
                plan.push(Write::merge(map, "", value!({"data": (data)})));
            }
            Some(_) => {}
        }
        let replicas = spec.at(&["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(0);
        match world.find("deployments.apps", namespace, name) {
            None => plan.push(Write::create("deployments.apps", namespace, deployment(site, replicas))),
            Some(deployment) => {
                let deployment_value = deployment.value();
                let number =
                    |path: [&str; 2]| deployment_value.at(&path).and_then(Value::as_i64).unwrap_or(0);
                if number(["spec", "replicas"]) != replicas {
                    plan.push(Write::merge(deployment, "", value!({"spec": {"replicas": (replicas)}})));
                }
                let ready = number(["status", "readyReplicas"]);
                if spec.at(&["status", "ready"]).and_then(Value::as_i64) != Some(ready) {
                    plan.push(Write::merge(site, "status", value!({"status": {"ready": (ready)}})));
                }
            }
        }
        plan
    }
}

fn metadata(site: &Object) -> Value {
    value!({
        "name": (&*site.meta().name),
        "ownerReferences": [{
            "apiVersion": "example.org/v1", "kind": "Website", "name": (&*site.meta().name),
            "uid": (&*site.meta().uid), "controller": true,
        }],
    })
}

fn deployment(site: &Object, replicas: i64) -> Value {
    let labels = value!({"website": (&*site.meta().name)});
    value!({
        "metadata": (metadata(site)),
        "spec": {
            "replicas": (replicas),
            "selector": {"matchLabels": (labels.clone())},
            "template": {
                "metadata": {"labels": (labels)},
                "spec": {
                    "containers": [{"name": "web", "image": "nginx", "volumeMounts": [{"name": "page", "mountPath": "/page"}]}],
                    "volumes": [{"name": "page", "configMap": {"name": (&*site.meta().name)}}],
                },
            },
        },
    })
}

/// Maps an object to the website that controls it.
fn enqueue_owner(object: &Object, _: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    if let Some(owner) = object.meta().controller().filter(|owner| &*owner.kind == "Website")
        && let Some(key) = key_of(WEBSITES, &object.meta().namespace, &owner.name)
    {
        enqueue(key);
    }
}

struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "a program of its own has a clock of its own")]
    fn now(&self) -> Time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }
}

/// Creates the definition of websites unless it exists, and keeps all websites of a server.
pub async fn run(kubeconfig: &[u8]) -> anyhow::Result<()> {
    let client = || Client::from_kubeconfig(kubeconfig, "website-operator").map(Arc::new);
    let chance = || RandomState::new().hash_one(SystemClock.now());
    let remote = Remote {
        watches: client()?,
        writes: client()?,
        lease: "website-operator",
        identity: format!("website-operator_{:x}", chance()),
        clock: Arc::new(SystemClock),
        entropy: Arc::new(chance),
        queries: Arc::default(),
        timeout: REQUEST_TIMEOUT,
        timing: Default::default(),
    };
    let body = json::to_vec(&definition()).into();
    let (status, answer) =
        remote.writes.request(Method::POST, DEFINITIONS, Some("application/json"), body).await?;
    anyhow::ensure!(
        status.is_success() || status == http::StatusCode::CONFLICT,
        "the definition was rejected: {}",
        String::from_utf8_lossy(&answer)
    );
    Ok(remote.run(|| Engine::new(vec![Box::new(Websites)], WorldConfig::default())).await?)
}

fn main() -> anyhow::Result<()> {
    let path = std::env::args().nth(1).ok_or_else(|| anyhow::anyhow!("usage: operator KUBECONFIG"))?;
    let text = std::fs::read(path)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(&text))
}
