//! Facts of kube-apiserver 1.37: verdicts, messages and causes that this server must share.
//!
//! `facts/rules.json` has validation rules of custom resources and the objects that they judge, `facts/schemas.json`
//! definitions and the objects under them, and `facts/policies.json` expressions of admission policies and of the match
//! conditions of webhooks; `facts/evaluations.json` has admission policies and requests that they decide. A case is an input and, unless it was accepted, `refused`: the answer. `refused.message` is
//! absent if it is the usual text of the causes.
//!
//! Differences that are known are in `facts/differences`, one file for each of these, with their reasons and today's
//! answers, which are asserted too. `SETPOINT_WRITE_DIFFERENCES=1 cargo test -p setpoint-server --test facts` rewrites
//! them, and keeps the reasons.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "facts/differences.rs"]
mod differences;
#[path = "facts/evaluations.rs"]
mod evaluations;
#[path = "harness/test_server.rs"]
mod harness;
#[path = "facts/replay.rs"]
mod replay;

use differences::compare;
use evaluations::replay_evaluation;
use replay::{body_of_rules, replay_definition, replay_policy};
use serde_json::{Value, json};

/// Parses a file of facts.
fn facts(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The schema of a case of `rules.json`: its own root, or one whose property `v` has the type and the rules.
fn root_of_rules(facts: &Value, case: &Value) -> Value {
    if let Some(root) = case.get("root") {
        return root.clone();
    }
    let mut schema = match &case["self"] {
        Value::String(name) => facts["types"][name].clone(),
        schema => schema.clone(),
    };
    if let Some(rules) = case.get("rules") {
        schema["x-kubernetes-validations"] = rules.clone();
    }
    json!({"type": "object", "properties": {"v": schema}})
}

#[test]
fn rules_have_the_verdicts_of_upstream() {
    let facts = facts(include_str!("facts/rules.json"));
    compare("rules", &facts, |case| {
        let wrap = if case.get("root").is_some() { |value: &Value| value.clone() } else { body_of_rules };
        let unwrap = |object: &Value| {
            if case.get("root").is_some() { object.clone() } else { object["v"].clone() }
        };
        replay_definition(case, &root_of_rules(&facts, case), wrap, unwrap)
    });
}

#[test]
fn schemas_have_the_verdicts_of_upstream() {
    let facts = facts(include_str!("facts/schemas.json"));
    compare("schemas", &facts, |case| replay_definition(case, &case["root"], Value::clone, Value::clone));
}

#[test]
fn policies_have_the_verdicts_of_upstream() {
    let facts = facts(include_str!("facts/policies.json"));
    let server = harness::TestServer::new();
    compare("policies", &facts, |case| replay_policy(&server, case));
}

#[test]
fn evaluations_of_policies_have_the_verdicts_of_upstream() {
    let facts = facts(include_str!("facts/evaluations.json"));
    compare("evaluations", &facts, |case| replay_evaluation(&facts["schema"], case));
}
