//! Cost of audit at the level Metadata, as a ratio to the request itself: machines differ.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "harness/test_server.rs"]
mod harness;

use std::sync::Arc;
use std::time::{Duration, Instant};

use harness::{MAPS, SystemClock, TestServer, request};
use setpoint_api::Identity;
use setpoint_audit::Policy;
use setpoint_server::audit::{
    AuditBackend, AuditMetrics, Auditor, BatchOptions, EventQueue, LogFormat, Mode, RequestOrigin,
};
use setpoint_server::exchange::{Request, Service as _};

/// Requests of one measurement.
const REQUESTS: u32 = 5_000;
/// Measurements, of which the fastest counts.
const ROUNDS: usize = 9;
/// A policy of the usual size: the last rule matches.
const POLICY: &str = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [
    {level: None, users: [system:kube-proxy], verbs: [watch], resources: [{resources: [endpoints, services]}]},
    {level: None, users: [system:unsecured], namespaces: [kube-system], verbs: [get]},
    {level: None, userGroups: [system:nodes], verbs: [get], resources: [{resources: [nodes]}]},
    {level: None, nonResourceURLs: [/healthz*, /version, /swagger*]},
    {level: None, resources: [{resources: [events]}]},
    {level: Request, resources: [{group: apps, resources: [deployments, daemonsets]}], verbs: [create, update]},
    {level: Metadata}]}";

/// Time of one request, and of its audit: two events, encoded and queued.
#[expect(clippy::disallowed_methods, reason = "measures the cost of audit")]
fn costs(server: &TestServer, auditor: &Arc<Auditor>, queue: &EventQueue) -> (Duration, Duration) {
    let sent = || {
        let head = request("GET", &format!("{MAPS}/m?resourceVersion=0"), "", &[]);
        let identity = Identity::new(
            "kubernetes-admin",
            vec!["system:masters".to_owned(), "system:authenticated".to_owned()],
        );
        Request { identity, ..head }
    };
    let round = |is_audited: bool| {
        let started = Instant::now();
        for _ in 0..REQUESTS {
            let mut request = sent();
            server.runtime.block_on(async {
                if !is_audited {
                    return drop(server.api.answer(request).await);
                }
                let id = "01234567-89ab-4def-8123-456789abcdef";
                let peer = Some("127.0.0.1".parse().unwrap());
                let origin = RequestOrigin { audit_id: id, peer, received_at: auditor.now() };
                let audited = auditor.begin(&mut request, origin).unwrap().receive().await.unwrap();
                drop(audited.respond(server.api.answer(request).await).await);
            });
        }
        let elapsed = started.elapsed() / REQUESTS;
        queue.discard();
        elapsed
    };
    let fastest = |is_audited| (0..ROUNDS).map(|_| round(is_audited)).min().unwrap();
    let plain = fastest(false);
    (plain, fastest(true).saturating_sub(plain))
}

#[test]
fn metadata_audit_costs_at_most_a_few_requests() {
    let server = TestServer::new();
    let body = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"m"},"data":{"k":"v"}}"#;
    server.create(MAPS, body);
    let (queue, metrics) =
        (Arc::new(EventQueue::new(usize::MAX, 64 << 20)), Arc::new(AuditMetrics::default()));
    let batch = BatchOptions { buffer_size: 1, max_size: 1, max_wait: Duration::ZERO, throttle: None };
    let mode = Mode::new("log", "batch", batch).unwrap();
    let backend =
        AuditBackend::over_queue(LogFormat::Json, mode, None, Arc::clone(&queue), Arc::clone(&metrics));
    let policy = Policy::read(POLICY.as_bytes()).unwrap();
    let auditor = Arc::new(Auditor::new(policy, vec![backend], Arc::new(SystemClock), Arc::clone(&metrics)));
    let (plain, audit) = costs(&server, &auditor, &queue);
    println!("request {plain:?}, audit {audit:?}");
    assert_eq!(metrics.errors(), 0, "every event was queued");
    assert!(audit < plain * 5, "a request takes {plain:?}, and its audit {audit:?}");
}
