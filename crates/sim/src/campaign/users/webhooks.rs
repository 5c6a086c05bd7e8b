//! Scenario with admission webhooks on pods, ConfigMaps and custom resources.
//!
//! The webhooks themselves are simulated by [`crate::cluster::SimulatedWebhooks`].

use setpoint_api::{Value, value};

use super::{EditResult, UserSession};
use crate::cluster::{DENYING, MIXED};

const MUTATING: &str = "mutatingwebhookconfigurations.admissionregistration.k8s.io";
const VALIDATING: &str = "validatingwebhookconfigurations.admissionregistration.k8s.io";
/// Names of the configurations.
const CONFIGURATIONS: [(&str, &str); 3] =
    [(MUTATING, "labels"), (VALIDATING, "guards"), (VALIDATING, "others")];

fn webhook(name: &str, path: &str, rule: Value, policy: &str, seconds: i64) -> Value {
    let url = format!("https://webhooks.example{path}");
    value!({
        "name": (format!("{name}.webhooks.example.com")), "clientConfig": {"url": (url)},
        "rules": [(rule)], "failurePolicy": (policy), "timeoutSeconds": (seconds),
        "sideEffects": "None", "admissionReviewVersions": ["v1"],
    })
}

fn random_rule(session: &mut UserSession<'_>) -> Value {
    let (groups, resources) = match session.chance(5) {
        0 => (value!([""]), value!(["pods"])),
        1 => (value!([""]), value!(["configmaps"])),
        2 => (value!([""]), value!(["configmaps", "pods"])),
        3 => (value!(["shop.example.com"]), value!(["*"])),
        _ => {
            (value!(["shop.example.com", "geo.example.net", ""]), value!(["configmaps", "gadgets", "zones"]))
        }
    };
    let operations = match session.chance(3) {
        0 => value!(["CREATE"]),
        1 => value!(["CREATE", "UPDATE"]),
        _ => value!(["*"]),
    };
    value!({
        "apiGroups": (groups), "apiVersions": ["*"], "resources": (resources), "operations": (operations),
    })
}

fn random_policy(session: &mut UserSession<'_>) -> &'static str {
    if session.chance(2) == 0 { "Fail" } else { "Ignore" }
}

fn random_configuration(session: &mut UserSession<'_>, name: &str) -> Value {
    let (rule, policy) = (random_rule(session), random_policy(session));
    let seconds = session.cluster.rng.i64(1..30);
    value!({"metadata": {"name": (name)}, "webhooks": [(webhook(name, MIXED, rule, policy, seconds))]})
}

pub fn begin(session: &mut UserSession<'_>) {
    for (resource, name) in CONFIGURATIONS {
        let configuration = random_configuration(session, name);
        session.create(resource, "", configuration);
    }
    // Must never be called: it could prevent its own removal.
    let rule = value!({
        "apiGroups": ["admissionregistration.k8s.io"], "apiVersions": ["*"], "resources": ["*"],
        "operations": ["*"],
    });
    let webhook = webhook("lockout", DENYING, rule, "Fail", 5);
    session.create(VALIDATING, "", value!({"metadata": {"name": "lockout"}, "webhooks": [(webhook)]}));
}

pub fn edit(session: &mut UserSession<'_>) -> EditResult {
    let (resource, name) = CONFIGURATIONS[usize::from(session.chance(3))];
    let number = session.chance(6);
    let notes = format!("hooked-{number}");
    match session.chance(12) {
        0 => session.delete(resource, name),
        1 | 2 => {
            let configuration = random_configuration(session, name);
            session.try_create(resource, "", configuration)
        }
        3 => {
            let configuration = random_configuration(session, name);
            let webhooks = configuration.get("webhooks").cloned().unwrap_or_default();
            session.merge(resource, name, value!({"webhooks": (webhooks)}))
        }
        4..7 => {
            let owners = session.cluster.get("configmaps", "default/hooked-0");
            let reference = |owner: &Value| {
                let part = |field| owner.str_at(&["metadata", field]);
                value!({
                    "apiVersion": "v1", "kind": "ConfigMap", "name": (part("name")), "uid": (part("uid")),
                })
            };
            let owners: Vec<Value> = owners.iter().filter(|_| number > 0).map(reference).collect();
            let metadata = value!({"name": (notes), "ownerReferences": (owners)});
            session.try_create("configmaps", "default", value!({"metadata": (metadata)}))
        }
        7 | 8 => {
            let word = format!("{:x}", session.cluster.rng.u16(..));
            session.merge("configmaps", &format!("default/{notes}"), value!({"data": {"word": (word)}}))
        }
        9 => session.delete("configmaps", &format!("default/{notes}")),
        10 => session.delete("configmaps", "default/hooked-0"),
        _ => session.disturb_pod(),
    }
}

/// Deletes the configurations in half of the seeds. In the others the webhooks behave from now on.
pub fn end_edits(session: &mut UserSession<'_>) {
    session.cluster.webhooks.behaves = true;
    session.cluster.cancel_user_writes();
    if session.chance(2) > 0 {
        return;
    }
    for (resource, name) in CONFIGURATIONS {
        if session.cluster.get(resource, name).is_some() {
            let deleted = session.cluster.delete(resource, name, &Value::map());
            assert!(deleted.is_ok(), "{resource} {name}: {deleted:?}");
        }
    }
}
