//! Tests of server-side apply, including a comparison with a naive model.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::super::filter::Filter;
use super::super::writer::Versions;
use super::*;
use crate::apply::MergeType;
use crate::decode::decode;
use crate::json;
use crate::schema::{Struct, builtin};
use crate::time::Time;
use crate::value::Map;

fn deployment() -> Struct<'static> {
    builtin().kind("apps", "v1", "Deployment").unwrap()
}

fn value(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

/// A kind in two versions that differ only in name.
struct Twins(Filter);

impl Versions for Twins {
    fn schema(&self, api_version: &str) -> Option<MergeType<'_>> {
        VERSIONS.contains(&api_version).then(|| deployment().into())
    }

    fn convert(&self, object: &Value, api_version: &str) -> Option<Value> {
        let mut object = object.clone();
        object.make_map().insert("apiVersion", api_version);
        Some(object)
    }

    fn filter(&self, _api_version: &str) -> Option<&Filter> {
        Some(&self.0)
    }
}

const VERSIONS: [&str; 2] = ["apps/v1", "apps/v2"];

/// An object with several applying managers.
#[derive(Clone)]
struct World {
    live: Option<Value>,
    now: i64,
    /// Version of the requests.
    version: &'static str,
}

impl Default for World {
    fn default() -> World {
        World { live: None, now: 0, version: VERSIONS[0] }
    }
}

impl World {
    fn writer<T>(&self, manager: &str, run: impl FnOnce(&ApplyContext<'_>) -> T) -> T {
        let versions = Twins(Filter::exclude(&["status"]));
        run(&ApplyContext {
            versions: &versions,
            api_version: self.version,
            of: deployment().into(),
            subresource: "",
            manager,
            now: Time::from_seconds(self.now),
        })
    }

    fn apply(&mut self, manager: &str, config: &Value, force: bool) -> Result<Applied, ApplyError> {
        self.now += 1;
        let applied = self.writer(manager, |writer| apply(writer, self.live.as_ref(), config, force))?;
        self.store(applied.object.clone(), applied.managed.clone());
        Ok(applied)
    }

    fn update(&mut self, manager: &str, change: impl FnOnce(&mut Value)) {
        self.now += 1;
        let mut new = self.live.clone().unwrap();
        change(&mut new);
        let updated =
            self.writer(manager, |writer| super::super::update::update(writer, self.live.as_ref(), &new));
        self.store(new, updated.managed);
    }

    fn store(&mut self, object: Value, managed: Value) {
        let mut object = decode(object, deployment(), &[]).unwrap().value;
        let metadata = object.ensure_map("metadata");
        metadata.insert("uid", "u");
        metadata.insert("managedFields", managed);
        self.live = Some(object);
    }

    /// Switches to another version.
    fn turn_to(&mut self, version: &'static str) {
        self.version = version;
        if let Some(live) = &mut self.live {
            live.make_map().insert("apiVersion", version);
        }
    }

    fn managed(&self) -> &Value {
        managed_fields(self.live.as_ref().unwrap())
    }

    /// Stored field set of a manager.
    fn owned(&self, manager: &str) -> String {
        let entries = self.managed().as_list().unwrap_or_default();
        let entry = entries.iter().find(|entry| entry.str_at(&["manager"]) == manager);
        entry.map_or("nothing".to_owned(), |entry| json::to_text(entry.get("fieldsV1").unwrap()))
    }
}

fn config(rest: &str) -> Value {
    value(&format!(r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"a"}},{rest}}}"#))
}

fn containers(items: &str) -> Value {
    config(&format!(r#""spec":{{"template":{{"spec":{{"containers":[{items}]}}}}}}"#))
}

fn message(outcome: Result<Applied, ApplyError>) -> String {
    outcome.unwrap_err().to_string()
}

#[test]
fn conflicts_name_manager_and_field_and_force_resolves_them() {
    let mut world = World::default();
    world.apply("one", &config(r#""spec":{"replicas":1,"paused":true}"#), false).unwrap();
    world.update("two", |object| *object.at_mut(&["spec", "replicas"]).unwrap() = 2.into());
    let three = config(r#""spec":{"replicas":3,"paused":false}"#);
    let before = world.live.clone();
    let outcome = world.apply("three", &three, false);
    let Err(ApplyError::Conflicts(conflicts)) = &outcome else { panic!("{outcome:?}") };
    let status = conflicts.to_status();
    assert_eq!(status.code, 409);
    let causes: Vec<(&str, &str)> = status
        .details
        .as_ref()
        .unwrap()
        .causes
        .iter()
        .map(|cause| (&*cause.message, &*cause.field))
        .collect();
    assert_eq!(
        causes,
        [
            ("conflict with \"one\"", ".spec.paused"),
            ("conflict with \"two\" using apps/v1", ".spec.replicas")
        ]
    );
    assert_eq!(
        message(outcome),
        "Apply failed with 2 conflicts: conflicts with \"one\":\n- .spec.paused\nconflicts with \"two\" using apps/v1:\n- .spec.replicas"
    );
    assert_eq!(world.live, before);
    assert_eq!(
        message(world.apply("three", &config(r#""spec":{"replicas":3}"#), false)),
        "Apply failed with 1 conflict: conflict with \"two\" using apps/v1: .spec.replicas"
    );
    world.apply("three", &three, true).unwrap();
    assert_eq!(world.owned("three"), r#"{"f:spec":{"f:paused":{},"f:replicas":{}}}"#);
    assert_eq!((world.owned("one").as_str(), world.owned("two").as_str()), ("nothing", "nothing"));
}

#[test]
fn unapplied_fields_are_pruned_unless_another_manager_owns_them() {
    let mut world = World::default();
    world.apply("one", &config(r#""spec":{"replicas":1,"paused":true,"minReadySeconds":5}"#), false).unwrap();
    world.apply("two", &config(r#""spec":{"paused":true}"#), false).unwrap();
    world.apply("one", &config(r#""spec":{"replicas":1}"#), false).unwrap();
    let spec = world.live.as_ref().unwrap().get("spec").unwrap();
    assert_eq!(spec.get("minReadySeconds"), None);
    assert_eq!(spec.get("paused"), Some(&Value::Bool(true)));
    world.apply("two", &config(r#""spec":{}"#), false).unwrap();
    assert_eq!(world.live.as_ref().unwrap().at(&["spec", "paused"]), None);
}

#[test]
fn unowned_fields_stay_with_their_parent_and_go_with_their_item() {
    let mut world = World::default();
    world.apply("one", &containers(r#"{"name":"a","image":"x"},{"name":"b","image":"y"}"#), false).unwrap();
    // The server sets defaults, which have no manager.
    let mut object = world.live.clone().unwrap();
    for item in object.at_mut(&["spec", "template", "spec", "containers"]).unwrap().as_list_mut().unwrap() {
        item.make_map().insert("imagePullPolicy", "Always");
    }
    object.ensure_map("spec").insert("replicas", 1);
    let managed = world.managed().clone();
    world.store(object, managed);
    world.apply("one", &containers(r#"{"name":"a"}"#), false).unwrap();
    let spec = world.live.as_ref().unwrap().get("spec").unwrap();
    assert_eq!(spec.get("replicas"), Some(&Value::Int(1)));
    let expected = value(r#"[{"name":"a","imagePullPolicy":"Always","resources":{}}]"#);
    assert_eq!(spec.at(&["template", "spec", "containers"]), Some(&expected));
}

#[test]
fn applier_has_one_entry_across_versions() {
    let mut world = World::default();
    world.apply("one", &config(r#""spec":{"replicas":1,"paused":true}"#), false).unwrap();
    world.apply("two", &config(r#""spec":{"paused":true}"#), false).unwrap();
    world.turn_to(VERSIONS[1]);
    let mut next = config(r#""spec":{"replicas":2}"#);
    next.make_map().insert("apiVersion", VERSIONS[1]);
    let error = message(world.apply("three", &next, false));
    assert_eq!(error, "Apply failed with 1 conflict: conflict with \"one\": .spec.replicas");
    world.apply("one", &next, false).unwrap();
    let versions =
        |entry: &Value| (entry.str_at(&["manager"]).to_owned(), entry.str_at(&["apiVersion"]).to_owned());
    let found: Vec<_> = world.managed().as_list().unwrap().iter().map(versions).collect();
    assert_eq!(found, [("two".to_owned(), "apps/v1".to_owned()), ("one".to_owned(), "apps/v2".to_owned())]);
    assert_eq!(world.live.as_ref().unwrap().at(&["spec", "paused"]), Some(&Value::Bool(true)));
}

#[test]
fn no_op_apply_keeps_the_time() {
    let mut world = World::default();
    let one = config(r#""spec":{"replicas":1}"#);
    world.apply("one", &one, false).unwrap();
    let before = world.live.clone();
    let applied = world.apply("one", &one, false).unwrap();
    assert!(applied.changed.is_same());
    assert_eq!(world.live, before);
    let first = r#"[{"manager":"one","operation":"Apply","apiVersion":"apps/v1","time":"1970-01-01T00:00:01Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:replicas":{}}}}]"#;
    assert_eq!(json::to_text(world.managed()), first);
    world.apply("one", &config(r#""spec":{"replicas":2}"#), false).unwrap();
    assert_eq!(json::to_text(world.managed()), first.replace("00:00:01", "00:00:03"));
}

#[test]
fn empty_configuration_gives_up_all_fields() {
    let mut world = World::default();
    world.apply("one", &config(r#""spec":{"replicas":1}"#), false).unwrap();
    world.apply("one", &config(r#""status":{}"#), false).unwrap();
    assert_eq!(*world.managed(), Value::Null);
    assert_eq!(world.live.as_ref().unwrap().at(&["spec", "replicas"]), None);
}

#[test]
fn fields_before_the_first_apply_get_a_manager() {
    let mut world = World::default();
    world.store(config(r#""spec":{"replicas":1,"paused":true}"#), Value::Null);
    let error = message(world.apply("one", &config(r#""spec":{"replicas":2}"#), false));
    assert_eq!(
        error,
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using apps/v1: .spec.replicas"
    );
    world.apply("one", &config(r#""spec":{"replicas":1}"#), false).unwrap();
    assert_eq!(world.owned("before-first-apply"), r#"{"f:spec":{"f:paused":{},"f:replicas":{}}}"#);
    assert_eq!(world.owned("one"), r#"{"f:spec":{"f:replicas":{}}}"#);
}

#[test]
fn kubectl_takes_over_fields_of_client_side_apply() {
    let annotation = last_applied::LAST_APPLIED;
    let last = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":1,"minReadySeconds":9}}"#;
    let mut created = config(r#""spec":{"replicas":1,"minReadySeconds":5}"#);
    created.ensure_map("metadata").ensure_map("annotations").insert(annotation, last);
    let mut world = World::default();
    world.store(config(r#""spec":{}"#), value(r#"[{"manager":"x","operation":"Apply","apiVersion":"apps/v1","fieldsType":"FieldsV1","fieldsV1":{"f:a":{}}}]"#));
    world.update("kubectl-client-side-apply", |object| {
        *object = decode(created, deployment(), &[]).unwrap().value;
    });
    let two = config(r#""spec":{"replicas":2}"#);
    assert!(world.clone().apply("other", &two, false).is_err());
    let error =
        message(world.apply("kubectl", &config(r#""spec":{"replicas":2,"minReadySeconds":6}"#), false));
    assert_eq!(
        error,
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using apps/v1: .spec.minReadySeconds"
    );
    world.apply("kubectl", &two, false).unwrap();
    assert_eq!(world.owned("kubectl"), r#"{"f:spec":{"f:replicas":{}}}"#);
    assert!(!world.owned("kubectl-client-side-apply").contains("replicas"));
    let refreshed =
        r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":2}}"#;
    let annotations =
        world.live.as_ref().unwrap().str_at(&["metadata", "annotations", annotation]).to_owned();
    assert_eq!(annotations, format!("{refreshed}\n"));
}

#[test]
fn invalid_configurations_are_rejected() {
    let mut world = World::default();
    for (text, expected) in [
        (r#"{"kind":"Deployment","metadata":{"name":"a"}}"#, "invalid object type: /, Kind=Deployment"),
        (r#"{"apiVersion":"v1","kind":"Pod"}"#, "invalid object type: /v1, Kind=Pod"),
        (r#"{"apiVersion":"a/b/c","kind":"Pod"}"#, "invalid object type: /, Kind="),
        (
            r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"managedFields":[]}}"#,
            "metadata.managedFields must be nil",
        ),
        (
            r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"n"},"x":1}"#,
            "failed to create typed patch object (n/a; apps/v1, Kind=Deployment): .x: field not declared in schema",
        ),
    ] {
        let error = world.apply("one", &value(text), false).unwrap_err();
        let status = error.to_status();
        assert_eq!((status.code, &*status.message), (400, expected));
    }
    world.store(config(r#""spec":{}"#), value(r#"[{"manager":"x"}]"#));
    assert_eq!(
        message(world.apply("one", &config(r#""spec":{}"#), false)),
        "failed to decode managed fields: operation must be `Apply` or `Update`"
    );
}

#[test]
fn status_applied_with_the_object_is_not_owned() {
    let mut world = World::default();
    world.apply("one", &config(r#""spec":{"replicas":1},"status":{"replicas":1}"#), false).unwrap();
    assert_eq!(world.owned("one"), r#"{"f:spec":{"f:replicas":{}}}"#);
}

/// Item key of the lists in the test configurations, implemented independently.
fn item_name(list: &str, item: &Value) -> Option<String> {
    let part = |key: &str| item.get(key).map(json::to_text);
    match list {
        "containers" | "env" => part("name"),
        "ports" => {
            Some(format!("{:?} {}", part("containerPort"), part("protocol").unwrap_or(r#""TCP""#.into())))
        }
        "finalizers" => Some(json::to_text(item)),
        _ => None,
    }
}

/// Every leaf of a configuration by its path; a list item is a leaf too, beside its fields.
fn flatten(path: &str, name: &str, value: &Value, leaves: &mut BTreeMap<String, String>) {
    let is_whole = matches!(name, "args" | "nodeSelector");
    match value {
        Value::Map(map) if !is_whole => {
            map.iter().for_each(|(key, value)| flatten(&format!("{path}.{key}"), key, value, leaves));
        }
        Value::List(list) if !is_whole => {
            for item in list {
                let path = format!("{path}[{}]", item_name(name, item).unwrap());
                leaves.insert(path.clone(), "item".to_owned());
                if item.as_map().is_some() {
                    flatten(&path, "", item, leaves);
                }
            }
        }
        _ => {
            let mut value = value.clone();
            if let Some(map) = value.as_map_mut() {
                map.sort();
            }
            leaves.insert(path.to_owned(), json::to_text(&value));
        }
    }
}

/// Leaves of an object, without those that are always present.
fn leaves(object: &Value) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut object = object.clone();
    object.make_map().retain(|key, _| matches!(key, "metadata" | "spec"));
    object.ensure_map("metadata").retain(|key, _| !matches!(key, "name" | "uid" | "managedFields"));
    flatten("", "", &object, &mut found);
    found.retain(|path, value| {
        // The server adds the default protocol of a port.
        !(path.ends_with(".protocol") || value == "null")
    });
    found
}

/// Naive model: a value for each path, and the managers that own it. Every field is owned.
#[derive(Default)]
struct Model {
    values: BTreeMap<String, String>,
    owners: BTreeMap<String, BTreeSet<String>>,
}

impl Model {
    fn apply(&mut self, manager: &str, config: &BTreeMap<String, String>, force: bool) -> bool {
        let differs = |path: &String| self.values.get(path).is_some_and(|value| *value != config[path]);
        let taken: BTreeSet<String> = config.keys().filter(|path| differs(path)).cloned().collect();
        let others = self.owners.iter().filter(|(other, _)| *other != manager);
        if !force && others.into_iter().any(|(_, owned)| !owned.is_disjoint(&taken)) {
            return false;
        }
        for owned in self.owners.values_mut() {
            owned.retain(|path| !taken.contains(path));
        }
        self.values.extend(config.clone());
        self.owners.insert(manager.to_owned(), config.keys().cloned().collect());
        let owners = &self.owners;
        self.values.retain(|path, _| owners.values().any(|owned| owned.contains(path)));
        true
    }
}

fn subset(names: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    prop::sample::subsequence(names, 0..=names.len()).prop_shuffle()
}

fn texts(names: &'static [&'static str]) -> impl Strategy<Value = Map> {
    (subset(names), "[xy]")
        .prop_map(|(names, value)| names.into_iter().map(|name| (name, value.clone())).collect())
}

fn container(name: &'static str) -> impl Strategy<Value = Value> {
    let env = subset(&["A", "B"]).prop_flat_map(|names| {
        let item = |name| {
            "[xy]".prop_map(move |value| {
                Value::Map([("name", name), ("value", value.as_str())].into_iter().collect())
            })
        };
        names.into_iter().map(item).collect::<Vec<_>>()
    });
    let ports = subset(&["80 TCP", "80", "443 UDP", "443"]).prop_map(|names| {
        let mut ports: Vec<Value> = Vec::new();
        for name in names {
            let (port, protocol) = name.split_once(' ').unwrap_or((name, ""));
            let mut item = Map::new();
            item.insert("containerPort", port.parse::<i64>().unwrap());
            if !protocol.is_empty() {
                item.insert("protocol", protocol);
            }
            let item = Value::Map(item);
            if ports.iter().all(|other| item_name("ports", other) != item_name("ports", &item)) {
                ports.push(item);
            }
        }
        ports
    });
    let args = prop::option::of(prop::collection::vec("[xy]", 1..3));
    (prop::option::of("[xy]"), env, ports, args).prop_map(move |(image, env, ports, args)| {
        let mut item = Map::new();
        item.insert("name", name);
        image.map(|image| item.insert("image", image));
        args.map(|args| item.insert("args", args));
        for (key, list) in [("env", env), ("ports", ports)] {
            if !list.is_empty() {
                item.insert(key, list);
            }
        }
        Value::Map(item)
    })
}

fn configs() -> impl Strategy<Value = Value> {
    let containers =
        subset(&["a", "b", "c"]).prop_flat_map(|names| names.into_iter().map(container).collect::<Vec<_>>());
    let selector = prop::option::of(texts(&["m", "n"]));
    (texts(&["k", "l"]), subset(&["f/1", "f/2"]), prop::option::of(1..3i64), containers, selector).prop_map(
        |(labels, finalizers, replicas, containers, selector)| {
            let mut object = config(r#""spec":{}"#);
            if !labels.is_empty() {
                object.ensure_map("metadata").insert("labels", labels);
            }
            if !finalizers.is_empty() {
                object.ensure_map("metadata").insert("finalizers", finalizers);
            }
            let spec = object.ensure_map("spec");
            replicas.map(|replicas| spec.insert("replicas", replicas));
            if !containers.is_empty() {
                spec.ensure_map("template").ensure_map("spec").insert("containers", containers);
            }
            if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
                spec.ensure_map("template").ensure_map("spec").insert("nodeSelector", selector);
            }
            object
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn applies_agree_with_the_naive_model(
        steps in prop::collection::vec((0..3usize, configs(), any::<bool>(), 0..4usize), 1..7)
    ) {
        let (mut world, mut model) = (World::default(), Model::default());
        for (manager, mut config, force, version) in steps {
            let manager = ["one", "two", "three"][manager];
            // One of the versions is rare, so that both implementations of pruning run.
            world.turn_to(VERSIONS[version / 3]);
            config.make_map().insert("apiVersion", world.version);
            let outcome = world.apply(manager, &config, force);
            let expected = model.apply(manager, &leaves(&config), force);
            prop_assert_eq!(outcome.is_ok(), expected, "{:?}", outcome);
            if let Some(live) = &world.live {
                prop_assert_eq!(leaves(live), model.values.clone());
                let again = live.clone();
                if expected {
                    world.apply(manager, &config, false).unwrap();
                    prop_assert_eq!(world.live.as_ref(), Some(&again), "apply twice is apply once");
                }
            }
        }
    }

    #[test]
    fn managers_with_disjoint_fields_never_conflict(
        config in configs(), changes in prop::collection::vec(prop::collection::btree_map("[p-r]", "[xy]", 0..3), 1..4)
    ) {
        let mut world = World::default();
        world.apply("one", &config, false).unwrap();
        let (before, own) = (leaves(world.live.as_ref().unwrap()), world.owned("one"));
        for change in changes {
            let annotations: Map = change.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            let mut other = self::config(r#""spec":{}"#);
            other.ensure_map("metadata").insert("annotations", annotations);
            world.apply("two", &other, false).unwrap();
            prop_assert_eq!(world.owned("one"), own.clone());
            let mut after = leaves(world.live.as_ref().unwrap());
            after.retain(|path, _| !path.starts_with(".metadata.annotations"));
            prop_assert_eq!(after, before.clone());
        }
    }
}
