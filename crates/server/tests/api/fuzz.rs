//! Fuzz tests of the API: it never panics, never responds with 500, and a rejected request changes nothing.
//! `SETPOINT_CASES` scales the number of cases.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};

use crate::harness::{Headers, Reply, TestServer};

/// Collections, each with a valid object.
static SEEDS: LazyLock<Vec<(&str, Json)>> = LazyLock::new(|| {
    let pod = json!({
        "restartPolicy": "Never",
        "containers": [{
            "name": "c", "image": "nginx", "ports": [{"containerPort": 80, "protocol": "TCP"}],
            "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}},
            "livenessProbe": {"httpGet": {"port": 80, "path": "/"}, "periodSeconds": 5},
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        }],
        "volumes": [{"name": "v", "configMap": {"name": "m", "items": [{"key": "a", "path": "b"}]}}],
        "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]}}},
    });
    let labelled = json!({"metadata": {"labels": {"a": "b"}}, "spec": pod.clone()});
    let mut always = labelled.clone();
    always["spec"]["restartPolicy"] = json!("Always");
    let selector = json!({"matchLabels": {"a": "b"}});
    vec![
        ("/api/v1/namespaces/default/configmaps", json!({"data": {"k": "v"}, "binaryData": {"b": "AAAA"}})),
        ("/api/v1/namespaces/default/secrets", json!({"stringData": {"k": "v"}, "type": "Opaque"})),
        ("/api/v1/namespaces/default/pods", json!({"spec": pod})),
        (
            "/api/v1/namespaces/default/services",
            json!({"spec": {"selector": {"a": "b"}, "type": "NodePort", "ports": [{"port": 80, "targetPort": "x"}]}}),
        ),
        (
            "/api/v1/namespaces/default/persistentvolumeclaims",
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
        ),
        (
            "/api/v1/nodes",
            json!({"spec": {"podCIDR": "10.0.0.0/24", "taints": [{"key": "a", "effect": "NoSchedule"}]}}),
        ),
        (
            "/api/v1/namespaces/default/limitranges",
            json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}}),
        ),
        (
            "/apis/apps/v1/namespaces/default/deployments",
            json!({"spec": {"replicas": 1, "selector": selector, "template": always}}),
        ),
        (
            "/apis/batch/v1/namespaces/default/cronjobs",
            json!({"spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": labelled}}}}),
        ),
        (
            "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
            json!({"spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}, "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 5}}}]}}),
        ),
        (
            "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
            json!({"spec": {"rules": [{"host": "a.b", "http": {"paths": [{"path": "/", "pathType": "Prefix",
                "backend": {"service": {"name": "s", "port": {"number": 80}}}}]}}]}}),
        ),
        (
            "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
            json!({"spec": {"podSelector": selector, "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]}]}}),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
        ),
        (
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
            json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]}),
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            json!({"spec": {"renewTime": "2024-01-01T00:00:00.000000Z"}}),
        ),
    ]
});

fn seed(index: usize, name: &str) -> (&'static str, Json) {
    let (path, mut object) = SEEDS[index % SEEDS.len()].clone();
    object["metadata"] =
        json!({"name": name, "labels": {"l": "v"}, "annotations": {"a": "v"}, "finalizers": ["a.b/c"]});
    (path, object)
}

fn cases(times: u32) -> ProptestConfig {
    let cases = std::env::var("SETPOINT_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(128_u32);
    ProptestConfig { cases: cases * times, failure_persistence: None, ..ProptestConfig::default() }
}

/// Unusual values.
fn odd() -> impl Strategy<Value = Json> {
    let nested = (0..40).fold(json!({}), |inner, _| json!({"a": [inner]}));
    let texts = [
        "",
        "a",
        "A_",
        "..",
        "-",
        "/",
        "*",
        "\0",
        "é",
        "1e9Gi",
        "99999999999999999999Ei",
        "2024-13-45T99:99:99Z",
        "fe80::%1",
        "0.0.0.0/99",
        "$(x",
        "%",
        "1.5",
        "-1",
        "true",
    ];
    prop_oneof![
        proptest::sample::select(texts.map(Json::from).to_vec()),
        proptest::sample::select(vec![
            Json::Null,
            json!(true),
            json!(0),
            json!(-1),
            json!(i64::MAX),
            json!(i64::MIN),
            json!(u64::MAX),
            json!(1.5),
            json!(1e300),
            json!([]),
            json!({}),
            json!([null]),
            json!({"": null}),
            json!("x".repeat(300)),
            nested,
        ]),
        any::<String>().prop_map(Json::from),
        any::<i32>().prop_map(Json::from),
    ]
}

#[derive(Clone, Debug)]
enum Change {
    Replace(Json),
    Remove,
    Repeat,
    Rename(String),
}

fn change() -> impl Strategy<Value = (usize, Change)> {
    let change = prop_oneof![
        4 => odd().prop_map(Change::Replace),
        1 => Just(Change::Remove),
        1 => Just(Change::Repeat),
        1 => any::<String>().prop_map(Change::Rename),
    ];
    (any::<usize>(), change)
}

fn size(value: &Json) -> usize {
    1 + match value {
        Json::Array(items) => items.iter().map(size).sum(),
        Json::Object(fields) => fields.values().map(size).sum(),
        _ => 0,
    }
}

/// Changes the node with this index, in depth-first order.
fn spoil(value: &mut Json, mut at: usize, change: &Change) {
    let inside = |child: &Json, at: &mut usize| {
        let found = *at < size(child);
        if !found {
            *at -= size(child);
        }
        found
    };
    if at == 0 {
        match change {
            Change::Replace(new) => *value = new.clone(),
            Change::Remove => *value = Json::Null,
            Change::Repeat => *value = json!([value.clone(), value.clone()]),
            Change::Rename(key) => *value = Json::Object(Map::from_iter([(key.clone(), value.clone())])),
        }
        return;
    }
    at -= 1;
    match value {
        Json::Array(items) => {
            let Some(index) = items.iter().position(|child| inside(child, &mut at)) else { return };
            match change {
                Change::Remove if at == 0 => drop(items.remove(index)),
                Change::Repeat if at == 0 => items.push(items[index].clone()),
                _ => spoil(&mut items[index], at, change),
            }
        }
        Json::Object(fields) => {
            let Some(key) =
                fields.iter().find(|(_, child)| inside(child, &mut at)).map(|(key, _)| key.clone())
            else {
                return;
            };
            match change {
                Change::Remove if at == 0 => drop(fields.remove(&key)),
                Change::Rename(new) if at == 0 => {
                    let child = fields.remove(&key).unwrap_or_default();
                    fields.insert(new.clone(), child);
                }
                _ => spoil(fields.get_mut(&key).unwrap(), at, change),
            }
        }
        _ => {}
    }
}

impl TestServer {
    fn revision(&self) -> String {
        let list = self.call("GET", "/api/v1/namespaces?limit=1", "").1;
        list.str_at(&["metadata", "resourceVersion"]).to_owned()
    }

    /// Sends a request, and checks the invariants of every response.
    fn survives(&self, method: &str, path: &str, body: &str, headers: &Headers<'_>) {
        let before = self.revision();
        let Reply { code, body: out, .. } = self.send(method, path, body, headers);
        let text = String::from_utf8_lossy(&out);
        // A future revision is waited for (504); other server errors are bugs.
        assert!(code < 500 || code == 504, "{method} {path} {body}\n{code} {text}");
        if code >= 400 {
            assert_eq!(
                self.revision(),
                before,
                "refused, but written: {method} {path} {body}\n{code} {text}"
            );
            // The OpenAPI v2 document responds to unsupported media types with an empty 406.
            let is_silent = code == 406 && path.starts_with("/openapi/v2");
            assert!(
                text.contains("Status") || text.ends_with("not found\n") || is_silent,
                "{method} {path}: {code} {text}"
            );
        }
    }

    fn with_seeds() -> TestServer {
        let server = TestServer::new();
        for index in 0..SEEDS.len() {
            let (path, object) = seed(index, "seed");
            let (code, answer) = server.call("POST", path, &object.to_string());
            assert_eq!(code, 201, "{path}: {answer:?}");
        }
        server
    }
}

const PATCHES: [&str; 4] = [
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/json-patch+json",
];

#[test]
fn mutated_objects_never_cause_a_server_error() {
    let server = TestServer::with_seeds();
    let strategy = (any::<usize>(), proptest::collection::vec(change(), 1..4), 0..7_usize);
    let mut runner = proptest::test_runner::TestRunner::new(cases(10));
    let outcome = runner.run(&strategy, |(index, changes, verb)| {
        let (path, mut object) = seed(index, "seed");
        for (at, change) in &changes {
            let nodes = size(&object);
            spoil(&mut object, at % nodes, change);
        }
        let body = object.to_string();
        let one = format!("{path}/seed");
        let json = [("content-type", "application/json")];
        match verb {
            0 | 1 => {
                server.survives("POST", &format!("{path}?dryRun=All&fieldValidation=Strict"), &body, &json)
            }
            2 => server.survives("PUT", &format!("{one}?dryRun=All"), &body, &json),
            3 => server.survives(
                "POST",
                &format!("{path}?dryRun=All"),
                &body,
                &[("content-type", "application/yaml")],
            ),
            verb => {
                let kind = [("content-type", PATCHES[verb - 4])];
                server.survives(
                    "PATCH",
                    &format!("{one}?dryRun=All&fieldManager=f&fieldValidation=Ignore"),
                    &body,
                    &kind,
                );
            }
        }
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn mutated_patches_never_cause_a_server_error() {
    let server = TestServer::with_seeds();
    let word = proptest::sample::select(vec!["add", "remove", "replace", "move", "copy", "test", "none"]);
    let pointer = proptest::sample::select(vec![
        "",
        "/",
        "/metadata",
        "/metadata/labels/l",
        "/spec",
        "/spec/replicas",
        "/spec/ports/0",
        "/spec/ports/-",
        "/spec/ports/-1",
        "/spec/ports/99999999999999999999",
        "/data/~",
        "/data/~01",
        "x",
        "/metadata/name",
    ]);
    let directive = proptest::sample::select(vec![
        "$patch",
        "$retainKeys",
        "$setElementOrder/ports",
        "$deleteFromPrimitiveList/finalizers",
    ]);
    let operation = (word, pointer.clone(), pointer, odd())
        .prop_map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}));
    let strategy =
        (any::<usize>(), proptest::collection::vec(operation, 0..4), directive, odd(), any::<bool>());
    let mut runner = proptest::test_runner::TestRunner::new(cases(4));
    let outcome = runner.run(&strategy, |(index, operations, directive, value, deep)| {
        let (path, _) = seed(index, "seed");
        let one = format!("{path}/seed?dryRun=All");
        server.survives("PATCH", &one, &json!(operations).to_string(), &[("content-type", PATCHES[3])]);
        let inner = json!({directive: value});
        let body = if deep { json!({"spec": inner, "metadata": inner}) } else { inner };
        server.survives("PATCH", &one, &body.to_string(), &[("content-type", PATCHES[1])]);
        Ok(())
    });
    outcome.unwrap();
}

#[test]
#[expect(clippy::too_many_lines, reason = "one list of what a request can be made of")]
fn arbitrary_paths_queries_and_media_types_get_a_response() {
    let server = TestServer::with_seeds();
    let words = vec![
        "api",
        "apis",
        "v1",
        "apps",
        "namespaces",
        "default",
        "pods",
        "configmaps",
        "deployments",
        "seed",
        "status",
        "scale",
        "log",
        "exec",
        "proxy",
        "binding",
        "eviction",
        "watch",
        "..",
        ".",
        "",
        "%00",
        "%ff",
        "%",
        "a%2Fb",
        "openapi",
        "v3",
        "v2",
        "healthz",
        "version",
        "é",
    ];
    let path = prop_oneof![
        proptest::collection::vec(proptest::sample::select(words), 0..8)
            .prop_map(|words| format!("/{}", words.join("/"))),
        any::<usize>().prop_map(|index| seed(index, "").0.to_owned()),
    ];
    let keys = proptest::sample::select(vec![
        "labelSelector",
        "fieldSelector",
        "limit",
        "continue",
        "resourceVersion",
        "resourceVersionMatch",
        "watch",
        "sendInitialEvents",
        "allowWatchBookmarks",
        "timeoutSeconds",
        "dryRun",
        "fieldManager",
        "fieldValidation",
        "force",
        "pretty",
        "gracePeriodSeconds",
        "propagationPolicy",
        "orphanDependents",
    ]);
    let values = prop_oneof![
        proptest::sample::select(vec![
            "",
            "0",
            "1",
            "-1",
            "true",
            "false",
            "All",
            "Strict",
            "99999999999999999999",
            "Exact",
            "NotOlderThan",
            "Foreground",
            "a%3Db",
            "a+in+(b,c)",
            "!a",
            "((",
            "metadata.name%3Dx",
            "%ff",
            "%zz",
            ";"
        ])
        .prop_map(str::to_owned),
        "[a-z0-9%=!,()<>. ]{0,30}",
    ];
    let query = proptest::collection::vec((keys, values), 0..4);
    let method = proptest::sample::select(vec![
        "GET", "GET", "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW",
    ]);
    let media = proptest::sample::select(vec![
        "",
        "*/*",
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "text/plain",
        ";;q=",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=X;v=v9;g=x, */*;q=0.1",
    ]);
    let strategy = (method, path, query, media.clone(), media, "\\PC{0,20}");
    let mut runner = proptest::test_runner::TestRunner::new(cases(20));
    let outcome = runner.run(&strategy, |(method, path, query, accept, sent, body)| {
        let query: Vec<String> = query.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        let path = format!("{path}?{}", query.join("&"));
        server.survives(method, &path, &body, &[("accept", accept), ("content-type", sent)]);
        Ok(())
    });
    outcome.unwrap();
}
