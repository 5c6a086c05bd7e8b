//! Scheduler: binds pods to nodes, with the plugins and semantics of kube-scheduler's default profile.
//!
//! It is a planner with one key. A plan takes the pods of the queue by priority and places them one after another, each
//! on top of the placements before it. The same world and the same seed give the same placements. Pods with equal
//! [`signature`] share filter and score results, only changed nodes are evaluated again, and no plugin iterates over all
//! pods: the cache keeps counters for them. Losing the cache costs time only.
//!
//! Start at [`planner`].
//!
//! - [`planner`]: scheduling cycle, queue order and writes. `queue_state`: backoff and requeueing of pods.
//! - `cost`: estimated steps of an attempt, and their limits.
//! - [`signature`], `tolerations` and the crate `requirements`: parsed pods. [`profile`], [`config`]: settings by `schedulerName`.
//! - `cache`: nodes, assigned pods and topology counters.
//! - `plugins`: Filter and Score, one file per plugin. `topology`: constraints between pods.
//! - `devices`: allocation of ResourceClaims.
//! - `filter_score_cache`: results per signature. `selection`: the best node. `preemption`: victims.

mod cache;
pub mod config;
pub mod cost;
mod devices;
mod filter_score_cache;
pub mod planner;
mod plugins;
mod preemption;
pub mod profile;
mod queue_state;
mod selection;
pub mod signature;
mod tolerations;
mod topology;

pub use planner::Scheduler;
pub use profile::Profile;
