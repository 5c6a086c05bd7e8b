//! Termination of pods and containers: order, grace periods, and the Events that announce it.

use std::time::Duration;

use setpoint_api::Time;

use super::{DEADLINE_EXCEEDED, EVENT_WINDOW, PodActions, SyncInput, image_change, seconds_to_duration};
use crate::pod::Container;
use crate::runtime::{ContainerRun, ContainerRuntime, RuntimeAction};

/// Termination of the whole pod: start, grace period, and the reason if it was not deleted.
pub(super) struct PodTermination {
    pub(super) since: Time,
    pub(super) grace_period: Duration,
    pub(super) reason: Option<(&'static str, &'static str)>,
}

impl<'a, R: ContainerRuntime> PodActions<'a, R> {
    /// Returns the termination of the pod if it is deleted, terminal, or past its active deadline.
    /// Returns the termination of the pod if it is deleted, terminal, or past its active deadline.
    pub(super) fn pod_termination(&mut self) -> Option<PodTermination> {
        let SyncInput { pod, meta, now, .. } = self.input;
        if let Some(deleted) = meta.deletion_timestamp {
            let grace_period = seconds_to_duration(meta.deletion_grace_period_seconds.unwrap_or(0));
            return Some(PodTermination { since: deleted.before(grace_period), grace_period, reason: None });
        }
        if pod.status.is_terminal() {
            return Some(PodTermination { since: *now, grace_period: Duration::ZERO, reason: None });
        }
        let deadline = self.input.start_time.after(seconds_to_duration(pod.spec.active_deadline_seconds?));
        if deadline > *now {
            self.requeue_at(deadline);
            return None;
        }
        Some(PodTermination {
            since: deadline,
            grace_period: self.grace_period(),
            reason: Some(DEADLINE_EXCEEDED),
        })
    }

    /// `true` if one of the containers has just terminated and its status does not show it.
    fn has_just_terminated(&self, mut containers: impl Iterator<Item = &'a Container>) -> bool {
        containers.any(|one| {
            let is_reported = |name: &str| {
                self.input.pod.status.container_status(name).is_some_and(|old| old.state.terminated.is_some())
            };
            let end = self.latest_run(one).and_then(|run| run.termination.as_ref()?.finished_at);
            end.is_some_and(|end| self.input.now.since(end) < EVENT_WINDOW) && !is_reported(&one.name)
        })
    }

    /// Kills all running containers. Their preStop hooks start at once. A sidecar gets its SIGTERM only after
    /// all other containers and all later sidecars have terminated.
    pub(super) fn kill_pod(&mut self, since: Time, grace_period: Duration, is_first_request: bool) {
        let spec = &self.input.pod.spec;
        let action = |container: &Container, sigterm_at: Option<Time>| {
            let message = format!("Stopping container {}", container.name);
            RuntimeAction::KillContainer {
                container: container.name.clone(),
                since,
                grace_period,
                sigterm_at,
                message,
                is_first_request,
            }
        };
        let before_sidecars =
            spec.containers.iter().chain(spec.init_containers.iter().filter(|one| !one.is_sidecar()));
        let before_sidecars = before_sidecars.filter(|one| self.is_running(one));
        let mut actions: Vec<RuntimeAction> = before_sidecars.map(|one| action(one, Some(since))).collect();
        let last_end = spec
            .all_containers()
            .filter_map(|one| self.latest_run(one)?.termination.as_ref()?.finished_at)
            .max();
        let mut sigterm_at =
            Some(last_end.map_or(since, |end| end.max(since))).filter(|_| actions.is_empty());
        let sidecars =
            spec.init_containers.iter().rev().filter(|one| one.is_sidecar() && self.is_running(one));
        actions.extend(sidecars.map(|one| action(one, sigterm_at.take())));
        self.actions.append(&mut actions);
    }

    pub(super) fn kill_container(
        &mut self,
        container: &Container,
        since: Time,
        grace_period: Duration,
        message: String,
        is_first_request: bool,
    ) {
        let sigterm_at = Some(since);
        self.actions.push(RuntimeAction::KillContainer {
            container: container.name.clone(),
            since,
            grace_period,
            sigterm_at,
            message,
            is_first_request,
        });
    }

    /// Kills the sidecars, counting from the last termination among `terminated`: sidecars do not keep a pod
    /// running.
    pub(super) fn kill_sidecars(&mut self, terminated: &'a [Container]) {
        let terminated = || terminated.iter().filter(|one| !one.is_sidecar());
        let since =
            terminated().filter_map(|one| self.latest_run(one)?.termination.as_ref()?.finished_at).max();
        let is_first_request = self.has_just_terminated(terminated());
        self.kill_pod(since.unwrap_or(self.input.now), self.grace_period(), is_first_request);
    }

    /// Kills a container whose image changed, once no other container is being killed for that reason.
    pub(super) fn kill_changed_container(&mut self, container: &'a Container) {
        let kill_started_at = image_change::kill_started_at(self.input, container);
        let mut earlier = self
            .input
            .pod
            .spec
            .all_containers()
            .filter(|one| image_change::kill_started_at(self.input, one).is_some());
        let is_being_killed =
            |run: &ContainerRun, one: &Container| run.is_running() && self.has_changed_image(one, run);
        if kill_started_at.is_none()
            && earlier.any(|one| self.latest_run(one).is_some_and(|run| is_being_killed(run, one)))
        {
            return;
        }
        self.replaced.push(container);
        let message = format!("Container {} definition changed, will be restarted", container.name);
        self.kill_container(
            container,
            kill_started_at.unwrap_or(self.input.now),
            self.grace_period(),
            message,
            kill_started_at.is_none(),
        );
    }
}
