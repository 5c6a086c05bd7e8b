//! Levels and stages.

/// Amount of information about a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// The request is not recorded.
    #[default]
    None,
    /// User, verb, object reference, times and response status.
    Metadata,
    /// In addition the request object.
    Request,
    /// In addition the response object.
    RequestResponse,
}

impl Level {
    /// All levels, in ascending order.
    pub const ALL: [Level; 4] = [Level::None, Level::Metadata, Level::Request, Level::RequestResponse];

    /// Name in policies and events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Level::None => "None",
            Level::Metadata => "Metadata",
            Level::Request => "Request",
            Level::RequestResponse => "RequestResponse",
        }
    }

    /// Level with a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.as_str() == name)
    }
}

/// Stage of a request at which an event is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The request was authenticated, and is not handled yet.
    RequestReceived,
    /// The response of a long-running request has begun.
    ResponseStarted,
    /// The response is complete.
    ResponseComplete,
    /// The handler of the request panicked.
    Panic,
}

impl Stage {
    /// All stages, in the order in which upstream lists them.
    pub const ALL: [Stage; 4] =
        [Stage::RequestReceived, Stage::ResponseStarted, Stage::ResponseComplete, Stage::Panic];

    /// Name in policies and events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Stage::RequestReceived => "RequestReceived",
            Stage::ResponseStarted => "ResponseStarted",
            Stage::ResponseComplete => "ResponseComplete",
            Stage::Panic => "Panic",
        }
    }

    /// Stage with a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Stage> {
        Stage::ALL.into_iter().find(|stage| stage.as_str() == name)
    }
}

/// Set of stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StageSet(u8);

impl StageSet {
    /// Adds a stage.
    pub fn insert(&mut self, stage: Stage) {
        self.0 |= 1 << stage as u8;
    }

    /// `true` if the stage is in the set.
    #[must_use]
    pub const fn contains(self, stage: Stage) -> bool {
        self.0 & (1 << stage as u8) != 0
    }

    /// Stages of either set.
    #[must_use]
    pub const fn union(self, other: StageSet) -> StageSet {
        StageSet(self.0 | other.0)
    }
}

impl FromIterator<Stage> for StageSet {
    fn from_iter<I: IntoIterator<Item = Stage>>(stages: I) -> StageSet {
        let mut set = StageSet::default();
        stages.into_iter().for_each(|stage| set.insert(stage));
        set
    }
}
