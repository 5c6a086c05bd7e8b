//! The nodes that will do for a class, in the order of what they are worth to rules that look at a node alone.
//!
//! Where no other rule has a say, the best node is found without looking at the rest: placing one pod does not cost
//! more on a large cluster. Among equals chance decides, and nothing else: not the order in which nodes came.

use std::collections::BTreeSet;

use super::Cell;

/// How many nodes are tried one by one, in their order, before looking at all of them is quicker.
const TRIES_MAX: usize = 64;

/// Nodes by worth, then by what breaks ties, then by their place.
#[derive(Clone, Debug, Default)]
pub struct Ranks(BTreeSet<(i32, u32, u32)>);

/// What was found by looking at the first ones only.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// The best node that will do.
    Best(usize),
    /// No node will do.
    None,
    /// All those that were looked at will not do; others may.
    NotYet,
}

impl Ranks {
    /// Takes in that what is known of a node has changed.
    pub(super) fn change(&mut self, at: usize, from: &Cell, to: &Cell) {
        let place = u32::try_from(at).unwrap_or(u32::MAX);
        let rank = |cell: &Cell| cell.will_do().then_some((cell.base, cell.hash, place));
        let (from, to) = (rank(from), rank(to));
        if from != to {
            from.map(|rank| self.0.remove(&rank));
            self.0.extend(to);
        }
    }

    /// The best node that is taken.
    #[must_use]
    pub fn best(&self, chance: u32, takes: impl Fn(usize) -> bool) -> Found {
        let (mut tries, mut top) = (0, self.0.last());
        while let Some(&(base, ..)) = top {
            let after = self.0.range((base, chance, 0)..=(base, u32::MAX, u32::MAX));
            let before = self.0.range((base, 0, 0)..(base, chance, 0));
            for &(_, _, place) in after.chain(before) {
                if takes(place as usize) {
                    return Found::Best(place as usize);
                }
                tries += 1;
                if tries == TRIES_MAX {
                    return Found::NotYet;
                }
            }
            top = self.0.range(..(base, 0, 0)).next_back();
        }
        Found::None
    }
}

/// How well chance likes a node among equals: the more, the sooner it comes after a place that chance names.
#[inline]
#[must_use]
pub fn tie(hash: u32, chance: u32) -> u32 {
    !hash.wrapping_sub(chance)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cell((base, hash, will_do): (i32, u32, bool)) -> Cell {
        Cell { verdict: u16::from(!will_do), discouraged: 0, base, liking: 0, hash }
    }

    proptest! {
        #[test]
        fn the_first_that_is_taken_is_the_best_of_all(
            changes in prop::collection::vec((0_usize..80, (0_i32..4, any::<u32>(), any::<bool>())), 1..200),
            chance in any::<u32>(),
            modulus in 1_usize..90,
        ) {
            let mut cells = vec![cell((0, 0, false)); 80];
            let mut ranks = Ranks::default();
            for (at, to) in changes {
                ranks.change(at, &cells[at], &cell(to));
                cells[at] = cell(to);
            }
            let takes = |at: usize| at.is_multiple_of(modulus);
            let fit = cells.iter().enumerate().filter(|(at, cell)| cell.will_do() && takes(*at));
            let best = fit.max_by_key(|(at, cell)| (cell.base, tie(cell.hash, chance), std::cmp::Reverse(*at)));
            match ranks.best(chance, takes) {
                Found::Best(at) => prop_assert_eq!(Some(at), best.map(|(at, _)| at)),
                Found::None => prop_assert!(best.is_none()),
                Found::NotYet => prop_assert!(cells.iter().filter(|cell| cell.will_do()).count() >= TRIES_MAX),
            }
        }
    }
}
