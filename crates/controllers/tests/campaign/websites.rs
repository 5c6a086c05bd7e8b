//! The planner of `examples/operator.rs` beside all built-in controllers and their users: websites are created, edited and
//! deleted, and others edit their objects.

use setpoint_api::{Value, value};
use setpoint_sim::campaign::users::{EditResult, OwnScenario, UserScenario, UserSession};
use setpoint_sim::campaign::{Setup, path};
use setpoint_sim::cluster::{Cluster, Controllers};

use super::{CONTROL_PLANE, SETUP, run_campaign};

#[path = "../../../../examples/operator.rs"]
#[expect(dead_code, reason = "its main is not used")]
mod example;

use example::{WEBSITES, Websites, definition};

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
const MAPS: &str = "configmaps";
const DEPLOYMENTS: &str = "deployments.apps";

/// The control plane with the operator in its loop.
const WITH_WEBSITES: Controllers = || {
    let (mut all, indexes) = CONTROL_PLANE();
    all.push(Box::new(Websites));
    (all, indexes)
};

static SITES: OwnScenario =
    OwnScenario { scenario: UserScenario { name: "websites", begin, edit }, check_converged };

fn begin(session: &mut UserSession<'_>) {
    session.cluster.create(DEFINITIONS, "", definition());
    session.marks.record("object created");
}

/// Makes some edits at once: the kind is served only after other steps, and a seed has few edits.
fn edit(session: &mut UserSession<'_>) -> EditResult {
    let first = edit_once(session);
    let second = edit_once(session);
    first.or(second)
}

fn edit_once(session: &mut UserSession<'_>) -> EditResult {
    let cluster = &mut *session.cluster;
    let name = format!("w{}", cluster.rng.u8(..4));
    let at = format!("default/{name}");
    let (text, replicas) = (format!("text {}", cluster.rng.u8(..3)), i64::from(cluster.rng.u8(..4)));
    let (done, mark) = match cluster.rng.u8(..10) {
        0..4 => {
            let site = value!({"metadata": {"name": (name)}, "spec": {"text": (text)}});
            (cluster.try_create(WEBSITES, "default", site), "website was created")
        }
        4 => {
            let patch = value!({"spec": {"text": (text), "replicas": (replicas)}});
            (cluster.patch(WEBSITES, &at, "", patch), "website was changed")
        }
        // More than the schema allows.
        5 => {
            let done = cluster.patch(WEBSITES, &at, "", value!({"spec": {"replicas": 10}}));
            assert!(done.is_err(), "{at} is stored against its schema");
            (done, "")
        }
        6 => (cluster.delete(WEBSITES, &at, &Value::Null), "website was deleted"),
        7 => {
            let patch = value!({"data": {"index.html": "edited", "more": "x"}});
            (cluster.patch(MAPS, &at, "", patch), "page was edited")
        }
        8 => {
            let patch = value!({"spec": {"replicas": (replicas)}});
            (cluster.patch(DEPLOYMENTS, &at, "", patch), "server was scaled")
        }
        _ => {
            let resource = if cluster.rng.bool() { MAPS } else { DEPLOYMENTS };
            (cluster.delete(resource, &at, &Value::Null), "object of a website was deleted")
        }
    };
    if done.is_ok() {
        session.marks.record(mark);
    }
    done
}

fn check_converged(cluster: &Cluster) -> Result<(), String> {
    let sites = cluster.list(WEBSITES);
    for site in &sites {
        let name = path(site);
        let page = cluster.get(MAPS, &name).ok_or(format!("{name} has no page"))?;
        if page.get("data") != Some(&value!({"index.html": (site.str_at(&["spec", "text"]))})) {
            return Err(format!("{name} has another page: {:?}", page.get("data")));
        }
        let deployment = cluster.get(DEPLOYMENTS, &name).ok_or(format!("{name} has no Deployment"))?;
        if replicas(&deployment) != replicas(site) {
            return Err(format!("{name} has {} replicas", replicas(&deployment)));
        }
        let ready = deployment.at(&["status", "readyReplicas"]).and_then(Value::as_i64).unwrap_or(0);
        if ready != replicas(site) || site.at(&["status", "ready"]).and_then(Value::as_i64) != Some(ready) {
            return Err(format!("{name} reports {:?}, not {ready}", site.get("status")));
        }
    }
    let is_left = |object: &&Value| {
        let owners = object.at(&["metadata", "ownerReferences"]).and_then(Value::as_list).unwrap_or_default();
        let mut owners = owners.iter().filter(|owner| owner.str_at(&["kind"]) == "Website");
        owners.any(|owner| {
            !sites.iter().any(|site| site.str_at(&["metadata", "uid"]) == owner.str_at(&["uid"]))
        })
    };
    let objects = [MAPS, DEPLOYMENTS].map(|resource| cluster.list(resource)).concat();
    objects.iter().find(is_left).map_or(Ok(()), |object| Err(format!("{} is left", path(object))))
}

fn replicas(object: &Value) -> i64 {
    object.at(&["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(-1)
}

#[test]
fn websites_of_the_example_converge_in_the_campaign() {
    let setup = Setup { controllers: WITH_WEBSITES, own_scenario: Some(&SITES), ..SETUP };
    let required = [
        "website was created",
        "website was changed",
        "website was deleted",
        "page was edited",
        "server was scaled",
        "object of a website was deleted",
        "write lost",
        "watch broken",
        "crash between two writes",
        "power cut during a commit",
        "leader changed",
        "conflict",
    ];
    run_campaign(setup, |seeds| seeds.div_ceil(16), &required);
}
