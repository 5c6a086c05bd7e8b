//! Traversal of the schemas of a definition.
//!
//! Schemas nest at most as deep as JSON does ([`crate::json::DEPTH_MAX`]).

use super::internal::InternalSpec;
use crate::field_error::Path;
use crate::kinds::check;
use crate::value::Value;

/// Root schema of one version, or of all versions if they have the same.
#[derive(Clone, Copy, Debug)]
pub struct SchemaRoot<'a> {
    /// The schema.
    pub schema: &'a Value,
    /// Path of the schema in messages, which is that of upstream's internal version.
    pub path: &'a Path<'a>,
    /// Name of the version; `None` if it is the schema of all versions.
    pub version: Option<&'a str>,
}

/// A schema node with validation rules.
#[derive(Clone, Copy, Debug)]
pub struct RuleSite<'a> {
    /// The schema node.
    pub schema: &'a Value,
    /// Its rules, `x-kubernetes-validations`.
    pub rules: &'a [Value],
    /// Path of the node in messages.
    pub path: &'a Path<'a>,
    /// Path of the first ancestor whose items cannot be correlated between two revisions of an object: rules below
    /// it may not use `oldSelf`.
    pub uncorrelatable: Option<&'a Path<'a>>,
    /// Maximum number of values of this schema in an object by `maxItems` and `maxProperties` around it; `None` if
    /// they do not bound it.
    pub max_values: Option<u64>,
}

/// Visits the distinct root schemas of a definition, in the order of validation.
pub fn for_each_root(definition: &Value, visit: &mut dyn FnMut(&SchemaRoot<'_>)) {
    let spec = InternalSpec::of(definition);
    let path = Path::root("spec");
    let versions = path.child("versions");
    for (i, version) in spec.versions.iter().enumerate() {
        let Some(schema) = version.schema.and_then(|schema| schema.get("openAPIV3Schema")) else { continue };
        let path = versions.index(i);
        let path = path.child("schema");
        let path = path.child("openAPIV3Schema");
        visit(&SchemaRoot { schema, path: &path, version: Some(version.name) });
    }
    if let Some(schema) = spec.validation.and_then(|schema| schema.get("openAPIV3Schema")) {
        let path = path.child("validation");
        let path = path.child("openAPIV3Schema");
        visit(&SchemaRoot { schema, path: &path, version: None });
    }
}

/// Visits the nodes of a schema that have validation rules, children first. Rules inside `not`, `allOf`, `anyOf` and
/// `oneOf` are never evaluated and not visited.
pub fn for_each_rule_site(root: &SchemaRoot<'_>, visit: &mut dyn FnMut(&RuleSite<'_>)) {
    let place = RulePlace { path: root.path, uncorrelatable: None, max_values: Some(1) };
    visit_rules(root.schema, place, visit);
}

/// Position of a node; see [`RuleSite`].
#[derive(Clone, Copy)]
struct RulePlace<'a> {
    path: &'a Path<'a>,
    uncorrelatable: Option<&'a Path<'a>>,
    max_values: Option<u64>,
}

fn visit_rules(schema: &Value, place: RulePlace<'_>, visit: &mut dyn FnMut(&RuleSite<'_>)) {
    let RulePlace { path, uncorrelatable, max_values } = place;
    let inner = place.max_values.zip(max_elements(schema)).map(|(values, each)| values.saturating_mul(each));
    let others = check::field(schema, "additionalProperties");
    if others.as_map().is_some() {
        let path = path.child("additionalProperties");
        visit_rules(others, RulePlace { path: &path, uncorrelatable, max_values: inner }, visit);
    }
    let properties = path.child("properties");
    for (name, property) in check::entries(schema, "properties") {
        let path = properties.key(name);
        visit_rules(property, RulePlace { path: &path, uncorrelatable, max_values: inner }, visit);
    }
    let items = check::field(schema, "items");
    if items.as_map().is_some() {
        let is_correlatable = check::text(schema, "x-kubernetes-list-type") == "map";
        let uncorrelatable = uncorrelatable.or((!is_correlatable).then_some(path));
        let path = path.child("items");
        visit_rules(items, RulePlace { path: &path, uncorrelatable, max_values: inner }, visit);
    }
    let rules = check::list(schema, "x-kubernetes-validations");
    if !rules.is_empty() {
        visit(&RuleSite { schema, rules, path, uncorrelatable, max_values });
    }
}

/// Maximum number of values below one value of a schema; `None` if it is unbounded.
fn max_elements(schema: &Value) -> Option<u64> {
    let limit = |name: &str| {
        let max = check::field(schema, name).as_i64()?;
        Some(u64::try_from(max).unwrap_or(0))
    };
    match check::text(schema, "type") {
        "object" if check::is_set(schema, "additionalProperties") => limit("maxProperties"),
        "array" => limit("maxItems"),
        _ => Some(1),
    }
}

/// Visits every schema inside a schema, and itself.
pub(super) fn for_each_schema<'a>(root: &'a Value, visit: &mut dyn FnMut(&'a Value)) {
    const LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
    const MAPS: [&str; 3] = ["patternProperties", "definitions", "dependencies"];
    let mut pending = vec![root];
    while let Some(node) = pending.pop() {
        if node.as_map().is_none() {
            continue;
        }
        visit(node);
        // The last one that is added is visited first.
        for name in MAPS {
            pending.extend(check::entries(node, name).into_iter().map(|(_, schema)| schema));
        }
        pending.push(check::field(node, "additionalItems"));
        pending.push(check::field(node, "additionalProperties"));
        pending.extend(check::entries(node, "properties").into_iter().rev().map(|(_, schema)| schema));
        pending.push(check::field(node, "not"));
        for name in LISTS.iter().rev() {
            pending.extend(check::list(node, name).iter().rev());
        }
        match check::field(node, "items") {
            Value::List(schemas) => pending.extend(schemas.iter().rev()),
            schema => pending.push(schema),
        }
    }
}

/// `true` if a schema inside a schema, or itself, matches.
pub(super) fn has_schema_with(root: &Value, matches: impl Fn(&Value) -> bool) -> bool {
    let mut found = false;
    for_each_schema(root, &mut |node| found = found || matches(node));
    found
}
