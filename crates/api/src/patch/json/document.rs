//! Document under a long JSON patch: every list and object in a form in which one operation costs O(√n) at the most.
//!
//! [`Value`] keeps lists and fields in vectors, where an insertion moves all that follows and a lookup reads all that
//! precedes. That is best for a few operations, and 10,000 of them on a list of 100,000 items take half a minute. Here
//! a list is a sequence of chunks, and an object is a tree by key whose fields carry the number of their insertion,
//! which gives their order back. Each node knows its height, so that a move needs no walk to check
//! [`DEPTH_MAX`](crate::json::DEPTH_MAX).

use std::collections::BTreeMap;

use compact_str::CompactString;

use super::{JsonPatchError, unescape};
use crate::json::to_vec;
use crate::value::{Map, Value};

/// Items of a chunk after which it is cut in two.
const CHUNK_LEN_MAX: usize = 256;

/// A value of the document.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// A scalar.
    Leaf(Value),
    /// A list.
    List(Sequence, Heights),
    /// An object.
    Map(Fields, Heights),
}

/// Heights of the children of a node: each height, and how many children have it.
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
    chunks: Vec<Vec<Node>>,
    len: usize,
}

impl Sequence {
    fn from_items(items: impl ExactSizeIterator<Item = Node>) -> Sequence {
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

    /// The chunk of an index, and the place in it. An index at the end of the list is one at the end of a chunk.
    fn place(&self, mut at: usize) -> (usize, usize) {
        for (number, chunk) in self.chunks.iter().enumerate() {
            if at < chunk.len() || at == chunk.len() && number + 1 == self.chunks.len() {
                return (number, at);
            }
            at -= chunk.len();
        }
        (0, 0)
    }

    fn get(&self, at: usize) -> Option<&Node> {
        let (chunk, at) = self.place(at);
        self.chunks.get(chunk)?.get(at)
    }

    fn get_mut(&mut self, at: usize) -> Option<&mut Node> {
        let (chunk, at) = self.place(at);
        self.chunks.get_mut(chunk)?.get_mut(at)
    }

    fn insert(&mut self, at: usize, node: Node) {
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

    fn remove(&mut self, at: usize) -> Node {
        let (number, at) = self.place(at);
        let node = self.chunks[number].remove(at);
        if self.chunks[number].is_empty() && self.chunks.len() > 1 {
            self.chunks.remove(number);
        }
        self.len -= 1;
        node
    }

    fn iter(&self) -> impl Iterator<Item = &Node> {
        self.chunks.iter().flatten()
    }
}

/// Fields of an object by key, each with the number of its insertion.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    by_key: BTreeMap<CompactString, (u64, Node)>,
    next: u64,
}

impl Fields {
    fn insert(&mut self, key: &str, node: Node) -> Option<Node> {
        if let Some((_, old)) = self.by_key.get_mut(key) {
            return Some(std::mem::replace(old, node));
        }
        self.by_key.insert(key.into(), (self.next, node));
        self.next += 1;
        None
    }
}

impl Node {
    pub(super) fn new(value: Value) -> Node {
        let mut heights = Heights::default();
        match value {
            Value::List(items) => {
                let items = items.into_iter().map(|item| {
                    let node = Node::new(item);
                    heights.add(node.height());
                    node
                });
                Node::List(Sequence::from_items(items), heights)
            }
            Value::Map(map) => {
                let mut fields = Fields::default();
                for (key, value) in map {
                    let node = Node::new(value);
                    heights.add(node.height());
                    fields.by_key.insert(key, (fields.next, node));
                    fields.next += 1;
                }
                Node::Map(fields, heights)
            }
            leaf => Node::Leaf(leaf),
        }
    }

    pub(super) fn into_value(self) -> Value {
        match self {
            Node::Leaf(value) => value,
            Node::List(items, _) => {
                Value::List(items.chunks.into_iter().flatten().map(Node::into_value).collect())
            }
            Node::Map(fields, _) => {
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

    /// Levels of lists and objects, its own included.
    pub(super) fn height(&self) -> usize {
        match self {
            Node::Leaf(_) => 0,
            Node::List(_, heights) | Node::Map(_, heights) => 1 + heights.max(),
        }
    }

    pub(super) fn is_container(&self) -> bool {
        !matches!(self, Node::Leaf(_))
    }

    /// Bytes of its JSON.
    pub(super) fn json_len(&self) -> usize {
        let separators = |len: usize| 2 + len.saturating_sub(1);
        match self {
            Node::Leaf(value) => to_vec(value).len(),
            Node::List(items, _) => separators(items.len()) + items.iter().map(Node::json_len).sum::<usize>(),
            Node::Map(fields, _) => {
                let field = |(key, (_, node)): (&CompactString, &(u64, Node))| {
                    to_vec(&Value::Str(key.clone())).len() + 1 + node.json_len()
                };
                separators(fields.by_key.len()) + fields.by_key.iter().map(field).sum::<usize>()
            }
        }
    }

    /// `true` if it is this value, whatever the order of fields.
    pub(super) fn equals(&self, value: &Value) -> bool {
        match (self, value) {
            (Node::Leaf(own), value) => own == value,
            (Node::List(own, _), Value::List(items)) => {
                own.len() == items.len() && own.iter().zip(items).all(|(own, item)| own.equals(item))
            }
            (Node::Map(own, _), Value::Map(map)) => {
                let equal = |(key, value): (&str, &Value)| {
                    own.by_key.get(key).is_some_and(|(_, node)| node.equals(value))
                };
                own.by_key.len() == map.len() && map.iter().all(equal)
            }
            _ => false,
        }
    }

    /// Acts on the container that a path ends in, with the last part of the path, and brings the heights of all
    /// containers above up to date.
    pub(super) fn act<R>(
        &mut self,
        kind: &'static str,
        path: &str,
        action: impl FnOnce(&mut Node, &str) -> Result<R, JsonPatchError>,
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
        action: impl FnOnce(&mut Node) -> Result<R, JsonPatchError>,
    ) -> Result<R, JsonPatchError> {
        let Some(part) = parts.next() else { return action(self) };
        let part = unescape(part);
        let (child, heights) = match self {
            Node::Leaf(_) => return Err(missing()),
            Node::List(items, heights) => {
                let at = super::index(&part, items.len()).map_err(|_| missing())?;
                (items.get_mut(at), heights)
            }
            Node::Map(fields, heights) => (fields.by_key.get_mut(&*part).map(|(_, node)| node), heights),
        };
        let child = child.filter(|child| child.is_container()).ok_or_else(missing)?;
        let before = child.height();
        let result = child.descend(parts, missing, action);
        heights.replace(before, child.height());
        result
    }

    /// The child at a place; a field that is not there is none.
    pub(super) fn child(&self, key: &str) -> Result<Option<&Node>, JsonPatchError> {
        match self {
            Node::Leaf(_) => Ok(None),
            Node::List(items, _) => Ok(items.get(super::index(key, items.len())?)),
            Node::Map(fields, _) => Ok(fields.by_key.get(key).map(|(_, node)| node)),
        }
    }

    /// Adds a child: a field is set, an item of a list moves those behind it.
    pub(super) fn add_child(&mut self, key: &str, node: Node) -> Result<(), JsonPatchError> {
        match self {
            Node::List(items, heights) => {
                let at = if key == "-" { items.len() } else { super::index(key, items.len() + 1)? };
                heights.add(node.height());
                items.insert(at, node);
            }
            _ => self.set_field(key, node),
        }
        Ok(())
    }

    /// Sets a field, or the item that is at a place of a list.
    pub(super) fn set_child(&mut self, key: &str, node: Node) -> Result<(), JsonPatchError> {
        match self {
            Node::List(items, heights) => {
                let at = super::index(key, items.len())?;
                if let Some(slot) = items.get_mut(at) {
                    heights.replace(slot.height(), node.height());
                    *slot = node;
                }
            }
            _ => self.set_field(key, node),
        }
        Ok(())
    }

    fn set_field(&mut self, key: &str, node: Node) {
        if !matches!(self, Node::Map(..)) {
            *self = Node::Map(Fields::default(), Heights::default());
        }
        if let Node::Map(fields, heights) = self {
            heights.add(node.height());
            if let Some(old) = fields.insert(key, node) {
                heights.remove(old.height());
            }
        }
    }

    /// Takes a child out; none if there is no such field.
    pub(super) fn remove_child(&mut self, key: &str) -> Result<Option<Node>, JsonPatchError> {
        let (child, heights) = match self {
            Node::Leaf(_) => return Ok(None),
            Node::List(items, heights) => {
                let at = super::index(key, items.len())?;
                (Some(items.remove(at)), heights)
            }
            Node::Map(fields, heights) => (fields.by_key.remove(key).map(|(_, node)| node), heights),
        };
        if let Some(child) = &child {
            heights.remove(child.height());
        }
        Ok(child)
    }
}
