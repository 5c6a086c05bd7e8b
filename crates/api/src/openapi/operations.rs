//! Paths and operations of the API resources.

use super::model::{Body, Content, Kind, Operation, Parameter, PathItem};
use super::{media, parameters};
use crate::resources::{self, ResourceInfo, SubresourceInfo, Verb};
use crate::schema;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
/// Definition of a patch body.
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
/// Definition of the response of `/version`.
pub(super) const VERSION_INFO: &str = "io.k8s.apimachinery.pkg.version.Info";

/// Resources whose delete returns the object instead of a Status.
const RETURN_DELETED: &[(&str, &str)] = &[
    ("", "persistentvolumeclaims"),
    ("", "persistentvolumes"),
    ("", "pods"),
    ("", "podtemplates"),
    ("", "resourcequotas"),
    ("", "serviceaccounts"),
    ("", "services"),
    ("resource.k8s.io", "deviceclasses"),
    ("resource.k8s.io", "resourceclaims"),
    ("resource.k8s.io", "resourceclaimtemplates"),
    ("resource.k8s.io", "resourceslices"),
    ("storage.k8s.io", "csidrivers"),
    ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "storageclasses"),
    ("storage.k8s.io", "volumeattachments"),
    ("storage.k8s.io", "volumeattributesclasses"),
];

/// Definition in `meta/v1`.
fn meta(name: &str) -> &'static str {
    schema::builtin().meta(name).expect("the table contains meta/v1").definition()
}

fn definition(group: &str, version: &str, kind: &str) -> &'static str {
    schema::builtin().kind(group, version, kind).expect("every served kind has a schema").definition()
}

/// Group as in operation IDs: `rbac.authorization.k8s.io` is `RbacAuthorization`, the core group is `Core`.
fn group_name(group: &str) -> String {
    match group {
        "" => "Core".to_owned(),
        group => group.trim_end_matches(".k8s.io").split('.').map(capital).collect(),
    }
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + chars.as_str())
}

/// Tag of the operations of a group version, as in `rbacAuthorization_v1`.
fn tag(group: &str, version: Option<&str>) -> String {
    let name = group_name(group);
    let lower = name[..1].to_ascii_lowercase() + &name[1..];
    version.map_or(lower.clone(), |version| format!("{lower}_{version}"))
}

/// Path of a group version.
fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

/// A read operation without parameters.
fn plain(id: String, description: &str, tag: String, definition: &'static str) -> Operation {
    Operation {
        method: "get",
        id,
        description: description.to_owned(),
        tag,
        action: None,
        kind: None,
        parameters: Vec::new(),
        body: None,
        codes: &[200],
        content: Content::Object(definition),
        types: media::OBJECT,
    }
}

/// Paths of a group version.
pub(super) fn group_version(group: &str, version: &str) -> Vec<PathItem> {
    let root = root(group, version);
    let id = format!("get{}{}APIResources", group_name(group), capital(version));
    let list =
        plain(id, "Resources of the group version", tag(group, Some(version)), meta("APIResourceList"));
    let mut items = vec![PathItem::new(format!("{root}/"), vec![list])];
    for resource in resources::all().iter().filter(|r| r.group == group && r.version == version) {
        Resource { info: resource, root: &root }.paths(&mut items);
    }
    items.sort_by(|a, b| a.path.cmp(&b.path));
    items
}

/// Path of a group.
pub(super) fn group(group: &str) -> Vec<PathItem> {
    let id = format!("get{}APIGroup", group_name(group));
    let get = plain(id, "Versions of the group", tag(group, None), meta("APIGroup"));
    vec![PathItem::new(format!("/apis/{group}/"), vec![get])]
}

/// A path outside the groups.
pub(super) fn ungrouped(path: &str) -> Option<Vec<PathItem>> {
    let text = |id: &str, description: &str, tag: &str, types| Operation {
        content: Content::Text,
        types,
        ..plain(id.to_owned(), description, tag.to_owned(), "")
    };
    let get = match path {
        "api" => plain(
            "getCoreAPIVersions".into(),
            "Versions of the core group",
            "core".into(),
            meta("APIVersions"),
        ),
        "apis" => plain("getAPIVersions".into(), "API groups", "apis".into(), meta("APIGroupList")),
        "version" => Operation {
            types: media::JSON,
            ..plain("getCodeVersion".into(), "Version of the server", "version".into(), VERSION_INFO)
        },
        ".well-known/openid-configuration" => text(
            "getServiceAccountIssuerOpenIDConfiguration",
            "OpenID configuration of the service account token issuer",
            "WellKnown",
            media::JSON,
        ),
        "openid/v1/jwks" => text(
            "getServiceAccountIssuerOpenIDKeyset",
            "Public keys of the service account token issuer",
            "openid",
            media::KEYS,
        ),
        _ => return None,
    };
    Some(vec![PathItem::new(format!("/{path}/"), vec![get])])
}

/// A resource and the path of its group version.
struct Resource<'a> {
    info: &'static ResourceInfo,
    root: &'a str,
}

impl Resource<'_> {
    fn kind(&self) -> Kind<'static> {
        Kind { group: self.info.group, version: self.info.version, kind: self.info.kind }
    }

    /// Operation ID: `verb`, group and version, `scope`, kind, `rest`.
    fn id(&self, verb: &str, scope: &str, rest: &str) -> String {
        let ResourceInfo { group, version, kind, .. } = self.info;
        format!("{verb}{}{}{scope}{kind}{rest}", group_name(group), capital(version))
    }

    const fn scope(&self) -> &'static str {
        if self.info.namespaced { "Namespaced" } else { "" }
    }

    fn in_path(&self, named: bool) -> &'static [&'static str] {
        match (self.info.namespaced, named) {
            (true, true) => &["name", "namespace"],
            (true, false) => &["namespace"],
            (false, true) => &["name"],
            (false, false) => &[],
        }
    }

    fn parameters(
        &self,
        queries: &[(&'static str, &'static str, &'static str)],
        named: bool,
    ) -> Vec<Parameter> {
        parameters::all(queries, self.in_path(named), self.info.kind)
    }

    /// An operation on objects of the resource, without a body.
    fn operation(
        &self,
        method: &'static str,
        action: &'static str,
        id: String,
        description: String,
    ) -> Operation {
        Operation {
            method,
            action: Some(action),
            kind: Some(self.kind()),
            ..plain(id, &description, tag(self.info.group, Some(self.info.version)), "")
        }
    }

    fn paths(&self, items: &mut Vec<PathItem>) {
        let info = self.info;
        let base = if info.namespaced {
            format!("{}/namespaces/{{namespace}}/{}", self.root, info.plural)
        } else {
            format!("{}/{}", self.root, info.plural)
        };
        let mut push = |path: String, operations: Vec<Operation>| {
            if !operations.is_empty() {
                items.push(PathItem::new(path, operations));
            }
        };
        push(base.clone(), self.collection());
        push(format!("{base}/{{name}}"), self.object());
        for sub in &info.subresources {
            push(format!("{base}/{{name}}/{}", sub.name), self.subresource(sub, false));
            if sub.name == "proxy" {
                push(format!("{base}/{{name}}/proxy/{{path}}"), self.subresource(sub, true));
            }
        }
        if info.namespaced && info.verbs.contains(Verb::List) {
            push(format!("{}/{}", self.root, info.plural), vec![self.list("", "ForAllNamespaces", &[])]);
        }
        if info.verbs.contains(Verb::Watch) {
            let watch = base.replacen(self.root, &format!("{}/watch", self.root), 1);
            if info.namespaced {
                push(
                    format!("{}/watch/{}", self.root, info.plural),
                    vec![self.watch("watchlist", "", "ListForAllNamespaces", &[])],
                );
            }
            let many = self.watch("watchlist", self.scope(), "List", self.in_path(false));
            push(watch.clone(), vec![many]);
            let one = self.watch("watch", self.scope(), "", self.in_path(true));
            push(format!("{watch}/{{name}}"), vec![one]);
        }
    }

    fn list(&self, scope: &str, rest: &str, in_path: &[&'static str]) -> Operation {
        let info = self.info;
        let description = format!("List or watch objects of kind {}", info.kind);
        Operation {
            parameters: parameters::all(parameters::LIST, in_path, info.kind),
            content: Content::Object(definition(info.group, info.version, &format!("{}List", info.kind))),
            types: media::WATCH,
            ..self.operation("get", "list", self.id("list", scope, rest), description)
        }
    }

    fn watch(&self, action: &'static str, scope: &str, rest: &str, in_path: &[&'static str]) -> Operation {
        let description =
            format!("Watch objects of kind {}. Deprecated, use a list with watch=true", self.info.kind);
        Operation {
            parameters: parameters::all(parameters::LIST, in_path, self.info.kind),
            content: Content::Object(meta("WatchEvent")),
            types: media::WATCH,
            ..self.operation("get", action, self.id("watch", scope, rest), description)
        }
    }

    /// Operations on a collection.
    fn collection(&self) -> Vec<Operation> {
        let info = self.info;
        let object = definition(info.group, info.version, info.kind);
        let mut operations = Vec::new();
        if info.verbs.contains(Verb::List) {
            operations.push(self.list(self.scope(), "", self.in_path(false)));
        }
        if info.verbs.contains(Verb::Create) {
            let id = self.id("create", self.scope(), "");
            let operation = self.operation("post", "post", id, format!("Create a {}", info.kind));
            operations.push(self.write_operation(operation, parameters::WRITE, false, object));
        }
        if info.verbs.contains(Verb::DeleteCollection) {
            let id = self.id("delete", &format!("Collection{}", self.scope()), "");
            let description = format!("Delete a collection of {}", info.kind);
            operations.push(Operation {
                parameters: self.parameters(parameters::DELETE_COLLECTION, false),
                body: Some(Body { types: media::ANY, definition: meta("DeleteOptions"), required: false }),
                content: Content::Object(meta("Status")),
                ..self.operation("delete", "deletecollection", id, description)
            });
        }
        operations
    }

    /// Operations on one object.
    fn object(&self) -> Vec<Operation> {
        let info = self.info;
        let object = definition(info.group, info.version, info.kind);
        let mut operations = Vec::new();
        for verb in info.verbs.iter() {
            let (name, description) = match verb {
                Verb::Get => ("read", format!("Read a {}", info.kind)),
                Verb::Update => ("replace", format!("Replace a {}", info.kind)),
                Verb::Patch => ("patch", format!("Partially update a {}", info.kind)),
                Verb::Delete => ("delete", format!("Delete a {}", info.kind)),
                _ => continue,
            };
            operations.extend(self.object_operation(
                verb,
                self.id(name, self.scope(), ""),
                description,
                object,
            ));
        }
        operations
    }

    /// An operation on one object or one of its subresources.
    fn object_operation(
        &self,
        verb: Verb,
        id: String,
        description: String,
        object: &'static str,
    ) -> Option<Operation> {
        Some(match verb {
            Verb::Get => Operation {
                parameters: self.parameters(parameters::READ, true),
                content: Content::Object(object),
                ..self.operation("get", "get", id, description)
            },
            Verb::Update => {
                let operation = self.operation("put", "put", id, description);
                self.write_operation(operation, parameters::WRITE, true, object)
            }
            Verb::Create => {
                let operation = self.operation("post", "post", id, description);
                self.write_operation(operation, parameters::WRITE, true, object)
            }
            Verb::Patch => {
                let operation = self.operation("patch", "patch", id, description);
                self.write_operation(operation, parameters::PATCH, true, object)
            }
            Verb::Delete => {
                let returned = RETURN_DELETED.contains(&(self.info.group, self.info.plural));
                Operation {
                    parameters: self.parameters(parameters::DELETE, true),
                    body: Some(Body {
                        types: media::ANY,
                        definition: meta("DeleteOptions"),
                        required: false,
                    }),
                    codes: &[200, 202],
                    content: Content::Object(if returned { object } else { meta("Status") }),
                    ..self.operation("delete", "delete", id, description)
                }
            }
            Verb::DeleteCollection | Verb::List | Verb::Watch => return None,
        })
    }

    /// An operation with an object in its request and response.
    fn write_operation(
        &self,
        operation: Operation,
        queries: &[(&'static str, &'static str, &'static str)],
        named: bool,
        object: &'static str,
    ) -> Operation {
        let (types, definition) =
            if operation.method == "patch" { (media::PATCH, PATCH) } else { (media::ANY, object) };
        Operation {
            parameters: self.parameters(queries, named),
            body: Some(Body { types, definition, required: true }),
            codes: if operation.method == "post" { &[200, 201, 202] } else { &[200, 201] },
            content: Content::Object(object),
            ..operation
        }
    }

    fn subresource(&self, sub: &'static SubresourceInfo, with_path: bool) -> Vec<Operation> {
        let rest = capital(sub.name);
        let kind = Kind { group: sub.group, version: sub.version, kind: sub.kind };
        if sub.kind.ends_with("Options") {
            return self.connect(sub, &rest, with_path);
        }
        let object = definition(sub.group, sub.version, sub.kind);
        let mut operations = Vec::new();
        for verb in sub.verbs.iter() {
            let (name, doing) = match verb {
                Verb::Get => ("read", "Read the"),
                Verb::Update => ("replace", "Replace the"),
                Verb::Patch => ("patch", "Partially update the"),
                Verb::Create => ("create", "Create the"),
                _ => continue,
            };
            let description = format!("{doing} {} of a {}", sub.name, self.info.kind);
            let id = self.id(name, self.scope(), &rest);
            let mut operation =
                self.object_operation(verb, id, description, object).expect("these verbs are for one object");
            operation.kind = Some(kind);
            if sub.name == "log" {
                operation.content = Content::Text;
                operation.types = media::LOG;
                if let Some(options) = parameters::options("", "v1", "PodLogOptions") {
                    parameters::add_options(options, &mut operation.parameters);
                }
            }
            operations.push(operation);
        }
        operations
    }

    /// Operations of a subresource that proxies a connection.
    fn connect(&self, sub: &'static SubresourceInfo, rest: &str, with_path: bool) -> Vec<Operation> {
        let methods: &[&'static str] = if sub.verbs.contains(Verb::Delete) {
            &["delete", "get", "head", "options", "patch", "post", "put"]
        } else {
            &["get", "post"]
        };
        let rest = if with_path { format!("{rest}WithPath") } else { rest.to_owned() };
        let mut in_path = self.in_path(true).to_vec();
        in_path.extend(with_path.then_some("path"));
        let mut all = parameters::all(&[], &in_path, sub.kind);
        if let Some(options) = parameters::options(sub.group, sub.version, sub.kind) {
            parameters::add_options(options, &mut all);
        }
        let operation = |method: &&'static str| {
            let scope = format!("{}{}", capital(method), self.scope());
            let description =
                format!("Connect to the {} of a {} with {}", sub.name, self.info.kind, method.to_uppercase());
            Operation {
                kind: Some(Kind { group: sub.group, version: sub.version, kind: sub.kind }),
                parameters: all.clone(),
                content: Content::Text,
                types: media::ANY,
                ..self.operation(method, "connect", self.id("connect", &scope, &rest), description)
            }
        };
        methods.iter().map(operation).collect()
    }
}

/// `true` if a definition is a kind of `meta/v1` that is registered in every group.
pub(super) fn is_shared(name: &str) -> bool {
    name.strip_prefix(META).is_some_and(|name| matches!(name, ".DeleteOptions" | ".WatchEvent"))
}
