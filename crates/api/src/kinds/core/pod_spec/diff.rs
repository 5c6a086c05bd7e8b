//! Unified diff with the algorithm of Python's `difflib`, which upstream's messages use.
//!
//! The longest run of equal lines is found first, then those before and after it. In texts of 200 lines or
//! more, lines that make up more than one percent of the text start no run, which keeps the search fast.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Number of equal lines around a change.
const CONTEXT: usize = 3;
/// Minimum number of lines for ignoring frequent lines.
const LINES_LONG_MIN: usize = 200;

/// Maximum number of lines of both texts for which runs are searched. The search is quadratic; in longer
/// texts everything between the first and the last change counts as one.
const LINES_SEARCHED_MAX: usize = 1_000;

/// Kind of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Op {
    Equal,
    Change,
}

/// Lines `a.0..a.1` became lines `b.0..b.1`.
#[derive(Clone, Copy)]
struct Step {
    op: Op,
    a: (usize, usize),
    b: (usize, usize),
}

/// Returns the difference between two texts; empty if there is none.
pub(crate) fn unified(a: &str, b: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (a.split('\n').collect(), b.split('\n').collect());
    let mut out = String::new();
    for group in groups(&steps(&a, &b)) {
        let (first, last) = (group[0], group[group.len() - 1]);
        let (from, to) = (range(first.a.0, last.a.1), range(first.b.0, last.b.1));
        writeln!(out, "@@ -{from} +{to} @@").expect("writing to a String cannot fail");
        for step in group {
            let mut write = |sign: char, lines: &[&str]| {
                for line in lines {
                    writeln!(out, "{sign}{line}").expect("writing to a String cannot fail");
                }
            };
            match step.op {
                Op::Equal => write(' ', &a[step.a.0..step.a.1]),
                Op::Change => {
                    write('-', &a[step.a.0..step.a.1]);
                    write('+', &b[step.b.0..step.b.1]);
                }
            }
        }
    }
    out
}

fn range(start: usize, stop: usize) -> String {
    match stop - start {
        1 => (start + 1).to_string(),
        0 => format!("{start},0"),
        len => format!("{},{len}", start + 1),
    }
}

/// Positions of each line of `b`, except frequent ones.
fn places<'a>(b: &[&'a str]) -> BTreeMap<&'a str, Vec<usize>> {
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, line) in b.iter().enumerate() {
        places.entry(line).or_default().push(at);
    }
    if b.len() >= LINES_LONG_MIN {
        let most = b.len() / 100 + 1;
        places.retain(|_, at| at.len() <= most);
    }
    places
}

/// Longest run of equal lines in two ranges: its start in both, and its length. `places` are the positions in
/// `b` of each line of `a`.
fn longest(
    a: &[&str],
    b: &[&str],
    places: &[&[usize]],
    (a_low, a_high): (usize, usize),
    (b_low, b_high): (usize, usize),
) -> (usize, usize, usize) {
    let (mut best_a, mut best_b, mut len) = (a_low, b_low, 0);
    // Ends in `b` of the runs up to the previous line, sorted, with their lengths.
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (i, places) in places.iter().enumerate().take(a_high).skip(a_low) {
        let mut longer = Vec::new();
        let from = places.partition_point(|j| *j < b_low);
        for &j in places[from..].iter().take_while(|j| **j < b_high) {
            let before = runs.binary_search_by(|(end, _)| (end + 1).cmp(&j)).map(|at| runs[at].1);
            let run = before.unwrap_or_default() + 1;
            longer.push((j, run));
            if run > len {
                (best_a, best_b, len) = (i + 1 - run, j + 1 - run, run);
            }
        }
        runs = longer;
    }
    while best_a > a_low && best_b > b_low && a[best_a - 1] == b[best_b - 1] {
        (best_a, best_b, len) = (best_a - 1, best_b - 1, len + 1);
    }
    while best_a + len < a_high && best_b + len < b_high && a[best_a + len] == b[best_b + len] {
        len += 1;
    }
    (best_a, best_b, len)
}

/// Runs of equal lines: start in both texts, and length.
fn runs(a: &[&str], b: &[&str]) -> Vec<(usize, usize, usize)> {
    let by_line = places(b);
    let places: Vec<&[usize]> =
        a.iter().map(|line| by_line.get(line).map_or(&[][..], Vec::as_slice)).collect();
    let mut runs = Vec::new();
    let mut open = vec![((0, a.len()), (0, b.len()))];
    while let Some((in_a, in_b)) = open.pop() {
        let (i, j, len) = longest(a, b, &places, in_a, in_b);
        if len > 0 {
            runs.push((i, j, len));
            open.push(((in_a.0, i), (in_b.0, j)));
            open.push(((i + len, in_a.1), (j + len, in_b.1)));
        }
    }
    runs
}

/// Common prefix and suffix of two texts.
fn ends(a: &[&str], b: &[&str]) -> Vec<(usize, usize, usize)> {
    let first = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let rest = a[first..].iter().rev().zip(b[first..].iter().rev());
    let last = rest.take_while(|(a, b)| a == b).count();
    let runs = [(0, 0, first), (a.len() - last, b.len() - last, last)];
    runs.into_iter().filter(|(.., len)| *len > 0).collect()
}

/// Edit script between two texts.
fn steps(a: &[&str], b: &[&str]) -> Vec<Step> {
    let mut runs = if a.len() + b.len() > LINES_SEARCHED_MAX { ends(a, b) } else { runs(a, b) };
    runs.sort_unstable();
    runs.push((a.len(), b.len(), 0));
    let (mut i, mut j) = (0, 0);
    let mut steps: Vec<Step> = Vec::new();
    for (run_a, run_b, len) in runs {
        if i < run_a || j < run_b {
            steps.push(Step { op: Op::Change, a: (i, run_a), b: (j, run_b) });
        }
        (i, j) = (run_a + len, run_b + len);
        match steps.last_mut() {
            // Adjacent runs in both texts are merged.
            Some(last) if last.op == Op::Equal && last.a.1 == run_a && last.b.1 == run_b => {
                (last.a.1, last.b.1) = (i, j);
            }
            _ if len > 0 => steps.push(Step { op: Op::Equal, a: (run_a, i), b: (run_b, j) }),
            _ => {}
        }
    }
    steps
}

/// Changes with their context; distant changes are in separate groups.
fn groups(steps: &[Step]) -> Vec<Vec<Step>> {
    let mut groups = Vec::new();
    let mut group: Vec<Step> = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        if step.op == Op::Change {
            group.push(*step);
            continue;
        }
        let len = step.a.1 - step.a.0;
        let head = Step {
            op: Op::Equal,
            a: (step.a.0, step.a.0 + len.min(CONTEXT)),
            b: (step.b.0, step.b.0 + len.min(CONTEXT)),
        };
        let tail = Step {
            op: Op::Equal,
            a: (step.a.1 - len.min(CONTEXT), step.a.1),
            b: (step.b.1 - len.min(CONTEXT), step.b.1),
        };
        let (is_first, is_last) = (at == 0, at + 1 == steps.len());
        match (is_first, is_last) {
            (true, true) => {}
            (true, false) => group.push(tail),
            (false, true) => group.push(head),
            (false, false) if len > 2 * CONTEXT => {
                group.push(head);
                groups.push(std::mem::take(&mut group));
                group.push(tail);
            }
            (false, false) => group.push(*step),
        }
    }
    if group.iter().any(|step| step.op == Op::Change) {
        groups.push(group);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_no_diff() {
        assert_eq!(unified("a\nb", "a\nb"), "");
    }

    #[test]
    fn change_has_three_lines_of_context() {
        let a = "1\n2\n3\n4\n5\n6\n7\n8\n9";
        let b = a.replace('5', "five");
        assert_eq!(unified(a, &b), "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
        assert_eq!(unified(a, &format!("{a}\n10")), "@@ -7,3 +7,4 @@\n 7\n 8\n 9\n+10\n");
        assert_eq!(unified("x", "y"), "@@ -1 +1 @@\n-x\n+y\n");
    }

    #[test]
    fn distant_changes_are_separate_hunks() {
        let a: Vec<String> = (0..40).map(|n| n.to_string()).collect();
        let mut b = a.clone();
        b[5] = "x".to_owned();
        b.remove(30);
        let diff = unified(&a.join("\n"), &b.join("\n"));
        assert_eq!(diff.matches("@@ -").count(), 2, "{diff}");
        assert!(diff.contains("@@ -28,7 +28,6 @@\n 27\n 28\n 29\n-30\n 31\n"), "{diff}");
    }

    #[test]
    fn frequent_lines_of_long_texts_start_no_run() {
        let a: Vec<String> =
            (0..250).map(|n| if n % 2 == 0 { "}".to_owned() } else { n.to_string() }).collect();
        let mut b = a.clone();
        b[101] = "changed".to_owned();
        let diff = unified(&a.join("\n"), &b.join("\n"));
        assert!(diff.starts_with("@@ -99,7 +99,7 @@\n }\n 99\n }\n-101\n+changed\n }\n 103\n }\n"), "{diff}");
    }
}
