//! Tolerations of a pod, sorted, so that those for a taint are found by binary search.

use setpoint_views::node::Taint;
use setpoint_views::pod::Toleration;

/// Tolerations without duplicates, sorted by key, operator and value.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tolerations(Vec<Toleration>);

impl Tolerations {
    /// Sorts the tolerations of a pod.
    #[must_use]
    pub fn new(list: &[Toleration]) -> Tolerations {
        // `tolerationSeconds` matters to eviction only.
        let mut all: Vec<Toleration> =
            list.iter().map(|one| Toleration { toleration_seconds: None, ..one.clone() }).collect();
        all.sort_unstable();
        all.dedup();
        Tolerations(all)
    }

    /// `true` if one of them tolerates the taint.
    #[must_use]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        ["", taint.key.as_str()].into_iter().any(|key| {
            ["", "Equal"].into_iter().any(|operator| self.has_match(key, operator, Some(&taint.value), taint))
                || ["Exists", "Gt", "Lt"]
                    .into_iter()
                    .any(|operator| self.has_match(key, operator, None, taint))
        })
    }

    /// `true` if one with this key, operator and, if given, value tolerates the taint.
    fn has_match(&self, key: &str, operator: &str, value: Option<&str>, taint: &Taint) -> bool {
        let order = |one: &Toleration| {
            let by_value = value.map_or(std::cmp::Ordering::Equal, |value| one.value.as_str().cmp(value));
            one.key.as_str().cmp(key).then_with(|| one.operator.as_str().cmp(operator)).then(by_value)
        };
        let from = self.0.partition_point(|one| order(one).is_lt());
        self.0[from..].iter().take_while(|one| order(one).is_eq()).any(|one| one.tolerates(taint))
    }

    /// Number of tolerations with a numeric operator: they are compared with a taint one by one.
    #[must_use]
    pub fn numeric_count(&self) -> usize {
        self.0.iter().filter(|one| matches!(one.operator.as_str(), "Gt" | "Lt")).count()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn toleration() -> impl Strategy<Value = Toleration> {
        let text =
            |choices: &'static [&'static str]| proptest::sample::select(choices).prop_map(str::to_owned);
        (
            text(&["", "a", "b"]),
            text(&["", "Equal", "Exists", "Gt", "Lt", "Other"]),
            text(&["", "1", "2"]),
            text(&["", "NoSchedule", "NoExecute"]),
        )
            .prop_map(|(key, operator, value, effect)| Toleration {
                key,
                operator,
                value,
                effect,
                toleration_seconds: None,
            })
    }

    proptest! {
        #[test]
        fn taint_is_tolerated_if_any_toleration_tolerates_it(
            list in prop::collection::vec(toleration(), 0..12),
            key in proptest::sample::select(&["a", "b", "c"][..]),
            value in proptest::sample::select(&["", "1", "2", "3"][..]),
        ) {
            let taint = Taint {
                key: key.to_owned(),
                value: value.to_owned(),
                effect: "NoSchedule".to_owned(),
                ..Taint::default()
            };
            let expected = list.iter().any(|one| one.tolerates(&taint));
            prop_assert_eq!(Tolerations::new(&list).tolerates(&taint), expected);
        }
    }
}
