//! Node affinity in parsed form: node selectors and node selector terms.

use setpoint_api::Value;
use setpoint_api::labels::{Operator, Requirement};
use setpoint_reconcile::object::Pairs;

use crate::{list, strings};

/// Node selector and required node affinity of a pod. A node must match both.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequiredNodeAffinity {
    /// `nodeSelector`.
    pub selector: Pairs,
    /// Terms of which a node must match one, sorted; `None` if there is no required affinity.
    pub terms: Option<Vec<NodeSelectorTerm>>,
}

/// Node selector term: a node must meet all of its conditions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeSelectorTerm {
    /// `matchExpressions`.
    labels: Vec<LabelCondition>,
    /// `matchFields` on `metadata.name`: `true` for `In`, `false` for `NotIn`, with sorted names.
    names: Vec<(bool, Vec<Box<str>>)>,
}

/// Condition on a label of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LabelCondition {
    key: Box<str>,
    test: LabelTest,
}

/// Test of a label's value. Values are sorted, for binary search.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LabelTest {
    In(Vec<Box<str>>),
    NotIn(Vec<Box<str>>),
    Exists,
    DoesNotExist,
    GreaterThan(i64),
    LessThan(i64),
}

impl LabelCondition {
    fn new(requirement: &Requirement) -> LabelCondition {
        let values = || {
            let mut values: Vec<Box<str>> = requirement.values().map(Into::into).collect();
            values.sort_unstable();
            values.dedup();
            values
        };
        let number = || requirement.values().next().and_then(|value| value.parse().ok());
        // `In` without values matches nothing, as does a comparison with something that is not a number.
        let test = match requirement.operator() {
            Operator::In | Operator::Equals | Operator::DoubleEquals => LabelTest::In(values()),
            Operator::NotIn | Operator::NotEquals => LabelTest::NotIn(values()),
            Operator::Exists => LabelTest::Exists,
            Operator::DoesNotExist => LabelTest::DoesNotExist,
            Operator::GreaterThan => number().map_or(LabelTest::In(Vec::new()), LabelTest::GreaterThan),
            Operator::LessThan => number().map_or(LabelTest::In(Vec::new()), LabelTest::LessThan),
        };
        LabelCondition { key: requirement.key().into(), test }
    }

    fn matches(&self, labels: &Pairs) -> bool {
        let value = labels.get(&self.key);
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.test {
            LabelTest::In(values) => value.is_some_and(|value| has(values, value)),
            LabelTest::NotIn(values) => !value.is_some_and(|value| has(values, value)),
            LabelTest::Exists => value.is_some(),
            LabelTest::DoesNotExist => value.is_none(),
            LabelTest::GreaterThan(bound) => number().is_some_and(|number| number > *bound),
            LabelTest::LessThan(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

fn has(sorted: &[Box<str>], text: &str) -> bool {
    sorted.binary_search_by(|one| (**one).cmp(text)).is_ok()
}

impl RequiredNodeAffinity {
    /// Reads `spec.nodeSelector` and `spec.affinity` of a pod.
    #[must_use]
    pub fn new(selector: &Pairs, affinity: Option<&Value>) -> RequiredNodeAffinity {
        let path = ["nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"];
        let terms = affinity.and_then(|affinity| affinity.at(&path)).and_then(Value::as_list);
        let terms = terms.map(|terms| {
            let mut terms: Vec<NodeSelectorTerm> = terms.iter().filter_map(NodeSelectorTerm::read).collect();
            // The order has no meaning: sorted terms give equal signatures.
            terms.sort_unstable();
            terms.dedup();
            terms
        });
        RequiredNodeAffinity { selector: selector.clone(), terms }
    }

    /// Upper bound of the conditions that a node is tested against.
    #[must_use]
    pub fn condition_count(&self) -> usize {
        let terms = self.terms.iter().flatten();
        self.selector.iter().count() + terms.map(NodeSelectorTerm::condition_count).sum::<usize>()
    }

    /// `true` if a node with this name and these labels matches.
    #[must_use]
    pub fn matches(&self, name: &str, labels: &Pairs) -> bool {
        self.selector.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.terms.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(name, labels)))
    }

    /// `true` if every node matches.
    #[must_use]
    pub fn is_unrestricted(&self) -> bool {
        self.selector.is_empty() && self.terms.is_none()
    }

    /// Returns the names of the only nodes that can match, sorted; `None` if a term does not select by name.
    #[must_use]
    pub fn node_names(&self) -> Option<Vec<&str>> {
        let terms = self.terms.as_ref().filter(|terms| !terms.is_empty())?;
        let mut names: Vec<&str> = Vec::new();
        for term in terms {
            let mut lists = term.names.iter().filter(|(is_in, _)| *is_in).map(|(_, names)| names);
            let first = lists.next()?;
            let rest: Vec<_> = lists.collect();
            let all = first.iter().filter(|name| rest.iter().all(|list| has(list, name)));
            names.extend(all.map(|name| &**name));
        }
        names.sort_unstable();
        names.dedup();
        Some(names)
    }
}

impl NodeSelectorTerm {
    /// Reads a NodeSelectorTerm; `None` if no node can match it.
    #[must_use]
    pub fn read(term: &Value) -> Option<NodeSelectorTerm> {
        let (expressions, fields) =
            (list(Some(term), &["matchExpressions"]), list(Some(term), &["matchFields"]));
        if expressions.is_empty() && fields.is_empty() {
            return None;
        }
        let mut labels = Vec::with_capacity(expressions.len());
        for one in expressions {
            let operator = match one.str_at(&["operator"]) {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                "Gt" => Operator::GreaterThan,
                "Lt" => Operator::LessThan,
                _ => return None,
            };
            let requirement =
                Requirement::new(one.str_at(&["key"]), operator, &strings(one, "values")).ok()?;
            labels.push(LabelCondition::new(&requirement));
        }
        let mut names = Vec::with_capacity(fields.len());
        for one in fields {
            match (one.str_at(&["key"]), one.str_at(&["operator"])) {
                ("metadata.name", operator @ ("In" | "NotIn")) => {
                    let mut values = strings(one, "values");
                    values.sort_unstable();
                    names.push((operator == "In", values));
                }
                _ => return None,
            }
        }
        Some(NodeSelectorTerm { labels, names })
    }

    /// `true` if a node with this name and these labels matches.
    #[must_use]
    pub fn matches(&self, name: &str, labels: &Pairs) -> bool {
        self.labels.iter().all(|one| one.matches(labels))
            && self.names.iter().all(|(is_in, names)| has(names, name) == *is_in)
    }

    /// Upper bound of the conditions that a node is tested against.
    #[must_use]
    pub fn condition_count(&self) -> usize {
        self.labels.len() + self.names.len()
    }
}

/// Reads the preferred node affinity of `spec.affinity`, with weights.
#[must_use]
pub fn read_preferred_node_terms(affinity: Option<&Value>) -> Vec<(i64, NodeSelectorTerm)> {
    let terms = list(affinity, &["nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution"]);
    let read = |one: &Value| {
        let weight = one.get("weight").and_then(Value::as_i64)?;
        Some((weight, NodeSelectorTerm::read(one.get("preference")?)?))
    };
    terms.iter().filter_map(read).filter(|(weight, _)| *weight != 0).collect()
}
