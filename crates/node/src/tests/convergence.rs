//! Property test: from any status, the life cycle reaches a fixed point and loses no restart.

use proptest::prelude::*;
use setpoint_api::{Key, Resource, Revision, Time};
use setpoint_reconcile::Object;

use super::*;
use crate::lifecycle::{SyncInput, compute_pod_actions, truncate_to_seconds};
use crate::pod::{Pod, PodStatus};
use crate::simulated::{NodeState, SimulatedRuntime};

fn object(pod: &Value) -> Object {
    let key = Key::from_path(&Resource::new("pods").unwrap(), "default/p").unwrap();
    let bytes = setpoint_api::json::to_vec(pod);
    Object::read(key, Revision(1), Time::EPOCH, bytes).unwrap()
}

fn end() -> impl Strategy<Value = Value> {
    let times = (0_i64..2000, 0_i64..700, prop_oneof![Just(0_i64), Just(1), Just(137)]);
    times.prop_map(|(start, ran, code)| {
        let time = |at: i64| setpoint_api::rfc3339::Seconds(Time::from_seconds(at)).to_string();
        value!({"exitCode": (code), "reason": "Error", "startedAt": (time(start)), "finishedAt": (time(start + ran))})
    })
}

fn state() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(value!({})),
        Just(value!({"waiting": {"reason": "ContainerCreating"}})),
        Just(
            value!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container=c pod=p"}})
        ),
        (0_i64..2500).prop_map(|at| {
            let time = setpoint_api::rfc3339::Seconds(Time::from_seconds(at)).to_string();
            value!({"running": {"startedAt": (time)}})
        }),
        end().prop_map(|end| value!({"terminated": (end)})),
    ]
}

fn status(name: &'static str) -> impl Strategy<Value = Value> {
    (state(), prop::option::of(end()), 0_i64..9).prop_map(move |(state, last, restarts)| {
        let mut status = value!({"name": (name), "state": (state), "restartCount": (restarts)});
        if let Some(last) = last {
            status.make_map().insert("lastState", value!({"terminated": (last)}));
        }
        status
    })
}

fn command() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(value!(["nginx"])),
        Just(value!(["sleep", "5"])),
        Just(value!(["true"])),
        Just(value!(["sh", "-c", "sleep 2; exit 1"])),
    ]
}

fn container(name: &'static str) -> impl Strategy<Value = Value> {
    let policy = prop::option::of(prop_oneof![Just("Always"), Just("OnFailure"), Just("Never")]);
    let image = prop_oneof![4 => Just("nginx"), 1 => Just("registry.invalid/x")];
    (command(), policy, image).prop_map(move |(command, policy, image)| {
        let mut container = value!({"name": (name), "image": (image), "command": (command)});
        if let Some(policy) = policy {
            container.make_map().insert("restartPolicy", policy);
        }
        container
    })
}

fn any_pod() -> impl Strategy<Value = Value> {
    let spec = (
        prop::collection::vec(container("i"), 0..2),
        container("c"),
        prop_oneof![Just("Always"), Just("OnFailure"), Just("Never")],
        prop::option::of(100_i64..5000),
    );
    let statuses = (prop::option::of(status("i")), prop::option::of(status("c")));
    let phase = prop_oneof![Just("Pending"), Just("Running"), Just("Failed"), Just("Succeeded")];
    let deleted = prop::option::of(1000_i64..3000);
    (spec, statuses, phase, deleted).prop_map(|((first, main, policy, deadline), (i, c), phase, deleted)| {
        let mut spec = value!({"restartPolicy": (policy), "initContainers": (Value::List(first)), "containers": [(main)]});
        if let Some(deadline) = deadline {
            spec.make_map().insert("activeDeadlineSeconds", deadline);
        }
        let list = |status: Option<Value>| Value::List(status.into_iter().collect());
        let mut metadata = value!({"name": "p", "namespace": "default", "uid": "u", "generation": 1});
        if let Some(at) = deleted {
            let time = setpoint_api::rfc3339::Seconds(Time::from_seconds(at)).to_string();
            metadata.make_map().insert("deletionTimestamp", time);
            metadata.make_map().insert("deletionGracePeriodSeconds", 30_i64);
        }
        value!({"metadata": (metadata), "spec": (spec), "status": {
            "phase": (phase), "startTime": "1970-01-01T00:00:10Z",
            "initContainerStatuses": (list(i)), "containerStatuses": (list(c)),
        }})
    })
}

/// Syncs a pod once, and applies all results at that time.
fn sync_once(object: &Object, pod: &Pod, now: Time) -> (PodStatus, Option<Time>, bool) {
    let none = |_: &str| false;
    let (boot_time, last_write) = (Time::EPOCH, Time::EPOCH);
    let state = NodeState {
        rules: &[],
        cache: &crate::behavior::script_cache::ScriptCache::default(),
        boot_time,
        last_write,
        default_delay: Duration::ZERO,
        has_image: &none,
    };
    let mut runtime = SimulatedRuntime::new(state, pod, object.meta(), now);
    let ips = ["10.0.0.2".to_owned()];
    let input = SyncInput {
        pod,
        meta: object.meta(),
        host_ips: &ips,
        pod_ips: &ips,
        start_time: pod.status.start_time.unwrap_or(truncate_to_seconds(now)),
        earliest_start: Time::EPOCH,
        last_write: Time::EPOCH,
        resize: crate::lifecycle::resize::ResizeState::default(),
        mount_error: &|| None,
        env_error: &|_| None,
        now,
    };
    for _ in 0..20 {
        let result = compute_pod_actions(&input, &runtime);
        let mut started = std::collections::BTreeSet::new();
        for action in &result.actions {
            if let crate::runtime::RuntimeAction::StartContainer { container, .. } = action {
                assert!(started.insert(container.clone()), "{container} is started twice");
                let running = pod.spec.all_containers().find(|one| one.name == *container);
                let running =
                    running.and_then(|one| crate::runtime::ContainerRuntime::latest_run(&runtime, one));
                assert!(running.is_none_or(|run| !run.is_running()), "{container} runs already");
            }
        }
        let changed: Vec<bool> = result.actions.iter().map(|action| runtime.perform(action)).collect();
        if !changed.contains(&true) {
            let requeue_at = result.requeue_at.into_iter().chain(runtime.next_termination()).min();
            return (result.status, requeue_at, result.is_terminated);
        }
    }
    panic!("sync does not converge: {pod:?}");
}

proptest! {
    #[test]
    fn any_status_converges_and_loses_no_restart(value in any_pod()) {
        let object = object(&value);
        let mut pod = Pod::decode(&object).unwrap();
        let mut now = Time::from_seconds(2600);
        for _ in 0..60 {
            let (status, requeue_at, is_terminated) = sync_once(&object, &pod, now);
            for new in status.init_container_statuses.iter().chain(&status.container_statuses) {
                let old = pod.status.container_status(&new.name).map_or(0, |old| old.restart_count);
                let ran = pod.status.container_status(&new.name).is_some_and(|old| {
                    old.state.running.is_some() || old.state.terminated.is_some() || old.last_state.terminated.is_some()
                });
                prop_assert!(!ran || new.restart_count >= old, "{} lost restarts", new.name);
                let states = [new.state.waiting.is_some(), new.state.running.is_some(), new.state.terminated.is_some()];
                prop_assert_eq!(states.iter().filter(|is| **is).count(), 1);
            }
            prop_assert!(!pod.status.is_terminal() || status.phase == pod.status.phase, "a terminal phase changed");
            let is_terminal = status.is_terminal();
            pod.status = status.clone();
            // After a round trip through JSON, nothing more is to be done at this time.
            let mut written = setpoint_reconcile::plan::value_of(&pod.status);
            written.make_map().retain(|_, value| !value.is_null());
            pod.status = serde_json::from_slice(&setpoint_api::json::to_vec(&written)).unwrap();
            let (same, _, _) = sync_once(&object, &pod, now);
            prop_assert_eq!(&same, &pod.status, "the second sync changed the status");
            prop_assert!(requeue_at.is_none_or(|requeue_at| requeue_at > now), "requeue time is in the past");
            if is_terminated {
                prop_assert!(is_terminal, "terminated, but the phase is not terminal: {:?}", pod.status);
            }
            match requeue_at {
                Some(requeue_at) => now = requeue_at,
                None => return Ok(()),
            }
        }
    }
}
