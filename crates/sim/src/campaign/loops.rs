//! Two candidates for one loop: whoever holds the Lease acts, and at no moment do two. What a leader had sent when it was
//! deposed may arrive when its successor leads.

use setpoint_api::{Revision, Time, value};
use setpoint_reconcile::election::{LeaderElectionRecord, LeaderElector, LeaseAction};
use setpoint_reconcile::{Jump, WriteRequest};

use super::marks::Marks;
use crate::cluster::{Cluster, Controllers, Parked};

const LEASES: &str = "leases.coordination.k8s.io";
const LEASE: &str = "kube-system/kube-controller-manager";
/// How many writes of a leader that is deposed are on their way at the most.
const LATE_MAX: usize = 4;

struct Candidate {
    name: &'static str,
    elector: LeaderElector,
    /// Whether its loop runs; a candidate that does not lead has none.
    is_running: bool,
}

/// Two candidates. One has its turn: its loop is the one in the cluster.
pub struct Loops {
    candidates: [Candidate; 2],
    turn: usize,
    parked: Parked,
    /// Writes on their way, and by whom they were sent.
    late: Vec<(&'static str, WriteRequest)>,
    /// A seeded bug: candidates do not ask whether they lead.
    pub is_reckless: bool,
}

impl Loops {
    /// Two candidates over a cluster; nobody leads as yet.
    #[must_use]
    pub fn new(cluster: &mut Cluster, controllers: Controllers) -> Loops {
        cluster.stop();
        let candidate = |name: &'static str| Candidate {
            name,
            elector: LeaderElector::new(name.to_owned()),
            is_running: false,
        };
        let candidates = [candidate("alpha_1"), candidate("beta_2")];
        let parked = Cluster::another(controllers, &[]);
        Loops { candidates, turn: 0, parked, late: Vec::new(), is_reckless: false }
    }

    /// Both candidates notice that the clock was set.
    pub fn elections_jumped(&mut self, jump: Jump) {
        for candidate in &mut self.candidates {
            candidate.elector.clock_jumped(jump);
        }
    }

    /// The loop of the candidate whose turn it is not notices that the clock was set.
    pub fn clock_jumped(&mut self, jump: Jump, now: Time) {
        self.parked.clock_jumped(jump, now);
    }

    /// Gives the other candidate its turn.
    pub fn switch(&mut self, cluster: &mut Cluster) {
        self.turn = 1 - self.turn;
        cluster.swap(&mut self.parked);
    }

    /// The candidate whose turn it is looks at the Lease, if it is time to. If it is out of luck, what it wrote
    /// arrives and the answer does not. A loop starts with leadership and ends with it.
    pub fn elect(&mut self, cluster: &mut Cluster, lucky: bool, marks: &mut Marks) {
        let candidate = &mut self.candidates[self.turn];
        if cluster.now >= candidate.elector.retry_at() {
            let was = holder(cluster);
            let step = candidate.elector.try_acquire_or_renew(held(cluster), cluster.now);
            if write(cluster, step) {
                if lucky {
                    candidate.elector.lease_written(cluster.now);
                } else {
                    marks.note("election lost its answer");
                }
                if !was.is_empty() && was != candidate.name {
                    marks.note("leader changed");
                }
            }
        }
        let leads = candidate.elector.is_leader(cluster.now) || self.is_reckless;
        if leads && !candidate.is_running {
            cluster.crash();
        } else if !leads && candidate.is_running {
            let writes = cluster.take_writes();
            if !writes.is_empty() {
                marks.note("leader deposed with writes under way");
            }
            self.late.extend(writes.into_iter().take(LATE_MAX).map(|sent| (candidate.name, sent)));
            cluster.stop();
        }
        candidate.is_running = leads;
    }

    /// Some of what deposed leaders sent arrives, or all of it, if somebody else leads by now.
    pub fn land(&mut self, cluster: &mut Cluster, all: bool, marks: &mut Marks) {
        let holder = holder(cluster);
        let mut waiting = Vec::new();
        for (sender, sent) in std::mem::take(&mut self.late) {
            if sender == holder || !(all || cluster.rng.bool()) {
                waiting.push((sender, sent));
            } else if cluster.land(&sent) {
                marks.note("late write was done");
            } else {
                marks.note("late write was refused");
            }
        }
        self.late = waiting;
    }

    /// Whether the candidate whose turn it is may act.
    #[must_use]
    pub fn may_act(&self, cluster: &Cluster) -> bool {
        let candidate = &self.candidates[self.turn];
        candidate.is_running && (candidate.elector.is_leader(cluster.now) || self.is_reckless)
    }

    /// The loop of the candidate whose turn it is was killed; it starts anew if it leads.
    pub fn crash(&mut self, cluster: &mut Cluster) {
        if self.candidates[self.turn].is_running {
            cluster.crash();
        }
    }

    /// Both loops were killed, and start anew where they lead.
    pub fn start_again(&mut self, cluster: &mut Cluster) {
        for _ in 0..2 {
            self.crash(cluster);
            self.switch(cluster);
        }
    }

    /// What must hold whenever the candidate acts whose turn it is: the Lease is its own, and nobody else's.
    ///
    /// # Errors
    /// If two act, or somebody whose the Lease is not.
    pub fn check(&self, cluster: &Cluster) -> Result<(), String> {
        let acting: Vec<&str> = self
            .candidates
            .iter()
            .filter(|one| one.is_running && (one.elector.is_leader(cluster.now) || self.is_reckless))
            .map(|one| one.name)
            .collect();
        if acting.len() > 1 {
            return Err(format!("{} act at once", acting.join(" and ")));
        }
        let (name, holder) = (self.candidates[self.turn].name, holder(cluster));
        if self.may_act(cluster) && holder != name {
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

fn held(cluster: &Cluster) -> Option<LeaderElectionRecord> {
    let lease = cluster.get(LEASES, LEASE)?;
    let revision = lease.str_at(&["metadata", "resourceVersion"]).parse().unwrap_or(0);
    Some(LeaderElectionRecord::from_lease(&lease, Revision(revision)))
}

/// Performs a step of an election. Says whether it was one, and done.
fn write(cluster: &mut Cluster, step: LeaseAction) -> bool {
    cluster.acting = "system:kube-controller-manager";
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
    cluster.acting = "user";
    done.is_some_and(|done| done.is_ok())
}
