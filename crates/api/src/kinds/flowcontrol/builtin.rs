//! Built-in PriorityLevelConfigurations and FlowSchemas, the defaults of API priority and fairness.
//!
//! Two objects of each kind are mandatory: their specs are fixed. The others are suggested, and may be changed.

use crate::value;
use crate::value::Value;

/// Annotation that is `true` if the server updates the spec of a built-in object, `false` if the user owns
/// it.
pub const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";

/// Names of the mandatory objects.
const MANDATORY: [&str; 2] = ["exempt", "catch-all"];

/// A priority level: name, concurrency shares, lendable percent, and its number of queues with the hand size;
/// without queues, excess requests are rejected.
type BuiltinLevel = (&'static str, i64, i64, Option<(i64, i64)>);

const LEVELS: [BuiltinLevel; 7] = [
    ("catch-all", 5, 0, None),
    ("global-default", 20, 50, Some((128, 6))),
    ("leader-election", 10, 0, Some((16, 4))),
    ("node-high", 40, 25, Some((64, 6))),
    ("system", 30, 33, Some((64, 6))),
    ("workload-high", 40, 50, Some((128, 6))),
    ("workload-low", 100, 90, Some((128, 6))),
];
const QUEUE_LENGTH: i64 = 50;

/// A FlowSchema: name, priority level, precedence, distinguisher, and the subjects it matches.
struct BuiltinSchema {
    name: &'static str,
    level: &'static str,
    precedence: i64,
    distinguisher: &'static str,
    subjects: &'static [Subject],
    requests: Requests,
}

enum Subject {
    User(&'static str),
    Group(&'static str),
    SystemAccounts,
}

/// Requests that a FlowSchema matches.
enum Requests {
    All,
    /// Requests of these verbs for leases, and for these resources of the core group.
    Leases(&'static [&'static str], &'static [&'static str]),
    Health,
}

const EVERYONE: &[Subject] =
    &[Subject::Group("system:unauthenticated"), Subject::Group("system:authenticated")];
const MANAGER: Subject = Subject::User("system:kube-controller-manager");
const SCHEDULER: Subject = Subject::User("system:kube-scheduler");
const NODES: &[Subject] = &[Subject::Group("system:nodes")];

const fn schema(
    name: &'static str,
    level: &'static str,
    precedence: i64,
    distinguisher: &'static str,
    subjects: &'static [Subject],
    requests: Requests,
) -> BuiltinSchema {
    BuiltinSchema { name, level, precedence, distinguisher, subjects, requests }
}

const SCHEMAS: [BuiltinSchema; 11] = [
    schema("exempt", "exempt", 1, "", &[Subject::Group("system:masters")], Requests::All),
    schema("probes", "exempt", 2, "", EVERYONE, Requests::Health),
    schema(
        "system-leader-election",
        "leader-election",
        100,
        "ByUser",
        &[MANAGER, SCHEDULER, Subject::SystemAccounts],
        Requests::Leases(&["get", "create", "update"], &[]),
    ),
    schema(
        "system-node-high",
        "node-high",
        400,
        "ByUser",
        NODES,
        Requests::Leases(&["*"], &["nodes", "nodes/status"]),
    ),
    schema("system-nodes", "system", 500, "ByUser", NODES, Requests::All),
    schema("kube-controller-manager", "workload-high", 800, "ByNamespace", &[MANAGER], Requests::All),
    schema("kube-scheduler", "workload-high", 800, "ByNamespace", &[SCHEDULER], Requests::All),
    schema(
        "kube-system-service-accounts",
        "workload-high",
        900,
        "ByNamespace",
        &[Subject::SystemAccounts],
        Requests::All,
    ),
    schema(
        "service-accounts",
        "workload-low",
        9000,
        "ByUser",
        &[Subject::Group("system:serviceaccounts")],
        Requests::All,
    ),
    schema("global-default", "global-default", 9900, "ByUser", EVERYONE, Requests::All),
    schema("catch-all", "catch-all", 10_000, "ByUser", EVERYONE, Requests::All),
];

/// Names of all built-in PriorityLevelConfigurations.
pub fn level_names() -> impl Iterator<Item = &'static str> {
    std::iter::once("exempt").chain(LEVELS.iter().map(|(name, ..)| *name))
}

/// Names of all built-in FlowSchemas.
pub fn schema_names() -> impl Iterator<Item = &'static str> {
    SCHEMAS.iter().map(|schema| schema.name)
}

/// Annotations that record whether the server updates the spec to [`level_spec`] or [`schema_spec`].
#[must_use]
pub fn auto_update_annotation(is_enabled: bool) -> Value {
    Value::Map([(AUTO_UPDATE, Value::from(if is_enabled { "true" } else { "false" }))].into_iter().collect())
}

/// `true` if the objects of this name are mandatory.
#[must_use]
pub fn is_mandatory(name: &str) -> bool {
    MANDATORY.contains(&name)
}

/// Spec of a built-in PriorityLevelConfiguration; `None` if the name is not built in.
#[must_use]
pub fn level_spec(name: &str) -> Option<Value> {
    if name == "exempt" {
        return Some(value!({
            "type": "Exempt",
            "exempt": {"nominalConcurrencyShares": (0_i64), "lendablePercent": (0_i64)},
        }));
    }
    let (_, shares, lendable, queues) = LEVELS.iter().find(|(known, ..)| *known == name)?;
    let response = match queues {
        None => value!({"type": "Reject"}),
        Some((queues, hand)) => value!({
            "type": "Queue",
            "queuing": {"queues": (*queues), "handSize": (*hand), "queueLengthLimit": (QUEUE_LENGTH)},
        }),
    };
    Some(value!({
        "type": "Limited",
        "limited": {
            "nominalConcurrencyShares": (*shares),
            "limitResponse": (response),
            "lendablePercent": (*lendable),
        },
    }))
}

/// Spec of a built-in FlowSchema; `None` if the name is not built in.
#[must_use]
pub fn schema_spec(name: &str) -> Option<Value> {
    let schema = SCHEMAS.iter().find(|schema| schema.name == name)?;
    let subjects: Vec<Value> = schema.subjects.iter().map(Subject::value).collect();
    let mut rule = value!({"subjects": (subjects)});
    let rules = rule.make_map();
    match schema.requests {
        Requests::All => {
            rules.insert("resourceRules", vec![resources(&["*"], "*", &["*"], true)]);
            rules.insert("nonResourceRules", vec![value!({"verbs": ["*"], "nonResourceURLs": ["*"]})]);
        }
        Requests::Leases(verbs, others) => {
            let others = (!others.is_empty()).then(|| resources(verbs, "", others, true));
            let leases = resources(verbs, "coordination.k8s.io", &["leases"], false);
            rules.insert("resourceRules", others.into_iter().chain([leases]).collect::<Vec<Value>>());
        }
        Requests::Health => {
            let urls = value!({"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]});
            rules.insert("nonResourceRules", vec![urls]);
        }
    }
    let mut spec = value!({
        "priorityLevelConfiguration": {"name": (schema.level)},
        "matchingPrecedence": (schema.precedence),
    });
    if !schema.distinguisher.is_empty() {
        spec.make_map().insert("distinguisherMethod", value!({"type": (schema.distinguisher)}));
    }
    spec.make_map().insert("rules", vec![rule]);
    Some(spec)
}

impl Subject {
    fn value(&self) -> Value {
        match self {
            Subject::User(name) => value!({"kind": "User", "user": {"name": (*name)}}),
            Subject::Group(name) => value!({"kind": "Group", "group": {"name": (*name)}}),
            Subject::SystemAccounts => value!({
                "kind": "ServiceAccount",
                "serviceAccount": {"namespace": "kube-system", "name": "*"},
            }),
        }
    }
}

/// A rule for resources of a group in every namespace.
fn resources(verbs: &[&str], group: &str, names: &[&str], beyond_namespaces: bool) -> Value {
    let texts = |texts: &[&str]| texts.iter().copied().map(Value::from).collect::<Vec<Value>>();
    let mut rule = value!({
        "verbs": (texts(verbs)),
        "apiGroups": [(group)],
        "resources": (texts(names)),
    });
    if beyond_namespaces {
        rule.make_map().insert("clusterScope", true);
    }
    rule.make_map().insert("namespaces", texts(&["*"]));
    rule
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field_error::ErrorList;
    use crate::kinds::flowcontrol::rules;

    #[test]
    fn builtin_objects_are_valid_and_defaulted() {
        let levels = level_names().map(|name| ("PriorityLevelConfiguration", name, level_spec(name)));
        let schemas = schema_names().map(|name| ("FlowSchema", name, schema_spec(name)));
        for (kind, name, spec) in levels.chain(schemas) {
            let rules = rules(kind).unwrap();
            let mut object = value!({"metadata": {"name": (name)}, "spec": (spec.clone().unwrap())});
            rules.default(&mut object);
            assert_eq!(object.get("spec"), spec.as_ref(), "{kind} {name}");
            let mut errors = ErrorList::new();
            rules.validate(&object, &mut errors);
            assert!(errors.is_empty(), "{kind} {name}: {errors:?}");
        }
    }

    #[test]
    fn every_builtin_schema_refers_to_a_builtin_level() {
        for schema in &SCHEMAS {
            assert!(level_names().any(|name| name == schema.level), "{}", schema.name);
        }
        assert!(MANDATORY.iter().all(|name| level_spec(name).is_some() && schema_spec(name).is_some()));
    }
}
