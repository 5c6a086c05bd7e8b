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
    schema::builtin()
        .kind(group, version, kind)
        .expect("every served built-in kind has a schema")
        .definition()
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
    let mut chars = name.chars();
    let first = chars.next().map(|first| first.to_ascii_lowercase());
    let lower: String = first.into_iter().chain(chars).collect();
    version.map_or(lower.clone(), |version| format!("{lower}_{version}"))
}

/// Path of a group version.
fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

/// A read operation without parameters.
fn plain<'a>(id: String, description: &str, tag: String, definition: &'a str) -> Operation<'a> {
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
pub(super) fn group_version<'a>(group: &str, version: &str) -> Vec<PathItem<'a>> {
    let root = root(group, version);
    let id = format!("get{}{}APIResources", group_name(group), capital(version));
    let list =
        plain(id, "Resources of the group version", tag(group, Some(version)), meta("APIResourceList"));
    let mut items = vec![PathItem::new(format!("{root}/"), vec![list])];
    for resource in resources::all().iter().filter(|r| r.group == group && r.version == version) {
        Resource { info: resource, root: &root, custom: None }.paths(&mut items);
    }
    items.sort_by(|a, b| a.path.cmp(&b.path));
    items
}

/// Paths of a custom resource.
pub(super) fn custom<'a>(info: &'a ResourceInfo, definitions: CustomDefinitions<'a>) -> Vec<PathItem<'a>> {
    let root = root(&info.group, &info.version);
    let mut items = Vec::new();
    let resource = Resource { info, root: &root, custom: Some(definitions) };
    resource.paths(&mut items);
    for operation in items.iter_mut().flat_map(|item| &mut item.operations) {
        operation.types = media::CUSTOM;
        operation.kind = Some(resource.kind());
        if let Some(body) = &mut operation.body {
            body.types = if operation.method == "patch" { media::CUSTOM_PATCH } else { media::CUSTOM };
        }
    }
    items
}

/// Path of a group.
pub(super) fn group<'a>(group: &str) -> Vec<PathItem<'a>> {
    let id = format!("get{}APIGroup", group_name(group));
    let get = plain(id, "Versions of the group", tag(group, None), meta("APIGroup"));
    vec![PathItem::new(format!("/apis/{group}/"), vec![get])]
}

/// A path outside the groups.
pub(super) fn ungrouped<'a>(path: &str) -> Option<Vec<PathItem<'a>>> {
    let text = |id: &str, description: &str, tag: &str, types| Operation::<'static> {
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

/// Names of the definitions of a custom kind.
#[derive(Clone, Copy)]
pub(super) struct CustomDefinitions<'a> {
    /// Definition of an object.
    pub(super) object: &'a str,
    /// Definition of a list.
    pub(super) list: &'a str,
}

/// A resource and the path of its group version.
struct Resource<'a, 'r> {
    info: &'a ResourceInfo,
    root: &'r str,
    /// Definitions of a custom kind; `None` for built-in kinds, whose definitions are in the table.
    custom: Option<CustomDefinitions<'a>>,
}

impl<'a> Resource<'a, '_> {
    fn kind(&self) -> Kind<'a> {
        let info: &'a ResourceInfo = self.info;
        Kind { group: &info.group, version: &info.version, kind: &info.kind }
    }

    /// Definition of an object.
    fn object_definition(&self) -> &'a str {
        let info = self.info;
        self.custom.map_or_else(|| definition(&info.group, &info.version, &info.kind), |custom| custom.object)
    }

    /// Definition of a list.
    fn list_definition(&self) -> &'a str {
        let info = self.info;
        self.custom
            .map_or_else(|| definition(&info.group, &info.version, &info.list_kind), |custom| custom.list)
    }

    /// Definition of a subresource.
    fn subresource_definition(&self, sub: &SubresourceInfo) -> &'a str {
        match self.custom {
            Some(custom) if !sub.foreign => custom.object,
            _ => definition(&sub.group, &sub.version, &sub.kind),
        }
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
        parameters::all(queries, self.in_path(named), &self.info.kind)
    }

    /// An operation on objects of the resource, without a body.
    fn operation(
        &self,
        method: &'static str,
        action: &'static str,
        id: String,
        description: String,
    ) -> Operation<'a> {
        Operation {
            method,
            action: Some(action),
            kind: Some(self.kind()),
            ..plain(id, &description, tag(&self.info.group, Some(&self.info.version)), "")
        }
    }

    fn paths(&self, items: &mut Vec<PathItem<'a>>) {
        let info = self.info;
        let base = if info.namespaced {
            format!("{}/namespaces/{{namespace}}/{}", self.root, info.plural)
        } else {
            format!("{}/{}", self.root, info.plural)
        };
        let mut push = |path: String, operations: Vec<Operation<'a>>| {
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
        // The deprecated paths of watches are documented for built-in kinds only.
        if info.verbs.contains(Verb::Watch) && self.custom.is_none() {
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

    fn list(&self, scope: &str, rest: &str, in_path: &[&'static str]) -> Operation<'a> {
        let info = self.info;
        let description = format!("List or watch objects of kind {}", info.kind);
        Operation {
            parameters: parameters::all(parameters::LIST, in_path, &info.kind),
            content: Content::Object(self.list_definition()),
            types: media::WATCH,
            ..self.operation("get", "list", self.id("list", scope, rest), description)
        }
    }

    fn watch(
        &self,
        action: &'static str,
        scope: &str,
        rest: &str,
        in_path: &[&'static str],
    ) -> Operation<'a> {
        let description =
            format!("Watch objects of kind {}. Deprecated, use a list with watch=true", self.info.kind);
        Operation {
            parameters: parameters::all(parameters::LIST, in_path, &self.info.kind),
            content: Content::Object(meta("WatchEvent")),
            types: media::WATCH,
            ..self.operation("get", action, self.id("watch", scope, rest), description)
        }
    }

    /// Operations on a collection.
    fn collection(&self) -> Vec<Operation<'a>> {
        let info = self.info;
        let object = self.object_definition();
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
    fn object(&self) -> Vec<Operation<'a>> {
        let info = self.info;
        let object = self.object_definition();
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
        object: &'a str,
    ) -> Option<Operation<'a>> {
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
                let returned = RETURN_DELETED.contains(&(&*self.info.group, &*self.info.plural));
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
        operation: Operation<'a>,
        queries: &[(&'static str, &'static str, &'static str)],
        named: bool,
        object: &'a str,
    ) -> Operation<'a> {
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

    fn subresource(&self, sub: &'a SubresourceInfo, with_path: bool) -> Vec<Operation<'a>> {
        let rest = capital(&sub.name);
        let kind = Kind { group: &sub.group, version: &sub.version, kind: &sub.kind };
        if sub.kind.ends_with("Options") {
            return self.connect(sub, &rest, with_path);
        }
        let object = self.subresource_definition(sub);
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
    fn connect(&self, sub: &'a SubresourceInfo, rest: &str, with_path: bool) -> Vec<Operation<'a>> {
        let methods: &[&'static str] = if sub.verbs.contains(Verb::Delete) {
            &["delete", "get", "head", "options", "patch", "post", "put"]
        } else {
            &["get", "post"]
        };
        let rest = if with_path { format!("{rest}WithPath") } else { rest.to_owned() };
        let mut in_path = self.in_path(true).to_vec();
        in_path.extend(with_path.then_some("path"));
        let mut all = parameters::all(&[], &in_path, &sub.kind);
        if let Some(options) = parameters::options(&sub.group, &sub.version, &sub.kind) {
            parameters::add_options(options, &mut all);
        }
        let operation = |method: &&'static str| {
            let scope = format!("{}{}", capital(method), self.scope());
            let description =
                format!("Connect to the {} of a {} with {}", sub.name, self.info.kind, method.to_uppercase());
            Operation {
                kind: Some(Kind { group: &sub.group, version: &sub.version, kind: &sub.kind }),
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
