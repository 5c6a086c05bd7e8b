//! Form of the tables of default roles and bindings.

use setpoint_api::{Map, Value, value};

use crate::rbac::PolicyRule;

/// Verbs that read.
pub(super) const READ: &str = "get list watch";
/// Verbs that write.
pub(super) const WRITE: &str = "create delete deletecollection patch update";
/// Verbs that read and write.
pub(super) const READ_WRITE: &str = "create delete deletecollection get list patch update watch";
/// Verbs that read and change.
pub(super) const READ_UPDATE: &str = "get list patch update watch";
/// Rule to emit Events.
pub(super) const EVENTS: RuleFacts = rule("create patch update", "core events.k8s.io", "events");

/// Group of roles and bindings.
const GROUP: &str = "rbac.authorization.k8s.io";
/// Name of the core group in the tables.
const CORE: &str = "core";
/// Label of an aggregated role's parts, without the name of the role.
const AGGREGATE: &str = "rbac.authorization.k8s.io/aggregate-to-";
/// Namespace of the service accounts of components.
const SYSTEM: &str = "kube-system";

/// A rule. Items are separated by spaces.
#[derive(Clone, Copy, Debug)]
pub(super) struct RuleFacts {
    verbs: &'static str,
    groups: &'static str,
    resources: &'static str,
    names: &'static str,
    paths: &'static str,
}

/// Returns a rule about resources.
pub(super) const fn rule(verbs: &'static str, groups: &'static str, resources: &'static str) -> RuleFacts {
    RuleFacts { verbs, groups, resources, names: "", paths: "" }
}

/// Returns a rule about named objects.
pub(super) const fn named(
    verbs: &'static str,
    groups: &'static str,
    resources: &'static str,
    names: &'static str,
) -> RuleFacts {
    RuleFacts { verbs, groups, resources, names, paths: "" }
}

/// Returns a rule about paths.
pub(super) const fn paths(verbs: &'static str, paths: &'static str) -> RuleFacts {
    RuleFacts { verbs, groups: "", resources: "", names: "", paths }
}

impl RuleFacts {
    pub(super) fn to_rule(self) -> PolicyRule {
        let list = |text: &str| -> Vec<Box<str>> {
            text.split_whitespace().map(|item| if item == CORE { "" } else { item }.into()).collect()
        };
        let RuleFacts { verbs, groups, resources, names, paths } = self;
        let [verbs, groups, resources, names, paths] = [verbs, groups, resources, names, paths].map(list);
        PolicyRule { verbs, groups, resources, names, paths }
    }
}

/// A role.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoleFacts {
    pub name: &'static str,
    pub rules: &'static [RuleFacts],
    /// The role has the rules of all roles that are aggregated to this name.
    pub aggregates: Option<&'static str>,
    /// Its rules are added to the role of this name.
    pub aggregated_to: Option<&'static str>,
}

/// Returns a role that is not aggregated.
pub(super) const fn role(name: &'static str, rules: &'static [RuleFacts]) -> RoleFacts {
    RoleFacts { name, rules, aggregates: None, aggregated_to: None }
}

/// Subject of a binding.
#[derive(Clone, Copy, Debug)]
pub(super) enum SubjectFacts {
    User(&'static str),
    Group(&'static str),
    /// Service account in `kube-system`.
    Account(&'static str),
}

pub(super) const fn user(name: &'static str) -> SubjectFacts {
    SubjectFacts::User(name)
}

pub(super) const fn group(name: &'static str) -> SubjectFacts {
    SubjectFacts::Group(name)
}

pub(super) const fn account(name: &'static str) -> SubjectFacts {
    SubjectFacts::Account(name)
}

/// A binding.
#[derive(Clone, Copy, Debug)]
pub(super) struct BindingFacts {
    pub name: &'static str,
    pub role: &'static str,
    pub subjects: &'static [SubjectFacts],
}

/// Returns a binding.
pub(super) const fn binding(
    name: &'static str,
    role: &'static str,
    subjects: &'static [SubjectFacts],
) -> BindingFacts {
    BindingFacts { name, role, subjects }
}

/// Roles and bindings of a namespace.
#[derive(Clone, Copy, Debug)]
pub(super) struct NamespaceFacts {
    pub namespace: &'static str,
    pub roles: &'static [RoleFacts],
    pub bindings: &'static [BindingFacts],
}

fn metadata(namespace: &str, name: &str, aggregated_to: Option<&str>) -> Map {
    let mut labels = Map::new();
    labels.insert("kubernetes.io/bootstrapping", "rbac-defaults");
    if let Some(role) = aggregated_to {
        labels.insert(format!("{AGGREGATE}{role}"), "true");
    }
    let mut metadata = Map::new();
    metadata.insert("name", name);
    if !namespace.is_empty() {
        metadata.insert("namespace", namespace);
    }
    metadata.insert("labels", labels);
    metadata.insert("annotations", value!({"rbac.authorization.kubernetes.io/autoupdate": "true"}));
    metadata
}

impl RoleFacts {
    /// Returns the object, with a prefix of its name.
    pub fn to_value(self, namespace: &str, prefix: &str) -> Value {
        let name = format!("{prefix}{}", self.name);
        let mut role = Map::new();
        role.insert("metadata", metadata(namespace, &name, self.aggregated_to));
        if let Some(aggregated) = self.aggregates {
            let mut labels = Map::new();
            labels.insert(format!("{AGGREGATE}{aggregated}"), "true");
            let selector = value!({"matchLabels": (Value::Map(labels))});
            role.insert("aggregationRule", value!({"clusterRoleSelectors": [(selector)]}));
        }
        if !self.rules.is_empty() {
            let rules = self.rules.iter().map(|rule| rule.to_rule().to_value());
            role.insert("rules", rules.collect::<Vec<_>>());
        }
        Value::Map(role)
    }
}

impl BindingFacts {
    /// Returns the object.
    pub fn to_value(self, namespace: &str) -> Value {
        binding_value(namespace, self.name, self.role, self.subjects)
    }
}

/// Returns a binding object.
pub(super) fn binding_value(namespace: &str, name: &str, role: &str, subjects: &[SubjectFacts]) -> Value {
    let kind = if namespace.is_empty() { "ClusterRole" } else { "Role" };
    let subjects: Vec<Value> = subjects.iter().map(|subject| subject.to_value()).collect();
    let mut binding = Map::new();
    binding.insert("metadata", metadata(namespace, name, None));
    binding.insert("roleRef", value!({"apiGroup": (GROUP), "kind": (kind), "name": (role)}));
    if !subjects.is_empty() {
        binding.insert("subjects", subjects);
    }
    Value::Map(binding)
}

impl SubjectFacts {
    fn to_value(self) -> Value {
        match self {
            SubjectFacts::User(name) => value!({"apiGroup": (GROUP), "kind": "User", "name": (name)}),
            SubjectFacts::Group(name) => value!({"apiGroup": (GROUP), "kind": "Group", "name": (name)}),
            SubjectFacts::Account(name) => {
                value!({"kind": "ServiceAccount", "name": (name), "namespace": (SYSTEM)})
            }
        }
    }
}
