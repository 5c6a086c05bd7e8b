//! Rules in definitions.

use setpoint_api::Value;
use setpoint_api::field_error::ErrorList;

use super::{mismatch, parse};
use crate::validate_definition;

const DEFINITIONS: &str = include_str!("definitions.txt");

fn definition(schema: &str) -> Value {
    let mut definition = parse("{spec: {versions: [{name: v1, schema: {openAPIV3Schema: {}}}]}}");
    let versions = definition.at_mut(&["spec", "versions"]).and_then(Value::as_list_mut).unwrap();
    versions[0].ensure_map("schema").insert("openAPIV3Schema", parse(schema));
    definition
}

/// Errors of a definition, without the path of its schema.
fn errors_of(schema: &str, old: Option<&str>) -> Vec<String> {
    let mut errors = ErrorList::new();
    let old = old.map(definition);
    validate_definition(&definition(schema), old.as_ref(), &mut errors);
    let text = |error: String| error.replace("spec.validation.openAPIV3Schema", "$").replace("$.", "");
    errors.iter().map(|error| text(error.to_string())).collect()
}

/// Definitions have exactly the errors of their case: a name, a schema, and errors.
#[test]
fn definitions_have_the_expected_errors() {
    let (mut count, mut wrong) = (0, String::new());
    for case in DEFINITIONS.split("\n\n").filter(|case| !case.trim().is_empty()) {
        let mut lines = case.trim().lines();
        let (name, schema) = (lines.next().unwrap(), lines.next().unwrap());
        let expected: Vec<&str> = lines.map(|line| line.strip_prefix("! ").unwrap()).collect();
        wrong.extend(mismatch(name, &errors_of(schema, None), &expected));
        count += 1;
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count > 15, "{count}");
}

#[test]
fn costs_of_an_unchanged_schema_are_not_checked() {
    let schema = "{type: object, properties: {a: {type: string, x-kubernetes-validations: [{rule: 'self.matches(self + self)'}]}}}";
    assert_eq!(errors_of(schema, None).len(), 3);
    assert_eq!(errors_of(schema, Some(schema)), Vec::<String>::new());
}

#[test]
fn rules_of_an_invalid_schema_are_not_checked() {
    let schema = "{type: object, properties: {a: {type: string, x-kubernetes-validations: [{rule: self.x}]}, b: {type: string, x-kubernetes-validations: [{rule: self.x}]}}}";
    let mut errors = ErrorList::new();
    let path = setpoint_api::field_error::Path::root("spec.validation.openAPIV3Schema.properties[a].type");
    errors.push(setpoint_api::field_error::FieldError::required(&path, ""));
    validate_definition(&definition(schema), None, &mut errors);
    let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
    assert_eq!(fields.len(), 2, "{fields:?}");
    assert!(fields[1].contains("properties[b]"), "{fields:?}");
}
