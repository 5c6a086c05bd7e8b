//! Costs of sets and of cel-go's list extension.

use super::walk::{CostCall, CostNode, Coster};
use super::{CallEstimate, CostEstimate, LIST_COST, STRING_FACTOR, SizeEstimate};
use crate::ast::ExprKind;
use crate::literal::Literal;

/// Comparisons per pair of elements of a list that is compared with itself.
const SELF_COMPARE_FACTOR: f64 = 2.0;

impl Coster<'_> {
    pub(super) fn list_cost(&self, call: &CostCall, overload: &str) -> Option<CallEstimate> {
        match (overload, &call.target, &*call.args) {
            ("list_sets_contains_list" | "list_sets_intersects_list", _, [left, right]) => {
                Some(self.set_cost(left, right, 1.0))
            }
            // Each list is searched in the other.
            ("list_sets_equivalent_list", _, [left, right]) => Some(self.set_cost(left, right, 2.0)),
            ("list_slice", Some(list), [start, end]) => {
                let end = self.int_literal(end).unwrap_or(self.node_size(list).max);
                // cel-go's difference wraps if the start is behind the end.
                let size = end.wrapping_sub(self.int_literal(start).unwrap_or(0));
                Some(new_list_cost(1.0, SizeEstimate::fixed(size)))
            }
            ("lists_range", None, [count]) => {
                let size = self.int_literal(count).unwrap_or(u64::MAX);
                Some(new_list_cost(1.0, SizeEstimate::fixed(size)))
            }
            ("list_reverse", Some(list), []) => Some(new_list_cost(1.0, self.node_size(list))),
            ("list_flatten", Some(list), []) => Some(new_list_cost(1.0, self.node_size(list))),
            ("list_flatten_int", Some(list), [depth]) => {
                let depth = self.int_literal(depth).unwrap_or(u64::MAX);
                Some(new_list_cost(approximate(depth), self.node_size(list)))
            }
            ("list_distinct", Some(list), []) => {
                let size = self.node_size(list);
                Some(new_list_cost(SELF_COMPARE_FACTOR, size.times(size)))
            }
            (_, Some(list), []) if overload.ends_with("_sort") => Some(self.sort_cost(list, overload)),
            (_, Some(_), [keys]) if overload.ends_with("_sortByAssociatedKeys") => {
                Some(self.sort_cost(keys, overload))
            }
            _ => None,
        }
    }

    fn set_cost(&self, left: &CostNode, right: &CostNode, factor: f64) -> CallEstimate {
        let pairs = self.node_size(left).times(self.node_size(right));
        CallEstimate::of(pairs.scale(factor).plus(CostEstimate::fixed(1)))
    }

    fn sort_cost(&self, keys: &CostNode, overload: &str) -> CallEstimate {
        let is_text = overload.starts_with("list_string_") || overload.starts_with("list_bytes_");
        let factor = if is_text { SELF_COMPARE_FACTOR + STRING_FACTOR } else { SELF_COMPARE_FACTOR };
        let size = self.node_size(keys);
        new_list_cost(factor, size.times(size))
    }

    /// Returns the value of an integer literal; negative ones are 0.
    pub(super) fn int_literal(&self, node: &CostNode) -> Option<u64> {
        match self.kind(node.id) {
            ExprKind::Literal(Literal::Int(value)) => Some(u64::try_from(*value).unwrap_or(0)),
            _ => None,
        }
    }
}

/// Returns the cost of a call that creates a list.
fn new_list_cost(factor: f64, size: SizeEstimate) -> CallEstimate {
    CallEstimate::sized(size.scale(factor).plus(CostEstimate::fixed(1 + LIST_COST)), size)
}

#[expect(clippy::cast_precision_loss, reason = "as in cel-go, a factor is approximate")]
fn approximate(number: u64) -> f64 {
    number as f64
}
