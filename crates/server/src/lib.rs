//! Who may say it: the API server.
//!
//! [`exchange`] is the border between sockets and meaning: [`exchange::Request`] in, [`exchange::Answer`] out.

pub mod api;
pub mod certs;
pub mod exchange;
pub mod http;
pub mod kubeconfig;
