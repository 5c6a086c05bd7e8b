//! Document form for a long JSON patch: every operation on a list or object costs at most O(√n).
//!
//! [`Value`] keeps lists and fields in vectors, where an insertion moves all that follows and a lookup reads
//! all that precedes. That is best for a few operations, but 10,000 of them on a list of 100,000 items take
//! half a minute. Here a list is a sequence of chunks, and an object is a tree by key whose fields carry an
//! insertion number, which restores their order. Each node knows its height, so that a move needs no walk to
//! check [`DEPTH_MAX`](crate::json::DEPTH_MAX).
//!
//! Example: a list of 1,000 items has 8 chunks of about 128; inserting at index 500 skips 3 chunks and shifts
//! at most 256 items.

use std::collections::BTreeMap;

use compact_str::CompactString;

use super::{JsonPatchError, unescape};
use crate::json::to_vec;
use crate::value::{Map, Value};

/// Maximum items of a chunk before it is split.
const CHUNK_LEN_MAX: usize = 256;

/// A value of the document.
#[derive(Clone, Debug)]
pub(super) enum DocumentNode {
    /// A scalar.
    Leaf(Value),
    /// A list.
    List(Sequence, Heights),
    /// An object.
    Map(DocumentFields, Heights),
}

/// Heights of the children of a node, with the number of children of each height.
#[derive(Clone, Debug, Default)]
pub(super) struct Heights(BTreeMap<usize, usize>);

impl Heights {
    fn add(&mut self, height: usize) {
        *self.0.entry(height).or_default() += 1;
    }

    fn remove(&mut self, height: usize) {
        if let Some(count) = self.0.get_mut(&height) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&height);
            }
        }
    }

    fn replace(&mut self, old: usize, new: usize) {
        if old != new {
            self.remove(old);
            self.add(new);
        }
    }

    fn max(&self) -> usize {
        self.0.last_key_value().map_or(0, |(height, _)| *height)
    }
}

/// Items of a list, in chunks.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequence {
    chunks: Vec<Vec<DocumentNode>>,
    len: usize,
}

impl Sequence {
    fn from_items(items: impl ExactSizeIterator<Item = DocumentNode>) -> Sequence {
        let len = items.len();
        let mut chunks = Vec::with_capacity(len / CHUNK_LEN_MAX * 2 + 1);
        let mut chunk = Vec::new();
        for item in items {
            chunk.push(item);
            if chunk.len() == CHUNK_LEN_MAX / 2 {
                chunks.push(std::mem::take(&mut chunk));
            }
        }
        chunks.push(chunk);
        Sequence { chunks, len }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Chunk of an index, and the position in it. The index past the end of the list is past the end of the
    /// last chunk.
    fn place(&self, mut at: usize) -> (usize, usize) {
        for (number, chunk) in self.chunks.iter().enumerate() {
            if at < chunk.len() || at == chunk.len() && number + 1 == self.chunks.len() {
                return (number, at);
            }
            at -= chunk.len();
        }
        (0, 0)
    }

    fn get(&self, at: usize) -> Option<&DocumentNode> {
        let (chunk, at) = self.place(at);
        self.chunks.get(chunk)?.get(at)
    }

    fn get_mut(&mut self, at: usize) -> Option<&mut DocumentNode> {
        let (chunk, at) = self.place(at);
        self.chunks.get_mut(chunk)?.get_mut(at)
    }

    fn insert(&mut self, at: usize, node: DocumentNode) {
        let (number, at) = self.place(at);
        if self.chunks.is_empty() {
            self.chunks.push(Vec::new());
        }
        let chunk = &mut self.chunks[number];
        chunk.insert(at, node);
        if chunk.len() >= CHUNK_LEN_MAX {
            let rest = chunk.split_off(CHUNK_LEN_MAX / 2);
            self.chunks.insert(number + 1, rest);
        }
        self.len += 1;
    }

    fn remove(&mut self, at: usize) -> DocumentNode {
        let (number, at) = self.place(at);
        let node = self.chunks[number].remove(at);
        if self.chunks[number].is_empty() && self.chunks.len() > 1 {
            self.chunks.remove(number);
        }
        self.len -= 1;
        node
    }

    fn iter(&self) -> impl Iterator<Item = &DocumentNode> {
        self.chunks.iter().flatten()
    }
}

/// Fields of an object by key, each with its insertion number.
#[derive(Clone, Debug, Default)]
pub(super) struct DocumentFields {
    by_key: BTreeMap<CompactString, (u64, DocumentNode)>,
    next: u64,
}

impl DocumentFields {
    fn insert(&mut self, key: &str, node: DocumentNode) -> Option<DocumentNode> {
        if let Some((_, old)) = self.by_key.get_mut(key) {
            return Some(std::mem::replace(old, node));
        }
        self.by_key.insert(key.into(), (self.next, node));
        self.next += 1;
        None
    }
}

impl DocumentNode {
    pub(super) fn new(value: Value) -> DocumentNode {
        let mut heights = Heights::default();
        match value {
            Value::List(items) => {
                let items = items.into_iter().map(|item| {
                    let node = DocumentNode::new(item);
                    heights.add(node.height());
                    node
                });
                DocumentNode::List(Sequence::from_items(items), heights)
            }
            Value::Map(map) => {
                let mut fields = DocumentFields::default();
                for (key, value) in map {
                    let node = DocumentNode::new(value);
                    heights.add(node.height());
                    fields.by_key.insert(key, (fields.next, node));
                    fields.next += 1;
                }
                DocumentNode::Map(fields, heights)
            }
            leaf => DocumentNode::Leaf(leaf),
        }
    }

    pub(super) fn into_value(self) -> Value {
        match self {
            DocumentNode::Leaf(value) => value,
            DocumentNode::List(items, _) => {
                Value::List(items.chunks.into_iter().flatten().map(DocumentNode::into_value).collect())
            }
            DocumentNode::Map(fields, _) => {
                let mut entries: Vec<(u64, CompactString, Value)> = fields
                    .by_key
                    .into_iter()
                    .map(|(key, (number, node))| (number, key, node.into_value()))
                    .collect();
                entries.sort_unstable_by_key(|(number, ..)| *number);
                let entries = entries.into_iter().map(|(_, key, value)| (key, value));
                Value::Map(Map::from_unique(entries.collect()))
            }
        }
    }

    /// Levels of nested lists and objects, including its own.
    pub(super) fn height(&self) -> usize {
        match self {
            DocumentNode::Leaf(_) => 0,
            DocumentNode::List(_, heights) | DocumentNode::Map(_, heights) => 1 + heights.max(),
        }
    }

    pub(super) fn is_container(&self) -> bool {
        !matches!(self, DocumentNode::Leaf(_))
    }

    /// Bytes of its JSON.
    pub(super) fn json_len(&self) -> usize {
        let separators = |len: usize| 2 + len.saturating_sub(1);
        match self {
            DocumentNode::Leaf(value) => to_vec(value).len(),
            DocumentNode::List(items, _) => {
                separators(items.len()) + items.iter().map(DocumentNode::json_len).sum::<usize>()
            }
            DocumentNode::Map(fields, _) => {
                let field = |(key, (_, node)): (&CompactString, &(u64, DocumentNode))| {
                    to_vec(&Value::Str(key.clone())).len() + 1 + node.json_len()
                };
                separators(fields.by_key.len()) + fields.by_key.iter().map(field).sum::<usize>()
            }
        }
    }

    /// `true` if it equals this value, independent of field order.
    pub(super) fn equals(&self, value: &Value) -> bool {
        match (self, value) {
            (DocumentNode::Leaf(own), value) => own == value,
            (DocumentNode::List(own, _), Value::List(items)) => {
                own.len() == items.len() && own.iter().zip(items).all(|(own, item)| own.equals(item))
            }
            (DocumentNode::Map(own, _), Value::Map(map)) => {
                let equal = |(key, value): (&str, &Value)| {
                    own.by_key.get(key).is_some_and(|(_, node)| node.equals(value))
                };
                own.by_key.len() == map.len() && map.iter().all(equal)
            }
            _ => false,
        }
    }

    /// Calls `act` on the container at the parent of a path with the last segment, and updates the heights of
    /// all enclosing containers.
    pub(super) fn with_parent<R>(
        &mut self,
        kind: &'static str,
        path: &str,
        action: impl FnOnce(&mut DocumentNode, &str) -> Result<R, JsonPatchError>,
    ) -> Result<R, JsonPatchError> {
        let missing = || JsonPatchError::Missing { kind, path: path.to_owned() };
        let (parents, last) = path.rsplit_once('/').ok_or_else(missing)?;
        let parts = parents.split('/').skip(1);
        self.descend(parts, &missing, |node| action(node, &unescape(last)))
    }

    fn descend<'p, R>(
        &mut self,
        mut parts: impl Iterator<Item = &'p str>,
        missing: &dyn Fn() -> JsonPatchError,
        action: impl FnOnce(&mut DocumentNode) -> Result<R, JsonPatchError>,
    ) -> Result<R, JsonPatchError> {
        let Some(part) = parts.next() else { return action(self) };
        let part = unescape(part);
        let (child, heights) = match self {
            DocumentNode::Leaf(_) => return Err(missing()),
            DocumentNode::List(items, heights) => {
                let at = super::parse_index(&part, items.len()).map_err(|_| missing())?;
                (items.get_mut(at), heights)
            }
            DocumentNode::Map(fields, heights) => {
                (fields.by_key.get_mut(&*part).map(|(_, node)| node), heights)
            }
        };
        let child = child.filter(|child| child.is_container()).ok_or_else(missing)?;
        let before = child.height();
        let result = child.descend(parts, missing, action);
        heights.replace(before, child.height());
        result
    }

    /// Child with this key; `None` for an absent field.
    pub(super) fn child(&self, key: &str) -> Result<Option<&DocumentNode>, JsonPatchError> {
        match self {
            DocumentNode::Leaf(_) => Ok(None),
            DocumentNode::List(items, _) => Ok(items.get(super::parse_index(key, items.len())?)),
            DocumentNode::Map(fields, _) => Ok(fields.by_key.get(key).map(|(_, node)| node)),
        }
    }

    /// Adds a child: sets a field, or inserts a list item.
    pub(super) fn add_child(&mut self, key: &str, node: DocumentNode) -> Result<(), JsonPatchError> {
        match self {
            DocumentNode::List(items, heights) => {
                let at = if key == "-" { items.len() } else { super::parse_index(key, items.len() + 1)? };
                heights.add(node.height());
                items.insert(at, node);
            }
            _ => self.set_field(key, node),
        }
        Ok(())
    }

    /// Sets a field or replaces a list item.
    pub(super) fn set_child(&mut self, key: &str, node: DocumentNode) -> Result<(), JsonPatchError> {
        match self {
            DocumentNode::List(items, heights) => {
                let at = super::parse_index(key, items.len())?;
                if let Some(slot) = items.get_mut(at) {
                    heights.replace(slot.height(), node.height());
                    *slot = node;
                }
            }
            _ => self.set_field(key, node),
        }
        Ok(())
    }

    fn set_field(&mut self, key: &str, node: DocumentNode) {
        if !matches!(self, DocumentNode::Map(..)) {
            *self = DocumentNode::Map(DocumentFields::default(), Heights::default());
        }
        if let DocumentNode::Map(fields, heights) = self {
            heights.add(node.height());
            if let Some(old) = fields.insert(key, node) {
                heights.remove(old.height());
            }
        }
    }

    /// Removes a child; `None` for an absent field.
    pub(super) fn remove_child(&mut self, key: &str) -> Result<Option<DocumentNode>, JsonPatchError> {
        let (child, heights) = match self {
            DocumentNode::Leaf(_) => return Ok(None),
            DocumentNode::List(items, heights) => {
                let at = super::parse_index(key, items.len())?;
                (Some(items.remove(at)), heights)
            }
            DocumentNode::Map(fields, heights) => (fields.by_key.remove(key).map(|(_, node)| node), heights),
        };
        if let Some(child) = &child {
            heights.remove(child.height());
        }
        Ok(child)
    }
}
