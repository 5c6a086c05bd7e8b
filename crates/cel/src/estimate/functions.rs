//! Costs of the standard library.

use super::walk::{CostCall, CostNode, Coster};
use super::{CallEstimate, CostEstimate, REGEX_FACTOR, STRING_FACTOR, SizeEstimate};

fn known(node: &CostNode) -> SizeEstimate {
    node.size.unwrap_or(SizeEstimate::UNKNOWN)
}

impl Coster<'_> {
    pub(super) fn standard_cost(&mut self, call: &CostCall, overload: &str) -> CallEstimate {
        let arg_cost = call.arg_cost();
        let special = match overload {
            "logical_or" | "logical_and" => short_circuit_cost(call),
            "conditional" => self.conditional_cost(call),
            "add_string" | "add_bytes" | "add_list" => self.addition_cost(call, overload),
            _ => None,
        };
        if let Some(estimate) = special {
            return estimate;
        }
        let estimate = traversal_cost(call, overload)
            .or_else(|| search_cost(call, overload))
            .or_else(|| comparison_cost(call, overload))
            // Other functions take constant time.
            .unwrap_or(CallEstimate::fixed(1));
        CallEstimate { cost: estimate.cost.plus(arg_cost), ..estimate }
    }

    fn conditional_cost(&mut self, call: &CostCall) -> Option<CallEstimate> {
        let ([_, first, second], [condition, first_cost, second_cost]) = (&*call.args, &*call.arg_costs)
        else {
            return None;
        };
        if let (Some(first), Some(second)) = (self.entry_size(first.id), self.entry_size(second.id)) {
            self.set_entry_size(call.id, first.union(second));
        }
        let cost = condition.plus(first_cost.union(*second_cost));
        Some(CallEstimate::sized(cost, known(first).union(known(second))))
    }

    fn addition_cost(&mut self, call: &CostCall, overload: &str) -> Option<CallEstimate> {
        let [left, right] = &*call.args else { return None };
        let size = known(left).plus(known(right));
        if let (Some(first), Some(second)) = (self.entry_size(left.id), self.entry_size(right.id)) {
            self.set_entry_size(call.id, first.union(second));
        }
        // The concatenation of lists copies nothing.
        let cost = if overload == "add_list" { CostEstimate::fixed(1) } else { size.scale(STRING_FACTOR) };
        Some(CallEstimate::sized(cost.plus(call.arg_cost()), size))
    }
}

fn short_circuit_cost(call: &CostCall) -> Option<CallEstimate> {
    let [left, right] = *call.arg_costs else { return None };
    Some(CallEstimate::of(CostEstimate { min: left.min, max: left.plus(right).max }))
}

/// Functions that traverse one string or list.
fn traversal_cost(call: &CostCall, overload: &str) -> Option<CallEstimate> {
    let first = call.args.first();
    Some(match overload {
        "string_format" => CallEstimate::of(known(call.target.as_ref()?).scale(STRING_FACTOR)),
        "string_to_bytes" => {
            let size = known(first?);
            // A character has up to 4 bytes. cel-go's product wraps for unknown sizes.
            let result = SizeEstimate { min: size.min, max: size.max.wrapping_mul(4) };
            CallEstimate::sized(size.scale(STRING_FACTOR), result)
        }
        "bytes_to_string" => {
            let size = known(first?);
            let result = SizeEstimate { min: size.min / 4, max: size.max };
            CallEstimate::sized(size.scale(STRING_FACTOR), result)
        }
        "strings_quote" => {
            let size = known(first?);
            // Each character may be escaped, and the quotes are added; cel-go's arithmetic wraps.
            let max = size.max.wrapping_mul(2).wrapping_add(2);
            let result = SizeEstimate { min: size.min.wrapping_add(2), max };
            CallEstimate::sized(size.scale(STRING_FACTOR), result)
        }
        "starts_with_string" | "ends_with_string" => CallEstimate::of(known(first?).scale(STRING_FACTOR)),
        "in_list" => CallEstimate::of(known(call.args.get(1)?).scale(1.0)),
        _ => return None,
    })
}

/// Functions whose cost is the product of a text and a pattern.
fn search_cost(call: &CostCall, overload: &str) -> Option<CallEstimate> {
    let cost = match (overload, &call.target, &*call.args) {
        ("matches_string", Some(text), [pattern]) | ("matches", None, [text, pattern]) => {
            regex_cost(known(text), known(pattern))
        }
        ("contains_string", Some(text), [part]) => {
            known(text).scale(STRING_FACTOR).times(known(part).scale(STRING_FACTOR))
        }
        _ => return None,
    };
    Some(CallEstimate::of(cost))
}

/// Returns the cost of a match. The text counts as one character longer, so that a pattern costs something on the
/// empty text too.
pub(super) fn regex_cost(text: SizeEstimate, pattern: SizeEstimate) -> CostEstimate {
    text.plus(SizeEstimate::fixed(1)).scale(STRING_FACTOR).times(pattern.scale(REGEX_FACTOR))
}

/// Comparisons, which end with the shorter of two values.
fn comparison_cost(call: &CostCall, overload: &str) -> Option<CallEstimate> {
    let is_comparison = matches!(overload, "equals" | "not_equals")
        || ["less_", "less_equals_", "greater_", "greater_equals_"]
            .into_iter()
            .any(|prefix| matches!(overload.strip_prefix(prefix), Some("string" | "bytes")));
    let [left, right] = &*call.args else { return None };
    let max = known(left).max.min(known(right).max);
    let size = SizeEstimate { min: u64::from(max > 0), max };
    is_comparison.then(|| CallEstimate::of(size.scale(STRING_FACTOR)))
}
