//! Validation of a Job status: consistent states, and allowed transitions.
//!
//! A rule applies only if the write changes its fields, so that an object that violates it can still be
//! updated.

use std::collections::BTreeSet;

use super::indexes;
use super::job_spec::is_indexed;
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::core::pod_spec::internal;
use crate::kinds::read::{list, optional_number, shown, text};
use crate::kinds::workload::check_nonnegative;
use crate::rfc3339;
use crate::value::Value;

/// `true` if a condition has a status.
pub(super) fn has_condition(status: &Value, kind: &str, wanted: &str) -> bool {
    let is_it = |one: &Value| text(one, "type") == kind && text(one, "status") == wanted;
    list(status, "conditions").iter().any(is_it)
}

/// Terminal conditions of a status.
#[derive(Clone, Copy, PartialEq)]
struct TerminalState {
    complete: bool,
    failed: bool,
    failure_target: bool,
    success_criteria_met: bool,
}

impl TerminalState {
    fn of(status: &Value) -> TerminalState {
        let is = |kind| has_condition(status, kind, "True");
        TerminalState {
            complete: is("Complete"),
            failed: is("Failed"),
            failure_target: is("FailureTarget"),
            success_criteria_met: is("SuccessCriteriaMet"),
        }
    }

    fn is_finished(self) -> bool {
        self.complete || self.failed
    }
}

/// A status update.
struct StatusChange<'a> {
    spec: &'a Value,
    new: &'a Value,
    old: &'a Value,
    now: TerminalState,
    before: TerminalState,
}

impl StatusChange<'_> {
    fn has_changed(&self, field: &str) -> bool {
        self.new.get(field) != self.old.get(field)
    }

    fn has_completion_changed(&self) -> bool {
        self.now.complete != self.before.complete
    }

    fn has_finish_changed(&self) -> bool {
        self.now.is_finished() != self.before.is_finished()
    }

    fn completions(&self) -> Option<i64> {
        optional_number(self.spec, "completions")
    }
}

/// Validates a status update.
pub(super) fn check(new: &Value, old: &Value, errors: &mut ErrorList) {
    let empty = Value::map();
    let (status, old_status) = (new.get("status").unwrap_or(&empty), old.get("status").unwrap_or(&empty));
    let change = StatusChange {
        spec: new.get("spec").unwrap_or(&empty),
        new: status,
        old: old_status,
        now: TerminalState::of(status),
        before: TerminalState::of(old_status),
    };
    let path = Path::root("status");
    check_nonnegative(errors, status, &path, &["active", "succeeded", "failed", "ready", "terminating"]);
    check_uncounted(errors, status, &path.child("uncountedTerminatedPods"));
    check_completion(&change, &path, errors);
    check_finish(&change, &path, errors);
    check_indexes(&change, &path, errors);
    check_pods(&change, &path, errors);
    check_success(&change, &path, errors);
    check_transition(&change, &path, errors);
}

fn check_contradiction(errors: &mut ErrorList, path: &Path<'_>, detail: &'static str) {
    errors.push(FieldError::invalid(&path.child("conditions"), BadValue::Omitted, detail));
}

fn check_uncounted(errors: &mut ErrorList, status: &Value, path: &Path<'_>) {
    let Some(uncounted) = status.get("uncountedTerminatedPods") else { return };
    let mut seen = BTreeSet::new();
    for field in ["succeeded", "failed"] {
        let path = path.child(field);
        for (index, uid) in list(uncounted, field).iter().filter_map(Value::as_str).enumerate() {
            let value = BadValue::json_string(uid);
            if uid.is_empty() {
                errors.push(FieldError::invalid(&path.index(index), value, "must not be empty"));
            } else if !seen.insert(uid) {
                errors.push(FieldError::duplicate(&path.index(index), value));
            }
        }
    }
}

fn check_completion(change: &StatusChange<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let (now, before) = (change.now, change.before);
    if (change.has_completion_changed() || now.failed != before.failed) && now.complete && now.failed {
        check_contradiction(errors, path, "cannot set Complete=True and Failed=true conditions");
    }
    if (change.has_completion_changed() || now.failure_target != before.failure_target)
        && now.complete
        && now.failure_target
    {
        check_contradiction(errors, path, "cannot set Complete=True and FailureTarget=true conditions");
    }
    let completed_at = change.new.get("completionTime");
    let time_path = path.child("completionTime");
    if change.has_completion_changed() || change.has_changed("completionTime") {
        if completed_at.is_some() && !now.complete {
            let detail = "cannot set completionTime when there is no Complete=True condition";
            errors.push(FieldError::invalid(&time_path, shown(completed_at), detail));
        }
        if completed_at.is_none() && now.complete {
            let detail = "completionTime is required for Complete jobs";
            errors.push(FieldError::required(&time_path, detail));
        }
    }
    if (change.has_changed("startTime") || change.has_changed("completionTime"))
        && is_before(completed_at, change.new.get("startTime"))
    {
        let detail = "must be equal to or after `startTime`";
        errors.push(FieldError::invalid(&time_path, shown(completed_at), detail));
    }
}

fn is_before(time: Option<&Value>, other: Option<&Value>) -> bool {
    let parse = |time: Option<&Value>| rfc3339::parse(time?.as_str()?).ok();
    parse(time).zip(parse(other)).is_some_and(|(time, other)| time < other)
}

fn check_finish(change: &StatusChange<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let (now, before) = (change.now, change.before);
    if (now.failed != before.failed || change.has_changed("failedIndexes"))
        && now.failed
        && !now.failure_target
    {
        check_contradiction(
            errors,
            path,
            "cannot set Failed=True condition without the FailureTarget=true condition",
        );
    }
    let criteria_changed = now.success_criteria_met != before.success_criteria_met;
    if (change.has_completion_changed() || criteria_changed) && now.complete && !now.success_criteria_met {
        let detail = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
        check_contradiction(errors, path, detail);
    }
    if !now.is_finished() {
        return;
    }
    let active = optional_number(change.new, "active").unwrap_or(0);
    if (change.has_finish_changed() || change.has_changed("active")) && active > 0 {
        let detail = "active>0 is invalid for finished job";
        errors.push(FieldError::invalid(&path.child("active"), active, detail));
    }
    let is_suspended_void =
        change.spec.get("suspend").and_then(Value::as_bool) == Some(true) && change.completions() == Some(0);
    if (change.has_finish_changed() || change.has_changed("startTime"))
        && !is_suspended_void
        && change.new.get("startTime").is_none()
    {
        let detail = "startTime is required for finished job";
        errors.push(FieldError::required(&path.child("startTime"), detail));
    }
    let uncounted = change.new.get("uncountedTerminatedPods");
    let counts =
        |uncounted: &Value| ["succeeded", "failed"].iter().any(|field| !list(uncounted, field).is_empty());
    if (change.has_finish_changed() || change.has_changed("uncountedTerminatedPods"))
        && let Some(uncounted) = uncounted.filter(|uncounted| counts(uncounted))
    {
        let path = path.child("uncountedTerminatedPods");
        let value = internal::shown(uncounted, "UncountedTerminatedPods");
        errors.push(FieldError::invalid(&path, value, "must be empty for finished job"));
    }
}

fn check_indexes(change: &StatusChange<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let (completed_changed, failed_changed) =
        (change.has_changed("completedIndexes"), change.has_changed("failedIndexes"));
    let completed = text(change.new, "completedIndexes");
    let failed = change.new.get("failedIndexes").and_then(Value::as_str);
    let (completed_path, failed_path) = (path.child("completedIndexes"), path.child("failedIndexes"));
    let has_limit = change.spec.get("backoffLimitPerIndex").is_some();
    if let Some(completions) = change.completions() {
        if completed_changed && let Err(fault) = indexes::count(completed, completions) {
            let detail = format!("error parsing completedIndexes: {fault}");
            errors.push(FieldError::invalid(&completed_path, completed, detail));
        }
        if failed_changed
            && has_limit
            && let Some(failed) = failed
            && let Err(fault) = indexes::count(failed, completions)
        {
            let detail = format!("error parsing failedIndexes: {fault}");
            errors.push(FieldError::invalid(&failed_path, BadValue::json_string(failed), detail));
        }
    }
    if completed_changed && !completed.is_empty() && !is_indexed(change.spec) {
        let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errors.push(FieldError::invalid(&completed_path, completed, detail));
    }
    let Some(failed) = failed else { return };
    if failed_changed && !has_limit {
        let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        errors.push(FieldError::invalid(&failed_path, failed, detail));
    }
    if (failed_changed || completed_changed)
        && let Some(completions) = change.completions()
        && let Some(fault) = indexes::overlap(completed, failed, completions)
    {
        errors.push(FieldError::invalid(&failed_path, failed, fault));
    }
}

fn check_pods(change: &StatusChange<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let count = |field| optional_number(change.new, field).unwrap_or(0);
    let terminating = count("terminating");
    if (change.has_finish_changed() || change.has_changed("terminating"))
        && terminating > 0
        && change.now.is_finished()
    {
        let detail = "terminating>0 is invalid for finished job";
        errors.push(FieldError::invalid(&path.child("terminating"), terminating, detail));
    }
    if (change.has_changed("ready") || change.has_changed("active"))
        && let Some(ready) = optional_number(change.new, "ready").filter(|ready| *ready > count("active"))
    {
        let detail = "cannot set more ready pods than active";
        errors.push(FieldError::invalid(&path.child("ready"), ready, detail));
    }
}

fn check_success(change: &StatusChange<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let now = change.now;
    if now.success_criteria_met && now.failed {
        check_contradiction(errors, path, "cannot set SuccessCriteriaMet=True and Failed=true conditions");
    }
    if now.success_criteria_met && now.failure_target {
        check_contradiction(
            errors,
            path,
            "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
        );
    }
    if change.spec.get("successPolicy").is_some() && !now.success_criteria_met && now.complete {
        let detail = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
        check_contradiction(errors, path, detail);
    }
}

fn check_transition(change: &StatusChange<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let (now, before) = (change.now, change.before);
    for (kind, was, is) in [
        ("Failed", before.failed, now.failed),
        ("Complete", before.complete, now.complete),
        ("FailureTarget", before.failure_target, now.failure_target),
    ] {
        if was && !is {
            let detail = format!("cannot disable the terminal {kind}=True condition");
            errors.push(FieldError::invalid(&path.child("conditions"), BadValue::Omitted, detail));
        }
    }
    check_counters(change, path, errors);
    let (completed_at, start) = (change.new.get("completionTime"), change.new.get("startTime"));
    let was_completed_at = change.old.get("completionTime");
    if completed_at.is_some() && was_completed_at.is_some() && completed_at != was_completed_at {
        let path = path.child("completionTime");
        errors.push(FieldError::invalid(&path, shown(completed_at), "field is immutable"));
    }
    let is_resuming =
        has_condition(change.old, "Suspended", "True") && has_condition(change.new, "Suspended", "False");
    let is_suspended = change.spec.get("suspend").and_then(Value::as_bool) == Some(true);
    if change.has_changed("startTime")
        && !is_resuming
        && change.old.get("startTime").is_some()
        && !is_suspended
    {
        let detail = "field is immutable for unsuspended job once set";
        errors.push(FieldError::invalid(&path.child("startTime"), shown(start), detail));
    }
    if before.success_criteria_met && !now.success_criteria_met {
        check_contradiction(errors, path, "cannot disable the SuccessCriteriaMet=True condition");
    }
    if before.complete && !before.success_criteria_met && now.success_criteria_met {
        let detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
        check_contradiction(errors, path, detail);
    }
}

/// Counters only increase, except `succeeded` of an elastic indexed Job.
fn check_counters(change: &StatusChange<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let count = |status, field| optional_number(status, field).unwrap_or(0);
    let can_shrink =
        is_indexed(change.spec) && change.completions() == optional_number(change.spec, "parallelism");
    for (field, detail, may_fall) in [
        ("failed", "cannot decrease the failed counter", false),
        ("succeeded", "cannot decrease the succeeded counter", can_shrink),
    ] {
        let new = count(change.new, field);
        if !may_fall && new < count(change.old, field) {
            errors.push(FieldError::invalid(&path.child(field), new, detail));
        }
    }
}
