//! Worlds of devices and their claims.

use setpoint_api::{Value, value};
use setpoint_reconcile::Object;

use super::Case;
use crate::objects::*;

const CLAIMS: &str = "resourceclaims.resource.k8s.io";
const SLICES: &str = "resourceslices.resource.k8s.io";
const RULES: &str = "devicetaintrules.resource.k8s.io";
const TEMPLATES: &str = "resourceclaimtemplates.resource.k8s.io";

fn consumer(at: usize) -> Value {
    let pod = name("p", at);
    value!({"resource": "pods", "name": (pod.as_str()), "uid": (uid("pods", &pod))})
}

/// Claim with allocated devices of a pool, reserved for pods.
fn allocated(devices: usize, pods: usize) -> Value {
    let device = |at| value!({"driver": "d", "pool": "p", "device": (name("d", at))});
    value!({"status": {
        "allocation": {"devices": {"results": (list(devices, device))}},
        "reservedFor": (list(pods, consumer)),
    }})
}

/// Pod with `len` claims, the first of which is `c000000`.
fn claiming(len: usize) -> Value {
    let claim = |at| value!({"name": (name("r", at)), "resourceClaimName": (name("c", at))});
    with(pod("n0"), "resourceClaims", list(len, claim))
}

fn slice(devices: usize) -> Value {
    let taint = value!([{"key": "bad", "effect": "NoExecute"}]);
    let device = |at| value!({"name": (name("d", at)), "taints": (taint.clone())});
    value!({"spec": {"driver": "d", "pool": {"name": "p", "generation": 1}, "devices": (list(devices, device))}})
}

fn rule(device: &str) -> Value {
    value!({"spec": {
        "deviceSelector": {"driver": "d", "pool": "p", "device": (device)},
        "taint": {"key": "bad", "effect": "NoExecute", "timeAdded": "2027-01-15T09:00:00Z"},
    }})
}

fn pods(len: usize) -> impl Iterator<Item = Object> {
    many(len, "pods", "default/p", |_| claiming(1))
}

pub const CASES: &[Case] = &[
    Case::new(
        "device-taint-eviction-controller",
        "devices of a claim and of its pool",
        "pods default/p000000",
        |len| {
            let claim = object(CLAIMS, "default/c000000", allocated(len, 1));
            pods(1).chain([claim, object(SLICES, "s", slice(len))]).collect()
        },
    ),
    Case::new(
        "device-taint-eviction-controller",
        "devices of a claim, and rules",
        "pods default/p000000",
        |len| {
            let claim = object(CLAIMS, "default/c000000", allocated(len, 1));
            let rules = many(len, RULES, "t", |at| rule(&name("d", at)));
            pods(1).chain(rules).chain([claim]).collect()
        },
    ),
    Case::new(
        "device-taint-eviction-controller",
        "pods with claims, for a rule",
        "devicetaintrules.resource.k8s.io t000000",
        |len| {
            // Each for 8 pods; validation admits 256.
            let claims = many(len.div_ceil(8), CLAIMS, "default/c", |at| {
                saying(allocated(1, 0), "reservedFor", list(8, |number| consumer(8 * at + number)))
            });
            let pods = many(len, "pods", "default/p", |at| {
                with(
                    pod("n0"),
                    "resourceClaims",
                    value!([{"name": "r", "resourceClaimName": (name("c", at / 8))}]),
                )
            });
            claims.chain(pods).chain([object(RULES, "t000000", rule("d000000"))]).collect()
        },
    ),
    Case::new(
        "device-taint-eviction-controller",
        "claims of the same pods, for a rule",
        "devicetaintrules.resource.k8s.io t000000",
        |len| {
            let claims = many(len, CLAIMS, "default/c", |_| allocated(1, 1));
            let pod = object("pods", "default/p000000", claiming(len));
            claims.chain([pod, object(RULES, "t000000", rule("d000000"))]).collect()
        },
    ),
    Case::new(
        "device-taint-eviction-controller",
        "slices of a pool, for a rule without effect",
        "devicetaintrules.resource.k8s.io t000000",
        |len| {
            let mut rule = rule("d000000");
            rule.ensure_map("spec").ensure_map("taint").insert("effect", "None");
            many(len, SLICES, "s", |_| slice(1)).chain([object(RULES, "t000000", rule)]).collect()
        },
    ),
    Case::new(
        "resource-claim-controller",
        "pods of a claim",
        "resourceclaims.resource.k8s.io default/c000000",
        |len| {
            let gone = many(len, "pods", "default/p", |_| saying(claiming(1), "phase", "Failed"));
            gone.chain([object(CLAIMS, "default/c000000", allocated(1, len))]).collect()
        },
    ),
    Case::new("resource-claim-controller", "claims of a pod", "pods default/p000000", |len| {
        let claims = many(len, CLAIMS, "default/c", |_| allocated(1, 0));
        claims.chain([object("pods", "default/p000000", claiming(len))]).collect()
    }),
    Case::new("resource-claim-controller", "claims to be made for a pod", "pods default/p000000", |len| {
        let claim = |at| value!({"name": (name("r", at)), "resourceClaimTemplateName": "t"});
        let statuses =
            list(len, |at| value!({"name": (name("r", at)), "resourceClaimName": (name("c", at))}));
        let pod =
            saying(with(pod("n0"), "resourceClaims", list(len, claim)), "resourceClaimStatuses", statuses);
        vec![
            object("pods", "default/p000000", pod),
            object(TEMPLATES, "default/t", value!({"spec": {"spec": {}}})),
        ]
    }),
    Case::new("resource-claim-controller", "templates that are missing", "pods default/p000000", |len| {
        let claim = |at| value!({"name": (name("r", at)), "resourceClaimTemplateName": "t"});
        vec![object("pods", "default/p000000", with(pod("n0"), "resourceClaims", list(len, claim)))]
    }),
];
