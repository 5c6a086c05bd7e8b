//! Definitions, objects and webhooks that are made to cost much: each gets a clear error, and nothing is written.

use std::future::poll_fn;
use std::time::Duration;

use setpoint_api::{Value, json, value};
use setpoint_server::exchange::{Cost, Frames, Service};

use crate::harness::{MAPS, TestServer, content_type, request};
use crate::webhook_server::{HookReply, HookServer, patch};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const WIDGET_DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
/// Pattern of 30,000 states.
const LARGE_PATTERN: &str = "((a{1000}){10}){3}";

/// Definition of widgets whose spec has this schema.
fn definition(spec: &str) -> String {
    let schema = format!(r#"{{"type":"object","properties":{{"spec":{spec}}}}}"#);
    format!(
        r#"{{"metadata":{{"name":"widgets.example.com"}},"spec":{{"group":"example.com","scope":"Namespaced",
        "names":{{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"}},
        "versions":[{{"name":"v1","served":true,"storage":true,"subresources":{{"status":{{}}}},"schema":{{"openAPIV3Schema":{schema}}}}}]}}}}"#
    )
}

fn widget(name: &str, spec: &str) -> String {
    format!(
        r#"{{"kind":"Widget","apiVersion":"example.com/v1","metadata":{{"name":"{name}"}},"spec":{spec}}}"#
    )
}

/// Properties `f0`, `f1`, … of an object.
fn properties(count: usize, property: impl Fn(usize) -> String) -> String {
    let properties: Vec<String> = (0..count).map(|at| format!(r#""f{at}":{}"#, property(at))).collect();
    format!(r#"{{"type":"object","properties":{{{}}}}}"#, properties.join(","))
}

/// Short text with validation rules.
fn text_with_rules(rules: impl Iterator<Item = String>) -> String {
    let rules: Vec<String> = rules.map(|rule| format!(r#"{{"rule":"{rule}"}}"#)).collect();
    format!(r#"{{"type":"string","maxLength":10,"x-kubernetes-validations":[{}]}}"#, rules.join(","))
}

/// Nested objects, `inner` in the innermost.
fn nested(levels: usize, inner: &str, more: &str) -> String {
    let open = r#"{"type":"object","properties":{"a":"#.repeat(levels);
    format!("{open}{inner}{}", format!("}}{more}}}").repeat(levels))
}

/// Creates the definition of widgets, and establishes it as the controllers do.
fn define(server: &TestServer, spec: &str) {
    server.create(DEFINITIONS, &definition(spec));
    let condition = |kind: &str| {
        value!({
            "type": (kind), "status": "True", "reason": "Test", "message": "",
            "lastTransitionTime": "2023-11-14T22:13:20Z",
        })
    };
    let names =
        value!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"});
    let conditions = vec![condition("NamesAccepted"), condition("Established")];
    let status =
        value!({"status": {"acceptedNames": (names), "storedVersions": ["v1"], "conditions": (conditions)}});
    let (code, answer) =
        server.call("PATCH", &format!("{WIDGET_DEFINITION}/status"), &json::to_text(&status));
    assert_eq!(code, 200, "{}", json::to_text(&answer));
}

/// Creates a definition, which must be refused with this code and text.
fn assert_refused(spec: &str, code: u16, text: &str) {
    let server = TestServer::new();
    let (found, status) = server.call("POST", DEFINITIONS, &definition(spec));
    let message = status.str_at(&["message"]);
    assert_eq!(found, code, "{text}: {}", &message[..message.len().min(400)]);
    assert!(message.contains(text), "{text}: {}", &message[..message.len().min(400)]);
    assert!(message.len() < 2 << 20, "{text}: a message of {} bytes", message.len());
    assert_eq!(server.get(WIDGET_DEFINITION).code, 404, "{text}: nothing is stored");
}

#[test]
fn recursive_schemas_are_rejected() {
    let at = "spec.validation.openAPIV3Schema.properties[spec]";
    for (schema, text) in [
        (r##"{"$ref":"#/definitions/node"}"##, ".$ref: Forbidden: $ref is not supported"),
        (
            r##"{"type":"object","definitions":{"node":{"type":"object"}}}"##,
            ".definitions: Forbidden: definitions is not supported",
        ),
        (r#"{"type":"array","items":[{"type":"string"}]}"#, ".items: Forbidden: "),
    ] {
        assert_refused(schema, 422, &format!("{at}{text}"));
    }
}

#[test]
fn exploding_schemas_are_rejected() {
    let text = r#"{"type":"string"}"#.to_owned();
    assert_refused(&nested(2000, &text, ""), 400, "exceeded max depth");
    assert_refused(&properties(100_001, |_| "{}".into()), 422, "schema has more than 100000 nodes");
    let accepted = TestServer::new();
    define(&accepted, &nested(200, &text, ""));
    define(&TestServer::new(), &properties(30_000, |_| text.clone()));
    // Each node with rules is declared with all nodes below.
    let below = properties(20_000, |_| text.clone());
    let rule = r#","x-kubernetes-validations":[{"rule":"has(self.a)"}]"#;
    assert_refused(&nested(120, &below, rule), 422, "too many nested x-kubernetes-validations rules");
    define(&TestServer::new(), &nested(30, &properties(100, |_| text.clone()), rule));
}

#[test]
fn patterns_that_blow_up_are_rejected() {
    let pattern = |pattern: &str| format!(r#"{{"type":"string","pattern":"{pattern}"}}"#);
    let invalid = "must be a valid regular expression, but isn't: error parsing regexp: expression too large";
    assert_refused(&pattern("((a{1000}){1000}){1000}"), 422, invalid);
    assert_refused(&pattern("a{1001}"), 422, "invalid repeat count: `{1001}`");
    let many = properties(10_000, |at| pattern(&format!("{at}{LARGE_PATTERN}")));
    assert_refused(&many, 422, "the patterns of the schema are too large together");
    let rules = (0..10_000).map(|at| format!("self.matches('{at}{LARGE_PATTERN}')"));
    let text = "the patterns of the x-kubernetes-validations rules are too large together";
    assert_refused(&text_with_rules(rules.clone()), 422, text);
    let one = rules.collect::<Vec<_>>().join(" || ");
    assert_refused(&text_with_rules([one].into_iter()), 422, text);
    let equal = properties(10_000, |_| pattern(LARGE_PATTERN));
    define(&TestServer::new(), &equal);
}

#[test]
fn nested_quantifiers_and_long_texts_are_matched_within_bounds() {
    let server = TestServer::new();
    let pattern = "([ab]*a[ab]{900}){10}c";
    let rule =
        format!(r#""maxLength":300000,"x-kubernetes-validations":[{{"rule":"self.matches('{pattern}')"}}]"#);
    let schema = format!(
        r#"{{"type":"object","properties":{{"nested":{{"type":"string","pattern":"^((a+)+)+$"}},
        "large":{{"type":"string","pattern":"{pattern}"}},"rule":{{"type":"string",{rule}}}}}}}"#
    );
    define(&server, &schema);
    let long = "ab".repeat(150_000);
    let create = |field: &str, text: &str| {
        let (code, status) =
            server.call("POST", WIDGETS, &widget("w", &format!(r#"{{"{field}":"{text}"}}"#)));
        (code, status.str_at(&["message"]).to_owned())
    };
    let (code, message) = create("nested", &format!("{}b", "a".repeat(300_000)));
    assert!(code == 422 && message.contains("should match '^((a+)+)+$'"), "{code}");
    let (code, message) = create("large", &long);
    let text = "Forbidden: the values are too long for patterns with so many states";
    assert!(code == 422 && message.contains(text), "{code}: {}", &message[message.len().min(300_000)..]);
    let (code, message) = create("rule", &long);
    assert!(code == 422 && message.contains("operation cancelled: actual cost limit exceeded"), "{code}");
    assert_eq!(server.get(&format!("{WIDGETS}/w")).code, 404);
}

#[test]
fn rules_with_exponential_estimates_are_rejected() {
    let all = (0..30).map(|level| format!("self.all(x{level}, ")).collect::<String>();
    let nested = format!("{all}true{}", ")".repeat(30));
    let list = |rule: &str, limit: &str| {
        format!(
            r#"{{"type":"array"{limit},"items":{{"type":"string"}},"x-kubernetes-validations":[{{"rule":"{rule}"}}]}}"#
        )
    };
    let text = "estimated rule cost exceeds budget by factor of more than 100x";
    assert_refused(&list(&nested, r#","maxItems":10"#), 422, text);
    assert_refused(&list("self.all(a, self.all(b, self.all(c, a == b || b == c)))", ""), 422, text);
}

#[test]
fn definition_near_the_largest_body_is_stored_and_served() {
    let server = TestServer::new();
    let description = "x".repeat(2900 << 10);
    define(&server, &format!(r#"{{"type":"string","description":"{description}"}}"#));
    assert!(server.get(WIDGET_DEFINITION).body.len() > 2900 << 10);
    server.create(WIDGETS, &widget("w", r#""small""#));
}

#[test]
fn evaluation_over_budget_is_an_error_with_the_text_of_upstream() {
    let numbers = |count: usize| {
        let numbers: Vec<String> = (0..count).map(|number| number.to_string()).collect();
        format!("[{}]", numbers.join(","))
    };
    let list = |rules: usize| {
        let rule = r#"{"rule":"self.all(a, self.all(b, a + b > -1))"}"#;
        let rules = vec![rule; rules].join(",");
        format!(
            r#"{{"type":"array","maxItems":620,"items":{{"type":"integer"}},"x-kubernetes-validations":[{rules}]}}"#
        )
    };
    let call = "operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: self.all(a, self.all(b, a + b > -1))";
    let object =
        "validation failed due to running out of cost budget, no further validation rules will be run";
    for (rules, count, text) in [(1, 600, call), (25, 300, object)] {
        let server = TestServer::new();
        define(&server, &list(rules));
        let (code, status) = server.call("POST", WIDGETS, &widget("w", &numbers(count)));
        assert_eq!(code, 422, "{}", json::to_text(&status));
        assert!(status.str_at(&["message"]).contains(text), "{}", json::to_text(&status));
        assert_eq!(server.get(&format!("{WIDGETS}/w")).code, 404);
        server.create(WIDGETS, &widget("w", &numbers(20)));
    }
}

#[test]
fn patch_of_a_webhook_that_makes_the_object_invalid_is_an_error() {
    for (operations, code, text) in [
        (r#"[{"op":"add","path":"/data","value":{"no key":"v"}}]"#, 422, "data[no key]: Invalid value"),
        (
            r#"[{"op":"add","path":"/metadata/labels","value":{"a":"-"}}]"#,
            422,
            "metadata.labels: Invalid value",
        ),
        (
            r#"[{"op":"replace","path":"/metadata/name","value":"No Name"}]"#,
            422,
            "metadata.name: Invalid value",
        ),
        (r#"[{"op":"add","path":"/data","value":5}]"#, 500, "Internal error occurred"),
        (r#"[{"op":"remove","path":"/nothing"}]"#, 500, "Internal error occurred"),
        (r#"[{"op":"#, 500, "Internal error occurred"),
    ] {
        let server = TestServer::new();
        let hook = HookServer::start(move |review| patch(review, operations));
        configure(&server, &hook);
        let (found, status) = server.call("POST", MAPS, r#"{"metadata":{"name":"x"},"data":{"k":"v"}}"#);
        let message = status.str_at(&["message"]);
        assert!(found == code && message.contains(text), "{operations}: {found} {message}");
        assert_eq!(super::names(&server.object(MAPS)), [""; 0], "{operations}");
    }
}

#[test]
fn answer_of_a_hundred_megabytes_is_cut_off() {
    let server = TestServer::new();
    let hook = HookServer::start(|_| {
        let mut answer = b"HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\n".to_vec();
        answer.resize(100_000_000, b' ');
        HookReply::Raw(answer)
    });
    configure(&server, &hook);
    let (code, status) = server.call("POST", MAPS, r#"{"metadata":{"name":"x"}}"#);
    assert_eq!(code, 500);
    assert!(
        status.str_at(&["message"]).contains("the response is larger than"),
        "{}",
        json::to_text(&status)
    );
    assert_eq!(server.get(&format!("{MAPS}/x")).code, 404);
}

/// Configures a mutating webhook for ConfigMaps.
fn configure(server: &TestServer, hook: &HookServer) {
    let (url, ca) = (&hook.url, &hook.ca_bundle);
    let body = format!(
        r#"{{"metadata":{{"name":"m"}},"webhooks":[{{"name":"m.example.com","sideEffects":"None","admissionReviewVersions":["v1"],
        "clientConfig":{{"url":"{url}","caBundle":"{ca}"}},
        "rules":[{{"operations":["*"],"apiGroups":[""],"apiVersions":["*"],"resources":["configmaps"]}}]}}]}}"#
    );
    server.create("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", &body);
}

/// Frames of a watch up to its end, and the virtual time until then.
#[expect(clippy::disallowed_methods, reason = "the clock of the test is paused")]
fn read_to_end(server: &TestServer, watch: &mut dyn Frames) -> (String, Duration) {
    server.runtime.block_on(async {
        let (begun, mut text) = (tokio::time::Instant::now(), Vec::new());
        while let Some(frame) = poll_fn(|context| watch.poll_frame(context)).await {
            text.extend_from_slice(&frame);
        }
        (String::from_utf8(text).unwrap(), begun.elapsed())
    })
}

/// Deletes the definition of widgets, as the controllers do when its instances are deleted.
fn remove_definition(server: &TestServer) {
    assert_eq!(server.call("DELETE", WIDGET_DEFINITION, "").0, 200);
    let (code, _) = server.call("PATCH", WIDGET_DEFINITION, r#"{"metadata":{"finalizers":null}}"#);
    assert_eq!(code, 200);
    assert_eq!(server.get(WIDGET_DEFINITION).code, 404);
}

#[test]
fn thousand_watches_end_after_their_events_when_the_definition_is_deleted() {
    let server = TestServer::paused();
    define(&server, r#"{"type":"integer"}"#);
    server.create(WIDGETS, &widget("a", "1"));
    server.create(WIDGETS, &widget("b", "2"));
    let path = format!("{WIDGETS}?watch=1&allowWatchBookmarks=true");
    let mut watches: Vec<_> = (0..1000).map(|_| server.watch(&path, "application/json")).collect();
    for watch in &mut watches {
        let text = server.ready_frames(&mut **watch).concat();
        assert_eq!(String::from_utf8_lossy(&text).matches("ADDED").count(), 2);
    }
    for name in ["a", "b"] {
        assert_eq!(server.call("DELETE", &format!("{WIDGETS}/{name}"), "").0, 200);
    }
    remove_definition(&server);
    for watch in &mut watches {
        let (text, took) = read_to_end(&server, &mut **watch);
        assert_eq!(text.matches(r#""type":"DELETED""#).count(), 2, "{text}");
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
    assert_eq!(server.get(WIDGETS).code, 404);
    assert_eq!(server.get(MAPS).code, 200);
}

#[test]
fn watch_ends_when_the_spec_of_its_definition_changes() {
    let server = TestServer::paused();
    define(&server, r#"{"type":"integer"}"#);
    let mut watch = server.watch(&format!("{WIDGETS}?watch=1"), "application/json");
    assert!(server.ready_frames(&mut *watch).is_empty());
    let labelled = r#"{"metadata":{"labels":{"a":"b"}}}"#;
    assert_eq!(server.call("PATCH", WIDGET_DEFINITION, labelled).0, 200);
    server.create(WIDGETS, &widget("a", "1"));
    let text = server.ready_frames(&mut *watch).concat();
    assert!(
        String::from_utf8_lossy(&text).contains("ADDED"),
        "a change of the metadata does not end a watch"
    );
    let shortened = r#"{"spec":{"names":{"shortNames":["wd"]}}}"#;
    assert_eq!(server.call("PATCH", WIDGET_DEFINITION, shortened).0, 200);
    let (text, took) = read_to_end(&server, &mut *watch);
    assert!(text.is_empty() && took < Duration::from_secs(1), "{took:?}: {text}");
    let mut again = server.watch(&format!("{WIDGETS}?watch=1"), "application/json");
    assert!(String::from_utf8_lossy(&server.ready_frames(&mut *again).concat()).contains("ADDED"));
}

#[test]
fn second_definition_of_a_name_is_refused() {
    let server = TestServer::new();
    define(&server, r#"{"type":"integer"}"#);
    let (code, status) = server.call("POST", DEFINITIONS, &definition(r#"{"type":"string"}"#));
    assert_eq!((code, status.str_at(&["reason"])), (409, "AlreadyExists"));
    server.create(WIDGETS, &widget("w", "1"));
}

#[test]
fn requests_that_run_rules_of_users_leave_the_reactor() {
    let server = TestServer::new();
    let cost = |method: &str, path: &str| {
        let request = request(method, path, "", &[content_type(method)]);
        server.api.admit(&request).map(|admission| admission.cost).ok()
    };
    let (small, large) = (Some(Cost::Small), Some(Cost::Large));
    // A short definition or policy can take seconds to compile.
    for path in [DEFINITIONS, "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"] {
        assert_eq!(cost("POST", path), large, "{path}");
        assert_eq!(cost("GET", path), small, "{path}");
    }
    let cheap = r#"{"type":"object","properties":{"n":{"type":"integer"}},"x-kubernetes-validations":[{"rule":"self.n > 1"}]}"#;
    define(&server, cheap);
    assert_eq!(cost("POST", WIDGETS), large, "the rules are not compiled yet");
    server.create(WIDGETS, &widget("w", r#"{"n":2}"#));
    assert_eq!([cost("POST", WIDGETS), cost("PATCH", &format!("{WIDGETS}/w"))], [small; 2]);
    let rules = r#"[{"op":"replace","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec","value":
        {"type":"array","maxItems":200,"items":{"type":"integer"},"x-kubernetes-validations":[{"rule":"self.all(a, self.all(b, a + b > 0))"}]}}]"#;
    let json_patch = [("content-type", "application/json-patch+json")];
    assert_eq!(server.send("PATCH", WIDGET_DEFINITION, rules, &json_patch).code, 200);
    assert_eq!(cost("GET", &format!("{WIDGETS}/w")), large, "the new schema is not compiled yet");
    server.create(WIDGETS, &widget("v", "[1]"));
    assert_eq!(cost("POST", WIDGETS), large, "the rules are costly");
    assert_eq!(cost("GET", &format!("{WIDGETS}/v")), small);
    assert_eq!([cost("POST", MAPS), cost("DELETE", &format!("{MAPS}/x"))], [small; 2]);
    let policies = "/apis/admissionregistration.k8s.io/v1";
    let policy = r#"{"metadata":{"name":"p"},"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],
        "operations":["*"],"resources":["configmaps"]}]},"validations":[{"expression":"object.data.all(k, k != 'x')"}]}}"#;
    server.create(&format!("{policies}/validatingadmissionpolicies"), policy);
    let binding = r#"{"metadata":{"name":"b"},"spec":{"policyName":"p","validationActions":["Deny"]}}"#;
    server.create(&format!("{policies}/validatingadmissionpolicybindings"), binding);
    server.call("POST", MAPS, r#"{"metadata":{"name":"x"},"data":{"k":"v"}}"#);
    assert_eq!([cost("POST", MAPS), cost("DELETE", &format!("{MAPS}/x"))], [large; 2]);
    assert_eq!(cost("GET", MAPS), small);
}

#[test]
fn discovery_of_many_definitions_leaves_the_reactor() {
    let server = TestServer::new();
    let cost = |path: &str| server.api.admit(&request("GET", path, "", &[])).map(|found| found.cost).ok();
    assert_eq!([cost("/apis"), cost("/api/v1"), cost("/")], [Some(Cost::Small); 3]);
    for number in 0..50 {
        let body = definition(r#"{"type":"string"}"#).replace("widget", &format!("widget{number}"));
        let (code, status) =
            server.call("POST", DEFINITIONS, &body.replace("Widget", &format!("Widget{number}")));
        assert_eq!(code, 201, "{}", json::to_text(&status));
    }
    for path in ["/apis", "/apis/example.com/v1", "/", "/openapi/v2", "/openapi/v3"] {
        assert_eq!(cost(path), Some(Cost::Large), "{path}");
    }
    assert_eq!(cost("/version"), Some(Cost::Small));
    assert_eq!(
        server.call("GET", MAPS, "").1.get("items").and_then(Value::as_list).map(<[Value]>::len),
        Some(0)
    );
}
