//! The loop from outside: killed in the middle, with controllers switched off and on, with a second one that waits,
//! and as every course shows it.
//!
//! `SETPOINT_ROLLOUT_KILLS` sets how often a server is killed in a rollout.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "loops/api.rs"]
mod api;
#[path = "clients/asking.rs"]
mod asking;
#[path = "loops/course.rs"]
mod course;
#[path = "loops/herd.rs"]
mod herd;
#[path = "loops/kubelet.rs"]
mod kubelet;
#[path = "loops/leaders.rs"]
mod leaders;
#[path = "loops/mirror_directory.rs"]
mod mirror_directory;
#[path = "loops/rollout.rs"]
mod rollout;
#[path = "loops/safe_mode.rs"]
mod safe_mode;
#[path = "clients/server.rs"]
#[expect(dead_code, reason = "other tests begin in another way")]
mod server;
#[path = "loops/state.rs"]
mod state;
#[path = "loops/unwatched.rs"]
mod unwatched;
#[path = "loops/walks.rs"]
mod walks;
