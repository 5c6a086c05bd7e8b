//! The loop, end to end: crashes, controllers that are switched off and on, leader election, and the usual
//! tutorials.
//!
//! `SETPOINT_ROLLOUT_KILLS` sets the number of kills of a server in a rollout.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::disallowed_methods, reason = "polls processes that run in real time")]

#[path = "loops/api.rs"]
mod api;
#[path = "loops/converged_state.rs"]
mod converged_state;
#[path = "loops/deployment_tutorial.rs"]
mod deployment_tutorial;
#[path = "loops/kubelet.rs"]
mod kubelet;
#[path = "loops/leader_election.rs"]
mod leader_election;
#[path = "loops/level_triggered.rs"]
mod level_triggered;
#[path = "loops/mass_eviction.rs"]
mod mass_eviction;
#[path = "loops/mirror_directory.rs"]
mod mirror_directory;
#[path = "loops/node_failures.rs"]
mod node_failures;
#[path = "loops/operator.rs"]
mod operator;
#[path = "clients/processes.rs"]
mod processes;
#[path = "loops/rollout.rs"]
mod rollout;
#[path = "loops/safe_mode.rs"]
mod safe_mode;
#[path = "clients/server.rs"]
#[expect(dead_code, reason = "other tests use the rest of it")]
mod server;
