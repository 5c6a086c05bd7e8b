//! Kubelet decisions on in-place resize.
//!
//! A container's allocated resources are in its status. If the spec differs from them, the admission key of
//! the node decides ([`crate::pods::PodAdmission`]), so that no two pods get the same resources. Until then, and
//! while a resize is deferred or infeasible, the container keeps its allocation. The life cycle actuates granted
//! resizes.

use setpoint_api::quantity::Quantity;
use setpoint_reconcile::{Index, Object, View};
use setpoint_requirements::request::ResourceAmounts;
use setpoint_views::pod::{Container, ContainerStatus, Pod};

/// Pods with a pending resize, by node.
pub const PENDING_RESIZES_BY_NODE: Index = Index {
    name: "pods with a pending resize by node",
    resource: Pod::RESOURCE,
    values: |object, found| {
        if let Some(pod) = object.view::<Pod>()
            && has_pending_resize(object, pod)
        {
            found(&pod.spec.node_name);
        }
    },
};

/// Decision on a pending resize.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResizeDecision {
    /// The resize is granted.
    Granted,
    /// The resize is infeasible or deferred.
    Rejected {
        /// `Infeasible` if the node can never satisfy it, `Deferred` if there is not enough room now.
        reason: &'static str,
        /// Human-readable message.
        message: String,
    },
}

/// `true` if the pod's requests differ from its allocated resources.
#[must_use]
pub fn has_pending_resize(object: &Object, pod: &Pod) -> bool {
    !pod.spec.node_name.is_empty()
        && pod.status.start_time.is_some()
        && !object.meta().is_deleted()
        && !pod.is_finished()
        && allocated_containers(pod).any(|(container, status)| {
            !are_quantities_equal(container.resources.requests.iter(), status.allocated_resources.iter())
        })
}

/// Returns the resizable containers that have an allocation or run, with their statuses. Empty if no
/// container has an allocation: the pod has no requests, or its node does not report allocations.
fn allocated_containers(pod: &Pod) -> impl Iterator<Item = (&Container, &ContainerStatus)> {
    let reported = || pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
    let has_allocation = reported().any(|status| !status.allocated_resources.is_empty());
    let sidecars = pod.spec.init_containers.iter().filter(|one| one.restart_policy == "Always");
    let all = pod.spec.containers.iter().chain(sidecars).filter(move |_| has_allocation);
    all.filter_map(move |container| {
        let status = reported().find(|status| status.name == container.name)?;
        let has_any = !status.allocated_resources.is_empty() || status.state.is_running();
        has_any.then_some((container, status))
    })
}

/// `true` if two lists of quantities, both sorted by name, are equal.
pub fn are_quantities_equal<'a>(
    mut one: impl Iterator<Item = (&'a str, &'a str)>,
    mut other: impl Iterator<Item = (&'a str, &'a str)>,
) -> bool {
    loop {
        match (one.next(), other.next()) {
            (None, None) => return true,
            (Some((name, text)), Some((other, amount))) if name == other => {
                let parsed = || Quantity::parse(text).ok().zip(Quantity::parse(amount).ok());
                if text != amount && parsed().is_none_or(|(a, b)| a != b) {
                    return false;
                }
            }
            _ => return false,
        }
    }
}

/// Returns the resources that the node has allocated to a pod.
#[must_use]
pub fn allocated_resources_of(object: &Object, pod: &Pod) -> ResourceAmounts {
    if !has_pending_resize(object, pod) {
        return ResourceAmounts::requested_by(pod);
    }
    let mut allocated = pod.clone();
    for (container, status) in allocated_containers(pod) {
        let spec = &mut *allocated.spec;
        let mut all = spec.containers.iter_mut().chain(&mut spec.init_containers);
        if let Some(own) = all.find(|one| one.name == container.name) {
            own.resources.requests = status.allocated_resources.clone();
        }
    }
    ResourceAmounts::requested_by(&allocated)
}

/// Returns the requests of a pod's spec, ignoring the result of earlier resizes.
#[must_use]
pub fn requested_resources_of(pod: &Pod) -> ResourceAmounts {
    let mut requested = pod.clone();
    requested.status.conditions.clear();
    ResourceAmounts::requested_by(&requested)
}

/// `true` if the allocation of a container changed, which may release resources.
#[must_use]
pub fn has_changed_allocation(before: &Pod, after: &Pod) -> bool {
    let all = before.status.container_statuses.iter().zip(&after.status.container_statuses);
    let mut changed = all.filter(|(before, after)| before.allocated_resources != after.allocated_resources);
    changed.any(|(before, _)| !before.allocated_resources.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(allocated: &str) -> Object {
        let requests = r#"{"requests":{"cpu":"2"}}"#;
        let text = format!(
            r#"{{"metadata":{{"name":"a","namespace":"b","uid":"u"}},
            "spec":{{"nodeName":"n","containers":[{{"name":"c","resources":{requests}}},{{"name":"d"}}]}},
            "status":{{"phase":"Running","startTime":"2026-01-01T00:00:00Z","containerStatuses":[
              {{"name":"c","state":{{"running":{{}}}},"allocatedResources":{allocated}}},
              {{"name":"d","state":{{"running":{{}}}}}}]}}}}"#
        );
        let key = setpoint_reconcile::planner::key_of("pods", "b", "a").unwrap();
        let (revision, time) = (setpoint_api::Revision(1), setpoint_api::Time::EPOCH);
        let bytes = setpoint_api::json::to_vec(&setpoint_api::json::parse(text.as_bytes()).unwrap());
        Object::read(key, revision, time, bytes).unwrap()
    }

    #[test]
    fn resize_is_pending_when_requests_differ_from_the_allocation() {
        let pending = |allocated: &str| {
            let object = object(allocated);
            let pod = object.view::<Pod>().unwrap();
            (has_pending_resize(&object, pod), allocated_resources_of(&object, pod).milli_cpu)
        };
        assert_eq!(pending(r#"{"cpu":"1"}"#), (true, 1000));
        assert_eq!(pending(r#"{"cpu":"2000m"}"#), (false, 2000));
        assert_eq!(pending("{}"), (false, 2000), "no allocation is reported");
    }

    #[test]
    fn quantities_compare_by_value() {
        let same = |one: &[(&'static str, &'static str)], other: &[(&'static str, &'static str)]| {
            are_quantities_equal(one.iter().copied(), other.iter().copied())
        };
        assert!(same(&[("cpu", "1000m"), ("memory", "1Gi")], &[("cpu", "1"), ("memory", "1024Mi")]));
        assert!(!same(&[("cpu", "1")], &[("cpu", "2")]));
        assert!(!same(&[("cpu", "1")], &[("memory", "1")]));
        assert!(!same(&[("cpu", "1")], &[]) && same(&[], &[]));
    }
}
