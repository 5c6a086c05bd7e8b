//! Fuzzed configuration: whatever objects contain, they are read, applied and matched without a panic.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use proptest::prelude::*;
use setpoint_api::{Identity, RequestInfo, Value};
use setpoint_fairness::{
    ADJUSTMENT_PERIOD, Arrival, Controller, FlowSchema, PriorityLevel, RequestWork, Start,
};

/// Field names and texts that configuration objects contain.
const WORDS: [&str; 36] = [
    "metadata",
    "name",
    "uid",
    "spec",
    "type",
    "limited",
    "exempt",
    "Limited",
    "Exempt",
    "Queue",
    "Reject",
    "nominalConcurrencyShares",
    "lendablePercent",
    "borrowingLimitPercent",
    "limitResponse",
    "queuing",
    "queues",
    "handSize",
    "queueLengthLimit",
    "priorityLevelConfiguration",
    "matchingPrecedence",
    "distinguisherMethod",
    "ByUser",
    "ByNamespace",
    "rules",
    "subjects",
    "kind",
    "User",
    "Group",
    "ServiceAccount",
    "resourceRules",
    "nonResourceRules",
    "verbs",
    "nonResourceURLs",
    "*",
    "",
];

fn word() -> impl Strategy<Value = String> {
    prop_oneof![4 => prop::sample::select(WORDS.to_vec()).prop_map(str::to_owned), 1 => ".{0,6}"]
}

fn any_value() -> impl Strategy<Value = Value> {
    let numbers = prop::sample::select(vec![0, 1, 2, -1, 6, 128, i64::MAX, i64::MIN, 1 << 31, 1 << 26]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        numbers.prop_map(Value::Int),
        any::<f64>().prop_map(Value::Float),
        word().prop_map(|text| Value::from(text.as_str())),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        let fields = prop::collection::vec((word(), inner.clone()), 0..6);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::List),
            fields.prop_map(|fields| {
                let mut map = setpoint_api::Map::new();
                fields.into_iter().for_each(|(name, value)| drop(map.insert(name.as_str(), value)));
                Value::Map(map)
            }),
        ]
    })
}

/// A sound object, with one value replaced.
fn mutated(base: Value) -> impl Strategy<Value = Value> {
    (any_value(), any::<prop::sample::Index>()).prop_map(move |(value, index)| {
        let mut object = base.clone();
        let count = nodes(&mut object, usize::MAX, &Value::Null);
        nodes(&mut object, index.index(count), &value);
        object
    })
}

/// Counts the values of a tree, and replaces the one at a position.
fn nodes(tree: &mut Value, replaced: usize, value: &Value) -> usize {
    if replaced == 0 {
        *tree = value.clone();
        return 1;
    }
    let mut count = 1;
    let mut visit = |child: &mut Value| count += nodes(child, replaced.wrapping_sub(count), value);
    match tree {
        Value::List(list) => list.iter_mut().for_each(&mut visit),
        Value::Map(map) => map.iter_mut().for_each(|(_, child)| visit(child)),
        _ => {}
    }
    count
}

fn object(name: &str, spec: Value) -> Value {
    setpoint_api::value!({"metadata": {"name": (name), "uid": "u"}, "spec": (spec)})
}

fn any_schema() -> impl Strategy<Value = Value> {
    use setpoint_api::kinds::flowcontrol::builtin::{schema_names, schema_spec};
    let names: Vec<&str> = schema_names().collect();
    let sound =
        prop::sample::select(names).prop_flat_map(|name| mutated(object(name, schema_spec(name).unwrap())));
    prop_oneof![3 => sound, 1 => any_value()]
}

fn any_level() -> impl Strategy<Value = Value> {
    use setpoint_api::kinds::flowcontrol::builtin::{level_names, level_spec};
    let names: Vec<&str> = level_names().collect();
    let sound =
        prop::sample::select(names).prop_flat_map(|name| mutated(object(name, level_spec(name).unwrap())));
    prop_oneof![3 => sound, 1 => any_value()]
}

/// Reads objects, of which the last one of a name stays, as in a store.
fn by_name<T>(
    objects: &[Value],
    read: impl Fn(&Value) -> Option<T>,
    name: impl Fn(&T) -> Box<str>,
) -> Vec<T> {
    let mut all: std::collections::BTreeMap<Box<str>, T> = Default::default();
    all.extend(objects.iter().filter_map(read).map(|object| (name(&object), object)));
    all.into_values().collect()
}

proptest! {
    #[test]
    fn any_configuration_is_applied_and_serves_every_request(
        schemas in prop::collection::vec(any_schema(), 0..8),
        levels in prop::collection::vec(any_level(), 0..8),
        seats in prop::sample::select(vec![1, 600, u32::MAX]),
        user in word(),
        (verb, path, resource, namespace) in (word(), word(), word(), word()),
        is_resource in any::<bool>(),
    ) {
        let schemas = by_name(&schemas, FlowSchema::read, |schema| schema.name.clone());
        let levels = by_name(&levels, |level| PriorityLevel::read(level).ok(), |level| level.name.clone());
        let controller = Controller::new(seats, Duration::ZERO);
        let (configuration, _) = controller.reconfigure(Duration::ZERO, 1, schemas, levels);
        let user = Identity::new(user, vec!["system:authenticated".to_owned()]);
        let info = RequestInfo {
            is_resource, verb: &verb, path: &path, resource: &resource, namespace: &namespace, ..Default::default()
        };
        let schema = &configuration.schemas()[configuration.classify(&user, &info)];
        for work in [RequestWork::Plain, RequestWork::List(u32::MAX), RequestWork::Mutating(u64::MAX)] {
            let arrival = Arrival {
                generation: 1, schema: schema.position, flow: 7, work, is_watch: false, subject: None,
                path: &path, name: "",
            };
            let start = schema.level.lock().start(Duration::ZERO, &arrival, || 1);
            if let Start::Executing(id) | Start::Waiting(id) = start {
                schema.level.lock().leave(Duration::from_millis(3), id);
            }
        }
        controller.adjust(ADJUSTMENT_PERIOD);
        let (again, _) = controller.reconfigure(ADJUSTMENT_PERIOD, 2, Vec::new(), Vec::new());
        prop_assert_eq!(again.schemas().len(), 2);
        prop_assert_eq!(controller.reports(ADJUSTMENT_PERIOD * 2).len() , controller.levels().len());
    }
}
