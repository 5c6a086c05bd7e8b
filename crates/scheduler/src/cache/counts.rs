//! Numbers by index of which most are 0, as counts of pods by node or by topology domain.
//!
//! A few are kept as a sorted list, many as an array. A pod with thousands of affinity terms makes thousands of counters,
//! and each of them counts pods on a few nodes only: an array over all nodes for each would take hundreds of megabytes.

/// So many entries are always kept as a list.
const LIST_MAX: usize = 32;
/// A list becomes an array once one in so many numbers is not 0: then the array takes about four times its memory.
const ARRAY_SHARE: usize = 8;

/// Numbers by index, 0 where nothing else is known.
#[derive(Clone, Debug)]
pub enum Counts {
    /// Those that are not 0, by index.
    List(Vec<(u32, i64)>),
    /// All up to the last that ever was not 0.
    Array(Vec<i64>),
}

impl Default for Counts {
    fn default() -> Counts {
        Counts::List(Vec::new())
    }
}

impl Counts {
    /// The number at an index.
    #[inline]
    #[must_use]
    pub fn get(&self, at: usize) -> i64 {
        match self {
            Counts::Array(all) => all.get(at).copied().unwrap_or(0),
            Counts::List(some) => find(some, at).map_or(0, |found| some[found].1),
        }
    }

    /// Adds to the number at an index, of which there are `len`.
    pub fn add(&mut self, at: usize, change: i64, len: usize) {
        let some = match self {
            Counts::Array(all) => {
                if at >= all.len() {
                    all.resize(len.max(at + 1), 0);
                }
                all[at] += change;
                return;
            }
            Counts::List(some) => some,
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
                    *self = Counts::Array(all);
                }
            }
        }
    }

    /// The numbers that are not 0, with their indexes.
    pub fn filled(&self) -> impl Iterator<Item = (usize, i64)> + '_ {
        let (all, some): (&[i64], &[(u32, i64)]) = match self {
            Counts::Array(all) => (all, &[]),
            Counts::List(some) => (&[], some),
        };
        let all = all.iter().enumerate().filter(|(_, count)| **count != 0).map(|(at, count)| (at, *count));
        all.chain(some.iter().map(|(at, count)| (*at as usize, *count)))
    }

    /// How many numbers are held in memory.
    #[must_use]
    pub fn cells(&self) -> usize {
        match self {
            Counts::Array(all) => all.len(),
            Counts::List(some) => 2 * some.capacity(),
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
        fn counts_are_those_of_a_plain_array(
            changes in prop::collection::vec((0_usize..300, -2_i64..3), 0..400),
        ) {
            let mut model = vec![0; 300];
            let mut counts = Counts::default();
            for (at, change) in changes {
                model[at] += change;
                counts.add(at, change, 300);
            }
            prop_assert!((0..300).all(|at| counts.get(at) == model[at]));
            let filled: Vec<_> = model.into_iter().enumerate().filter(|(_, count)| *count != 0).collect();
            prop_assert_eq!(counts.filled().collect::<Vec<_>>(), filled);
        }
    }

    #[test]
    fn few_numbers_take_little_memory_and_many_become_an_array() {
        let mut counts = Counts::default();
        (0..LIST_MAX).for_each(|at| counts.add(at * 100, 1, 5000));
        assert!(counts.cells() <= 4 * LIST_MAX, "{}", counts.cells());
        (0..1000).for_each(|at| counts.add(at, 1, 5000));
        assert!(matches!(counts, Counts::Array(_)));
    }
}
