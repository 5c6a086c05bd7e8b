//! URLs, regular expressions, quantities, formats, semantic versions, and maps under construction.

use super::Signature;

/// URLs.
pub(super) const URLS: &[Signature] = &[
    ("url", "string_to_url", "(string) -> kubernetes.URL"),
    ("getScheme", "url_get_scheme", "kubernetes.URL.() -> string"),
    ("getHost", "url_get_host", "kubernetes.URL.() -> string"),
    ("getHostname", "url_get_hostname", "kubernetes.URL.() -> string"),
    ("getPort", "url_get_port", "kubernetes.URL.() -> string"),
    ("getEscapedPath", "url_get_escaped_path", "kubernetes.URL.() -> string"),
    ("getQuery", "url_get_query", "kubernetes.URL.() -> map(string, list(string))"),
    ("isURL", "is_url_string", "(string) -> bool"),
];

/// Matches of regular expressions.
pub(super) const REGEX: &[Signature] = &[
    ("find", "string_find_string", "string.(string) -> string"),
    ("findAll", "string_find_all_string", "string.(string) -> list(string)"),
    ("findAll", "string_find_all_string_int", "string.(string, int) -> list(string)"),
];

/// Quantities of resources.
pub(super) const QUANTITY: &[Signature] = &[
    ("quantity", "string_to_quantity", "(string) -> kubernetes.Quantity"),
    ("isQuantity", "is_quantity_string", "(string) -> bool"),
    ("sign", "quantity_sign", "(kubernetes.Quantity) -> int"),
    ("isGreaterThan", "quantity_is_greater_than", "kubernetes.Quantity.(kubernetes.Quantity) -> bool"),
    ("isLessThan", "quantity_is_less_than", "kubernetes.Quantity.(kubernetes.Quantity) -> bool"),
    ("compareTo", "quantity_compare_to", "kubernetes.Quantity.(kubernetes.Quantity) -> int"),
    ("asApproximateFloat", "quantity_get_float", "kubernetes.Quantity.() -> double"),
    ("asInteger", "quantity_get_int", "kubernetes.Quantity.() -> int"),
    ("isInteger", "quantity_is_integer", "kubernetes.Quantity.() -> bool"),
    ("add", "quantity_add", "kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity"),
    ("add", "quantity_add_int", "kubernetes.Quantity.(int) -> kubernetes.Quantity"),
    ("sub", "quantity_sub", "kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity"),
    ("sub", "quantity_sub_int", "kubernetes.Quantity.(int) -> kubernetes.Quantity"),
];

/// Named formats.
pub(super) const FORMAT: &[Signature] = &[
    ("validate", "format-validate", "kubernetes.NamedFormat.(string) -> optional(list(string))"),
    ("format.named", "format-named", "(string) -> optional(kubernetes.NamedFormat)"),
    ("format.dns1123Label", "format.dns1123Label", "() -> kubernetes.NamedFormat"),
    ("format.dns1123Subdomain", "format.dns1123Subdomain", "() -> kubernetes.NamedFormat"),
    ("format.dns1035Label", "format.dns1035Label", "() -> kubernetes.NamedFormat"),
    ("format.qualifiedName", "format.qualifiedName", "() -> kubernetes.NamedFormat"),
    ("format.dns1123LabelPrefix", "format.dns1123LabelPrefix", "() -> kubernetes.NamedFormat"),
    ("format.dns1123SubdomainPrefix", "format.dns1123SubdomainPrefix", "() -> kubernetes.NamedFormat"),
    ("format.dns1035LabelPrefix", "format.dns1035LabelPrefix", "() -> kubernetes.NamedFormat"),
    ("format.labelValue", "format.labelValue", "() -> kubernetes.NamedFormat"),
    ("format.uri", "format.uri", "() -> kubernetes.NamedFormat"),
    ("format.uuid", "format.uuid", "() -> kubernetes.NamedFormat"),
    ("format.byte", "format.byte", "() -> kubernetes.NamedFormat"),
    ("format.date", "format.date", "() -> kubernetes.NamedFormat"),
    ("format.datetime", "format.datetime", "() -> kubernetes.NamedFormat"),
];

/// Steps of `transformMap` and `transformMapEntry`.
pub(super) const MAP_INSERT: &[Signature] = &[
    ("cel.@mapInsert", "@mapInsert_map_key_value", "(map(K, V), K, V) -> map(K, V)"),
    ("cel.@mapInsert", "@mapInsert_map_map", "(map(K, V), map(K, V)) -> map(K, V)"),
];

/// Semantic versions.
pub(super) const SEMVER: &[Signature] = &[
    ("semver", "string_to_semver", "(string) -> kubernetes.Semver"),
    ("semver", "string_bool_to_semver", "(string, bool) -> kubernetes.Semver"),
    ("isSemver", "is_semver_string", "(string) -> bool"),
    ("isSemver", "is_semver_string_bool", "(string, bool) -> bool"),
    ("isGreaterThan", "semver_is_greater_than", "kubernetes.Semver.(kubernetes.Semver) -> bool"),
    ("isLessThan", "semver_is_less_than", "kubernetes.Semver.(kubernetes.Semver) -> bool"),
    ("compareTo", "semver_compare_to", "kubernetes.Semver.(kubernetes.Semver) -> int"),
    ("major", "semver_major", "kubernetes.Semver.() -> int"),
    ("minor", "semver_minor", "kubernetes.Semver.() -> int"),
    ("patch", "semver_patch", "kubernetes.Semver.() -> int"),
];

/// Escape of a key in the path of a JSON patch; only expressions of mutations have it.
pub(super) const ESCAPE_KEY: Signature =
    ("jsonpatch.escapeKey", "string_jsonpatch_escapeKey_string", "(string) -> string");
