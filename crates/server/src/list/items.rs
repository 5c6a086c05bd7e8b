//! Encoded items of a list, which the responses to equal requests share.
//!
//! The first response that needs a chunk encodes it, the others send the same bytes. For example, 200 clients list
//! 5,000 Pods as YAML at once: the first to need chunk 7 encodes it while it holds the lock, and the others send
//! it. A list is shared while its chunks fit the [`ChunkBudget`]; beyond that each response encodes for itself.

use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_store::Record;

use super::PageMeta;
use super::encoding::{CHUNK_BYTES, CHUNK_ITEMS, ItemEncoder};
use crate::encoded_chunk::{ChunkBudget, EncodedChunk};
use crate::exchange::{BodyPart, Chunks, Payload};

/// The items of a list in one form.
#[derive(Debug)]
pub(super) struct Items {
    encoder: ItemEncoder,
    count: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Objects of the list; none once every chunk is encoded.
    records: Arc<Vec<Record>>,
    /// Chunks from the first item on, each with the item that follows it.
    chunks: Vec<(Arc<EncodedChunk>, usize)>,
    /// Budget of further chunks; `None` if they are not shared.
    budget: Option<Arc<ChunkBudget>>,
}

impl State {
    fn is_complete(&self, count: usize) -> bool {
        self.chunks.last().is_some_and(|(_, next)| *next == count)
    }
}

impl Items {
    /// Items that are shared as far as `budget` allows.
    pub fn new(records: Vec<Record>, encoder: ItemEncoder, budget: Option<&Arc<ChunkBudget>>) -> Arc<Items> {
        let count = records.len();
        let state = State { records: Arc::new(records), chunks: Vec::new(), budget: budget.cloned() };
        Arc::new(Items { encoder, count, state: Mutex::new(state) })
    }

    /// Returns a body with these items. Its length is known if all of them are encoded.
    pub fn body(self: &Arc<Items>, meta: PageMeta) -> Payload {
        if self.encoder.is_stored() {
            self.encode_all();
        }
        let state = self.state.lock();
        if !state.is_complete(self.count) {
            drop(state);
            return Payload::Chunked(Box::new(ListReader::new(Arc::clone(self), meta)));
        }
        let items_len = state.chunks.iter().map(|(chunk, _)| chunk.bytes.len()).sum();
        let mut parts = Vec::with_capacity(state.chunks.len() + 2);
        parts.push(BodyPart::from(self.encoder.head(&meta, self.count, items_len)));
        parts.extend(state.chunks.iter().map(|(chunk, _)| BodyPart::Shared(Arc::clone(chunk))));
        parts.push(BodyPart::from(self.encoder.tail(&meta, self.count)));
        Payload::Whole(parts)
    }

    /// Encodes all chunks that can be shared. For stored JSON only, where that is copying.
    fn encode_all(&self) {
        while self.encode_next() {}
    }

    /// Encodes another chunk. Returns `false` if all are encoded, or no more can be shared.
    fn encode_next(&self) -> bool {
        let mut state = self.state.lock();
        let from = state.chunks.last().map_or(0, |(_, next)| *next);
        from < self.count && state.budget.is_some() && self.encode(&mut state, from).is_ok()
    }

    /// Encodes the next shared chunk.
    ///
    /// # Errors
    /// The chunk, if the budget has no room for it: it is not shared then.
    fn encode(
        &self,
        state: &mut State,
        from: usize,
    ) -> Result<(Arc<EncodedChunk>, usize), (BodyPart, usize)> {
        let (bytes, next) = self.encoder.chunk(&state.records, from);
        let Some(budget) = state.budget.clone().filter(|budget| budget.has_room(bytes.len())) else {
            state.budget = None;
            return Err((BodyPart::from(bytes), next));
        };
        let chunk = Arc::new(EncodedChunk::new(bytes.into(), &budget));
        state.chunks.push((Arc::clone(&chunk), next));
        if next == self.count {
            state.records = Arc::default();
        }
        Ok((chunk, next))
    }

    /// Returns the chunk with this index, which starts at the item `from`, and the item that follows it.
    fn chunk(&self, index: usize, from: usize) -> (BodyPart, usize) {
        let mut state = self.state.lock();
        if let Some((chunk, next)) = state.chunks.get(index) {
            return (BodyPart::Shared(Arc::clone(chunk)), *next);
        }
        if state.budget.is_none() {
            let records = Arc::clone(&state.records);
            drop(state);
            let (bytes, next) = self.encoder.chunk(&records, from);
            return (BodyPart::from(bytes), next);
        }
        // Every reader has taken all chunks before this one, so it is the next to be encoded.
        debug_assert_eq!(state.chunks.len(), index);
        match self.encode(&mut state, from) {
            Ok((chunk, next)) => (BodyPart::Shared(chunk), next),
            Err(unshared) => unshared,
        }
    }

    /// Measures some items from `from` on. Returns their length and the item that follows them.
    fn measure(&self, from: usize) -> (usize, usize) {
        let records = Arc::clone(&self.state.lock().records);
        let some = &records[from..records.len().min(from + CHUNK_ITEMS)];
        (some.iter().map(|record| self.encoder.item_len(record)).sum(), from + some.len())
    }
}

/// A body in progress: the head, the items chunk by chunk, the tail.
struct ListReader {
    items: Arc<Items>,
    meta: PageMeta,
    stage: Stage,
}

enum Stage {
    /// Sums up the length of the items before `next`.
    Measure {
        next: usize,
        items_len: usize,
    },
    Head {
        items_len: usize,
    },
    Chunk {
        index: usize,
        from: usize,
    },
    Ended,
}

impl ListReader {
    fn new(items: Arc<Items>, meta: PageMeta) -> ListReader {
        let stage = if items.encoder.needs_length() {
            Stage::Measure { next: 0, items_len: 0 }
        } else {
            Stage::Head { items_len: 0 }
        };
        ListReader { items, meta, stage }
    }

    /// Takes a step towards the length of all items.
    fn measure(&self, next: usize, items_len: usize) -> Stage {
        let items = &self.items;
        if items.encode_next() {
            return Stage::Measure { next, items_len };
        }
        let state = items.state.lock();
        if state.is_complete(items.count) {
            return Stage::Head { items_len: state.chunks.iter().map(|(chunk, _)| chunk.bytes.len()).sum() };
        }
        drop(state);
        if next == items.count {
            return Stage::Head { items_len };
        }
        let (some, next) = items.measure(next);
        Stage::Measure { next, items_len: items_len + some }
    }
}

impl Chunks for ListReader {
    fn next_chunk(&mut self) -> Option<BodyPart> {
        let (count, encoder) = (self.items.count, &self.items.encoder);
        match self.stage {
            Stage::Measure { next, items_len } => {
                self.stage = self.measure(next, items_len);
                Some(BodyPart::from(Vec::new()))
            }
            Stage::Head { items_len } => {
                self.stage = Stage::Chunk { index: 0, from: 0 };
                Some(BodyPart::from(encoder.head(&self.meta, count, items_len)))
            }
            Stage::Chunk { index, from } if from < count => {
                let (chunk, next) = self.items.chunk(index, from);
                self.stage = Stage::Chunk { index: index + 1, from: next };
                Some(chunk)
            }
            Stage::Chunk { .. } => {
                self.stage = Stage::Ended;
                Some(BodyPart::from(encoder.tail(&self.meta, count)))
            }
            Stage::Ended => None,
        }
    }

    fn held_bytes(&self) -> usize {
        self.items.count * size_of::<Record>() + 4 * CHUNK_BYTES
    }
}

#[cfg(test)]
mod tests;
