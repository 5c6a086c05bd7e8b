//! Backends on disk, and texts about credentials.

use std::path::Path;

use http::HeaderValue;
use setpoint_api::ManualClock;
use setpoint_audit::Stage;

use super::*;

const NOW: Time = Time(1_700_000_000_123_456);

fn clock() -> Arc<dyn Clock> {
    Arc::new(ManualClock::new(NOW))
}

fn batch(max_size: usize) -> Mode {
    let throttle = None;
    Mode::Batch(BatchOptions { buffer_size: 100, max_size, max_wait: Duration::from_secs(3600), throttle })
}

fn file(path: &Path, max_bytes: u64) -> LogTarget {
    LogTarget::File(path.to_owned(), RotationOptions { max_bytes, ..RotationOptions::default() })
}

fn auditor(target: LogTarget, mode: Mode) -> Auditor {
    let metrics = Arc::new(AuditMetrics::default());
    let options = AuditLogOptions { target, format: LogFormat::Json, mode, truncation: None };
    let log = open_log(options, clock(), &metrics).unwrap();
    Auditor::new(Policy::default(), vec![log], clock(), metrics)
}

fn event<'a>(user: &'a Identity, annotations: &'a std::collections::BTreeMap<String, String>) -> Event<'a> {
    Event {
        level: Level::Metadata,
        audit_id: "id",
        stage: Stage::ResponseComplete,
        request_uri: "/",
        verb: "get",
        user,
        impersonated_user: None,
        impersonation_constraint: "",
        source_ips: &[],
        user_agent: "",
        object: None,
        response_status: b"",
        code: 0,
        request_object: b"",
        response_object: b"",
        received_at: NOW,
        stage_at: NOW,
        annotations,
        is_truncated: false,
    }
}

fn send(auditor: &Auditor) {
    auditor.send_detached(&event(&Identity::default(), &Default::default()));
}

#[test]
fn stop_flushes_events_that_wait_for_a_full_batch() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new/audit.log");
    let auditor = auditor(file(&path, 0), batch(50));
    for _ in 0..10 {
        send(&auditor);
    }
    auditor.shutdown(Duration::from_secs(60));
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 10);
    assert_eq!(auditor.metrics.errors(), 0);
    send(&auditor);
    assert_eq!(auditor.metrics.errors(), 1, "an event after the end is counted");
}

#[test]
fn log_is_rotated_while_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    let auditor = auditor(file(&path, 1000), batch(1));
    for _ in 0..20 {
        send(&auditor);
    }
    auditor.shutdown(Duration::from_secs(60));
    let files: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let lines = |path: &std::path::PathBuf| std::fs::read_to_string(path).unwrap().lines().count();
    assert!(files.len() > 3, "{files:?}");
    assert_eq!(files.iter().map(lines).sum::<usize>(), 20);
    assert!(files.iter().all(|path| std::fs::metadata(path).unwrap().len() <= 1000));
}

#[tokio::test]
async fn failed_write_is_counted_and_reported_to_a_strict_request() {
    let metrics = Arc::new(AuditMetrics::default());
    let (target, mode) =
        (LogTarget::File("/dev/full".into(), RotationOptions::default()), Mode::Blocking { is_strict: true });
    let options = AuditLogOptions { target, format: LogFormat::Legacy, mode, truncation: None };
    let log = open_log(options, clock(), &metrics).unwrap();
    let auditor = Auditor::new(Policy::default(), vec![log], clock(), Arc::clone(&metrics));
    let (user, annotations) = Default::default();
    assert!(!auditor.send(&event(&user, &annotations)).wait().await);
    assert_eq!(metrics.errors(), 1);
}

#[test]
fn log_that_cannot_be_opened_is_an_error() {
    let metrics = Arc::new(AuditMetrics::default());
    let options = |path: &Path| AuditLogOptions {
        target: file(path, 0),
        format: LogFormat::Json,
        mode: batch(1),
        truncation: None,
    };
    let dir = tempfile::tempdir().unwrap();
    assert!(open_log(options(dir.path()), clock(), &metrics).is_err());
    assert!(open_log(options(Path::new("/dev/null/audit.log")), clock(), &metrics).is_err());
}

#[test]
fn attempted_credentials_are_named_but_not_shown() {
    let with = |value: &'static str| {
        HeaderMap::from_iter([(http::header::AUTHORIZATION, HeaderValue::from_static(value))])
    };
    for (headers, query, has_certificate, expected) in [
        (HeaderMap::new(), "", false, "Authentication failed, no credentials provided"),
        (with("Bearer secret"), "", false, "Authentication failed, attempted: bearer"),
        (
            with("Basic c2VjcmV0"),
            "a&access_token=secret",
            true,
            "Authentication failed, attempted: basic, access_token, x509",
        ),
        (with("secret"), "access_token=", false, "Authentication failed, no credentials provided"),
    ] {
        assert_eq!(attempted(&headers, query, has_certificate), expected);
    }
}
