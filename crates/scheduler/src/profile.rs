//! What one scheduler name means. Several may be served: they share the nodes, and so one line.

use crate::shape::{NodeChoice, NodeTerm};

/// What one scheduler name means.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The name that pods ask for.
    pub name: Box<str>,
    /// Nodes that will do for its pods, beside what they say; nothing for all.
    pub nodes: Option<NodeChoice>,
    /// Nodes that its pods would rather have, beside what they say.
    pub prefers: Vec<(i64, NodeTerm)>,
    /// Whether pods that do not say how they spread do so by what owns them.
    pub spreads: bool,
}

impl Profile {
    /// The profile of a name, as upstream's default one is.
    #[must_use]
    pub fn named(name: &str) -> Profile {
        Profile { name: name.into(), nodes: None, prefers: Vec::new(), spreads: true }
    }
}
