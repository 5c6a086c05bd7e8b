//! Container runtime interface of the life cycle.
//!
//! A [`ContainerRuntime`] reports state: runs of containers, images, probe results. The life cycle returns [`RuntimeAction`]s,
//! which the runtime performs asynchronously; later reports show their results. Nothing here depends on
//! containers being real.

use std::time::Duration;

use setpoint_api::Time;

use crate::pod::{Container, ContainerState, ContainerStateTerminated};

/// Container runtime as seen by one pod at one time.
pub trait ContainerRuntime {
    /// Returns the latest run of a container; `None` if it never ran.
    fn latest_run(&self, container: &Container) -> Option<&ContainerRun>;

    /// Returns the state of a container's image, which is needed since a time.
    fn image_state(&self, container: &Container, needed_since: Time) -> ImageState;

    /// Returns the probe results of a running container.
    fn probe_results(&self, container: &Container, run: &ContainerRun) -> ProbeResults;

    /// Returns the creation time of the pod sandbox. Containers of an earlier sandbox are gone.
    fn sandbox_created_at(&self) -> Time;

    /// Returns the image ID.
    fn image_id(&self, image: &str) -> String;

    /// Returns the state of an ephemeral container.
    fn ephemeral_container_state(&self, container: &Container) -> ContainerState;
}

/// One run of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerRun {
    /// Restart count.
    pub restart_count: i64,
    /// Container ID.
    pub container_id: String,
    /// Image of the run; empty if unknown.
    pub image: String,
    /// Start time.
    pub started_at: Time,
    /// Termination state; `None` while it runs.
    pub termination: Option<ContainerStateTerminated>,
    /// Termination state of the previous run.
    pub last_termination: Option<ContainerStateTerminated>,
    /// Restart back-off after this run, if it is already decided.
    pub back_off: Option<Duration>,
}

impl ContainerRun {
    /// `true` if the run has not terminated.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.termination.is_none()
    }

    /// `true` if the run uses the container's current image, or its image is unknown.
    #[must_use]
    pub fn uses_image_of(&self, container: &Container) -> bool {
        self.image.is_empty() || self.image == container.image
    }
}

/// State of an image on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageState {
    /// The image is on the node.
    Present {
        /// Pull duration; `None` if no pull was necessary.
        pull_duration: Option<Duration>,
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
pub struct ProbeResults {
    /// `true` once the startup probe has succeeded.
    pub started: bool,
    /// `true` if the readiness probe succeeds.
    pub ready: bool,
    /// Time since which the readiness probe fails; `None` if it succeeds or there is none.
    pub unready_since: Option<Time>,
    /// Reason to kill the container, if any.
    pub kill_reason: Option<KillReason>,
    /// Time of the next change of any of these, if known.
    pub next_change: Option<Time>,
}

/// [`KillReason::cause`] of a container whose postStart hook failed.
pub const POST_START: &str = "postStart";

/// Reason to kill a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KillReason {
    /// Failed probe: `liveness` or `startup`; or [`POST_START`].
    pub cause: &'static str,
    /// Time of the failure.
    pub since: Time,
    /// Termination grace period of the probe, if it sets one.
    pub grace_period: Option<Duration>,
}

/// Action for the runtime. Actions are idempotent: the same one may be requested repeatedly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeAction {
    /// Start a container whose image is on the node.
    StartContainer {
        /// Container name.
        container: String,
        /// Restart count of the new run.
        restart_count: i64,
        /// Pull duration; `None` if no pull was necessary.
        pull_duration: Option<Duration>,
    },
    /// Kill a container: run the preStop hook, send SIGTERM, and SIGKILL after the grace period.
    KillContainer {
        /// Container name.
        container: String,
        /// Time of the first request.
        since: Time,
        /// Termination grace period.
        grace_period: Duration,
        /// Earliest time of the SIGTERM; `None` while other containers must terminate first. The preStop hook
        /// does not wait for it.
        sigterm_at: Option<Time>,
        /// Message of the `Killing` Event.
        message: String,
        /// `true` on the first request, which emits the Event.
        is_first_request: bool,
    },
}
