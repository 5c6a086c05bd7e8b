//! Admission plugins of a server: those that are enabled, their configurations, and what the audit gets.

use setpoint_api::{Value, json};
use setpoint_server::exchange::Identity;
use setpoint_server::pipeline::admission::AdmissionConfig;
use setpoint_server::pipeline::admission::event_rate_limit::{EventLimitType, EventRateLimit};
use setpoint_server::pipeline::admission::plugins::Plugin;
use setpoint_server::pipeline::quota::limited::LimitedResource;

use crate::harness::{MAPS, PODS, TestServer, content_type, request};
use crate::webhook_server::{HookServer, allow};

const NAMESPACES: &str = "/api/v1/namespaces";

/// A server with these plugins in addition to the default ones.
fn with_plugins(plugins: &[Plugin]) -> TestServer {
    let mut config = AdmissionConfig::default();
    config.plugins = plugins.iter().fold(config.plugins, |set, plugin| set.with(*plugin));
    TestServer::with_admission(config)
}

fn pod(name: &str, more: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}"}},"spec":{{"containers":[{{"name":"c","image":"i:1"}}]{more}}}}}"#
    )
}

#[test]
fn enabled_plugins_change_and_reject_objects() {
    let server = with_plugins(&[Plugin::AlwaysPullImages, Plugin::DenyServiceExternalIPs]);
    let pod = server.create(PODS, &pod("p", ""));
    let containers = pod.at(&["spec", "containers"]).and_then(Value::as_list).unwrap();
    assert_eq!(containers[0].str_at(&["imagePullPolicy"]), "Always");
    let service = r#"{"metadata":{"name":"s"},"spec":{"ports":[{"port":1}],"externalIPs":["1.2.3.4"]}}"#;
    let (code, error) = server.call("POST", "/api/v1/namespaces/default/services", service);
    assert_eq!(
        (code, error.str_at(&["message"])),
        (403, "services \"s\" is forbidden: Use of external IPs is denied by admission control")
    );
    let plain = TestServer::new();
    plain.create("/api/v1/namespaces/default/services", service);
}

#[test]
fn disabled_plugin_has_no_effect() {
    let labels =
        r#"{"metadata":{"name":"strict","labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}"#;
    let path = "/api/v1/namespaces/strict/pods";
    let server = TestServer::new();
    server.create(NAMESPACES, labels);
    assert_eq!(server.call("POST", path, &pod("p", "")).0, 403);
    let mut config = AdmissionConfig::default();
    config.plugins = config.plugins.without(Plugin::PodSecurity).without(Plugin::NamespaceLifecycle);
    let server = TestServer::with_admission(config);
    server.create(NAMESPACES, labels);
    server.create(path, &pod("p", ""));
    assert_eq!(
        server.call("POST", "/api/v1/namespaces/gone/configmaps", r#"{"metadata":{"name":"m"}}"#).0,
        201
    );
}

#[test]
fn always_deny_rejects_every_write_but_no_read() {
    let server = with_plugins(&[Plugin::AlwaysDeny]);
    let (code, error) = server.call("POST", MAPS, r#"{"metadata":{"name":"m"}}"#);
    let why = "configmaps \"m\" is forbidden: admission control is denying all modifications";
    assert_eq!((code, error.str_at(&["message"])), (403, why));
    assert_eq!(server.call("DELETE", "/api/v1/namespaces/default/serviceaccounts/default", "").0, 404);
    assert_eq!(server.call("DELETE", &format!("{MAPS}/kube-root-ca.crt"), "").0, 404);
    assert_eq!(server.call("GET", NAMESPACES, "").0, 200);
    assert_eq!(
        server.call("PATCH", &format!("{NAMESPACES}/default"), r#"{"metadata":{"labels":{"a":"b"}}}"#).0,
        403
    );
}

#[test]
fn namespace_is_created_with_the_first_object_in_it() {
    let server = with_plugins(&[Plugin::NamespaceAutoProvision, Plugin::NamespaceExists]);
    let path = "/api/v1/namespaces/fresh/configmaps";
    assert_eq!(server.call("POST", &format!("{path}?dryRun=All"), r#"{"metadata":{"name":"m"}}"#).0, 404);
    let map = server.create(path, r#"{"metadata":{"name":"m"}}"#);
    let namespace = server.object(&format!("{NAMESPACES}/fresh"));
    assert_eq!(namespace.str_at(&["metadata", "labels", "kubernetes.io/metadata.name"]), "fresh");
    assert_ne!(namespace.str_at(&["metadata", "uid"]), map.str_at(&["metadata", "uid"]));
    server.create(path, r#"{"metadata":{"name":"n"}}"#);
    assert_eq!(
        server.call("POST", "/api/v1/namespaces/bad/configmaps", r#"{"metadata":{"name":"_"}}"#).0,
        422
    );
    assert_eq!(
        server.call("GET", &format!("{NAMESPACES}/bad"), "").0,
        404,
        "nothing is left of a rejected create"
    );
}

#[test]
fn events_beyond_the_rate_are_rejected() {
    let mut config = AdmissionConfig::default();
    config.plugins = config.plugins.with(Plugin::EventRateLimit);
    let limit = EventRateLimit { limit_type: EventLimitType::Namespace, qps: 1, burst: 2, cache_size: 0 };
    config.event_rate_limits = vec![limit];
    let server = TestServer::with_admission(config);
    let path = "/api/v1/namespaces/default/events";
    let event = |n: usize| {
        format!(
            r#"{{"metadata":{{"name":"e-{n}"}},"involvedObject":{{"kind":"Pod","name":"p","namespace":"default"}}}}"#
        )
    };
    let codes: Vec<u16> = (0..3).map(|n| server.call("POST", path, &event(n)).0).collect();
    assert_eq!(codes, [201, 201, 429]);
    let (_, error) = server.call("POST", path, &event(3));
    assert_eq!(
        (error.str_at(&["reason"]), error.str_at(&["message"])),
        ("TooManyRequests", "Too many requests: limit reached on type Namespace for key default")
    );
    server.clock.advance(std::time::Duration::from_secs(1));
    assert_eq!(server.call("POST", path, &event(4)).0, 201);
    assert_eq!(
        server.call("POST", MAPS, r#"{"metadata":{"name":"m"}}"#).0,
        201,
        "other kinds are not counted"
    );
}

#[test]
fn limited_resource_needs_a_quota() {
    let limited = LimitedResource {
        resource: "configmaps".to_owned(),
        match_contains: vec!["count/".to_owned()],
        match_scopes: Vec::new(),
    };
    let config = AdmissionConfig { limited_resources: vec![limited], ..AdmissionConfig::default() };
    let server = TestServer::with_admission(config);
    let map = r#"{"metadata":{"name":"m"}}"#;
    let (code, error) = server.call("POST", MAPS, map);
    let why = "configmaps \"m\" is forbidden: insufficient quota to consume: count/configmaps";
    assert_eq!((code, error.str_at(&["message"])), (403, why));
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    server.create(quotas, r#"{"metadata":{"name":"q"},"spec":{"hard":{"count/configmaps":"5"}}}"#);
    let status = r#"{"status":{"hard":{"count/configmaps":"5"},"used":{"count/configmaps":"0"}}}"#;
    assert_eq!(server.call("PATCH", &format!("{quotas}/q/status"), status).0, 200);
    server.create(MAPS, map);
    server.create("/api/v1/namespaces/default/secrets", r#"{"metadata":{"name":"s"}}"#);
}

#[test]
fn stricter_namespace_warns_about_its_pods() {
    let server = TestServer::new();
    server.create(PODS, &pod("p", r#","hostPID":true"#));
    let patch = r#"{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"baseline"}}}"#;
    let reply = server.send("PATCH", &format!("{NAMESPACES}/default"), patch, &[content_type("PATCH")]);
    let existing = "existing pods in namespace \\\"default\\\" violate the new PodSecurity enforce level \\\"baseline:latest\\\"";
    assert_eq!(
        reply.warnings(),
        [format!("299 - \"{existing}\""), "299 - \"p: host namespaces\"".to_owned()]
    );
}

#[test]
fn audit_annotations_are_exposed_for_rejected_requests_too() {
    let server = TestServer::new();
    let labels = r#"{"metadata":{"name":"base","labels":{"pod-security.kubernetes.io/enforce":"baseline"}}}"#;
    server.create(NAMESPACES, labels);
    for (more, code) in [("", 201), (r#","hostPID":true"#, 403)] {
        let body = pod(&format!("p-{code}"), more);
        let request = request("POST", "/api/v1/namespaces/base/pods", body, &[content_type("POST")]);
        let annotations = request.annotations.clone();
        assert_eq!(server.answer(request).status.as_u16(), code);
        assert_eq!(annotations.get()["pod-security.kubernetes.io/enforce-policy"], "baseline:latest");
    }
}

#[test]
fn bound_pod_gets_the_topology_of_its_node() {
    let server = TestServer::new();
    let labels = r#"{"topology.kubernetes.io/zone":"z","topology.kubernetes.io/region":"r","other":"x"}"#;
    server.create("/api/v1/nodes", &format!(r#"{{"metadata":{{"name":"n","labels":{labels}}}}}"#));
    server.create(PODS, &pod("p", ""));
    let binding = r#"{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}"#;
    let (code, answer) = server.call("POST", &format!("{PODS}/p/binding"), binding);
    assert_eq!(code, 201, "{}", json::to_text(&answer));
    let pod = server.object(&format!("{PODS}/p"));
    assert_eq!(pod.str_at(&["spec", "nodeName"]), "n");
    let expected = r#"{"topology.kubernetes.io/region":"r","topology.kubernetes.io/zone":"z"}"#;
    assert_eq!(*pod.at(&["metadata", "labels"]).unwrap(), json::parse(expected.as_bytes()).unwrap());
}

#[test]
fn pod_security_counts_the_evaluations_of_each_request_once() {
    let mut config = AdmissionConfig::default();
    config.pod_security.exempt_users.insert("root".to_owned());
    let server = TestServer::with_admission(config);
    let labels = r#"{"metadata":{"name":"n","labels":{"pod-security.kubernetes.io/enforce":"baseline","pod-security.kubernetes.io/warn":"restricted"}}}"#;
    server.create(NAMESPACES, labels);
    let hook = HookServer::start(allow);
    let (url, ca) = (&hook.url, &hook.ca_bundle);
    let configuration = format!(
        r#"{{"metadata":{{"name":"v"}},"webhooks":[{{"name":"v.example.com","sideEffects":"None","admissionReviewVersions":["v1"],
            "clientConfig":{{"url":"{url}","caBundle":"{ca}"}},
            "rules":[{{"operations":["*"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"]}}]}}]}}"#
    );
    server.create("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", &configuration);
    let pods = "/api/v1/namespaces/n/pods";
    server.create(pods, &pod("p", ""));
    assert_eq!(hook.requests().len(), 1);
    assert_eq!(server.call("POST", pods, &pod("q", r#","hostNetwork":true"#)).0, 403);
    let root = Identity::new("root", vec!["system:masters".to_owned()]);
    assert_eq!(server.call_as(root, "POST", pods, &pod("r", r#","hostNetwork":true"#)).0, 201);
    server.create(PODS, &pod("p", ""));
    let metrics = server.get("/metrics");
    let write = r#"request_operation="create",resource="pod",subresource="""#;
    for line in [
        format!(
            r#"pod_security_evaluations_total{{decision="allow",policy_level="baseline",policy_version="latest",mode="enforce",{write}}} 1"#
        ),
        format!(
            r#"pod_security_evaluations_total{{decision="deny",policy_level="baseline",policy_version="latest",mode="enforce",{write}}} 1"#
        ),
        format!(
            r#"pod_security_evaluations_total{{decision="deny",policy_level="restricted",policy_version="latest",mode="warn",{write}}} 1"#
        ),
        format!(
            r#"pod_security_evaluations_total{{decision="allow",policy_level="privileged",policy_version="latest",mode="enforce",{write}}} 1"#
        ),
        format!("pod_security_exemptions_total{{{write}}} 1"),
    ] {
        assert!(metrics.text().contains(&line), "{line}");
    }
}
