//! LimitRange: limits of single pods, containers or claims in a namespace.

use std::collections::{BTreeMap, BTreeSet};

use compact_str::CompactString;

use super::resource_list::{self, amounts};
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::Rules;
use crate::metadata;
use crate::names::key::label_key;
use crate::quantity::{Format, Quantity};
use crate::value::{Map, Value};

/// Maximum amount that can be expressed in thousandths.
const MILLI_VALUE_MAX: i64 = i64::MAX / 1000;

/// Rules of LimitRange.
pub struct LimitRange;

impl Rules for LimitRange {
    fn default(&self, object: &mut Value) {
        let Some(Value::List(limits)) = object.at_mut(&["spec", "limits"]) else { return };
        for limit in limits {
            if limit.str_at(&["type"]) == "Container" {
                default_container(limit.make_map());
            }
            for list in LISTS {
                resource_list::round_up(limit.get_mut(list));
            }
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        if metadata::name(object).is_empty() {
            let uid = metadata::text(object, "uid").to_owned();
            object.ensure_map("metadata").insert("name", uid);
        }
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let spec = Path::root("spec");
        let path = spec.child("limits");
        let limits = object.at(&["spec", "limits"]).and_then(Value::as_list).unwrap_or_default();
        let mut kinds = BTreeSet::new();
        for (i, limit) in limits.iter().enumerate() {
            let path = path.index(i);
            let limit = Limit::new(limit);
            check_type(errors, &path.child("type"), limit.kind);
            if !kinds.insert(limit.kind) {
                errors.push(FieldError::duplicate(&path.child("type"), BadValue::json_string(limit.kind)));
            }
            check_limit(errors, &path, &limit);
        }
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }
}

/// The default limit of a container is the maximum; its default request is that limit, or else the minimum.
fn default_container(limit: &mut Map) {
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        let source = limit.get(from).and_then(Value::as_map).filter(|map| !map.is_empty());
        let Some(source) = source.cloned() else { continue };
        let target = limit.ensure_map(to);
        let known: BTreeSet<CompactString> = target.keys().map(CompactString::from).collect();
        let mut entries = std::mem::take(target).into_entries();
        entries.extend(source.into_entries().into_iter().filter(|(name, _)| !known.contains(name)));
        (*target, _) = Map::from_entries(entries);
    }
}

/// Resource lists of a limit, in the order in which their names are validated.
const LISTS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];

struct Limit<'a> {
    kind: &'a str,
    value: &'a Value,
    /// Amounts by list and resource. Defaults of pods are not included: their presence is an error of its
    /// own.
    amounts: BTreeMap<(&'static str, &'a str), Quantity>,
}

impl<'a> Limit<'a> {
    fn new(value: &'a Value) -> Limit<'a> {
        let kind = value.str_at(&["type"]);
        let counts = |list: &&'static str| !(kind == "Pod" && list.starts_with("default"));
        let of_list = |list| amounts(value.get(list)).map(move |(name, amount)| ((list, name), amount));
        Limit { kind, value, amounts: LISTS.into_iter().filter(counts).flat_map(of_list).collect() }
    }

    fn amount(&self, list: &'static str, name: &'a str) -> Option<Quantity> {
        self.amounts.get(&(list, name)).copied()
    }
}

fn check_type(errors: &mut ErrorList, path: &Path<'_>, kind: &str) {
    let shown = || BadValue::json_string(kind);
    let faults = label_key(kind);
    if faults.is_empty() {
        let standard = matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim");
        if !standard && !kind.contains('/') {
            let detail = "must be a standard limit type or fully qualified";
            errors.push(FieldError::invalid(path, shown(), detail));
        }
    }
    errors.extend(faults.into_iter().map(|fault| FieldError::invalid(path, shown(), fault)));
}

fn check_limit(errors: &mut ErrorList, path: &Path<'_>, limit: &Limit<'_>) {
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for list in LISTS {
        if list == "maxLimitRequestRatio" && limit.kind == "PersistentVolumeClaim" {
            check_storage(errors, path, limit);
        }
        let value = limit.value.get(list);
        if limit.kind == "Pod" && list.starts_with("default") {
            if value.is_some_and(|value| !value.is_empty()) {
                let detail = "may not be specified when `type` is 'Pod'";
                errors.push(FieldError::forbidden(&path.child(list), detail));
            }
            continue;
        }
        for (name, _) in amounts(value) {
            let list_path = path.child(list);
            if matches!(limit.kind, "Pod" | "Container") {
                resource_list::check_container_name(errors, &list_path.key(name), name);
            } else {
                resource_list::check_name(errors, &list_path.key(name), name);
            }
            names.insert(name);
        }
    }
    for name in names {
        check_order(errors, path, limit, name);
        check_ratio(errors, path, limit, name);
        check_overcommit(errors, path, limit, name);
    }
}

fn check_storage(errors: &mut ErrorList, path: &Path<'_>, limit: &Limit<'_>) {
    if limit.amount("min", "storage").is_none() && limit.amount("max", "storage").is_none() {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        errors.push(FieldError::required(&path.child("limits"), detail));
    }
}

/// Checks that minimum, defaults and maximum are in ascending order.
fn check_order<'a>(errors: &mut ErrorList, path: &Path<'_>, limit: &Limit<'a>, name: &'a str) {
    // The lower and the higher amount with their names, the field of the error, and the amount that it shows.
    let rules = [
        (("min", "min value"), ("max", "max value"), "min", "min"),
        (
            ("min", "min value"),
            ("defaultRequest", "default request value"),
            "defaultRequest",
            "defaultRequest",
        ),
        (
            ("defaultRequest", "default request value"),
            ("max", "max value"),
            "defaultRequest",
            "defaultRequest",
        ),
        (
            ("defaultRequest", "default request value"),
            ("default", "default limit value"),
            "defaultRequest",
            "defaultRequest",
        ),
        (("min", "min value"), ("default", "default value"), "default", "min"),
        (("default", "default value"), ("max", "max value"), "default", "max"),
    ];
    for ((low, low_words), (high, high_words), field, shown) in rules {
        let (Some(less), Some(more)) = (limit.amount(low, name), limit.amount(high, name)) else { continue };
        if less > more {
            let detail = format!("{low_words} {less} is greater than {high_words} {more}");
            let shown = if shown == low { less } else { more };
            let list = path.child(field);
            errors.push(FieldError::invalid(&list.key(name), shown.to_string(), detail));
        }
    }
}

fn check_ratio<'a>(errors: &mut ErrorList, path: &Path<'_>, limit: &Limit<'a>, name: &'a str) {
    let Some(ratio) = limit.amount("maxLimitRequestRatio", name) else { return };
    let list = path.child("maxLimitRequestRatio");
    let mut push = |detail| errors.push(FieldError::invalid(&list.key(name), ratio.to_string(), detail));
    if ratio < Quantity::new(1, Format::DecimalSi) {
        push(format!("ratio {ratio} is less than 1"));
    }
    let (Some(min), Some(max)) = (limit.amount("min", name), limit.amount("max", name)) else { return };
    let fits = [ratio, min, max].iter().all(|amount| amount.value() < MILLI_VALUE_MAX);
    let (ratio_value, bound) = if fits {
        (float(ratio.milli_value()) / 1000.0, float(max.milli_value()) / float(min.milli_value()))
    } else {
        (float(ratio.value()), float(max.value()) / float(min.value()))
    };
    if ratio_value > bound {
        push(format!("ratio {ratio} is greater than max/min = {bound:.6}"));
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio of floats is what clients are shown")]
fn float(number: i64) -> f64 {
    number as f64
}

fn check_overcommit<'a>(errors: &mut ErrorList, path: &Path<'_>, limit: &Limit<'a>, name: &'a str) {
    let (default, request) = (limit.amount("default", name), limit.amount("defaultRequest", name));
    if let (Some(default), Some(request)) = (default, request)
        && !resource_list::allows_overcommit(name)
        && default != request
    {
        let detail =
            format!("default value {default} must equal to defaultRequest value {request} in {name}");
        let list = path.child("defaultRequest");
        errors.push(FieldError::invalid(&list.key(name), request.to_string(), detail));
    }
}
