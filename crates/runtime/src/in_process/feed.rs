//! Feeds of all resources, drained so that the loop's world is complete at every revision that it reaches.
//!
//! The set of followed resources is a pure function of the CustomResourceDefinitions in the world: the built-in
//! resources, and those of established definitions. Definitions are drained first, so a resource is listed in the same
//! drain that shows its definition, and no revision is reached without its objects.

use std::collections::{BTreeMap, BTreeSet};
use std::task::{Context, Poll};

use setpoint_api::{Key, Resource, Revision, Time, resource_types};
use setpoint_reconcile::Engine;
use setpoint_store::{Compacted, Cursor, Store, WatchEvent, WatchFilter};

use super::resource_feed::{Changes, Drained, ResourceFeed};
use crate::custom::{self, CustomResources};
use crate::objects::{object, observed};

/// The changes of every resource that the engine follows.
pub(super) struct Feed {
    /// CustomResourceDefinitions; `None` if the engine follows neither these nor a custom resource.
    definitions: Option<FollowedResource>,
    resources: Vec<FollowedResource>,
    /// Resources of established CustomResourceDefinitions.
    custom: BTreeMap<Resource, FollowedResource>,
}

struct FollowedResource {
    resource: Resource,
    /// `None` until the resource is listed.
    feed: Option<ResourceFeed<Cursor>>,
}

/// Objects that a drain has changed.
enum DrainedKeys {
    /// All objects may have changed: the resource was listed.
    All,
    Some(BTreeSet<Key>),
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
        let is_definitions = |resource: &Resource| resource.as_str() == custom::DEFINITIONS;
        let followed = stored.filter(|resource| engine.follows(resource) && !is_definitions(resource));
        let follows_definitions =
            engine.follows(&custom::definitions()) || custom::follows_custom_resources(engine);
        let definitions = follows_definitions.then(custom::definitions);
        Feed {
            definitions: definitions.map(FollowedResource::new),
            resources: followed.cloned().map(FollowedResource::new).collect(),
            custom: BTreeMap::new(),
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
        if let Some(definitions) = &mut self.definitions {
            let mut touched = DrainedKeys::Some(BTreeSet::new());
            is_armed &= definitions.drain(store, engine, newest, now, context, Some(&mut touched));
            self.follow_definitions(engine, touched, now);
        }
        for followed in self.resources.iter_mut().chain(self.custom.values_mut()) {
            is_armed &= followed.drain(store, engine, newest, now, context, None);
        }
        engine.reach(newest);
        is_armed
    }

    /// Adds and removes custom resources after a change of their definitions.
    fn follow_definitions(&mut self, engine: &mut Engine, touched: DrainedKeys, now: Time) {
        let changes = match touched {
            DrainedKeys::Some(keys) => CustomResources::changes_of(engine, keys.iter()),
            DrainedKeys::All => CustomResources::changes_of_all(engine, self.custom.keys()),
        };
        for resource in changes.gone {
            if self.custom.remove(&resource).is_some() {
                let revision = engine.world().last_change(&custom::definitions());
                engine.remove_resource(&resource, revision, now);
            }
        }
        for resource in changes.followed.into_iter().map(|followed| followed.resource) {
            engine.add_resource(&resource);
            self.custom.entry(resource.clone()).or_insert_with(|| FollowedResource::new(resource));
        }
    }
}

impl FollowedResource {
    fn new(resource: Resource) -> FollowedResource {
        FollowedResource { resource, feed: None }
    }

    fn drain(
        &mut self,
        store: &Store,
        engine: &mut Engine,
        newest: Revision,
        now: Time,
        context: &mut Context<'_>,
        mut touched: Option<&mut DrainedKeys>,
    ) -> bool {
        loop {
            let Some(feed) = &mut self.feed else {
                self.list(store, engine, now);
                if let Some(touched) = &mut touched {
                    **touched = DrainedKeys::All;
                }
                continue;
            };
            let drained = feed.drain(newest, context, |event| {
                let key = event.after.key(&self.resource);
                if let Some(DrainedKeys::Some(keys)) = touched.as_deref_mut() {
                    keys.insert(key.clone());
                }
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
