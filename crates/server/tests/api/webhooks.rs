//! Admission webhooks: calls over TLS, their effects on writes, and their failures.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use setpoint_api::{Key, ManualClock, Resource, Time, Value, json, resource_types, value};
use setpoint_reconcile::{Action, Engine, Plan, Planner, Seed, Seen, Watch, WorldReader, Write};
use setpoint_runtime::in_process::Shell;
use setpoint_server::codec;
use setpoint_server::exchange::Service;
use setpoint_server::loop_writes::InFlightWrites;
use setpoint_store::{CommitCause, Precondition, Proposal, Retention, Store, WatchFilter};

use crate::harness::{MAPS, PODS, TestServer, content_type, entropy, request};
use crate::webhook_server::{HookReply, HookServer, allow, patch, respond};

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1";

/// Configures a webhook for ConfigMaps with `more` fields.
fn configure(server: &TestServer, kind: &str, name: &str, hook: &HookServer, more: &str) {
    let resources = r#""rules":[{"operations":["*"],"apiGroups":["*"],"apiVersions":["*"],"resources":["configmaps","*/scale","pods/binding"]}]"#;
    let (url, ca) = (&hook.url, &hook.ca_bundle);
    let client = format!(r#""clientConfig":{{"url":"{url}","caBundle":"{ca}"}}"#);
    configure_with(server, kind, name, &format!("{resources},{client}{more}"));
}

fn configure_with(server: &TestServer, kind: &str, name: &str, fields: &str) {
    let body = format!(
        r#"{{"metadata":{{"name":"{name}"}},"webhooks":[{{"name":"{name}.example.com","sideEffects":"None",
            "admissionReviewVersions":["v1"],{fields}}}]}}"#
    );
    server.create(&format!("{CONFIGURATIONS}/{kind}webhookconfigurations"), &body);
}

fn map(name: &str) -> String {
    format!(r#"{{"metadata":{{"name":"{name}"}},"data":{{"k":"v"}}}}"#)
}

fn message(status: &Value) -> &str {
    status.str_at(&["message"])
}

#[test]
fn mutating_webhook_changes_the_stored_object() {
    let server = TestServer::new();
    let hook =
        HookServer::start(|review| patch(review, r#"[{"op":"add","path":"/data/hooked","value":"yes"}]"#));
    configure(&server, "mutating", "m", &hook, "");
    let made = server.create(MAPS, &map("x"));
    assert_eq!(made.str_at(&["data", "hooked"]), "yes");
    assert_eq!(server.object(&format!("{MAPS}/x")), made);
    let review = &hook.requests()[0];
    assert_eq!(review.str_at(&["operation"]), "CREATE");
    assert_eq!(review.str_at(&["object", "data", "k"]), "v");
    assert_eq!(review.str_at(&["object", "kind"]), "ConfigMap");
    assert_eq!(review.str_at(&["userInfo", "username"]), "ann");
    let (code, patched) = server.call("PATCH", &format!("{MAPS}/x"), r#"{"data":{"hooked":null,"k":"w"}}"#);
    assert_eq!((code, patched.str_at(&["data", "hooked"])), (200, "yes"));
    let review = &hook.requests()[1];
    assert_eq!(review.str_at(&["operation"]), "UPDATE");
    assert_eq!(review.str_at(&["oldObject", "data", "k"]), "v");
    assert_eq!(hook.requests().len(), 2, "each write is one call");
}

#[test]
fn connection_is_kept_between_calls() {
    let server = TestServer::new();
    let hook = HookServer::start(allow);
    configure(&server, "validating", "v", &hook, "");
    for name in ["a", "b", "c"] {
        server.create(MAPS, &map(name));
    }
    assert_eq!((hook.requests().len(), hook.connections()), (3, 1));
}

#[test]
fn validating_webhook_denies_creates_and_deletes() {
    let server = TestServer::new();
    server.create(MAPS, &map("old"));
    let hook = HookServer::start(|review| {
        let status = value!({"code": 403, "reason": "Forbidden", "message": "no maps"});
        respond(review, value!({"allowed": false, "status": (status), "warnings": ["beware"]}))
    });
    configure(&server, "validating", "v", &hook, "");
    let reply = server.send("POST", MAPS, map("x"), &[content_type("POST")]);
    assert_eq!(reply.code, 403, "{}", reply.text());
    let status = reply.value();
    assert_eq!(message(&status), r#"admission webhook "v.example.com" denied the request: no maps"#);
    assert_eq!(status.str_at(&["reason"]), "Forbidden");
    assert_eq!(reply.warnings(), ["299 - \"beware\""]);
    assert_eq!(server.call("DELETE", &format!("{MAPS}/old"), "").0, 403);
    let review = hook.requests().pop().unwrap();
    assert_eq!(review.str_at(&["operation"]), "DELETE");
    assert_eq!(review.str_at(&["oldObject", "metadata", "name"]), "old");
    assert!(review.get("object").unwrap().is_null());
    assert_eq!(server.call("GET", &format!("{MAPS}/x"), "").0, 404);
    server.object(&format!("{MAPS}/old"));
}

#[test]
fn configurations_stay_deletable_under_a_webhook_that_denies_everything() {
    let server = TestServer::new();
    let hook = HookServer::start(|review| respond(review, value!({"allowed": false})));
    let everything =
        r#""rules":[{"operations":["*"],"apiGroups":["*"],"apiVersions":["*"],"resources":["*/*"]}]"#;
    let (url, ca) = (&hook.url, &hook.ca_bundle);
    let client = format!(r#""clientConfig":{{"url":"{url}","caBundle":"{ca}"}}"#);
    configure_with(&server, "validating", "v", &format!("{everything},{client}"));
    assert_eq!(server.call("POST", MAPS, &map("x")).0, 400);
    let path = format!("{CONFIGURATIONS}/validatingwebhookconfigurations/v");
    assert_eq!(server.call("DELETE", &path, "").0, 200);
    assert_eq!(server.call("POST", MAPS, &map("x")).0, 201);
}

#[test]
fn connections_are_admitted_with_their_options() {
    let server = TestServer::new();
    let pod = r#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    server.create(PODS, pod);
    let hook = HookServer::start(|review| {
        let is_attach = review.str_at(&["request", "object", "kind"]) == "PodAttachOptions";
        respond(review, value!({"allowed": (!is_attach), "status": {"message": "attaching to p"}}))
    });
    let rules = r#""rules":[{"operations":["CONNECT"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods/*","services/proxy"]}]"#;
    let (url, ca) = (&hook.url, &hook.ca_bundle);
    let client = format!(r#""clientConfig":{{"url":"{url}","caBundle":"{ca}"}}"#);
    configure_with(&server, "validating", "v", &format!("{rules},{client}"));
    let (code, denied) = server.call("POST", &format!("{PODS}/p/attach?stdin=true&container=c"), "");
    assert_eq!(code, 400, "{}", message(&denied));
    assert_eq!(message(&denied), r#"admission webhook "v.example.com" denied the request: attaching to p"#);
    let (_, allowed) = server.call("POST", &format!("{PODS}/p/exec?command=ls&command=-l&tty=1"), "");
    assert!(message(&allowed).contains("does not have a host assigned"), "{}", message(&allowed));
    server.call("GET", &format!("{PODS}/p/proxy/a/b"), "");
    assert_eq!(server.call("GET", &format!("{PODS}/p/log"), "").0, 200);
    let requests = hook.requests();
    let objects: Vec<String> =
        requests.iter().map(|request| json::to_text(request.get("object").unwrap())).collect();
    assert_eq!(
        objects,
        [
            r#"{"kind":"PodAttachOptions","apiVersion":"v1","stdin":true,"container":"c"}"#,
            r#"{"kind":"PodExecOptions","apiVersion":"v1","tty":true,"command":["ls","-l"]}"#,
            r#"{"kind":"PodProxyOptions","apiVersion":"v1","path":"/a/b"}"#,
        ]
    );
    assert_eq!(requests[0].str_at(&["operation"]), "CONNECT");
    assert_eq!(requests[0].str_at(&["subResource"]), "attach");
    assert_eq!(requests[0].str_at(&["kind", "kind"]), "PodAttachOptions");
    assert!(requests[0].get("options").unwrap().is_null());
    assert_eq!(server.call("POST", &format!("{PODS}/p/exec?command=ls&dryRun=All"), "").0, 400);
}

#[test]
fn failures_follow_the_failure_policy_with_the_texts_of_upstream() {
    let garbage = || HookReply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello".to_vec());
    let error = || HookReply::Raw(b"HTTP/1.1 500 Oops\r\ncontent-length: 4\r\n\r\nboom".to_vec());
    let moved = || {
        HookReply::Raw(b"HTTP/1.1 302 Found\r\nlocation: https://x/\r\ncontent-length: 0\r\n\r\n".to_vec())
    };
    let noise = || HookReply::Raw(b"SSH-2.0-OpenSSH\r\n\r\n".to_vec());
    let other = || {
        HookReply::Json(
            value!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": {"uid": "other", "allowed": true}}),
        )
    };
    type Misbehavior = fn() -> HookReply;
    let cases: [(Misbehavior, &str); 7] = [
        (|| HookReply::Close, "EOF"),
        (|| HookReply::Endless, "the response is larger than"),
        (garbage, "couldn't get version/kind; json parse error"),
        (error, "an error on the server (\"boom\") has prevented the request from succeeding"),
        (moved, "failed to call webhook: "),
        (noise, "malformed HTTP response"),
        (other, "received invalid webhook response: expected response.uid="),
    ];
    for (reply, expected) in cases {
        let server = TestServer::new();
        let hook = HookServer::start(move |_| reply());
        configure(&server, "validating", "v", &hook, "");
        let (code, status) = server.call("POST", MAPS, &map("x"));
        let text = message(&status);
        assert_eq!(code, 500, "{text}");
        let start = r#"Internal error occurred: failed calling webhook "v.example.com": "#;
        assert!(text.starts_with(start) && text.contains(expected), "{expected}: {text}");
        assert_eq!(server.call("GET", &format!("{MAPS}/x"), "").0, 404);
        let path = format!("{CONFIGURATIONS}/validatingwebhookconfigurations/v");
        let ignore = r#"[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Ignore"}]"#;
        let json_patch = ("content-type", "application/json-patch+json");
        assert_eq!(server.send("PATCH", &path, ignore, &[json_patch]).code, 200);
        assert_eq!(server.call("POST", MAPS, &map("x")).0, 201, "{expected}");
        assert!(server.get("/metrics").text().contains(
            "apiserver_admission_webhook_fail_open_count{name=\"v.example.com\",type=\"validating\"} 1"
        ));
    }
}

#[test]
fn hanging_webhook_fails_after_its_timeout_and_delays_no_other_request() {
    let server = TestServer::new();
    let hook = HookServer::start(|_| HookReply::Hang);
    configure(&server, "mutating", "m", &hook, r#","timeoutSeconds":1"#);
    server.runtime.block_on(async {
        let mut slow = pin!(server.api.answer(request("POST", MAPS, map("x"), &[content_type("POST")])));
        tokio::select! {
            _ = &mut slow => panic!("the webhook does not answer"),
            () = hook.received() => {}
        }
        let secret = r#"{"metadata":{"name":"s"}}"#;
        let secrets = "/api/v1/namespaces/default/secrets";
        let quick = server.api.answer(request("POST", secrets, secret, &[content_type("POST")]));
        tokio::select! {
            biased;
            _ = &mut slow => panic!("the webhook does not answer"),
            quick = quick => assert_eq!(quick.status, 201),
        }
        let status = server.read_later(slow.await);
        let url = hook.url.as_str();
        let expected = format!(
            "Internal error occurred: failed calling webhook \"m.example.com\": failed to call webhook: Post \
             \"{url}?timeout=1s\": context deadline exceeded"
        );
        assert_eq!(message(&status), expected);
    });
}

#[test]
fn unreachable_and_untrusted_webhooks_are_named() {
    let server = TestServer::new();
    let (hook, stranger) = (HookServer::start(allow), HookServer::start(allow));
    let rules = r#""rules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]}]"#;
    let fields = |url: &str| {
        format!(r#"{rules},"clientConfig":{{"url":"{url}","caBundle":"{}"}}"#, stranger.ca_bundle)
    };
    configure_with(&server, "validating", "v", &fields(&hook.url));
    let (code, status) = server.call("POST", MAPS, &map("x"));
    assert_eq!(code, 500);
    assert!(message(&status).contains("tls: failed to verify certificate: x509: "), "{}", message(&status));
    let path = format!("{CONFIGURATIONS}/validatingwebhookconfigurations");
    assert_eq!(server.call("DELETE", &format!("{path}/v"), "").0, 200);
    configure_with(&server, "validating", "w", &fields("https://127.0.0.1:1/"));
    let (_, status) = server.call("POST", MAPS, &map("x"));
    let expected =
        "Post \"https://127.0.0.1:1/?timeout=10s\": dial tcp 127.0.0.1:1: connect: connection refused";
    assert!(message(&status).ends_with(expected), "{}", message(&status));
}

#[test]
fn service_is_called_at_its_endpoint_under_its_name() {
    let store = Store::in_memory(Retention::default());
    let server = TestServer::over(store.clone());
    let hook = HookServer::start(allow);
    let services = "/api/v1/namespaces/default/services";
    server.create(services, r#"{"metadata":{"name":"hook"},"spec":{"ports":[{"port":443}]}}"#);
    let rules = r#""rules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]}]"#;
    let ca = &hook.ca_bundle;
    let client = format!(
        r#""clientConfig":{{"service":{{"namespace":"default","name":"hook","path":"/check"}},"caBundle":"{ca}"}}"#
    );
    configure_with(&server, "validating", "v", &format!("{rules},{client}"));
    let (_, status) = server.call("POST", MAPS, &map("x"));
    let expected = r#"failed to call webhook: Post "https://hook.default.svc:443/check?timeout=10s": no endpoints available for service "hook""#;
    assert!(message(&status).ends_with(expected), "{}", message(&status));
    // Stored directly: loopback addresses are not valid in the slices of clients.
    let slices = resource_types::find("discovery.k8s.io", "v1", "endpointslices").unwrap();
    let slice = value!({
        "kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1",
        "metadata": {"name": "hook-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "hook"}},
        "addressType": "IPv4", "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {}}],
        "ports": [{"name": "", "protocol": "TCP", "port": (i64::from(hook.port()))}],
    });
    let draft = codec::draft(slices, slice, Time::EPOCH).unwrap();
    let key = slices.key("default", "hook-1").unwrap();
    let proposal = Proposal::new(CommitCause::default(), Time::EPOCH).put(key, Precondition::Absent, draft);
    store.commit(proposal).unwrap();
    server.create(MAPS, &map("x"));
    assert_eq!(hook.requests().len(), 1);
}

#[test]
fn earlier_webhook_is_called_again_if_a_later_one_changes_the_object() {
    let server = TestServer::new();
    let first = HookServer::start(allow);
    let second = HookServer::start(|review| patch(review, r#"[{"op":"add","path":"/data/z","value":"1"}]"#));
    configure(&server, "mutating", "a", &first, r#","reinvocationPolicy":"IfNeeded""#);
    configure(&server, "mutating", "b", &second, "");
    server.create(MAPS, &map("x"));
    let seen: Vec<bool> =
        first.requests().iter().map(|one| one.at(&["object", "data", "z"]).is_some()).collect();
    assert_eq!(seen, [false, true]);
    assert_eq!(second.requests().len(), 1);
}

#[test]
fn dry_run_is_sent_as_such() {
    let server = TestServer::new();
    let hook = HookServer::start(allow);
    configure(&server, "validating", "v", &hook, "");
    assert_eq!(server.call("POST", &format!("{MAPS}?dryRun=All"), &map("x")).0, 201);
    assert_eq!(hook.requests()[0].get("dryRun").and_then(Value::as_bool), Some(true));
}

#[test]
fn dry_run_is_refused_by_a_webhook_with_side_effects() {
    for (side_effects, plural, kind) in [
        ("Some", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
        ("Unknown", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
    ] {
        let store = Store::in_memory(Retention::default());
        let server = TestServer::over(store.clone());
        let hook = HookServer::start(allow);
        // Stored directly: version v1 accepts neither from clients.
        let configurations = resource_types::find("admissionregistration.k8s.io", "v1", plural).unwrap();
        let rule = value!({
            "operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "scope": "*",
        });
        let configuration = value!({
            "kind": (kind), "apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "w"},
            "webhooks": [{
                "name": "w.example.com", "sideEffects": (side_effects), "failurePolicy": "Ignore",
                "clientConfig": {"url": (hook.url.as_str()), "caBundle": (hook.ca_bundle.as_str())},
                "rules": [(rule)], "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
                "timeoutSeconds": 10, "admissionReviewVersions": ["v1"],
            }],
        });
        let configuration = configurations.stored_schema.decode(configuration, &[]).unwrap().value;
        let draft = codec::draft(configurations, configuration, Time::EPOCH).unwrap();
        let key = configurations.key("", "w").unwrap();
        let proposal =
            Proposal::new(CommitCause::default(), Time::EPOCH).put(key, Precondition::Absent, draft);
        store.commit(proposal).unwrap();
        let (code, status) = server.call("POST", &format!("{MAPS}?dryRun=All"), &map("x"));
        let expected = r#"admission webhook "w.example.com" does not support dry run"#;
        assert_eq!((code, message(&status)), (400, expected), "{side_effects}, even if failures are ignored");
        assert_eq!(status.str_at(&["reason"]), "BadRequest");
        assert_eq!(hook.requests().len(), 0, "it is not called");
        server.create(MAPS, &map("x"));
        assert_eq!(hook.requests().len(), 1, "a write is admitted as always");
    }
}

#[test]
fn policy_is_evaluated_again_if_a_webhook_changes_the_object() {
    for (reinvocation, expected) in [("IfNeeded", "2"), ("Never", "1")] {
        let server = TestServer::new();
        // The evaluation after the webhook sees its change.
        let policy = format!(
            r#"{{"metadata":{{"name":"p"}},"spec":{{"reinvocationPolicy":"{reinvocation}","failurePolicy":"Fail",
                "matchConstraints":{{"resourceRules":[{{"apiGroups":[""],"apiVersions":["v1"],
                "operations":["CREATE"],"resources":["configmaps"]}}]}},
                "mutations":[{{"patchType":"JSONPatch","jsonPatch":{{"expression":
                "[JSONPatch{{op: 'add', path: '/data/seen', value: 'hooked' in object.data ? '2' : '1'}}]"}}}}]}}}}"#
        );
        server.create(&format!("{CONFIGURATIONS}/mutatingadmissionpolicies"), &policy);
        let binding = r#"{"metadata":{"name":"p"},"spec":{"policyName":"p"}}"#;
        server.create(&format!("{CONFIGURATIONS}/mutatingadmissionpolicybindings"), binding);
        let hook = HookServer::start(|review| {
            patch(review, r#"[{"op":"add","path":"/data/hooked","value":"yes"}]"#)
        });
        configure(&server, "mutating", "m", &hook, "");
        let made = server.create(MAPS, &map("x"));
        assert_eq!(
            hook.requests()[0].str_at(&["object", "data", "seen"]),
            "1",
            "policies run before webhooks"
        );
        assert_eq!(made.str_at(&["data", "hooked"]), "yes");
        assert_eq!(made.str_at(&["data", "seen"]), expected, "{reinvocation}");
    }
}

#[test]
fn binding_and_scale_are_sent_as_their_own_kinds() {
    let server = TestServer::new();
    let pod = r#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    let labels = r#"{"matchLabels":{"a":"b"}}"#;
    let template = r#"{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    let deployment =
        format!(r#"{{"metadata":{{"name":"d"}},"spec":{{"selector":{labels},"template":{template}}}}}"#);
    server.create("/api/v1/namespaces/default/serviceaccounts", r#"{"metadata":{"name":"default"}}"#);
    server.create(PODS, pod);
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    server.create(deployments, &deployment);
    let hook = HookServer::start(|review| match review.str_at(&["request", "kind", "kind"]) {
        "Scale" => patch(review, r#"[{"op":"replace","path":"/spec/replicas","value":7}]"#),
        _ => allow(review),
    });
    configure(&server, "mutating", "m", &hook, "");
    let binding = r#"{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}"#;
    assert_eq!(server.call("POST", &format!("{PODS}/p/binding"), binding).0, 201);
    let (code, scale) = server.call("PATCH", &format!("{deployments}/d/scale"), r#"{"spec":{"replicas":3}}"#);
    assert_eq!((code, scale.at(&["spec", "replicas"]).and_then(Value::as_i64)), (200, Some(7)));
    let kinds: Vec<String> =
        hook.requests().iter().map(|one| one.str_at(&["kind", "kind"]).to_owned()).collect();
    assert_eq!(kinds, ["Binding", "Scale"]);
    assert_eq!(hook.requests()[1].at(&["oldObject", "spec", "replicas"]).and_then(Value::as_i64), Some(1));
}

#[test]
fn answer_is_asked_again_if_the_object_changed_meanwhile() {
    let store = Store::in_memory(Retention::default());
    let server = TestServer::over(store.clone());
    server.create(MAPS, &map("x"));
    let (rival, calls) = (parking_lot::Mutex::new(TestServer::over(store)), AtomicUsize::new(0));
    let hook = HookServer::start(move |review| {
        if calls.fetch_add(1, Ordering::SeqCst) == 0 {
            // Another client writes before the webhook answers. Its runtime needs a thread of its own.
            let rival = rival.lock();
            std::thread::scope(|scope| scope.spawn(|| rival.touch()).join()).unwrap();
        }
        allow(review)
    });
    configure(&server, "validating", "v", &hook, r#","objectSelector":{"matchLabels":{"hooked":"yes"}}"#);
    let labels = r#"{"metadata":{"labels":{"hooked":"yes"}}}"#;
    let (code, patched) = server.call("PATCH", &format!("{MAPS}/x"), labels);
    assert_eq!(code, 200, "{}", json::to_text(&patched));
    assert_eq!(patched.str_at(&["data", "rival"]), "was here");
    let seen: Vec<String> =
        hook.requests().iter().map(|one| one.str_at(&["object", "data", "rival"]).to_owned()).collect();
    assert_eq!(seen, ["", "was here"], "the changed object is sent again");
}

impl TestServer {
    /// Changes the ConfigMap `x`, which no webhook selects.
    fn touch(&self) {
        assert_eq!(self.call("PATCH", &format!("{MAPS}/x"), r#"{"data":{"rival":"was here"}}"#).0, 200);
    }

    /// Reads a response inside of the runtime.
    fn read_later(&self, response: setpoint_server::exchange::Response) -> Value {
        self.read(response).value()
    }
}

/// Creates the ConfigMap `looped`.
struct MapMaker;

impl Planner for MapMaker {
    type Memo = ();

    fn name(&self) -> &'static str {
        "map-maker"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 2] = [Watch::primary("namespaces"), Watch::mapped("configmaps", |_, _, _| ())];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, _: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let maps = Resource::new("configmaps").unwrap();
        let looped = Key::namespaced(&maps, "default", "looped").unwrap();
        if key.name() == "default" && world.get(&looped).is_none() {
            let object = value!({"metadata": {"name": "looped"}});
            plan.stage([Action::from(Write::create("configmaps", "default", object))]);
        }
        plan
    }
}

#[test]
fn write_of_the_loop_goes_through_webhooks() {
    let store = Store::in_memory(Retention::default());
    let server = TestServer::over(store.clone());
    let hook =
        HookServer::start(|review| patch(review, r#"[{"op":"add","path":"/data","value":{"l":"oop"}}]"#));
    configure(&server, "mutating", "m", &hook, "");
    let maps = Resource::new("configmaps").unwrap();
    let (_, mut watch) = store.list_and_watch(&maps, WatchFilter::default());
    let engine = Engine::new(vec![Box::new(MapMaker)], setpoint_reconcile::WorldConfig::default());
    let clock = Arc::new(ManualClock::with_tick(Time::EPOCH, Duration::from_micros(50)));
    let executor = InFlightWrites::new(store.clone(), clock.clone(), entropy(), Default::default())
        .with_webhooks(Arc::clone(server.api.webhooks()));
    let shell =
        Shell::start(store.clone(), engine, clock, entropy(), Arc::default(), Box::new(executor)).unwrap();
    server.runtime.block_on(async {
        let next = tokio::time::timeout(Duration::from_secs(60), poll_fn(|context| watch.poll_next(context)));
        next.await.expect("the loop creates the map").unwrap();
    });
    drop(shell);
    assert_eq!(server.object(&format!("{MAPS}/looped")).str_at(&["data", "l"]), "oop");
    assert!(!hook.requests()[0].str_at(&["userInfo", "username"]).is_empty());
}
