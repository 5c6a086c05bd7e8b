//! Profiles of a `KubeSchedulerConfiguration`.
//!
//! Supported are scheduler names, weights of score plugins, `addedAffinity` of NodeAffinity and the default constraints of
//! PodTopologySpread. Any other field is rejected by its path, unless it has the only supported value or affects just the
//! speed of kube-scheduler: a setting that is accepted is in effect. Start at [`read`].

use setpoint_api::{Value, value};
use setpoint_reconcile::object::Pairs;
use setpoint_requirements::node_affinity::{RequiredNodeAffinity, read_preferred_node_terms};
use thiserror::Error;

use crate::planner::DEFAULT_SCHEDULER_NAME;
use crate::profile::{Profile, ScoreWeights};
use crate::signature::SpreadConstraint;

/// Rejection of a configuration. The first field of most variants is the path of the offending field.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// Another kind or API version.
    #[error("kind must be KubeSchedulerConfiguration of kubescheduler.config.k8s.io/v1, not {0:?} of {1:?}")]
    WrongKind(String, String),
    /// Unknown field or plugin, or one without an equivalent here.
    #[error("{0}: not supported")]
    Unsupported(String),
    /// Value other than the only supported one.
    #[error("{0}: only {1} is supported")]
    UnsupportedValue(String, &'static str),
    /// Value of the wrong type or out of range.
    #[error("{0}: must be {1}")]
    Malformed(String, &'static str),
    /// Two profiles with the same name.
    #[error("profiles: duplicate schedulerName {0:?}")]
    DuplicateName(String),
}

/// Maximum weight of a score plugin, so that sums of weighted scores do not overflow an `i32`.
const WEIGHT_MAX: i64 = 1_000_000;

/// Fields that affect only the speed or the diagnostics of kube-scheduler.
const IGNORED_FIELDS: [&str; 7] = [
    "apiVersion",
    "kind",
    "parallelism",
    "percentageOfNodesToScore",
    "enableProfiling",
    "enableContentionProfiling",
    "delayCacheUntilActive",
];

/// Reads the profiles of a configuration.
///
/// # Errors
/// If it is not a KubeSchedulerConfiguration, or has an unsupported field.
pub fn read(config: &Value) -> Result<Vec<Profile>, ConfigError> {
    let (kind, version) = (config.str_at(&["kind"]), config.str_at(&["apiVersion"]));
    if (kind, version) != ("KubeSchedulerConfiguration", "kubescheduler.config.k8s.io/v1") {
        return Err(ConfigError::WrongKind(kind.to_owned(), version.to_owned()));
    }
    let own = ["podInitialBackoffSeconds", "podMaxBackoffSeconds", "leaderElection", "profiles"];
    check_fields(config, "", &[&IGNORED_FIELDS[..], &own[..]].concat())?;
    check_value(config, "", "podInitialBackoffSeconds", &Value::Int(1), "1")?;
    check_value(config, "", "podMaxBackoffSeconds", &Value::Int(10), "10")?;
    if let Some(election) = config.get("leaderElection") {
        check_fields(election, "leaderElection.", &["leaderElect"])?;
        check_value(election, "leaderElection.", "leaderElect", &Value::Bool(true), "true")?;
    }
    let mut profiles: Vec<Profile> = Vec::new();
    for (at, one) in list(config, "", "profiles")?.iter().enumerate() {
        let profile = read_profile(one, &format!("profiles[{at}]."))?;
        if profiles.iter().any(|other| other.name == profile.name) {
            return Err(ConfigError::DuplicateName(profile.name.into()));
        }
        profiles.push(profile);
    }
    if profiles.is_empty() {
        profiles.push(Profile::new(DEFAULT_SCHEDULER_NAME));
    }
    Ok(profiles)
}

fn list<'a>(value: &'a Value, path: &str, field: &str) -> Result<&'a [Value], ConfigError> {
    let Some(found) = value.get(field).filter(|found| !found.is_null()) else { return Ok(&[]) };
    found.as_list().ok_or_else(|| ConfigError::Malformed(format!("{path}{field}"), "a list"))
}

/// Rejects fields that are not in `known`.
fn check_fields(value: &Value, path: &str, known: &[&str]) -> Result<(), ConfigError> {
    if value.as_map().is_none() && !value.is_null() {
        return Err(ConfigError::Malformed(path.trim_end_matches('.').to_owned(), "an object"));
    }
    let fields = value.as_map().into_iter().flat_map(|map| map.iter());
    let mut unknown = fields.filter(|(name, value)| !known.contains(name) && !value.is_null());
    unknown.next().map_or(Ok(()), |(name, _)| Err(ConfigError::Unsupported(format!("{path}{name}"))))
}

/// Rejects a field with another value than `supported`, which `text` is the text of.
fn check_value(
    value: &Value,
    path: &str,
    field: &str,
    supported: &Value,
    text: &'static str,
) -> Result<(), ConfigError> {
    let found = value.get(field).filter(|found| !found.is_null());
    if found.is_none_or(|found| found == supported) {
        return Ok(());
    }
    Err(ConfigError::UnsupportedValue(format!("{path}{field}"), text))
}

fn read_profile(value: &Value, path: &str) -> Result<Profile, ConfigError> {
    check_fields(value, path, &["schedulerName", "percentageOfNodesToScore", "plugins", "pluginConfig"])?;
    let name = match value.get("schedulerName") {
        None | Some(Value::Null) => DEFAULT_SCHEDULER_NAME,
        Some(Value::Str(name)) if name.is_empty() => DEFAULT_SCHEDULER_NAME,
        Some(Value::Str(name)) => name,
        Some(_) => return Err(ConfigError::Malformed(format!("{path}schedulerName"), "a string")),
    };
    let mut profile = Profile::new(name);
    let plugins = value.get("plugins").filter(|plugins| !plugins.is_null());
    if plugins.is_some_and(|plugins| plugins.as_map().is_none()) {
        return Err(ConfigError::Malformed(format!("{path}plugins"), "an object"));
    }
    let points = plugins.and_then(Value::as_map).into_iter().flat_map(|map| map.iter());
    // `multiPoint` first, wherever it stands: the setting of a single extension point takes precedence.
    let (all, each): (Vec<_>, Vec<_>) = points.partition(|(point, _)| *point == "multiPoint");
    for (point, set) in all.into_iter().chain(each) {
        read_weights(&mut profile.weights, point, set, &format!("{path}plugins.{point}."))?;
    }
    for (at, one) in list(value, path, "pluginConfig")?.iter().enumerate() {
        let path = format!("{path}pluginConfig[{at}].");
        check_fields(one, &path, &["name", "args"])?;
        let args = one.get("args").cloned().unwrap_or_default();
        read_plugin_args(&mut profile, one.str_at(&["name"]), &args, &format!("{path}args."))?;
    }
    Ok(profile)
}

/// Reads the enabled and disabled plugins of one extension point.
fn read_weights(weights: &mut ScoreWeights, point: &str, set: &Value, path: &str) -> Result<(), ConfigError> {
    check_fields(set, path, &["enabled", "disabled"])?;
    for (at, one) in list(set, path, "disabled")?.iter().enumerate() {
        disable(weights, point, one.str_at(&["name"]))
            .ok_or_else(|| ConfigError::Unsupported(format!("{path}disabled[{at}]")))?;
    }
    for (at, one) in list(set, path, "enabled")?.iter().enumerate() {
        let path = format!("{path}enabled[{at}]");
        let weight = match one.get("weight") {
            None | Some(Value::Null | Value::Int(0)) => 1,
            Some(Value::Int(weight)) if (1..=WEIGHT_MAX).contains(weight) => *weight,
            Some(_) => {
                return Err(ConfigError::Malformed(format!("{path}.weight"), "an integer from 1 to 1000000"));
            }
        };
        enable(weights, point, one.str_at(&["name"]), weight).ok_or(ConfigError::Unsupported(path))?;
    }
    Ok(())
}

/// Disables the score of a plugin. Filters cannot be disabled, so `multiPoint` only accepts plugins without one.
fn disable(weights: &mut ScoreWeights, point: &str, plugin: &str) -> Option<()> {
    let is_score_only = matches!(plugin, "NodeResourcesBalancedAllocation" | "ImageLocality");
    match (point, plugin) {
        ("score", "*") => *weights = ScoreWeights::NONE,
        ("score", _) => *weights.get_mut(plugin)? = 0,
        ("multiPoint", _) if is_score_only => *weights.get_mut(plugin)? = 0,
        _ => return None,
    }
    Some(())
}

/// Sets the weight of a plugin's score.
fn enable(weights: &mut ScoreWeights, point: &str, plugin: &str, weight: i64) -> Option<()> {
    if !matches!(point, "score" | "multiPoint") {
        return None;
    }
    *weights.get_mut(plugin)? = weight;
    Some(())
}

/// Fields of NodeAffinity.
const NODE_AFFINITY_FIELDS: [&str; 2] =
    ["requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"];
/// Fields of TopologySpreadConstraint.
const CONSTRAINT_FIELDS: [&str; 8] = [
    "maxSkew",
    "topologyKey",
    "whenUnsatisfiable",
    "labelSelector",
    "minDomains",
    "nodeAffinityPolicy",
    "nodeTaintsPolicy",
    "matchLabelKeys",
];

fn read_plugin_args(
    profile: &mut Profile,
    plugin: &str,
    args: &Value,
    path: &str,
) -> Result<(), ConfigError> {
    match plugin {
        "NodeAffinity" => {
            check_fields(args, path, &["apiVersion", "kind", "addedAffinity"])?;
            let Some(added) = args.get("addedAffinity").filter(|added| !added.is_null()) else {
                return Ok(());
            };
            check_fields(added, &format!("{path}addedAffinity."), &NODE_AFFINITY_FIELDS)?;
            let affinity = value!({"nodeAffinity": (added.clone())});
            let required = RequiredNodeAffinity::new(&Pairs::default(), Some(&affinity));
            profile.added_affinity = Some(required).filter(|required| !required.is_unrestricted());
            profile.added_preferences = read_preferred_node_terms(Some(&affinity));
        }
        "PodTopologySpread" => {
            check_fields(args, path, &["apiVersion", "kind", "defaultConstraints", "defaultingType"])?;
            let constraints = list(args, path, "defaultConstraints")?;
            for (at, one) in constraints.iter().enumerate() {
                check_fields(one, &format!("{path}defaultConstraints[{at}]."), &CONSTRAINT_FIELDS)?;
            }
            let defaulting = args.get("defaultingType").filter(|one| !one.is_null());
            if defaulting.is_some_and(|one| one.as_str().is_none()) {
                return Err(ConfigError::Malformed(format!("{path}defaultingType"), "a string"));
            }
            match defaulting.and_then(Value::as_str).unwrap_or_default() {
                "List" => {
                    profile.has_system_defaults = false;
                    profile.default_constraints =
                        constraints.iter().map(|one| SpreadConstraint::new(one, &Pairs::default())).collect();
                }
                "" | "System" if constraints.is_empty() => {}
                _ => {
                    let path = format!("{path}defaultConstraints");
                    return Err(ConfigError::UnsupportedValue(path, "defaultingType List"));
                }
            }
        }
        _ => check_fields(args, path, &["apiVersion", "kind"])?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(profile: Value) -> Value {
        value!({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "profiles": [(profile)],
        })
    }

    fn rejection(profile: Value) -> String {
        read(&config(profile)).unwrap_err().to_string()
    }

    #[test]
    fn names_weights_added_affinity_and_default_constraints_are_read() {
        let term = value!({"matchExpressions": [{"key": "fast", "operator": "Exists"}]});
        let required = value!({"nodeSelectorTerms": [(term)]});
        let affinity = value!({"requiredDuringSchedulingIgnoredDuringExecution": (required)});
        let spread = value!({"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"});
        let read = read(&config(value!({
            "schedulerName": "packed",
            "plugins": {
                "score": {"disabled": [{"name": "*"}], "enabled": [{"name": "ImageLocality", "weight": 7}]},
                "multiPoint": {"enabled": [{"name": "TaintToleration"}]},
            },
            "pluginConfig": [
                {"name": "NodeAffinity", "args": {"addedAffinity": (affinity)}},
                {"name": "PodTopologySpread",
                    "args": {"defaultingType": "List", "defaultConstraints": [(spread)]}},
            ],
        })));
        let read = read.unwrap();
        let profile = &read[0];
        assert_eq!((read.len(), &*profile.name), (1, "packed"));
        assert_eq!(profile.weights, ScoreWeights { image_locality: 7, ..ScoreWeights::NONE });
        let labels: Pairs = [("fast", "yes")].into_iter().collect();
        let added = profile.added_affinity.as_ref().unwrap();
        assert!(added.matches("n", &labels) && !added.matches("n", &Pairs::default()));
        let constraint = &profile.default_constraints[0];
        assert_eq!((profile.has_system_defaults, constraint.max_skew, constraint.is_hard), (false, 2, true));
    }

    #[test]
    fn score_takes_precedence_over_multi_point_in_any_order() {
        let all = ("multiPoint", value!({"enabled": [{"name": "ImageLocality", "weight": 3}]}));
        let one = ("score", value!({"enabled": [{"name": "ImageLocality", "weight": 7}]}));
        for points in [[all.clone(), one.clone()], [one, all]] {
            let points = Value::Map(points.into_iter().collect());
            let read = read(&config(value!({"plugins": (points)}))).unwrap();
            assert_eq!(read[0].weights, ScoreWeights { image_locality: 7, ..ScoreWeights::default() });
        }
    }

    #[test]
    fn malformed_value_is_rejected_by_its_path() {
        let with_weight = |weight: Value| {
            let enabled = value!([{"name": "ImageLocality", "weight": (weight)}]);
            rejection(value!({"plugins": {"score": {"enabled": (enabled)}}}))
        };
        let path = "profiles[0].plugins.score.enabled[0].weight: must be an integer from 1 to 1000000";
        for weight in [value!("5"), value!(-1), Value::Int(i64::MAX), value!(21474837)] {
            assert_eq!(with_weight(weight), path);
        }
        let set = value!({"plugins": {"score": {"enabled": {"name": "ImageLocality"}}}});
        assert_eq!(rejection(set), "profiles[0].plugins.score.enabled: must be a list");
        assert_eq!(rejection(value!({"schedulerName": 5})), "profiles[0].schedulerName: must be a string");
        assert_eq!(rejection(value!("mine")), "profiles[0]: must be an object");
        for plugins in [value!("x"), value!([{"score": {}}])] {
            assert_eq!(rejection(value!({"plugins": (plugins)})), "profiles[0].plugins: must be an object");
        }
        let configured = |one: Value| rejection(value!({"pluginConfig": [(one)]}));
        assert_eq!(configured(value!("NodeAffinity")), "profiles[0].pluginConfig[0]: must be an object");
        let of = |name: &str, args: Value| configured(value!({"name": (name), "args": (args)}));
        let affinity = of("NodeAffinity", value!({"addedAffinity": "x"}));
        assert_eq!(affinity, "profiles[0].pluginConfig[0].args.addedAffinity: must be an object");
        let constraints =
            of("PodTopologySpread", value!({"defaultingType": "List", "defaultConstraints": [3]}));
        assert_eq!(constraints, "profiles[0].pluginConfig[0].args.defaultConstraints[0]: must be an object");
        let defaulting = of("PodTopologySpread", value!({"defaultingType": 3}));
        assert_eq!(defaulting, "profiles[0].pluginConfig[0].args.defaultingType: must be a string");
        let mut profiles = config(value!({}));
        profiles.make_map().insert("profiles", value!({"schedulerName": "mine"}));
        assert_eq!(read(&profiles).unwrap_err().to_string(), "profiles: must be a list");
    }

    #[test]
    fn unsupported_field_is_rejected_by_its_path() {
        let none = value!({"plugins": {"filter": {"disabled": [{"name": "NodePorts"}]}}});
        assert_eq!(rejection(none), "profiles[0].plugins.filter.disabled[0]: not supported");
        let most =
            value!({"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}});
        assert_eq!(
            rejection(value!({"pluginConfig": [(most)]})),
            "profiles[0].pluginConfig[0].args.scoringStrategy: not supported"
        );
        let whole = value!({"plugins": {"multiPoint": {"disabled": [{"name": "TaintToleration"}]}}});
        assert!(rejection(whole).starts_with("profiles[0].plugins.multiPoint.disabled[0]"));
        let mut other = config(value!({}));
        other.make_map().insert("extenders", vec![value!({"urlPrefix": "http://x"})]);
        assert_eq!(read(&other).unwrap_err(), ConfigError::Unsupported("extenders".to_owned()));
        other.make_map().remove("extenders");
        other.make_map().insert("podMaxBackoffSeconds", Value::Int(60));
        let message = read(&other).unwrap_err().to_string();
        assert_eq!(message, "podMaxBackoffSeconds: only 10 is supported");
        assert!(matches!(
            read(&value!({"kind": "Pod", "apiVersion": "v1"})),
            Err(ConfigError::WrongKind(..))
        ));
    }

    #[test]
    fn duplicate_profile_is_rejected_and_no_profile_means_the_default() {
        let mut config = config(value!({}));
        assert_eq!(&*read(&config).unwrap()[0].name, DEFAULT_SCHEDULER_NAME);
        config
            .make_map()
            .insert("profiles", vec![value!({}), value!({"schedulerName": (DEFAULT_SCHEDULER_NAME)})]);
        assert_eq!(read(&config).unwrap_err(), ConfigError::DuplicateName(DEFAULT_SCHEDULER_NAME.to_owned()));
        config.make_map().remove("profiles");
        assert_eq!(read(&config).unwrap().len(), 1);
    }
}
