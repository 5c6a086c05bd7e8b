//! PreBind: volumes are bound and devices allocated before the pod is, and errors of this and of filters.

use setpoint_reconcile::Object;
use setpoint_reconcile::plan::InvolvedObject;
use setpoint_views::pod::Pod;

use super::scheduling_cycle::{SchedulingCycle, with_reporter};
use super::status::FailureStatus;
use crate::cache::PodId;
use crate::cache::unconfirmed::{ExpectedWrite, UnconfirmedWrite};
use crate::filter_score_cache::FilterScoreCache;
use crate::plugins::{QueueingHint, dynamic_resources, volumes};
use crate::queue_state::VOLUME_BIND_TIMEOUT;

/// Events that concern a pod in PreBind.
const HINT: QueueingHint = QueueingHint::STORAGE.or(QueueingHint::DEVICE);

impl SchedulingCycle<'_> {
    /// Binds the volumes and allocates the devices of an assumed pod. After a timeout the pod is attempted from the start.
    pub(super) fn prebind(&mut self, id: PodId, object: &Object, node: usize, results: &FilterScoreCache) {
        let last = self.cache.pod(id).and_then(|info| info.queue_state);
        let since = last.and_then(|state| state.prebind_since).unwrap_or(self.now);
        let Some(pod) = object.view::<Pod>() else { return };
        if self.now >= since.after(VOLUME_BIND_TIMEOUT) {
            let message = if results.volumes.are_bound() {
                "running PreBind plugin \"DynamicResources\": device binding timeout"
            } else {
                "running PreBind plugin \"VolumeBinding\": binding volumes: context deadline exceeded"
            };
            self.release_reservation(id);
            return self.fail_with_error(id, object, pod, message, Some(""));
        }
        self.write_claims(id, object, node, results);
        let name = self.cache.nodes[node].name.clone();
        if *name != *pod.status.nominated_node_name {
            self.write_nomination(id, object.clone(), &name);
        }
        self.set_queue_state(id, HINT, Some(node));
        if let Some(state) = self.queue_state_mut(id) {
            state.prebind_since = Some(since);
        }
    }

    fn write_claims(&mut self, id: PodId, object: &Object, node: usize, results: &FilterScoreCache) {
        let bindings = volumes::prebind_writes(&results.volumes, &self.cache.nodes[node]);
        let seed = self.seed_of(object);
        let devices = dynamic_resources::prebind_writes(
            &results.claim_allocations,
            object,
            node,
            &mut self.cache,
            seed,
        );
        let mut expect = |is_empty: bool, expected| {
            if !is_empty {
                self.cache.unconfirmed.push(UnconfirmedWrite { id, object: object.clone(), expected });
            }
        };
        expect(bindings.is_empty(), ExpectedWrite::Claims);
        expect(devices.statuses.is_empty(), ExpectedWrite::DeviceClaims);
        self.claim_finalizers.extend(devices.finalizers);
        self.claim_writes.extend(bindings);
        self.claim_writes.extend(devices.statuses);
        if devices.has_binding_conditions {
            let name = &self.cache.nodes[node].name;
            let message = format!("waiting for binding conditions for device on node {name}");
            let event = InvolvedObject::new(object, "v1", "Pod").normal("BindingConditionsPending", message);
            self.plan.events.push(with_reporter(event.with_action("Scheduling"), object));
        }
    }

    /// Reports an attempt that ended with an error. The pod backs off.
    pub(super) fn fail_with_error(
        &mut self,
        id: PodId,
        object: &Object,
        pod: &Pod,
        message: &str,
        nominated_node: Option<&str>,
    ) {
        let status = FailureStatus { reason: "SchedulerError", message, nominated_node };
        self.write_failure_status(id, object, pod, &status, true);
        let event = InvolvedObject::new(object, "v1", "Pod").warning("FailedScheduling", message);
        self.plan.events.push(with_reporter(event.with_action("Scheduling"), object));
        self.set_queue_state(id, HINT, None);
        if let Some(state) = self.queue_state_mut(id) {
            (state.is_requeued, state.must_back_off) = (true, true);
        }
    }
}
