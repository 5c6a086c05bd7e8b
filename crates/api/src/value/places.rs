//! Places of the fields of a large map in the order of their keys.

use std::cmp::Ordering;

/// Places in a block at most; a full block is cut in two. In tests blocks are small, so that there are many.
const BLOCK_MAX: usize = if cfg!(test) { 8 } else { 1024 };

/// Places in the order of keys, in blocks, so that an insertion or a removal moves no more than a block. No block is
/// empty.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    blocks: Vec<Vec<u32>>,
}

/// Where a place stands: its block, and its number there.
type Slot = (usize, usize);

impl Places {
    /// An index of places that are in the order of their keys.
    pub fn of(order: &[u32]) -> Places {
        Places { blocks: order.chunks(BLOCK_MAX / 2).map(<[u32]>::to_vec).collect() }
    }

    /// Where the place of a key stands, or would stand. `compare` is how the key at a place compares with it.
    pub fn find(&self, compare: impl Fn(u32) -> Ordering) -> Result<Slot, Slot> {
        let starts_after = |block: &Vec<u32>| compare(block[0]) != Ordering::Greater;
        let block = self.blocks.partition_point(starts_after).saturating_sub(1);
        let within =
            self.blocks.get(block).map_or(Err(0), |places| places.binary_search_by(|place| compare(*place)));
        within.map(|at| (block, at)).map_err(|at| (block, at))
    }

    /// The place that stands somewhere.
    pub fn get(&self, (block, at): Slot) -> u32 {
        self.blocks[block][at]
    }

    /// Puts another place where one stands.
    pub fn set(&mut self, (block, at): Slot, place: u32) {
        self.blocks[block][at] = place;
    }

    /// Puts a place before what stands there.
    pub fn insert(&mut self, (block, at): Slot, place: u32) {
        let Some(places) = self.blocks.get_mut(block) else { return self.blocks.push(vec![place]) };
        places.insert(at, place);
        if places.len() > BLOCK_MAX {
            let rest = places.split_off(BLOCK_MAX / 2);
            self.blocks.insert(block + 1, rest);
        }
    }

    /// Takes a place away.
    pub fn remove(&mut self, (block, at): Slot) {
        self.blocks[block].remove(at);
        if self.blocks[block].is_empty() {
            self.blocks.remove(block);
        }
    }

    /// Moves the places behind one that was taken out of the map.
    pub fn close_gap(&mut self, gap: u32) {
        self.blocks.iter_mut().flatten().filter(|place| **place > gap).for_each(|place| *place -= 1);
    }
}
