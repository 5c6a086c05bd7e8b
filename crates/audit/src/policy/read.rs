//! Decoding of policy files.

use setpoint_api::field_error::Path;
use setpoint_api::quote::Quoted;
use setpoint_api::{Value, json, yaml};

use super::GroupResources;
use super::strict::{Object, Unknown, check_unknown};

/// The version of policies.
const API_VERSION: &str = "audit.k8s.io/v1";
const KIND: &str = "Policy";
/// Characters of a document in an error.
const SHOWN_CHARS_MAX: usize = 256;
/// Fields of the metadata, which have no effect; tools that apply manifests need them.
const METADATA_FIELDS: [&str; 15] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// A policy as the file has it.
#[derive(Debug, Default)]
pub(super) struct DecodedPolicy {
    pub rules: Vec<DecodedRule>,
    pub omit_stages: Vec<Box<str>>,
    pub omit_managed_fields: bool,
}

/// A rule as the file has it.
#[derive(Debug, Default)]
pub(super) struct DecodedRule {
    pub level: Box<str>,
    pub users: Vec<Box<str>>,
    pub user_groups: Vec<Box<str>>,
    pub verbs: Vec<Box<str>>,
    pub resources: Vec<GroupResources>,
    pub namespaces: Vec<Box<str>>,
    pub non_resource_urls: Vec<Box<str>>,
    pub omit_stages: Vec<Box<str>>,
    pub omit_managed_fields: Option<bool>,
}

/// Decodes a file.
pub(super) fn decode(bytes: &[u8]) -> Result<DecodedPolicy, String> {
    let document = parse(bytes)?;
    let mut unknown = Unknown::new();
    let known = ["apiVersion", "kind", "metadata", "rules", "omitStages", "omitManagedFields"];
    let root = Object::new(&document, KIND, Path::NONE, &known, &mut unknown)?;
    if let Some(metadata) = root.field("metadata") {
        Object::new(metadata, "ObjectMeta", Path::root("metadata"), &METADATA_FIELDS, &mut unknown)?;
    }
    let list = Path::root("rules");
    let rules = root.list("rules", "v1.PolicyRule")?.iter().enumerate();
    let rules = rules.map(|(index, rule)| decode_rule(rule, &list.index(index), &mut unknown));
    let decoded = DecodedPolicy {
        rules: rules.collect::<Result<_, _>>()?,
        omit_stages: root.texts("omitStages")?,
        omit_managed_fields: root.flag("omitManagedFields")?.unwrap_or_default(),
    };
    check_unknown(&unknown)?;
    Ok(decoded)
}

/// Parses a document, and checks its kind.
fn parse(bytes: &[u8]) -> Result<Value, String> {
    let (document, duplicates) = yaml::parse_strict(bytes).map_err(|error| error.to_string())?;
    let (version, kind) = (document.str_at(&["apiVersion"]), document.str_at(&["kind"]));
    let shown = || json::to_text(&document).chars().take(SHOWN_CHARS_MAX).collect::<String>();
    if kind.is_empty() {
        return Err(format!("Object 'Kind' is missing in '{}'", shown()));
    }
    if version.is_empty() {
        return Err(format!("Object 'apiVersion' is missing in '{}'", shown()));
    }
    if kind != KIND || version != API_VERSION {
        let (kind, version) = (Quoted(kind), Quoted(version));
        return Err(format!(
            "no kind {kind} is registered for version {version}: it must be a Policy of {API_VERSION}"
        ));
    }
    if !duplicates.is_empty() {
        let lines = yaml::repeated_keys(bytes).join(", ");
        return Err(format!("strict decoding error: yaml: unmarshal errors: {lines}"));
    }
    Ok(document)
}

fn decode_rule(value: &Value, path: &Path<'_>, unknown: &mut Unknown) -> Result<DecodedRule, String> {
    let known = [
        "level",
        "users",
        "userGroups",
        "verbs",
        "resources",
        "namespaces",
        "nonResourceURLs",
        "omitStages",
        "omitManagedFields",
    ];
    let rule = Object::new(value, "PolicyRule", *path, &known, unknown)?;
    let list = path.child("resources");
    let resources = rule.list("resources", "v1.GroupResources")?.iter().enumerate();
    let resources = resources.map(|(index, value)| decode_resources(value, &list.index(index), unknown));
    Ok(DecodedRule {
        resources: resources.collect::<Result<_, _>>()?,
        level: rule.text("level")?.into(),
        users: rule.texts("users")?,
        user_groups: rule.texts("userGroups")?,
        verbs: rule.texts("verbs")?,
        namespaces: rule.texts("namespaces")?,
        non_resource_urls: rule.texts("nonResourceURLs")?,
        omit_stages: rule.texts("omitStages")?,
        omit_managed_fields: rule.flag("omitManagedFields")?,
    })
}

fn decode_resources(value: &Value, path: &Path<'_>, unknown: &mut Unknown) -> Result<GroupResources, String> {
    let known = ["group", "resources", "resourceNames"];
    let decoded = Object::new(value, "GroupResources", *path, &known, unknown)?;
    Ok(GroupResources {
        group: decoded.text("group")?.into(),
        resources: decoded.texts("resources")?,
        resource_names: decoded.texts("resourceNames")?,
    })
}
