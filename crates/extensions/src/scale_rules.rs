//! Rules of the fields behind the scale subresource of a custom kind.

use setpoint_api::Value;
use setpoint_api::custom::ScalePaths;
use setpoint_api::field_error::{BadValue, ErrorList, FieldError, Path};
use setpoint_api::go_format::{GoValue, type_name};

/// Checks the desired replicas.
pub(crate) fn validate_spec(object: &Value, paths: &ScalePaths, errors: &mut ErrorList) {
    validate_replicas(object, &paths.spec_replicas, errors);
}

/// Checks the observed replicas and the selector.
pub(crate) fn validate_status(object: &Value, paths: &ScalePaths, errors: &mut ErrorList) {
    validate_replicas(object, &paths.status_replicas, errors);
    let Some(path) = &paths.label_selector else { return };
    match find(object, path) {
        Ok(Some(value)) if value.as_str().is_none() => {
            let why = type_error(&trimmed(path), value, "string");
            errors.push(FieldError::invalid(&Path::root(path), BadValue::Text("".into()), why));
        }
        Ok(_) => {}
        Err(why) => errors.push(FieldError::invalid(&Path::root(path), BadValue::Text("".into()), why)),
    }
}

fn validate_replicas(object: &Value, path: &str, errors: &mut ErrorList) {
    let at = Path::root(path);
    let invalid = |value: i64, why: String| FieldError::invalid(&at, value, why);
    let value = match find(object, path) {
        Ok(None) => return,
        Ok(Some(value)) => value,
        Err(why) => return errors.push(invalid(0, why)),
    };
    match value.as_i64() {
        None => errors.push(invalid(0, type_error(&trimmed(path), value, "int64"))),
        Some(number) if number < 0 => {
            errors.push(invalid(number, "should be a non-negative integer".to_owned()));
        }
        Some(number) if number > i64::from(i32::MAX) => {
            errors.push(invalid(number, format!("should be less than or equal to {}", i32::MAX)));
        }
        Some(_) => {}
    }
}

fn trimmed(path: &str) -> String {
    format!(".{}", path.strip_prefix('.').unwrap_or(path))
}

/// Returns the value at a path; `None` if there is none.
fn find<'v>(object: &'v Value, path: &str) -> Result<Option<&'v Value>, String> {
    let (mut value, mut walked) = (object, String::new());
    for field in path.strip_prefix('.').unwrap_or(path).split('.') {
        if value.is_null() {
            return Ok(None);
        }
        if value.as_map().is_none() {
            return Err(type_error(&walked, value, "map[string]interface {}"));
        }
        walked.push('.');
        walked.push_str(field);
        match value.get(field) {
            Some(found) => value = found,
            None => return Ok(None),
        }
    }
    Ok(Some(value))
}

/// Error of Go's accessors of unstructured objects.
fn type_error(path: &str, value: &Value, expected: &str) -> String {
    let found = type_name(value);
    format!("{path} accessor error: {} is of the type {found}, expected {expected}", GoValue(value))
}

#[cfg(test)]
mod tests {
    use setpoint_api::value;

    use super::*;

    fn errors(object: &Value) -> String {
        let paths = ScalePaths {
            spec_replicas: ".spec.replicas".into(),
            status_replicas: ".status.replicas".into(),
            label_selector: Some(".status.selector".into()),
        };
        let mut errors = ErrorList::new();
        validate_spec(object, &paths, &mut errors);
        validate_status(object, &paths, &mut errors);
        errors.to_string()
    }

    #[test]
    fn replicas_and_selector_have_their_types_and_bounds() {
        assert_eq!(errors(&value!({"spec": {"replicas": 3}, "status": {"selector": "a=b"}})), "[]");
        let wrong = errors(&value!({"spec": {"replicas": (-5)}, "status": {"replicas": "x", "selector": 1}}));
        assert_eq!(
            wrong,
            "[.spec.replicas: Invalid value: -5: should be a non-negative integer, \
             .status.replicas: Invalid value: 0: .status.replicas accessor error: x is of the type string, expected int64, \
             .status.selector: Invalid value: \"\": .status.selector accessor error: 1 is of the type int64, expected string]"
        );
        let large = errors(&value!({"spec": {"replicas": 3000000000_i64}}));
        assert_eq!(
            large,
            ".spec.replicas: Invalid value: 3000000000: should be less than or equal to 2147483647"
        );
    }
}
