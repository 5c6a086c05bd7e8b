//! TLS: versions, cipher suites, and renewal of certificates under open connections.

use rustls::{CipherSuite, ProtocolVersion, SupportedCipherSuite};

use super::super::tls::Tls;
use super::*;

/// Serving certificate that a client sees.
fn served(stream: &TlsStream<TcpStream>) -> CertificateDer<'static> {
    stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
}

/// Certificates of the same CA, with a new serving certificate.
fn renewed(pki: &Pki) -> Pki {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("ca.crt"), &pki.ca.certificate).unwrap();
    std::fs::write(dir.path().join("ca.key"), &pki.ca.key).unwrap();
    let renewed = Pki::load_or_create(dir.path(), &["127.0.0.1".to_owned()], now(), 8).unwrap();
    assert!(renewed.ca.certificate == pki.ca.certificate && renewed.server != pki.server);
    renewed
}

#[tokio::test]
async fn renewal_keeps_open_connections_and_new_ones_get_the_new_certificate() {
    let running = start(Bounds::default()).await;
    for alpn in BOTH {
        let before = running.connect(alpn, true).await;
        let old = served(&before);
        let mut client = Client::over(before, alpn).await;
        assert_eq!(client.get("/any").await.0, 200);
        let waiting = running.connect(alpn, true).await;
        let mut waiting = Client::over(waiting, alpn).await;
        let waited = tokio::spawn(async move { waiting.get("/wait").await.0 });
        running.sample.entered.notified().await;

        running.tls.replace(&renewed(&running.pki)).unwrap();

        let after = running.connect(alpn, true).await;
        assert_ne!(served(&after), old, "{alpn}");
        assert_eq!(Client::over(after, alpn).await.get("/any").await.0, 200);
        assert_eq!(client.get("/any").await.0, 200, "the open connection is used");
        running.sample.release.notify_one();
        assert_eq!(waited.await.unwrap(), 200, "the request in flight is answered");
    }
    assert!(running.finish().await);
}

/// Connects with these versions. Returns the version and the suite in use.
async fn negotiated(
    running: &Running,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> (ProtocolVersion, CipherSuite) {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(running.pki.ca.certificate.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(running.address).await.unwrap();
    let name = ServerName::IpAddress(running.address.ip().into());
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let connection = stream.get_ref().1;
    (connection.protocol_version().unwrap(), connection.negotiated_cipher_suite().unwrap().suite())
}

#[tokio::test]
async fn tls_1_3_is_preferred_and_1_2_is_accepted() {
    let running = start(Bounds::default()).await;
    let both = negotiated(&running, &[&rustls::version::TLS12, &rustls::version::TLS13]).await;
    assert_eq!(both, (ProtocolVersion::TLSv1_3, CipherSuite::TLS13_AES_128_GCM_SHA256));
    let old = negotiated(&running, &[&rustls::version::TLS12]).await;
    let suite = CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256;
    assert_eq!(old, (ProtocolVersion::TLSv1_2, suite));
    assert!(running.finish().await);
}

/// Every suite has forward secrecy and authenticated encryption.
#[test]
fn all_suites_are_strong() {
    let pki = Pki::ephemeral(&["127.0.0.1".to_owned()], now(), 7).unwrap();
    let config = Tls::new(&pki).unwrap().config();
    let suites = &config.crypto_provider().cipher_suites;
    assert!(suites.len() >= 5, "{suites:?}");
    for suite in suites {
        let name = format!("{:?}", suite.suite());
        let is_strong = match suite {
            SupportedCipherSuite::Tls13(_) => true,
            SupportedCipherSuite::Tls12(_) => {
                name.starts_with("TLS_ECDHE_")
                    && (name.contains("_GCM_") || name.contains("_CHACHA20_POLY1305"))
            }
        };
        assert!(is_strong, "{name}");
    }
}

/// ClientHello of a version with these suites, for curve X25519 and ECDSA with SHA-256.
fn client_hello(version: u16, suites: &[u16]) -> Vec<u8> {
    const EXTENSIONS: [u8; 22] = [
        0, 10, 0, 4, 0, 2, 0, 29, // supported groups: X25519
        0, 11, 0, 2, 1, 0, // point formats: uncompressed
        0, 13, 0, 4, 0, 2, 4, 3, // signature algorithms: ECDSA with SHA-256
    ];
    let length = |length: usize| u16::try_from(length).unwrap().to_be_bytes();
    let mut body = version.to_be_bytes().to_vec();
    body.extend([7; 32]);
    body.push(0);
    body.extend(length(suites.len() * 2));
    body.extend(suites.iter().flat_map(|suite| suite.to_be_bytes()));
    body.extend([1, 0]);
    body.extend(length(EXTENSIONS.len()));
    body.extend(EXTENSIONS);
    let mut record = vec![22, 3, 1];
    record.extend(length(body.len() + 4));
    record.extend([1, 0]);
    record.extend(length(body.len()));
    record.extend(body);
    record
}

/// First bytes of the answer to a ClientHello: the record type, and the description if it is an alert.
async fn answer(running: &Running, hello: &[u8]) -> (u8, Option<u8>) {
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(hello).await.unwrap();
    let mut head = [0; 7];
    stream.read_exact(&mut head).await.unwrap();
    (head[0], (head[0] == 21).then_some(head[6]))
}

#[tokio::test]
async fn older_versions_and_weak_suites_are_refused() {
    const HANDSHAKE: u8 = 22;
    const ALERT: u8 = 21;
    const HANDSHAKE_FAILURE: u8 = 40;
    const PROTOCOL_VERSION: u8 = 70;
    const STRONG: u16 = 0xc02b;
    let running = start(Bounds::default()).await;
    assert_eq!(answer(&running, &client_hello(0x303, &[STRONG])).await, (HANDSHAKE, None));
    for version in [0x300, 0x301, 0x302] {
        let refused = answer(&running, &client_hello(version, &[STRONG])).await;
        assert_eq!(refused, (ALERT, Some(PROTOCOL_VERSION)), "{version:x}");
    }
    // CBC with SHA-1 and SHA-256, RSA key exchange, 3DES, RC4, no encryption.
    for suite in [0xc009, 0xc023, 0x009c, 0x002f, 0x000a, 0x0005, 0xc006] {
        let refused = answer(&running, &client_hello(0x303, &[suite])).await;
        assert_eq!(refused, (ALERT, Some(HANDSHAKE_FAILURE)), "{suite:x}");
    }
    assert!(running.finish().await);
}
