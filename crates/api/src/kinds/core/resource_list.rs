//! Amounts of resources by name: `cpu: 500m`.

use std::collections::BTreeMap;

use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::names::key::label_key;
use crate::quantity::Quantity;
use crate::value::{Map, Value};

/// What huge pages are called, before their size.
pub(crate) const HUGE_PAGES: &str = "hugepages-";
const REQUESTS_HUGE_PAGES: &str = "requests.hugepages-";
const NATIVE_DOMAIN: &str = "kubernetes.io/";

/// What containers can use, huge pages apart.
const OF_CONTAINERS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// What quotas know beside that, and what is not counted.
const OF_QUOTAS: [&str; 8] = [
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "storage",
    "requests.storage",
];

/// Names of things that come in whole numbers.
const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// Whether the name means a resource wherever it stands.
fn is_standard(name: &str) -> bool {
    OF_CONTAINERS.contains(&name) || OF_QUOTAS.contains(&name) || COUNTED.contains(&name)
}

/// Whether the name stands for huge pages.
#[must_use]
pub fn is_huge_pages(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

/// Whether the name is one of ours: without a domain, or in that of Kubernetes.
#[must_use]
pub fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains(NATIVE_DOMAIN)
}

/// Whether the name is one that a device plugin may have brought in.
#[must_use]
pub fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && label_key(&format!("requests.{name}")).is_empty()
}

/// Whether a limit may be higher than the request.
#[must_use]
pub fn allows_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

/// Whether a quota may be set on the name, which has no domain.
#[must_use]
pub fn is_standard_quota(name: &str) -> bool {
    (is_standard(name) && name != "storage") || is_any_huge_pages(name)
}

fn is_any_huge_pages(name: &str) -> bool {
    is_huge_pages(name) || name.starts_with(REQUESTS_HUGE_PAGES)
}

/// Whether only whole amounts make sense.
#[must_use]
pub fn is_counted(name: &str) -> bool {
    COUNTED.contains(&name) || is_extended(name)
}

/// Checks the name of a resource; says whether it is good.
pub fn check_name(errors: &mut ErrorList, path: &Path<'_>, name: &str) -> bool {
    let mut faults = label_key(name);
    if faults.is_empty() && !name.contains('/') && !is_standard(name) && !is_any_huge_pages(name) {
        faults.push("must be a standard resource type or fully qualified".into());
    }
    let is_good = faults.is_empty();
    push(errors, path, name, faults);
    is_good
}

/// Checks the name of a resource that a container can use.
pub fn check_container_name(errors: &mut ErrorList, path: &Path<'_>, name: &str) {
    check_name(errors, path, name);
    if !name.contains('/') {
        if !OF_CONTAINERS.contains(&name) && !is_huge_pages(name) {
            push(errors, path, name, ["must be a standard resource for containers".into()]);
        }
    } else if !is_native(name) && !is_extended(name) {
        push(errors, path, name, ["doesn't follow extended resource name standard".into()]);
    }
}

/// Checks the name of a resource that a quota can limit.
pub fn check_quota_name(errors: &mut ErrorList, path: &Path<'_>, name: &str) {
    check_name(errors, path, name);
    if !name.contains('/') && !is_standard_quota(name) {
        push(errors, path, name, ["must be a standard resource for quota".into()]);
    }
}

fn push(
    errors: &mut ErrorList,
    path: &Path<'_>,
    name: &str,
    faults: impl IntoIterator<Item = std::borrow::Cow<'static, str>>,
) {
    let errors_of = |fault| FieldError::invalid(path, BadValue::json_string(name), fault);
    errors.extend(faults.into_iter().map(errors_of));
}

/// Checks an amount: not less than nothing, and whole where the resource is counted.
pub fn check_amount(errors: &mut ErrorList, path: &Path<'_>, name: &str, amount: Quantity) {
    check_not_negative(errors, path, amount);
    if is_counted(name) && amount.milli_value() % 1000 != 0 {
        errors.push(FieldError::invalid(path, amount.to_string(), "must be an integer"));
    }
}

/// Checks that an amount is not less than nothing.
pub fn check_not_negative(errors: &mut ErrorList, path: &Path<'_>, amount: Quantity) {
    if amount.sign() < 0 {
        errors.push(FieldError::invalid(path, amount.to_string(), "must be greater than or equal to 0"));
    }
}

/// The amount that a decoded value stands for.
#[must_use]
pub fn amount(value: &Value) -> Quantity {
    value.as_str().and_then(|text| Quantity::parse(text).ok()).unwrap_or_default()
}

/// The amount of one resource of a list.
#[must_use]
pub fn amount_of(list: Option<&Value>, name: &str) -> Option<Quantity> {
    list?.get(name).filter(|value| !value.is_null()).map(amount)
}

/// The resources of a list and their amounts.
pub fn amounts(list: Option<&Value>) -> impl Iterator<Item = (&str, Quantity)> {
    let entries = list.and_then(Value::as_map).into_iter().flat_map(Map::iter);
    entries.map(|(name, value)| (name, amount(value)))
}

/// Whether two lists hold the same amounts of the same resources, however written.
#[must_use]
pub fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    let sorted = |list| amounts(list).collect::<BTreeMap<&str, Quantity>>();
    sorted(a) == sorted(b)
}

/// Rounds the amounts of a list up to thousandths, as every list of resources is kept.
pub fn round_up(list: Option<&mut Value>) {
    for (_, value) in list.and_then(Value::as_map_mut).into_iter().flat_map(Map::iter_mut) {
        // Only these can stand in an amount that has parts below a thousandth.
        if value.as_str().is_some_and(|text| !text.contains(['n', 'u', '.', 'e', 'E'])) {
            continue;
        }
        let exact = amount(value);
        let thousandths = exact.milli_value();
        let rounded = Quantity::milli(thousandths, exact.format());
        // Beyond the bounds the number of thousandths says nothing, and there is nothing to round.
        if rounded != exact && thousandths.unsigned_abs() < i64::MAX.unsigned_abs() {
            *value = rounded.to_string().into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value;

    #[test]
    fn amounts_are_rounded_up_as_far_as_thousandths_can_tell() {
        let mut list = value!({
            "a": "100u", "b": "1.5", "c": "0.0001", "d": "-9223372036854775808", "e": "-9.3e18", "f": (i64::MIN),
        });
        round_up(Some(&mut list));
        assert_eq!(
            crate::json::to_text(&list),
            r#"{"a":"1m","b":"1.5","c":"1m","d":"-9223372036854775808","e":"-9.3e18","f":-9223372036854775808}"#
        );
    }
}
