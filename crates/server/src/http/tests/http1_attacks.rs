//! Attacks on HTTP/1.1: request smuggling, header floods, slow clients, and odd targets. Each is refused or framed in one
//! way, and other clients are served meanwhile.

use super::*;

/// Text of a request that no server may find in the body of another.
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n";
/// Bytes that sockets and TLS may buffer of what a server never reads.
const BUFFERED_BYTES_MAX: usize = 32 << 20;

impl Running {
    /// Sends bytes on a connection of its own, and reads until the server closes it.
    async fn exchange(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect("http/1.1", true).await;
        // The server may close the connection before it has read everything.
        let _ = stream.write_all(bytes).await;
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response).await;
        String::from_utf8_lossy(&response).into_owned()
    }

    /// Requests that were answered since the last call.
    fn take_answered(&self) -> Vec<String> {
        std::mem::take(&mut *self.sample.answered.lock())
    }

    /// Asserts that another client is served.
    async fn assert_serves_others(&self) {
        for alpn in BOTH {
            assert_eq!(self.client(alpn).await.get("/other").await.0, StatusCode::OK, "{alpn}");
        }
    }
}

/// Status codes of the responses on a connection.
fn codes(responses: &str) -> Vec<&str> {
    responses.split("HTTP/1.1 ").skip(1).filter_map(|response| response.get(..3)).collect()
}

#[tokio::test]
async fn ambiguous_framing_is_refused() {
    let running = start(Bounds::default()).await;
    let length = SMUGGLED.len();
    for fields in [
        format!("content-length: 0\r\ncontent-length: {length}\r\n"),
        format!("content-length: {length}, 0\r\n"),
        "content-length: +1\r\n".to_owned(),
        "content-length: -1\r\n".to_owned(),
        "content-length: 0x1\r\n".to_owned(),
        "content-length: 1 2\r\n".to_owned(),
        "content-length: \r\n".to_owned(),
        "content-length: 99999999999999999999999\r\n".to_owned(),
        format!("content-length : {length}\r\n"),
        format!("content-length: 0\r\n content-length: {length}\r\n"),
        "x: y\r\n folded\r\n".to_owned(),
        "x: y\rcontent-length: 0\r\n".to_owned(),
        "x\0: y\r\n".to_owned(),
        "transfer-encoding : chunked\r\n".to_owned(),
        "transfer-encoding: xchunked\r\n".to_owned(),
        "transfer-encoding: chunked, identity\r\n".to_owned(),
        "transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n".to_owned(),
        "transfer-encoding: identity\r\n".to_owned(),
        "transfer-encoding: \"chunked\"\r\n".to_owned(),
        "transfer-encoding: chunked;q=1\r\n".to_owned(),
        "transfer-encoding:\r\n chunked\r\n".to_owned(),
    ] {
        let request = format!("POST / HTTP/1.1\r\nhost: a\r\n{fields}\r\n{SMUGGLED}");
        let responses = running.exchange(request.as_bytes()).await;
        assert_eq!(codes(&responses), ["400"], "{fields:?}");
        assert_eq!(running.take_answered(), [""; 0], "{fields:?}");
    }
    let old = format!("POST / HTTP/1.0\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{SMUGGLED}");
    assert_eq!(codes(&running.exchange(old.as_bytes()).await), ["400"]);
    running.take_answered();
    running.assert_serves_others().await;
    assert!(running.finish().await);
}

#[tokio::test]
async fn length_beside_chunks_ends_the_connection() {
    let running = start(Bounds::default()).await;
    let length = format!("content-length: {}\r\n", 5 + SMUGGLED.len());
    let chunked = "transfer-encoding: chunked\r\n";
    for fields in
        [format!("{length}{chunked}"), format!("{chunked}{length}"), format!("{length}{chunked}{length}")]
    {
        let request = format!("POST / HTTP/1.1\r\nhost: a\r\n{fields}\r\n0\r\n\r\n{SMUGGLED}");
        let responses = running.exchange(request.as_bytes()).await;
        assert!(matches!(codes(&responses)[..], ["200" | "400"]), "{fields:?}: {responses}");
        assert!(!running.take_answered().iter().any(|request| request.contains("smuggled")), "{fields:?}");
    }
    running.assert_serves_others().await;
    assert!(running.finish().await);
}

#[tokio::test]
async fn malformed_chunks_are_refused() {
    let running = start(Bounds::default()).await;
    let long_extension = format!("1;{}\r\nx\r\n0\r\n\r\n", "e".repeat(20_000));
    let many_extensions = "1;e=e\r\nx\r\n".repeat(8000);
    let long_trailer = format!("0\r\nt: {}\r\n\r\n", "t".repeat(HEADER_BYTES_MAX));
    let many_trailers = format!("0\r\n{}\r\n", "t: t\r\n".repeat(HEADERS_MAX + 1));
    for chunks in [
        "10000000000000001\r\nx\r\n0\r\n\r\n",
        "ffffffffffffffffff\r\nx",
        "-1\r\nx\r\n0\r\n\r\n",
        "0x1\r\nx\r\n0\r\n\r\n",
        " 1\r\nx\r\n0\r\n\r\n",
        "1 1\r\nx\r\n0\r\n\r\n",
        "\r\nx\r\n0\r\n\r\n",
        "1\nx\n0\n\n",
        "1;\nx\r\n0\r\n\r\n",
        "1\r\nxy\r\n0\r\n\r\n",
        "1\r\nx0\r\n\r\n",
        &long_extension,
        &many_extensions,
        &long_trailer,
        &many_trailers,
    ] {
        let head = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
        let responses = running.exchange(format!("{head}{chunks}{SMUGGLED}").as_bytes()).await;
        let shown = &chunks[..chunks.len().min(40)];
        assert!(matches!(codes(&responses)[..], ["400"] | []), "{shown:?}: {responses}");
        assert_eq!(running.take_answered(), [""; 0], "{shown:?}");
    }
    running.assert_serves_others().await;
    assert!(running.finish().await);
}

#[tokio::test]
async fn request_within_a_body_is_never_answered() {
    let running = start(Bounds::default()).await;
    let last = "GET /last HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let length = SMUGGLED.len();
    let sized = format!("content-length: {length}\r\n\r\n{SMUGGLED}");
    let chunked = format!("transfer-encoding: chunked\r\n\r\n{length:x};e=f\r\n{SMUGGLED}\r\n0\r\n\r\n");
    for body in [&sized, &chunked] {
        let responses =
            running.exchange(format!("POST / HTTP/1.1\r\nhost: a\r\n{body}{last}").as_bytes()).await;
        assert_eq!(codes(&responses), ["200", "200"], "{body}");
        assert_eq!(running.take_answered(), ["POST /", "GET /last"]);
        // The body of a refused request is not read, and not taken for the next request either.
        for target in ["/full", "/queue-full"] {
            let request = format!("POST {target} HTTP/1.1\r\nhost: a\r\n{body}{last}");
            let responses = running.exchange(request.as_bytes()).await;
            assert_eq!(codes(&responses).first(), Some(&"429"), "{target}: {responses}");
            assert!(running.take_answered().iter().all(|request| request == "GET /last"), "{target} {body}");
        }
    }
    // A response to HEAD has no body, and a GET may have one.
    for method in ["HEAD", "GET", "DELETE"] {
        let responses =
            running.exchange(format!("{method} / HTTP/1.1\r\nhost: a\r\n{sized}{last}").as_bytes()).await;
        assert_eq!(codes(&responses), ["200", "200"], "{method}");
        assert_eq!(running.take_answered(), [format!("{method} /"), "GET /last".to_owned()]);
    }
    assert!(running.finish().await);
}

#[tokio::test]
async fn odd_targets_reach_no_other_path() {
    let running = start(Bounds::default()).await;
    for (line, answered) in [
        // The authority of an absolute target names this server under another name; its path is the path.
        ("GET https://elsewhere.example/a HTTP/1.1", "GET /a"),
        ("GET https://elsewhere.example HTTP/1.1", "GET /"),
        ("GET //elsewhere.example/a HTTP/1.1", "GET //elsewhere.example/a"),
        ("GET /a/../b HTTP/1.1", "GET /a/../b"),
        ("GET /a/%2e%2e/b HTTP/1.1", "GET /a/%2e%2e/b"),
        ("GET /a;b/c%00d HTTP/1.1", "GET /a;b/c%00d"),
        ("GET /a?b#c HTTP/1.1", "GET /a"),
        ("CONNECT a:443 HTTP/1.1", ""),
        ("OPTIONS * HTTP/1.1", ""),
        ("GET a HTTP/1.1", ""),
        ("GET /a b HTTP/1.1", ""),
        ("GET /a\u{1} HTTP/1.1", ""),
        ("GET /a HTTP/1.2", ""),
        ("GET /a HTTP/2.0", ""),
        ("GET  /a HTTP/1.1", ""),
        ("G(T /a HTTP/1.1", ""),
    ] {
        let request = format!("{line}\r\nhost: a\r\nconnection: close\r\n\r\n");
        let responses = running.exchange(request.as_bytes()).await;
        if answered.is_empty() {
            assert!(matches!(codes(&responses)[..], ["400" | "405"] | []), "{line}: {responses}");
            assert_eq!(running.take_answered(), [""; 0], "{line}");
        } else {
            assert_eq!(codes(&responses), ["200"], "{line}: {responses}");
            assert_eq!(running.take_answered(), [answered], "{line}");
        }
    }
    let long = format!("GET /{} HTTP/1.1\r\nhost: a\r\n\r\n", "a".repeat(HEADER_BYTES_MAX));
    let responses = running.exchange(long.as_bytes()).await;
    assert!(matches!(codes(&responses)[..], ["414" | "431"]), "{responses}");
    assert_eq!(running.take_answered(), [""; 0]);
    running.assert_serves_others().await;
    assert!(running.finish().await);
}

#[tokio::test]
async fn header_floods_are_refused_in_bounds() {
    let running = start(Bounds::default()).await;
    let many = "x: y\r\n".repeat(1000);
    let huge = format!("x: {}", "y".repeat(64 * 1024));
    for (name, flood) in [("many small fields", many), ("one field without an end", huge)] {
        let mut stream = running.connect("http/1.1", true).await;
        stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n").await.unwrap();
        let mut written = 0;
        while written <= BUFFERED_BYTES_MAX && stream.write_all(flood.as_bytes()).await.is_ok() {
            written += flood.len();
        }
        assert!(written <= BUFFERED_BYTES_MAX, "{name}: the server reads on");
        running.assert_serves_others().await;
    }
    assert_eq!(running.take_answered(), ["GET /other"; 4]);
    assert!(running.finish().await);
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a slow client sends in real time")]
async fn slow_clients_hold_no_connection_and_no_memory() {
    let running = start(Bounds { unauthenticated: 64, ..short_timeouts() }).await;
    let mut slow = Vec::new();
    for number in 0..12 {
        // Without a certificate, so that the connection is among those that are closed first.
        let mut stream =
            running.connect_as("http/1.1", (number % 2 == 0).then_some(&running.pki.admin)).await;
        let begun = match number % 3 {
            0 => "GET / HTTP/1.1\r\nhost: a\r\nx",
            1 => "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3000000\r\n\r\nslow",
            _ => "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2dc6c0\r\nslow",
        };
        stream.write_all(begun.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    running.assert_serves_others().await;
    // A byte now and then, of which a header has as many as it takes, extends no timeout.
    for stream in &mut slow {
        let mut drip = tokio::time::interval(Duration::from_millis(30));
        let mut received = [0; 4096];
        loop {
            tokio::select! {
                read = stream.read(&mut received) => if read.unwrap_or(0) == 0 { break },
                _ = drip.tick() => if stream.write_all(b"x").await.is_err() { break },
            }
        }
    }
    running.assert_serves_others().await;
    assert!(!running.take_answered().iter().any(|request| request.starts_with("POST")));
    assert!(running.finish().await);
}

#[tokio::test]
async fn stalled_handshakes_are_closed_and_make_room() {
    let running = start(Bounds { unauthenticated: 8, ..short_timeouts() }).await;
    // A record header that announces a ClientHello, of which a part arrives.
    let mut stalled = Vec::new();
    for _ in 0..32 {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        let _ = stream.write_all(&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]).await;
        stalled.push(stream);
    }
    running.assert_serves_others().await;
    for mut stream in stalled {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        assert!(rest.len() < 64, "at most an alert");
    }
    running.assert_serves_others().await;
    assert!(running.finish().await);
}
