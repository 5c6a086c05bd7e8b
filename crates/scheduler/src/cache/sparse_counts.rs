//! Sparse counts: integers by index, most of them 0, such as pods by node or by topology domain.
//!
//! Few nonzero entries are kept as a sorted list, many as an array. A pod with thousands of affinity terms makes
//! thousands of counters, each of them nonzero on a few nodes: arrays over all nodes would take hundreds of megabytes.

/// Number of entries up to which a list never becomes an array.
const LIST_MAX: usize = 32;
/// A longer list becomes an array once one in `ARRAY_SHARE` indexes is nonzero: the array then takes about four times
/// the memory of the list.
const ARRAY_SHARE: usize = 8;

/// Integers by index; 0 at an index without an entry.
#[derive(Clone, Debug)]
pub enum SparseCounts {
    /// Nonzero entries, sorted by index.
    List(Vec<(u32, i64)>),
    /// Entries from index 0 on; 0 behind the end.
    Array(Vec<i64>),
}

impl Default for SparseCounts {
    fn default() -> SparseCounts {
        SparseCounts::List(Vec::new())
    }
}

impl SparseCounts {
    /// Count at an index.
    #[inline]
    #[must_use]
    pub fn get(&self, at: usize) -> i64 {
        match self {
            SparseCounts::Array(all) => all.get(at).copied().unwrap_or(0),
            SparseCounts::List(some) => find(some, at).map_or(0, |found| some[found].1),
        }
    }

    /// Adds `change` to the count at an index. `len` is the number of indexes, the length of an array.
    pub fn add(&mut self, at: usize, change: i64, len: usize) {
        let some = match self {
            SparseCounts::Array(all) => {
                if at >= all.len() {
                    all.resize(len.max(at + 1), 0);
                }
                all[at] += change;
                return;
            }
            SparseCounts::List(some) => some,
        };
        match find(some, at) {
            Ok(found) => {
                some[found].1 += change;
                if some[found].1 == 0 {
                    some.remove(found);
                }
            }
            Err(_) if change == 0 => {}
            Err(place) => {
                some.insert(place, (u32::try_from(at).unwrap_or(u32::MAX), change));
                if some.len() > LIST_MAX && some.len() * ARRAY_SHARE > len {
                    let mut all = vec![0; len.max(at + 1)];
                    some.iter().for_each(|(at, count)| all[*at as usize] = *count);
                    *self = SparseCounts::Array(all);
                }
            }
        }
    }

    /// Nonzero counts with their indexes, in order.
    pub fn nonzero(&self) -> impl Iterator<Item = (usize, i64)> + '_ {
        let (all, some): (&[i64], &[(u32, i64)]) = match self {
            SparseCounts::Array(all) => (all, &[]),
            SparseCounts::List(some) => (&[], some),
        };
        let all = all.iter().enumerate().filter(|(_, count)| **count != 0).map(|(at, count)| (at, *count));
        all.chain(some.iter().map(|(at, count)| (*at as usize, *count)))
    }

    /// Integers in memory.
    #[must_use]
    pub fn memory_cells(&self) -> usize {
        match self {
            SparseCounts::Array(all) => all.len(),
            SparseCounts::List(some) => 2 * some.capacity(),
        }
    }
}

fn find(some: &[(u32, i64)], at: usize) -> Result<usize, usize> {
    some.binary_search_by(|(other, _)| (*other as usize).cmp(&at))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sparse_counts_equal_a_plain_array(
            changes in prop::collection::vec((0_usize..300, -2_i64..3), 0..400),
        ) {
            let mut model = vec![0; 300];
            let mut counts = SparseCounts::default();
            for (at, change) in changes {
                model[at] += change;
                counts.add(at, change, 300);
            }
            prop_assert!((0..300).all(|at| counts.get(at) == model[at]));
            let nonzero: Vec<_> = model.into_iter().enumerate().filter(|(_, count)| *count != 0).collect();
            prop_assert_eq!(counts.nonzero().collect::<Vec<_>>(), nonzero);
        }
    }

    #[test]
    fn few_nonzero_counts_stay_a_list_and_many_become_an_array() {
        let mut counts = SparseCounts::default();
        (0..LIST_MAX).for_each(|at| counts.add(at * 100, 1, 5000));
        assert!(counts.memory_cells() <= 4 * LIST_MAX, "{}", counts.memory_cells());
        (0..1000).for_each(|at| counts.add(at, 1, 5000));
        assert!(matches!(counts, SparseCounts::Array(_)));
    }
}
