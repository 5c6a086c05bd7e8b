//! Parameters of operations.

use std::borrow::Cow;

use super::model::{Parameter, ParameterLocation};
use crate::schema::{self, Shape, Struct};

/// A query parameter: name, type, description.
type Query = (&'static str, &'static str, &'static str);

const PRETTY: Query = ("pretty", "string", "'true' pretty-prints the output.");
const DRY_RUN: Query = ("dryRun", "string", "'All' processes the request without persisting the object.");
const FIELD_MANAGER: Query = (
    "fieldManager",
    "string",
    "Name of the actor or entity that makes the change; it becomes the manager of the fields that it sets.",
);
const FIELD_VALIDATION: Query =
    ("fieldValidation", "string", "Handling of unknown and duplicate fields: 'Ignore', 'Warn' or 'Strict'.");
const FORCE: Query = (
    "force",
    "boolean",
    "Resolve conflicts by taking over fields of other managers. Only for apply patches.",
);
const CONTINUE: Query = ("continue", "string", "Continue token of the previous page.");
const FIELD_SELECTOR: Query =
    ("fieldSelector", "string", "Selector to restrict the objects by their fields.");
const LABEL_SELECTOR: Query =
    ("labelSelector", "string", "Selector to restrict the objects by their labels.");
const LIMIT: Query = ("limit", "integer", "Maximum number of objects in a page.");
const RESOURCE_VERSION: Query =
    ("resourceVersion", "string", "Resource version at which to list, or from which to watch.");
const RESOURCE_VERSION_MATCH: Query =
    ("resourceVersionMatch", "string", "Constraint on resourceVersion: 'Exact' or 'NotOlderThan'.");
const SEND_INITIAL_EVENTS: Query = (
    "sendInitialEvents",
    "boolean",
    "Start a watch with synthetic events for all existing objects and a bookmark; requires resourceVersionMatch.",
);
const SHARD_SELECTOR: Query =
    ("shardSelector", "string", "Selector to restrict the objects to hash ranges of a field.");
const TIMEOUT: Query = ("timeoutSeconds", "integer", "Timeout of the list or watch.");
const BOOKMARKS: Query =
    ("allowWatchBookmarks", "boolean", "Send events of type BOOKMARK that carry only a resource version.");
const WATCH: Query =
    ("watch", "boolean", "Watch for changes and return them as a stream of events, instead of listing.");
const GRACE_PERIOD: Query =
    ("gracePeriodSeconds", "integer", "Seconds before the object is deleted; zero deletes it immediately.");
const IGNORE_STORE: Query = (
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "boolean",
    "Delete an object that cannot be read, without finalizers and preconditions.",
);
const ORPHAN: Query =
    ("orphanDependents", "boolean", "Deprecated, use propagationPolicy: orphan the dependents.");
const PROPAGATION: Query =
    ("propagationPolicy", "string", "Handling of dependents: 'Orphan', 'Background' or 'Foreground'.");

/// Parameters of a list or watch.
pub(super) const LIST: &[Query] = &[
    BOOKMARKS,
    CONTINUE,
    FIELD_SELECTOR,
    LABEL_SELECTOR,
    LIMIT,
    PRETTY,
    RESOURCE_VERSION,
    RESOURCE_VERSION_MATCH,
    SEND_INITIAL_EVENTS,
    SHARD_SELECTOR,
    TIMEOUT,
    WATCH,
];
/// Parameters of a delete of a collection.
pub(super) const DELETE_COLLECTION: &[Query] = &[
    CONTINUE,
    DRY_RUN,
    FIELD_SELECTOR,
    GRACE_PERIOD,
    IGNORE_STORE,
    LABEL_SELECTOR,
    LIMIT,
    ORPHAN,
    PRETTY,
    PROPAGATION,
    RESOURCE_VERSION,
    RESOURCE_VERSION_MATCH,
    SEND_INITIAL_EVENTS,
    SHARD_SELECTOR,
    TIMEOUT,
];
/// Parameters of a delete.
pub(super) const DELETE: &[Query] = &[DRY_RUN, GRACE_PERIOD, IGNORE_STORE, ORPHAN, PRETTY, PROPAGATION];
/// Parameters of a create or replace.
pub(super) const WRITE: &[Query] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, PRETTY];
/// Parameters of a patch.
pub(super) const PATCH: &[Query] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, FORCE, PRETTY];
/// Parameters of a get.
pub(super) const READ: &[Query] = &[PRETTY];

/// Query and path parameters, sorted by name.
pub(super) fn all(queries: &[Query], in_path: &[&'static str], kind: &str) -> Vec<Parameter> {
    let mut all: Vec<Parameter> = queries
        .iter()
        .map(|(name, ty, description)| Parameter {
            name,
            location: ParameterLocation::Query,
            ty,
            description: Cow::Borrowed(description),
        })
        .collect();
    all.extend(in_path.iter().map(|name| Parameter {
        name,
        location: ParameterLocation::Path,
        ty: "string",
        description: match *name {
            "namespace" => "Namespace of the object.".into(),
            "name" => format!("Name of the {kind}.").into(),
            _ => "URL path of the proxied request.".into(),
        },
    }));
    sort(&mut all);
    all
}

/// Adds the fields of an options kind as query parameters.
pub(super) fn add_options(of: Struct<'static>, to: &mut Vec<Parameter>) {
    for field in of.fields().filter(|field| !matches!(field.name(), "kind" | "apiVersion")) {
        let shape = match field.ty().shape() {
            Shape::List(of) => of.shape(),
            shape => shape,
        };
        let ty = match shape {
            Shape::String => "string",
            Shape::Int32 | Shape::Int64 => "integer",
            Shape::Bool => "boolean",
            _ => continue,
        };
        to.push(Parameter {
            name: field.name(),
            location: ParameterLocation::Query,
            ty,
            description: option(field.name()).into(),
        });
    }
    sort(to);
}

/// Description of an option of a connection or log.
fn option(name: &str) -> &'static str {
    match name {
        "command" => "Command and its arguments, one parameter each; not executed in a shell.",
        "container" => "Container name; required if the pod has more than one.",
        "follow" => "Follow the log stream.",
        "insecureSkipTLSVerifyBackend" => {
            "Skip verification of the serving certificate of the node that has the log."
        }
        "limitBytes" => "Maximum bytes of the log to return.",
        "path" => "URL path of the proxied request.",
        "ports" => "Ports to forward.",
        "previous" => "Return the log of the previous terminated container.",
        "sinceSeconds" => "Return log lines newer than this number of seconds.",
        "stderr" => "Redirect the standard error stream.",
        "stdin" => "Redirect the standard input stream.",
        "stdout" => "Redirect the standard output stream.",
        "stream" => "Log stream to return: 'All', 'Stdout' or 'Stderr'.",
        "tailLines" => "Number of lines from the end of the log to start with.",
        "timestamps" => "Prefix every line with its timestamp.",
        "tty" => "Allocate a terminal.",
        _ => "",
    }
}

fn sort(parameters: &mut [Parameter]) {
    parameters.sort_by_key(|parameter| (parameter.name, parameter.location));
}

/// Options of a streaming subresource.
pub(super) fn options(group: &str, version: &str, kind: &str) -> Option<Struct<'static>> {
    schema::builtin().kind(group, version, kind)
}
