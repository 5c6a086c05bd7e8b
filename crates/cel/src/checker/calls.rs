//! Operations and calls: resolution of overloads.

use super::names::qualified_name;
use super::{CheckErrorKind, Checker, Reference};
use crate::ast::{ExprId, ExprKind};
use crate::declarations::{FunctionDecl, OverloadDecl};
use crate::literal::Literal;
use crate::operator::Operator;
use crate::types::{Type, TypeParam};

impl<'a> Checker<'a> {
    pub(super) fn infer_operation(&mut self, id: ExprId, operator: Operator, operands: &'a [ExprId]) -> Type {
        if operator == Operator::OptionalSelect {
            return self.infer_optional_selection(id, operands);
        }
        operands.iter().for_each(|operand| self.check(*operand));
        if matches!(operator, Operator::And | Operator::Or) {
            return self.infer_logic(id, operator, operands);
        }
        let Some(function) = self.environment.find_function(operator.function()) else {
            self.report(id, CheckErrorKind::UndeclaredReference(operator.function().into()));
            return Type::Error;
        };
        self.resolve_overload(id, function, None, operands)
    }

    fn infer_optional_selection(&mut self, id: ExprId, operands: &'a [ExprId]) -> Type {
        let [operand, field] = *operands else { return Type::Error };
        // The parser makes the field a string literal.
        let ExprKind::Literal(Literal::String(name)) = &self.ast.expr(field).kind else { return Type::Error };
        let ty = self.infer_field(id, operand, name, true);
        if let Some(function) = self.environment.find_function(Operator::OptionalSelect.function()) {
            let overloads = function.overloads.iter().collect();
            self.set_reference(id, Reference::Function { name: function.name, overloads, is_global: true });
        }
        self.unifier.substitute(&ty, false)
    }

    /// Reports every operand that is not a boolean, where other operations report one error for all operands.
    fn infer_logic(&mut self, id: ExprId, operator: Operator, operands: &[ExprId]) -> Type {
        let mut result = Type::Bool;
        for operand in operands {
            let ty = self.type_of(*operand);
            if !self.is_assignable(&ty, &Type::Bool) {
                self.mismatch(*operand, Type::Bool, ty);
                result = Type::Error;
            }
        }
        if result == Type::Bool
            && let Some(function) = self.environment.find_function(operator.function())
        {
            let overloads = function.overloads.iter().collect();
            self.set_reference(id, Reference::Function { name: function.name, overloads, is_global: true });
        }
        result
    }

    pub(super) fn infer_call(
        &mut self,
        id: ExprId,
        name: &str,
        target: Option<ExprId>,
        args: &[ExprId],
    ) -> Type {
        if let Some(variable) = self.invalid_binding(name, target, args) {
            self.report(variable, CheckErrorKind::InvalidBinding);
            return Type::Error;
        }
        args.iter().for_each(|arg| self.check(*arg));
        let namespaced = match target {
            None => Some(name.to_owned()),
            Some(target) => qualified_name(self.ast, target).map(|prefix| format!("{prefix}.{name}")),
        };
        if let Some(function) = namespaced.and_then(|name| self.environment.find_function(&name)) {
            return self.resolve_overload(id, function, None, args);
        }
        if let Some(target) = target {
            self.check(target);
            if let Some(function) = self.environment.find_function(name) {
                return self.resolve_overload(id, function, Some(target), args);
            }
        }
        self.report(id, CheckErrorKind::UndeclaredReference(name.into()));
        Type::Error
    }

    /// Returns the first argument of `cel.bind` if the macro is enabled but was not expanded, because the argument is not
    /// an identifier.
    fn invalid_binding(&self, name: &str, target: Option<ExprId>, args: &[ExprId]) -> Option<ExprId> {
        let is_cel = matches!(&self.ast.expr(target?).kind, ExprKind::Ident(ident) if **ident == *"cel");
        let is_binding = is_cel && name == "bind" && args.len() == 3 && self.environment.has_bindings();
        is_binding.then(|| args[0])
    }

    /// Tries all overloads. Each that accepts the arguments binds type parameters; results that differ are `dyn`.
    fn resolve_overload(
        &mut self,
        id: ExprId,
        function: &'static FunctionDecl,
        target: Option<ExprId>,
        args: &[ExprId],
    ) -> Type {
        let arguments: Vec<Type> = target.iter().chain(args).map(|arg| self.type_of(*arg)).collect();
        let mut overloads: Vec<&'static OverloadDecl> = Vec::new();
        let mut result: Option<Type> = None;
        for overload in &function.overloads {
            if overload.is_member != target.is_some() {
                continue;
            }
            let (parameters, overload_result) = self.instantiate(overload);
            if !self.unifier.is_assignable(&arguments, &parameters) {
                continue;
            }
            overloads.push(overload);
            let overload_result = self.unifier.substitute(&overload_result, false);
            result = Some(match result {
                Some(earlier) if earlier == overload_result => earlier,
                Some(_) => Type::Dyn,
                None => overload_result,
            });
        }
        if let Some(result) = result {
            let (name, is_global) = (function.name, target.is_none());
            self.set_reference(id, Reference::Function { name, overloads: overloads.into(), is_global });
            return result;
        }
        let arguments = arguments.iter().map(|ty| self.unifier.substitute(ty, true)).collect();
        let (function, is_member) = (function.name.into(), target.is_some());
        self.report(id, CheckErrorKind::NoMatchingOverload { function, arguments, is_member });
        Type::Error
    }

    /// Returns the types of the parameters and of the result, with variables in place of type parameters.
    fn instantiate(&mut self, overload: &OverloadDecl) -> (Vec<Type>, Type) {
        let free: Vec<(TypeParam, Type)> =
            overload.type_params.iter().map(|param| (*param, self.unifier.free_variable())).collect();
        let parameters = overload.parameters.iter().map(|ty| rename(ty, &free)).collect();
        (parameters, rename(&overload.result, &free))
    }
}

/// Replaces the parameters of a signature.
fn rename(ty: &Type, free: &[(TypeParam, Type)]) -> Type {
    match ty {
        Type::Param(param) => {
            free.iter().find(|(declared, _)| declared == param).map_or(ty, |(_, free)| free).clone()
        }
        Type::List(element) => Type::list(rename(element, free)),
        Type::Optional(inner) => Type::optional(rename(inner, free)),
        Type::Type(Some(inner)) => Type::type_of(rename(inner, free)),
        Type::Map(key, value) => Type::map(rename(key, free), rename(value, free)),
        other => other.clone(),
    }
}
