//! Ratcheting: checks that the old definition fails are skipped in an update.

use std::collections::{BTreeMap, BTreeSet};

use super::conversion::{self, ConversionStrictness};
use super::internal::InternalSpec;
use super::schema_lists;
use super::schema_walk::has_schema_with;
use super::structural_checks;
use super::version::SELECTABLE_FIELDS_MAX;
use super::{condition, schema};
use crate::kinds::check;
use crate::value::Value;

/// Checks that a write is subject to.
pub(super) struct Strictness<'a> {
    pub conversion: ConversionStrictness,
    /// Every version must have a schema.
    pub schemas: bool,
    pub schema: SchemaStrictness,
    /// Names of versions that may keep too many selectable fields; empty for those of all versions.
    pub too_many_fields: BTreeSet<&'a str>,
}

/// Checks of schemas.
#[derive(Clone, Copy)]
pub(super) struct SchemaStrictness {
    /// Types must be those of OpenAPI.
    pub valid_types: bool,
    /// Schemas must be structural.
    pub structural: bool,
    /// Defaults must have no fields without a schema.
    pub pruned_defaults: bool,
    /// Items of sets must be atomic.
    pub atomic_sets: bool,
    /// Keys of list maps must be required or have a default.
    pub map_keys: bool,
}

impl Strictness<'_> {
    /// All checks of a new definition. Its CA bundle may be invalid until the resource is served.
    pub(super) const NEW: Strictness<'static> = Strictness {
        conversion: ConversionStrictness { known_version: true, valid_ca_bundle: false },
        schemas: true,
        schema: SchemaStrictness {
            valid_types: true,
            structural: true,
            pruned_defaults: true,
            atomic_sets: true,
            map_keys: true,
        },
        too_many_fields: BTreeSet::new(),
    };
}

impl<'a> Strictness<'a> {
    /// Checks of an update.
    pub(super) fn of_update(
        new: &InternalSpec<'a>,
        old: &InternalSpec<'a>,
        old_object: &Value,
    ) -> Strictness<'a> {
        let bundle = old.value.str_at(&["conversion", "webhook", "clientConfig", "caBundle"]);
        Strictness {
            conversion: ConversionStrictness {
                known_version: conversion::has_known_review_version(old.value),
                valid_ca_bundle: condition::is_established(old_object)
                    && conversion::ca_bundle_fault(bundle).is_none(),
            },
            schemas: old.is_complete(),
            schema: SchemaStrictness {
                valid_types: !old.has_schema(|root| has_schema_with(root, schema::has_invalid_type)),
                structural: !old.has_schema(|root| !structural_checks::is_structural(root)),
                pruned_defaults: !old.has_schema(structural_checks::has_unpruned_defaults),
                atomic_sets: !old.has_schema(|root| has_schema_with(root, schema_lists::is_non_atomic_set)),
                map_keys: !old.has_schema(|root| has_schema_with(root, schema_lists::has_invalid_keys)),
            },
            too_many_fields: too_many_fields(new, old),
        }
    }
}

/// Names of versions whose selectable fields were too many before and are unchanged.
fn too_many_fields<'a>(new: &InternalSpec<'a>, old: &InternalSpec<'a>) -> BTreeSet<&'a str> {
    let is_kept = |new: &[Value], old: &[Value]| old.len() > SELECTABLE_FIELDS_MAX && new == old;
    let mut kept = BTreeSet::new();
    if is_kept(new.selectable_fields, old.selectable_fields) {
        kept.insert("");
    }
    let before: BTreeMap<&str, _> = old.versions.iter().map(|version| (version.name, version)).collect();
    for version in &new.versions {
        let before = before.get(version.name);
        if before.is_some_and(|before| is_kept(version.selectable_fields, before.selectable_fields)) {
            kept.insert(version.name);
        }
    }
    kept
}

/// `true` if the definition uses a feature that only structural schemas have.
pub(super) fn uses_extensions(spec: &InternalSpec<'_>) -> bool {
    const FLAGS: [&str; 2] = ["x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"];
    const POINTERS: [&str; 2] = ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-list-type"];
    const LISTS: [&str; 2] = ["x-kubernetes-list-map-keys", "x-kubernetes-validations"];
    let uses = |node: &Value| {
        FLAGS.iter().any(|name| check::boolean(node, name))
            || POINTERS.iter().any(|name| check::is_set(node, name))
            || LISTS.iter().any(|name| !check::list(node, name).is_empty())
    };
    spec.has_schema(|root| has_schema_with(root, uses))
}

/// `true` if a schema has a default.
pub(super) fn has_defaults(spec: &InternalSpec<'_>) -> bool {
    spec.has_schema(|root| has_schema_with(root, |node| check::is_set(node, "default")))
}
