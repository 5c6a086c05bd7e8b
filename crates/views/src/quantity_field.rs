//! Quantities in views.

use std::ops::Deref;

use serde::{Deserialize, Deserializer};
use setpoint_api::quantity::Quantity;

/// Quantity, read from its text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct QuantityField(pub Quantity);

impl Deref for QuantityField {
    type Target = Quantity;

    fn deref(&self) -> &Quantity {
        &self.0
    }
}

impl<'de> Deserialize<'de> for QuantityField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Quantity::parse(&text).map(QuantityField).map_err(serde::de::Error::custom)
    }
}
