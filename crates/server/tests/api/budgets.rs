//! Disruption budgets under concurrent evictions.

use std::sync::atomic::{AtomicUsize, Ordering};

use setpoint_api::Value;
use setpoint_server::exchange::Service;

use crate::harness::{PODS, TestServer, content_type, request};

const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

/// Creates a ready pod.
fn create_ready_pod(server: &TestServer, name: &str) {
    let pod = format!(
        r#"{{"metadata":{{"name":"{name}","labels":{{"app":"web"}}}},"spec":{{"containers":[{{"name":"c","image":"i"}}]}}}}"#
    );
    server.create(PODS, &pod);
    let status = r#"{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}"#;
    assert_eq!(server.call("PATCH", &format!("{PODS}/{name}/status"), status).0, 200);
}

#[test]
fn sixty_four_concurrent_evictions_never_exceed_a_budget() {
    const EVICTIONS: usize = 64;
    const ALLOWED: usize = 10;
    let server = TestServer::new();
    (0..EVICTIONS).for_each(|n| create_ready_pod(&server, &format!("p-{n}")));
    let healthy = EVICTIONS - ALLOWED;
    let budget = format!(
        r#"{{"metadata":{{"name":"b"}},"spec":{{"minAvailable":{healthy},"selector":{{"matchLabels":{{"app":"web"}}}}}}}}"#
    );
    server.create(BUDGETS, &budget);
    let status = format!(
        r#"{{"status":{{"observedGeneration":1,"disruptionsAllowed":{ALLOWED},"currentHealthy":{EVICTIONS},
        "desiredHealthy":{healthy},"expectedPods":{EVICTIONS}}}}}"#
    );
    assert_eq!(server.call("PATCH", &format!("{BUDGETS}/b/status"), &status).0, 200);
    let (evicted, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let (server, evicted, refused) = (&server, &evicted, &refused);
        for n in 0..EVICTIONS {
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                let body = format!(
                    r#"{{"kind":"Eviction","apiVersion":"policy/v1","metadata":{{"name":"p-{n}"}},"deleteOptions":{{"gracePeriodSeconds":0}}}}"#
                );
                let path = format!("{PODS}/p-{n}/eviction");
                // A conflict with another eviction is answered like an exhausted budget or a conflict: the client retries.
                let _earlier = loop {
                    let request = request("POST", &path, &body, &[content_type("POST")]);
                    match runtime.block_on(server.api.answer(request)).status.as_u16() {
                        201 => break evicted.fetch_add(1, Ordering::Relaxed),
                        429 => break refused.fetch_add(1, Ordering::Relaxed),
                        409 => {}
                        other => panic!("{other}"),
                    }
                };
            });
        }
    });
    assert_eq!((evicted.into_inner(), refused.into_inner()), (ALLOWED, EVICTIONS - ALLOWED));
    let (_, list) = server.call("GET", PODS, "");
    assert_eq!(list.get("items").and_then(Value::as_list).unwrap().len(), EVICTIONS - ALLOWED);
    let budget = server.object(&format!("{BUDGETS}/b"));
    assert_eq!(budget.at(&["status", "disruptionsAllowed"]).and_then(Value::as_i64), Some(0));
}
