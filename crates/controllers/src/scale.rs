//! What can be scaled: any object whose kind has the subresource `scale`, read by its form.

use setpoint_api::labels::{Expression, Selector};
use setpoint_api::resources::{self, ResourceInfo};
use setpoint_api::{Resource, Value};
use setpoint_reconcile::{Object, World};

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
pub fn resource_of(api_version: &str, kind: &str) -> Result<Resource, String> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let is_it = |info: &&ResourceInfo| info.group == group && info.kind == kind;
    let fits = |info: &&ResourceInfo| is_it(info) && info.version == version;
    let found = resources::all().iter().find(fits).or_else(|| resources::all().iter().find(is_it));
    let info = found.ok_or_else(|| format!("no matches for kind \"{kind}\" in version \"{api_version}\""))?;
    let name = if group.is_empty() { info.plural.to_owned() } else { format!("{}.{group}", info.plural) };
    if info.subresource("scale").is_none() {
        return Err(format!("{name} does not implement the scale subresource"));
    }
    Resource::new(&name).map_err(|error| error.to_string())
}

/// Finds what is to be scaled; nothing if it is not there.
///
/// # Errors
/// In the words for people, if there is no such kind, or its objects cannot be scaled.
pub fn find<'a>(
    world: &'a World,
    api_version: &str,
    kind: &str,
    namespace: &str,
    name: &str,
) -> Result<Option<Scale<'a>>, String> {
    let resource = resource_of(api_version, kind)?;
    let Some(object) = world.find(resource.as_str(), namespace, name) else { return Ok(None) };
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
