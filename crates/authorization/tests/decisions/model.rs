//! Slow model of RBAC: plain lists, tried one after the other. It shares no code with the crate but the types of its
//! results.

use setpoint_api::{Identity, RequestInfo};
use setpoint_authorization::Decision;
use setpoint_authorization::rbac::{Binding, Policy, PolicyRule, RoleRef, Subject, SubjectKind};

#[derive(Clone, Debug)]
pub struct ModelRule {
    pub verbs: Vec<String>,
    pub groups: Vec<String>,
    pub resources: Vec<String>,
    pub names: Vec<String>,
    pub paths: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct ModelRole {
    pub namespace: String,
    pub name: String,
    pub rules: Vec<ModelRule>,
}

#[derive(Clone, Debug)]
pub struct Who {
    pub kind: String,
    pub name: String,
    pub namespace: String,
}

#[derive(Clone, Debug)]
pub struct ModelBinding {
    pub namespace: String,
    pub name: String,
    pub role_kind: String,
    pub role: String,
    pub subjects: Vec<Who>,
}

#[derive(Clone, Debug)]
pub struct Model {
    pub roles: Vec<ModelRole>,
    pub bindings: Vec<ModelBinding>,
}

impl Who {
    fn new(kind: &str, namespace: &str, name: &str) -> Who {
        Who { kind: kind.to_owned(), name: name.to_owned(), namespace: namespace.to_owned() }
    }

    pub fn user(name: &str) -> Who {
        Who::new("User", "", name)
    }

    pub fn group(name: &str) -> Who {
        Who::new("Group", "", name)
    }

    pub fn account(namespace: &str, name: &str) -> Who {
        Who::new("ServiceAccount", namespace, name)
    }

    fn is(&self, user: &Identity, own: &str) -> bool {
        let namespace = if self.namespace.is_empty() { own } else { &self.namespace };
        match self.kind.as_str() {
            "User" => self.name == user.user,
            "Group" => user.groups.contains(&self.name),
            "ServiceAccount" => {
                !namespace.is_empty()
                    && user.user == format!("system:serviceaccount:{namespace}:{}", self.name)
            }
            _ => false,
        }
    }

    fn describe(&self, own: &str) -> String {
        if self.kind == "ServiceAccount" {
            let namespace = if self.namespace.is_empty() { own } else { &self.namespace };
            return format!("ServiceAccount \"{}/{namespace}\"", self.name);
        }
        format!("{} \"{}\"", self.kind, self.name)
    }
}

fn matches(list: &[String], text: &str) -> bool {
    list.iter().any(|item| item == "*" || item == text)
}

fn path_matches(allowed: &str, path: &str) -> bool {
    let prefix = allowed.trim_end_matches('*');
    allowed == path || (prefix != allowed && path.starts_with(prefix))
}

impl ModelRule {
    fn allows(&self, request: &RequestInfo<'_>) -> bool {
        if !matches(&self.verbs, request.verb) {
            return false;
        }
        if !request.is_resource {
            return self.paths.iter().any(|allowed| path_matches(allowed, request.path));
        }
        let mut whole = request.resource.to_owned();
        if !request.subresource.is_empty() {
            whole = format!("{whole}/{}", request.subresource);
        }
        let of_any = format!("*/{}", request.subresource);
        let has_resource = matches(&self.resources, &whole)
            || (!request.subresource.is_empty() && self.resources.contains(&of_any));
        matches(&self.groups, request.group)
            && has_resource
            && (self.names.is_empty() || self.names.iter().any(|name| name == request.name))
    }

    pub fn to_rule(&self) -> PolicyRule {
        let list = |texts: &[String]| texts.iter().map(|text| text.as_str().into()).collect();
        PolicyRule {
            verbs: list(&self.verbs),
            groups: list(&self.groups),
            resources: list(&self.resources),
            names: list(&self.names),
            paths: list(&self.paths),
        }
    }

    /// Parts with one verb, group, resource and name, or one verb and path.
    fn parts(&self) -> Vec<ModelRule> {
        let none =
            || ModelRule { verbs: vec![], groups: vec![], resources: vec![], names: vec![], paths: vec![] };
        let mut parts = Vec::new();
        for verb in &self.verbs {
            for group in &self.groups {
                for resource in &self.resources {
                    let part = ModelRule {
                        verbs: vec![verb.clone()],
                        groups: vec![group.clone()],
                        resources: vec![resource.clone()],
                        ..none()
                    };
                    if self.names.is_empty() {
                        parts.push(part.clone());
                    }
                    parts.extend(
                        self.names.iter().map(|name| ModelRule { names: vec![name.clone()], ..part.clone() }),
                    );
                }
            }
            let paths = self.paths.iter();
            parts.extend(paths.map(|path| ModelRule {
                verbs: vec![verb.clone()],
                paths: vec![path.clone()],
                ..none()
            }));
        }
        parts
    }

    /// `true` if the rule covers a part.
    fn covers(&self, part: &ModelRule) -> bool {
        let has = |list: &[String], items: &[String]| {
            list.iter().any(|item| item == "*") || items.iter().all(|item| list.contains(item))
        };
        let resource = |resource: &String| {
            matches(&self.resources, resource)
                || resource
                    .split_once('/')
                    .is_some_and(|(_, sub)| self.resources.contains(&format!("*/{sub}")))
        };
        has(&self.verbs, &part.verbs)
            && has(&self.groups, &part.groups)
            && part.resources.iter().all(resource)
            && part.paths.iter().all(|path| self.paths.iter().any(|own| path_matches(own, path)))
            && match part.names.is_empty() {
                true => self.names.is_empty(),
                false => self.names.is_empty() || part.names.iter().all(|name| self.names.contains(name)),
            }
    }
}

/// `true` if the owned rules cover all parts of the granted ones.
pub fn covers(owned: &[ModelRule], granted: &[ModelRule]) -> bool {
    granted.iter().flat_map(ModelRule::parts).all(|part| owned.iter().any(|rule| rule.covers(&part)))
}

impl Model {
    fn rules_of(&self, binding: &ModelBinding) -> Result<&[ModelRule], String> {
        let (namespace, noun) = match binding.role_kind.as_str() {
            "Role" => (binding.namespace.as_str(), "role"),
            "ClusterRole" => ("", "clusterrole"),
            other => return Err(format!("unsupported role reference kind: \"{other}\"")),
        };
        let found = self.roles.iter().find(|role| role.name == binding.role && role.namespace == namespace);
        let found = found.filter(|_| noun == "clusterrole" || !namespace.is_empty());
        let missing = || format!("{noun}.rbac.authorization.k8s.io \"{}\" not found", binding.role);
        found.map(|role| &role.rules[..]).ok_or_else(missing)
    }

    pub fn decide(&self, user: &Identity, request: &RequestInfo<'_>) -> Decision {
        let namespaces: &[&str] = if request.namespace.is_empty() { &[""] } else { &["", request.namespace] };
        let mut errors: Vec<String> = Vec::new();
        for namespace in namespaces {
            let mut bindings: Vec<&ModelBinding> =
                self.bindings.iter().filter(|binding| binding.namespace == *namespace).collect();
            bindings.sort_by(|a, b| a.name.cmp(&b.name));
            for binding in bindings {
                let Some(subject) = binding.subjects.iter().find(|who| who.is(user, namespace)) else {
                    continue;
                };
                match self.rules_of(binding) {
                    Ok(rules) if rules.iter().any(|rule| rule.allows(request)) => {
                        return Decision::Allowed(describe(binding, subject));
                    }
                    Ok(_) => {}
                    Err(error) if errors.contains(&error) => {}
                    Err(error) => errors.push(error),
                }
            }
        }
        Decision::NoOpinion(match &errors[..] {
            [] => String::new(),
            [one] => format!("RBAC: {one}"),
            several => format!("RBAC: [{}]", several.join(", ")),
        })
    }

    pub fn policy(&self) -> Policy {
        let mut policy = Policy::default();
        self.add_to(&mut policy);
        policy
    }

    pub fn add_to(&self, policy: &mut Policy) {
        for role in &self.roles {
            policy.set_role(&role.namespace, &role.name, role.rules.iter().map(ModelRule::to_rule).collect());
        }
        for binding in &self.bindings {
            let subject = |who: &Who| Subject {
                kind: match who.kind.as_str() {
                    "User" => SubjectKind::User,
                    "Group" => SubjectKind::Group,
                    "ServiceAccount" => SubjectKind::ServiceAccount,
                    other => SubjectKind::Other(other.into()),
                },
                name: who.name.as_str().into(),
                namespace: who.namespace.as_str().into(),
            };
            policy.set_binding(Binding {
                namespace: binding.namespace.as_str().into(),
                name: binding.name.as_str().into(),
                role: RoleRef { kind: binding.role_kind.as_str().into(), name: binding.role.as_str().into() },
                subjects: binding.subjects.iter().map(subject).collect(),
            });
        }
    }

    pub fn remove_from(&self, policy: &mut Policy) {
        self.roles.iter().for_each(|role| policy.remove_role(&role.namespace, &role.name));
        self.bindings.iter().for_each(|binding| policy.remove_binding(&binding.namespace, &binding.name));
    }

    /// Keeps the last of several objects with one name.
    pub fn without_duplicates(mut self) -> Model {
        let mut seen = Vec::new();
        self.roles.reverse();
        self.roles.retain(|role| {
            let key = (role.namespace.clone(), role.name.clone());
            !seen.contains(&key) && {
                seen.push(key);
                true
            }
        });
        seen.clear();
        self.bindings.reverse();
        self.bindings.retain(|binding| {
            let key = (binding.namespace.clone(), binding.name.clone());
            !seen.contains(&key) && {
                seen.push(key);
                true
            }
        });
        self
    }
}

fn describe(binding: &ModelBinding, subject: &Who) -> String {
    let (kind, name) = match binding.namespace.as_str() {
        "" => ("ClusterRoleBinding", binding.name.clone()),
        namespace => ("RoleBinding", format!("{}/{namespace}", binding.name)),
    };
    let subject = subject.describe(&binding.namespace);
    format!("RBAC: allowed by {kind} \"{name}\" of {} \"{}\" to {subject}", binding.role_kind, binding.role)
}
