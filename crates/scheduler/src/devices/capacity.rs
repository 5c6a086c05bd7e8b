//! Capacity of devices that requests consume: amounts by the policy of the capacity, with upstream's rounding.

use std::collections::BTreeMap;

use setpoint_api::quantity::{Format, Quantity};
use setpoint_views::QuantityField;
use setpoint_views::resource_claim::CapacityRequirements;
use setpoint_views::resource_slice::{
    CapacityRequestPolicy, CapacityRequestPolicyRange, Device, DeviceCapacity,
};

use super::allocated::Amounts;

const NOT_REPRESENTABLE: &str = "capacity request cannot be represented in the device's range arithmetic";
const NEGATIVE: &str = "capacity value is negative";

type Requested = BTreeMap<String, QuantityField>;

fn requested(request: Option<&CapacityRequirements>) -> Option<&Requested> {
    request.map(|request| &request.requests)
}

/// `true` if a device has the capacity for a request beside the amounts that are consumed already.
///
/// # Errors
/// If an amount cannot be represented or is negative: the search ends.
pub fn fits(
    request: Option<&CapacityRequirements>,
    device: &Device,
    allocated: Option<&Amounts>,
    allocating: Option<&Amounts>,
) -> Result<bool, String> {
    let amounts = requested(request);
    if amounts.is_some_and(|amounts| amounts.keys().any(|name| !device.capacity.contains_key(name))) {
        return Ok(false);
    }
    // All amounts are computed before any is compared, so that an error does not depend on their order.
    let consumed = consumed(request, device)?;
    for (name, capacity) in &device.capacity {
        let Some(mut total) = consumed.get(name.as_str()).copied() else { continue };
        if capacity.request_policy.as_ref().is_some_and(|policy| violates(total, policy)) {
            return Ok(false);
        }
        for other in [allocated, allocating].into_iter().flatten() {
            total += other.get(name.as_str()).copied().unwrap_or(Quantity::ZERO);
        }
        if total > *capacity.value {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the amounts that a request consumes of a device.
///
/// # Errors
/// If an amount cannot be represented or is negative.
pub fn consumed(request: Option<&CapacityRequirements>, device: &Device) -> Result<Amounts, String> {
    let mut consumed = Amounts::new();
    for (name, capacity) in &device.capacity {
        let amount = requested(request).and_then(|amounts| amounts.get(name)).map(|amount| amount.0);
        let amount = consumed_of(amount, capacity).map_err(|text| format!("capacity {name:?}: {text}"))?;
        if amount.sign() < 0 {
            return Err(format!("capacity {name:?}: {NEGATIVE}"));
        }
        consumed.insert(name.as_str().into(), amount);
    }
    Ok(consumed)
}

fn consumed_of(requested: Option<Quantity>, capacity: &DeviceCapacity) -> Result<Quantity, String> {
    let policy = capacity.request_policy.as_ref();
    let Some(requested) = requested else {
        let default = policy.and_then(|policy| policy.default);
        return Ok(default.unwrap_or(capacity.value).0);
    };
    let Some(policy) = policy else { return Ok(requested) };
    if let Some(range) = &policy.valid_range
        && let Some(min) = range.min
    {
        return round_up(requested, *min, range);
    }
    let values = policy.valid_values.iter().map(|value| value.0);
    Ok(values.into_iter().find(|value| requested <= *value).unwrap_or(requested))
}

/// Rounds an amount up to the minimum, or to a multiple of the step above it.
fn round_up(
    requested: Quantity,
    min: Quantity,
    range: &CapacityRequestPolicyRange,
) -> Result<Quantity, String> {
    if requested < min {
        return Ok(min);
    }
    let Some(step) = range.step else { return Ok(requested) };
    let format = step.format();
    if uses_milli(range) {
        let amount = milli(requested).ok_or_else(|| {
            format!("{NOT_REPRESENTABLE}: request {requested} is not a representable milli value")
        })?;
        let rounded = rounded(amount, min.milli_value(), step.milli_value()).ok_or_else(|| {
            format!(
                "{NOT_REPRESENTABLE}: rounding request {requested} up to the next step passes the milli-value range"
            )
        })?;
        return Ok(if rounded % 1000 == 0 {
            Quantity::new(rounded / 1000, format)
        } else {
            Quantity::milli(rounded, format)
        });
    }
    if requested > Quantity::new(i64::MAX, Format::DecimalSi) {
        return Err(format!("{NOT_REPRESENTABLE}: request {requested} exceeds MaxInt64"));
    }
    let rounded = rounded(requested.value(), min.value(), step.value()).ok_or_else(|| {
        format!("{NOT_REPRESENTABLE}: rounding request {requested} up to the next step passes MaxInt64")
    })?;
    Ok(Quantity::new(rounded, format))
}

/// Returns the smallest `min + n × step` that is not less than an amount; `None` if it overflows.
fn rounded(amount: i64, min: i64, step: i64) -> Option<i64> {
    let added = amount.checked_sub(min)?;
    let steps = added.checked_div(step)? + i64::from(added.checked_rem(step)? != 0);
    min.checked_add(steps.checked_mul(step)?)
}

fn violates(amount: Quantity, policy: &CapacityRequestPolicy) -> bool {
    if policy.default.is_some_and(|default| *default == amount) {
        return false;
    }
    if let Some(range) = &policy.valid_range {
        return violates_range(amount, range);
    }
    !policy.valid_values.is_empty() && !policy.valid_values.iter().any(|value| **value == amount)
}

fn violates_range(amount: Quantity, range: &CapacityRequestPolicyRange) -> bool {
    if range.max.is_some_and(|max| amount > *max) {
        return true;
    }
    let (Some(step), Some(min)) = (range.step, range.min) else { return false };
    let (amount, min, step) = if uses_milli(range) {
        let Some(amount) = milli(amount) else { return true };
        (amount, min.milli_value(), step.milli_value())
    } else {
        (amount.value(), min.value(), step.value())
    };
    // A step of 0 fits nothing; validation rejects it.
    amount.checked_sub(min).and_then(|added| added.checked_rem(step)) != Some(0)
}

/// `true` if thousandths represent all bounds of a range.
fn uses_milli(range: &CapacityRequestPolicyRange) -> bool {
    let is_milli = |bound: Option<QuantityField>| bound.is_none_or(|bound| milli(*bound).is_some());
    is_milli(range.min)
        && is_milli(range.max)
        && is_milli(range.step)
        && range.step.is_none_or(|step| step.milli_value() >= 1)
}

/// Returns the amount in thousandths; `None` if that is not exact.
fn milli(amount: Quantity) -> Option<i64> {
    let milli = amount.milli_value();
    (Quantity::milli(milli, amount.format()) == amount).then_some(milli)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantity(text: &str) -> QuantityField {
        QuantityField(Quantity::parse(text).unwrap())
    }

    fn range(min: &str, max: Option<&str>, step: Option<&str>) -> CapacityRequestPolicy {
        CapacityRequestPolicy {
            valid_range: Some(CapacityRequestPolicyRange {
                min: Some(quantity(min)),
                max: max.map(quantity),
                step: step.map(quantity),
            }),
            ..CapacityRequestPolicy::default()
        }
    }

    fn check(policy: Option<CapacityRequestPolicy>, requested: Option<&str>) -> Result<String, String> {
        let capacity = DeviceCapacity { value: quantity("10"), request_policy: policy };
        consumed_of(requested.map(|text| *quantity(text)), &capacity).map(|amount| amount.to_string())
    }

    #[test]
    fn amounts_are_rounded_by_the_policy() {
        assert_eq!(check(None, None).unwrap(), "10");
        assert_eq!(check(None, Some("3")).unwrap(), "3");
        let default = CapacityRequestPolicy { default: Some(quantity("2")), ..Default::default() };
        assert_eq!(check(Some(default), None).unwrap(), "2");
        let values = vec![quantity("2"), quantity("4")];
        let values = CapacityRequestPolicy { valid_values: values, ..Default::default() };
        assert_eq!(check(Some(values.clone()), Some("3")).unwrap(), "4");
        assert_eq!(check(Some(values.clone()), Some("5")).unwrap(), "5");
        assert!(violates(*quantity("5"), &values) && !violates(*quantity("4"), &values));
        assert_eq!(check(Some(range("2", None, None)), Some("1")).unwrap(), "2");
        assert_eq!(check(Some(range("2", None, Some("3"))), Some("6")).unwrap(), "8");
        assert_eq!(check(Some(range("100m", None, Some("250m"))), Some("300m")).unwrap(), "350m");
        assert_eq!(check(Some(range("1", None, Some("500m"))), Some("1600m")).unwrap(), "2");
        assert!(violates(*quantity("9"), &range("1", Some("8"), None)));
        let error = check(Some(range("1", None, Some("7"))), Some("9223372036854775807")).unwrap_err();
        assert!(error.starts_with(NOT_REPRESENTABLE), "{error}");
    }

    #[test]
    fn shares_fit_until_the_capacity_is_consumed() {
        let capacity = DeviceCapacity { value: quantity("10"), request_policy: None };
        let device = Device { capacity: [("memory".to_owned(), capacity)].into(), ..Device::default() };
        let request = |name: &str, amount: &str| CapacityRequirements {
            requests: [(name.to_owned(), quantity(amount))].into(),
        };
        let used = |amount: &str| Amounts::from([("memory".into(), *quantity(amount))]);
        let four = request("memory", "4");
        assert_eq!(fits(Some(&four), &device, Some(&used("3")), Some(&used("3"))), Ok(true));
        assert_eq!(fits(Some(&four), &device, Some(&used("3")), Some(&used("4"))), Ok(false));
        assert_eq!(fits(Some(&request("cores", "1")), &device, None, None), Ok(false));
        assert_eq!(fits(None, &device, Some(&used("1")), None), Ok(false));
        let negative = fits(Some(&request("memory", "-1")), &device, None, None).unwrap_err();
        assert_eq!(negative, "capacity \"memory\": capacity value is negative");
    }
}
