//! Order of values.

use std::cmp::Ordering;

use super::Value;
use crate::eval::EvalError;

impl Value<'_> {
    /// Compares two values of an ordered type; numbers of different types compare by their value.
    pub(crate) fn compare(&self, other: &Value<'_>) -> Result<Ordering, EvalError> {
        match (self, other) {
            (Value::String(a), Value::String(b)) => Ok((**a).cmp(&**b)),
            (Value::Bytes(a), Value::Bytes(b)) => Ok(a.cmp(b)),
            (Value::Bool(a), Value::Bool(b)) => Ok(a.cmp(b)),
            (Value::Timestamp(a), Value::Timestamp(b)) => Ok(a.cmp(b)),
            (Value::Duration(a), Value::Duration(b)) => Ok(a.cmp(b)),
            _ => match self.compare_numbers(other) {
                Some(Some(order)) => Ok(order),
                Some(None) => Err(EvalError::constant("NaN values cannot be ordered")),
                None => Err(EvalError::NO_SUCH_OVERLOAD),
            },
        }
    }

    /// `true` if values of this type are ordered.
    pub(crate) fn is_ordered(&self) -> bool {
        matches!(
            self,
            Value::String(_)
                | Value::Bytes(_)
                | Value::Bool(_)
                | Value::Timestamp(_)
                | Value::Duration(_)
                | Value::Int(_)
                | Value::Uint(_)
                | Value::Double(_)
        )
    }

    /// Compares two numbers; `None` if one is no number, `Some(None)` if one is not ordered.
    pub(super) fn compare_numbers(&self, other: &Value<'_>) -> Option<Option<Ordering>> {
        Some(match (self, other) {
            (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
            (Value::Uint(a), Value::Uint(b)) => Some(a.cmp(b)),
            (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
            (Value::Int(a), Value::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Value::Uint(a), Value::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Value::Double(a), Value::Int(b)) => compare_double(*a, i128::from(*b)),
            (Value::Double(a), Value::Uint(b)) => compare_double(*a, i128::from(*b)),
            (Value::Int(a), Value::Double(b)) => compare_double(*b, i128::from(*a)).map(Ordering::reverse),
            (Value::Uint(a), Value::Double(b)) => compare_double(*b, i128::from(*a)).map(Ordering::reverse),
            _ => return None,
        })
    }
}

/// Compares a double with an integer of at most 64 bits.
fn compare_double(double: f64, integer: i128) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    // Doubles beyond the range saturate, and are then beyond every integer of 64 bits.
    // Saturation keeps the order.
    let whole = double.trunc() as i128;
    Some(whole.cmp(&integer).then_with(|| double.fract().partial_cmp(&0.0).unwrap_or(Ordering::Equal)))
}
