//! What the life cycle asks of a container runtime, and what it tells it to do.
//!
//! A [`Runtime`] shows what is: which containers ran and run, which images are there, what probes found. The life
//! cycle answers with [`Deed`]s, which the runtime performs in its own time; what comes of them it shows the next
//! time. Nothing here knows whether containers are real.

use std::time::Duration;

use setpoint_api::Time;

use crate::pod::{Container, State, Terminated};

/// A container runtime as one pod sees it, at one moment.
pub trait Runtime {
    /// The newest run of a container; nothing if it never ran.
    fn run(&self, container: &Container) -> Option<&Run>;

    /// How the image of a container stands that is wanted since a time.
    fn image(&self, container: &Container, wanted: Time) -> Image;

    /// What probes have found of a run that goes on.
    fn probe(&self, container: &Container, run: &Run) -> Probed;

    /// Since when there is a place for the pod to run in. What ran before was in another, and is gone.
    fn sandbox(&self) -> Time;

    /// What exactly an image is.
    fn image_id(&self, image: &str) -> String;

    /// How a container stands that people added to look around.
    fn ephemeral(&self, container: &Container) -> State;
}

/// One run of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// How often it was started before.
    pub restarts: i64,
    /// What the runtime calls it.
    pub id: String,
    /// Of which image it is; empty if that is not known.
    pub image: String,
    /// Since when it runs.
    pub started: Time,
    /// How it ended; nothing while it runs.
    pub end: Option<Terminated>,
    /// How the run before it ended.
    pub last: Option<Terminated>,
    /// How long it was decided to wait after it, if that was decided.
    pub wait: Option<Duration>,
}

impl Run {
    /// Whether it goes on.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.end.is_none()
    }

    /// Whether it is of the image that the container has now.
    #[must_use]
    pub fn has_image_of(&self, container: &Container) -> bool {
        self.image.is_empty() || self.image == container.image
    }
}

/// How an image stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// It is there.
    Present {
        /// How long it took to get; nothing if it was there before.
        took: Option<Duration>,
    },
    /// It is on its way.
    Pulling {
        /// Since when.
        since: Time,
        /// When it will be there, if that is known.
        until: Option<Time>,
    },
    /// It did not come.
    Failed {
        /// Why, in one word: `ErrImagePull`, `ImagePullBackOff`, `InvalidImageName`, `ErrImageNeverPull`.
        reason: &'static str,
        /// Why.
        message: String,
        /// What went wrong when it was last tried.
        error: String,
        /// When that changes, if it is known.
        until: Option<Time>,
    },
}

/// What probes have found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probed {
    /// Whether it has started.
    pub started: bool,
    /// Whether it can serve.
    pub ready: bool,
    /// Since when it says that it cannot serve, if it was asked and says so.
    pub unready: Option<Time>,
    /// What is wrong with it, if it has to be killed for it.
    pub sick: Option<Sick>,
    /// When any of that changes, if it is known.
    pub until: Option<Time>,
}

/// What stands in the place of a probe where what was to be done at the start of a container has failed.
pub const POST_START: &str = "postStart";

/// Why a container has to be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sick {
    /// Which probe says so: `liveness` or `startup`; or [`POST_START`].
    pub probe: &'static str,
    /// Since when.
    pub since: Time,
    /// How long it is given to stop, if the probe says that.
    pub grace: Option<Duration>,
}

/// What a runtime shall do. It may be told the same more than once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Start a container whose image is there.
    Start {
        /// Which.
        container: String,
        /// How often it was started before.
        restarts: i64,
        /// How long its image took to get; nothing if it was there before.
        pulled: Option<Duration>,
    },
    /// Stop a container: what is to be done before, then a request, then by force.
    Stop {
        /// Which.
        container: String,
        /// Since when that is wanted.
        since: Time,
        /// How long it is given.
        grace: Duration,
        /// From when on it may be asked to end; nothing while others have to end before it. What is to be done before it is
        /// asked does not wait for that.
        turn: Option<Time>,
        /// What people are told about it.
        why: String,
        /// Whether it is wanted only now, and nobody has been told.
        begins: bool,
    },
}
