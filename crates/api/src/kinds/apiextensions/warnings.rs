//! Warnings for clients that write a definition.

use std::collections::BTreeSet;

use super::internal::InternalSpec;
use super::schema_walk::for_each_schema;
use crate::kinds::check;
use crate::quote::Quoted;
use crate::value::Value;

/// Formats of strings, without dashes.
const STRING_FORMATS: [&str; 26] = [
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

/// Warnings for a write. An update warns only about what the old definition does not have.
pub(super) fn warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let old = old.map(InternalSpec::of);
    let new = InternalSpec::of(new);
    let old_formats = old.as_ref().map(unknown_formats).unwrap_or_default();
    let old_sets = old.as_ref().map(set_warnings).unwrap_or_default();
    let formats = unknown_formats(&new).into_iter().filter(|format| !old_formats.contains(format));
    let formats = formats.map(|format| format!("unrecognized format {}", Quoted(format)));
    formats.chain(set_warnings(&new).into_iter().filter(|warning| !old_sets.contains(warning))).collect()
}

/// Formats that are not validated.
fn unknown_formats<'a>(spec: &InternalSpec<'a>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for root in spec.schemas() {
        for_each_schema(root, &mut |node| {
            let format = check::text(node, "format");
            if !format.is_empty() && !is_known(check::text(node, "type"), format) {
                found.push(format);
            }
        });
    }
    found
}

fn is_known(kind: &str, format: &str) -> bool {
    match kind {
        "" | "string" => STRING_FORMATS.contains(&format.replace('-', "").as_str()),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

/// Warnings about sets whose items are not scalars.
fn set_warnings(spec: &InternalSpec<'_>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for root in spec.schemas() {
        for_each_schema(root, &mut |node| {
            let kind = check::text(check::field(node, "items"), "type");
            if check::text(node, "x-kubernetes-list-type") == "set" && matches!(kind, "object" | "array") {
                found.insert(format!(
                    "x-kubernetes-list-type: set for items of type \"{kind}\" is not supported by server-side apply or CEL validation rules"
                ));
            }
        });
    }
    found
}
