//! The loop, end to end: crashes, controllers that are switched off and on, leader election, and the usual
//! tutorials.
//!
//! `SETPOINT_ROLLOUT_KILLS` sets the number of kills of a server in a rollout.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::disallowed_methods, reason = "polls processes that run in real time")]

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
