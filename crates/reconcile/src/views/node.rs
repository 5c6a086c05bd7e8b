//! What planners read of a Node.

use serde::Deserialize;

use crate::object::View;
use crate::views::or_default;

/// A Node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Node {
    /// What is wanted.
    pub spec: NodeSpec,
}

impl View for Node {
    const RESOURCE: &'static str = "nodes";
}

/// What is wanted of a Node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    /// What keeps pods away that do not put up with it.
    #[serde(deserialize_with = "or_default")]
    pub taints: Vec<Taint>,
}

/// What keeps pods away from a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value.
    #[serde(deserialize_with = "or_default")]
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}
