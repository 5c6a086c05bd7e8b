//! End of the watches of a custom resource: when its definition is deleted, or its spec or accepted names change.
//!
//! As upstream, a watch does not continue with another schema or conversion: its client lists again, or finds that the
//! resource is gone. A watch follows its definition by a cursor of its own, which wakes for that definition only.

use std::task::{Context, Poll};

use setpoint_api::ResourceType;
use setpoint_store::{Cursor, Store, WatchFilter};

use crate::catalog::{Catalogs, DEFINITIONS};

/// Definition of the resource of one watch.
pub(crate) struct DefinitionWatch {
    store: Store,
    catalogs: Catalogs,
    cursor: Cursor,
    /// `true` if the definition had changed when the cursor was last examined.
    is_due: bool,
    has_ended: bool,
}

impl DefinitionWatch {
    /// Returns the definition of a resource type; `None` for a built-in one.
    pub fn new(
        store: &Store,
        catalogs: &Catalogs,
        resource_type: &ResourceType,
    ) -> Option<Box<DefinitionWatch>> {
        let custom = resource_type.custom.as_ref()?;
        let cursor = follow(store, custom.kind.key.name());
        let (store, catalogs) = (store.clone(), catalogs.clone());
        // The definition may have changed since the request was routed.
        Some(Box::new(DefinitionWatch { store, catalogs, cursor, is_due: true, has_ended: false }))
    }

    /// `true` once the resource type is no longer served as it was.
    pub fn has_ended(&mut self, resource_type: &ResourceType, context: &mut Context<'_>) -> bool {
        while !self.has_ended {
            match self.cursor.poll_next(context) {
                Poll::Ready(Ok(_)) => self.is_due = true,
                Poll::Ready(Err(_)) => {
                    self.is_due = true;
                    if let Some(custom) = &resource_type.custom {
                        self.cursor = follow(&self.store, custom.kind.key.name());
                    }
                }
                Poll::Pending => {
                    self.has_ended = std::mem::take(&mut self.is_due) && !self.is_served(resource_type);
                    break;
                }
            }
        }
        self.has_ended
    }

    fn is_served(&self, resource_type: &ResourceType) -> bool {
        let info = &resource_type.info;
        let catalog = self.catalogs.of(&self.store.snapshot());
        let now = catalog.find(&info.group, &info.version, &info.plural);
        let definition = |resource_type: &ResourceType| {
            let definition = &resource_type.custom.as_ref()?.kind.definition;
            Some((definition.uid.clone(), definition.generation, definition.accepted_names.clone()))
        };
        now.is_some_and(|now| definition(now) == definition(resource_type))
    }
}

/// Cursor over the changes of a definition from now on.
fn follow(store: &Store, name: &str) -> Cursor {
    let filter = WatchFilter { name: Some(name.into()), ..WatchFilter::default() };
    store.list_and_watch(&DEFINITIONS, filter).1
}
