//! Cost of custom objects, compared with ConfigMaps of the same size.

use std::fmt::Write as _;

use http::Method;
use setpoint_api::{Value, json};

use crate::meter::{Call, Meter};

/// Highest ratio of instructions, in percent. The claim is 200 for a release build; with debug assertions, which tests
/// have, each write of a ConfigMap is decoded twice more.
const RATIO_PERCENT_MAX: u64 = 120;
/// Writes that are measured; the cheapest counts.
const TRIES: usize = 3;
/// Groups of fields of the schema.
const GROUPS: usize = 20;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Ten rules as they are in common definitions.
const RULES: [&str; 10] = [
    "self.g0.min <= self.g0.max",
    "has(self.g0.name) || has(self.g1.name)",
    "self.g1.mode in ['Always', 'Never']",
    "self.g1.items.size() <= 10",
    "self.g2.items.all(item, item.size() < 64)",
    "self.g2.name.startsWith('n')",
    "self.g3.name.matches('^[a-z0-9-]+$')",
    "!has(self.g3.labels) || self.g3.labels.all(key, key != 'reserved')",
    "self.g4.items.exists(item, item == 'item-0')",
    "self.g5.name == oldSelf.g5.name",
];

/// Schema of a spec with the rules: each group has 25 lines in YAML.
fn schema() -> String {
    let mut groups = String::new();
    for at in 0..GROUPS {
        let comma = if at > 0 { "," } else { "" };
        write!(
            groups,
            r#"{comma}"g{at}":{{"type":"object","required":["name"],"properties":{{
            "name":{{"type":"string","minLength":1,"maxLength":63}},
            "min":{{"type":"integer","minimum":0}},"max":{{"type":"integer","maximum":100}},
            "mode":{{"type":"string","enum":["Always","Never"]}},
            "items":{{"type":"array","maxItems":16,"items":{{"type":"string","maxLength":63}}}},
            "labels":{{"type":"object","maxProperties":16,"additionalProperties":{{"type":"string"}}}}}}}}"#
        )
        .unwrap();
    }
    let rules: Vec<String> = RULES.iter().map(|rule| format!(r#"{{"rule":"{rule}"}}"#)).collect();
    format!(
        r#"{{"type":"object","properties":{{"spec":{{"type":"object","x-kubernetes-validations":[{}],"properties":{{{groups}}}}}}}}}"#,
        rules.join(",")
    )
}

/// Number of lines of a value in YAML.
fn lines(value: &Value) -> usize {
    match value {
        Value::Map(map) => map.iter().map(|(_, value)| 1 + lines(value)).sum(),
        Value::List(list) => list.iter().map(|value| lines(value).max(1)).sum(),
        _ => 0,
    }
}

fn widget(name: &str, version: &str, max: usize) -> String {
    let mut groups = String::new();
    for at in 0..GROUPS {
        let comma = if at > 0 { "," } else { "" };
        write!(
            groups,
            r#"{comma}"g{at}":{{"name":"name-{at}","min":1,"max":{max},"mode":"Always","items":["item-0","item-1"],"labels":{{"app":"widget","tier":"back"}}}}"#
        )
        .unwrap();
    }
    format!(
        r#"{{"kind":"Widget","apiVersion":"example.com/v1","metadata":{{"name":"{name}"{version}}},"spec":{{{groups}}}}}"#
    )
}

/// ConfigMap of `bytes` bytes, with as many entries as a widget has fields.
fn config_map(name: &str, version: &str, bytes: usize, entry: usize) -> String {
    let head = format!(
        r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}"{version}}},"data":{{"first":"{entry}""#
    );
    let (mut text, mut at) = (head, 0);
    while text.len() + 30 < bytes {
        write!(text, r#","field{at:03}":"value {at:03}""#).unwrap();
        at += 1;
    }
    text + "}}"
}

fn send(meter: &Meter, method: Method, path: &str, body: String, content_type: &str) -> Value {
    let call = Call { content_type, ..Call::new(method, path, body.into_bytes()) };
    let (code, body) = meter.call(call);
    assert!(code < 300, "{path}: {}", String::from_utf8_lossy(&body));
    json::parse(&body).unwrap()
}

/// Establishes the definition of widgets.
fn define(meter: &Meter) {
    let schema = schema();
    assert!(lines(&json::parse(schema.as_bytes()).unwrap()) >= 500);
    let definition = format!(
        r#"{{"metadata":{{"name":"widgets.example.com"}},"spec":{{"group":"example.com","scope":"Namespaced",
        "names":{{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"}},
        "versions":[{{"name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":{schema}}}}}]}}}}"#
    );
    send(meter, Method::POST, DEFINITIONS, definition, "application/json");
    let condition = |kind: &str| {
        format!(
            r#"{{"type":"{kind}","status":"True","reason":"T","message":"","lastTransitionTime":"2023-11-14T22:13:20Z"}}"#
        )
    };
    let status = format!(
        r#"{{"status":{{"storedVersions":["v1"],"acceptedNames":{{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"}},
        "conditions":[{},{}]}}}}"#,
        condition("NamesAccepted"),
        condition("Established")
    );
    let path = format!("{DEFINITIONS}/widgets.example.com/status");
    send(meter, Method::PATCH, &path, status, "application/merge-patch+json");
}

/// Instructions of a create and of an update.
fn measure(meter: &mut Meter, path: &str, body: impl Fn(&str, &str, usize) -> String) -> (u64, u64) {
    let (mut create, mut update) = (u64::MAX, u64::MAX);
    // The first object compiles the schema.
    for at in 0..=TRIES {
        let name = format!("x{at}");
        let (code, count) = meter.count(Call::new(Method::POST, path, body(&name, "", 10).into_bytes()));
        assert_eq!(code, 201);
        let own = format!("{path}/{name}");
        let stored = send(meter, Method::GET, &own, String::new(), "application/json");
        let version = format!(r#","resourceVersion":"{}""#, stored.str_at(&["metadata", "resourceVersion"]));
        let (code, of_update) =
            meter.count(Call::new(Method::PUT, &own, body(&name, &version, 20).into_bytes()));
        assert_eq!(code, 200);
        if at > 0 {
            (create, update) = (create.min(count), update.min(of_update));
        }
    }
    (create, update)
}

/// Compares creates and updates.
pub fn run(meter: &mut Meter) {
    define(meter);
    let bytes = widget("x0", "", 10).len();
    let custom = measure(meter, WIDGETS, widget);
    let built_in =
        measure(meter, MAPS, |name, version, entry| config_map(name, version, bytes + version.len(), entry));
    // The harness has begun a line with the name of the test.
    println!();
    for (verb, custom, built_in) in [("create", custom.0, built_in.0), ("update", custom.1, built_in.1)] {
        let ratio = custom * 100 / built_in;
        let result = if ratio <= RATIO_PERCENT_MAX { "ok" } else { "FAILED" };
        println!(
            "{result} {verb} of {bytes} bytes: {custom} instructions, {ratio} % of the {built_in} of a ConfigMap"
        );
    }
}
