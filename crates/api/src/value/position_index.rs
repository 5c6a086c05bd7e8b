//! Position index of a large map: positions of its entries, sorted by key.

use std::cmp::Ordering;

/// Maximum number of positions in a block; a fuller block is split in two. Small in tests, so that splits happen.
const BLOCK_MAX: usize = if cfg!(test) { 8 } else { 1024 };

/// Positions sorted by key, in blocks, so that an insertion or a removal moves at most one block. No block is empty.
#[derive(Clone, Debug, Default)]
pub(super) struct PositionIndex {
    blocks: Vec<Vec<u32>>,
}

/// Location in the index: number of the block, and offset in it.
type Slot = (usize, usize);

impl PositionIndex {
    /// Builds an index from positions that are sorted by key.
    pub fn from_sorted(order: &[u32]) -> PositionIndex {
        PositionIndex { blocks: order.chunks(BLOCK_MAX / 2).map(<[u32]>::to_vec).collect() }
    }

    /// Finds the slot of a key, or the slot at which to insert it. `compare` compares the key at a position with it.
    pub fn find(&self, compare: impl Fn(u32) -> Ordering) -> Result<Slot, Slot> {
        let starts_at_or_before = |block: &Vec<u32>| compare(block[0]) != Ordering::Greater;
        let block = self.blocks.partition_point(starts_at_or_before).saturating_sub(1);
        let within = self
            .blocks
            .get(block)
            .map_or(Err(0), |positions| positions.binary_search_by(|position| compare(*position)));
        within.map(|at| (block, at)).map_err(|at| (block, at))
    }

    /// Returns the position in a slot.
    pub fn get(&self, (block, at): Slot) -> u32 {
        self.blocks[block][at]
    }

    /// Overwrites the position in a slot.
    pub fn set(&mut self, (block, at): Slot, position: u32) {
        self.blocks[block][at] = position;
    }

    /// Inserts a position before a slot.
    pub fn insert(&mut self, (block, at): Slot, position: u32) {
        let Some(positions) = self.blocks.get_mut(block) else { return self.blocks.push(vec![position]) };
        positions.insert(at, position);
        if positions.len() > BLOCK_MAX {
            let rest = positions.split_off(BLOCK_MAX / 2);
            self.blocks.insert(block + 1, rest);
        }
    }

    /// Removes a slot.
    pub fn remove(&mut self, (block, at): Slot) {
        self.blocks[block].remove(at);
        if self.blocks[block].is_empty() {
            self.blocks.remove(block);
        }
    }

    /// Decrements the positions after that of an entry that was removed from the map.
    pub fn shift_after(&mut self, removed: u32) {
        self.blocks
            .iter_mut()
            .flatten()
            .filter(|position| **position > removed)
            .for_each(|position| *position -= 1);
    }
}
