//! Authorization by a webhook.

use std::time::Duration;

use setpoint_api::{Value, value};
use setpoint_authorization::config::read;
use setpoint_server::exchange::Identity;

use crate::harness::{MAPS, PODS, TestServer};
use crate::webhook_server::{HookReply, HookServer};

/// A server whose authorizers are RBAC and a webhook with further settings.
fn server(hook: &HookServer, settings: &str) -> TestServer {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubeconfig");
    let text = format!(
        "current-context: c\ncontexts:\n- {{name: c, context: {{cluster: s, user: u}}}}\nclusters:\n\
         - {{name: s, cluster: {{server: '{}', certificate-authority-data: {}}}}}\n\
         users:\n- {{name: u, user: {{token: secret}}}}\n",
        hook.url, hook.ca_bundle
    );
    std::fs::write(&path, text).unwrap();
    let file = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n\
         - {{type: RBAC, name: rbac}}\n- type: Webhook\n  name: hook\n  webhook:\n\
         \x20   matchConditionSubjectAccessReviewVersion: v1\n\
         \x20   connectionInfo: {{type: KubeConfigFile, kubeConfigFile: {}}}\n{settings}",
        path.display()
    );
    let server = TestServer::new();
    server.api.set_authorizers(read(file.as_bytes(), &|_| Ok(())).unwrap()).unwrap();
    server
}

const V1: &str = "    timeout: 1s\n    subjectAccessReviewVersion: v1\n    failurePolicy: NoOpinion\n";

fn jane() -> Identity {
    Identity::new("jane", vec!["dev".to_owned(), "system:authenticated".to_owned()])
}

fn answer(review: &Value, status: Value) -> HookReply {
    let api_version = review.str_at(&["apiVersion"]).to_owned();
    HookReply::Json(value!({"kind": "SubjectAccessReview", "apiVersion": (api_version), "status": (status)}))
}

#[test]
fn webhook_allows_and_denies_and_its_answers_are_cached() {
    let hook = HookServer::start(|review| {
        let namespace = review.str_at(&["spec", "resourceAttributes", "namespace"]);
        match namespace {
            "default" => answer(review, value!({"allowed": true})),
            "kube-system" => {
                answer(review, value!({"allowed": false, "denied": true, "reason": "not there"}))
            }
            _ => answer(review, value!({"allowed": false, "reason": "who knows"})),
        }
    });
    let server = server(&hook, V1);
    assert_eq!(server.call_as(jane(), "GET", MAPS, "").0, 200);
    assert_eq!(server.call_as(jane(), "GET", MAPS, "").0, 200);
    let first = &hook.reviews()[0];
    assert_eq!(
        first,
        &value!({
            "kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {},
            "spec": {
                "resourceAttributes": {
                    "namespace": "default", "verb": "list", "version": "v1", "resource": "configmaps",
                },
                "user": "jane", "groups": ["dev", "system:authenticated"],
            },
            "status": {"allowed": false},
        })
    );
    assert_eq!(hook.reviews().len(), 1, "the second answer is cached");
    server.clock.advance(Duration::from_secs(5 * 60));
    assert_eq!(server.call_as(jane(), "GET", MAPS, "").0, 200);
    assert_eq!(hook.reviews().len(), 2, "the answer has expired");
    let (code, denied) = server.call_as(jane(), "GET", "/api/v1/namespaces/kube-system/configmaps", "");
    assert_eq!(code, 403);
    assert!(denied.str_at(&["message"]).ends_with(": not there"), "{denied:?}");
    let (code, unknown) = server.call_as(jane(), "GET", "/api/v1/namespaces/x/configmaps", "");
    assert_eq!(code, 403);
    assert!(unknown.str_at(&["message"]).ends_with(": who knows"), "{unknown:?}");
    let metrics = server.get("/metrics");
    for line in [
        "apiserver_authorization_webhook_evaluations_total{name=\"hook\",result=\"success\"} 4",
        "apiserver_authorization_decisions_total{type=\"Webhook\",name=\"hook\",decision=\"denied\"} 1",
    ] {
        assert!(metrics.text().contains(line), "{line}");
    }
}

#[test]
fn webhook_gets_the_selectors_of_a_list() {
    let hook = HookServer::start(|review| answer(review, value!({"allowed": true})));
    let server = server(&hook, V1);
    let query = "fieldSelector=metadata.name%3Da,metadata.namespace!%3Db&labelSelector=app%20in%20(x,y),!old";
    assert_eq!(server.call_as(jane(), "GET", &format!("{MAPS}?{query}"), "").0, 200);
    let attributes = hook.reviews()[0].at(&["spec", "resourceAttributes"]).cloned().unwrap();
    assert_eq!(
        attributes.at(&["fieldSelector", "requirements"]),
        Some(&value!([
            {"key": "metadata.name", "operator": "In", "values": ["a"]},
            {"key": "metadata.namespace", "operator": "NotIn", "values": ["b"]},
        ]))
    );
    assert_eq!(
        attributes.at(&["labelSelector", "requirements"]),
        Some(&value!([
            {"key": "app", "operator": "In", "values": ["x", "y"]},
            {"key": "old", "operator": "DoesNotExist"},
        ]))
    );
    // The selectors are part of the cached question.
    assert_eq!(server.call_as(jane(), "GET", MAPS, "").0, 200);
    assert_eq!(hook.reviews().len(), 2);
}

#[test]
fn token_audience_of_a_node_is_decided_by_the_webhook() {
    let hook = HookServer::start(|review| {
        let verb = review.str_at(&["spec", "resourceAttributes", "verb"]);
        let resource = review.str_at(&["spec", "resourceAttributes", "resource"]);
        let is_allowed =
            verb == "create" || (verb, resource) == ("request-serviceaccounts-token-audience", "vault");
        answer(review, value!({"allowed": (is_allowed)}))
    });
    let server = server(&hook, V1);
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    server.create(accounts, r#"{"metadata":{"name":"robot"}}"#);
    let pod = r#"{"metadata":{"name":"p"},"spec":{"nodeName":"n","serviceAccountName":"robot","containers":[{"name":"c","image":"i"}]}}"#;
    let uid = server.create(PODS, pod).str_at(&["metadata", "uid"]).to_owned();
    let node = || Identity::new("system:node:n", vec!["system:nodes".to_owned()]);
    let token = |audience: &str| {
        let reference = format!(r#"{{"kind":"Pod","apiVersion":"v1","name":"p","uid":"{uid}"}}"#);
        let body = format!(r#"{{"spec":{{"audiences":["{audience}"],"boundObjectRef":{reference}}}}}"#);
        server.call_as(node(), "POST", &format!("{accounts}/robot/token"), &body)
    };
    let (code, issued) = token("vault");
    assert_eq!(code, 201, "{issued:?}");
    let (code, refused) = token("bank");
    assert_eq!(code, 403);
    let why = r#"system:node:n is not authorized to request tokens for audience "bank""#;
    assert!(refused.str_at(&["message"]).ends_with(why), "{refused:?}");
}

#[test]
fn older_review_names_groups_as_its_version_does() {
    let hook = HookServer::start(|review| answer(review, value!({"allowed": true})));
    let settings = "    timeout: 1s\n    subjectAccessReviewVersion: v1beta1\n    failurePolicy: Deny\n    cacheAuthorizedRequests: false\n";
    let server = server(&hook, settings);
    for _ in 0..2 {
        assert_eq!(server.call_as(jane(), "GET", "/metrics", "").0, 200);
    }
    let reviews = hook.reviews();
    // Each request is authorized before and after its body is read.
    assert!(reviews.len() >= 2, "answers are not cached");
    assert_eq!(reviews[0].str_at(&["apiVersion"]), "authorization.k8s.io/v1beta1");
    assert_eq!(
        reviews[0].get("spec"),
        Some(&value!({
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
            "user": "jane", "group": ["dev", "system:authenticated"],
        }))
    );
}

#[test]
fn failure_policy_decides_if_the_webhook_fails() {
    let hook = HookServer::start(|review| {
        let status = value!({"allowed": true});
        match review.str_at(&["spec", "resourceAttributes", "namespace"]) {
            "hang" => HookReply::Hang,
            "garbage" => HookReply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n!!!!".to_vec()),
            "error" => HookReply::Raw(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n".to_vec()),
            "both" => answer(review, value!({"allowed": true, "denied": true})),
            _ => answer(review, status),
        }
    });
    for policy in ["NoOpinion", "Deny"] {
        let settings = V1.replace("NoOpinion", policy).replace("1s", "200ms");
        let server = server(&hook, &settings);
        for namespace in ["hang", "garbage", "error", "both"] {
            let path = format!("/api/v1/namespaces/{namespace}/configmaps");
            let (code, refused) = server.call_as(jane(), "GET", &path, "");
            assert_eq!(code, 403, "{policy} {namespace} {refused:?}");
        }
        assert_eq!(server.call_as(jane(), "GET", MAPS, "").0, 200);
        let metrics = server.get("/metrics");
        let failed_open =
            "apiserver_authorization_webhook_evaluations_fail_open_total{name=\"hook\",result=\"timeout\"}";
        assert_eq!(metrics.text().contains(failed_open), policy == "NoOpinion");
    }
}

#[test]
fn request_that_match_conditions_exclude_is_not_sent() {
    let hook = HookServer::start(|review| answer(review, value!({"allowed": true})));
    let conditions = "    matchConditions:\n    - {expression: has(request.resourceAttributes)}\n    \
                      - {expression: \"request.resourceAttributes.namespace != 'kube-system'\"}\n";
    let server = server(&hook, &format!("{V1}{conditions}"));
    assert_eq!(server.call_as(jane(), "GET", "/api/v1/namespaces/kube-system/configmaps", "").0, 403);
    assert_eq!(server.call_as(jane(), "GET", "/metrics", "").0, 403);
    assert!(hook.reviews().is_empty());
    assert_eq!(server.call_as(jane(), "GET", MAPS, "").0, 200);
    assert_eq!(hook.reviews().len(), 1);
    let metrics = server.get("/metrics");
    assert!(metrics.text().contains(
        "apiserver_authorization_match_condition_exclusions_total{type=\"Webhook\",name=\"hook\"}"
    ));
}

#[test]
fn always_allow_and_always_deny_are_authorizers() {
    let server = TestServer::new();
    let configure = |items: &str| {
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: [{items}]\n"
        );
        server.api.set_authorizers(read(text.as_bytes(), &|_| Ok(())).unwrap()).unwrap();
    };
    configure("{type: AlwaysDeny, name: alwaysdeny}");
    let (code, refused) = server.call_as(jane(), "GET", MAPS, "");
    assert_eq!(code, 403);
    assert!(refused.str_at(&["message"]).ends_with(": Everything is forbidden."), "{refused:?}");
    assert_eq!(server.call("GET", MAPS, "").0, 200, "administrators need no authorizer");
    configure("{type: AlwaysDeny, name: alwaysdeny}, {type: AlwaysAllow, name: alwaysallow}");
    assert_eq!(server.call_as(jane(), "GET", MAPS, "").0, 200);
}
