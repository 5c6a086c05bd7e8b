//! View of a Secret.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use setpoint_reconcile::object::{Pairs, View};

use super::or_default;

/// View of a Secret.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Secret {
    #[serde(rename = "type")]
    pub kind: String,
    /// Values in base64.
    #[serde(deserialize_with = "or_default")]
    pub data: Pairs,
}

impl View for Secret {
    const RESOURCE: &'static str = "secrets";
}

impl Secret {
    /// Returns a value as text; empty if it is absent or invalid.
    #[must_use]
    pub fn text(&self, entry: &str) -> String {
        let bytes = self.data.get(entry).and_then(|encoded| STANDARD.decode(encoded).ok());
        bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
    }
}
