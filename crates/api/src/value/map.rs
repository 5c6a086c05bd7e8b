//! JSON objects with insertion order.

use compact_str::CompactString;

use super::Value;
use super::position_index::PositionIndex;

/// Maximum number of fields for which duplicates are found by pairwise comparison, which is then faster than
/// sorting.
const PAIRWISE_LEN_MAX: usize = 16;

/// Maximum number of fields for which a lookup is a linear scan; larger maps have an index.
const SCAN_LEN_MAX: usize = 32;

/// Fields of a JSON object: unique keys in insertion order.
///
/// Most objects of the API are small, and a lookup is a linear scan. Labels, annotations and data can have
/// 100,000 fields in one request, and validation looks up one field per entry of another list, so larger maps
/// keep an index of positions sorted by key: a lookup and an insertion cost O(log n). Removal renumbers the
/// index: shrink large maps with [`Map::retain`].
#[derive(Clone, Debug, Default)]
pub struct Map {
    entries: Vec<(CompactString, Value)>,
    /// Positions of the entries sorted by key, if there are more than [`SCAN_LEN_MAX`]. A pointer, so that a
    /// value stays small.
    index: Option<Box<PositionIndex>>,
}

impl Map {
    /// Returns an empty map.
    #[must_use]
    pub const fn new() -> Map {
        Map { entries: Vec::new(), index: None }
    }

    /// Returns an empty map with room for `len` fields.
    #[must_use]
    pub fn with_capacity(len: usize) -> Map {
        Map { entries: Vec::with_capacity(len), index: None }
    }

    /// Builds a map from these fields; `true` if a key occurred more than once. The last value of a key wins
    /// and takes the position of the first.
    #[must_use]
    pub(crate) fn from_entries(entries: Vec<(CompactString, Value)>) -> (Map, bool) {
        if has_duplicates(&entries) {
            (Map::indexed(last_of_each(entries)), true)
        } else {
            (Map::indexed(entries), false)
        }
    }

    /// Builds a map from fields whose keys are known to be unique.
    pub(crate) fn from_unique(entries: Vec<(CompactString, Value)>) -> Map {
        debug_assert!(!has_duplicates(&entries), "keys differ");
        Map::indexed(entries)
    }

    fn indexed(entries: Vec<(CompactString, Value)>) -> Map {
        let mut map = Map { entries, index: None };
        map.build_index();
        map
    }

    /// Rebuilds the index, or drops it if there are few fields.
    fn build_index(&mut self) {
        self.index = (self.entries.len() > SCAN_LEN_MAX)
            .then(|| Box::new(PositionIndex::from_sorted(&sorted(&self.entries))));
    }

    /// Appends a field whose key is not in the map.
    fn push(&mut self, key: CompactString, value: Value) {
        if let Some(index) = &mut self.index {
            let (Ok(slot) | Err(slot)) = index.find(|position| self.entries[position as usize].0.cmp(&key));
            index.insert(slot, to_position(self.entries.len()));
        }
        self.entries.push((key, value));
        if self.index.is_none() && self.entries.len() > SCAN_LEN_MAX {
            self.build_index();
        }
    }

    /// Number of fields.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// `true` if the map has no fields.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Position of a field in insertion order.
    #[must_use]
    pub fn position(&self, key: &str) -> Option<usize> {
        let Some(index) = &self.index else { return self.scan(key.as_bytes()) };
        let slot = index.find(|position| self.entries[position as usize].0.as_str().cmp(key)).ok()?;
        Some(index.get(slot) as usize)
    }

    /// Linear scan for a key. Length and first byte distinguish most keys without a call to `memcmp`.
    fn scan(&self, key: &[u8]) -> Option<usize> {
        self.entries.iter().position(|(other, _)| {
            let other = other.as_bytes();
            other.len() == key.len() && other.first() == key.first() && other == key
        })
    }

    /// Returns the field at a position.
    ///
    /// # Panics
    /// If the position is out of range.
    #[must_use]
    pub fn at(&self, position: usize) -> (&str, &Value) {
        let (key, value) = &self.entries[position];
        (key, value)
    }

    /// Returns the value of a field.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.position(key).map(|at| &self.entries[at].1)
    }

    /// Returns the value of a field for modification.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        let at = self.position(key)?;
        Some(&mut self.entries[at].1)
    }

    /// Returns the string in a field, if the field exists and is a string.
    #[must_use]
    pub fn get_str(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    /// `true` if the field exists.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        self.position(key).is_some()
    }

    /// Sets a field and returns its old value. A new field is appended.
    pub fn insert(
        &mut self,
        key: impl Into<CompactString> + AsRef<str>,
        value: impl Into<Value>,
    ) -> Option<Value> {
        let value = value.into();
        match self.get_mut(key.as_ref()) {
            Some(old) => Some(std::mem::replace(old, value)),
            None => {
                self.push(key.into(), value);
                None
            }
        }
    }

    /// Inserts a field at the front; an existing field gets the value and keeps its position.
    pub(crate) fn insert_first(
        &mut self,
        key: impl Into<CompactString> + AsRef<str>,
        value: impl Into<Value>,
    ) {
        match self.get_mut(key.as_ref()) {
            Some(old) => *old = value.into(),
            None => {
                self.entries.insert(0, (key.into(), value.into()));
                self.build_index();
            }
        }
    }

    /// Removes a field; the others keep their order.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let Map { entries, index } = self;
        let Some(index) = index else {
            let at = self.scan(key.as_bytes())?;
            return Some(self.entries.remove(at).1);
        };
        let slot = index.find(|position| entries[position as usize].0.as_str().cmp(key)).ok()?;
        let at = index.get(slot);
        index.remove(slot);
        index.shift_after(at);
        let (_, value) = self.entries.remove(at as usize);
        if self.entries.len() <= SCAN_LEN_MAX {
            self.index = None;
        }
        Some(value)
    }

    /// Removes a field from a map whose order does not matter: in an indexed map the last field takes its
    /// position, and no other field moves.
    pub(crate) fn swap_remove(&mut self, key: &str) -> Option<Value> {
        if self.entries.len() <= SCAN_LEN_MAX + 1 {
            return self.remove(key);
        }
        let Map { entries, index: Some(index) } = self else { return self.remove(key) };
        let slot_of = |index: &PositionIndex, entries: &[(CompactString, Value)], key: &str| {
            index.find(|position| entries[position as usize].0.as_str().cmp(key)).ok()
        };
        let found = slot_of(index, entries, key)?;
        let at = index.get(found);
        // The index finds the last field by its old position, so it is updated before the entry moves.
        if let Some((last, _)) = entries.last()
            && let Some(moved) = slot_of(index, entries, last)
        {
            index.set(moved, at);
        }
        index.remove(found);
        Some(entries.swap_remove(at as usize).1)
    }

    /// Returns the value of a field; a missing field is inserted with the result of `make`.
    pub fn ensure(&mut self, key: &str, make: impl FnOnce() -> Value) -> &mut Value {
        let at = self.position(key).unwrap_or_else(|| {
            self.push(key.into(), make());
            self.entries.len() - 1
        });
        &mut self.entries[at].1
    }

    /// Returns the object in a field. Inserts an empty one if the field is missing or of another type.
    pub fn ensure_map(&mut self, key: &str) -> &mut Map {
        self.ensure(key, Value::map).make_map()
    }

    /// Keeps the fields for which `keep` returns `true`.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &mut Value) -> bool) {
        let before = self.entries.len();
        self.entries.retain_mut(|(key, value)| keep(key, value));
        if self.entries.len() != before {
            self.build_index();
        }
    }

    /// Removes all fields.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.index = None;
    }

    /// Sorts the fields by the bytes of their keys, the order in which Go encodes maps.
    pub fn sort(&mut self) {
        self.entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        if let Some(index) = &mut self.index {
            let order: Vec<u32> = (0..to_position(self.entries.len())).collect();
            **index = PositionIndex::from_sorted(&order);
        }
    }

    /// Iterates over the fields in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> + DoubleEndedIterator + Clone {
        self.entries.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Iterates over the fields in order, with mutable values.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = (&str, &mut Value)> {
        self.entries.iter_mut().map(|(key, value)| (key.as_str(), value))
    }

    /// Iterates over the keys in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        self.entries.iter().map(|(key, _)| key.as_str())
    }

    /// Returns the fields in order, for rebuilding a map.
    #[must_use]
    pub(crate) fn into_entries(self) -> Vec<(CompactString, Value)> {
        self.entries
    }

    /// Positions of the fields sorted by key.
    fn sorted(&self) -> Vec<u32> {
        sorted(&self.entries)
    }
}

impl PartialEq for Map {
    fn eq(&self, other: &Map) -> bool {
        if self.len() != other.len() {
            return false;
        }
        // The order is usually the same, and then one pass is enough.
        if self.entries == other.entries {
            return true;
        }
        if self.len() <= PAIRWISE_LEN_MAX {
            return self.iter().all(|(key, value)| other.get(key) == Some(value));
        }
        self.sorted()
            .into_iter()
            .zip(other.sorted())
            .all(|(a, b)| self.entries[a as usize] == other.entries[b as usize])
    }
}

impl<K: Into<CompactString>, V: Into<Value>> FromIterator<(K, V)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(iter: I) -> Map {
        Map::from_entries(iter.into_iter().map(|(key, value)| (key.into(), value.into())).collect()).0
    }
}

impl IntoIterator for Map {
    type Item = (CompactString, Value);
    type IntoIter = std::vec::IntoIter<(CompactString, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

/// Position as it is stored in the index.
fn to_position(at: usize) -> u32 {
    u32::try_from(at).expect("no request has four billion fields")
}

/// Positions sorted by key; equal keys stay in insertion order. Fields that are sorted already cost one pass.
fn sorted(entries: &[(CompactString, Value)]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..to_position(entries.len())).collect();
    order.sort_by(|a, b| entries[*a as usize].0.cmp(&entries[*b as usize].0));
    order
}

fn has_duplicates(entries: &[(CompactString, Value)]) -> bool {
    if entries.len() <= PAIRWISE_LEN_MAX {
        return (1..entries.len()).any(|at| entries[..at].iter().any(|(key, _)| *key == entries[at].0));
    }
    sorted(entries).windows(2).any(|pair| entries[pair[0] as usize].0 == entries[pair[1] as usize].0)
}

fn last_of_each(mut entries: Vec<(CompactString, Value)>) -> Vec<(CompactString, Value)> {
    let order = sorted(&entries);
    let mut keep = vec![true; entries.len()];
    let same = |a: &u32, b: &u32| entries[*a as usize].0 == entries[*b as usize].0;
    for same in order.chunk_by(same).collect::<Vec<_>>() {
        if let [first, rest @ .., last] = same {
            let value = entries[*last as usize].1.take();
            entries[*first as usize].1 = value;
            keep[*last as usize] = false;
            rest.iter().for_each(|at| keep[*at as usize] = false);
        }
    }
    let mut keep = keep.into_iter();
    entries.retain(|_| keep.next().expect("there is one mark per entry"));
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, i64)]) -> Map {
        pairs.iter().map(|(key, value)| (*key, *value)).collect()
    }

    #[test]
    fn insertion_order_is_kept_and_keys_are_unique() {
        let mut m = map(&[("b", 1), ("a", 2)]);
        assert_eq!(m.insert("b", 3), Some(Value::Int(1)));
        m.insert("c", 4);
        assert_eq!(m.keys().collect::<Vec<_>>(), ["b", "a", "c"]);
        assert_eq!(m.remove("a"), Some(Value::Int(2)));
        assert_eq!(m.remove("a"), None);
        m.insert_first("z", 0);
        assert_eq!(m.keys().collect::<Vec<_>>(), ["z", "b", "c"]);
        m.retain(|key, _| key != "b");
        m.sort();
        assert_eq!(m.keys().collect::<Vec<_>>(), ["c", "z"]);
    }

    #[test]
    fn equality_ignores_order_in_small_and_large_maps() {
        for len in [2, PAIRWISE_LEN_MAX + 5] {
            let forward: Map = (0..len).map(|i| (format!("k{i}"), i64::try_from(i).unwrap())).collect();
            let mut backward: Map =
                (0..len).rev().map(|i| (format!("k{i}"), i64::try_from(i).unwrap())).collect();
            assert_eq!(forward, backward);
            backward.insert("k0", 7);
            assert_ne!(forward, backward);
        }
        assert_ne!(map(&[("a", 1)]), map(&[("b", 1)]));
    }

    #[test]
    fn last_value_of_a_key_wins_at_the_first_position() {
        for padding in [0, PAIRWISE_LEN_MAX] {
            let mut entries: Vec<(CompactString, Value)> =
                [("a", 1), ("b", 2), ("a", 3), ("a", 4)].map(|(k, v)| (k.into(), Value::Int(v))).into();
            entries.extend((0..padding).map(|i| (format!("p{i}").into(), Value::Null)));
            let (m, duplicates) = Map::from_entries(entries);
            assert!(duplicates);
            assert_eq!(m.len(), 2 + padding);
            assert_eq!(m.iter().take(2).collect::<Vec<_>>(), [("a", &Value::Int(4)), ("b", &Value::Int(2))]);
        }
    }

    #[test]
    fn index_of_a_large_map_follows_every_change() {
        let mut map = Map::new();
        let mut model: Vec<(String, i64)> = Vec::new();
        let check = |map: &Map, model: &[(String, i64)], step: i64| {
            assert_eq!(map.len(), model.len());
            for (at, (key, value)) in model.iter().enumerate() {
                assert_eq!(map.position(key), Some(at), "{key} at step {step}");
                assert_eq!(map.get(key), Some(&Value::Int(*value)));
            }
            assert!(map.get("k").is_none() && map.index.is_some() == (map.len() > SCAN_LEN_MAX));
        };
        for step in 0..400_i64 {
            // Unordered keys that grow the map past the bound and shrink it again.
            let key = format!("k{}", step * 37 % 61);
            match step % 11 {
                4 | 9 if step > 150 => {
                    let at = usize::try_from(step * 7).unwrap() % model.len();
                    let (gone, value) = model.remove(at);
                    assert_eq!(map.remove(&gone), Some(Value::Int(value)));
                }
                7 => match model.iter_mut().find(|(name, _)| *name == key) {
                    Some((_, value)) => {
                        *value = step;
                        map.insert_first(&*key, step);
                    }
                    None => {
                        model.insert(0, (key.clone(), step));
                        map.insert_first(&*key, step);
                    }
                },
                _ => match model.iter_mut().find(|(name, _)| *name == key) {
                    Some((_, old)) => {
                        assert_eq!(map.insert(&*key, step), Some(Value::Int(std::mem::replace(old, step))))
                    }
                    None => {
                        model.push((key.clone(), step));
                        map.insert(&*key, step);
                    }
                },
            }
            check(&map, &model, step);
        }
        while map.len() > SCAN_LEN_MAX - 2 {
            let at = map.len() * 7 / 11;
            let (gone, value) = model.swap_remove(at);
            let mut ordered = map.clone();
            assert_eq!(map.swap_remove(&gone), Some(Value::Int(value)));
            assert_eq!(map.swap_remove("none"), None);
            ordered.remove(&gone);
            assert_eq!(map, ordered);
            if map.len() <= SCAN_LEN_MAX {
                model = map.iter().map(|(key, value)| (key.to_owned(), value.as_i64().unwrap())).collect();
            }
            check(&map, &model, 399);
        }
        map.retain(|key, _| !key.ends_with('3'));
        model.retain(|(key, _)| !key.ends_with('3'));
        check(&map, &model, 400);
        map.sort();
        model.sort();
        check(&map, &model, 401);
        map.clear();
        assert!(map.get("k1").is_none() && map.index.is_none());
    }
}
