//! CustomResourceDefinitions of the scenario "custom resources".

use setpoint_api::{Value, value};

/// Resource of the definitions.
pub const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
/// Namespaced custom resource.
pub const GADGETS: &str = "gadgets.shop.example.com";
/// Custom resource that requests names of [`GADGETS`].
pub const GIZMOS: &str = "gizmos.shop.example.com";
/// Cluster-scoped custom resource of another group.
pub const ZONES: &str = "zones.geo.example.net";
/// All of them.
pub const CUSTOM: [&str; 3] = [GADGETS, GIZMOS, ZONES];

/// Schema and storage version of a definition.
#[derive(Clone, Copy)]
pub struct Revisable {
    /// Default of `spec.level`; `None` for a schema without the field.
    pub level: Option<i64>,
    /// Storage version: 1 or 2. Version 2 exists once it was the storage version.
    pub storage: i64,
    /// `true` if version 2 exists.
    pub has_second: bool,
}

impl Revisable {
    /// That of a new definition.
    pub const NEW: Revisable = Revisable { level: None, storage: 1, has_second: false };

    /// That of a stored definition.
    pub fn of(definition: &Value) -> Revisable {
        let versions = definition.at(&["spec", "versions"]).and_then(Value::as_list).unwrap_or_default();
        let level = ["schema", "openAPIV3Schema", "properties", "spec", "properties", "level", "default"];
        let is_second_stored = |version: &Value| {
            version.str_at(&["name"]) == "v2" && version.get("storage") == Some(&Value::Bool(true))
        };
        Revisable {
            level: versions.first().and_then(|version| version.at(&level)).and_then(Value::as_i64),
            storage: if versions.iter().any(is_second_stored) { 2 } else { 1 },
            has_second: versions.len() > 1,
        }
    }

    /// Versions of the spec.
    pub fn versions(self) -> Value {
        let mut fields = value!({
            "size": {"type": "integer", "minimum": 0, "default": 1},
            "color": {"type": "string"},
        });
        if let Some(level) = self.level {
            fields.make_map().insert("level", value!({"type": "integer", "default": (level)}));
        }
        let spec = value!({"type": "object", "properties": (fields)});
        let properties = value!({"spec": (spec)});
        let schema = value!({"openAPIV3Schema": {"type": "object", "properties": (properties)}});
        let version = |number: i64| {
            let is_storage = number == self.storage;
            value!({
                "name": (format!("v{number}")), "served": true, "storage": (is_storage),
                "schema": (schema.clone()),
            })
        };
        let mut versions = vec![version(1)];
        if self.has_second {
            versions.push(version(2));
        }
        Value::List(versions)
    }
}

/// A definition with these names.
pub fn definition(resource: &str, kind: &str, short_name: &str) -> Value {
    let (plural, group) = resource.split_once('.').expect("a custom resource has a group");
    let scope = if resource == ZONES { "Cluster" } else { "Namespaced" };
    let names = value!({"plural": (plural), "kind": (kind), "shortNames": [(short_name)]});
    value!({
        "metadata": {"name": (resource)},
        "spec": {
            "group": (group), "scope": (scope), "names": (names),
            "versions": (Revisable::NEW.versions()),
        },
    })
}
