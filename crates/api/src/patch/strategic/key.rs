//! Index of list items by merge key.

use std::collections::BTreeMap;

use compact_str::CompactString;

use crate::json;
use crate::value::Value;

/// Identity of an item: the item itself, or the value of its merge key. Values are equal if their identities
/// are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ItemKey {
    /// Null, or no key.
    None,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A string.
    Text(CompactString),
    /// Any other value, as JSON; a variant of its own keeps it distinct from strings.
    Other(Vec<u8>),
}

impl ItemKey {
    pub(super) fn of(value: &Value) -> ItemKey {
        match value {
            Value::Null => ItemKey::None,
            Value::Bool(truth) => ItemKey::Bool(*truth),
            Value::Int(number) => ItemKey::Int(*number),
            Value::Str(text) => ItemKey::Text(text.clone()),
            other => ItemKey::Other(json::to_vec(other)),
        }
    }

    /// Identity of an item: the value of its merge key, if the list has one.
    pub(super) fn of_item(item: &Value, merge_key: Option<&str>) -> ItemKey {
        match merge_key {
            Some(merge_key) => item.get(merge_key).map_or(ItemKey::None, ItemKey::of),
            None => ItemKey::of(item),
        }
    }
}

/// First position of each identity in a list.
#[derive(Default)]
pub(super) struct KeyIndex(BTreeMap<ItemKey, usize>);

impl KeyIndex {
    pub(super) fn of<'v>(list: impl IntoIterator<Item = &'v Value>, merge_key: Option<&str>) -> KeyIndex {
        let mut places = BTreeMap::new();
        for (at, item) in list.into_iter().enumerate() {
            places.entry(ItemKey::of_item(item, merge_key)).or_insert(at);
        }
        KeyIndex(places)
    }

    pub(super) fn get(&self, key: &ItemKey) -> Option<usize> {
        self.0.get(key).copied()
    }

    pub(super) fn contains(&self, key: &ItemKey) -> bool {
        self.0.contains_key(key)
    }

    /// Records the position of an item, unless its identity is known.
    pub(super) fn record(&mut self, key: ItemKey, at: usize) {
        self.0.entry(key).or_insert(at);
    }
}
