//! Types, enumerations, lengths, patterns and formats.

use std::fmt::Write as _;

use super::fault::{FaultKind, ShownValue};
use super::number::is_json_integer;
use super::{MATCH_STEPS_MAX, Schema, SchemaType, Validator, ValueChecks};
use crate::field_error::{BadValue, Path};
use crate::quote::Quoted;
use crate::value::Value;

impl<'a> Validator<'a> {
    /// Checks the type; `None` if the schema has none, else the number of successful checks.
    pub(super) fn check_type(&mut self, value: &Value, schema: &Schema, at: &Path<'_>) -> Option<u64> {
        let format = schema.checks.as_ref().and_then(|checks| checks.format.as_deref());
        let format = format.filter(|format| format.is_active);
        let int_or_string = schema.int_or_string && !self.is_default;
        let has_type = schema.ty.is_some() || int_or_string;
        if !has_type && format.is_none() {
            return None;
        }
        let is_expected = |ty: SchemaType| match int_or_string {
            true => matches!(ty, SchemaType::Integer | SchemaType::String),
            false => schema.ty == Some(ty),
        };
        let (ty, data_format) = match value {
            Value::Null => {
                if has_type && !schema.nullable {
                    self.push_type(at, expected_names(schema), "null");
                    return Some(0);
                }
                return Some(1);
            }
            Value::Bool(_) => (SchemaType::Boolean, ""),
            Value::Int(_) => (SchemaType::Integer, "int64"),
            Value::Float(_) => (SchemaType::Number, "float64"),
            Value::Str(_) => (SchemaType::String, ""),
            Value::List(_) => (SchemaType::Array, ""),
            Value::Map(_) | Value::Raw(_) => (SchemaType::Object, ""),
        };
        let is_compatible = match value {
            Value::Int(_) => is_expected(SchemaType::Number),
            Value::Float(float) => is_expected(SchemaType::Integer) && is_json_integer(*float),
            _ => false,
        };
        if is_expected(ty) || is_compatible {
            return Some(1);
        }
        let is_text = matches!(value, Value::Str(_) | Value::List(_));
        if let Some(format) = format {
            if !is_text {
                self.push_type(at, &format.name, data_format);
                return Some(0);
            }
            // Upstream leaves strings and lists to the format, whatever the type.
            if !is_expected(SchemaType::Number) && !is_expected(SchemaType::Integer) {
                return Some(1);
            }
        }
        self.push_type(at, expected_names(schema), ty.name());
        Some(0)
    }

    fn push_type(&mut self, at: &Path<'_>, expected: &str, actual: &str) {
        let detail = format!("must be of type {expected}: {}", Quoted(actual));
        self.faults.push(at, FaultKind::TypeInvalid(BadValue::from(actual).into()), &detail);
    }

    pub(super) fn check_enum(&mut self, value: &'a Value, checks: &'a ValueChecks, at: &Path<'_>) {
        let allowed = &*checks.enumeration;
        if allowed.is_empty() || allowed.iter().any(|one| is_enum_value(value, one)) {
            return;
        }
        let mut detail = String::from("should be one of [");
        for (at, one) in allowed.iter().enumerate() {
            let space = if at > 0 { " " } else { "" };
            write!(detail, "{space}{}", crate::go_format::GoValue(one))
                .expect("writing to a String cannot fail");
        }
        detail.push(']');
        self.faults.push(at, FaultKind::NotSupported(value, allowed), &detail);
    }

    /// Adds the steps of a match; `false` if that exceeds the bound of a validation.
    fn can_match(&mut self, steps: u64) -> bool {
        self.match_steps = self.match_steps.saturating_add(steps);
        self.match_steps <= MATCH_STEPS_MAX
    }

    /// Checks length, pattern and format; returns 1 if there is a format.
    pub(super) fn check_text(&mut self, text: &'a str, checks: &'a ValueChecks, at: &Path<'_>) -> u64 {
        if let Some(limits) = &checks.text {
            // Only the first error is reported.
            let is_longer =
                |max: i64| i64::try_from(text.len()).is_ok_and(|len| len > max) && length(text) > max;
            if let Some(max) = limits.max_length.filter(|max| is_longer(*max)) {
                let detail = format!("should be at most {max} chars long");
                self.faults.push(at, FaultKind::TooLong(max), &detail);
            } else if let Some(min) = limits.min_length.filter(|min| length(text) < *min) {
                let detail = format!("should be at least {min} chars long");
                self.faults.push_invalid(at, shown(text), &detail);
            } else if let Some(pattern) = &limits.pattern
                && self.can_match(pattern.steps(text))
            {
                match pattern.is_match(text) {
                    Ok(true) => {}
                    Ok(false) => {
                        let detail = format!("should match '{}'", pattern.source());
                        self.faults.push_invalid(at, shown(text), &detail);
                    }
                    Err(error) => {
                        let source = pattern.source();
                        let detail = format!("should match '{source}, but pattern is invalid: {error}'");
                        self.faults.push_invalid(at, shown(text), &detail);
                    }
                }
            }
        }
        let Some(format) = checks.format.as_deref() else { return 0 };
        let Some(string) = format.string else { return 0 };
        if !string.is_valid(text) {
            let detail = format!("must be of type {}: {}", format.name, Quoted(text));
            self.faults.push(at, FaultKind::TypeInvalid(shown(text)), &detail);
        }
        1
    }
}

fn shown(text: &str) -> ShownValue<'static> {
    BadValue::from(text).into()
}

fn length(text: &str) -> i64 {
    i64::try_from(text.chars().count()).unwrap_or(i64::MAX)
}

fn expected_names(schema: &Schema) -> &'static str {
    match schema.ty {
        _ if schema.int_or_string => "integer,string",
        Some(ty) => ty.name(),
        None => "",
    }
}

/// `true` if a value is equal to an allowed one after conversion to its type. As upstream, a float is truncated.
fn is_enum_value(value: &Value, allowed: &Value) -> bool {
    match (value, allowed) {
        (Value::Null, _) | (_, Value::Null) => false,
        #[expect(clippy::cast_possible_truncation, reason = "Go converts so")]
        (Value::Float(float), Value::Int(int)) => *float as i64 == *int,
        #[expect(clippy::cast_precision_loss, reason = "Go converts so")]
        (Value::Int(int), Value::Float(float)) => *int as f64 == *float,
        _ => value == allowed,
    }
}
