//! Attributes of a request that its path, query and method determine.
//!
//! Authorization, fairness and audit match requests by these attributes. They have the names and values of upstream's
//! `RequestInfo`:
//!
//! ```text
//! GET  /api/v1/namespaces/a/pods/p/log      get    ""/v1 pods/log, namespace a, name p
//! GET  /apis/apps/v1/deployments?watch=1    watch  apps/v1 deployments
//! GET  /healthz                             get    path /healthz
//! ```

/// Attributes of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo<'a> {
    /// `true` for requests of API objects; others have only a verb and a path.
    pub is_resource: bool,
    /// Verb: `get`, `list`, `watch`, `create`, …; the method in lower case for other paths.
    pub verb: &'a str,
    /// Path as sent.
    pub path: &'a str,
    /// API group; empty for the core group.
    pub group: &'a str,
    /// API version.
    pub version: &'a str,
    /// Plural name of the resource.
    pub resource: &'a str,
    /// Subresource; empty for the object itself.
    pub subresource: &'a str,
    /// Namespace; empty for cluster-scoped objects, and for all namespaces.
    pub namespace: &'a str,
    /// Name of the object; empty for collections, and for objects to create unless the path has their name.
    pub name: &'a str,
}
