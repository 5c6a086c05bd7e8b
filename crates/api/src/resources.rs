//! API resources: names, scope, verbs, short names, categories and subresources.
//!
//! The table of the built-in ones is parsed once, on first use. Resources are in the order of discovery: by group version, then by
//! name.

use std::borrow::Cow;
use std::sync::LazyLock;

/// A request verb of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Create an object.
    Create,
    /// Delete an object.
    Delete,
    /// Delete all objects that match a selector.
    DeleteCollection,
    /// Read an object.
    Get,
    /// List all objects that match a selector.
    List,
    /// Modify parts of an object.
    Patch,
    /// Replace an object.
    Update,
    /// Watch for changes.
    Watch,
}

/// A set of verbs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verbs(u8);

/// A resource in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceInfo {
    /// API group; empty for the core group.
    pub group: Cow<'static, str>,
    /// Version of the group.
    pub version: Cow<'static, str>,
    /// Plural name, as in paths.
    pub plural: Cow<'static, str>,
    /// Singular name.
    pub singular: Cow<'static, str>,
    /// Kind of its objects.
    pub kind: Cow<'static, str>,
    /// Kind of its lists.
    pub list_kind: Cow<'static, str>,
    /// `true` if the resource is namespaced.
    pub namespaced: bool,
    /// Supported verbs.
    pub verbs: Verbs,
    /// Short names, as in `po`.
    pub short_names: Vec<Cow<'static, str>>,
    /// Categories, such as `all`.
    pub categories: Vec<Cow<'static, str>>,
    /// Subresources of an object.
    pub subresources: Vec<SubresourceInfo>,
}

/// A subresource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubresourceInfo {
    /// Last segment of the path.
    pub name: Cow<'static, str>,
    /// Group of its kind.
    pub group: Cow<'static, str>,
    /// Version of its kind.
    pub version: Cow<'static, str>,
    /// Kind of its request or response.
    pub kind: Cow<'static, str>,
    /// `true` if the kind is of another group version than the resource, which discovery then shows.
    pub foreign: bool,
    /// Supported verbs.
    pub verbs: Verbs,
}

/// Returns all built-in resources.
#[must_use]
pub fn all() -> &'static [ResourceInfo] {
    static ALL: LazyLock<Vec<ResourceInfo>> = LazyLock::new(|| parse(include_str!("../tables/resources")));
    &ALL
}

/// Returns the built-in resource with this plural name.
#[must_use]
pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static ResourceInfo> {
    all().iter().find(|r| r.plural == plural && r.group == group && r.version == version)
}

impl ResourceInfo {
    /// Returns the subresource with this name.
    #[must_use]
    pub fn subresource(&self, name: &str) -> Option<&SubresourceInfo> {
        self.subresources.iter().find(|sub| sub.name == name)
    }
}

impl Verb {
    /// All verbs in the order of discovery.
    pub const ALL: [Verb; 8] = [
        Verb::Create,
        Verb::Delete,
        Verb::DeleteCollection,
        Verb::Get,
        Verb::List,
        Verb::Patch,
        Verb::Update,
        Verb::Watch,
    ];

    /// Name of the verb.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Verb::Create => "create",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Patch => "patch",
            Verb::Update => "update",
            Verb::Watch => "watch",
        }
    }
}

impl Verbs {
    /// All verbs of a stored resource.
    pub const ALL: Verbs = Verbs(u8::MAX);

    /// Verbs of the subresources `status` and `scale`.
    #[must_use]
    pub fn of_subresource() -> Verbs {
        Verbs::parse("+")
    }

    /// `true` if the set contains the verb.
    #[must_use]
    pub const fn contains(self, verb: Verb) -> bool {
        self.0 & (1 << verb as u8) != 0
    }

    /// Verbs in the order of discovery.
    pub fn iter(self) -> impl Iterator<Item = Verb> {
        Verb::ALL.into_iter().filter(move |verb| self.contains(*verb))
    }

    /// Parses `create,get`; `*` means every verb, `+` the verbs of most subresources.
    fn parse(text: &str) -> Verbs {
        let names = match text {
            "*" => return Verbs(u8::MAX),
            "+" => "get,patch,update",
            names => names,
        };
        let set = names.split(',').map(|name| {
            let verb = Verb::ALL.into_iter().find(|verb| verb.as_str() == name);
            1 << verb.expect("the table names known verbs") as u8
        });
        Verbs(set.sum())
    }
}

/// Parses the table: `group GROUP/VERSION`, then one line per resource, `plural Kind singular scope verbs`
/// with optional `short=` and `in=` (categories); below it, indented, its subresources, `name Kind verbs`.
fn parse(text: &'static str) -> Vec<ResourceInfo> {
    let mut resources: Vec<ResourceInfo> = Vec::new();
    let (mut group, mut version) = ("", "");
    for line in text.lines().filter(|line| !line.is_empty()) {
        let words: Vec<&'static str> = line.split_whitespace().collect();
        match words[..] {
            ["group", name] => (group, version) = split_api_version(name),
            [name, kind, verbs] if line.starts_with(' ') => {
                let parent = resources.last_mut().expect("a subresource follows its resource");
                parent.subresources.push(subresource((group, version), name, kind, verbs));
            }
            [plural, kind, singular, scope, verbs, ref rest @ ..] => resources.push(ResourceInfo {
                group: group.into(),
                version: version.into(),
                plural: plural.into(),
                singular: singular.into(),
                kind: kind.into(),
                list_kind: format!("{kind}List").into(),
                namespaced: scope == "ns",
                verbs: Verbs::parse(verbs),
                short_names: names(rest, "short="),
                categories: names(rest, "in="),
                subresources: Vec::new(),
            }),
            _ => unreachable!("the table has no line {line:?}"),
        }
    }
    resources
}

fn subresource(
    own: (&'static str, &'static str),
    name: &'static str,
    kind: &'static str,
    verbs: &str,
) -> SubresourceInfo {
    let foreign = kind.split_once(':').map(|(api_version, kind)| (split_api_version(api_version), kind));
    let ((group, version), kind) = foreign.unwrap_or((own, kind));
    SubresourceInfo {
        name: name.into(),
        group: group.into(),
        version: version.into(),
        kind: kind.into(),
        foreign: foreign.is_some(),
        verbs: Verbs::parse(verbs),
    }
}

fn split_api_version(text: &'static str) -> (&'static str, &'static str) {
    text.split_once('/').unwrap_or(("", text))
}

fn names(words: &[&'static str], prefix: &str) -> Vec<Cow<'static, str>> {
    words
        .iter()
        .find_map(|word| word.strip_prefix(prefix))
        .map_or_else(Vec::new, |list| list.split(',').map(Cow::Borrowed).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;

    #[test]
    fn every_resource_and_subresource_has_a_schema() {
        assert_eq!(all().len(), 72);
        for resource in all() {
            let own = (&*resource.group, &*resource.version, &*resource.kind);
            let subs = resource.subresources.iter().map(|sub| (&*sub.group, &*sub.version, &*sub.kind));
            for (group, version, kind) in subs.chain([own]) {
                let found = schema::builtin().kind(group, version, kind);
                assert!(found.is_some(), "{group}/{version} {kind}");
            }
            if resource.verbs.contains(Verb::List) {
                let (group, version) = (&resource.group, &resource.version);
                let list = schema::builtin().kind(group, version, &resource.list_kind).unwrap();
                let schema::Shape::List(item) = list.field("items").unwrap().ty().shape() else {
                    panic!("{list:?}")
                };
                let schema::Shape::Struct(item) = item.shape() else { panic!("{list:?}") };
                assert_eq!(item.name(), resource.kind);
            }
        }
    }

    #[test]
    fn parsed_resources_match_the_table() {
        let pods = find("", "v1", "pods").unwrap();
        assert!(pods.namespaced);
        assert_eq!((&*pods.kind, &*pods.singular), ("Pod", "pod"));
        assert_eq!((pods.short_names.join(","), pods.categories.join(",")), ("po".into(), "all".into()));
        assert_eq!(pods.verbs.iter().count(), 8);
        let eviction = pods.subresource("eviction").unwrap();
        assert_eq!((&*eviction.group, &*eviction.version, eviction.foreign), ("policy", "v1", true));
        assert!(!pods.subresource("status").unwrap().foreign);
        let namespaces = find("", "v1", "namespaces").unwrap();
        assert!(!namespaces.namespaced && !namespaces.verbs.contains(Verb::DeleteCollection));
        assert_eq!(find("autoscaling", "v2", "horizontalpodautoscalers").unwrap().short_names, ["hpa"]);
        let status = find("apps", "v1", "deployments").unwrap().subresource("status").unwrap();
        assert_eq!(status.verbs.iter().map(Verb::as_str).collect::<Vec<_>>(), ["get", "patch", "update"]);
        assert!(find("apps", "v1", "pods").is_none());
    }
}
