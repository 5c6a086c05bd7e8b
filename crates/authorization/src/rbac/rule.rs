//! Policy rules: verbs on resources, or on other paths.

use std::fmt;

use setpoint_api::quote::Quoted;
use setpoint_api::{Map, RequestInfo, Value};

/// Matches every verb, group, resource or path.
pub(super) const ALL: &str = "*";

/// A rule of a role. It has resources or paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyRule {
    /// Verbs.
    pub verbs: Vec<Box<str>>,
    /// API groups.
    pub groups: Vec<Box<str>>,
    /// Resources, with their subresource: `pods`, `pods/log`, `*/scale`, `*`.
    pub resources: Vec<Box<str>>,
    /// Names of objects; all if empty.
    pub names: Vec<Box<str>>,
    /// Paths that are no resources; a trailing `*` matches any rest.
    pub paths: Vec<Box<str>>,
}

/// Fields of a rule in the API, in the order of upstream's serialization.
const FIELDS: [&str; 5] = ["verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs"];

impl PolicyRule {
    /// Reads a rule of a decoded role. Fields of another type read as empty.
    #[must_use]
    pub fn from_value(rule: &Value) -> PolicyRule {
        let texts = |field: &str| -> Vec<Box<str>> {
            let list = rule.get(field).and_then(Value::as_list).unwrap_or_default();
            list.iter().filter_map(Value::as_str).map(Into::into).collect()
        };
        let [verbs, groups, resources, names, paths] = FIELDS.map(texts);
        PolicyRule { verbs, groups, resources, names, paths }
    }

    /// Reads the rules of a decoded role.
    #[must_use]
    pub fn list(role: &Value) -> Vec<PolicyRule> {
        let rules = role.get("rules").and_then(Value::as_list).unwrap_or_default();
        rules.iter().map(PolicyRule::from_value).collect()
    }

    /// Encodes the rule; empty fields are left out.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let PolicyRule { verbs, groups, resources, names, paths } = self;
        let mut map = Map::new();
        for (field, texts) in FIELDS.into_iter().zip([verbs, groups, resources, names, paths]) {
            if !texts.is_empty() {
                map.insert(field, texts.iter().map(|text| Value::from(&**text)).collect::<Vec<_>>());
            }
        }
        Value::Map(map)
    }

    /// `true` if the rule allows a request.
    #[must_use]
    pub fn allows(&self, request: &RequestInfo<'_>) -> bool {
        let RequestInfo { verb, group, name, path, .. } = *request;
        has(&self.verbs, verb)
            && if request.is_resource {
                has(&self.groups, group)
                    && self.has_resource(request.resource, request.subresource)
                    && (self.names.is_empty() || contains(&self.names, name))
            } else {
                self.paths.iter().any(|allowed| path_covers(allowed, path))
            }
    }

    /// `true` if the rule is about the resource and subresource.
    fn has_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|allowed| match subresource {
            _ if &**allowed == ALL => true,
            "" => &**allowed == resource,
            subresource => {
                allowed.strip_prefix("*/") == Some(subresource)
                    || allowed
                        .strip_prefix(resource)
                        .and_then(|rest| rest.strip_prefix('/'))
                        .is_some_and(|rest| rest == subresource)
            }
        })
    }

    /// Number of single verbs on single resources, names and paths that the rule allows.
    pub(super) fn subrules(&self) -> usize {
        let of_resources = [&self.groups, &self.resources].map(Vec::len).into_iter();
        let of_resources = of_resources.fold(self.names.len().max(1), usize::saturating_mul);
        self.verbs.len().saturating_mul(of_resources.saturating_add(self.paths.len()))
    }
}

impl fmt::Display for PolicyRule {
    /// Prints the rule as in messages about escalation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PolicyRule { verbs, groups, resources, names, paths } = self;
        let fields = [
            ("APIGroups", groups),
            ("Resources", resources),
            ("NonResourceURLs", paths),
            ("ResourceNames", names),
            ("Verbs", verbs),
        ];
        f.write_str("{")?;
        for (at, (name, texts)) in fields.into_iter().filter(|(_, texts)| !texts.is_empty()).enumerate() {
            let separator = if at == 0 { "" } else { ", " };
            write!(f, "{separator}{name}:{}", QuotedList(texts))?;
        }
        f.write_str("}")
    }
}

/// Displays strings as Go's `%q` prints a slice: `["a" "b"]`.
pub(super) struct QuotedList<'a, T>(pub &'a [T]);

impl<T: AsRef<str>> fmt::Display for QuotedList<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (at, text) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { " " };
            write!(f, "{separator}{}", Quoted(text.as_ref()))?;
        }
        f.write_str("]")
    }
}

fn contains(list: &[Box<str>], text: &str) -> bool {
    list.iter().any(|item| &**item == text)
}

/// `true` if a list contains a text or the wildcard.
fn has(list: &[Box<str>], text: &str) -> bool {
    list.iter().any(|item| &**item == text || &**item == ALL)
}

/// `true` if a path of a rule matches or covers a path.
fn path_covers(allowed: &str, path: &str) -> bool {
    allowed == path || (allowed.ends_with('*') && path.starts_with(allowed.trim_end_matches('*')))
}

#[cfg(test)]
mod tests {
    use setpoint_api::value;

    use super::*;

    #[test]
    fn rule_prints_like_go() {
        let rule = value!({
            "verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "pods/log"],
            "resourceNames": ["a\"b"],
        });
        let rule = PolicyRule::from_value(&rule);
        let expected = r#"{APIGroups:[""], Resources:["pods" "pods/log"], ResourceNames:["a\"b"], Verbs:["get" "list"]}"#;
        assert_eq!(rule.to_string(), expected);
        assert_eq!(PolicyRule::from_value(&rule.to_value()), rule);
    }
}
