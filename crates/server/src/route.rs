//! Router: parses request paths.
//!
//! ```text
//! /api/v1/namespaces/NS/pods/NAME/SUB
//! /apis/GROUP/VERSION/RESOURCE/NAME
//! ```

use std::borrow::Cow;
use std::sync::Arc;

use setpoint_api::ResourceType;

use crate::catalog::Catalog;
use crate::discovery::usage;

/// Segments of most paths: `apis`, group, version, `namespaces`, namespace, resource, name, subresource.
const WORDS: usize = 8;

/// A parsed path.
pub enum Route {
    /// Objects of a resource.
    Objects(Target),
    /// Resource usage of nodes or pods.
    Usage(MetricsTarget),
    /// A document: discovery, health, a version.
    Document(Vec<String>),
    /// Unknown path.
    NotFound,
}

/// Objects of one resource.
pub struct Target {
    /// Resource type.
    pub resource_type: Arc<ResourceType>,
    /// Namespace; empty for all, and for cluster-scoped kinds.
    pub namespace: String,
    /// Name; empty for a collection.
    pub name: String,
    /// Subresource; empty for the object itself.
    pub subresource: String,
    /// `true` for the deprecated `/watch/` prefix.
    pub watch: bool,
}

/// Selection of `metrics.k8s.io` objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsTarget {
    /// `nodes` or `pods`.
    pub plural: &'static str,
    /// Namespace; empty for all, and for nodes.
    pub namespace: String,
    /// Name; empty for all.
    pub name: String,
}

/// Parses a path.
#[must_use]
pub fn route(path: &str, catalog: &Catalog) -> Route {
    let Some(path) = decode(path) else { return Route::NotFound };
    let Some(words) = split(&path) else { return Route::NotFound };
    if let ["apis", usage::GROUP, usage::VERSION, rest @ ..] = &words[..]
        && !rest.is_empty()
    {
        return parse_metrics_path(rest).map_or(Route::NotFound, Route::Usage);
    }
    let (group, version, rest) = match &words[..] {
        ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
        _ => return Route::Document(words.into_iter().map(str::to_owned).collect()),
    };
    let (watch, rest) = match rest {
        ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
        rest => (false, rest),
    };
    let found = match rest {
        ["namespaces", namespace, plural, rest @ ..] if !is_part_of_namespace(plural) => catalog
            .find(group, version, plural)
            .filter(|resource_type| resource_type.info.namespaced)
            .map(|resource_type| (resource_type, *namespace, rest)),
        [plural, rest @ ..] => {
            catalog.find(group, version, plural).map(|resource_type| (resource_type, "", rest))
        }
        [] => None,
    };
    let Some((resource_type, namespace, rest)) = found else { return Route::NotFound };
    let (name, subresource) = match rest {
        [] => ("", ""),
        [name] => (*name, ""),
        [name, subresource] => (*name, *subresource),
        // The path after `proxy` belongs to the backend.
        [name, "proxy", ..] => (*name, "proxy"),
        _ => return Route::NotFound,
    };
    if !name.is_empty() && resource_type.info.namespaced && namespace.is_empty() {
        return Route::NotFound;
    }
    Route::Objects(Target {
        resource_type: Arc::clone(resource_type),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        subresource: subresource.to_owned(),
        watch,
    })
}

/// Parses a path below `metrics.k8s.io`.
fn parse_metrics_path(rest: &[&str]) -> Option<MetricsTarget> {
    let (plural, namespace, name) = match rest {
        ["nodes"] => ("nodes", "", ""),
        ["nodes", name] => ("nodes", "", *name),
        ["pods"] => ("pods", "", ""),
        ["namespaces", namespace, "pods"] => ("pods", *namespace, ""),
        ["namespaces", namespace, "pods", name] => ("pods", *namespace, *name),
        _ => return None,
    };
    Some(MetricsTarget { plural, namespace: namespace.to_owned(), name: name.to_owned() })
}

/// `true` for subresources of a namespace: other segments below a namespace are resources.
fn is_part_of_namespace(word: &str) -> bool {
    matches!(word, "status" | "finalize")
}

/// Splits a decoded path at its slashes; `None` if it is invalid. A trailing slash is ignored.
fn split(path: &str) -> Option<Vec<&str>> {
    let path = path.strip_prefix('/')?;
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() {
        return Some(Vec::new());
    }
    let mut words = Vec::with_capacity(WORDS);
    for word in path.split('/') {
        if word.is_empty() {
            return None;
        }
        words.push(word);
    }
    Some(words)
}

/// Decodes percent escapes; `None` if they are malformed or not UTF-8.
pub(crate) fn decode(path: &str) -> Option<Cow<'_, str>> {
    if !path.contains('%') {
        return Some(Cow::Borrowed(path));
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        // Not `from_str_radix`, which accepts a sign.
        let digit = |index: usize| (*rest.get(index)? as char).to_digit(16);
        bytes.push(u8::try_from(digit(0)? << 4 | digit(1)?).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(path: &str) -> String {
        match route(path, Catalog::built_in()) {
            Route::Objects(target) => format!(
                "{} ns={} name={} sub={} watch={}",
                target.resource_type.info.plural,
                target.namespace,
                target.name,
                target.subresource,
                target.watch
            ),
            Route::Usage(MetricsTarget { plural, namespace, name }) => {
                format!("usage of {plural} ns={namespace} name={name}")
            }
            Route::Document(parts) => format!("document {}", parts.join("/")),
            Route::NotFound => "nothing".to_owned(),
        }
    }

    #[test]
    fn request_paths_are_parsed() {
        for (path, expected) in [
            ("/api/v1/configmaps", "configmaps ns= name= sub= watch=false"),
            ("/api/v1/namespaces/a/configmaps/x", "configmaps ns=a name=x sub= watch=false"),
            ("/api/v1/namespaces/a", "namespaces ns= name=a sub= watch=false"),
            ("/api/v1/namespaces/a/status", "namespaces ns= name=a sub=status watch=false"),
            ("/api/v1/namespaces/a/finalize", "namespaces ns= name=a sub=finalize watch=false"),
            (
                "/apis/apps/v1/namespaces/a/deployments/d/scale",
                "deployments ns=a name=d sub=scale watch=false",
            ),
            ("/api/v1/watch/namespaces/a/configmaps", "configmaps ns=a name= sub= watch=true"),
            ("/api/v1/namespaces/a/configmaps/x%3Ay", "configmaps ns=a name=x:y sub= watch=false"),
            ("/api/v1/namespaces/a/pods/x%2Flog", "pods ns=a name=x sub=log watch=false"),
            ("/apis/metrics.k8s.io/v1beta1/nodes/n", "usage of nodes ns= name=n"),
            ("/apis/metrics.k8s.io/v1beta1/pods", "usage of pods ns= name="),
            ("/apis/metrics.k8s.io/v1beta1/namespaces/a/pods/p", "usage of pods ns=a name=p"),
            ("/apis/metrics.k8s.io/v1beta1/pods/p", "nothing"),
            ("/apis/metrics.k8s.io/v1beta1", "document apis/metrics.k8s.io/v1beta1"),
            ("/api/v1", "document api/v1"),
            ("/", "document "),
            ("/apis/apps/v1/", "document apis/apps/v1"),
            ("/api/v1/configmaps/x", "nothing"),
            ("/api/v1/namespaces/a/nodes", "nothing"),
            ("/api/v1//configmaps", "nothing"),
            ("/api/v1/namespaces/a/configmaps/x/y/z", "nothing"),
            ("/api/v1/namespaces/a/configmaps/%zz", "nothing"),
            ("/api/v1/namespaces/a/configmaps/%+a", "nothing"),
            ("/api/v1/namespaces/a/configmaps/%2", "nothing"),
            ("/api/v1/namespaces/a/configmaps/%ff", "nothing"),
            ("/apis/none/v1/things", "nothing"),
        ] {
            assert_eq!(describe(path), expected, "{path}");
        }
    }
}
