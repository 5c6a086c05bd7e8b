//! Definitions without a field list in the table: non-struct types, unions, and responses of the server
//! itself.

use super::Dialect;
use super::definitions::{object, texts};
use crate::schema::{SchemaOr, Shape};
use crate::value::{Map, Value};

/// A definition of which at most one field is set.
pub(super) struct Union {
    pub(super) definition: &'static str,
    /// Discriminator field; empty if there is none.
    pub(super) discriminator: &'static str,
    /// Fields, with their discriminator values.
    pub(super) fields: &'static [(&'static str, &'static str)],
}

pub(super) const UNIONS: &[Union] = &[
    Union {
        definition: "io.k8s.api.core.v1.AppArmorProfile",
        discriminator: "type",
        fields: &[("localhostProfile", "LocalhostProfile")],
    },
    Union {
        definition: "io.k8s.api.core.v1.PodSchedulingGroup",
        discriminator: "",
        fields: &[("podGroupName", "PodGroupName")],
    },
    Union {
        definition: "io.k8s.api.core.v1.SeccompProfile",
        discriminator: "type",
        fields: &[("localhostProfile", "LocalhostProfile")],
    },
    Union {
        definition: "io.k8s.api.flowcontrol.v1.LimitResponse",
        discriminator: "type",
        fields: &[("queuing", "Queuing")],
    },
    Union {
        definition: "io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationSpec",
        discriminator: "type",
        fields: &[("exempt", "Exempt"), ("limited", "Limited")],
    },
    Union {
        definition: "io.k8s.api.flowcontrol.v1.Subject",
        discriminator: "kind",
        fields: &[("group", "Group"), ("serviceAccount", "ServiceAccount"), ("user", "User")],
    },
    Union {
        definition: "io.k8s.api.scheduling.v1alpha3.WorkloadPodGroupDisruptionMode",
        discriminator: "",
        fields: &[("all", "All"), ("single", "Single")],
    },
    Union {
        definition: "io.k8s.api.scheduling.v1alpha3.WorkloadPodGroupSchedulingPolicy",
        discriminator: "",
        fields: &[("basic", "Basic"), ("gang", "Gang")],
    },
];

/// Fields of the server version: name, and `true` if required.
const VERSION_FIELDS: &[(&str, bool)] = &[
    ("major", true),
    ("minor", true),
    ("emulationMajor", false),
    ("emulationMinor", false),
    ("minCompatibilityMajor", false),
    ("minCompatibilityMinor", false),
    ("gitVersion", true),
    ("gitCommit", true),
    ("gitTreeState", true),
    ("buildDate", true),
    ("goVersion", true),
    ("compiler", true),
    ("platform", true),
];

/// Definition name of a type that is not a struct in JSON.
pub(super) fn special(shape: Shape<'_>) -> Option<&'static str> {
    Some(match shape {
        Shape::IntOrString => "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        Shape::Quantity => "io.k8s.apimachinery.pkg.api.resource.Quantity",
        Shape::Time => "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
        Shape::MicroTime => "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
        Shape::Fields => "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
        Shape::Raw => "io.k8s.apimachinery.pkg.runtime.RawExtension",
        Shape::Any => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
        Shape::SchemaOr(SchemaOr::Array, _) => {
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray"
        }
        Shape::SchemaOr(SchemaOr::Bool, _) => {
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool"
        }
        Shape::SchemaOr(SchemaOr::Strings, _) => {
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray"
        }
        _ => return None,
    })
}

/// Schema of a definition that is not a struct in JSON.
pub(super) fn special_schema(name: &str, dialect: Dialect) -> Value {
    let last = name.rsplit('.').next().unwrap_or(name);
    let mut schema = Map::new();
    let described = match last {
        "IntOrString" => "A 32-bit integer or a string.",
        "Quantity" => "Resource quantity: a decimal number with a suffix, as in 1500m, 2k, 64Mi or 1e3.",
        "Time" => "RFC 3339 timestamp with seconds.",
        "MicroTime" => "RFC 3339 timestamp with microseconds.",
        "FieldsV1" => {
            "Set of fields as a tree: keys start with f: (field), k: (keys of an item), v: (value) or i: (index)."
        }
        "RawExtension" => "An object of any kind.",
        "Patch" => "Body of a patch, in the format of its media type.",
        "JSONSchemaPropsOrArray" => "A JSON schema, or a list of them.",
        "JSONSchemaPropsOrBool" => "A JSON schema, or a boolean.",
        "JSONSchemaPropsOrStringArray" => "A JSON schema, or a list of texts.",
        _ => "Any JSON value.",
    };
    schema.insert("description", described);
    let one_of = |types: [&str; 2]| Value::List(types.map(|ty| object([("type", ty.into())])).to_vec());
    match (last, dialect) {
        ("IntOrString", Dialect::V3) => {
            schema.insert("format", "int-or-string");
            schema.insert("oneOf", one_of(["integer", "string"]));
        }
        ("IntOrString", Dialect::V2) => {
            schema.insert("format", "int-or-string");
            schema.insert("type", "string");
        }
        ("Quantity", Dialect::V3) => drop(schema.insert("oneOf", one_of(["string", "number"]))),
        ("Quantity", Dialect::V2) => drop(schema.insert("type", "string")),
        ("Time" | "MicroTime", _) => {
            schema.insert("format", "date-time");
            schema.insert("type", "string");
        }
        ("FieldsV1" | "RawExtension" | "Patch", _) => drop(schema.insert("type", "object")),
        _ => {}
    }
    Value::Map(schema)
}

/// Schema of the response of `/version`.
pub(super) fn version_info() -> Value {
    let mut fields: Vec<&str> = VERSION_FIELDS.iter().map(|(name, _)| *name).collect();
    fields.sort_unstable();
    let properties: Map = fields.iter().map(|name| (*name, object([("type", "string".into())]))).collect();
    let required = VERSION_FIELDS.iter().filter(|(_, always)| *always).map(|(name, _)| *name);
    object([
        ("description", "Version and build information of the server.".into()),
        ("properties", properties.into()),
        ("required", texts(required)),
        ("type", "object".into()),
    ])
}
