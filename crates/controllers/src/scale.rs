//! What can be scaled: any object whose kind has the subresource `scale`, read by its form.

use setpoint_api::labels::{Expression, Selector};
use setpoint_api::{Value, resources};
use setpoint_reconcile::{Object, World};

use crate::kinds;

/// Something that can be scaled.
pub struct Scale<'a> {
    /// It.
    pub object: &'a Object,
    /// How many pods it is to have.
    pub replicas: i64,
    /// How many it has.
    pub current: i64,
    /// Which pods are its own; nothing if that cannot be read.
    pub selector: Option<Selector>,
}

/// The resource of a kind.
///
/// # Errors
/// In the words for people, if there is no such kind, or its objects cannot be scaled.
pub fn resource_of<'a>(world: &'a World, api_version: &str, kind: &'a str) -> Result<&'a str, String> {
    let found = kinds::of(world, api_version, kind);
    let resource =
        found.ok_or_else(|| format!("no matches for kind \"{kind}\" in version \"{api_version}\""))?.resource;
    // What custom kinds have is not in the table; their objects are taken by their form.
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let mut built_in = resources::all().iter().filter(|info| info.group == group && info.kind == kind);
    if built_in.next().is_some_and(|info| info.subresource("scale").is_none()) {
        return Err(format!("{resource} does not implement the scale subresource"));
    }
    Ok(resource)
}

/// Finds what is to be scaled; nothing if it is not there.
///
/// # Errors
/// In the words for people, if there is no such kind, or its objects cannot be scaled.
pub fn find<'a>(
    world: &'a World,
    api_version: &str,
    kind: &'a str,
    namespace: &str,
    name: &str,
) -> Result<Option<Scale<'a>>, String> {
    let resource = resource_of(world, api_version, kind)?;
    let Some(object) = world.find(resource, namespace, name) else { return Ok(None) };
    let value = object.value();
    let number = |part: &str| value.at(&[part, "replicas"]).and_then(Value::as_i64);
    Ok(Some(Scale {
        object,
        replicas: number("spec").unwrap_or(1),
        current: number("status").unwrap_or(0),
        selector: value.at(&["spec", "selector"]).and_then(selector),
    }))
}

/// Reads a label selector, or the plain labels that the oldest kinds have instead.
fn selector(value: &Value) -> Option<Selector> {
    let map = value.as_map()?;
    let labels = map.get("matchLabels");
    let expressions = map.get("matchExpressions").and_then(Value::as_list);
    let is_plain = labels.is_none() && expressions.is_none();
    let labels = if is_plain { Some(map) } else { labels.and_then(Value::as_map) };
    let labels = labels.into_iter().flat_map(|labels| labels.iter());
    let labels = labels.filter_map(|(name, value)| Some((name, value.as_str()?)));
    let expressions = expressions.unwrap_or_default().iter().map(|one| Expression {
        key: one.str_at(&["key"]),
        operator: one.str_at(&["operator"]),
        values: one
            .get("values")
            .and_then(Value::as_list)
            .unwrap_or_default()
            .iter()
            .filter_map(Value::as_str)
            .collect(),
    });
    Selector::from_parts(labels, expressions).ok()
}
