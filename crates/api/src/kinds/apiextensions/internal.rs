//! Internal version of the spec: parts that all versions have in common are at its top.

use std::collections::BTreeMap;

use crate::kinds::check;
use crate::value::Value;

/// Spec of a definition in the internal version.
pub(super) struct InternalSpec<'a> {
    /// The spec as it was sent.
    pub value: &'a Value,
    pub versions: Vec<InternalVersion<'a>>,
    /// Schema of all versions.
    pub validation: Option<&'a Value>,
    /// Subresources of all versions.
    pub subresources: Option<&'a Value>,
    /// Printer columns of all versions.
    pub columns: &'a [Value],
    /// Selectable fields of all versions.
    pub selectable_fields: &'a [Value],
}

/// A version without the parts that it shares with all others.
pub(super) struct InternalVersion<'a> {
    /// The version as it was sent.
    pub value: &'a Value,
    pub name: &'a str,
    pub schema: Option<&'a Value>,
    pub subresources: Option<&'a Value>,
    pub columns: &'a [Value],
    pub selectable_fields: &'a [Value],
}

fn present<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    value.get(name).filter(|value| !value.is_null())
}

impl<'a> InternalSpec<'a> {
    /// Returns the internal version of the spec of a definition.
    pub(super) fn of(definition: &'a Value) -> InternalSpec<'a> {
        let value = check::field(definition, "spec");
        let all = check::list(value, "versions");
        let is_shared = |name: &str| {
            all.windows(2).all(|pair| check::field(&pair[0], name) == check::field(&pair[1], name))
        };
        let is_shared_list = |name: &str| {
            all.windows(2)
                .all(|pair| check::is_equivalent(check::field(&pair[0], name), check::field(&pair[1], name)))
        };
        let schema = is_shared("schema");
        let subresources = is_shared("subresources");
        let columns = is_shared_list("additionalPrinterColumns");
        let selectable = is_shared_list("selectableFields");
        let list = |version: &'a Value, name: &str, unless: bool| {
            if unless { &[][..] } else { check::list(version, name) }
        };
        let first = all.first();
        let versions = all.iter().map(|version| InternalVersion {
            value: version,
            name: check::text(version, "name"),
            schema: present(version, "schema").filter(|_| !schema),
            subresources: present(version, "subresources").filter(|_| !subresources),
            columns: list(version, "additionalPrinterColumns", columns),
            selectable_fields: list(version, "selectableFields", selectable),
        });
        InternalSpec {
            value,
            versions: versions.collect(),
            validation: first.filter(|_| schema).and_then(|version| present(version, "schema")),
            subresources: first.filter(|_| subresources).and_then(|version| present(version, "subresources")),
            columns: first.map_or(&[][..], |version| list(version, "additionalPrinterColumns", !columns)),
            selectable_fields: first
                .map_or(&[][..], |version| list(version, "selectableFields", !selectable)),
        }
    }

    /// Distinct schemas: that of all versions, or that of each.
    pub(super) fn schemas(&self) -> impl Iterator<Item = &'a Value> {
        let schema = |validation: &'a Value| present(validation, "openAPIV3Schema");
        let own = self.versions.iter().filter_map(|version| version.schema);
        self.validation.into_iter().chain(own.collect::<Vec<_>>()).filter_map(schema)
    }

    /// `true` if a schema matches.
    pub(super) fn has_schema(&self, matches: impl Fn(&Value) -> bool) -> bool {
        self.schemas().any(matches)
    }

    /// `true` if every version has a schema.
    pub(super) fn is_complete(&self) -> bool {
        let has = |validation: Option<&Value>| {
            validation.is_some_and(|validation| check::is_set(validation, "openAPIV3Schema"))
        };
        has(self.validation) || self.versions.iter().all(|version| has(version.schema))
    }

    /// For each version, `true` if its status is a subresource.
    pub(super) fn statuses(&self) -> Vec<bool> {
        if self.versions.iter().all(|version| version.subresources.is_none()) {
            return vec![has_status(self.subresources); self.versions.len()];
        }
        // As upstream, the first of several versions with the same name decides.
        let mut by_name = BTreeMap::new();
        for version in &self.versions {
            by_name.entry(version.name).or_insert_with(|| has_status(version.subresources));
        }
        self.versions.iter().map(|version| by_name[version.name]).collect()
    }

    /// `true` if the status of any version is a subresource.
    pub(super) fn has_any_status(&self) -> bool {
        has_status(self.subresources) || self.versions.iter().any(|one| has_status(one.subresources))
    }

    /// `true` if objects keep fields without a schema: definitions of old versions of the API.
    pub(super) fn preserves_unknown_fields(&self) -> bool {
        check::boolean(self.value, "preserveUnknownFields")
    }
}

fn has_status(subresources: Option<&Value>) -> bool {
    subresources.is_some_and(|subresources| check::is_set(subresources, "status"))
}
