//! Matching of requests by FlowSchemas.

use setpoint_api::{Identity, RequestInfo};

use crate::objects::flow_schema::{
    Distinguisher, FlowSchema, NonResourceRule, PolicyRule, ResourceRule, SchemaSubject,
};

/// Stands for every value, if it is the only one of its list.
const ALL: &str = "*";
/// Prefix of the users of service accounts, before `namespace:name`.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

impl FlowSchema {
    /// `true` if a rule matches the request.
    #[must_use]
    pub fn matches(&self, user: &Identity, request: &RequestInfo<'_>) -> bool {
        self.rules.iter().any(|rule| rule.matches(user, request))
    }

    /// Name of the flow of a request within the FlowSchema.
    #[must_use]
    pub fn flow<'a>(&self, user: &'a Identity, request: &RequestInfo<'a>) -> &'a str {
        match self.distinguisher {
            Distinguisher::None => "",
            Distinguisher::ByUser => &user.user,
            Distinguisher::ByNamespace => request.namespace,
        }
    }
}

impl PolicyRule {
    fn matches(&self, user: &Identity, request: &RequestInfo<'_>) -> bool {
        if !self.subjects.iter().any(|subject| subject.matches(user)) {
            return false;
        }
        if request.is_resource {
            self.resource_rules.iter().any(|rule| rule.matches(request))
        } else {
            self.non_resource_rules.iter().any(|rule| rule.matches(request))
        }
    }
}

impl SchemaSubject {
    fn matches(&self, user: &Identity) -> bool {
        match self {
            SchemaSubject::User(name) => **name == *ALL || **name == *user.user,
            SchemaSubject::Group(name) => **name == *ALL || user.groups.iter().any(|group| **name == **group),
            SchemaSubject::ServiceAccount { namespace, name } => {
                let account = user.user.strip_prefix(SERVICE_ACCOUNT);
                let account = account.and_then(|account| account.strip_prefix(&**namespace));
                let account = account.and_then(|account| account.strip_prefix(':'));
                account.is_some_and(|account| **name == *ALL || **name == *account)
            }
        }
    }
}

impl ResourceRule {
    fn matches(&self, request: &RequestInfo<'_>) -> bool {
        has(&self.verbs, request.verb)
            && has_resource(&self.resources, request.resource, request.subresource)
            && has(&self.groups, request.group)
            && match request.namespace {
                "" => self.is_cluster_scoped,
                namespace => has(&self.namespaces, namespace),
            }
    }
}

impl NonResourceRule {
    fn matches(&self, request: &RequestInfo<'_>) -> bool {
        has(&self.verbs, request.verb) && self.urls.iter().any(|url| matches_url(url, request.path))
    }
}

fn is_all(list: &[Box<str>]) -> bool {
    matches!(list, [only] if **only == *ALL)
}

fn has(list: &[Box<str>], value: &str) -> bool {
    is_all(list) || list.iter().any(|one| **one == *value)
}

fn has_resource(list: &[Box<str>], resource: &str, subresource: &str) -> bool {
    let is_same = |one: &str| {
        let rest = one.strip_prefix(resource);
        match rest {
            Some("") => subresource.is_empty(),
            Some(rest) => !subresource.is_empty() && rest.strip_prefix('/') == Some(subresource),
            None => false,
        }
    };
    is_all(list) || list.iter().any(|one| is_same(one))
}

/// `true` if a path is the URL of a rule, or below it.
fn matches_url(url: &str, path: &str) -> bool {
    if url == ALL || url == path {
        return true;
    }
    let prefix = url.strip_suffix('*').unwrap_or(url);
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use setpoint_api::{Value, value};

    use super::*;

    fn schema(subject: Value, resources: Value, urls: Value) -> FlowSchema {
        let object = value!({
            "metadata": {"name": "s"},
            "spec": {
                "priorityLevelConfiguration": {"name": "l"},
                "rules": [{"subjects": [(subject)], "resourceRules": (resources), "nonResourceRules": (urls)}],
            },
        });
        FlowSchema::read(&object).unwrap()
    }

    fn user(name: &str, groups: &[&str]) -> Identity {
        Identity::new(name, groups.iter().map(|group| (*group).to_owned()).collect())
    }

    fn everything(subject: Value) -> FlowSchema {
        let rule = value!([{
            "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"],
        }]);
        schema(subject, rule, value!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]))
    }

    #[test]
    fn subjects_are_users_groups_and_service_accounts() {
        let info = RequestInfo { is_resource: true, verb: "get", ..Default::default() };
        let bot = user("system:serviceaccount:a:bot", &["system:serviceaccounts"]);
        for (subject, matches) in [
            (value!({"kind": "User", "user": {"name": "*"}}), true),
            (value!({"kind": "User", "user": {"name": "ann"}}), false),
            (value!({"kind": "Group", "group": {"name": "system:serviceaccounts"}}), true),
            (value!({"kind": "Group", "group": {"name": "*"}}), true),
            (value!({"kind": "Group"}), false),
            (value!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "a", "name": "*"}}), true),
            (value!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "a", "name": "bot"}}), true),
            (value!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "a", "name": "bo"}}), false),
            (value!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "", "name": "*"}}), false),
            (value!({"kind": "Other"}), false),
        ] {
            assert_eq!(everything(subject.clone()).matches(&bot, &info), matches, "{subject:?}");
        }
    }

    #[test]
    fn resource_rules_match_verb_group_resource_subresource_and_scope() {
        let rule = value!([{
            "verbs": ["get", "update"], "apiGroups": ["", "apps"], "resources": ["pods", "pods/log"],
            "namespaces": ["a"],
        }]);
        let schema = schema(value!({"kind": "User", "user": {"name": "*"}}), rule, value!([]));
        let info = RequestInfo {
            is_resource: true,
            verb: "get",
            resource: "pods",
            namespace: "a",
            ..Default::default()
        };
        for (info, matches) in [
            (info, true),
            (RequestInfo { subresource: "log", ..info }, true),
            (RequestInfo { subresource: "lo", ..info }, false),
            (RequestInfo { subresource: "exec", ..info }, false),
            (RequestInfo { resource: "pods/log", ..info }, true),
            (RequestInfo { resource: "pod", ..info }, false),
            (RequestInfo { group: "apps", ..info }, true),
            (RequestInfo { group: "batch", ..info }, false),
            (RequestInfo { verb: "list", ..info }, false),
            (RequestInfo { namespace: "b", ..info }, false),
            (RequestInfo { namespace: "", ..info }, false),
            (RequestInfo { is_resource: false, path: "/api", ..info }, false),
        ] {
            assert_eq!(schema.matches(&user("ann", &[]), &info), matches, "{info:?}");
        }
    }

    #[test]
    fn url_matches_itself_and_paths_below() {
        for (url, path, matches) in [
            ("*", "/anything", true),
            ("/healthz", "/healthz", true),
            ("/healthz", "/healthz/ping", true),
            ("/healthz", "/healthzz", false),
            ("/healthz/*", "/healthz/ping", true),
            ("/healthz/*", "/healthz", false),
            ("/healthz/*", "/healthz/*", true),
            ("/a*", "/a/b", true),
            ("/a*", "/ab", false),
            ("/", "/", true),
            ("", "/", true),
        ] {
            assert_eq!(matches_url(url, path), matches, "{url} {path}");
        }
    }

    #[test]
    fn flow_is_named_by_user_or_namespace() {
        let mut schema = everything(value!({"kind": "User", "user": {"name": "*"}}));
        let (ann, info) = (user("ann", &[]), RequestInfo { namespace: "a", ..Default::default() });
        assert_eq!(schema.flow(&ann, &info), "");
        schema.distinguisher = Distinguisher::ByUser;
        assert_eq!(schema.flow(&ann, &info), "ann");
        schema.distinguisher = Distinguisher::ByNamespace;
        assert_eq!(schema.flow(&ann, &info), "a");
    }
}
