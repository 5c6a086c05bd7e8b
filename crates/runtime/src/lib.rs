//! Runtime of the reconciliation loop: threads, clocks and connections around [`setpoint_reconcile::Engine`].
//!
//! [`in_process`] runs the loop beside its store, [`remote`] runs it in another process through a [`client`] while it
//! holds a Lease. Both follow the resources that [`custom`] derives. [`queries`] answers what planners cannot compute. No API server is linked here: a server executes the
//! loop's writes behind [`setpoint_reconcile::WriteExecutor`]. To write a controller, start at [`remote::Remote`].

pub mod client;
pub mod custom;
pub mod in_process;
pub mod objects;
pub mod queries;
pub mod remote;
