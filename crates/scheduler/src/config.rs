//! The profiles that a `KubeSchedulerConfiguration` describes.
//!
//! Understood is what there is here: scheduler names, the weights of rules, affinity that is added to that of pods, and
//! how pods spread that do not say. Everything else is refused by its path, unless it says what is so anyhow or only
//! how fast upstream's scheduler works: nobody is to believe that something is in force that is not.

use setpoint_api::{Value, value};
use setpoint_reconcile::object::Pairs;
use thiserror::Error;

use crate::planner::NAME;
use crate::profile::{Profile, Weights};
use crate::shape::{Constraint, NodeChoice, preferred_nodes};

/// Why a configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// It is something else.
    #[error("want a KubeSchedulerConfiguration of kubescheduler.config.k8s.io/v1, not {0:?} of {1:?}")]
    Kind(String, String),
    /// It says something that does not exist here.
    #[error("{0}: this scheduler does not know it")]
    Unknown(String),
    /// It says something that cannot be otherwise here.
    #[error("{0}: this scheduler only knows {1}")]
    Fixed(String, &'static str),
    /// It says something in a form that nobody can read.
    #[error("{0}: want {1}")]
    Malformed(String, &'static str),
    /// Two profiles have one name.
    #[error("profiles: {0:?} is there twice")]
    Twice(String),
}

/// The most that a rule can count for: scores of all nodes are to be told apart.
const WEIGHT_MAX: i64 = 1_000_000;

/// What only says how fast upstream's scheduler works, or what it tells of itself.
const PACE: [&str; 7] = [
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
/// If it is none, or says something that is not known here.
pub fn read(config: &Value) -> Result<Vec<Profile>, ConfigError> {
    let (kind, version) = (config.str_at(&["kind"]), config.str_at(&["apiVersion"]));
    if (kind, version) != ("KubeSchedulerConfiguration", "kubescheduler.config.k8s.io/v1") {
        return Err(ConfigError::Kind(kind.to_owned(), version.to_owned()));
    }
    let own = ["podInitialBackoffSeconds", "podMaxBackoffSeconds", "leaderElection", "profiles"];
    only(config, "", &[&PACE[..], &own[..]].concat())?;
    fixed(config, "", "podInitialBackoffSeconds", &Value::Int(1), "1")?;
    fixed(config, "", "podMaxBackoffSeconds", &Value::Int(10), "10")?;
    if let Some(election) = config.get("leaderElection") {
        only(election, "leaderElection.", &["leaderElect"])?;
        fixed(election, "leaderElection.", "leaderElect", &Value::Bool(true), "true")?;
    }
    let mut profiles: Vec<Profile> = Vec::new();
    for (at, one) in list(config, "", "profiles")?.iter().enumerate() {
        let profile = profile(one, &format!("profiles[{at}]."))?;
        if profiles.iter().any(|other| other.name == profile.name) {
            return Err(ConfigError::Twice(profile.name.into()));
        }
        profiles.push(profile);
    }
    if profiles.is_empty() {
        profiles.push(Profile::named(NAME));
    }
    Ok(profiles)
}

fn list<'a>(value: &'a Value, path: &str, field: &str) -> Result<&'a [Value], ConfigError> {
    let Some(said) = value.get(field).filter(|said| !said.is_null()) else { return Ok(&[]) };
    said.as_list().ok_or_else(|| ConfigError::Malformed(format!("{path}{field}"), "a list"))
}

/// Refuses fields that are none of these.
fn only(value: &Value, path: &str, known: &[&str]) -> Result<(), ConfigError> {
    if value.as_map().is_none() && !value.is_null() {
        return Err(ConfigError::Malformed(path.trim_end_matches('.').to_owned(), "fields"));
    }
    let fields = value.as_map().into_iter().flat_map(|map| map.iter());
    let mut unknown = fields.filter(|(name, value)| !known.contains(name) && !value.is_null());
    unknown.next().map_or(Ok(()), |(name, _)| Err(ConfigError::Unknown(format!("{path}{name}"))))
}

/// Refuses a field that says something else than this.
fn fixed(
    value: &Value,
    path: &str,
    field: &str,
    known: &Value,
    words: &'static str,
) -> Result<(), ConfigError> {
    let said = value.get(field).filter(|said| !said.is_null());
    if said.is_none_or(|said| said == known) {
        return Ok(());
    }
    Err(ConfigError::Fixed(format!("{path}{field}"), words))
}

fn profile(value: &Value, path: &str) -> Result<Profile, ConfigError> {
    only(value, path, &["schedulerName", "percentageOfNodesToScore", "plugins", "pluginConfig"])?;
    let name = match value.get("schedulerName") {
        None | Some(Value::Null) => NAME,
        Some(Value::Str(name)) if name.is_empty() => NAME,
        Some(Value::Str(name)) => name,
        Some(_) => return Err(ConfigError::Malformed(format!("{path}schedulerName"), "a text")),
    };
    let mut profile = Profile::named(name);
    let plugins = value.get("plugins").filter(|plugins| !plugins.is_null());
    if plugins.is_some_and(|plugins| plugins.as_map().is_none()) {
        return Err(ConfigError::Malformed(format!("{path}plugins"), "fields"));
    }
    let points = plugins.and_then(Value::as_map).into_iter().flat_map(|map| map.iter());
    // What is said of all points at once comes first, wherever it stands: what is said of one counts more.
    let (all, each): (Vec<_>, Vec<_>) = points.partition(|(point, _)| *point == "multiPoint");
    for (point, set) in all.into_iter().chain(each) {
        weigh(&mut profile.weights, point, set, &format!("{path}plugins.{point}."))?;
    }
    for (at, one) in list(value, path, "pluginConfig")?.iter().enumerate() {
        let path = format!("{path}pluginConfig[{at}].");
        only(one, &path, &["name", "args"])?;
        let args = one.get("args").cloned().unwrap_or_default();
        configure(&mut profile, one.str_at(&["name"]), &args, &format!("{path}args."))?;
    }
    Ok(profile)
}

/// Reads what rules count for at one point.
fn weigh(weights: &mut Weights, point: &str, set: &Value, path: &str) -> Result<(), ConfigError> {
    only(set, path, &["enabled", "disabled"])?;
    for (at, one) in list(set, path, "disabled")?.iter().enumerate() {
        disable(weights, point, one.str_at(&["name"]))
            .ok_or_else(|| ConfigError::Unknown(format!("{path}disabled[{at}]")))?;
    }
    for (at, one) in list(set, path, "enabled")?.iter().enumerate() {
        let path = format!("{path}enabled[{at}]");
        let weight = match one.get("weight") {
            None | Some(Value::Null | Value::Int(0)) => 1,
            Some(Value::Int(weight)) if (1..=WEIGHT_MAX).contains(weight) => *weight,
            Some(_) => {
                return Err(ConfigError::Malformed(format!("{path}.weight"), "a number from 1 to 1000000"));
            }
        };
        enable(weights, point, one.str_at(&["name"]), weight).ok_or(ConfigError::Unknown(path))?;
    }
    Ok(())
}

/// Takes a rule its say. One that also keeps pods from nodes can only lose the former.
fn disable(weights: &mut Weights, point: &str, plugin: &str) -> Option<()> {
    let only_scores = matches!(plugin, "NodeResourcesBalancedAllocation" | "ImageLocality");
    match (point, plugin) {
        ("score", "*") => *weights = Weights::NONE,
        ("score", _) => *weights.named(plugin)? = 0,
        ("multiPoint", _) if only_scores => *weights.named(plugin)? = 0,
        _ => return None,
    }
    Some(())
}

/// Gives a rule its say.
fn enable(weights: &mut Weights, point: &str, plugin: &str, weight: i64) -> Option<()> {
    if !matches!(point, "score" | "multiPoint") {
        return None;
    }
    *weights.named(plugin)? = weight;
    Some(())
}

/// What can be said of nodes that a profile wants.
const AFFINITY: [&str; 2] =
    ["requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"];
/// What can be said of how pods spread by default.
const CONSTRAINT: [&str; 8] = [
    "maxSkew",
    "topologyKey",
    "whenUnsatisfiable",
    "labelSelector",
    "minDomains",
    "nodeAffinityPolicy",
    "nodeTaintsPolicy",
    "matchLabelKeys",
];

fn configure(profile: &mut Profile, plugin: &str, args: &Value, path: &str) -> Result<(), ConfigError> {
    match plugin {
        "NodeAffinity" => {
            only(args, path, &["apiVersion", "kind", "addedAffinity"])?;
            let Some(added) = args.get("addedAffinity").filter(|added| !added.is_null()) else {
                return Ok(());
            };
            only(added, &format!("{path}addedAffinity."), &AFFINITY)?;
            let affinity = value!({"nodeAffinity": (added.clone())});
            let nodes = NodeChoice::of(&Pairs::default(), Some(&affinity));
            profile.nodes = Some(nodes).filter(|nodes| !nodes.is_any());
            profile.prefers = preferred_nodes(Some(&affinity));
        }
        "PodTopologySpread" => {
            only(args, path, &["apiVersion", "kind", "defaultConstraints", "defaultingType"])?;
            let constraints = list(args, path, "defaultConstraints")?;
            for (at, one) in constraints.iter().enumerate() {
                only(one, &format!("{path}defaultConstraints[{at}]."), &CONSTRAINT)?;
            }
            let sort = args.get("defaultingType").filter(|sort| !sort.is_null());
            if sort.is_some_and(|sort| sort.as_str().is_none()) {
                return Err(ConfigError::Malformed(format!("{path}defaultingType"), "a text"));
            }
            match sort.and_then(Value::as_str).unwrap_or_default() {
                "List" => {
                    profile.spreads = false;
                    profile.constraints =
                        constraints.iter().map(|one| Constraint::of(one, &Pairs::default())).collect();
                }
                "" | "System" if constraints.is_empty() => {}
                _ => return Err(ConfigError::Fixed(format!("{path}defaultConstraints"), "type List")),
            }
        }
        _ => only(args, path, &["apiVersion", "kind"])?,
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

    fn refusal(profile: Value) -> String {
        read(&config(profile)).unwrap_err().to_string()
    }

    #[test]
    fn names_weights_affinity_and_spread_are_understood() {
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
        assert_eq!(profile.weights, Weights { images: 7, ..Weights::NONE });
        let labels: Pairs = [("fast", "yes")].into_iter().collect();
        let nodes = profile.nodes.as_ref().unwrap();
        assert!(nodes.allows("n", &labels) && !nodes.allows("n", &Pairs::default()));
        assert_eq!(
            (profile.spreads, profile.constraints[0].skew, profile.constraints[0].hard),
            (false, 2, true)
        );
    }

    #[test]
    fn what_is_said_of_one_point_counts_more_wherever_it_stands() {
        let all = ("multiPoint", value!({"enabled": [{"name": "ImageLocality", "weight": 3}]}));
        let one = ("score", value!({"enabled": [{"name": "ImageLocality", "weight": 7}]}));
        for points in [[all.clone(), one.clone()], [one, all]] {
            let points = Value::Map(points.into_iter().collect());
            let read = read(&config(value!({"plugins": (points)}))).unwrap();
            assert_eq!(read[0].weights, Weights { images: 7, ..Weights::default() });
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused_by_its_path() {
        let weighed = |weight: Value| {
            let enabled = value!([{"name": "ImageLocality", "weight": (weight)}]);
            refusal(value!({"plugins": {"score": {"enabled": (enabled)}}}))
        };
        let path = "profiles[0].plugins.score.enabled[0].weight: want a number from 1 to 1000000";
        for weight in [value!("5"), value!(-1), Value::Int(i64::MAX), value!(21474837)] {
            assert_eq!(weighed(weight), path);
        }
        let set = value!({"plugins": {"score": {"enabled": {"name": "ImageLocality"}}}});
        assert_eq!(refusal(set), "profiles[0].plugins.score.enabled: want a list");
        assert_eq!(refusal(value!({"schedulerName": 5})), "profiles[0].schedulerName: want a text");
        assert_eq!(refusal(value!("mine")), "profiles[0]: want fields");
        for plugins in [value!("x"), value!([{"score": {}}])] {
            assert_eq!(refusal(value!({"plugins": (plugins)})), "profiles[0].plugins: want fields");
        }
        let configured = |one: Value| refusal(value!({"pluginConfig": [(one)]}));
        assert_eq!(configured(value!("NodeAffinity")), "profiles[0].pluginConfig[0]: want fields");
        let of = |name: &str, args: Value| configured(value!({"name": (name), "args": (args)}));
        let affinity = of("NodeAffinity", value!({"addedAffinity": "x"}));
        assert_eq!(affinity, "profiles[0].pluginConfig[0].args.addedAffinity: want fields");
        let constraints =
            of("PodTopologySpread", value!({"defaultingType": "List", "defaultConstraints": [3]}));
        assert_eq!(constraints, "profiles[0].pluginConfig[0].args.defaultConstraints[0]: want fields");
        let sort = of("PodTopologySpread", value!({"defaultingType": 3}));
        assert_eq!(sort, "profiles[0].pluginConfig[0].args.defaultingType: want a text");
        let mut profiles = config(value!({}));
        profiles.make_map().insert("profiles", value!({"schedulerName": "mine"}));
        assert_eq!(read(&profiles).unwrap_err().to_string(), "profiles: want a list");
    }

    #[test]
    fn what_is_not_known_is_refused_by_its_path() {
        let none = value!({"plugins": {"filter": {"disabled": [{"name": "NodePorts"}]}}});
        assert_eq!(refusal(none), "profiles[0].plugins.filter.disabled[0]: this scheduler does not know it");
        let most =
            value!({"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}});
        assert_eq!(
            refusal(value!({"pluginConfig": [(most)]})),
            "profiles[0].pluginConfig[0].args.scoringStrategy: this scheduler does not know it"
        );
        let whole = value!({"plugins": {"multiPoint": {"disabled": [{"name": "TaintToleration"}]}}});
        assert!(refusal(whole).starts_with("profiles[0].plugins.multiPoint.disabled[0]"));
        let mut other = config(value!({}));
        other.make_map().insert("extenders", vec![value!({"urlPrefix": "http://x"})]);
        assert_eq!(read(&other).unwrap_err(), ConfigError::Unknown("extenders".to_owned()));
        other.make_map().remove("extenders");
        other.make_map().insert("podMaxBackoffSeconds", Value::Int(60));
        let refused = read(&other).unwrap_err().to_string();
        assert_eq!(refused, "podMaxBackoffSeconds: this scheduler only knows 10");
        assert!(matches!(read(&value!({"kind": "Pod", "apiVersion": "v1"})), Err(ConfigError::Kind(..))));
    }

    #[test]
    fn two_profiles_cannot_have_one_name_and_none_is_the_default() {
        let mut config = config(value!({}));
        assert_eq!(&*read(&config).unwrap()[0].name, NAME);
        config.make_map().insert("profiles", vec![value!({}), value!({"schedulerName": (NAME)})]);
        assert_eq!(read(&config).unwrap_err(), ConfigError::Twice(NAME.to_owned()));
        config.make_map().remove("profiles");
        assert_eq!(read(&config).unwrap().len(), 1);
    }
}
