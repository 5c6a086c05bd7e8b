//! Leader election on a Lease, as in client-go.
//!
//! - A candidate acquires the Lease if it has no holder, or if it has not changed for its duration. The precondition on
//!   the revision lets only one candidate succeed.
//! - The leader renews the Lease. It stops if it could not renew it for [`LeaderElectionConfig::renew_deadline`], which
//!   ends before another candidate can acquire the Lease. So there is at most one leader at a time.
//! - Clocks of candidates are never compared: each measures time from its own observation of the last change.
//!
//! [`LeaderElector`] is a state machine without I/O, so that a simulator can test these guarantees.

use std::time::Duration;

use setpoint_api::rfc3339::Micros;
use setpoint_api::{Revision, Time, Value, value};

use crate::clock::Jump;
use crate::int32;

/// Durations of the leader election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderElectionConfig {
    /// Time without a change after which other candidates may acquire the Lease.
    pub lease_duration: Duration,
    /// Time without a renewal after which the leader stops. Shorter than the lease duration.
    pub renew_deadline: Duration,
    /// Interval at which a candidate checks the Lease and a leader renews it.
    pub retry_period: Duration,
}

impl Default for LeaderElectionConfig {
    fn default() -> LeaderElectionConfig {
        LeaderElectionConfig {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// State of the Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderElectionRecord {
    /// Identity of the holder; empty if there is none.
    pub holder: String,
    /// Renew time as written by the holder. Only compared for equality.
    pub renewed: String,
    /// Acquire time as written by the holder.
    pub acquired: String,
    /// Number of changes of the holder.
    pub transitions: i64,
    /// Lease duration in seconds.
    pub seconds: i64,
    /// Revision of the Lease, for the precondition.
    pub revision: Revision,
}

impl LeaderElectionRecord {
    /// Reads the `spec` of a Lease.
    #[must_use]
    pub fn from_lease(lease: &Value, revision: Revision) -> LeaderElectionRecord {
        let number = |field: &str| lease.at(&["spec", field]).and_then(Value::as_i64).unwrap_or(0);
        LeaderElectionRecord {
            holder: lease.str_at(&["spec", "holderIdentity"]).to_owned(),
            renewed: lease.str_at(&["spec", "renewTime"]).to_owned(),
            acquired: lease.str_at(&["spec", "acquireTime"]).to_owned(),
            transitions: number("leaseTransitions"),
            seconds: number("leaseDurationSeconds"),
            revision,
        }
    }
}

/// Next action of a candidate.
#[derive(Clone, Debug, PartialEq)]
pub enum LeaseAction {
    /// Do nothing until this time.
    Wait(Time),
    /// Create the Lease with this `spec`.
    Create(Value),
    /// Update the Lease to this `spec`, with the revision as a precondition.
    Update(Value, Revision),
}

/// Candidate of a leader election.
#[derive(Debug)]
pub struct LeaderElector {
    identity: String,
    config: LeaderElectionConfig,
    /// State of the Lease, and the local time at which it was first observed.
    observed: Option<(LeaderElectionRecord, Time)>,
    /// End of the leadership unless it is renewed; the epoch while it is not the leader.
    leader_until: Time,
    retry_at: Time,
}

impl LeaderElector {
    /// Creates a candidate with an identity of the form `host_id`.
    #[must_use]
    pub fn new(identity: String) -> LeaderElector {
        let config = LeaderElectionConfig::default();
        LeaderElector { identity, config, observed: None, leader_until: Time::EPOCH, retry_at: Time::EPOCH }
    }

    /// Sets the durations.
    #[must_use]
    pub fn with_config(self, config: LeaderElectionConfig) -> LeaderElector {
        LeaderElector { config, ..self }
    }

    /// `true` if it is the leader.
    #[must_use]
    pub fn is_leader(&self, now: Time) -> bool {
        now < self.leader_until
    }

    /// Time of the next attempt.
    #[must_use]
    pub fn retry_at(&self) -> Time {
        self.retry_at
    }

    /// Starts an attempt. The next one is a retry period later, whatever its outcome.
    pub fn start_attempt(&mut self, now: Time) {
        self.retry_at = now.after(self.config.retry_period);
    }

    /// Handles a step of the clock, or the end of a suspension. The age of the observed change stays the same, so a
    /// candidate whose clock was set forward does not acquire the Lease early. A leader keeps its remaining time if the
    /// clock was set back. If it was set forward, that time may really have passed, so the leader stops unless it renews.
    pub fn clock_jumped(&mut self, jump: Jump) {
        if let Some((_, since)) = &mut self.observed {
            *since = jump.shift(*since);
        }
        if !jump.is_forward() && self.leader_until != Time::EPOCH {
            self.leader_until = jump.shift(self.leader_until);
        }
        self.retry_at = Time::EPOCH;
    }

    /// Returns the action for the current Lease; `None` if it does not exist.
    pub fn try_acquire_or_renew(&mut self, record: Option<LeaderElectionRecord>, now: Time) -> LeaseAction {
        self.start_attempt(now);
        let Some(record) = record else {
            self.observed = None;
            return LeaseAction::Create(self.spec(&now, &Micros(now).to_string(), 0));
        };
        let same = self.observed.as_ref().filter(|(seen, _)| *seen == record).map(|(_, at)| *at);
        let since = same.unwrap_or(now);
        self.observed = Some((record.clone(), since));
        if record.holder == self.identity {
            return LeaseAction::Update(
                self.spec(&now, &record.acquired, record.transitions),
                record.revision,
            );
        }
        let lease_duration = Duration::from_secs(record.seconds.max(0).unsigned_abs());
        if !record.holder.is_empty() && now.since(since) < lease_duration {
            // Another candidate is the leader now.
            self.leader_until = Time::EPOCH;
            return LeaseAction::Wait(self.retry_at);
        }
        let transitions = int32::saturating_increment(record.transitions);
        LeaseAction::Update(self.spec(&now, &Micros(now).to_string(), transitions), record.revision)
    }

    /// Handles the commit of the last action, which was sent at `sent_at`.
    pub fn lease_written(&mut self, sent_at: Time) {
        self.leader_until = sent_at.after(self.config.renew_deadline);
    }

    fn spec(&self, now: &Time, acquired: &str, transitions: i64) -> Value {
        value!({
            "holderIdentity": (self.identity.as_str()),
            "leaseDurationSeconds": (i64::try_from(self.config.lease_duration.as_secs()).unwrap_or(15)),
            "acquireTime": (acquired),
            "renewTime": (Micros(*now).to_string()),
            "leaseTransitions": (transitions),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Lease object with preconditions, which all candidates share.
    #[derive(Default)]
    struct FakeLease {
        lease: Option<Value>,
        revision: u64,
    }

    impl FakeLease {
        fn record(&self) -> Option<LeaderElectionRecord> {
            self.lease.as_ref().map(|lease| LeaderElectionRecord::from_lease(lease, Revision(self.revision)))
        }

        fn write(&mut self, action: LeaseAction) -> bool {
            let spec = match action {
                LeaseAction::Create(spec) if self.lease.is_none() => spec,
                LeaseAction::Update(spec, revision) if revision.0 == self.revision => spec,
                _ => return false,
            };
            self.revision += 1;
            self.lease = Some(value!({"spec": (spec)}));
            true
        }
    }

    #[test]
    fn candidate_acquires_the_lease_when_it_expires() {
        let mut lease = FakeLease::default();
        let (mut a, mut b) = (LeaderElector::new("a".into()), LeaderElector::new("b".into()));
        let at = Time::from_seconds;
        let action = a.try_acquire_or_renew(lease.record(), at(0));
        assert!(lease.write(action));
        a.lease_written(at(0));
        assert!(matches!(b.try_acquire_or_renew(lease.record(), at(1)), LeaseAction::Wait(_)));
        assert!(a.is_leader(at(9)) && !a.is_leader(at(10)), "a leader that cannot renew stops");
        assert!(matches!(b.try_acquire_or_renew(lease.record(), at(15)), LeaseAction::Wait(_)));
        let action = b.try_acquire_or_renew(lease.record(), at(16));
        assert!(
            matches!(&action, LeaseAction::Update(spec, _) if spec.get("leaseTransitions") == Some(&Value::Int(1)))
        );
        assert!(lease.write(action));
        b.lease_written(at(16));
        assert!(b.is_leader(at(17)));
        assert!(matches!(a.try_acquire_or_renew(lease.record(), at(17)), LeaseAction::Wait(_)));
        assert!(!a.is_leader(at(17)));
    }

    #[test]
    fn clock_step_neither_prolongs_leadership_nor_acquires_the_lease_early() {
        let (hour, at) = (3600_i64, |seconds: i64| Time::from_seconds(1_800_000_000 + seconds));
        for step in [hour, -hour] {
            let mut lease = FakeLease::default();
            let (mut a, mut b) = (LeaderElector::new("a".into()), LeaderElector::new("b".into()));
            let action = a.try_acquire_or_renew(lease.record(), at(0));
            assert!(lease.write(action));
            a.lease_written(at(0));
            assert!(matches!(b.try_acquire_or_renew(lease.record(), at(1)), LeaseAction::Wait(_)));
            let jump = Jump::between(at(2), at(2 + step));
            a.clock_jumped(jump);
            b.clock_jumped(jump);
            assert_eq!(a.is_leader(at(3 + step)), step < 0, "an hour may really have passed");
            assert!(!a.is_leader(at(11 + step)), "leadership is not prolonged");
            assert!(a.retry_at() <= at(2 + step) && b.retry_at() <= at(2 + step), "both retry at once");
            assert!(
                matches!(b.try_acquire_or_renew(lease.record(), at(15 + step)), LeaseAction::Wait(_)),
                "the Lease was acquired early"
            );
            assert!(
                matches!(b.try_acquire_or_renew(lease.record(), at(16 + step)), LeaseAction::Update(..)),
                "the Lease was acquired late"
            );
        }
    }

    proptest! {
        /// Candidates stall, and their writes are delayed and their responses lost.
        #[test]
        fn there_is_at_most_one_leader(steps in proptest::collection::vec((0usize..3, 0i64..6000, 0u8..4), 1..200)) {
            let mut lease = FakeLease::default();
            let mut electors: Vec<LeaderElector> = ["a", "b", "c"].map(|name| LeaderElector::new(name.into())).into();
            let mut in_flight: Vec<Option<(LeaseAction, Time)>> = vec![None, None, None];
            let mut now = Time::from_seconds(1_800_000_000);
            for (candidate, millis, fault) in steps {
                now = now.after(Duration::from_millis(millis.unsigned_abs()));
                match in_flight[candidate].take() {
                    // A delayed write may still arrive.
                    Some((action, sent_at)) => {
                        if lease.write(action) && fault > 0 {
                            electors[candidate].lease_written(sent_at);
                        }
                    }
                    None => match electors[candidate].try_acquire_or_renew(lease.record(), now) {
                        LeaseAction::Wait(_) => {}
                        action => in_flight[candidate] = Some((action, now)),
                    },
                }
                let leaders = electors.iter().filter(|elector| elector.is_leader(now)).count();
                prop_assert!(leaders <= 1, "{leaders} leaders at once");
            }
        }
    }
}
