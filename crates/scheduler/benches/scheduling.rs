//! Scheduling throughput on 5,000 nodes, in pods per second of one core: `cargo bench -p setpoint-scheduler`.
//!
//! The cases follow upstream's `scheduler_perf`. One thread observes the committed pods, plans, and commits bindings,
//! Events and all other writes of the plan, through the pipeline into a store on a memory log. Measured is the CPU time
//! of the thread; planning alone is reported separately.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::collections::VecDeque;
use std::time::Duration;

use fastrand::Rng;
use setpoint_api::resource_types;
use setpoint_api::{Key, Resource, Revision, Time, Value, json, value};
use setpoint_reconcile::{Engine, Object, Seed, Turn, Write, WriteOutcome, WriteRequest};
use setpoint_runtime::objects;
use setpoint_scheduler::Scheduler;
use setpoint_server::exchange::Identity;
use setpoint_server::loop_writes::{self, Prepared};
use setpoint_server::pipeline::admission::AdmissionContext;
use setpoint_server::pipeline::{DesiredObject, PipelineResult, RequestContext, WriteOrigin, create};
use setpoint_store::{Cursor, Retention, Store, WatchFilter};
use setpoint_views::world_config;

const NODES: usize = 5000;

/// The allocator of the `setpoint` binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Name, target in pods per second, and function.
type Case = (&'static str, f64, fn(&mut Bench));

fn main() {
    let only = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let cases: [Case; 6] = [
        ("basic", 10_000.0, basic),
        ("topology spread", 5_000.0, spread),
        ("anti-affinity", 3_000.0, anti_affinity),
        ("pod affinity", 1_000.0, affinity),
        ("preemption among other pods", 3_000.0, preemption),
        ("preemption of four victims each", 0.0, preemption_only),
    ];
    for (name, target, case) in cases {
        if only.as_ref().is_none_or(|only| name.contains(only.as_str())) {
            let mut bench = Bench::new();
            case(&mut bench);
            bench.report(name, target);
        }
    }
}

fn basic(bench: &mut Bench) {
    bench.add_nodes(1);
    bench.create_pods("default", 1000, &pod("100m", value!({}), value!({})));
    bench.settle();
    bench.create_pods("default", 10_000, &pod("100m", value!({}), value!({})));
    bench.measure();
}

fn spread(bench: &mut Bench) {
    bench.add_nodes(3);
    bench.create_pods("default", 5000, &pod("100m", value!({}), value!({})));
    bench.settle();
    let constraint = value!({
        "maxSkew": 5, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"color": "blue"}},
    });
    let spread = value!({"topologySpreadConstraints": [(constraint)]});
    bench.create_pods("default", 5000, &pod("100m", value!({"color": "blue"}), spread));
    bench.measure();
}

fn pod_with_term(kind: &str, color: &str, key: &str) -> Value {
    let term = value!({
        "labelSelector": {"matchLabels": {"color": (color)}}, "topologyKey": (key),
        "namespaces": ["sched-1", "sched-0"],
    });
    let terms = value!({"requiredDuringSchedulingIgnoredDuringExecution": [(term)]});
    let affinity = Value::Map([(kind, terms)].into_iter().collect());
    pod("100m", value!({"color": (color)}), value!({"affinity": (affinity)}))
}

fn anti_affinity(bench: &mut Bench) {
    bench.add_nodes(1);
    let pod = pod_with_term("podAntiAffinity", "green", "kubernetes.io/hostname");
    bench.create_pods("sched-0", 1000, &pod);
    bench.settle();
    bench.create_pods("sched-1", 2000, &pod);
    bench.measure();
}

fn affinity(bench: &mut Bench) {
    bench.add_nodes(1);
    let pod = pod_with_term("podAffinity", "blue", "topology.kubernetes.io/zone");
    bench.create_pods("sched-0", 5000, &pod);
    bench.settle();
    bench.create_pods("sched-1", 5000, &pod);
    bench.measure();
}

fn fill_nodes(bench: &mut Bench) {
    bench.add_nodes(1);
    let low = value!({"terminationGracePeriodSeconds": 0});
    bench.create_pods("default", 4 * NODES, &pod("900m", value!({}), low));
    bench.settle();
    let class = value!({"metadata": {"name": "high"}, "value": 9_999_999});
    bench.create("priorityclasses.scheduling.k8s.io", "", class);
}

fn high_priority_pod(cpu: &str) -> Value {
    pod(cpu, value!({}), value!({"priorityClassName": "high", "terminationGracePeriodSeconds": 0}))
}

fn preemption(bench: &mut Bench) {
    fill_nodes(bench);
    for _ in 0..50 {
        bench.create_pods("default", 100, &pod("100m", value!({}), value!({})));
        bench.create_pods("default", 1, &high_priority_pod("3000m"));
        bench.measure();
    }
}

fn preemption_only(bench: &mut Bench) {
    fill_nodes(bench);
    bench.create_pods("default", 1000, &high_priority_pod("3970m"));
    bench.measure();
}

fn pod(cpu: &str, labels: Value, mut spec: Value) -> Value {
    let resources = value!({"cpu": (cpu), "memory": "500Mi"});
    let container = value!({
        "name": "pause", "image": "registry.k8s.io/pause:3.10.2", "ports": [{"containerPort": 80}],
        "resources": {"requests": (resources.clone()), "limits": (resources)},
    });
    spec.make_map().insert("containers", vec![container]);
    value!({"metadata": {"labels": (labels)}, "spec": (spec)})
}

struct Bench {
    store: Store,
    engine: Engine,
    cursors: Vec<(Resource, Cursor)>,
    now: Time,
    rng: Rng,
    made: usize,
    expected: usize,
    bound: usize,
    writes: usize,
    total: Duration,
    planning: Duration,
    observing: Duration,
}

impl Bench {
    fn new() -> Bench {
        // A large ring: changes are observed only after all writes of a plan.
        let store = Store::in_memory(Retention { hot_bytes: 256 << 20, ..Retention::default() });
        let engine = Engine::new(vec![Box::new(Scheduler::default())], world_config([]));
        let follow = |resource: &Resource| (resource.clone(), store.watch(resource, WatchFilter::default()));
        let cursors = resource_types::stored().map(|stored| &stored.resource).map(follow).collect();
        let mut bench = Bench {
            store,
            engine,
            cursors,
            now: Time::from_seconds(1_800_000_000),
            rng: Rng::with_seed(7),
            made: 0,
            expected: 0,
            bound: 0,
            writes: 0,
            total: Duration::ZERO,
            planning: Duration::ZERO,
            observing: Duration::ZERO,
        };
        for name in ["default", "sched-0", "sched-1"] {
            bench.create("namespaces", "", value!({"metadata": {"name": (name)}}));
        }
        bench
    }

    fn create(&mut self, resource: &str, namespace: &str, mut object: Value) {
        let resource_type = resource_types::storage_type(&Resource::new(resource).unwrap()).unwrap();
        object.make_map().insert("kind", &*resource_type.info.kind);
        object.make_map().insert("apiVersion", resource_type.api_version());
        let object = resource_type.stored_schema.decode(object, &[]).unwrap().value;
        let identity = Identity::new("user", vec!["system:masters".to_owned()]);
        let writer = WriteOrigin {
            identity,
            manager: "bench".to_owned(),
            dry_run: false,
            reconciler: String::new(),
            takes_over: false,
        };
        let (snapshot, entropy) = (self.store.snapshot(), [(); 3].map(|()| self.rng.u64(..)));
        let context = RequestContext {
            snapshot: &snapshot,
            now: self.now,
            entropy,
            tolerations: Default::default(),
            catalog: setpoint_server::catalog::Catalog::built_in(),
            admission: AdmissionContext::standard(),
            webhooks: None,
            conversions: None,
            authorization: None,
        };
        match create::create(resource_type, namespace, DesiredObject::new(object), &writer, &context)
            .unwrap()
            .step
        {
            PipelineResult::Commit(proposal) => {
                self.store.commit(*proposal).unwrap();
            }
            _ => panic!("not created"),
        }
    }

    /// Adds nodes with their statuses, spread over a number of zones.
    fn add_nodes(&mut self, zones: usize) {
        let resource = Resource::new("nodes").unwrap();
        let node = |i: usize| {
            let name = format!("scheduler-perf-{i:04}");
            let labels: Vec<(&str, Value)> = vec![
                ("kubernetes.io/hostname", Value::from(name.as_str())),
                ("topology.kubernetes.io/zone", Value::from(format!("moon-{}", i % zones))),
            ];
            let labels = Value::Map(labels.into_iter().collect());
            let amounts = value!({"cpu": "4", "memory": "32Gi", "pods": "110"});
            let node = value!({
                "kind": "Node", "apiVersion": "v1",
                "metadata": {"name": (name.as_str()), "uid": (name.as_str()), "labels": (labels)},
                "status": {"allocatable": (amounts), "conditions": [{"type": "Ready", "status": "True"}]},
            });
            let key = Key::cluster(&resource, &name).unwrap();
            Object::read(key, Revision(1), self.now, bytes::Bytes::from(json::to_text(&node))).unwrap()
        };
        self.engine.relist(&resource, (0..NODES).map(node).collect(), Revision(1), self.now);
    }

    fn create_pods(&mut self, namespace: &str, count: usize, pod: &Value) {
        for _ in 0..count {
            let mut pod = pod.clone();
            let name = format!("pod-{:06}", self.made);
            self.made += 1;
            pod.get_mut("metadata").unwrap().make_map().insert("name", name);
            self.create("pods", namespace, pod);
        }
        self.expected += count;
    }

    /// Runs the loop to the end, measured.
    fn measure(&mut self) {
        let before = cpu_time();
        self.run();
        self.total += cpu_time() - before;
    }

    /// Runs the loop to the end and resets the measurements.
    fn settle(&mut self) {
        self.run();
        assert_eq!(self.bound, self.expected, "not all pods have a node");
        (self.expected, self.bound, self.writes) = (0, 0, 0);
        (self.total, self.planning, self.observing) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    }

    fn run(&mut self) {
        loop {
            let start = cpu_time();
            self.observe();
            let observed = cpu_time();
            let turn = self.engine.turn(self.now, Seed(self.rng.u64(..)));
            self.observing += observed - start;
            self.planning += cpu_time() - observed;
            let mut queue = VecDeque::from(turn.writes);
            if queue.is_empty() && turn.next_turn_at.is_none_or(|wake| wake > self.now) {
                return;
            }
            while let Some(sent) = queue.pop_front() {
                let outcome = self.write(&sent);
                let mut more = Turn::default();
                self.engine.complete_write(sent.id, outcome, self.now, &mut more);
                queue.extend(more.writes);
            }
        }
    }

    fn observe(&mut self) {
        for (resource, cursor) in &mut self.cursors {
            while let Some(event) = cursor.try_next().unwrap() {
                let key = Key::from_path(resource, event.after.path()).unwrap();
                if let Some(observed) = objects::observed(key, &event) {
                    self.engine.observe(observed, self.now);
                }
            }
        }
        self.engine.reach(self.store.snapshot().revision());
    }

    fn write(&mut self, sent: &WriteRequest) -> WriteOutcome {
        let (snapshot, entropy) = (self.store.snapshot(), [(); 3].map(|()| self.rng.u64(..)));
        let outcome = match loop_writes::prepare(
            sent,
            &RequestContext {
                snapshot: &snapshot,
                now: self.now,
                entropy,
                tolerations: Default::default(),
                catalog: setpoint_server::catalog::Catalog::built_in(),
                admission: AdmissionContext::standard(),
                webhooks: None,
                conversions: None,
                authorization: None,
            },
        ) {
            Prepared::Settled(outcome) => outcome,
            Prepared::Call(_) | Prepared::Convert(_) => unreachable!("no webhooks are called"),
            Prepared::Commit(proposal, name) => {
                drop(snapshot);
                loop_writes::outcome(self.store.commit(*proposal), name)
            }
        };
        self.writes += 1;
        assert!(!matches!(outcome, WriteOutcome::Rejected(_)), "{sent:?}: {outcome:?}");
        let is_binding = matches!(&sent.write, Write::Post { subresource: "binding", .. });
        self.bound += usize::from(is_binding && matches!(outcome, WriteOutcome::Done { .. }));
        outcome
    }

    fn report(&self, name: &str, target: f64) {
        assert_eq!(self.bound, self.expected, "{name}: not all pods have a node");
        let pods = f64::from(u32::try_from(self.bound).unwrap());
        let rate = |spent: Duration| pods / spent.as_secs_f64();
        let micros = |spent: Duration| spent.as_secs_f64() * 1e6 / pods;
        println!(
            "{name}: {} pods, {} writes, {:.0} pods/s (target {target:.0}); {:.0} us each, of which observing {:.0}; \
             planning alone {:.0} pods/s, {:.1} us each",
            self.bound,
            self.writes,
            rate(self.total),
            micros(self.total),
            micros(self.observing),
            rate(self.planning),
            micros(self.planning),
        );
    }
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
}
