//! A cluster in which everything goes wrong: one step of a schedule after the other, each followed by the checks.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use setpoint_api::{Time, Value, value};
use setpoint_reconcile::{Jump, Object, Seed};

use super::checks::{self, Check, Scene};
use super::loops::Loops;
use super::machine::Machine;
use super::marks::Marks;
use super::nodes::Nodes;
use super::schedule::{Deed, Schedule, Step};
use super::truth::Truth;
use super::users::{self, Desk};
use crate::campaign::{Setup, path};
use crate::cluster::Cluster;

/// The resources whose objects a rival touches.
const CONTESTED: [&str; 9] = [
    "pods",
    "replicasets.apps",
    "deployments.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "jobs.batch",
    "poddisruptionbudgets.policy",
    "endpointslices.discovery.k8s.io",
    "namespaces",
];

/// How long everything may take to come to rest after the faults: four times the longest backoff.
pub const HEALING: Duration = Duration::from_secs(1200);
/// How long everything must then stay at rest: longer than a resync takes.
const REST: Duration = Duration::from_secs(35);
/// How long healing goes on before it is looked whether everything has come to rest.
const PAUSE: Duration = Duration::from_secs(10);
/// How late nodes may be.
const MOMENT: Duration = Duration::from_secs(2);

/// How the loop behaves while everything heals; by default as it should.
#[derive(Clone, Copy, Debug, Default)]
pub struct Habits {
    /// It is killed after so many writes.
    pub crashes_after: Option<usize>,
    /// It learns of changes late, and in any order between resources.
    pub scrambles: bool,
    /// Every write is made twice, the first time without an answer.
    pub repeats: bool,
}

/// A cluster and everything that goes wrong in it.
pub struct Trial {
    /// The cluster.
    pub cluster: Cluster,
    /// What happened how often.
    pub marks: Marks,
    /// Who acts.
    pub loops: Loops,
    /// How the loop behaves while everything heals.
    pub habits: Habits,
    /// How many writes were performed while everything healed.
    pub writes: usize,
    truth: Truth,
    nodes: Nodes,
    checks: Vec<Box<dyn Check>>,
    machine: Machine,
    calm: bool,
    /// Whether the loop has forgotten what it said, and will say it again when it looks the next time.
    forgot: bool,
    scenarios: Vec<usize>,
    seed: u64,
    /// By how much the clock was set back, and by how much forward.
    clock_off: (Duration, Duration),
    waits_by_wall_clock: bool,
}

/// Maximum step by which the clock is set forward, to be set back later: less than [`HEALING`].
const FORWARD_MAX: Duration = Duration::from_secs(900);

impl Trial {
    /// Sets the stage.
    ///
    /// # Panics
    /// If that fails.
    #[must_use]
    pub fn new(setup: Setup, schedule: &Schedule, keeps_history: bool) -> Trial {
        let machine = Machine::new(schedule.on_disk, setup.is_lossy);
        let store = machine.start().expect("an empty log is always readable");
        let truth = Truth::of(&store);
        let mut cluster = Cluster::over(store, setup.controllers, schedule.seed);
        cluster.keeps_history = keeps_history;
        for name in ["kube-system", "kube-node-lease"] {
            cluster.create("namespaces", "", value!({"metadata": {"name": (name)}}));
        }
        if schedule.seed.is_multiple_of(2) {
            cluster.create("storageclasses.storage.k8s.io", "", class());
        }
        let range = value!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.0.0.0/16"]}});
        cluster.create("servicecidrs.networking.k8s.io", "", range);
        let mut loops = Loops::new(&mut cluster, setup.controllers);
        loops.is_reckless = setup.is_reckless;
        let nodes = Nodes::new(&mut cluster, setup.nodes, schedule.calm);
        let mut trial = Trial {
            cluster,
            marks: Marks::default(),
            loops,
            habits: Habits::default(),
            writes: 0,
            truth,
            nodes,
            checks: checks::all(),
            machine,
            calm: schedule.calm,
            forgot: false,
            scenarios: schedule.scenarios.clone(),
            seed: schedule.seed,
            clock_off: (Duration::ZERO, Duration::ZERO),
            waits_by_wall_clock: setup.waits_by_wall_clock,
        };
        for number in schedule.scenarios.clone() {
            (users::ALL[number].begin)(&mut trial.desk());
        }
        trial.check().expect("nothing is broken before anything goes wrong");
        trial
    }

    fn desk(&mut self) -> Desk<'_> {
        Desk { cluster: &mut self.cluster, calm: self.calm, marks: &mut self.marks }
    }

    /// Takes a step of the first phase, and checks what came of it.
    ///
    /// # Errors
    /// If something does not hold that must.
    pub fn step(&mut self, step: Step) -> Result<(), String> {
        self.cluster.rng = Rng::with_seed(step.luck);
        if self.cluster.keeps_history {
            self.cluster.history.push(format!("[{:?} at {}]", step.deed, self.cluster.now.0));
        }
        match step.deed {
            Deed::Observe | Deed::Plan | Deed::Write | Deed::LoseWrite | Deed::LoseAnswer => {
                self.act(step.deed)?
            }
            Deed::Wait => self.wait(),
            Deed::Nodes => self.nodes.work(&mut self.cluster, &self.truth.world, &mut self.marks),
            Deed::Edit => self.edit(),
            Deed::Rival => self.rival(),
            Deed::BreakWatch => self.fault("watch broken", Cluster::break_watch),
            Deed::RepeatEvents => self.fault("events repeated", Cluster::repeat_events),
            Deed::Forget => {
                self.fault("memory lost", |cluster| cluster.engine.forget());
                self.forgot = true;
            }
            Deed::Crash => self.crash(),
            Deed::Switch => self.loops.switch(&mut self.cluster),
            // Nodes that cannot be heard are not calm.
            Deed::FillDisk => self.machine.fill(!self.calm),
            Deed::FreeDisk => self.machine.fill(false),
            Deed::NodeFault => self.nodes.fault(&mut self.cluster, &self.truth.world, &mut self.marks),
            Deed::Land => self.loops.land(&mut self.cluster, false, &mut self.marks),
            Deed::CutPower => self.machine.light_fuse(&mut self.cluster.rng),
            Deed::SetClock => self.set_clock(),
        }
        if self.machine.is_off() {
            self.start_again()?;
        }
        self.check()
    }

    /// The power was cut, and is back: the store starts again with what the disk has, and so do all loops.
    fn start_again(&mut self) -> Result<(), String> {
        let cluster = &mut self.cluster;
        let in_commit = cluster.store.failure().is_some();
        self.marks.note(if in_commit { "power cut in the middle of a commit" } else { "power cut" });
        self.machine.turn_on(&mut cluster.rng);
        cluster.store = self.machine.start().map_err(|error| format!("the log cannot be read: {error}"))?;
        let (last, told) = (cluster.store.snapshot().revision(), cluster.acknowledged);
        if last < told {
            return Err(format!("{told} was acknowledged and is lost: the last is {last}"));
        }
        self.truth.follow_again(&cluster.store);
        self.loops.start_again(cluster);
        self.nodes.start_again(cluster);
        self.forgot = true;
        Ok(())
    }

    /// What happens to a loop that runs.
    fn fault(&mut self, mark: &'static str, deed: impl FnOnce(&mut Cluster)) {
        if self.loops.may_act(&self.cluster) {
            deed(&mut self.cluster);
            self.marks.note(mark);
        }
    }

    /// The loop does something, if it may.
    fn act(&mut self, deed: Deed) -> Result<(), String> {
        let lucky = self.cluster.rng.u8(..8) > 0;
        self.loops.elect(&mut self.cluster, lucky, &mut self.marks);
        self.loops.check(&self.cluster)?;
        if !self.loops.may_act(&self.cluster) {
            return Ok(());
        }
        match deed {
            Deed::Observe => self.cluster.observe_some(),
            Deed::Plan => {
                self.cluster.plan();
                self.cluster.reply(|_| Err("nobody knows".to_owned()));
            }
            Deed::LoseWrite if self.cluster.next_write().is_some() => {
                self.cluster.lose_write();
                self.marks.note("write lost");
            }
            Deed::LoseAnswer if self.cluster.next_write().is_some() => {
                self.cluster.lose_answer();
                self.marks.note("answer lost");
            }
            _ => {
                lose_events(&mut self.cluster);
                for _ in 0..self.cluster.rng.u32(1..8) {
                    if self.cluster.perform() && self.machine.is_full() {
                        self.marks.note("disk full refused a controller");
                    }
                }
            }
        }
        Ok(())
    }

    fn wait(&mut self) {
        // A disk that is full or without power says so to whoever writes. It is tended before anything happens that the
        // truth has not seen, for the store may forget what it folds.
        let _ = self.cluster.store.run_maintenance(self.cluster.now);
        let rng = &mut self.cluster.rng;
        let span = match rng.u8(..24) {
            0..16 => Duration::from_micros(1 << rng.u32(8..24)),
            // Long enough for pods to be taken from a node that is not heard of.
            16..18 if !self.calm => Duration::from_secs(rng.u64(40..400)),
            _ => Duration::from_secs(rng.u64(1..40)),
        };
        self.cluster.now = self.cluster.now.after(span);
        self.nodes.beat(&mut self.cluster);
    }

    /// The clock is set back or forward by minutes to hours, or set right again; or the machine sleeps for as long.
    fn set_clock(&mut self) {
        let step = Duration::from_secs(self.cluster.rng.u64(60..4 * 3600));
        if self.clock_off != (Duration::ZERO, Duration::ZERO) && self.cluster.rng.bool() {
            return self.set_clock_right();
        }
        let now = self.cluster.now;
        match self.cluster.rng.u8(..4) {
            0..2 => {
                self.marks.note("clock was set back");
                self.clock_off.0 += step;
                self.jump_to(now.before(step));
            }
            2 if self.clock_off.1.is_zero() => {
                self.marks.note("clock was set forward");
                // What was written meanwhile stays in the future: a Job waits as much longer after a failure, a pod for
                // the end of its grace. That must end within the time that is given to heal.
                self.clock_off.1 = step.min(FORWARD_MAX);
                self.jump_to(now.after(self.clock_off.1));
            }
            _ => {
                self.marks.note("machine slept");
                self.jump_to(now.after(step));
            }
        }
    }

    fn set_clock_right(&mut self) {
        let (back, forward) = std::mem::take(&mut self.clock_off);
        if back > forward {
            self.marks.note("clock was set right again");
        } else if forward > back {
            self.marks.note("clock was ahead and set right again");
        }
        if back != forward {
            self.jump_to(self.cluster.now.after(back).before(forward));
        }
    }

    /// Sets the clock, and every loop and candidate notices.
    fn jump_to(&mut self, to: Time) {
        let jump = Jump::between(self.cluster.now, to);
        self.loops.elections_jumped(jump);
        if self.waits_by_wall_clock {
            self.cluster.now = to;
            return;
        }
        self.cluster.set_clock(to);
        self.loops.clock_jumped(jump, to);
        self.nodes.clock_jumped(jump, to);
    }

    fn edit(&mut self) {
        let number = self.scenarios[self.cluster.rng.usize(..self.scenarios.len())];
        let edited = (users::ALL[number].edit)(&mut self.desk());
        match edited {
            Ok(_) => self.marks.note("edit"),
            Err(_) if self.machine.is_full() => self.marks.note("disk full refused a user"),
            Err(_) => self.marks.note("edit refused"),
        }
    }

    /// Somebody else writes an object that controllers write too.
    fn rival(&mut self) {
        let cluster = &mut self.cluster;
        let resource = CONTESTED[cluster.rng.usize(..CONTESTED.len())];
        let objects = cluster.list(resource);
        let Some(object) = cluster.rng.choice(&objects) else { return };
        let word = format!("{:x}", cluster.rng.u16(..));
        let patch = value!({"metadata": {"annotations": {"rival": (word)}}});
        if cluster.patch(resource, &path(object), "", patch).is_ok() {
            self.marks.note("rival wrote");
        }
    }

    fn crash(&mut self) {
        let busy = self.cluster.next_write().is_some();
        self.fault(if busy { "crash between two writes" } else { "crash with nothing under way" }, |_| ());
        self.loops.crash(&mut self.cluster);
    }

    /// Holds everything that was committed against the checks.
    fn check(&mut self) -> Result<(), String> {
        let Trial { truth, cluster, checks, marks, calm, .. } = self;
        let (now, calm) = (cluster.now, *calm);
        truth.catch_up(&mut cluster.origins, |world, changes| {
            let scene = Scene { world, changes, now, calm };
            for change in changes {
                for check in checks.iter_mut() {
                    check.see(change, &scene, marks)?;
                }
            }
            Ok(())
        })
    }

    /// The second phase: the faults end, and everything comes to rest within [`HEALING`] and stays so.
    ///
    /// # Errors
    /// If it does not.
    pub fn heal(&mut self) -> Result<(), String> {
        // Identities are drawn from it too, so it must not be drawn from twice.
        self.cluster.rng = Rng::with_seed(!self.seed);
        self.cluster.history.push("[the faults end]".to_owned());
        self.set_clock_right();
        self.machine.fill(false);
        self.machine.put_out_fuse();
        self.nodes.heal(&mut self.cluster, &self.truth.world);
        users::put_right(&mut self.desk());
        let end = self.cluster.now.after(HEALING);
        self.live(PAUSE)?;
        self.loops.land(&mut self.cluster, true, &mut self.marks);
        if self.forgot {
            self.live(REST)?;
        }
        loop {
            self.live(PAUSE)?;
            let rest = self.at_rest();
            if rest.is_ok() {
                break;
            }
            if self.cluster.now > end {
                return rest;
            }
        }
        let before = self.truth.last_work;
        self.live(REST)?;
        let after = self.truth.last_work;
        if before != after {
            let what = &self.truth.last_worker;
            return Err(format!(
                "there was work after all had come to rest: {what} at {after}, after {before}"
            ));
        }
        self.at_rest()
    }

    /// Whether everything is as it is wanted, and no controller wants anything more.
    fn at_rest(&mut self) -> Result<(), String> {
        if !self.loops.may_act(&self.cluster) {
            return Err("nobody leads".to_owned());
        }
        let world = &self.truth.world;
        checks::at_rest(world)?;
        self.checks.iter().try_for_each(|check| check.finally(world))?;
        let gaps = self.cluster.engine.gaps(self.cluster.now, Seed(7));
        if !gaps.is_empty() {
            return Err(format!("not quiet: {gaps:#?}"));
        }
        self.nodes.check_quiet(&mut self.cluster)
    }

    /// Whether a planner panicked.
    ///
    /// # Errors
    /// If one did.
    pub fn check_panics(&mut self) -> Result<(), String> {
        let panicked = self.cluster.engine.stats().find(|(_, _, stats)| stats.panics > 0);
        if let Some((name, ..)) = panicked {
            return Err(format!("{name} panicked"));
        }
        if self.nodes.has_panicked(&mut self.cluster) {
            return Err("a planner of the nodes panicked".to_owned());
        }
        Ok(())
    }

    /// Lets everything happen that is due in a span, without faults.
    fn live(&mut self, span: Duration) -> Result<(), String> {
        let end = self.cluster.now.after(span);
        loop {
            self.lead();
            let wake = self.settle()?;
            let next = self.cluster.now.after(Duration::from_secs(5));
            self.cluster.now =
                wake.filter(|wake| *wake > self.cluster.now).map_or(next, |wake| wake.min(next));
            self.nodes.beat(&mut self.cluster);
            if self.cluster.now >= end {
                return Ok(());
            }
        }
    }

    /// Somebody leads, sooner or later.
    fn lead(&mut self) {
        self.loops.elect(&mut self.cluster, true, &mut self.marks);
        if !self.loops.may_act(&self.cluster) {
            self.loops.switch(&mut self.cluster);
            self.loops.elect(&mut self.cluster, true, &mut self.marks);
        }
    }

    /// Loop and nodes go on by turns until both rest. Says when they want to go on.
    fn settle(&mut self) -> Result<Option<Time>, String> {
        /// How many turns that may take.
        const TURNS_MAX: usize = 300;
        for _ in 0..TURNS_MAX {
            let mut wake = None;
            let before = self.truth.last_work;
            let scrambles = self.habits.scrambles && self.cluster.rng.u8(..4) > 0;
            if self.loops.may_act(&self.cluster) {
                self.loops.check(&self.cluster)?;
                if scrambles {
                    self.cluster.observe_some()
                } else {
                    self.cluster.mend_watches()
                }
                wake = self.cluster.plan();
                self.cluster.reply(|_| Err("nobody knows".to_owned()));
                self.perform_all();
            }
            self.check()?;
            let busy = self.truth.last_work != before
                || scrambles
                || wake.is_some_and(|wake| wake <= self.cluster.now);
            if !busy {
                let nodes = self.nodes.work_all(&mut self.cluster)?;
                self.check()?;
                if self.truth.last_work == before {
                    // Nodes may be a moment late: that spares many turns.
                    let nodes = nodes.map(|wake| wake.max(self.cluster.now.after(MOMENT)));
                    return Ok(wake.into_iter().chain(nodes).min());
                }
            }
        }
        let (what, last) = (&self.truth.last_worker, self.truth.last_work);
        Err(format!("no rest after {TURNS_MAX} turns at one moment: {what} at {last}"))
    }

    /// The nodes do all of their work.
    pub fn let_nodes_work(&mut self) {
        self.nodes.work_all(&mut self.cluster).unwrap_or_else(|why| panic!("{why}"));
    }

    fn perform_all(&mut self) {
        lose_events(&mut self.cluster);
        while self.cluster.next_write().is_some() {
            if self.habits.repeats {
                self.cluster.perform_unheard();
            }
            self.cluster.perform();
            self.writes += 1;
            if self.habits.crashes_after == Some(self.writes) {
                self.loops.crash(&mut self.cluster);
            }
        }
    }

    /// Checks nothing any more: for habits that break what is checked.
    pub fn without_checks(&mut self) {
        self.checks.clear();
    }

    /// Where everything has come to: what there is, under which owners, and how it stands, but for names, places and
    /// times that are left to chance. Runs of Jobs are left out: how many there are is left to chance too.
    #[must_use]
    pub fn place(&self) -> BTreeMap<String, usize> {
        let world = &self.truth.world;
        let mut place = BTreeMap::new();
        for object in world.resources().flat_map(|resource| world.all(resource.as_str())) {
            let owner = object.meta().owner_references.first();
            let is_run = owner.is_some_and(|owner| &*owner.kind == "Job");
            if !is_run && !matches!(object.key().resource().as_str(), "events" | "leases.coordination.k8s.io")
            {
                *place.entry(portrait(object)).or_default() += 1;
            }
        }
        place
    }
}

/// A default class whose volumes are made where their first consumer is.
fn class() -> Value {
    value!({
        "metadata": {
            "name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "kubernetes.io/host-path",
        "volumeBindingMode": "WaitForFirstConsumer",
    })
}

/// Loses most of what a loop tells people. There is as much of that as of all else, and little that can go wrong with it.
pub fn lose_events(cluster: &mut Cluster) {
    while cluster.rng.u8(..8) > 0 && cluster.lose_first(|sent| sent.write.resource().as_str() == "events") {}
}

/// An object as it is found in every run.
fn portrait(object: &Object) -> String {
    const NUMBERS: [&str; 8] = [
        "replicas",
        "readyReplicas",
        "availableReplicas",
        "updatedReplicas",
        "numberReady",
        "currentHealthy",
        "desiredHealthy",
        "phase",
    ];
    let value = object.value();
    let resource = object.key().resource().as_str();
    let prefix = value.str_at(&["metadata", "generateName"]);
    let name = match resource {
        "ipaddresses.networking.k8s.io" | "persistentvolumes" => "*",
        _ if !prefix.is_empty() => prefix,
        _ => object.key().name(),
    };
    let owners = object.meta().owner_references.iter().map(|owner| format!("{}/{}", owner.kind, owner.name));
    let status =
        NUMBERS.map(|field| value.at(&["status", field]).map_or(String::new(), setpoint_api::json::to_text));
    let namespace = &object.meta().namespace;
    format!("{resource} {namespace}/{name} of {:?}: {}", owners.collect::<Vec<_>>(), status.join(" "))
}
