//! Optional values.

use super::Signature;

/// Constructors, accessors, and indexes that may be absent.
pub(super) const FUNCTIONS: &[Signature] = &[
    ("optional.of", "optional_of", "(V) -> optional(V)"),
    ("optional.ofNonZeroValue", "optional_ofNonZeroValue", "(V) -> optional(V)"),
    ("optional.none", "optional_none", "() -> optional(V)"),
    ("value", "optional_value", "optional(V).() -> V"),
    ("hasValue", "optional_hasValue", "optional(V).() -> bool"),
    ("or", "optional_or_optional", "optional(V).(optional(V)) -> optional(V)"),
    ("orValue", "optional_orValue_value", "optional(V).(V) -> V"),
    ("_?._", "select_optional_field", "(dyn, string) -> optional(V)"),
    ("_[?_]", "list_optindex_optional_int", "(list(V), int) -> optional(V)"),
    ("_[?_]", "optional_list_optindex_optional_int", "(optional(list(V)), int) -> optional(V)"),
    ("_[?_]", "map_optindex_optional_value", "(map(K, V), K) -> optional(V)"),
    ("_[?_]", "optional_map_optindex_optional_value", "(optional(map(K, V)), K) -> optional(V)"),
    ("_[_]", "optional_list_index_int", "(optional(list(V)), int) -> optional(V)"),
    ("_[_]", "optional_map_index_value", "(optional(map(K, V)), K) -> optional(V)"),
    ("last", "list_last", "list(V).() -> optional(V)"),
    ("first", "list_first", "list(V).() -> optional(V)"),
    ("optional.unwrap", "optional_unwrap", "(list(optional(V))) -> list(V)"),
    ("unwrapOpt", "optional_unwrapOpt", "list(optional(V)).() -> list(V)"),
];
