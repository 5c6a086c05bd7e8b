//! Kinds that a ValidatingAdmissionPolicy matches by name, and the kind of its parameters.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_api::{Value, resource_types, value};
use setpoint_reconcile::{Object, WorldReader};
use setpoint_views::admission_policy::{AdmissionPolicyRule, AdmissionPolicySpec};
use setpoint_views::custom_resource_definition::CustomResourceDefinition;

/// Number of kinds of one rule after which no more are searched.
const RULE_KINDS_MAX: usize = 10;
/// Maximum number of kinds of a policy.
const KINDS_MAX: usize = 50;
/// Maximum number of combinations of group, version and resource that are searched for.
const LOOKUPS_MAX: usize = 500;

/// Group, version and kind, in the order of the warnings.
type KindName = (Box<str>, Box<str>, Box<str>);

/// Definition of a custom kind, with its state.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DefinitionRef {
    name: Box<str>,
    uid: Box<str>,
    generation: i64,
}

/// Kinds whose schemas a policy is checked against.
#[derive(Debug, Default)]
pub(super) struct MatchedKinds {
    kinds: BTreeMap<KindName, Option<DefinitionRef>>,
    params: Option<(KindName, Option<DefinitionRef>)>,
}

impl MatchedKinds {
    /// Finds the kinds of a policy.
    pub fn find(spec: &AdmissionPolicySpec, world: &WorldReader<'_>) -> MatchedKinds {
        let mut found = MatchedKinds { params: find_params(spec, world), ..MatchedKinds::default() };
        let mut lookups = LOOKUPS_MAX;
        for rule in &spec.match_constraints.resource_rules {
            if !found.add_rule(rule, &mut lookups, world) {
                break;
            }
        }
        found
    }

    /// Adds the kinds of a rule. Returns `false` if the search ends.
    fn add_rule(&mut self, rule: &AdmissionPolicyRule, lookups: &mut usize, world: &WorldReader<'_>) -> bool {
        let has_wildcard = |names: &[Box<str>]| names.iter().any(|name| name.contains('*'));
        if has_wildcard(&rule.api_groups) || has_wildcard(&rule.api_versions) {
            return true;
        }
        let sorted =
            |names: &'_ [Box<str>]| names.iter().map(|name| name.to_lowercase()).collect::<BTreeSet<_>>();
        let mut resources = sorted(&rule.resources);
        resources.retain(|resource| !resource.contains(['*', '/']));
        let mut count = 0;
        for group in sorted(&rule.api_groups) {
            for version in sorted(&rule.api_versions) {
                for resource in &resources {
                    if *lookups == 0 {
                        return false;
                    }
                    *lookups -= 1;
                    for (name, definition) in kinds_for(&group, &version, resource, world) {
                        self.kinds.insert(name, definition);
                        count += 1;
                        if count == RULE_KINDS_MAX || self.kinds.len() == KINDS_MAX {
                            return false;
                        }
                    }
                }
            }
        }
        true
    }

    /// `true` if no kind was found.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// `true` if the result depends on definitions.
    pub fn has_definitions(&self) -> bool {
        let params = self.params.iter().map(|(_, definition)| definition);
        self.kinds.values().chain(params).any(Option::is_some)
    }

    /// Returns a text that differs if another kind or another state of a definition is found.
    pub fn fingerprint(&self) -> String {
        let params = self.params.iter().map(|(name, definition)| (name, definition));
        let mut text = String::new();
        for ((group, version, kind), definition) in self.kinds.iter().chain(params) {
            text.push_str(&format!(" {group}/{version}/{kind}"));
            if let Some(definition) = definition {
                text.push_str(&format!("@{}.{}", definition.uid, definition.generation));
            }
        }
        text
    }

    /// Returns the question about a policy.
    pub fn question(&self, spec: &AdmissionPolicySpec) -> Value {
        let kinds = self.kinds.iter().map(|(name, definition)| reference(name, definition.as_ref()));
        let mut question = value!({
            "variables": (spec.variables.clone()),
            "validations": (spec.validations.clone()),
            "kinds": (Value::List(kinds.collect())),
        });
        if let Some((name, definition)) = &self.params {
            question.make_map().insert("params", reference(name, definition.as_ref()));
        }
        question
    }
}

fn reference((group, version, kind): &KindName, definition: Option<&DefinitionRef>) -> Value {
    let mut reference = value!({"group": (&**group), "version": (&**version), "kind": (&**kind)});
    if let Some(definition) = definition {
        reference.make_map().insert("definition", &*definition.name);
    }
    reference
}

/// Returns the kinds of a resource, as upstream's mapper does: singular names match too, and the core group stands for
/// all.
fn kinds_for(
    group: &str,
    version: &str,
    resource: &str,
    world: &WorldReader<'_>,
) -> Vec<(KindName, Option<DefinitionRef>)> {
    let built_in = resource_types::all().iter().map(|served| &served.info).filter(|info| {
        info.version == version
            && (group.is_empty() || info.group == group)
            && (info.plural == resource || info.singular == resource)
    });
    let name = |text: &str| Box::<str>::from(text);
    let built_in = built_in.map(|info| ((name(&info.group), name(&info.version), name(&info.kind)), None));
    let mut found: Vec<(KindName, Option<DefinitionRef>)> = built_in.collect();
    let custom = |definition: &CustomResourceDefinition| {
        let names = &definition.status.accepted_names;
        definition.is_established()
            && definition.serves(version)
            && (group.is_empty() || *definition.spec.group == *group)
            && (*names.plural == *resource || *names.singular == *resource)
    };
    let mut add = |object: &Object, definition: &CustomResourceDefinition| {
        if custom(definition) {
            found.push((name_of(definition, version), Some(definition_ref(object))));
        }
    };
    match world.view::<CustomResourceDefinition>("", &format!("{resource}.{group}")) {
        Some((object, definition)) => add(object, definition),
        None => {
            world.views::<CustomResourceDefinition>().for_each(|(object, definition)| add(object, definition))
        }
    }
    found
}

fn name_of(definition: &CustomResourceDefinition, version: &str) -> KindName {
    (definition.spec.group.clone(), version.into(), definition.status.accepted_names.kind.clone())
}

fn definition_ref(object: &Object) -> DefinitionRef {
    let meta = object.meta();
    DefinitionRef { name: meta.name.clone(), uid: meta.uid.clone(), generation: meta.generation }
}

fn find_params(
    spec: &AdmissionPolicySpec,
    world: &WorldReader<'_>,
) -> Option<(KindName, Option<DefinitionRef>)> {
    let kind = spec.param_kind.as_ref()?;
    let (group, version) = kind.api_version.split_once('/').unwrap_or(("", &kind.api_version));
    let is_served = |definition: &CustomResourceDefinition| {
        definition.is_established()
            && *definition.spec.group == *group
            && definition.serves(version)
            && definition.status.accepted_names.kind == kind.kind
    };
    let mut definitions = world.views::<CustomResourceDefinition>();
    let definition = definitions.find(|(_, definition)| is_served(definition));
    let definition = definition.map(|(object, _)| definition_ref(object));
    Some(((group.into(), version.into(), kind.kind.clone()), definition))
}

/// `true` if the type check of a policy may depend on a definition.
pub(super) fn may_depend_on(spec: &AdmissionPolicySpec, definition: &CustomResourceDefinition) -> bool {
    let group = &*definition.spec.group;
    let is_resource = |resource: &str| {
        let names = &definition.spec.names;
        resource.eq_ignore_ascii_case(&names.plural) || resource.eq_ignore_ascii_case(&names.singular)
    };
    let mut rules = spec.match_constraints.resource_rules.iter();
    let is_matched = rules.any(|rule| {
        rule.api_groups.iter().any(|one| one.is_empty() || one.eq_ignore_ascii_case(group))
            && rule.resources.iter().any(|resource| is_resource(resource))
    });
    let has_params = |kind: &str, api_version: &str| {
        *definition.spec.names.kind == *kind
            && api_version.split_once('/').is_some_and(|(own, _)| own == group)
    };
    is_matched || spec.param_kind.as_ref().is_some_and(|kind| has_params(&kind.kind, &kind.api_version))
}
