//! FlowSchemas.

use setpoint_api::Value;
use setpoint_api::kinds::flowcontrol::builtin;

use super::{number, text, texts};

/// Precedence of a FlowSchema that specifies none.
const DEFAULT_PRECEDENCE: u32 = 1000;

/// A FlowSchema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSchema {
    /// Name of the object.
    pub name: Box<str>,
    /// UID of the object; empty while a mandatory object is missing.
    pub uid: Box<str>,
    /// Name of the priority level.
    pub level: Box<str>,
    /// Matching precedence: the lowest number comes first.
    pub precedence: u32,
    /// Division of the requests into flows.
    pub distinguisher: Distinguisher,
    /// Rules, of which one must match.
    pub(crate) rules: Box<[PolicyRule]>,
}

/// Division of the requests of a FlowSchema into flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distinguisher {
    /// One flow.
    #[default]
    None,
    /// A flow for each user.
    ByUser,
    /// A flow for each namespace.
    ByNamespace,
}

/// Subjects, and requests of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PolicyRule {
    pub subjects: Box<[SchemaSubject]>,
    pub resource_rules: Box<[ResourceRule]>,
    pub non_resource_rules: Box<[NonResourceRule]>,
}

/// Subject of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SchemaSubject {
    User(Box<str>),
    Group(Box<str>),
    ServiceAccount { namespace: Box<str>, name: Box<str> },
}

/// Rule for requests of resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourceRule {
    pub verbs: Box<[Box<str>]>,
    pub groups: Box<[Box<str>]>,
    pub resources: Box<[Box<str>]>,
    pub is_cluster_scoped: bool,
    pub namespaces: Box<[Box<str>]>,
}

/// Rule for requests of other paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NonResourceRule {
    pub verbs: Box<[Box<str>]>,
    pub urls: Box<[Box<str>]>,
}

impl FlowSchema {
    /// Compiles an object; `None` without a spec.
    #[must_use]
    pub fn read(object: &Value) -> Option<FlowSchema> {
        let name = text(object, &["metadata", "name"]);
        FlowSchema::compile(name, text(object, &["metadata", "uid"]), object.get("spec")?)
    }

    /// Compiles the built-in object of this name.
    pub(crate) fn built_in(name: &str) -> Option<FlowSchema> {
        FlowSchema::compile(name.into(), Box::default(), &builtin::schema_spec(name)?)
    }

    fn compile(name: Box<str>, uid: Box<str>, spec: &Value) -> Option<FlowSchema> {
        let distinguisher = match spec.str_at(&["distinguisherMethod", "type"]) {
            "ByUser" => Distinguisher::ByUser,
            "ByNamespace" => Distinguisher::ByNamespace,
            "" => Distinguisher::None,
            _ => return None,
        };
        Some(FlowSchema {
            name,
            uid,
            level: text(spec, &["priorityLevelConfiguration", "name"]),
            precedence: number(spec, "matchingPrecedence").unwrap_or(DEFAULT_PRECEDENCE),
            distinguisher,
            rules: list(spec, "rules", policy_rule),
        })
    }
}

fn list<T>(object: &Value, field: &str, read: impl Fn(&Value) -> Option<T>) -> Box<[T]> {
    object.get(field).and_then(Value::as_list).unwrap_or_default().iter().filter_map(read).collect()
}

fn policy_rule(rule: &Value) -> Option<PolicyRule> {
    Some(PolicyRule {
        subjects: list(rule, "subjects", subject),
        resource_rules: list(rule, "resourceRules", resource_rule),
        non_resource_rules: list(rule, "nonResourceRules", non_resource_rule),
    })
}

fn subject(subject: &Value) -> Option<SchemaSubject> {
    Some(match subject.str_at(&["kind"]) {
        "User" => SchemaSubject::User(text(subject.get("user")?, &["name"])),
        "Group" => SchemaSubject::Group(text(subject.get("group")?, &["name"])),
        "ServiceAccount" => {
            let account = subject.get("serviceAccount")?;
            SchemaSubject::ServiceAccount {
                namespace: text(account, &["namespace"]),
                name: text(account, &["name"]),
            }
        }
        _ => return None,
    })
}

fn resource_rule(rule: &Value) -> Option<ResourceRule> {
    Some(ResourceRule {
        verbs: texts(rule, "verbs"),
        groups: texts(rule, "apiGroups"),
        resources: texts(rule, "resources"),
        is_cluster_scoped: rule.get("clusterScope").and_then(Value::as_bool).unwrap_or(false),
        namespaces: texts(rule, "namespaces"),
    })
}

fn non_resource_rule(rule: &Value) -> Option<NonResourceRule> {
    Some(NonResourceRule { verbs: texts(rule, "verbs"), urls: texts(rule, "nonResourceURLs") })
}
