//! Run of a campaign: executes a schedule step by step, and checks every commit.
//!
//! Start at [`CampaignRun::step`] for the phase with faults, and at [`CampaignRun::converge`] for the phase after
//! them.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use setpoint_api::{Time, Value, value};
use setpoint_reconcile::{Jump, Object, Seed};

use super::candidates::Candidates;
use super::checks::{self, Check, CommitContext};
use super::coverage::CoverageMarks;
use super::ground_truth::GroundTruth;
use super::machine::Machine;
use super::nodes::NodeLoop;
use super::schedule::{Schedule, ScheduleAction, ScheduleStep};
use super::users::{self, UserSession};
use crate::campaign::{Setup, path};
use crate::cluster::Cluster;

/// Resources whose objects a rival writes.
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

/// Time within which everything must converge after the faults: four times the longest backoff.
pub const CONVERGENCE_MAX: Duration = Duration::from_secs(1200);
/// Time for which everything must stay quiet after that: longer than a resync interval.
const QUIET_PERIOD: Duration = Duration::from_secs(35);
/// Time between checks for convergence.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// Delay of nodes, which saves turns.
const NODE_DELAY: Duration = Duration::from_secs(2);

/// Behavior of the loop in the second phase; by default without deviations.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoopBehavior {
    /// Number of writes after which the loop crashes.
    pub crash_after_writes: Option<usize>,
    /// Delivers events late, and in any order between resources.
    pub delays_events: bool,
    /// Performs every write twice, the first time without a response.
    pub repeats_writes: bool,
}

/// A run in progress.
pub struct CampaignRun {
    /// The control plane.
    pub cluster: Cluster,
    /// Coverage marks that were reached.
    pub marks: CoverageMarks,
    /// Candidates for leadership.
    pub candidates: Candidates,
    /// Behavior of the loop in the second phase.
    pub behavior: LoopBehavior,
    /// Writes that were performed in the second phase.
    pub writes: usize,
    ground_truth: GroundTruth,
    nodes: NodeLoop,
    checks: Vec<Box<dyn Check>>,
    machine: Machine,
    calm: bool,
    /// `true` if the loop lost its memos, and will emit Events again at the next resync.
    lost_memos: bool,
    scenarios: Vec<usize>,
    seed: u64,
    /// Times by which the clock was set back and forward.
    clock_offset: (Duration, Duration),
    waits_by_wall_clock: bool,
}

/// Maximum step by which the clock is set forward, to be set back later. Less than [`CONVERGENCE_MAX`].
const FORWARD_MAX: Duration = Duration::from_secs(900);

impl CampaignRun {
    /// Creates the cluster and what its scenarios start with.
    ///
    /// # Panics
    /// If a check fails at the start.
    #[must_use]
    pub fn new(setup: Setup, schedule: &Schedule, keeps_history: bool) -> CampaignRun {
        let machine = Machine::new(schedule.on_disk, setup.ignores_syncs);
        let store = machine.start().expect("an empty log is always readable");
        let ground_truth = GroundTruth::new(&store);
        let mut cluster = Cluster::with_store(store, setup.controllers, schedule.seed);
        cluster.keeps_history = keeps_history;
        for name in ["kube-system", "kube-node-lease"] {
            cluster.create("namespaces", "", value!({"metadata": {"name": (name)}}));
        }
        if schedule.seed.is_multiple_of(2) {
            cluster.create("storageclasses.storage.k8s.io", "", default_storage_class());
        }
        let range = value!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.0.0.0/16"]}});
        cluster.create("servicecidrs.networking.k8s.io", "", range);
        let mut candidates = Candidates::new(&mut cluster, setup.controllers);
        candidates.ignores_lease = setup.ignores_lease;
        let nodes = NodeLoop::new(&mut cluster, setup.nodes, schedule.calm);
        let mut run = CampaignRun {
            cluster,
            marks: CoverageMarks::default(),
            candidates,
            behavior: LoopBehavior::default(),
            writes: 0,
            ground_truth,
            nodes,
            checks: checks::all(),
            machine,
            calm: schedule.calm,
            lost_memos: false,
            scenarios: schedule.scenarios.clone(),
            seed: schedule.seed,
            clock_offset: (Duration::ZERO, Duration::ZERO),
            waits_by_wall_clock: setup.waits_by_wall_clock,
        };
        run.cluster.webhooks.is_bypassed = setup.ignores_webhooks;
        for number in schedule.scenarios.clone() {
            (users::ALL[number].begin)(&mut run.session());
        }
        run.check().expect("checks pass before the first fault");
        run
    }

    fn session(&mut self) -> UserSession<'_> {
        UserSession { cluster: &mut self.cluster, calm: self.calm, marks: &mut self.marks }
    }

    /// Executes a step of the first phase, and checks its commits.
    ///
    /// # Errors
    /// If a check fails.
    pub fn step(&mut self, step: ScheduleStep) -> Result<(), String> {
        self.cluster.rng = Rng::with_seed(step.seed);
        if self.cluster.keeps_history {
            self.cluster.history.push(format!("[{:?} at {}]", step.action, self.cluster.now.0));
        }
        self.cluster.poll_webhooks();
        if !self.machine.is_off() {
            self.check()?;
        }
        match step.action {
            ScheduleAction::Observe
            | ScheduleAction::Plan
            | ScheduleAction::Write
            | ScheduleAction::LoseWrite
            | ScheduleAction::LoseResponse => self.act(step.action)?,
            ScheduleAction::Wait => self.wait(),
            ScheduleAction::Nodes => {
                self.nodes.work_some(&mut self.cluster, &self.ground_truth.world.reader(), &mut self.marks)
            }
            ScheduleAction::Edit => self.edit(),
            ScheduleAction::RivalWrite => self.write_as_rival(),
            ScheduleAction::BreakWatch => self.inject_loop_fault("watch broken", Cluster::break_watch),
            ScheduleAction::RepeatEvents => self.inject_loop_fault("events repeated", Cluster::repeat_events),
            ScheduleAction::LoseMemos => {
                self.inject_loop_fault("memos lost", |cluster| cluster.engine.drop_soft_state());
                self.lost_memos = true;
            }
            ScheduleAction::Crash => self.crash(),
            ScheduleAction::SwitchCandidate => self.candidates.switch(&mut self.cluster),
            // Heartbeats would fail on a full disk, so a calm run has none.
            ScheduleAction::FillDisk => self.machine.set_disk_full(!self.calm),
            ScheduleAction::FreeDisk => self.machine.set_disk_full(false),
            ScheduleAction::NodeFault => {
                self.nodes.inject_fault(&mut self.cluster, &self.ground_truth.world.reader(), &mut self.marks)
            }
            ScheduleAction::DeliverLateWrites => {
                self.candidates.deliver_late_writes(&mut self.cluster, false, &mut self.marks)
            }
            ScheduleAction::CutPower => self.machine.arm_power_cut(&mut self.cluster.rng),
            ScheduleAction::SetClock => self.set_clock(),
        }
        if self.machine.is_off() {
            self.restart_after_power_cut()?;
        }
        self.check()
    }

    /// Restarts the store from what the disk kept, and all loops.
    fn restart_after_power_cut(&mut self) -> Result<(), String> {
        let cluster = &mut self.cluster;
        let in_commit = cluster.store.failure().is_some();
        self.marks.record(if in_commit { "power cut during a commit" } else { "power cut" });
        self.machine.restore_power(&mut cluster.rng);
        let store = self.machine.start().map_err(|error| format!("the log cannot be read: {error}"))?;
        cluster.reopen(store);
        let (last, acknowledged) = (cluster.store.snapshot().revision(), cluster.acknowledged);
        if last < acknowledged {
            return Err(format!("{acknowledged} was acknowledged and is lost: the last is {last}"));
        }
        self.ground_truth.resume(&cluster.store);
        self.candidates.restart_all(cluster);
        self.nodes.restart(cluster);
        self.lost_memos = true;
        Ok(())
    }

    /// Applies a fault to the loop, if it runs.
    fn inject_loop_fault(&mut self, mark: &'static str, action: impl FnOnce(&mut Cluster)) {
        if self.candidates.can_act(&self.cluster) {
            action(&mut self.cluster);
            self.marks.record(mark);
        }
    }

    /// Lets the loop act, if it leads.
    fn act(&mut self, action: ScheduleAction) -> Result<(), String> {
        let gets_response = self.cluster.rng.u8(..8) > 0;
        self.candidates.run_election(&mut self.cluster, gets_response, &mut self.marks);
        self.candidates.check_single_leader(&self.cluster)?;
        if !self.candidates.can_act(&self.cluster) {
            return Ok(());
        }
        match action {
            ScheduleAction::Observe => self.cluster.observe_some(),
            ScheduleAction::Plan => {
                self.cluster.plan();
                self.cluster.reply_from_store();
            }
            ScheduleAction::LoseWrite if self.cluster.next_write().is_some() => {
                self.cluster.lose_write();
                self.marks.record("write lost");
            }
            ScheduleAction::LoseResponse if self.cluster.next_write().is_some() => {
                self.cluster.lose_response();
                self.marks.record("response lost");
            }
            _ => {
                drop_events(&mut self.cluster);
                for _ in 0..self.cluster.rng.u32(1..8) {
                    if self.cluster.perform() && self.machine.is_disk_full() {
                        self.marks.record("full disk rejected a controller");
                    }
                }
            }
        }
        Ok(())
    }

    fn wait(&mut self) {
        // Maintenance runs before any commit that the ground truth has not seen, since the store may compact it. A
        // full or broken disk is reported to the next writer.
        let _ = self.cluster.store.run_maintenance(self.cluster.now);
        let rng = &mut self.cluster.rng;
        let span = match rng.u8(..24) {
            0..16 => Duration::from_micros(1 << rng.u32(8..24)),
            // Long enough to evict pods from an unreachable node.
            16..18 if !self.calm => Duration::from_secs(rng.u64(40..400)),
            _ => Duration::from_secs(rng.u64(1..40)),
        };
        self.cluster.now = self.cluster.now.after(span);
        self.nodes.send_heartbeats(&mut self.cluster);
    }

    /// Sets the clock back or forward by minutes to hours, sets it right again, or lets the machine sleep for as long.
    fn set_clock(&mut self) {
        let step = Duration::from_secs(self.cluster.rng.u64(60..4 * 3600));
        if self.clock_offset != (Duration::ZERO, Duration::ZERO) && self.cluster.rng.bool() {
            return self.set_clock_right();
        }
        let now = self.cluster.now;
        match self.cluster.rng.u8(..4) {
            0..2 => {
                self.marks.record("clock was set back");
                self.clock_offset.0 += step;
                self.jump_to(now.before(step));
            }
            2 if self.clock_offset.1.is_zero() => {
                self.marks.record("clock was set forward");
                // Timestamps of this period stay in the future and extend backoffs and grace periods. These must end
                // before convergence is due.
                self.clock_offset.1 = step.min(FORWARD_MAX);
                self.jump_to(now.after(self.clock_offset.1));
            }
            _ => {
                self.marks.record("machine slept");
                self.jump_to(now.after(step));
            }
        }
    }

    fn set_clock_right(&mut self) {
        let (back, forward) = std::mem::take(&mut self.clock_offset);
        if back > forward {
            self.marks.record("clock was set right again");
        } else if forward > back {
            self.marks.record("clock was ahead and set right again");
        }
        if back != forward {
            self.jump_to(self.cluster.now.after(back).before(forward));
        }
    }

    /// Sets the clock and notifies all loops and candidates.
    fn jump_to(&mut self, to: Time) {
        let jump = Jump::between(self.cluster.now, to);
        self.candidates.shift_elections(jump);
        if self.waits_by_wall_clock {
            self.cluster.now = to;
            return;
        }
        self.cluster.set_clock(to);
        self.candidates.clock_jumped(jump, to);
        self.nodes.clock_jumped(jump, to);
    }

    fn edit(&mut self) {
        let number = self.scenarios[self.cluster.rng.usize(..self.scenarios.len())];
        let edited = (users::ALL[number].edit)(&mut self.session());
        match edited {
            Ok(_) => self.marks.record("edit"),
            Err(_) if self.machine.is_disk_full() => self.marks.record("full disk rejected a user"),
            Err(_) => self.marks.record("edit rejected"),
        }
    }

    /// Writes an object that controllers also write.
    fn write_as_rival(&mut self) {
        let cluster = &mut self.cluster;
        let resource = CONTESTED[cluster.rng.usize(..CONTESTED.len())];
        let objects = cluster.list(resource);
        let Some(object) = cluster.rng.choice(&objects) else { return };
        let word = format!("{:x}", cluster.rng.u16(..));
        let patch = value!({"metadata": {"annotations": {"rival": (word)}}});
        if cluster.patch(resource, &path(object), "", patch).is_ok() {
            self.marks.record("rival wrote");
        }
    }

    fn crash(&mut self) {
        let busy = self.cluster.next_write().is_some();
        self.inject_loop_fault(
            if busy { "crash between two writes" } else { "crash without writes in flight" },
            |_| (),
        );
        self.candidates.crash(&mut self.cluster);
    }

    /// Checks the commits since the last call.
    fn check(&mut self) -> Result<(), String> {
        let CampaignRun { ground_truth, cluster, checks, marks, calm, .. } = self;
        let (now, calm) = (cluster.now, *calm);
        if let Some(violation) = cluster.webhooks.violation.take() {
            return Err(violation);
        }
        let admissions = std::mem::take(&mut cluster.admissions);
        ground_truth.catch_up(&cluster.store, &mut cluster.origins, |world, changes| {
            let admission = changes.first().and_then(|change| admissions.get(&change.revision));
            let context = CommitContext { world, changes, admission, now, calm };
            for change in changes {
                for check in checks.iter_mut() {
                    check.check_change(change, &context, marks)?;
                }
            }
            Ok(())
        })
    }

    /// Runs the second phase: ends all faults, and waits until everything is converged and quiet.
    ///
    /// # Errors
    /// If convergence takes longer than [`CONVERGENCE_MAX`].
    pub fn converge(&mut self) -> Result<(), String> {
        // UIDs are drawn from it too, so its seed must differ from that of the first phase.
        self.cluster.rng = Rng::with_seed(!self.seed);
        self.cluster.history.push("[the faults end]".to_owned());
        self.set_clock_right();
        self.machine.set_disk_full(false);
        self.machine.disarm_power_cut();
        self.nodes.heal(&mut self.cluster, &self.ground_truth.world.reader());
        users::end_edits(&mut self.session());
        let end = self.cluster.now.after(CONVERGENCE_MAX);
        self.run_for(CHECK_INTERVAL)?;
        self.candidates.deliver_late_writes(&mut self.cluster, true, &mut self.marks);
        if self.lost_memos {
            self.run_for(QUIET_PERIOD)?;
        }
        loop {
            self.run_for(CHECK_INTERVAL)?;
            users::release_instances(&mut self.session());
            let rest = self.check_converged();
            if rest.is_ok() {
                break;
            }
            if self.cluster.now > end {
                return rest;
            }
        }
        let before = self.ground_truth.last_work;
        self.run_for(QUIET_PERIOD)?;
        let after = self.ground_truth.last_work;
        if before != after {
            let change = &self.ground_truth.last_change;
            return Err(format!("commits after convergence: {change} at {after}, after {before}"));
        }
        self.check_converged()
    }

    /// Checks that every object has its desired state and no controller has anything to write.
    fn check_converged(&mut self) -> Result<(), String> {
        if !self.candidates.can_act(&self.cluster) {
            return Err("no candidate leads".to_owned());
        }
        if self.cluster.next_answer_at().is_some() {
            return Err("webhooks have not answered yet".to_owned());
        }
        let world = &self.ground_truth.world;
        checks::check_converged(&world.reader())?;
        self.checks.iter().try_for_each(|check| check.check_final(&world.reader()))?;
        let gaps = self.cluster.engine.gaps(self.cluster.now, Seed(7));
        if !gaps.is_empty() {
            return Err(format!("not quiet: {gaps:#?}"));
        }
        self.nodes.check_quiet(&mut self.cluster)
    }

    /// Checks that no planner panicked.
    ///
    /// # Errors
    /// If a planner panicked.
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

    /// Runs everything that is due in a span, without faults.
    fn run_for(&mut self, span: Duration) -> Result<(), String> {
        let end = self.cluster.now.after(span);
        loop {
            self.ensure_leader();
            let next_turn_at = self.settle()?;
            let next = self.cluster.now.after(Duration::from_secs(5));
            let next_turn_at = next_turn_at.into_iter().chain(self.cluster.next_answer_at()).min();
            self.cluster.now = next_turn_at
                .filter(|next_turn_at| *next_turn_at > self.cluster.now)
                .map_or(next, |next_turn_at| next_turn_at.min(next));
            self.nodes.send_heartbeats(&mut self.cluster);
            if self.cluster.now >= end {
                return Ok(());
            }
        }
    }

    /// Runs elections until one candidate leads.
    fn ensure_leader(&mut self) {
        self.candidates.run_election(&mut self.cluster, true, &mut self.marks);
        if !self.candidates.can_act(&self.cluster) {
            self.candidates.switch(&mut self.cluster);
            self.candidates.run_election(&mut self.cluster, true, &mut self.marks);
        }
    }

    /// Runs the loop and the nodes by turns until neither has work. Returns the time of the next turn.
    fn settle(&mut self) -> Result<Option<Time>, String> {
        /// Turns within which both must settle.
        const TURNS_MAX: usize = 300;
        for _ in 0..TURNS_MAX {
            let mut next_turn_at = None;
            let before = self.ground_truth.last_work;
            self.cluster.poll_webhooks();
            let scrambles = self.behavior.delays_events && self.cluster.rng.u8(..4) > 0;
            if self.candidates.can_act(&self.cluster) {
                self.candidates.check_single_leader(&self.cluster)?;
                if scrambles {
                    self.cluster.observe_some()
                } else {
                    self.cluster.mend_watches()
                }
                next_turn_at = self.cluster.plan();
                self.cluster.reply_from_store();
                self.perform_all();
            }
            self.check()?;
            let busy = self.ground_truth.last_work != before
                || scrambles
                || next_turn_at.is_some_and(|next_turn_at| next_turn_at <= self.cluster.now);
            if !busy {
                let nodes = self.nodes.work_all(&mut self.cluster)?;
                self.check()?;
                if self.ground_truth.last_work == before {
                    // A delay of the nodes saves many turns.
                    let nodes =
                        nodes.map(|next_turn_at| next_turn_at.max(self.cluster.now.after(NODE_DELAY)));
                    return Ok(next_turn_at.into_iter().chain(nodes).min());
                }
            }
        }
        let (change, last) = (&self.ground_truth.last_change, self.ground_truth.last_work);
        Err(format!("the cluster did not settle within {TURNS_MAX} turns at one time: {change} at {last}"))
    }

    /// Lets the nodes do all of their work.
    ///
    /// # Panics
    /// If the nodes do not become idle.
    pub fn run_nodes(&mut self) {
        self.nodes.work_all(&mut self.cluster).unwrap_or_else(|message| panic!("{message}"));
    }

    fn perform_all(&mut self) {
        drop_events(&mut self.cluster);
        while self.cluster.next_write().is_some() {
            if self.behavior.repeats_writes {
                self.cluster.perform_without_response();
            }
            self.cluster.perform();
            self.writes += 1;
            if self.behavior.crash_after_writes == Some(self.writes) {
                self.candidates.crash(&mut self.cluster);
            }
        }
    }

    /// Disables the checks, for a behavior that violates them.
    pub fn disable_checks(&mut self) {
        self.checks.clear();
    }

    /// Counts the objects by description: kind, owners and status, without random names, nodes and times. Pods of Jobs
    /// are left out, since their number is random.
    #[must_use]
    pub fn final_state(&self) -> BTreeMap<String, usize> {
        let world = &self.ground_truth.world;
        let mut place = BTreeMap::new();
        for object in world.reader().resources().flat_map(|resource| world.reader().all(resource.as_str())) {
            let owner = object.meta().owner_references.first();
            let is_run = owner.is_some_and(|owner| &*owner.kind == "Job");
            if !is_run && !matches!(object.key().resource().as_str(), "events" | "leases.coordination.k8s.io")
            {
                *place.entry(describe(object)).or_default() += 1;
            }
        }
        place
    }
}

/// Returns a default storage class with `WaitForFirstConsumer`.
fn default_storage_class() -> Value {
    value!({
        "metadata": {
            "name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "kubernetes.io/host-path",
        "volumeBindingMode": "WaitForFirstConsumer",
    })
}

/// Drops most Event writes of a loop: they are half of all writes, and little can go wrong with them.
pub fn drop_events(cluster: &mut Cluster) {
    while cluster.rng.u8(..8) > 0
        && cluster.lose_first(|request| request.write.resource().as_str() == "events")
    {}
}

/// Describes an object by what is the same in every run.
fn describe(object: &Object) -> String {
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
