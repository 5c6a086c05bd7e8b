//! Claims of a StatefulSet's pods: one per template and ordinal. They outlive the pods, unless
//! `persistentVolumeClaimRetentionPolicy` makes the set or a surplus pod their owner; then they are collected
//! with it.

use setpoint_api::{Value, value};
use setpoint_reconcile::object::OwnerReference as Reference;
use setpoint_reconcile::{Act, Object, Write};

use super::Rollout;

const CLAIMS: &str = "persistentvolumeclaims";
const DELETE: &str = "Delete";

/// Volume and claim names of an ordinal.
pub(super) fn names(rollout: &Rollout<'_>, number: i64) -> impl Iterator<Item = (String, String)> {
    let set = &rollout.owner.object.meta().name;
    rollout.set.spec.volume_claim_templates.iter().map(move |template| {
        let volume = template.str_at(&["metadata", "name"]);
        (volume.to_owned(), format!("{volume}-{set}-{number}"))
    })
}

fn find<'a>(rollout: &Rollout<'a>, name: &str) -> Option<&'a Object> {
    rollout.world.find(CLAIMS, &rollout.owner.object.meta().namespace, name)
}

/// `true` if a claim of this ordinal is being deleted, or will be collected with a pod that is gone.
pub(super) fn are_going(rollout: &Rollout<'_>, number: i64) -> bool {
    let pod = format!("{}-{number}", rollout.owner.object.meta().name);
    let is_stale = |reference: &Reference| {
        rollout.set.spec.retention.when_scaled == DELETE && is_pod(reference) && *reference.name == pod
    };
    names(rollout, number)
        .filter_map(|(_, name)| find(rollout, &name))
        .any(|claim| claim.meta().is_deleted() || claim.meta().owner_references.iter().any(is_stale))
}

/// Creates the missing claims of an ordinal.
pub(super) fn missing(rollout: &Rollout<'_>, number: i64) -> Vec<Act> {
    let missing = names(rollout, number).zip(&rollout.set.spec.volume_claim_templates);
    let missing = missing.filter(|((_, name), _)| find(rollout, name).is_none());
    let missing: Vec<_> = missing.map(|((_, name), template)| (name, template)).collect();
    if missing.is_empty() {
        return Vec::new();
    }
    let set = &rollout.owner.object.meta().name;
    let object = rollout.owner.object.value();
    let selected = object.at(&["spec", "selector", "matchLabels"]).and_then(Value::as_map);
    let acts = missing.into_iter().map(|(name, template)| {
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
        let done = format!("Create Claim {name} Pod {set}-{number} in StatefulSet {set} success");
        let failed = format!(
            "Create Claim {name} for Pod {set}-{number} in StatefulSet {set} failed error: {{error}}"
        );
        Act::from(Write::create(CLAIMS, &rollout.owner.object.meta().namespace, claim))
            .on_done(subject.normal("SuccessfulCreate", done))
            .on_failed(subject.warning("FailedCreate", failed))
    });
    acts.collect()
}

/// Sets the owners of a pod's claims according to the retention policy.
pub(super) fn retain(rollout: &Rollout<'_>, number: i64, pod: &Object) -> Vec<Act> {
    let claims = names(rollout, number).filter_map(|(_, name)| find(rollout, &name));
    claims.filter_map(|claim| retain_one(rollout, number, pod, claim)).collect()
}

/// Owner of a pod's claims.
#[derive(Clone, Copy, PartialEq)]
enum Keeper {
    Nobody,
    Set,
    Pod,
}

fn retain_one(rollout: &Rollout<'_>, number: i64, pod: &Object, claim: &Object) -> Option<Act> {
    let (policy, set) = (&rollout.set.spec.retention, rollout.owner.object);
    let start = rollout.set.spec.ordinals.start;
    let is_wanted = (0..rollout.set.spec.replicas).contains(&number.saturating_sub(start));
    let keeper = match (&*policy.when_scaled, &*policy.when_deleted) {
        (DELETE, _) if !is_wanted => Keeper::Pod,
        (_, DELETE) => Keeper::Set,
        _ => Keeper::Nobody,
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
    let is_foreign = references.iter().any(|it| it.controller && !is_set(it) && !is_pod(it));
    let keeper = if is_foreign && !retains_all { Keeper::Nobody } else { keeper };
    let owned_by = |is: &dyn Fn(&Reference) -> bool| references.iter().any(|it| is(it) && it.controller);
    let named = references.iter().filter(|it| is_set(it) || is_pod(it)).count();
    let is_so = match keeper {
        Keeper::Nobody => named == 0,
        Keeper::Set => named == 1 && owned_by(&is_set),
        Keeper::Pod => named == 1 && owned_by(&is_pod),
    };
    if is_so {
        return None;
    }
    let others = references.iter().filter(|it| !is_set(it) && !is_pod(it)).map(written);
    let own = match keeper {
        Keeper::Nobody => None,
        Keeper::Set => Some(rollout.owner.reference()),
        Keeper::Pod => Some(crate::owners::Owner { object: pod, api_version: "v1", kind: "Pod" }.reference()),
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
fn written(reference: &Reference) -> Value {
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
