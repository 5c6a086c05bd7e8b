//! Feasible nodes of a signature, ordered by base score.
//!
//! If no other score applies, the best node is found without visiting the rest, so placing a pod does not cost more on
//! a large cluster. Ties are broken by a random number and the hash of the node's name only, never by the order in which
//! nodes were added.

use std::collections::BTreeSet;

use super::NodeResult;

/// Nodes that are tested one by one in rank order, before a scan over all nodes is faster.
const TESTS_MAX: usize = 64;

/// Nodes as (base score, hash, position).
#[derive(Clone, Debug, Default)]
pub struct RankedNodes(BTreeSet<(i32, u32, u32)>);

/// Result of testing the first nodes in rank order.
#[derive(Debug, PartialEq, Eq)]
pub enum RankLookup {
    /// Position of the best node.
    Best(usize),
    /// No node passes the test.
    NoneFits,
    /// The first [`TESTS_MAX`] nodes fail the test; later ones may pass.
    Undecided,
}

impl RankedNodes {
    /// Replaces the result of a node.
    pub(super) fn update(&mut self, at: usize, from: &NodeResult, to: &NodeResult) {
        let position = u32::try_from(at).unwrap_or(u32::MAX);
        let rank =
            |result: &NodeResult| result.is_feasible().then_some((result.base_score, result.hash, position));
        let (from, to) = (rank(from), rank(to));
        if from != to {
            from.map(|rank| self.0.remove(&rank));
            self.0.extend(to);
        }
    }

    /// Returns the best node that passes a test.
    #[must_use]
    pub fn find_best(&self, random: u32, allows: impl Fn(usize) -> bool) -> RankLookup {
        let (mut tests, mut top) = (0, self.0.last());
        while let Some(&(score, ..)) = top {
            // Among equal scores, in the order of `tie_break`: hashes from `random` up, then from 0.
            let after = self.0.range((score, random, 0)..=(score, u32::MAX, u32::MAX));
            let before = self.0.range((score, 0, 0)..(score, random, 0));
            for &(_, _, position) in after.chain(before) {
                if allows(position as usize) {
                    return RankLookup::Best(position as usize);
                }
                tests += 1;
                if tests == TESTS_MAX {
                    return RankLookup::Undecided;
                }
            }
            top = self.0.range(..(score, 0, 0)).next_back();
        }
        RankLookup::NoneFits
    }
}

/// Tie-break value of a node, higher is better: highest for the first hash at or after `random`, wrapping around.
#[inline]
#[must_use]
pub fn tie_break(hash: u32, random: u32) -> u32 {
    !hash.wrapping_sub(random)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn result((base_score, hash, is_feasible): (i32, u32, bool)) -> NodeResult {
        NodeResult { verdict: u16::from(!is_feasible), base_score, ..NodeResult::absent(hash) }
    }

    proptest! {
        #[test]
        fn first_allowed_node_in_rank_order_is_the_best_of_all(
            changes in prop::collection::vec((0_usize..80, (0_i32..4, any::<u32>(), any::<bool>())), 1..200),
            random in any::<u32>(),
            modulus in 1_usize..90,
        ) {
            let mut results = vec![result((0, 0, false)); 80];
            let mut ranked = RankedNodes::default();
            for (at, to) in changes {
                ranked.update(at, &results[at], &result(to));
                results[at] = result(to);
            }
            let allows = |at: usize| at.is_multiple_of(modulus);
            let fit = results.iter().enumerate().filter(|(at, result)| result.is_feasible() && allows(*at));
            let best = fit.max_by_key(|(at, result)| {
                (result.base_score, tie_break(result.hash, random), std::cmp::Reverse(*at))
            });
            match ranked.find_best(random, allows) {
                RankLookup::Best(at) => prop_assert_eq!(Some(at), best.map(|(at, _)| at)),
                RankLookup::NoneFits => prop_assert!(best.is_none()),
                RankLookup::Undecided => {
                    prop_assert!(results.iter().filter(|result| result.is_feasible()).count() >= TESTS_MAX);
                }
            }
        }
    }
}
