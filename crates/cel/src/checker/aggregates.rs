//! Literals of lists, maps and messages, and comprehensions.

use super::unify::most_general;
use super::{CheckErrorKind, Checker, Reference};
use crate::ast::{Comprehension, Element, ExprId, FieldInit, MapEntry};
use crate::messages::{Message, find_message};
use crate::types::{ObjectType, Type};

impl<'a> Checker<'a> {
    pub(super) fn infer_list(&mut self, elements: &[Element]) -> Type {
        let mut joined = None;
        for element in elements {
            self.check(element.value);
            let ty = self.element_type(element.value, element.is_optional);
            joined = Some(self.join(joined, ty));
        }
        let element = joined.unwrap_or_else(|| self.unifier.free_variable());
        self.unifier.bounded(Type::list(element))
    }

    pub(super) fn infer_map(&mut self, entries: &[MapEntry]) -> Type {
        let mut joined: Option<(Type, Type)> = None;
        for entry in entries {
            let (joined_key, joined_value) =
                joined.map_or((None, None), |(key, value)| (Some(key), Some(value)));
            self.check(entry.key);
            let key = self.type_of(entry.key);
            let key = self.join(joined_key, key);
            self.check(entry.value);
            let value = self.element_type(entry.value, entry.is_optional);
            let value = self.join(joined_value, value);
            joined = Some((key, value));
        }
        let (key, value) =
            joined.unwrap_or_else(|| (self.unifier.free_variable(), self.unifier.free_variable()));
        self.unifier.bounded(Type::map(key, value))
    }

    /// Returns the type that a value adds to its aggregate: that within the optional for `?value`.
    fn element_type(&mut self, value: ExprId, is_optional: bool) -> Type {
        match self.type_of(value) {
            ty if !is_optional => ty,
            Type::Optional(inner) => (*inner).clone(),
            ty => {
                if !matches!(ty, Type::Dyn | Type::Any) {
                    self.mismatch(value, Type::optional(ty.clone()), ty.clone());
                }
                ty
            }
        }
    }

    /// Returns the more general of two types, or `dyn` if they differ. Types must agree, but arguments of `format` need
    /// not; the validators report those that do not.
    fn join(&mut self, earlier: Option<Type>, ty: Type) -> Type {
        let Some(earlier) = earlier else { return ty };
        if self.is_assignable(&earlier, &ty) { most_general(earlier, ty) } else { Type::Dyn }
    }

    pub(super) fn infer_message(&mut self, id: ExprId, name: &str, fields: &[FieldInit]) -> Type {
        let type_name = name.strip_prefix('.').unwrap_or(name);
        let message = find_message(type_name);
        let value_type = message.map(Message::value_type);
        let Some(ty) = value_type.or_else(|| self.environment.find_type(type_name)) else {
            self.report(id, CheckErrorKind::UndeclaredReference(name.into()));
            return Type::Error;
        };
        self.set_reference(id, Reference::Variable(type_name.into()));
        let object = match (message, &ty) {
            (Some(message), _) => Some(message.fields(type_name)),
            (None, Type::Object(object)) => Some(object.clone()),
            (None, _) => {
                self.report(id, CheckErrorKind::NotAMessageType(ty.name().into()));
                None
            }
        };
        for field in fields {
            self.check_field(object.as_ref(), type_name, field);
        }
        if object.is_some() { ty } else { Type::Error }
    }

    fn check_field(&mut self, object: Option<&ObjectType>, type_name: &str, field: &FieldInit) {
        self.check(field.value);
        let offset = self.colon_before(field.value);
        let expected = match object {
            Some(object) => self.find_literal_field(offset, object, &field.name),
            None => {
                // cel-go looks up the field although the type has none.
                self.errors.report(offset, CheckErrorKind::UnresolvedType(type_name.into()));
                Some(Type::Error)
            }
        };
        let found = self.element_type(field.value, field.is_optional);
        let is_assignable = match &expected {
            Some(expected) => self.is_assignable(expected, &found),
            None => false,
        };
        if !is_assignable {
            let field = field.name.clone();
            self.errors.report(offset, CheckErrorKind::FieldTypeMismatch { field, expected, found });
        }
    }

    /// Returns the offset of the colon between a field and its value, where cel-go reports errors of the field.
    fn colon_before(&self, value: ExprId) -> u32 {
        let mut start = self.ast.expr(value).span.start;
        let mut pending = vec![value];
        while let Some(id) = pending.pop() {
            let expr = self.ast.expr(id);
            start = start.min(expr.span.start);
            expr.kind.for_each_child(|child| pending.push(child));
        }
        let before = self.ast.source().get(..start as usize).unwrap_or_default();
        before.rfind(':').and_then(|at| u32::try_from(at).ok()).unwrap_or(start)
    }

    pub(super) fn infer_comprehension(&mut self, fold: &'a Comprehension) -> Type {
        self.check(fold.iter_range);
        self.check(fold.accu_init);
        let range = self.type_of(fold.iter_range);
        let range = self.unifier.substitute(&range, false);
        let accumulator = self.type_of(fold.accu_init);
        let outer = self.locals.len();
        self.locals.push((&fold.accu_var, accumulator.clone()));
        let (first, second) = self.iteration_types(fold, &range);
        self.locals.push((&fold.iter_var, first));
        if let Some(name) = &fold.iter_var2 {
            self.locals.push((name, second));
        }
        self.check(fold.loop_condition);
        self.assert_type(fold.loop_condition, &Type::Bool);
        self.check(fold.loop_step);
        self.assert_type(fold.loop_step, &accumulator);
        self.locals.truncate(outer + 1);
        self.check(fold.result);
        self.locals.truncate(outer);
        let result = self.type_of(fold.result);
        self.unifier.substitute(&result, false)
    }

    /// Returns the types of the first and second variable of an iteration.
    fn iteration_types(&mut self, fold: &Comprehension, range: &Type) -> (Type, Type) {
        let has_two = fold.iter_var2.is_some();
        match range {
            Type::List(element) if has_two => (Type::Int, (**element).clone()),
            Type::List(element) => ((**element).clone(), Type::Dyn),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn | Type::Error | Type::Param(_) => {
                self.is_assignable(&Type::Dyn, range);
                (Type::Dyn, Type::Dyn)
            }
            _ => {
                self.report(fold.iter_range, CheckErrorKind::NotARange(range.clone()));
                (Type::Error, Type::Error)
            }
        }
    }

    fn assert_type(&mut self, id: ExprId, expected: &Type) {
        let found = self.type_of(id);
        if !self.is_assignable(expected, &found) {
            self.mismatch(id, expected.clone(), found);
        }
    }
}
