//! A node that has the images of a pod starts it sooner. An image that few nodes have counts less, so that they are
//! not flooded.

use super::SCORE_MAX;
use crate::cache::Cache;
use crate::cache::node::Node;
use crate::shape::Shape;

const MEBI: i64 = 1024 * 1024;
/// What less than this is worth nothing.
const LEAST: i64 = 23 * MEBI;
/// What an image is worth at the most.
const MOST: i64 = 1000 * MEBI;

/// The score of a node.
#[must_use]
pub fn score(shape: &Shape, node: &Node, cache: &Cache) -> i64 {
    if node.offer.images.is_empty() || shape.images.uses == 0 {
        return 0;
    }
    let worth = |(image, uses, size): (&str, i64, i64)| {
        let spread = *cache.images.get(image)? as f64 / cache.existing.max(1) as f64;
        Some((size as f64 * spread) as i64 * uses)
    };
    let sum: i64 = shape.images.among(&node.offer.images).filter_map(worth).sum();
    let most = MOST.saturating_mul(shape.images.uses);
    SCORE_MAX * (sum.clamp(LEAST, most) - LEAST) / (most - LEAST)
}
