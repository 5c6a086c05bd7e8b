//! Roles and bindings of a cluster, with an index of bindings by subject.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use setpoint_api::quote::Quoted;
use setpoint_api::{Identity, Value, metadata};

use super::rule::PolicyRule;

/// API group of roles and bindings.
const GROUP: &str = "rbac.authorization.k8s.io";
/// Prefix of the users of service accounts: namespace and name follow.
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// Kind of a subject.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SubjectKind {
    /// A user, by name.
    User,
    /// A group.
    Group,
    /// A service account.
    ServiceAccount,
    /// Unknown kind, which matches no one.
    Other(Box<str>),
}

/// Subject of a binding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// Kind.
    pub kind: SubjectKind,
    /// Name.
    pub name: Box<str>,
    /// Namespace of a service account; empty for that of the binding.
    pub namespace: Box<str>,
}

/// Reference to a role.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoleRef {
    /// `Role` or `ClusterRole`.
    pub kind: Box<str>,
    /// Name.
    pub name: Box<str>,
}

/// RoleBinding or, without a namespace, ClusterRoleBinding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Namespace; empty for a ClusterRoleBinding.
    pub namespace: Box<str>,
    /// Name.
    pub name: Box<str>,
    /// Role.
    pub role: RoleRef,
    /// Subjects.
    pub subjects: Vec<Subject>,
}

impl Subject {
    fn read(subject: &Value) -> Subject {
        let kind = match subject.str_at(&["kind"]) {
            "User" => SubjectKind::User,
            "Group" => SubjectKind::Group,
            "ServiceAccount" => SubjectKind::ServiceAccount,
            other => SubjectKind::Other(other.into()),
        };
        let [name, namespace] = ["name", "namespace"].map(|field| subject.str_at(&[field]).into());
        Subject { kind, name, namespace }
    }

    /// Key under which the index has the subject of a binding; `None` if it matches no one.
    fn key(&self, binding_namespace: &str) -> Option<SubjectKey> {
        match self.kind {
            SubjectKind::User => Some(SubjectKey::User(self.name.clone())),
            SubjectKind::Group => Some(SubjectKey::Group(self.name.clone())),
            SubjectKind::ServiceAccount => {
                let namespace = if self.namespace.is_empty() { binding_namespace } else { &self.namespace };
                let user = format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{}", self.name);
                (!namespace.is_empty()).then(|| SubjectKey::User(user.into()))
            }
            SubjectKind::Other(_) => None,
        }
    }

    /// Prints the subject as in reasons.
    fn describe(&self, binding_namespace: &str) -> String {
        let (kind, name) = match &self.kind {
            SubjectKind::User => ("User", self.name.to_string()),
            SubjectKind::Group => ("Group", self.name.to_string()),
            SubjectKind::Other(kind) => (&**kind, self.name.to_string()),
            SubjectKind::ServiceAccount => {
                let namespace = if self.namespace.is_empty() { binding_namespace } else { &self.namespace };
                ("ServiceAccount", format!("{}/{namespace}", self.name))
            }
        };
        format!("{kind} {}", Quoted(&name))
    }
}

impl RoleRef {
    /// Reads the `roleRef` of a binding.
    #[must_use]
    pub fn read(binding: &Value) -> RoleRef {
        let [kind, name] = ["kind", "name"].map(|field| binding.str_at(&["roleRef", field]).into());
        RoleRef { kind, name }
    }
}

impl Binding {
    /// Reads a decoded binding.
    #[must_use]
    pub fn read(binding: &Value) -> Binding {
        let subjects = binding.get("subjects").and_then(Value::as_list).unwrap_or_default();
        Binding {
            namespace: metadata::namespace(binding).into(),
            name: metadata::name(binding).into(),
            role: RoleRef::read(binding),
            subjects: subjects.iter().map(Subject::read).collect(),
        }
    }

    fn keys(&self) -> impl Iterator<Item = SubjectKey> {
        self.subjects.iter().filter_map(|subject| subject.key(&self.namespace))
    }

    /// Prints the binding as in reasons, with its first subject that is the user; `None` if it binds someone else.
    fn describe(&self, user: &Identity) -> Option<String> {
        let is_user = |subject: &&Subject| match subject.key(&self.namespace) {
            Some(SubjectKey::User(name)) => *name == *user.user,
            Some(SubjectKey::Group(name)) => user.groups.iter().any(|group| **group == *name),
            None => false,
        };
        let subject = self.subjects.iter().find(is_user)?.describe(&self.namespace);
        let (kind, name) = match &*self.namespace {
            "" => ("ClusterRoleBinding", self.name.to_string()),
            namespace => ("RoleBinding", format!("{}/{namespace}", self.name)),
        };
        let (name, role) = (Quoted(&name), Quoted(&self.role.name));
        Some(format!("{kind} {name} of {} {role} to {subject}", self.role.kind))
    }
}

/// Subject as users have it: a user name or a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SubjectKey {
    User(Box<str>),
    Group(Box<str>),
}

/// Namespace and name of a role or binding; the namespace is empty for cluster-scoped ones.
type ObjectKey = (Box<str>, Box<str>);

fn object_key(namespace: &str, name: &str) -> ObjectKey {
    (namespace.into(), name.into())
}

/// Rules that a binding gives to a user.
#[derive(Clone, Debug)]
pub struct BoundRules {
    /// The binding, as in reasons.
    pub source: String,
    /// Rules of its role; the message of the error if there is no such role.
    pub rules: Result<Arc<[PolicyRule]>, String>,
}

/// Roles and bindings of a cluster. Cloning costs a pointer.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    roles: OrdMap<ObjectKey, Arc<[PolicyRule]>>,
    bindings: OrdMap<ObjectKey, Arc<Binding>>,
    by_subject: OrdMap<SubjectKey, OrdSet<ObjectKey>>,
}

impl Policy {
    /// Adds or replaces a role; without a namespace, a cluster role.
    pub fn set_role(&mut self, namespace: &str, name: &str, rules: Vec<PolicyRule>) {
        self.roles.insert(object_key(namespace, name), rules.into());
    }

    /// Removes a role.
    pub fn remove_role(&mut self, namespace: &str, name: &str) {
        self.roles.remove(&object_key(namespace, name));
    }

    /// Adds or replaces a binding.
    pub fn set_binding(&mut self, binding: Binding) {
        self.remove_binding(&binding.namespace, &binding.name);
        let key = object_key(&binding.namespace, &binding.name);
        for subject in binding.keys() {
            self.by_subject.entry(subject).or_default().insert(key.clone());
        }
        self.bindings.insert(key, Arc::new(binding));
    }

    /// Removes a binding.
    pub fn remove_binding(&mut self, namespace: &str, name: &str) {
        let key = object_key(namespace, name);
        let Some(binding) = self.bindings.remove(&key) else { return };
        for subject in binding.keys() {
            if let Some(bound) = self.by_subject.get_mut(&subject) {
                bound.remove(&key);
                if bound.is_empty() {
                    self.by_subject.remove(&subject);
                }
            }
        }
    }

    /// Number of bindings.
    #[must_use]
    pub fn bindings(&self) -> usize {
        self.bindings.len()
    }

    /// Returns the rules of a role.
    ///
    /// # Errors
    /// The message of upstream's error, if there is no such role.
    pub fn role(&self, reference: &RoleRef, namespace: &str) -> Result<&Arc<[PolicyRule]>, String> {
        let (namespace, kind) = match &*reference.kind {
            "Role" => (namespace, "role"),
            "ClusterRole" => ("", "clusterrole"),
            other => return Err(format!("unsupported role reference kind: {}", Quoted(other))),
        };
        // A binding of the cluster scope finds no role, whatever its reference says.
        let found = self.roles.get(&object_key(namespace, &reference.name));
        found
            .filter(|_| kind == "clusterrole" || !namespace.is_empty())
            .ok_or_else(|| format!("{kind}.{GROUP} {} not found", Quoted(&reference.name)))
    }

    /// Returns the rules that bind a user in one scope: those of the cluster if the namespace is empty, else those of
    /// the namespace alone. Ordered by the name of the binding.
    pub fn bound<'a>(&'a self, user: &'a Identity, namespace: &str) -> impl Iterator<Item = BoundRules> + 'a {
        let groups = user.groups.iter().map(|group| SubjectKey::Group(group.as_str().into()));
        let subjects = groups.chain([SubjectKey::User(user.user.as_str().into())]);
        let mut keys = BTreeSet::new();
        for bound in subjects.filter_map(|subject| self.by_subject.get(&subject)) {
            let first = object_key(namespace, "");
            keys.extend(bound.range(first..).take_while(|key| *key.0 == *namespace));
        }
        keys.into_iter().filter_map(|key| {
            let binding = self.bindings.get(key)?;
            let rules = self.role(&binding.role, &binding.namespace).cloned();
            Some(BoundRules { source: binding.describe(user)?, rules })
        })
    }

    /// Returns the rules of a user in a namespace: those of the cluster, then those of the namespace.
    pub fn rules_of<'a>(
        &'a self,
        user: &'a Identity,
        namespace: &str,
    ) -> impl Iterator<Item = BoundRules> + 'a {
        let own = (!namespace.is_empty()).then(|| self.bound(user, namespace));
        self.bound(user, "").chain(own.into_iter().flatten())
    }
}
