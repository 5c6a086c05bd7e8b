//! Cost of a decision with many bindings, as a ratio: machines differ.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use setpoint_api::{Identity, RequestInfo};
use setpoint_authorization::rbac::{
    Binding, Policy, PolicyRule, RoleRef, Subject, SubjectCache, SubjectKind,
};
use setpoint_authorization::{Attributes, Decision};

/// Decisions of one measurement.
const DECISIONS: usize = 20_000;
/// Measurements, of which the fastest counts.
const ROUNDS: usize = 9;

fn rule(verbs: &str, resources: &str) -> PolicyRule {
    let list = |text: &str| text.split(' ').map(Into::into).collect();
    let (verbs, resources) = (list(verbs), list(resources));
    PolicyRule { verbs, groups: vec!["".into()], resources, ..PolicyRule::default() }
}

fn bind(policy: &mut Policy, namespace: &str, name: &str, role: &str, (kind, subject): (SubjectKind, &str)) {
    let subject = Subject { kind, name: subject.into(), namespace: "".into() };
    let role = RoleRef { kind: "ClusterRole".into(), name: role.into() };
    policy.set_binding(Binding {
        namespace: namespace.into(),
        name: name.into(),
        role,
        subjects: vec![subject],
    });
}

/// A policy with this number of bindings: a third binds the user in its namespace, a third in the cluster, and a third
/// other users.
fn policy(bindings: usize) -> Policy {
    let mut policy = Policy::default();
    for number in 0..bindings {
        let name = format!("b{number}");
        policy.set_role("", &name, vec![rule("get list watch", &format!("things{number}"))]);
        match number % 3 {
            0 => bind(&mut policy, "ns", &name, &name, (SubjectKind::User, "ann")),
            1 => bind(&mut policy, "", &name, &name, (SubjectKind::Group, "team")),
            _ => bind(&mut policy, "", &name, &name, (SubjectKind::User, &name)),
        }
    }
    policy.set_role("", "last", vec![rule("get list watch", "pods pods/log")]);
    bind(&mut policy, "ns", "z", "last", (SubjectKind::User, "ann"));
    policy
}

/// Time of one decision: half of the requests are allowed by the last binding, half are not allowed.
#[expect(clippy::disallowed_methods, reason = "measures the cost of decisions")]
fn cost(bindings: usize) -> Duration {
    let cache = SubjectCache::new(policy(bindings));
    let user = Identity::new("ann", vec!["team".to_owned(), "system:authenticated".to_owned()]);
    let request = |resource| RequestInfo {
        is_resource: true,
        verb: "get",
        resource,
        subresource: "log",
        namespace: "ns",
        name: "p",
        ..RequestInfo::default()
    };
    let decide = |resource| {
        let request = request(resource);
        cache.decide(&Attributes { user: &user, request, field_selector: &[], label_selector: &[] })
    };
    assert!(matches!(decide("pods"), Decision::Allowed(_)));
    assert_eq!(decide("secrets"), Decision::NoOpinion(String::new()));
    let round = || {
        let started = Instant::now();
        for number in 0..DECISIONS {
            black_box(decide(black_box(if number % 2 == 0 { "pods" } else { "secrets" })));
        }
        started.elapsed()
    };
    (0..ROUNDS).map(|_| round()).min().unwrap_or_default() / u32::try_from(DECISIONS).unwrap()
}

#[test]
fn decision_with_many_bindings_costs_at_most_twice_as_much() {
    let (few, many) = (cost(10), cost(10_000));
    println!("10 bindings: {few:?}, 10,000 bindings: {many:?} per decision");
    assert!(many <= few * 2, "10 bindings: {few:?}, 10,000 bindings: {many:?}");
}
