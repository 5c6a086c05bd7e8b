//! Validation of the success policy of an indexed Job.

use super::indexes;
use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::read::{list, optional_number};
use crate::kinds::workload::check_nonnegative;
use crate::value::Value;

const RULES_MAX: usize = 20;
const INDEXES_BYTES_MAX: usize = 64 * 1024;

/// Validates `spec.successPolicy` of an indexed Job.
pub(super) fn check(errors: &mut ErrorList, spec: &Value, policy: &Value, path: &Path<'_>) {
    let path = path.child("rules");
    let rules = list(policy, "rules");
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        errors.push(FieldError::required(&path, detail));
    }
    if rules.len() > RULES_MAX {
        errors.push(FieldError::too_many(&path, Some(rules.len()), RULES_MAX));
    }
    for (index, rule) in rules.iter().enumerate() {
        check_rule(errors, optional_number(spec, "completions").unwrap_or(0), rule, &path.index(index));
    }
}

fn check_rule(errors: &mut ErrorList, completions: i64, rule: &Value, path: &Path<'_>) {
    let indexes = rule.get("succeededIndexes").and_then(Value::as_str);
    let count = optional_number(rule, "succeededCount");
    if indexes.is_none() && count.is_none() {
        let detail = "at least one of succeededCount or succeededIndexes must be specified";
        errors.push(FieldError::required(path, detail));
    }
    let mut total = 0;
    if let Some(text) = indexes {
        let path = path.child("succeededIndexes");
        if text.len() > INDEXES_BYTES_MAX {
            errors.push(FieldError::too_long(&path, INDEXES_BYTES_MAX));
        }
        match indexes::count(text, completions) {
            Ok(count) => total = count,
            Err(fault) => {
                let detail = format!("error parsing succeededIndexes: {fault}");
                errors.push(FieldError::invalid(&path, text, detail));
            }
        }
    }
    let Some(count) = count else { return };
    check_nonnegative(errors, rule, path, &["succeededCount"]);
    let path = path.child("succeededCount");
    if count > completions {
        let detail =
            format!("must be less than or equal to {completions} (the number of specified completions)");
        errors.push(FieldError::invalid(&path, count, detail));
    }
    if indexes.is_some() && count > total {
        let detail = format!(
            "must be less than or equal to {total} \
             (the number of indexes in the specified succeededIndexes field)"
        );
        errors.push(FieldError::invalid(&path, count, detail));
    }
}
