//! Reference store: every state there ever was, as a plain map.

use std::collections::BTreeMap;

use setpoint_api::{Key, Revision};
use setpoint_store::{Precondition, Snapshot};

/// Revision that put a key, and the value with that revision filled in.
pub type Version = (Revision, Vec<u8>);

/// All keys at one revision.
pub type State = BTreeMap<Key, Version>;

/// One change: a value without a hole for its revision, or a delete.
pub type Change = (Key, Precondition, Option<Vec<u8>>);

/// All states; the first one is empty.
#[derive(Clone, Debug)]
pub struct Model {
    states: Vec<State>,
}

impl Default for Model {
    fn default() -> Model {
        Model { states: vec![State::new()] }
    }
}

impl Model {
    /// Newest revision.
    #[must_use]
    pub fn revision(&self) -> Revision {
        Revision(self.states.len() as u64 - 1)
    }

    /// Newest state.
    #[must_use]
    pub fn newest(&self) -> &State {
        self.states.last().expect("there is always a first state")
    }

    /// State at a revision.
    #[must_use]
    pub fn at(&self, revision: Revision) -> &State {
        &self.states[usize::try_from(revision.0).expect("a test has few revisions")]
    }

    /// Applies the changes if all expectations hold.
    pub fn commit(&mut self, changes: &[Change]) -> Option<Revision> {
        let revision = self.revision().next();
        let mut state = self.newest().clone();
        for (key, expect, value) in changes {
            let actual = state.get(key).map(|(revision, _)| *revision);
            let deletes_nothing = value.is_none() && actual.is_none();
            if deletes_nothing || !expect.holds(actual) {
                return None;
            }
        }
        for (key, _, value) in changes {
            match value {
                Some(value) => drop(state.insert(key.clone(), (revision, value.clone()))),
                None => drop(state.remove(key)),
            }
        }
        self.states.push(state);
        Some(revision)
    }

    /// Forgets all states after a revision.
    pub fn truncate(&mut self, revision: Revision) {
        self.states.truncate(usize::try_from(revision.0).expect("a test has few revisions") + 1);
    }
}

/// Returns the content of a snapshot in the form of the model.
#[must_use]
pub fn state_of(snapshot: &Snapshot) -> State {
    let mut state = State::new();
    for (resource, table) in snapshot.tables() {
        for record in table.iter() {
            let key = Key::from_path(resource, record.path()).expect("the path of a record is one of a key");
            state.insert(key, (record.revision(), record.value().to_vec()));
        }
    }
    state
}
