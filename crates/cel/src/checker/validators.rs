//! Checks of literals in expressions whose types are correct: arguments of `duration`, `timestamp` and `matches`,
//! elements of lists and maps, and format strings.

use super::environment::Environment;
use super::errors::{CheckErrorKind, ErrorLog};
use super::format_string::FormatCheck;
use super::literals::{is_duration, is_timestamp, is_timestamp_seconds};
use crate::ast::{Ast, Element, ExprId, ExprKind, MapEntry};
use crate::literal::Literal;
use crate::types::Type;

/// Function whose list argument may mix types.
const FORMAT: &str = "format";

/// Reports the errors of literals.
pub(super) fn validate(environment: &Environment, ast: &Ast, types: &[Option<Type>], errors: &mut ErrorLog) {
    let mut validator = Validator { environment, ast, types, errors };
    let mut pending = vec![(ast.root().id, false)];
    while let Some((id, is_exempt)) = pending.pop() {
        let kind = &ast.expr(id).kind;
        validator.validate(id, kind, is_exempt);
        let is_format = matches!(kind, ExprKind::Call { function, .. } if **function == *FORMAT);
        kind.for_each_child(|child| pending.push((child, is_exempt || is_format)));
    }
}

struct Validator<'a> {
    environment: &'a Environment,
    ast: &'a Ast,
    types: &'a [Option<Type>],
    errors: &'a mut ErrorLog,
}

impl Validator<'_> {
    fn report(&mut self, id: ExprId, kind: CheckErrorKind) {
        self.errors.report(self.ast.expr(id).span.start, kind);
    }

    fn type_of(&self, id: ExprId) -> &Type {
        self.types[id.index()].as_ref().unwrap_or(&Type::Dyn)
    }

    fn validate(&mut self, id: ExprId, kind: &ExprKind, is_exempt: bool) {
        match kind {
            ExprKind::Call { function, target, args } => {
                if let Some(first) = args.first() {
                    self.validate_argument(function, *first);
                }
                if let (Some(target), [list]) = (target, &**args)
                    && **function == *FORMAT
                {
                    self.validate_format(id, *target, *list);
                }
            }
            ExprKind::List(elements) if !is_exempt => self.validate_list(elements),
            ExprKind::Map(entries) if !is_exempt => self.validate_map(entries),
            _ => {}
        }
    }

    /// Checks a literal that is the first argument: for `matches(text, pattern)`, cel-go checks the text.
    fn validate_argument(&mut self, function: &str, argument: ExprId) {
        let ExprKind::Literal(literal) = &self.ast.expr(argument).kind else { return };
        let (name, is_valid) = match (function.trim_start_matches('.'), literal) {
            ("duration", Literal::String(text)) => ("duration", is_duration(text)),
            ("timestamp", Literal::String(text)) => ("timestamp", is_timestamp(text)),
            ("timestamp", Literal::Int(seconds)) => ("timestamp", is_timestamp_seconds(*seconds)),
            ("matches", Literal::String(pattern)) => {
                ("matches", self.environment.regex_test().is_none_or(|is_valid| is_valid(pattern)))
            }
            _ => return,
        };
        if !is_valid {
            self.report(argument, CheckErrorKind::InvalidArgument(name));
        }
    }

    fn value_type(&self, value: ExprId, is_optional: bool) -> Type {
        match self.type_of(value) {
            Type::Optional(inner) if is_optional => (**inner).clone(),
            ty => ty.clone(),
        }
    }

    /// Returns `false` and reports an error if two types differ. The checker accepts `dyn` beside other types.
    fn validate_equal(&mut self, id: ExprId, expected: &Type, found: Type) -> bool {
        if *expected == found {
            return true;
        }
        self.report(id, CheckErrorKind::TypeMismatch { expected: expected.clone(), found });
        false
    }

    fn validate_list(&mut self, elements: &[Element]) {
        let Some((first, rest)) = elements.split_first() else { return };
        let expected = self.value_type(first.value, first.is_optional);
        for element in rest {
            let found = self.value_type(element.value, element.is_optional);
            if !self.validate_equal(element.value, &expected, found) {
                break;
            }
        }
    }

    fn validate_map(&mut self, entries: &[MapEntry]) {
        let Some((first, rest)) = entries.split_first() else { return };
        let (key, value) = (self.type_of(first.key).clone(), self.value_type(first.value, first.is_optional));
        for entry in rest {
            let found = self.type_of(entry.key).clone();
            self.validate_equal(entry.key, &key, found);
            let found = self.value_type(entry.value, entry.is_optional);
            self.validate_equal(entry.value, &value, found);
        }
    }

    fn validate_format(&mut self, call: ExprId, target: ExprId, list: ExprId) {
        let (ExprKind::Literal(Literal::String(format)), ExprKind::List(arguments)) =
            (&self.ast.expr(target).kind, &self.ast.expr(list).kind)
        else {
            return;
        };
        let check = FormatCheck { ast: self.ast, types: self.types, arguments };
        if let Err((argument, message)) = check.check(format) {
            self.report(argument.unwrap_or(call), CheckErrorKind::InvalidFormat(message.into()));
        }
    }
}
