//! The promises of a watch, each with a checker of its own.
//!
//! A test records what watchers were given ([`Seen`]) and what was really committed ([`Happened`]); a checker
//! says whether one promise was kept. Each can fail: see the tests, which break one promise at a time.

use std::collections::BTreeMap;

use setpoint_api::Revision;
use setpoint_store::EventType;
use thiserror::Error;

/// One thing that a watcher was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A change of the object at a path.
    Event {
        /// The commit.
        revision: Revision,
        /// What it means to the watcher.
        change: EventType,
        /// The object.
        path: String,
    },
    /// Everything up to this revision has been delivered.
    Bookmark(Revision),
    /// The stream ended and was taken up again after this revision.
    Resumed(Revision),
    /// Compaction passed the watcher: it was told so, and starts again from a list at this revision.
    Relisted(Revision),
}

/// One thing that happened, as the watcher's filter sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
    /// The commit.
    pub revision: Revision,
    /// What it means to the watcher.
    pub change: EventType,
    /// The object.
    pub path: String,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Broken {
    /// A revision follows a greater one.
    #[error("ordered: {after} came after {before}")]
    Order {
        /// What came first.
        before: Revision,
        /// What came next.
        after: Revision,
    },
    /// The same change came twice.
    #[error("unique: {path} at {revision} came twice")]
    Twice {
        /// The commit.
        revision: Revision,
        /// The object.
        path: String,
    },
    /// A change that should have come did not.
    #[error("gapless: {path} at {revision} never came")]
    Gap {
        /// The commit.
        revision: Revision,
        /// The object.
        path: String,
    },
    /// A change came that never happened.
    #[error("true: {path} at {revision} never happened, or not like this")]
    Invented {
        /// The commit.
        revision: Revision,
        /// The object.
        path: String,
    },
    /// A bookmark or a position ran ahead of the stream.
    #[error("bookmarkable: {event} came after a bookmark at {bookmark}")]
    Bookmark {
        /// What the bookmark said.
        bookmark: Revision,
        /// What came after it all the same.
        event: Revision,
    },
    /// A stream that was taken up again went back, or skipped ahead.
    #[error("resumable: taken up after {from} although {delivered} had been delivered")]
    Resume {
        /// Where it was taken up.
        from: Revision,
        /// What had been delivered.
        delivered: Revision,
    },
    /// A reader did not see a whole commit that a watcher had already been told of.
    #[error("atomic: an event of {event} came while readers saw {snapshot}")]
    Torn {
        /// What was delivered.
        event: Revision,
        /// What readers saw.
        snapshot: Revision,
    },
}

/// Revisions rise from event to event, also over a resumption.
pub fn ordered(seen: &[Seen]) -> Result<(), Broken> {
    let mut before = Revision::ZERO;
    for item in seen {
        if let Seen::Event { revision, .. } = item {
            if *revision < before {
                return Err(Broken::Order { before, after: *revision });
            }
            before = *revision;
        }
    }
    Ok(())
}

/// No change comes twice.
pub fn unique(seen: &[Seen]) -> Result<(), Broken> {
    let mut known = std::collections::BTreeSet::new();
    for item in seen {
        if let Seen::Event { revision, path, .. } = item
            && !known.insert((*revision, path.clone()))
        {
            return Err(Broken::Twice { revision: *revision, path: path.clone() });
        }
    }
    Ok(())
}

/// Every change between `start` and the end of the stream comes, except those that a relist stands for. The
/// stream is read to its end: its last item must not be older than `end`.
pub fn gapless(seen: &[Seen], happened: &[Happened], start: Revision, end: Revision) -> Result<(), Broken> {
    let mut covered = start;
    let mut delivered = BTreeMap::new();
    let mut excused = Vec::new();
    for item in seen {
        match item {
            Seen::Event { revision, path, .. } => {
                delivered.insert((*revision, path.clone()), ());
                covered = *revision;
            }
            Seen::Relisted(revision) => {
                excused.push((covered, *revision));
                covered = *revision;
            }
            Seen::Bookmark(_) | Seen::Resumed(_) => {}
        }
    }
    let missing = happened.iter().find(|change| {
        change.revision > start
            && change.revision <= end
            && !excused.iter().any(|(from, to)| change.revision > *from && change.revision <= *to)
            && !delivered.contains_key(&(change.revision, change.path.clone()))
    });
    match missing {
        Some(change) => Err(Broken::Gap { revision: change.revision, path: change.path.clone() }),
        None => Ok(()),
    }
}

/// Nothing comes that did not happen, and nothing before the start.
pub fn truthful(seen: &[Seen], happened: &[Happened], start: Revision) -> Result<(), Broken> {
    for item in seen {
        if let Seen::Event { revision, change, path } = item {
            let wanted = Happened { revision: *revision, change: *change, path: path.clone() };
            let at = happened.partition_point(|known| known.revision < *revision);
            let real = happened[at..].iter().take_while(|known| known.revision == *revision);
            if *revision <= start || !real.into_iter().any(|known| *known == wanted) {
                return Err(Broken::Invented { revision: *revision, path: path.clone() });
            }
        }
    }
    Ok(())
}

/// After a bookmark, or a list, nothing comes that it had promised to be over.
pub fn bookmarkable(seen: &[Seen]) -> Result<(), Broken> {
    let mut bookmark = Revision::ZERO;
    for item in seen {
        match item {
            Seen::Bookmark(revision) | Seen::Relisted(revision) => bookmark = bookmark.max(*revision),
            Seen::Event { revision, .. } if *revision <= bookmark => {
                return Err(Broken::Bookmark { bookmark, event: *revision });
            }
            _ => {}
        }
    }
    Ok(())
}

/// A stream is taken up where it was left: after the last event or bookmark, neither before nor later.
pub fn resumable(seen: &[Seen], start: Revision) -> Result<(), Broken> {
    let mut delivered = start;
    for item in seen {
        match item {
            Seen::Event { revision, .. } | Seen::Bookmark(revision) | Seen::Relisted(revision) => {
                delivered = delivered.max(*revision);
            }
            Seen::Resumed(from) if *from != delivered => {
                return Err(Broken::Resume { from: *from, delivered });
            }
            Seen::Resumed(_) => {}
        }
    }
    Ok(())
}

/// Whoever has been told of a commit can read all of it.
pub fn atomic(event: Revision, snapshot: Revision) -> Result<(), Broken> {
    if snapshot < event { Err(Broken::Torn { event, snapshot }) } else { Ok(()) }
}

/// All promises that can be checked on a recorded stream.
pub fn all(seen: &[Seen], happened: &[Happened], start: Revision, end: Revision) -> Result<(), Broken> {
    ordered(seen)?;
    unique(seen)?;
    gapless(seen, happened, start, end)?;
    truthful(seen, happened, start)?;
    bookmarkable(seen)?;
    resumable(seen, start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn happened() -> Vec<Happened> {
        (1..=4)
            .map(|n| Happened { revision: Revision(n), change: EventType::Added, path: format!("p{n}") })
            .collect()
    }

    fn event(n: u64) -> Seen {
        Seen::Event { revision: Revision(n), change: EventType::Added, path: format!("p{n}") }
    }

    fn verdict(seen: &[Seen]) -> Result<(), Broken> {
        all(seen, &happened(), Revision::ZERO, Revision(4))
    }

    #[test]
    fn an_honest_stream_passes() {
        verdict(&[event(1), event(2), event(3), event(4)]).unwrap();
        let resumed = [event(1), Seen::Bookmark(Revision(1)), Seen::Resumed(Revision(1)), event(2)];
        verdict(&[&resumed[..], &[event(3), event(4)]].concat()).unwrap();
        verdict(&[event(1), Seen::Relisted(Revision(3)), event(4)]).unwrap();
    }

    #[test]
    fn each_checker_catches_its_own_bug() {
        let reversed = [event(2), event(1), event(3), event(4)];
        assert!(matches!(ordered(&reversed), Err(Broken::Order { .. })));
        assert!(matches!(unique(&[event(1), event(1)]), Err(Broken::Twice { .. })));
        let skipped = [event(1), event(2), event(4)];
        assert!(matches!(verdict(&skipped), Err(Broken::Gap { .. })));
        let cut = [event(1), event(2), event(3)];
        assert!(matches!(verdict(&cut), Err(Broken::Gap { .. })));
        let unexcused = [Seen::Relisted(Revision(2)), event(4)];
        assert!(matches!(verdict(&unexcused), Err(Broken::Gap { .. })));
        let wrong = Seen::Event { revision: Revision(4), change: EventType::Deleted, path: "p4".into() };
        assert!(matches!(truthful(&[wrong], &happened(), Revision::ZERO), Err(Broken::Invented { .. })));
        assert!(matches!(truthful(&[event(1)], &happened(), Revision(1)), Err(Broken::Invented { .. })));
        let ahead = [Seen::Bookmark(Revision(2)), event(2)];
        assert!(matches!(bookmarkable(&ahead), Err(Broken::Bookmark { .. })));
        let back = [event(2), Seen::Resumed(Revision(1))];
        assert!(matches!(resumable(&back, Revision::ZERO), Err(Broken::Resume { .. })));
        let leap = [event(2), Seen::Resumed(Revision(3))];
        assert!(matches!(resumable(&leap, Revision::ZERO), Err(Broken::Resume { .. })));
        assert!(matches!(atomic(Revision(3), Revision(2)), Err(Broken::Torn { .. })));
    }
}
