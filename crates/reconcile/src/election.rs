//! Who acts, when several could: leader election on a Lease, as client-go does it.
//!
//! A candidate that finds the Lease free, or unchanged for as long as it was given out, writes its own name into
//! it; the precondition on the revision lets only one succeed. The leader renews, and stops acting when it has not
//! managed to for [`Timing::renew_deadline`], which ends before anyone can take the Lease. Clocks of candidates are never
//! compared: each counts from when it saw the Lease change.
//!
//! [`Elector`] is a state machine without I/O, so that a simulator can hold it to its promise.

use std::time::Duration;

use setpoint_api::rfc3339::Micros;
use setpoint_api::{Revision, Time, Value, value};

use crate::clock::Jump;
use crate::int32;

/// How a candidate counts the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// For how long a Lease is given out.
    pub lease_duration: Duration,
    /// How long a leader acts without having renewed. It is shorter, so that nobody acts beside it.
    pub renew_deadline: Duration,
    /// How often a candidate looks, and a leader renews.
    pub retry_period: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// The Lease as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Who holds it; empty for nobody.
    pub holder: String,
    /// When it was renewed, in the words of the holder: only ever compared for being another.
    pub renewed: String,
    /// When the holder got it, in the words of the holder.
    pub acquired: String,
    /// How often it changed hands.
    pub transitions: i64,
    /// For how many seconds it was given out.
    pub seconds: i64,
    /// Its revision, for the precondition.
    pub revision: Revision,
}

impl Held {
    /// Reads the `spec` of a Lease.
    #[must_use]
    pub fn of(lease: &Value, revision: Revision) -> Held {
        let number = |field: &str| lease.at(&["spec", field]).and_then(Value::as_i64).unwrap_or(0);
        Held {
            holder: lease.str_at(&["spec", "holderIdentity"]).to_owned(),
            renewed: lease.str_at(&["spec", "renewTime"]).to_owned(),
            acquired: lease.str_at(&["spec", "acquireTime"]).to_owned(),
            transitions: number("leaseTransitions"),
            seconds: number("leaseDurationSeconds"),
            revision,
        }
    }
}

/// What a candidate does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Nothing, until then.
    Wait(Time),
    /// Make the Lease, with this `spec`.
    Create(Value),
    /// Write this `spec`, if the Lease is still at this revision.
    Update(Value, Revision),
}

/// A candidate.
#[derive(Debug)]
pub struct Elector {
    identity: String,
    timing: Timing,
    /// The Lease as it was last seen to change, and when.
    observed: Option<(Held, Time)>,
    /// Until when it may act; the beginning of time while it does not lead.
    acts_until: Time,
    next: Time,
}

impl Elector {
    /// A candidate of this name, as `host_id`.
    #[must_use]
    pub fn new(identity: String) -> Elector {
        let timing = Timing::default();
        Elector { identity, timing, observed: None, acts_until: Time::EPOCH, next: Time::EPOCH }
    }

    /// The same, with its own way to count the time.
    #[must_use]
    pub fn with_timing(self, timing: Timing) -> Elector {
        Elector { timing, ..self }
    }

    /// Whether it may act.
    #[must_use]
    pub fn leads(&self, now: Time) -> bool {
        now < self.acts_until
    }

    /// When it wants to look at the Lease next.
    #[must_use]
    pub fn next(&self) -> Time {
        self.next
    }

    /// Until when it may act at the most, if it does not manage to renew.
    #[must_use]
    pub fn acts_until(&self) -> Time {
        self.acts_until
    }

    /// It is about to look at the Lease: whatever comes of that, the next time is a while from now.
    pub fn tries(&mut self, now: Time) {
        self.next = now.after(self.timing.retry_period);
    }

    /// Takes in that the clock was set, or that the machine slept. A Lease that was seen to change so long ago still was:
    /// a candidate whose clock was set forward takes nothing. A leader keeps the rest of its time when the clock goes
    /// back; when it goes forward, that time may really have passed, and the leader stops unless it renews.
    pub fn clock_jumped(&mut self, jump: Jump) {
        if let Some((_, since)) = &mut self.observed {
            *since = jump.shift(*since);
        }
        if !jump.is_forward() && self.acts_until != Time::EPOCH {
            self.acts_until = jump.shift(self.acts_until);
        }
        self.next = Time::EPOCH;
    }

    /// Takes in the Lease as it is (none if there is none), and says what to do.
    pub fn look(&mut self, held: Option<Held>, now: Time) -> Step {
        self.tries(now);
        let Some(held) = held else {
            self.observed = None;
            return Step::Create(self.spec(&now, &Micros(now).to_string(), 0));
        };
        let same = self.observed.as_ref().filter(|(seen, _)| *seen == held).map(|(_, at)| *at);
        let since = same.unwrap_or(now);
        self.observed = Some((held.clone(), since));
        if held.holder == self.identity {
            return Step::Update(self.spec(&now, &held.acquired, held.transitions), held.revision);
        }
        let given = Duration::from_secs(held.seconds.max(0).unsigned_abs());
        if !held.holder.is_empty() && now.since(since) < given {
            // Somebody else leads, whatever we thought.
            self.acts_until = Time::EPOCH;
            return Step::Wait(self.next);
        }
        let transitions = int32::saturating_increment(held.transitions);
        Step::Update(self.spec(&now, &Micros(now).to_string(), transitions), held.revision)
    }

    /// The write of the last step was committed; it was sent at `sent`.
    pub fn won(&mut self, sent: Time) {
        self.acts_until = sent.after(self.timing.renew_deadline);
    }

    fn spec(&self, now: &Time, acquired: &str, transitions: i64) -> Value {
        value!({
            "holderIdentity": (self.identity.as_str()),
            "leaseDurationSeconds": (i64::try_from(self.timing.lease_duration.as_secs()).unwrap_or(15)),
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

    /// A Lease that candidates read and write, with preconditions.
    #[derive(Default)]
    struct Shared {
        lease: Option<Value>,
        revision: u64,
    }

    impl Shared {
        fn held(&self) -> Option<Held> {
            self.lease.as_ref().map(|lease| Held::of(lease, Revision(self.revision)))
        }

        fn write(&mut self, step: Step) -> bool {
            let spec = match step {
                Step::Create(spec) if self.lease.is_none() => spec,
                Step::Update(spec, revision) if revision.0 == self.revision => spec,
                _ => return false,
            };
            self.revision += 1;
            self.lease = Some(value!({"spec": (spec)}));
            true
        }
    }

    #[test]
    fn the_second_waits_until_the_lease_runs_out_and_then_takes_it() {
        let mut shared = Shared::default();
        let (mut a, mut b) = (Elector::new("a".into()), Elector::new("b".into()));
        let at = Time::from_seconds;
        let step = a.look(shared.held(), at(0));
        assert!(shared.write(step));
        a.won(at(0));
        assert!(matches!(b.look(shared.held(), at(1)), Step::Wait(_)));
        assert!(a.leads(at(9)) && !a.leads(at(10)), "a leader that cannot renew stops");
        assert!(matches!(b.look(shared.held(), at(15)), Step::Wait(_)));
        let step = b.look(shared.held(), at(16));
        assert!(
            matches!(&step, Step::Update(spec, _) if spec.get("leaseTransitions") == Some(&Value::Int(1)))
        );
        assert!(shared.write(step));
        b.won(at(16));
        assert!(b.leads(at(17)));
        assert!(matches!(a.look(shared.held(), at(17)), Step::Wait(_)));
        assert!(!a.leads(at(17)));
    }

    #[test]
    fn clock_that_is_set_neither_prolongs_a_leadership_nor_takes_the_lease_early() {
        let (hour, at) = (3600_i64, |seconds: i64| Time::from_seconds(1_800_000_000 + seconds));
        for step in [hour, -hour] {
            let mut shared = Shared::default();
            let (mut a, mut b) = (Elector::new("a".into()), Elector::new("b".into()));
            let step_a = a.look(shared.held(), at(0));
            assert!(shared.write(step_a));
            a.won(at(0));
            assert!(matches!(b.look(shared.held(), at(1)), Step::Wait(_)));
            let jump = Jump::between(at(2), at(2 + step));
            a.clock_jumped(jump);
            b.clock_jumped(jump);
            assert_eq!(a.leads(at(3 + step)), step < 0, "an hour may really have passed");
            assert!(!a.leads(at(11 + step)), "a leadership is not prolonged");
            assert!(a.next() <= at(2 + step) && b.next() <= at(2 + step), "they look at once");
            assert!(
                matches!(b.look(shared.held(), at(15 + step)), Step::Wait(_)),
                "the Lease was not taken early"
            );
            assert!(matches!(b.look(shared.held(), at(16 + step)), Step::Update(..)), "nor late");
        }
    }

    proptest! {
        /// Candidates stall, their writes are delayed and lost, and at no moment do two act.
        #[test]
        fn never_do_two_act(steps in proptest::collection::vec((0usize..3, 0i64..6000, 0u8..4), 1..200)) {
            let mut shared = Shared::default();
            let mut electors: Vec<Elector> = ["a", "b", "c"].map(|name| Elector::new(name.into())).into();
            let mut under_way: Vec<Option<(Step, Time)>> = vec![None, None, None];
            let mut now = Time::from_seconds(1_800_000_000);
            for (who, millis, luck) in steps {
                now = now.after(Duration::from_millis(millis.unsigned_abs()));
                match under_way[who].take() {
                    // A write that was sent long ago may still arrive.
                    Some((step, sent)) => {
                        if shared.write(step) && luck > 0 {
                            electors[who].won(sent);
                        }
                    }
                    None => match electors[who].look(shared.held(), now) {
                        Step::Wait(_) => {}
                        step => under_way[who] = Some((step, now)),
                    },
                }
                let acting = electors.iter().filter(|elector| elector.leads(now)).count();
                prop_assert!(acting <= 1, "{acting} act at once");
            }
        }
    }
}
