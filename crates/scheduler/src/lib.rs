//! Where should it run? The scheduler: one planner over nodes and pods.
//!
//! It is one key of the loop. A plan takes the pods that want a node, the most important first, and places them one
//! after another; each sees where those before it went. What was found out for one pod holds for all pods of the
//! same [`shape`]; only nodes that changed are looked at again, and no rule ever looks at every pod: [`cache`] keeps
//! what they ask for up with the world. All of that may be lost: it costs time only. The same world and the same seed
//! give the same places.
//!
//! - [`planner`]: the line of pods, and what is written. [`waiting`]: when a pod is tried again.
//! - [`cost`]: the steps that scheduling a pod takes, and how many it may take.
//! - [`shape`], [`request`], [`tolerations`]: what matters of a pod. [`profile`]: what a scheduler name means;
//!   [`config`]: what people say that it means.
//! - [`cache`]: what matters of nodes and of the pods on them.
//! - [`rules`]: one file each. [`class`], [`gates`]: what they come to for a shape. [`choose`]: which node is best.
//! - [`preempt`]: who makes room for a more important pod.

pub mod cache;
pub mod choose;
pub mod class;
pub mod config;
pub mod cost;
pub mod gates;
pub mod planner;
pub mod preempt;
pub mod profile;
pub mod request;
pub mod rules;
pub mod shape;
pub mod tolerations;
pub mod waiting;

pub use planner::Scheduler;
pub use profile::Profile;
