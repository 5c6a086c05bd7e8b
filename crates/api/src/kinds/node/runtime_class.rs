//! RuntimeClass: the container runtime configuration of a pod.

use std::collections::BTreeSet;

use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::Rules;
use crate::kinds::check::{self, GoLayout};
use crate::kinds::core::resource_list::{HUGE_PAGES, check_container_name, is_counted};
use crate::names::{dns, metadata};
use crate::quantity::Quantity;
use crate::value::Value;

const TOLERATION: GoLayout = GoLayout::Struct(&[
    ("Key", "key", GoLayout::Text),
    ("Operator", "operator", GoLayout::Text),
    ("Value", "value", GoLayout::Text),
    ("Effect", "effect", GoLayout::Text),
    ("TolerationSeconds", "tolerationSeconds", GoLayout::Plain),
]);

/// Rules of RuntimeClass.
pub struct RuntimeClass;

impl Rules for RuntimeClass {
    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        check_overhead(errors, check::field(object, "overhead"));
        check_scheduling(errors, check::field(object, "scheduling"));
        check_handler(errors, check::text(object, "handler"));
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        check_overhead(errors, check::field(new, "overhead"));
        check_scheduling(errors, check::field(new, "scheduling"));
        let (new, old) = (check::field(new, "handler"), check::field(old, "handler"));
        check::check_immutable(errors, &Path::root("handler"), new, old);
        check_handler(errors, new.as_str().unwrap_or_default());
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let selector = check::entries(check::field(new, "scheduling"), "nodeSelector");
        let deprecated = selector.into_iter().filter_map(|(label, _)| check::deprecated_node_label(label));
        deprecated.map(|message| format!("scheduling.nodeSelector: {message}")).collect()
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}

fn check_handler(errors: &mut ErrorList, handler: &str) {
    let path = Path::root("handler");
    if handler.is_empty() {
        errors.push(FieldError::required(&path, ""));
    } else {
        // The message of this field counts bytes, those of others characters.
        let faults = dns::label(handler).into_iter().map(|fault| match &*fault {
            "must be no more than 63 characters" => "must be no more than 63 bytes".into(),
            _ => fault,
        });
        errors.push_invalid(&path, handler, faults);
    }
}

fn check_scheduling(errors: &mut ErrorList, scheduling: &Value) {
    let path = Path::root("scheduling");
    metadata::labels(errors, &path.child("nodeSelector"), check::text_entries(scheduling, "nodeSelector"));
    let path = path.child("tolerations");
    let tolerations = check::list(scheduling, "tolerations");
    check::check_tolerations(errors, &path, tolerations);
    let mut seen = BTreeSet::new();
    for (i, toleration) in tolerations.iter().enumerate() {
        if !seen.insert(["key", "operator", "value", "effect"].map(|name| check::text(toleration, name))) {
            errors.push(FieldError::duplicate(&path.index(i), check::format_go(toleration, &TOLERATION)));
        }
    }
}

/// Validates the pod overhead, by the rules for container limits.
fn check_overhead(errors: &mut ErrorList, overhead: &Value) {
    let path = Path::root("overhead");
    let limits = path.child("limits");
    let (mut huge_pages, mut cpu_or_memory) = (false, false);
    for (name, quantity) in check::entries(overhead, "podFixed") {
        let path = limits.key(name);
        check_container_name(errors, &path, name);
        check::check_nonnegative_quantity(errors, &path, quantity);
        let text = quantity.as_str().unwrap_or_default();
        let parsed = Quantity::parse(text).unwrap_or(Quantity::ZERO);
        if is_counted(name) && parsed.milli_value() % 1000 != 0 {
            errors.push(FieldError::invalid(&path, BadValue::json_string(text), "must be an integer"));
        }
        if let Some(size) = name.strip_prefix(HUGE_PAGES) {
            huge_pages = true;
            let size = Quantity::parse(size).unwrap_or(Quantity::ZERO).value();
            if size <= 0 || parsed.value() % size != 0 {
                let detail = format!("{text} is not positive integer multiple of {name}");
                errors.push(FieldError::invalid(&path, text, detail));
            }
        }
        cpu_or_memory |= matches!(name, "cpu" | "memory");
    }
    if huge_pages && !cpu_or_memory {
        errors.push(FieldError::forbidden(&path, "HugePages require cpu or memory"));
    }
}
