//! Reflectors of the loop: one task per followed resource.
//!
//! Built-in resources are followed from the start, custom resources while their definition is established. Reports of a
//! resource that is no longer followed are dropped, so that a late one does not restore a removed table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use setpoint_api::{Resource, Time, resource_types};
use setpoint_reconcile::Engine;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::endpoint::Endpoint;
use super::watch::ResourceWatch;
use super::{Remote, Report};
use crate::custom::{self, CustomResources};

/// Reflectors of one leadership.
pub(super) struct Reflectors {
    followed: BTreeMap<Resource, Reflector>,
    /// Resources without which no plan starts. A resource may be listed again before all have been listed once.
    unlisted: BTreeSet<Resource>,
}

struct Reflector {
    endpoint: Arc<Endpoint>,
    task: AbortHandle,
}

/// Tasks of one leadership, and the channel of their reports.
pub(super) struct Tasks {
    pub set: JoinSet<()>,
    pub reports: mpsc::Sender<Report>,
}

impl Reflectors {
    /// Follows all built-in resources.
    pub fn start(remote: &Remote, tasks: &mut Tasks) -> Reflectors {
        let mut reflectors = Reflectors { followed: BTreeMap::new(), unlisted: BTreeSet::new() };
        for stored in resource_types::stored() {
            reflectors.unlisted.insert(stored.resource.clone());
            reflectors.follow(remote, tasks, Endpoint::built_in(stored));
        }
        reflectors
    }

    fn follow(&mut self, remote: &Remote, tasks: &mut Tasks, endpoint: Endpoint) {
        let watch = ResourceWatch {
            client: Arc::clone(&remote.watches),
            clock: Arc::clone(&remote.clock),
            timeout: remote.timeout,
            reports: tasks.reports.clone(),
        };
        let endpoint = Arc::new(endpoint);
        let task = tasks.set.spawn(watch.follow(Arc::clone(&endpoint)));
        let before = self.followed.insert(endpoint.resource.clone(), Reflector { endpoint, task });
        if let Some(before) = before {
            before.task.abort();
        }
    }

    /// Endpoint of a resource; `None` if it is not followed.
    pub fn endpoint(&self, resource: &Resource) -> Option<Arc<Endpoint>> {
        self.followed.get(resource).map(|followed| Arc::clone(&followed.endpoint))
    }

    /// `true` if every resource that plans depend on has been listed.
    pub fn is_ready(&self) -> bool {
        self.unlisted.is_empty()
    }

    /// `true` if a report is about a followed resource. Records lists.
    pub fn accepts(&mut self, report: &Report) -> bool {
        match report {
            Report::Listed { resource, .. } => {
                self.unlisted.remove(resource);
                self.followed.contains_key(resource)
            }
            Report::Changed(change) => self.followed.contains_key(change.key.resource()),
            Report::Reached { resource, .. } => self.followed.contains_key(resource),
            Report::Replied { .. } | Report::Written { .. } => true,
        }
    }

    /// Follows the custom resources of changed definitions, after the engine has observed them.
    pub fn update(
        &mut self,
        remote: &Remote,
        tasks: &mut Tasks,
        engine: &mut Engine,
        of: Touched,
        now: Time,
    ) {
        let changes = match of {
            Touched::None => return,
            Touched::One(key) => CustomResources::changes_of(engine, std::iter::once(&key)),
            Touched::All => {
                let is_custom = |resource: &&Resource| resource_types::storage_type(resource).is_none();
                CustomResources::changes_of_all(engine, self.followed.keys().filter(is_custom))
            }
        };
        for resource in changes.gone {
            // A definition with the name of a built-in resource never concerns that.
            if resource_types::storage_type(&resource).is_none()
                && let Some(gone) = self.followed.remove(&resource)
            {
                gone.task.abort();
                self.unlisted.remove(&resource);
                let revision = engine.world().last_change(&custom::definitions());
                engine.remove_resource(&resource, revision, now);
            }
        }
        for followed in changes.followed {
            let endpoint = Endpoint::custom(followed);
            let current = self.followed.get(&endpoint.resource);
            if current.is_some_and(|current| current.endpoint.is_same(&endpoint)) {
                continue;
            }
            engine.add_resource(&endpoint.resource);
            // A planner that names the resource may create its objects, and must not do so twice. Other plans do not
            // wait: the list of one custom resource must not hold up all others.
            if engine.watched_resources().any(|name| name == endpoint.resource.as_str()) {
                self.unlisted.insert(endpoint.resource.clone());
            }
            self.follow(remote, tasks, endpoint);
        }
    }
}

/// Definitions that a report has changed.
pub(super) enum Touched {
    None,
    One(setpoint_api::Key),
    All,
}

impl Touched {
    pub fn by(report: &Report) -> Touched {
        match report {
            Report::Listed { resource, .. } if resource.as_str() == custom::DEFINITIONS => Touched::All,
            Report::Changed(change) if change.key.resource().as_str() == custom::DEFINITIONS => {
                Touched::One(change.key.clone())
            }
            _ => Touched::None,
        }
    }
}
