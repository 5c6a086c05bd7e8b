//! Requests of nodes: the node authorizer and NodeRestriction together.

use setpoint_api::{Value, json};
use setpoint_server::exchange::Identity;

use crate::harness::{PODS, TestServer};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

fn node(name: &str) -> Identity {
    let groups = vec!["system:nodes".to_owned(), "system:authenticated".to_owned()];
    Identity::new(format!("system:node:{name}"), groups)
}

/// A server with the nodes n and m, a pod on n with the Secret `mine`, and one on m with `theirs`.
fn server() -> TestServer {
    let server = TestServer::new();
    for (name, secret) in [("n", "mine"), ("m", "theirs")] {
        server.create("/api/v1/nodes", &format!(r#"{{"metadata":{{"name":"{name}"}}}}"#));
        server.create(SECRETS, &format!(r#"{{"metadata":{{"name":"{secret}"}}}}"#));
        let volume = format!(r#"{{"name":"v","secret":{{"secretName":"{secret}"}}}}"#);
        server.create(
            PODS,
            &format!(
                r#"{{"metadata":{{"name":"on-{name}"}},"spec":{{"nodeName":"{name}","volumes":[{volume}],
                    "containers":[{{"name":"c","image":"i"}}]}}}}"#
            ),
        );
    }
    server
}

fn message(answer: &(u16, Value)) -> &str {
    answer.1.str_at(&["message"])
}

#[test]
fn node_reads_only_the_secrets_of_its_own_pods() {
    let server = server();
    let get =
        |name: &str, secret: &str| server.call_as(node(name), "GET", &format!("{SECRETS}/{secret}"), "");
    assert_eq!(get("n", "mine").0, 200);
    assert_eq!(get("m", "theirs").0, 200);
    let refused = get("n", "theirs");
    assert_eq!(
        (refused.0, message(&refused)),
        (
            403,
            "secrets \"theirs\" is forbidden: User \"system:node:n\" cannot get resource \"secrets\" in API group \"\" in the namespace \"default\": no relationship found between node 'n' and this object"
        )
    );
    let list = server.call_as(node("n"), "GET", SECRETS, "");
    assert_eq!(list.0, 403, "a list is not one object: {}", message(&list));
    let single = format!("{SECRETS}?fieldSelector=metadata.name%3Dmine");
    assert_eq!(server.call_as(node("n"), "GET", &single, "").0, 200);
    server.call("DELETE", &format!("{PODS}/on-n?gracePeriodSeconds=0"), "");
    assert_eq!(get("n", "mine").0, 403, "the pod is gone");
}

#[test]
fn node_lists_only_its_own_pods_and_writes_only_their_status() {
    let server = server();
    let call = |method: &str, path: &str, body: &str| server.call_as(node("n"), method, path, body);
    assert_eq!(call("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn", "").0, 200);
    let all = call("GET", "/api/v1/pods", "");
    assert_eq!(all.0, 403);
    assert!(message(&all).ends_with("can only list/watch pods with spec.nodeName field selector"));
    assert_eq!(call("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dm", "").0, 403);
    let status = r#"{"status":{"phase":"Running"}}"#;
    assert_eq!(call("PATCH", &format!("{PODS}/on-n/status"), status).0, 200);
    let other = call("PATCH", &format!("{PODS}/on-m/status"), status);
    assert_eq!(
        (other.0, message(&other)),
        (
            403,
            "pods \"on-m\" is forbidden: node \"n\" can only update pod status for pods with spec.nodeName set to itself"
        )
    );
    let labels = call("PATCH", &format!("{PODS}/on-n/status"), r#"{"metadata":{"labels":{"a":"b"}}}"#);
    assert!(message(&labels).ends_with("node \"n\" cannot update labels through pod status"), "{labels:?}");
    let plain =
        r#"{"metadata":{"name":"x"},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]}}"#;
    let created = call("POST", PODS, plain);
    assert!(message(&created).ends_with("node \"n\" can only create mirror pods"), "{created:?}");
    let deleted = call("DELETE", &format!("{PODS}/on-m"), "");
    assert!(message(&deleted).ends_with("can only delete pods with spec.nodeName set to itself"));
    assert_eq!(call("DELETE", &format!("{PODS}/on-n?gracePeriodSeconds=0"), "").0, 200);
}

#[test]
fn node_changes_its_own_node_only() {
    let server = server();
    let patch =
        |name: &str, body: &str| server.call_as(node("n"), "PATCH", &format!("/api/v1/nodes/{name}"), body);
    assert_eq!(patch("n", r#"{"metadata":{"labels":{"example.com/a":"b"}}}"#).0, 200);
    let other = patch("m", r#"{"metadata":{"labels":{"example.com/a":"b"}}}"#);
    assert!(message(&other).ends_with("node \"n\" is not allowed to modify node \"m\""), "{other:?}");
    let role = patch("n", r#"{"metadata":{"labels":{"node-role.kubernetes.io/x":""}}}"#);
    assert!(
        message(&role).ends_with("is not allowed to modify labels: node-role.kubernetes.io/x"),
        "{role:?}"
    );
    let taint = patch("n", r#"{"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}}"#);
    assert!(message(&taint).ends_with("node \"n\" is not allowed to modify taints"), "{taint:?}");
    let lease = |name: &str| {
        let body = format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
        let path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
        server.call_as(node("n"), "POST", path, &body)
    };
    assert_eq!(lease("n").0, 201);
    assert_eq!(lease("m").0, 403);
}

#[test]
fn node_requests_tokens_for_its_own_pods() {
    let server = server();
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let account = "/api/v1/namespaces/default/serviceaccounts";
    server.call("POST", account, r#"{"metadata":{"name":"default"}}"#);
    let uid = |name: &str| {
        let pod = server.object(&format!("{PODS}/{name}"));
        pod.str_at(&["metadata", "uid"]).to_owned()
    };
    let request = |pod: &str, audiences: &str| {
        let reference = format!(r#"{{"apiVersion":"v1","kind":"Pod","name":"{pod}","uid":"{}"}}"#, uid(pod));
        let body = format!(r#"{{"spec":{{"boundObjectRef":{reference},"audiences":{audiences}}}}}"#);
        server.call_as(node("n"), "POST", path, &body)
    };
    let own = request("on-n", "[]");
    assert_eq!(own.0, 201, "{}", json::to_text(&own.1));
    let other = request("on-m", "[]");
    assert!(message(&other).ends_with("node requested token bound to a pod scheduled on a different node"));
    let audience = request("on-n", r#"["vault"]"#);
    assert!(
        message(&audience)
            .ends_with("system:node:n is not authorized to request tokens for audience \"vault\""),
        "{audience:?}"
    );
    let unbound = server.call_as(node("n"), "POST", path, r#"{"spec":{}}"#);
    assert!(message(&unbound).ends_with("node requested token not bound to a pod"), "{unbound:?}");
}
