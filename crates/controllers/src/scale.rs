//! Scale subresource: reads any scalable object by its fields, those of a custom resource by the paths of its definition.

use setpoint_api::labels::{Expression, Selector};
use setpoint_api::quote::Quoted;
use setpoint_api::{Value, resources};
use setpoint_reconcile::{Object, View, WorldReader};
use setpoint_views::custom_resource_definition::{
    CustomResourceDefinition, CustomResourceSubresourceScale, custom_resource,
};

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
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let mut built_in = resources::all().iter().filter(|info| info.group == group && info.kind == kind);
    let has_scale = match built_in.next() {
        Some(info) => info.subresource("scale").is_some(),
        None => custom_paths(world, resource).is_some(),
    };
    if !has_scale {
        return Err(format!("{resource} does not implement the scale subresource"));
    }
    Ok(resource)
}

/// Finds the scale of an object; `None` if the object does not exist.
///
/// # Errors
/// A message for the user, if the kind does not exist or has no scale, or the object has no replicas.
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
    if let Some(paths) = custom_paths(world, resource) {
        return custom_scale(object, &value, paths).map(Some);
    }
    let number = |part: &str| value.at(&[part, "replicas"]).and_then(Value::as_i64);
    Ok(Some(Scale {
        object,
        replicas: number("spec").unwrap_or(1),
        current: number("status").unwrap_or(0),
        selector: value.at(&["spec", "selector"]).and_then(selector),
    }))
}

/// Paths of the scale of a custom resource, in the version that is stored; if that has none, in the first that has one.
/// `None` for built-in resources.
fn custom_paths<'a>(world: &WorldReader<'a>, resource: &str) -> Option<&'a CustomResourceSubresourceScale> {
    let definition = world.find(CustomResourceDefinition::RESOURCE, "", resource)?;
    let (_, definition) = custom_resource(definition)?;
    let stored = definition.storage_version().into_iter();
    let mut versions = stored.chain(definition.spec.versions.iter().filter(|version| version.served));
    versions.find_map(|version| version.subresources.scale.as_deref())
}

fn custom_scale<'a>(
    object: &'a Object,
    value: &Value,
    paths: &CustomResourceSubresourceScale,
) -> Result<Scale<'a>, String> {
    let number = |path: &str| value.at(&fields(path)).and_then(Value::as_i64);
    let replicas = number(&paths.spec_replicas_path).ok_or_else(|| {
        let path = Quoted(&paths.spec_replicas_path);
        format!("Internal error occurred: the spec replicas field {path} does not exist")
    })?;
    let selector = paths.label_selector_path.as_deref().and_then(|path| value.at(&fields(path)));
    let selector = selector.and_then(Value::as_str).filter(|text| !text.is_empty());
    Ok(Scale {
        object,
        replicas,
        current: number(&paths.status_replicas_path).unwrap_or(0),
        selector: selector.and_then(|text| Selector::parse(text).ok()),
    })
}

/// Field names of a path such as `.spec.replicas`.
fn fields(path: &str) -> Vec<&str> {
    path.trim_start_matches('.').split('.').collect()
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

#[cfg(test)]
mod tests {
    use setpoint_api::value;
    use setpoint_sim::cluster::Cluster;

    use super::*;
    use crate::testing::{FOOS, create_foos, put_foo};

    fn cluster(subresources: Value) -> Cluster {
        let mut cluster = Cluster::new(|| (crate::crd::server_controllers(), crate::indexes::all()), 7);
        create_foos(&mut cluster, subresources);
        cluster
    }

    #[test]
    fn scale_of_a_custom_object_is_at_the_paths_of_its_definition() {
        let mut cluster = cluster(value!({"scale": {
            "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.pods.ready",
            "labelSelectorPath": ".status.selector",
        }}));
        let fields = value!({"spec": {"size": 3}, "status": {"pods": {"ready": 2}, "selector": "app=web"}});
        put_foo(&mut cluster, "x", &value!({}), fields);
        put_foo(&mut cluster, "empty", &value!({}), value!({}));
        cluster.observe();
        let reader = cluster.engine.world().reader();
        let find = |version: &str, name: &str| {
            find(&reader, &format!("example.com/{version}"), "Foo", "default", name)
        };
        for version in ["v1", "v1alpha1"] {
            let scale = find(version, "x").unwrap().unwrap();
            assert_eq!((scale.replicas, scale.current), (3, 2));
            assert_eq!(scale.selector.unwrap().to_string(), "app=web");
        }
        assert!(find("v1", "missing").unwrap().is_none());
        assert_eq!(
            find("v1", "empty").err().unwrap(),
            "Internal error occurred: the spec replicas field \".spec.size\" does not exist"
        );
        assert_eq!(
            find("v2", "x").err().unwrap(),
            "no matches for kind \"Foo\" in version \"example.com/v2\""
        );
    }

    #[test]
    fn custom_resource_without_scale_cannot_be_scaled() {
        let mut cluster = cluster(value!({"status": {}}));
        cluster.observe();
        let reader = cluster.engine.world().reader();
        let error = resource_of(&reader, "example.com/v1", "Foo").unwrap_err();
        assert_eq!(error, format!("{FOOS} does not implement the scale subresource"));
    }
}
