//! Admission webhooks: a write that a webhook's configuration matches is stored only if the webhook was called and
//! allowed it, or failed and may fail; and a validating webhook saw what is stored.

use setpoint_api::Value;
use setpoint_reconcile::{Object, WorldReader};

use super::{Check, CommitContext};
use crate::campaign::coverage::CoverageMarks;
use crate::campaign::ground_truth::CommitChange;
use crate::cluster::{AdmissionRecord, Verdict};

const MUTATING: &str = "mutatingwebhookconfigurations.admissionregistration.k8s.io";
const VALIDATING: &str = "validatingwebhookconfigurations.admissionregistration.k8s.io";
/// Group of the configurations, whose own writes are never admitted by webhooks.
const GROUP: &str = "admissionregistration.k8s.io";

/// Check of admission.
pub struct WebhookAdmission;

impl Check for WebhookAdmission {
    fn check_change(
        &mut self,
        change: &CommitChange,
        context: &CommitContext<'_>,
        marks: &mut CoverageMarks,
    ) -> Result<(), String> {
        let resource = change.key.resource().as_str();
        let is_recorded = |record: &&AdmissionRecord| record.resource.as_str() == resource;
        let Some(record) = context.admission.filter(is_recorded) else { return Ok(()) };
        if resource.ends_with(GROUP) {
            return Ok(());
        }
        for (kind, object) in configurations(context.world) {
            let value = object.value();
            for webhook in value.get("webhooks").and_then(Value::as_list).unwrap_or_default() {
                if is_matched(webhook, resource, record.operation.as_str()) {
                    check_webhook(webhook, kind == VALIDATING, record, change, marks)?;
                }
            }
        }
        Ok(())
    }
}

fn configurations<'w>(world: &'w WorldReader<'w>) -> impl Iterator<Item = (&'static str, &'w Object)> {
    [MUTATING, VALIDATING].into_iter().flat_map(|kind| world.all(kind).map(move |object| (kind, object)))
}

/// `true` if a rule matches the operation on the resource.
fn is_matched(webhook: &Value, resource: &str, operation: &str) -> bool {
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    let has = |rule: &Value, field: &str, text: &str| {
        let list = rule.get(field).and_then(Value::as_list).unwrap_or_default();
        list.iter().filter_map(Value::as_str).any(|one| one == "*" || one == text)
    };
    let rules = webhook.get("rules").and_then(Value::as_list).unwrap_or_default();
    rules.iter().any(|rule| {
        has(rule, "apiGroups", group) && has(rule, "resources", plural) && has(rule, "operations", operation)
    })
}

fn check_webhook(
    webhook: &Value,
    is_validating: bool,
    record: &AdmissionRecord,
    change: &CommitChange,
    marks: &mut CoverageMarks,
) -> Result<(), String> {
    let (key, name) = (&change.key, webhook.str_at(&["name"]));
    let Some(last) = record.reviews.iter().rfind(|review| *review.webhook == *name) else {
        return Err(format!("{key} was stored without a call of webhook {name}"));
    };
    match last.verdict {
        Verdict::Allowed => {}
        Verdict::Denied => return Err(format!("{key} was stored although webhook {name} denied it")),
        Verdict::Failed if webhook.str_at(&["failurePolicy"]) == "Ignore" => {
            marks.record("failure of a webhook was ignored");
        }
        Verdict::Failed => return Err(format!("{key} was stored although webhook {name} failed")),
    }
    let Some(after) = change.after.as_ref().filter(|_| is_validating && !last.object.is_null()) else {
        return Ok(());
    };
    let stored = after.value();
    for path in [&["metadata", "labels"][..], &["metadata", "ownerReferences"], &["data"]] {
        if stored.at(path) != last.object.at(path) {
            let (stored, seen) = (stored.at(path), last.object.at(path));
            return Err(format!("{key} was stored with {stored:?}, and webhook {name} saw {seen:?}"));
        }
    }
    Ok(())
}
