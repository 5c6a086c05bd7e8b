//! Attacks on HTTP/2, with frames written by hand: rapid reset, floods of every type of frame, header bombs, malformed
//! requests and clients that never read. Each ends its stream or its connection in bounds, and others are served.

use super::*;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
/// Flag of the last frame of a stream, and of an acknowledgment.
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const WHOLE: u8 = END_STREAM | END_HEADERS;

const PROTOCOL_ERROR: u32 = 1;
const FLOW_CONTROL_ERROR: u32 = 3;
const FRAME_SIZE_ERROR: u32 = 6;
const COMPRESSION_ERROR: u32 = 9;
const ENHANCE_YOUR_CALM: u32 = 11;

/// Bytes that sockets and TLS may buffer of what a server never reads.
const BUFFERED_BYTES_MAX: usize = 32 << 20;
/// Bytes of one write of a flood.
const WRITE_BYTES: usize = 16 * 1024;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// Header field in HPACK, neither indexed nor compressed.
fn field(name: &str, value: impl AsRef<[u8]>) -> Vec<u8> {
    [vec![0], hpack_text(name.as_bytes()), hpack_text(value.as_ref())].concat()
}

/// Text in HPACK: its length with a prefix of seven bits, and its bytes.
fn hpack_text(bytes: &[u8]) -> Vec<u8> {
    let Some(mut rest) = bytes.len().checked_sub(127) else {
        return [&[u8::try_from(bytes.len()).unwrap()], bytes].concat();
    };
    let mut text = vec![127];
    while rest >= 128 {
        text.push(u8::try_from(rest % 128).unwrap() | 128);
        rest /= 128;
    }
    text.push(u8::try_from(rest).unwrap());
    [&text[..], bytes].concat()
}

/// Pseudo-header fields of a request.
fn pseudo(method: &str, path: &str) -> Vec<u8> {
    let fields = [(":method", method), (":scheme", "https"), (":authority", "127.0.0.1"), (":path", path)];
    fields.iter().flat_map(|(name, value)| field(name, value)).collect()
}

/// Frame of a whole GET request.
fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, WHOLE, stream, &pseudo("GET", path))
}

/// Preface of a client with these settings.
fn preface(settings: &[(u16, u32)]) -> Vec<u8> {
    let payload: Vec<u8> = settings
        .iter()
        .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
        .collect();
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(SETTINGS, 0, 0, &payload)].concat()
}

/// End of a connection.
#[derive(Debug, Default)]
struct End {
    /// Error code of the last GOAWAY.
    goaway: Option<u32>,
    /// Error codes of reset streams.
    resets: Vec<(u32, u32)>,
    /// Streams that got a response.
    answered: Vec<u32>,
    /// Bytes that the client could write.
    written: usize,
}

impl End {
    /// Reads the frames of a server.
    fn read(received: &[u8]) -> End {
        let mut end = End::default();
        let mut rest = received;
        while let [a, b, c, kind, _, s0, s1, s2, s3, after @ ..] = rest {
            let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            let stream = u32::from_be_bytes([*s0 & 127, *s1, *s2, *s3]);
            let Some(payload) = after.get(..length) else { break };
            let code = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
            match *kind {
                GOAWAY => end.goaway = Some(code(4)),
                RST_STREAM => end.resets.push((stream, code(0))),
                HEADERS => end.answered.push(stream),
                _ => {}
            }
            rest = &after[length..];
        }
        end
    }
}

impl Running {
    /// Sends frames until they end or the server closes the connection, while reading what it sends; then waits for
    /// its end.
    async fn attack(&self, frames: impl Iterator<Item = Vec<u8>>) -> End {
        let stream = self.connect("h2", true).await;
        let (mut reader, mut writer) = tokio::io::split(stream);
        let reading = tokio::spawn(async move {
            let mut received = Vec::new();
            let _ = reader.read_to_end(&mut received).await;
            received
        });
        let mut frames = frames.peekable();
        let (mut written, mut buffer) = (0, Vec::with_capacity(2 * WRITE_BYTES));
        while frames.peek().is_some() {
            buffer.clear();
            while buffer.len() < WRITE_BYTES
                && let Some(frame) = frames.next()
            {
                buffer.extend_from_slice(&frame);
            }
            if reading.is_finished() || writer.write_all(&buffer).await.is_err() {
                break;
            }
            written += buffer.len();
        }
        let received = reading.await.unwrap();
        End { written, ..End::read(&received) }
    }

    /// Sends frames on a connection each, and returns the end of each connection.
    async fn attack_each(&self, attacks: Vec<Vec<u8>>) -> Vec<End> {
        let mut streams = Vec::new();
        for frames in attacks {
            let mut stream = self.connect("h2", true).await;
            let _ = stream.write_all(&[preface(&[]), frames].concat()).await;
            streams.push(stream);
        }
        let mut ends = Vec::new();
        for mut stream in streams {
            let mut received = Vec::new();
            let _ = stream.read_to_end(&mut received).await;
            ends.push(End::read(&received));
        }
        ends
    }

    /// Asserts that a client that begins now is served.
    async fn assert_serves_a_new_client(&self) {
        assert_eq!(self.client("h2").await.get("/other").await.0, StatusCode::OK);
    }

    /// Number of requests that reached the service.
    fn count_answered(&self) -> usize {
        self.sample.answered.lock().len()
    }
}

/// Ids of the streams of a client.
fn streams(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|number| 2 * number + 1)
}

#[tokio::test]
async fn rapid_reset_ends_the_connection() {
    let running = start(Bounds::default()).await;
    let cancel = |stream| frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes());
    let pairs = streams(50_000).flat_map(|stream| [get(stream, "/wait"), cancel(stream)]);
    let end = running.attack([preface(&[])].into_iter().chain(pairs)).await;
    assert_eq!(end.goaway, Some(ENHANCE_YOUR_CALM));
    assert!(running.count_answered() < 5000, "{}", running.count_answered());
    running.assert_serves_a_new_client().await;
    assert!(running.finish().await);
}

#[tokio::test]
async fn requests_that_are_reset_leave_nothing_behind() {
    let running = start(Bounds::default()).await;
    let mut stream = running.connect("h2", true).await;
    stream.write_all(&preface(&[])).await.unwrap();
    let mut received = Vec::new();
    // Bursts that stay below the bound: the server has handled each when it acknowledges the ping behind it.
    for burst in 0..40_u32 {
        let mut frames = Vec::new();
        for number in 0..20 {
            let id = 2 * (burst * 20 + number) + 1;
            frames.extend(get(id, "/queued"));
            frames.extend(frame(RST_STREAM, 0, id, &8_u32.to_be_bytes()));
        }
        let mark = u64::from(burst + 1).to_be_bytes();
        frames.extend(frame(PING, 0, 0, &mark));
        stream.write_all(&frames).await.unwrap();
        let acknowledgment = frame(PING, END_STREAM, 0, &mark);
        while !received.windows(acknowledgment.len()).any(|window| window == acknowledgment) {
            let read = stream.read_buf(&mut received).await.unwrap();
            assert_ne!(read, 0, "the connection is closed");
        }
        received.clear();
    }
    assert_eq!(
        running.count_answered(),
        0,
        "a request that is reset while it waits for its seats never runs"
    );
    running.assert_serves_a_new_client().await;
    drop(stream);
    assert!(running.finish().await, "no request is left");
}

#[tokio::test]
async fn streams_beyond_the_limit_are_refused() {
    let running = start(short_timeouts()).await;
    let requests = streams(20_000).map(|stream| get(stream, "/wait"));
    let running_ref = &running;
    let attack = running_ref.attack([preface(&[])].into_iter().chain(requests));
    let end = tokio::time::timeout(Duration::from_secs(10), attack).await;
    // Requests that wait keep their connection, unless the server refuses to go on.
    if let Ok(end) = end {
        assert_eq!(end.goaway, Some(ENHANCE_YOUR_CALM), "{:?}", end.answered);
    }
    assert!(running.count_answered() <= STREAMS_MAX as usize, "{}", running.count_answered());
    running.assert_serves_a_new_client().await;
    running.sample.release.notify_waiters();
    assert!(running.finish().await);
}

#[tokio::test]
async fn continuation_floods_end_the_connection() {
    let running = start(Bounds::default()).await;
    let full = field("x", "y".repeat(200)).repeat(70);
    for (name, payload) in [("empty", Vec::new()), ("tiny", field("x", "y")), ("full", full)] {
        let begin = [preface(&[]), frame(HEADERS, END_STREAM, 1, &pseudo("GET", "/"))];
        let flood = (0..2_000_000).map(|_| frame(CONTINUATION, 0, 1, &payload));
        let end = running.attack(begin.into_iter().chain(flood)).await;
        assert!(matches!(end.goaway, Some(ENHANCE_YOUR_CALM | PROTOCOL_ERROR)), "{name}: {:?}", end.goaway);
        assert!(end.written < BUFFERED_BYTES_MAX, "{name}: {}", end.written);
        running.assert_serves_a_new_client().await;
    }
    assert!(running.sample.answered.lock().iter().all(|request| request == "GET /other"));
    assert!(running.finish().await);
}

#[tokio::test]
async fn header_bombs_take_bounded_memory() {
    let running = start(short_timeouts()).await;
    // A field of 4 KB in the dynamic table, which each further byte repeats: 16 KB become 64 MB.
    let indexed = |value: &str| [&[0x40, 1, b'x'][..], &hpack_text(value.as_bytes())].concat();
    let bomb = [pseudo("GET", "/bomb"), indexed(&"y".repeat(3968)), vec![0xbe; 12_000]].concat();
    let frames = [preface(&[]), frame(HEADERS, WHOLE, 1, &bomb), frame(HEADERS, WHOLE, 3, &bomb)];
    let end = running.attack(frames.into_iter()).await;
    assert!(end.goaway.is_some(), "{end:?}");
    // Many fields that each take little.
    let many = [pseudo("GET", "/bomb"), field("a", "").repeat(4000)].concat();
    let end = running.attack([preface(&[]), frame(HEADERS, WHOLE, 1, &many)].into_iter()).await;
    assert!(end.goaway.is_some(), "{end:?}");
    assert_eq!(running.count_answered(), 0);
    // Malformed blocks: a larger table than the server permits, an index beyond the tables, an endless number, and a
    // text that is longer than its block.
    let blocks =
        [&[0x3f, 0xe1, 0xff, 0xff, 3][..], &[0xff, 0xff, 3], &[0x7f; 20], &[0xff; 64], &[0, 100, b'x']];
    let frames =
        blocks.iter().map(|block| frame(HEADERS, WHOLE, 1, &[&pseudo("GET", "/")[..], block].concat()));
    for (block, end) in blocks.iter().zip(running.attack_each(frames.collect()).await) {
        assert!(matches!(end.goaway, Some(COMPRESSION_ERROR | PROTOCOL_ERROR)), "{block:x?}: {end:?}");
    }
    assert_eq!(running.count_answered(), 0);
    running.assert_serves_a_new_client().await;
    assert!(running.finish().await);
}

#[tokio::test]
async fn floods_of_control_frames_end_with_the_idle_timeout() {
    let running = start(short_timeouts()).await;
    let floods: [(&str, Vec<u8>); 7] = [
        ("ping", frame(PING, 0, 0, &[0; 8])),
        ("settings", frame(SETTINGS, 0, 0, &[])),
        ("changing settings", frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 255, 255])),
        ("priority", frame(PRIORITY, 0, 3, &[0, 0, 0, 1, 255])),
        ("unknown type", frame(200, 255, 0, &[0; 100])),
        ("unrequested acknowledgments of pings", frame(PING, END_STREAM, 0, &[0; 8])),
        ("tiny windows", frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
    ];
    for (name, flood) in floods {
        let begin = [preface(&[])].into_iter();
        let attack = running.attack(begin.chain(std::iter::repeat_n(flood, usize::MAX)));
        let others = async {
            running.assert_serves_a_new_client().await;
            std::future::pending::<()>().await;
        };
        let end = tokio::select! {
            end = attack => end,
            () = others => unreachable!("it never ends"),
        };
        assert!(end.answered.is_empty(), "{name}");
    }
    running.assert_serves_a_new_client().await;
    assert!(running.finish().await);
}

#[tokio::test]
async fn client_that_reads_no_acknowledgment_is_not_buffered() {
    let running = start(short_timeouts()).await;
    let pings = frame(PING, 0, 0, &[7; 8]).repeat(1000);
    let settings = frame(SETTINGS, 0, 0, &[]).repeat(1000);
    for flood in [pings, settings] {
        let mut stream = running.connect("h2", true).await;
        stream.write_all(&preface(&[])).await.unwrap();
        let mut written = 0;
        // The server stops reading while its acknowledgments are stuck, and closes the connection then.
        while written <= 2 * BUFFERED_BYTES_MAX && stream.write_all(&flood).await.is_ok() {
            written += flood.len();
        }
        assert!(written <= 2 * BUFFERED_BYTES_MAX, "the server reads on");
        running.assert_serves_a_new_client().await;
    }
    assert!(running.finish().await);
}

#[tokio::test]
async fn closed_windows_hold_bounded_memory_and_end() {
    let running = start(Bounds { responses_bytes: 2 << 20, ..short_timeouts() }).await;
    // No response may be sent, so that all of them wait in the server.
    let frames = [preface(&[(4, 0)])].into_iter().chain(streams(200).map(|stream| get(stream, "/large")));
    let begun = running.counters.connections_cut();
    let attack = running.attack(frames);
    let end = attack.await;
    assert!(!end.answered.is_empty(), "heads need no window");
    assert_eq!(running.counters.connections_cut(), begun + 1);
    running.assert_serves_a_new_client().await;
    // A window of one byte more now and then is no progress either.
    let mut stream = running.connect("h2", true).await;
    let frames = [preface(&[(4, 0)]), get(1, "/worker-chunks")].concat();
    stream.write_all(&frames).await.unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert_eq!(running.counters.connections_cut(), begun + 2);
    running.assert_serves_a_new_client().await;
    assert!(running.finish().await);
}

#[tokio::test]
async fn floods_of_empty_data_end() {
    let running = start(short_timeouts()).await;
    let begin = [preface(&[]), frame(HEADERS, END_HEADERS, 1, &pseudo("POST", "/"))];
    let flood = std::iter::repeat_n(frame(DATA, 0, 1, &[]), 5_000_000);
    let end = running.attack(begin.into_iter().chain(flood)).await;
    assert!(end.goaway.is_some() || !end.resets.is_empty(), "{end:?}");
    assert!(!running.sample.answered.lock().iter().any(|request| request == "POST /"));
    running.assert_serves_a_new_client().await;
    assert!(running.finish().await);
}

#[tokio::test]
async fn malformed_frames_end_the_connection() {
    let running = start(short_timeouts()).await;
    let open = || frame(HEADERS, END_HEADERS, 1, &pseudo("POST", "/malformed"));
    let attacks = [
        ("data of no stream", frame(DATA, 0, 1, b"x")),
        ("reset of no stream", frame(RST_STREAM, 0, 1, &[0; 4])),
        ("headers of stream 0", frame(HEADERS, WHOLE, 0, &pseudo("GET", "/malformed"))),
        ("headers of a server's stream", get(2, "/malformed")),
        ("lone continuation", frame(CONTINUATION, END_HEADERS, 1, &[])),
        ("frame within headers", [frame(HEADERS, 0, 1, &[]), frame(PING, 0, 0, &[0; 8])].concat()),
        ("oversized frame", [&[255, 255, 255, DATA, 0, 0, 0, 0, 1][..], &[0; 100]].concat()),
        ("short ping", frame(PING, 0, 0, &[0; 7])),
        ("odd settings", frame(SETTINGS, 0, 0, &[0; 5])),
        ("window of zero", frame(WINDOW_UPDATE, 0, 0, &[0; 4])),
        ("window overflow", frame(WINDOW_UPDATE, 0, 0, &[127, 255, 255, 255])),
        ("padding beyond the frame", [open(), frame(DATA, 8, 1, &[200, 1])].concat()),
        ("push of a client", frame(5, END_HEADERS, 1, &[0, 0, 0, 2])),
    ];
    let frames = attacks.iter().map(|(_, frames)| frames.clone()).collect();
    for ((name, _), end) in attacks.iter().zip(running.attack_each(frames).await) {
        // The library has one code for most errors.
        let is_error = matches!(end.goaway, Some(PROTOCOL_ERROR | FLOW_CONTROL_ERROR | FRAME_SIZE_ERROR));
        assert!(is_error, "{name}: {end:?}");
    }
    assert_eq!(running.count_answered(), 0);
    running.assert_serves_a_new_client().await;
    assert!(running.finish().await);
}

#[tokio::test]
async fn malformed_requests_are_never_answered() {
    let running = start(short_timeouts()).await;
    let with = |fields: Vec<u8>| [pseudo("GET", "/malformed"), fields].concat();
    let path =
        |path: &str| [vec![0x82, 0x87], field(":authority", "127.0.0.1"), field(":path", path)].concat();
    let attacks = [
        ("connection", with(field("connection", "close"))),
        ("transfer-encoding", with(field("transfer-encoding", "chunked"))),
        ("upgrade", with(field("upgrade", "websocket"))),
        ("line break in a value", with(field("x", "y\r\nz: w"))),
        ("line feed in a value", with(field("x", "y\nz"))),
        ("null in a value", with(field("x", "y\0z"))),
        ("line break in a name", with(field("x\r\ny", "z"))),
        ("colon in a name", with(field("x:y", "z"))),
        ("space in a name", with(field("x y", "z"))),
        ("upper case", with(field("X-Y", "z"))),
        ("empty name", with(field("", "z"))),
        ("unknown pseudo field", with(field(":other", "z"))),
        ("second path", with(field(":path", "/malformed2"))),
        ("second method", with(field(":method", "POST"))),
        ("response field", with(field(":status", "200"))),
        ("pseudo field behind others", [field("x", "y"), pseudo("GET", "/malformed")].concat()),
        ("no path", [vec![0x82, 0x87], field(":authority", "127.0.0.1")].concat()),
        ("empty path", path("")),
        ("space in the path", path("/malformed /x")),
        ("line break in the path", path("/malformed\r\nx: y")),
        ("long path", path(&format!("/{}", "a".repeat(70_000)))),
        ("no method", [vec![0x87], field(":path", "/malformed")].concat()),
        ("malformed length", with(field("content-length", "1x"))),
        ("two lengths", with([field("content-length", "0"), field("content-length", "1")].concat())),
        ("length without a body", with(field("content-length", "5"))),
        ("another host", with(field("host", "elsewhere.example"))),
        ("two hosts", with([field("host", "127.0.0.1"), field("host", "127.0.0.1")].concat())),
    ];
    let frames = attacks.iter().map(|(_, block)| frame(HEADERS, WHOLE, 1, block)).collect();
    for ((name, _), end) in attacks.iter().zip(running.attack_each(frames).await) {
        let is_refused = end.goaway.is_some() || !end.resets.is_empty() || !end.answered.is_empty();
        assert!(is_refused, "{name}: {end:?}");
    }
    assert_eq!(running.sample.answered.lock().as_slice(), [""; 0]);
    // A body that is shorter or longer than its length.
    let head = [pseudo("POST", "/malformed"), field("content-length", "5")].concat();
    let frames = [&b"1234"[..], b"123456"]
        .map(|body| [frame(HEADERS, END_HEADERS, 1, &head), frame(DATA, END_STREAM, 1, body)].concat());
    for end in running.attack_each(frames.to_vec()).await {
        assert!(!end.resets.is_empty() || end.goaway.is_some() || end.answered == [1], "{end:?}");
    }
    assert_eq!(running.count_answered(), 0);
    running.assert_serves_a_new_client().await;
    assert!(running.finish().await);
}
