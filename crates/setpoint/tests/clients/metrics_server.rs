//! Extension API server that plays a metrics adapter: HTTPS for one host name, with fixed responses by path.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_rustls::TlsAcceptor;

/// A path without its query, and the response to it.
pub type Page = (&'static str, &'static str);

/// A running adapter.
pub struct MetricsServer {
    pub port: u16,
    /// Certificate in PEM, encoded for `caBundle`.
    pub ca_bundle: String,
    heads: tokio::sync::mpsc::UnboundedReceiver<String>,
    _runtime: Runtime,
}

impl MetricsServer {
    /// Starts an adapter on loopback.
    pub fn start(host: &str, pages: &'static [Page]) -> MetricsServer {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new([host.to_owned()]).unwrap().self_signed(&key).unwrap();
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config =
            ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![certificate.der().clone()], private)
                .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, heads) = unbounded_channel();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, acceptor.clone(), pages, sender.clone()));
            }
        });
        MetricsServer { port, ca_bundle: STANDARD.encode(certificate.pem()), heads, _runtime: runtime }
    }

    /// Returns the heads of all requests since the last call, in lower case.
    pub fn take_heads(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.heads.try_recv().ok()).collect()
    }
}

async fn serve(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    pages: &'static [Page],
    heads: UnboundedSender<String>,
) {
    let Ok(mut stream) = acceptor.accept(stream).await else { return };
    let mut buffer = Vec::new();
    loop {
        // Requests have no body.
        while let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).to_lowercase();
            buffer.drain(..end + 4);
            let path = head.split(' ').nth(1).unwrap_or_default().split('?').next().unwrap_or_default();
            let page = pages.iter().find(|(known, _)| *known == path);
            let (status, body) = page.map_or(("404 Not Found", "{}"), |(_, body)| ("200 OK", *body));
            let _ = heads.send(head.clone());
            let length = body.len();
            let text = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
            );
            if stream.write_all(text.as_bytes()).await.is_err() || stream.flush().await.is_err() {
                return;
            }
        }
        if !matches!(stream.read_buf(&mut buffer).await, Ok(1..)) {
            return;
        }
    }
}
