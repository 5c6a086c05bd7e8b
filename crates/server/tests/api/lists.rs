//! Cached lists: the answer of every form is the same from the cache as without it, and never shows a past state.

use super::*;

const FORMS: [&str; 6] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
];

fn list(server: &TestServer, path: &str, accept: &str) -> Vec<u8> {
    let reply = server.get_as(path, accept);
    assert_eq!(reply.code, 200);
    reply.body
}

/// Returns a list that no cache answers: it names its revision.
fn uncached(server: &TestServer, path: &str, accept: &str) -> Vec<u8> {
    let (_, newest) = server.call("GET", &format!("{MAPS}?limit=1"), "");
    let revision = newest.str_at(&["metadata", "resourceVersion"]).to_owned();
    let separator = if path.contains('?') { '&' } else { '?' };
    let exact = format!("{path}{separator}resourceVersion={revision}&resourceVersionMatch=Exact");
    list(server, &exact, accept)
}

#[test]
fn cached_lists_equal_uncached_ones_in_every_form_and_after_every_change() {
    let server = TestServer::new();
    for n in 0..150 {
        server.create_config_map(&format!("m{n:03}"), &format!(r#","labels":{{"half":"{}"}}"#, n % 2));
    }
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let paths = [
        MAPS.to_owned(),
        "/api/v1/configmaps?resourceVersion=0".to_owned(),
        format!("{MAPS}?labelSelector=half%3D1"),
        format!("{MAPS}?limit=500"),
        format!("{MAPS}?fieldSelector=metadata.name%3Dnothing"),
    ];
    let check = || {
        for (path, accept) in paths.iter().flat_map(|path| FORMS.map(|accept| (path, accept))) {
            let expected = uncached(&server, &path.replace("resourceVersion=0", ""), accept);
            for turn in 0..4 {
                assert!(list(&server, path, accept) == expected, "{path} {accept} {turn}");
            }
        }
    };
    check();
    // Of another resource: the list's own revision changes alone.
    let body = r#"{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"x"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#;
    assert_eq!(server.call("POST", deployments, body).0, 201);
    check();
    server.call("PATCH", &format!("{MAPS}/m001"), r#"{"data":{"k":"changed"}}"#);
    check();
    server.call("DELETE", &format!("{MAPS}/m002"), "");
    check();
    server.create_config_map("m002", "");
    check();
}

#[test]
fn cached_tables_show_ages_to_the_second() {
    let server = TestServer::new();
    for n in 0..60 {
        server.create_config_map(&format!("m{n:03}"), "");
    }
    let age = |server: &TestServer| {
        let table = json::parse(&list(server, MAPS, FORMS[3])).unwrap();
        let rows = table.get("rows").and_then(Value::as_list).unwrap();
        let cells = rows[0].get("cells").and_then(Value::as_list).unwrap();
        cells.last().and_then(Value::as_str).unwrap().to_owned()
    };
    for seconds in [1, 2, 3] {
        server.clock.advance(Duration::from_secs(1));
        for _ in 0..3 {
            assert_eq!(age(&server), format!("{seconds}s"));
        }
    }
}

#[test]
fn pages_of_a_list_are_not_answered_from_the_cache_of_the_whole() {
    let server = TestServer::new();
    for n in 0..120 {
        server.create_config_map(&format!("m{n:03}"), "");
    }
    for _ in 0..3 {
        let (_, all) = server.call("GET", MAPS, "");
        let (_, page) = server.call("GET", &format!("{MAPS}?limit=100"), "");
        assert_eq!((names(&all).len(), names(&page).len()), (120, 100));
        let token = page.str_at(&["metadata", "continue"]);
        let (_, rest) = server.call("GET", &format!("{MAPS}?limit=100&continue={token}"), "");
        assert_eq!(names(&rest).len(), 20);
    }
}
