//! Placement of a pod on nodes: node selector, node affinity and tolerations.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_api::{Map, Value};
use setpoint_reconcile::Object;
use setpoint_views::node::Taint;

/// Nodes that a pod's spec allows: node selector and required node affinity.
pub struct Placement<'a> {
    selector: Option<&'a Map>,
    terms: Option<AffinityTerms<'a>>,
}

/// Node affinity terms, one of which must match, indexed by what a node must have to match them.
#[derive(Default)]
struct AffinityTerms<'a> {
    /// Node names of terms that only match `metadata.name`.
    names: BTreeSet<&'a str>,
    /// Terms that require a value of a label, by label and value.
    by_label: BTreeMap<(&'a str, &'a str), Vec<&'a Value>>,
    others: Vec<&'a Value>,
}

impl<'a> Placement<'a> {
    /// Placement of a pod's spec.
    #[must_use]
    pub fn of(spec: &'a Value) -> Placement<'a> {
        let terms = required_terms(spec.get("affinity")).map(|list| {
            let mut terms = AffinityTerms::default();
            list.iter().for_each(|term| terms.add(term));
            terms
        });
        Placement { selector: spec.get("nodeSelector").and_then(Value::as_map), terms }
    }

    /// `true` if a node is allowed.
    #[must_use]
    pub fn allows(&self, node: &Object) -> bool {
        let selects = self.selector.is_none_or(|selector| {
            selector.iter().all(|(name, value)| node.meta().labels.get(name) == value.as_str())
        });
        selects && self.terms.as_ref().is_none_or(|terms| terms.matches_node(node))
    }
}

impl<'a> AffinityTerms<'a> {
    fn add(&mut self, term: &'a Value) {
        let is_in = |expression: &&Value| expression.str_at(&["operator"]) == "In";
        let (expressions, fields) = (list_at(term, "matchExpressions"), list_at(term, "matchFields"));
        if let Some(expression) = expressions.iter().find(is_in) {
            for value in values_of(expression) {
                self.by_label.entry((expression.str_at(&["key"]), value)).or_default().push(term);
            }
            return;
        }
        match fields {
            [expression]
                if expressions.is_empty()
                    && is_in(&expression)
                    && expression.str_at(&["key"]) == "metadata.name" =>
            {
                self.names.extend(values_of(expression));
            }
            _ => self.others.push(term),
        }
    }

    fn matches_node(&self, node: &Object) -> bool {
        let meta = node.meta();
        let by_label = meta.labels.iter().filter_map(|label| self.by_label.get(&label)).flatten();
        self.names.contains(&*meta.name) || by_label.chain(&self.others).any(|term| matches_term(term, node))
    }
}

fn list_at<'a>(term: &'a Value, name: &str) -> &'a [Value] {
    term.get(name).and_then(Value::as_list).unwrap_or_default()
}

/// Values of an expression.
fn values_of(expression: &Value) -> impl Iterator<Item = &str> {
    list_at(expression, "values").iter().filter_map(Value::as_str)
}

/// Required terms of a node affinity, one of which must match; `None` without a requirement.
#[must_use]
pub fn required_terms(affinity: Option<&Value>) -> Option<&[Value]> {
    let path = ["nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"];
    affinity?.at(&path).and_then(Value::as_list)
}

fn matches_term(term: &Value, node: &Object) -> bool {
    let (expressions, fields) = (list_at(term, "matchExpressions"), list_at(term, "matchFields"));
    let field = |key: &str| (key == "metadata.name").then_some(&*node.meta().name);
    // An empty term matches no node.
    !(expressions.is_empty() && fields.is_empty())
        && matches_all(expressions, |key| node.meta().labels.get(key))
        && matches_all(fields, field)
}

fn matches_all<'a>(expressions: &[Value], label: impl Fn(&str) -> Option<&'a str>) -> bool {
    let number = |text: &str| text.parse::<i64>().ok();
    expressions.iter().all(|expression| {
        let mut values = values_of(expression);
        let label = label(expression.str_at(&["key"]));
        match expression.str_at(&["operator"]) {
            "In" => values.any(|value| label == Some(value)),
            "NotIn" => values.all(|value| label != Some(value)),
            "Exists" => label.is_some(),
            "DoesNotExist" => label.is_none(),
            operator @ ("Gt" | "Lt") => {
                let bound = values.next().and_then(number);
                let both = label.and_then(number).zip(bound);
                both.is_some_and(
                    |(label, bound)| if operator == "Gt" { label > bound } else { label < bound },
                )
            }
            _ => false,
        }
    })
}

/// Tolerations by key, so a taint is not compared with each.
pub struct Tolerations<'a>(BTreeMap<&'a str, Vec<&'a Value>>);

impl<'a> Tolerations<'a> {
    /// Indexes a list of tolerations.
    #[must_use]
    pub fn of(list: &'a [Value]) -> Tolerations<'a> {
        let mut by_key: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for toleration in list {
            by_key.entry(toleration.str_at(&["key"])).or_default().push(toleration);
        }
        Tolerations(by_key)
    }

    /// `true` if one of them tolerates a taint.
    #[must_use]
    pub fn is_tolerated(&self, taint: &Taint) -> bool {
        let mut candidates = ["", taint.key.as_str()].into_iter().filter_map(|key| self.0.get(key)).flatten();
        candidates.any(|toleration| {
            let part = |name| toleration.str_at(&[name]);
            (part("effect").is_empty() || part("effect") == taint.effect)
                && match part("operator") {
                    "Exists" => true,
                    "" | "Equal" => !part("key").is_empty() && part("value") == taint.value,
                    _ => false,
                }
        })
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::{Key, Resource, Revision, Time, value};

    use super::*;

    fn node() -> Object {
        let key = Key::cluster(&Resource::new("nodes").unwrap(), "n1").unwrap();
        let text: &'static [u8] = br#"{"metadata":{"name":"n1","labels":{"zone":"a","cores":"8"}}}"#;
        Object::read(key, Revision(1), Time::EPOCH, text).unwrap()
    }

    fn allows_terms(terms: Value) -> bool {
        let required = value!({"nodeSelectorTerms": (terms)});
        let affinity =
            value!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": (required)}});
        Placement::of(&value!({"affinity": (affinity)})).allows(&node())
    }

    #[test]
    fn node_must_match_the_selector_and_one_affinity_term() {
        assert!(Placement::of(&value!({"nodeSelector": {"zone": "a"}})).allows(&node()));
        assert!(!Placement::of(&value!({"nodeSelector": {"zone": "b"}})).allows(&node()));
        let zone = |operator: &str, zone: &str| value!({"matchExpressions": [{"key": "zone", "operator": (operator), "values": [(zone)]}]});
        assert!(allows_terms(value!([(zone("In", "b")), (zone("NotIn", "b"))])));
        assert!(!allows_terms(value!([(zone("In", "b"))])));
        assert!(!allows_terms(value!([])) && !allows_terms(value!([{}])));
        let cores = |operator: &str, cores: &str| value!([{"matchExpressions": [{"key": "cores", "operator": (operator), "values": [(cores)]}]}]);
        assert!(allows_terms(cores("Gt", "7")) && !allows_terms(cores("Gt", "8")));
        assert!(allows_terms(cores("Lt", "9")) && !allows_terms(cores("Lt", "8")));
        let name = |name: &str| value!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [(name)]}]}]);
        assert!(allows_terms(name("n1")) && !allows_terms(name("n2")));
    }

    #[test]
    fn toleration_matches_key_value_and_effect() {
        let taint =
            Taint { key: "k".into(), value: "v".into(), effect: "NoSchedule".into(), time_added: None };
        let with = |toleration: Value| Tolerations::of(&[toleration]).is_tolerated(&taint);
        assert!(with(value!({"operator": "Exists"})));
        assert!(with(value!({"key": "k", "operator": "Exists", "effect": "NoSchedule"})));
        assert!(with(value!({"key": "k", "value": "v"})));
        assert!(!with(value!({"key": "k", "value": "w"})));
        assert!(!with(value!({"key": "k", "operator": "Exists", "effect": "NoExecute"})));
        assert!(!with(value!({"key": "other", "operator": "Exists"})));
        assert!(!Tolerations::of(&[]).is_tolerated(&taint));
    }
}
