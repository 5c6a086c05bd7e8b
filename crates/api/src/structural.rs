//! Structural schemas: the `openAPIV3Schema` of a custom resource, compiled once and shared.
//!
//! - [`Schema`] is the compiled tree. [`Schema::compile`] is bounded in depth and nodes.
//! - [`prune()`], [`coerce_embedded`], [`prune_nulls`] and [`default()`] are the steps from a request body to an
//!   object, in this order.
//! - [`validate()`] and [`validate_update`] check an object, the latter with ratcheting; [`validate_lists`] and
//!   [`validate_embedded`] check what the schema implies beyond value validations.
//! - [`validate_defaults`] checks the defaults of a schema; [`MapList`] and [`is_unchanged`] correlate two revisions.
//! - [`structural_violations`] finds the reasons for which a schema is not structural.
//! - [`to_openapi_v3`] and [`to_openapi_v2`] are the published forms of a schema.
//!
//! Everything here is pure and has upstream's results and texts. CEL rules are data of their node. Walks of valid
//! objects build no paths. Where upstream iterates over a Go map in random order, the order here is that of the
//! object.

mod coerce;
mod compile;
mod default_checks;
mod defaults;
mod formats;
mod list_type;
mod map_list;
mod openapi;
mod pattern;
mod prune;
mod schema;
mod validate;
mod violations;

#[cfg(test)]
mod tests;

pub use coerce::{bad_value, coerce_embedded, validate_embedded};
pub use compile::{SCHEMA_DEPTH_MAX, SCHEMA_NODES_MAX, StructuralError};
pub use default_checks::{ValidDefault, validate_defaults};
pub use defaults::{default, prune_nulls};
pub use formats::{StringFormat, is_recognized_format};
pub use list_type::{validate_lists, validate_lists_update};
pub use map_list::{MapList, is_unchanged};
pub use openapi::{to_openapi_v2, to_openapi_v3};
pub use pattern::{PATTERN_STATES_MAX, SchemaPattern, pattern_fault, pattern_states};
pub use prune::prune;
pub use schema::{
    AdditionalProperties, LogicChecks, NumberChecks, Schema, SchemaType, SizeChecks, TextChecks,
    ValidationRule, ValueChecks, ValueFormat,
};
pub use validate::{validate, validate_update};
pub use violations::structural_violations;

/// Fields of every resource, at the root and in embedded resources.
const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];
