//! What is said once is not said again for as long as it stays true.
//!
//! A planner that remembers what it said the last time tells people only the news. If the memory is lost, it says
//! things twice, which harms nobody.

use setpoint_reconcile::Note;

/// What is to be said now, of all that is true, after what was said before.
#[must_use]
pub fn news(all: &[Note], before: &[Note]) -> Vec<Note> {
    let is_said = |note: &Note| {
        let is_same = |said: &Note| said.about.key == note.about.key && said.reason == note.reason;
        before.iter().any(|said| is_same(said) && said.message == note.message)
    };
    all.iter().filter(|note| !is_said(note)).cloned().collect()
}
