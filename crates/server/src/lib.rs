//! API server: authentication, admission, storage encoding, lists, watches and the HTTP front end.
//!
//! [`exchange`] is the interface between sockets and the API: [`exchange::Request`] in, [`exchange::Response`] out.
//! In front of it, [`mod@http`] has the sockets; [`setpoint_pki::certs`] and [`authentication`] authenticate; [`kubeconfig`]
//! configures clients. Behind it, [`mod@route`], [`query`], [`media`], [`body`] and [`select`] parse a request;
//! [`pipeline`] decides writes, without sockets or a runtime; [`api`] executes them; [`list`], [`watch`],
//! [`discovery`] and [`responses`] encode responses. [`request_info`] has the attributes of a request, by which
//! [`authorization`] decides. [`health`] and [`metrics`] report the server's state;
//! [`fairness`] has requests wait for seats of their priority level, and [`inflight`] bounds concurrent requests in
//! total. [`loop_writes`] executes the writes of the reconciliation loop through
//! the same pipeline, and [`loop_report`] reports the loop's state. [`bootstrap`] creates the objects that every
//! cluster has. [`aggregation`] forwards requests to extension API servers, which [`service_resolver`] finds. [`codec`] is the stored form of objects. [`nodes`] serves container logs.
//! cluster has. [`codec`] is the stored form of objects. [`nodes`] serves container logs. [`webhooks`] calls admission
//! webhooks.
//!
//! Start at [`api::service`].

pub mod aggregation;
pub mod api;
pub mod audit;
pub mod authentication;
pub mod authorization;
pub mod body;
pub mod bootstrap;
pub mod catalog;
pub mod codec;
pub mod conversion;
pub mod discovery;
pub mod encoded_chunk;
pub mod exchange;
pub mod fairness;
pub mod health;
pub mod http;
pub mod inflight;
pub mod kubeconfig;
pub mod list;
pub mod loop_report;
pub mod loop_writes;
#[cfg(test)]
mod mangled;
pub mod media;
pub mod metrics;
pub mod nodes;
pub mod pipeline;
pub mod policies;
pub mod query;
pub mod request_info;
pub mod responses;
pub mod route;
pub mod select;
pub mod service_resolver;
mod unenforced;
pub mod uuid;
pub mod watch;
pub mod webhooks;
