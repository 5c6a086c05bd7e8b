//! Operational endpoints (metrics, health, version, OpenAPI) and errors for unsupported requests, without sockets.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "harness/test_server.rs"]
mod harness;

use std::time::Duration;

use harness::{MAPS, PODS, Reply, TestServer, request};
use setpoint_api::{Value, json, protobuf, yaml};
use setpoint_server::exchange::Service;
use setpoint_server::health::Check;
use setpoint_server::inflight::Inflight;
use setpoint_server::metrics::MetricType;

impl TestServer {
    /// Sends a request that fails. Returns its code and message.
    fn error(&self, method: &str, path: &str) -> (u16, String) {
        let reply = self.send(method, path, "", &[]);
        (reply.code, reply.value().str_at(&["message"]).to_owned())
    }
}

fn map(name: &str) -> String {
    format!(r#"{{"metadata":{{"name":"{name}"}},"data":{{"k":"yes"}}}}"#)
}

#[test]
fn health_is_reported_in_total_and_by_check() {
    let server = TestServer::new();
    for path in ["/healthz", "/livez", "/readyz"] {
        let got = server.get(path);
        assert_eq!(
            (got.code, got.text(), got.header("content-type")),
            (200, "ok", "text/plain; charset=utf-8")
        );
    }
    let expected = "[+]ping ok\n[+]store ok\n[+]store-readiness ok\n[+]poststarthook/bootstrap ok\n[+]shutdown ok\n\
                    readyz check passed\n";
    assert_eq!(server.get("/readyz?verbose").text(), expected);
    assert_eq!(server.get("/livez/store").text(), "ok");
    assert_eq!(server.get("/livez/none").code, 404);
    server.api.begin_shutdown();
    assert_eq!((server.get("/livez").code, server.get("/readyz").code), (200, 500));
}

#[test]
fn requests_watches_objects_and_the_process_are_measured() {
    let server = TestServer::new();
    server.create(MAPS, &map("a"));
    server.get(&format!("{MAPS}/a"));
    server.get(&format!("{MAPS}/b"));
    server.get(&format!("{MAPS}?limit=1"));
    server.send("DELETE", &format!("{MAPS}/a?dryRun=All"), "", &[]);
    let mut frames = server.watch(&format!("{MAPS}?watch=true"), "application/json");
    assert_eq!(server.ready_frames(&mut *frames).len(), 1);
    server.api.metrics().register(|text| {
        text.family("other_total", MetricType::Counter, "Something of another part.");
        text.sample("other_total", &[], 7);
    });
    let got = server.get("/metrics");
    assert_eq!((got.code, got.header("content-type")), (200, "text/plain; version=0.0.4; charset=utf-8"));
    let labels = |verb: &str, scope: &str| {
        format!(
            "verb=\"{verb}\",group=\"\",version=\"v1\",resource=\"configmaps\",subresource=\"\",scope=\"{scope}\",\
             component=\"apiserver\""
        )
    };
    for line in [
        format!("apiserver_request_total{{{},code=\"201\",dry_run=\"\"}} 1", labels("POST", "resource")),
        format!("apiserver_request_total{{{},code=\"200\",dry_run=\"\"}} 1", labels("GET", "resource")),
        format!("apiserver_request_total{{{},code=\"404\",dry_run=\"\"}} 1", labels("GET", "resource")),
        format!("apiserver_request_total{{{},code=\"200\",dry_run=\"\"}} 1", labels("LIST", "namespace")),
        format!("apiserver_request_total{{{},code=\"200\",dry_run=\"All\"}} 1", labels("DELETE", "resource")),
        format!("apiserver_request_duration_seconds_count{{{},dry_run=\"\"}} 2", labels("GET", "resource")),
        format!("apiserver_longrunning_requests{{{}}} 1", labels("WATCH", "namespace")),
        "apiserver_watch_events_total{group=\"\",version=\"v1\",resource=\"configmaps\"} 1".to_owned(),
        "apiserver_storage_objects{resource=\"configmaps\"} 1".to_owned(),
        "apiserver_resource_objects{group=\"apps\",resource=\"deployments\"} 0".to_owned(),
        "apiserver_current_inflight_requests{request_kind=\"mutating\"} 0".to_owned(),
        "setpoint_log_full 0".to_owned(),
        "other_total 7".to_owned(),
    ] {
        assert!(got.text().lines().any(|found| found == line), "{line}\n{}", got.text());
    }
    for name in ["process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds"] {
        assert!(got.text().lines().any(|line| line.starts_with(&format!("{name} "))), "{name}");
    }
    let ended =
        format!("apiserver_request_total{{{},code=\"200\",dry_run=\"\"}} 1", labels("WATCH", "namespace"));
    assert!(!got.text().contains(&ended), "a watch is counted when it has ended");
    drop(frames);
    let reply = server.get("/metrics");
    let text = reply.text();
    assert!(
        text.contains(&ended) && text.contains(&format!("requests{{{}}} 0", labels("WATCH", "namespace")))
    );
    families_are_whole(text);
}

/// Each family appears once, before its samples.
fn families_are_whole(text: &str) {
    let mut seen: Vec<&str> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let name = rest.split(' ').next().unwrap();
            assert!(!seen.contains(&name), "{name} comes twice");
            seen.push(name);
        } else if !line.starts_with('#') {
            assert!(line.starts_with(seen.last().unwrap()), "{line} is not of {:?}", seen.last());
        }
    }
}

#[test]
fn requests_over_the_limit_are_rejected_and_counted() {
    let mut server = TestServer::new();
    server.api = server.api.with_bounds(Inflight::new(1, 1, 1));
    let admit = |query: &str| server.api.admit(&request("GET", &format!("/api/v1/pods?{query}"), "", &[]));
    let admission = admit("").ok().unwrap();
    let refused = admit("").err().unwrap();
    assert_eq!(refused.status, 429);
    assert!(admit("watch=true").is_ok(), "requests that last have a bound of their own");
    drop(admission);
    assert!(admit("").is_ok());
    assert!(
        server
            .get("/metrics")
            .text()
            .contains("scope=\"cluster\",component=\"apiserver\",code=\"429\",dry_run=\"\"} 1")
    );
}

#[test]
fn yaml_is_supported_except_in_watches() {
    let server = TestServer::new();
    let made = server.create(MAPS, &map("a"));
    let got = server.get_as(&format!("{MAPS}/a"), "application/yaml");
    assert_eq!((got.code, got.header("content-type")), (200, "application/yaml"));
    assert!(
        got.text().starts_with("apiVersion: v1\ndata:\n  k: \"yes\"\nkind: ConfigMap\nmetadata:\n"),
        "{}",
        got.text()
    );
    let mut read = yaml::parse_strict(got.text().as_bytes()).unwrap().0;
    assert_eq!(
        read.make_map().remove("metadata").unwrap().str_at(&["uid"]),
        made.str_at(&["metadata", "uid"])
    );
    for (path, kind) in [
        (MAPS.to_owned(), "ConfigMapList"),
        (format!("{MAPS}/none"), "Status"),
        ("/api/v1".to_owned(), "APIResourceList"),
        ("/api/v1/componentstatuses".to_owned(), "ComponentStatusList"),
    ] {
        let got = server.get_as(&path, "text/html;q=0.9, application/yaml;q=0.8, application/json;q=0.1");
        assert_eq!(got.header("content-type"), "application/yaml", "{path}");
        assert_eq!(yaml::parse_strict(got.text().as_bytes()).unwrap().0.str_at(&["kind"]), kind, "{path}");
    }
    let table = server.get_as(MAPS, "application/yaml;as=Table;g=meta.k8s.io;v=v1");
    assert!(table.text().contains("kind: Table\n"), "{}", table.text());
    let refused = server.get_as(&format!("{MAPS}?watch=true"), "application/yaml");
    assert_eq!(refused.code, 406);
    let message = "only the following media types are accepted: application/json;stream=watch, \
                   application/vnd.kubernetes.protobuf;stream=watch";
    assert!(refused.text().contains(message), "{}", refused.text());
    let headers = [("content-type", "application/yaml"), ("accept", "*/*")];
    let sent = server.send("POST", MAPS, "metadata: {name: b}", &headers);
    assert_eq!((sent.code, sent.header("content-type")), (201, "application/json"));
}

#[test]
fn error_response_is_protobuf_if_accepted() {
    let server = TestServer::new();
    let got = server.get_as(&format!("{MAPS}/none"), "application/vnd.kubernetes.protobuf");
    assert_eq!(got.header("content-type"), "application/vnd.kubernetes.protobuf");
    let status = protobuf::decode(&got.body).unwrap().value;
    assert_eq!((status.str_at(&["reason"]), status.str_at(&["kind"])), ("NotFound", "Status"));
}

#[test]
fn unchanged_discovery_document_is_not_sent_again() {
    let server = TestServer::new();
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    for path in ["/api", "/apis"] {
        let got = server.get_as(path, accept);
        let tag = got.header("etag").to_owned();
        assert!(tag.len() > 10 && tag.starts_with('"'), "{tag}");
        assert_eq!((got.header("vary"), got.header("cache-control")), ("Accept", "public"));
        let again = server.send("GET", path, "", &[("accept", accept), ("if-none-match", &tag)]);
        assert_eq!((again.code, again.text(), again.header("etag")), (304, "", &tag[..]));
        assert_eq!(server.send("GET", path, "", &[("accept", accept), ("if-none-match", "\"x\"")]).code, 200);
        assert_eq!(server.send("GET", path, "", &[("if-none-match", &tag)]).code, 200, "another document");
    }
    let list = server.get("/apis/apps/v1").value();
    let entries = list.get("resources").and_then(Value::as_list).unwrap();
    let entry = entries.iter().find(|entry| entry.str_at(&["name"]) == "deployments").unwrap();
    assert_eq!(entry.str_at(&["storageVersionHash"]), "8aSe+NMegvE=");
    let paths = server.get("/");
    for path in ["/metrics", "/readyz/shutdown", "/openapi/v3", "/apis/apps/v1"] {
        assert!(paths.text().contains(&format!("\"{path}\"")), "{path}");
    }
}

#[test]
fn schema_urls_change_with_their_schemas() {
    let server = TestServer::new();
    let index = server.get("/openapi/v3");
    assert!(!index.header("etag").is_empty());
    let url = index.value().str_at(&["paths", "apis/apps/v1", "serverRelativeURL"]).to_owned();
    let got = server.get(&url);
    assert_eq!(
        (got.code, got.header("cache-control"), got.header("vary")),
        (200, "public, immutable", "Accept")
    );
    assert_eq!(got.header("expires"), "Wed, 13 Nov 2024 22:13:20 GMT");
    let again = server.send("GET", &url, "", &[("if-none-match", got.header("etag"))]);
    assert_eq!((again.code, again.body.len()), (304, 0));
    let moved = server.get("/openapi/v3/apis/apps/v1?hash=old");
    assert_eq!((moved.code, moved.header("location")), (301, &url[..]));
    let plain = server.get("/openapi/v3/apis/apps/v1");
    assert_eq!((plain.code, plain.header("expires")), (200, ""));
    let second = server.get("/openapi/v2");
    let again = server.send("GET", "/openapi/v2", "", &[("if-none-match", second.header("etag"))]);
    assert_eq!((second.code, again.code), (200, 304));
    assert_eq!(server.get_as("/openapi/v2", "text/html").code, 406);
}

#[test]
fn component_statuses_follow_the_health_checks() {
    let mut server = TestServer::new();
    server.api = server.api.with_check(Check::new("scheduler", true, || Err("stuck".to_owned())));
    let got = server.get("/api/v1/componentstatuses");
    assert_eq!(got.header("warning"), "299 - \"v1 ComponentStatus is deprecated in v1.19+\"");
    let list = got.value();
    let shown = |item: &Value| {
        let condition = &item.get("conditions").and_then(Value::as_list).unwrap()[0];
        [item.str_at(&["metadata", "name"]), condition.str_at(&["status"]), condition.str_at(&["message"])]
            .join(" ")
    };
    let items: Vec<String> = list.get("items").and_then(Value::as_list).unwrap().iter().map(shown).collect();
    assert_eq!(items, ["controller-manager Unknown ", "etcd-0 True ok", "scheduler False stuck"]);
    assert_eq!(shown(&server.get("/api/v1/componentstatuses/etcd-0").value()), "etcd-0 True ok");
    assert_eq!(server.get("/api/v1/componentstatuses/x").code, 404);
    assert_eq!(server.send("DELETE", "/api/v1/componentstatuses/etcd-0", "", &[]).code, 405);
    let table = server.get_as("/api/v1/componentstatuses", "application/json;as=Table;g=meta.k8s.io;v=v1");
    assert!(table.text().contains("Healthy"), "{}", table.text());
}

#[test]
fn foreign_token_is_unauthenticated() {
    let server = TestServer::new();
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let review = server.create(path, r#"{"spec":{"token":"secret"}}"#);
    assert_eq!(review.str_at(&["status", "error"]), "invalid bearer token");
    assert_eq!(review.at(&["status", "authenticated"]), None);
    let got = server.send("POST", path, r#"{"spec":{}}"#, &[]);
    assert_eq!(
        (got.code, got.value().str_at(&["message"])),
        (400, "token is required for TokenReview in authentication")
    );
}

#[test]
fn invalid_list_options_have_upstreams_messages() {
    let server = TestServer::new();
    for name in ["a", "b", "c"] {
        server.create(MAPS, &map(name));
    }
    let first = server.get(&format!("{MAPS}?limit=1")).value();
    let token = first.str_at(&["metadata", "continue"]).to_owned();
    for (query, code, message) in [
        (
            "continue=nonsense".to_owned(),
            400,
            "invalid continue token: continue key is not valid: invalid character '\\x9e' looking for beginning of value",
        ),
        (
            format!("continue={token}&resourceVersion=1"),
            400,
            "specifying resource version is not allowed when using continue",
        ),
        ("limit=x".to_owned(), 400, "strconv.ParseInt: parsing \"x\": invalid syntax"),
        ("watch=1&timeoutSeconds=x".to_owned(), 400, "strconv.ParseInt: parsing \"x\": invalid syntax"),
    ] {
        assert_eq!(server.error("GET", &format!("{MAPS}?{query}")), (code, message.to_owned()), "{query}");
    }
    let items = |reply: Reply| reply.value().get("items").and_then(Value::as_list).unwrap().len();
    assert_eq!(items(server.get(&format!("{MAPS}?limit=-1"))), 3, "a negative limit is none");
    server.clock.advance(Duration::from_secs(301));
    let gone = server.get(&format!("{MAPS}?limit=1&continue={token}"));
    assert_eq!((gone.code, gone.value().str_at(&["reason"])), (410, "Expired"));
    let next = gone.value().str_at(&["metadata", "continue"]).to_owned();
    assert_eq!(items(server.get(&format!("{MAPS}?continue={next}"))), 2);
}

#[test]
fn connect_requests_are_validated_before_501() {
    let server = TestServer::new();
    let pod = |name: &str, more: &str| {
        let spec = format!(r#"{{"containers":[{{"name":"c","image":"i"}}]{more}}}"#);
        server.create(PODS, &format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{spec}}}"#));
    };
    pod("free", "");
    pod("bound", r#","nodeName":"n""#);
    let service = r#"{"metadata":{"name":"web"},"spec":{"ports":[{"port":80}]}}"#;
    server.create("/api/v1/namespaces/default/services", service);
    assert_eq!(server.get(&format!("{PODS}/free/log")).code, 200, "the log is empty");
    let services = "/api/v1/namespaces/default/services";
    let not_yet =
        |what: &str| format!("{what} is not implemented: this server does not connect to nodes yet");
    for (path, code, message) in [
        (format!("{PODS}/none/log"), 404, "pods \"none\" not found".to_owned()),
        (format!("{PODS}/free/log?container=x"), 400, "container x is not valid for pod free".to_owned()),
        (format!("{PODS}/free/exec"), 400, "pod free does not have a host assigned".to_owned()),
        (format!("{PODS}/bound/log"), 501, not_yet("pods/log")),
        (format!("{PODS}/bound/portforward"), 501, not_yet("pods/portforward")),
        (format!("{PODS}/bound/proxy/x"), 400, "address not allowed".to_owned()),
        (format!("{PODS}/ftp:bound:1/proxy"), 400, "invalid pod request \"ftp:bound:1\"".to_owned()),
        ("/api/v1/nodes/n/proxy/stats".to_owned(), 404, "nodes \"n\" not found".to_owned()),
        (format!("{services}/web:80/proxy"), 503, "no endpoints available for service \"web\"".to_owned()),
        (format!("{services}/web:81/proxy"), 503, "no service port 81 found for service \"web\"".to_owned()),
    ] {
        assert_eq!(server.error("GET", &path), (code, message), "{path}");
    }
    let node =
        r#"{"metadata":{"name":"sim"},"status":{"nodeInfo":{"containerRuntimeVersion":"simulated://1"}}}"#;
    server.create("/api/v1/nodes", node);
    let refused = server.error("GET", "/api/v1/nodes/sim/proxy/stats");
    let why = "nodes/proxy: node sim is simulated: no kubelet runs, so there is nothing to connect to";
    assert_eq!(refused, (501, why.to_owned()));
    let slice = r#"{"metadata":{"name":"s","labels":{"kubernetes.io/service-name":"web"}},"addressType":"IPv4",
        "endpoints":[{"addresses":["10.1.1.1"]}]}"#;
    server.create("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice);
    assert_eq!(server.error("GET", &format!("{services}/web:80/proxy/")), (501, not_yet("services/proxy")));
}

#[test]
fn watched_table_shows_current_ages() {
    let server = TestServer::new();
    server.create(MAPS, &map("a"));
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let mut frames = server.watch(&format!("{MAPS}?watch=true&includeObject=None"), table);
    let mut next = || {
        let polled = server.runtime.block_on(std::future::poll_fn(|context| frames.poll_frame(context)));
        let frame = polled.expect("the stream goes on");
        json::parse(frame.trim_ascii()).unwrap()
    };
    let age = |event: &Value| {
        let row = &event.at(&["object", "rows"]).and_then(Value::as_list).unwrap()[0];
        assert_eq!(row.get("object"), Some(&Value::Null), "nothing of the object was asked for");
        row.get("cells").and_then(Value::as_list).unwrap()[2].as_str().unwrap().to_owned()
    };
    assert_eq!(age(&next()), "0s");
    server.clock.advance(Duration::from_secs(90));
    server.call("PATCH", &format!("{MAPS}/a"), r#"{"data":{"k":"w"}}"#);
    assert_eq!(age(&next()), "90s");
}
