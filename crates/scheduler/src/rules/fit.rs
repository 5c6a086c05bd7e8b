//! A node must have room for what a pod asks for. Those with the most room left, and with processors and memory taken
//! evenly, do best.

use std::borrow::Cow;

use super::{Helps, Rejection, SCORE_MAX};
use crate::cache::node::Node;
use crate::profile::Weights;
use crate::request::Request;

/// So many resources that are short are named; a pod may ask for thousands.
const REASONS_MAX: usize = 32;

/// Whether the node will do.
///
/// # Errors
/// If not, and why: everything that is short is named, up to a bound.
pub fn filter(request: &Request, node: &Node) -> Result<(), Rejection> {
    let (asked, taken, offer) = (&request.asked, &node.taken, &node.offer.amounts);
    let full = i64::try_from(node.pods.len()).unwrap_or(i64::MAX) + 1 > node.offer.pods;
    let short = |asked: i64, taken: i64, offer: i64| asked > 0 && asked > offer - taken;
    if !full
        && !short(asked.cpu, taken.cpu, offer.cpu)
        && !short(asked.memory, taken.memory, offer.memory)
        && !short(asked.ephemeral, taken.ephemeral, offer.ephemeral)
        && !asked.others.iter().any(|(name, amount)| short(*amount, taken.other(name), offer.other(name)))
    {
        return Ok(());
    }
    let mut reasons: Vec<Cow<'static, str>> = Vec::new();
    let mut is_resolvable = true;
    if full {
        reasons.push("Too many pods".into());
    }
    let named: [(&'static str, i64, i64, i64); 3] = [
        ("Insufficient cpu", asked.cpu, taken.cpu, offer.cpu),
        ("Insufficient memory", asked.memory, taken.memory, offer.memory),
        ("Insufficient ephemeral-storage", asked.ephemeral, taken.ephemeral, offer.ephemeral),
    ];
    for (reason, asked, taken, offer) in named {
        if short(asked, taken, offer) {
            reasons.push(reason.into());
            is_resolvable &= asked <= offer;
        }
    }
    let others = asked.others.iter().filter(|(name, amount)| {
        let (taken, offer) = (taken.other(name), offer.other(name));
        short(**amount, taken, offer)
    });
    for (name, amount) in others {
        if reasons.len() < REASONS_MAX {
            reasons.push(format!("Insufficient {name}").into());
        }
        is_resolvable &= *amount <= offer.other(name);
    }
    Err(Rejection { reasons, is_resolvable, helps: Helps::NODES | Helps::PODS })
}

/// How much room is left, and how even.
#[must_use]
pub fn score(request: &Request, node: &Node, weights: &Weights) -> i64 {
    weights.room * least_allocated(request, node) + weights.evenness * balanced(request, node)
}

fn least_allocated(request: &Request, node: &Node) -> i64 {
    let offer = &node.offer.amounts;
    let pairs = [
        (node.likely_cpu + request.likely_cpu, offer.cpu),
        (node.likely_memory + request.likely_memory, offer.memory),
    ];
    let (mut sum, mut count) = (0, 0);
    for (taken, offer) in pairs {
        if offer > 0 {
            sum += if taken > offer { 0 } else { (offer - taken) * SCORE_MAX / offer };
            count += 1;
        }
    }
    if count == 0 { 0 } else { sum / count }
}

fn balanced(request: &Request, node: &Node) -> i64 {
    let (asked, taken, offer) = (&request.asked, &node.taken, &node.offer.amounts);
    if asked.cpu == 0 && asked.memory == 0 {
        return 0;
    }
    let before = evenness([(taken.cpu, offer.cpu), (taken.memory, offer.memory)]);
    let after = evenness([(taken.cpu + asked.cpu, offer.cpu), (taken.memory + asked.memory, offer.memory)]);
    SCORE_MAX / 2 + (SCORE_MAX / 2 + after - before) / 2
}

fn evenness(pairs: [(i64, i64); 2]) -> i64 {
    let [cpu, memory] = pairs;
    if cpu.1 == 0 || memory.1 == 0 {
        return SCORE_MAX;
    }
    let share = |(taken, offer): (i64, i64)| (taken as f64 / offer as f64).min(1.0);
    let deviation = ((share(cpu) - share(memory)) / 2.0).abs();
    ((1.0 - deviation) * SCORE_MAX as f64) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Amounts;

    fn node(cpu: i64, memory: i64) -> Node {
        let mut node = Node::named("n");
        node.offer.amounts = Amounts { cpu, memory, ..Amounts::default() };
        node.offer.pods = 110;
        node
    }

    fn request(cpu: i64, memory: i64) -> Request {
        let asked = Amounts { cpu, memory, ..Amounts::default() };
        Request { asked, likely_cpu: cpu, likely_memory: memory }
    }

    #[test]
    fn everything_that_is_short_is_named() {
        let mut node = node(1000, 1000);
        node.take(&request(600, 0), 1);
        assert_eq!(filter(&request(400, 1000), &node), Ok(()));
        let short = filter(&request(500, 1001), &node).unwrap_err();
        assert_eq!(short.reasons, ["Insufficient cpu", "Insufficient memory"]);
        assert!(!short.is_resolvable, "more memory than the node has");
        assert!(filter(&request(500, 0), &node).unwrap_err().is_resolvable);
        node.offer.pods = 0;
        assert_eq!(filter(&request(0, 0), &node).unwrap_err().reasons, ["Too many pods"]);
    }

    #[test]
    fn room_and_evenness_score() {
        let weights = Weights::default();
        // Half of both is left: 50; as even as before: 75.
        assert_eq!(score(&request(500, 500), &node(1000, 1000), &weights), 50 + 75);
        // 20 of 100 and 100 of 100 are left: 60; the shares lie 0.8 apart, which costs 40 of 100, half of it here.
        assert_eq!(score(&request(800, 0), &node(1000, 1000), &weights), 60 + 55);
    }
}
