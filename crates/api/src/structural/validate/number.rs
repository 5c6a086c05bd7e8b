//! Limits of numbers, and the ranges of their formats.

use super::fault::FaultKind;
use super::{Schema, SchemaType, Validator};
use crate::field_error::{BadValue, Path};
use crate::go_format::GoFloat;
use crate::structural::schema::NumberChecks;
use crate::value::Value;

/// Largest integer that every JSON implementation represents exactly.
const SAFE_INTEGER_MAX: f64 = 9_007_199_254_740_991.0;
/// Relative difference below which a float counts as an integer.
const INTEGER_EPSILON: f64 = 1e-9;

/// `true` if a float is an integer within the safe range, up to rounding.
pub(super) fn is_json_integer(float: f64) -> bool {
    if !float.is_finite() || float.abs() > SAFE_INTEGER_MAX {
        return false;
    }
    let whole = float.trunc();
    let difference = (float - whole).abs();
    difference == 0.0 || whole != 0.0 && difference / (float.abs() + whole.abs()) < INTEGER_EPSILON
}

/// Range that a type and format allow.
#[derive(Clone, Copy)]
struct NumberRange<'a> {
    ty: SchemaType,
    format: &'a str,
}

impl NumberRange<'_> {
    fn has(self, value: &Value) -> bool {
        match (self.ty, self.format, value) {
            (SchemaType::Integer, "int32", Value::Int(int)) => i32::try_from(*int).is_ok(),
            (SchemaType::Integer, format, Value::Float(float)) => {
                let bound = if format == "int32" { 2_147_483_648.0 } else { 9_223_372_036_854_775_808.0 };
                float.trunc() == *float && *float >= -bound && *float < bound
            }
            #[expect(clippy::cast_possible_truncation, reason = "the conversion finds values out of range")]
            (SchemaType::Number, "float", Value::Float(float)) => (*float as f32).is_finite(),
            _ => true,
        }
    }

    fn message(self, prefix: &str, at: &Path<'_>) -> String {
        let (ty, name) = (self.ty.name(), super::fault::name(at));
        match self.format {
            "" => format!("{prefix} value must be of type {ty} (default format) in {name}"),
            format => format!("{prefix} value must be of type {ty} with format {format} in {name}"),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Bound {
    Minimum,
    Maximum,
}

impl Validator<'_> {
    pub(super) fn check_number(&mut self, value: &Value, schema: &Schema, at: &Path<'_>) {
        let checks = schema.checks.as_deref();
        let format = checks.and_then(|checks| checks.format.as_deref()).filter(|format| format.is_active);
        let ty = schema.ty.filter(|_| !schema.int_or_string);
        let range = match ty {
            Some(ty @ (SchemaType::Integer | SchemaType::Number)) => {
                Some(NumberRange { ty, format: format.map_or("", |format| format.name.as_str()) })
            }
            _ => None,
        };
        if let Some(range) = range.filter(|range| !range.has(value)) {
            self.faults.push_pathless(range.message("Checked", at));
        }
        if let Some(limits) = checks.and_then(|checks| checks.number.as_deref()) {
            self.check_limits(value, limits, range, at);
        }
    }

    fn check_limits(
        &mut self,
        value: &Value,
        limits: &NumberChecks,
        range: Option<NumberRange<'_>>,
        at: &Path<'_>,
    ) {
        let factor = limits.multiple_of;
        if let Some((factor, value)) =
            factor.map(|limit| (limit, self.as_compared(value, limit, range, "MultipleOf", at)))
        {
            self.check_multiple(&value, factor, at);
        }
        if let Some(limit) = limits.minimum {
            let value = self.as_compared(value, limit, range, "Minimum boundary", at);
            self.check_bound(&value, limit, limits.exclusive_minimum, Bound::Minimum, at);
        }
        if let Some(limit) = limits.maximum {
            let value = self.as_compared(value, limit, range, "Maximum boundary", at);
            self.check_bound(&value, limit, limits.exclusive_maximum, Bound::Maximum, at);
        }
    }

    /// Value to compare with a limit: a float if the limit is out of range, which is an error by itself.
    fn as_compared(
        &mut self,
        value: &Value,
        limit: f64,
        range: Option<NumberRange<'_>>,
        prefix: &str,
        at: &Path<'_>,
    ) -> Value {
        let Some(range) = range.filter(|range| !range.has(&Value::Float(limit))) else {
            return value.clone();
        };
        self.faults.push_pathless(range.message(prefix, at));
        Value::Float(as_float(value))
    }

    fn check_multiple(&mut self, value: &Value, factor: f64, at: &Path<'_>) {
        let (is_positive, is_multiple, shown) = match value {
            Value::Int(int) => {
                let factor = go_integer(factor);
                (factor > 0, factor > 0 && int % factor == 0, factor.to_string())
            }
            other => {
                let float = as_float(other);
                let quotient = if factor < 1.0 { 1.0 / factor * float } else { float / factor };
                (factor > 0.0, factor > 0.0 && is_json_integer(quotient), GoFloat(factor).to_string())
            }
        };
        if !is_positive {
            let name = super::fault::name(at);
            let message = format!("factor MultipleOf declared for {name} must be positive: {shown}");
            let factor = if matches!(value, Value::Int(_)) {
                BadValue::Int(go_integer(factor))
            } else {
                BadValue::Float(factor)
            };
            self.faults.push_message(at, FaultKind::Invalid(factor.into()), message);
        } else if !is_multiple {
            self.faults.push_invalid(at, number(value).into(), &format!("should be a multiple of {shown}"));
        }
    }

    fn check_bound(&mut self, value: &Value, limit: f64, exclusive: bool, bound: Bound, at: &Path<'_>) {
        let (is_beyond, is_equal, shown) = match value {
            Value::Int(int) => {
                let limit = go_integer(limit);
                let is_beyond = if bound == Bound::Maximum { *int > limit } else { *int < limit };
                (is_beyond, *int == limit, limit.to_string())
            }
            other => {
                let float = as_float(other);
                let is_beyond = if bound == Bound::Maximum { float > limit } else { float < limit };
                #[expect(clippy::float_cmp, reason = "an exclusive limit excludes exactly itself")]
                (is_beyond, float == limit, GoFloat(limit).to_string())
            }
        };
        if is_beyond || exclusive && is_equal {
            let relation = match (bound, exclusive) {
                (Bound::Maximum, false) => "less than or equal to",
                (Bound::Maximum, true) => "less than",
                (Bound::Minimum, false) => "greater than or equal to",
                (Bound::Minimum, true) => "greater than",
            };
            self.faults.push_invalid(at, number(value).into(), &format!("should be {relation} {shown}"));
        }
    }
}

/// Converts a limit to an integer as Go does: truncated, and the least integer if it is out of range.
#[expect(clippy::cast_possible_truncation, reason = "upstream truncates limits of integers")]
fn go_integer(limit: f64) -> i64 {
    const END: f64 = 9_223_372_036_854_775_808.0;
    if (-END..END).contains(&limit) { limit as i64 } else { i64::MIN }
}

fn as_float(value: &Value) -> f64 {
    match value {
        #[expect(clippy::cast_precision_loss, reason = "limits are doubles in the API")]
        Value::Int(int) => *int as f64,
        Value::Float(float) => *float,
        _ => 0.0,
    }
}

fn number(value: &Value) -> BadValue {
    match value {
        Value::Int(int) => BadValue::Int(*int),
        other => BadValue::Float(as_float(other)),
    }
}
