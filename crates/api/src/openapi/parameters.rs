//! The parameters of operations.

use std::borrow::Cow;

use super::model::{Parameter, Place};
use crate::schema::{self, Shape, Struct};

/// A parameter of the query: name, type, description.
type Query = (&'static str, &'static str, &'static str);

const PRETTY: Query = ("pretty", "string", "'true' asks for output that is laid out for people.");
const DRY_RUN: Query = ("dryRun", "string", "'All' runs every check and stores nothing.");
const FIELD_MANAGER: Query =
    ("fieldManager", "string", "The name of whoever makes the change; it then owns the fields it sets.");
const FIELD_VALIDATION: Query = (
    "fieldValidation",
    "string",
    "What to do about fields that are unknown or come twice: 'Ignore', 'Warn' or 'Strict'.",
);
const FORCE: Query = (
    "force",
    "boolean",
    "Take over fields that others own. Only for apply patches, and needed there on conflict.",
);
const CONTINUE: Query = ("continue", "string", "Where to go on, as the page before said.");
const FIELD_SELECTOR: Query = ("fieldSelector", "string", "Restricts the objects by their fields.");
const LABEL_SELECTOR: Query = ("labelSelector", "string", "Restricts the objects by their labels.");
const LIMIT: Query = ("limit", "integer", "How many objects a page holds at most.");
const RESOURCE_VERSION: Query =
    ("resourceVersion", "string", "The version from which, or as of which, to answer.");
const RESOURCE_VERSION_MATCH: Query =
    ("resourceVersionMatch", "string", "How resourceVersion is meant: 'Exact' or 'NotOlderThan'.");
const SEND_INITIAL_EVENTS: Query = (
    "sendInitialEvents",
    "boolean",
    "Begin a watch with the objects that are there and a bookmark after them; needs resourceVersionMatch.",
);
const SHARD_SELECTOR: Query =
    ("shardSelector", "string", "Restricts the objects to ranges of the hash of a field.");
const TIMEOUT: Query = ("timeoutSeconds", "integer", "How long a list or a watch may take.");
const BOOKMARKS: Query =
    ("allowWatchBookmarks", "boolean", "Send events of type BOOKMARK that only say how far the watch is.");
const WATCH: Query =
    ("watch", "boolean", "Follow changes instead of listing; they come as a stream of events.");
const GRACE_PERIOD: Query =
    ("gracePeriodSeconds", "integer", "How long the object may take to end; zero ends it at once.");
const IGNORE_STORE: Query = (
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "boolean",
    "Delete an object even though it cannot be read, without finalizers and preconditions.",
);
const ORPHAN: Query =
    ("orphanDependents", "boolean", "Deprecated in favour of propagationPolicy: whether dependents stay.");
const PROPAGATION: Query =
    ("propagationPolicy", "string", "What becomes of dependents: 'Orphan', 'Background' or 'Foreground'.");

/// Parameters of a list or a watch.
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
/// Parameters of the deletion of many objects.
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
/// Parameters of a deletion.
pub(super) const DELETE: &[Query] = &[DRY_RUN, GRACE_PERIOD, IGNORE_STORE, ORPHAN, PRETTY, PROPAGATION];
/// Parameters of a creation or a replacement.
pub(super) const WRITE: &[Query] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, PRETTY];
/// Parameters of a patch.
pub(super) const PATCH: &[Query] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, FORCE, PRETTY];
/// Parameters of reading one object.
pub(super) const READ: &[Query] = &[PRETTY];

/// The parameters of a query and of a path, in the order of their names.
pub(super) fn all(queries: &[Query], in_path: &[&'static str], kind: &str) -> Vec<Parameter> {
    let mut all: Vec<Parameter> = queries
        .iter()
        .map(|(name, ty, description)| Parameter {
            name,
            place: Place::Query,
            ty,
            description: Cow::Borrowed(description),
        })
        .collect();
    all.extend(in_path.iter().map(|name| Parameter {
        name,
        place: Place::Path,
        ty: "string",
        description: match *name {
            "namespace" => "The namespace.".into(),
            "name" => format!("The name of the {kind}.").into(),
            _ => "The path of the request behind the proxy.".into(),
        },
    }));
    sort(&mut all);
    all
}

/// Adds the fields of an options kind as parameters of the query.
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
            place: Place::Query,
            ty,
            description: option(field.name()).into(),
        });
    }
    sort(to);
}

/// What an option of a connection or a log does.
fn option(name: &str) -> &'static str {
    match name {
        "command" => "The program and its arguments, each in a parameter of its own; no shell is involved.",
        "container" => "The container; needed where the pod has more than one.",
        "follow" => "Go on with what is logged from now on.",
        "insecureSkipTLSVerifyBackend" => "Do not check the certificate of the node that has the log.",
        "limitBytes" => "How many bytes of the log to read at most.",
        "path" => "The part of the address behind the proxy.",
        "ports" => "The ports to forward.",
        "previous" => "The log of the container that ran before this one.",
        "sinceSeconds" => "How far back the log should go.",
        "stderr" => "Connect the error output.",
        "stdin" => "Connect the input.",
        "stdout" => "Connect the output.",
        "stream" => "Which stream of the log: 'All', 'Stdout' or 'Stderr'.",
        "tailLines" => "How many lines from the end to begin with.",
        "timestamps" => "Begin every line with the time at which it was logged.",
        "tty" => "Give the process a terminal.",
        _ => "",
    }
}

fn sort(parameters: &mut [Parameter]) {
    parameters.sort_by_key(|parameter| (parameter.name, parameter.place));
}

/// The options of a subresource that streams.
pub(super) fn options(group: &str, version: &str, kind: &str) -> Option<Struct<'static>> {
    schema::builtin().kind(group, version, kind)
}
