//! What is said once is not said again for as long as it stays true.
//!
//! A planner that remembers what it said the last time tells people only the news. If the memory is lost, it says
//! things twice, which harms nobody.

use std::collections::BTreeSet;

use setpoint_api::Key;
use setpoint_reconcile::Note;

/// What is to be said now, of all that is true, after what was said before.
#[must_use]
pub fn news(all: &[Note], before: &[Note]) -> Vec<Note> {
    fn identity(note: &Note) -> (&Key, &str, &str) {
        (&note.about.key, note.reason, &note.message)
    }
    let said: BTreeSet<_> = before.iter().map(identity).collect();
    all.iter().filter(|note| !said.contains(&identity(note))).cloned().collect()
}
