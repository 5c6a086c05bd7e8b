//! Compilation of the rules of a schema.

use setpoint_api::kinds::apiextensions::field_path;
use setpoint_api::structural::{Schema, ValidationRule};
use setpoint_cel::{
    Checked, Decl, Environment, Program, Type, assign_type_names, check, escape_identifier, estimate,
    is_valid_pattern, parse,
};

use crate::decl::{declare, has_fields};

/// Variable for the value of the node.
pub(super) const SELF: &str = "self";
/// Variable for the value of the node before an update.
pub(super) const OLD_SELF: &str = "oldSelf";
/// Name of the type of `self`. Expressions cannot use it, and upstream adds a random number to it.
const SELF_TYPE: &str = "selfType";

/// Elements of a list or map without a limit that are assumed of a small object.
const SMALL_ELEMENTS_MAX: u64 = 16 * 1024;

/// Rules of a node and of those below it.
#[derive(Debug, Default)]
pub(crate) struct RuleTree {
    pub(super) rules: Option<Box<NodeRules>>,
    /// Properties with rules, sorted by name.
    pub(super) properties: Box<[(Box<str>, RuleTree)]>,
    pub(super) additional: Option<Box<RuleTree>>,
    pub(super) items: Option<Box<RuleTree>>,
    /// Estimated cost of all rules for a small object.
    cost_max: u64,
}

/// Rules of a node.
#[derive(Debug)]
pub(super) struct NodeRules {
    /// Declared type of the node; `None` if expressions do not see it, which is an error.
    pub(super) decl: Option<Decl>,
    /// Rules in the order of the schema; `None` for one without an expression.
    pub(super) rules: Vec<Option<Result<RuleProgram, String>>>,
    /// `true` if a rule uses the old value.
    pub(super) uses_old_self: bool,
}

/// Programs of a rule.
#[derive(Debug)]
pub(super) struct RuleProgram {
    pub(super) program: Program,
    pub(super) uses_old_self: bool,
    pub(super) message: Option<Program>,
    /// Canonical path of the field that errors are reported at; empty for the node.
    pub(super) field_path: String,
    /// Estimated cost of the rule and its message.
    cost_max: u64,
}

impl RuleTree {
    /// Compiles the rules of a schema; `None` if it has none.
    pub(crate) fn compile(schema: &Schema, is_resource: bool) -> Option<RuleTree> {
        schema.has_rules().then(|| compile_node(schema, is_resource, true)).flatten()
    }

    /// Estimated cost of all rules for an object whose lists and maps have up to [`SMALL_ELEMENTS_MAX`] elements.
    pub(crate) fn cost_max(&self) -> u64 {
        self.cost_max
    }
}

/// Estimated cost of the rules of a node and of those below it.
fn tree_cost(
    schema: &Schema,
    rules: Option<&NodeRules>,
    properties: &[(Box<str>, RuleTree)],
    elements: [Option<&RuleTree>; 2],
) -> u64 {
    let own = rules.into_iter().flat_map(|rules| rules.rules.iter().flatten().flatten());
    let own = own.map(|rule| rule.cost_max);
    let below = properties.iter().map(|(_, tree)| tree.cost_max);
    let size = schema.checks.as_ref().and_then(|checks| checks.size.as_ref());
    let limit = |max: Option<i64>| {
        let max = max.and_then(|max| u64::try_from(max).ok());
        max.map_or(SMALL_ELEMENTS_MAX, |max| max.min(SMALL_ELEMENTS_MAX))
    };
    let limits = [size.and_then(|size| size.max_items), size.and_then(|size| size.max_properties)];
    let elements = elements.into_iter().zip(limits.map(limit));
    let elements = elements.filter_map(|(tree, max)| Some(tree?.cost_max.saturating_mul(max)));
    own.chain(below).chain(elements).fold(0, u64::saturating_add)
}

/// Compiles a node; `None` if neither it nor a node below has rules. A node that is not `visible` has no type in
/// expressions.
fn compile_node(schema: &Schema, is_resource: bool, visible: bool) -> Option<RuleTree> {
    let rules = (!schema.rules.is_empty()).then(|| Box::new(compile_rules(schema, is_resource, visible)));
    let mut properties = Vec::new();
    for (name, property) in schema.properties() {
        // Fields that expressions do not see are not validated. Names without an identifier have a type of their own.
        let is_visible = (has_fields(schema) || escape_identifier(name).is_none())
            && property.has_rules()
            && declare(property, property.embedded_resource).is_some();
        if is_visible && let Some(tree) = compile_node(property, property.embedded_resource, true) {
            properties.push((name.into(), tree));
        }
    }
    let below = |child: Option<&Schema>| {
        let child = child.filter(|child| child.has_rules())?;
        compile_node(child, child.embedded_resource, !schema.int_or_string).map(Box::new)
    };
    let (additional, items) = (below(schema.additional.schema()), below(schema.items.as_deref()));
    let is_empty = rules.is_none() && properties.is_empty() && additional.is_none() && items.is_none();
    let cost_max =
        tree_cost(schema, rules.as_deref(), &properties, [items.as_deref(), additional.as_deref()]);
    (!is_empty).then(|| RuleTree { rules, properties: properties.into(), additional, items, cost_max })
}

fn compile_rules(schema: &Schema, is_resource: bool, visible: bool) -> NodeRules {
    let Some(declared) = declare(schema, is_resource).filter(|_| visible) else {
        return NodeRules { decl: None, rules: Vec::new(), uses_old_self: false };
    };
    let scope = RuleScope::new(&declared.decl);
    let compile = |rule: &ValidationRule| {
        if rule.rule.trim().is_empty() {
            return None;
        }
        Some(scope.compile_rule(rule, Novelty::default()).map(|(expression, message)| RuleProgram {
            uses_old_self: expression.checked.uses_variable(OLD_SELF),
            cost_max: {
                let cost = |expression: &RuleExpression| estimate(&expression.checked, Some(&scope.decl)).max;
                let of_message = message.as_ref().and_then(|message| message.as_ref().ok()).map_or(0, cost);
                cost(&expression).saturating_add(of_message)
            },
            program: expression.program,
            message: message.and_then(Result::ok).map(|message| message.program),
            field_path: match &*rule.field_path {
                "" => String::new(),
                path => field_path::normalize(path, schema).unwrap_or_default(),
            },
        }))
    };
    let rules: Vec<_> = schema.rules.iter().map(compile).collect();
    let uses_old_self = rules.iter().flatten().flatten().any(|rule| rule.uses_old_self);
    NodeRules { decl: Some(scope.decl), rules, uses_old_self }
}

/// Expressions of a rule that the definition did not have before: they may not use the newest functions.
#[derive(Clone, Copy, Default)]
pub(super) struct Novelty {
    pub(super) is_new: bool,
    pub(super) has_new_message: bool,
}

/// Environments of the rules of a node.
pub(super) struct RuleScope {
    pub(super) decl: Decl,
    plain: Environment,
    /// Environment in which the old value is optional.
    optional: Environment,
}

/// Expression that is ready to evaluate.
pub(super) struct RuleExpression {
    pub(super) checked: Checked,
    program: Program,
}

impl RuleScope {
    /// Returns the environments for a declared type.
    pub(super) fn new(decl: &Decl) -> RuleScope {
        let decl = assign_type_names(decl, SELF_TYPE);
        let ty = Type::from(&decl);
        let base = Environment::new().with_regex_test(is_valid_pattern).with_variable(SELF, ty.clone());
        let optional = base.clone().with_variable(OLD_SELF, Type::optional(ty.clone()));
        RuleScope { plain: base.with_variable(OLD_SELF, ty), optional, decl }
    }

    /// Compiles a rule that is not empty, and the expression of its message.
    ///
    /// # Errors
    /// Upstream's text if the rule does not compile to a boolean. The message has an error of its own.
    pub(super) fn compile_rule(
        &self,
        rule: &ValidationRule,
        novelty: Novelty,
    ) -> Result<(RuleExpression, Option<Result<RuleExpression, String>>), String> {
        let is_optional = rule.optional_old_self == Some(true);
        let environment = |is_new| {
            let environment = if is_optional { &self.optional } else { &self.plain };
            if is_new { environment.clone().with_compatible_functions() } else { environment.clone() }
        };
        let expression = compile_expression(
            &environment(novelty.is_new),
            &rule.rule,
            "",
            &Type::Bool,
            "cel expression must evaluate to a bool",
            "program ",
        )?;
        let message = (!rule.message_expression.is_empty()).then(|| {
            let fault = "messageExpression must evaluate to a string";
            let source = &rule.message_expression;
            let prefix = "messageExpression ";
            let environment = environment(novelty.has_new_message);
            compile_expression(&environment, source, prefix, &Type::String, fault, prefix)
        });
        Ok((expression, message))
    }
}

fn compile_expression(
    environment: &Environment,
    source: &str,
    prefix: &str,
    wanted: &Type,
    type_fault: &str,
    program_prefix: &str,
) -> Result<RuleExpression, String> {
    let ast = parse(source).map_err(|error| format!("{prefix}compilation failed: {error}"))?;
    let checked = check(environment, ast).map_err(|error| format!("{prefix}compilation failed: {error}"))?;
    if checked.result_type() != wanted {
        return Err(type_fault.to_owned());
    }
    let program = Program::new(checked.ast())
        .map_err(|error| format!("{program_prefix}instantiation failed: {error}"))?;
    Ok(RuleExpression { checked, program })
}
