//! Staleness checks: an object that is missing in the world may only be not visible yet.
//!
//! Changes of different resources arrive independently. A reference may be visible before the object that it
//! names; treating that object as deleted would destroy objects in use.

use std::time::Duration;

use setpoint_api::Time;
use setpoint_reconcile::{Object, WorldReader};

/// Delay before a plan that needs a more recent world is repeated.
pub const RETRY_DELAY: Duration = Duration::from_millis(100);
/// Maximum age of an object whose plan waits for a more recent world, so no object waits forever.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// `true` if an object was written so recently that the world may not be as recent.
#[must_use]
pub fn is_recent(object: &Object, now: Time) -> bool {
    now.since(object.commit_time()) <= WAIT_MAX
}

/// `true` if the world shows all objects of a resource that existed when an object was written.
#[must_use]
pub fn has_observed(world: &WorldReader<'_>, resource: &str, object: &Object, now: Time) -> bool {
    let observed = world.find_resource(resource);
    let revision = observed.map_or(world.revision(), |observed| world.revision_of(observed));
    revision >= object.revision() || !is_recent(object, now)
}

#[cfg(test)]
mod tests {
    use setpoint_api::{Key, Resource, Revision};

    use super::*;

    fn object(resource: &str, revision: u64) -> Object {
        let key = Key::cluster(&Resource::new(resource).unwrap(), "x").unwrap();
        let text = r#"{"metadata":{"name":"x","uid":"u"}}"#;
        Object::read(key, Revision(revision), Time::from_seconds(1000), text).unwrap()
    }

    #[test]
    fn wait_for_a_stale_world_is_bounded() {
        let mut world = setpoint_reconcile::World::default();
        world.put(object("pods", 5));
        let (soon, late) = (Time::from_seconds(1001), Time::from_seconds(1031));
        assert!(has_observed(&world.reader(), "pods", &object("claims", 5), soon));
        assert!(!has_observed(&world.reader(), "pods", &object("claims", 6), soon));
        assert!(!has_observed(&world.reader(), "nodes", &object("claims", 1), soon), "no node is known");
        assert!(has_observed(&world.reader(), "pods", &object("claims", 6), late));
        world.advance_to(Revision(6));
        assert!(has_observed(&world.reader(), "nodes", &object("claims", 6), soon));
    }
}
