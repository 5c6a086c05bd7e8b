//! Kubelet admission of pods that are bound to a node.
//!
//! A binding may rest on older information than the node has, so the node checks again. The checks are those
//! of the scheduler, so that both agree. A rejected pod has phase Failed and stays so.

use std::borrow::Cow;

use setpoint_api::Time;
use setpoint_reconcile::plan::{Subject, value_of};
use setpoint_reconcile::{Act, Object, Write};
use setpoint_requirements::host_ports::{HostPort, HostPorts, host_ports};
use setpoint_requirements::node_affinity::RequiredNodeAffinity;
use setpoint_requirements::request::ResourceAmounts;
use setpoint_views::pod::{Pod as PodView, TolerationsByKey};

use crate::fleet::Seat;
use crate::lifecycle::whole;
use crate::pod::{Pod, Status};
use crate::resizing::{Verdict, held_by, is_asking, wanted_by};

/// Maximum number of containers in a pod.
const CONTAINERS_MAX: usize = 512;

/// Rejection of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Reason.
    pub reason: Cow<'static, str>,
    /// Human-readable message.
    pub message: String,
}

/// Admission state of a node: free resources and admitted pods.
pub struct Room<'a> {
    seat: &'a Seat<'a>,
    offer: ResourceAmounts,
    pods_max: i64,
    admitted: Vec<(&'a Object, &'a PodView)>,
    /// Sum of the admitted pods' resources; computed on first use.
    taken: Option<ResourceAmounts>,
    /// Host ports of the admitted pods; computed when a pod first needs one.
    ports: Option<HostPorts>,
}

impl<'a> Room<'a> {
    /// Returns the state of a node with the admitted ones among `pods`.
    #[must_use]
    pub fn of(seat: &'a Seat<'a>, pods: &[(&'a Object, &'a PodView)]) -> Room<'a> {
        let (offer, pods_max) = ResourceAmounts::parse(seat.node.status.allocatable.iter());
        let is_admitted =
            |(_, pod): &&(&Object, &PodView)| pod.status.start_time.is_some() && !pod.is_finished();
        let admitted = pods.iter().filter(is_admitted).copied().collect();
        Room { seat, offer, pods_max, admitted, taken: None, ports: None }
    }

    /// Admits or rejects a pod.
    ///
    /// # Errors
    /// If the node lacks resources or ports for the pod, or does not match its node selector, affinity or
    /// tolerations.
    pub fn admit(&mut self, object: &'a Object, pod: &'a PodView) -> Result<(), Refusal> {
        check_containers(pod)?;
        let asked = ResourceAmounts::requested_by(pod);
        self.check_amounts(&asked)?;
        self.check_node(pod)?;
        self.check_ports(&host_ports(pod))?;
        if let Some(taken) = &mut self.taken {
            taken.add(&asked, 1);
        }
        self.admitted.push((object, pod));
        Ok(())
    }

    /// Grants the resize of an admitted pod if the node has room for it.
    pub fn resize(&mut self, object: &Object, pod: &PodView) -> Verdict {
        let (asked, held) = (wanted_by(pod), held_by(object, pod));
        let (cpu, memory) = (self.offer.milli_cpu, self.offer.memory);
        let taken = self.taken();
        let own = [
            ("cpu", asked.milli_cpu, held.milli_cpu, taken.milli_cpu, cpu),
            ("memory", asked.memory, held.memory, taken.memory, memory),
        ];
        // Shrinking a request always succeeds.
        let grows = || own.into_iter().filter(|(_, asked, held, _, _)| asked > held);
        if let Some((name, asked, _, _, offer)) = grows().find(|(_, asked, _, _, offer)| asked > offer) {
            let message =
                format!("Node didn't have enough capacity: {name}, requested: {asked}, capacity: {offer}");
            return Verdict::Refused { reason: "Infeasible", message };
        }
        let is_short = |one: &(&str, i64, i64, i64, i64)| one.1 - one.2 > one.4 - one.3;
        if let Some((name, asked, held, taken, offer)) = grows().find(is_short) {
            let message = out_of(name, asked, taken - held, offer).message;
            return Verdict::Refused { reason: "Deferred", message };
        }
        taken.add(&held, -1);
        taken.add(&asked, 1);
        Verdict::Granted
    }

    /// Returns the sum of the admitted pods' resources.
    fn taken(&mut self) -> &mut ResourceAmounts {
        let admitted = &self.admitted;
        self.taken.get_or_insert_with(|| {
            // Few pods have a pending resize; all others are summed up in one pass.
            let settled = admitted.iter().filter(|(object, pod)| !is_asking(object, pod));
            let mut taken = ResourceAmounts::requested_by_all(settled.map(|(_, pod)| *pod));
            let asking = admitted.iter().filter(|(object, pod)| is_asking(object, pod));
            asking.for_each(|(object, pod)| taken.add(&held_by(object, pod), 1));
            taken
        })
    }

    fn check_amounts(&mut self, asked: &ResourceAmounts) -> Result<(), Refusal> {
        let count = i64::try_from(self.admitted.len()).unwrap_or(i64::MAX);
        if count >= self.pods_max {
            return Err(out_of("pods", 1, count, self.pods_max));
        }
        if asked.is_zero() {
            return Ok(());
        }
        self.taken();
        let (Some(taken), offer) = (&self.taken, &self.offer) else { return Ok(()) };
        let own = [
            ("cpu", asked.milli_cpu, taken.milli_cpu, offer.milli_cpu),
            ("memory", asked.memory, taken.memory, offer.memory),
            ("ephemeral-storage", asked.ephemeral_storage, taken.ephemeral_storage, offer.ephemeral_storage),
        ];
        // The node does not report this resource; another component may provide it.
        let known =
            asked.scalars.iter().filter(|(name, _)| !name.contains('/') || offer.scalars.contains_key(*name));
        let others = known.map(|(name, amount)| (&**name, *amount, taken.scalar(name), offer.scalar(name)));
        for (name, asked, taken, offer) in own.into_iter().chain(others) {
            if asked > 0 && asked > offer - taken {
                return Err(out_of(name, asked, taken, offer));
            }
        }
        Ok(())
    }

    /// Checks node selector, node affinity and NoExecute taints.
    fn check_node(&self, pod: &PodView) -> Result<(), Refusal> {
        let Seat { object: node, node: view, .. } = self.seat;
        let is_choosy = !pod.spec.node_selector.is_empty() || pod.spec.affinity.is_some();
        let labels = &node.meta().labels;
        if is_choosy
            && !RequiredNodeAffinity::new(&pod.spec.node_selector, pod.spec.affinity.as_ref())
                .matches(node.key().name(), labels)
        {
            return Err(predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector"));
        }
        let mut driving = view.spec.taints.iter().filter(|taint| taint.effect == "NoExecute").peekable();
        if driving.peek().is_none() {
            return Ok(());
        }
        let tolerations = TolerationsByKey::new(&pod.spec.tolerations);
        if driving.any(|taint| tolerations.first(taint).is_none()) {
            return Err(predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate"));
        }
        Ok(())
    }

    fn check_ports(&mut self, wanted: &[HostPort]) -> Result<(), Refusal> {
        if wanted.is_empty() {
            return Ok(());
        }
        let wanted: HostPorts = wanted.iter().cloned().collect();
        let admitted = &self.admitted;
        let ports =
            self.ports.get_or_insert_with(|| admitted.iter().flat_map(|(_, pod)| host_ports(pod)).collect());
        if wanted.has_conflict(ports) {
            let why = "node(s) didn't have free ports for the requested pod ports";
            return Err(predicate("NodePorts", why));
        }
        // Ports are the last check, so the pod is admitted.
        ports.add(&wanted);
        Ok(())
    }
}

/// Limits the number of containers: syncing a pod is quadratic in it.
fn check_containers(pod: &PodView) -> Result<(), Refusal> {
    let count = pod.spec.containers.len() + pod.spec.init_containers.len();
    if count <= CONTAINERS_MAX {
        return Ok(());
    }
    let message =
        format!("pod has {count} containers, a simulated node runs at most {CONTAINERS_MAX} of a pod");
    Err(Refusal { reason: "UnexpectedAdmissionError".into(), message })
}

fn out_of(resource: &str, requested: i64, used: i64, capacity: i64) -> Refusal {
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
    Refusal { reason, message }
}

fn predicate(name: &'static str, why: &str) -> Refusal {
    Refusal { reason: name.into(), message: format!("Predicate {name} failed: {why}") }
}

/// Returns the status write of a rejected pod.
#[must_use]
pub fn refuse(object: &Object, refusal: &Refusal, now: Time) -> Option<Act> {
    let known = Pod::read(object)?.status;
    let status = Status {
        observed_generation: Some(object.meta().generation).filter(|generation| *generation > 0),
        phase: "Failed".to_owned(),
        reason: refusal.reason.to_string(),
        message: format!("Pod was rejected: {}", refusal.message),
        conditions: known.conditions,
        start_time: Some(whole(now)),
        ..Status::default()
    };
    // Event reasons must be constants; the message names the resource.
    let reason = match &refusal.reason {
        Cow::Borrowed(reason) => reason,
        Cow::Owned(_) => "UnexpectedAdmissionError",
    };
    let note = Subject::of(object, "v1", "Pod").warning(reason, refusal.message.clone());
    Some(Act::from(Write::status(object, value_of(&status))).on_done(note))
}
