//! Events are news: an hour after the last change of one, it goes.
//!
//! Upstream's API server has its store forget them. Here it is a plan like any other, so that whoever watches sees them
//! go, and a simulated month does not drown in what was said.

use std::time::Duration;

use setpoint_api::{Key, Time};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Act, Object, Plan, Planner, Seed, Seen, Watch, World, Write};

/// How long an Event is kept after its last change.
pub const EVENT_TTL: Duration = Duration::from_secs(3600);
/// The resource.
const EVENTS: &str = "events";
/// Events are looked at together, because looking costs time and none is missed for being a little late.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// How many go at a time, so that others are not kept waiting.
const GOING_MAX: usize = 500;

/// The controller.
pub struct EventExpiry {
    /// How long an Event is kept after its last change.
    pub ttl: Duration,
}

impl Planner for EventExpiry {
    /// When the next look is due.
    type Memo = Option<Time>;

    fn name(&self) -> &'static str {
        "event-expiry-controller"
    }

    fn user(&self) -> String {
        "system:apiserver".to_owned()
    }

    fn watches(&self) -> &'static [Watch] {
        // No Event goes sooner than what is known already: time alone wakes it.
        &[]
    }

    fn keys(&self, _: &World) -> Vec<Key> {
        key_of(EVENTS, "", "all").into_iter().collect()
    }

    fn plan(
        &self,
        _: &Key,
        world: &World,
        seen: &Seen<'_, Option<Time>>,
        now: Time,
        _: Seed,
    ) -> Plan<Option<Time>> {
        let mut plan = Plan::default();
        if let Some(due) = seen.memo.filter(|due| *due > now) {
            plan.memo = Some(due);
            plan.look_again_at(due);
            return plan;
        }
        let end = |event: &Object| event.committed().after(self.ttl);
        let (old, young): (Vec<&Object>, Vec<&Object>) =
            world.all(EVENTS).partition(|event| end(event) <= now);
        let going = old.iter().take(GOING_MAX).map(|event| Act::from(Write::delete(event)));
        plan.stage(going);
        let next = young.into_iter().map(end).min().unwrap_or(now.after(self.ttl)).max(now.after(LOOK_EVERY));
        let due = if old.is_empty() { next } else { now };
        plan.memo = Some(due);
        plan.look_again_at(due);
        plan
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::value;
    use setpoint_sim::cluster::Cluster;

    use super::*;

    fn cluster() -> Cluster {
        Cluster::new(|| (vec![Box::new(EventExpiry { ttl: EVENT_TTL })], crate::indexes::all()), 7)
    }

    fn tell(cluster: &mut Cluster, name: &str) {
        let event = value!({"metadata": {"name": (name)}, "involvedObject": {"namespace": "default"}});
        cluster.create(EVENTS, "default", event);
    }

    #[test]
    fn an_event_goes_an_hour_after_its_last_change() {
        let mut cluster = cluster();
        let minutes = |count: u64| Duration::from_secs(60 * count);
        cluster.run(minutes(200));
        tell(&mut cluster, "a");
        tell(&mut cluster, "b");
        cluster.run(minutes(40));
        cluster.patch(EVENTS, "default/b", "", value!({"count": 2})).unwrap();
        cluster.run(minutes(19));
        assert_eq!(cluster.list(EVENTS).len(), 2);
        cluster.run(minutes(2));
        assert_eq!(cluster.list(EVENTS).len(), 1, "the one that was told again stays");
        cluster.run(minutes(40));
        assert_eq!(cluster.list(EVENTS).len(), 0);
        cluster.assert_quiet();
    }

    #[test]
    fn a_thousand_old_events_go_after_a_restart() {
        let mut cluster = cluster();
        for n in 0..1100 {
            tell(&mut cluster, &format!("e{n}"));
        }
        cluster.stop();
        cluster.now = cluster.now.after(EVENT_TTL);
        cluster.crash();
        cluster.run(Duration::from_secs(5));
        assert_eq!(cluster.list(EVENTS).len(), 0);
        cluster.assert_quiet();
    }
}
