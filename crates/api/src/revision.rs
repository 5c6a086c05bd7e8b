//! Store revisions: the total order of all writes.

use std::fmt;

/// Number of a commit. Every commit increments it by one, over all resources; the first commit is 1. Clients
/// see it as `resourceVersion`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// The revision before the first commit.
    pub const ZERO: Revision = Revision(0);

    /// The revision of the following commit.
    #[must_use]
    pub const fn next(self) -> Revision {
        Revision(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
