//! Resource lists: amounts by resource name, as in `cpu: 500m`.

use std::collections::BTreeMap;

use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::names::key::label_key;
use crate::quantity::Quantity;
use crate::value::{Map, Value};

/// Prefix of huge page resources, before the page size.
pub(crate) const HUGE_PAGES: &str = "hugepages-";
const REQUESTS_HUGE_PAGES: &str = "requests.hugepages-";
const NATIVE_DOMAIN: &str = "kubernetes.io/";

/// Resources of containers, except huge pages.
const OF_CONTAINERS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Further resources of quotas.
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

/// Resources with integral amounts.
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

/// `true` if the name is a standard resource.
fn is_standard(name: &str) -> bool {
    OF_CONTAINERS.contains(&name) || OF_QUOTAS.contains(&name) || COUNTED.contains(&name)
}

/// `true` if the name is a huge page resource.
#[must_use]
pub(crate) fn is_huge_pages(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

/// `true` if the name is native: without a domain, or in that of Kubernetes.
#[must_use]
pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains(NATIVE_DOMAIN)
}

/// `true` if the name is an extended resource.
#[must_use]
pub fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && label_key(&format!("requests.{name}")).is_empty()
}

/// `true` if a limit may exceed the request.
#[must_use]
pub(crate) fn allows_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

/// `true` if the name, which has no domain, can be limited by a quota.
#[must_use]
pub(crate) fn is_standard_quota(name: &str) -> bool {
    (is_standard(name) && name != "storage") || is_any_huge_pages(name)
}

fn is_any_huge_pages(name: &str) -> bool {
    is_huge_pages(name) || name.starts_with(REQUESTS_HUGE_PAGES)
}

/// `true` if the amount must be an integer.
#[must_use]
pub fn is_counted(name: &str) -> bool {
    COUNTED.contains(&name) || is_extended(name)
}

/// Validates the name of a resource; `true` if it is valid.
pub fn check_name(errors: &mut ErrorList, path: &Path<'_>, name: &str) -> bool {
    let mut faults = label_key(name);
    if faults.is_empty() && !name.contains('/') && !is_standard(name) && !is_any_huge_pages(name) {
        faults.push("must be a standard resource type or fully qualified".into());
    }
    let is_good = faults.is_empty();
    push(errors, path, name, faults);
    is_good
}

/// Validates the name of a container resource.
pub(crate) fn check_container_name(errors: &mut ErrorList, path: &Path<'_>, name: &str) {
    check_name(errors, path, name);
    if !name.contains('/') {
        if !OF_CONTAINERS.contains(&name) && !is_huge_pages(name) {
            push(errors, path, name, ["must be a standard resource for containers".into()]);
        }
    } else if !is_native(name) && !is_extended(name) {
        push(errors, path, name, ["doesn't follow extended resource name standard".into()]);
    }
}

/// Validates the name of a quota resource.
pub(crate) fn check_quota_name(errors: &mut ErrorList, path: &Path<'_>, name: &str) {
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

/// Validates an amount: not negative, and integral if required.
pub(crate) fn check_amount(errors: &mut ErrorList, path: &Path<'_>, name: &str, amount: Quantity) {
    check_not_negative(errors, path, amount);
    if is_counted(name) && amount.milli_value() % 1000 != 0 {
        errors.push(FieldError::invalid(path, amount.to_string(), "must be an integer"));
    }
}

/// Validates that an amount is not negative.
pub(crate) fn check_not_negative(errors: &mut ErrorList, path: &Path<'_>, amount: Quantity) {
    if amount.sign() < 0 {
        errors.push(FieldError::invalid(path, amount.to_string(), "must be greater than or equal to 0"));
    }
}

/// Amount of a decoded value.
#[must_use]
pub fn amount(value: &Value) -> Quantity {
    value.as_str().and_then(|text| Quantity::parse(text).ok()).unwrap_or_default()
}

/// Amount of one resource of a list.
#[must_use]
pub(crate) fn amount_of(list: Option<&Value>, name: &str) -> Option<Quantity> {
    list?.get(name).filter(|value| !value.is_null()).map(amount)
}

/// Resources of a list with their amounts.
pub fn amounts(list: Option<&Value>) -> impl Iterator<Item = (&str, Quantity)> {
    let entries = list.and_then(Value::as_map).into_iter().flat_map(Map::iter);
    entries.map(|(name, value)| (name, amount(value)))
}

/// `true` if two lists have equal amounts of the same resources, independent of spelling.
#[must_use]
pub(crate) fn has_equal_amounts(a: Option<&Value>, b: Option<&Value>) -> bool {
    let sorted = |list| amounts(list).collect::<BTreeMap<&str, Quantity>>();
    sorted(a) == sorted(b)
}

/// Rounds the amounts of a list up to thousandths, as every resource list is stored.
pub fn round_up(list: Option<&mut Value>) {
    for (_, value) in list.and_then(Value::as_map_mut).into_iter().flat_map(Map::iter_mut) {
        // Only texts with these characters can have parts below a thousandth.
        if value.as_str().is_some_and(|text| !text.contains(['n', 'u', '.', 'e', 'E'])) {
            continue;
        }
        let exact = amount(value);
        let thousandths = exact.milli_value();
        let rounded = Quantity::milli(thousandths, exact.format());
        // Beyond the bounds the value in thousandths saturates, and there is nothing to round.
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
    fn amounts_are_rounded_up_to_thousandths() {
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
