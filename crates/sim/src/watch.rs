//! Guarantees of a watch, with one checker for each.
//!
//! A test records the items that a watch delivered ([`WatchItem`]) and the events that it should have
//! ([`ExpectedEvent`]). The tests of this module show for each checker a stream that it rejects.

use std::collections::BTreeMap;

use setpoint_api::Revision;
use setpoint_store::WatchEventType;
use thiserror::Error;

/// Item that a watch delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchItem {
    /// Event for an object.
    Event {
        /// Revision of the commit.
        revision: Revision,
        /// Type of the event.
        change: WatchEventType,
        /// Path of the object.
        path: String,
    },
    /// Bookmark: everything up to this revision was delivered.
    Bookmark(Revision),
    /// The stream ended and was resumed after this revision.
    Resumed(Revision),
    /// The watch was compacted, reported that, and restarted with a list at this revision.
    Relisted(Revision),
}

/// Event that a watch with its filter should deliver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedEvent {
    /// Revision of the commit.
    pub revision: Revision,
    /// Type of the event.
    pub change: WatchEventType,
    /// Path of the object.
    pub path: String,
}

/// Violation of a guarantee.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BrokenGuarantee {
    /// A revision after a higher one.
    #[error("ordered: {after} was delivered after {before}")]
    Order {
        /// The higher revision.
        before: Revision,
        /// The revision after it.
        after: Revision,
    },
    /// An event was delivered twice.
    #[error("unique: {path} at {revision} was delivered twice")]
    Twice {
        /// Revision of the commit.
        revision: Revision,
        /// Path of the object.
        path: String,
    },
    /// An event is missing.
    #[error("gapless: {path} at {revision} was not delivered")]
    Gap {
        /// Revision of the commit.
        revision: Revision,
        /// Path of the object.
        path: String,
    },
    /// An event does not correspond to a commit.
    #[error("truthful: {path} at {revision} was not committed, or not as this type")]
    Invented {
        /// Revision of the commit.
        revision: Revision,
        /// Path of the object.
        path: String,
    },
    /// An event is not newer than a bookmark before it.
    #[error("bookmarkable: {event} was delivered after a bookmark at {bookmark}")]
    Bookmark {
        /// Revision of the bookmark.
        bookmark: Revision,
        /// Revision of the event.
        event: Revision,
    },
    /// A stream was resumed at another position than that of the last item.
    #[error("resumable: resumed after {from} although {delivered} was delivered")]
    Resume {
        /// Revision after which it was resumed.
        from: Revision,
        /// Revision of the last item.
        delivered: Revision,
    },
    /// A reader did not see a commit of which a watch had delivered an event.
    #[error("atomic: an event of {event} was delivered while readers saw {snapshot}")]
    Torn {
        /// Revision of the event.
        event: Revision,
        /// Revision of the reader's snapshot.
        snapshot: Revision,
    },
}

/// Ordered: revisions rise from event to event, also across a resumption.
fn ordered(items: &[WatchItem]) -> Result<(), BrokenGuarantee> {
    let mut before = Revision::ZERO;
    for item in items {
        if let WatchItem::Event { revision, .. } = item {
            if *revision < before {
                return Err(BrokenGuarantee::Order { before, after: *revision });
            }
            before = *revision;
        }
    }
    Ok(())
}

/// Unique: no event is delivered twice.
fn unique(items: &[WatchItem]) -> Result<(), BrokenGuarantee> {
    let mut known = std::collections::BTreeSet::new();
    for item in items {
        if let WatchItem::Event { revision, path, .. } = item
            && !known.insert((*revision, path.clone()))
        {
            return Err(BrokenGuarantee::Twice { revision: *revision, path: path.clone() });
        }
    }
    Ok(())
}

/// Gapless: every event after `start` up to `end` is delivered, except those that a relist covers.
fn gapless(
    items: &[WatchItem],
    expected_events: &[ExpectedEvent],
    start: Revision,
    end: Revision,
) -> Result<(), BrokenGuarantee> {
    let mut covered = start;
    let mut delivered = BTreeMap::new();
    let mut excused = Vec::new();
    for item in items {
        match item {
            WatchItem::Event { revision, path, .. } => {
                delivered.insert((*revision, path.clone()), ());
                covered = *revision;
            }
            WatchItem::Relisted(revision) => {
                excused.push((covered, *revision));
                covered = *revision;
            }
            WatchItem::Bookmark(_) | WatchItem::Resumed(_) => {}
        }
    }
    let missing = expected_events.iter().find(|change| {
        change.revision > start
            && change.revision <= end
            && !excused.iter().any(|(from, to)| change.revision > *from && change.revision <= *to)
            && !delivered.contains_key(&(change.revision, change.path.clone()))
    });
    match missing {
        Some(change) => Err(BrokenGuarantee::Gap { revision: change.revision, path: change.path.clone() }),
        None => Ok(()),
    }
}

/// Truthful: every event corresponds to a commit after the start.
fn truthful(
    items: &[WatchItem],
    expected_events: &[ExpectedEvent],
    start: Revision,
) -> Result<(), BrokenGuarantee> {
    for item in items {
        if let WatchItem::Event { revision, change, path } = item {
            let wanted = ExpectedEvent { revision: *revision, change: *change, path: path.clone() };
            let at = expected_events.partition_point(|known| known.revision < *revision);
            let real = expected_events[at..].iter().take_while(|known| known.revision == *revision);
            if *revision <= start || !real.into_iter().any(|known| *known == wanted) {
                return Err(BrokenGuarantee::Invented { revision: *revision, path: path.clone() });
            }
        }
    }
    Ok(())
}

/// Bookmarkable: no event is at or before the revision of an earlier bookmark or list.
fn bookmarkable(items: &[WatchItem]) -> Result<(), BrokenGuarantee> {
    let mut bookmark = Revision::ZERO;
    for item in items {
        match item {
            WatchItem::Bookmark(revision) | WatchItem::Relisted(revision) => {
                bookmark = bookmark.max(*revision)
            }
            WatchItem::Event { revision, .. } if *revision <= bookmark => {
                return Err(BrokenGuarantee::Bookmark { bookmark, event: *revision });
            }
            _ => {}
        }
    }
    Ok(())
}

/// Resumable: a stream is resumed exactly after the last event or bookmark.
fn resumable(items: &[WatchItem], start: Revision) -> Result<(), BrokenGuarantee> {
    let mut delivered = start;
    for item in items {
        match item {
            WatchItem::Event { revision, .. }
            | WatchItem::Bookmark(revision)
            | WatchItem::Relisted(revision) => {
                delivered = delivered.max(*revision);
            }
            WatchItem::Resumed(from) if *from != delivered => {
                return Err(BrokenGuarantee::Resume { from: *from, delivered });
            }
            WatchItem::Resumed(_) => {}
        }
    }
    Ok(())
}

/// Atomic: a reader sees all of a commit once a watch has delivered an event of it.
pub fn atomic(event: Revision, snapshot: Revision) -> Result<(), BrokenGuarantee> {
    if snapshot < event { Err(BrokenGuarantee::Torn { event, snapshot }) } else { Ok(()) }
}

/// Checks all guarantees that a recorded stream can show.
pub fn check_all(
    items: &[WatchItem],
    expected_events: &[ExpectedEvent],
    start: Revision,
    end: Revision,
) -> Result<(), BrokenGuarantee> {
    ordered(items)?;
    unique(items)?;
    gapless(items, expected_events, start, end)?;
    truthful(items, expected_events, start)?;
    bookmarkable(items)?;
    resumable(items, start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected_events() -> Vec<ExpectedEvent> {
        (1..=4)
            .map(|n| ExpectedEvent {
                revision: Revision(n),
                change: WatchEventType::Added,
                path: format!("p{n}"),
            })
            .collect()
    }

    fn event(n: u64) -> WatchItem {
        WatchItem::Event { revision: Revision(n), change: WatchEventType::Added, path: format!("p{n}") }
    }

    fn check(items: &[WatchItem]) -> Result<(), BrokenGuarantee> {
        check_all(items, &expected_events(), Revision::ZERO, Revision(4))
    }

    #[test]
    fn correct_stream_passes() {
        check(&[event(1), event(2), event(3), event(4)]).unwrap();
        let resumed = [event(1), WatchItem::Bookmark(Revision(1)), WatchItem::Resumed(Revision(1)), event(2)];
        check(&[&resumed[..], &[event(3), event(4)]].concat()).unwrap();
        check(&[event(1), WatchItem::Relisted(Revision(3)), event(4)]).unwrap();
    }

    #[test]
    fn each_checker_rejects_a_violation_of_its_guarantee() {
        let reversed = [event(2), event(1), event(3), event(4)];
        assert!(matches!(ordered(&reversed), Err(BrokenGuarantee::Order { .. })));
        assert!(matches!(unique(&[event(1), event(1)]), Err(BrokenGuarantee::Twice { .. })));
        let skipped = [event(1), event(2), event(4)];
        assert!(matches!(check(&skipped), Err(BrokenGuarantee::Gap { .. })));
        let cut = [event(1), event(2), event(3)];
        assert!(matches!(check(&cut), Err(BrokenGuarantee::Gap { .. })));
        let unexcused = [WatchItem::Relisted(Revision(2)), event(4)];
        assert!(matches!(check(&unexcused), Err(BrokenGuarantee::Gap { .. })));
        let wrong =
            WatchItem::Event { revision: Revision(4), change: WatchEventType::Deleted, path: "p4".into() };
        assert!(matches!(
            truthful(&[wrong], &expected_events(), Revision::ZERO),
            Err(BrokenGuarantee::Invented { .. })
        ));
        assert!(matches!(
            truthful(&[event(1)], &expected_events(), Revision(1)),
            Err(BrokenGuarantee::Invented { .. })
        ));
        let ahead = [WatchItem::Bookmark(Revision(2)), event(2)];
        assert!(matches!(bookmarkable(&ahead), Err(BrokenGuarantee::Bookmark { .. })));
        let back = [event(2), WatchItem::Resumed(Revision(1))];
        assert!(matches!(resumable(&back, Revision::ZERO), Err(BrokenGuarantee::Resume { .. })));
        let leap = [event(2), WatchItem::Resumed(Revision(3))];
        assert!(matches!(resumable(&leap, Revision::ZERO), Err(BrokenGuarantee::Resume { .. })));
        assert!(matches!(atomic(Revision(3), Revision(2)), Err(BrokenGuarantee::Torn { .. })));
    }
}
