//! Index sets of a Job in string form: `1,3-5,7`.

use std::fmt::Write as _;

use crate::quote::Quoted;

/// Number of indexes in a set. Each must be below `completions`, and they must be ascending.
pub(super) fn count(text: &str, completions: i64) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let (mut last, mut total) = (None, 0);
    for part in text.split(',') {
        let (first, end) = interval(part, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(out_of_order(last, first));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// Error if two sets overlap. Parts that are not an interval are ignored.
pub(super) fn overlap(completed: &str, failed: &str, completions: i64) -> Option<String> {
    let intervals = |text: &str| -> Vec<(i64, i64)> {
        text.split(',').filter_map(|part| interval(part, completions).ok()).collect()
    };
    let (completed, failed) = (intervals(completed), intervals(failed));
    let (mut at_completed, mut at_failed) = (0, 0);
    while let (Some(done), Some(lost)) = (completed.get(at_completed), failed.get(at_failed)) {
        if done.0 <= lost.1 && lost.0 <= done.1 {
            let index = done.0.max(lost.0);
            return Some(format!("failedIndexes and completedIndexes overlap at index: {index}"));
        }
        if done.0 <= lost.0 {
            at_completed += 1;
        } else {
            at_failed += 1;
        }
    }
    None
}

fn interval(text: &str, completions: i64) -> Result<(i64, i64), String> {
    let mut limits = text.split('-');
    let (first, second, more) = (limits.next().unwrap_or_default(), limits.next(), limits.next());
    if more.is_some() {
        let mut message = format!("the fragment {} violates the requirement ", Quoted(text));
        message.push_str("that an index interval can have at most two parts separated by '-'");
        return Err(message);
    }
    let index = |text: &str| {
        let index: i64 = text
            .parse()
            .map_err(|_| format!("cannot convert string to integer for index: {}", Quoted(text)))?;
        if index < completions { Ok(index) } else { Err(format!("too large index: {}", Quoted(text))) }
    };
    let first = index(first)?;
    let Some(second) = second else { return Ok((first, first)) };
    let second = index(second)?;
    if first >= second { Err(out_of_order(first, second)) } else { Ok((first, second)) }
}

fn out_of_order(previous: i64, current: i64) -> String {
    let mut message = String::from("non-increasing order");
    write!(message, ", previous: {previous}, current: {current}").expect("writing to a String cannot fail");
    message
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn indexes_must_ascend_below_completions() {
        for (text, expected) in [
            ("", Ok(0)),
            ("0", Ok(1)),
            ("1,3-5,7", Ok(5)),
            ("0-9", Ok(10)),
            ("10", Err("too large index: \"10\"")),
            ("1-10", Err("too large index: \"10\"")),
            ("3-3", Err("non-increasing order, previous: 3, current: 3")),
            ("5-3", Err("non-increasing order, previous: 5, current: 3")),
            ("3,2", Err("non-increasing order, previous: 3, current: 2")),
            ("1-3,3", Err("non-increasing order, previous: 3, current: 3")),
            ("a", Err("cannot convert string to integer for index: \"a\"")),
            ("1,", Err("cannot convert string to integer for index: \"\"")),
            ("1-b", Err("cannot convert string to integer for index: \"b\"")),
            (
                "1-2-3",
                Err(
                    "the fragment \"1-2-3\" violates the requirement that an index interval can have at most two \
                     parts separated by '-'",
                ),
            ),
        ] {
            assert_eq!(count(text, 10), expected.map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn completed_index_cannot_have_failed() {
        for (completed, failed, index) in [
            ("", "1", None),
            ("1", "", None),
            ("1,3", "2,4", None),
            ("1-3", "2", Some(2)),
            ("0,5-7", "1-2,7-9", Some(7)),
            ("x,3", "3", Some(3)),
        ] {
            let message =
                index.map(|at| format!("failedIndexes and completedIndexes overlap at index: {at}"));
            assert_eq!(overlap(completed, failed, 10), message, "{completed} {failed}");
        }
    }

    proptest! {
        #[test]
        fn overlap_agrees_with_sets(a in proptest::collection::btree_set(0i64..20, 0..8),
                                    b in proptest::collection::btree_set(0i64..20, 0..8)) {
            let text = |set: &std::collections::BTreeSet<i64>| {
                set.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
            };
            let common = a.intersection(&b).next();
            let found = overlap(&text(&a), &text(&b), 20);
            let expected = common.map(|at| format!("failedIndexes and completedIndexes overlap at index: {at}"));
            prop_assert_eq!(found, expected);
            prop_assert_eq!(count(&text(&a), 20), Ok(i64::try_from(a.len()).unwrap()));
        }
    }
}
