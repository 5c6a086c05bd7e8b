//! Mutations of valid files, for fuzz tests of parsers.

use proptest::prelude::*;

/// Edits of one file.
const EDITS_MAX: usize = 12;

/// A text with bytes replaced, inserted and removed, cut, or with a part of it repeated elsewhere.
pub fn mangled(text: impl Into<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let text = text.into();
    let place = 0..text.len();
    let edits = prop::collection::vec((place.clone(), place, any::<u8>(), 0..5_u8), 1..EDITS_MAX);
    edits.prop_map(move |edits| {
        let mut bytes = text.clone();
        for (from, to, byte, kind) in edits {
            let (from, to) = (from.min(bytes.len()), to.min(bytes.len()));
            let (from, to) = (from.min(to), from.max(to));
            match kind {
                0 => bytes.splice(from..(from + 1).min(bytes.len()), [byte]).for_each(drop),
                1 => bytes.insert(from, byte),
                2 => bytes.drain(from..(from + 1).min(bytes.len())).for_each(drop),
                // Cuts are rare: most files should keep their form.
                3 if byte < 16 => bytes.truncate(to),
                _ => {
                    let part = bytes[from..to.min(from + usize::from(byte))].to_vec();
                    bytes.splice(to..to, part).for_each(drop);
                }
            }
        }
        bytes
    })
}
