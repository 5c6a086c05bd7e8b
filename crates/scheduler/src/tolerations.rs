//! The tolerations of a pod, sorted, so that a taint is looked up among them.

use setpoint_reconcile::views::node::Taint;
use setpoint_reconcile::views::pod::Toleration;

/// The tolerations of a pod, each once, by key, operator and value.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tolerations(Vec<Toleration>);

impl Tolerations {
    /// The tolerations of a list.
    #[must_use]
    pub fn of(list: &[Toleration]) -> Tolerations {
        // For how long a pod puts up with a taint does not matter here.
        let mut all: Vec<Toleration> =
            list.iter().map(|one| Toleration { toleration_seconds: None, ..one.clone() }).collect();
        all.sort_unstable();
        all.dedup();
        Tolerations(all)
    }

    /// `true` if one of them tolerates a taint.
    #[must_use]
    pub fn tolerate(&self, taint: &Taint) -> bool {
        ["", taint.key.as_str()].into_iter().any(|key| {
            ["", "Equal"].into_iter().any(|operator| self.has(key, operator, Some(&taint.value), taint))
                || ["Exists", "Gt", "Lt"].into_iter().any(|operator| self.has(key, operator, None, taint))
        })
    }

    /// `true` if one with this key, operator and perhaps value tolerates a taint.
    fn has(&self, key: &str, operator: &str, value: Option<&str>, taint: &Taint) -> bool {
        let order = |one: &Toleration| {
            let by_value = value.map_or(std::cmp::Ordering::Equal, |value| one.value.as_str().cmp(value));
            one.key.as_str().cmp(key).then_with(|| one.operator.as_str().cmp(operator)).then(by_value)
        };
        let from = self.0.partition_point(|one| order(one).is_lt());
        self.0[from..].iter().take_while(|one| order(one).is_eq()).any(|one| one.tolerates(taint))
    }

    /// How many of them a taint is compared with one after another.
    #[must_use]
    pub fn compared(&self) -> usize {
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
        fn a_taint_is_tolerated_if_any_toleration_of_the_list_does(
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
            prop_assert_eq!(Tolerations::of(&list).tolerate(&taint), expected);
        }
    }
}
