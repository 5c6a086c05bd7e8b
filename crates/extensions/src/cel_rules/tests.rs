//! Tests of validation rules, as tables of schemas, objects and expected errors in `tests/*.txt`.
//!
//! Each case has a name after `#`, then lines that begin with `schema`, `object`, `old` and `!` for an expected error,
//! or a prefix of it that ends in `…`. Values are YAML.

mod cases;
mod definitions;
mod hostile;

use setpoint_api::field_error::{ErrorList, Path};
use setpoint_api::structural::Schema;
use setpoint_api::{Value, yaml};

use super::{OBJECT_COST_MAX, RuleTree, validate};

fn parse(text: &str) -> Value {
    yaml::parse_strict(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error:?}")).0
}

/// Errors of an object by the rules of a schema.
fn errors_of(schema: &Value, new: &Value, old: Option<&Value>) -> Vec<String> {
    let schema = Schema::compile(schema).unwrap();
    let Some(tree) = RuleTree::compile(&schema, true) else { return Vec::new() };
    let mut errors = ErrorList::new();
    validate((&tree, &schema), new, old, true, (&Path::NONE, OBJECT_COST_MAX), &mut errors);
    errors.iter().map(ToString::to_string).collect()
}

/// `true` if an error is the expected one, or begins with it if that ends in `…`.
fn is_expected(found: &str, expected: &str) -> bool {
    expected.strip_suffix('…').map_or(found == expected, |prefix| found.starts_with(prefix))
}

/// Describes a case whose errors are not the expected ones.
fn mismatch(name: &str, found: &[String], expected: &[&str]) -> Option<String> {
    let is_equal = found.len() == expected.len()
        && found.iter().zip(expected).all(|(found, expected)| is_expected(found, expected));
    (!is_equal).then(|| format!("{name}\nfound: {found:#?}\nexpected: {expected:#?}\n"))
}
