//! Order of API versions: stable ones first, then beta, then alpha; higher numbers first; other names last.

use std::cmp::{Ordering, Reverse};

/// Stability of a version.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stability {
    Alpha,
    Beta,
    Stable,
}

/// Stability, major and minor number of a version such as `v2beta1`; `None` for other names.
fn parse(version: &str) -> Option<(Stability, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let (major, rest) = rest.split_at(rest.find(|char: char| !char.is_ascii_digit()).unwrap_or(rest.len()));
    let number =
        |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?;
    let (stability, minor) = match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
        (Some(minor), _) => (Stability::Beta, number(minor)?),
        (_, Some(minor)) => (Stability::Alpha, number(minor)?),
        _ if rest.is_empty() => (Stability::Stable, 0),
        _ => return None,
    };
    Some((stability, number(major)?, minor))
}

/// Compares versions by priority, the preferred one first.
pub(super) fn by_priority(a: &str, b: &str) -> Ordering {
    Reverse(parse(a)).cmp(&Reverse(parse(b))).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_stability_then_number_then_name() {
        let expected = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v10beta3",
            "v3beta1",
            "v12alpha1",
            "v11alpha2",
            "foo1",
            "foo10",
            "v1gamma1",
        ];
        let mut versions = expected;
        versions.reverse();
        versions.sort_by(|a, b| by_priority(a, b));
        assert_eq!(versions, expected);
    }
}
