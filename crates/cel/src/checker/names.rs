//! Variables, qualified names, and selections of fields.

use super::environment::FieldLookup;
use super::{CheckErrorKind, Checker, Reference};
use crate::ast::{Ast, ExprId, ExprKind};
use crate::types::{ObjectType, Type};

/// Returns the name that a variable and selections from it spell, such as `a.b.c`.
pub(super) fn qualified_name(ast: &Ast, id: ExprId) -> Option<String> {
    let mut parts = Vec::new();
    let mut next = id;
    loop {
        match &ast.expr(next).kind {
            ExprKind::Select { operand, field, test_only: false } => {
                parts.push(&**field);
                next = *operand;
            }
            ExprKind::Ident(name) => {
                parts.push(&**name);
                parts.reverse();
                return Some(parts.join("."));
            }
            _ => return None,
        }
    }
}

impl<'a> Checker<'a> {
    fn find_local(&self, name: &str) -> Option<&Type> {
        self.locals.iter().rev().find(|(local, _)| *local == name).map(|(_, ty)| ty)
    }

    /// Resolves a name whose first part is `first`. Local variables hide others, unless the name begins with a dot;
    /// a local variable cannot have dots in its name.
    fn resolve(&self, first: &str, name: &str) -> Option<(Type, Reference)> {
        let local = self.find_local(first.strip_prefix('.').unwrap_or(first));
        if let Some(ty) = local
            && !name.starts_with('.')
        {
            return (first == name).then(|| (ty.clone(), Reference::Variable(name.into())));
        }
        let global = name.strip_prefix('.').unwrap_or(name);
        let ty = self.environment.find_variable(global)?;
        let dot = if local.is_some() { "." } else { "" };
        Some((ty, Reference::Variable(format!("{dot}{global}").into())))
    }

    pub(super) fn infer_identifier(&mut self, id: ExprId, name: &str) -> Type {
        if let Some((ty, reference)) = self.resolve(name, name) {
            self.set_reference(id, reference);
            return ty;
        }
        self.report(id, CheckErrorKind::UndeclaredReference(name.into()));
        Type::Error
    }

    pub(super) fn infer_selection(
        &mut self,
        id: ExprId,
        operand: ExprId,
        field: &'a str,
        test_only: bool,
    ) -> Type {
        if !test_only && let Some(name) = qualified_name(self.ast, id) {
            // The first part keeps its leading dot, which is also that of the whole name.
            let first_end = name.get(1..).and_then(|rest| rest.find('.')).map_or(name.len(), |at| at + 1);
            if let Some((ty, reference)) = self.resolve(&name[..first_end], &name) {
                self.set_reference(id, reference);
                return ty;
            }
        }
        let ty = self.infer_field(id, operand, field, false);
        if test_only { Type::Bool } else { self.unifier.substitute(&ty, false) }
    }

    /// Checks the operand of a selection and returns the type of its field.
    pub(super) fn infer_field(
        &mut self,
        id: ExprId,
        operand: ExprId,
        field: &str,
        is_optional: bool,
    ) -> Type {
        self.check(operand);
        let operand_type = self.type_of(operand);
        let operand_type = self.unifier.substitute(&operand_type, false);
        let (target, was_optional) = match &operand_type {
            Type::Optional(inner) => (&**inner, true),
            other => (other, false),
        };
        let result = match target {
            Type::Map(_, value) => (**value).clone(),
            Type::Object(object) => self.find_field(self.ast.expr(id).span.start, object, field),
            Type::Param(_) => {
                // The operand becomes `dyn`, so that it is not bound to a type without this field later.
                self.is_assignable(&Type::Dyn, target);
                Type::Dyn
            }
            other => {
                if !other.is_dyn_or_error() {
                    self.report(id, CheckErrorKind::NoFieldSelection(other.clone()));
                }
                Type::Dyn
            }
        };
        if is_optional || was_optional { Type::optional(result) } else { result }
    }

    /// Returns the type of a field, or an error type if there is none.
    fn find_field(&mut self, offset: u32, object: &ObjectType, field: &str) -> Type {
        let error = match self.environment.find_field(object, field) {
            FieldLookup::Found(ty) => return ty,
            FieldLookup::Untyped => return Type::Dyn,
            FieldLookup::Undefined => CheckErrorKind::UndefinedField(field.into()),
            FieldLookup::Unresolved => CheckErrorKind::UnresolvedType(object.name().into()),
        };
        self.errors.report(offset, error);
        Type::Error
    }

    /// Returns the type of a field of a message literal; `None` for a field of a JSON patch that does not exist.
    pub(super) fn find_literal_field(
        &mut self,
        offset: u32,
        object: &ObjectType,
        field: &str,
    ) -> Option<Type> {
        match self.environment.find_field(object, field) {
            FieldLookup::Untyped => None,
            _ => Some(self.find_field(offset, object, field)),
        }
    }
}
