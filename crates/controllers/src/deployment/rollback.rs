//! Rollback by the deprecated annotation. Current clients write the earlier template themselves.

use setpoint_api::{Value, value};
use setpoint_reconcile::{Action, Object, Plan, Write};

use super::replica_sets::{POD_TEMPLATE_HASH, ReplicaSets, copied_annotations, is_equal_ignoring_hash};

/// Annotation with the revision to roll back to, 0 for the previous one.
pub(super) const ANNOTATION: &str = "deprecated.deployment.rollback.to";
const REVISION_NOT_FOUND: &str = "DeploymentRollbackRevisionNotFound";

/// Requested revision.
pub(super) fn rollback_to(deployment: &Object) -> Option<i64> {
    deployment.meta().annotations.get(ANNOTATION)?.parse().ok()
}

/// Sets the template of a revision, and removes the annotation in any case.
pub(super) fn roll_back(plan: &mut Plan, sets: &ReplicaSets<'_>, revision: i64) {
    let subject = sets.owner.subject();
    let name = &sets.owner.object.meta().name;
    let mut annotations = Value::map();
    annotations.make_map().insert(ANNOTATION, Value::Null);
    let remove_annotation = value!({"metadata": {"annotations": (annotations)}});
    let write = |patch: Value| Action::from(Write::merge(sets.owner.object, "", patch).strategic());

    let revision = if revision == 0 { previous_revision(sets) } else { Some(revision) };
    let Some(revision) = revision else {
        let event = subject.warning(REVISION_NOT_FOUND, "Unable to find last revision.");
        return plan.stage([write(remove_annotation).on_done(event)]);
    };
    let Some(found) = sets.all().find(|set| set.revision() == Some(revision)) else {
        let event = subject.warning(REVISION_NOT_FOUND, "Unable to find the revision to rollback to.");
        return plan.stage([write(remove_annotation).on_done(event)]);
    };
    let template = &found.set.spec.template.0;
    if is_equal_ignoring_hash(template, &sets.deployment.spec.template.0) {
        let message =
            format!("The rollback revision contains the same template as current deployment \"{name}\"");
        let event = subject.warning("DeploymentRollbackTemplateUnchanged", message);
        return plan.stage([write(remove_annotation).on_done(event)]);
    }
    let mut patch = remove_annotation;
    let annotations = patch.ensure_map("metadata").ensure_map("annotations");
    // The annotations of the set are restored too, so a change cause stays with its template.
    for (name, _) in copied_annotations(sets.owner.object) {
        annotations.insert(name, Value::Null);
    }
    for (name, text) in copied_annotations(found.object) {
        annotations.insert(name, text);
    }
    let mut template = template.clone();
    template.ensure_map("metadata").ensure_map("labels").remove(POD_TEMPLATE_HASH);
    template.make_map().insert("$patch", "replace");
    patch.ensure_map("spec").insert("template", template);
    let message = format!("Rolled back deployment \"{name}\" to revision {revision}");
    plan.stage([write(patch).on_done(subject.normal("DeploymentRollback", message))]);
}

/// Revision before the newest.
fn previous_revision(sets: &ReplicaSets<'_>) -> Option<i64> {
    let mut revisions: Vec<i64> = sets.all().filter_map(|set| set.revision()).collect();
    revisions.sort_unstable();
    let before = revisions.len().checked_sub(2)?;
    Some(revisions[before]).filter(|revision| *revision > 0)
}
