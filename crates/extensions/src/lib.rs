//! Extensions of the API by its users: kinds that CustomResourceDefinitions declare, admission policies, and selectors
//! of devices.
//!
//! Pure. [`resource_types`] turns a definition into the descriptors that the server serves; [`CustomRules`] has the
//! rules of such a kind. [`validate_definition`] checks the validation rules in a definition.

mod cel_rules;
mod custom_rules;
mod decl;
mod definition;
pub mod device_selector;
pub mod policy;
mod scale_rules;

pub use cel_rules::validate_definition;
pub use custom_rules::CustomRules;
pub use definition::resource_types;
pub use device_selector::validate_selectors;
pub use policy::validate_policy;

/// Estimated cost of expressions up to which their evaluation takes well below a millisecond.
pub const SMALL_COST_MAX: u64 = 5_000;
