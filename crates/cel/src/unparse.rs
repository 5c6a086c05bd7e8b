//! Printing of ASTs as source that parses to the same AST.

#[cfg(test)]
mod tests;

use std::fmt::{self, Write};

use crate::ast::{Ast, ExprId, ExprKind};
use crate::literal::Literal;
use crate::operator::{Operator, Precedence};
use crate::token::TokenKind;

impl fmt::Display for Ast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printer { ast: self, out: f }.print(self.root, Precedence::Conditional)
    }
}

struct Printer<'a, 'f> {
    ast: &'a Ast,
    out: &'a mut fmt::Formatter<'f>,
}

impl Printer<'_, '_> {
    /// Prints an expression in a place that needs at least the precedence.
    fn print(&mut self, id: ExprId, place: Precedence) -> fmt::Result {
        if self.precedence(id) >= place {
            return self.print_bare(id);
        }
        self.out.write_char('(')?;
        self.print_bare(id)?;
        self.out.write_char(')')
    }

    fn precedence(&self, id: ExprId) -> Precedence {
        match &self.ast.expr(id).kind {
            ExprKind::Operation { operator, .. } if self.ast.macro_call(id).is_none() => {
                operator.precedence()
            }
            _ => Precedence::Member,
        }
    }

    fn print_bare(&mut self, id: ExprId) -> fmt::Result {
        let ast = self.ast;
        if let Some(call) = ast.macro_call(id) {
            return self.print_call(&call.function, call.target, &call.args);
        }
        match &ast.expr(id).kind {
            ExprKind::Literal(literal) => print_literal(self.out, literal),
            ExprKind::Ident(name) => self.out.write_str(name),
            ExprKind::Select { operand, field, .. } => {
                self.print(*operand, Precedence::Member)?;
                self.out.write_char('.')?;
                self.print_field(field)
            }
            ExprKind::Operation { operator, operands } => self.print_operation(id, *operator, operands),
            ExprKind::Call { function, target, args } => self.print_call(function, *target, args),
            ExprKind::List(elements) => self.print_sequence("[", elements, "]", |printer, element| {
                printer.print_mark(element.is_optional)?;
                printer.print(element.value, Precedence::Conditional)
            }),
            ExprKind::Map(entries) => self.print_sequence("{", entries, "}", |printer, entry| {
                printer.print_mark(entry.is_optional)?;
                printer.print(entry.key, Precedence::Conditional)?;
                printer.out.write_str(": ")?;
                printer.print(entry.value, Precedence::Conditional)
            }),
            ExprKind::Message { name, fields } => {
                self.out.write_str(name)?;
                self.print_sequence("{", fields, "}", |printer, field| {
                    printer.print_mark(field.is_optional)?;
                    printer.print_field(&field.name)?;
                    printer.out.write_str(": ")?;
                    printer.print(field.value, Precedence::Conditional)
                })
            }
            // Every comprehension outside of an expansion is recorded as a macro call, which is printed above.
            ExprKind::Comprehension(_) => Err(fmt::Error),
        }
    }

    fn print_mark(&mut self, is_optional: bool) -> fmt::Result {
        self.out.write_str(if is_optional { "?" } else { "" })
    }

    fn print_sequence<T>(
        &mut self,
        open: &str,
        items: &[T],
        close: &str,
        print: impl Fn(&mut Self, &T) -> fmt::Result,
    ) -> fmt::Result {
        self.out.write_str(open)?;
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.out.write_str(", ")?;
            }
            print(self, item)?;
        }
        self.out.write_str(close)
    }

    fn print_call(&mut self, function: &str, target: Option<ExprId>, args: &[ExprId]) -> fmt::Result {
        if let Some(target) = target {
            self.print(target, Precedence::Member)?;
            self.out.write_char('.')?;
        }
        self.out.write_str(function)?;
        self.print_sequence("(", args, ")", |printer, arg| printer.print(*arg, Precedence::Conditional))
    }

    fn print_field(&mut self, field: &str) -> fmt::Result {
        let is_identifier = field.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && field.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
            && TokenKind::of_word(field) == TokenKind::Identifier;
        if is_identifier { self.out.write_str(field) } else { write!(self.out, "`{field}`") }
    }

    fn print_operation(&mut self, id: ExprId, operator: Operator, operands: &[ExprId]) -> fmt::Result {
        let symbol = operator.symbol();
        let precedence = operator.precedence();
        match (operator, operands) {
            (Operator::Conditional, [condition, then, otherwise]) => {
                self.print(*condition, Precedence::Or)?;
                self.out.write_str(" ? ")?;
                self.print(*then, Precedence::Or)?;
                self.out.write_str(" : ")?;
                self.print(*otherwise, Precedence::Conditional)
            }
            (Operator::And | Operator::Or, [left, right]) => {
                // The parser balances chains, so only balanced ones are printed without parentheses.
                let place =
                    if self.chain_length(id, operator).is_some() { precedence } else { precedence.next() };
                self.print(*left, place)?;
                write!(self.out, " {symbol} ")?;
                self.print(*right, place)
            }
            (Operator::Index | Operator::OptionalIndex, [operand, index]) => {
                self.print(*operand, Precedence::Member)?;
                self.out.write_str(symbol)?;
                self.print(*index, Precedence::Conditional)?;
                self.out.write_char(']')
            }
            (Operator::OptionalSelect, [operand, field]) => {
                self.print(*operand, Precedence::Member)?;
                self.out.write_str(symbol)?;
                match &self.ast.expr(*field).kind {
                    ExprKind::Literal(Literal::String(field)) => self.print_field(field),
                    _ => Err(fmt::Error),
                }
            }
            (Operator::Negate, [operand]) if self.begins_with_number(*operand) => {
                self.out.write_str("-(")?;
                self.print_bare(*operand)?;
                self.out.write_char(')')
            }
            (_, [operand]) => {
                self.out.write_str(symbol)?;
                self.print(*operand, Precedence::Member)
            }
            (_, [left, right]) => {
                self.print(*left, precedence)?;
                write!(self.out, " {symbol} ")?;
                self.print(*right, precedence.next())
            }
            _ => Err(fmt::Error),
        }
    }

    /// Returns the number of operators of a chain of `&&` or `||`, if it has the shape that the parser builds.
    fn chain_length(&self, id: ExprId, chained: Operator) -> Option<usize> {
        match &self.ast.expr(id).kind {
            ExprKind::Operation { operator, operands } if *operator == chained => {
                let left = self.chain_length(*operands.first()?, chained)?;
                let length = left + self.chain_length(*operands.last()?, chained)? + 1;
                (left == length / 2).then_some(length)
            }
            _ => Some(0),
        }
    }

    /// `true` if the first token is a number or its sign, which a `-` before it would change.
    fn begins_with_number(&self, mut id: ExprId) -> bool {
        loop {
            if let Some(call) = self.ast.macro_call(id) {
                let Some(target) = call.target else { return false };
                id = target;
                continue;
            }
            id = match &self.ast.expr(id).kind {
                ExprKind::Literal(literal) => return matches!(literal, Literal::Int(_) | Literal::Double(_)),
                ExprKind::Select { operand, .. } => *operand,
                ExprKind::Call { target: Some(target), .. } => *target,
                ExprKind::Operation { operator, operands } if operator.precedence() == Precedence::Member => {
                    operands[0]
                }
                _ => return false,
            };
        }
    }
}

fn print_literal(out: &mut fmt::Formatter<'_>, literal: &Literal) -> fmt::Result {
    match literal {
        Literal::Null => out.write_str("null"),
        Literal::Bool(value) => write!(out, "{value}"),
        Literal::Int(value) => write!(out, "{value}"),
        Literal::Uint(value) => write!(out, "{value}u"),
        Literal::Double(value) => write!(out, "{value:?}"),
        Literal::String(value) => {
            out.write_char('"')?;
            for character in value.chars() {
                match character {
                    '"' | '\\' => write!(out, "\\{character}")?,
                    '\n' => out.write_str("\\n")?,
                    '\r' => out.write_str("\\r")?,
                    '\t' => out.write_str("\\t")?,
                    _ if character.is_control() => write!(out, "\\u{:04x}", u32::from(character))?,
                    _ => out.write_char(character)?,
                }
            }
            out.write_char('"')
        }
        Literal::Bytes(value) => {
            out.write_str("b\"")?;
            for byte in value {
                match byte {
                    b'"' | b'\\' => write!(out, "\\{}", char::from(*byte))?,
                    b' '..=b'~' => out.write_char(char::from(*byte))?,
                    _ => write!(out, "\\x{byte:02x}")?,
                }
            }
            out.write_char('"')
        }
    }
}
