//! Isolation: no client, connection or request blocks another.

use super::tls::TlsState;
use super::*;

#[tokio::test]
async fn small_request_is_answered_while_every_worker_is_busy() {
    let running = start(Bounds::default()).await;
    // One blocked request per worker, and more that wait behind them.
    let mut blocked = Vec::new();
    for _ in 0..4 {
        let mut client = running.client("h2").await;
        blocked.push(tokio::spawn(async move { client.get("/worker-block").await.0 }));
    }
    for alpn in BOTH {
        // One on each reactor.
        for _ in 0..2 {
            assert_eq!(running.client(alpn).await.get("/").await.0, StatusCode::OK);
        }
    }
    drop(running.sample.unblock.lock().take());
    for request in blocked {
        assert_eq!(request.await.unwrap(), StatusCode::OK);
    }
    assert!(running.finish().await);
}

#[tokio::test]
async fn chunked_body_is_complete_and_a_panic_aborts_it() {
    let running = start(Bounds::default()).await;
    let expected: String = (0..40).map(|number| format!("{number:0>20000}")).collect();
    for alpn in BOTH {
        let mut client = running.client(alpn).await;
        let (code, headers, body) = client.get("/worker-chunks").await;
        assert_eq!((code, headers.get("content-length")), (StatusCode::OK, None));
        assert!(body == expected.as_bytes());
        let mut zipped = request(Method::GET, "/worker-chunks", String::new());
        zipped.headers_mut().insert("accept-encoding", "gzip".parse().unwrap());
        let (_, headers, body) = client.send(zipped).await;
        assert_eq!(headers["content-encoding"], "gzip");
        assert!(std::io::read_to_string(GzDecoder::new(&body[..])).unwrap() == expected);
        let (code, _, body) = client.send(request(Method::HEAD, "/worker-chunks", String::new())).await;
        assert_eq!((code, body.len()), (StatusCode::OK, 0));
        let mut broken = running.client(alpn).await;
        if let Ok(response) = broken.open(request(Method::GET, "/worker-chunks-panic", String::new())).await {
            assert!(read(response.into_body()).await.is_err(), "{alpn}: a truncated body is an error");
        }
    }
    assert_eq!(running.counters.panics(), 2);
    assert!(running.finish().await);
}

#[tokio::test]
async fn panic_on_a_worker_fails_one_request() {
    let running = start(Bounds::default()).await;
    let mut client = running.client("h2").await;
    let (code, _, body) = client.get("/worker-panic").await;
    assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(String::from_utf8(body).unwrap().contains(r#""reason":"InternalError""#));
    assert_eq!(client.get("/worker").await.0, StatusCode::OK);
    assert_eq!(running.counters.panics(), 1);
    assert!(running.finish().await);
}

#[tokio::test]
async fn flood_of_bare_connections_does_not_lock_out_clients() {
    let running = start(Bounds { unauthenticated: 8, ..Bounds::default() }).await;
    let mut client = running.client("h2").await;
    // The handshake has finished on both sides.
    assert_eq!(client.get("/").await.0, StatusCode::OK);
    let mut flood = Vec::new();
    for _ in 0..50 {
        flood.push(TcpStream::connect(running.address).await.unwrap());
    }
    // The oldest were closed long before the handshake timeout.
    assert_eq!(flood[0].read(&mut [0; 16]).await.unwrap_or(0), 0);
    assert!(running.counters.evictions() >= 40, "{}", running.counters.evictions());
    assert_eq!(running.client("http/1.1").await.get("/").await.0, StatusCode::OK);
    assert_eq!(client.get("/").await.0, StatusCode::OK, "an authenticated connection is never evicted");
    assert!(running.finish().await);
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "polls a server over real sockets")]
async fn bytes_of_bodies_in_flight_are_bounded() {
    let running = start(Bounds { bodies_bytes: 100_000, ..Bounds::default() }).await;
    let mut client = running.client("h2").await;
    let mut tries = 0;
    // The test cannot observe that the slow body's bytes have arrived; a body that comes before them takes their
    // memory.
    let mut slow = loop {
        let mut slow = running.connect("http/1.1", true).await;
        slow.write_all(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 70000\r\n\r\n").await.unwrap();
        slow.write_all(&[b'x'; 69_999]).await.unwrap();
        slow.flush().await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let (code, headers, body) = client.send(request(Method::POST, "/", "x".repeat(60_000))).await;
        if code == StatusCode::TOO_MANY_REQUESTS {
            assert_eq!(headers["retry-after"], "1");
            assert!(String::from_utf8(body).unwrap().contains(r#""reason":"TooManyRequests""#));
            break slow;
        }
        tries += 1;
        assert!(code == StatusCode::OK && tries < 50, "{code} after {tries} tries");
    };
    assert_eq!(client.send(request(Method::POST, "/", "x".repeat(1000))).await.0, StatusCode::OK);
    slow.write_all(b"x").await.unwrap();
    let mut head = [0; 15];
    slow.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200 OK");
    assert_eq!(client.send(request(Method::POST, "/", "x".repeat(60_000))).await.0, StatusCode::OK);
    assert!(running.finish().await);
}

#[tokio::test]
async fn response_bytes_are_bounded_and_every_commit_is_answered() {
    let running = start(Bounds { responses_bytes: 100_000, ..Bounds::default() }).await;
    let mut client = running.client("h2").await;
    assert_eq!(client.get("/large").await.0, StatusCode::TOO_MANY_REQUESTS);
    let refused = client.send(request(Method::POST, "/large-refused", String::new())).await;
    assert_eq!(refused.0, StatusCode::TOO_MANY_REQUESTS, "a refusal is withheld too");
    let written = client.send(request(Method::POST, "/large", String::new())).await;
    assert_eq!((written.0, written.2.len()), (StatusCode::OK, 300_000));
    assert!(running.finish().await);
}

#[tokio::test]
async fn http_1_1_request_needs_exactly_one_host() {
    let running = start(Bounds::default()).await;
    for (hosts, code, message) in [
        ("", 400, "missing required Host header"),
        ("host: a\r\nHost: b\r\n", 400, "too many Host headers"),
        ("host: a\r\n", 200, ""),
    ] {
        let mut stream = running.connect("http/1.1", true).await;
        let text = format!("GET / HTTP/1.1\r\n{hosts}connection: close\r\n\r\n");
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response).await;
        let response = String::from_utf8(response).unwrap();
        assert!(
            response.starts_with(&format!("HTTP/1.1 {code} ")) && response.contains(message),
            "{response}"
        );
    }
    assert!(running.finish().await);
}

#[tokio::test]
async fn certificate_is_verified_again_while_its_connection_lives() {
    let start = now();
    let pki = Pki::ephemeral(&["127.0.0.1".to_owned()], start, 7).unwrap();
    let chain = [CertificateDer::from_pem_slice(pki.admin.certificate.as_bytes()).unwrap()];
    let start = u64::try_from(start.0 / 1_000_000).unwrap();
    let certificate = tls::ClientCertificate::new(Tls::new(&pki).unwrap().state(), &chain, start);
    let user = |at: u64| certificate.proof(at).identity.ok().flatten().map(|identity| identity.user);
    let admin = Some("kubernetes-admin".to_owned());
    let years = |years: u64| years * 365 * 24 * 3600;
    assert_eq!(user(start), admin);
    assert_eq!(user(start + 30), admin);
    assert_eq!(user(start + years(100)), None, "it has expired");
    assert_eq!(user(start - years(40)), None, "it is not valid yet");
    assert_eq!(user(start + 1), admin);
}

proptest::proptest! {
    #[test]
    fn mutated_certificate_proves_no_user(
        at in proptest::prelude::any::<proptest::sample::Index>(),
        flip in 1..=255_u8,
        cut in proptest::option::weighted(0.2, 0..600_usize),
        rest in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..4),
    ) {
        static PKI: std::sync::LazyLock<(Pki, TlsState)> = std::sync::LazyLock::new(|| {
            let pki = Pki::ephemeral(&["127.0.0.1".to_owned()], now(), 7).unwrap();
            let state = Tls::new(&pki).unwrap().state();
            (pki, state)
        });
        let (pki, state) = &*PKI;
        let seconds = u64::try_from(now().0 / 1_000_000).unwrap();
        let proof = |der: Vec<u8>| {
            let certificate = tls::ClientCertificate::new(state.clone(), &[CertificateDer::from(der)], seconds);
            (certificate.proof(seconds), certificate.is_valid(seconds))
        };
        let valid = CertificateDer::from_pem_slice(pki.admin.certificate.as_bytes()).unwrap().to_vec();
        let mut mutated = valid.clone();
        let at = at.index(mutated.len());
        mutated[at] ^= flip;
        mutated.truncate(cut.unwrap_or(usize::MAX));
        mutated.extend(rest);
        let (proof_of_mutated, is_valid) = proof(mutated);
        proptest::prop_assert!(!matches!(proof_of_mutated.identity, Ok(Some(_))), "byte {}", at);
        proptest::prop_assert!(proof_of_mutated.proxy.is_none() && !is_valid);
        proptest::prop_assert!(proof(valid).1, "the certificate itself stays valid");
    }
}

#[test]
fn connections_leave_descriptors_for_the_store() {
    for limit in [64, 256, 1024, 4096, 65_536, 1 << 40] {
        let bounds = Bounds::for_descriptors(limit);
        let sockets = (bounds.connections + bounds.unauthenticated) as u64;
        assert!(
            sockets >= limit.min(4096) / 4 && sockets + limit.min(512) / 2 <= limit,
            "{limit}: {bounds:?}"
        );
    }
}
