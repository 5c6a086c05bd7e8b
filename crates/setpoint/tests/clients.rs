//! Unmodified clients against `setpoint up`: all kubectl versions on the machine, Python, JavaScript,
//! kube-rs, and operators of other projects.
//!
//! `scripts/test` installs them; a missing client is a failure.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "clients/control_plane.rs"]
mod control_plane;
#[path = "clients/controllers.rs"]
mod controllers;
#[path = "clients/kube_rs.rs"]
mod kube_rs;
#[path = "clients/kubectl.rs"]
mod kubectl;
#[path = "clients/languages.rs"]
mod languages;
#[path = "clients/metrics_server.rs"]
mod metrics_server;
#[path = "clients/nodes.rs"]
mod nodes;
#[path = "clients/operators.rs"]
mod operators;
#[path = "clients/postgres_operator.rs"]
mod postgres_operator;
#[path = "clients/processes.rs"]
mod processes;
#[path = "clients/server.rs"]
#[expect(dead_code, reason = "other tests use the rest of it")]
mod server;
#[path = "clients/usage.rs"]
mod usage;
#[path = "../../server/tests/api/webhook_server.rs"]
#[expect(dead_code, reason = "other tests use the rest of it")]
mod webhook_server;
