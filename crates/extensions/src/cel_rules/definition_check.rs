//! Validation rules in a definition: they must compile, and their estimated costs have limits.

use std::collections::BTreeSet;

use setpoint_api::Value;
use setpoint_api::field_error::{BadValue, ErrorList, FieldError, Path};
use setpoint_api::kinds::apiextensions::schema_walk::{
    RuleSite, SchemaRoot, for_each_root, for_each_rule_site,
};
use setpoint_api::structural::{
    PATTERN_STATES_MAX, Schema, StructuralError, ValidDefault, ValidationRule, structural_violations,
    validate_defaults,
};
use setpoint_cel::{estimate, parse, pattern_states};

use super::compile::{Novelty, OLD_SELF, RuleScope, RuleTree};
use super::{OBJECT_COST_MAX, evaluate};
use crate::decl::{REQUEST_BYTES_MAX, declare};

/// Largest estimated cost of one rule of an object.
const RULE_COST_MAX: u64 = 10_000_000;
/// Largest estimated cost of all rules of an object.
const SCHEMA_COST_MAX: u64 = 100_000_000;
/// Largest sum of the schema nodes at and below each node with rules.
const RULE_NODES_MAX: usize = 2_000_000;
/// Number of the most expensive rules that are reported if all rules together are too expensive.
const REPORTED_RULES_MAX: usize = 4;

/// Validates the validation rules of a definition, and its defaults by them. `errors` has those of the definition's
/// own validation; rules of a schema with such errors are not checked.
///
/// Nothing is checked if an update does not change the spec, or if the old definition is not structural.
pub fn validate_definition(new: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    if old.is_some_and(|old| old.get("spec") == new.get("spec")) {
        return;
    }
    if old.is_some_and(|old| !has_structural_schemas(old)) {
        return;
    }
    let stored = StoredRules::of(old);
    let faults: Vec<String> = errors.iter().map(|error| error.field.clone()).collect();
    for_each_root(new, &mut |root| {
        let is_unchanged = old.is_some_and(|old| has_schema(old, new, root));
        check_root(root, &faults, (&stored, is_unchanged), errors);
    });
}

/// Expressions of the definition before an update.
#[derive(Default)]
struct StoredRules {
    rules: BTreeSet<String>,
    messages: BTreeSet<String>,
}

impl StoredRules {
    fn of(old: Option<&Value>) -> StoredRules {
        let mut stored = StoredRules::default();
        let mut add = |site: &RuleSite<'_>| {
            for rule in site.rules {
                stored.rules.insert(rule.str_at(&["rule"]).to_owned());
                stored.messages.insert(rule.str_at(&["messageExpression"]).to_owned());
            }
        };
        if let Some(old) = old {
            for_each_root(old, &mut |root| for_each_rule_site(root, &mut add));
        }
        stored
    }

    fn novelty(&self, rule: &ValidationRule) -> Novelty {
        Novelty {
            is_new: !self.rules.contains(&*rule.rule),
            has_new_message: !self.messages.contains(&*rule.message_expression),
        }
    }
}

/// Bounds what the compilation of all rules costs. Each rule compiles its patterns, and the declaration of its node with
/// all nodes below.
fn has_bounded_rules(root: &SchemaRoot<'_>, errors: &mut ErrorList) -> bool {
    let (mut states, mut nodes) = (0_u64, 0_usize);
    for_each_rule_site(root, &mut |site| {
        if nodes > RULE_NODES_MAX || states > PATTERN_STATES_MAX {
            return;
        }
        nodes = nodes.saturating_add(count_maps(site.schema));
        for rule in site.rules {
            for field in ["rule", "messageExpression"] {
                let own = parse(rule.str_at(&[field])).map_or(0, |ast| pattern_states(&ast));
                states = states.saturating_add(own);
            }
        }
    });
    if states > PATTERN_STATES_MAX {
        let detail = "the patterns of the x-kubernetes-validations rules are too large together";
        errors.push(FieldError::forbidden(root.path, detail));
    }
    if nodes > RULE_NODES_MAX {
        let detail = "too many nested x-kubernetes-validations rules for the size of the schema";
        errors.push(FieldError::forbidden(root.path, detail));
    }
    states <= PATTERN_STATES_MAX && nodes <= RULE_NODES_MAX
}

/// Number of objects in a value.
fn count_maps(value: &Value) -> usize {
    let (mut count, mut pending) = (0, vec![value]);
    while let Some(value) = pending.pop() {
        match value {
            Value::Map(map) => {
                count += 1;
                pending.extend(map.iter().map(|(_, value)| value));
            }
            Value::List(list) => pending.extend(list),
            _ => {}
        }
    }
    count
}

fn has_structural_schemas(definition: &Value) -> bool {
    let mut is_structural = true;
    for_each_root(definition, &mut |root| {
        is_structural = is_structural
            && matches!(Schema::compile_as_sent(root.schema), Ok(_) | Err(StructuralError::Type(_)))
            && structural_violations(root.schema, root.path).is_empty();
    });
    is_structural
}

/// `true` if the old definition has the schema of a version. A schema of all versions is that of the first.
fn has_schema(old: &Value, new: &Value, root: &SchemaRoot<'_>) -> bool {
    let versions = |definition| {
        Value::at(definition, &["spec", "versions"]).and_then(Value::as_list).unwrap_or_default()
    };
    let first = || versions(new).first().map_or("", |version| version.str_at(&["name"]));
    let name = root.version.unwrap_or_else(first);
    let version = versions(old).iter().find(|version| version.str_at(&["name"]) == name);
    version.and_then(|version| version.at(&["schema", "openAPIV3Schema"])) == Some(root.schema)
}

/// `true` if an error is at or below a path.
fn has_fault(faults: &[String], path: &Path<'_>) -> bool {
    let path = path.to_string();
    let is_below = |field: &String| {
        field.strip_prefix(&path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    faults.iter().any(is_below)
}

fn check_root(
    root: &SchemaRoot<'_>,
    faults: &[String],
    (stored, is_unchanged): (&StoredRules, bool),
    errors: &mut ErrorList,
) {
    let Ok(schema) = Schema::compile_as_sent(root.schema) else { return };
    if !schema.has_rules() || !structural_violations(root.schema, root.path).is_empty() {
        return;
    }
    if !has_bounded_rules(root, errors) {
        return;
    }
    let is_of_default =
        |field: &String| field.contains(".default") && has_fault(std::slice::from_ref(field), root.path);
    let before = errors.len();
    if faults.iter().any(is_of_default)
        || !check_defaults(&schema, root.path, errors)
        || errors.len() > before
    {
        return;
    }
    let mut total = TotalCost::default();
    for_each_rule_site(root, &mut |site| {
        if !has_fault(faults, site.path) && !errors.is_full() {
            let is_root = std::ptr::eq(site.schema, root.schema);
            let mut check = SiteCheck { site, stored, is_unchanged, total: &mut total, errors };
            check.check(is_root);
        }
    });
    total.report(root.path, errors);
}

/// Validates the defaults by the rules. Returns `false` if a default is invalid by its schema, which the definition's
/// own validation reports.
fn check_defaults(schema: &Schema, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let mut left = Some(OBJECT_COST_MAX);
    let mut own = ErrorList::new();
    let mut found = ErrorList::new();
    let mut visit = |default: &ValidDefault<'_>, _: &mut ErrorList| {
        let Some(tree) = RuleTree::compile(default.schema, default.is_resource) else { return true };
        let run = |old, found: &mut ErrorList| {
            let before = found.len();
            let limit = (default.path, left.unwrap_or(0));
            let left = evaluate::validate((&tree, default.schema), default.value, old, false, limit, found);
            (left, found.len() == before)
        };
        let (of_update, is_valid) = run(Some(default.value), &mut found);
        // Rules with an optional old value can differ for a new value.
        let of_create = if is_valid { run(None, &mut found).0 } else { of_update };
        left = of_update.min(of_create);
        left.is_some()
    };
    validate_defaults(schema, path, false, &mut own, &mut visit);
    errors.append(found);
    own.is_empty()
}

/// Check of the rules of one node.
struct SiteCheck<'a, 'e> {
    site: &'a RuleSite<'a>,
    stored: &'a StoredRules,
    /// The version's schema was accepted before, so that the costs of its rules are not checked.
    is_unchanged: bool,
    total: &'e mut TotalCost,
    errors: &'e mut ErrorList,
}

impl SiteCheck<'_, '_> {
    fn check(&mut self, is_root: bool) {
        let path = self.site.path.child("x-kubernetes-validations");
        let schema = match Schema::compile_as_sent(self.site.schema) {
            Ok(schema) => schema,
            Err(error) => return self.no_type(&path, &error.to_string()),
        };
        let Some(declared) = declare(&schema, is_root || schema.embedded_resource) else {
            return self.no_type(&path, "unable to convert structural schema to CEL declarations");
        };
        // Values of this schema are separated by a comma at least.
        let cardinality = self.site.max_values.unwrap_or(REQUEST_BYTES_MAX / (declared.min_bytes + 1));
        let scope = RuleScope::new(&declared.decl);
        for (at, rule) in schema.rules.iter().enumerate() {
            if !rule.rule.trim().is_empty() {
                self.check_rule(rule, &scope, cardinality, &path.index(at));
            }
        }
    }

    fn no_type(&mut self, path: &Path<'_>, reason: &str) {
        let detail = format!(
            "internal error: failed to construct type information for x-kubernetes-validations rules: {reason}"
        );
        self.errors.push(FieldError::internal(path, detail));
    }

    fn check_rule(&mut self, rule: &ValidationRule, scope: &RuleScope, cardinality: u64, path: &Path<'_>) {
        let at = path.child("rule");
        let (expression, message) = match scope.compile_rule(rule, self.stored.novelty(rule)) {
            Ok(compiled) => compiled,
            Err(detail) => {
                self.errors.push(FieldError::invalid(&at, shown_rule(rule), detail));
                return self.check_optional(rule, path);
            }
        };
        let cost = estimate(&expression.checked, Some(&scope.decl)).max.saturating_mul(cardinality);
        self.add_cost("estimated rule cost", cost, &at);
        let message_at = path.child("messageExpression");
        match message {
            Some(Err(detail)) => {
                self.errors.push(FieldError::invalid(&message_at, shown_rule(rule), detail));
            }
            Some(Ok(message)) => {
                let cost = estimate(&message.checked, Some(&scope.decl)).max;
                self.add_cost("estimated messageExpression cost", cost, &message_at);
            }
            None => {}
        }
        if !expression.checked.uses_variable(OLD_SELF) {
            self.check_optional(rule, path);
        } else if let Some(outer) = self.site.uncorrelatable {
            let detail =
                format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {outer}");
            self.errors.push(FieldError::invalid(&at, rule.rule.as_str(), detail));
        }
    }

    /// Checks a rule that does not use the old value.
    fn check_optional(&mut self, rule: &ValidationRule, path: &Path<'_>) {
        if let Some(optional) = rule.optional_old_self {
            let detail = "may not be set if oldSelf is not used in rule";
            self.errors.push(FieldError::invalid(&path.child("optionalOldSelf"), optional, detail));
        }
    }

    fn add_cost(&mut self, name: &str, cost: u64, path: &Path<'_>) {
        if cost > RULE_COST_MAX && !self.is_unchanged {
            self.errors.push(FieldError::forbidden(path, cost_detail(name, cost, RULE_COST_MAX)));
        }
        self.total.add(cost, path);
    }
}

/// Estimated cost of all rules of a schema.
#[derive(Default)]
struct TotalCost {
    sum: u64,
    /// The most expensive rules, in descending order.
    most_expensive: Vec<(u64, String)>,
}

impl TotalCost {
    fn add(&mut self, cost: u64, path: &Path<'_>) {
        self.sum = self.sum.saturating_add(cost);
        // Rules below one percent of the limit do not matter.
        if cost < SCHEMA_COST_MAX / 100 {
            return;
        }
        let at = self.most_expensive.partition_point(|(other, _)| *other >= cost);
        if at < REPORTED_RULES_MAX {
            self.most_expensive.insert(at, (cost, path.to_string()));
            self.most_expensive.truncate(REPORTED_RULES_MAX);
        }
    }

    fn report(&self, path: &Path<'_>, errors: &mut ErrorList) {
        if self.sum <= SCHEMA_COST_MAX {
            return;
        }
        for (_, rule) in &self.most_expensive {
            let detail =
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            errors.push(FieldError::forbidden(&Path::root(rule), detail));
        }
        let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(FieldError::forbidden(path, cost_detail(name, self.sum, SCHEMA_COST_MAX)));
    }
}

#[expect(clippy::cast_precision_loss, reason = "the factor is shown with few digits")]
fn cost_detail(name: &str, cost: u64, max: u64) -> String {
    let factor = cost as f64 / max as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

/// A rule in the form of upstream's internal version.
fn shown_rule(rule: &ValidationRule) -> BadValue {
    let text = |text: &str| BadValue::json_string(text).to_string();
    let reason = rule.reason.as_deref().map_or_else(|| "null".to_owned(), text);
    let optional = rule.optional_old_self.map_or_else(|| "null".to_owned(), |optional| optional.to_string());
    let shown = format!(
        r#"{{"Rule":{},"Message":{},"MessageExpression":{},"Reason":{reason},"FieldPath":{},"OptionalOldSelf":{optional}}}"#,
        text(&rule.rule),
        text(&rule.message),
        text(&rule.message_expression),
        text(&rule.field_path),
    );
    BadValue::Json(shown.into())
}
