//! Tests of the loop's thread over a real store.

use std::sync::Barrier;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use setpoint_api::{Key, ManualClock, Resource, Time, Value, json, value};
use setpoint_reconcile::{Plan, Planner, Seen, Watch, WorldReader, WriteId, WriteOutcome, WriteRequest};
use setpoint_store::{CommitCause, Draft, Precondition, Proposal, Retention};
use tokio::time::Instant;

use super::*;

/// Time for a change to be planned. A lost wakeup waits for the resync, which is later.
const PLANNED_WITHIN: Duration = Duration::from_secs(20);

/// Reports the revision of each ConfigMap that is planned.
struct Probe(Mutex<Sender<(String, u64)>>);

impl Planner for Probe {
    type Memo = ();

    fn name(&self) -> &'static str {
        "probe"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 1] = [Watch::primary("configmaps")];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, _: Time, _: Seed) -> Plan {
        if let Some(object) = world.get(key) {
            let _ = self.0.lock().send((key.name().to_owned(), object.revision().0));
        }
        Plan::default()
    }
}

/// Time of a stopped clock: no timer of the engine expires.
const NOW: Time = Time::from_seconds(1_800_000_000);

/// A store with a thread that writes it.
struct Driven {
    store: Store,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Driven {
    fn start() -> Driven {
        let (store, stop) = (Store::in_memory(Retention::default()), Arc::new(AtomicBool::new(false)));
        let (driven, stopped) = (store.clone(), Arc::clone(&stop));
        let thread = std::thread::spawn(move || driven.drive(&stopped));
        Driven { store, stop, thread: Some(thread) }
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.store.wake();
        let _ = self.thread.take().unwrap().join();
    }
}

fn put(store: &Store, name: &str) -> u64 {
    let key = Key::namespaced(&Resource::new("configmaps").unwrap(), "default", name).unwrap();
    let object: Value = value!({"metadata": {"name": (name), "namespace": "default", "uid": (name)}});
    let cause = CommitCause { user: "user".to_owned(), ..CommitCause::default() };
    let proposal = Proposal::new(cause, NOW).put(key, Precondition::Any, Draft::new(json::to_vec(&object)));
    store.commit(proposal).unwrap().revision.0
}

/// Changes two objects almost simultaneously, and measures the time until each is planned.
#[expect(clippy::disallowed_methods, reason = "measures the latency of a real thread")]
fn measure_pairs(pairs: usize, store: &Store, planned: &Receiver<(String, u64)>) -> Vec<Duration> {
    let (barrier, results) = (Barrier::new(3), channel());
    let mut waits = Vec::new();
    std::thread::scope(|scope| {
        for name in ["a", "b"] {
            let (barrier, result) = (&barrier, results.0.clone());
            scope.spawn(move || {
                for _ in 0..pairs {
                    barrier.wait();
                    let revision = put(store, name);
                    result.send((name, revision, Instant::now())).unwrap();
                    barrier.wait();
                }
            });
        }
        for pair in 0..pairs {
            barrier.wait();
            let mut wanted = [results.1.recv().unwrap(), results.1.recv().unwrap()].to_vec();
            while !wanted.is_empty() {
                let Ok((name, revision)) = planned.recv_timeout(PLANNED_WITHIN) else {
                    // The writers wait at the barrier forever: end the process instead of hanging.
                    eprintln!("pair {pair}: {wanted:?} not planned within {PLANNED_WITHIN:?}");
                    std::process::exit(101);
                };
                wanted.retain(|(of, at, since)| {
                    let is_planned = *of == name && *at <= revision;
                    if is_planned {
                        waits.push(since.elapsed());
                    }
                    !is_planned
                });
            }
            barrier.wait();
        }
    });
    waits
}

fn pairs() -> usize {
    std::env::var("SETPOINT_PAIRS").ok().and_then(|text| text.parse().ok()).unwrap_or(500)
}

/// Executor for planners that write nothing.
struct NoWrites;

impl WriteExecutor for NoWrites {
    fn start(&mut self, request: WriteRequest) -> Option<(WriteId, WriteOutcome)> {
        panic!("unexpected write: {:?}", request.write)
    }

    fn submit(&mut self) -> bool {
        false
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Vec<(WriteId, WriteOutcome)> {
        Vec::new()
    }

    fn is_idle(&self) -> bool {
        true
    }
}

/// Starts a loop that sleeps for at most `sleep_max`.
fn start(store: &Store, engine: Engine, clock: Arc<dyn Clock>, sleep_max: Duration) -> Shell {
    let thread = LoopThread {
        store: store.clone(),
        feed: Feed::open(&engine),
        time: LoopTime::new(clock.now(), clock.uptime()),
        watchdog: Arc::new(Watchdog::new(Arc::clone(&clock))),
        clock,
        entropy: Arc::new(|| 7),
        queries: Arc::default(),
        executor: Box::new(NoWrites),
        bell: Arc::default(),
        in_flight: QueriesInFlight::default(),
        sleep_max,
    };
    Shell::run(engine, thread).unwrap()
}

#[test]
fn paired_changes_are_planned_though_no_sleep_ends_by_itself() {
    let (sender, planned) = channel();
    let engine =
        Engine::new(vec![Box::new(Probe(Mutex::new(sender)))], setpoint_reconcile::WorldConfig::default());
    let driven = Driven::start();
    let shell = start(&driven.store, engine, Arc::new(ManualClock::new(NOW)), Duration::from_secs(3600));
    let mut waits = measure_pairs(pairs(), &driven.store, &planned);
    drop(shell);
    waits.sort_unstable();
    let at = |percent: usize| waits[(waits.len() - 1) * percent / 100];
    let (median, p90, p99, max) = (at(50), at(90), at(99), at(100));
    eprintln!("{} changes: median {median:?}, p90 {p90:?}, p99 {p99:?}, max {max:?}", waits.len());
}

/// The period of [`Periodic`].
const PERIOD: Duration = Duration::from_secs(10);

/// Requeues itself every [`PERIOD`], as a Lease renewal does, and reports each plan.
struct Periodic(Mutex<Sender<Time>>);

impl Planner for Periodic {
    type Memo = Option<Time>;

    fn name(&self) -> &'static str {
        "periodic"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 1] = [Watch::primary("configmaps")];
        &WATCHES
    }

    fn clock_jumped(&self, memo: &mut Option<Time>, jump: setpoint_reconcile::Jump, _: Time) {
        *memo = memo.map(|last| jump.shift(last));
    }

    fn plan(
        &self,
        _: &Key,
        _: &WorldReader<'_>,
        seen: &Seen<'_, Option<Time>>,
        now: Time,
        _: Seed,
    ) -> Plan<Option<Time>> {
        let mut plan = Plan { memo: seen.memo, ..Plan::default() };
        if seen.memo.is_none_or(|last| now >= last.after(PERIOD)) {
            plan.memo = Some(now);
            let _ = self.0.lock().send(now);
        }
        plan.requeue_at(plan.memo.unwrap_or(now).after(PERIOD));
        plan
    }
}

/// Advances the clock by `periods` periods, and asserts a renewal in each.
fn renews(clock: &ManualClock, renewed: &Receiver<Time>, periods: u32, when: &str) {
    for period in 0..periods {
        clock.advance(PERIOD);
        let result = renewed.recv_timeout(PLANNED_WITHIN);
        assert!(result.is_ok(), "no renewal in period {period} {when}");
    }
}

#[test]
fn renewal_continues_after_a_temporary_clock_change() {
    for step in [-3600, 3600, -7 * 86400] {
        let (sender, renewed) = channel();
        let engine = Engine::new(
            vec![Box::new(Periodic(Mutex::new(sender)))],
            setpoint_reconcile::WorldConfig::default(),
        );
        let driven = Driven::start();
        let clock = Arc::new(ManualClock::new(NOW));
        let shell = start(&driven.store, engine, Arc::clone(&clock) as _, Duration::from_millis(5));
        put(&driven.store, "a");
        renewed.recv_timeout(PLANNED_WITHIN).unwrap();
        renews(&clock, &renewed, 4, "before the clock is set");
        clock.set_wall(Time(clock.now().0 + step * 1_000_000));
        renews(&clock, &renewed, 6, "while the clock is wrong");
        clock.set_wall(Time(clock.now().0 - step * 1_000_000));
        renews(&clock, &renewed, 6, "when the clock is right again");
        drop(shell);
    }
}

#[test]
fn sleeping_or_turning_loop_passes_its_check() {
    let driven = Driven::start();
    let engine = Engine::new(Vec::new(), setpoint_reconcile::WorldConfig::default());
    let shell = start(&driven.store, engine, Arc::new(ManualClock::new(NOW)), Duration::from_secs(3600));
    put(&driven.store, "a");
    assert_eq!(shell.watchdog.check(), Ok(()));
}

/// Plans until the test releases it.
struct Endless(Mutex<Sender<()>>, Arc<AtomicBool>);

impl Planner for Endless {
    type Memo = ();

    fn name(&self) -> &'static str {
        "endless"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 1] = [Watch::primary("configmaps")];
        &WATCHES
    }

    fn plan(&self, _: &Key, _: &WorldReader<'_>, _: &Seen<'_, ()>, _: Time, _: Seed) -> Plan {
        let _ = self.0.lock().send(());
        while !self.1.load(Ordering::Acquire) {
            std::thread::park_timeout(Duration::from_millis(10));
        }
        Plan::default()
    }
}

#[test]
fn endless_plan_does_not_block_shutdown() {
    let driven = Driven::start();
    let (begun, begins) = channel();
    let released = Arc::new(AtomicBool::new(false));
    let engine = Engine::new(
        vec![Box::new(Endless(Mutex::new(begun), Arc::clone(&released)))],
        setpoint_reconcile::WorldConfig::default(),
    );
    let shell = start(&driven.store, engine, Arc::new(ManualClock::new(NOW)), SLEEP_MAX);
    put(&driven.store, "a");
    begins.recv_timeout(PLANNED_WITHIN).unwrap();
    assert_eq!(shell.stop(), LoopEnd::CutOff);
    released.store(true, Ordering::Release);
}

/// Reports each object of a custom resource that is planned, and the revision that the world has reached.
struct CustomProbe(Mutex<Sender<(String, bool)>>);

impl Planner for CustomProbe {
    type Memo = ();

    fn name(&self) -> &'static str {
        "custom-probe"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 1] = [Watch::primary("foos.example.com")];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, _: Time, _: Seed) -> Plan {
        let _ = self.0.lock().send((key.name().to_owned(), world.get(key).is_some()));
        Plan::default()
    }
}

/// Commits an object, or its removal.
fn commit(store: &Store, key: Key, object: Option<&Value>) {
    let cause = CommitCause { user: "user".to_owned(), ..CommitCause::default() };
    let proposal = Proposal::new(cause, NOW);
    let proposal = match object {
        Some(object) => proposal.put(key, Precondition::Any, Draft::new(json::to_vec(object))),
        None => proposal.delete(key, Precondition::Any),
    };
    store.commit(proposal).unwrap();
}

fn definition_key() -> Key {
    Key::cluster(&crate::custom::definitions(), "foos.example.com").unwrap()
}

fn custom_definition(is_established: bool) -> Value {
    let status = if is_established { "True" } else { "False" };
    value!({
        "metadata": {"name": "foos.example.com", "uid": "d"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{"name": "v1", "served": true, "storage": true}],
        },
        "status": {"conditions": [{"type": "Established", "status": (status)}]},
    })
}

fn custom_object(name: &str) -> (Key, Value) {
    let key = Key::namespaced(&Resource::new("foos.example.com").unwrap(), "a", name).unwrap();
    (key, value!({"metadata": {"name": (name), "namespace": "a", "uid": (name)}}))
}

#[test]
fn custom_resources_are_followed_while_their_definition_is_established() {
    let (sender, planned) = channel();
    for is_watched_only in [false, true] {
        let mut engine = Engine::new(
            vec![Box::new(CustomProbe(Mutex::new(sender.clone())))],
            setpoint_reconcile::WorldConfig::default(),
        );
        if is_watched_only {
            engine = engine.with_watched_resources_only();
        }
        let driven = Driven::start();
        let shell = start(&driven.store, engine, Arc::new(ManualClock::new(NOW)), Duration::from_secs(3600));
        let expect = |name: &str, exists: bool| {
            let found = planned.recv_timeout(PLANNED_WITHIN).expect("no wakeup is lost");
            assert_eq!(found, (name.to_owned(), exists));
        };
        commit(&driven.store, definition_key(), Some(&custom_definition(false)));
        // Stored before its definition is established, as after a restart.
        let (early, object) = custom_object("early");
        commit(&driven.store, early, Some(&object));
        commit(&driven.store, definition_key(), Some(&custom_definition(true)));
        expect("early", true);
        let (late, object) = custom_object("late");
        commit(&driven.store, late, Some(&object));
        expect("late", true);
        commit(&driven.store, definition_key(), None);
        let mut gone =
            [planned.recv_timeout(PLANNED_WITHIN).unwrap(), planned.recv_timeout(PLANNED_WITHIN).unwrap()];
        gone.sort();
        assert_eq!(gone, [("early".to_owned(), false), ("late".to_owned(), false)]);
        let world = shell.engine().lock().world().clone();
        assert!(world.reader().find_resource("foos.example.com").is_none(), "its table is removed");
        commit(&driven.store, definition_key(), Some(&custom_definition(true)));
        let mut back =
            [planned.recv_timeout(PLANNED_WITHIN).unwrap(), planned.recv_timeout(PLANNED_WITHIN).unwrap()];
        back.sort();
        assert_eq!(
            back,
            [("early".to_owned(), true), ("late".to_owned(), true)],
            "stored objects are listed"
        );
        drop(shell);
    }
}

#[test]
fn world_is_complete_at_every_revision_that_a_feed_reaches() {
    let store = Store::in_memory(Retention::default());
    let mut engine = Engine::new(Vec::new(), setpoint_reconcile::WorldConfig::default());
    let mut feed = Feed::open(&engine);
    let mut context = Context::from_waker(Waker::noop());
    for round in 0..20 {
        match round % 4 {
            0 => commit(&store, definition_key(), Some(&custom_definition(true))),
            1 | 2 => {
                let (key, object) = custom_object(&format!("x{round}"));
                commit(&store, key, Some(&object));
            }
            _ => commit(&store, definition_key(), None),
        }
        if round % 3 == 0 {
            continue;
        }
        assert!(feed.drain(&store, &mut engine, NOW, &mut context), "nothing changes meanwhile");
        let (world, snapshot) = (engine.world(), store.snapshot());
        assert_eq!(world.revision(), snapshot.revision());
        let foos = Resource::new("foos.example.com").unwrap();
        let stored = snapshot.table(&foos).map_or(0, |table| table.iter().count());
        let is_defined = snapshot.get(&definition_key()).is_some();
        assert_eq!(world.reader().find_resource("foos.example.com").is_some(), is_defined, "{round}");
        assert_eq!(world.reader().count("foos.example.com"), if is_defined { stored } else { 0 }, "{round}");
    }
}
