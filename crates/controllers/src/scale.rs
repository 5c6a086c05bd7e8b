//! Scale subresource: reads any scalable object by its fields.

use setpoint_api::labels::{Expression, Selector};
use setpoint_api::{Value, resources};
use setpoint_reconcile::{Object, WorldReader};

use crate::kinds;

/// Scale of an object.
pub struct Scale<'a> {
    /// The object.
    pub object: &'a Object,
    /// Desired number of pods.
    pub replicas: i64,
    /// Current number of pods.
    pub current: i64,
    /// Selector of its pods; `None` if it cannot be parsed.
    pub selector: Option<Selector>,
}

/// Resource of a kind.
///
/// # Errors
/// A message for the user, if the kind does not exist or has no scale.
pub fn resource_of<'a>(
    world: &'a WorldReader<'a>,
    api_version: &str,
    kind: &'a str,
) -> Result<&'a str, String> {
    let found = kinds::find_resource(world, api_version, kind);
    let resource =
        found.ok_or_else(|| format!("no matches for kind \"{kind}\" in version \"{api_version}\""))?.resource;
    // Custom kinds are not in the table; their objects are read by their fields.
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let mut built_in = resources::all().iter().filter(|info| info.group == group && info.kind == kind);
    if built_in.next().is_some_and(|info| info.subresource("scale").is_none()) {
        return Err(format!("{resource} does not implement the scale subresource"));
    }
    Ok(resource)
}

/// Finds the scale of an object; `None` if the object does not exist.
///
/// # Errors
/// A message for the user, if the kind does not exist or has no scale.
pub fn find<'a>(
    world: &'a WorldReader<'a>,
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

/// Parses a label selector, or the plain labels of the oldest kinds.
fn selector(value: &Value) -> Option<Selector> {
    let map = value.as_map()?;
    let labels = map.get("matchLabels");
    let expressions = map.get("matchExpressions").and_then(Value::as_list);
    let is_plain = labels.is_none() && expressions.is_none();
    let labels = if is_plain { Some(map) } else { labels.and_then(Value::as_map) };
    let labels = labels.into_iter().flat_map(|labels| labels.iter());
    let labels = labels.filter_map(|(name, value)| Some((name, value.as_str()?)));
    let expressions = expressions.unwrap_or_default().iter().map(|expression| Expression {
        key: expression.str_at(&["key"]),
        operator: expression.str_at(&["operator"]),
        values: expression
            .get("values")
            .and_then(Value::as_list)
            .unwrap_or_default()
            .iter()
            .filter_map(Value::as_str)
            .collect(),
    });
    Selector::from_parts(labels, expressions).ok()
}
