//! Container runtime interface of the life cycle.
//!
//! A [`Runtime`] reports state: runs of containers, images, probe results. The life cycle returns [`Deed`]s,
//! which the runtime performs asynchronously; later reports show their results. Nothing here depends on
//! containers being real.

use std::time::Duration;

use setpoint_api::Time;

use crate::pod::{Container, State, Terminated};

/// Container runtime as seen by one pod at one time.
pub trait Runtime {
    /// Returns the latest run of a container; `None` if it never ran.
    fn run(&self, container: &Container) -> Option<&Run>;

    /// Returns the state of a container's image that is needed since `wanted`.
    fn image(&self, container: &Container, wanted: Time) -> Image;

    /// Returns the probe results of a running container.
    fn probe(&self, container: &Container, run: &Run) -> Probed;

    /// Returns the creation time of the pod sandbox. Containers of an earlier sandbox are gone.
    fn sandbox(&self) -> Time;

    /// Returns the image ID.
    fn image_id(&self, image: &str) -> String;

    /// Returns the state of an ephemeral container.
    fn ephemeral(&self, container: &Container) -> State;
}

/// One run of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Restart count.
    pub restarts: i64,
    /// Container ID.
    pub id: String,
    /// Image of the run; empty if unknown.
    pub image: String,
    /// Start time.
    pub started: Time,
    /// Termination state; `None` while it runs.
    pub end: Option<Terminated>,
    /// Termination state of the previous run.
    pub last: Option<Terminated>,
    /// Restart back-off after this run, if it is already decided.
    pub wait: Option<Duration>,
}

impl Run {
    /// `true` if the run has not terminated.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.end.is_none()
    }

    /// `true` if the run uses the container's current image, or its image is unknown.
    #[must_use]
    pub fn has_image_of(&self, container: &Container) -> bool {
        self.image.is_empty() || self.image == container.image
    }
}

/// State of an image on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// The image is on the node.
    Present {
        /// Pull duration; `None` if no pull was necessary.
        took: Option<Duration>,
    },
    /// The image is being pulled.
    Pulling {
        /// Start of the pull.
        since: Time,
        /// Expected end of the pull, if known.
        until: Option<Time>,
    },
    /// The pull failed.
    Failed {
        /// Waiting reason: `ErrImagePull`, `ImagePullBackOff`, `InvalidImageName`, `ErrImageNeverPull`.
        reason: &'static str,
        /// Waiting message.
        message: String,
        /// Error of the last attempt.
        error: String,
        /// Time of the next state change, if known.
        until: Option<Time>,
    },
}

/// Probe results of a running container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probed {
    /// `true` once the startup probe has succeeded.
    pub started: bool,
    /// `true` if the readiness probe succeeds.
    pub ready: bool,
    /// Time since which the readiness probe fails; `None` if it succeeds or there is none.
    pub unready: Option<Time>,
    /// Reason to kill the container, if any.
    pub sick: Option<Sick>,
    /// Time of the next change of any of these, if known.
    pub until: Option<Time>,
}

/// Value of [`Sick::probe`] for a container whose postStart hook failed.
pub const POST_START: &str = "postStart";

/// Reason to kill a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sick {
    /// Failed probe: `liveness` or `startup`; or [`POST_START`].
    pub probe: &'static str,
    /// Time of the failure.
    pub since: Time,
    /// Termination grace period of the probe, if it sets one.
    pub grace: Option<Duration>,
}

/// Action for the runtime. Actions are idempotent: the same one may be requested repeatedly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Start a container whose image is on the node.
    Start {
        /// Container name.
        container: String,
        /// Restart count of the new run.
        restarts: i64,
        /// Pull duration; `None` if no pull was necessary.
        pulled: Option<Duration>,
    },
    /// Stop a container: run the preStop hook, send SIGTERM, and SIGKILL after the grace period.
    Stop {
        /// Container name.
        container: String,
        /// Time at which stopping was first requested.
        since: Time,
        /// Termination grace period.
        grace: Duration,
        /// Earliest time of the SIGTERM; `None` while other containers must terminate first. The preStop hook
        /// does not wait for it.
        turn: Option<Time>,
        /// Message of the `Killing` Event.
        why: String,
        /// `true` on the first request, which emits the Event.
        begins: bool,
    },
}
