//! How many pods are given a node per second of one core, on 5,000 nodes: `cargo bench -p setpoint-scheduler`.
//!
//! The cases have the shape of upstream's `scheduler_perf`. One thread does everything: it observes the pods that were
//! committed without a node, plans, and commits bindings, Events and whatever else is planned, through the pipeline
//! into a store on a memory log. What counts is the CPU time of the thread, as the system has it. Deciding alone is
//! measured beside it.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::collections::VecDeque;
use std::time::Duration;

use fastrand::Rng;
use setpoint_api::decode::decode;
use setpoint_api::resource_types;
use setpoint_api::{Key, Resource, Revision, Time, Value, json, value};
use setpoint_reconcile::{Engine, Object, Outcome, Seed, Sent, Turn, Write};
use setpoint_runtime::objects;
use setpoint_scheduler::Scheduler;
use setpoint_server::exchange::Identity;
use setpoint_server::loop_writes::{self, Prepared};
use setpoint_server::pipeline::{DesiredObject, RequestContext, Step, Writer, create};
use setpoint_store::{Cursor, Filter, Retention, Store};

const NODES: usize = 5000;

/// The allocator of the binary, so that what is measured is what runs.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Its name, how many pods a second are wanted, and how it is run.
type Case = (&'static str, f64, fn(&mut Bench));

fn main() {
    let only = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    let cases: [Case; 6] = [
        ("basic", 10_000.0, basic),
        ("topology spread", 5_000.0, spread),
        ("anti-affinity", 3_000.0, anti_affinity),
        ("pod affinity", 1_000.0, affinity),
        ("preemption beside other pods", 3_000.0, preemption),
        ("preemption of four each", 0.0, preemption_only),
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
    bench.nodes(1);
    bench.pods("default", 1000, &pod("100m", value!({}), value!({})));
    bench.settle();
    bench.pods("default", 10_000, &pod("100m", value!({}), value!({})));
    bench.measure();
}

fn spread(bench: &mut Bench) {
    bench.nodes(3);
    bench.pods("default", 5000, &pod("100m", value!({}), value!({})));
    bench.settle();
    let constraint = value!({
        "maxSkew": 5, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"color": "blue"}},
    });
    let spread = value!({"topologySpreadConstraints": [(constraint)]});
    bench.pods("default", 5000, &pod("100m", value!({"color": "blue"}), spread));
    bench.measure();
}

fn affine(sort: &str, color: &str, key: &str) -> Value {
    let term = value!({
        "labelSelector": {"matchLabels": {"color": (color)}}, "topologyKey": (key),
        "namespaces": ["sched-1", "sched-0"],
    });
    let terms = value!({"requiredDuringSchedulingIgnoredDuringExecution": [(term)]});
    let sort = Value::Map([(sort, terms)].into_iter().collect());
    pod("100m", value!({"color": (color)}), value!({"affinity": (sort)}))
}

fn anti_affinity(bench: &mut Bench) {
    bench.nodes(1);
    let pod = affine("podAntiAffinity", "green", "kubernetes.io/hostname");
    bench.pods("sched-0", 1000, &pod);
    bench.settle();
    bench.pods("sched-1", 2000, &pod);
    bench.measure();
}

fn affinity(bench: &mut Bench) {
    bench.nodes(1);
    let pod = affine("podAffinity", "blue", "topology.kubernetes.io/zone");
    bench.pods("sched-0", 5000, &pod);
    bench.settle();
    bench.pods("sched-1", 5000, &pod);
    bench.measure();
}

fn full(bench: &mut Bench) {
    bench.nodes(1);
    let low = value!({"terminationGracePeriodSeconds": 0});
    bench.pods("default", 4 * NODES, &pod("900m", value!({}), low));
    bench.settle();
    let class = value!({"metadata": {"name": "high"}, "value": 9_999_999});
    bench.create("priorityclasses.scheduling.k8s.io", "", class);
}

fn high(cpu: &str) -> Value {
    pod(cpu, value!({}), value!({"priorityClassName": "high", "terminationGracePeriodSeconds": 0}))
}

fn preemption(bench: &mut Bench) {
    full(bench);
    for _ in 0..50 {
        bench.pods("default", 100, &pod("100m", value!({}), value!({})));
        bench.pods("default", 1, &high("3000m"));
        bench.measure();
    }
}

fn preemption_only(bench: &mut Bench) {
    full(bench);
    bench.pods("default", 1000, &high("3970m"));
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
    wanted: usize,
    bound: usize,
    writes: usize,
    spent: Duration,
    deciding: Duration,
    observing: Duration,
}

impl Bench {
    fn new() -> Bench {
        // A server observes all the time; here that waits until all of a plan is written.
        let store = Store::in_memory(Retention { hot_bytes: 256 << 20, ..Retention::default() });
        let engine = Engine::new(vec![Box::new(Scheduler::default())], []);
        let follow = |resource: &Resource| (resource.clone(), store.follow(resource, Filter::default()));
        let cursors = resource_types::stored().map(|stored| &stored.resource).map(follow).collect();
        let mut bench = Bench {
            store,
            engine,
            cursors,
            now: Time::from_seconds(1_800_000_000),
            rng: Rng::with_seed(7),
            made: 0,
            wanted: 0,
            bound: 0,
            writes: 0,
            spent: Duration::ZERO,
            deciding: Duration::ZERO,
            observing: Duration::ZERO,
        };
        for name in ["default", "sched-0", "sched-1"] {
            bench.create("namespaces", "", value!({"metadata": {"name": (name)}}));
        }
        bench
    }

    fn create(&mut self, resource: &str, namespace: &str, mut object: Value) {
        let resource_type = resource_types::storage_type(&Resource::new(resource).unwrap()).unwrap();
        object.make_map().insert("kind", resource_type.info.kind);
        object.make_map().insert("apiVersion", resource_type.api_version());
        let object = decode(object, resource_type.stored_schema, &[]).unwrap().value;
        let identity = Identity { user: "user".to_owned(), groups: vec!["system:masters".to_owned()] };
        let writer =
            Writer { identity, manager: "bench".to_owned(), dry_run: false, reconciler: String::new() };
        let (snapshot, entropy) = (self.store.snapshot(), [(); 3].map(|()| self.rng.u64(..)));
        let context =
            RequestContext { snapshot: &snapshot, now: self.now, entropy, tolerations: Default::default() };
        match create::create(resource_type, namespace, DesiredObject::new(object), &writer, &context)
            .unwrap()
            .step
        {
            Step::Commit(proposal) => {
                self.store.commit(*proposal).unwrap();
            }
            _ => panic!("not created"),
        }
    }

    /// Nodes in so many zones. They come with their statuses, as a fake would write them.
    fn nodes(&mut self, zones: usize) {
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

    fn pods(&mut self, namespace: &str, count: usize, pod: &Value) {
        for _ in 0..count {
            let mut pod = pod.clone();
            let name = format!("pod-{:06}", self.made);
            self.made += 1;
            pod.get_mut("metadata").unwrap().make_map().insert("name", name);
            self.create("pods", namespace, pod);
        }
        self.wanted += count;
    }

    /// Runs the loop, and counts it.
    fn measure(&mut self) {
        let before = cpu();
        self.run();
        self.spent += cpu() - before;
    }

    /// Runs the loop, and does not count it.
    fn settle(&mut self) {
        self.run();
        assert_eq!(self.bound, self.wanted, "not all pods have a node");
        (self.wanted, self.bound, self.writes) = (0, 0, 0);
        (self.spent, self.deciding, self.observing) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    }

    fn run(&mut self) {
        loop {
            let start = cpu();
            self.observe();
            let seen = cpu();
            let turn = self.engine.turn(self.now, Seed(self.rng.u64(..)));
            self.observing += seen - start;
            self.deciding += cpu() - seen;
            let mut line = VecDeque::from(turn.writes);
            if line.is_empty() && turn.wake.is_none_or(|wake| wake > self.now) {
                return;
            }
            while let Some(sent) = line.pop_front() {
                let outcome = self.write(&sent);
                let mut more = Turn::default();
                self.engine.answer(sent.ticket, outcome, self.now, &mut more);
                line.extend(more.writes);
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

    fn write(&mut self, sent: &Sent) -> Outcome {
        let (snapshot, entropy) = (self.store.snapshot(), [(); 3].map(|()| self.rng.u64(..)));
        let outcome = match loop_writes::prepare(
            sent,
            &RequestContext { snapshot: &snapshot, now: self.now, entropy, tolerations: Default::default() },
        ) {
            Prepared::Settled(outcome) => outcome,
            Prepared::Commit(proposal, name) => {
                drop(snapshot);
                loop_writes::outcome(self.store.commit(*proposal), name)
            }
        };
        self.writes += 1;
        assert!(!matches!(outcome, Outcome::Refused(_)), "{sent:?}: {outcome:?}");
        let is_binding = matches!(&sent.write, Write::Post { part: "binding", .. });
        self.bound += usize::from(is_binding && matches!(outcome, Outcome::Done { .. }));
        outcome
    }

    fn report(&self, name: &str, target: f64) {
        assert_eq!(self.bound, self.wanted, "{name}: not all pods have a node");
        let pods = f64::from(u32::try_from(self.bound).unwrap());
        let rate = |spent: Duration| pods / spent.as_secs_f64();
        let micros = |spent: Duration| spent.as_secs_f64() * 1e6 / pods;
        println!(
            "{name}: {} pods, {} writes, {:.0} pods/s (target {target:.0}); {:.0} us each, of which observing {:.0}; \
             deciding alone {:.0} pods/s, {:.1} us each",
            self.bound,
            self.writes,
            rate(self.spent),
            micros(self.spent),
            micros(self.observing),
            rate(self.deciding),
            micros(self.deciding),
        );
    }
}

/// The CPU time of this thread, as the system has it.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
}
