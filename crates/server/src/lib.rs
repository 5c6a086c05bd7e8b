//! Who may say it: the API server.
//!
//! [`exchange`] is the border between sockets and meaning: [`exchange::Request`] in, [`exchange::Response`] out.
//! Before it, [`mod@http`] has the sockets, [`setpoint_pki::certs`] proves who is who, as do [`tokens`], [`kubeconfig`] tells clients. Behind it,
//! [`mod@route`], [`query`], [`media`], [`body`] and [`select`] read a request; [`pipeline`] decides what a write
//! comes to, without sockets or a runtime; [`api`] performs it; [`list`], [`watch`], [`discovery`] and [`responses`]
//! put answers together. [`health`] says how the server is, [`metrics`] what it did; [`inflight`] bounds what it does
//! at a time. [`loop_writes`] executes what the reconciliation loop writes, through the same pipeline, and
//! [`loop_report`] shows the state of the loop.
//! [`bootstrap`] makes what every cluster has from the start. [`stored`] says in which form objects are kept. [`nodes`] is who answers for nodes.

pub mod api;
pub mod body;
pub mod bootstrap;
pub mod codec;
pub mod discovery;
pub mod encoded_chunk;
pub mod exchange;
pub mod health;
pub mod http;
pub mod inflight;
pub mod kubeconfig;
pub mod list;
pub mod loop_report;
pub mod loop_writes;
pub mod media;
pub mod metrics;
pub mod nodes;
pub mod pipeline;
pub mod query;
pub mod responses;
pub mod route;
pub mod select;
pub mod tokens;
mod unenforced;
pub mod uuid;
pub mod watch;
