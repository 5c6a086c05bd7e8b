//! Type checks of policies, over the definitions of a snapshot.

use setpoint_api::{Key, Value, json};
use setpoint_extensions::policy::{check_types, definition_schema};
use setpoint_store::Snapshot;

use crate::catalog::DEFINITIONS;

/// Answers the query `policy-types`.
#[must_use]
pub fn answer_types(question: &Value, snapshot: &Snapshot) -> Value {
    check_types(question, &|definition, version| {
        let record = snapshot.get(&Key::cluster(&DEFINITIONS, definition).ok()?)?;
        definition_schema(&json::parse(&record.value()).ok()?, version)
    })
}
