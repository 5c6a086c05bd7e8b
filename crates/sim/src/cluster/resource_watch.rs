//! Watches of the loop in a simulated control plane, one per resource.

use std::collections::VecDeque;

use setpoint_api::{Resource, Time, resource_types};
use setpoint_reconcile::{Engine, ObservedChange};
use setpoint_runtime::custom::{self, CustomResources};
use setpoint_runtime::objects;
use setpoint_store::{Cursor, Store, WatchFilter};

use super::Cluster;

/// Events that a watch keeps for repeated delivery.
const DELIVERED_MAX: usize = 8;

/// Watch of the loop on one resource.
pub(super) struct ResourceWatch {
    pub resource: Resource,
    /// `None` while the watch is broken and needs a list.
    pub cursor: Option<Cursor>,
    /// Last events, for repeated delivery.
    pub delivered: VecDeque<ObservedChange>,
}

impl ResourceWatch {
    pub(super) fn new(resource: &Resource) -> ResourceWatch {
        ResourceWatch { resource: resource.clone(), cursor: None, delivered: VecDeque::new() }
    }

    /// Delivers up to `events_max` events. Lists the resource if the store has compacted them.
    pub(super) fn deliver(&mut self, store: &Store, engine: &mut Engine, now: Time, events_max: usize) {
        for _ in 0..events_max {
            let event = match self.cursor.as_mut().map(Cursor::try_next) {
                Some(Ok(Some(event))) => event,
                Some(Err(_)) => {
                    self.list(store, engine, now);
                    continue;
                }
                _ => return,
            };
            let key = event.after.key(&self.resource);
            let Some(observed) = objects::observed(key, &event) else { continue };
            if self.delivered.len() == DELIVERED_MAX {
                self.delivered.pop_front();
            }
            self.delivered.push_back(observed.clone());
            engine.observe(observed, now);
        }
    }

    /// Lists the resource, and watches it from there.
    pub(super) fn list(&mut self, store: &Store, engine: &mut Engine, now: Time) {
        let (snapshot, cursor) = store.list_and_watch(&self.resource, WatchFilter::default());
        let records = snapshot.table(&self.resource).into_iter().flat_map(|table| table.iter());
        let objects = records.filter_map(|record| {
            let key = record.key(&self.resource);
            objects::object(key, record)
        });
        engine.relist(&self.resource, objects.collect(), snapshot.revision(), now);
        self.delivered.clear();
        self.cursor = Some(cursor);
    }
}

impl Cluster {
    /// Starts and ends watches of custom resources, as their definitions in the world demand.
    pub(super) fn follow_definitions(&mut self) {
        let is_custom = |watch: &&ResourceWatch| resource_types::storage_type(&watch.resource).is_none();
        let current = self.watches.iter().filter(is_custom).map(|watch| &watch.resource);
        let changes = CustomResources::changes_of_all(&self.engine, current);
        for resource in changes.gone {
            let watches = self.watches.len();
            self.watches.retain(|watch| !is_custom(&watch) || watch.resource != resource);
            if self.watches.len() < watches {
                let revision = self.engine.world().last_change(&custom::definitions());
                self.engine.remove_resource(&resource, revision, self.now);
            }
        }
        for resource in changes.followed.into_iter().map(|followed| followed.resource) {
            let is_watched = self.watched.is_empty() || self.watched.contains(&resource.as_str());
            if is_watched && self.watches.iter().all(|watch| watch.resource != resource) {
                self.engine.add_resource(&resource);
                let mut watch = ResourceWatch::new(&resource);
                watch.list(&self.store, &mut self.engine, self.now);
                self.watches.push(watch);
            }
        }
    }
}
