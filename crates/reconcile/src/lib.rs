//! Reconciliation loop: observes changes, plans keys, sends writes.
//!
//! - [`planner`]: the [`Planner`] trait. A controller is a pure function from a key and the world to a plan, with
//!   watches that map changes to keys.
//! - [`world`]: immutable view of all [`object`]s at one revision, with the indexes that planners read. The crate
//!   `setpoint_views` has the typed fields of each kind.
//! - [`plan`]: result of a planner: stages of writes with preconditions, Events, queries, a memo, a time to requeue.
//! - [`engine`]: the loop as a state machine without I/O. A shell reports changes, outcomes and the time, and sends the
//!   writes, so that a server, a process of its own and a simulator run the same loop.
//! - `queue`: work queue of a controller, with backoff. [`stats`]: its counters.
//! - `events`: event correlator. [`new_event`]: Events that it creates.
//! - [`election`]: leader election. [`clock`]: loop time and steps of the wall clock.
//! - `heartbeat`: writes that do not cause a resync.
//! - [`write_executor`]: trait of the component that commits the writes in the process of the store.
//!
//! Start at [`planner`] to write a controller, and at [`engine`] to follow the loop.

pub mod clock;
pub mod election;
pub mod engine;
mod events;
mod heartbeat;
pub mod int32;
pub mod new_event;
pub mod object;
pub mod plan;
pub mod planner;
mod queue;
pub mod stats;
mod to_value;
pub mod world;
pub mod write_executor;

pub use clock::{Jump, LoopTime};
pub use engine::{Engine, ObservedChange, Turn, WriteId, WriteOutcome, WriteRejection, WriteRequest};
pub use new_event::NewEvent;
pub use object::{Object, ObjectMeta, OwnerReference, View};
pub use plan::{Action, EventRecord, EventType, Plan, Query, Write};
pub use planner::{ClientIdentity, Controller, Failure, Planner, Seed, Seen, Watch};
pub use world::{Index, World, WorldConfig, WorldReader};
pub use write_executor::WriteExecutor;
