//! Reader of CustomResourceDefinitions for the rest of the system: names, versions and states of a custom resource.
//!
//! A [`CustomDefinition`] holds no schema. It keeps the position of each version, and [`CustomVersion::schema`] finds
//! the schema in the object when it is needed, so that a definition without traffic costs little memory.

use compact_str::CompactString;

use crate::kinds::apiextensions::condition;
use crate::value::Value;

#[cfg(test)]
mod tests;

/// Definition of a custom resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomDefinition {
    /// Name of the definition: `plural.group`.
    pub name: CompactString,
    /// UID of the definition.
    pub uid: CompactString,
    /// Generation of the spec.
    pub generation: i64,
    /// API group.
    pub group: CompactString,
    /// Names that the definition requests.
    pub names: CustomNames,
    /// Names that the definition has: those of others are left out.
    pub accepted_names: CustomNames,
    /// `true` if objects are in namespaces.
    pub namespaced: bool,
    /// Versions in the order of the spec.
    pub versions: Vec<CustomVersion>,
    /// Conversion between versions; `None` if only `apiVersion` changes.
    pub conversion: Option<ConversionWebhook>,
    /// Versions in which objects may be stored.
    pub stored_versions: Vec<CompactString>,
    /// `true` if objects keep fields without a schema: definitions of old versions of the API.
    pub preserves_unknown_fields: bool,
    /// `true` if the resource is served.
    pub is_established: bool,
    /// `true` if the definition is in deletion.
    pub is_terminating: bool,
    /// `true` if no other definition has the names.
    pub names_accepted: bool,
}

/// Names of a custom resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CustomNames {
    /// Plural name, as in paths.
    pub plural: CompactString,
    /// Singular name.
    pub singular: CompactString,
    /// Kind of the objects.
    pub kind: CompactString,
    /// Kind of lists.
    pub list_kind: CompactString,
    /// Short names.
    pub short_names: Vec<CompactString>,
    /// Categories, such as `all`.
    pub categories: Vec<CompactString>,
}

/// A version of a custom resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomVersion {
    /// Position in `spec.versions`.
    pub index: usize,
    /// Name of the version.
    pub name: CompactString,
    /// `true` if clients can request the version.
    pub served: bool,
    /// `true` if objects are stored in the version.
    pub storage: bool,
    /// Warning for clients that request a deprecated version; `None` if it is not deprecated.
    pub deprecation: Option<Box<str>>,
    /// `true` if the version has a schema.
    pub has_schema: bool,
    /// `true` if the status is a subresource.
    pub has_status: bool,
    /// The scale subresource.
    pub scale: Option<ScalePaths>,
    /// Printer columns; empty if only name and age are shown.
    pub columns: Vec<PrinterColumn>,
    /// JSON paths of the selectable fields, as in `.spec.color`.
    pub selectable_fields: Vec<CompactString>,
}

/// JSON paths of the scale subresource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    /// Path of the desired replicas, below `.spec`.
    pub spec_replicas: CompactString,
    /// Path of the observed replicas, below `.status`.
    pub status_replicas: CompactString,
    /// Path of the label selector.
    pub label_selector: Option<CompactString>,
}

/// A printer column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrinterColumn {
    /// Header of the column.
    pub name: CompactString,
    /// Type: `integer`, `number`, `string`, `boolean` or `date`.
    pub kind: CompactString,
    /// Format of OpenAPI; may be empty.
    pub format: CompactString,
    /// Description; may be empty.
    pub description: Box<str>,
    /// 0, or larger for wide columns.
    pub priority: i32,
    /// JSON path of the value.
    pub json_path: CompactString,
}

/// Webhook that converts between versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversionWebhook {
    /// Address of the webhook.
    pub target: WebhookTarget,
    /// CA certificates in base64 of PEM; empty for those of the system.
    pub ca_bundle: Box<str>,
    /// Versions of `ConversionReview` that the webhook accepts, preferred ones first.
    pub review_versions: Vec<CompactString>,
}

/// Address of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookTarget {
    /// URL of the webhook.
    Url(Box<str>),
    /// A service of the cluster.
    Service {
        /// Namespace of the service.
        namespace: CompactString,
        /// Name of the service.
        name: CompactString,
        /// Path of the request; may be empty.
        path: Box<str>,
        /// Port of the service.
        port: u16,
    },
}

const PORT_DEFAULT: u16 = 443;

impl CustomDefinition {
    /// Reads a definition; `None` if it lacks a group, a plural name, a kind or versions.
    #[must_use]
    pub fn read(definition: &Value) -> Option<CustomDefinition> {
        let spec = definition.get("spec")?;
        let names = CustomNames::read(spec.get("names")?);
        let group = text(spec, "group");
        let versions: Vec<CustomVersion> = list(spec, "versions")
            .iter()
            .enumerate()
            .map(|(index, version)| CustomVersion::read(index, version, &group, &names.kind))
            .collect();
        if group.is_empty() || names.plural.is_empty() || names.kind.is_empty() || versions.is_empty() {
            return None;
        }
        let accepted = definition.at(&["status", "acceptedNames"]).map(CustomNames::read);
        Some(CustomDefinition {
            name: definition.str_at(&["metadata", "name"]).into(),
            uid: definition.str_at(&["metadata", "uid"]).into(),
            generation: definition.at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0),
            group,
            names,
            accepted_names: accepted.unwrap_or_default(),
            namespaced: spec.str_at(&["scope"]) == "Namespaced",
            versions,
            conversion: ConversionWebhook::read(spec),
            stored_versions: texts(definition.get("status"), "storedVersions"),
            preserves_unknown_fields: flag(spec, "preserveUnknownFields"),
            is_established: condition::is_established(definition),
            is_terminating: definition
                .at(&["metadata", "deletionTimestamp"])
                .is_some_and(|time| !time.is_null())
                || condition::is_true(definition, condition::TERMINATING),
            names_accepted: condition::is_true(definition, condition::NAMES_ACCEPTED),
        })
    }

    /// Returns the version with this name.
    #[must_use]
    pub fn version(&self, name: &str) -> Option<&CustomVersion> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// Returns the version in which objects are stored.
    #[must_use]
    pub fn storage_version(&self) -> Option<&CustomVersion> {
        self.versions.iter().find(|version| version.storage)
    }

    /// Versions that clients can request, in the order of the spec.
    pub fn served_versions(&self) -> impl Iterator<Item = &CustomVersion> {
        self.versions.iter().filter(|version| version.served)
    }
}

impl CustomNames {
    fn read(names: &Value) -> CustomNames {
        CustomNames {
            plural: text(names, "plural"),
            singular: text(names, "singular"),
            kind: text(names, "kind"),
            list_kind: text(names, "listKind"),
            short_names: texts(Some(names), "shortNames"),
            categories: texts(Some(names), "categories"),
        }
    }
}

impl CustomVersion {
    fn read(index: usize, version: &Value, group: &str, kind: &str) -> CustomVersion {
        let name = text(version, "name");
        let warning = || match version.get("deprecationWarning").and_then(Value::as_str) {
            Some(warning) => warning.into(),
            None => format!("{group}/{name} {kind} is deprecated").into(),
        };
        let deprecation = flag(version, "deprecated").then(warning);
        let paths = |scale: &Value| ScalePaths {
            spec_replicas: text(scale, "specReplicasPath"),
            status_replicas: text(scale, "statusReplicasPath"),
            label_selector: Some(text(scale, "labelSelectorPath")).filter(|path| !path.is_empty()),
        };
        let subresources = version.get("subresources");
        let subresource = |name: &str| subresources?.get(name).filter(|value| !value.is_null());
        CustomVersion {
            index,
            served: flag(version, "served"),
            storage: flag(version, "storage"),
            deprecation,
            has_schema: schema_of(version).is_some(),
            has_status: subresource("status").is_some(),
            scale: subresource("scale").map(paths),
            columns: list(version, "additionalPrinterColumns").iter().map(PrinterColumn::read).collect(),
            selectable_fields: list(version, "selectableFields")
                .iter()
                .map(|field| text(field, "jsonPath"))
                .collect(),
            name,
        }
    }

    /// Returns the schema of the version in the object from which it was read.
    #[must_use]
    pub fn schema<'d>(&self, definition: &'d Value) -> Option<&'d Value> {
        let versions = definition.at(&["spec", "versions"])?.as_list()?;
        let version = versions.get(self.index).filter(|version| version.str_at(&["name"]) == self.name)?;
        schema_of(version)
    }
}

impl PrinterColumn {
    fn read(column: &Value) -> PrinterColumn {
        let priority = column.get("priority").and_then(Value::as_i64).unwrap_or(0);
        PrinterColumn {
            name: text(column, "name"),
            kind: text(column, "type"),
            format: text(column, "format"),
            description: column.str_at(&["description"]).into(),
            priority: i32::try_from(priority).unwrap_or(0),
            json_path: text(column, "jsonPath"),
        }
    }
}

impl ConversionWebhook {
    fn read(spec: &Value) -> Option<ConversionWebhook> {
        let conversion = spec.get("conversion")?;
        if conversion.str_at(&["strategy"]) != "Webhook" {
            return None;
        }
        let webhook = conversion.get("webhook")?;
        let config = webhook.get("clientConfig")?;
        let target = match (config.get("url").and_then(Value::as_str), config.get("service")) {
            (Some(url), _) => WebhookTarget::Url(url.into()),
            (None, Some(service)) => {
                let port = service.get("port").and_then(Value::as_i64);
                WebhookTarget::Service {
                    namespace: text(service, "namespace"),
                    name: text(service, "name"),
                    path: service.str_at(&["path"]).into(),
                    port: port.and_then(|port| u16::try_from(port).ok()).unwrap_or(PORT_DEFAULT),
                }
            }
            (None, None) => return None,
        };
        Some(ConversionWebhook {
            target,
            ca_bundle: config.str_at(&["caBundle"]).into(),
            review_versions: texts(Some(webhook), "conversionReviewVersions"),
        })
    }
}

fn schema_of(version: &Value) -> Option<&Value> {
    version.at(&["schema", "openAPIV3Schema"]).filter(|schema| !schema.is_null())
}

fn text(value: &Value, field: &str) -> CompactString {
    value.str_at(&[field]).into()
}

fn flag(value: &Value, field: &str) -> bool {
    value.get(field).and_then(Value::as_bool).unwrap_or(false)
}

fn list<'v>(value: &'v Value, field: &str) -> &'v [Value] {
    value.get(field).and_then(Value::as_list).unwrap_or_default()
}

fn texts(value: Option<&Value>, field: &str) -> Vec<CompactString> {
    let list = value.and_then(|value| value.get(field)).and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(CompactString::from).collect()
}
