//! Go's `%v`, `%#v` and `%T` of dynamic values, floats and label selectors, for messages of upstream that
//! contain them.
//!
//! A value prints as the `interface{}` tree that Go's JSON decoder builds from it, with sorted map keys.

use std::fmt;

use crate::json;
use crate::quote::Quoted;
use crate::value::{Map, Value};

/// Displays a value as Go's `%v`: `map[a:1 b:[x y]]`.
pub struct GoValue<'a>(pub &'a Value);

/// Displays a value as Go's `%#v`: `map[string]interface {}{"a":1}`.
pub(crate) struct GoLiteral<'a>(pub(crate) &'a Value);

/// Go type of a value, as `%T` prints it.
#[must_use]
pub const fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::Str(_) => "string",
        Value::List(_) => "[]interface {}",
        Value::Map(_) | Value::Raw(_) => "map[string]interface {}",
    }
}

impl fmt::Display for GoValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("<nil>"),
            Value::Str(text) => f.write_str(text),
            Value::List(list) => {
                f.write_str("[")?;
                for (at, item) in list.iter().enumerate() {
                    write!(f, "{}{}", if at > 0 { " " } else { "" }, GoValue(item))?;
                }
                f.write_str("]")
            }
            Value::Map(map) => {
                f.write_str("map[")?;
                for (at, (key, value)) in sorted(map).into_iter().enumerate() {
                    write!(f, "{}{key}:{}", if at > 0 { " " } else { "" }, GoValue(value))?;
                }
                f.write_str("]")
            }
            Value::Float(float) => write!(f, "{}", GoFloat(*float)),
            scalar => f.write_str(&json::to_text(scalar)),
        }
    }
}

impl fmt::Display for GoLiteral<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("interface {}(nil)"),
            Value::Str(text) => write!(f, "{}", Quoted(text)),
            Value::List(list) => {
                f.write_str("[]interface {}{")?;
                for (at, item) in list.iter().enumerate() {
                    write!(f, "{}{}", if at > 0 { ", " } else { "" }, GoLiteral(item))?;
                }
                f.write_str("}")
            }
            Value::Map(map) => {
                f.write_str("map[string]interface {}{")?;
                for (at, (key, value)) in sorted(map).into_iter().enumerate() {
                    write!(f, "{}{}:{}", if at > 0 { ", " } else { "" }, Quoted(key), GoLiteral(value))?;
                }
                f.write_str("}")
            }
            scalar => f.write_str(&json::to_text(scalar)),
        }
    }
}

fn sorted(map: &Map) -> Vec<(&str, &Value)> {
    let mut entries: Vec<(&str, &Value)> = map.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    entries
}

/// Displays a float as Go's `%v`: decimal while the exponent is in -4..6, else as `1e+06`.
pub(crate) struct GoFloat(pub(crate) f64);

impl fmt::Display for GoFloat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GoFloat(float) = *self;
        if float == 0.0 || !float.is_finite() {
            return match float {
                0.0 if float.is_sign_negative() => f.write_str("-0"),
                0.0 => f.write_str("0"),
                f64::INFINITY => f.write_str("+Inf"),
                f64::NEG_INFINITY => f.write_str("-Inf"),
                _ => f.write_str("NaN"),
            };
        }
        let scientific = format!("{float:e}");
        let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        match exponent.parse::<i32>() {
            Ok(-4..6) | Err(_) => write!(f, "{float}"),
            Ok(exponent) => {
                let sign = if exponent < 0 { '-' } else { '+' };
                write!(f, "{mantissa}e{sign}{:02}", exponent.unsigned_abs())
            }
        }
    }
}

/// Formats a LabelSelector as Go's `%v` of a pointer to it:
/// `&LabelSelector{MatchLabels:map[string]string{a: 1,},MatchExpressions:[]LabelSelectorRequirement{},}`.
#[must_use]
pub fn format_label_selector(selector: &Value) -> String {
    let labels = selector.get("matchLabels").and_then(Value::as_map).map(sorted).unwrap_or_default();
    let labels: String =
        labels.iter().map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or_default())).collect();
    let list =
        |value: &Value, name: &str| value.get(name).and_then(Value::as_list).unwrap_or_default().to_vec();
    let expressions = list(selector, "matchExpressions");
    let expressions: String = expressions
        .iter()
        .map(|expression| {
            let values = list(expression, "values");
            let values: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
            let (key, operator) = (expression.str_at(&["key"]), expression.str_at(&["operator"]));
            let values = values.join(" ");
            format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement\
         {{{expressions}}},}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value;

    #[test]
    fn label_selector_has_sorted_labels_and_expressions() {
        let selector = value!({
            "matchLabels": {"b": "2", "a": "1"},
            "matchExpressions": [{"key": "k", "operator": "In", "values": ["x", "y"]}],
        });
        assert_eq!(
            format_label_selector(&selector),
            "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:[]LabelSelectorRequirement\
             {LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},},}"
        );
    }

    #[test]
    fn floats_have_an_exponent_as_in_go() {
        let value = value!({"a": 0.5, "b": (Value::Float(0.000_01)), "c": (Value::Float(1_234_567.5))});
        assert_eq!(GoValue(&value).to_string(), "map[a:0.5 b:1e-05 c:1.2345675e+06]");
    }
}
