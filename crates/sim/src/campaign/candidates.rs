//! Leader election: two candidates for one loop. Only the holder of the Lease may act, and never both. Late writes of
//! a deposed leader can arrive while its successor leads.

use setpoint_api::{Revision, Time, value};
use setpoint_reconcile::election::{LeaderElectionRecord, LeaderElector, LeaseAction};
use setpoint_reconcile::{Jump, WriteRequest};

use super::coverage::CoverageMarks;
use crate::cluster::{Cluster, Controllers, ParkedLoop};

const LEASES: &str = "leases.coordination.k8s.io";
const LEASE: &str = "kube-system/kube-controller-manager";
/// Maximum number of writes in flight of a deposed leader.
const LATE_WRITES_MAX: usize = 4;

struct Candidate {
    name: &'static str,
    elector: LeaderElector,
    /// `true` if its loop runs: only while it leads.
    is_running: bool,
}

/// Two candidates. The loop of the one whose turn it is runs in the cluster.
pub struct Candidates {
    candidates: [Candidate; 2],
    turn: usize,
    other_loop: ParkedLoop,
    /// Writes in flight of deposed leaders, with their senders.
    late_writes: Vec<(&'static str, WriteRequest)>,
    /// Seeded bug: candidates act without holding the Lease.
    pub ignores_lease: bool,
}

impl Candidates {
    /// Returns two candidates of which none leads.
    #[must_use]
    pub fn new(cluster: &mut Cluster, controllers: Controllers) -> Candidates {
        cluster.stop();
        let candidate = |name: &'static str| Candidate {
            name,
            elector: LeaderElector::new(name.to_owned()),
            is_running: false,
        };
        let candidates = [candidate("alpha_1"), candidate("beta_2")];
        let other_loop = Cluster::new_parked_loop(controllers, &[]);
        Candidates { candidates, turn: 0, other_loop, late_writes: Vec::new(), ignores_lease: false }
    }

    /// Notifies the electors of both candidates that the clock was set.
    pub fn shift_elections(&mut self, jump: Jump) {
        for candidate in &mut self.candidates {
            candidate.elector.clock_jumped(jump);
        }
    }

    /// Notifies the parked loop that the clock was set.
    pub fn clock_jumped(&mut self, jump: Jump, now: Time) {
        self.other_loop.clock_jumped(jump, now);
    }

    /// Gives the turn to the other candidate.
    pub fn switch(&mut self, cluster: &mut Cluster) {
        self.turn = 1 - self.turn;
        cluster.swap_loop(&mut self.other_loop);
    }

    /// Runs the election of the candidate whose turn it is, if that is due. Without `gets_response` its write arrives
    /// and the response is lost. Its loop starts when it becomes leader, and stops when it is deposed.
    pub fn run_election(&mut self, cluster: &mut Cluster, gets_response: bool, marks: &mut CoverageMarks) {
        let candidate = &mut self.candidates[self.turn];
        if cluster.now >= candidate.elector.retry_at() {
            let was = holder(cluster);
            let step = candidate.elector.try_acquire_or_renew(read_lease(cluster), cluster.now);
            if write_lease(cluster, step) {
                if gets_response {
                    candidate.elector.lease_written(cluster.now);
                } else {
                    marks.record("election lost a response");
                }
                if !was.is_empty() && was != candidate.name {
                    marks.record("leader changed");
                }
            }
        }
        let is_leading = candidate.elector.is_leader(cluster.now) || self.ignores_lease;
        if is_leading && !candidate.is_running {
            cluster.crash();
        } else if !is_leading && candidate.is_running {
            let writes = cluster.take_writes();
            if !writes.is_empty() {
                marks.record("leader deposed with writes in flight");
            }
            self.late_writes
                .extend(writes.into_iter().take(LATE_WRITES_MAX).map(|request| (candidate.name, request)));
            cluster.stop();
        }
        candidate.is_running = is_leading;
    }

    /// Delivers late writes of deposed leaders, if another candidate leads: some of them, or `all`.
    pub fn deliver_late_writes(&mut self, cluster: &mut Cluster, all: bool, marks: &mut CoverageMarks) {
        let holder = holder(cluster);
        let mut waiting = Vec::new();
        for (sender, request) in std::mem::take(&mut self.late_writes) {
            if sender == holder || !(all || cluster.rng.bool()) {
                waiting.push((sender, request));
                continue;
            }
            match cluster.deliver_late(&request) {
                Some(true) => marks.record("late write succeeded"),
                Some(false) => marks.record("late write was rejected"),
                None => marks.record("late write called a webhook"),
            }
        }
        self.late_writes = waiting;
    }

    /// `true` if the candidate whose turn it is may act.
    #[must_use]
    pub fn can_act(&self, cluster: &Cluster) -> bool {
        let candidate = &self.candidates[self.turn];
        candidate.is_running && (candidate.elector.is_leader(cluster.now) || self.ignores_lease)
    }

    /// Crashes the loop of the candidate whose turn it is. It restarts if the candidate leads.
    pub fn crash(&mut self, cluster: &mut Cluster) {
        if self.candidates[self.turn].is_running {
            cluster.crash();
        }
    }

    /// Crashes both loops. They restart where their candidate leads.
    pub fn restart_all(&mut self, cluster: &mut Cluster) {
        for _ in 0..2 {
            self.crash(cluster);
            self.switch(cluster);
        }
    }

    /// Checks that at most one candidate acts, and that it holds the Lease.
    ///
    /// # Errors
    /// If two act, or one that does not hold the Lease.
    pub fn check_single_leader(&self, cluster: &Cluster) -> Result<(), String> {
        let acting: Vec<&str> = self
            .candidates
            .iter()
            .filter(|candidate| {
                candidate.is_running && (candidate.elector.is_leader(cluster.now) || self.ignores_lease)
            })
            .map(|candidate| candidate.name)
            .collect();
        if acting.len() > 1 {
            return Err(format!("{} act at once", acting.join(" and ")));
        }
        let (name, holder) = (self.candidates[self.turn].name, holder(cluster));
        if self.can_act(cluster) && holder != name {
            return Err(format!("{name} acts, and the Lease is held by {holder:?}"));
        }
        Ok(())
    }
}

fn holder(cluster: &Cluster) -> String {
    cluster
        .get(LEASES, LEASE)
        .map_or(String::new(), |lease| lease.str_at(&["spec", "holderIdentity"]).to_owned())
}

fn read_lease(cluster: &Cluster) -> Option<LeaderElectionRecord> {
    let lease = cluster.get(LEASES, LEASE)?;
    let revision = lease.str_at(&["metadata", "resourceVersion"]).parse().unwrap_or(0);
    Some(LeaderElectionRecord::from_lease(&lease, Revision(revision)))
}

/// Writes the Lease for a step of an election. Returns `true` if something was written.
fn write_lease(cluster: &mut Cluster, step: LeaseAction) -> bool {
    cluster.user = "system:kube-controller-manager";
    let done = match step {
        LeaseAction::Wait(_) => None,
        LeaseAction::Create(spec) => {
            let lease = value!({"metadata": {"name": "kube-controller-manager"}, "spec": (spec)});
            Some(cluster.try_create(LEASES, "kube-system", lease))
        }
        LeaseAction::Update(spec, revision) => {
            let seen = value!({"resourceVersion": (revision.to_string())});
            Some(cluster.patch(LEASES, LEASE, "", value!({"metadata": (seen), "spec": (spec)})))
        }
    };
    cluster.user = "user";
    done.is_some_and(|done| done.is_ok())
}
