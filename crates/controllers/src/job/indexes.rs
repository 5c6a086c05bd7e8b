//! Sets of completion indexes, written as `0-3,5`: sorted intervals that neither touch nor overlap.

use std::fmt;

/// Set of indexes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct IndexSet(Vec<(i64, i64)>);

impl IndexSet {
    /// Parses a set, limited to indexes below `completions`. Invalid intervals are skipped.
    pub fn parse(text: &str, completions: i64) -> IndexSet {
        let intervals = text.split(',').filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (i64, i64) = (first.parse().ok()?, last.parse().ok()?);
            (first < completions).then_some((first, last.min(completions - 1)))
        });
        intervals.collect()
    }

    /// Number of indexes.
    pub fn total(&self) -> i64 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// `true` if an index is in the set.
    pub fn contains(&self, index: i64) -> bool {
        let at = self.0.partition_point(|(_, last)| *last < index);
        self.0.get(at).is_some_and(|(first, _)| *first <= index)
    }

    /// Union with the given indexes.
    pub fn with_indexes(&self, more: impl IntoIterator<Item = i64>) -> IndexSet {
        self.0.iter().copied().chain(more.into_iter().map(|index| (index, index))).collect()
    }

    /// Union with another set.
    pub fn union(&self, other: &IndexSet) -> IndexSet {
        self.0.iter().chain(&other.0).copied().collect()
    }

    /// Number of indexes in both sets.
    pub fn intersection_count(&self, other: &IndexSet) -> i64 {
        let overlaps = self.0.iter().flat_map(|(first, last)| {
            let start = other.0.partition_point(|(_, end)| end < first);
            let overlapping = other.0[start..].iter().take_while(move |(begin, _)| begin <= last);
            overlapping.map(move |(begin, end)| last.min(end) - first.max(begin) + 1)
        });
        overlaps.sum()
    }

    /// The first `count` indexes below `completions` that are not in the set.
    pub fn first_missing(&self, count: usize, completions: i64) -> Vec<i64> {
        let mut missing = Vec::new();
        let mut next = 0;
        for (first, last) in self.0.iter().copied().chain([(completions, completions)]) {
            let gap = (next..first.min(completions)).take(count - missing.len());
            missing.extend(gap);
            next = last + 1;
        }
        missing
    }
}

impl FromIterator<(i64, i64)> for IndexSet {
    fn from_iter<I: IntoIterator<Item = (i64, i64)>>(intervals: I) -> IndexSet {
        let mut all: Vec<(i64, i64)> = intervals.into_iter().filter(|(first, last)| first <= last).collect();
        all.sort_unstable();
        let mut merged: Vec<(i64, i64)> = Vec::with_capacity(all.len());
        for (first, last) in all {
            match merged.last_mut() {
                Some((_, end)) if first <= *end + 1 => *end = last.max(*end),
                _ => merged.push((first, last)),
            }
        }
        IndexSet(merged)
    }
}

impl fmt::Display for IndexSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            match last - first {
                0 => write!(f, "{first}")?,
                1 => write!(f, "{first},{last}")?,
                _ => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn intervals_match_upstream_format() {
        let all = IndexSet::default().with_indexes([7, 1, 3, 4, 5, 9, 8, 11, 12]);
        assert_eq!(all.to_string(), "1,3-5,7-9,11,12");
        assert_eq!(
            IndexSet::parse("1,3-5,x,7-9,11,12", 9),
            IndexSet::default().with_indexes([1, 3, 4, 5, 7, 8])
        );
        assert_eq!(IndexSet::parse("", 9).to_string(), "");
    }

    proptest! {
        #[test]
        fn indexes_agree_with_a_model_set(
            a in prop::collection::btree_set(0i64..40, 0..30),
            b in prop::collection::btree_set(0i64..40, 0..30),
            count in 0usize..50,
        ) {
            let (x, y) = (IndexSet::default().with_indexes(a.iter().copied()), IndexSet::default().with_indexes(b.iter().copied()));
            prop_assert_eq!(&IndexSet::parse(&x.to_string(), 100), &x);
            prop_assert_eq!(x.total(), i64::try_from(a.len()).unwrap());
            prop_assert_eq!(x.intersection_count(&y), i64::try_from(a.intersection(&b).count()).unwrap());
            let both: BTreeSet<i64> = a.union(&b).copied().collect();
            prop_assert_eq!(x.union(&y), IndexSet::default().with_indexes(both));
            let missing: Vec<i64> = (0..40).filter(|index| !a.contains(index)).take(count).collect();
            prop_assert_eq!(x.first_missing(count, 40), missing);
            prop_assert!((0..40).all(|index| x.contains(index) == a.contains(&index)));
        }
    }
}
