//! Simulated server and clients in virtual time. Every run is determined by its seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use setpoint_api::{Identity, RequestInfo, value};
use setpoint_fairness::{
    ADJUSTMENT_PERIOD, Arrival, Configuration, Controller, Departure, FlowSchema, PriorityLevel, RequestId,
    RequestWork, Start, flow_hash,
};

/// Time after which clients that were rejected try again.
const RETRY: Duration = Duration::from_secs(1);

/// Deterministic random numbers: SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Exponentially distributed duration.
    fn exponential(&mut self, mean: Duration) -> Duration {
        let fraction = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        mean.mul_f64(-(1.0 - fraction).ln())
    }
}

/// Arrivals of a client.
#[derive(Clone, Copy)]
pub enum Pattern {
    /// Requests at random times, with this mean interval.
    Poisson(Duration),
    /// So many connections, each of which sends its next request when the last one has ended.
    HotLoop(u32),
}

#[derive(Clone, Copy)]
pub struct Client {
    pub user: &'static str,
    pub pattern: Pattern,
    pub work: RequestWork,
    /// Mean time of execution.
    pub service: Duration,
}

/// Requests of a client that were measured.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Times from the arrival to the dispatch, and to the end.
    pub waits: Vec<Duration>,
    pub responses: Vec<Duration>,
    pub rejected: usize,
}

impl Measured {
    pub fn executed(&self) -> usize {
        self.responses.len()
    }
}

/// Returns the value that `percent` of the durations do not exceed.
pub fn percentile(durations: &[Duration], percent: usize) -> Duration {
    let mut sorted = durations.to_vec();
    sorted.sort();
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrive(usize),
    End(u64),
    Release,
    Adjust,
    Expire(u64),
}

struct InFlight {
    client: usize,
    arrived: Duration,
    id: RequestId,
    schema: usize,
}

pub struct Simulation {
    pub controller: Controller<u64>,
    configuration: Arc<Configuration<u64>>,
    clients: Vec<Client>,
    random: Random,
    events: BTreeSet<(Duration, u64, Event)>,
    in_flight: BTreeMap<u64, InFlight>,
    measured: Vec<Measured>,
    now: Duration,
    number: u64,
    pub wait_limit: Duration,
}

pub fn level(name: &str, shares: i64, (queues, hand): (i64, i64)) -> PriorityLevel {
    let object = value!({
        "metadata": {"name": (name)},
        "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": (shares), "lendablePercent": 50,
            "limitResponse": {
                "type": "Queue",
                "queuing": {"queues": (queues), "handSize": (hand), "queueLengthLimit": 50},
            },
        }},
    });
    PriorityLevel::read(&object).unwrap()
}

/// FlowSchema of a user, or of all users as `*`.
pub fn schema(level: &str, user: &str) -> FlowSchema {
    let object = value!({
        "metadata": {"name": (format!("{level}-{user}"))},
        "spec": {
            "priorityLevelConfiguration": {"name": (level)}, "matchingPrecedence": 100,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [{
                "subjects": [{"kind": "User", "user": {"name": (user)}}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            }],
        },
    });
    FlowSchema::read(&object).unwrap()
}

impl Simulation {
    pub fn new(
        seats: u32,
        (schemas, levels): (Vec<FlowSchema>, Vec<PriorityLevel>),
        clients: &[Client],
        seed: u64,
    ) -> Simulation {
        let controller = Controller::new(seats, Duration::ZERO);
        let (configuration, _) = controller.reconfigure(Duration::ZERO, 1, schemas, levels);
        let mut simulation = Simulation {
            controller,
            configuration,
            clients: clients.to_vec(),
            random: Random(seed),
            events: BTreeSet::new(),
            in_flight: BTreeMap::new(),
            measured: clients.iter().map(|_| Measured::default()).collect(),
            now: Duration::ZERO,
            number: 0,
            wait_limit: Duration::from_secs(15),
        };
        for (position, client) in clients.iter().enumerate() {
            let connections =
                if let Pattern::HotLoop(connections) = client.pattern { connections } else { 1 };
            (0..connections).for_each(|_| simulation.schedule(Duration::ZERO, Event::Arrive(position)));
        }
        simulation.schedule(ADJUSTMENT_PERIOD, Event::Adjust);
        simulation
    }

    /// One level, with almost all seats, for all clients.
    pub fn one_level(seats: u32, clients: &[Client], seed: u64) -> Simulation {
        let objects = (vec![schema("level", "*")], vec![level("level", 1_000_000, (64, 6))]);
        Simulation::new(seats, objects, clients, seed)
    }

    fn schedule(&mut self, at: Duration, event: Event) {
        self.number += 1;
        self.events.insert((at, self.number, event));
    }

    /// Runs up to a time, and returns what each client measured.
    pub fn run(&mut self, until: Duration) -> Vec<Measured> {
        while self.events.first().is_some_and(|(at, ..)| *at <= until) {
            let (at, _, event) = self.events.pop_first().unwrap();
            self.now = at;
            match event {
                Event::Arrive(client) => self.arrive(client),
                Event::End(number) => self.end(number),
                Event::Release => self.release(),
                Event::Adjust => {
                    let dispatched = self.controller.adjust(self.now);
                    self.begin(dispatched);
                    self.schedule(self.now + ADJUSTMENT_PERIOD, Event::Adjust);
                }
                Event::Expire(number) => self.expire(number),
            }
        }
        self.measured.iter_mut().map(std::mem::take).collect()
    }

    fn arrive(&mut self, position: usize) {
        let client = self.clients[position];
        if let Pattern::Poisson(mean) = client.pattern {
            let next = self.now + self.random.exponential(mean);
            self.schedule(next, Event::Arrive(position));
        }
        let user = Identity::new(client.user, Vec::new());
        let info = RequestInfo { verb: "get", path: "/", ..Default::default() };
        let schema = self.configuration.classify(&user, &info);
        let compiled = &self.configuration.schemas()[schema];
        let arrival = Arrival {
            generation: self.configuration.generation(),
            schema: compiled.position,
            flow: flow_hash(0x5eed, &compiled.schema.name, client.user),
            work: client.work,
            is_watch: false,
            subject: None,
            path: "/",
            name: "",
        };
        self.number += 1;
        let number = self.number;
        let mut level = compiled.level.lock();
        let start = level.start(self.now, &arrival, || number);
        let mut dispatched = level.take_dispatched();
        assert!(level.seats_in_use() <= level.limits().current.max(10), "seats exceed the limit");
        drop(level);
        match start {
            Start::Executing(id) => {
                self.in_flight.insert(number, InFlight { client: position, arrived: self.now, id, schema });
                dispatched.push(number);
            }
            Start::Waiting(id) => {
                self.in_flight.insert(number, InFlight { client: position, arrived: self.now, id, schema });
                self.schedule(self.now + self.wait_limit, Event::Expire(number));
            }
            Start::Rejected(..) => self.reject(position),
            Start::Stale => panic!("the configuration does not change"),
        }
        self.begin(dispatched);
    }

    fn reject(&mut self, client: usize) {
        self.measured[client].rejected += 1;
        if let Pattern::HotLoop(_) = self.clients[client].pattern {
            self.schedule(self.now + RETRY, Event::Arrive(client));
        }
    }

    fn begin(&mut self, dispatched: Vec<u64>) {
        for number in dispatched {
            let request = &self.in_flight[&number];
            let client = request.client;
            self.measured[client].waits.push(self.now - request.arrived);
            let service = self.random.exponential(self.clients[client].service);
            self.schedule(self.now + service, Event::End(number));
        }
    }

    fn end(&mut self, number: u64) {
        let request = self.in_flight.remove(&number).unwrap();
        let mut level = self.configuration.schemas()[request.schema].level.lock();
        assert_eq!(level.leave(self.now, request.id), Departure::Finished);
        let (dispatched, next) = (level.take_dispatched(), level.next_release());
        drop(level);
        self.measured[request.client].responses.push(self.now - request.arrived);
        self.begin(dispatched);
        if let Some(at) = next {
            self.schedule(at, Event::Release);
        }
        if let Pattern::HotLoop(_) = self.clients[request.client].pattern {
            self.schedule(self.now, Event::Arrive(request.client));
        }
    }

    fn release(&mut self) {
        for level in self.controller.levels() {
            let mut level = level.lock();
            level.release_lingering(self.now);
            let dispatched = level.take_dispatched();
            drop(level);
            self.begin(dispatched);
        }
    }

    fn expire(&mut self, number: u64) {
        let Some(request) = self.in_flight.remove(&number) else { return };
        let mut level = self.configuration.schemas()[request.schema].level.lock();
        let expired = level.expire(self.now, request.id);
        let dispatched = level.take_dispatched();
        drop(level);
        match expired {
            Ok(_) => self.reject(request.client),
            Err(id) => drop(self.in_flight.insert(number, InFlight { id, ..request })),
        }
        self.begin(dispatched);
    }
}
