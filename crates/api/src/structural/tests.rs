//! Structural schemas: pruning, defaults and validation are idempotent and never panic.

use super::*;
use crate::field_error::{ErrorList, Path};
use crate::json;
use crate::value::{Map, Value};

mod fields;
mod properties;
mod validation;

fn parse(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn compile(text: &str) -> Schema {
    Schema::compile(&parse(text)).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Errors of a check, as strings.
fn errors_of(run: impl FnOnce(&mut ErrorList)) -> Vec<String> {
    let mut errors = ErrorList::new();
    run(&mut errors);
    errors.iter().map(ToString::to_string).collect()
}

fn validate_text(schema: &Schema, object: &str) -> Vec<String> {
    let object = parse(object);
    errors_of(|errors| validate(&object, schema, &Path::NONE, errors))
}

#[test]
fn schemas_beyond_their_bounds_are_rejected() {
    let mut deep = r#"{"type":"string"}"#.to_owned();
    for _ in 0..200 {
        deep = format!(r#"{{"type":"array","items":{deep}}}"#);
    }
    assert!(Schema::compile(&parse(&deep)).is_ok());
    let mut props = parse(&deep);
    for _ in 0..100 {
        props = crate::value!({"type": "array", "items": (props)});
    }
    assert_eq!(Schema::compile(&props).unwrap_err(), StructuralError::Depth);
    let many = vec![crate::value!({"type": "string"}); SCHEMA_NODES_MAX];
    let wide = crate::value!({"type": "string", "anyOf": (many)});
    assert_eq!(Schema::compile(&wide).unwrap_err(), StructuralError::Nodes);
}

#[test]
fn fields_of_other_schemas_are_rejected() {
    for (text, error) in [
        (r#"{"type":"foo"}"#, "unknown type \"foo\""),
        (r##"{"$ref":"#/a"}"##, "OpenAPIV3Schema '$ref' is not supported"),
        (r#"{"items":[{}]}"#, "OpenAPIV3Schema 'items' must be a schema, but is an array"),
        (
            r#"{"x-kubernetes-preserve-unknown-fields":false}"#,
            "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined",
        ),
    ] {
        assert_eq!(Schema::compile(&parse(text)).unwrap_err().to_string(), error);
    }
}

#[test]
fn rules_are_kept_at_their_node() {
    let schema = compile(
        r#"{"type":"object","properties":{"a":{"type":"string","x-kubernetes-validations":[
            {"rule":"self != ''","message":"m","reason":"FieldValueRequired","fieldPath":".x","optionalOldSelf":true}]}}}"#,
    );
    assert!(schema.has_rules() && schema.rules.is_empty());
    let rule = &schema.property("a").unwrap().rules[0];
    assert_eq!(
        (rule.rule.as_str(), rule.message.as_str(), rule.optional_old_self),
        ("self != ''", "m", Some(true))
    );
}
