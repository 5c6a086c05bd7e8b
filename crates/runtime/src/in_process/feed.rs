//! Feeds of all resources, drained so that the loop's world is complete at every revision that it reaches.

use std::task::{Context, Poll};

use setpoint_api::{Resource, Revision, Time};
use setpoint_reconcile::Engine;
use setpoint_store::{Compacted, Cursor, Store, WatchEvent, WatchFilter};

use setpoint_api::resource_types;

use super::resource_feed::{Changes, Drained, ResourceFeed};
use crate::objects::{object, observed};

/// The changes of every resource that the engine follows.
pub(super) struct Feed {
    resources: Vec<FollowedResource>,
}

struct FollowedResource {
    resource: Resource,
    /// `None` until the resource is listed.
    feed: Option<ResourceFeed<Cursor>>,
}

impl Changes for Cursor {
    type Change = WatchEvent;
    type Lost = Compacted;

    fn poll_change(&mut self, context: &mut Context<'_>) -> Poll<Result<WatchEvent, Compacted>> {
        self.poll_next(context)
    }

    fn revision(change: &WatchEvent) -> Revision {
        change.revision()
    }
}

impl Feed {
    pub(super) fn open(engine: &Engine) -> Feed {
        let stored = resource_types::stored().map(|stored| &stored.resource);
        let followed = stored.filter(|resource| engine.follows(resource));
        Feed {
            resources: followed
                .map(|resource| FollowedResource { resource: resource.clone(), feed: None })
                .collect(),
        }
    }

    /// Observes all changes up to the newest revision. Returns `true` if every later change will wake the context, and
    /// `false` if a later change exists already: the caller must then drain again before it sleeps.
    pub(super) fn drain(
        &mut self,
        store: &Store,
        engine: &mut Engine,
        now: Time,
        context: &mut Context<'_>,
    ) -> bool {
        let newest = store.snapshot().revision();
        let mut is_armed = true;
        for followed in &mut self.resources {
            is_armed &= followed.drain(store, engine, newest, now, context);
        }
        engine.reach(newest);
        is_armed
    }
}

impl FollowedResource {
    fn drain(
        &mut self,
        store: &Store,
        engine: &mut Engine,
        newest: Revision,
        now: Time,
        context: &mut Context<'_>,
    ) -> bool {
        loop {
            let Some(feed) = &mut self.feed else {
                self.list(store, engine, now);
                continue;
            };
            let drained = feed.drain(newest, context, |event| {
                let key = event.after.key(&self.resource);
                if let Some(observed) = observed(key, &event) {
                    engine.observe(observed, now);
                }
            });
            match drained {
                Drained::Armed => return true,
                Drained::Ahead => return false,
                // Too far behind: list again.
                Drained::Lost => self.feed = None,
            }
        }
    }

    fn list(&mut self, store: &Store, engine: &mut Engine, now: Time) {
        let (snapshot, cursor) = store.list_and_watch(&self.resource, WatchFilter::default());
        let records = snapshot.table(&self.resource).into_iter().flat_map(|table| table.iter());
        let objects = records.filter_map(|record| {
            let key = record.key(&self.resource);
            object(key, record)
        });
        engine.relist(&self.resource, objects.collect(), snapshot.revision(), now);
        self.feed = Some(ResourceFeed::new(cursor));
    }
}
