//! Bad input at the socket: each gets the right 4xx, changes nothing, and does not affect other clients.

use std::fmt::Write as _;
use std::io::Write as _;

use super::Server;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const JSON: &str = "content-type: application/json\r\n";
const YAML: &str = "content-type: application/yaml\r\n";

/// ConfigMap with `rest` behind its name.
fn map(rest: &str) -> Vec<u8> {
    format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"bad"{rest}"#).into_bytes()
}

fn deployment(replicas: &str) -> Vec<u8> {
    let text = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"bad"},"spec":{"replicas":"#;
    format!("{text}{replicas}}}}}").into_bytes()
}

fn labels(count: usize, value: &str) -> Vec<u8> {
    let mut text = r#","labels":{"first":"x""#.to_owned();
    (0..count).for_each(|number| write!(text, r#","l{number}":"{value}""#).unwrap());
    map(&(text + "}}}"))
}

/// Server that writes nothing by itself.
fn server_without_controllers() -> Server {
    Server::start(&["--ephemeral", "--controllers="])
}

fn revision(server: &Server) -> String {
    let list = server.client().send("GET /api/v1/configmaps", b"").1;
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    list["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

/// Request and expected response: head, headers, body, code, reason.
type Case = (String, &'static str, Vec<u8>, u16, &'static str);

fn invalid_bodies() -> Vec<Case> {
    let post = |path: &str, headers, body: Vec<u8>, code, reason| {
        (format!("POST {path}"), headers, body, code, reason)
    };
    let mut not_utf8 = map(r#"},"data":{"a":""#);
    not_utf8.extend(b"\xff\"}}");
    let mut deep = map(r#"},"data":"#);
    deep.extend([b'['; 100_000]);
    let bomb: String = (1..12).fold("a0: &a0 [x]\n".into(), |text, level| {
        text + &format!("a{level}: &a{level} [{}]\n", vec![format!("*a{}", level - 1); 9].join(","))
    });
    vec![
        post(MAPS, JSON, map("}"), 400, "BadRequest"),
        post(MAPS, JSON, Vec::new(), 400, "BadRequest"),
        post(MAPS, JSON, b"[]".into(), 400, "BadRequest"),
        post(MAPS, JSON, map(r#","labels":5}}"#), 400, "BadRequest"),
        post(MAPS, JSON, map(r#"},"data":{"a":1}}"#), 400, "BadRequest"),
        post(MAPS, JSON, not_utf8, 400, "BadRequest"),
        post(MAPS, JSON, deep, 400, "BadRequest"),
        post(MAPS, JSON, b"{\"a\":".repeat(100_000), 400, "BadRequest"),
        post(MAPS, YAML, b"a: ".iter().chain(&[b'['; 100_000]).copied().collect(), 400, "BadRequest"),
        post(MAPS, YAML, bomb.into_bytes(), 400, "BadRequest"),
        post(MAPS, "content-type: text/plain\r\n", map("}}"), 415, "UnsupportedMediaType"),
        post(MAPS, "content-type: \u{e9}\r\n", map("}}"), 415, "UnsupportedMediaType"),
        post(MAPS, "content-type: application/vnd.kubernetes.protobuf\r\n", map("}}"), 400, "BadRequest"),
        post(DEPLOYMENTS, JSON, deployment("1e400"), 400, "BadRequest"),
        post(DEPLOYMENTS, JSON, deployment(&"9".repeat(100_000)), 400, "BadRequest"),
        post(DEPLOYMENTS, JSON, deployment("1.5"), 400, "BadRequest"),
        post(MAPS, JSON, map(&format!("{}}}}}", " ".repeat(4 << 20))), 413, "RequestEntityTooLarge"),
        post(MAPS, JSON, labels(10_000, "no label"), 422, "Invalid"),
        post("/api/v1/namespaces/nowhere/configmaps", JSON, map("}}"), 404, "NotFound"),
    ]
}

fn invalid_queries() -> Vec<Case> {
    let get = |query: String, code, reason| (format!("GET {MAPS}?{query}"), "", Vec::new(), code, reason);
    let accept = |accept, code, reason| (format!("GET {MAPS}"), accept, Vec::new(), code, reason);
    vec![
        get(format!("labelSelector={}", "(".repeat(20_000)), 400, "BadRequest"),
        get(format!("labelSelector={}", "a,".repeat(10_000) + "="), 400, "BadRequest"),
        get("labelSelector=%ff".into(), 400, "BadRequest"),
        get(format!("labelSelector=a={}", "x".repeat(20_000)), 400, "BadRequest"),
        get("fieldSelector=spec.nothing=1".into(), 400, "BadRequest"),
        get(format!("fieldSelector={}", "%5c".repeat(5_000)), 400, "BadRequest"),
        get("limit=1e9".into(), 400, "BadRequest"),
        get("timeoutSeconds=99999999999999999999".into(), 400, "BadRequest"),
        get(format!("continue={}", "A".repeat(20_000)), 400, "BadRequest"),
        get("resourceVersion=-1".into(), 400, "BadRequest"),
        get("watch=1&resourceVersion=x".into(), 400, "BadRequest"),
        accept("accept: image/png\r\n", 406, "NotAcceptable"),
        (format!("BREW {MAPS}"), "", Vec::new(), 405, "MethodNotAllowed"),
        ("GET /api/v1/%ff/..".into(), "", Vec::new(), 404, "NotFound"),
    ]
}

#[test]
fn bad_input_is_rejected_and_changes_nothing() {
    let server = server_without_controllers();
    let before = revision(&server);
    for (head, headers, body, code, reason) in invalid_bodies().into_iter().chain(invalid_queries()) {
        let (response_head, text) = server.client().send_as(&head, headers, &body);
        let output = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
        let (head, short) = (&head[..head.len().min(80)], text.get(..300).unwrap_or(&text));
        assert!(
            response_head.starts_with(&format!("HTTP/1.1 {code} ")),
            "{head} {output}: {response_head}{short}"
        );
        assert!(text.contains(&format!(r#""reason":"{reason}""#)), "{head} {output}: {short}");
        assert!(text.len() < 2 << 20, "{head} {output}: a response of {} bytes", text.len());
    }
    assert_eq!(revision(&server), before);
}

#[test]
fn ten_thousand_labels_are_accepted() {
    let server = server_without_controllers();
    let (head, _) = server.client().send_as(&format!("POST {MAPS}"), JSON, &labels(10_000, "v"));
    assert!(head.starts_with("HTTP/1.1 201 "), "{head}");
    let (head, text) = server.client().send(&format!("GET {MAPS}?labelSelector=l9999=v"), b"");
    assert!(head.starts_with("HTTP/1.1 200 ") && text.contains(r#""l9999":"v""#), "{head}");
}

#[test]
fn slow_and_broken_clients_do_not_delay_others() {
    let server = server_without_controllers();
    let before = revision(&server);
    let mut slow: Vec<_> = (0..50).map(|_| server.client()).collect();
    for client in &mut slow {
        let head = format!("POST {MAPS} HTTP/1.1\r\nhost: a\r\n{JSON}content-length: 1000\r\n\r\n");
        client.0.write_all(head.as_bytes()).unwrap();
        client.0.write_all(&map("")).unwrap();
        client.0.flush().unwrap();
    }
    assert_eq!(server.client().send("GET /readyz", b"").1, "ok");
    // Half of them disconnect.
    slow.truncate(25);
    let (head, _) = server.client().send_as(&format!("POST {MAPS}?dryRun=All"), JSON, &map("}}"));
    assert!(head.starts_with("HTTP/1.1 201 "), "{head}");
    assert_eq!(revision(&server), before, "an incomplete request writes nothing");
    drop(slow);
}
