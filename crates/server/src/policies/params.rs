//! Parameters of policies: objects that a binding refers to.

use std::sync::Arc;

use setpoint_api::Value;
use setpoint_api::resource_types::{self, ResourceType};
use setpoint_store::Record;

use super::compiled::{ParamKind, ParamRef};
use crate::pipeline::RequestContext;
use crate::webhooks::dispatch::open;

/// Returns the resource type of a kind.
///
/// # Errors
/// If it is not served.
pub(super) fn find_kind(kind: &ParamKind, context: &RequestContext<'_>) -> Result<Arc<ResourceType>, String> {
    let is_kind = |served: &&Arc<ResourceType>| {
        let info = &served.info;
        *info.group == *kind.group && *info.version == *kind.version && *info.kind == *kind.kind
    };
    let found = resource_types::all().iter().find(is_kind).or_else(|| context.catalog.custom().find(is_kind));
    found.map(Arc::clone).ok_or_else(|| format!("failed to find resource referenced by paramKind: '{kind}'"))
}

/// Returns the parameters of a binding: one null if the policy or the binding has none.
///
/// # Errors
/// If the reference is wrong, or there are none and the binding denies that.
pub(super) fn collect(
    kind: Option<&Arc<ResourceType>>,
    reference: Option<&ParamRef>,
    namespace: &str,
    context: &RequestContext<'_>,
) -> Result<Vec<Value>, String> {
    let Some((kind, reference)) = kind.zip(reference) else { return Ok(vec![Value::Null]) };
    let namespace = match (kind.info.namespaced, &*reference.namespace) {
        (false, "") => "",
        (false, _) => {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
        }
        (true, "") if namespace.is_empty() => {
            return Err(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                    .to_owned(),
            );
        }
        (true, "") => namespace,
        (true, given) => given,
    };
    let served = |record: &Record| open(&kind.to_served(context.live(kind, record)));
    let params: Vec<Value> = match &reference.selector {
        _ if !reference.name.is_empty() => {
            let key = kind.key(namespace, &reference.name).ok();
            key.and_then(|key| context.snapshot.get(&key)).map(served).into_iter().collect()
        }
        Some(selector) => {
            let selector = selector.as_ref().map_err(Clone::clone)?;
            let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
            let table = context.snapshot.table(&kind.resource);
            let records = table.into_iter().flat_map(|table| table.range(&prefix, None));
            let selected = records.filter(|record| {
                let attributes = record.attributes();
                selector.matches(|label| attributes.label(label))
            });
            selected.map(served).collect()
        }
        None => return Err("one of name or selector must be provided".to_owned()),
    };
    if params.is_empty() && reference.denies_missing {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    Ok(params)
}
