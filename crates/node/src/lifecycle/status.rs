//! Pod status after a sync.

use super::kill::PodTermination;
use super::{CONTAINER_STATUS_UNKNOWN, PodActions, SyncInput, conditions, phase, resize};
use crate::pod::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStatus, Ip, Pod,
    PodStatus, VolumeMount,
};
use crate::runtime::ContainerRuntime;

impl<'a, R: ContainerRuntime> PodActions<'a, R> {
    /// Returns the status of the pod after the sync, like the kubelet's `generateAPIPodStatus`.
    pub(super) fn generate_status(
        &self,
        termination: Option<&PodTermination>,
        is_terminated: bool,
    ) -> PodStatus {
        let SyncInput { pod, meta, .. } = self.input;
        let (spec, old) = (&pod.spec, &pod.status);
        let statuses = |of: &'a [Container], is_init: bool| -> Vec<ContainerStatus> {
            of.iter().map(|container| self.container_status(container, is_init)).collect()
        };
        // Host-network pods report the node's IPs before their volumes are mounted.
        let has_ips = self.mount_error.is_none() || spec.host_network;
        let pod_ips = if has_ips { self.input.pod_ips } else { &[] };
        let ips = |ips: &[String]| ips.iter().map(|ip| Ip { ip: ip.clone() }).collect::<Vec<Ip>>();
        let mut status = PodStatus {
            observed_generation: Some(meta.generation).filter(|generation| *generation > 0),
            host_ip: self.input.host_ips.first().cloned().unwrap_or_default(),
            host_ips: ips(self.input.host_ips),
            pod_ip: pod_ips.first().cloned().unwrap_or_default(),
            pod_ips: ips(pod_ips),
            start_time: Some(self.input.start_time),
            init_container_statuses: statuses(&spec.init_containers, true),
            container_statuses: statuses(&spec.containers, false),
            ephemeral_container_statuses: self.ephemeral_statuses(),
            ..PodStatus::default()
        };
        let has_succeeded =
            |one: &ContainerStatus| one.state.terminated.as_ref().is_some_and(|end| end.exit_code == 0);
        let init_containers = spec.init_containers.iter().filter(|one| !one.is_sidecar());
        if is_terminated
            && init_containers
                .map(|one| status.container_status(&one.name))
                .all(|one| one.is_some_and(has_succeeded))
        {
            status.container_statuses.iter_mut().for_each(mark_never_started);
        }
        // The kubelet sorts container statuses by name.
        status.container_statuses.sort_by(|a, b| a.name.cmp(&b.name));
        let phase = if old.is_terminal() {
            old.phase.clone()
        } else if is_terminated && termination.is_some_and(|termination| termination.reason.is_some()) {
            "Failed".to_owned()
        } else {
            phase::phase(spec, &status, is_terminated).to_owned()
        };
        // A pod with containers that may still run is not reported as finished.
        let is_premature =
            matches!(phase.as_str(), "Succeeded" | "Failed") && !old.is_terminal() && !is_terminated;
        status.phase = if is_premature { old.phase.clone() } else { phase };
        if status.phase == old.phase {
            (status.reason, status.message) = (old.reason.clone(), old.message.clone());
        }
        if let Some((reason, message)) =
            termination.and_then(|termination| termination.reason).filter(|_| is_terminated)
        {
            (status.reason, status.message) = (reason.to_owned(), message.to_owned());
        }
        let has_sandbox = !is_terminated && self.mount_error.is_none();
        status.conditions = conditions::conditions(self.input, &status, has_sandbox, &self.replaced);
        status
    }

    fn ephemeral_statuses(&self) -> Vec<ContainerStatus> {
        let Pod { spec, status: old, .. } = self.input.pod;
        let containers = spec.ephemeral_containers.iter();
        // Ephemeral containers never restart.
        let terminated_state = |container: &Container| {
            let mut reported = old.ephemeral_container_statuses.iter();
            let reported = reported.find(|reported| reported.name == container.name)?;
            reported.state.terminated.is_some().then(|| reported.state.clone())
        };
        let status = |container: &Container| ContainerStatus {
            name: container.name.clone(),
            image: container.image.clone(),
            state: terminated_state(container)
                .unwrap_or_else(|| self.runtime.ephemeral_container_state(container)),
            ..ContainerStatus::default()
        };
        containers.map(status).collect()
    }

    /// Returns the status of a container; `is_init` selects the rules of init containers.
    fn container_status(&self, container: &'a Container, is_init: bool) -> ContainerStatus {
        let run = self.latest_run(container);
        let (state, last) = match (run, self.waiting.get(container.name.as_str())) {
            (run, Some(waiting)) => (waiting.clone(), run.and_then(|run| run.termination.clone())),
            (Some(run), None) => {
                let running = || ContainerState {
                    running: Some(ContainerStateRunning { started_at: Some(run.started_at) }),
                    ..ContainerState::default()
                };
                (
                    run.termination.clone().map_or_else(running, ContainerState::terminated),
                    run.last_termination.clone(),
                )
            }
            (None, None) => {
                let has_init = !self.input.pod.spec.init_containers.is_empty();
                let reason = if has_init { "PodInitializing" } else { "ContainerCreating" };
                (ContainerState::waiting(reason, ""), None)
            }
        };
        let results =
            run.filter(|run| run.is_running()).map(|run| self.runtime.probe_results(container, run));
        let succeeded = state.terminated.as_ref().is_some_and(|end| end.exit_code == 0);
        let is_ready = if is_init && !container.is_sidecar() {
            succeeded
        } else {
            results.as_ref().is_some_and(|results| results.started && results.ready)
        };
        let image = run.map(|run| &run.image).filter(|image| !image.is_empty()).unwrap_or(&container.image);
        let mut status = ContainerStatus {
            name: container.name.clone(),
            ready: is_ready,
            started: Some(results.is_some_and(|results| results.started)),
            state,
            last_state: last.map(ContainerState::terminated).unwrap_or_default(),
            restart_count: run.map_or(0, |run| run.restart_count),
            image: image.clone(),
            image_id: run.map(|_| self.runtime.image_id(image)).unwrap_or_default(),
            container_id: run.map(|run| run.container_id.clone()).unwrap_or_default(),
            volume_mounts: container.volume_mounts.iter().map(mount_status).collect(),
            ..ContainerStatus::default()
        };
        if let Some(run) = run {
            resize::set_resources(self.input, container, run, &mut status);
        }
        status
    }
}

/// Marks a container that never ran and never will as terminated.
fn mark_never_started(status: &mut ContainerStatus) {
    if status.state.waiting.is_some() && status.last_state.terminated.is_none() {
        status.state = ContainerState::terminated(ContainerStateTerminated {
            exit_code: 137,
            reason: CONTAINER_STATUS_UNKNOWN.to_owned(),
            message: "The container could not be located when the pod was terminated".to_owned(),
            ..ContainerStateTerminated::default()
        });
    }
}

fn mount_status(mount: &VolumeMount) -> VolumeMount {
    let mode = mount.read_only.then(|| "Disabled".to_owned());
    VolumeMount { recursive_read_only: mode, ..mount.clone() }
}
