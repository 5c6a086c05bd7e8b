//! Strings, version 2 of cel-go's extension, and sets.

use super::Signature;

/// Functions of strings and of lists as sets.
pub(super) const FUNCTIONS: &[Signature] = &[
    ("charAt", "string_char_at_int", "string.(int) -> string"),
    ("indexOf", "string_index_of_string", "string.(string) -> int"),
    ("indexOf", "string_index_of_string_int", "string.(string, int) -> int"),
    ("lastIndexOf", "string_last_index_of_string", "string.(string) -> int"),
    ("lastIndexOf", "string_last_index_of_string_int", "string.(string, int) -> int"),
    ("lowerAscii", "string_lower_ascii", "string.() -> string"),
    ("replace", "string_replace_string_string", "string.(string, string) -> string"),
    ("replace", "string_replace_string_string_int", "string.(string, string, int) -> string"),
    ("split", "string_split_string", "string.(string) -> list(string)"),
    ("split", "string_split_string_int", "string.(string, int) -> list(string)"),
    ("substring", "string_substring_int", "string.(int) -> string"),
    ("substring", "string_substring_int_int", "string.(int, int) -> string"),
    ("trim", "string_trim", "string.() -> string"),
    ("upperAscii", "string_upper_ascii", "string.() -> string"),
    ("format", "string_format", "string.(list(dyn)) -> string"),
    ("strings.quote", "strings_quote", "(string) -> string"),
    ("join", "list_join", "list(string).() -> string"),
    ("join", "list_join_string", "list(string).(string) -> string"),
    ("sets.contains", "list_sets_contains_list", "(list(T), list(T)) -> bool"),
    ("sets.equivalent", "list_sets_equivalent_list", "(list(T), list(T)) -> bool"),
    ("sets.intersects", "list_sets_intersects_list", "(list(T), list(T)) -> bool"),
];
