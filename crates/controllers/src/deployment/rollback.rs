//! Rollback by the deprecated annotation. Current clients write the earlier template themselves.

use setpoint_api::{Value, value};
use setpoint_reconcile::{Action, Object, Plan, Write};

use super::sets::{HASH, Sets, copied, is_same_template};

/// Annotation with the revision to roll back to, 0 for the previous one.
pub(super) const ANNOTATION: &str = "deprecated.deployment.rollback.to";
const NOT_FOUND: &str = "DeploymentRollbackRevisionNotFound";

/// Requested revision.
pub(super) fn wanted(deployment: &Object) -> Option<i64> {
    deployment.meta().annotations.get(ANNOTATION)?.parse().ok()
}

/// Sets the template of a revision, and removes the annotation in any case.
pub(super) fn roll_back(plan: &mut Plan, sets: &Sets<'_>, revision: i64) {
    let about = sets.owner.subject();
    let name = &sets.owner.object.meta().name;
    let mut annotations = Value::map();
    annotations.make_map().insert(ANNOTATION, Value::Null);
    let wish_gone = value!({"metadata": {"annotations": (annotations)}});
    let write = |patch: Value| Action::from(Write::merge(sets.owner.object, "", patch).strategic());

    let revision = if revision == 0 { last(sets) } else { Some(revision) };
    let Some(revision) = revision else {
        let note = about.warning(NOT_FOUND, "Unable to find last revision.");
        return plan.stage([write(wish_gone).on_done(note)]);
    };
    let Some(found) = sets.all().find(|set| set.revision() == Some(revision)) else {
        let note = about.warning(NOT_FOUND, "Unable to find the revision to rollback to.");
        return plan.stage([write(wish_gone).on_done(note)]);
    };
    let template = &found.set.spec.template.0;
    if is_same_template(template, &sets.deployment.spec.template.0) {
        let message =
            format!("The rollback revision contains the same template as current deployment \"{name}\"");
        let note = about.warning("DeploymentRollbackTemplateUnchanged", message);
        return plan.stage([write(wish_gone).on_done(note)]);
    }
    let mut patch = wish_gone;
    let annotations = patch.ensure_map("metadata").ensure_map("annotations");
    // The annotations of the set are restored too, so a change cause stays with its template.
    for (name, _) in copied(sets.owner.object) {
        annotations.insert(name, Value::Null);
    }
    for (name, text) in copied(found.object) {
        annotations.insert(name, text);
    }
    let mut template = template.clone();
    template.ensure_map("metadata").ensure_map("labels").remove(HASH);
    template.make_map().insert("$patch", "replace");
    patch.ensure_map("spec").insert("template", template);
    let message = format!("Rolled back deployment \"{name}\" to revision {revision}");
    plan.stage([write(patch).on_done(about.normal("DeploymentRollback", message))]);
}

/// Revision before the newest.
fn last(sets: &Sets<'_>) -> Option<i64> {
    let mut revisions: Vec<i64> = sets.all().filter_map(|set| set.revision()).collect();
    revisions.sort_unstable();
    let before = revisions.len().checked_sub(2)?;
    Some(revisions[before]).filter(|revision| *revision > 0)
}
