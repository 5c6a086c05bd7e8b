//! Claims of a StatefulSet's pods: one per template and ordinal. They outlive the pods, unless
//! `persistentVolumeClaimRetentionPolicy` makes the set or a surplus pod their owner; then they are collected
//! with it.

use setpoint_api::{Value, value};
use setpoint_reconcile::object::OwnerReference as Reference;
use setpoint_reconcile::{Action, Object, Write};

use super::StatefulSetRollout;

const CLAIMS: &str = "persistentvolumeclaims";
const DELETE: &str = "Delete";

/// Volume and claim names of an ordinal.
pub(super) fn names(
    rollout: &StatefulSetRollout<'_>,
    ordinal: i64,
) -> impl Iterator<Item = (String, String)> {
    let set = &rollout.owner.object.meta().name;
    rollout.set.spec.volume_claim_templates.iter().map(move |template| {
        let volume = template.str_at(&["metadata", "name"]);
        (volume.to_owned(), format!("{volume}-{set}-{ordinal}"))
    })
}

fn find<'a>(rollout: &StatefulSetRollout<'a>, name: &str) -> Option<&'a Object> {
    rollout.world.find(CLAIMS, &rollout.owner.object.meta().namespace, name)
}

/// `true` if a claim of this ordinal is being deleted, or will be collected with a pod that is gone.
pub(super) fn are_terminating(rollout: &StatefulSetRollout<'_>, ordinal: i64) -> bool {
    let pod = format!("{}-{ordinal}", rollout.owner.object.meta().name);
    let is_stale = |reference: &Reference| {
        rollout.set.spec.retention.when_scaled == DELETE && is_pod(reference) && *reference.name == pod
    };
    names(rollout, ordinal)
        .filter_map(|(_, name)| find(rollout, &name))
        .any(|claim| claim.meta().is_deleted() || claim.meta().owner_references.iter().any(is_stale))
}

/// Creates the missing claims of an ordinal.
pub(super) fn create_missing(rollout: &StatefulSetRollout<'_>, ordinal: i64) -> Vec<Action> {
    let missing = names(rollout, ordinal).zip(&rollout.set.spec.volume_claim_templates);
    let missing = missing.filter(|((_, name), _)| find(rollout, name).is_none());
    let missing: Vec<_> = missing.map(|((_, name), template)| (name, template)).collect();
    if missing.is_empty() {
        return Vec::new();
    }
    let set = &rollout.owner.object.meta().name;
    let object = rollout.owner.object.value();
    let selected = object.at(&["spec", "selector", "matchLabels"]).and_then(Value::as_map);
    let actions = missing.into_iter().map(|(name, template)| {
        let mut labels = template.at(&["metadata", "labels"]).cloned().unwrap_or_default();
        for (label, value) in selected.into_iter().flat_map(|labels| labels.iter()) {
            labels.make_map().insert(label, value.clone());
        }
        let owners: Vec<Value> = match &*rollout.set.spec.retention.when_deleted {
            DELETE => vec![rollout.owner.reference()],
            _ => Vec::new(),
        };
        let claim = value!({
            "metadata": {
                "name": (name.as_str()),
                "labels": (labels),
                "annotations": (template.at(&["metadata", "annotations"]).cloned()),
                "ownerReferences": (owners),
            },
            "spec": (template.get("spec").cloned()),
        });
        let subject = rollout.subject();
        let done = format!("Create Claim {name} Pod {set}-{ordinal} in StatefulSet {set} success");
        let failed = format!(
            "Create Claim {name} for Pod {set}-{ordinal} in StatefulSet {set} failed error: {{error}}"
        );
        Action::from(Write::create(CLAIMS, &rollout.owner.object.meta().namespace, claim))
            .on_done(subject.normal("SuccessfulCreate", done))
            .on_failed(subject.warning("FailedCreate", failed))
    });
    actions.collect()
}

/// Sets the owners of a pod's claims according to the retention policy.
pub(super) fn sync_retention(rollout: &StatefulSetRollout<'_>, ordinal: i64, pod: &Object) -> Vec<Action> {
    let claims = names(rollout, ordinal).filter_map(|(_, name)| find(rollout, &name));
    claims.filter_map(|claim| sync_claim_owner(rollout, ordinal, pod, claim)).collect()
}

/// Owner of a pod's claims.
#[derive(Clone, Copy, PartialEq)]
enum ClaimOwner {
    None,
    Set,
    Pod,
}

fn sync_claim_owner(
    rollout: &StatefulSetRollout<'_>,
    ordinal: i64,
    pod: &Object,
    claim: &Object,
) -> Option<Action> {
    let (policy, set) = (&rollout.set.spec.retention, rollout.owner.object);
    let start = rollout.set.spec.ordinals.start;
    let is_in_range = (0..rollout.set.spec.replicas).contains(&ordinal.saturating_sub(start));
    let owner = match (&*policy.when_scaled, &*policy.when_deleted) {
        (DELETE, _) if !is_in_range => ClaimOwner::Pod,
        (_, DELETE) => ClaimOwner::Set,
        _ => ClaimOwner::None,
    };
    let is_set = |reference: &Reference| is_set(reference) && reference.name == set.meta().name;
    let is_pod = |reference: &Reference| is_pod(reference) && reference.name == pod.meta().name;
    let references = &claim.meta().owner_references;
    // A claim of a deleted owner of the same name will be collected and cannot be reused.
    let is_stale = |reference: &Reference| {
        (is_set(reference) && reference.uid != set.meta().uid)
            || (is_pod(reference) && reference.uid != pod.meta().uid)
    };
    if references.iter().any(is_stale) {
        return None;
    }
    let retains_all = policy.when_scaled != DELETE && policy.when_deleted != DELETE;
    let is_foreign =
        references.iter().any(|reference| reference.controller && !is_set(reference) && !is_pod(reference));
    let owner = if is_foreign && !retains_all { ClaimOwner::None } else { owner };
    let owned_by = |is: &dyn Fn(&Reference) -> bool| {
        references.iter().any(|reference| is(reference) && reference.controller)
    };
    let owned_count = references.iter().filter(|reference| is_set(reference) || is_pod(reference)).count();
    let is_current = match owner {
        ClaimOwner::None => owned_count == 0,
        ClaimOwner::Set => owned_count == 1 && owned_by(&is_set),
        ClaimOwner::Pod => owned_count == 1 && owned_by(&is_pod),
    };
    if is_current {
        return None;
    }
    let others = references
        .iter()
        .filter(|reference| !is_set(reference) && !is_pod(reference))
        .map(owner_reference_value);
    let own = match owner {
        ClaimOwner::None => None,
        ClaimOwner::Set => Some(rollout.owner.reference()),
        ClaimOwner::Pod => {
            Some(crate::owners::Owner { object: pod, api_version: "v1", kind: "Pod" }.reference())
        }
    };
    let owners: Vec<Value> = others.chain(own).collect();
    Some(Write::merge(claim, "", value!({"metadata": {"ownerReferences": (owners)}})).into())
}

fn is_set(reference: &Reference) -> bool {
    (&*reference.api_version, &*reference.kind) == ("apps/v1", "StatefulSet")
}

fn is_pod(reference: &Reference) -> bool {
    (&*reference.api_version, &*reference.kind) == ("v1", "Pod")
}

/// Owner reference in its stored form.
fn owner_reference_value(reference: &Reference) -> Value {
    let mut value = value!({
        "apiVersion": (&*reference.api_version),
        "kind": (&*reference.kind),
        "name": (&*reference.name),
        "uid": (&*reference.uid),
    });
    if reference.controller {
        value.make_map().insert("controller", true);
    }
    if reference.block_owner_deletion {
        value.make_map().insert("blockOwnerDeletion", true);
    }
    value
}
