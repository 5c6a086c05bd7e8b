//! Conversion webhooks: objects of a custom kind in two versions, and a webhook that converts, fails and lies.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use setpoint_api::{Key, ManualClock, Resource, Value, json, value};
use setpoint_controllers::garbage_collector::GarbageCollector;
use setpoint_controllers::indexes;
use setpoint_controllers::namespace::NamespaceController;
use setpoint_reconcile::{Controller, Engine};
use setpoint_runtime::in_process::Shell;
use setpoint_server::codec;
use setpoint_server::loop_writes::InFlightWrites;
use setpoint_store::{Retention, Snapshot, Store, WatchFilter};
use setpoint_views::world_config;

use crate::harness::{MAPS, Reply, START, TestServer, content_type, entropy};
use crate::webhook_server::{HookReply, HookServer, convert_objects, patch, respond_conversion};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const TANKS_V1: &str = "/apis/example.com/v1/namespaces/default/tanks";
const TANKS_V2: &str = "/apis/example.com/v2/namespaces/default/tanks";

/// Definition of tanks: `size` in v1 is `volume` in v2. `storage` is the storage version.
fn definition(hook: &HookServer, storage: &str) -> String {
    let version = |name: &str, field: &str| {
        format!(
            r#"{{"name":"{name}","served":true,"storage":{},"subresources":{{"status":{{}},
                "scale":{{"specReplicasPath":".spec.{field}","statusReplicasPath":".status.size"}}}},
                "schema":{{"openAPIV3Schema":{{"type":"object","properties":{{
                    "spec":{{"type":"object","properties":{{"{field}":{{"type":"integer","maximum":100}}}}}},
                    "status":{{"type":"object","properties":{{"size":{{"type":"integer"}}}}}}}}}}}}}}"#,
            name == storage
        )
    };
    format!(
        r#"{{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1",
        "metadata":{{"name":"tanks.example.com"}},"spec":{{"group":"example.com","scope":"Namespaced",
        "names":{{"plural":"tanks","singular":"tank","kind":"Tank","listKind":"TankList"}},
        "conversion":{{"strategy":"Webhook","webhook":{{"conversionReviewVersions":["v1"],
            "clientConfig":{{"url":"{}","caBundle":"{}"}}}}}},
        "versions":[{},{}]}}}}"#,
        hook.url,
        hook.ca_bundle,
        version("v1", "size"),
        version("v2", "volume"),
    )
}

/// Converts one object as the webhook of tanks does.
fn converted(object: &Value, api_version: &str) -> Value {
    let (from, to) = match api_version {
        "example.com/v2" => ("size", "volume"),
        _ => ("volume", "size"),
    };
    let mut object = object.clone();
    let amount = object.at(&["spec", from]).cloned();
    object.make_map().insert("apiVersion", api_version);
    if let Some(amount) = amount {
        let spec = object.ensure_map("spec");
        spec.remove(from);
        spec.insert(to, amount);
    }
    object
}

/// Response to a ConversionReview.
fn convert(review: &Value) -> HookReply {
    convert_objects(review, converted)
}

/// A server that serves tanks, and the webhook. It fails once the switch is set.
fn tanks() -> (TestServer, HookServer, Arc<AtomicBool>) {
    tanks_over(Store::in_memory(Retention::default()))
}

fn tanks_over(store: Store) -> (TestServer, HookServer, Arc<AtomicBool>) {
    let is_down = Arc::new(AtomicBool::new(false));
    let switch = Arc::clone(&is_down);
    let hook =
        HookServer::start(
            move |review| {
                if switch.load(Ordering::SeqCst) { HookReply::Close } else { convert(review) }
            },
        );
    let server = TestServer::over(store);
    server.create(DEFINITIONS, &definition(&hook, "v1"));
    establish(&server);
    (server, hook, is_down)
}

fn establish(server: &TestServer) {
    let status = r#"{"status":{"acceptedNames":{"plural":"tanks","singular":"tank","kind":"Tank","listKind":"TankList"},
        "storedVersions":["v1"],"conditions":[
        {"type":"NamesAccepted","status":"True","reason":"NoConflicts","message":"","lastTransitionTime":"2023-11-14T22:13:20Z"},
        {"type":"Established","status":"True","reason":"InitialNamesAccepted","message":"","lastTransitionTime":"2023-11-14T22:13:20Z"}]}}"#;
    let (code, answer) = server.call("PATCH", &format!("{DEFINITIONS}/tanks.example.com/status"), status);
    assert_eq!(code, 200, "{}", json::to_text(&answer));
}

fn tank(version: &str, name: &str, spec: &str) -> String {
    format!(
        r#"{{"kind":"Tank","apiVersion":"example.com/{version}","metadata":{{"name":"{name}"}},"spec":{spec}}}"#
    )
}

fn amount(object: &Value, field: &str) -> Option<i64> {
    object.at(&["spec", field]).and_then(Value::as_i64)
}

#[test]
fn object_is_written_and_read_in_both_versions() {
    let (server, hook, _) = tanks();
    let made = server.create(TANKS_V2, &tank("v2", "t", r#"{"volume":3}"#));
    assert_eq!((made.str_at(&["apiVersion"]), amount(&made, "volume")), ("example.com/v2", Some(3)));
    let stored = server.object(&format!("{TANKS_V1}/t"));
    assert_eq!((stored.str_at(&["apiVersion"]), amount(&stored, "size")), ("example.com/v1", Some(3)));
    assert_eq!(stored.at(&["spec", "volume"]), None);
    assert_eq!(server.object(&format!("{TANKS_V2}/t")), made);
    let calls = hook.requests().len();
    server.object(&format!("{TANKS_V2}/t"));
    assert_eq!(hook.requests().len(), calls, "a conversion is cached");
    let request = &hook.requests()[0];
    assert_eq!(request.str_at(&["desiredAPIVersion"]), "example.com/v1");

    let (code, patched) = server.call("PATCH", &format!("{TANKS_V2}/t"), r#"{"spec":{"volume":4}}"#);
    assert_eq!((code, amount(&patched, "volume")), (200, Some(4)), "{}", json::to_text(&patched));
    assert_eq!(patched.at(&["metadata", "generation"]), Some(&Value::Int(2)));
    let (code, refused) = server.call("PATCH", &format!("{TANKS_V2}/t"), r#"{"spec":{"volume":400}}"#);
    assert_eq!(code, 422, "the schema of the requested version applies: {}", json::to_text(&refused));
    let (code, same) = server.call("PATCH", &format!("{TANKS_V2}/t"), r#"{"spec":{"volume":4}}"#);
    assert_eq!((code, same), (200, patched), "nothing changes");
    let mut update = server.object(&format!("{TANKS_V1}/t"));
    update.ensure_map("spec").insert("size", 5);
    let (code, _) = server.call("PUT", &format!("{TANKS_V1}/t"), &json::to_text(&update));
    assert_eq!((code, amount(&server.object(&format!("{TANKS_V2}/t")), "volume")), (200, Some(5)));
}

#[test]
fn lists_and_tables_are_converted_in_one_call() {
    let (server, hook, _) = tanks();
    for name in ["a", "b", "c"] {
        server.create(TANKS_V1, &tank("v1", name, r#"{"size":1}"#));
    }
    assert_eq!(hook.requests().len(), 0, "objects in the storage version need no webhook");
    let list = server.object(TANKS_V2);
    assert_eq!((list.str_at(&["kind"]), list.str_at(&["apiVersion"])), ("TankList", "example.com/v2"));
    let items = list.get("items").and_then(Value::as_list).unwrap();
    assert!(items.iter().all(|item| amount(item, "volume") == Some(1)), "{}", json::to_text(&list));
    assert_eq!(hook.requests().len(), 1);
    let table = server.get_as(TANKS_V2, "application/json;as=Table;v=v1;g=meta.k8s.io").value();
    assert_eq!(table.get("rows").and_then(Value::as_list).unwrap().len(), 3);
    let page = server.object(&format!("{TANKS_V2}?limit=2"));
    assert!(!page.str_at(&["metadata", "continue"]).is_empty());
    assert_eq!(hook.requests().len(), 1, "conversions are cached");
}

#[test]
fn apply_merges_fields_of_both_versions() {
    let (server, _hook, _) = tanks();
    let apply = |path: &str, manager: &str, body: &str| -> Reply {
        let path = format!("{path}/t?fieldManager={manager}");
        server.send("PATCH", &path, body, &[("content-type", "application/apply-patch+yaml")])
    };
    let body = |version: &str, field: &str, amount: u8| {
        format!(
            r#"{{"kind":"Tank","apiVersion":"example.com/{version}","metadata":{{"name":"t"}},"spec":{{"{field}":{amount}}}}}"#
        )
    };
    assert_eq!(apply(TANKS_V1, "one", &body("v1", "size", 1)).code, 201);
    let conflict = apply(TANKS_V2, "two", &body("v2", "volume", 2));
    assert_eq!(conflict.code, 409, "{}", conflict.text());
    assert!(conflict.text().contains("one"), "{}", conflict.text());
    let equal = apply(TANKS_V2, "two", &body("v2", "volume", 1));
    assert_eq!(equal.code, 200, "{}", equal.text());
    let managers = equal.value();
    let managers = managers.at(&["metadata", "managedFields"]).and_then(Value::as_list).unwrap();
    let mut versions: Vec<&str> = managers.iter().map(|entry| entry.str_at(&["apiVersion"])).collect();
    versions.sort_unstable();
    assert_eq!(versions, ["example.com/v1", "example.com/v2"]);
    assert_eq!(apply(TANKS_V2, "one", &body("v2", "volume", 1)).code, 200);
}

#[test]
fn scale_uses_the_paths_of_the_requested_version() {
    let (server, _hook, _) = tanks();
    server.create(TANKS_V1, &tank("v1", "t", r#"{"size":3}"#));
    let scale = server.object(&format!("{TANKS_V2}/t/scale"));
    assert_eq!(scale.at(&["spec", "replicas"]), Some(&Value::Int(3)));
    let (code, scaled) = server.call("PATCH", &format!("{TANKS_V2}/t/scale"), r#"{"spec":{"replicas":7}}"#);
    assert_eq!(code, 200, "{}", json::to_text(&scaled));
    assert_eq!(scaled.at(&["spec", "replicas"]), Some(&Value::Int(7)));
    assert_eq!(amount(&server.object(&format!("{TANKS_V1}/t")), "size"), Some(7));
}

/// Events of a watch: type, version and amount.
fn events(server: &TestServer, path: &str, count: usize) -> Vec<(String, String, Option<i64>)> {
    let mut frames = server.watch(path, "application/json");
    let mut text = Vec::new();
    server.runtime.block_on(async {
        let next = async {
            while text.iter().filter(|byte| **byte == b'\n').count() < count {
                let Some(frame) = poll_fn(|context| frames.poll_frame(context)).await else { break };
                text.extend_from_slice(&frame);
            }
        };
        tokio::time::timeout(Duration::from_secs(60), next).await.expect("the watch sends its events");
    });
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let event = json::parse(line).unwrap();
            let object = event.get("object").unwrap();
            let amount = amount(object, "volume");
            (event.str_at(&["type"]).to_owned(), object.str_at(&["apiVersion"]).to_owned(), amount)
        })
        .collect()
}

#[test]
fn watch_delivers_converted_objects_in_order() {
    let (server, _hook, is_down) = tanks();
    let made = server.create(TANKS_V1, &tank("v1", "t", r#"{"size":1}"#));
    server.call("PATCH", &format!("{TANKS_V1}/t"), r#"{"spec":{"size":2},"metadata":{"labels":{"a":"b"}}}"#);
    server.call("PATCH", &format!("{TANKS_V1}/t"), r#"{"spec":{"size":3},"metadata":{"labels":null}}"#);
    server.call("DELETE", &format!("{TANKS_V1}/t"), "");
    let since = made.str_at(&["metadata", "resourceVersion"]);
    let event = |word: &str, amount| (word.to_owned(), "example.com/v2".to_owned(), Some(amount));
    let seen = events(&server, &format!("{TANKS_V2}?watch=true&resourceVersion={since}"), 3);
    assert_eq!(seen, [event("MODIFIED", 2), event("MODIFIED", 3), event("DELETED", 3)]);
    let selected = format!("{TANKS_V2}?watch=true&resourceVersion={since}&labelSelector=a%3Db");
    assert_eq!(events(&server, &selected, 2), [event("ADDED", 2), event("DELETED", 2)]);
    server.create(TANKS_V1, &tank("v1", "u", r#"{"size":9}"#));
    let listed =
        "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
    let seen = events(&server, &format!("{TANKS_V2}?{listed}"), 2);
    assert_eq!(seen[0], event("ADDED", 9));
    assert_eq!(seen[1].0, "BOOKMARK");
    is_down.store(true, Ordering::SeqCst);
    server.create(TANKS_V1, &tank("v1", "v", r#"{"size":9}"#));
    let seen = events(&server, &format!("{TANKS_V2}?watch=true&resourceVersion=0"), 1);
    assert_eq!(seen[0].0, "ERROR");
}

#[test]
fn failing_webhook_affects_neither_the_stored_version_nor_deletes_nor_other_kinds() {
    let (server, _hook, is_down) = tanks();
    server.create(TANKS_V1, &tank("v1", "t", r#"{"size":3}"#));
    let held = r#"{"kind":"Tank","apiVersion":"example.com/v1","metadata":{"name":"h","finalizers":["example.com/hold"]},"spec":{"size":1}}"#;
    server.create(TANKS_V1, held);
    is_down.store(true, Ordering::SeqCst);
    let (code, failed) = server.call("GET", &format!("{TANKS_V2}/t"), "");
    let why = failed.str_at(&["message"]);
    assert_eq!(code, 500, "{why}");
    assert!(
        why.starts_with("conversion webhook for example.com/v1, Kind=Tank failed: Post \"https://"),
        "{why}"
    );
    let (code, failed) = server.call("POST", TANKS_V2, &tank("v2", "new", r#"{"volume":1}"#));
    assert_eq!(code, 500, "{}", json::to_text(&failed));
    assert_eq!(server.call("GET", &format!("{TANKS_V1}/new"), "").0, 404, "nothing is half-written");
    assert_eq!(server.call("PATCH", &format!("{TANKS_V1}/t"), r#"{"spec":{"size":4}}"#).0, 200);
    assert_eq!(server.call("DELETE", &format!("{TANKS_V2}/t"), "").0, 200, "deletes need no conversion");
    assert_eq!(server.call("GET", &format!("{TANKS_V1}/t"), "").0, 404);
    assert_eq!(server.call("DELETE", &format!("{TANKS_V2}/h"), "").0, 200);
    let held = server.object(&format!("{TANKS_V1}/h"));
    assert!(!held.str_at(&["metadata", "deletionTimestamp"]).is_empty());
    assert_eq!(server.call("POST", MAPS, r#"{"metadata":{"name":"m"}}"#).0, 201);
    let repair = r#"{"spec":{"conversion":{"strategy":"None","webhook":null}}}"#;
    assert_eq!(server.call("PATCH", &format!("{DEFINITIONS}/tanks.example.com"), repair).0, 200);
    assert_eq!(server.call("GET", &format!("{TANKS_V2}/h"), "").0, 200, "the definition stays writable");
}

/// Makes `v2` the storage version.
fn store_as_v2(server: &TestServer, hook: &HookServer) {
    let path = format!("{DEFINITIONS}/tanks.example.com");
    let mut changed = json::parse(definition(hook, "v2").as_bytes()).unwrap();
    let stored = server.object(&path);
    let revision = stored.str_at(&["metadata", "resourceVersion"]).to_owned();
    changed.ensure_map("metadata").insert("resourceVersion", revision);
    let (code, answer) = server.call("PUT", &path, &json::to_text(&changed));
    assert_eq!(code, 200, "{}", json::to_text(&answer));
}

/// Creates a ConfigMap, and a tank that it owns.
fn create_owned(server: &TestServer, owner: &str, tank: &str) {
    let made = server.create(MAPS, &format!(r#"{{"metadata":{{"name":"{owner}"}}}}"#));
    let uid = made.str_at(&["metadata", "uid"]);
    let body = format!(
        r#"{{"kind":"Tank","apiVersion":"example.com/v1","metadata":{{"name":"{tank}","ownerReferences":[
            {{"apiVersion":"v1","kind":"ConfigMap","name":"{owner}","uid":"{uid}"}}]}},"spec":{{"size":1}}}}"#
    );
    server.create(TANKS_V1, &body);
}

/// Waits for a state of the store.
async fn wait_for(store: &Store, what: &str, is_reached: impl Fn(&Snapshot) -> bool) {
    let watched = ["tanks.example.com", "configmaps", "namespaces"];
    let mut cursors = watched
        .map(|resource| store.list_and_watch(&Resource::new(resource).unwrap(), WatchFilter::default()).1);
    let reached = poll_fn(|context| {
        for cursor in &mut cursors {
            while cursor.poll_next(context).is_ready() {}
        }
        if is_reached(&store.snapshot()) { Poll::Ready(()) } else { Poll::Pending }
    });
    tokio::time::timeout(Duration::from_secs(60), reached).await.expect(what);
}

#[test]
fn garbage_collection_and_namespace_deletion_need_no_webhook() {
    let store = Store::in_memory(Retention::default());
    let (server, hook, is_down) = tanks_over(store.clone());
    create_owned(&server, "owner", "owned");
    create_owned(&server, "other", "orphan");
    server.create("/api/v1/namespaces", r#"{"metadata":{"name":"doomed"}}"#);
    server.create(&TANKS_V1.replace("default", "doomed"), &tank("v1", "t", r#"{"size":1}"#));
    // From now on every stored tank needs the webhook.
    store_as_v2(&server, &hook);
    is_down.store(true, Ordering::SeqCst);
    assert_eq!(server.call("GET", &format!("{TANKS_V2}/owned"), "").0, 500);
    let orphan = r#"{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Orphan"}"#;
    assert_eq!(server.call("DELETE", &format!("{MAPS}/other"), orphan).0, 200);
    assert_eq!(server.call("DELETE", &format!("{MAPS}/owner"), "").0, 200);
    assert_eq!(server.call("DELETE", "/api/v1/namespaces/doomed", "").0, 200);

    let controllers: Vec<Box<dyn Controller>> =
        vec![Box::new(GarbageCollector), Box::new(NamespaceController)];
    let engine = Engine::new(controllers, world_config(indexes::all()));
    let clock = Arc::new(ManualClock::with_tick(START, Duration::from_micros(50)));
    let executor = InFlightWrites::new(store.clone(), clock.clone(), entropy(), Default::default())
        .with_conversions(Arc::clone(server.api.conversions()));
    let shell =
        Shell::start(store.clone(), engine, clock, entropy(), Arc::default(), Box::new(executor)).unwrap();
    let tanks = Resource::new("tanks.example.com").unwrap();
    let tank = |name: &str| Key::namespaced(&tanks, "default", name).unwrap();
    let namespaces = Resource::new("namespaces").unwrap();
    let doomed = Key::from_path(&namespaces, "doomed").unwrap();
    server.runtime.block_on(async {
        wait_for(&store, "the dependent is deleted", |now| now.get(&tank("owned")).is_none()).await;
        wait_for(&store, "the orphan has no owner", |now| {
            let orphan = codec::object(now.get(&tank("orphan")).expect("the orphan stays"));
            orphan.at(&["metadata", "ownerReferences"]).is_none()
        })
        .await;
        wait_for(&store, "the namespace is gone", |now| now.get(&doomed).is_none()).await;
    });
    drop(shell);
    let stored = codec::object(store.snapshot().get(&tank("orphan")).unwrap());
    assert_eq!(stored.str_at(&["apiVersion"]), "example.com/v1", "it keeps its version");
    assert_eq!(amount(&stored, "size"), Some(1));
}

#[test]
fn objects_of_an_older_storage_version_stay_readable_and_are_rewritten() {
    let (server, hook, is_down) = tanks();
    server.create(TANKS_V1, &tank("v1", "old", r#"{"size":3}"#));
    server.create(TANKS_V1, &tank("v1", "same", r#"{"size":3}"#));
    store_as_v2(&server, &hook);
    let before = hook.requests().len();
    assert_eq!(amount(&server.object(&format!("{TANKS_V1}/old")), "size"), Some(3));
    assert_eq!(hook.requests().len(), before, "it is still stored as v1");
    let (code, _) = server.call("PATCH", &format!("{TANKS_V1}/old"), r#"{"spec":{"size":6}}"#);
    assert_eq!(code, 200);
    let same = server.call("PATCH", &format!("{TANKS_V1}/same"), "{}");
    assert_eq!((same.0, amount(&same.1, "size")), (200, Some(3)));
    is_down.store(true, Ordering::SeqCst);
    assert_eq!(amount(&server.object(&format!("{TANKS_V2}/old")), "volume"), Some(6), "it is stored as v2");
    let same = server.object(&format!("{TANKS_V2}/same"));
    assert_eq!(amount(&same, "volume"), Some(3), "a write without a change moves it to the storage version");
}

#[test]
fn improper_answers_are_errors_with_the_texts_of_upstream() {
    type Reply = fn(&Value) -> HookReply;
    let cases: [(Reply, &str); 7] = [
        (
            |review| {
                let result = value!({"status": "Failure", "message": "no such tank"});
                respond_conversion(review, value!({"result": (result), "convertedObjects": []}))
            },
            "conversion webhook for example.com/v1, Kind=Tank failed: no such tank",
        ),
        (
            |review| {
                respond_conversion(review, value!({"result": {"status": "Success"}, "convertedObjects": []}))
            },
            "conversion webhook for example.com/v1, Kind=Tank returned 0 objects, expected 1",
        ),
        (
            |review| {
                let mut objects =
                    review.at(&["request", "objects"]).and_then(Value::as_list).unwrap().to_vec();
                objects[0].ensure_map("metadata").insert("name", "other");
                objects[0].make_map().insert("apiVersion", "example.com/v2");
                respond_conversion(
                    review,
                    value!({"result": {"status": "Success"}, "convertedObjects": (objects)}),
                )
            },
            "must have the same name: t != other",
        ),
        (
            |review| {
                let objects = review.at(&["request", "objects"]).and_then(Value::as_list).unwrap().to_vec();
                respond_conversion(
                    review,
                    value!({"result": {"status": "Success"}, "convertedObjects": (objects)}),
                )
            },
            "invalid groupVersion (expected example.com/v2, received example.com/v1)",
        ),
        (
            |review| {
                let mut wrong = review.clone();
                wrong.ensure_map("request").insert("uid", "0");
                convert(&wrong)
            },
            "expected response.uid=",
        ),
        (|_| HookReply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello".to_vec()), "failed: "),
        (
            |_| HookReply::Raw(b"HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n".to_vec()),
            "302",
        ),
    ];
    for (reply, expected) in cases {
        let hook = HookServer::start(reply);
        let server = TestServer::new();
        server.create(DEFINITIONS, &definition(&hook, "v1"));
        establish(&server);
        server.create(TANKS_V1, &tank("v1", "t", r#"{"size":3}"#));
        let (code, failed) = server.call("GET", &format!("{TANKS_V2}/t"), "");
        let why = failed.str_at(&["message"]);
        assert_eq!((code, why.contains(expected)), (500, true), "{why}");
    }
}

#[test]
fn admission_webhook_gets_the_version_that_it_asks_for() {
    let (server, _hook, _) = tanks();
    let hook =
        HookServer::start(|review| patch(review, r#"[{"op":"replace","path":"/spec/volume","value":42}]"#));
    let (url, ca) = (&hook.url, &hook.ca_bundle);
    let body = format!(
        r#"{{"metadata":{{"name":"m"}},"webhooks":[{{"name":"m.example.com","sideEffects":"None",
            "admissionReviewVersions":["v1"],"clientConfig":{{"url":"{url}","caBundle":"{ca}"}},
            "rules":[{{"operations":["CREATE"],"apiGroups":["example.com"],"apiVersions":["v2"],"resources":["tanks"]}}]}}]}}"#
    );
    let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
    let reply = server.send("POST", path, &body, &[content_type("POST")]);
    assert_eq!(reply.code, 201, "{}", reply.text());
    let made = server.create(TANKS_V1, &tank("v1", "t", r#"{"size":3}"#));
    assert_eq!(amount(&made, "size"), Some(42), "{}", json::to_text(&made));
    let request = &hook.requests()[0];
    assert_eq!(request.str_at(&["object", "apiVersion"]), "example.com/v2");
    assert_eq!(amount(request.get("object").unwrap(), "volume"), Some(3));
    assert_eq!(request.str_at(&["requestKind", "version"]), "v1");
}

#[test]
fn conversion_calls_are_counted() {
    let (server, _hook, is_down) = tanks();
    server.create(TANKS_V2, &tank("v2", "t", r#"{"volume":3}"#));
    is_down.store(true, Ordering::SeqCst);
    server.call("POST", TANKS_V2, &tank("v2", "u", r#"{"volume":3}"#));
    let metrics = server.get("/metrics");
    let text = metrics.text();
    for line in [
        r#"apiserver_conversion_webhook_request_total{result="success",failure_type=""} 2"#,
        r#"apiserver_conversion_webhook_request_total{result="failure",failure_type="conversion_webhook_call_failure"} 1"#,
    ] {
        assert!(text.contains(line), "{text}");
    }
}
