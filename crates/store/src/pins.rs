//! Pins: past snapshots that are kept for the later pages of a list.
//!
//! The first page of a list reads the current snapshot, at the cost of a pointer. Later pages read the same
//! revision, which is in the past by then; without a pin, each of them would undo every change since, or
//! rebuild the state from disk. A pin keeps alive the versions that were superseded after it. Most of them
//! are in the rings anyway; the bytes that the rings have dropped since count against [`PINNED_BYTES_MAX`].

use std::collections::VecDeque;
use std::time::Duration;

use setpoint_api::{Revision, Time};

use crate::mirror::Snapshot;

/// Maximum number of pins; the oldest is dropped for a new one.
const PINS_MAX: usize = 16;
/// Bytes that the rings may drop before a pin is dropped.
const PINNED_BYTES_MAX: u64 = 64 << 20;
/// Maximum age of a pin, and thus of a `continue` token.
const PIN_AGE_MAX: Duration = Duration::from_secs(5 * 60);
/// Maximum age of a state that was rebuilt from the log: it shares no object with the current one, and takes
/// as much memory.
const REBUILT_AGE_MAX: Duration = Duration::from_secs(30);

/// Origin of a pinned state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The current state at the time, or rewound from it.
    Mirror,
    /// Rebuilt from the log. There is at most one such pin.
    Log,
}

#[derive(Debug)]
struct Pin {
    snapshot: Snapshot,
    origin: Origin,
    since: Time,
    /// Bytes that the rings had dropped when the pin was made.
    dropped: u64,
}

/// Pins, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Pins(VecDeque<Pin>);

impl Pins {
    pub fn get(&self, revision: Revision) -> Option<&Snapshot> {
        self.0.iter().map(|pin| &pin.snapshot).find(|snapshot| snapshot.revision() == revision)
    }

    pub fn push(&mut self, snapshot: Snapshot, origin: Origin, now: Time, dropped: u64) {
        let revision = snapshot.revision();
        let is_second_of_log = |pin: &Pin| origin == Origin::Log && pin.origin == Origin::Log;
        self.0.retain(|pin| pin.snapshot.revision() != revision && !is_second_of_log(pin));
        if self.0.len() == PINS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Pin { snapshot, origin, since: now, dropped });
    }

    /// Drops pins that are too old or keep too many bytes alive.
    pub fn trim(&mut self, now: Time, dropped: u64) {
        self.0.retain(|pin| {
            let age_max = if pin.origin == Origin::Log { REBUILT_AGE_MAX } else { PIN_AGE_MAX };
            now.since(pin.since) <= age_max && dropped - pin.dropped <= PINNED_BYTES_MAX
        });
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::{Key, Resource};

    use super::*;
    use crate::{CommitCause, Draft, Precondition, Proposal, ReadError, Retention, Store};

    fn at(revision: u64) -> Snapshot {
        let mut snapshot = Snapshot::default();
        snapshot.set_revision(Revision(revision));
        snapshot
    }

    fn revisions(pins: &Pins) -> Vec<u64> {
        pins.0.iter().map(|pin| pin.snapshot.revision().0).collect()
    }

    #[test]
    fn pins_are_bounded_in_number_age_and_bytes() {
        let mut pins = Pins::default();
        for revision in 0..20 {
            pins.push(at(revision), Origin::Mirror, Time::from_seconds(revision as i64), revision << 20);
        }
        assert_eq!(revisions(&pins), (4..20).collect::<Vec<_>>());
        assert!(pins.get(Revision(3)).is_none() && pins.get(Revision(4)).is_some());
        pins.trim(Time::from_seconds(310), 20 << 20);
        assert_eq!(revisions(&pins), (10..20).collect::<Vec<_>>());
        pins.trim(Time::from_seconds(310), (64 + 15) << 20);
        assert_eq!(revisions(&pins), (15..20).collect::<Vec<_>>());
    }

    #[test]
    fn rebuilt_state_is_kept_once_and_briefly() {
        let mut pins = Pins::default();
        pins.push(at(1), Origin::Log, Time::from_seconds(0), 0);
        pins.push(at(9), Origin::Mirror, Time::from_seconds(0), 0);
        pins.push(at(2), Origin::Log, Time::from_seconds(5), 0);
        assert_eq!(revisions(&pins), [9, 2]);
        pins.trim(Time::from_seconds(36), 0);
        assert_eq!(revisions(&pins), [9]);
    }

    #[test]
    fn pinned_state_is_read_without_rebuilding_it() {
        let retention = Retention { hot_bytes: 1, ..Retention::default() };
        let store = Store::in_memory(retention);
        let key = Key::from_path(&Resource::new("pods").unwrap(), "a/x").unwrap();
        let put = |value: &str| {
            let proposal = Proposal::new(CommitCause::default(), Time(1));
            store.commit(proposal.put(key.clone(), Precondition::Any, Draft::new(value.to_owned()))).unwrap();
        };
        put("1");
        put("2");
        store.pin(&store.snapshot(), Time(1));
        (0..10).for_each(|_| put("3"));
        let value = |revision| {
            let snapshot = store.snapshot_at(Revision(revision))?;
            Ok::<_, ReadError>(snapshot.get(&key).unwrap().value())
        };
        assert_eq!(value(1).unwrap(), "1", "rebuilt from the log");
        let _rebuilding = store.shared.rebuilding.lock();
        assert_eq!((value(1).unwrap(), value(2).unwrap()), ("1".into(), "2".into()), "both are at hand");
        assert!(matches!(value(3), Err(ReadError::Busy)), "one at a time");
    }
}
