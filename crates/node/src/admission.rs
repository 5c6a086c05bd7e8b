//! Kubelet admission of pods that are bound to a node.
//!
//! A binding may rest on older information than the node has, so the node checks again. The checks are those
//! of the scheduler, so that both agree. A rejected pod has phase Failed and stays so.

use std::borrow::Cow;

use setpoint_api::Time;
use setpoint_reconcile::plan::{InvolvedObject, value_of};
use setpoint_reconcile::{Action, Object, Write};
use setpoint_requirements::host_ports::{HostPort, HostPorts, host_ports};
use setpoint_requirements::node_affinity::RequiredNodeAffinity;
use setpoint_requirements::request::ResourceAmounts;
use setpoint_views::pod::{Pod as PodView, TolerationsByKey};

use crate::allocation::{ResizeDecision, allocated_resources_of, has_pending_resize, requested_resources_of};
use crate::fleet::NodeRef;
use crate::lifecycle::truncate_to_seconds;
use crate::pod::{Pod, PodStatus};

/// Maximum number of containers in a pod.
const CONTAINERS_MAX: usize = 512;

/// Rejection of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRejection {
    /// Reason.
    pub reason: Cow<'static, str>,
    /// Human-readable message.
    pub message: String,
}

/// Admission state of a node: free resources and admitted pods.
pub struct AdmissionState<'a> {
    node: &'a NodeRef<'a>,
    allocatable: ResourceAmounts,
    pods_max: i64,
    admitted: Vec<(&'a Object, &'a PodView)>,
    /// Sum of the admitted pods' resources; computed on first use.
    used: Option<ResourceAmounts>,
    /// Host ports of the admitted pods; computed when a pod first needs one.
    ports: Option<HostPorts>,
}

impl<'a> AdmissionState<'a> {
    /// Returns the state of a node with the admitted ones among `pods`.
    #[must_use]
    pub fn new(node: &'a NodeRef<'a>, pods: &[(&'a Object, &'a PodView)]) -> AdmissionState<'a> {
        let (allocatable, pods_max) = ResourceAmounts::parse(node.view.status.allocatable.iter());
        let is_admitted =
            |(_, pod): &&(&Object, &PodView)| pod.status.start_time.is_some() && !pod.is_finished();
        let admitted = pods.iter().filter(is_admitted).copied().collect();
        AdmissionState { node, allocatable, pods_max, admitted, used: None, ports: None }
    }

    /// Admits or rejects a pod.
    ///
    /// # Errors
    /// If the node lacks resources or ports for the pod, or does not match its node selector, affinity or
    /// tolerations.
    pub fn admit(&mut self, object: &'a Object, pod: &'a PodView) -> Result<(), PodRejection> {
        check_containers(pod)?;
        let requested = ResourceAmounts::requested_by(pod);
        self.check_resources(&requested)?;
        self.check_node(pod)?;
        self.check_ports(&host_ports(pod))?;
        if let Some(used) = &mut self.used {
            used.add(&requested, 1);
        }
        self.admitted.push((object, pod));
        Ok(())
    }

    /// Grants the resize of an admitted pod if the node has room for it.
    pub fn resize(&mut self, object: &Object, pod: &PodView) -> ResizeDecision {
        let (requested, allocated) = (requested_resources_of(pod), allocated_resources_of(object, pod));
        let (cpu, memory) = (self.allocatable.milli_cpu, self.allocatable.memory);
        let used = self.used();
        let own = [
            ("cpu", requested.milli_cpu, allocated.milli_cpu, used.milli_cpu, cpu),
            ("memory", requested.memory, allocated.memory, used.memory, memory),
        ];
        // Shrinking a request always succeeds.
        let growing = || own.into_iter().filter(|(_, requested, allocated, _, _)| requested > allocated);
        if let Some((name, requested, _, _, allocatable)) =
            growing().find(|(_, requested, _, _, allocatable)| requested > allocatable)
        {
            let message = format!(
                "Node didn't have enough capacity: {name}, requested: {requested}, capacity: {allocatable}"
            );
            return ResizeDecision::Rejected { reason: "Infeasible", message };
        }
        let exceeds_free = |one: &(&str, i64, i64, i64, i64)| one.1 - one.2 > one.4 - one.3;
        if let Some((name, requested, allocated, used, allocatable)) = growing().find(exceeds_free) {
            let message = out_of(name, requested, used - allocated, allocatable).message;
            return ResizeDecision::Rejected { reason: "Deferred", message };
        }
        used.add(&allocated, -1);
        used.add(&requested, 1);
        ResizeDecision::Granted
    }

    /// Returns the sum of the admitted pods' resources.
    fn used(&mut self) -> &mut ResourceAmounts {
        let admitted = &self.admitted;
        self.used.get_or_insert_with(|| {
            // Few pods have a pending resize; all others are summed up in one pass.
            let unchanged = admitted.iter().filter(|(object, pod)| !has_pending_resize(object, pod));
            let mut used = ResourceAmounts::requested_by_all(unchanged.map(|(_, pod)| *pod));
            let resizing = admitted.iter().filter(|(object, pod)| has_pending_resize(object, pod));
            resizing.for_each(|(object, pod)| used.add(&allocated_resources_of(object, pod), 1));
            used
        })
    }

    fn check_resources(&mut self, requested: &ResourceAmounts) -> Result<(), PodRejection> {
        let count = i64::try_from(self.admitted.len()).unwrap_or(i64::MAX);
        if count >= self.pods_max {
            return Err(out_of("pods", 1, count, self.pods_max));
        }
        if requested.is_zero() {
            return Ok(());
        }
        self.used();
        let (Some(used), allocatable) = (&self.used, &self.allocatable) else { return Ok(()) };
        let own = [
            ("cpu", requested.milli_cpu, used.milli_cpu, allocatable.milli_cpu),
            ("memory", requested.memory, used.memory, allocatable.memory),
            (
                "ephemeral-storage",
                requested.ephemeral_storage,
                used.ephemeral_storage,
                allocatable.ephemeral_storage,
            ),
        ];
        // The node does not report this resource; another component may provide it.
        let reported = requested
            .scalars
            .iter()
            .filter(|(name, _)| !name.contains('/') || allocatable.scalars.contains_key(*name));
        let others =
            reported.map(|(name, amount)| (&**name, *amount, used.scalar(name), allocatable.scalar(name)));
        for (name, requested, used, allocatable) in own.into_iter().chain(others) {
            if requested > 0 && requested > allocatable - used {
                return Err(out_of(name, requested, used, allocatable));
            }
        }
        Ok(())
    }

    /// Checks node selector, node affinity and NoExecute taints.
    fn check_node(&self, pod: &PodView) -> Result<(), PodRejection> {
        let NodeRef { object: node, view, .. } = self.node;
        let has_node_selector = !pod.spec.node_selector.is_empty() || pod.spec.affinity.is_some();
        let labels = &node.meta().labels;
        if has_node_selector
            && !RequiredNodeAffinity::new(&pod.spec.node_selector, pod.spec.affinity.as_ref())
                .matches(node.key().name(), labels)
        {
            return Err(predicate_failed(
                "NodeAffinity",
                "node(s) didn't match Pod's node affinity/selector",
            ));
        }
        let mut no_execute = view.spec.taints.iter().filter(|taint| taint.effect == "NoExecute").peekable();
        if no_execute.peek().is_none() {
            return Ok(());
        }
        let tolerations = TolerationsByKey::new(&pod.spec.tolerations);
        if no_execute.any(|taint| tolerations.first(taint).is_none()) {
            return Err(predicate_failed(
                "TaintToleration",
                "node(s) had taints that the pod didn't tolerate",
            ));
        }
        Ok(())
    }

    fn check_ports(&mut self, wanted: &[HostPort]) -> Result<(), PodRejection> {
        if wanted.is_empty() {
            return Ok(());
        }
        let wanted: HostPorts = wanted.iter().cloned().collect();
        let admitted = &self.admitted;
        let ports =
            self.ports.get_or_insert_with(|| admitted.iter().flat_map(|(_, pod)| host_ports(pod)).collect());
        if wanted.has_conflict(ports) {
            let why = "node(s) didn't have free ports for the requested pod ports";
            return Err(predicate_failed("NodePorts", why));
        }
        // Ports are the last check, so the pod is admitted.
        ports.add(&wanted);
        Ok(())
    }
}

/// Limits the number of containers: syncing a pod is quadratic in it.
fn check_containers(pod: &PodView) -> Result<(), PodRejection> {
    let count = pod.spec.containers.len() + pod.spec.init_containers.len();
    if count <= CONTAINERS_MAX {
        return Ok(());
    }
    let message =
        format!("pod has {count} containers, a simulated node runs at most {CONTAINERS_MAX} of a pod");
    Err(PodRejection { reason: "UnexpectedAdmissionError".into(), message })
}

fn out_of(resource: &str, requested: i64, used: i64, capacity: i64) -> PodRejection {
    let reason = match resource {
        "cpu" => "OutOfcpu".into(),
        "memory" => "OutOfmemory".into(),
        "ephemeral-storage" => "OutOfephemeral-storage".into(),
        "pods" => "OutOfpods".into(),
        other => format!("OutOf{other}").into(),
    };
    let message = format!(
        "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
    );
    PodRejection { reason, message }
}

fn predicate_failed(name: &'static str, why: &str) -> PodRejection {
    PodRejection { reason: name.into(), message: format!("Predicate {name} failed: {why}") }
}

/// Returns the status write of a rejected pod.
#[must_use]
pub fn reject_pod(object: &Object, rejection: &PodRejection, now: Time) -> Option<Action> {
    let reported = Pod::decode(object)?.status;
    let status = PodStatus {
        observed_generation: Some(object.meta().generation).filter(|generation| *generation > 0),
        phase: "Failed".to_owned(),
        reason: rejection.reason.to_string(),
        message: format!("Pod was rejected: {}", rejection.message),
        conditions: reported.conditions,
        start_time: Some(truncate_to_seconds(now)),
        ..PodStatus::default()
    };
    // Event reasons must be constants; the message names the resource.
    let reason = match &rejection.reason {
        Cow::Borrowed(reason) => reason,
        Cow::Owned(_) => "UnexpectedAdmissionError",
    };
    let event = InvolvedObject::new(object, "v1", "Pod").warning(reason, rejection.message.clone());
    Some(Action::from(Write::status(object, value_of(&status))).on_done(event))
}
