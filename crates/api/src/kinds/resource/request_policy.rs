//! Validation of the request policy of a consumable capacity.

use super::Report;
use crate::field_error::{FieldError, Path};
use crate::kinds::check;
use crate::quantity::Quantity;
use crate::value::Value;

const OPTIONS_MAX: usize = 10;

/// A quantity with its text.
#[derive(Clone, Copy)]
struct PolicyAmount<'a> {
    text: &'a str,
    quantity: Quantity,
}

impl<'a> PolicyAmount<'a> {
    fn parse(value: &'a Value) -> Option<PolicyAmount<'a>> {
        let text = value.as_str()?;
        Some(PolicyAmount { text, quantity: Quantity::parse(text).ok()? })
    }

    fn is_greater_than(self, other: PolicyAmount<'_>) -> bool {
        self.quantity > other.quantity
    }

    fn is_fractional(self) -> bool {
        Quantity::new(self.quantity.value(), self.quantity.format()) != self.quantity
    }
}

/// Validates the policy of a capacity.
pub(super) fn validate(report: &mut Report, path: &Path<'_>, policy: &Value, capacity: &Value) {
    let Some(capacity) = PolicyAmount::parse(capacity) else { return };
    let (options, range) = (check::list(policy, "validValues"), check::field(policy, "validRange"));
    if !options.is_empty() && !range.is_null() {
        let detail = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time";
        return report.handwritten.push(FieldError::forbidden(path, detail));
    }
    let name = if options.is_empty() { "validRange" } else { "validValues" };
    if options.is_empty() && range.is_null() {
        return;
    }
    let Some(default) = PolicyAmount::parse(check::field(policy, "default")) else {
        let detail = format!("required when {name} is defined");
        return report.handwritten.push(FieldError::required(&path.child("default"), detail));
    };
    if options.is_empty() {
        check_range(report, &path.child(name), range, default, capacity);
    } else {
        check_values(report, &path.child(name), options, default, capacity);
    }
}

fn check_values(
    report: &mut Report,
    path: &Path<'_>,
    options: &[Value],
    default: PolicyAmount<'_>,
    capacity: PolicyAmount<'_>,
) {
    let amounts: Vec<PolicyAmount<'_>> = options.iter().filter_map(PolicyAmount::parse).collect();
    for (i, pair) in amounts.windows(2).enumerate().filter(|(_, pair)| pair[0].is_greater_than(pair[1])) {
        let detail = "values must be sorted in ascending order";
        report.handwritten.push(FieldError::invalid(&path.index(i + 1), pair[1].text, detail));
    }
    if amounts.len() > OPTIONS_MAX {
        report.handwritten.push(FieldError::too_many(path, Some(amounts.len()), OPTIONS_MAX));
    } else {
        for (i, one) in amounts.iter().enumerate().filter(|(_, one)| one.is_greater_than(capacity)) {
            let detail = format!("option is larger than capacity value: {}", capacity.text);
            report.handwritten.push(FieldError::invalid(&path.index(i), one.text, detail));
        }
        for (i, one) in amounts.iter().enumerate() {
            if amounts[..i].iter().any(|other| other.quantity == one.quantity) {
                report.handwritten.push(FieldError::duplicate(&path.index(i), one.text));
            }
        }
        if amounts.iter().any(|one| one.quantity == default.quantity) {
            return;
        }
    }
    let detail = "default value is not valid according to the requestPolicy";
    report.handwritten.push(FieldError::invalid(path, default.text, detail));
}

fn check_range(
    report: &mut Report,
    path: &Path<'_>,
    range: &Value,
    default: PolicyAmount<'_>,
    capacity: PolicyAmount<'_>,
) {
    let [min, max, step] = ["min", "max", "step"].map(|name| PolicyAmount::parse(check::field(range, name)));
    let Some(min) = min else {
        let detail = "required when validRange is defined";
        return report.handwritten.push(FieldError::required(&path.child("min"), detail));
    };
    let mut reject = |name: &str, shown: PolicyAmount<'_>, detail: String| {
        report.handwritten.push(FieldError::invalid(&path.child(name), shown.text, detail));
    };
    if min.is_greater_than(capacity) {
        reject("min", min, format!("min is larger than capacity value: {}", capacity.text));
    }
    if min.is_greater_than(default) {
        reject("default", default, format!("default is less than min: {}", min.text));
    }
    if let Some(max) = max {
        if min.is_greater_than(max) {
            reject("max", min, format!("min is larger than max: {}", max.text));
        }
        if max.is_greater_than(capacity) {
            reject("max", max, format!("max is larger than capacity value: {}", capacity.text));
        }
        if default.is_greater_than(max) {
            reject("default", default, format!("default is more than max: {}", max.text));
        }
    }
    let Some(step) = step else { return };
    if step.quantity.sign() <= 0 {
        return reject("step", step, "must be greater than zero".to_owned());
    }
    let fractional =
        [Some(default), Some(min), max, Some(step)].into_iter().flatten().any(PolicyAmount::is_fractional);
    let whole = |amount: PolicyAmount<'_>| {
        i128::from(if fractional { amount.quantity.milli_value() } else { amount.quantity.value() })
    };
    for value in [Some(default), max].into_iter().flatten() {
        if (whole(value) - whole(min)) % whole(step) != 0 {
            let detail =
                format!("value is not a multiple of a given step ({}) from ({})", step.text, min.text);
            reject("step", value, detail);
        }
    }
}
