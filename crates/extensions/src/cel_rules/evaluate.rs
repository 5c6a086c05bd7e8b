//! Evaluation of the rules of an object.

use std::ops::ControlFlow;

use setpoint_api::Value;
use setpoint_api::field_error::{BadValue, ErrorList, FieldError, FieldErrorDraft, Path};
use setpoint_api::structural::{MapList, Schema, SchemaType, ValidationRule, bad_value, is_unchanged};
use setpoint_cel::{Bindings, Decl, EvalError, Program, Value as CelValue};

use super::CALL_COST_MAX;
use super::compile::{NodeRules, OLD_SELF, RuleProgram, RuleTree, SELF};

/// Longest message of an expression, in bytes.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";
const MESSAGE_OUT_OF_BUDGET: &str = "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";

/// Validates a value by its rules. `budget` is the cost that is left; returns what is left of it, or `None` if it was
/// exceeded and the evaluation ended.
///
/// `old` is the value before an update. With `ratchets`, violations by unchanged values are not reported.
pub(crate) fn validate(
    (tree, schema): (&RuleTree, &Schema),
    new: &Value,
    old: Option<&Value>,
    ratchets: bool,
    (path, budget): (&Path<'_>, u64),
    errors: &mut ErrorList,
) -> Option<u64> {
    let mut run = RuleRun { errors, budget };
    let current = old.filter(|_| ratchets).map(|old| Correlated { new, old, schema });
    let node = NodeValue { schema, new, old, correlation: Correlation { current, nearest: None } };
    run.validate(tree, node, path).is_continue().then_some(run.budget)
}

struct RuleRun<'e> {
    errors: &'e mut ErrorList,
    budget: u64,
}

/// A value with its schema, and the value before an update.
#[derive(Clone, Copy)]
struct NodeValue<'v> {
    schema: &'v Schema,
    new: &'v Value,
    old: Option<&'v Value>,
    correlation: Correlation<'v>,
}

/// A value and the one that it replaces.
#[derive(Clone, Copy)]
struct Correlated<'v> {
    new: &'v Value,
    old: &'v Value,
    schema: &'v Schema,
}

/// Values that decide on ratcheting: those of the node, else those of its nearest ancestor that has an old value.
#[derive(Clone, Copy)]
struct Correlation<'v> {
    current: Option<Correlated<'v>>,
    nearest: Option<Correlated<'v>>,
}

impl<'v> Correlation<'v> {
    fn is_unchanged(self) -> bool {
        self.current.or(self.nearest).is_some_and(|pair| is_unchanged(pair.new, pair.old, pair.schema))
    }

    fn field(self, name: &str) -> Correlation<'v> {
        let Some(pair) = self.current else { return self };
        if self.nearest.is_none() && matches!(name, "apiVersion" | "kind") {
            return Correlation { current: None, nearest: None };
        }
        let field = || {
            let (new, old) = (pair.new.as_map()?.get(name)?, pair.old.as_map()?.get(name)?);
            Some(Correlated { new, old, schema: pair.schema.field(name)? })
        };
        Correlation { current: field(), nearest: Some(pair) }
    }

    fn item(self, new: &'v Value, old: Option<&'v Value>) -> Correlation<'v> {
        let Some(pair) = self.current else { return self };
        let item = || Some(Correlated { new, old: old?, schema: pair.schema.items.as_deref()? });
        Correlation { current: item(), nearest: Some(pair) }
    }
}

impl RuleRun<'_> {
    fn validate(&mut self, tree: &RuleTree, node: NodeValue<'_>, path: &Path<'_>) -> ControlFlow<()> {
        if node.new.is_null() {
            return ControlFlow::Continue(());
        }
        let node = NodeValue { old: node.old.filter(|old| !old.is_null()), ..node };
        if let Some(rules) = &tree.rules {
            self.evaluate_rules(rules, node, path)?;
        }
        match node.new {
            Value::List(list) => self.validate_items(tree, node, list, path),
            Value::Map(_) => self.validate_fields(tree, node, path),
            _ => ControlFlow::Continue(()),
        }
    }

    fn validate_items(
        &mut self,
        tree: &RuleTree,
        node: NodeValue<'_>,
        list: &[Value],
        path: &Path<'_>,
    ) -> ControlFlow<()> {
        let (Some(tree), Some(items)) = (&tree.items, node.schema.items.as_deref()) else {
            return ControlFlow::Continue(());
        };
        let old = node.old.and_then(Value::as_list).and_then(|old| MapList::new(old, node.schema));
        for (at, new) in list.iter().enumerate() {
            let old = old.as_ref().and_then(|old| old.find(new, node.schema));
            let node = NodeValue { schema: items, new, old, correlation: node.correlation.item(new, old) };
            self.validate(tree, node, &path.index(at))?;
        }
        ControlFlow::Continue(())
    }

    fn validate_fields(&mut self, tree: &RuleTree, node: NodeValue<'_>, path: &Path<'_>) -> ControlFlow<()> {
        let (Some(map), old) = (node.new.as_map(), node.old.and_then(Value::as_map)) else {
            return ControlFlow::Continue(());
        };
        let field = |name: &str, new, schema| NodeValue {
            schema,
            new,
            old: old.and_then(|old| old.get(name)),
            correlation: node.correlation.field(name),
        };
        if let (Some(tree), Some(schema)) = (&tree.additional, node.schema.additional.schema()) {
            for (name, new) in map.iter() {
                self.validate(tree, field(name, new, schema), &path.key(name))?;
            }
        }
        for (name, tree) in &tree.properties {
            if let (Some(new), Some(schema)) = (map.get(name), node.schema.property(name)) {
                self.validate(tree, field(name, new, schema), &path.child(name))?;
            }
        }
        ControlFlow::Continue(())
    }

    fn evaluate_rules(&mut self, rules: &NodeRules, node: NodeValue<'_>, path: &Path<'_>) -> ControlFlow<()> {
        let ty = node.schema.ty.map_or("", SchemaType::name);
        let Some(decl) = &rules.decl else {
            let detail =
                "rule compiler initialization error: failed to convert to declType for CEL validation rules";
            self.errors.push(FieldError::invalid(path, ty, detail));
            return ControlFlow::Continue(());
        };
        if self.budget == 0 {
            return self.stop(FieldError::invalid(path, ty, OUT_OF_BUDGET));
        }
        let variables = RuleVariables::new(rules, decl, node);
        for (rule, compiled) in node.schema.rules.iter().zip(&rules.rules) {
            match compiled {
                None => {}
                Some(Err(error)) => {
                    let detail = format!("rule compile error: {error}");
                    self.errors.push(FieldError::invalid(path, ty, detail));
                }
                Some(Ok(compiled)) => self.evaluate_rule(rule, compiled, &variables, node, path)?,
            }
        }
        ControlFlow::Continue(())
    }

    fn evaluate_rule(
        &mut self,
        rule: &ValidationRule,
        compiled: &RuleProgram,
        variables: &RuleVariables<'_>,
        node: NodeValue<'_>,
        path: &Path<'_>,
    ) -> ControlFlow<()> {
        let is_optional = rule.optional_old_self == Some(true);
        if compiled.uses_old_self && node.old.is_none() && !is_optional {
            return ControlFlow::Continue(());
        }
        let ty = node.schema.ty.map_or("", SchemaType::name);
        if let Some(error) = variables.fault(compiled.uses_old_self) {
            let detail = format!("{error} evaluating rule: {}", rule_text(rule));
            self.errors.push(FieldError::invalid(path, ty, detail));
            return ControlFlow::Continue(());
        }
        let evaluation = if is_optional {
            compiled.program.evaluate(&OptionalVariables(variables), CALL_COST_MAX)
        } else {
            compiled.program.evaluate(variables, CALL_COST_MAX)
        };
        let Some(left) = self.budget.checked_sub(evaluation.cost) else {
            return self.stop(FieldError::invalid(path, ty, OUT_OF_BUDGET));
        };
        self.budget = left;
        match evaluation.result {
            Ok(CelValue::Bool(true)) => ControlFlow::Continue(()),
            Ok(_) => self.report(rule, compiled, variables, node, path),
            Err(error) => {
                let text = error.to_string();
                let name = rule_text(rule);
                let is_fatal = error == EvalError::CostLimit;
                let detail = if is_fatal {
                    format!(
                        "'{text}': no further validation rules will be run due to call cost exceeds limit for rule: {name}"
                    )
                } else if text.starts_with("no such overload") {
                    format!(
                        "'{text}': call arguments did not match a supported operator, function or macro signature for rule: {name}"
                    )
                } else {
                    format!("{text} evaluating rule: {name}")
                };
                self.errors.push(FieldError::invalid(path, ty, detail));
                if is_fatal { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            }
        }
    }

    /// Reports a violation, unless the value is unchanged.
    fn report(
        &mut self,
        rule: &ValidationRule,
        compiled: &RuleProgram,
        variables: &RuleVariables<'_>,
        node: NodeValue<'_>,
        path: &Path<'_>,
    ) -> ControlFlow<()> {
        let target = path.child(&compiled.field_path);
        let path = if compiled.field_path.is_empty() { path } else { &target };
        let is_dropped = !compiled.uses_old_self && node.correlation.is_unchanged();
        let message = match &compiled.message {
            Some(program) => self.evaluate_message(program, &rule.message_expression, variables),
            None => Ok(None),
        };
        let detail = match message {
            Ok(message) => message.unwrap_or_else(|| message_of(rule)),
            Err(detail) => {
                if !is_dropped {
                    let ty = node.schema.ty.map_or("", SchemaType::name);
                    self.errors.push(FieldError::invalid(path, ty, detail));
                }
                return ControlFlow::Break(());
            }
        };
        if !is_dropped {
            let value = match node.schema.ty {
                Some(SchemaType::Object | SchemaType::Array) => BadValue::Omitted,
                _ => bad_value(node.new),
            };
            self.errors.push(match rule.reason.as_deref() {
                Some("FieldValueForbidden") => FieldError::forbidden(path, detail),
                Some("FieldValueRequired") => FieldError::required(path, detail),
                Some("FieldValueDuplicate") => FieldError::duplicate(path, value),
                _ => FieldError::invalid(path, value, detail),
            });
        }
        ControlFlow::Continue(())
    }

    /// Evaluates a message; `None` if it is unusable.
    ///
    /// # Errors
    /// The text of an error that ends the validation.
    fn evaluate_message(
        &mut self,
        program: &Program,
        source: &str,
        variables: &RuleVariables<'_>,
    ) -> Result<Option<String>, String> {
        let evaluation = program.evaluate(variables, CALL_COST_MAX);
        let left = self.budget.checked_sub(evaluation.cost).ok_or(MESSAGE_OUT_OF_BUDGET)?;
        match evaluation.result {
            Err(EvalError::CostLimit) => Err(format!(
                "no further validation rules will be run due to call cost exceeds limit for messageExpression: {}",
                BadValue::from(source)
            )),
            Err(EvalError::Message(_)) => {
                self.budget = left;
                Ok(None)
            }
            Ok(value) => {
                self.budget = left;
                let text = value.as_str().unwrap_or_default().trim();
                let is_usable = !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n');
                Ok(is_usable.then(|| text.to_owned()))
            }
        }
    }

    fn stop(&mut self, error: FieldErrorDraft<'_>) -> ControlFlow<()> {
        self.errors.push(error);
        ControlFlow::Break(())
    }
}

/// Message of a violated rule.
fn message_of(rule: &ValidationRule) -> String {
    if rule.message.is_empty() {
        return format!("failed rule: {}", rule_text(rule));
    }
    rule.message.trim().to_owned()
}

/// Text that identifies a rule: its message, else its expression.
fn rule_text(rule: &ValidationRule) -> &str {
    if rule.message.is_empty() { rule.rule.trim() } else { rule.message.trim() }
}

/// Variables of a rule.
struct RuleVariables<'v> {
    value: Result<CelValue<'v>, EvalError>,
    old: Option<Result<CelValue<'v>, EvalError>>,
    /// `true` if a rule of the node uses the old value; otherwise it is not bound.
    binds_old: bool,
}

impl<'v> RuleVariables<'v> {
    fn new(rules: &NodeRules, decl: &'v Decl, node: NodeValue<'v>) -> Self {
        let old = node.old.filter(|_| rules.uses_old_self);
        RuleVariables {
            value: CelValue::from_json(node.new, Some(decl)),
            old: old.map(|old| CelValue::from_json(old, Some(decl))),
            binds_old: rules.uses_old_self,
        }
    }

    /// Returns the error of a value that does not fit its declaration.
    fn fault(&self, uses_old_self: bool) -> Option<&EvalError> {
        let of_old = || self.old.as_ref().filter(|_| uses_old_self)?.as_ref().err();
        self.value.as_ref().err().or_else(of_old)
    }

    fn old(&self) -> Option<CelValue<'v>> {
        self.old.as_ref()?.as_ref().ok().cloned()
    }
}

impl<'v> Bindings<'v> for RuleVariables<'v> {
    fn resolve(&self, name: &str) -> Option<CelValue<'v>> {
        match name {
            SELF => self.value.as_ref().ok().cloned(),
            OLD_SELF => self.old(),
            _ => None,
        }
    }
}

/// Variables of a rule with an optional old value.
struct OptionalVariables<'r, 'v>(&'r RuleVariables<'v>);

impl<'v> Bindings<'v> for OptionalVariables<'_, 'v> {
    fn resolve(&self, name: &str) -> Option<CelValue<'v>> {
        match name {
            OLD_SELF if self.0.binds_old => Some(CelValue::optional(self.0.old())),
            _ => self.0.resolve(name),
        }
    }
}
