//! ImageLocality plugin: scores nodes by the size of the pod's images that they already have.
//!
//! The size is scaled by the share of nodes that have the image, so that a node with a rare image does not attract
//! every pod that uses it.

use super::SCORE_MAX;
use crate::cache::SchedulerCache;
use crate::cache::node_info::NodeInfo;
use crate::signature::PodSignature;

const MEBIBYTE: i64 = 1024 * 1024;
/// Sum of image sizes in bytes that scores 0.
const SIZE_MIN: i64 = 23 * MEBIBYTE;
/// Image size in bytes, per container, that scores [`SCORE_MAX`].
const SIZE_MAX: i64 = 1000 * MEBIBYTE;

/// Score of a node.
#[must_use]
pub fn score(signature: &PodSignature, node: &NodeInfo, cache: &SchedulerCache) -> i64 {
    if node.attributes.images.is_empty() || signature.images.container_count == 0 {
        return 0;
    }
    let scaled_size = |(image, containers, size): (&str, i64, i64)| {
        let share = *cache.nodes_with_image.get(image)? as f64 / cache.node_count.max(1) as f64;
        Some((size as f64 * share) as i64 * containers)
    };
    let sum: i64 = signature.images.find_in(&node.attributes.images).filter_map(scaled_size).sum();
    let max = SIZE_MAX.saturating_mul(signature.images.container_count);
    SCORE_MAX * (sum.clamp(SIZE_MIN, max) - SIZE_MIN) / (max - SIZE_MIN)
}
