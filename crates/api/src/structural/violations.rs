//! Reasons for which a schema is not structural.
//!
//! Structure (types, properties, items, defaults, extensions) is outside of `allOf`, `anyOf`, `oneOf` and `not`;
//! every property and item that they mention is specified outside of them too.

use super::compile::SCHEMA_DEPTH_MAX;
use super::pattern::PatternChecks;
use crate::field_error::{ErrorList, FieldError, Path};
use crate::value::{Map, Value};

/// Violations of the rules of structural schemas by a decoded `JSONSchemaProps`, with upstream's texts, sorted.
#[must_use]
pub fn structural_violations(props: &Value, path: &Path<'_>) -> ErrorList {
    let Some(node) = PropsNode::of(Some(props)) else { return ErrorList::new() };
    let mut walk = StructureWalk { errors: ErrorList::new(), depth: 0, patterns: PatternChecks::default() };
    walk.check_structure(node, NodeLevel::Root, path);
    walk.check_complete(node, Some(node), path, path);
    let mut found: Vec<(String, FieldError)> =
        walk.errors.into_iter().map(|error| (error.to_string(), error)).collect();
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    found.into_iter().map(|(_, error)| error).collect::<Vec<_>>().into()
}

/// Position of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NodeLevel {
    Root,
    Item,
    Field,
}

/// A node of a schema.
#[derive(Clone, Copy)]
struct PropsNode<'a>(&'a Map);

impl<'a> PropsNode<'a> {
    fn of(value: Option<&'a Value>) -> Option<PropsNode<'a>> {
        value.and_then(Value::as_map).map(PropsNode)
    }

    fn text(self, field: &str) -> &'a str {
        self.0.get_str(field).unwrap_or_default()
    }

    fn is_true(self, field: &str) -> bool {
        self.0.get(field) == Some(&Value::Bool(true))
    }

    fn list(self, field: &str) -> &'a [Value] {
        self.0.get(field).and_then(Value::as_list).unwrap_or_default()
    }

    /// Nodes of a list, with their positions.
    fn nodes(self, field: &str) -> impl Iterator<Item = (usize, PropsNode<'a>)> {
        let nodes = self.list(field).iter().enumerate();
        nodes.filter_map(|(at, node)| Some((at, PropsNode::of(Some(node))?)))
    }

    fn child(self, field: &str) -> Option<PropsNode<'a>> {
        PropsNode::of(self.0.get(field))
    }

    fn property(self, name: &str) -> Option<PropsNode<'a>> {
        PropsNode::of(self.0.get("properties")?.get(name))
    }

    fn properties(self) -> impl Iterator<Item = (&'a str, PropsNode<'a>)> {
        let properties = self.0.get("properties").and_then(Value::as_map).into_iter().flat_map(Map::iter);
        properties.filter_map(|(name, node)| Some((name, PropsNode::of(Some(node))?)))
    }

    fn has_additional(self) -> bool {
        matches!(self.0.get("additionalProperties"), Some(Value::Map(_) | Value::Bool(_)))
    }

    /// `true` if the `anyOf` is that of an int-or-string.
    fn is_int_or_string_any_of(self) -> bool {
        self.0.get("anyOf") == Some(&crate::value!([{"type": "integer"}, {"type": "string"}]))
    }
}

struct StructureWalk<'a> {
    errors: ErrorList,
    /// Nodes on the way to the current one.
    depth: usize,
    patterns: PatternChecks<'a>,
}

impl<'a> StructureWalk<'a> {
    /// `true` if the walk ends here. Such schemas do not compile.
    fn is_too_deep(&self) -> bool {
        self.depth > SCHEMA_DEPTH_MAX || self.errors.is_full()
    }

    fn forbid(&mut self, path: &Path<'_>, field: &str, detail: &'static str) {
        self.errors.push(FieldError::forbidden(&path.child(field), detail));
    }

    /// Checks a node outside of junctors.
    fn check_structure(&mut self, node: PropsNode<'a>, level: NodeLevel, path: &Path<'_>) {
        if self.is_too_deep() {
            return;
        }
        self.depth += 1;
        match node.child("items") {
            Some(items) => self.check_structure(items, NodeLevel::Item, &path.child("items")),
            None if node.text("type") == "array" => {
                self.errors.push(FieldError::required(&path.child("items"), "must be specified"));
            }
            None => {}
        }
        let properties = path.child("properties");
        for (name, property) in node.properties() {
            self.check_structure(property, NodeLevel::Field, &properties.key(name));
        }
        if node.has_additional() {
            if level == NodeLevel::Root {
                self.forbid(path, "additionalProperties", "must not be used at the root");
            }
            if let Some(schema) = node.child("additionalProperties") {
                self.check_structure(schema, NodeLevel::Field, &path.child("additionalProperties"));
            }
        }
        self.check_extensions(node, path);
        let skips_all_of =
            node.nodes("allOf").next().is_some_and(|(at, n)| at == 0 && n.is_int_or_string_any_of());
        self.check_values(node, node.is_int_or_string_any_of(), skips_all_of, path);
        self.check_type(node, level, path);
        self.check_resource(node, level, path);
        self.depth -= 1;
    }

    fn check_extensions(&mut self, node: PropsNode<'a>, path: &Path<'_>) {
        if !node.is_true("x-kubernetes-int-or-string") {
            return;
        }
        for field in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
            if node.is_true(field) {
                let detail = "must be false if x-kubernetes-int-or-string is true";
                self.errors.push(FieldError::invalid(&path.child(field), true, detail));
            }
        }
    }

    fn check_type(&mut self, node: PropsNode<'a>, level: NodeLevel, path: &Path<'_>) {
        let (ty, at) = (node.text("type"), path.child("type"));
        let is_free = node.is_true("x-kubernetes-int-or-string")
            || node.is_true("x-kubernetes-preserve-unknown-fields");
        if node.is_true("x-kubernetes-embedded-resource") && ty != "object" {
            let detail = "must be object if x-kubernetes-embedded-resource is true";
            if ty.is_empty() {
                self.errors.push(FieldError::required(&at, detail));
            } else {
                self.errors.push(FieldError::invalid(&at, ty, detail));
            }
        } else if ty.is_empty() && !is_free {
            let detail = match level {
                NodeLevel::Root => "must not be empty at the root",
                NodeLevel::Item => "must not be empty for specified array items",
                NodeLevel::Field => "must not be empty for specified object fields",
            };
            self.errors.push(FieldError::required(&at, detail));
        }
        if level == NodeLevel::Root && !ty.is_empty() && ty != "object" {
            self.errors.push(FieldError::invalid(&at, ty, "must be object at the root"));
        }
    }

    /// Checks the properties that resources have.
    fn check_resource(&mut self, node: PropsNode<'a>, level: NodeLevel, path: &Path<'_>) {
        let is_embedded = node.is_true("x-kubernetes-embedded-resource");
        if is_embedded && node.has_additional() {
            let detail = "must not be used if x-kubernetes-embedded-resource is set";
            self.forbid(path, "additionalProperties", detail);
        }
        let is_resource = level == NodeLevel::Root || is_embedded;
        let properties = path.child("properties");
        for name in ["kind", "apiVersion"] {
            if let Some(property) = node.property(name).filter(|property| property.text("type") != "string")
                && is_resource
            {
                let at = properties.key(name);
                self.errors.push(FieldError::invalid(
                    &at.child("type"),
                    property.text("type"),
                    "must be string",
                ));
            }
        }
        if let Some(metadata) = node.property("metadata") {
            let at = properties.key("metadata");
            if is_resource && metadata.text("type") != "object" {
                self.errors.push(FieldError::invalid(
                    &at.child("type"),
                    metadata.text("type"),
                    "must be object",
                ));
            }
            if level == NodeLevel::Root && !is_implicit_metadata(metadata) {
                let detail = "must not specify anything other than name and generateName, but metadata is \
                              implicitly specified";
                self.errors.push(FieldError::forbidden(&at, detail));
            }
        }
        let preserves = node.is_true("x-kubernetes-preserve-unknown-fields");
        if is_embedded && !preserves && node.properties().next().is_none() {
            let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                          x-kubernetes-preserve-unknown-fields";
            self.errors.push(FieldError::required(&properties, detail));
        }
    }

    /// Checks the value validations of a node.
    fn check_values(
        &mut self,
        node: PropsNode<'a>,
        skips_any_of: bool,
        skips_first_any_of: bool,
        path: &Path<'_>,
    ) {
        if !skips_any_of {
            for (at, branch) in node.nodes("anyOf") {
                self.check_nested(branch, false, &path.child("anyOf").index(at));
            }
        }
        for (at, branch) in node.nodes("allOf") {
            self.check_nested(branch, skips_first_any_of && at == 0, &path.child("allOf").index(at));
        }
        for (at, branch) in node.nodes("oneOf") {
            self.check_nested(branch, false, &path.child("oneOf").index(at));
        }
        if let Some(not) = node.child("not") {
            self.check_nested(not, false, &path.child("not"));
        }
        let pattern = node.text("pattern");
        if !pattern.is_empty()
            && let Some(fault) = self.patterns.fault(pattern)
        {
            let detail = format!("must be a valid regular expression, but isn't: {fault}");
            self.errors.push(FieldError::invalid(&path.child("pattern"), pattern, detail));
        }
    }

    /// Checks a node below a junctor.
    fn check_nested(&mut self, node: PropsNode<'a>, skips_any_of: bool, path: &Path<'_>) {
        if self.is_too_deep() {
            return;
        }
        self.depth += 1;
        self.check_values(node, skips_any_of, false, path);
        if let Some(items) = node.child("items") {
            self.check_nested(items, false, &path.child("items"));
        }
        let properties = path.child("properties");
        for (name, property) in node.properties() {
            self.check_nested(property, false, &properties.key(name));
        }
        for field in ["type", "title", "description"] {
            if !node.text(field).is_empty() {
                self.forbid(path, field, "must be empty to be structural");
            }
        }
        if matches!(node.0.get("additionalProperties"), Some(Value::Map(_) | Value::Bool(true))) {
            self.forbid(path, "additionalProperties", "must be undefined to be structural");
        }
        let flags = [
            "nullable",
            "x-kubernetes-preserve-unknown-fields",
            "x-kubernetes-embedded-resource",
            "x-kubernetes-int-or-string",
        ];
        for field in flags {
            if node.is_true(field) {
                self.forbid(path, field, "must be false to be structural");
            }
        }
        for field in ["default", "x-kubernetes-list-type", "x-kubernetes-map-type"] {
            if node.0.get(field).is_some_and(|value| !value.is_null()) {
                self.forbid(path, field, "must be undefined to be structural");
            }
        }
        for field in ["x-kubernetes-list-map-keys", "x-kubernetes-validations"] {
            if !node.list(field).is_empty() {
                self.forbid(path, field, "must be empty to be structural");
            }
        }
        if node.property("metadata").is_some() {
            let detail = "must not be specified in a nested context";
            self.errors.push(FieldError::forbidden(&properties.key("metadata"), detail));
        }
        self.depth -= 1;
    }

    /// Checks that the junctors of `values` mention only what `structure` specifies.
    fn check_complete(
        &mut self,
        values: PropsNode<'a>,
        structure: Option<PropsNode<'a>>,
        at: &Path<'_>,
        values_at: &Path<'_>,
    ) {
        if let Some(not) = values.child("not") {
            self.check_nested_complete(not, structure, at, &values_at.child("not"));
        }
        for field in ["allOf", "anyOf", "oneOf"] {
            for (index, branch) in values.nodes(field) {
                self.check_nested_complete(branch, structure, at, &values_at.child(field).index(index));
            }
        }
    }

    fn check_nested_complete(
        &mut self,
        values: PropsNode<'a>,
        structure: Option<PropsNode<'a>>,
        at: &Path<'_>,
        values_at: &Path<'_>,
    ) {
        if self.is_too_deep() {
            return;
        }
        let Some(known) = structure else {
            self.errors.push(FieldError::required(at, format!("because it is defined in {values_at}")));
            return;
        };
        self.depth += 1;
        self.check_complete(values, structure, at, values_at);
        if let Some(items) = values.child("items") {
            self.check_nested_complete(
                items,
                known.child("items"),
                &at.child("items"),
                &values_at.child("items"),
            );
        }
        let (properties, values_at) = (at.child("properties"), values_at.child("properties"));
        for (name, property) in values.properties() {
            let (at, values_at) = (properties.key(name), values_at.key(name));
            self.check_nested_complete(property, known.property(name), &at, &values_at);
        }
        self.depth -= 1;
    }
}

/// `true` if metadata specifies nothing but its type and names.
fn is_implicit_metadata(metadata: PropsNode<'_>) -> bool {
    let is_zero = |value: &Value| match value {
        Value::Str(text) => text.is_empty(),
        Value::Null | Value::Bool(false) => true,
        Value::List(list) => list.is_empty(),
        _ => false,
    };
    metadata.0.iter().all(|(field, value)| match field {
        "type" | "default" => true,
        "properties" => {
            value.as_map().is_none_or(|map| map.keys().all(|name| matches!(name, "name" | "generateName")))
        }
        _ => is_zero(value),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn violations(text: &str) -> Vec<String> {
        let props = json::parse(text.as_bytes()).unwrap();
        structural_violations(&props, &Path::NONE).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn structural_schemas_have_no_violations() {
        for text in [
            r#"{"type":"object"}"#,
            r#"{"type":"object","properties":{"metadata":{"type":"object","properties":{"name":{"type":"string","pattern":"a"}}}}}"#,
            r#"{"type":"object","properties":{"a":{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]}}}"#,
            r#"{"type":"object","properties":{"a":{"x-kubernetes-int-or-string":true,
                "allOf":[{"anyOf":[{"type":"integer"},{"type":"string"}]},{"pattern":"x"}]}}}"#,
            r#"{"type":"object","properties":{"a":{"type":"string"}},"anyOf":[{"required":["a"]},{"properties":{"a":{"enum":["x"]}}}]}"#,
        ] {
            assert_eq!(violations(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn violations_have_upstream_texts() {
        let cases: &[(&str, &[&str])] = &[
            ("{}", &["type: Required value: must not be empty at the root"]),
            (
                r#"{"type":"array"}"#,
                &[
                    "items: Required value: must be specified",
                    r#"type: Invalid value: "array": must be object at the root"#,
                ],
            ),
            (
                r#"{"type":"object","properties":{"a":{},"b":{"type":"array","items":{}}},"additionalProperties":{"type":"string"}}"#,
                &[
                    "additionalProperties: Forbidden: must not be used at the root",
                    "properties[a].type: Required value: must not be empty for specified object fields",
                    "properties[b].items.type: Required value: must not be empty for specified array items",
                ],
            ),
            (
                r#"{"type":"object","properties":{"a":{"type":"string","anyOf":[{"type":"string","nullable":true,"default":"x","description":"d",
                "additionalProperties":true,"x-kubernetes-list-type":"set","x-kubernetes-validations":[{"rule":"true"}]}]}}}"#,
                &[
                    "properties[a].anyOf[0].additionalProperties: Forbidden: must be undefined to be structural",
                    "properties[a].anyOf[0].default: Forbidden: must be undefined to be structural",
                    "properties[a].anyOf[0].description: Forbidden: must be empty to be structural",
                    "properties[a].anyOf[0].nullable: Forbidden: must be false to be structural",
                    "properties[a].anyOf[0].type: Forbidden: must be empty to be structural",
                    "properties[a].anyOf[0].x-kubernetes-list-type: Forbidden: must be undefined to be structural",
                    "properties[a].anyOf[0].x-kubernetes-validations: Forbidden: must be empty to be structural",
                ],
            ),
            (
                r#"{"type":"object","not":{"properties":{"a":{"minimum":1},"metadata":{}}},"allOf":[{"items":{}}]}"#,
                &[
                    "items: Required value: because it is defined in allOf[0].items",
                    "not.properties[metadata]: Forbidden: must not be specified in a nested context",
                    "properties[a]: Required value: because it is defined in not.properties[a]",
                    "properties[metadata]: Required value: because it is defined in not.properties[metadata]",
                ],
            ),
            (
                r#"{"type":"object","properties":{"kind":{"type":"integer"},"metadata":{"type":"object","description":"x"}}}"#,
                &[
                    r#"properties[kind].type: Invalid value: "integer": must be string"#,
                    "properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
                ],
            ),
            (
                r#"{"type":"object","properties":{"e":{"x-kubernetes-embedded-resource":true},
                "i":{"x-kubernetes-int-or-string":true,"x-kubernetes-preserve-unknown-fields":true},"p":{"type":"string","pattern":"+"}}}"#,
                &[
                    "properties[e].properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
                    "properties[e].type: Required value: must be object if x-kubernetes-embedded-resource is true",
                    "properties[i].x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if x-kubernetes-int-or-string is true",
                    "properties[p].pattern: Invalid value: \"+\": must be a valid regular expression, but isn't: error parsing regexp: missing argument to repetition operator: `+`",
                ],
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(violations(text), *expected, "{text}");
        }
    }
}
