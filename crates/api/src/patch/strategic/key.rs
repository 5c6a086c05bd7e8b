//! Where items stand in a list, by their key, in better than linear time.

use std::collections::BTreeMap;

use compact_str::CompactString;

use crate::json;
use crate::value::Value;

/// What an item is told apart by: itself, or the value of its merge key. Values are equal if their keys are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// Null, or no key at all.
    None,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// Text.
    Text(CompactString),
    /// Anything else, as JSON; the mark keeps it apart from text.
    Other(Vec<u8>),
}

impl Key {
    pub(super) fn of(value: &Value) -> Key {
        match value {
            Value::Null => Key::None,
            Value::Bool(truth) => Key::Bool(*truth),
            Value::Int(number) => Key::Int(*number),
            Value::Str(text) => Key::Text(text.clone()),
            other => Key::Other(json::to_vec(other)),
        }
    }

    /// The key of an item: the value of its merge key, if the list has one.
    pub(super) fn of_item(item: &Value, merge_key: Option<&str>) -> Key {
        match merge_key {
            Some(merge_key) => item.get(merge_key).map_or(Key::None, Key::of),
            None => Key::of(item),
        }
    }
}

/// The first place of each key in a list.
#[derive(Default)]
pub(super) struct Places(BTreeMap<Key, usize>);

impl Places {
    pub(super) fn of<'v>(list: impl IntoIterator<Item = &'v Value>, merge_key: Option<&str>) -> Places {
        let mut places = BTreeMap::new();
        for (at, item) in list.into_iter().enumerate() {
            places.entry(Key::of_item(item, merge_key)).or_insert(at);
        }
        Places(places)
    }

    pub(super) fn get(&self, key: &Key) -> Option<usize> {
        self.0.get(key).copied()
    }

    pub(super) fn contains(&self, key: &Key) -> bool {
        self.0.contains_key(key)
    }

    /// Notes where an item was put, unless its key is known.
    pub(super) fn note(&mut self, key: Key, at: usize) {
        self.0.entry(key).or_insert(at);
    }
}
