//! Public key infrastructure of a cluster: the authority and its certificates, certificate signing requests, signing.
//!
//! [`certs`] creates, loads and renews the certificates of a server, [`certs::signing`] signs requests as
//! kube-controller-manager does, and [`x509`] reads certificates and requests. Nothing here opens a socket or reads the
//! clock. Start at [`certs::Pki`].

pub mod certs;
pub mod private_file;
pub mod x509;
