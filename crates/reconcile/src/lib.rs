//! How a gap is closed: observe the world, compare it with what is wanted, act, repeat for ever.
//!
//! - [`world`]: an immutable picture of everything at one revision, made of [`object`]s, with the indexes that
//!   planners ask.
//! - [`plan`]: what a planner answers: stages of writes, each with its precondition and its reason, what to tell
//!   people, what to remember, when to look again.
//! - [`planner`]: the one shape of every controller, a pure function from key and world to plan, with a
//!   declaration of which changes concern which keys.
//! - [`engine`]: the loop. It decides when which key is planned, sends the writes out and takes the answers in.
//!   It does no I/O of its own: a shell hands it changes, answers and the time, and performs what it says, so
//!   that a server, a process of its own and a simulator run the same loop.
//! - [`election`]: who acts, when several could.
//! - [`clock`]: the time of the loop, and steps of the wall clock.
//! - [`heartbeat`]: writes that are no reason to look at other objects again.
//! - [`queue`]: which keys wait for what. [`events`]: what people see in `kubectl describe`, handed on as [`news`].

pub mod clock;
pub mod election;
pub mod engine;
pub mod events;
pub mod heartbeat;
pub mod int32;
pub mod news;
pub mod object;
pub mod plan;
pub mod planner;
pub mod queue;
pub mod stats;
mod to_value;
pub mod world;
pub mod write_executor;

pub use clock::{Jump, LoopTime};
pub use engine::{Engine, Observed, Outcome, Refusal, Sent, Ticket, Turn};
pub use news::News;
pub use object::{Object, ObjectMeta, OwnerReference, View};
pub use plan::{Act, Ask, Note, Plan, Severity, Write};
pub use planner::{Controller, Failure, Planner, Role, Seed, Seen, Watch};
pub use world::{Index, World, WorldConfig, WorldReader};
pub use write_executor::WriteExecutor;
