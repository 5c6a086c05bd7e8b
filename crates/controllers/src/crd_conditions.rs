//! Conditions of CustomResourceDefinitions that follow from the definition alone: `NonStructuralSchema` and
//! `KubernetesAPIApprovalPolicyConformant`.
//!
//! Schemas are validated when they are written, so a stored definition violates the structure only by
//! `preserveUnknownFields`.

use setpoint_api::quote::Quoted;
use setpoint_api::{Key, Time};
use setpoint_reconcile::{Plan, Planner, Seed, Seen, Watch, WorldReader};
use setpoint_views::custom_resource_definition::{APPROVED_ANNOTATION, CustomResourceDefinition};
use setpoint_views::{Condition, condition};

use crate::conditions::remove_condition;
use crate::crd::{DEFINITIONS, MANAGER, USER, new_condition, no_fields, update_condition, write_status};

const NON_STRUCTURAL: &str = "NonStructuralSchema";
const CONFORMANT: &str = "KubernetesAPIApprovalPolicyConformant";
/// Page that explains the policy.
const POLICY: &str = "https://github.com/kubernetes/enhancements/pull/1111";

/// Maintains the conditions.
pub struct CrdConditions;

impl Planner for CrdConditions {
    type Memo = ();

    fn name(&self) -> &'static str {
        "crd-condition-controller"
    }

    fn user(&self) -> String {
        USER.to_owned()
    }

    fn manager(&self) -> &'static str {
        MANAGER
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 1] = [Watch::primary(DEFINITIONS)];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(object) = world.get(key) else { return plan };
        let Some(definition) = object.view::<CustomResourceDefinition>() else { return plan };
        let mut conditions = definition.status.conditions.clone();
        let mut is_changed = false;
        match non_structural(definition, now) {
            Some(new) => is_changed |= update_condition(&mut conditions, new),
            None if condition(&conditions, NON_STRUCTURAL).is_some() => {
                remove_condition(&mut conditions, NON_STRUCTURAL);
                is_changed = true;
            }
            None => {}
        }
        if is_protected(&definition.spec.group) {
            let annotation = object.meta().annotations.get(APPROVED_ANNOTATION).unwrap_or_default();
            is_changed |= update_condition(&mut conditions, approval(annotation, now));
        }
        if is_changed {
            plan.push(write_status(object, &conditions, no_fields()));
        }
        plan
    }
}

fn non_structural(definition: &CustomResourceDefinition, now: Time) -> Option<Condition> {
    let message = "spec.preserveUnknownFields: Invalid value: true: must be false";
    let is_violated = definition.spec.preserve_unknown_fields;
    is_violated.then(|| new_condition(NON_STRUCTURAL, true, ("Violations", message), now))
}

/// `true` if APIs of the group need the approval of the Kubernetes community.
fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].iter().any(|domain| {
        group.strip_suffix(domain).is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('.'))
    })
}

fn approval(annotation: &str, now: Time) -> Condition {
    let name = Quoted(APPROVED_ANNOTATION);
    let (is_approved, reason, message) = if annotation.is_empty() {
        let message = format!("protected groups must have approval annotation {name}, see {POLICY}");
        (false, "MissingAnnotation", message)
    } else if annotation.starts_with("unapproved") {
        (false, "UnapprovedAnnotation", format!("not approved: {}", Quoted(annotation)))
    } else if is_url(annotation) {
        (true, "ApprovedAnnotation", format!("approved in {annotation}"))
    } else {
        let message = format!(
            "protected groups must have approval annotation {name} with either a URL or a reason starting with \
             \"unapproved\", see {POLICY}"
        );
        (false, "InvalidAnnotation", message)
    };
    new_condition(CONFORMANT, is_approved, (reason, &message), now)
}

/// `true` if the text is an absolute URL with a host.
fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    let is_host = !host.is_empty() && host.chars().all(|c| !c.is_whitespace() && !"\"<>^`{}|\\".contains(c));
    is_scheme && is_host && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use setpoint_api::value;

    use super::*;
    use crate::crd_names::tests::{cluster, condition_of, create, definition};

    #[test]
    fn protected_groups_report_their_approval() {
        let mut cluster = cluster();
        let annotated =
            |annotation: &str| value!({"annotations": {"api-approved.kubernetes.io": (annotation)}});
        let mut protected = definition("foos", "example.k8s.io", value!({}));
        let annotations = annotated("unapproved, experimental").get("annotations").cloned().unwrap();
        protected.ensure_map("metadata").insert("annotations", annotations);
        cluster.create(DEFINITIONS, "", protected);
        create(&mut cluster, "foos", "notk8s.io", value!({}));
        cluster.settle();
        let name = "foos.example.k8s.io";
        assert_eq!(
            condition_of(&cluster, name, CONFORMANT),
            "False UnapprovedAnnotation not approved: \"unapproved, experimental\""
        );
        assert_eq!(condition_of(&cluster, "foos.notk8s.io", CONFORMANT), "");
        assert_eq!(
            condition_of(&cluster, name, "Established"),
            "True InitialNamesAccepted the initial names have been accepted"
        );
        let patch = value!({"metadata": (annotated("https://github.com/x/1"))});
        cluster.patch(DEFINITIONS, name, "", patch).unwrap();
        cluster.settle();
        assert_eq!(
            condition_of(&cluster, name, CONFORMANT),
            "True ApprovedAnnotation approved in https://github.com/x/1"
        );
        cluster.assert_quiet();
    }

    #[test]
    fn missing_and_invalid_approvals_explain_the_policy() {
        let missing = approval("", Time::EPOCH);
        assert_eq!((&*missing.status, &*missing.reason), ("False", "MissingAnnotation"));
        assert_eq!(
            &*missing.message,
            "protected groups must have approval annotation \"api-approved.kubernetes.io\", see \
             https://github.com/kubernetes/enhancements/pull/1111"
        );
        let invalid = approval("bad value", Time::EPOCH);
        assert_eq!((&*invalid.status, &*invalid.reason), ("False", "InvalidAnnotation"));
        assert_eq!(
            &*invalid.message,
            "protected groups must have approval annotation \"api-approved.kubernetes.io\" with either a URL or a \
             reason starting with \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111"
        );
    }

    #[test]
    fn url_of_an_approval_has_scheme_and_host() {
        for text in ["https://a.b/c?d=e", "http://localhost:80", "x+y://h"] {
            assert!(is_url(text), "{text}");
        }
        for text in ["", "a", "/a/b", "https://", "://h", "1://h", "https://a b", "mailto:x"] {
            assert!(!is_url(text), "{text}");
        }
    }

    #[test]
    fn unknown_fields_make_a_schema_non_structural() {
        let mut definition = CustomResourceDefinition::default();
        assert!(non_structural(&definition, Time::EPOCH).is_none());
        definition.spec.preserve_unknown_fields = true;
        let found = non_structural(&definition, Time::EPOCH).unwrap();
        assert_eq!(&*found.message, "spec.preserveUnknownFields: Invalid value: true: must be false");
        assert!(is_protected("k8s.io") && is_protected("a.kubernetes.io") && !is_protected("ak8s.io"));
    }
}
