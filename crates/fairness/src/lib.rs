//! API priority and fairness: FlowSchemas classify requests into flows, PriorityLevelConfigurations bound how many
//! seats the requests of a level occupy at a time, and fair queues share a level among its flows.
//!
//! The crate is pure: it has no clock, no timer and no thread. Times are uptimes that the caller passes in, and the
//! only entropy is a seed. A server asks [`Controller`] whether a request may run; a request that must wait leaves a
//! waiter of the caller's type behind, which the controller hands back when the request is dispatched.
//!
//! ```text
//! request ─▶ Configuration::classify ─▶ FlowSchema, level, flow
//!         ─▶ Level::start ─▶ executing | waiting in a fair queue | rejected
//!         ─▶ Level::leave ─▶ dispatches waiting requests
//! every ten seconds: Controller::adjust moves seats between levels by their demand
//! ```
//!
//! Start at [`Controller`]; [`Level`] has the queues of one priority level.

mod allocation;
mod controller;
mod dealer;
mod demand;
mod drops;
mod dump;
mod histogram;
mod level;
mod limits;
mod matching;
mod objects;
mod seats;
mod watchers;
mod work;

pub use self::allocation::{AllocationError, AllocationItem, allocate};
pub use self::controller::configuration::{Configuration, Schema, flow_hash};
pub use self::controller::{ADJUSTMENT_PERIOD, Controller, LevelHandle};
pub use self::dealer::{Dealer, DealerError};
pub use self::demand::{DemandIntegrator, DemandStatistics, IntegratedDemand};
pub use self::drops::DropHistory;
pub use self::dump::{DumpTime, priority_levels, queues, requests};
pub use self::histogram::{Histogram, RatioHistogram};
pub use self::level::report::{LevelReport, ProgressReport};
pub use self::level::statistics::{LevelCounts, SchemaStatistics};
pub use self::level::{Arrival, Departure, Level, Rejection, RequestId, RequestSubject, Start, WAITING_MAX};
pub use self::limits::{LevelLimits, nominal_limits};
pub use self::objects::flow_schema::{Distinguisher, FlowSchema};
pub use self::objects::priority_level::{LevelSpec, LimitResponse, PriorityLevel, QueuingSpec};
pub use self::seats::SeatSeconds;
pub use self::watchers::{WatchScope, WatchTracker};
pub use self::work::list::{CollectionSize, ListRequest};
pub use self::work::{RequestWork, WorkEstimate};
