//! Hostile requests over the whole path: oversized selectors and queries, nested and self-repeating bodies, compressed
//! bodies, and patches that grow. Each is refused or answered, never with a 500, and leaves the server as it was.

use std::fmt::Write;

use setpoint_api::Value;

use crate::harness::{MAPS, PODS, TestServer, content_type};
use crate::names;

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// Bytes of an error message. It may repeat a part of the request, but not multiply it.
const MESSAGE_BYTES_MAX: usize = 8 << 20;

/// Text with every number below `count`.
fn numbered(count: usize, separator: &str, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(separator)
}

/// Asserts that the server works, and still has nothing but one ConfigMap.
fn assert_unharmed(server: &TestServer) {
    let (code, list) = server.call("GET", MAPS, "");
    assert_eq!((code, names(&list)), (200, vec!["own"]));
}

#[test]
fn oversized_selectors_are_answered_in_bounds() {
    let server = TestServer::new();
    server.create(MAPS, r#"{"metadata":{"name":"own","labels":{"app":"web","k7":"v"}}}"#);
    let values = numbered(100_000, ",", |n| format!("v{n}"));
    let keys = numbered(100_000, ",", |n| format!("k{n}"));
    let absent = numbered(100_000, ",", |n| format!("!k{n}"));
    let repeated = numbered(100_000, ",", |_| "app%3Dweb".to_owned());
    let contradictory = numbered(100_000, ",", |n| format!("app%3Dv{n}"));
    let brackets = "(".repeat(1 << 20);
    let long = "x".repeat(1 << 20);
    let fields = numbered(100_000, ",", |n| format!("metadata.name!%3Dn{n}"));
    let same_field = numbered(100_000, ",", |_| "metadata.name%3Down".to_owned());
    for (query, code, found) in [
        (format!("labelSelector=app+in+({values},web)"), 200, 1),
        (format!("labelSelector=app+notin+({values})"), 200, 1),
        (format!("labelSelector={keys}"), 200, 0),
        (format!("labelSelector={absent}"), 200, 0),
        (format!("labelSelector={repeated}"), 200, 1),
        (format!("labelSelector={contradictory}"), 200, 0),
        (format!("labelSelector={brackets}"), 400, 0),
        (format!("labelSelector={long}"), 400, 0),
        (format!("labelSelector=a+in+({}", "(".repeat(100_000)), 400, 0),
        (format!("fieldSelector={fields}"), 200, 1),
        (format!("fieldSelector={same_field}"), 200, 1),
        (format!("fieldSelector={}", "\\\\".repeat(1 << 19)), 400, 0),
        (format!("fieldSelector=metadata.name%3D{long}"), 200, 0),
        (numbered(100_000, "&", |n| format!("labelSelector=k{n}")), 200, 0),
        ("&".repeat(1 << 20), 200, 1),
        ("%25".repeat(1 << 18), 200, 1),
        (format!("limit={}", "9".repeat(1 << 20)), 400, 0),
        (format!("continue={long}"), 400, 0),
        (format!("resourceVersion={}", "1".repeat(1 << 20)), 400, 0),
    ] {
        let shown = &query[..query.len().min(40)];
        let reply = server.get(&format!("{MAPS}?{query}"));
        let is_expected = reply.code == code || (code == 400 && reply.code == 422);
        assert!(is_expected, "{shown}: {}", reply.code);
        assert!(reply.body.len() < MESSAGE_BYTES_MAX, "{shown}: {} bytes", reply.body.len());
        if code == 200 {
            assert_eq!(names(&reply.value()).len(), found, "{shown}");
        }
        // A watch parses the same selectors.
        let watch = server.get(&format!("{MAPS}?watch=1&{query}")).code;
        assert!(watch < 500, "{shown}: {watch}");
    }
    assert_unharmed(&server);
}

#[test]
fn selectors_in_bodies_are_answered_in_bounds() {
    let server = TestServer::new();
    server.create(MAPS, r#"{"metadata":{"name":"own"}}"#);
    let requirements =
        numbered(50_000, ",", |n| format!(r#"{{"key":"k{n}","operator":"In","values":["a","b"]}}"#));
    let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let review = format!(
        r#"{{"spec":{{"user":"ann","resourceAttributes":{{"verb":"list","resource":"pods","labelSelector":{{"requirements":[{requirements}]}}}}}}}}"#
    );
    let (code, answer) = server.call("POST", reviews, &review);
    assert_eq!((code, answer.at(&["status", "allowed"])), (201, Some(&Value::Bool(false))));
    let groups = numbered(100_000, ",", |n| format!("\"g{n}\""));
    let review = format!(
        r#"{{"spec":{{"user":"ann","groups":[{groups}],"nonResourceAttributes":{{"path":"/","verb":"get"}}}}}}"#
    );
    assert_eq!(server.call("POST", reviews, &review).0, 201);
    let budget = format!(
        r#"{{"metadata":{{"name":"b"}},"spec":{{"minAvailable":1,"selector":{{"matchExpressions":[{requirements}]}}}}}}"#
    );
    let (code, _) =
        server.call("POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets?dryRun=All", &budget);
    assert!(matches!(code, 201 | 422), "{code}");
    assert_unharmed(&server);
}

/// YAML in which each level repeats the one before ten times.
fn alias_bomb(levels: usize) -> String {
    let mut text = String::from(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb}\na0: &a0 [x,x,x,x,x,x,x,x,x,x]\n",
    );
    for level in 1..levels {
        let before = vec![format!("*a{}", level - 1); 10].join(",");
        writeln!(text, "a{level}: &a{level} [{before}]").unwrap();
    }
    text
}

/// Protobuf message whose only field contains another one, and so on; then the envelope of Kubernetes around it.
fn nested_protobuf(depth: usize) -> Vec<u8> {
    let field = |tag: u8, bytes: Vec<u8>| {
        let mut text = vec![tag];
        let mut length = bytes.len();
        while length >= 128 {
            text.push(u8::try_from(length % 128).unwrap() | 128);
            length /= 128;
        }
        text.push(u8::try_from(length).unwrap());
        [text, bytes].concat()
    };
    let nested = (0..depth).fold(Vec::new(), |inner, _| field(0x0a, inner));
    let kind = [field(0x0a, b"v1".to_vec()), field(0x12, b"ConfigMap".to_vec())].concat();
    [b"k8s\0".to_vec(), field(0x0a, kind), field(0x12, nested)].concat()
}

#[test]
fn nested_and_repeating_bodies_are_refused() {
    let server = TestServer::new();
    server.create(MAPS, r#"{"metadata":{"name":"own"}}"#);
    let nested =
        |open: &str, close: &str, count: usize| format!("{}{}", open.repeat(count), close.repeat(count));
    let in_data = |text: &str| format!(r#"{{"metadata":{{"name":"n"}},"data":{text}}}"#);
    let lengths = [&b"k8s\0"[..], &[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f], &[0; 100]].concat();
    let endless = [&b"k8s\0"[..], &[0xff; 1000]].concat();
    let cases: Vec<(&str, &str, Vec<u8>)> = vec![
        ("lists", JSON, nested("[", "]", 1_000_000).into_bytes()),
        ("open lists", JSON, "[".repeat(3 << 20).into_bytes()),
        ("maps", JSON, nested("{\"a\":", "}", 300_000).into_bytes()),
        ("nested field", JSON, in_data(&nested("[", "]", 1000)).into_bytes()),
        ("long number", JSON, in_data(&"9".repeat(1 << 20)).into_bytes()),
        ("large exponent", JSON, in_data("1e999999999").into_bytes()),
        ("escapes", JSON, format!("\"{}\"", "\\u0041".repeat(400_000)).into_bytes()),
        ("half of a surrogate", JSON, in_data(r#""\ud800""#).into_bytes()),
        ("not UTF-8", JSON, [&b"{\"metadata\":{\"name\":\""[..], &[0xff, 0xfe], b"\"}}"].concat()),
        ("flow lists", YAML, nested("[", "]", 100_000).into_bytes()),
        ("block lists", YAML, "- ".repeat(500_000).into_bytes()),
        (
            "indents",
            YAML,
            (0..2000).map(|n| format!("{}a:\n", " ".repeat(n))).collect::<String>().into_bytes(),
        ),
        ("aliases", YAML, alias_bomb(12).into_bytes()),
        ("alias of itself", YAML, b"a: &a [*a]\n".to_vec()),
        ("merge of itself", YAML, b"a: &a\n  <<: *a\n".to_vec()),
        ("documents", YAML, "---\n".repeat(500_000).into_bytes()),
        ("tags", YAML, format!("!!{} x\n", "t".repeat(1 << 20)).into_bytes()),
        ("messages", PROTOBUF, nested_protobuf(10_000)),
        ("lengths", PROTOBUF, lengths),
        ("endless number", PROTOBUF, endless),
        ("no envelope", PROTOBUF, vec![0x0a; 1 << 20]),
    ];
    for (name, content, body) in cases {
        for path in [MAPS, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"] {
            let reply = server.send("POST", path, &body, &[("content-type", content)]);
            assert!(matches!(reply.code, 400 | 413 | 415 | 422), "{name}: {}", reply.code);
            assert!(reply.body.len() < MESSAGE_BYTES_MAX, "{name}: {} bytes", reply.body.len());
        }
    }
    assert_unharmed(&server);
}

#[test]
fn compressed_bodies_are_never_expanded() {
    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};
    use std::io::Write;

    let server = TestServer::new();
    server.create(MAPS, r#"{"metadata":{"name":"own"}}"#);
    // A gigabyte of spaces before an object takes a megabyte; two rounds take a few kilobytes.
    let spaces = vec![b' '; 1 << 20];
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    (0..64).for_each(|_| gzip.write_all(&spaces).unwrap());
    gzip.write_all(br#"{"metadata":{"name":"bomb"}}"#).unwrap();
    let gzip = gzip.finish().unwrap();
    let mut twice = GzEncoder::new(Vec::new(), Compression::best());
    twice.write_all(&gzip).unwrap();
    let mut deflate = ZlibEncoder::new(Vec::new(), Compression::fast());
    deflate.write_all(br#"{"metadata":{"name":"small"}}"#).unwrap();
    for (encoding, body) in
        [("gzip", gzip), ("gzip, gzip", twice.finish().unwrap()), ("deflate", deflate.finish().unwrap())]
    {
        for (method, path, content) in [
            ("POST", MAPS.to_owned(), JSON),
            ("POST", MAPS.to_owned(), YAML),
            ("POST", MAPS.to_owned(), PROTOBUF),
            ("PUT", format!("{MAPS}/own"), JSON),
            ("PATCH", format!("{MAPS}/own"), "application/merge-patch+json"),
            ("PATCH", format!("{MAPS}/own"), "application/apply-patch+yaml"),
            ("DELETE", format!("{MAPS}/own"), JSON),
        ] {
            let reply = server.send(
                method,
                &path,
                &body,
                &[("content-type", content), ("content-encoding", encoding)],
            );
            assert!(
                matches!(reply.code, 400 | 415 | 422),
                "{encoding} {method} as {content}: {}",
                reply.code
            );
        }
    }
    assert_unharmed(&server);
}

#[test]
fn patches_that_grow_are_refused() {
    let server = TestServer::new();
    let text = "x".repeat(1000);
    server.create(MAPS, &format!(r#"{{"metadata":{{"name":"own","annotations":{{"a":"{text}"}}}}}}"#));
    let own = format!("{MAPS}/own");
    let patch = |kind: &'static str, body: &str| server.send("PATCH", &own, body, &[("content-type", kind)]);
    // Each copy doubles the annotations.
    let copies =
        numbered(40, ",", |n| format!(r#"{{"op":"copy","from":"/metadata","path":"/metadata/x{n}"}}"#));
    let many = numbered(10_001, ",", |n| format!(r#"{{"op":"add","path":"/data/k{n}","value":"v"}}"#));
    let deep = format!(r#"{{"op":"add","path":"{}","value":1}}"#, "/a".repeat(100_000));
    let indexes = r#"{"op":"add","path":"/metadata/finalizers/99999999999999999999","value":"a/b"}"#;
    let negative = r#"{"op":"remove","path":"/metadata/finalizers/-9223372036854775808"}"#;
    for operations in [&copies, &many, &deep, indexes, negative] {
        let reply = patch("application/json-patch+json", &format!("[{operations}]"));
        assert!(matches!(reply.code, 400 | 413 | 422), "{}: {}", &operations[..40], reply.code);
    }
    let nested = format!("{}1{}", r#"{"a":"#.repeat(100_000), "}".repeat(100_000));
    for kind in ["application/merge-patch+json", "application/strategic-merge-patch+json"] {
        assert_eq!(patch(kind, &nested).code, 400, "{kind}");
    }
    let bomb = server.send(
        "PATCH",
        &format!("{own}?fieldManager=m"),
        alias_bomb(12),
        &[("content-type", "application/apply-patch+yaml")],
    );
    assert_eq!(bomb.code, 400);
    assert_unharmed(&server);
}

#[test]
fn hostile_headers_never_fail_the_server() {
    let server = TestServer::new();
    server.create(MAPS, r#"{"metadata":{"name":"own"}}"#);
    let long = "x".repeat(60_000);
    let many = "a/b;q=0.1,".repeat(6000);
    let parameters = "application/json;a=b;c=d;".repeat(2000);
    for name in
        ["accept", "content-type", "accept-encoding", "if-none-match", "user-agent", "audit-id", "range"]
    {
        for value in [
            long.as_str(),
            &many,
            &parameters,
            ";;;,,,===",
            "\t",
            "\"",
            "application/json;as=Table;v=v1;g=meta.k8s.io;as=Table",
        ] {
            for (method, path, body) in [
                ("GET", MAPS.to_owned(), ""),
                ("PATCH", format!("{MAPS}/own"), "{}"),
                ("GET", "/openapi/v3".to_owned(), ""),
            ] {
                let code = server.send(method, &path, body, &[(name, value)]).code;
                let shown = &value[..value.len().min(30)];
                assert!(code < 500, "{method} {path} with {name}: {shown}: {code}");
            }
        }
    }
    let pod = r#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    let reply = server.send(
        "POST",
        &format!("{PODS}?fieldManager={}", "m".repeat(10_000)),
        pod,
        &[content_type("POST")],
    );
    assert!(matches!(reply.code, 400 | 422), "{}", reply.code);
    assert_unharmed(&server);
}
