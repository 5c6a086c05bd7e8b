//! An HTTPS server that plays an OpenID issuer: it serves documents by their paths.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use setpoint_api::{Value, json, value};
use setpoint_authentication::keys::{SigningKey, jwks};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsAcceptor;

/// Path of the discovery document.
const DISCOVERY: &str = "/.well-known/openid-configuration";
/// Path of the keys.
const KEYS: &str = "/keys?v=1";

/// Documents by path and query, and the requests so far.
#[derive(Default)]
struct IssuerState {
    documents: Mutex<BTreeMap<String, String>>,
    requests: Mutex<Vec<String>>,
}

/// A running issuer.
pub struct IssuerServer {
    pub url: String,
    /// Certificate in PEM.
    pub ca: String,
    state: Arc<IssuerState>,
    _runtime: Runtime,
}

impl IssuerServer {
    /// Starts an issuer on loopback with a key.
    pub fn start(key: &SigningKey) -> IssuerServer {
        let pair = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.self_signed(&pair).unwrap();
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pair.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let state = Arc::new(IssuerState::default());
        let serving = Arc::clone(&state);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(Arc::clone(&serving), acceptor.clone(), stream));
            }
        });
        let issuer = IssuerServer { url, ca: certificate.pem(), state, _runtime: runtime };
        let keys_url = format!("{}{KEYS}", issuer.url);
        issuer.publish(DISCOVERY, &value!({"issuer": (issuer.url.as_str()), "jwks_uri": (keys_url)}));
        issuer.publish_keys(&[key]);
        issuer
    }

    fn publish(&self, path: &str, document: &Value) {
        self.state.documents.lock().insert(path.to_owned(), json::to_text(document));
    }

    /// Replaces the published keys.
    pub fn publish_keys(&self, keys: &[&SigningKey]) {
        let keys: Vec<_> = keys.iter().map(|key| key.public().clone()).collect();
        self.publish(KEYS, &jwks(&keys));
    }

    /// Answers all requests with 404 from now on.
    pub fn break_down(&self) {
        self.state.documents.lock().clear();
    }

    /// Number of requests so far.
    pub fn requests(&self) -> usize {
        self.state.requests.lock().len()
    }

    /// AuthenticationConfiguration for this issuer with the audience `setpoint`.
    pub fn configuration(&self, more: &str) -> String {
        let ca: String = self.ca.lines().map(|line| format!("      {line}\n")).collect();
        format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer:\n    \
             url: {}\n    audiences: [setpoint]\n    certificateAuthority: |\n{ca}  claimMappings:\n    \
             username: {{claim: sub, prefix: 'oidc:'}}\n    groups: {{claim: groups, prefix: 'oidc:'}}\n{more}",
            self.url
        )
    }

    /// Token of a user, signed with a key.
    pub fn token(&self, key: &SigningKey, user: &str, expires: i64) -> String {
        let claims = value!({
            "iss": (self.url.as_str()), "aud": ["setpoint", "other"], "sub": (user), "exp": (expires),
            "groups": ["devs"], "jti": "7",
        });
        key.sign(&claims).unwrap()
    }
}

async fn serve(state: Arc<IssuerState>, acceptor: TlsAcceptor, stream: TcpStream) {
    let Ok(mut stream) = acceptor.accept(stream).await else { return };
    let mut buffer = Vec::new();
    loop {
        while let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
            buffer.drain(..end + 4);
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let document = state.documents.lock().get(&path).cloned();
            state.requests.lock().push(path);
            let (code, body) = document.map_or((404, String::new()), |document| (200, document));
            let text = format!("HTTP/1.1 {code} X\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            if stream.write_all(text.as_bytes()).await.is_err() || stream.flush().await.is_err() {
                return;
            }
        }
        if stream.read_buf(&mut buffer).await.unwrap_or(0) == 0 {
            return;
        }
    }
}
