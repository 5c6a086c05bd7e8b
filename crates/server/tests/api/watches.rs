//! Watches: order, rests, and chunks that equal watches share.

use bytes::Bytes;

use super::*;

#[test]
fn watch_sends_events_after_its_revision() {
    let server = TestServer::new();
    let made = server.create_config_map("a", "");
    let revision = made.str_at(&["metadata", "resourceVersion"]);
    server.create_config_map("b", "");
    server.call("DELETE", &format!("{MAPS}/a"), "");
    let path = format!("{MAPS}?watch=true&resourceVersion={revision}");
    let Reply { code, body, .. } = server.get(&path);
    let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let lines: Vec<Value> = lines.map(|line| json::parse(line).unwrap()).collect();
    let received = |line: &Value| {
        (line.str_at(&["type"]).to_owned(), line.str_at(&["object", "metadata", "name"]).to_owned())
    };
    let expected = [("ADDED", "b"), ("DELETED", "a")].map(|(kind, name)| (kind.to_owned(), name.to_owned()));
    assert_eq!((code, lines.iter().map(received).collect::<Vec<_>>()), (200, expected.to_vec()));
}

#[test]
fn first_event_is_sent_at_once_and_a_burst_together() {
    let server = TestServer::paused();
    let mut frames = server.watch(&format!("{MAPS}?{LIVE}"), JSON);
    let mut received = || {
        let frames = server.ready_frames(&mut *frames);
        assert!(frames.len() <= 1, "events that are ready share a frame");
        event_names(&frames).len()
    };
    let pass = |millis| server.runtime.block_on(tokio::time::advance(Duration::from_millis(millis)));
    assert_eq!(received(), 0);
    server.create_config_map("a", "");
    assert_eq!(received(), 1, "the first at once");
    server.create_config_map("b", "");
    pass(1);
    server.create_config_map("c", "");
    assert_eq!(received(), 0, "the others wait");
    pass(6);
    assert_eq!(received(), 2, "and go together");
    pass(20);
    server.create_config_map("d", "");
    assert_eq!(received(), 1, "at once again");
}

fn event_names(pieces: &[Bytes]) -> Vec<String> {
    let text = pieces.concat();
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| json::parse(line).unwrap().str_at(&["object", "metadata", "name"]).to_owned()).collect()
}

const JSON: &str = "application/json";
const LIVE: &str = "watch=true&resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";

#[test]
fn equal_watches_share_chunks_and_each_gets_every_event_once() {
    let server = TestServer::paused();
    let pass = |millis| server.runtime.block_on(tokio::time::advance(Duration::from_millis(millis)));
    let path = format!("{MAPS}?{LIVE}");
    let selected = format!("{path}&labelSelector=of%3Dtest");
    let mut equal: Vec<_> = (0..3).map(|_| server.watch(&path, JSON)).collect();
    let mut other = server.watch(&selected, JSON);
    let (mut seen, mut seen_by_other) = (vec![Vec::new(); 4], Vec::new());
    let mut shared = 0;
    for round in 0_usize..20 {
        for change in 0..=(round % 4) {
            server.create_config_map(
                &format!("n{round}-{change}"),
                if change == 1 { r#","labels":{"of":"test"}"# } else { "" },
            );
        }
        if round == 7 {
            // It starts in the middle, while the others rest.
            equal.push(server.watch(&path, JSON));
        }
        let mut firsts = Vec::new();
        for (watch, seen) in equal.iter_mut().zip(&mut seen) {
            let pieces = server.ready_frames(&mut **watch);
            firsts.extend(pieces.first().map(|piece| piece.as_ptr()));
            seen.extend(event_names(&pieces));
        }
        shared += firsts.len() - firsts.iter().collect::<std::collections::BTreeSet<_>>().len();
        seen_by_other.extend(event_names(&server.ready_frames(&mut *other)));
        pass(round as u64 % 3 * 3);
    }
    pass(100);
    for (watch, seen) in equal.iter_mut().zip(&mut seen) {
        seen.extend(event_names(&server.ready_frames(&mut **watch)));
    }
    seen_by_other.extend(event_names(&server.ready_frames(&mut *other)));
    let all = |of: std::ops::Range<usize>| -> Vec<String> {
        of.flat_map(|round| (0..=(round % 4)).map(move |change| format!("n{round}-{change}"))).collect()
    };
    assert_eq!(seen[0], all(0..20));
    assert_eq!(seen[1], seen[0]);
    assert_eq!(seen[2], seen[0]);
    assert_eq!(seen[3], all(8..20));
    let labeled: Vec<String> = all(0..20).into_iter().filter(|name| name.ends_with("-1")).collect();
    assert_eq!(seen_by_other, labeled);
    assert!(shared > 10, "only {shared} chunks were shared");
}

#[test]
fn watches_of_a_large_object_hold_no_copies_of_it() {
    let server = TestServer::paused();
    let body = format!(
        r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"big"}},"data":{{"k":"{}"}}}}"#,
        "x".repeat(500_000)
    );
    assert_eq!(server.call("POST", MAPS, &body).0, 201);
    let path = format!("{MAPS}?watch=true&fieldSelector=metadata.name%3Dbig");
    let mut watches: Vec<_> = (0..2).map(|_| server.watch(&path, JSON)).collect();
    let all: Vec<_> = watches.iter_mut().map(|watch| server.ready_frames(&mut **watch)).collect();
    assert_eq!(event_names(&all[0]), ["big"]);
    let large = |pieces: &[Bytes]| pieces.iter().find(|piece| piece.len() > 500_000).unwrap().as_ptr();
    assert_eq!(large(&all[0]), large(&all[1]));
}

#[test]
fn equal_watches_of_tables_share_rows_once_each_has_its_columns() {
    let server = TestServer::paused();
    let pass = |millis| server.runtime.block_on(tokio::time::advance(Duration::from_millis(millis)));
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let mut watches: Vec<_> = (0..2).map(|_| server.watch(&format!("{MAPS}?{LIVE}"), table)).collect();
    let mut rounds = Vec::new();
    for name in ["a", "b"] {
        server.create_config_map(name, "");
        rounds.push(
            watches.iter_mut().map(|watch| server.ready_frames(&mut **watch).concat()).collect::<Vec<_>>(),
        );
        pass(100);
    }
    let has_columns = |text: &[u8]| {
        let event = json::parse(text).unwrap();
        let columns = event.at(&["object", "columnDefinitions"]).and_then(Value::as_list);
        columns.is_some_and(|columns| !columns.is_empty())
    };
    assert!(rounds[0].iter().all(|text| has_columns(text)));
    assert!(!rounds[1].iter().any(|text| has_columns(text)));
    assert_eq!(rounds[1][0], rounds[1][1]);
}
